//! Latencies in buckets whose width grows with the value: within 1/16 of the true value, in fixed memory.

use serde::{Deserialize, Serialize};

/// Sub-buckets of each power of two.
const STEPS: u32 = 16;

/// Counts of values by size.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Histogram {
    /// Counts by bucket number, without trailing zeros.
    counts: Vec<u64>,
}

impl Histogram {
    pub(super) fn add(&mut self, value: u64) {
        let bucket = bucket_of(value);
        if self.counts.len() <= bucket {
            self.counts.resize(bucket + 1, 0);
        }
        if let Some(count) = self.counts.get_mut(bucket) {
            *count += 1;
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        // The bound protects against a malformed histogram from another process.
        let len = self.counts.len().max(other.counts.len()).min(bucket_of(u64::MAX) + 1);
        self.counts.resize(len, 0);
        for (sum, count) in self.counts.iter_mut().zip(&other.counts) {
            *sum = sum.saturating_add(*count);
        }
    }

    pub(super) fn count(&self) -> u64 {
        self.counts.iter().fold(0, |sum: u64, count| sum.saturating_add(*count))
    }

    /// The value that a `share` (0 to 1) of all values do not exceed, rounded up to its bucket; `None` when empty.
    pub(super) fn quantile(&self, share: f64) -> Option<u64> {
        let wanted = ((self.count() as f64) * share).ceil().max(1.0);
        let mut seen = 0.0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += *count as f64;
            if *count > 0 && seen >= wanted {
                return Some(upper_end(bucket));
            }
        }
        None
    }
}

fn bucket_of(value: u64) -> usize {
    let power = 64 - value.leading_zeros();
    if power <= 5 {
        return value as usize;
    }
    // The four bits below the highest one select the sub-bucket.
    let shift = power - 5;
    let step = (value >> shift) as u32 - STEPS;
    (shift * STEPS + STEPS + step) as usize
}

/// The largest value of a bucket.
fn upper_end(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    let steps = u64::from(STEPS);
    if bucket < 2 * steps {
        return bucket;
    }
    let shift = bucket / steps - 1;
    let step = bucket % steps + steps;
    ((step + 1) << shift).wrapping_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_lies_in_its_bucket_within_a_sixteenth() {
        for value in (0..5_000).chain([u64::MAX, u64::MAX / 3, 1 << 40, (1 << 40) - 1]) {
            let bucket = bucket_of(value);
            assert!(upper_end(bucket) >= value, "{value}");
            assert!(bucket == 0 || upper_end(bucket - 1) < value, "{value}");
            assert!(upper_end(bucket) - value <= value / 16, "{value}");
        }
    }

    #[test]
    fn quantiles_of_known_values() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.quantile(0.5), None);
        for value in 1..=20 {
            histogram.add(value);
        }
        assert_eq!(histogram.quantile(0.5), Some(10));
        assert_eq!(histogram.quantile(0.0), Some(1));
        assert_eq!(histogram.quantile(1.0), Some(20));
        let mut other = Histogram::default();
        other.add(1_000_000);
        histogram.merge(&other);
        assert_eq!(histogram.count(), 21);
        assert!(histogram.quantile(1.0).is_some_and(|v| (1_000_000..1_070_000).contains(&v)));
    }
}
