//! Has the C library call us in the child of each fork.

use std::sync::atomic::Ordering;

use super::FORKS;

pub(super) fn install() {
    // SAFETY: the handler is a function for the whole life of the program, and does nothing but an atomic addition,
    // which is allowed between a fork and an exec.
    let outcome = unsafe { libc::pthread_atfork(None, None, Some(count)) };
    // The only failure is want of memory at the first use of the library; without the hook a forked child would
    // not be told that its handle is dead, and everything else works.
    debug_assert_eq!(outcome, 0, "registering a fork handler takes a few bytes");
}

unsafe extern "C" fn count() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}
