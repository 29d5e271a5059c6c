//! Where a member's own stream meets a bound, told when it begins to: what is counted costs nothing per message.

use super::flow::{Flow, Hold, Outgoing};

/// A bound that a stream has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// The outbox: multicasts are refused.
    Outbox,
    /// The window: messages wait in the outbox.
    Window,
    /// The same, at a heartbeat: a member has all that was sent and gives no credit.
    Credit,
    /// The same: a member does not acknowledge.
    Receipts,
    /// The number of members: a uniform message waits, and those behind it.
    Members,
    /// No quorum is heard: the same.
    Quorum,
    /// The window, and what may be ordered beyond it: abcasts of others wait for their order.
    Orders,
}

/// Which bounds a stream stands at.
#[derive(Debug, Default)]
pub(super) struct Fullness {
    outbox: bool,
    window: bool,
    withheld: bool,
    orders: bool,
    hold: Option<Hold>,
}

impl Flow {
    /// A message was put into the outbox, or refused.
    pub(super) fn note_outbox(&mut self, taken: bool, io: &mut impl Outgoing) {
        if !taken && !self.full.outbox {
            io.full(Full::Outbox);
        }
        self.full.outbox = !taken;
    }

    /// End of a turn.
    #[inline]
    pub(super) fn note_window(&mut self, io: &mut impl Outgoing) {
        let withheld = !self.wedged && self.front_is_withheld();
        if withheld && !self.full.withheld {
            io.full(if self.outside { Full::Quorum } else { Full::Members });
        }
        self.full.withheld = withheld;
        if self.outbox.is_empty() {
            self.full.window = false;
        } else if !self.full.window && !self.wedged && !self.tx.may_send() {
            self.full.window = true;
            io.full(Full::Window);
        }
    }

    /// Orders may be told, or not.
    #[inline]
    pub(super) fn note_orders(&mut self, may_order: bool, io: &mut impl Outgoing) {
        if may_order {
            self.full.orders = false;
        } else if !self.full.orders && self.orders_wait() {
            self.full.orders = true;
            io.full(Full::Orders);
        }
    }

    /// With a heartbeat: by now it can be told what a stream waits for.
    pub(super) fn note_hold(&mut self, io: &mut impl Outgoing) {
        let hold = self.hold();
        if std::mem::replace(&mut self.full.hold, hold) != hold {
            match hold {
                Some(Hold::Credit) => io.full(Full::Credit),
                Some(Hold::Receipt) => io.full(Full::Receipts),
                Some(Hold::Change | Hold::System | Hold::Outside | Hold::Inadequate) | None => {}
            }
        }
    }
}
