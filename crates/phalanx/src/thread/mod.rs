//! The protocol thread: polls the process, carries out commands, and sleeps when there is nothing to do.

mod entry;
mod handler;
mod rounds;

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::Builder;
use std::time::Duration;

use atomic_waker::AtomicWaker;
use phalanx_core::{CommandError, InboxId, Instant};
use phalanx_driver::{Shm, Udp};
use phalanx_life::{Key, NextMessage, NextToOne, Refusal};
use phalanx_runtime::{Inline, Options, Recorder, clock};

use crate::end::End;
use crate::error::{SendError, StartError};
use crate::events::CellEvent;
use crate::health::{self, HealthCheck};
use crate::shared::cell::{CellShared, DROP_PATIENCE};
use crate::shared::commands::Command;
use crate::shared::protocol_thread;
use crate::trace;
use handler::AppHandler;

/// What the new thread reports to.
#[derive(Debug)]
pub(crate) struct Begun {
    pub(crate) report: Receiver<Result<Arc<CellShared>, StartError>>,
    pub(crate) task: Arc<AtomicWaker>,
}

/// Starts a thread that starts a process.
pub(crate) fn start(options: Options, warnings: Vec<String>, health: Option<HealthCheck>) -> io::Result<Begun> {
    let (report, reported) = sync_channel(1);
    let task = Arc::new(AtomicWaker::new());
    let reporting = Reporting { report, task: Arc::clone(&task) };
    // Nobody joins the thread, so no handle of it is kept: a forked child, which has no such thread, would drop one.
    Builder::new().name("phalanx".to_owned()).spawn(move || run(&options, warnings, health, reporting))?;
    Ok(Begun { report: reported, task })
}

/// Tells who started the process how that went.
struct Reporting {
    report: SyncSender<Result<Arc<CellShared>, StartError>>,
    task: Arc<AtomicWaker>,
}

impl Reporting {
    /// False: nobody waits for the process any more.
    fn report(&self, outcome: Result<Arc<CellShared>, StartError>) -> bool {
        let taken = self.report.send(outcome).is_ok();
        self.task.wake();
        taken
    }
}

impl Drop for Reporting {
    fn drop(&mut self) {
        // After a panic, whose report never comes.
        self.task.wake();
    }
}

fn run(options: &Options, warnings: Vec<String>, health: Option<HealthCheck>, reporting: Reporting) {
    protocol_thread::enter();
    let process = match Inline::start(options) {
        Ok(process) => process,
        Err(error) => {
            reporting.report(Err(StartError::of(&error)));
            return;
        }
    };
    let me = process.node().settings().me.clone();
    let shared = Arc::new(CellShared::new(process.waker(), process.belief(), me, options.config.clone()));
    warnings.into_iter().for_each(|warning| shared.notice(warning));
    let ends = Ends(Arc::clone(&shared));
    let mut app = AppHandler::new(Arc::clone(&shared), options.rejoin);
    let spin = options.spin;
    let lost = Arc::clone(&shared);
    let recorder = trace::recorder(&options.config, move |error| {
        lost.is_trace_lost.store(true, Ordering::Relaxed);
        lost.tell(CellEvent::TraceLost { why: error.to_string() });
    });
    let checked = health.map_or(Ok(()), |check| health::start(check, &shared));
    let checked = checked.map_err(|error| StartError::Thread(error.to_string()));
    match checked.and(recorder) {
        Ok(recorder) => {
            if reporting.report(Ok(Arc::clone(&shared))) {
                drop(reporting);
                if recorder.is_on() {
                    app.record();
                }
                Protocol::new(process, app, recorder, shared, spin).run(ends);
            }
        }
        Err(error) => drop(reporting.report(Err(error))),
    }
}

/// Ends all waits when the thread ends, also by a panic.
struct Ends(Arc<CellShared>);

impl Drop for Ends {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.panicked.store(true, Ordering::SeqCst);
        }
        // Only after a panic are any left.
        self.0.commands.close(|command| {
            if let Command::Queue { group, asked } = command {
                handler::refuse(&self.0, &group, asked, SendError::Over);
            }
        });
        self.0.end();
    }
}

struct Protocol {
    process: Inline<Shm<Udp>>,
    app: AppHandler,
    recorder: Recorder,
    shared: Arc<CellShared>,
    spin: Duration,
    /// Some group asks to be left and was not left yet.
    leaves: bool,
    /// Since when a leave of the cell has been requested.
    leaving: Option<Instant>,
    left: bool,
}

