//! The receiving side of a packet stream: reordering, and what an acknowledgement says.

use std::collections::BTreeMap;

use super::{Ack, GAPS_MAX, Gap};
use crate::frames::Frames;
use crate::time::Instant;
use crate::wire::PacketNumber;

/// What [`Receiving::accept`] did with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// It was kept. It may or may not be the next in order.
    New,
    /// It had arrived before.
    Duplicate,
    /// It lies beyond the limit of this side, and was not kept.
    Ahead,
}

/// How far one member can read a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamReport {
    /// The prefix that it holds and that makes sense to it.
    pub prefix: u64,
    /// The prefix that it acted upon.
    pub read: u64,
    /// Whether it holds the next packet, and the packet is nonsense to it.
    pub nonsense: bool,
}

/// Reorders packets. Numbers start at 1.
#[derive(Debug)]
pub struct Receiving {
    /// The last packet that [`Self::pop`] took; every packet up to here was taken.
    prefix: u64,
    /// The packet after the prefix, if it arrived. Kept apart from `waiting`, because nearly all packets come in order:
    /// they need no tree.
    next: Option<Frames>,
    /// Packets that arrived out of order. Invariant: keys lie in `prefix+2 ..= prefix+reach`.
    waiting: BTreeMap<u64, Frames>,
    /// The highest number that is known to be sent.
    highest: u64,
    /// Packets are kept up to `prefix + reach`.
    reach: u64,
    unacknowledged: u32,
    ack_due: Option<Instant>,
}

impl Receiving {
    /// A receiving side that keeps packets at most `reach` beyond the prefix.
    #[must_use]
    pub fn new(reach: u64) -> Self {
        Self { prefix: 0, next: None, waiting: BTreeMap::new(), highest: 0, reach, unacknowledged: 0, ack_due: None }
    }

    /// Keeps packets at least `reach` beyond the prefix from now on.
    pub fn extend(&mut self, reach: u64) {
        self.reach = self.reach.max(reach);
    }

    /// Keeps a packet that arrived, unless it is a duplicate or too far ahead.
    pub fn accept(&mut self, number: PacketNumber, frames: Frames) -> Arrival {
        if self.has(number) {
            return Arrival::Duplicate;
        }
        let PacketNumber(number) = number;
        // The bound on memory: a peer may send any number.
        if number > self.prefix.saturating_add(self.reach) {
            return Arrival::Ahead;
        }
        self.highest = self.highest.max(number);
        if number == self.prefix + 1 {
            self.next = Some(frames);
        } else {
            self.waiting.insert(number, frames);
        }
        self.unacknowledged = self.unacknowledged.saturating_add(1);
        debug_assert!(self.highest > self.prefix, "a new packet lies beyond the prefix");
        Arrival::New
    }

    /// Whether a packet has arrived. Cheap, so that the caller can ask before it copies anything.
    #[must_use]
    pub fn has(&self, PacketNumber(number): PacketNumber) -> bool {
        match number.checked_sub(self.prefix) {
            None | Some(0) => true,
            Some(1) => self.next.is_some(),
            Some(_) => self.waiting.contains_key(&number),
        }
    }

    /// A packet that waits to be taken, if it arrived.
    #[must_use]
    pub fn peek(&self, PacketNumber(number): PacketNumber) -> Option<Frames> {
        debug_assert!(number > self.prefix, "a packet of the prefix is not held here");
        if number == self.prefix + 1 { self.next.clone() } else { self.waiting.get(&number).cloned() }
    }

    /// Notes the sender's report that packets up to `number` exist. Those that are missing become gaps.
    pub fn expect_up_to(&mut self, number: u64) {
        // Capped: a gap beyond the reach would make the sender retransmit what is not kept.
        self.highest = self.highest.max(number.min(self.prefix.saturating_add(self.reach)));
    }

    /// Takes the next packet in order, unless its number exceeds `up_to`.
    pub fn pop(&mut self, up_to: u64) -> Option<(PacketNumber, Frames)> {
        let next = self.prefix + 1;
        if next > up_to {
            return None;
        }
        let frames = self.next.take()?;
        debug_assert!(!self.waiting.contains_key(&next), "a packet is kept twice");
        self.prefix = next;
        // Without loss or reordering the tree is never touched.
        if !self.waiting.is_empty() {
            self.next = self.waiting.remove(&(next + 1));
        }
        self.highest = self.highest.max(next);
        Some((PacketNumber(next), frames))
    }

