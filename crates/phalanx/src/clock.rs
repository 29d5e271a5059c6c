//! The machine's clock in the core's terms.

use phalanx_core::Instant;
use rustix::time::{ClockId, clock_gettime};

/// What a [`phalanx_trace::Header`] calls this clock; times of one boot of one machine compare.
#[must_use]
pub fn clock_name() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    format!("monotonic of boot {}", boot.trim())
}

/// The time since the machine started, the same for all its processes. Never goes back.
#[must_use]
pub fn now() -> Instant {
    let time = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
    Instant(seconds.saturating_mul(1_000_000_000).saturating_add(nanos))
}
