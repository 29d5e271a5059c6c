//! Reassembly of an incoming message from its fragments.

use std::ops::Range;

use super::buffer_pool::BufferPool;
use super::fragmentation::fragment_bytes;
use super::wire::{BEYOND_BITS, FragmentPosition};

/// A message of several fragments, of which some have arrived.
#[derive(Debug, Default)]
pub(super) struct Reassembly {
    /// At least as long as the message. Bytes behind it belong to earlier messages.
    bytes: Vec<u8>,
    len: usize,
    fragment_bytes: usize,
    fragments: u32,
    /// One bit for each fragment, set when it has arrived.
    have: Vec<u64>,
    count: u32,
    /// All fragments with a lower index have arrived.
    prefix: u32,
    /// One past the highest index that has arrived.
    highest: u32,
    /// The sender may send fragments with a lower index.
    pub(super) limit: u32,
    /// The fragment that was last given a place and has not arrived since.
    placed: Option<u32>,
    /// Fragments received since the last ack.
    pub(super) unacknowledged: u32,
}

/// The outcome for one fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FragmentArrival {
    New,
    Duplicate,
    /// It does not fit the message: nothing changed.
    Nonsense,
}

/// The readable part of a packet.
pub(super) struct Clear<'a> {
    /// Its frames: all of them, or the beginning.
    pub(super) frames: &'a [u8],
    /// Number of further bytes that lie at their place already, see [`Reassembly::place`].
    pub(super) placed: usize,
}

impl<'a> Clear<'a> {
    pub(super) fn all(frames: &'a [u8]) -> Self {
        Self { frames, placed: 0 }
    }
}

impl Reassembly {
    /// Starts a message of this length, of which the sender may send `limit` fragments.
    pub(super) fn begin(&mut self, message_len: usize, longest_piece: usize, limit: u32, buffer_pool: &mut BufferPool) {
        self.fragment_bytes = fragment_bytes(longest_piece, message_len);
        self.fragments = u32::try_from(message_len.div_ceil(self.fragment_bytes)).unwrap_or(u32::MAX).max(1);
        self.len = message_len;
        buffer_pool.lengthen(&mut self.bytes, message_len);
        self.have.clear();
        self.have.resize((self.fragments as usize).div_ceil(64), 0);
        (self.count, self.prefix, self.highest, self.unacknowledged, self.placed) = (0, 0, 0, 0, None);
        self.limit = limit.min(self.fragments);
        debug_assert!(self.bytes.len() >= self.len, "a fragment would find no place");
    }

    /// Whether a message was started and not released.
    pub(super) fn is_begun(&self) -> bool {
        self.fragments > 0
    }

    /// Releases the message.
    pub(super) fn release(&mut self, buffer_pool: &mut BufferPool) {
        buffer_pool.keep(&mut self.bytes);
        (self.len, self.placed) = (0, None);
        self.have.clear();
        self.have.shrink_to(HAVE_KEPT);
        (self.fragments, self.count, self.prefix, self.highest, self.limit, self.unacknowledged) = (0, 0, 0, 0, 0, 0);
    }

    /// Takes a fragment. `bytes` is its beginning; `placed` further bytes lie where [`Self::place`] said, and then
    /// `bytes` lie there too.
    pub(super) fn accept(&mut self, part: FragmentPosition, bytes: &[u8], placed: usize) -> FragmentArrival {
        let index = part.index;
        let expected = self.placed.take();
        let Some(range) = self.range(part, bytes.len() + placed) else { return FragmentArrival::Nonsense };
        // The bytes at the place belong to another fragment.
        if placed > 0 && expected != Some(index) {
            return FragmentArrival::Nonsense;
        }
        if self.has(index) {
            return FragmentArrival::Duplicate;
        }
        self.have[index as usize / 64] |= 1 << (index % 64);
        if placed == 0 {
            self.bytes[range].copy_from_slice(bytes);
        }
        self.count += 1;
        self.unacknowledged += 1;
        self.highest = self.highest.max(index + 1);
        while self.prefix < self.fragments && self.has(self.prefix) {
            self.prefix += 1;
        }
        debug_assert!(self.prefix <= self.count, "a fragment of the prefix is missing");
        debug_assert!(self.count <= self.highest, "a fragment counts twice");
        FragmentArrival::New
    }

