//! How many bytes wait in a bounded queue, and who is to be woken when there is room again.

use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// One thread fills the queue, any may take from it.
#[derive(Debug)]
pub(super) struct Room {
    bytes: AtomicUsize,
    bytes_max: usize,
    /// The filling thread found no room, and wants to be woken when there is.
    starved: AtomicBool,
}

impl Room {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { bytes: AtomicUsize::new(0), bytes_max: bytes_max.max(1), starved: AtomicBool::new(false) }
    }

    /// Whether less than the bound waits.
    pub(super) fn is_free(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) < self.bytes_max
    }

    /// Something of `bytes` is put in.
    pub(super) fn add(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// It was not put in after all: there was no place for it.
    pub(super) fn give_back(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// The filling thread wants to be woken. It must look for room once more before it sleeps.
    pub(super) fn starve(&self) {
        self.starved.store(true, Ordering::Relaxed);
        // A change of nothing, for its place among the changes in `taken`: one that comes before it is seen by the
        // look that follows, the emptier queue included; one that comes after it sees the flag. A plain load could
        // read an old number of bytes while whoever takes the last of them reads an old flag, and nobody is woken.
        self.bytes.fetch_add(0, Ordering::AcqRel);
    }

    /// Something of `bytes` was taken out. True: no more than half waits.
    pub(super) fn taken(&self, bytes: usize) -> bool {
        let before = self.bytes.fetch_sub(bytes, Ordering::AcqRel);
        before.saturating_sub(bytes) <= self.bytes_max / 2
    }

    /// After [`Self::taken`]: whether the filling thread is to be woken. Says so once.
    pub(super) fn feed(&self) -> bool {
        self.starved.load(Ordering::Relaxed) && self.starved.swap(false, Ordering::Relaxed)
    }
}
