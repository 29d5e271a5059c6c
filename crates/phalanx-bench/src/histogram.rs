//! Distributions of times.

use hdrhistogram::Histogram;

use crate::row::Quantiles;

/// Times in nanoseconds, with three significant digits.
#[derive(Debug)]
pub(crate) struct Times(Histogram<u64>);

impl Times {
    pub(crate) fn new() -> Self {
        Self(Histogram::new_with_bounds(1, LONGEST_NS, 3).expect("the bounds satisfy the histogram's rules"))
    }

    /// Records a time. One above the maximum of a minute counts as a minute.
    pub(crate) fn note(&mut self, nanos: u64) {
        self.0.saturating_record(nanos);
    }

    /// Returns the distribution in microseconds, and clears it.
    pub(crate) fn take(&mut self) -> Quantiles {
        let at = |share: f64| self.0.value_at_quantile(share) as f64 / 1e3;
        let quantiles = Quantiles { count: self.0.len(), p50: at(0.5), p99: at(0.99), p999: at(0.999) };
        self.0.reset();
        quantiles
    }
}

/// A minute.
const LONGEST_NS: u64 = 60_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_in_microseconds() {
        let mut times = Times::new();
        for micros in 1..=1_000_u64 {
            times.note(micros * 1_000);
        }
        let quantiles = times.take();
        assert_eq!(quantiles.count, 1_000);
        assert!((quantiles.p50 - 500.0).abs() < 1.0 && (quantiles.p999 - 999.0).abs() < 2.0, "{quantiles:?}");
        assert_eq!(times.take().count, 0);
    }
}
