//! Messages that go through the queue of commands as one.

/// Messages one behind the other, taken from the front.
#[derive(Debug, Default)]
pub(super) struct Batch {
    bytes: Vec<u8>,
    /// Where each message ends.
    ends: Vec<usize>,
    /// Messages taken.
    taken: usize,
}

impl Batch {
    pub(super) fn push(&mut self, payload: &[u8]) {
        self.bytes.extend_from_slice(payload);
        self.ends.push(self.bytes.len());
    }

    /// The message in front.
    pub(super) fn front(&self) -> Option<&[u8]> {
        let end = *self.ends.get(self.taken)?;
        let start = if self.taken == 0 { 0 } else { self.ends[self.taken - 1] };
        Some(&self.bytes[start..end])
    }

    /// The one in front is done with.
    pub(super) fn forget_front(&mut self) {
        self.taken += 1;
    }

    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.ends.len().saturating_sub(self.taken)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.taken >= self.ends.len()
    }

    /// What it takes in memory, as long as any of it waits.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.len() + self.ends.len() * size_of::<usize>()
    }
}
