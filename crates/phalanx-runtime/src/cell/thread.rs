//! The protocol thread: polls the process, carries out commands, and sleeps when there is nothing to do.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use phalanx_core::{CommandError, Event, Instant, Order, Stability};
use phalanx_driver::fork::Home;
use phalanx_driver::{Lossy, Shm, Udp, Wait};
use phalanx_trace::TraceError;

use super::commands::{Command, Commands};
use super::group::Slot;
use super::handler::Queueing;
use super::items::Items;
use super::{Facts, Shared};
use crate::clock;
use crate::handler::Handler;
use crate::inline::Inline;
use crate::start::{Options, Prepared, StartError, prepare};
use crate::traced::{Recorder, Traced};

/// Starts a process and its thread.
pub(super) fn start(options: &Options) -> Result<(Arc<Shared>, JoinHandle<()>), StartError> {
    let prepared = prepare(options)?;
    match options.faults {
        None => spawn(prepared, options, |driver| driver),
        Some((faults, seed)) => spawn(prepared, options, move |driver| Lossy::new(driver, faults, seed)),
    }
}

fn spawn<D: Wait>(
    prepared: Prepared,
    options: &Options,
    wrap: impl FnOnce(Shm<Udp>) -> D + Send + 'static,
) -> Result<(Arc<Shared>, JoinHandle<()>), StartError> {
    let waker = prepared.driver.waker();
    let shared = Arc::new(Shared {
        commands: Commands::new(waker.clone()),
        items: Items::new(options.queue_items, options.queue_bytes, waker),
        groups: Mutex::default(),
        belief: prepared.believer.belief(),
        facts: Mutex::new(Facts::of(prepared.settings.me.clone())),
        born: prepared.settings.me.clone(),
        home: Home::here(),
        trace_lost: AtomicBool::new(false),
    });
    let (ends, theirs) = (Ends(Arc::clone(&shared)), Arc::clone(&shared));
    let queueing = Queueing::new(Arc::clone(&shared), options.rejoin);
    let (rejoin, spin) = (options.rejoin, options.spin);
    let builder = Builder::new().name("phalanx".to_owned());
    let thread = match &options.config.trace {
        None => builder.spawn(move || {
            let process = Inline::assemble(prepared, rejoin, wrap);
            Protocol::new(process, queueing, theirs, spin).run(ends, |queueing| queueing, |_| {});
        }),
        Some(directory) => {
            let failed = Arc::new(Mutex::new(None));
            let (told, lost) = (Arc::clone(&failed), Arc::clone(&shared));
            let tell = Box::new(move |error: &TraceError| {
                lost.trace_lost.store(true, Ordering::Relaxed);
                *told.lock().unwrap_or_else(PoisonError::into_inner) = Some(format!(
                    "the trace ends here: {error}; once there is room, start this process again to trace on"
                ));
            });
            let mut recorder = Recorder::to_directory(&options.config.cell, directory, tell)
                .map_err(|source| StartError::Trace { path: directory.clone(), source })?;
            builder.spawn(move || {
                let process = Inline::assemble(prepared, rejoin, wrap);
                let mut queueing = queueing;
                let mut protocol = Protocol::new(process, recorder.around(&mut queueing), theirs, spin);
                protocol.failed = Some(failed);
                protocol.run(ends, Traced::inner_mut, Traced::finish);
            })
        }
    };
    Ok((shared, thread.map_err(StartError::Thread)?))
}

/// Closes the queues when the thread ends, also by a panic, so that no handle waits for ever.
struct Ends(Arc<Shared>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.commands.close(drop);
        self.0.items.end();
    }
}

struct Protocol<D: Wait, H> {
    process: Inline<D>,
    handler: H,
    shared: Arc<Shared>,
    spin: Duration,
    /// The command at the head of the queue, if it has to wait.
    pending: Option<Command>,
    /// Since when a leave has been requested.
    leaving: Option<Instant>,
    left: bool,
    /// Why the trace stopped, if it did.
    failed: Option<Arc<Mutex<Option<String>>>>,
}

impl<D: Wait, H: Handler> Protocol<D, H> {
    fn new(process: Inline<D>, handler: H, shared: Arc<Shared>, spin: Duration) -> Self {
        Self { process, handler, shared, spin, pending: None, leaving: None, left: false, failed: None }
    }

