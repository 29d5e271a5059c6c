//! A state transfer at its joiner: how far it has come, and what is left of one that failed.

use crate::id::{GroupId, Incarnation, ViewNumber};
use crate::time::Instant;
use crate::transitions::transitions;

/// Progress of a joiner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taking {
    Asked,
    Snapshot { expected: u64, received: u64 },
    Record,
    CaughtUp,
    Over,
}

transitions! {
    /// [`Taking`] without its data.
    pub(super) states TakingState {
        /// The donor has not answered.
        Asked,
        /// The donor sends its snapshot.
        Snapshot,
        /// The snapshot is here, and the donor's deliveries since follow.
        Record,
        /// The donor reported that nothing is left to send, so this process requests membership. Later deliveries still
        /// follow.
        CaughtUp,
        /// The transfer is gone.
        Over,
    }
    begin Asked; end [Over];
    pub(super) events TakingEvent {
        /// The donor has frozen its state.
        Begin (Asked => Snapshot),
        /// The donor has no state to give.
        Nothing (Asked => Over),
        /// The last of the snapshot is here.
        Replay (Snapshot => Record),
        /// The donor reported that its record was sent.
        CatchUp (Record | CaughtUp => CaughtUp),
        /// The donor's record and the first view of this process meet.
        Complete (Record | CaughtUp => Over),
        /// The donor is gone, silent, gave up, or makes no sense: another transfer replaces this one.
        Fail (Asked | Snapshot | Record | CaughtUp => Over),
    }
}

impl Taking {
    pub(super) fn state(self) -> TakingState {
        match self {
            Self::Asked => TakingState::Asked,
            Self::Snapshot { .. } => TakingState::Snapshot,
            Self::Record => TakingState::Record,
            Self::CaughtUp => TakingState::CaughtUp,
            Self::Over => TakingState::Over,
        }
    }
}

pub(super) struct IncomingTransfer {
    pub(super) group: GroupId,
    pub(super) donor: Incarnation,
    pub(super) transfer: u64,
    pub(super) state: Taking,
    /// When the donor was last heard in this transfer, or last owed nothing.
    pub(super) heard: Instant,
    /// Bytes that arrived of the state and the record; below, those that the application took and those reported to the
    /// donor.
    pub(super) came_bytes: u64,
    pub(super) taken_bytes: u64,
    pub(super) reported_bytes: u64,
    /// The view up to which the state has come: that of the snapshot, then the last replayed one. `None`: no views are
    /// replayed.
    pub(super) view: Option<ViewNumber>,
    /// The view at which the donor's record ends, once the donor has reported it.
    pub(super) done: Option<ViewNumber>,
    /// The first installed view that contains this process.
    pub(super) first_view: Option<ViewNumber>,
}

/// The rest of a failed transfer.
pub(super) struct Tried {
    pub(super) group: GroupId,
    /// The donor, which is asked again only if there is no other.
    pub(super) donor: Incarnation,
    /// Bytes that arrived and that the application has not taken. Until it has, the state is not requested again:
    /// otherwise items would pile up, here and at donors, for an application that hangs.
    pub(super) untaken_bytes: u64,
    /// Earliest time for the next request.
    pub(super) again: Instant,
}

impl IncomingTransfer {
    pub(super) fn enter(&mut self, event: TakingEvent, state: Taking) {
        event.check(self.state.state(), state.state());
        self.state = state;
    }

    /// Whether all of the snapshot is here.
    pub(super) fn has_snapshot(&self) -> bool {
        matches!(self.state, Taking::Record | Taking::CaughtUp)
    }
}
