//! The system's allocator, counting what each thread takes.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hint::black_box;

/// Counts, and leaves the work to [`System`]. A program that makes it its global allocator pays one addition to a word
/// of the thread's own for each allocation.
#[derive(Debug)]
pub struct Counting;

thread_local! {
    static TAKEN: Cell<u64> = const { Cell::new(0) };
}

/// How often this thread allocated, reallocations included.
pub(crate) fn taken() -> u64 {
    TAKEN.get()
}

/// Whether this program counts at all.
pub(crate) fn counts() -> bool {
    let before = taken();
    drop(black_box(Box::new(7_u8)));
    taken() != before
}

#[inline]
fn count() {
    // A thread that is being torn down may still allocate; what it takes then is of no interest.
    let _ = TAKEN.try_with(|taken| taken.set(taken.get() + 1));
}

// SAFETY: every call is handed to `System` unchanged; counting neither allocates nor unwinds.
unsafe impl GlobalAlloc for Counting {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps this function's contract, which is that of `System`.
        unsafe { System.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.realloc(block, layout, new_size) }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
    }
}
