//! A ring that one process writes and any number read: the writer waits for nobody, and a reader notices when it was
//! overtaken.
//!
//! Positions are bytes that only grow. The writer says up to where it may be writing (`reserved`) before it writes,
//! and up to where records are whole (`tail`) afterwards. A reader copies a record out and believes the copy only if
//! `reserved` says, read after the copy, that the writer had not come round again. All words are atomic, so reading
//! what is being overwritten is a wrong copy that is thrown away, not undefined behaviour.

use crate::sync::atomic::{AtomicU64, Ordering, fence};
use crate::sync::words;

/// Words that are only looked at: another process may write them, and this one must not.
///
/// Looks are relaxed, with fences where order counts: nothing more is promised for memory that is mapped read-only.
#[derive(Clone, Copy)]
pub(crate) struct Seen<'a>(&'a [AtomicU64]);

impl<'a> Seen<'a> {
    pub(crate) fn new(words: &'a [AtomicU64]) -> Self {
        Self(words)
    }

    /// Zero outside.
    pub(crate) fn load(self, index: usize) -> u64 {
        self.0.get(index).map_or(0, |word| word.load(Ordering::Relaxed))
    }

    pub(crate) fn part(self, at: usize, words: usize) -> Self {
        Self(self.0.get(at..at + words).unwrap_or_default())
    }

    fn len(self) -> usize {
        self.0.len()
    }

    /// Copies the bytes that begin at a word, round the end if need be.
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

/// The parts of a ring, at its writer.
#[derive(Clone, Copy)]
pub(crate) struct Written<'a> {
    pub(crate) reserved: &'a AtomicU64,
    pub(crate) tail: &'a AtomicU64,
    /// A power of two.
    pub(crate) data: &'a [AtomicU64],
}

/// The writer's own record of where it stands. It never looks at what it shares.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    tail: u64,
    reserved: u64,
}

impl Writer {
    /// Puts a record behind the others: all parts, one after the other. They have at most [`PACKET_BYTES_MAX`], and the
    /// ring is far larger.
    pub(crate) fn push(&mut self, ring: Written<'_>, readers: u64, parts: [&[u8]; 3]) {
        let mask = ring.data.len() - 1;
        let len = parts[0].len() + parts[1].len() + parts[2].len();
        let end = self.tail + record_bytes(len);
        if end > self.reserved {
            // Some way ahead, so that the word that every reader looks at changes seldom.
            self.reserved = end + (ring.data.len() * 8 / AHEAD) as u64;
            ring.reserved.store(self.reserved, Ordering::Relaxed);
        }
        // Whoever sees any of the words below sees what was reserved for them.
        fence(Ordering::Release);
        let at = word_of(self.tail, mask);
        ring.data[at].store(len as u64, Ordering::Relaxed);
        ring.data[(at + 1) & mask].store(readers, Ordering::Relaxed);
        copy_in(ring.data, (at + 2) & mask, parts);
        self.tail = end;
        ring.tail.store(end, Ordering::Release);
    }
}

/// Puts the parts behind each other. Where one ends within a word, the next goes on in it.
#[inline]
fn copy_in(data: &[AtomicU64], mut at: usize, parts: [&[u8]; 3]) {
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

/// The parts of a ring, at a reader.
#[derive(Clone, Copy)]
pub(crate) struct Ring<'a> {
    pub(crate) reserved: Seen<'a>,
    pub(crate) tail: Seen<'a>,
    /// A power of two.
    pub(crate) data: Seen<'a>,
}

impl Ring<'_> {
    /// Where a reader that wants nothing of the past begins.
    pub(crate) fn end(self) -> u64 {
        let tail = self.tail.load(0);
        fence(Ordering::Acquire);
        tail
    }

    fn bytes(self) -> u64 {
        self.data.len() as u64 * 8
    }
}

/// How far a reader has come.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cursor {
    at: u64,
    /// The writer's tail as last seen.
    tail: u64,
}

/// What came of looking at one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Polled {
    /// It is for this reader; so many bytes were copied out.
    Taken(usize),
    /// It is for this reader, and longer than is copied out at once: it has so many bytes, of which [`HEAD_BYTES`] were. The next
    /// look is at the same, until [`Cursor::pass`].
    Begun(usize),
    /// It is for others.
    Passed,
    /// The writer has come round: everything up to its tail is lost.
    Overrun,
    /// No writer of ours makes such a record.
    Broken,
}

impl Cursor {
    pub(crate) fn at_end(ring: Ring<'_>) -> Self {
        let end = ring.end();
        Self { at: end, tail: end }
    }

    /// Whether a record waits. Cheap, for those who ask again and again.
    pub(crate) fn has_more(&self, ring: Ring<'_>) -> bool {
        self.at != self.tail || self.at != ring.tail.load(0)
    }

    /// Looks how far the writer has come. False: nothing waits. What the writer did before it published the last
    /// of the records is seen after this.
    pub(crate) fn refresh(&mut self, ring: Ring<'_>) -> bool {
        if self.at == self.tail {
            self.tail = ring.end();
        }
        self.at != self.tail
    }

    /// Looks at the next record, which [`Self::refresh`] promised, and copies it to the beginning of `out`, which grows if
    /// need be, if `reader`'s bit is set; of one longer than `whole_max` only the beginning.
    pub(crate) fn look(&mut self, ring: Ring<'_>, reader: u64, whole_max: usize, out: &mut Vec<u8>) -> Polled {
        let waiting = self.tail.wrapping_sub(self.at);
        if waiting > ring.bytes() {
            return self.jump(ring);
        }
        let mask = ring.data.len() - 1;
        let at = word_of(self.at, mask);
        // Read once: what is checked is what is used.
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

    /// What follows the beginning of the record that has [`Polled::Begun`].
    pub(crate) fn rest(self, ring: Ring<'_>, len: usize) -> RemainingRecord<'_> {
        RemainingRecord { ring, cursor: self, len: len - HEAD_BYTES }
    }

    /// Goes on behind the record that has [`Polled::Begun`]. False: it was overrun.
    pub(crate) fn pass(&mut self, ring: Ring<'_>, len: usize) -> bool {
        if self.is_overrun(ring) {
            self.jump(ring);
            return false;
        }
        self.at = self.at.wrapping_add(record_bytes(len));
        true
    }

    /// Whether anything that was read of the present record until now may be of a later round.
    fn is_overrun(&self, ring: Ring<'_>) -> bool {
        // With the fence before the writer's stores: if any word that was read was of a later round, so is `reserved`.
        fence(Ordering::Acquire);
        ring.reserved.load(0).wrapping_sub(self.at) > ring.bytes()
    }

    fn jump(&mut self, ring: Ring<'_>) -> Polled {
        *self = Self::at_end(ring);
        Polled::Overrun
    }
}

/// The rest of a record.
pub(crate) struct RemainingRecord<'a> {
    ring: Ring<'a>,
    cursor: Cursor,
    len: usize,
}

impl RemainingRecord<'_> {
    /// Copies all of it to `place`. False: it is not as long, or was overwritten.
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

/// The longest packet; no UDP datagram, of which a packet is a part, is longer.
pub(crate) const PACKET_BYTES_MAX: usize = 65_536;

/// So much of a packet is its beginning: whole words, more than stands before the bytes of a message.
pub(crate) const HEAD_BYTES: usize = 128;

/// A record's length, and the bits of those whom it is for.
const HEADER_BYTES: u64 = 16;

/// The part of a ring that is reserved ahead of need.
const AHEAD: usize = 64;
