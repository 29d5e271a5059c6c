//! The frames of one packet, shared by reference count, in pooled buffers.

use std::ops::{Deref, Range};
use std::sync::Arc;

/// The frames of one packet: cheap to clone, and immutable.
#[derive(Clone, Debug)]
pub struct Frames {
    buffer: Arc<Vec<u8>>,
    /// Their range in the buffer.
    start: usize,
    end: usize,
}

impl PartialEq for Frames {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Frames {}

impl Deref for Frames {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }
}

impl From<Vec<u8>> for Frames {
    fn from(bytes: Vec<u8>) -> Self {
        Self::whole(Arc::new(bytes))
    }
}

impl Frames {
    fn whole(buffer: Arc<Vec<u8>>) -> Self {
        let end = buffer.len();
        Self { buffer, start: 0, end }
    }

    /// What follows the first `count` bytes, in the same buffer.
    pub(crate) fn behind(&self, count: usize) -> Self {
        Self { buffer: Arc::clone(&self.buffer), start: (self.start + count).min(self.end), end: self.end }
    }

    /// The memory of the buffer, in bytes.
    pub(crate) fn buffer_bytes(&self) -> usize {
        self.buffer.capacity()
    }
}

/// Received frames, and who owns their buffer.
#[derive(Debug)]
pub enum ReceivedFrames<'a> {
    /// The caller reuses the buffer: what is kept must be copied.
    Lent(&'a [u8]),
    /// The buffer may be taken if another is left in its place. The frames are this range of it.
    Given(&'a mut Vec<u8>, Range<usize>),
}

impl Deref for ReceivedFrames<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Lent(bytes) => bytes,
            Self::Given(buffer, place) => &buffer[place.clone()],
        }
    }
}

/// Buffers that are free for later packets, so that a stream in steady state allocates nothing.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    /// Invariant: the pool is the only owner of each.
    free: Vec<Arc<Vec<u8>>>,
}

/// The most free buffers. More are in use at a time only while a window opens further than ever before.
const FREE_MAX: usize = 1024;

impl Pool {
    /// Frames with a copy of `bytes`.
    pub(crate) fn copy(&mut self, bytes: &[u8]) -> Frames {
        self.fill(|buffer| {
            buffer.clear();
            buffer.extend_from_slice(bytes);
        })
    }

    /// Keeps received frames. A given buffer is taken without a copy, and a free one left in its place.
    pub(crate) fn keep(&mut self, frames: ReceivedFrames<'_>) -> Frames {
        match frames {
            ReceivedFrames::Lent(bytes) => self.copy(bytes),
            ReceivedFrames::Given(given, Range { start, end }) => {
                let Frames { buffer, .. } = self.fill(|buffer| std::mem::swap(buffer, given));
                Frames { start: start.min(end), end: end.min(buffer.len()), buffer }
            }
        }
    }

    /// Frames with the contents of `filled`, without a copy. `filled` is empty afterwards, with a free buffer.
    pub(crate) fn take(&mut self, filled: &mut Vec<u8>) -> Frames {
        let frames = self.fill(|buffer| std::mem::swap(buffer, filled));
        filled.clear();
        frames
    }

    /// Number of free buffers.
    pub(crate) fn len(&self) -> usize {
        self.free.len()
    }

    fn fill(&mut self, fill: impl FnOnce(&mut Vec<u8>)) -> Frames {
        let mut buffer = self.free.pop().unwrap_or_default();
        fill(Arc::get_mut(&mut buffer).expect("a free buffer has one owner"));
        Frames::whole(buffer)
    }

    /// Takes back frames that the caller no longer needs. The buffer becomes free if nobody else has a clone.
    #[inline]
    pub(crate) fn give(&mut self, Frames { mut buffer, .. }: Frames) {
        // Another owner still reads the buffer: only the last one can return it.
        if self.free.len() < FREE_MAX && Arc::get_mut(&mut buffer).is_some() {
            self.free.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_comes_again_when_its_last_owner_gives_it() {
        let mut pool = Pool::default();
        let first = pool.copy(b"abc");
        let (place, other) = (first.as_ptr(), first.clone());
        pool.give(first);
        assert_ne!(pool.copy(b"x").as_ptr(), place, "somebody still reads it");
        assert_eq!(&*other, b"abc");
        pool.give(other);
        let again = pool.copy(b"de");
        assert_eq!((&*again, again.as_ptr()), (&b"de"[..], place));
    }

    #[test]
    fn what_is_given_is_kept_in_place() {
        let mut pool = Pool::default();
        let mut given = b"head, frames, tail".to_vec();
        let place = given.as_ptr();
        let frames = pool.keep(ReceivedFrames::Given(&mut given, 6..12));
        assert_eq!((&*frames, frames.buffer.as_ptr()), (&b"frames"[..], place));
        assert_ne!(given.as_ptr(), place, "another was left");
        assert_eq!(&*pool.keep(ReceivedFrames::Lent(b"lent")), b"lent");
    }

    #[test]
    fn what_was_filled_is_taken_in_place() {
        let mut pool = Pool::default();
        let mut filled = Vec::with_capacity(64);
        filled.extend_from_slice(b"frames");
        let place = filled.as_ptr();
        let frames = pool.take(&mut filled);
        assert_eq!((&*frames, frames.as_ptr(), filled.len()), (&b"frames"[..], place, 0));
    }

    #[test]
    fn as_many_buffers_are_kept_as_may_be_and_no_more() {
        let mut pool = Pool::default();
        let out: Vec<Frames> = (0..=FREE_MAX).map(|_| pool.copy(b"x")).collect();
        out.into_iter().for_each(|frames| pool.give(frames));
        assert_eq!(pool.free.len(), FREE_MAX);
    }
}
