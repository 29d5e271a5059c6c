//! The system's allocator, counting what each thread takes.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Counts, and leaves the work to [`System`].
pub(crate) struct Counting;

thread_local! {
    static TAKEN: Cell<u64> = const { Cell::new(0) };
}

/// How often this thread allocated, reallocations included.
pub(crate) fn taken() -> u64 {
    TAKEN.get()
}

fn count() {
    // A thread that is being torn down may still allocate; what it takes then is of no interest.
    let _ = TAKEN.try_with(|taken| taken.set(taken.get() + 1));
}

// SAFETY: every call is handed to `System` unchanged; counting neither allocates nor unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps this function's contract, which is that of `System`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.realloc(block, layout, new_size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
    }
}
