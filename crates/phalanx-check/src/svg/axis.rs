//! Maps moments to heights: time runs down, close moments are pulled apart and long pauses shortened.

use std::collections::BTreeMap;

/// Heights of the moments that are shown.
#[derive(Debug)]
pub(super) struct Axis {
    /// Moment to height, both ascending.
    heights: BTreeMap<u64, f64>,
    end: f64,
}

/// Height of a line of text.
pub(super) const LINE: f64 = 12.0;
/// The least and the greatest gap between two moments.
const GAP_MIN: f64 = 2.0;
const GAP_MAX: f64 = 32.0;
/// Growth of a gap with each doubling of its time.
const GAP_STEP: f64 = 2.2;
/// The shortest gap that is distinguished from none.
const UNIT_NS: f64 = 10_000.0;

impl Axis {
    /// `shown` holds all moments, with the places that have a text at that moment. Two texts of one place are at least
    /// a line apart.
    pub(super) fn new(mut shown: Vec<(u64, Option<usize>)>, top: f64) -> Self {
        shown.sort_unstable();
        let mut heights = BTreeMap::new();
        let mut last_text: BTreeMap<usize, f64> = BTreeMap::new();
        let mut at = top;
        let mut before = None;
        for group in shown.chunk_by(|a, b| a.0 == b.0) {
            let moment = group[0].0;
            if let Some(before) = before {
                at += gap(moment - before);
            }
            before = Some(moment);
            // Texts of one place at one moment are stacked.
            let mut lines: BTreeMap<usize, u32> = BTreeMap::new();
            for place in group.iter().filter_map(|(_, place)| *place) {
                *lines.entry(place).or_default() += 1;
            }
            for place in lines.keys() {
                at = at.max(last_text.get(place).map_or(at, |last| last + LINE));
            }
            for (place, count) in lines {
                last_text.insert(place, at + LINE * f64::from(count - 1));
            }
            heights.insert(moment, at);
        }
        let end = last_text.values().fold(at, |end, text| end.max(*text)) + 2.0 * LINE;
        Self { heights, end }
    }

    /// The height of a moment; between two shown ones it is interpolated.
    pub(super) fn height(&self, at_ns: u64) -> f64 {
        let before = self.heights.range(..=at_ns).next_back();
        let after = self.heights.range(at_ns..).next();
        match (before, after) {
            (Some((from_ns, from)), Some((to_ns, to))) if to_ns > from_ns => {
                from + (to - from) * ((at_ns - from_ns) as f64 / (to_ns - from_ns) as f64)
            }
            (Some((_, height)), _) | (None, Some((_, height))) => *height,
            (None, None) => 0.0,
        }
    }

    /// Height below everything.
    pub(super) fn end(&self) -> f64 {
        self.end
    }

    /// Moments whose times are written at the side: those far enough apart to be legible.
    pub(super) fn ticks(&self) -> Vec<(u64, f64)> {
        let mut ticks: Vec<(u64, f64)> = Vec::new();
        for (moment, height) in &self.heights {
            if ticks.last().is_none_or(|(_, last)| height - last >= 1.5 * LINE) {
                ticks.push((*moment, *height));
            }
        }
        ticks
    }
}

fn gap(time_ns: u64) -> f64 {
    (GAP_MIN + GAP_STEP * (1.0 + time_ns as f64 / UNIT_NS).log2()).min(GAP_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_is_lower_and_texts_keep_their_distance() {
        let axis = Axis::new(vec![(5, Some(1)), (6, Some(1)), (6, Some(2)), (7, Some(2)), (9_000_000_000, None)], 10.0);
        let heights: Vec<f64> = [5, 6, 7, 9_000_000_000].into_iter().map(|at| axis.height(at)).collect();
        assert!(heights.is_sorted());
        assert!(heights[1] - heights[0] >= LINE && heights[2] - heights[1] >= LINE);
        assert!(heights[3] - heights[2] <= GAP_MAX);
        assert!(axis.end() > heights[3]);
        let between = axis.height(4_000_000_000);
        assert!(heights[2] < between && between < heights[3]);
    }

    #[test]
    fn texts_of_one_moment_push_the_next_one_down() {
        let axis = Axis::new(vec![(1, Some(0)), (1, Some(0)), (1, Some(0)), (2, Some(0))], 0.0);
        assert!(axis.height(2) - axis.height(1) >= 3.0 * LINE);
    }

    #[test]
    fn nothing_shown_is_no_error() {
        assert_eq!(Axis::new(Vec::new(), 3.0).height(7), 0.0);
    }
}
