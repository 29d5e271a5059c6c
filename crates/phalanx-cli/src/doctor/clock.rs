//! Checks the clock, and whether a sleeping process wakes on time.

use std::hint::black_box;
use std::thread::sleep;
use std::time::{Duration, Instant};

use phalanx_runtime::config::show_duration;
use phalanx_runtime::core::Timing;

use super::{Check, Finding};

/// Bound on a clock read. An idle iteration of the event loop takes about this long, and reads the clock once.
const READ_MAX: Duration = Duration::from_nanos(200);
const READS: u32 = 1_000;
const BATCHES: usize = 21;

const SLEEP: Duration = Duration::from_millis(1);
const SLEEPS: u32 = 100;

pub(super) fn reading() -> Finding {
    judge_reading(time_of_a_read(), &source())
}

/// Median time of a clock read over some batches. Other work on the machine lengthens only single batches.
fn time_of_a_read() -> Duration {
    let mut batches = [Duration::ZERO; BATCHES];
    for batch in &mut batches {
        let began = Instant::now();
        for _ in 0..READS {
            black_box(Instant::now());
        }
        *batch = began.elapsed() / READS;
    }
    batches.sort_unstable();
    batches[BATCHES / 2]
}

fn source() -> String {
    let text = std::fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    text.map_or_else(|_| "a source that is not shown here".to_owned(), |text| text.trim().to_owned())
}

fn judge_reading(took: Duration, source: &str) -> Finding {
    let check = Check::new(
        "clock",
        format!(
            "read within {}: each iteration of the event loop reads it once, and takes little longer when idle",
            show_duration(READ_MAX)
        ),
    );
    let found = format!("monotonic from {source}, read in {}", show_duration(took));
    if took <= READ_MAX {
        return check.ok(found);
    }
    check.warn(found, "boot with clocksource=tsc if the machine's counter is stable")
}

pub(super) fn wake_ups(timing: &Timing) -> Finding {
    let mut worst = Duration::ZERO;
    for _ in 0..SLEEPS {
        let began = Instant::now();
        sleep(SLEEP);
        worst = worst.max(began.elapsed().saturating_sub(SLEEP));
    }
    judge_wake_ups(Duration::from_micros(u64::try_from(worst.as_micros()).unwrap_or(u64::MAX)), timing)
}

fn judge_wake_ups(worst: Duration, timing: &Timing) -> Finding {
    // If a wake-up is late by a tenth of the interval, as many heartbeats still arrive within `suspect_after`. If it is
    // late by `suspect_after` minus one interval, a healthy member is suspected.
    let (late, lost) = (timing.heartbeat / 10, timing.suspect_after.saturating_sub(timing.heartbeat));
    let check = Check::new(
        "wake-ups",
        format!(
            "at most {} late: a tenth of timing.heartbeat; {} late, others suspect this process",
            show_duration(late),
            show_duration(lost)
        ),
    );
    let found = format!("{SLEEPS} sleeps of {} ended at most {} late", show_duration(SLEEP), show_duration(worst));
    let remedy = "give it more processor time, or raise timing.heartbeat and timing.suspect_after";
    if worst >= lost {
        check.fail(found, remedy)
    } else if worst > late {
        check.warn(format!("{found}: the machine is overloaded, or stops this process at times"), remedy)
    } else {
        check.ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;

    #[test]
    fn late_wake_ups_are_measured_by_the_heartbeat() {
        let timing = Timing::default();
        let verdict = |late_ms| judge_wake_ups(Duration::from_millis(late_ms), &timing).verdict;
        assert_eq!([0, 10, 11, 33, 2_899, 2_900].map(verdict), {
            use Verdict::{Fail, Ok, Warn};
            [Ok, Ok, Warn, Warn, Warn, Fail]
        });
        let patient = Timing { heartbeat: Duration::from_secs(1), suspect_after: Duration::from_secs(9), ..timing };
        assert_eq!(judge_wake_ups(Duration::from_millis(33), &patient).verdict, Verdict::Ok);
    }

    #[test]
    fn a_clock_is_judged_by_how_long_it_takes_to_read() {
        assert_eq!(judge_reading(Duration::from_nanos(40), "tsc").verdict, Verdict::Ok);
        assert_eq!(judge_reading(Duration::from_nanos(900), "tsc").verdict, Verdict::Warn);
    }
}
