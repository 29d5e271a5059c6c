//! A process with a protocol thread of its own. Applications call from any thread and take items from a queue, by
//! blocking or as an asynchronous stream.

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
use phalanx_core::{BadName, CellView, CommandError, GroupTerms, Incarnation, MemberInfo, check_name};
use phalanx_driver::fork::{Forked, Home};

use crate::belief::Belief;
use crate::fork;
use crate::start::{Options, StartError};
use crate::state::State;
use commands::{Command, Commands};
pub use group::Group;
use group::Slot;
use items::Items;
pub use items::{Item, Message};
pub use stream::CellStream;

/// A process of a cell that runs on a thread of its own.
///
/// Dropping it leaves the cell gracefully if that takes less than two seconds, and stops the process in any case.
///
/// In a forked child it is dead, with its groups and streams: calls give [`CallError::Forked`], and dropping it does
/// nothing.
pub struct Cell {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// How to join a group.
#[derive(Default)]
pub struct JoinOptions {
    /// Whether the group has a state, which the process takes from a member before the first view. All members must say
    /// the same ([`phalanx_core::Event::GroupDiffers`]). Without [`JoinOptions::state`] the process observes.
    pub with_state: bool,
    /// Whether the process observes: it is a member, whether the group has a state or not, never has the state, and waits
    /// until others have made the group; see [`phalanx_core::Process::request_group`].
    pub observer: bool,
    /// The group's terms if this process founds it. By default casts are uniform unless requested otherwise, any number
    /// of members is enough, and the group waits for members with its state that are cut off.
    pub terms: GroupTerms,
    /// The state that this member holds for the group.
    pub state: Option<Box<dyn State>>,
}

/// Why a call failed; it changed nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The command queue is full, and the call was not to block.
    #[error("too many commands are queued: take deliveries, and try again")]
    Full,
    /// No item came in time.
    #[error("nothing came in time")]
    Timeout,
    /// The process has left the cell, or was excluded and does not come back, or its thread ended.
    #[error("this process is no longer in the cell")]
    Over,
    /// The handle was made before a fork, and this process is the child.
    #[error("this handle belongs to the parent process: start a cell of its own in the forked child")]
    Forked,
    /// The core refused the command.
    #[error(transparent)]
    Refused(CommandError),
}

/// State shared by the handles and the protocol thread.
struct Shared {
    commands: Commands,
    items: Items,
    groups: Mutex<BTreeMap<Arc<str>, Arc<Slot>>>,
    facts: Mutex<Facts>,
    belief: Belief,
    /// Its member record at the start.
    born: MemberInfo,
    home: Home,
    /// A trace that was configured could not be written.
    trace_lost: AtomicBool,
}

/// Facts that the application may read at any time.
#[derive(Clone)]
struct Facts {
    me: MemberInfo,
    view: Option<Arc<CellView>>,
    primary: bool,
}

impl Facts {
    /// The facts before the first view.
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
            // The thread that held the lock at the fork does not exist here, so the lock may never be released.
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

    /// Frees the name of a slot, unless another slot has taken it.
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

    /// Joins a group, which is made if it does not exist. The first view arrives as an item; casts before it wait for
    /// it.
    ///
    /// # Errors
    /// [`CommandError::BadName`] or [`CommandError::AlreadyMember`] in [`CallError::Refused`]; else see
    /// [`CallError`].
    pub fn join_group(&self, name: &str, options: JoinOptions) -> Result<Group, CallError> {
        self.shared.check()?;
        check_name(name).map_err(|BadName| CallError::Refused(CommandError::BadName))?;
        let slot = Arc::new(Slot::new(name));
        {
            let mut groups = self.shared.slots();
            if groups.contains_key(name) {
                return Err(CallError::Refused(CommandError::AlreadyMember));
            }
            groups.insert(Arc::clone(&slot.name), Arc::clone(&slot));
        }
        let JoinOptions { with_state, observer, terms, state } = options;
        let observer = observer || with_state && state.is_none();
        let command = Command::Join { slot: Arc::clone(&slot), with_state, observer, terms, state };
        if let Err(refused) = self.shared.commands.push(command, None) {
            self.shared.forget(&slot);
            return Err(refused.into());
        }
        Ok(Group { shared: Arc::clone(&self.shared), slot })
    }

    /// Sends a reliable point-to-point message to a member of the cell view. Blocks while the command queue is full.
    ///
    /// # Errors
    /// [`CallError`]; nothing was queued. A message to a process that has gone when the protocol thread takes it is
    /// dropped.
    pub fn send(&self, to: Incarnation, payload: &[u8]) -> Result<(), CallError> {
        self.shared.check()?;
        if payload.len() >= phalanx_core::MESSAGE_BYTES_MAX {
            return Err(CallError::Refused(CommandError::TooLong(payload.len())));
        }
        let payload = Bytes::copy_from_slice(payload);
        self.shared.commands.push(Command::Send { to, payload }, None).map_err(CallError::from)
    }