    /// The place for a fragment of `len` bytes, unless it has arrived. Bytes put there do not count before
    /// [`Self::accept`]: a packet that turns out to be forged changes nothing.
    pub(super) fn place(&mut self, part: FragmentPosition, len: usize) -> Option<&mut [u8]> {
        let range = self.range(part, len)?;
        if self.has(part.index) {
            return None;
        }
        self.placed = Some(part.index);
        Some(&mut self.bytes[range])
    }

    /// Where a fragment lies. `None` if this message has no fragment of that length.
    #[inline]
    fn range(&self, part: FragmentPosition, len: usize) -> Option<Range<usize>> {
        if part.message_len != self.len as u64 || part.index >= self.fragments {
            return None;
        }
        let begin = part.index as usize * self.fragment_bytes;
        let end = (begin + self.fragment_bytes).min(self.len);
        (len == end - begin).then_some(begin..end)
    }

    /// Whether the sender of an incomplete message should get an ack after fragment `index`: after every few fragments,
    /// and after the last. No later packet would reveal a gap before the last.
    pub(super) fn is_to_be_told(&self, index: u32) -> bool {
        self.unacknowledged >= ACK_EVERY_PACKETS || index + 1 == self.fragments
    }

    pub(super) fn check_invariants(&self) {
        assert!(self.prefix <= self.count, "a fragment of the prefix is missing");
        assert!(self.count <= self.highest, "a fragment counts twice");
        assert!(self.highest <= self.fragments, "a fragment lies outside its message");
        assert!(self.limit <= self.fragments, "more fragments are allowed than the message has");
        assert!(self.placed.is_none_or(|at| at < self.fragments), "a fragment has a place outside its message");
        assert!(self.bytes.len() >= self.len, "a fragment would find no place");
        let there: u32 = self.have.iter().map(|bits| bits.count_ones()).sum();
        assert_eq!(there, self.count, "fragments that are there are miscounted");
    }

    fn has(&self, index: u32) -> bool {
        self.have[index as usize / 64] & 1 << (index % 64) != 0
    }

