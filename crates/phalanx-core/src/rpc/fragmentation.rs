//! Fragmentation of an outgoing message: which fragments were sent, and which need retransmission.

use super::buffer_pool::BufferPool;
use super::wire::{BEYOND_MAX, FragmentAck};

use crate::wire::PacketNumber;

/// A message cut into fragments of one length; the last may be shorter. A message without bytes has one, without bytes.
#[derive(Debug, Default)]
pub(super) struct OutgoingMessage {
    /// What is there of it.
    bytes: Vec<u8>,
    /// Of all of it.
    len: usize,
    fragment_bytes: usize,
    fragments: u32,
    /// Fragments below this may be sent.
    allowed: u32,
    /// The first that was never sent.
    fresh: u32,
    /// All below have arrived.
    prefix: u32,
    /// For each fragment from 0 up to `fresh`: [`ARRIVED`], [`LOST`], or the number of the packet that carried it last.
    sent_as: Vec<u64>,
    /// Fragments whose entry is [`LOST`].
    lost: u32,
    /// None of them lies below this.
    lost_from: u32,
    /// Fragments sent, neither arrived nor known to be lost.
    under_way: u32,
}

const ARRIVED: u64 = u64::MAX;
const LOST: u64 = 0;

/// Packets that may overtake one before it counts as lost (RFC 9002, section 6.1.1).
const REORDERING: u64 = 3;

/// The same for fragment `at` of a message whose `last` was sent: where fewer follow, so many (RFC 5827, early retransmit).
fn reordering(at: u32, last: Option<u32>) -> u64 {
    match last {
        Some(last) if at < last => u64::from(last - at).min(REORDERING),
        _ => REORDERING,
    }
}

/// Which of the packets that are missing in an ack are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Proof {
    /// Those that three others have overtaken, or as many as follow in the message.
    Reordered,
    /// All up to the greatest number seen: the driver has told of a loss, or the receiver was asked after they were sent.
    Seen,
}

/// What an ack changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Change {
    /// Fragments that are no longer under way, arrived or lost.
    pub(super) ended: u32,
    /// Of these, fragments that have arrived.
    pub(super) arrived: u32,
    /// Of these, fragments known to be lost.
    pub(super) lost: u32,
}

impl OutgoingMessage {
    /// Begins with another message, which the caller has put into [`Self::empty`] or [`Self::give`]. `allowed` fragments may be sent.
    pub(super) fn begin(&mut self, longest_piece: usize, allowed: u32) {
        self.begin_with(self.bytes.len(), longest_piece);
        self.allow(allowed);
    }

    /// Begins with a message of `len` bytes, the rest of which comes with [`Self::append`].
    pub(super) fn begin_with(&mut self, len: usize, longest_piece: usize) {
        debug_assert!(self.bytes.len() <= len, "more is there than the message has");
        self.fragment_bytes = fragment_bytes(longest_piece, len);
        self.bytes.reserve_exact(len - self.bytes.len());
        self.len = len;
        self.fragments = if len <= self.fragment_bytes {
            1
        } else {
            u32::try_from(len.div_ceil(self.fragment_bytes)).unwrap_or(u32::MAX)
        };
        (self.allowed, self.fresh, self.prefix) = (0, 0, 0);
        self.sent_as.clear();
        (self.lost, self.lost_from, self.under_way) = (0, 0, 0);
    }

    /// The next so many bytes of the message are with the caller, and may be sent as far as they make whole fragments. They come next.
    pub(super) fn announce(&mut self, piece_len: usize) {
        let there = self.bytes.len() + piece_len;
        debug_assert!(there <= self.len, "more is announced than the message has");
        let whole = there / self.fragment_bytes;
        self.allow(if there == self.len { self.fragments } else { u32::try_from(whole).unwrap_or(u32::MAX) });
    }

    /// More of the message is there, and may be sent.
    pub(super) fn append(&mut self, piece: &[u8]) {
        self.announce(piece.len());
        self.bytes.extend_from_slice(piece);
    }

    /// All of it may be sent.
    pub(super) fn is_allowed(&self) -> bool {
        self.allowed == self.fragments
    }

    /// Takes the bytes of a message over, before [`Self::begin`].
    pub(super) fn give(&mut self, bytes: Vec<u8>, buffer_pool: &mut BufferPool) {
        buffer_pool.keep(&mut self.bytes);
        self.bytes = bytes;
    }