    /// Undoes the last [`Self::pop`], which returned this packet. It is read again later, or never.
    pub fn put_back(&mut self, PacketNumber(number): PacketNumber, frames: Frames) {
        debug_assert_eq!(number, self.prefix, "the packet taken last");
        debug_assert!(number > 0, "packets are numbered from 1");
        if let Some(next) = self.next.replace(frames) {
            let other = self.waiting.insert(number + 1, next);
            debug_assert!(other.is_none(), "a packet is kept twice");
        }
        self.prefix = number - 1;
    }

    /// The last packet that was taken, as were all before it.
    #[must_use]
    pub fn prefix(&self) -> u64 {
        self.prefix
    }

    /// The end of the prefix that is held, taken or waiting.
    #[must_use]
    pub fn held(&self) -> u64 {
        if self.next.is_none() {
            return self.prefix;
        }
        let follows = self.waiting.keys().zip(self.prefix + 2..).take_while(|&(&have, next)| have == next);
        self.prefix + 1 + follows.count() as u64
    }

    /// Missing packets up to `number`, ascending; the first [`GAPS_MAX`] gaps.
    #[must_use]
    pub fn gaps_up_to(&self, number: u64) -> Vec<Gap> {
        let mut gaps = Vec::new();
        let mut from = self.prefix + 1 + u64::from(self.next.is_some());
        for &have in self.waiting.keys().take_while(|&&n| n <= number) {
            if have > from {
                gaps.push(Gap { first: from, last: have - 1 });
                // Later gaps are named by later acks, when the first are filled.
                if gaps.len() == GAPS_MAX {
                    return gaps;
                }
            }
            from = have + 1;
        }
        if from <= number {
            gaps.push(Gap { first: from, last: number });
        }
        debug_assert!(gaps.is_sorted_by(|a, b| a.last + 1 < b.first), "two gaps touch");
        debug_assert!(gaps.len() <= GAPS_MAX, "an ack has too many gaps");
        gaps
    }

    /// The ack to send. The owner gives `limit`, because it knows how far packets are consumed.
    #[must_use]
    pub fn ack(&self, limit: u64) -> Ack {
        Ack { prefix: self.prefix, limit, gaps: self.gaps_up_to(self.highest) }
    }

    /// Whether a packet is missing, or waits to be taken.
    #[must_use]
    pub fn has_gap(&self) -> bool {
        self.highest > self.prefix
    }

