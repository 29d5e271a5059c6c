//! Virtual time, and a process's clock. The clock is ahead of virtual time by some offset, and may be fast or slow.

use phalanx_core::Instant;

/// A millisecond and a second of virtual time, in nanoseconds.
pub(crate) const MS: u64 = 1_000_000;
/// See [`MS`].
pub(crate) const SECOND: u64 = 1000 * MS;

/// A million parts: the rate of a clock that keeps virtual time.
const TRUE_RATE: u64 = 1_000_000;

/// The clock of one process. Like `CLOCK_MONOTONIC` it never goes back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    /// Virtual time and the clock's time when its rate last changed.
    since_ns: u64,
    showed_ns: u64,
    /// Its gain during a million units of virtual time.
    rate: u64,
}

impl Clock {
    /// A clock that shows `ahead_ns` at the beginning of virtual time.
    pub(crate) fn new(ahead_ns: u64) -> Self {
        Self { since_ns: 0, showed_ns: ahead_ns, rate: TRUE_RATE }
    }

    /// The time it shows at `now_ns` of virtual time.
    pub(crate) fn local(&self, now_ns: u64) -> Instant {
        let passed_ns = now_ns.saturating_sub(self.since_ns);
        if self.rate == TRUE_RATE {
            return Instant(self.showed_ns + passed_ns);
        }
        Instant(self.showed_ns + scale(passed_ns, self.rate, TRUE_RATE, 0))
    }

    /// The first moment of virtual time at which it shows `local` or more.
    pub(crate) fn virtual_ns(&self, local: Instant) -> u64 {
        let left_ns = local.nanos().saturating_sub(self.showed_ns);
        if self.rate == TRUE_RATE {
            return self.since_ns + left_ns;
        }
        self.since_ns + scale(left_ns, TRUE_RATE, self.rate, self.rate - 1)
    }

    /// Whether it runs fast or slow.
    pub(crate) fn drifts(&self) -> bool {
        self.rate != TRUE_RATE
    }

    /// Jumps ahead by `by_ns`.
    pub(crate) fn jump(&mut self, by_ns: u64) {
        self.showed_ns += by_ns;
    }

    /// Makes it fast (or, if negative, slow) by `ppm` parts in a million from `now_ns` on.
    pub(crate) fn drift(&mut self, now_ns: u64, ppm: i32) {
        *self = Self {
            since_ns: now_ns,
            showed_ns: self.local(now_ns).nanos(),
            rate: TRUE_RATE.saturating_add_signed(ppm.into()).max(1),
        };
    }
}

/// `value * times / parts`, where `extra` rounds it up.
fn scale(value: u64, times: u64, parts: u64, extra: u64) -> u64 {
    let scaled = (u128::from(value) * u128::from(times) + u128::from(extra)) / u128::from(parts);
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_reached_when_it_is_due_and_not_before() {
        let mut clock = Clock::new(777);
        for (step, ppm) in [0, 200, -200, 50_000, -50_000, 333_333, 0].into_iter().enumerate() {
            let now_ns = 1_000_003 * step as u64;
            let before = clock.local(now_ns);
            clock.drift(now_ns, ppm);
            assert_eq!(clock.local(now_ns), before, "a change of rate is no jump");
            for after_ns in [0, 1, 7, 999, 1_000_000, 123_456_789] {
                let due = Instant(before.nanos() + after_ns);
                let at_ns = clock.virtual_ns(due);
                assert!(clock.local(at_ns) >= due);
                assert!(at_ns <= now_ns || clock.local(at_ns - 1) < due);
            }
        }
        let before = clock.local(10_000_000);
        clock.jump(5);
        assert_eq!(clock.local(10_000_000).nanos(), before.nanos() + 5);
    }
}
