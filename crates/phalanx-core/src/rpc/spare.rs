//! Buffers of long messages that are over, for the messages to come: memory from the system costs more than the copy into it.

/// Buffers for whoever needs one next.
#[derive(Debug, Default)]
pub(super) struct Spare {
    free: Vec<Vec<u8>>,
    bytes: usize,
}

/// Kept in all, in bytes.
const KEPT_BYTES_MAX: usize = 64 << 20;
/// Shorter ones stay where they are.
pub(super) const LONG_BYTES: usize = 64 << 10;

impl Spare {
    /// Puts a buffer for `len` bytes to be appended in the place of `buffer`, if that is shorter and there is one.
    pub(super) fn grow(&mut self, buffer: &mut Vec<u8>, len: usize) {
        if len <= LONG_BYTES || buffer.capacity() >= len {
            return;
        }
        self.replace(buffer, |free| {
            // Those that have a length are for others.
            let fitting = free.iter().enumerate().filter(|(_, kept)| kept.capacity() >= len);
            fitting.min_by_key(|(_, kept)| kept.len()).map(|(at, _)| at)
        });
    }

    /// Makes `buffer` at least `len` bytes long, whatever is in them: if there is one that has been written so far, that one.
    pub(super) fn lengthen(&mut self, buffer: &mut Vec<u8>, len: usize) {
        if len > LONG_BYTES && buffer.len() < len {
            self.replace(buffer, |free| {
                let fitting = free.iter().enumerate().filter(|(_, kept)| kept.capacity() >= len);
                fitting.max_by_key(|(_, kept)| kept.len()).map(|(at, _)| at)
            });
        }
        if buffer.len() < len {
            buffer.resize(len, 0);
        }
    }

    fn replace(&mut self, buffer: &mut Vec<u8>, choose: impl FnOnce(&[Vec<u8>]) -> Option<usize>) {
        if let Some(at) = choose(&self.free) {
            let kept = self.free.swap_remove(at);
            self.bytes -= kept.capacity();
            let mut short = std::mem::replace(buffer, kept);
            self.keep(&mut short);
        }
    }

    /// Takes a long buffer back, and leaves an empty one.
    pub(super) fn keep(&mut self, buffer: &mut Vec<u8>) {
        if buffer.capacity() <= LONG_BYTES {
            return;
        }
        let long = std::mem::take(buffer);
        if self.bytes + long.capacity() <= KEPT_BYTES_MAX {
            self.bytes += long.capacity();
            self.free.push(long);
        }
    }
}