    /// The bytes of the message, empty, to be filled before [`Self::begin`] with about `expected` bytes.
    pub(super) fn empty(&mut self, expected: usize, buffer_pool: &mut BufferPool) -> &mut Vec<u8> {
        buffer_pool.grow(&mut self.bytes, expected);
        self.bytes.clear();
        &mut self.bytes
    }

    /// Lets go of the message.
    pub(super) fn release(&mut self, buffer_pool: &mut BufferPool) {
        // With its length: what was written once need not be for whoever takes it next.
        buffer_pool.keep(&mut self.bytes);
        self.bytes.clear();
        self.len = 0;
        self.sent_as.clear();
        self.sent_as.shrink_to(SENT_AS_KEPT);
        (self.fragments, self.allowed, self.fresh, self.prefix) = (0, 0, 0, 0);
        (self.lost, self.lost_from, self.under_way) = (0, 0, 0);
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn fragment_bytes(&self) -> usize {
        self.fragment_bytes
    }

    pub(super) fn is_whole(&self) -> bool {
        self.fragments == 1
    }

    pub(super) fn fragment(&self, index: u32) -> &[u8] {
        debug_assert!(index < self.fragments, "a fragment lies in its message");
        let begin = (index as usize).saturating_mul(self.fragment_bytes).min(self.bytes.len());
        let end = begin.saturating_add(self.fragment_bytes).min(self.bytes.len());
        &self.bytes[begin..end]
    }

    /// Fragments under way.
    pub(super) fn under_way(&self) -> u32 {
        self.under_way
    }

    /// The first fragment under way.
    pub(super) fn first_under_way(&self) -> Option<u32> {
        let sent = self.sent_as.iter().zip(0..).skip(self.prefix as usize);
        sent.filter(|(number, _)| ![ARRIVED, LOST].contains(number)).map(|(_, at)| at).next()
    }

    /// Everything has arrived.
    pub(super) fn has_arrived(&self) -> bool {
        self.fragments > 0 && self.prefix == self.fragments
    }

    /// Whether any of it was ever sent.
    pub(super) fn was_sent(&self) -> bool {
        self.fresh > 0
    }

    /// Fragments that have not arrived.
    pub(super) fn left(&self) -> u32 {
        self.fragments - self.prefix
    }

    /// The next fragment to send: what was lost first.
    pub(super) fn next(&self) -> Option<u32> {
        if self.lost > 0 {
            return (self.lost_from..self.fresh).find(|&at| self.sent_as[at as usize] == LOST);
        }
        (self.fresh < self.allowed).then_some(self.fresh)
    }

    /// Fragment `index`, from [`Self::next`] or sent before, went out in packet `number`.
    pub(super) fn sent(&mut self, index: u32, PacketNumber(number): PacketNumber) {
        debug_assert!(number != LOST && number != ARRIVED, "a packet's number means something else");
        debug_assert!(index < self.fragments, "a fragment lies in its message");
        debug_assert!(index <= self.fresh, "fragments go out in order");
        if index == self.fresh {
            self.fresh += 1;
            self.sent_as.push(number);
            self.under_way += 1;
        } else if let Some(entry) = self.sent_as.get_mut(index as usize) {
            match *entry {
                ARRIVED => return,
                LOST => {
                    self.lost -= 1;
                    self.lost_from = index;
                    self.under_way += 1;
                }
                _ => {}
            }
            *entry = number;
        }
    }

    /// Whether fragment `index`, from [`Self::next`], was sent before.
    pub(super) fn is_retransmission(&self, index: u32) -> bool {
        index < self.fresh
    }

    /// More fragments may be sent.
    pub(super) fn allow(&mut self, limit: u32) {
        self.allowed = self.allowed.max(limit.min(self.fragments));
    }

    /// Everything has arrived; returns how many were under way.
    pub(super) fn complete(&mut self) -> u32 {
        let ended = self.under_way;
        self.prefix = self.fragments;
        self.fresh = self.fragments;
        self.lost = 0;
        self.under_way = 0;
        ended
    }

    /// Takes an ack into account, which proves as much as is said.
    pub(super) fn take(&mut self, ack: &FragmentAck, proves: Proof) -> Change {
        let mut change = Change::default();
        let first = ack.prefix.saturating_add(1);
        let has = |at: u32| {
            let bit = at - first;
            ack.beyond.get(bit as usize / 8).is_some_and(|byte| byte & 1 << (bit % 8) != 0)
        };
        let covered = u32::try_from(ack.beyond.len() * 8).unwrap_or(u32::MAX);
        let end = first.saturating_add(covered);
        if ack.prefix > self.fresh || (self.fresh.max(first)..end).any(has) {
            // It says that it has what was never sent: nonsense changes nothing.
            return change;
        }
        self.allow(ack.limit);
        // What lies behind bits that are as many as there can be is not told.
        let told = if ack.beyond.len() < BEYOND_MAX { self.fresh } else { end.min(self.fresh) };
        let last = if self.fresh == self.fragments { self.fragments.checked_sub(1) } else { None };
        let overtaken_by = |at| match proves {
            Proof::Reordered => reordering(at, last),
            Proof::Seen => 0,
        };
        for at in self.prefix..told.max(ack.prefix) {
            let arrived = at < ack.prefix || at >= first && has(at);
            let entry = &mut self.sent_as[at as usize];
            match *entry {
                ARRIVED => {}
                LOST if arrived => {
                    *entry = ARRIVED;
                    self.lost -= 1;
                }
                LOST => {}
                _ if arrived => {
                    *entry = ARRIVED;
                    change.ended += 1;
                    change.arrived += 1;
                }
                number if ack.seen.0 >= number.saturating_add(overtaken_by(at)) => {
                    *entry = LOST;
                    self.lost += 1;
                    change.ended += 1;
                    change.lost += 1;
                }
                _ => {}
            }
        }
        while self.sent_as.get(self.prefix as usize) == Some(&ARRIVED) {
            self.prefix += 1;
        }
        self.lost_from = self.prefix;
        debug_assert_eq!(change.ended, change.arrived + change.lost, "a fragment ends as arrived or as lost");
        debug_assert!(change.ended <= self.under_way, "more ended than was under way");
        self.under_way -= change.ended;
        change
    }

    pub(super) fn check_invariants(&self) {
        assert!(self.prefix <= self.fresh, "more has arrived than was sent");
        assert!(self.fresh <= self.fragments, "more was sent than there is");
        assert!(self.allowed <= self.fragments, "more is allowed than there is");
        assert!(self.bytes.len() <= self.len || self.fragments == 0, "more is there than the message has");
        let count = |what: fn(u64) -> bool| self.sent_as.iter().filter(|&&sent| what(sent)).count() as u32;
        if self.prefix < self.fragments {
            assert_eq!(self.sent_as.len(), self.fresh as usize, "each fragment sent has an entry");
            assert_eq!(self.lost, count(|sent| sent == LOST), "lost fragments are miscounted");
            let under_way = count(|sent| sent != LOST && sent != ARRIVED);
            assert_eq!(self.under_way, under_way, "fragments under way are miscounted");
            let below = &self.sent_as[..self.prefix as usize];
            assert!(below.iter().all(|sent| *sent == ARRIVED), "a fragment of the prefix has not arrived");
            let unlost = &self.sent_as[..self.lost_from as usize];
            assert!(unlost.iter().all(|sent| *sent != LOST), "a lost fragment would never be found");
        }
    }
}

/// How long the fragments of a message of `len` bytes are, where packets hold `longest_piece` of it. Both sides cut alike. While
/// one is copied at its receiver the next is copied at its sender: few that are long leave each waiting for the other.
#[inline]
pub(super) fn fragment_bytes(longest_piece: usize, len: usize) -> usize {
    let most = if len > FEW_BYTES { usize::MAX } else { FRAGMENT_BYTES };
    longest_piece.clamp(1, most)
}

/// Messages up to this are cut in fragments of [`FRAGMENT_BYTES`] at most.
const FEW_BYTES: usize = 128 << 10;
const FRAGMENT_BYTES: usize = 32 << 10;
const _: () = assert!(FRAGMENT_BYTES <= FEW_BYTES, "a message that is cut short has more fragments than one");

/// Entries for so many fragments are kept for the next message.
const SENT_AS_KEPT: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn message(len: usize, fragment: usize, allowed: u32) -> OutgoingMessage {
        let mut message = OutgoingMessage::default();
        message.empty(0, &mut BufferPool::default()).resize(len, 7);
        message.begin(fragment, allowed);
        message
    }

