//! Receipts: how far this member's messages are stable. Every member of the view has such a message, and all that its
//! delivery rests on, so no survivor can discard it.
//!
//! Acks count packets, and the sender counts messages. One entry for each packet in flight in which a
//! message ends relates the two. A causal message or an abcast also rests on what its sender had delivered: survivors
//! that lack a part of that discard the message, although they hold it. The members whose messages those are announce
//! how far they are stable.

use std::collections::VecDeque;

use crate::id::{Rank, Sequence};
use crate::wire::PacketNumber;

/// Bound on the entries of [`Receipts::past`], for each member of the view. Only while one member's stream reaches some
/// members and not others, and ours reaches all, do many come together.
const PASTS_PER_MEMBER_MAX: usize = 64;

#[derive(Debug)]
pub(super) struct Receipts {
    /// Packets that some member may lack, ascending, each with the last message that ended by it.
    in_flight: VecDeque<Ending>,
    /// What our messages rest on and what may not be stable, ascending by our message.
    past: VecDeque<Past>,
    past_max: usize,
    /// The last message that ends in a packet.
    sent: Sequence,
    /// The last message that every member has.
    held: Sequence,
    /// The last message that is stable, and the last that was reported so.
    stable: Sequence,
    reported: Sequence,
}

#[derive(Clone, Copy, Debug)]
struct Ending {
    packet: u64,
    seq: Sequence,
}

/// Our message `seq` and later ones rest on the first `count` messages of a member.
#[derive(Clone, Copy, Debug)]
struct Past {
    seq: Sequence,
    rank: Rank,
    count: u64,
}

impl Receipts {
    /// None so far, in a view of so many members.
    pub(super) fn new(members: usize) -> Self {
        let past_max = members * PASTS_PER_MEMBER_MAX;
        let none = Sequence::NONE;
        let (in_flight, past) = (VecDeque::new(), VecDeque::new());
        Self { in_flight, past, past_max, sent: none, held: none, stable: none, reported: none }
    }

    /// Notes that packet `number` is sent, and that messages up to `seq` end in it or before.
    pub(super) fn sent(&mut self, number: PacketNumber, seq: Sequence) {
        debug_assert!(seq >= self.sent, "the number of messages sent fell");
        // A packet without the end of a message, or one of orders alone, gives no receipt.
        if seq > self.sent {
            self.sent = seq;
            self.in_flight.push_back(Ending { packet: number.0, seq });
        }
    }

    /// Notes that our message `seq` and those after it rest on the first `count` messages of `rank`.
    pub(super) fn rests_on(&mut self, seq: Sequence, rank: Rank, count: u64) {
        debug_assert!(seq > self.sent, "a message that was sent has its past");
        if self.past.len() == self.past_max {
            self.merge_past();
        }
        self.past.push_back(Past { seq, rank, count });
    }

    /// Leaves one entry for each member. Receipts come later by that, and never too early.
    fn merge_past(&mut self) {
        let mut merged: Vec<Past> = Vec::new();
        for past in self.past.drain(..) {
            match merged.iter_mut().find(|other| other.rank == past.rank) {
                Some(first) => first.count = first.count.max(past.count),
                None => merged.push(past),
            }
        }
        self.past.extend(merged);
    }

    /// Notes that every member has our packets up to `packet`. `stable`: how many messages of a member are stable.
    #[inline]
    pub(super) fn acknowledged(&mut self, packet: u64, stable: impl Fn(Rank) -> u64) {
        while let Some(ending) = self.in_flight.front().copied().filter(|ending| ending.packet <= packet) {
            self.in_flight.pop_front();
            self.held = ending.seq;
        }
        while self.past.front().is_some_and(|past| stable(past.rank) >= past.count) {
            self.past.pop_front();
        }
        let rests = self.past.front().map_or(self.held, |past| Sequence(past.seq.0 - 1));
        self.stable = self.stable.max(self.held.min(rests));
    }

