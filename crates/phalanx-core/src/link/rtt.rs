//! Round-trip estimate and the probe timeout that follows from it (RFC 6298 section 2, RFC 9002 section 6.2).

use std::time::Duration;

/// Smoothed round-trip time of one path. In nanoseconds, because the timers of every stream read it at every poll.
#[derive(Clone, Debug)]
pub struct Rtt {
    smoothed_ns: u64,
    variation_ns: u64,
    measured: bool,
}

/// Assumed round trip until one is measured.
const INITIAL_NS: u64 = 20_000_000;
/// The shortest probe timeout. Receivers poll in iterations of their event loops, and do not answer at once.
const PROBE_MIN_NS: u64 = 4_000_000;
/// The longest probe timeout, whatever was measured. Bounds how late a stream finds out that a path carries again.
const PROBE_MAX_NS: u64 = 250_000_000;
/// The most doublings of [`Rtt::resend_after`].
const BACKOFF_MAX: u32 = 16;
/// Cap on a sample: a year, so that the sums in [`Rtt::sample`] fit.
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
    /// Takes one measured round trip into the estimate, with the weights of RFC 6298: 1/8 and 1/4.
    pub fn sample(&mut self, rtt: Duration) {
        let rtt_ns = nanos(rtt);
        // The first sample replaces the assumed value (RFC 6298, section 2.2).
        if !self.measured {
            self.smoothed_ns = rtt_ns;
            self.variation_ns = rtt_ns / 2;
            self.measured = true;
            return;
        }
        let difference_ns = self.smoothed_ns.abs_diff(rtt_ns);
        self.variation_ns = (self.variation_ns * 3 + difference_ns) / 4;
        self.smoothed_ns = (self.smoothed_ns * 7 + rtt_ns) / 8;
        debug_assert!(self.smoothed_ns <= RTT_MAX_NS, "the average exceeds its longest sample");
        debug_assert!(self.variation_ns <= RTT_MAX_NS, "the deviation exceeds its longest sample");
    }

    /// The smoothed round trip.
    #[must_use]
    pub fn smoothed(&self) -> Duration {
        Duration::from_nanos(self.smoothed_ns)
    }

    /// The same, once it was measured.
    #[must_use]
    pub fn measured(&self) -> Option<Duration> {
        self.measured.then(|| self.smoothed())
    }

    /// The smoothed deviation of round trips from [`Self::smoothed`].
    #[must_use]
    pub fn deviation(&self) -> Duration {
        Duration::from_nanos(self.variation_ns)
    }

    /// Time without an ack after which a probe is sent, after `failures` probes without progress. Doubles with each
    /// failure, up to the longest probe timeout.
    #[must_use]
    pub fn probe_after(&self, ack_delay: Duration, failures: u32) -> Duration {
        // RFC 9002, section 6.2.1: the receiver may delay its ack by `ack_delay`.
        let base_ns = (self.smoothed_ns + self.variation_ns * 4 + nanos(ack_delay)).max(PROBE_MIN_NS);
        Duration::from_nanos(base_ns.saturating_mul(1 << failures.min(6)).min(PROBE_MAX_NS))
    }

    /// Time after which a missing packet counts as lost, not reordered. Doubled `backoff` times, up to the longest
    /// probe timeout.
    #[must_use]
    pub fn resend_after(&self, backoff: u32) -> Duration {
        let base_ns = self.smoothed_ns + self.variation_ns;
        let doubled_ns = base_ns.saturating_mul(1 << backoff.min(BACKOFF_MAX));
        // A path with a longer round trip than that timeout needs at least one of its round trips.
        let after_ns = doubled_ns.min(PROBE_MAX_NS).max(base_ns);
        debug_assert!(after_ns >= self.smoothed_ns, "a packet counts as lost before its ack can arrive");
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