    /// `has`: what is there beyond the prefix.
    fn ack(seen: u64, prefix: u32, has: &[u32]) -> FragmentAck {
        let mut beyond = vec![0; has.iter().map(|at| (at - prefix - 1) as usize / 8 + 1).max().unwrap_or(0)];
        for at in has.iter().map(|at| at - prefix - 1) {
            beyond[at as usize / 8] |= 1 << (at % 8);
        }
        FragmentAck { seen: PacketNumber(seen), limit: u32::MAX, prefix, beyond }
    }

    #[test]
    fn a_message_without_bytes_is_one_fragment() {
        let mut message = message(0, 10, 9);
        assert_eq!((message.fragments, message.next()), (1, Some(0)));
        message.sent(0, PacketNumber(1));
        assert_eq!((message.next(), message.under_way()), (None, 1));
        message.take(&ack(1, 1, &[]), Proof::Reordered);
        assert!(message.has_arrived());
    }

    #[test]
    fn every_hole_is_sent_again_at_once() {
        let mut message = message(95, 10, 10);
        for number in 1..=10 {
            message.sent(message.next().expect("allowed"), PacketNumber(number));
        }
        // 1 and 4 arrived, and everything from 6 on.
        let change = message.take(&ack(10, 0, &[1, 4, 6, 7, 8, 9]), Proof::Reordered);
        assert_eq!((change.arrived, change.lost), (6, 4));
        message.check_invariants();
        let mut again = Vec::new();
        while let Some(index) = message.next() {
            again.push(index);
            message.sent(index, PacketNumber(20 + u64::from(index)));
        }
        assert_eq!(again, [0, 2, 3, 5]);
        // The same ack again proves nothing of what was sent since.
        assert_eq!(message.take(&ack(10, 0, &[1, 4, 6, 7, 8, 9]), Proof::Seen), Change::default());
        message.check_invariants();
    }

