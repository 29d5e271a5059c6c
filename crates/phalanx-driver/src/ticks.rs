//! A clock that costs next to nothing to read and says nothing of its unit.

/// The processor's own count, which runs evenly and alike on all processors of a machine; where there is none, nanoseconds.
#[cfg(target_arch = "x86_64")]
#[must_use]
#[inline]
pub fn ticks() -> u64 {
    // SAFETY: the instruction is part of x86-64, has no operands and touches no memory.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// The processor's own count, which runs evenly and alike on all processors of a machine; where there is none, nanoseconds.
#[cfg(not(target_arch = "x86_64"))]
#[must_use]
#[inline]
pub fn ticks() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
