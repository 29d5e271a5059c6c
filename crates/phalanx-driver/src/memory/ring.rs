//! A ring with one writer and any number of readers. The writer never waits, and a reader notices when it was
//! overtaken.
//!
//! Positions are byte counts that only grow. The writer publishes how far it may be writing (`reserved`) before it
//! writes, and how far records are complete (`tail`) afterwards. A reader copies a record out and then reads
//! `reserved`. It trusts the copy only if the writer had not come round to the record by then. All words are atomic, so
//! reading a word that is being overwritten gives a wrong copy, which is discarded, and is no undefined behaviour.

use crate::sync::atomic::{AtomicU64, Ordering, fence};
use crate::sync::words;

/// Read-only words: another process may write them, and this one must not.
///
/// All loads are relaxed, with fences where order matters. For memory that is mapped read-only, Rust guarantees no
/// stronger atomic loads.
#[derive(Clone, Copy)]
pub(crate) struct Seen<'a>(&'a [AtomicU64]);

impl<'a> Seen<'a> {
    pub(crate) fn new(words: &'a [AtomicU64]) -> Self {
        Self(words)
    }

    /// The word at `index`; 0 outside.
    pub(crate) fn load(self, index: usize) -> u64 {
        self.0.get(index).map_or(0, |word| word.load(Ordering::Relaxed))
    }

    pub(crate) fn part(self, at: usize, words: usize) -> Self {
        Self(self.0.get(at..at + words).unwrap_or_default())
    }

    fn len(self) -> usize {
        self.0.len()
    }

    /// Copies the bytes that begin at a word, wrapping round the end if needed.
    fn copy_out(self, at: usize, out: &mut [u8]) {
        let (whole, rest) = out.as_chunks_mut::<8>();
        let straight = whole.len().min(self.0.len() - at);
        let (first, second) = whole.split_at_mut(straight);
        words::load(&self.0[at..], first);
        words::load(self.0, second);
        if !rest.is_empty() {
            let last = self.load((at + whole.len()) & (self.0.len() - 1)).to_ne_bytes();
            rest.copy_from_slice(&last[..rest.len()]);
        }
    }
}

/// A ring as its writer sees it.
#[derive(Clone, Copy)]
pub(crate) struct Written<'a> {
    pub(crate) reserved: &'a AtomicU64,
    pub(crate) tail: &'a AtomicU64,
    /// Its length is a power of two.
    pub(crate) data: &'a [AtomicU64],
}

/// The writer's private positions. It never reads the shared words back.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    tail: u64,
    reserved: u64,
}

impl Writer {
    /// Appends a record with the concatenated `parts`. They have at most [`PACKET_BYTES_MAX`] bytes together, and the
    /// ring is far larger.
    pub(crate) fn push<const N: usize>(&mut self, ring: Written<'_>, readers: u64, parts: [&[u8]; N]) {
        let mask = ring.data.len() - 1;
        let len = parts.iter().map(|part| part.len()).sum();
        let end = self.tail + record_bytes(len);
        if end > self.reserved {
            // Reserves some way ahead, so that the word that every reader loads changes seldom.
            self.reserved = end + (ring.data.len() * 8 / AHEAD) as u64;
            ring.reserved.store(self.reserved, Ordering::Relaxed);
        }
        // A reader that sees any word stored below also sees the reservation for it.
        fence(Ordering::Release);
        let at = word_of(self.tail, mask);
        ring.data[at].store(len as u64, Ordering::Relaxed);
        ring.data[(at + 1) & mask].store(readers, Ordering::Relaxed);
        copy_in(ring.data, (at + 2) & mask, parts);
        self.tail = end;
        ring.tail.store(end, Ordering::Release);
    }
}

/// Writes the parts one after another. Where one ends within a word, the next goes on in the same word.
#[inline]
fn copy_in<const N: usize>(data: &[AtomicU64], mut at: usize, parts: [&[u8]; N]) {
    let mask = data.len() - 1;
    let (mut joint, mut held) = ([0; 8], 0);
    for mut part in parts {
        if held > 0 {
            let (first, rest) = part.split_at(part.len().min(8 - held));
            joint[held..held + first.len()].copy_from_slice(first);
            (held, part) = (held + first.len(), rest);
            if held < 8 {
                continue;
            }
            data[at].store(u64::from_ne_bytes(joint), Ordering::Relaxed);
            at = (at + 1) & mask;
        }
        let (whole, rest) = part.as_chunks::<8>();
        let (first, second) = whole.split_at(whole.len().min(data.len() - at));
        words::store(first, &data[at..]);
        words::store(second, data);
        at = (at + whole.len()) & mask;
        joint = [0; 8];
        joint[..rest.len()].copy_from_slice(rest);
        held = rest.len();
    }
    if held > 0 {
        data[at].store(u64::from_ne_bytes(joint), Ordering::Relaxed);
    }
}

/// A ring as a reader sees it.
#[derive(Clone, Copy)]
pub(crate) struct Ring<'a> {
    pub(crate) reserved: Seen<'a>,
    pub(crate) tail: Seen<'a>,
    /// Its length is a power of two.
    pub(crate) data: Seen<'a>,
}

impl Ring<'_> {
    /// The position behind the last record: where a new reader starts.
    pub(crate) fn end(self) -> u64 {
        let tail = self.tail.load(0);
        fence(Ordering::Acquire);
        tail
    }

    fn bytes(self) -> u64 {
        self.data.len() as u64 * 8
    }
}

/// A reader's position.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cursor {
    at: u64,
    /// The writer's tail as last read.
    tail: u64,
}

