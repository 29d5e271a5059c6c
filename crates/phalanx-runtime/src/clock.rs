//! The machine's clock as the core's [`Instant`].

use phalanx_core::Instant;
use rustix::time::{ClockId, clock_gettime};

/// The name of this clock in a [`phalanx_trace::Header`]. Times compare within one boot of one machine.
#[must_use]
pub fn clock_name() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    format!("monotonic of boot {}", boot.trim())
}

/// The time since the machine booted, the same for all its processes. Never decreases.
#[must_use]
pub fn now() -> Instant {
    let time = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
    Instant(seconds.saturating_mul(1_000_000_000).saturating_add(nanos))
}
