//! The system's allocator, with a count of the bytes that the running thread holds: a gauge that sees every queue.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Counts allocations, and leaves the work to [`System`].
pub(crate) struct Counting;

thread_local! {
    static HELD: Cell<i64> = const { Cell::new(0) };
    static PEAK: Cell<i64> = const { Cell::new(0) };
}

/// Returns the bytes held by this thread. The peak begins anew from here.
pub(crate) fn start() -> i64 {
    PEAK.set(HELD.get());
    HELD.get()
}

/// The most bytes that this thread has held since [`start`].
pub(crate) fn peak() -> i64 {
    PEAK.get()
}

fn count(bytes: usize, sign: i64) {
    // A thread that is being torn down may still allocate. What it takes then is not counted.
    let _ = HELD.try_with(|held| {
        let now = held.get() + sign * i64::try_from(bytes).unwrap_or(i64::MAX);
        held.set(now);
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(now)));
    });
}

// SAFETY: every call is handed to `System` unchanged; counting neither allocates nor unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 1);
        // SAFETY: the caller keeps this function's contract, which is that of `System`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 1);
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count(layout.size(), -1);
        count(new_size, 1);
        // SAFETY: as above.
        unsafe { System.realloc(block, layout, new_size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(layout.size(), -1);
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
    }
}