    /// Requests that the cell rises to a level, once this process is in a view. A [`CellView`] of that level reports
    /// success, and [`Event::LevelRefused`](phalanx_core::Event::LevelRefused) names the members that do not support
    /// it. Neither comes if the level is in force already.
    ///
    /// # Errors
    /// [`CallError`]; nothing was requested.
    pub fn raise_level(&self, level: u16) -> Result<(), CallError> {
        self.shared.check()?;
        self.shared.commands.push(Command::RaiseLevel { level }, None).map_err(CallError::from)
    }

    /// Requests that a group stops waiting for members that are cut off, once this process is in a view. Their state is
    /// lost, and the group's name is free. See [`Event::GroupOrphaned`](phalanx_core::Event::GroupOrphaned). An
    /// [`Item::Notice`] reports if no group of that name waits.
    ///
    /// # Errors
    /// [`CallError`]; nothing was requested.
    pub fn give_up_group(&self, name: impl Into<String>) -> Result<(), CallError> {
        self.shared.check()?;
        self.shared.commands.push(Command::GiveUpGroup { name: name.into() }, None).map_err(CallError::from)
    }

    /// Founds the next instance of the cell from here, when its quorum is gone for good: see
    /// [`Process::reform`](phalanx_core::Process::reform). An [`Item::Notice`] reports a refusal.
    ///
    /// # Errors
    /// [`CallError`]; nothing was requested.
    pub fn reform(&self) -> Result<(), CallError> {
        self.shared.check()?;
        self.shared.commands.push(Command::Reform, None).map_err(CallError::from)
    }

    /// States that no member of the cell lives anywhere: see
    /// [`Process::found_anew`](phalanx_core::Process::found_anew). An [`Item::Notice`] reports if this process cannot
    /// found it again.
    ///
    /// # Errors
    /// [`CallError`]; nothing was requested.
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

    /// Like [`Cell::recv`], for at most `patience`.
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

    /// Waits for the next item, and takes those queued behind it too, at most `max` in all. They are appended to
    /// `items`. Returns their number, at least one unless `max` is 0.
    ///
    /// # Errors
    /// [`CallError::Over`] after the last one; `items` is unchanged.
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

    /// Takes the next item, if there is one.
    ///
    /// # Errors
    /// [`CallError::Forked`] in a forked child.
    pub fn try_recv(&self) -> Result<Option<Item>, CallError> {
        self.shared.check()?;
        Ok(self.shared.items.pop())
    }

    /// The items as an asynchronous stream, for any executor. One task may wait at a time. Each item goes either to it
    /// or to a call of [`Cell::recv`].
    #[must_use]
    pub fn stream(&self) -> CellStream {
        CellStream { shared: Arc::clone(&self.shared), over: false }
    }

    /// This process's present member record. The incarnation changes when it comes back after an exclusion. In a forked
    /// child it is the record of the parent's start.
    #[must_use]
    pub fn me(&self) -> MemberInfo {
        self.shared.facts().me
    }

    /// The control address of this process, which others use as a seed.
    #[must_use]
    pub fn control_address(&self) -> SocketAddr {
        self.shared.facts().me.control
    }

    /// The cell view last delivered to the application; `None` in a forked child.
    #[must_use]
    pub fn view(&self) -> Option<Arc<CellView>> {
        self.shared.facts().view
    }

    /// What the protocol thread believes of its membership now, independently of the item queue, which may be long.
    #[must_use]
    pub fn belief(&self) -> Belief {
        self.shared.belief.clone()
    }

    /// Whether the process was in the primary partition as last delivered to the application. For its present belief
    /// see [`Cell::belief`].
    #[must_use]
    pub fn is_primary(&self) -> bool {
        self.shared.facts().primary
    }

    /// Whether the trace ([`Config::trace`](crate::config::Config::trace)) could not be written. The process continues
    /// without it; an [`Item::Notice`] says why.
    #[must_use]
    pub fn is_trace_lost(&self) -> bool {
        self.shared.trace_lost.load(Ordering::Relaxed)
    }

    /// Starts a graceful leave. Queued casts are sent first, for about half a second. Take items until
    /// [`CallError::Over`].
    ///
    /// # Errors
    /// [`CallError::Forked`] in a forked child.
    pub fn begin_leave(&self) -> Result<(), CallError> {
        self.shared.check()?;
        self.shared.commands.leave();
        Ok(())
    }

    /// Leaves the cell gracefully and waits for that, dropping items that still arrive. After `patience` the process
    /// stops at once, which others see as a death; with zero patience it stops immediately.
    ///
    /// # Errors
    /// [`CallError::Timeout`] if it did not leave in time; it is stopped all the same. [`CallError::Forked`] in a
    /// forked child.
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
            // A forked child has no such thread to stop or join.
            fork::forget(self.thread.take());
        }
    }
}

/// Longest time that a dropped cell tries to leave.
const DROP_PATIENCE: Duration = Duration::from_secs(2);
