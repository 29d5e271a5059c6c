//! One figure with its context: a line of JSON, and a row of a table.

use serde::{Deserialize, Serialize};

/// One figure of one case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The suite it belongs to.
    pub suite: String,
    /// The case of the suite.
    pub case: String,
    /// Members of the group, or processes of a baseline.
    pub group: usize,
    /// Bytes of a message.
    pub size: usize,
    /// Name of the measured quantity.
    pub metric: String,
    /// Unit of the value.
    pub unit: String,
    /// The median of `runs`.
    pub value: f64,
    /// For a distribution of times: the median over the rounds of the 50th percentile.
    pub p50: Option<f64>,
    /// Likewise the 99th percentile.
    pub p99: Option<f64>,
    /// Likewise the 99.9th percentile.
    pub p999: Option<f64>,
    /// The value of each round.
    pub runs: Vec<f64>,
    /// The median of the baseline, in the same unit.
    pub baseline: Option<f64>,
    /// The median of the ratios of each round to its baseline.
    pub ratio: Option<f64>,
    /// The ratio of each round.
    #[serde(default)]
    pub ratios: Vec<f64>,
    /// Description of the baseline.
    #[serde(default)]
    pub against: String,
}

/// The rounds of one metric, until they become a [`Row`].
#[derive(Clone, Debug, Default)]
pub(crate) struct Series {
    pub(crate) metric: String,
    pub(crate) unit: &'static str,
    pub(crate) group: usize,
    pub(crate) size: usize,
    pub(crate) runs: Vec<f64>,
    pub(crate) baselines: Vec<f64>,
    pub(crate) against: String,
    quantiles: [Vec<f64>; 3],
}

impl Series {
    pub(crate) fn new(metric: impl Into<String>, unit: &'static str, group: usize, size: usize) -> Self {
        Self { metric: metric.into(), unit, group, size, ..Self::default() }
    }

    /// Names the baseline.
    pub(crate) fn against(mut self, what: impl Into<String>) -> Self {
        self.against = what.into();
        self
    }

    pub(crate) fn add(&mut self, value: f64) {
        self.runs.push(value);
    }

    /// Adds a round's value and its baseline.
    pub(crate) fn add_beside(&mut self, value: f64, baseline: f64) {
        self.runs.push(value);
        self.baselines.push(baseline);
    }

    /// Adds a round's distribution; the value is its median.
    pub(crate) fn add_quantiles(&mut self, times: &Quantiles) {
        self.runs.push(times.p50);
        for (kept, new) in self.quantiles.iter_mut().zip([times.p50, times.p99, times.p999]) {
            kept.push(new);
        }
    }

    /// Adds a round's value, and the distribution around it in the same unit.
    pub(crate) fn add_within(&mut self, value: f64, times: [f64; 3]) {
        self.runs.push(value);
        for (kept, new) in self.quantiles.iter_mut().zip(times) {
            kept.push(new);
        }
    }

    /// Adds a round's distribution and the baseline's median.
    pub(crate) fn add_quantiles_beside(&mut self, times: &Quantiles, baseline: f64) {
        self.add_quantiles(times);
        self.baselines.push(baseline);
    }

    /// Returns the row, or `None` without a round.
    pub(crate) fn row(&self, suite: &str, case: &str) -> Option<Row> {
        let value = median(&self.runs)?;
        let whole = self.baselines.len() == self.runs.len();
        let beside = self.runs.iter().zip(&self.baselines).filter(|_| whole);
        let ratios: Vec<f64> = beside.filter(|(_, base)| **base > 0.0).map(|(run, base)| run / base).collect();
        let [p50, p99, p999] = [0, 1, 2].map(|which: usize| median(&self.quantiles[which]));
        Some(Row {
            suite: suite.to_owned(),
            case: case.to_owned(),
            group: self.group,
            size: self.size,
            metric: self.metric.clone(),
            unit: self.unit.to_owned(),
            value,
            p50,
            p99,
            p999,
            runs: self.runs.clone(),
            baseline: median(&self.baselines),
            ratio: median(&ratios),
            ratios,
            against: self.against.clone(),
        })
    }
}

/// A distribution of times, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Quantiles {
    pub(crate) count: u64,
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
}

/// The middle value, or the mean of the two middle ones. `None` if there are no values.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (low, high) = (sorted.get(sorted.len().checked_sub(1)? / 2)?, sorted.get(sorted.len() / 2)?);
    Some(f64::midpoint(*low, *high))
}

/// Formats a value with as many digits as are significant.
#[must_use]
pub fn show(value: f64) -> String {
    match value.abs() {
        v if v >= 1e9 => format!("{:.2} G", value / 1e9),
        v if v >= 1e7 => format!("{:.1} M", value / 1e6),
        v if v >= 1e6 => format!("{:.2} M", value / 1e6),
        v if v >= 1e5 => format!("{:.0} k", value / 1e3),
        v if v >= 1e4 => format!("{:.1} k", value / 1e3),
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        v if v >= 1.0 => format!("{value:.2}"),
        0.0 => "0".to_owned(),
        v if v >= 0.001 => format!("{value:.3}"),
        _ => format!("{value:.1e}"),
    }
}