/// The outcome of reading one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Polled {
    /// It is for this reader; this many bytes were copied out.
    Taken(usize),
    /// It is for this reader, and longer than `whole_max`: it has this many bytes, of which [`HEAD_BYTES`] were copied.
    /// The next read returns the same record, until [`Cursor::pass`].
    Begun(usize),
    /// It is for others.
    Passed,
    /// The writer has come round: all records up to its tail are lost.
    Overrun,
    /// No correct writer makes such a record.
    Broken,
}

impl Cursor {
    pub(crate) fn at_end(ring: Ring<'_>) -> Self {
        let end = ring.end();
        Self { at: end, tail: end }
    }

    /// Whether a record waits. One or two loads, so that it can be polled in a loop.
    pub(crate) fn has_more(&self, ring: Ring<'_>) -> bool {
        self.at != self.tail || self.at != ring.tail.load(0)
    }

    /// Reads how far the writer has come. False: nothing waits. Everything the writer did before it published the last
    /// of the records is visible afterwards.
    pub(crate) fn refresh(&mut self, ring: Ring<'_>) -> bool {
        if self.at == self.tail {
            self.tail = ring.end();
        }
        self.at != self.tail
    }

    /// Reads the next record, which [`Self::refresh`] promised. If `reader`'s bit is set, copies it to the start of
    /// `out`, which grows as needed. Of a record longer than `whole_max` only the header is copied.
    pub(crate) fn look(&mut self, ring: Ring<'_>, reader: u64, whole_max: usize, out: &mut Vec<u8>) -> Polled {
        let waiting = self.tail.wrapping_sub(self.at);
        // The writer is more than a ring ahead, so the record is overwritten; or the tail is nonsense.
        if waiting > ring.bytes() {
            return self.jump(ring);
        }
        let mask = ring.data.len() - 1;
        let at = word_of(self.at, mask);
        // Loaded once, so that the checked values are the used ones whatever a hostile writer does meanwhile.
        let (len, readers) = (ring.data.load(at), ring.data.load((at + 1) & mask));
        let mine = readers & reader != 0;
        let fits = usize::try_from(len).ok().filter(|len| *len <= PACKET_BYTES_MAX && record_bytes(*len) <= waiting);
        let is_whole = len <= whole_max.max(HEAD_BYTES) as u64;
        if let (Some(len), true) = (fits, mine) {
            let copied = if is_whole { len } else { HEAD_BYTES };
            if out.len() < copied {
                out.resize(copied, 0);
            }
            ring.data.copy_out((at + 2) & mask, &mut out[..copied]);
        }
        if self.is_overrun(ring) {
            return self.jump(ring);
        }
        let Some(len) = fits else { return Polled::Broken };
        if mine && !is_whole {
            return Polled::Begun(len);
        }
        self.at = self.at.wrapping_add(record_bytes(len));
        if mine { Polled::Taken(len) } else { Polled::Passed }
    }

    /// The payload that follows the header of the record that has [`Polled::Begun`].
    pub(crate) fn rest(self, ring: Ring<'_>, len: usize) -> RemainingRecord<'_> {
        RemainingRecord { ring, cursor: self, len: len - HEAD_BYTES }
    }

    /// Moves on behind the record that has [`Polled::Begun`]. False: it was overwritten, and all up to the tail is
    /// lost.
    pub(crate) fn pass(&mut self, ring: Ring<'_>, len: usize) -> bool {
        if self.is_overrun(ring) {
            self.jump(ring);
            return false;
        }
        self.at = self.at.wrapping_add(record_bytes(len));
        true
    }

    /// Whether any word read of the present record may be of a later round.
    fn is_overrun(&self, ring: Ring<'_>) -> bool {
        // Pairs with the release fence before the writer's stores: if any word read was of a later round, so is
        // `reserved`.
        fence(Ordering::Acquire);
        ring.reserved.load(0).wrapping_sub(self.at) > ring.bytes()
    }

    fn jump(&mut self, ring: Ring<'_>) -> Polled {
        *self = Self::at_end(ring);
        Polled::Overrun
    }
}

/// The remaining payload of a record.
pub(crate) struct RemainingRecord<'a> {
    ring: Ring<'a>,
    cursor: Cursor,
    len: usize,
}

impl RemainingRecord<'_> {
    /// Copies all of it to `place`. False: `place` has another length, or the record was overwritten meanwhile; then
    /// the contents of `place` are unspecified.
    pub(crate) fn copy_to(&self, place: &mut [u8]) -> bool {
        if place.len() != self.len {
            return false;
        }
        let Self { ring, cursor, .. } = self;
        let mask = ring.data.len() - 1;
        let at = word_of(cursor.at.wrapping_add(HEADER_BYTES + HEAD_BYTES as u64), mask);
        ring.data.copy_out(at, place);
        !cursor.is_overrun(*ring)
    }
}

fn record_bytes(len: usize) -> u64 {
    HEADER_BYTES + (len as u64).next_multiple_of(8)
}

#[allow(clippy::cast_possible_truncation, reason = "only the low bits count")]
fn word_of(position: u64, mask: usize) -> usize {
    (position / 8) as usize & mask
}

/// The longest packet. No UDP datagram, and so no packet, is longer.
pub(crate) const PACKET_BYTES_MAX: usize = 65_536;

/// How much of a long packet is its header: whole words, and more than precedes the payload of a message.
pub(crate) const HEAD_BYTES: usize = 128;

/// A record's length and its readers' bits, a word each.
const HEADER_BYTES: u64 = 16;

/// The fraction of a ring that is reserved ahead of need is one in this many.
const AHEAD: usize = 64;
