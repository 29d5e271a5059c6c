//! Round-trip estimate and the probe timeout that follows from it (RFC 6298 section 2, RFC 9002 section 6.2).

use std::time::Duration;

/// Smoothed round-trip time of one path.
#[derive(Clone, Debug)]
pub struct Rtt {
    smoothed: Duration,
    variation: Duration,
    measured: bool,
}

/// Assumed until something is measured.
const INITIAL: Duration = Duration::from_millis(20);
/// A probe is never sooner than this: receivers are turned, not interrupted.
const PROBE_MIN: Duration = Duration::from_millis(4);
/// A probe never waits longer than this, whatever was measured.
const PROBE_MAX: Duration = Duration::from_millis(250);

impl Default for Rtt {
    fn default() -> Self {
        Self { smoothed: INITIAL, variation: INITIAL / 2, measured: false }
    }
}

impl Rtt {
    /// Takes one measured round trip into account.
    pub fn sample(&mut self, rtt: Duration) {
        if !self.measured {
            self.smoothed = rtt;
            self.variation = rtt / 2;
            self.measured = true;
            return;
        }
        let difference = self.smoothed.abs_diff(rtt);
        self.variation = (self.variation * 3 + difference) / 4;
        self.smoothed = (self.smoothed * 7 + rtt) / 8;
    }

    /// The smoothed round trip.
    #[must_use]
    pub fn smoothed(&self) -> Duration {
        self.smoothed
    }

    /// How long to wait for a receipt before probing, after `failures` probes without progress.
    #[must_use]
    pub fn probe_after(&self, ack_delay: Duration, failures: u32) -> Duration {
        let base = (self.smoothed + self.variation * 4 + ack_delay).max(PROBE_MIN);
        base.saturating_mul(1 << failures.min(6)).min(PROBE_MAX)
    }

    /// How long after a packet was sent its absence means loss rather than reordering.
    #[must_use]
    pub fn resend_after(&self) -> Duration {
        self.smoothed + self.variation
    }
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
        assert!(first >= PROBE_MIN);
        assert!(rtt.probe_after(Duration::ZERO, 3) >= first);
        assert_eq!(rtt.probe_after(Duration::ZERO, 100), PROBE_MAX);
    }
}
