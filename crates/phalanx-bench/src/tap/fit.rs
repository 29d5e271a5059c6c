//! Straight lines through times by length: the intercept is what linkage costs, the slope what a copied byte costs.

/// A line.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Line {
    pub(crate) intercept: f64,
    pub(crate) slope: f64,
}

impl Line {
    pub(crate) fn at(&self, x: f64) -> f64 {
        self.intercept + self.slope * x
    }
}

/// A length, a time, and how many samples stand behind it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Point {
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) weight: f64,
}

/// The line of the least sum of squares, weighted. Points of one length alone make a flat one; no point makes none.
pub(crate) fn least_squares(points: &[Point]) -> Line {
    let weight: f64 = points.iter().map(|point| point.weight).sum();
    if weight <= 0.0 {
        return Line::default();
    }
    let mean = |of: fn(&Point) -> f64| points.iter().map(|point| point.weight * of(point)).sum::<f64>() / weight;
    let (x, y) = (mean(|point| point.x), mean(|point| point.y));
    let (mut across, mut both) = (0.0, 0.0);
    for point in points {
        across += point.weight * (point.x - x) * (point.x - x);
        both += point.weight * (point.x - x) * (point.y - y);
    }
    let slope = if across > 0.0 { both / across } else { 0.0 };
    Line { intercept: y - slope * x, slope }
}

/// The line of Theil and Sen: the median of the slopes between any two points, and the median of what is left. A third
/// of the points may be anywhere.
pub(crate) fn robust(points: &[Point]) -> Line {
    let mut slopes = Vec::with_capacity(points.len() * points.len() / 2);
    for (at, a) in points.iter().enumerate() {
        slopes.extend(points[at + 1..].iter().filter(|b| b.x != a.x).map(|b| (b.y - a.y) / (b.x - a.x)));
    }
    let slope = crate::row::median(&slopes).unwrap_or(0.0);
    let left: Vec<f64> = points.iter().map(|point| point.y - slope * point.x).collect();
    Line { intercept: crate::row::median(&left).unwrap_or(0.0), slope }
}

/// Half of the interval in which 95 % of the lines of least squares lie when the points are drawn anew, with
/// repetition: of the intercept, and of the slope.
pub(crate) fn bootstrap(points: &[Point], seed: u64) -> Line {
    let mut draw = Draw(seed);
    let mut drawn = Vec::with_capacity(points.len());
    let (mut intercepts, mut slopes) = (Vec::with_capacity(DRAWS), Vec::with_capacity(DRAWS));
    for _ in 0..DRAWS {
        drawn.clear();
        drawn.extend((0..points.len()).map(|_| points[draw.below(points.len())]));
        let line = least_squares(&drawn);
        intercepts.push(line.intercept);
        slopes.push(line.slope);
    }
    let half = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        (values[DRAWS - 1 - DRAWS / 40] - values[DRAWS / 40]) / 2.0
    };
    Line { intercept: half(intercepts), slope: half(slopes) }
}

/// Random numbers by a seed (splitmix64).
pub(crate) struct Draw(pub(crate) u64);

impl Draw {
    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % bound.max(1) as u64) as usize
    }
}

/// Lines that a bootstrap draws.
const DRAWS: usize = 400;

#[cfg(test)]
mod tests {
    use super::*;

    /// Points of the paper's line of NIT, off by up to `noise` both ways.
    fn points(noise: f64) -> Vec<Point> {
        let mut draw = Draw(3);
        let mut of = |x: usize| {
            let off = noise * (draw.below(2_001) as f64 / 1_000.0 - 1.0);
            Point { x: x as f64, y: 89_200.0 + 216.0 * x as f64 + off, weight: 1.0 }
        };
        (48..1_504).step_by(16).map(&mut of).collect()
    }

    fn is_near(line: Line, intercept: f64, slope: f64) -> bool {
        (line.intercept - 89_200.0).abs() < intercept && (line.slope - 216.0).abs() < slope
    }

    #[test]
    fn a_line_is_found_again() {
        assert!(is_near(least_squares(&points(0.0)), 1e-6, 1e-9));
        assert!(is_near(robust(&points(0.0)), 1e-6, 1e-9));
        assert!(is_near(least_squares(&points(500.0)), 300.0, 0.4));
    }

    #[test]
    fn far_points_bend_only_the_line_of_squares() {
        let mut points = points(100.0);
        for point in points.iter_mut().step_by(5) {
            point.y += 1e6;
        }
        assert!(is_near(robust(&points), 300.0, 0.4), "{:?}", robust(&points));
        assert!(!is_near(least_squares(&points), 30_000.0, 100.0));
    }

    #[test]
    fn weights_count() {
        let heavy = [(0.0, 1.0, 1e9), (10.0, 11.0, 1e9), (5.0, 900.0, 1.0)];
        let line = least_squares(&heavy.map(|(x, y, weight)| Point { x, y, weight }));
        assert!((line.slope - 1.0).abs() < 1e-3 && (line.intercept - 1.0).abs() < 1e-3, "{line:?}");
    }

    #[test]
    fn an_interval_is_as_wide_as_the_noise_makes_it() {
        let (quiet, loud) = (bootstrap(&points(10.0), 1), bootstrap(&points(1_000.0), 1));
        assert!(quiet.intercept > 0.0 && loud.intercept > 20.0 * quiet.intercept, "{quiet:?} {loud:?}");
        let line = least_squares(&points(1_000.0));
        assert!((line.intercept - 89_200.0).abs() < 3.0 * loud.intercept, "{line:?} {loud:?}");
    }

    #[test]
    fn few_points_are_no_trouble() {
        assert_eq!(least_squares(&[]), Line::default());
        assert_eq!(robust(&[]), Line::default());
        assert_eq!(bootstrap(&[], 1), Line::default());
        let one = Point { x: 3.0, y: 5.0, weight: 2.0 };
        assert_eq!(least_squares(&[one]), Line { intercept: 5.0, slope: 0.0 });
    }
}
