//! A wrapper around the system's allocator that counts the allocations of each thread.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hint::black_box;

/// A global allocator that counts each allocation and forwards it to [`System`]. The cost is one increment of a
/// thread-local word for each allocation.
#[derive(Debug)]
pub struct Counting;

thread_local! {
    static TAKEN: Cell<u64> = const { Cell::new(0) };
}

/// Number of allocations by this thread so far, reallocations included.
pub(crate) fn taken() -> u64 {
    TAKEN.get()
}

/// Whether [`Counting`] is this program's global allocator.
pub(crate) fn counts() -> bool {
    let before = taken();
    drop(black_box(Box::new(7_u8)));
    taken() != before
}

#[inline]
fn count() {
    // `try_with` fails while a thread's locals are being destroyed. Allocations made then are not worth counting.
    let _ = TAKEN.try_with(|taken| taken.set(taken.get() + 1));
}

// SAFETY: every method forwards its arguments unchanged to `System`, which upholds the contract of `GlobalAlloc`.
// `count` only increments a const-initialised thread-local `Cell`: it neither allocates (no recursion) nor unwinds.
unsafe impl GlobalAlloc for Counting {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller guarantees a layout of non-zero size (`GlobalAlloc::alloc`); `System.alloc` asks for the
        // same.
        unsafe { System.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller guarantees a layout of non-zero size; `System.alloc_zeroed` asks for the same.
        unsafe { System.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller guarantees that `block` came from this allocator with `layout`, and that `new_size` is
        // valid. This allocator hands out only blocks of `System`, so `block` is one of those.
        unsafe { System.realloc(block, layout, new_size) }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller guarantees that `block` came from this allocator with `layout`. This allocator hands out
        // only blocks of `System`, so `block` is one of those.
        unsafe { System.dealloc(block, layout) }
    }
}
