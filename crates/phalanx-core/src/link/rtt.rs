//! Round-trip estimate and the probe timeout that follows from it (RFC 6298 section 2, RFC 9002 section 6.2).

use std::time::Duration;

/// Smoothed round-trip time of one path. Kept in nanoseconds: the timers of every stream look at it at every turn.
#[derive(Clone, Debug)]
pub struct Rtt {
    smoothed_ns: u64,
    variation_ns: u64,
    measured: bool,
}

/// Assumed until something is measured.
const INITIAL_NS: u64 = 20_000_000;
/// A probe is never sooner than this: receivers are turned, not interrupted.
const PROBE_MIN_NS: u64 = 4_000_000;
/// A probe never waits longer than this, whatever was measured.
const PROBE_MAX_NS: u64 = 250_000_000;
/// How often the time until a packet counts as lost is doubled.
const BACKOFF_MAX: u32 = 16;
/// Longer round trips count as this one: a year, so that sums of a few of them fit.
const RTT_MAX_NS: u64 = 31_536_000_000_000_000;
const _: () = assert!(PROBE_MIN_NS <= PROBE_MAX_NS, "the times between probes are an interval");
const _: () = assert!(INITIAL_NS * 3 <= PROBE_MAX_NS, "the first probe does not wait for the longest time");
const _: () = assert!(RTT_MAX_NS <= u64::MAX / 8, "seven times the estimate and a sample fit");

impl Default for Rtt {
    fn default() -> Self {
        Self { smoothed_ns: INITIAL_NS, variation_ns: INITIAL_NS / 2, measured: false }
    }
}

impl Rtt {
    /// Takes one measured round trip into account.
    pub fn sample(&mut self, rtt: Duration) {
        let rtt_ns = nanos(rtt);
        if !self.measured {
            self.smoothed_ns = rtt_ns;
            self.variation_ns = rtt_ns / 2;
            self.measured = true;
            return;
        }
        let difference_ns = self.smoothed_ns.abs_diff(rtt_ns);
        self.variation_ns = (self.variation_ns * 3 + difference_ns) / 4;
        self.smoothed_ns = (self.smoothed_ns * 7 + rtt_ns) / 8;
        debug_assert!(self.smoothed_ns <= RTT_MAX_NS, "an average exceeds the longest of its samples");
        debug_assert!(self.variation_ns <= RTT_MAX_NS, "a deviation exceeds the longest sample");
    }

    /// The smoothed round trip.
    #[must_use]
    pub fn smoothed(&self) -> Duration {
        Duration::from_nanos(self.smoothed_ns)
    }

    /// How far round trips lie from it, smoothed as well.
    #[must_use]
    pub fn deviation(&self) -> Duration {
        Duration::from_nanos(self.variation_ns)
    }

    /// How long to wait for an ack before probing, after `failures` probes without progress.
    #[must_use]
    pub fn probe_after(&self, ack_delay: Duration, failures: u32) -> Duration {
        let base_ns = (self.smoothed_ns + self.variation_ns * 4 + nanos(ack_delay)).max(PROBE_MIN_NS);
        Duration::from_nanos(base_ns.saturating_mul(1 << failures.min(6)).min(PROBE_MAX_NS))
    }

    /// How long after a packet was sent its absence means loss rather than reordering: doubled `backoff` times, up to the longest interval
    /// between probes.
    #[must_use]
    pub fn resend_after(&self, backoff: u32) -> Duration {
        let base_ns = self.smoothed_ns + self.variation_ns;
        let doubled_ns = base_ns.saturating_mul(1 << backoff.min(BACKOFF_MAX));
        let after_ns = doubled_ns.min(PROBE_MAX_NS).max(base_ns);
        debug_assert!(after_ns >= self.smoothed_ns, "a packet counts as lost before its ack can be here");
        Duration::from_nanos(after_ns)
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).min(RTT_MAX_NS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probe_backs_off_and_stays_bounded() {
        let mut rtt = Rtt::default();
        for _ in 0..50 {
            rtt.sample(Duration::from_micros(100));
        }
        let first = rtt.probe_after(Duration::ZERO, 0);
        assert!(first >= Duration::from_nanos(PROBE_MIN_NS));
        assert!(rtt.probe_after(Duration::ZERO, 3) >= first);
        assert_eq!(rtt.probe_after(Duration::ZERO, 100), Duration::from_nanos(PROBE_MAX_NS));
    }

    #[test]
    fn a_round_trip_longer_than_any_counts_as_the_longest() {
        let longest = Duration::from_nanos(RTT_MAX_NS);
        for took in [longest, longest * 2, Duration::MAX] {
            let mut rtt = Rtt::default();
            (0..100).for_each(|_| rtt.sample(took));
            assert_eq!(rtt.probe_after(took, 0), Duration::from_nanos(PROBE_MAX_NS));
            assert!([0, 5, u32::MAX].iter().all(|backoff| rtt.resend_after(*backoff) >= longest));
        }
    }
}
