//! The health check of a process: a closure of its program, called on a thread of its own.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::thread::Builder;
use std::time::{Duration, Instant};

use atomic_waker::AtomicWaker;

use crate::shared::cell::CellShared;
use crate::waiting::{Waiting, block_on};

/// A check and when it is made.
#[derive(Clone)]
pub(crate) struct HealthCheck {
    every: Duration,
    timeout: Duration,
    failures: u32,
    /// A panic in it is a failure, and it is called again.
    check: Arc<AssertUnwindSafe<Box<Check>>>,
}

type Check = dyn Fn() -> Result<(), String> + Send + Sync;

impl fmt::Debug for HealthCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { every, timeout, failures, .. } = self;
        write!(f, "HealthCheck {{ every: {every:?}, timeout: {timeout:?}, failures: {failures} }}")
    }
}

impl HealthCheck {
    pub(crate) fn new(every: Duration, timeout: Duration, failures: u32, check: Box<Check>) -> Self {
        Self { every, timeout, failures: failures.max(1), check: Arc::new(AssertUnwindSafe(check)) }
    }

    fn call(&self) -> Result<(), String> {
        let check = &self.check;
        catch_unwind(|| (***check)()).unwrap_or_else(|_panic| Err("it panicked".to_owned()))
    }
}

/// Starts the threads of a check: one calls it, and may hang in it; one waits for it. The latter ends with the process, and
/// then the former does when the check returns.
pub(crate) fn start(check: HealthCheck, cell: &Arc<CellShared>) -> io::Result<()> {
    let (ask, asked) = sync_channel::<()>(1);
    let answer = Arc::new(Answer::default());
    let (checked, answering) = (check.clone(), Arc::clone(&answer));
    Builder::new().name("phalanx-check".to_owned()).spawn(move || {
        asked.iter().for_each(|()| answering.give(checked.call()));
    })?;
    let waits = Waits { check, ask, answer, cell: Arc::clone(cell) };
    Builder::new().name("phalanx-health".to_owned()).spawn(move || waits.run())?;
    Ok(())
}

/// What the check said last.
#[derive(Default)]
struct Answer {
    last: Mutex<Option<Result<(), String>>>,
    task: AtomicWaker,
}

impl Answer {
    fn give(&self, outcome: Result<(), String>) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
        self.task.wake();
    }

    fn take(&self) -> Option<Result<(), String>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// The waiting thread.
struct Waits {
    check: HealthCheck,
    ask: SyncSender<()>,
    answer: Arc<Answer>,
    cell: Arc<CellShared>,
}

/// What ended a wait.
enum Ended {
    Over,
    Answer(Result<(), String>),
}

impl Waits {
    fn run(self) {
        let mut verdict = Verdict::new(self.check.failures);
        loop {
            if self.wait(self.check.every).is_some() {
                return;
            }
            // It is idle: it answered the last time.
            if self.ask.try_send(()).is_err() {
                return;
            }
            let outcome = match self.wait(self.check.timeout) {
                Some(Ended::Over) => return,
                Some(Ended::Answer(outcome)) => Some(outcome),
                None => None,
            };
            if let Some(why) = verdict.take(outcome, self.check.timeout) {
                return self.cell.leave_unhealthy(why);
            }
        }
    }

    /// Waits for an answer or the end of the process. `None`: the time passed.
    fn wait(&self, patience: Duration) -> Option<Ended> {
        let Self { answer, cell, .. } = self;
        let mut waiting = Waiting::new(&cell.ended, cell.home);
        let ended = poll_fn(|context| {
            answer.task.register(context.waker());
            if let Some(outcome) = answer.take() {
                return Poll::Ready(Ended::Answer(outcome));
            }
            waiting.poll(context, || cell.over.load(Ordering::SeqCst).then_some(Ended::Over))
        });
        block_on(ended, Instant::now().checked_add(patience))
    }
}

/// What the outcomes of a check mean.
struct Verdict {
    failed: u32,
    failures: u32,
}

impl Verdict {
    fn new(failures: u32) -> Self {
        Self { failed: 0, failures }
    }

    /// Takes an outcome; `None`: the check did not return within `timeout`. Returns why the process has to leave, if it has to.
    fn take(&mut self, outcome: Option<Result<(), String>>, timeout: Duration) -> Option<String> {
        let why = match outcome {
            None => return Some(format!("its health check did not return within {timeout:?}")),
            Some(Ok(())) => {
                self.failed = 0;
                return None;
            }
            Some(Err(why)) => why,
        };
        self.failed += 1;
        let times = if self.failed == 1 { "once".to_owned() } else { format!("{} times in a row", self.failed) };
        (self.failed >= self.failures).then(|| format!("its health check failed {times}, at last: {why}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(1);

    #[test]
    fn only_failures_in_a_row_count() {
        let mut verdict = Verdict::new(3);
        let fails = || Some(Err("no disk".to_owned()));
        for outcome in [fails(), fails(), Some(Ok(())), fails(), fails()] {
            assert_eq!(verdict.take(outcome, TIMEOUT), None);
        }
        let why = verdict.take(fails(), TIMEOUT);
        assert_eq!(why.as_deref(), Some("its health check failed 3 times in a row, at last: no disk"));
    }

    #[test]
    fn one_that_does_not_return_is_not_asked_again() {
        let why = Verdict::new(3).take(None, TIMEOUT);
        assert_eq!(why.as_deref(), Some("its health check did not return within 1s"));
    }

    #[test]
    fn a_panic_is_a_failure() {
        let panics = Box::new(|| std::panic::resume_unwind(Box::new("a check")));
        let check = HealthCheck::new(TIMEOUT, TIMEOUT, 0, panics);
        assert_eq!((check.call(), check.failures), (Err("it panicked".to_owned()), 1));
    }
}
