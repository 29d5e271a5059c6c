//! A packet as a program reads it: in parts, where they lie.

use crate::layout::Flags;

/// A packet that is shown to programs: a preamble that the tap wrote, and up to three parts of the packet's own.
///
/// ```
/// use phalanx_tap::{Flags, Packet};
///
/// let packet = Packet::new(&[1, 2], [&[3], &[4, 5], &[]]).flagged(Flags::new().sent());
/// assert_eq!((packet.len(), packet.held()), (5, 5));
///
/// // A packet of which only the beginning is here.
/// let begun = packet.of_len(70_000);
/// assert_eq!((begun.len(), begun.held()), (70_000, 5));
///
/// let mut kept = [0; 4];
/// assert_eq!(packet.copy(96, &mut kept), 4);
/// assert_eq!(kept, [1, 2, 3, 4]);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    preamble: &'a [u8],
    parts: [&'a [u8]; 3],
    /// The length of all that stands behind the preamble, in bytes. No less than what is here.
    own: u32,
    flags: Flags,
}

impl<'a> Packet<'a> {
    /// A packet that is all here. Lengths from 4 GiB on are 4 GiB - 1.
    #[inline]
    #[must_use]
    pub fn new(preamble: &'a [u8], parts: [&'a [u8]; 3]) -> Self {
        let [a, b, c] = parts;
        let own = a.len().saturating_add(b.len()).saturating_add(c.len());
        Self { preamble, parts, own: u32::try_from(own).unwrap_or(u32::MAX), flags: Flags::new() }
    }

    /// The same packet, with what is not in its bytes.
    #[inline]
    #[must_use]
    pub fn flagged(self, flags: Flags) -> Self {
        Self { flags, ..self }
    }

    /// The beginning of a packet that has `len` bytes as a whole, preamble included. A shorter one than is here is taken
    /// for what is here.
    #[inline]
    #[must_use]
    pub fn of_len(self, len: u32) -> Self {
        let preamble = u32::try_from(self.preamble.len()).unwrap_or(u32::MAX);
        Self { own: len.saturating_sub(preamble).max(self.own), ..self }
    }

    /// Puts another preamble in front of it.
    ///
    /// ```
    /// use phalanx_tap::Packet;
    ///
    /// let mut packet = Packet::new(&[], [&[3], &[4, 5], &[]]);
    /// packet.put_behind(&[1, 2]);
    /// assert_eq!(packet.len(), 5);
    /// ```
    #[inline]
    pub fn put_behind(&mut self, preamble: &'a [u8]) {
        self.preamble = preamble;
    }

    /// The length of the whole packet, preamble included, in bytes.
    #[inline]
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "nothing asks whether a packet is empty")]
    pub fn len(&self) -> u32 {
        u32::try_from(self.preamble.len()).unwrap_or(u32::MAX).saturating_add(self.own)
    }

    /// The length of all that stands behind the preamble, in bytes.
    #[inline]
    #[must_use]
    pub fn own_len(&self) -> u32 {
        self.own
    }

    /// What is here of it behind the preamble, where it lies.
    #[inline]
    #[must_use]
    pub fn parts(&self) -> [&'a [u8]; 3] {
        self.parts
    }

    /// How many bytes of it are here, preamble included.
    #[inline]
    #[must_use]
    pub fn held(&self) -> usize {
        self.preamble.len() + self.parts.iter().map(|part| part.len()).sum::<usize>()
    }

    /// What is not in its bytes.
    #[inline]
    #[must_use]
    pub fn flags(&self) -> Flags {
        self.flags
    }

    /// Copies its beginning, preamble included, into `place`: at most `snap` bytes, which is what a program's verdict
    /// allows. Returns how many.
    #[inline]
    pub fn copy(&self, snap: u32, place: &mut [u8]) -> usize {
        let most = usize::try_from(snap).unwrap_or(usize::MAX).min(place.len());
        let mut room = &mut place[..most];
        for part in self.all() {
            let count = part.len().min(room.len());
            let (to, rest) = room.split_at_mut(count);
            to.copy_from_slice(&part[..count]);
            room = rest;
        }
        most - room.len()
    }

    /// The `N` bytes at `at`. `None`: not all of them are here.
    #[inline]
    pub(crate) fn load<const N: usize>(&self, at: u32) -> Option<[u8; N]> {
        let at = usize::try_from(at).ok()?;
        let within = match at.checked_sub(self.preamble.len()) {
            Some(inside) => self.parts[0].get(inside..),
            None => self.preamble.get(at..),
        };
        match within.and_then(<[u8]>::first_chunk) {
            Some(bytes) => Some(*bytes),
            None => self.load_across(at),
        }
    }

    /// As [`Self::load`], for bytes that do not lie in the preamble or the first part alone.
    #[cold]
    #[inline(never)]
    fn load_across<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        let (mut skip, mut filled) = (at, 0);
        for part in self.all() {
            let Some(rest) = part.get(skip..) else {
                skip -= part.len();
                continue;
            };
            skip = 0;
            for (place, byte) in bytes[filled..].iter_mut().zip(rest) {
                *place = *byte;
                filled += 1;
            }
        }
        (filled == N).then_some(bytes)
    }

    fn all(&self) -> [&'a [u8]; 4] {
        let [a, b, c] = self.parts;
        [self.preamble, a, b, c]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Packet;

    /// The same bytes, cut at three places.
    fn cut(bytes: &[u8], mut at: [usize; 3]) -> Packet<'_> {
        at = at.map(|at| at.min(bytes.len()));
        at.sort_unstable();
        let [a, b, c] = at;
        Packet::new(&bytes[..a], [&bytes[a..b], &bytes[b..c], &bytes[c..]])
    }

    proptest! {
        #[test]
        fn a_load_reads_across_parts_and_nothing_beyond_the_last(
            bytes in proptest::collection::vec(any::<u8>(), 0..24),
            at in proptest::array::uniform3(0..24_usize),
            load in prop_oneof![0..30_u32, any::<u32>()],
        ) {
            let packet = cut(&bytes, at);
            let from = load as usize;
            let expected = |count: usize| bytes.get(from..from.saturating_add(count)).map(<[u8]>::to_vec);
            prop_assert_eq!(packet.load::<4>(load).map(Vec::from), expected(4));
            prop_assert_eq!(packet.load::<2>(load).map(Vec::from), expected(2));
            prop_assert_eq!(packet.load::<1>(load).map(Vec::from), expected(1));
        }

        #[test]
        fn a_copy_is_the_beginning(
            bytes in proptest::collection::vec(any::<u8>(), 0..24),
            at in proptest::array::uniform3(0..24_usize),
            (snap, room) in (0..30_u32, 0..30_usize),
        ) {
            let mut place = vec![0; room];
            let count = cut(&bytes, at).copy(snap, &mut place);
            prop_assert_eq!(count, bytes.len().min(snap as usize).min(room));
            prop_assert_eq!(&place[..count], &bytes[..count]);
        }
    }

    #[test]
    fn the_whole_is_no_shorter_than_what_is_here() {
        let packet = Packet::new(&[1], [&[2], &[], &[]]);
        assert_eq!(packet.of_len(1).len(), 2);
        assert_eq!(packet.of_len(9).len(), 9);
    }
}
