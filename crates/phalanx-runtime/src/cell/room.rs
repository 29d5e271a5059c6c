//! Counts the bytes in a bounded queue, and records whether its filler has to be woken when there is room.

use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// One thread fills the queue; any thread may take from it.
#[derive(Debug)]
pub(super) struct Room {
    bytes: AtomicUsize,
    bytes_max: usize,
    /// The filling thread found no room, and has to be woken when there is some.
    starved: AtomicBool,
}

impl Room {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { bytes: AtomicUsize::new(0), bytes_max: bytes_max.max(1), starved: AtomicBool::new(false) }
    }

    /// Whether fewer bytes than the bound wait.
    pub(super) fn is_free(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) < self.bytes_max
    }

    /// Counts an item of `bytes` in.
    pub(super) fn add(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Takes the count of an item back that could not be queued.
    pub(super) fn give_back(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Requests a wake-up for the filling thread. It must check for room once more before it sleeps.
    pub(super) fn starve(&self) {
        self.starved.store(true, Ordering::Relaxed);
        // Adding zero puts this thread into the one order of changes of `bytes`. With plain loads a wake-up could be
        // lost:
        // 1. The filler sets `starved`, and reads an old count that leaves no room.
        // 2. A taker takes the last bytes, and reads an old `starved`: it wakes no one.
        // 3. The filler sleeps for good.
        // If this change comes after the one in `taken`, the check that follows sees the smaller count and the emptier
        // queue. If it comes before, `taken` sees the flag.
        self.bytes.fetch_add(0, Ordering::AcqRel);
    }

    /// Counts an item of `bytes` out. True: at most half of the bound waits.
    pub(super) fn taken(&self, bytes: usize) -> bool {
        let before = self.bytes.fetch_sub(bytes, Ordering::AcqRel);
        before.saturating_sub(bytes) <= self.bytes_max / 2
    }

    /// To be called after [`Self::taken`]: whether the filling thread has to be woken. True once per request.
    pub(super) fn feed(&self) -> bool {
        self.starved.load(Ordering::Relaxed) && self.starved.swap(false, Ordering::Relaxed)
    }
}
