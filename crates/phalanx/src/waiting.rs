//! Waiting for a change, in a task of any executor or in a plain thread.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use phalanx_driver::fork::Home;

use crate::error::LimitError;
use crate::reading::{self, Reading};

/// Tasks that wait for a change. A change without waiters costs a fence and a load.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    count: AtomicUsize,
    tasks: Mutex<Tasks>,
}

#[derive(Debug, Default)]
struct Tasks {
    waiting: Vec<(u64, Waker)>,
    named: u64,
}

/// The place of one task among the waiters.
#[derive(Debug, Default)]
pub(crate) struct Place(Option<u64>);

impl Waiters {
    fn tasks(&self) -> MutexGuard<'_, Tasks> {
        // A poisoned lock is safe to use: no code panics while it holds the lock.
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes all that wait. Call it after the change.
    pub(crate) fn wake(&self) {
        // Orders the change before the load. Together with the fence in `poll`, either the waiter sees the change, or
        // this thread sees the waiter.
        fence(Ordering::SeqCst);
        if self.count.load(Ordering::Relaxed) > 0 {
            let waiting = {
                let mut tasks = self.tasks();
                self.count.store(0, Ordering::Relaxed);
                std::mem::take(&mut tasks.waiting)
            };
            waiting.into_iter().for_each(|(_, task)| task.wake());
        }
    }

    /// Ready if `check` gives a value. Else the task is woken with the next change.
    pub(crate) fn poll<T>(
        &self,
        place: &mut Place,
        context: &Context<'_>,
        mut check: impl FnMut() -> Option<T>,
    ) -> Poll<T> {
        if let Some(value) = check() {
            self.forget(place);
            return Poll::Ready(value);
        }
        {
            let mut tasks = self.tasks();
            let known = place.0.and_then(|name| tasks.waiting.iter_mut().find(|(other, _)| *other == name));
            if let Some((_, task)) = known {
                task.clone_from(context.waker());
            } else {
                tasks.named += 1;
                let name = tasks.named;
                tasks.waiting.push((name, context.waker().clone()));
                place.0 = Some(name);
            }
            self.count.store(tasks.waiting.len(), Ordering::Relaxed);
        }
        fence(Ordering::SeqCst);
        match check() {
            Some(value) => {
                self.forget(place);
                Poll::Ready(value)
            }
            None => Poll::Pending,
        }
    }

    /// Gives up a place, because its task waits no more.
    pub(crate) fn forget(&self, place: &mut Place) {
        if let Some(name) = place.0.take() {
            let mut tasks = self.tasks();
            tasks.waiting.retain(|(other, _)| *other != name);
            self.count.store(tasks.waiting.len(), Ordering::Relaxed);
        }
    }
}

/// A place among waiters, given up when it is dropped.
#[derive(Debug)]
pub(crate) struct Waiting<'a> {
    waiters: &'a Waiters,
    place: Place,
    home: Home,
}

impl<'a> Waiting<'a> {
    pub(crate) fn new(waiters: &'a Waiters, home: Home) -> Self {
        Self { waiters, place: Place::default(), home }
    }

    /// For a wait that is polled elsewhere, among the same waiters.
    pub(crate) fn place(&mut self) -> &mut Place {
        &mut self.place
    }

    /// See [`Waiters::poll`].
    pub(crate) fn poll<T>(&mut self, context: &Context<'_>, check: impl FnMut() -> Option<T>) -> Poll<T> {
        self.waiters.poll(&mut self.place, context, check)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        // A thread that held the lock at a fork does not exist in the child.
        if self.home.is_here() {
            self.waiters.forget(&mut self.place);
        }
    }
}

/// Wakes a thread that waits in [`block_on`].
struct Parked(Thread);

impl Wake for Parked {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future on this thread until it is ready, or until `until`. `None`: the time passed first. The future is
/// dropped then. Threads of the library call it; those of the program may hold a guard of a replica, so what they call is
/// [`wait_for`], [`block`] or [`block_value`].
pub(crate) fn block_on<F: Future>(future: F, until: Option<Instant>) -> Option<F::Output> {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Parked(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return Some(value);
        }
        match until {
            None => std::thread::park(),
            Some(until) => {
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return None;
                }
                std::thread::park_timeout(left);
            }
        }
    }
}

