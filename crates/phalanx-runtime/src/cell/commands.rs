//! Commands from the application to the protocol thread: one bounded ring, in the order they were given.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use crossbeam_queue::ArrayQueue;
use phalanx_core::{GroupTerms, Incarnation, Order, Stability};
use phalanx_driver::Waker;

use super::batch::Batch;
use super::group::Slot;
use super::signal::Signal;
use crate::state::State;

/// A command for the protocol thread.
pub(super) enum Command {
    Cast { slot: Arc<Slot>, order: Order, stability: Stability, payload: Bytes },
    CastAll { slot: Arc<Slot>, order: Order, stability: Stability, batch: Batch },
    Send { to: Incarnation, payload: Bytes },
    Join { slot: Arc<Slot>, with_state: bool, observer: bool, terms: GroupTerms, state: Option<Box<dyn State>> },
    LeaveGroup { slot: Arc<Slot> },
    RaiseLevel { level: u16 },
    GiveUpGroup { name: String },
    Reform,
    FoundAnew,
}

impl Command {
    /// The group and number of messages that it multicasts, if it does.
    pub(super) fn multicasts(&self) -> Option<(&Arc<Slot>, u64)> {
        match self {
            Self::Cast { slot, .. } => Some((slot, 1)),
            Self::CastAll { slot, batch, .. } => Some((slot, batch.len() as u64)),
            Self::Send { .. }
            | Self::Join { .. }
            | Self::LeaveGroup { .. }
            | Self::RaiseLevel { .. }
            | Self::GiveUpGroup { .. }
            | Self::Reform
            | Self::FoundAnew => None,
        }
    }

    fn cost(&self) -> usize {
        match self {
            Self::Cast { payload, .. } | Self::Send { payload, .. } => payload.len() + COMMAND_BYTES,
            Self::CastAll { batch, .. } => batch.bytes() + COMMAND_BYTES,
            Self::Join { .. }
            | Self::LeaveGroup { .. }
            | Self::RaiseLevel { .. }
            | Self::GiveUpGroup { .. }
            | Self::Reform
            | Self::FoundAnew => COMMAND_BYTES,
        }
    }
}

/// The ring. Any thread pushes; only the protocol thread pops.
pub(super) struct Commands {
    ring: ArrayQueue<Command>,
    bytes: AtomicUsize,
    room: Signal,
    protocol: Waker,
    leaving: AtomicBool,
    stopping: AtomicBool,
    over: AtomicBool,
}

/// Why a command was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    Full,
    Over,
}

impl Commands {
    pub(super) fn new(protocol: Waker) -> Self {
        Self {
            ring: ArrayQueue::new(COMMANDS_MAX),
            bytes: AtomicUsize::new(0),
            room: Signal::default(),
            protocol,
            leaving: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            over: AtomicBool::new(false),
        }
    }

    /// Whether no command is accepted any more.
    pub(super) fn is_closed(&self) -> bool {
        self.over.load(Ordering::SeqCst) || self.leaving.load(Ordering::SeqCst)
    }

    /// Queues a command; returns it if it is not accepted.
    pub(super) fn try_push(&self, command: Command) -> Result<(), (Refused, Command)> {
        // The bound is checked before the command is added, so that a message longer than the bound can be sent too.
        if self.bytes.load(Ordering::Relaxed) >= BYTES_MAX {
            return Err((if self.is_closed() { Refused::Over } else { Refused::Full }, command));
        }
        // Counted before the end is checked: `close` waits for commands that are counted and not in the ring yet.
        let cost = command.cost();
        self.bytes.fetch_add(cost, Ordering::SeqCst);
        if self.is_closed() {
            self.bytes.fetch_sub(cost, Ordering::SeqCst);
            return Err((Refused::Over, command));
        }
        match self.ring.push(command) {
            Ok(()) => {
                self.protocol.wake();
                Ok(())
            }
            Err(command) => {
                self.bytes.fetch_sub(cost, Ordering::SeqCst);
                Err((Refused::Full, command))
            }
        }
    }

    /// Queues a command, and waits while there is no room.
    pub(super) fn push(&self, command: Command, patience: Option<Duration>) -> Result<(), Refused> {
        let mut command = match self.try_push(command) {
            Ok(()) => return Ok(()),
            Err((Refused::Over, _)) => return Err(Refused::Over),
            Err((Refused::Full, command)) => Some(command),
        };
        let outcome = self.room.wait(patience, || match self.try_push(command.take()?) {
            Ok(()) => Some(Ok(())),
            Err((Refused::Over, _)) => Some(Err(Refused::Over)),
            Err((Refused::Full, back)) => {
                command = Some(back);
                None
            }
        });
        outcome.unwrap_or(Err(Refused::Full))
    }

    pub(super) fn pop(&self) -> Option<Command> {
        let command = self.ring.pop()?;
        self.bytes.fetch_sub(command.cost(), Ordering::SeqCst);
        Some(command)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }

    /// Wakes threads that wait for room. Called once per run of pops.
    pub(super) fn popped(&self) {
        self.room.notify();
    }

    /// Requests a graceful leave; no command is accepted afterwards.
    pub(super) fn leave(&self) {
        self.leaving.store(true, Ordering::SeqCst);
        self.protocol.wake();
        self.room.notify();
    }

    pub(super) fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::SeqCst)
    }

    /// Makes the protocol thread end at once.
    pub(super) fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        self.protocol.wake();
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    /// Ends acceptance, and passes every command that was accepted and not carried out to `each`.
    pub(super) fn close(&self, mut each: impl FnMut(Command)) {
        self.over.store(true, Ordering::SeqCst);
        loop {
            while let Some(command) = self.pop() {
                each(command);
            }
            if self.bytes.load(Ordering::SeqCst) == 0 {
                break;
            }
            // A thread is between the count and the ring.
            std::thread::yield_now();
        }
        self.room.notify();
    }
}

/// Most commands that wait.
const COMMANDS_MAX: usize = 1_024;

/// No command is accepted while more bytes than this wait.
const BYTES_MAX: usize = 4 << 20;

/// The fixed cost of a command, beside its payload.
const COMMAND_BYTES: usize = 64;
