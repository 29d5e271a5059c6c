//! A temporary member: how commands ask a cell for something.

use std::collections::VecDeque;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use phalanx_runtime::config::Config;
use phalanx_runtime::core::{CellView, Delivery, Event, Founding, Incarnation, Membership, Process};
use phalanx_runtime::{Handler, Inline, Options, StartError, Traced, traced};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::exit::{Exit, Failure, While};
use crate::notice::say;

/// A process that joins the cell, makes a request, and leaves.
pub(crate) struct Visitor {
    pub(crate) process: Inline,
    pub(crate) seen: Seen,
    /// The cell view in force.
    pub(crate) view: Arc<CellView>,
    until: Instant,
    interrupted: Arc<AtomicBool>,
}

/// The visitor's events, and its trace if the configuration requests one.
pub(crate) type Seen = Traced<Unread, Box<dyn Write + Send>>;

/// Events not yet processed. The visitor joins no group, so there are no deliveries.
#[derive(Default)]
pub(crate) struct Unread(VecDeque<Event>);

impl Handler for Unread {
    fn deliver(&mut self, _delivery: &Delivery<'_>) {}

    fn event(&mut self, event: Event) {
        self.0.push_back(event);
    }
}

/// Joins the cell as a process with a name and ports of its own, has it `ask` within `timeout`, and leaves.
pub(crate) fn visit<T>(
    purpose: &str,
    config: &Config,
    timeout: Duration,
    ask: impl FnOnce(&mut Visitor) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let until = Instant::now() + timeout;
    let config = Config {
        // The configured name and ports may be those of a running member.
        name: Some(format!("{purpose}-{}-{}", hostname(), std::process::id())),
        data_port: 0,
        control_port: 0,
        ..config.clone()
    };
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // A second signal ends the process at once.
        let code = i32::from(Exit::Interrupted as u8);
        signal_hook::flag::register_conditional_shutdown(signal, code, Arc::clone(&interrupted))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&interrupted)))
            .when("cannot watch for signals")?;
    }
    // It must not found a cell, and ends rather than come back as another incarnation.
    let options = Options { founding: Some(Founding::Join), rejoin: false, ..Options::from(config.clone()) };
    let mut process = Inline::start(&options).map_err(not_started)?;
    let failed = Box::new(crate::child::trace_lost);
    let traces = config.trace.as_deref();
    let mut seen = traced::to_directory_if_any(Unread::default(), &config.cell, traces, failed)
        .when("cannot use the directory for traces")?;
    let outcome = enter(&mut process, &mut seen, &config.cell, until, &interrupted);
    let mut visitor = match outcome {
        Ok(view) => Visitor { process, seen, view, until, interrupted },
        Err(failure) => {
            leave(&mut process, &mut seen);
            seen.finish();
            return Err(failure);
        }
    };
    let outcome = ask(&mut visitor);
    leave(&mut visitor.process, &mut visitor.seen);
    visitor.seen.finish();
    outcome
}

/// Maps a start error to an exit code.
#[expect(clippy::needless_pass_by_value, reason = "it is what an error is mapped by")]
fn not_started(error: StartError) -> Failure {
    let exit = match error {
        StartError::NoWayIn { .. }
        | StartError::NoKey { .. }
        | StartError::NoAddress { .. }
        | StartError::BadName { .. }
        | StartError::Seed { .. } => Exit::Configuration,
        _ => Exit::Failure,
    };
    Failure::new(exit, error.to_string())
}

/// Waits for the first view that contains the visitor.
fn enter(
    process: &mut Inline,
    seen: &mut Seen,
    cell: &str,
    until: Instant,
    interrupted: &AtomicBool,
) -> Result<Arc<CellView>, Failure> {
    let mut why = None;
    loop {
        match next(process, seen, until, interrupted)? {
            Some(Event::CellView(view)) => return Ok(view),
            Some(Event::Searching { why: now, .. }) => {
                if why.is_none() {
                    say(format_args!("looking for cell '{cell}': {now}"));
                }
                why = Some(now);
            }
            Some(Event::Differs { setting, cell: theirs, own }) if setting == "level" => {
                let what =
                    format!("the cell is at level {theirs}, and this build knows {own} at most: use a later one");
                return Err(Failure::new(Exit::Failure, what));
            }
            Some(Event::Differs { setting, cell: theirs, own }) => {
                let what = format!("kept out of the cell: {setting} is {theirs} there and {own} here");
                return Err(Failure::new(Exit::Configuration, what));
            }
            Some(_) => {}
            None => {
                let why = why.as_deref().unwrap_or("no member answered; run this where one runs, or name seeds");
                return Err(Failure::new(Exit::Unreachable, format!("cell '{cell}' was not found in time: {why}")));
            }
        }
    }
}

