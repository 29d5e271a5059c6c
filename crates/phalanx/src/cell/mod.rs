//! A process with a protocol thread of its own: applications call from any thread and take what comes from a
//! queue, by waiting or as an asynchronous stream.

mod batch;
mod commands;
mod group;
mod handler;
mod items;
mod room;
mod signal;
mod stream;
#[cfg(test)]
mod tests;
mod thread;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use phalanx_core::{CellView, CommandError, GroupTerms, Incarnation, MemberInfo};
use phalanx_driver::fork::{Forked, Home};

use crate::belief::Belief;
use crate::fork;
use crate::start::{NAME_BYTES_MAX, Options, StartError};
use crate::state::State;
use commands::{Command, Commands};
pub use group::Group;
use group::Slot;
use items::Items;
pub use items::{Item, Message};
pub use stream::CellStream;

/// A process of a cell that runs on a thread of its own.
///
/// Dropping it leaves the cell gracefully if that takes less than two seconds, and stops in any case.
///
/// In a forked child it is dead, with its groups and streams: calls give [`CallError::Forked`], and dropping it does nothing.
pub struct Cell {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// How to join a group.
#[derive(Default)]
pub struct JoinOptions {
    /// Take the state of a member before the first view. Without [`JoinOptions::state`] pieces are dropped.
    pub with_state: bool,
    /// What is agreed for the group if this process founds it. Default: what is cast is uniform unless asked for otherwise, any
    /// number of members is enough, and the group waits for members with its state that are cut off.
    pub terms: GroupTerms,
    /// The state this member holds for the group.
    pub state: Option<Box<dyn State>>,
}

/// Why a call did nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// Too much waits already, and the call was not to wait.
    #[error("too much waits to be sent: take deliveries, and try again")]
    Full,
    /// Nothing came in time.
    #[error("nothing came in time")]
    Timeout,
    /// The process has left the cell, or was excluded and does not come back, or its thread ended.
    #[error("this process is no longer in the cell")]
    Over,
    /// The handle was made before a fork, and this is the child.
    #[error("this handle belongs to the parent process: start a cell of its own in the forked child")]
    Forked,
    /// The command is wrong.
    #[error(transparent)]
    Refused(CommandError),
}

/// What the handles and the protocol thread share.
struct Shared {
    commands: Commands,
    items: Items,
    groups: Mutex<BTreeMap<Arc<str>, Arc<Slot>>>,
    facts: Mutex<Facts>,
    belief: Belief,
    /// Who it was when it began.
    born: MemberInfo,
    home: Home,
    /// What was to be recorded could not be written.
    trace_lost: AtomicBool,
}

/// What the application may ask at any time.
#[derive(Clone)]
struct Facts {
    me: MemberInfo,
    view: Option<Arc<CellView>>,
    primary: bool,
}

impl Facts {
    /// Before the first view.
    fn of(me: MemberInfo) -> Self {
        Self { me, view: None, primary: false }
    }
}

impl Shared {
    fn check(&self) -> Result<(), CallError> {
        self.home.check().map_err(|Forked| CallError::Forked)
    }