/// What the process calls: the application's side, and before it the trace.
macro_rules! handler {
    ($protocol:ident) => {
        &mut $protocol.recorder.around(&mut $protocol.app)
    };
}

impl Protocol {
    fn new(
        process: Inline<Shm<Udp>>,
        app: AppHandler,
        recorder: Recorder,
        shared: Arc<CellShared>,
        spin: Duration,
    ) -> Self {
        Self { process, app, recorder, shared, spin, leaves: false, leaving: None, left: false }
    }

    fn run(mut self, ends: Ends) {
        if let Err(error) = self.turns() {
            self.shared.notice(format!("the process stops: {error}"));
            self.shared.ends_as(End::Failed);
        }
        let shared = Arc::clone(&self.shared);
        shared.commands.close(|command| self.app.refuse(command));
        self.app.end();
        self.recorder.told(&self.app.take_records());
        self.recorder.finish();
        // Sockets, liveness lock and counters are released before any handle learns that this process is over.
        drop(self);
        drop(ends);
    }

    fn turns(&mut self) -> io::Result<()> {
        let mut idle_since = None;
        loop {
            // Commands first, because the poll that follows sends what they multicast.
            let carried = self.carry_out();
            let report = self.process.poll(handler!(self));
            for notice in self.process.notices() {
                self.shared.notice(notice);
            }
            let has_late = self.app.expire_asks();
            let process = self.process.node().process();
            self.app.publish(|group| process.is_adequate(group));
            self.recorder.told(&self.app.take_records());
            self.app.tell_watches(|| process.cell_view().map(|_| process.decree_state().directory));
            let core_notes = self.app.lives.take_core_notes();
            for name in core_notes.forgotten {
                self.process.set_inbox(&name, InboxId::MAIN);
                self.recorder.set_inbox(&name, InboxId::MAIN);
            }
            core_notes.refused.into_iter().for_each(|group| self.process.refuse_state(group));
            if self.process.is_over() || self.shared.commands.is_stopping() {
                return Ok(());
            }
            if report.more || report.received > 0 || carried > 0 || has_late || self.app.has_submits() {
                idle_since = None;
                continue;
            }
            // A wake-up takes about as long as `spin`, so a process that is called often saves it by polling on.
            if !self.spin.is_zero() {
                let now = clock::now();
                if now.since(*idle_since.get_or_insert(now)) < self.spin {
                    std::hint::spin_loop();
                    continue;
                }
            }
            idle_since = None;
            // What waits for credit continues when that arrives, which comes with a datagram, or when the leave's
            // patience ends.
            let leaves = self.leaving.map(|_| LEAVE_POLL);
            self.process.wait(leaves.into_iter().chain(self.app.patience()).min())?;
        }
    }

    /// Carries out commands, up to a number. Returns how many.
    fn carry_out(&mut self) -> usize {
        let mut count = 0;
        // Once the leave has begun, the waiting commands have had their time.
        while count < COMMANDS_PER_TURN && !self.left {
            let Some(command) = self.shared.commands.pop() else { break };
            self.carry(command);
            count += 1;
        }
        count += self.app.carry_ask_notes();
        let submits = self.app.queue_submits();
        if submits > 0 {
            // Handed over, before they are sent.
            self.recorder.told(&self.app.take_records());
        }
        count += submits;
        let taken = count > 0;
        count += self.send_waiting();
        self.leaves |= self.shared.commands.take_leaves() | self.app.lives.take_untidy();
        if self.leaves {
            self.leave_groups();
        }
        self.leave_if_asked();
        // Last, because all of the above may have made room.
        if self.shared.commands.take_room() || taken {
            self.shared.commands.room.wake();
        }
        count
    }

    fn carry(&mut self, command: Command) {
        match command {
            Command::Queue { group, asked } => self.app.queue(&group, asked),
            Command::Join { group, inbox, terms, with_state, observes, own, keeps } => {
                let name = Arc::clone(&group.name);
                self.leaves |= group.is_leaving();
                let inbox = self.app.add(group, inbox, with_state, observes, keeps);
                self.process.set_inbox(&name, inbox);
                self.recorder.set_inbox(&name, inbox);
                let asked = match observes {
                    true => self.process.observe_group(&name, handler!(self)),
                    false if with_state => self.process.join_group_with(&name, terms, own, handler!(self)),
                    false => self.process.join_group(&name, false, terms, handler!(self)),
                };
                if let Err(error) = asked {
                    // The name was checked before, so the incarnation is over. The node itself repeats the request in
                    // the next one.
                    self.shared.notice(format!("group {name} is not joined: {error}"));
                }
            }
            Command::GiveUpGroup { name } => {
                let outcome = self.process.give_up_group(&name, handler!(self));
                self.note_refusal(&format!("group {name} is not given up"), outcome);
            }
            Command::RaiseLevel { level } => match self.process.raise_level(level, handler!(self)) {
                Ok(()) => {}
                Err(CommandError::LevelRefused { level, why }) => {
                    self.shared.tell(CellEvent::LevelRefused { level, why });
                }
                Err(error) => self.shared.notice(format!("the cell does not rise to level {level}: {error}")),
            },
            Command::Reform(when) => {
                let outcome = self.process.reform(when, handler!(self));
                self.note_refusal("the cell is not reformed", outcome);
            }
            Command::FoundAnew => {
                let outcome = self.process.found_anew(handler!(self));
                self.note_refusal("the cell is not founded again", outcome);
            }
        }
    }