    /// Notes that the view ended, and that every survivor has all our packets.
    pub(super) fn ended(&mut self) {
        self.in_flight.clear();
        self.past.clear();
        (self.held, self.stable) = (self.sent, self.sent);
    }

    /// The last message that is stable, if it was not reported yet.
    #[inline]
    pub(super) fn report(&mut self) -> Option<Sequence> {
        let before = std::mem::replace(&mut self.reported, self.stable);
        (self.stable > before).then_some(self.stable)
    }

    /// Checks the invariants. `sent`: the number of messages packed to their end.
    pub(super) fn check_invariants(&self, sent: Sequence) {
        assert!(self.reported <= self.stable && self.sent <= sent, "a receipt for a message that was not sent");
        assert!(self.stable <= self.held, "a message is stable that some member lacks");
        let last = self.in_flight.back().map_or(self.held, |ending| ending.seq);
        assert_eq!(last, self.sent, "a message that ends in a packet has no receipt coming");
        let ascending = |(a, b): (&Ending, &Ending)| a.packet < b.packet && a.seq < b.seq;
        assert!(self.in_flight.iter().zip(self.in_flight.iter().skip(1)).all(ascending), "receipts are out of order");
        assert!(self.past.iter().is_sorted_by_key(|past| past.seq), "the past of our messages is out of order");
        assert!(self.past.len() <= self.past_max, "the past of our messages exceeds its bound");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_stable_with_the_packet_in_which_it_ends() {
        let mut receipts = Receipts::new(3);
        receipts.sent(PacketNumber(1), Sequence(3));
        receipts.sent(PacketNumber(2), Sequence(3));
        receipts.sent(PacketNumber(3), Sequence(4));
        receipts.sent(PacketNumber(4), Sequence(9));
        receipts.check_invariants(Sequence(9));
        let mut report = |packet| {
            receipts.acknowledged(packet, |_| 0);
            receipts.report()
        };
        assert_eq!([report(0), report(2), report(2), report(3)], [None, Some(Sequence(3)), None, Some(Sequence(4))]);
        receipts.ended();
        assert_eq!((receipts.report(), receipts.report()), (Some(Sequence(9)), None), "once");
        receipts.check_invariants(Sequence(9));
    }

    /// Outside the primary partition nothing is reported, and acknowledgements still come.
    #[test]
    fn what_became_stable_meanwhile_is_reported_together() {
        let mut receipts = Receipts::new(3);
        for packet in 1..=100 {
            receipts.sent(PacketNumber(packet), Sequence(packet * 2));
            receipts.acknowledged(packet, |_| 0);
            receipts.check_invariants(Sequence(packet * 2));
            assert!(receipts.in_flight.is_empty(), "nothing is kept for what all have");
        }
        assert_eq!(receipts.report(), Some(Sequence(200)));
    }

    #[test]
    fn a_message_and_those_after_it_wait_for_what_it_rests_on() {
        let mut receipts = Receipts::new(3);
        receipts.rests_on(Sequence(2), Rank(1), 7);
        receipts.sent(PacketNumber(1), Sequence(3));
        receipts.acknowledged(1, |_| 6);
        assert_eq!(receipts.report(), Some(Sequence(1)), "the first rests on nothing");
        receipts.acknowledged(1, |_| 7);
        assert_eq!(receipts.report(), Some(Sequence(3)));
        assert!(receipts.past.is_empty(), "nothing is kept for what is stable");
    }

    #[test]
    fn a_past_that_grows_long_is_merged_and_gives_no_receipt_early() {
        let mut receipts = Receipts::new(2);
        let many = 10 * PASTS_PER_MEMBER_MAX as u64;
        for seq in 1..=many {
            receipts.rests_on(Sequence(seq), Rank(1), seq);
            receipts.sent(PacketNumber(seq), Sequence(seq));
            receipts.check_invariants(Sequence(seq));
        }
        for stable in 0..=many {
            receipts.acknowledged(many, |_| stable);
            receipts.check_invariants(Sequence(many));
            assert!(receipts.stable.0 <= stable);
        }
        assert_eq!(receipts.report(), Some(Sequence(many)));
    }
}
