//! Fragmentation of an outgoing message: which fragments were sent, and which need retransmission.

use super::buffer_pool::BufferPool;
use super::wire::{BEYOND_MAX, FragmentAck};

use crate::wire::PacketNumber;

/// A message cut into fragments of equal length, of which the last may be shorter. An empty message has one empty
/// fragment.
#[derive(Debug, Default)]
pub(super) struct OutgoingMessage {
    /// The bytes that are available so far.
    bytes: Vec<u8>,
    /// Length of the whole message.
    len: usize,
    fragment_bytes: usize,
    fragments: u32,
    /// Fragments with a lower index may be sent.
    allowed: u32,
    /// Index of the first fragment that was never sent.
    fresh: u32,
    /// All fragments with a lower index have arrived.
    prefix: u32,
    /// For each fragment from 0 up to `fresh`: [`ARRIVED`], [`LOST`], or the number of the packet that carried it last.
    sent_as: Vec<u64>,
    /// Fragments whose entry is [`LOST`].
    lost: u32,
    /// No lost fragment has a lower index.
    lost_from: u32,
    /// Fragments sent that have neither arrived nor are known to be lost.
    under_way: u32,
}

const ARRIVED: u64 = u64::MAX;
const LOST: u64 = 0;

/// Packets that may overtake one before it counts as lost (RFC 9002, section 6.1.1).
const REORDERING: u64 = 3;

/// The same threshold for fragment `at` of a message whose `last` was sent. Fewer than three may follow it: then as
/// many as follow suffice, or the loss of the last fragments would only show by a timer (RFC 5827, early retransmit).
fn reordering(at: u32, last: Option<u32>) -> u64 {
    match last {
        Some(last) if at < last => u64::from(last - at).min(REORDERING),
        _ => REORDERING,
    }
}

/// The conclusion that an ack allows about packets that it does not contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Proof {
    /// Those are lost that three later ones have overtaken, or as many as follow in the message.
    Reordered,
    /// All up to the greatest number seen are lost: the driver reported a loss, or the receiver was probed after they
    /// were sent.
    Seen,
}

/// Effects of an ack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Change {
    /// Fragments that stopped being under way: they arrived or are lost.
    pub(super) ended: u32,
    /// Fragments among these that arrived.
    pub(super) arrived: u32,
    /// Fragments among these that are lost.
    pub(super) lost: u32,
}

impl OutgoingMessage {
    /// Starts another message, which the caller has put into [`Self::empty`] or [`Self::give`]. `allowed` fragments may
    /// be sent.
    pub(super) fn begin(&mut self, longest_piece: usize, allowed: u32) {
        self.begin_with(self.bytes.len(), longest_piece);
        self.allow(allowed);
    }

    /// Starts a message of `len` bytes. The rest of it comes with [`Self::append`].
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

    /// Announces that the next `piece_len` bytes are with the caller and come next. Whole fragments of them may be sent
    /// already.
    pub(super) fn announce(&mut self, piece_len: usize) {
        let there = self.bytes.len() + piece_len;
        debug_assert!(there <= self.len, "more is announced than the message has");
        let whole = there / self.fragment_bytes;
        self.allow(if there == self.len { self.fragments } else { u32::try_from(whole).unwrap_or(u32::MAX) });
    }

    /// Appends more of the message, which may then be sent.
    pub(super) fn append(&mut self, piece: &[u8]) {
        self.announce(piece.len());
        self.bytes.extend_from_slice(piece);
    }

    /// Whether all of it may be sent.
    pub(super) fn is_allowed(&self) -> bool {
        self.allowed == self.fragments
    }

    /// Takes over the bytes of a message, before [`Self::begin`].
    pub(super) fn give(&mut self, bytes: Vec<u8>, buffer_pool: &mut BufferPool) {
        buffer_pool.keep(&mut self.bytes);
        self.bytes = bytes;
    }

    /// The message's buffer, empty, to be filled with about `expected` bytes before [`Self::begin`].
    pub(super) fn empty(&mut self, expected: usize, buffer_pool: &mut BufferPool) -> &mut Vec<u8> {
        buffer_pool.grow(&mut self.bytes, expected);
        self.bytes.clear();
        &mut self.bytes
    }