    fn facts(&self) -> Facts {
        if !self.home.is_here() {
            // The thread that held the lock when the process was forked is not there to give it back.
            return Facts::of(self.born.clone());
        }
        self.facts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn update(&self, change: impl FnOnce(&mut Facts)) {
        change(&mut self.facts.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn slots(&self) -> std::sync::MutexGuard<'_, BTreeMap<Arc<str>, Arc<Slot>>> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The name is free again, unless it was taken anew.
    fn forget(&self, slot: &Arc<Slot>) {
        let mut groups = self.slots();
        if groups.get(&slot.name).is_some_and(|current| Arc::ptr_eq(current, slot)) {
            groups.remove(&slot.name);
        }
    }
}

impl Cell {
    /// Starts a process of a cell and its thread.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn start(options: Options) -> Result<Self, StartError> {
        let (shared, thread) = thread::start(&options)?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Joins a group, which is made if it is not there. The first view comes as an item; what is cast before
    /// waits for it.
    ///
    /// # Errors
    /// [`CommandError::BadName`] or [`CommandError::AlreadyMember`] in [`CallError::Refused`]; else see
    /// [`CallError`].
    pub fn join_group(&self, name: &str, options: JoinOptions) -> Result<Group, CallError> {
        self.shared.check()?;
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            return Err(CallError::Refused(CommandError::BadName));
        }
        let slot = Arc::new(Slot::new(name));
        {
            let mut groups = self.shared.slots();
            if groups.contains_key(name) {
                return Err(CallError::Refused(CommandError::AlreadyMember));
            }
            groups.insert(Arc::clone(&slot.name), Arc::clone(&slot));
        }
        let JoinOptions { with_state, terms, state } = options;
        let command = Command::Join { slot: Arc::clone(&slot), with_state, terms, state };
        if let Err(refused) = self.shared.commands.push(command, None) {
            self.shared.forget(&slot);
            return Err(refused.into());
        }
        Ok(Group { shared: Arc::clone(&self.shared), slot })
    }

    /// Sends a reliable point-to-point message to a member of the cell view. Waits while too much waits already.
    ///
    /// # Errors
    /// [`CallError`]; nothing was queued. A message to a process that is gone when its turn comes is dropped.
    pub fn send(&self, to: Incarnation, payload: &[u8]) -> Result<(), CallError> {
        self.shared.check()?;
        if payload.len() >= phalanx_core::MESSAGE_BYTES_MAX {
            return Err(CallError::Refused(CommandError::TooLong(payload.len())));
        }
        let payload = Bytes::copy_from_slice(payload);
        self.shared.commands.push(Command::Send { to, payload }, None).map_err(CallError::from)
    }

    /// Asks the cell to rise to a level, once this process is in a view. A [`CellView`] of that level tells that it is in force, and
    /// [`Event::LevelRefused`](phalanx_core::Event::LevelRefused) who cannot follow; nothing comes if it was in force already.
    ///
    /// # Errors
    /// [`CallError`]; nothing was asked.
    pub fn raise_level(&self, level: u16) -> Result<(), CallError> {
        self.shared.check()?;
        self.shared.commands.push(Command::RaiseLevel { level }, None).map_err(CallError::from)
    }

    /// Asks that a group waits no more for members that are cut off, once this process is in a view: their state is lost, and its
    /// name is free. See [`Event::GroupOrphaned`](phalanx_core::Event::GroupOrphaned). An [`Item::Notice`] tells if no group of that
    /// name waits.
    ///
    /// # Errors
    /// [`CallError`]; nothing was asked.
    pub fn give_up_group(&self, name: impl Into<String>) -> Result<(), CallError> {
        self.shared.check()?;
        self.shared.commands.push(Command::GiveUpGroup { name: name.into() }, None).map_err(CallError::from)
    }

    /// Founds the next instance of the cell from here, when its quorum is gone for good: see
    /// [`Process::reform`](phalanx_core::Process::reform). An [`Item::Notice`] tells if it cannot be.
    ///
    /// # Errors
    /// [`CallError`]; nothing was asked.
    pub fn reform(&self) -> Result<(), CallError> {
        self.shared.check()?;
        self.shared.commands.push(Command::Reform, None).map_err(CallError::from)
    }

    /// Says that no member of the cell lives anywhere: see [`Process::found_anew`](phalanx_core::Process::found_anew). An
    /// [`Item::Notice`] tells if this process cannot found it again.
    ///
    /// # Errors
    /// [`CallError`]; nothing was asked.
    pub fn found_anew(&self) -> Result<(), CallError> {
        self.shared.check()?;
        self.shared.commands.push(Command::FoundAnew, None).map_err(CallError::from)
    }

    /// Waits for the next item.
    ///
    /// # Errors
    /// [`CallError::Over`] after the last one.
    pub fn recv(&self) -> Result<Item, CallError> {
        self.shared.check()?;
        self.take_or_wait(None)
    }

    /// The same, for no longer than `patience`.
    ///
    /// # Errors
    /// [`CallError::Timeout`], or [`CallError::Over`] after the last one.
    pub fn recv_timeout(&self, patience: Duration) -> Result<Item, CallError> {
        self.shared.check()?;
        self.take_or_wait(Some(patience))
    }

    fn take_or_wait(&self, patience: Option<Duration>) -> Result<Item, CallError> {
        if let Some(item) = self.shared.items.pop() {
            return Ok(item);
        }
        let over = |over| if over { CallError::Over } else { CallError::Timeout };
        self.shared.items.wait(patience).map_err(over)
    }

    /// Waits for the next item, and takes with it those that wait behind it, `max` in all at most: they are appended to
    /// `items`. Returns how many, at least one unless `max` is 0.
    ///
    /// # Errors
    /// [`CallError::Over`] after the last one; `items` is as it was.
    pub fn recv_many(&self, items: &mut Vec<Item>, max: usize) -> Result<usize, CallError> {
        self.shared.check()?;
        if max == 0 {
            return Ok(0);
        }
        items.push(self.take_or_wait(None)?);
        let mut taken = 1;
        while taken < max
            && let Some(item) = self.shared.items.pop()
        {
            items.push(item);
            taken += 1;
        }
        Ok(taken)
    }

    /// The next item, if one waits.
    ///
    /// # Errors
    /// [`CallError::Forked`].
    pub fn try_recv(&self) -> Result<Option<Item>, CallError> {
        self.shared.check()?;
        Ok(self.shared.items.pop())
    }

    /// The items as an asynchronous stream, for any executor. One task may wait at a time; an item goes either to
    /// it or to a call of [`Cell::recv`].
    #[must_use]
    pub fn stream(&self) -> CellStream {
        CellStream { shared: Arc::clone(&self.shared), over: false }
    }

    /// This process as its cell knows it now: the incarnation changes when it comes back after an exclusion. In a
    /// forked child that of its parent's start, and below no view.
    #[must_use]
    pub fn me(&self) -> MemberInfo {
        self.shared.facts().me
    }

    /// Where others find this process: what to name as a seed.
    #[must_use]
    pub fn control_address(&self) -> SocketAddr {
        self.shared.facts().me.control
    }

    /// The cell view as last handed to the application.
    #[must_use]
    pub fn view(&self) -> Option<Arc<CellView>> {
        self.shared.facts().view
    }

    /// What the protocol thread believes of its membership now, beside the queue of items, which may be long.
    #[must_use]
    pub fn belief(&self) -> Belief {
        self.shared.belief.clone()
    }

    /// Whether the process was in the primary partition as last handed to the application. What it believes by now:
    /// [`Cell::belief`].
    #[must_use]
    pub fn is_primary(&self) -> bool {
        self.shared.facts().primary
    }

    /// Whether what was to be recorded ([`Config::trace`](crate::config::Config::trace)) could not be written. The process
    /// goes on all the same; an [`Item::Notice`] says why.
    #[must_use]
    pub fn is_trace_lost(&self) -> bool {
        self.shared.trace_lost.load(Ordering::Relaxed)
    }

    /// Begins to leave the cell: what was cast goes out first, for about half a second. Take items until
    /// [`CallError::Over`].
    ///
    /// # Errors
    /// [`CallError::Forked`].
    pub fn begin_leave(&self) -> Result<(), CallError> {
        self.shared.check()?;
        self.shared.commands.leave();
        Ok(())
    }

    /// Leaves the cell gracefully and waits for it, dropping items that still come. After `patience` the process
    /// stops as it is, and others learn of it as of a death; without any patience it does so at once.
    ///
    /// # Errors
    /// [`CallError::Timeout`] when it did not leave in time; it is stopped all the same. [`CallError::Forked`].
    pub fn leave(mut self, patience: Duration) -> Result<(), CallError> {
        self.shared.check()?;
        self.end(patience)
    }

    fn end(&mut self, patience: Duration) -> Result<(), CallError> {
        let Some(thread) = self.thread.take() else { return Ok(()) };
        if !patience.is_zero() {
            self.shared.commands.leave();
        }
        self.shared.items.discard();
        let ended = self.shared.items.wait(Some(patience));
        self.shared.commands.stop();
        // The protocol thread never waits for the application, so this is short.
        let panicked = thread.join().is_err();
        match ended {
            Err(true) if !panicked => Ok(()),
            Err(true) => Err(CallError::Over),
            _ => Err(CallError::Timeout),
        }
    }
}

impl Drop for Cell {
    fn drop(&mut self) {
        if self.shared.check().is_ok() {
            let _ = self.end(DROP_PATIENCE);
        } else {
            // In a forked child there is no thread to ask or to wait for.
            fork::forget(self.thread.take());
        }
    }
}

/// How long a dropped cell tries to leave.
const DROP_PATIENCE: Duration = Duration::from_secs(2);
