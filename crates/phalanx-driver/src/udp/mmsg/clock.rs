//! A clock that costs next to nothing to read.

/// The coarse hand of the monotonic clock: it moves every few milliseconds, as often as the kernel's tick. Read from
/// memory that the kernel shares, without a system call.
pub(in crate::udp) fn coarse_hand() -> Hand {
    let mut hand = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to `hand`, which outlives the call. It does not fail for a clock that Linux has; if it
    // did, the hand would stand still.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &raw mut hand) };
    (hand.tv_sec, hand.tv_nsec)
}

/// Where the hand stands.
pub(in crate::udp) type Hand = (libc::time_t, libc::c_long);
