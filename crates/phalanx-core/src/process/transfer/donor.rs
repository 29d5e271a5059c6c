//! A state transfer at its donor: the snapshot, and the record of the deliveries and views after it.

use std::collections::VecDeque;

use crate::api::{Delivery, GroupView, Order, Snapshot, Uniformity};
use crate::id::{GroupId, Incarnation, ViewNumber};
use crate::member::{ReplayedView, StateMessage, replayed_bytes};
use crate::time::Instant;
use crate::transitions::transitions;

/// Bytes that a recorded delivery or view counts for beside its payload or its lists.
pub(super) const REPLAY_BYTES: u64 = 64;

/// Bytes of deliveries and views recorded for a joiner, beyond what it has taken of the state. A joiner that takes the state
/// faster than the group delivers stays below, however long the state is. One that falls farther behind is given up.
pub(super) const RECORD_BYTES: u64 = 64 << 20;

pub(super) struct OutgoingTransfer {
    pub(super) group: GroupId,
    pub(super) to: Incarnation,
    pub(super) transfer: u64,
    pub(super) state: Giving,
    pub(super) total: u64,
    /// Whether the record has the views since the snapshot: it was taken at level 7 or above.
    pub(super) replays_views: bool,
    /// Deliveries and views since the snapshot.
    pub(super) record: VecDeque<Recorded>,
    pub(super) record_bytes: u64,
    pub(super) sent_bytes: u64,
    pub(super) taken_bytes: u64,
    /// Whether more is to be sent as soon as the channel has room.
    pub(super) waits: bool,
    /// The view that contains the joiner, once the application here has reached it. The record ends there.
    pub(super) done: Option<ViewNumber>,
    pub(super) moves: Moves,
}

/// Something that the snapshot does not contain, as it is sent.
pub(super) struct Recorded {
    pub(super) message: StateMessage,
    /// What it counts for.
    pub(super) bytes: u64,
}

/// Progress of a donor.
pub(super) enum Giving {
    Snapshot { snapshot: Box<dyn Snapshot>, offset: u64 },
    Record,
    CaughtUp { since: Instant },
    Over,
}

transitions! {
    /// [`Giving`] without its data.
    pub(super) states GivingState {
        /// The snapshot is on its way.
        Snapshot,
        /// All of the snapshot was sent, and the deliveries since follow.
        Record,
        /// The joiner was notified that nothing was left to send. Later deliveries still follow.
        CaughtUp,
        /// The transfer is gone.
        Over,
    }
    begin Snapshot; end [Over];
    pub(super) events GivingEvent {
        /// The snapshot was sent to its end.
        Replay (Snapshot => Record),
        /// The record was sent to its end for the first time.
        CatchUp (Record => CaughtUp),
        /// A view holds the joiner, and the record up to it was sent.
        Finish (Record | CaughtUp => Over),
        /// The joiner wants no more, left, makes no progress, or is not taken in; or this process leaves the group.
        Stop (Snapshot | Record | CaughtUp => Over),
    }
}

impl Giving {
    pub(super) fn state(&self) -> GivingState {
        match self {
            Self::Snapshot { .. } => GivingState::Snapshot,
            Self::Record => GivingState::Record,
            Self::CaughtUp { .. } => GivingState::CaughtUp,
            Self::Over => GivingState::Over,
        }
    }
}

/// How far a joiner has come, and since when it has come no farther.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moves {
    /// Position in the joiner's channel up to which it carries the state.
    pub(super) queued: u64,
    pub(super) reached: ReachedBytes,
    /// Since when there was no progress.
    pub(super) since: Instant,
}

/// Progress of a joiner, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ReachedBytes {
    /// Bytes acknowledged in its channel, up to the end of the state there.
    pub(super) acknowledged: u64,
    /// Bytes that its application has taken.
    pub(super) taken: u64,
}

impl OutgoingTransfer {
    pub(super) fn enter(&mut self, event: GivingEvent, state: Giving) {
        event.check(self.state.state(), state.state());
        self.state = state;
    }

    pub(super) fn is_over(&self) -> bool {
        matches!(self.state, Giving::Over)
    }

    /// Records a delivery that the snapshot does not contain.
    pub(super) fn record(&mut self, delivery: &Delivery<'_>) {
        let message = StateMessage::Replay {
            transfer: self.transfer,
            view: delivery.view,
            sender: delivery.sender,
            seq: delivery.seq,
            order: order_code(delivery.order, delivery.uniformity),
            position: delivery.position,
            payload: delivery.payload.to_vec(),
            domain: delivery.domain,
        };
        self.push(message, delivery.payload.len());
    }

    /// Records a view that the application here was notified of after the snapshot, and that does not hold the joiner.
    pub(super) fn record_view(&mut self, view: &GroupView) {
        if self.replays_views {
            let (transfer, replayed) = (self.transfer, Box::new(ReplayedView::of(view)));
            self.push(StateMessage::ReplayView { transfer, view: replayed }, replayed_bytes(view));
        }
    }

    fn push(&mut self, message: StateMessage, len: usize) {
        let bytes = len as u64 + REPLAY_BYTES;
        self.record_bytes += bytes;
        self.record.push_back(Recorded { message, bytes });
    }

    /// Moves the first recorded delivery or view to the sent ones.
    pub(super) fn replayed(&mut self) {
        if let Some(Recorded { bytes, .. }) = self.record.pop_front() {
            debug_assert!(self.record_bytes >= bytes, "what is recorded is counted");
            self.record_bytes -= bytes;
            self.sent_bytes += bytes;
        }
    }

    /// Whether the group delivers so much faster than the joiner takes that it would not catch up.
    pub(super) fn is_outrun(&self) -> bool {
        self.done.is_none() && self.record_bytes > RECORD_BYTES + self.taken_bytes.min(self.total)
    }
}

pub(super) fn order_code(order: Order, uniformity: Uniformity) -> u8 {
    let code = match order {
        Order::Fifo => 0,
        Order::Causal => 1,
        Order::Total => 2,
    };
    code | u8::from(uniformity.is_uniform()) << 2
}

pub(super) fn order_from(code: u8) -> Option<(Order, Uniformity)> {
    let order = match code & !4 {
        0 => Order::Fifo,
        1 => Order::Causal,
        2 => Order::Total,
        _ => return None,
    };
    Some((order, Uniformity::from_flag(code & 4 != 0)))
}
