//! A clock that is cheap to read and has no fixed unit.

/// The processor's time-stamp counter, which runs at one rate on all processors of a machine. Other architectures
/// return nanoseconds.
#[cfg(target_arch = "x86_64")]
#[must_use]
#[inline]
pub fn ticks() -> u64 {
    // SAFETY: `rdtsc` is part of x86-64, takes no operands and touches no memory.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Monotonic nanoseconds: the fallback where no time-stamp counter is read.
#[cfg(not(target_arch = "x86_64"))]
#[must_use]
#[inline]
pub fn ticks() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
