//! A handle to a group.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use phalanx_core::{CommandError, GroupId, GroupView, MESSAGE_BYTES_MAX, Order, Stability};

use super::batch::Batch;
use super::commands::{Command, Refused};
use super::{CallError, Shared};

/// What the handles of a group and the protocol thread share.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) name: Arc<str>,
    view: Mutex<Option<Arc<GroupView>>>,
    left: AtomicBool,
    /// Multicasts taken from the queue of commands so far, and the last of them that the core accepted. The protocol thread
    /// counts.
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

    /// So many more were taken. Returns how many in all.
    pub(super) fn take(&self, messages: u64) -> u64 {
        // There is one writer.
        let taken = self.taken.load(Ordering::Relaxed) + messages;
        self.taken.store(taken, Ordering::Relaxed);
        taken
    }

    /// One more was taken, and the core accepted it.
    pub(super) fn accept(&self) {
        self.accepted.store(self.take(1), Ordering::Relaxed);
    }

    /// The number of the last that the core accepted.
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

/// A group this process is a member of, or is joining. Cheap to clone; usable from any thread.
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

    /// The view in force, as last handed to the application, and whether it is adequate now. `None` before the first and after
    /// the last, and in a forked child.
    #[must_use]
    pub fn view(&self) -> Option<Arc<GroupView>> {
        self.shared.check().ok()?;
        self.slot.view()
    }

    /// The group's number in the cell, as the items of [`Cell::recv`](super::Cell::recv) name it.
    #[must_use]
    pub fn id(&self) -> Option<GroupId> {
        self.view().map(|view| view.group)
    }

    /// Multicasts `payload`. Waits while too much waits already, also while the process is still joining. Unless asked for by
    /// name, it is uniform where the group was founded so, see [`JoinOptions::terms`](super::JoinOptions::terms).
    ///
    /// Accepted means queued: it goes out in the view that is in force when its turn comes. If this incarnation
    /// ends before it has come that far, it goes out in the next one's view, or not at all: an [`Item::Unsent`](super::Item::Unsent)
    /// tells of each that does not.
    ///
    /// # Errors
    /// [`CallError`]; nothing was queued.
    pub fn cast(&self, order: Order, stability: Stability, payload: &[u8]) -> Result<(), CallError> {
        self.cast_bytes(order, stability, Bytes::copy_from_slice(payload))
    }

    /// The same without a copy.
    ///
    /// # Errors
    /// [`CallError`]; nothing was queued.
    pub fn cast_bytes(&self, order: Order, stability: Stability, payload: Bytes) -> Result<(), CallError> {
        let command = self.command(order, stability, payload)?;
        self.shared.commands.push(command, None).map_err(CallError::from)
    }

    /// The same as [`Group::cast`] without waiting.
    ///
    /// # Errors
    /// [`CallError::Full`] when too much waits already; else see [`CallError`]. Nothing was queued.
    pub fn try_cast(&self, order: Order, stability: Stability, payload: &[u8]) -> Result<(), CallError> {
        let command = self.command(order, stability, Bytes::copy_from_slice(payload))?;
        self.shared.commands.try_push(command).map_err(|(refused, _)| refused.into())
    }

    /// Multicasts each of `payloads`, in this order: the same as a [`Group::cast`] of each, and for many small messages far
    /// cheaper, because they go to the protocol thread together.
    ///
    /// # Errors
    /// [`CallError`]; nothing was queued. All together may be as long as one message:
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

    /// Leaves the group, after what was cast before. [`phalanx_core::Event::GroupLeft`] tells when it is done.
    ///
    /// # Errors
    /// [`CallError`]; nothing was asked.
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