    /// Runs the thread. `queueing` finds the queue inside the handler; `finish` is the handler's last call.
    fn run(mut self, ends: Ends, queueing: fn(&mut H) -> &mut Queueing, finish: fn(&mut H)) {
        let outcome = self.turns(queueing);
        if let Err(error) = outcome {
            queueing(&mut self.handler).notice(format!("the process stops: {error}"));
        }
        self.report_unsent(queueing);
        finish(&mut self.handler);
        self.tell(queueing);
        // Sockets, liveness lock and counters are released before any handle learns that this process is over.
        drop(self);
        drop(ends);
    }

    /// Reports every multicast that was accepted and will not be sent. Called when nothing is sent any more.
    fn report_unsent(&mut self, queueing: fn(&mut H) -> &mut Queueing) {
        let lost: Vec<_> = self.process.node().process().unsent().collect();
        for (group, messages) in lost {
            self.handler.event(Event::Unsent { group, messages });
        }
        let mut left: Vec<Command> = self.pending.take().into_iter().collect();
        self.shared.commands.close(|command| left.push(command));
        left.iter().for_each(|command| self.give_up(command, queueing));
        queueing(&mut self.handler).finish();
    }

    /// Reports a command's multicasts as never sent.
    fn give_up(&mut self, command: &Command, queueing: fn(&mut H) -> &mut Queueing) {
        if let Some((slot, messages)) = command.multicasts() {
            let last = slot.take(messages);
            queueing(&mut self.handler).unsent(slot, messages, last);
        }
    }

