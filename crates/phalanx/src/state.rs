//! A group's replicated state at one member, looked after by the protocol thread.

use bytes::Bytes;
use phalanx_core::{Delivery, GroupView, Snapshot};

/// State that every member of a group holds, changed by the group's messages alone.
///
/// All calls come from the protocol thread, in the order the cell decided, so that a snapshot holds exactly the
/// messages applied before it. Keep them short: the process answers nobody meanwhile. Share the state with other
/// threads behind a lock of your own.
///
/// A process that was excluded comes back as a new incarnation with the same state. Keep it as it is until one of these calls
/// decides: [`State::clear`], where the group went on elsewhere, or [`State::kept`], where nobody else had its state and the
/// group waited for it. If the group is over, and this process makes it anew, neither comes, and the state that is here is the
/// group's first.
pub trait State: Send {
    /// A message of the group; every member applies the same in the same order (as far as their order is asked
    /// for).
    fn apply(&mut self, message: &Delivery<'_>);

    /// A view of the group was installed.
    fn view(&mut self, _view: &GroupView) {}

    /// The state as of now, for a member that joins.
    fn snapshot(&mut self) -> Box<dyn Snapshot>;

    /// A state of another member begins: forget everything. Pieces follow, then [`State::restored`].
    fn clear(&mut self);

    /// A piece of it, in order. Pieces are cut anywhere.
    fn restore(&mut self, chunk: &[u8]);

    /// It is complete.
    fn restored(&mut self) {}

    /// The group goes on with the state as it is here: this process was excluded, and no member in the primary partition had the
    /// state. Messages that belong to it as well follow with [`Delivery::replayed`] set, then a view.
    fn kept(&mut self) {}

    /// A digest of the state now, for traces; see [`crate::Handler::digest`].
    fn digest(&mut self) -> Option<u64> {
        None
    }
}

/// A snapshot that was written out in full when it was taken, or that shares bytes which never change.
#[derive(Clone, Debug)]
pub struct Frozen(Bytes);

impl Frozen {
    /// These bytes.
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
