//! A handle to a group.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use phalanx_core::{CommandError, GroupId, GroupView, MESSAGE_BYTES_MAX, Order, Stability};

use super::batch::Batch;
use super::commands::{Command, Refused};
use super::{CallError, Shared};

/// State shared by the handles of a group and the protocol thread.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) name: Arc<str>,
    view: Mutex<Option<Arc<GroupView>>>,
    left: AtomicBool,
    /// The number of multicasts taken from the command queue so far, and the number of the last that the core accepted.
    /// Only the protocol thread writes them.
    taken: AtomicU64,
    accepted: AtomicU64,
}

impl Slot {
    pub(super) fn new(name: &str) -> Self {
        Self {
            name: name.into(),
            view: Mutex::new(None),
            left: AtomicBool::new(false),
            taken: AtomicU64::new(0),
            accepted: AtomicU64::new(0),
        }
    }

    pub(super) fn view(&self) -> Option<Arc<GroupView>> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set_view(&self, view: Option<Arc<GroupView>>) {
        *self.view.lock().unwrap_or_else(PoisonError::into_inner) = view;
    }

    /// Counts `messages` more as taken. Returns the total.
    pub(super) fn take(&self, messages: u64) -> u64 {
        // A load and a store suffice, because only one thread writes.
        let taken = self.taken.load(Ordering::Relaxed) + messages;
        self.taken.store(taken, Ordering::Relaxed);
        taken
    }

    /// Counts one more as taken and accepted by the core.
    pub(super) fn accept(&self) {
        self.accepted.store(self.take(1), Ordering::Relaxed);
    }

    /// The number of the last multicast that the core accepted.
    pub(super) fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }

    pub(super) fn leave(&self) {
        self.left.store(true, Ordering::SeqCst);
    }

    pub(super) fn has_left(&self) -> bool {
        self.left.load(Ordering::SeqCst)
    }
}

/// A group that this process is a member of, or is joining. Cheap to clone; usable from any thread.
#[derive(Clone)]
pub struct Group {
    pub(super) shared: Arc<Shared>,
    pub(super) slot: Arc<Slot>,
}

impl Group {
    /// The group's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.slot.name
    }

    /// The view last delivered to the application, and whether it is adequate now. `None` before the first and after
    /// the last view, and in a forked child.
    #[must_use]
    pub fn view(&self) -> Option<Arc<GroupView>> {
        self.shared.check().ok()?;
        self.slot.view()
    }

    /// The group's number in the cell, as in the items of [`Cell::recv`](super::Cell::recv).
    #[must_use]
    pub fn id(&self) -> Option<GroupId> {
        self.view().map(|view| view.group)
    }

    /// Multicasts `payload`. Blocks while the command queue is full, also while the process is still joining. Unless
    /// `stability` says otherwise, it is uniform if the group was founded so, see
    /// [`JoinOptions::terms`](super::JoinOptions::terms).
    ///
    /// Accepted means queued: it is sent in the view that is in force when it reaches the head of the queue. If this
    /// incarnation ends before, it is sent in a view of the next one, or never. An
    /// [`Item::Unsent`](super::Item::Unsent) reports each one that is not sent.
    ///
    /// # Errors
    /// [`CallError`]; nothing was queued.
    pub fn cast(&self, order: Order, stability: Stability, payload: &[u8]) -> Result<(), CallError> {
        self.cast_bytes(order, stability, Bytes::copy_from_slice(payload))
    }

    /// Like [`Group::cast`], without a copy.
    ///
    /// # Errors
    /// [`CallError`]; nothing was queued.
    pub fn cast_bytes(&self, order: Order, stability: Stability, payload: Bytes) -> Result<(), CallError> {
        let command = self.command(order, stability, payload)?;
        self.shared.commands.push(command, None).map_err(CallError::from)
    }

    /// Like [`Group::cast`], without blocking.
    ///
    /// # Errors
    /// [`CallError::Full`] if the queue is full; else see [`CallError`]. Nothing was queued.
    pub fn try_cast(&self, order: Order, stability: Stability, payload: &[u8]) -> Result<(), CallError> {
        let command = self.command(order, stability, Bytes::copy_from_slice(payload))?;
        self.shared.commands.try_push(command).map_err(|(refused, _)| refused.into())
    }

    /// Multicasts each of `payloads`, in this order. The effect is that of a [`Group::cast`] for each. For many small
    /// messages it is far cheaper, because they pass to the protocol thread together.
    ///
    /// # Errors
    /// [`CallError`]; nothing was queued. All payloads together may be as long as one message:
    /// [`MESSAGE_BYTES_MAX`](phalanx_core::MESSAGE_BYTES_MAX).
    pub fn cast_all<P: AsRef<[u8]>>(
        &self,
        order: Order,
        stability: Stability,
        payloads: impl IntoIterator<Item = P>,
    ) -> Result<(), CallError> {
        self.check()?;
        let mut batch = Batch::default();
        for payload in payloads {
            batch.push(payload.as_ref());
            if batch.bytes() > MESSAGE_BYTES_MAX {
                return Err(CallError::Refused(CommandError::TooLong(batch.bytes())));
            }
        }
        if batch.is_empty() {
            return Ok(());
        }
        let command = Command::CastAll { slot: Arc::clone(&self.slot), order, stability, batch };
        self.shared.commands.push(command, None).map_err(CallError::from)
    }

    /// Leaves the group, after everything cast before. [`phalanx_core::Event::GroupLeft`] reports the end.
    ///
    /// # Errors
    /// [`CallError`]; nothing was requested.
    pub fn leave(&self) -> Result<(), CallError> {
        self.check()?;
        let slot = Arc::clone(&self.slot);
        self.shared.commands.push(Command::LeaveGroup { slot }, None)?;
        self.slot.leave();
        self.shared.forget(&self.slot);
        Ok(())
    }

    fn command(&self, order: Order, stability: Stability, payload: Bytes) -> Result<Command, CallError> {
        self.check()?;
        if payload.len() > MESSAGE_BYTES_MAX {
            return Err(CallError::Refused(CommandError::TooLong(payload.len())));
        }
        Ok(Command::Cast { slot: Arc::clone(&self.slot), order, stability, payload })
    }

    fn check(&self) -> Result<(), CallError> {
        self.shared.check()?;
        if self.shared.commands.is_closed() {
            return Err(CallError::Over);
        }
        if self.slot.has_left() { Err(CallError::Refused(CommandError::NotMember)) } else { Ok(()) }
    }
}

impl From<Refused> for CallError {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Full => Self::Full,
            Refused::Over => Self::Over,
        }
    }
}
