//! Round-trip estimate and the probe timeout that follows from it (RFC 6298 sections 2 and 5, RFC 9002 section 6.2).

use std::time::Duration;

use crate::time::Instant;

/// Smoothed round-trip time of one path. In nanoseconds, because the timers of every stream read it at every poll.
#[derive(Clone, Debug)]
pub struct Rtt {
    smoothed_ns: u64,
    variation_ns: u64,
    measured: bool,
    /// What the acks of the last retransmitted packets took since these were first sent. Zero for who was not, and again
    /// once a round trip is measured that the estimate covers.
    late_ns: [u64; LATE_ACKS],
    /// When the last of these acks came.
    late_at: Instant,
}

/// Assumed round trip until one is measured.
const INITIAL_NS: u64 = 20_000_000;
/// The shortest probe timeout. Receivers poll in iterations of their event loops, and do not answer at once.
const PROBE_MIN_NS: u64 = 4_000_000;
/// The longest probe timeout after a failure, unless a round trip is longer. Also the most that a probe timeout exceeds
/// the round trip. Bounds how late a stream finds out that a path carries again.
const PROBE_MAX_NS: u64 = 250_000_000;
/// The number of acks of retransmitted packets that must be late before new packets wait for theirs as long.
const LATE_ACKS: usize = 3;
/// The most doublings of [`Rtt::resend_after`].
const BACKOFF_MAX: u32 = 16;
/// The longest time that counts as a round trip. If it took longer, one end did not run, which says nothing of its
/// distance.
const RTT_MAX_NS: u64 = 3_000_000_000;
const _: () = assert!(PROBE_MIN_NS <= PROBE_MAX_NS, "the times between probes are an interval");
const _: () = assert!(INITIAL_NS * 3 <= PROBE_MAX_NS, "the first probe does not wait for the longest time");
const _: () =
    assert!(PROBE_MAX_NS <= RTT_MAX_NS, "a packet is retransmitted to a silent end before its round trip is over");
const _: () = assert!(RTT_MAX_NS <= u64::MAX / 8, "seven times the estimate and a sample fit");

impl Default for Rtt {
    fn default() -> Self {
        Self {
            smoothed_ns: INITIAL_NS,
            variation_ns: INITIAL_NS / 2,
            measured: false,
            late_ns: [0; LATE_ACKS],
            late_at: Instant::ZERO,
        }
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
            self.late_ns = [0; LATE_ACKS];
            return;
        }
        let difference_ns = self.smoothed_ns.abs_diff(rtt_ns);
        self.variation_ns = (self.variation_ns * 3 + difference_ns) / 4;
        self.smoothed_ns = (self.smoothed_ns * 7 + rtt_ns) / 8;
        // A path that became longer: one sample changes the estimate by an eighth only.
        if rtt_ns <= self.base_ns(Duration::ZERO) {
            self.late_ns = [0; LATE_ACKS];
        }
        debug_assert!(self.smoothed_ns <= RTT_MAX_NS, "the average exceeds its longest sample");
        debug_assert!(self.variation_ns <= RTT_MAX_NS, "the deviation exceeds its longest sample");
    }

    /// Takes the ack of a packet that was retransmitted, and was first sent at `first`.
    ///
    /// It gives no round trip, because nobody knows which copy it answers. Then a path with a longer round trip than the
    /// probe timeout would never be measured. So new packets wait for their acks as long as the quickest of the last of
    /// these did, until one that was sent once is acknowledged (RFC 6298, sections 5.5 to 5.7).
    pub fn sample_resent(&mut self, now: Instant, first: Instant) {
        // A path that did not carry for a while made all packets of that time late, and they say nothing of its length.
        // So they count once.
        if first < self.late_at {
            return;
        }
        self.late_at = now;
        self.late_ns.rotate_right(1);
        self.late_ns[0] = nanos(now.since(first));
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
    /// failure, up to the longest probe timeout or one round trip.
    #[must_use]
    pub fn probe_after(&self, ack_delay: Duration, failures: u32) -> Duration {
        let base_ns = self.base_ns(ack_delay);
        if failures == 0 {
            let late_ns = self.late_ns.into_iter().min().unwrap_or_default();
            return Duration::from_nanos(base_ns.max(late_ns + base_ns.min(PROBE_MAX_NS)));
        }
        let doubled_ns = base_ns.saturating_mul(1 << failures.min(6));
        Duration::from_nanos(doubled_ns.min(PROBE_MAX_NS).max(base_ns))
    }

    /// The time within which an ack is expected (RFC 9002, section 6.2.1: the receiver may delay it by `ack_delay`).
    fn base_ns(&self, ack_delay: Duration) -> u64 {
        let slack_ns = (self.variation_ns * 4 + nanos(ack_delay)).min(PROBE_MAX_NS);
        (self.smoothed_ns + slack_ns).max(PROBE_MIN_NS)
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
            let most = Duration::from_nanos(RTT_MAX_NS + PROBE_MAX_NS);
            assert!([0, 5, u32::MAX].iter().all(|failures| rtt.probe_after(took, *failures) == most));
            assert!([0, 5, u32::MAX].iter().all(|backoff| rtt.resend_after(*backoff) >= longest));
            assert!(rtt.resend_after(u32::MAX) <= most);
        }
    }

    /// The next packet after those that were retransmitted waits as long as the quickest of the last [`LATE_ACKS`]. What was
    /// sent while a path did not carry counts as one of them.
    #[test]
    fn new_packets_wait_as_long_as_the_quickest_of_the_last_retransmitted_ones() {
        let ms = Duration::from_millis;
        let mut rtt = Rtt::default();
        (0..50).for_each(|_| rtt.sample(ms(1)));
        let near = rtt.probe_after(Duration::ZERO, 0);
        let mut now = Instant::ZERO;
        let mut late = |rtt: &mut Rtt, took: Duration| {
            let first = now;
            now += took;
            // Two packets at once, and the second one's ack a moment later.
            rtt.sample_resent(now, first);
            rtt.sample_resent(now + ms(1), first);
            now += ms(1);
            assert_eq!(rtt.probe_after(Duration::ZERO, 1), near * 2, "only the first copy waits");
            rtt.probe_after(Duration::ZERO, 0)
        };
        let waits = [1_000, 60_000, 700, 1_000, 1_500, 1_200].map(|took_ms| late(&mut rtt, ms(took_ms)));
        assert_eq!(waits, [0, 0, 700, 700, 700, 1_000].map(|waits_ms| ms(waits_ms) + near));
        (0..LATE_ACKS).for_each(|_| _ = late(&mut rtt, ms(60_000)));
        assert_eq!(rtt.probe_after(Duration::ZERO, 0), Duration::from_nanos(RTT_MAX_NS) + near);
        // One that the estimate does not cover changes it by an eighth only.
        rtt.sample(ms(900));
        assert!(rtt.probe_after(Duration::ZERO, 0) >= Duration::from_nanos(RTT_MAX_NS));
        (0..50).for_each(|_| rtt.sample(ms(1)));
        assert_eq!(rtt.probe_after(Duration::ZERO, 0), near);
    }
}