    #[test]
    fn what_may_still_come_is_not_lost() {
        let mut message = message(50, 10, 4);
        for number in 1..=4 {
            message.sent(message.next().expect("allowed"), PacketNumber(number));
        }
        assert_eq!(
            message.take(&ack(4, 0, &[3]), Proof::Reordered).lost,
            1,
            "only the first is three packets late, and more are to follow"
        );
        assert_eq!(message.take(&ack(4, 0, &[3]), Proof::Seen).lost, 2);
    }

    #[test]
    fn where_few_follow_few_overtake() {
        let sent = || {
            let mut message = message(40, 10, 4);
            for number in 1..=4 {
                message.sent(message.next().expect("allowed"), PacketNumber(number));
            }
            message
        };
        for (prefix, seen, has, lost) in [
            (0, 4, &[3][..], 3),
            (1, 4, &[3], 2),
            (2, 4, &[3], 1),
            // What is the last, or seen before the last, may still come.
            (3, 4, &[], 0),
            (2, 3, &[], 0),
            (0, 3, &[2], 0),
            (1, 3, &[2], 0),
        ] {
            let mut message = sent();
            assert_eq!(message.take(&ack(seen, prefix, has), Proof::Reordered).lost, lost, "{prefix} {has:?}");
            message.check_invariants();
        }
    }

    #[test]
    fn nonsense_changes_nothing() {
        let mut message = message(40, 10, 2);
        message.sent(0, PacketNumber(1));
        assert_eq!(message.take(&ack(9, 3, &[]), Proof::Seen), Change::default());
        assert_eq!(message.take(&ack(9, 0, &[2]), Proof::Seen), Change::default());
        message.check_invariants();
    }

    /// A caller that gives its request pays for no copy, and for no memory but that of the request.
    #[test]
    fn a_message_that_is_given_stays_where_it_lies() {
        let bytes = vec![7; 1_000];
        let (lies, room) = (bytes.as_ptr(), bytes.capacity());
        let mut message = OutgoingMessage::default();
        message.give(bytes, &mut BufferPool::default());
        message.begin(10, u32::MAX);
        assert_eq!((message.bytes.as_ptr(), message.bytes.capacity()), (lies, room));
    }

    #[test]
    fn only_what_was_sent_before_goes_again() {
        let mut message = message(40, 10, 4);
        assert!(!message.is_retransmission(message.next().expect("allowed")));
        for number in 1..=4 {
            message.sent(message.next().expect("allowed"), PacketNumber(number));
        }
        message.take(&ack(4, 0, &[1, 2, 3]), Proof::Reordered);
        let lost = message.next().expect("the first is lost");
        assert_eq!((lost, message.is_retransmission(lost)), (0, true));
    }
}