impl Visitor {
    /// This process.
    pub(crate) fn me(&self) -> Incarnation {
        self.process.node().incarnation()
    }

    /// The protocol core, for reading.
    pub(crate) fn core(&self) -> &Process {
        self.process.node().process()
    }

    /// The next event. `None`: the time is used up.
    pub(crate) fn next(&mut self) -> Result<Option<Event>, Failure> {
        let event = next(&mut self.process, &mut self.seen, self.until, &self.interrupted)?;
        if let Some(Event::CellView(view)) = &event {
            self.view = Arc::clone(view);
        }
        Ok(event)
    }

    /// The failure of a request: `late`, unless the cell has no primary partition.
    pub(crate) fn in_vain(&self, late: String) -> Failure {
        if self.process.node().membership() == Membership::NonPrimary {
            return Failure::new(Exit::Degraded, "no quorum of the cell is heard from here: it decides nothing");
        }
        Failure::new(Exit::TimedOut, late)
    }

    /// Polls until `ready` returns something. `None`: the time is used up.
    pub(crate) fn until<T>(&mut self, mut ready: impl FnMut(&Process) -> Option<T>) -> Result<Option<T>, Failure> {
        loop {
            if let Some(value) = ready(self.core()) {
                return Ok(Some(value));
            }
            if !turn(&mut self.process, &mut self.seen, self.until, &self.interrupted)? {
                return Ok(None);
            }
            while !self.seen.inner().0.is_empty() {
                self.next()?;
            }
        }
    }
}

fn next(
    process: &mut Inline,
    seen: &mut Seen,
    until: Instant,
    interrupted: &AtomicBool,
) -> Result<Option<Event>, Failure> {
    loop {
        match seen.inner_mut().0.pop_front() {
            Some(Event::Excluded { .. }) => {
                return Err(Failure::new(Exit::Failure, "the cell excluded this command's process: ask again"));
            }
            Some(event) => return Ok(Some(event)),
            None if turn(process, seen, until, interrupted)? => {}
            None => return Ok(None),
        }
    }
}

/// Polls once, and waits if nothing happened. False: the time is used up.
fn turn(process: &mut Inline, seen: &mut Seen, until: Instant, interrupted: &AtomicBool) -> Result<bool, Failure> {
    if interrupted.load(Ordering::SeqCst) {
        return Err(Failure::new(
            Exit::Interrupted,
            "interrupted; what this command had asked for by then may still be done",
        ));
    }
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Ok(false);
    }
    let more = process.poll(seen).more;
    process.notices().into_iter().for_each(say);
    if !more && seen.inner().0.is_empty() {
        process.wait(Some(left.min(LOOK_EVERY))).when("cannot wait")?;
    }
    Ok(true)
}

fn leave(process: &mut Inline, seen: &mut Seen) {
    let until = Instant::now() + LEAVE_PATIENCE;
    process.leave(seen);
    while !process.is_over() {
        // A signal does not cut the leave short.
        let gone = turn(process, seen, until, &AtomicBool::new(false));
        seen.inner_mut().0.clear();
        if !matches!(gone, Ok(true)) {
            return say("could not leave in time; the others will learn of it as of a death");
        }
    }
}

fn hostname() -> String {
    let host = rustix::system::uname();
    host.nodename().to_string_lossy().chars().take(64).collect()
}

/// Bound on the time of a leave, which takes a view. Beyond it the process just ends.
const LEAVE_PATIENCE: Duration = Duration::from_secs(5);

/// Interval at which signals are checked.
const LOOK_EVERY: Duration = Duration::from_millis(100);
