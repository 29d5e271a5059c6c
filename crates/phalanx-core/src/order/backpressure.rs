//! Backpressure: which bound a member's own stream meets, counted when it begins. That costs nothing per message.

use super::output::{Backpressure, Hold, StreamOutput};

/// The bounds at which a stream waits now. Each field is set when the wait begins, so that one wait counts once.
#[derive(Debug, Default)]
pub(super) struct BackpressureState {
    outbox: bool,
    pub(super) window: bool,
    withheld: bool,
    pub(super) orders: bool,
    hold: Option<Hold>,
}

impl BackpressureState {
    /// Notes whether the outbox took a message. Reports the first refusal of a series.
    pub(super) fn note_outbox(&mut self, taken: bool, io: &mut impl StreamOutput) {
        if !taken && !self.outbox {
            io.backpressure(Backpressure::Outbox);
        }
        self.outbox = !taken;
    }

    /// Notes whether the first message is withheld for `bound`.
    #[inline]
    pub(super) fn note_withheld(&mut self, withheld: bool, bound: Backpressure, io: &mut impl StreamOutput) {
        if withheld && !self.withheld {
            io.backpressure(bound);
        }
        self.withheld = withheld;
    }

    /// Notes whether messages wait since the window was full. Reports when they begin to.
    #[inline]
    pub(super) fn note_window(&mut self, waits: bool, io: &mut impl StreamOutput) {
        if waits && !self.window {
            io.backpressure(Backpressure::Window);
        }
        self.window = waits;
    }

    /// Notes whether abcasts wait for this member to announce their order. Reports when they begin to.
    #[inline]
    pub(super) fn note_orders(&mut self, wait: bool, io: &mut impl StreamOutput) {
        if wait && !self.orders {
            io.backpressure(Backpressure::Orders);
        }
        self.orders = wait;
    }

    /// Reports at a heartbeat why the stream waits.
    ///
    /// Not reported with `Backpressure::Window` when the wait begins: acks under way would make every member look
    /// silent. At the next heartbeat, the reason that is left is the cause.
    pub(super) fn note_hold(&mut self, hold: Option<Hold>, io: &mut impl StreamOutput) {
        if std::mem::replace(&mut self.hold, hold) != hold {
            match hold {
                Some(Hold::Credit) => io.backpressure(Backpressure::Credit),
                Some(Hold::Ack) => io.backpressure(Backpressure::Acks),
                Some(Hold::Change | Hold::System | Hold::Outside | Hold::Inadequate) | None => {}
            }
        }
    }
}
