//! A temporary member: how commands ask a cell for something.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use phalanx::{App, CellBuilder, CellEvent, CellView, Inline, MemberId, MessageRef, Place};
use phalanx_runtime::config::Resolved;
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::exit::{Exit, Failure, While};
use crate::flags::CellFlags;
use crate::member::not_started;
use crate::notice::say;

/// A process that joins the cell, makes a request, and leaves.
pub(crate) struct Visitor {
    pub(crate) process: Inline,
    pub(crate) seen: Unread,
    /// The cell view in force.
    pub(crate) view: CellView,
    until: Instant,
    interrupted: Arc<AtomicBool>,
}

/// Events not yet processed. The visitor joins no group, so there are no messages.
pub(crate) struct Unread {
    events: VecDeque<CellEvent>,
    /// Warnings of the configuration, which were printed before.
    warned: Vec<String>,
}

impl App for Unread {
    fn message(&mut self, _message: &MessageRef<'_>) {}

    fn event(&mut self, event: &CellEvent) {
        match event {
            CellEvent::Notice(text) if self.warned.contains(text) => {}
            CellEvent::Notice(_) | CellEvent::TraceLost { .. } => say(event),
            event => self.events.push_back(event.clone()),
        }
    }
}

/// How to start a process of a command: with a name and ports of its own, because the configured ones may be those of a
/// running member. It founds no cell.
pub(crate) fn builder(purpose: &str, flags: &CellFlags, resolved: &Resolved) -> Result<CellBuilder, Failure> {
    let name = format!("{purpose}-{}-{}", hostname(), std::process::id());
    Ok(flags.builder(&resolved.config)?.name(name).set("data_port", "0").control_port(0).join_only())
}

/// Joins the cell as a process with a name and ports of its own, has it `ask` within `timeout`, and leaves.
pub(crate) fn visit<T>(
    purpose: &str,
    flags: &CellFlags,
    resolved: &Resolved,
    timeout: Duration,
    ask: impl FnOnce(&mut Visitor) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let until = Instant::now() + timeout;
    // It ends rather than come back as another incarnation.
    let builder = builder(purpose, flags, resolved)?.stay_out();
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // A second signal ends the process at once.
        let code = i32::from(Exit::Interrupted as u8);
        signal_hook::flag::register_conditional_shutdown(signal, code, Arc::clone(&interrupted))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&interrupted)))
            .when("cannot watch for signals")?;
    }
    let mut process = builder.inline().map_err(not_started)?;
    let mut seen = Unread { events: VecDeque::new(), warned: resolved.warnings.clone() };
    let outcome = match enter(&mut process, &mut seen, &resolved.config.cell, until, &interrupted) {
        Ok(view) => {
            let mut visitor = Visitor { process, seen, view, until, interrupted };
            let outcome = ask(&mut visitor);
            (process, seen) = (visitor.process, visitor.seen);
            outcome
        }
        Err(failure) => Err(failure),
    };
    leave(&mut process, &mut seen);
    // What was asked for is done; that the trace of it is missing is a failure all the same.
    match outcome {
        Ok(_) if process.is_trace_lost() => Err(Failure::new(Exit::Failure, "the trace of this command is incomplete")),
        outcome => outcome,
    }
}

/// Waits for the first view that contains the visitor.
fn enter(
    process: &mut Inline,
    seen: &mut Unread,
    cell: &str,
    until: Instant,
    interrupted: &AtomicBool,
) -> Result<CellView, Failure> {
    let mut why = None;
    loop {
        match next(process, seen, until, interrupted)? {
            Some(CellEvent::View(view)) => return Ok(view),
            Some(CellEvent::Searching { why: now, .. }) => {
                if why.is_none() {
                    say(format_args!("looking for cell '{cell}': {now}"));
                }
                why = Some(now);
            }
            Some(CellEvent::Differs { setting, cell: theirs, own }) if setting == "level" => {
                let what =
                    format!("the cell is at level {theirs}, and this build knows {own} at most: use a later one");
                return Err(Failure::new(Exit::Failure, what));
            }
            Some(CellEvent::Differs { setting, cell: theirs, own }) => {
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
    pub(crate) fn me(&self) -> MemberId {
        self.process.me().id
    }

    /// The next event. `None`: the time is used up.
    pub(crate) fn next(&mut self) -> Result<Option<CellEvent>, Failure> {
        let event = next(&mut self.process, &mut self.seen, self.until, &self.interrupted)?;
        if let Some(CellEvent::View(view)) = &event {
            self.view = view.clone();
        }
        Ok(event)
    }

    /// The failure of a request: `late`, unless the cell has no primary partition.
    pub(crate) fn in_vain(&self, late: String) -> Failure {
        if self.process.standing().place == Place::NonPrimary {
            return Failure::new(Exit::Degraded, "no quorum of the cell is heard from here: it decides nothing");
        }
        Failure::new(Exit::TimedOut, late)
    }

    /// Polls until `ready` returns something. `None`: the time is used up.
    pub(crate) fn until<T>(&mut self, mut ready: impl FnMut(&Inline) -> Option<T>) -> Result<Option<T>, Failure> {
        loop {
            if let Some(value) = ready(&self.process) {
                return Ok(Some(value));
            }
            if !turn(&mut self.process, &mut self.seen, self.until, &self.interrupted)? {
                return Ok(None);
            }
            while !self.seen.events.is_empty() {
                self.next()?;
            }
        }
    }
}

fn next(
    process: &mut Inline,
    seen: &mut Unread,
    until: Instant,
    interrupted: &AtomicBool,
) -> Result<Option<CellEvent>, Failure> {
    loop {
        match seen.events.pop_front() {
            Some(CellEvent::Excluded { .. }) => {
                return Err(Failure::new(Exit::Failure, "the cell excluded this command's process: ask again"));
            }
            Some(event) => return Ok(Some(event)),
            None if turn(process, seen, until, interrupted)? => {}
            None => return Ok(None),
        }
    }
}

/// Polls once, and waits if nothing happened. False: the time is used up.
fn turn(process: &mut Inline, seen: &mut Unread, until: Instant, interrupted: &AtomicBool) -> Result<bool, Failure> {
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
    if !more && seen.events.is_empty() {
        process.wait(Some(left.min(LOOK_EVERY))).when("cannot wait")?;
    }
    Ok(true)
}

fn leave(process: &mut Inline, seen: &mut Unread) {
    let until = Instant::now() + LEAVE_PATIENCE;
    process.leave(seen);
    while !process.is_over() {
        // A signal does not cut the leave short.
        let gone = turn(process, seen, until, &AtomicBool::new(false));
        seen.events.clear();
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
pub(crate) const LEAVE_PATIENCE: Duration = Duration::from_secs(5);

/// Interval at which signals are checked.
const LOOK_EVERY: Duration = Duration::from_millis(100);
