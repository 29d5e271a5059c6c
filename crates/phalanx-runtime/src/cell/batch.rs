//! Messages that pass through the command queue together.

/// Concatenated messages, taken from the front.
#[derive(Debug, Default)]
pub(super) struct Batch {
    bytes: Vec<u8>,
    /// The end offset of each message.
    ends: Vec<usize>,
    /// The number of messages taken.
    taken: usize,
}

impl Batch {
    pub(super) fn push(&mut self, payload: &[u8]) {
        self.bytes.extend_from_slice(payload);
        self.ends.push(self.bytes.len());
    }

    /// The message at the front.
    pub(super) fn front(&self) -> Option<&[u8]> {
        let end = *self.ends.get(self.taken)?;
        let start = if self.taken == 0 { 0 } else { self.ends[self.taken - 1] };
        Some(&self.bytes[start..end])
    }

    /// Drops the message at the front.
    pub(super) fn forget_front(&mut self) {
        self.taken += 1;
    }

    /// The number of messages left.
    pub(super) fn len(&self) -> usize {
        self.ends.len().saturating_sub(self.taken)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.taken >= self.ends.len()
    }

    /// The memory it occupies until the last message is taken, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.len() + self.ends.len() * size_of::<usize>()
    }
}
