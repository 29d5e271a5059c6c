//! A group's replicated state at one member, maintained by the protocol thread.

use bytes::Bytes;
use phalanx_core::{Delivery, GroupView, Snapshot};

/// State that every member of a group holds, changed by the group's messages only.
///
/// The protocol thread makes all calls, in the order the cell decided, so a snapshot holds exactly the messages applied
/// before it. Keep them short: the process answers no other process meanwhile. To share the state with other threads,
/// put it behind a lock of your own.
///
/// A process that was excluded comes back as a new incarnation with the same state. Keep the state unchanged until one
/// of two calls decides: [`State::clear`] if the group continued elsewhere, or [`State::kept`] if no other member had
/// its state and the group waited for this process. If the group is over and this process makes it anew, neither is
/// called, and the present state is the group's first.
pub trait State: Send {
    /// Applies a message of the group. Every member applies the same messages in the same order, as far as their
    /// requested orders determine it.
    fn apply(&mut self, message: &Delivery<'_>);

    /// A view of the group was installed. Between [`State::clear`] and [`State::restored`] it is one of those that the members
    /// installed after the snapshot, at its place between the messages.
    fn view(&mut self, _view: &GroupView) {}

    /// Freezes the present state for a member that joins.
    fn snapshot(&mut self) -> Box<dyn Snapshot>;

    /// Forgets everything: another member's state follows, in calls of [`State::restore`], then [`State::restored`].
    fn clear(&mut self);

    /// Restores a piece of that state. Pieces come in order and are cut anywhere.
    fn restore(&mut self, chunk: &[u8]);

    /// The restored state is complete.
    fn restored(&mut self) {}

    /// The group continues with the state as it is here: this process was excluded, and no member in the primary
    /// partition had the state. Messages that also belong to it follow with [`Delivery::replayed`] set, then a view.
    fn kept(&mut self) {}

    /// A digest of the present state, for traces; see [`crate::Handler::digest`].
    fn digest(&mut self) -> Option<u64> {
        None
    }
}

/// A snapshot that is fully serialised when taken, or that shares bytes which never change.
#[derive(Clone, Debug)]
pub struct Frozen(Bytes);

impl Frozen {
    /// A snapshot of these bytes.
    #[must_use]
    pub fn new(bytes: impl Into<Bytes>) -> Self {
        Self(bytes.into())
    }
}

impl Snapshot for Frozen {
    fn len_bytes(&self) -> u64 {
        self.0.len() as u64
    }

    fn read(&mut self, offset: u64, max_bytes: usize, out: &mut Vec<u8>) {
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(self.0.len());
        let end = start.saturating_add(max_bytes).min(self.0.len());
        out.extend_from_slice(&self.0[start..end]);
    }
}
