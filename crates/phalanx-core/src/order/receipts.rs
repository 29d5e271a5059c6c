//! Receipts: how far this member's messages are stable, which means that every member of the view has them.
//!
//! Acks count packets, and the sender counts messages. One entry for each packet in flight in which a
//! message ends relates the two.

use std::collections::VecDeque;

use crate::id::Sequence;
use crate::wire::PacketNumber;

#[derive(Debug, Default)]
pub(super) struct Receipts {
    /// Packets that may not be stable, ascending, each with the last message that ended by it.
    in_flight: VecDeque<Ending>,
    /// The last message that ends in a packet.
    sent: Sequence,
    /// The last message that is stable, and the last that was reported so.
    stable: Sequence,
    reported: Sequence,
}

#[derive(Clone, Copy, Debug)]
struct Ending {
    packet: u64,
    seq: Sequence,
}

impl Receipts {
    /// Notes that packet `number` is sent, and that messages up to `seq` end in it or before.
    pub(super) fn sent(&mut self, number: PacketNumber, seq: Sequence) {
        debug_assert!(seq >= self.sent, "the number of messages sent fell");
        // A packet without the end of a message, or one of orders alone, gives no receipt.
        if seq > self.sent {
            self.sent = seq;
            self.in_flight.push_back(Ending { packet: number.0, seq });
        }
    }

    /// Notes that every member has our packets up to `packet`.
    #[inline]
    pub(super) fn acknowledged(&mut self, packet: u64) {
        while let Some(ending) = self.in_flight.front().copied().filter(|ending| ending.packet <= packet) {
            self.in_flight.pop_front();
            self.stable = ending.seq;
        }
    }

    /// Notes that the view ended, and that every survivor has our messages up to `seq`.
    pub(super) fn ended(&mut self, seq: Sequence) {
        debug_assert!(seq >= self.sent, "the end of a view takes a message back");
        self.in_flight.clear();
        (self.sent, self.stable) = (seq, seq);
    }

    /// The last message that is stable, if it was not reported yet.
    #[inline]
    pub(super) fn report(&mut self) -> Option<Sequence> {
        let before = std::mem::replace(&mut self.reported, self.stable);
        (self.stable > before).then_some(self.stable)
    }

    /// Checks the invariants. `sent`: the last message packed to its end.
    pub(super) fn check_invariants(&self, sent: Sequence) {
        assert!(self.reported <= self.stable && self.sent <= sent, "a receipt for a message that was not sent");
        let last = self.in_flight.back().map_or(self.stable, |ending| ending.seq);
        assert_eq!(last, self.sent, "a message that ends in a packet has no receipt coming");
        let ascending = |(a, b): (&Ending, &Ending)| a.packet < b.packet && a.seq < b.seq;
        assert!(self.in_flight.iter().zip(self.in_flight.iter().skip(1)).all(ascending), "receipts are out of order");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_stable_with_the_packet_in_which_it_ends() {
        let mut receipts = Receipts::default();
        receipts.sent(PacketNumber(1), Sequence(3));
        receipts.sent(PacketNumber(2), Sequence(3));
        receipts.sent(PacketNumber(3), Sequence(4));
        receipts.sent(PacketNumber(4), Sequence(9));
        receipts.check_invariants(Sequence(9));
        let mut report = |packet| {
            receipts.acknowledged(packet);
            receipts.report()
        };
        assert_eq!([report(0), report(2), report(2), report(3)], [None, Some(Sequence(3)), None, Some(Sequence(4))]);
        receipts.ended(Sequence(9));
        assert_eq!((receipts.report(), receipts.report()), (Some(Sequence(9)), None), "once");
        receipts.check_invariants(Sequence(9));
    }

    /// Outside the primary partition nothing is reported, and acknowledgements still come.
    #[test]
    fn what_became_stable_meanwhile_is_reported_together() {
        let mut receipts = Receipts::default();
        for packet in 1..=100 {
            receipts.sent(PacketNumber(packet), Sequence(packet * 2));
            receipts.acknowledged(packet);
            receipts.check_invariants(Sequence(packet * 2));
            assert!(receipts.in_flight.is_empty(), "nothing is kept for what all have");
        }
        assert_eq!(receipts.report(), Some(Sequence(200)));
    }
}
