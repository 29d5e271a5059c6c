//! The frames of a packet, shared by all who keep them, in buffers that are used again.

use std::ops::Deref;
use std::sync::Arc;

/// The frames of one packet: cheap to clone, never changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frames(Arc<Vec<u8>>);

impl Deref for Frames {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl From<Vec<u8>> for Frames {
    fn from(bytes: Vec<u8>) -> Self {
        Self(Arc::new(bytes))
    }
}

/// Buffers of packets that nobody keeps any more, for the packets to come: a stream in steady state allocates nothing.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    /// Invariant: each has this one owner.
    free: Vec<Arc<Vec<u8>>>,
}

/// The most buffers kept for later. More are out at a time only while a window is opened further than ever before.
const FREE_MAX: usize = 1024;

impl Pool {
    /// A copy of `bytes`.
    pub(crate) fn copy(&mut self, bytes: &[u8]) -> Frames {
        self.fill(|buffer| {
            buffer.clear();
            buffer.extend_from_slice(bytes);
        })
    }

    /// What `filled` holds, without copying it; `filled` is empty afterwards, and has another buffer.
    pub(crate) fn take(&mut self, filled: &mut Vec<u8>) -> Frames {
        let frames = self.fill(|buffer| std::mem::swap(buffer, filled));
        filled.clear();
        frames
    }

    fn fill(&mut self, fill: impl FnOnce(&mut Vec<u8>)) -> Frames {
        let mut buffer = self.free.pop().unwrap_or_default();
        fill(Arc::get_mut(&mut buffer).expect("a free buffer has one owner"));
        Frames(buffer)
    }

    /// Takes back what its caller needs no more; it is used again once nobody does.
    #[inline]
    pub(crate) fn give(&mut self, Frames(mut buffer): Frames) {
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
    fn what_was_filled_is_taken_in_place() {
        let mut pool = Pool::default();
        let mut filled = Vec::with_capacity(64);
        filled.extend_from_slice(b"frames");
        let place = filled.as_ptr();
        let frames = pool.take(&mut filled);
        assert_eq!((&*frames, frames.as_ptr(), filled.len()), (&b"frames"[..], place, 0));
    }
}
