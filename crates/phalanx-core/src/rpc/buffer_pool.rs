//! A pool of buffers of finished long messages, for the next ones. Memory from the system costs more than the copy into
//! it.

/// Free buffers for reuse.
#[derive(Debug, Default)]
pub(super) struct BufferPool {
    free: Vec<Vec<u8>>,
    bytes: usize,
}

/// Upper bound on the bytes kept in all.
const KEPT_BYTES_MAX: usize = 64 << 20;
/// Shorter buffers are not pooled. They stay with their owner.
pub(super) const LONG_BYTES: usize = 64 << 10;
const _: () = assert!(LONG_BYTES < KEPT_BYTES_MAX, "a buffer that is kept fits");

impl BufferPool {
    /// Replaces `buffer` by a free one with room for `len` bytes, if it has less room and there is one.
    pub(super) fn grow(&mut self, buffer: &mut Vec<u8>, len: usize) {
        if len <= LONG_BYTES || buffer.capacity() >= len {
            return;
        }
        // A buffer that is appended to needs no written bytes. The ones with most of them are left for
        // [`Self::lengthen`].
        self.replace(buffer, self.fitting(len).min());
    }

    /// Makes `buffer` at least `len` bytes long, with any content. A free buffer with many written bytes is preferred:
    /// those need no zeroing.
    pub(super) fn lengthen(&mut self, buffer: &mut Vec<u8>, len: usize) {
        if len > LONG_BYTES && buffer.len() < len {
            self.replace(buffer, self.fitting(len).max());
        }
        if buffer.len() < len {
            buffer.resize(len, 0);
        }
    }

    /// Free buffers with room for `len` bytes.
    fn fitting(&self, len: usize) -> impl Iterator<Item = Fitting> + '_ {
        let places = self.free.iter().zip(0..).filter(move |(kept, _)| kept.capacity() >= len);
        places.map(|(kept, at)| Fitting { written_bytes: kept.len(), at })
    }

    fn replace(&mut self, buffer: &mut Vec<u8>, chosen: Option<Fitting>) {
        if let Some(Fitting { at, .. }) = chosen {
            let kept = self.free.swap_remove(at);
            debug_assert!(self.bytes >= kept.capacity(), "a buffer that is kept is counted");
            self.bytes -= kept.capacity();
            let mut short = std::mem::replace(buffer, kept);
            self.keep(&mut short);
        }
    }

    /// Takes a long buffer back, and leaves an empty one in its place.
    pub(super) fn keep(&mut self, buffer: &mut Vec<u8>) {
        if buffer.capacity() <= LONG_BYTES {
            return;
        }
        debug_assert!(self.bytes <= KEPT_BYTES_MAX, "more is kept than may be");
        let long = std::mem::take(buffer);
        if self.bytes + long.capacity() <= KEPT_BYTES_MAX {
            self.bytes += long.capacity();
            self.free.push(long);
        }
    }
}

/// A free buffer that is long enough. Ordered by the bytes written in it, hence the order of the fields.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Fitting {
    /// Number of its bytes that are written.
    written_bytes: usize,
    /// Its index among the free ones.
    at: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_much_is_kept_as_may_be_and_no_more() {
        let mut buffer_pool = BufferPool::default();
        let each = 1 << 20;
        for _ in 0..KEPT_BYTES_MAX / each + 1 {
            let mut buffer = Vec::with_capacity(each);
            buffer_pool.keep(&mut buffer);
            assert_eq!(buffer.capacity(), 0, "it is kept or goes back to the system");
        }
        assert_eq!((buffer_pool.bytes, buffer_pool.free.len()), (KEPT_BYTES_MAX, KEPT_BYTES_MAX / each));
        let mut wanted = Vec::new();
        buffer_pool.grow(&mut wanted, each);
        assert_eq!((wanted.capacity(), buffer_pool.bytes), (each, KEPT_BYTES_MAX - each));
    }

    #[test]
    fn short_buffers_stay_where_they_are() {
        let mut buffer_pool = BufferPool::default();
        let mut short = Vec::with_capacity(1_000);
        buffer_pool.keep(&mut short);
        assert!(short.capacity() >= 1_000);
        assert_eq!((buffer_pool.bytes, buffer_pool.free.len()), (0, 0));
    }

    #[test]
    fn a_long_message_comes_into_memory_that_was_written_before_and_a_short_one_leaves_it_there() {
        let mut buffer_pool = BufferPool::default();
        let each = 1 << 20;
        for written in [0, each, 10] {
            let mut buffer = Vec::with_capacity(each);
            buffer.resize(written, 7);
            buffer_pool.keep(&mut buffer);
        }
        for len in [100, LONG_BYTES] {
            let mut buffer = Vec::new();
            buffer_pool.lengthen(&mut buffer, len);
            assert_eq!((buffer.len(), buffer_pool.free.len()), (len, 3));
        }
        let mut long = Vec::new();
        buffer_pool.lengthen(&mut long, each);
        assert_eq!((long.len(), long[0], buffer_pool.free.len()), (each, 7, 2), "the one of which most is written");
        buffer_pool.lengthen(&mut long, each);
        assert_eq!(buffer_pool.free.len(), 2, "it is long enough");
    }
}
