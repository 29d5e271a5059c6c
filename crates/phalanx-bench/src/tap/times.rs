//! Times of one linkage: a histogram for each length of packets.

use hdrhistogram::Histogram;

use super::cycles::Clock;
use super::fit::Point;

/// Times by length, in steps of the counter.
pub(crate) struct TimesByLength {
    lengths: Vec<Times>,
    /// Of the bracket around nothing.
    empty: Times,
    /// What takes longer was interrupted, and is discarded.
    bound: u64,
}

/// Times of packets of one length.
struct Times {
    kept: Histogram<u32>,
    /// Of all samples, those that are discarded too.
    count: u64,
    sum: u64,
}

impl Times {
    fn new(bound: u64) -> Self {
        // Two digits: the counter's own steps are coarser, and a histogram stays in the cache of the second level.
        let kept = Histogram::new_with_bounds(1, bound.max(2), 2).expect("the bounds satisfy the histogram's rules");
        Self { kept, count: 0, sum: 0 }
    }

    #[inline]
    fn note(&mut self, steps: u64, bound: u64) {
        self.count += 1;
        self.sum += steps;
        if steps <= bound {
            self.kept.saturating_record(steps);
        }
    }

    /// The mean of the middle half of the kept ones. Where the counter moves in coarse steps a median jumps from one to
    /// the next, and this does not.
    fn middle(&self) -> f64 {
        let (low, high) = (self.kept.len() / 4, self.kept.len().div_ceil(4) * 3);
        let (mut before, mut sum, mut count) = (0, 0.0, 0_u64);
        for bucket in self.kept.iter_recorded() {
            let (from, to) = (before, before + bucket.count_since_last_iteration());
            let inside = to.min(high).saturating_sub(from.max(low));
            sum += inside as f64 * bucket.value_iterated_to() as f64;
            count += inside;
            before = to;
        }
        if count == 0 { 0.0 } else { sum / count as f64 }
    }

    fn mean(&self) -> f64 {
        self.kept.mean()
    }
}

/// Times of a length in nanoseconds, without the bracket around nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sampled {
    pub(crate) count: u64,
    pub(crate) mean: f64,
    pub(crate) middle: f64,
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
}

impl TimesByLength {
    pub(crate) fn new(lengths: usize, bound: u64) -> Self {
        let lengths = (0..lengths).map(|_| Times::new(bound)).collect();
        Self { lengths, empty: Times::new(bound), bound }
    }

    #[inline]
    pub(crate) fn note(&mut self, length: usize, steps: u64) {
        self.lengths[length].note(steps, self.bound);
    }

    #[inline]
    pub(crate) fn note_empty(&mut self, steps: u64) {
        self.empty.note(steps, self.bound);
    }

    pub(crate) fn count(&self) -> u64 {
        self.lengths.iter().map(|times| times.count).sum()
    }

    /// The share of the samples that were discarded.
    pub(crate) fn discarded(&self) -> f64 {
        let kept: u64 = self.lengths.iter().map(|times| times.kept.len()).sum();
        1.0 - kept as f64 / self.count().max(1) as f64
    }

    /// The mean of all samples of all lengths in nanoseconds, those that are discarded too.
    pub(crate) fn raw_mean(&self, clock: &Clock) -> f64 {
        let sum: u64 = self.lengths.iter().map(|times| times.sum).sum();
        clock.nanos(sum as f64 / self.count().max(1) as f64 - self.empty.mean())
    }

    /// What the bracket around nothing shows, in nanoseconds.
    pub(crate) fn empty_ns(&self, clock: &Clock) -> f64 {
        clock.nanos(self.empty.kept.value_at_quantile(0.5) as f64)
    }

    /// Times of one length. A mean loses the mean of the bracket around nothing, the others its median or middle.
    pub(crate) fn sampled(&self, length: usize, clock: &Clock) -> Sampled {
        let times = &self.lengths[length];
        let empty = self.empty.kept.value_at_quantile(0.5) as f64;
        let at = |share: f64| clock.nanos(times.kept.value_at_quantile(share) as f64 - empty);
        Sampled {
            count: times.kept.len(),
            mean: clock.nanos(times.mean() - self.empty.mean()),
            middle: clock.nanos(times.middle() - self.empty.middle()),
            p50: at(0.5),
            p99: at(0.99),
            p999: at(0.999),
        }
    }

    /// Points of means, as the paper has them, and of middles.
    pub(crate) fn points(&self, lengths: &[usize], clock: &Clock) -> [Vec<Point>; 2] {
        let mut points = [Vec::new(), Vec::new()];
        for (at, length) in lengths.iter().enumerate() {
            let sampled = self.sampled(at, clock);
            for (points, y) in points.iter_mut().zip([sampled.mean, sampled.middle]) {
                if sampled.count > 0 {
                    points.push(Point { x: *length as f64, y, weight: sampled.count as f64 });
                }
            }
        }
        points
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLOCK: Clock = Clock { per_ns: 2.0, least_step: 1 };

    #[test]
    fn the_empty_bracket_is_subtracted_and_what_is_long_discarded() {
        let mut times = TimesByLength::new(2, 1_000);
        for _ in 0..99 {
            times.note_empty(50);
            times.note(0, 90);
            times.note(1, 250);
        }
        times.note(1, 1_000_000);
        let (first, second) = (times.sampled(0, &CLOCK), times.sampled(1, &CLOCK));
        assert_eq!((first.mean, first.middle, first.p50, first.p999), (20.0, 20.0, 20.0, 20.0));
        assert!((second.mean - 100.0).abs() < 1.0 && second.count == 99, "{second:?}");
        assert!((times.discarded() - 1.0 / 199.0).abs() < 1e-9);
        assert!(times.raw_mean(&CLOCK) > 2_000.0 && times.empty_ns(&CLOCK) == 25.0);
        let [means, middles] = times.points(&[48, 64], &CLOCK);
        assert_eq!((means.len(), middles[0].x, middles[0].weight), (2, 48.0, 99.0));
    }

    #[test]
    fn a_middle_lies_between_the_steps_of_a_coarse_counter() {
        let mut times = Times::new(1_000);
        for sample in 0..1_000 {
            times.note(if sample % 10 < 3 { 26 } else { 52 }, 1_000);
        }
        times.note(900, 1_000);
        // A quarter of each end is left out: 5 of 26, 45 of 52 are left of a hundred.
        assert!((times.middle() - 49.4).abs() < 0.2, "{}", times.middle());
    }
}