/// Formats values as "median (least - greatest)".
#[must_use]
pub fn show_spread(values: &[f64]) -> String {
    let Some(middle) = median(values) else { return String::new() };
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let greatest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if values.len() < 2 { show(middle) } else { format!("{} ({} - {})", show(middle), show(least), show(greatest)) }
}

/// Splits a metric's name into its base, the parameter's value, and the parameter.
pub(crate) fn parameter_of(metric: &str) -> Option<(&str, f64, &str)> {
    let (what, set) = metric.rsplit_once(" at ")?;
    let (number, parameter) = set.split_once(' ')?;
    Some((what, number.parse().ok()?, parameter))
}

impl Row {
    /// Headings of the cells that [`Row::cells`] returns.
    pub const HEADS: [&'static str; 9] =
        ["case", "n", "size", "metric", "value", "unit", "p99", "baseline", "ratio (least - greatest)"];

    /// The row's cells, for people.
    #[must_use]
    pub fn cells(&self) -> [String; 9] {
        let known = |value: Option<f64>| value.map_or_else(String::new, show);
        [
            self.case.clone(),
            if self.group == 0 { String::new() } else { self.group.to_string() },
            if self.size == 0 { String::new() } else { self.size.to_string() },
            self.metric.clone(),
            show_spread(&self.runs),
            self.unit.clone(),
            known(self.p99),
            match self.baseline {
                Some(value) => format!("{} {}", show(value), self.against).trim_end().to_owned(),
                None => String::new(),
            },
            show_spread(&self.ratios),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_in_the_middle() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), Some(2.5));
    }

    #[test]
    fn ratios_are_made_within_a_round() {
        let mut series = Series::new("throughput", "msg/s", 4, 100).against("raw");
        // The machine is ten times slower in the second round. The ratio does not change.
        for (value, baseline) in [(200.0, 100.0), (20.0, 10.0), (900.0, 300.0)] {
            series.add_beside(value, baseline);
        }
        let row = series.row("stream", "x").expect("there were rounds");
        assert_eq!((row.value, row.baseline, row.ratio), (200.0, Some(100.0), Some(2.0)));
        assert_eq!(row.ratios, [2.0, 2.0, 3.0]);
        assert_eq!(Series::new("x", "y", 0, 0).row("a", "b"), None);
    }

    #[test]
    fn a_parameter_is_the_end_of_a_name() {
        assert_eq!(parameter_of("goodput at 0.1 % loss"), Some(("goodput", 0.1, "% loss")));
        assert_eq!(parameter_of("a, b at 5 ms of timer"), Some(("a, b", 5.0, "ms of timer")));
        assert_eq!(parameter_of("throughput"), None);
        assert_eq!(parameter_of("more than unreliable, at p50"), None);
        assert_eq!(parameter_of("goodput at the others"), None);
    }

    #[test]
    fn a_baseline_of_nothing_gives_no_ratio() {
        let mut series = Series::new("throughput", "msg/s", 4, 100);
        series.add_beside(5.0, 0.0);
        let row = series.row("stream", "x").expect("there was a round");
        assert_eq!((row.ratio, row.ratios.len()), (None, 0));
        let mut half = Series::new("throughput", "msg/s", 4, 100);
        half.add_beside(5.0, 1.0);
        half.add(6.0);
        assert_eq!(half.row("stream", "x").and_then(|row| row.ratio), None, "which round would it belong to");
    }

    #[test]
    fn the_line_holds_the_promised_names() {
        let mut series = Series::new("round trip", "us", 2, 64).against("raw");
        series.add_quantiles(&Quantiles { count: 9, p50: 1.5, p99: 2.5, p999: 3.5 });
        let row = series.row("latency", "x").expect("there was a round");
        let value = serde_json::to_value(&row).expect("plain data");
        for name in [
            "suite", "case", "group", "size", "metric", "unit", "value", "p50", "p99", "p999", "runs", "baseline",
            "ratio",
        ] {
            assert!(value.get(name).is_some(), "{name} is missing");
        }
        assert_eq!(value["p99"], 2.5);
        assert_eq!(serde_json::from_value::<Row>(value).expect("own line"), row);
    }

    #[test]
    fn figures_keep_three_digits() {
        let shown = [0.0, 0.25, 7.125, 42.0, 512.4, 12_345.0, 2_345_678.0, 98_765_432.0, 3.2e9].map(show);
        assert_eq!(shown, ["0", "0.250", "7.12", "42.0", "512", "12.3 k", "2.35 M", "98.8 M", "3.20 G"]);
    }
}