    pub(super) fn is_complete(&self) -> bool {
        self.fragments > 0 && self.count == self.fragments
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// The message's buffer, for a caller that may keep it and leave another in its place, before [`Self::release`].
    pub(super) fn bytes_mut(&mut self) -> &mut Vec<u8> {
        self.bytes.truncate(self.len);
        &mut self.bytes
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn fragments(&self) -> u32 {
        self.fragments
    }

    pub(super) fn count(&self) -> u32 {
        self.count
    }

    pub(super) fn prefix(&self) -> u32 {
        self.prefix
    }

    /// One past the highest index that has arrived.
    pub(super) fn highest(&self) -> u32 {
        self.highest
    }

    /// Whether a fragment is missing below one that has arrived.
    pub(super) fn has_gap(&self) -> bool {
        self.prefix < self.highest
    }

    /// The bitmap of fragments behind the first missing one, in the form of [`super::wire::FragmentAck::beyond`].
    pub(super) fn beyond(&self) -> Vec<u8> {
        let first = self.prefix + 1;
        let bits = self.highest.saturating_sub(first).min(BEYOND_BITS);
        let mut beyond = vec![0_u8; (bits as usize).div_ceil(8)];
        for at in (0..bits).filter(|at| self.has(first + at)) {
            beyond[at as usize / 8] |= 1 << (at % 8);
        }
        beyond
    }
}

/// An ack is due at the end of an iteration in which this many fragments arrived.
const ACK_EVERY_PACKETS: u32 = 2;
/// Words of 64 bits whose memory is kept for the next message.
const HAVE_KEPT: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fragments_in_any_order_make_the_message() {
        let text: Vec<u8> = (0..95).collect();
        let mut message = Reassembly::default();
        message.begin(95, 10, 4, &mut BufferPool::default());
        for index in [3_u32, 1, 9, 0, 2, 8, 4, 7, 5] {
            let begin = index as usize * 10;
            let piece = &text[begin..(begin + 10).min(95)];
            let part = FragmentPosition { message_len: 95, index };
            assert_eq!(message.accept(part, piece, 0), FragmentArrival::New);
            assert_eq!(message.accept(part, piece, 0), FragmentArrival::Duplicate);
            assert!(!message.is_complete());
        }
        assert_eq!((message.prefix(), message.beyond()), (6, vec![0b111]));
        assert_eq!(
            message.accept(FragmentPosition { message_len: 95, index: 6 }, &text[60..70], 0),
            FragmentArrival::New
        );
        assert!(message.is_complete() && !message.has_gap());
        assert_eq!(message.bytes(), text);
    }

    #[test]
    fn what_was_put_in_its_place_counts_when_it_has_come() {
        let mut message = Reassembly::default();
        message.begin(25, 10, 3, &mut BufferPool::default());
        let part = |index| FragmentPosition { message_len: 25, index };
        for (index, len) in [(0, 9), (2, 10), (3, 5)] {
            assert!(message.place(part(index), len).is_none());
        }
        message.place(part(1), 10).expect("there is room").fill(1);
        assert_eq!(message.count(), 0);
        // A place holds for one fragment and one packet: neither another fragment nor the same one again may use it.
        assert_eq!(message.accept(part(0), &[1; 4], 6), FragmentArrival::Nonsense);
        assert_eq!(message.accept(part(1), &[1; 4], 6), FragmentArrival::Nonsense);
        message.place(part(1), 10).expect("there is room").fill(2);
        assert_eq!(message.accept(part(1), &[2; 4], 6), FragmentArrival::New);
        assert!(message.place(part(1), 10).is_none(), "it is there");
        // A place that was not used is given away again.
        message.place(part(2), 5).expect("there is room").fill(9);
        assert_eq!(message.accept(part(2), &[3; 5], 0), FragmentArrival::New);
        assert_eq!(message.accept(part(0), &[1; 10], 0), FragmentArrival::New);
        assert_eq!(message.bytes(), [&[1; 10][..], &[2; 10], &[3; 5]].concat());
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let mut message = Reassembly::default();
        message.begin(25, 10, 3, &mut BufferPool::default());
        for (message_len, index, len) in [(25, 3, 10), (25, 2, 10), (25, 0, 9), (24, 0, 10), (25, u32::MAX, 5)] {
            assert_eq!(
                message.accept(FragmentPosition { message_len, index }, &[0; 16][..len], 0),
                FragmentArrival::Nonsense
            );
        }
        assert_eq!(message.count(), 0);
    }

    #[test]
    fn the_sender_is_told_after_two_fragments_and_after_the_last() {
        let mut message = Reassembly::default();
        message.begin(40, 10, 4, &mut BufferPool::default());
        let mut told = Vec::new();
        for index in 0..4 {
            assert_eq!(message.accept(FragmentPosition { message_len: 40, index }, &[0; 10], 0), FragmentArrival::New);
            told.push(message.is_to_be_told(index));
        }
        assert_eq!(told, [false, true, true, true], "no ack was written");
        message.begin(30, 10, 3, &mut BufferPool::default());
        assert_eq!(message.accept(FragmentPosition { message_len: 30, index: 2 }, &[0; 10], 0), FragmentArrival::New);
        assert!(message.is_to_be_told(2), "nothing follows that would make the sender hear of a hole");
    }
}
