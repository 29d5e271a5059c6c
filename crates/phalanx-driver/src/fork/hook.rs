//! Registers a handler with the C library that runs in the child of each fork.

use std::sync::atomic::Ordering;

use super::FORKS;

pub(super) fn install() {
    // SAFETY: `count` is a function item, so it is valid for the whole run of the program. It is async-signal-safe, as
    // a handler between a fork and an exec must be: it does one atomic addition, takes no lock and allocates nothing.
    let outcome = unsafe { libc::pthread_atfork(None, None, Some(count)) };
    // `pthread_atfork` fails only for lack of memory at its first use. Without the handler a forked child would not
    // learn that its handles are dead; everything else works.
    debug_assert_eq!(outcome, 0, "registering a fork handler takes a few bytes");
}

unsafe extern "C" fn count() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}
