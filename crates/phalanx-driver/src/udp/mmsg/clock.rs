//! A clock that is cheap to read.

/// Reads the coarse monotonic clock, which advances with the kernel's tick, every few milliseconds. It reads memory
/// that the kernel maps into the process (vDSO), without a system call.
pub(in crate::udp) fn coarse_hand() -> Hand {
    let mut hand = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to `hand`, a live local that the call may write. The call cannot fail for a clock that
    // Linux has; if it did, `hand` would stay zero.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &raw mut hand) };
    (hand.tv_sec, hand.tv_nsec)
}

/// A reading of the coarse clock.
pub(in crate::udp) type Hand = (libc::time_t, libc::c_long);
