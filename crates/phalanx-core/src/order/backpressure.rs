//! Backpressure: which bound a member's own stream meets, counted when it begins. That costs nothing per message.

use super::view_streams::{Hold, StreamOutput, ViewStreams};

/// A bound at which a stream waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backpressure {
    /// The outbox is full: multicasts are refused.
    Outbox,
    /// The window is full: messages wait in the outbox.
    Window,
    /// The window is still full at a heartbeat, because a member has all that was sent and gives no credit.
    Credit,
    /// The window is still full at a heartbeat, because a member does not acknowledge.
    Acks,
    /// The view has fewer members than agreed: a uniform message waits, and all messages behind it.
    Members,
    /// No quorum is heard: a uniform message waits, and all messages behind it.
    Quorum,
    /// The window and what may be announced beyond it are full: abcasts of others wait for their order.
    Orders,
}

/// The bounds at which a stream waits now. Each field is set when the wait begins, so that one wait counts once.
#[derive(Debug, Default)]
pub(super) struct BackpressureState {
    outbox: bool,
    window: bool,
    withheld: bool,
    orders: bool,
    hold: Option<Hold>,
}

impl ViewStreams {
    /// Notes whether the outbox took a message. Reports the first refusal of a series.
    pub(super) fn note_outbox(&mut self, taken: bool, io: &mut impl StreamOutput) {
        if !taken && !self.backpressure.outbox {
            io.backpressure(Backpressure::Outbox);
        }
        self.backpressure.outbox = !taken;
    }

    /// Reports a window or a withheld message that blocks the stream since this iteration of the event loop.
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

    /// Notes whether this member may announce orders now. Reports the first time that abcasts wait for it.
    #[inline]
    pub(super) fn note_orders(&mut self, may_order: bool, io: &mut impl StreamOutput) {
        if may_order {
            self.backpressure.orders = false;
        } else if !self.backpressure.orders && self.orders_wait() {
            self.backpressure.orders = true;
            io.backpressure(Backpressure::Orders);
        }
    }

    /// Reports at a heartbeat why the stream waits.
    ///
    /// Not reported with `Backpressure::Window` when the wait begins: acks under way would make every member look
    /// silent. At the next heartbeat, the reason that is left is the cause.
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
