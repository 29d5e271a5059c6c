//! What a child measures with: the clock, its processor time, and the counters of packets that the kernel dropped.

use rustix::time::{ClockId, clock_gettime};

/// Processor time of this process, in nanoseconds.
pub(crate) fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// The monotonic clock, which all processes of this machine share, in nanoseconds.
pub(crate) fn now_ns() -> u64 {
    phalanx_runtime::clock::now().nanos()
}

/// Whether a driver's counter holds packets that the kernel dropped because a receive buffer was full. The names of a
/// driver's counters begin with the driver's name.
pub(crate) fn is_kernel_drop(counter: &str) -> bool {
    counter.ends_with("_receive_overflows")
}