    /// Whether the sender is known to have sent anything.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.highest > 0
    }

    /// Number of packets that arrived since the last ack.
    #[must_use]
    pub fn unacknowledged(&self) -> u32 {
        self.unacknowledged
    }

    /// Makes an ack due at `at`, or earlier if one is due already.
    pub fn ack_by(&mut self, at: Instant) {
        self.ack_due = Some(self.ack_due.map_or(at, |due| due.min(at)));
    }

    /// When an ack is due.
    #[must_use]
    #[inline]
    pub fn ack_due(&self) -> Option<Instant> {
        self.ack_due
    }

    /// Notes that an ack was sent.
    pub fn acknowledged(&mut self) {
        self.unacknowledged = 0;
        self.ack_due = None;
    }

    /// Number of packets that wait to be taken.
    #[must_use]
    pub fn waiting(&self) -> usize {
        usize::from(self.next.is_some()) + self.waiting.len()
    }

    /// Checks the invariants.
    ///
    /// # Panics
    /// If one is violated.
    pub fn check_invariants(&self) {
        let end = self.prefix.saturating_add(self.reach);
        let last = self.waiting.keys().next_back().copied().unwrap_or(self.prefix + u64::from(self.next.is_some()));
        assert!(self.waiting.keys().next().is_none_or(|first| *first >= self.prefix + 2), "a packet in order waits");
        assert!(last <= end, "a packet is kept beyond the reach");
        assert!(self.waiting() as u64 <= self.reach, "more packets wait than may");
        assert!(self.highest >= last, "a packet is here that is not known to exist");
        assert!(self.highest <= end, "a packet is expected beyond the reach");
        assert!(self.held() <= self.highest, "more is held than exists");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gaps(of: &[(u64, u64)]) -> Vec<Gap> {
        of.iter().map(|&(first, last)| Gap { first, last }).collect()
    }

    fn b(n: u64) -> Frames {
        Frames::from(n.to_le_bytes().to_vec())
    }

    #[test]
    fn orders_and_names_gaps() {
        let mut r = Receiving::new(100);
        for n in [2, 5, 1, 7] {
            assert_eq!(r.accept(PacketNumber(n), b(n)), Arrival::New);
        }
        assert_eq!(r.accept(PacketNumber(5), b(5)), Arrival::Duplicate);
        assert_eq!(r.pop(u64::MAX).map(|p| p.0.0), Some(1));
        assert_eq!(r.pop(u64::MAX).map(|p| p.0.0), Some(2));
        assert_eq!(r.pop(u64::MAX), None);
        assert_eq!(r.ack(9).gaps, gaps(&[(3, 4), (6, 6)]));
        assert_eq!(r.accept(PacketNumber(2), b(2)), Arrival::Duplicate);
        r.expect_up_to(9);
        assert_eq!(r.ack(9).gaps, gaps(&[(3, 4), (6, 6), (8, 9)]));
    }

    #[test]
    fn what_waits_behind_the_next_follows_it() {
        let mut r = Receiving::new(100);
        for n in [2, 3, 5] {
            assert_eq!(r.accept(PacketNumber(n), b(n)), Arrival::New);
        }
        assert_eq!(
            (
                r.held(),
                r.peek(PacketNumber(1)),
                r.peek(PacketNumber(3)),
                r.has(PacketNumber(1)),
                r.has(PacketNumber(3))
            ),
            (0, None, Some(b(3)), false, true)
        );
        assert_eq!(r.accept(PacketNumber(1), b(1)), Arrival::New);
        assert_eq!((r.held(), r.peek(PacketNumber(1)), r.waiting()), (3, Some(b(1)), 4));
        assert_eq!(r.gaps_up_to(9), gaps(&[(4, 4), (6, 9)]));
        assert_eq!(r.pop(u64::MAX).map(|p| p.0.0), Some(1));
        assert_eq!((r.held(), r.peek(PacketNumber(2)), r.waiting()), (3, Some(b(2)), 3));
        assert_eq!(r.accept(PacketNumber(2), b(2)), Arrival::Duplicate);
        assert_eq!((r.pop(1), r.pop(2).map(|p| p.0.0), r.pop(3).map(|p| p.0.0)), (None, Some(2), Some(3)));
        assert_eq!((r.pop(u64::MAX), r.held(), r.waiting()), (None, 3, 1));
        assert_eq!(r.accept(PacketNumber(4), b(4)), Arrival::New);
        assert_eq!((r.held(), r.has_gap()), (5, true));
    }

    #[test]
    fn keeps_nothing_beyond_its_reach() {
        let mut r = Receiving::new(4);
        assert_eq!(r.accept(PacketNumber(5), b(5)), Arrival::Ahead);
        assert_eq!(r.accept(PacketNumber(u64::MAX), b(5)), Arrival::Ahead);
        assert_eq!(r.accept(PacketNumber(4), b(4)), Arrival::New);
        assert_eq!(r.waiting(), 1);
    }

    /// Gaps beyond the first [`GAPS_MAX`] are in a later ack, so that no packet is given up.
    #[test]
    fn an_ack_names_the_first_gaps_and_the_others_later() {
        let mut r = Receiving::new(1000);
        for n in 1..=GAPS_MAX as u64 + 1 {
            r.accept(PacketNumber(2 * n), b(n));
        }
        let odd = |n: u64| Gap { first: 2 * n - 1, last: 2 * n - 1 };
        assert_eq!(r.ack(9).gaps, (1..=GAPS_MAX as u64).map(odd).collect::<Vec<_>>());
        r.accept(PacketNumber(1), b(1));
        assert_eq!(r.ack(9).gaps.last(), Some(&odd(GAPS_MAX as u64 + 1)));
    }
}
