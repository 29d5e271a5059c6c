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
    /// Puts a buffer for `len` bytes in the place of `buffer`, if that is shorter and there is one.
    pub(super) fn grow(&mut self, buffer: &mut Vec<u8>, len: usize) {
        if len <= LONG_BYTES || buffer.capacity() >= len {
            return;
        }
        if let Some(at) = self.free.iter().position(|kept| kept.capacity() >= len) {
            *buffer = self.free.swap_remove(at);
            self.bytes -= buffer.capacity();
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
