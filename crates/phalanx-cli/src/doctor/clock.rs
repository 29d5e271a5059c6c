//! The clock, and whether a sleeping process wakes when it should.

use std::thread::sleep;
use std::time::{Duration, Instant};

use phalanx::config::show_duration;

use super::Finding;

/// Clock sources the kernel reads without leaving the processor or asking slow hardware.
const FAST_SOURCES: [&str; 5] = ["tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page", "xen"];

const SLEEP: Duration = Duration::from_millis(1);
const SLEEPS: u32 = 50;

/// A fraction of the default patience before a silent member is suspected (900 ms).
const LATE: Duration = Duration::from_millis(50);

pub(super) fn source() -> Finding {
    let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let Ok(text) = std::fs::read_to_string(path) else {
        return Finding::ok("clock", "monotonic (its source is not shown here)");
    };
    let source = text.trim();
    if FAST_SOURCES.contains(&source) {
        return Finding::ok("clock", format!("monotonic from {source}"));
    }
    Finding::warn(
        "clock",
        format!("monotonic from {source}, which is slow to read"),
        "boot with clocksource=tsc if the machine's counter is stable",
    )
}

pub(super) fn wake_ups() -> Finding {
    let mut worst = Duration::ZERO;
    for _ in 0..SLEEPS {
        let began = Instant::now();
        sleep(SLEEP);
        worst = worst.max(began.elapsed().saturating_sub(SLEEP));
    }
    let worst = Duration::from_micros(u64::try_from(worst.as_micros()).unwrap_or(u64::MAX));
    let found = format!("a sleep of {} ends at most {} late", show_duration(SLEEP), show_duration(worst));
    if worst < LATE {
        return Finding::ok("wake-ups", found);
    }
    Finding::warn(
        "wake-ups",
        format!("{found}: the machine is overloaded, or stops this process at times"),
        "give it more processor time, or raise timing.suspect_after so that pauses exclude nobody",
    )
}