/// Waits for a future of this crate in a thread, for at most `patience`: a limit for any wait.
///
/// ```no_run
/// # fn answer(stock: phalanx::Group) -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
///
/// let sent = phalanx::wait_for(stock.send("ACME 12.50"), Duration::from_secs(2))??;
/// phalanx::wait_for(sent.stable(), Duration::from_secs(2))??;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`LimitError::Timeout`]: the future was dropped. What that means is said where it comes from: a message that is queued is sent
/// nevertheless, a group that is being joined is left again.
pub fn wait_for<F: IntoFuture>(future: F, patience: Duration) -> Result<F::Output, LimitError> {
    reading::check()?;
    block_on(future.into_future(), Instant::now().checked_add(patience)).ok_or(LimitError::Timeout)
}

/// Waits on a thread of the program for what a future gives, unless the thread holds a guard of a replica. Then nothing of the
/// future is begun.
pub(crate) fn block<T, E, F>(future: impl IntoFuture<Output = Result<T, E>>) -> Result<T, F>
where
    F: From<Reading> + From<E>,
{
    reading::check()?;
    Ok(forever(future.into_future())?)
}

/// The same for what cannot say that the thread holds a guard.
///
/// # Panics
/// If it does.
#[track_caller]
pub(crate) fn block_value<F: IntoFuture>(future: F) -> F::Output {
    reading::expect_no_guard();
    forever(future.into_future())
}

fn forever<F: Future>(future: F) -> F::Output {
    block_on(future, None).expect("without a limit it ends only with a value")
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::AtomicU64;

    use super::*;
    use crate::error::SendError;
    use crate::reading::StateLock;

    #[test]
    fn every_waiter_sees_every_value() {
        let (waiters, value) = (Waiters::default(), AtomicU64::new(0));
        std::thread::scope(|scope| {
            let waiting: Vec<_> = (0..3)
                .map(|_| {
                    scope.spawn(|| {
                        let mut seen = 0;
                        while seen < 1_000 {
                            let mut place = Place::default();
                            seen = block_value(poll_fn(|context| {
                                waiters.poll(&mut place, context, || {
                                    let now = value.load(Ordering::Relaxed);
                                    (now > seen).then_some(now)
                                })
                            }));
                        }
                    })
                })
                .collect();
            for next in 1..=1_000 {
                value.store(next, Ordering::Relaxed);
                waiters.wake();
            }
            waiting.into_iter().for_each(|waiter| waiter.join().expect("no panic"));
        });
        assert_eq!(waiters.count.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn who_waits_no_more_is_forgotten() {
        let waiters = Waiters::default();
        let mut place = Place::default();
        let context = Context::from_waker(Waker::noop());
        for _ in 0..3 {
            assert!(waiters.poll(&mut place, &context, || None::<()>).is_pending());
        }
        assert_eq!(waiters.tasks().waiting.len(), 1, "one place for each task");
        waiters.forget(&mut place);
        assert_eq!(waiters.count.load(Ordering::Relaxed), 0);
    }

    /// Also for what would be there without waiting: whether a call fails does not hang on what the protocol thread did before.
    #[test]
    fn nothing_waits_on_a_thread_that_holds_a_guard() {
        let (state, begun) = (StateLock::new(7), AtomicU64::new(0));
        let ready = || std::future::ready(Ok::<u64, SendError>(begun.fetch_add(1, Ordering::Relaxed)));
        let guard = state.read();
        assert_eq!(block::<u64, SendError, SendError>(ready()), Err(SendError::Reading));
        assert_eq!(wait_for(ready(), Duration::ZERO), Err(LimitError::Reading));
        let waits = catch_unwind(AssertUnwindSafe(|| block_value(std::future::ready(3))));
        let text = waits.expect_err("it panics").downcast::<String>().expect("with a text");
        assert_eq!((*text, *guard), (Reading.to_string(), 7));
        drop(guard);
        assert_eq!(block::<u64, SendError, SendError>(ready()), Ok(2));
        assert_eq!((wait_for(ready(), Duration::ZERO), block_value(std::future::ready(3))), (Ok(Ok(3)), 3));
    }

    #[test]
    fn a_limit_ends_the_wait() {
        let until = Instant::now() + Duration::from_millis(5);
        assert_eq!(block_on(std::future::pending::<()>(), Some(until)), None);
        let late = Instant::now().checked_duration_since(until).expect("not before the limit");
        assert!(late < Duration::from_secs(4), "{late:?}");
        assert_eq!(block_on(std::future::ready(3), Some(until)), Some(3), "it is asked once in any case");
    }
}
