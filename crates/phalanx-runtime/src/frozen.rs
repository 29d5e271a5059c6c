//! A snapshot of a state that is bytes already.

use bytes::Bytes;
use phalanx_core::Snapshot;

/// A snapshot that is fully serialised when taken, or that shares bytes which never change.
#[derive(Clone, Debug)]
pub struct Frozen(Bytes);

impl Frozen {
    /// A snapshot of these bytes.
    #[must_use]
    pub fn new(bytes: impl Into<Bytes>) -> Self {
        Self(bytes.into())
    }
}

impl Snapshot for Frozen {
    fn len_bytes(&self) -> u64 {
        self.0.len() as u64
    }

    fn read(&mut self, offset: u64, max_bytes: usize, out: &mut Vec<u8>) {
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(self.0.len());
        let end = start.saturating_add(max_bytes).min(self.0.len());
        out.extend_from_slice(&self.0[start..end]);
    }
}