    fn turns(&mut self, queueing: fn(&mut H) -> &mut Queueing) -> io::Result<()> {
        let mut idle_since = None;
        loop {
            // Commands first, because the poll that follows sends what they multicast.
            let carried = self.carry_out(queueing);
            let report = self.process.poll(&mut self.handler);
            self.tell(queueing);
            if self.process.is_over() || self.shared.commands.is_stopping() {
                return Ok(());
            }
            if report.more || report.received > 0 || carried > 0 {
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
            // A waiting command continues when credit arrives, which comes with a datagram, or when the leave's
            // patience ends.
            self.process.wait(self.leaving.map(|_| LEAVE_POLL))?;
        }
    }

    /// Publishes the items and notices of this poll to the application.
    fn tell(&mut self, queueing: fn(&mut H) -> &mut Queueing) {
        let mut notices = self.process.notices();
        if let Some(failed) = &self.failed {
            notices.extend(failed.lock().unwrap_or_else(PoisonError::into_inner).take());
        }
        let queue = queueing(&mut self.handler);
        for notice in notices {
            queue.notice(notice);
        }
        queue.publish();
    }

    /// Carries out commands, up to one that has to wait. Returns their number.
    fn carry_out(&mut self, queueing: fn(&mut H) -> &mut Queueing) -> usize {
        let mut count = 0;
        // Once the leave has begun, the waiting commands have had their time.
        while count < COMMANDS_PER_TURN && !self.left {
            let Some(command) = self.pending.take().or_else(|| self.shared.commands.pop()) else { break };
            self.pending = self.carry(command, queueing);
            if self.pending.is_some() {
                break;
            }
            count += 1;
        }
        if count > 0 {
            self.shared.commands.popped();
        }
        self.leave_if_asked();
        count
    }

    /// Carries out a command; returns it if it has to wait.
    fn carry(&mut self, mut command: Command, queueing: fn(&mut H) -> &mut Queueing) -> Option<Command> {
        match &mut command {
            Command::Cast { slot, order, stability, payload } => {
                self.cast(slot, *order, *stability, payload, queueing).then_some(command)
            }
            Command::CastAll { slot, order, stability, batch } => {
                while let Some(payload) = batch.front() {
                    if self.cast(slot, *order, *stability, payload, queueing) {
                        return Some(command);
                    }
                    batch.forget_front();
                }
                None
            }
            Command::Send { to, payload } => {
                let outcome = self.process.send(*to, payload, &mut self.handler);
                matches!(outcome, Err(CommandError::NoCredit)).then_some(command)
            }
            Command::Join { slot, .. } => {
                // Groups are found by name, so an earlier membership of that name has to end first.
                if queueing(&mut self.handler).has(&slot.name) {
                    return Some(command);
                }
                self.join(command, queueing);
                None
            }
            Command::LeaveGroup { slot } => {
                let group = queueing(&mut self.handler).number(slot)?;
                match self.process.leave_group(group, &mut self.handler) {
                    Ok(()) => None,
                    Err(_) => (!self.process.is_over()).then_some(command),
                }
            }
            Command::GiveUpGroup { name } => match self.process.give_up_group(name, &mut self.handler) {
                Err(CommandError::NoView | CommandError::Over) => (!self.process.is_over()).then_some(command),
                Err(error) => {
                    queueing(&mut self.handler).notice(format!("group {name} is not given up: {error}"));
                    None
                }
                Ok(()) => None,
            },
            Command::Reform => {
                if let Err(error) = self.process.reform(&mut self.handler) {
                    queueing(&mut self.handler).notice(format!("the cell is not reformed: {error}"));
                }
                None
            }
            Command::FoundAnew => {
                if let Err(error) = self.process.found_anew(&mut self.handler) {
                    queueing(&mut self.handler).notice(format!("the cell is not founded again: {error}"));
                }
                None
            }
            Command::RaiseLevel { level } => match self.process.raise_level(*level, &mut self.handler) {
                // Before the first view, or between an exclusion and the next incarnation's first view.
                Err(CommandError::NoView | CommandError::Over) => (!self.process.is_over()).then_some(command),
                Err(CommandError::LevelRefused { level, why }) => {
                    self.handler.event(Event::LevelRefused { level, why });
                    None
                }
                Ok(()) | Err(_) => None,
            },
        }
    }

    /// Multicasts a message. True: it has to wait.
    fn cast(
        &mut self,
        slot: &Arc<Slot>,
        order: Order,
        stability: Stability,
        payload: &[u8],
        queueing: fn(&mut H) -> &mut Queueing,
    ) -> bool {
        let outcome = match queueing(&mut self.handler).number(slot) {
            Some(group) => self.process.multicast(group, order, stability, payload, &mut self.handler),
            None => Err(CommandError::NotMember),
        };
        let waits = match outcome {
            Ok(_) => {
                slot.accept();
                return false;
            }
            Err(CommandError::NoCredit) => true,
            // Not joined yet, or between an exclusion and the next incarnation's view.
            Err(CommandError::NotMember | CommandError::Over) => !self.process.is_over() && !slot.has_left(),
            // Every other reason for a refusal was checked when it was queued.
            Err(_) => false,
        };
        if !waits {
            let last = slot.take(1);
            queueing(&mut self.handler).unsent(slot, 1, last);
        }
        waits
    }

    fn join(&mut self, command: Command, queueing: fn(&mut H) -> &mut Queueing) {
        let Command::Join { slot, with_state, observer, terms, state } = command else { return };
        queueing(&mut self.handler).add(Arc::clone(&slot), with_state, state);
        let asked = match observer {
            true => self.process.observe_group(&slot.name, &mut self.handler),
            false => self.process.join_group(&slot.name, with_state, terms, &mut self.handler),
        };
        if let Err(error) = asked {
            // The name was checked before, so the incarnation is over. The node itself repeats the request in the next
            // one.
            queueing(&mut self.handler).notice(format!("group {} is not joined: {error}", slot.name));
        }
    }

    /// Starts a requested leave. Queued casts are sent first, but not for ever: without a quorum they never would be.
    fn leave_if_asked(&mut self) {
        if !self.shared.commands.is_leaving() || self.left {
            return;
        }
        let now = clock::now();
        let since = *self.leaving.get_or_insert(now);
        let idle = self.pending.is_none() && self.shared.commands.is_empty();
        if idle || now.since(since) > LEAVE_AFTER {
            self.left = true;
            self.leaving = None;
            self.process.leave(&mut self.handler);
        }
    }
}

/// Commands carried out between two polls of the network.
const COMMANDS_PER_TURN: usize = 256;

/// How long casts before a leave have to be accepted.
const LEAVE_AFTER: Duration = Duration::from_millis(500);

/// How often that is checked.
const LEAVE_POLL: Duration = Duration::from_millis(20);