    /// Releases the message.
    pub(super) fn release(&mut self, buffer_pool: &mut BufferPool) {
        // The buffer is kept with its length: its next user need not zero the bytes written once.
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

    /// Number of fragments under way.
    pub(super) fn under_way(&self) -> u32 {
        self.under_way
    }

    /// Index of the first fragment under way.
    pub(super) fn first_under_way(&self) -> Option<u32> {
        let sent = self.sent_as.iter().zip(0..).skip(self.prefix as usize);
        sent.filter(|(number, _)| ![ARRIVED, LOST].contains(number)).map(|(_, at)| at).next()
    }

    /// Whether everything has arrived.
    pub(super) fn has_arrived(&self) -> bool {
        self.fragments > 0 && self.prefix == self.fragments
    }

    /// Whether any of it was ever sent.
    pub(super) fn was_sent(&self) -> bool {
        self.fresh > 0
    }

    /// Number of fragments from the first missing one to the end.
    pub(super) fn left(&self) -> u32 {
        self.fragments - self.prefix
    }

    /// Index of the next fragment to send. Lost ones come first.
    pub(super) fn next(&self) -> Option<u32> {
        if self.lost > 0 {
            return (self.lost_from..self.fresh).find(|&at| self.sent_as[at as usize] == LOST);
        }
        (self.fresh < self.allowed).then_some(self.fresh)
    }

    /// Notes that fragment `index` went out in packet `number`.
    pub(super) fn sent(&mut self, index: u32, PacketNumber(number): PacketNumber) {
        debug_assert!(number != LOST && number != ARRIVED, "a packet number equals a marker");
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

    /// Whether fragment `index` was sent before.
    pub(super) fn is_retransmission(&self, index: u32) -> bool {
        index < self.fresh
    }

    /// Lets fragments below `limit` be sent.
    pub(super) fn allow(&mut self, limit: u32) {
        self.allowed = self.allowed.max(limit.min(self.fragments));
    }

    /// Marks everything as arrived, and returns how many fragments were under way.
    pub(super) fn complete(&mut self) -> u32 {
        let ended = self.under_way;
        self.prefix = self.fragments;
        self.fresh = self.fragments;
        self.lost = 0;
        self.under_way = 0;
        ended
    }

    /// Applies an ack. `proves` says what it proves about missing packets.
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
            // It acknowledges fragments that were never sent. Such an ack changes nothing.
            return change;
        }
        self.allow(ack.limit);
        // A bitmap of maximum length says nothing about what lies behind it.
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
        let count = |what: fn(u64) -> bool| {
            u32::try_from(self.sent_as.iter().filter(|&&sent| what(sent)).count()).unwrap_or(u32::MAX)
        };
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

/// Length of the fragments of a message of `len` bytes, where packets hold `longest_piece` of it. Both sides compute
/// the same.
///
/// A receiver copies one fragment while its sender copies the next. A message in few long fragments would leave each of
/// them waiting for the other.
#[inline]
pub(super) fn fragment_bytes(longest_piece: usize, len: usize) -> usize {
    let most = if len > FEW_BYTES { usize::MAX } else { FRAGMENT_BYTES };
    longest_piece.clamp(1, most)
}

/// Messages up to this length are cut into fragments of at most [`FRAGMENT_BYTES`].
const FEW_BYTES: usize = 128 << 10;
const FRAGMENT_BYTES: usize = 32 << 10;
const _: () = assert!(FRAGMENT_BYTES <= FEW_BYTES, "a message that is cut short has more fragments than one");

/// Number of entries whose memory is kept for the next message.
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

    /// `has`: the fragments acknowledged beyond the prefix.
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
        // 1 and 4 have arrived, and everything from 6 on.
        let change = message.take(&ack(10, 0, &[1, 4, 6, 7, 8, 9]), Proof::Reordered);
        assert_eq!((change.arrived, change.lost), (6, 4));
        message.check_invariants();
        let mut again = Vec::new();
        while let Some(index) = message.next() {
            again.push(index);
            message.sent(index, PacketNumber(20 + u64::from(index)));
        }
        assert_eq!(again, [0, 2, 3, 5]);
        // The same ack proves nothing about what was sent since.
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
            // The last fragment, and one seen before it, may still come.
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

    /// A caller that gives its request away pays for no copy, and for no memory but the request's.
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