    /// Tells the operator that a command was refused.
    fn note_refusal(&self, what: &str, outcome: Result<(), CommandError>) {
        if let Err(error) = outcome {
            self.shared.notice(format!("{what}: {error}"));
        }
    }

    /// Sends what waits in each group, as far as its credit goes. A group without credit holds back no other. Returns
    /// the number of messages.
    fn send_waiting(&mut self) -> usize {
        let mut count = 0;
        let mut at = 0;
        while let Some(key) = self.app.lives.busy(at) {
            let mut sent = 0;
            self.app.lives.to_one().begin_turn(key);
            while sent < MESSAGES_PER_TURN {
                if let Some(due) = self.app.due_to_one(key) {
                    if !self.send_to_one(key, &due) {
                        break;
                    }
                    sent += 1;
                    continue;
                }
                let Some(due) = self.app.due(key) else { break };
                let NextMessage { group, options, payload } = &due;
                let outcome = self.process.multicast_with(*group, *options, payload, handler!(self));
                match outcome {
                    Ok(accepted) => self.app.accepted(key, accepted.sent),
                    Err(error) => match Refusal::of(&error) {
                        None => break,
                        Some(why) => self.app.refused(key, why),
                    },
                }
                sent += 1;
            }
            count += sent;
            // Goes to the next group; one that has nothing left has given its place up.
            at += usize::from(self.app.lives.busy(at) == Some(key));
        }
        count
    }

    /// Sends a message to one member. False: nothing of the group may be sent now.
    fn send_to_one(&mut self, key: Key, due: &NextToOne) -> bool {
        let NextToOne { group, to, kind, payload } = due;
        match self.process.send_to(*group, *to, *kind, payload, handler!(self)) {
            Ok(view) => self.app.sent_to_one(key, view),
            Err(CommandError::NoWindow) => self.app.lives.to_one().hold_back(key),
            Err(error) => match Refusal::of(&error) {
                // It keeps its place behind those that wait in the core.
                None => return false,
                Some(why) => self.app.refused_to_one(key, why),
            },
        }
        true
    }

    /// Leaves the groups that ask for it and have nothing left to send.
    fn leave_groups(&mut self) {
        self.app.note_leaves();
        while let Some((key, group)) = self.app.lives.to_leave() {
            // Refused only if the incarnation is over, and the next view comes back to it.
            if self.process.leave_group(group, handler!(self)).is_err() {
                break;
            }
            self.app.lives.leave_asked(key);
        }
        self.leaves = self.app.lives.wants_leave();
    }

    /// Starts a requested leave. What waits is sent first, but not for ever: without a quorum it never would be.
    fn leave_if_asked(&mut self) {
        if !self.shared.commands.is_leaving() {
            return;
        }
        let now = clock::now();
        let since = *self.leaving.get_or_insert(now);
        if self.shared.is_dropped.load(Ordering::SeqCst) && now.since(since) > DROP_PATIENCE {
            self.shared.commands.stop();
        }
        // One turn takes a part of the commands that wait.
        let idle = self.shared.commands.is_drained() && self.app.lives.busy(0).is_none();
        if !self.left && (idle || now.since(since) > LEAVE_AFTER) {
            self.left = true;
            self.process.leave(handler!(self));
        }
    }
}

/// Commands carried out between two polls of the network.
const COMMANDS_PER_TURN: usize = 256;

/// Messages of one group that are sent between two polls of the network.
const MESSAGES_PER_TURN: usize = 2_048;

/// How long what was sent before a leave has to be accepted.
const LEAVE_AFTER: Duration = Duration::from_millis(500);

/// How often that is checked.
const LEAVE_POLL: Duration = Duration::from_millis(20);
