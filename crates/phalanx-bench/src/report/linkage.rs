//! Plots of the suite `tap`: time against length in the form of the paper, as printed in 1993 and as measured.

use std::collections::{BTreeMap, BTreeSet};

use super::plot::{Line, Lines};
use crate::row::{Row, parameter_of};
use crate::tap::paper::SetUp;
use crate::tap::paper::printed;

/// The charts of the suite, in order: for each set-up that of the paper, then those of each case.
pub(super) fn charts(rows: &[&Row]) -> Vec<Lines> {
    let cases: BTreeSet<&str> = rows.iter().filter(|row| is_point(row)).map(|row| row.case.as_str()).collect();
    let mut charts = Vec::new();
    for set_up in SetUp::ALL {
        let name = set_up.name();
        let mut all = Vec::new();
        for case in &cases {
            let measured = measured(rows, case, name);
            if measured.is_empty() {
                continue;
            }
            let two = measured.iter().filter(|(way, _)| ["STREAMS", "in place"].contains(&way.as_str()));
            let mut lines: Vec<Line> = Vec::new();
            for (way, points) in two {
                lines.push((format!("{way}, mean by length"), false, points.clone()));
                lines.extend(fitted(rows, case, &format!("{name}, {way}"), points));
            }
            all.push(chart(format!("Today, {case}: {name}"), "ns", lines));
            let lines = measured.into_iter().map(|(way, points)| (way, false, points)).collect();
            all.push(chart(format!("Today, {case}: {name}, every way"), "ns", lines));
        }
        if !all.is_empty() {
            charts.push(of_paper(set_up));
            charts.append(&mut all);
        }
    }
    charts
}

fn is_point(row: &Row) -> bool {
    parameter_of(&row.metric).is_some_and(|(what, _, unit)| what.ends_with(TIME) && unit == "B")
}

/// The figures of 1993: straight lines, because the page has no points.
fn of_paper(set_up: SetUp) -> Lines {
    let printed = printed(set_up);
    let line = |name: &str, line: crate::tap::fit::Line| -> Line {
        (name.to_owned(), true, [0.0, LONGEST].map(|len| (len, line.at(len) / 1e3)).to_vec())
    };
    let lines = vec![line("NIT, on STREAMS", printed.streams), line("BPF, in place", printed.in_place)];
    chart(format!("1993, SPARCstation 2: {}, as printed", set_up.name()), "us", lines)
}

/// Means by length of each way.
fn measured(rows: &[&Row], case: &str, set_up: &str) -> BTreeMap<String, Vec<(f64, f64)>> {
    let mut ways: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.case == case && is_point(row)) {
        let Some((what, len, _)) = parameter_of(&row.metric) else { continue };
        let way = what.strip_suffix(TIME).and_then(|what| what.strip_prefix(set_up)?.strip_prefix(", "));
        if let Some(way) = way {
            ways.entry(way.to_owned()).or_default().push((len, row.value));
        }
    }
    ways.values_mut().for_each(|points| points.sort_by(|a, b| a.0.total_cmp(&b.0)));
    ways
}

/// The line of least squares through what was measured.
fn fitted(rows: &[&Row], case: &str, name: &str, points: &[(f64, f64)]) -> Option<Line> {
    let value = |what: &str| {
        let metric = format!("{name}: {what}");
        rows.iter().find(|row| row.case == case && row.metric == metric).map(|row| row.value)
    };
    let (intercept, slope) = (value("intercept")?, value("slope")?);
    let ends = [points.first()?.0.min(0.0), points.last()?.0];
    let line = ends.map(|len| (len, intercept + slope * len)).to_vec();
    Some((format!("least squares: {} ns + {} ns/B", crate::show(intercept), crate::show(slope)), true, line))
}

fn chart(title: String, y: &str, lines: Vec<Line>) -> Lines {
    Lines { title, x: "bytes of a packet".to_owned(), y: y.to_owned(), is_linear: true, lines }
}

/// What the names of points end with before their length.
const TIME: &str = ": time";
/// The end of the paper's axis, in bytes.
const LONGEST: f64 = 1_500.0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::Series;

    #[test]
    fn the_figures_of_the_paper_stand_before_those_of_today() {
        let mut rows = Vec::new();
        let mut add = |metric: String, unit, value| {
            let mut series = Series::new(metric, unit, 0, 0);
            series.add(value);
            rows.extend(series.row("tap", "read"));
        };
        for set_up in ["accept all", "reject all"] {
            for way in ["in place", "STREAMS", "STREAMS, queue"] {
                for len in [64, 512, 1_500] {
                    add(format!("{set_up}, {way}: time at {len} B"), "ns", 30.0 + f64::from(len) / 50.0);
                }
                add(format!("{set_up}, {way}: intercept"), "ns", 30.0);
                add(format!("{set_up}, {way}: slope"), "ns/B", 0.02);
            }
        }
        let titles: Vec<String> =
            charts(&rows.iter().collect::<Vec<_>>()).into_iter().map(|chart| chart.title).collect();
        assert_eq!(titles.len(), 6);
        assert!(titles[0].starts_with("1993") && titles[1] == "Today, read: accept all", "{titles:?}");
    }

    #[test]
    fn a_run_of_other_cases_has_no_such_plot() {
        assert!(charts(&[]).is_empty());
    }
}
