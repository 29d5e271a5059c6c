//! Backpressure: which bound a member's own stream meets, counted when it begins. That costs nothing per message.

use super::view_streams::{Hold, StreamOutput, ViewStreams};

/// A bound that a stream has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backpressure {
    /// The outbox: multicasts are refused.
    Outbox,
    /// The window: messages wait in the outbox.
    Window,
    /// The same, at a heartbeat: a member has all that was sent and gives no credit.
    Credit,
    /// The same: a member does not acknowledge.
    Acks,
    /// The number of members: a uniform message waits, and those behind it.
    Members,
    /// No quorum is heard: the same.
    Quorum,
    /// The window, and what may be ordered beyond it: abcasts of others wait for their order.
    Orders,
}

/// Which bounds a stream stands at.
#[derive(Debug, Default)]
pub(super) struct BackpressureState {
    outbox: bool,
    window: bool,
    withheld: bool,
    orders: bool,
    hold: Option<Hold>,
}

impl ViewStreams {
    /// A message was put into the outbox, or refused.
    pub(super) fn note_outbox(&mut self, taken: bool, io: &mut impl StreamOutput) {
        if !taken && !self.backpressure.outbox {
            io.backpressure(Backpressure::Outbox);
        }
        self.backpressure.outbox = !taken;
    }

    /// End of a turn.
    #[inline]
    pub(super) fn note_window(&mut self, io: &mut impl StreamOutput) {
        let withheld = !self.wedged && self.front_is_withheld();
        if withheld && !self.backpressure.withheld {
            io.backpressure(if self.outside { Backpressure::Quorum } else { Backpressure::Members });
        }
        self.backpressure.withheld = withheld;
        if self.outbox.is_empty() {
            self.backpressure.window = false;
        } else if !self.backpressure.window && !self.wedged && !self.tx.may_send() {
            self.backpressure.window = true;
            io.backpressure(Backpressure::Window);
        }
    }

    /// Orders may be told, or not.
    #[inline]
    pub(super) fn note_orders(&mut self, may_order: bool, io: &mut impl StreamOutput) {
        if may_order {
            self.backpressure.orders = false;
        } else if !self.backpressure.orders && self.orders_wait() {
            self.backpressure.orders = true;
            io.backpressure(Backpressure::Orders);
        }
    }

    /// With a heartbeat: by now it can be told what a stream waits for.
    pub(super) fn note_hold(&mut self, io: &mut impl StreamOutput) {
        let hold = self.hold();
        if std::mem::replace(&mut self.backpressure.hold, hold) != hold {
            match hold {
                Some(Hold::Credit) => io.backpressure(Backpressure::Credit),
                Some(Hold::Ack) => io.backpressure(Backpressure::Acks),
                Some(Hold::Change | Hold::System | Hold::Outside | Hold::Inadequate) | None => {}
            }
        }
    }
}
