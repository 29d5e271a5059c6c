//! Makes one HTML page of the results of some runs. It needs no other file, no script and no network.

mod escape;
mod linkage;
mod plot;
mod style;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use crate::error::{BenchError, While};
use crate::machine::Machine;
use crate::request::Suite;
use crate::row::{Row, parameter_of};
use crate::tap::paper::PRINTED;
use escape::escape;
use plot::{Bar, Lines, Spread, bars, lines, spreads};

/// Content of the result files.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// The machines, in the order of the files.
    pub machines: Vec<Machine>,
    /// The figures, in the same order.
    pub rows: Vec<Row>,
}

impl Measured {
    /// Reads the lines that `phalanx bench --json` wrote.
    ///
    /// # Errors
    /// The system's error, or the first line that cannot be parsed.
    pub fn read(files: &[PathBuf]) -> Result<Self, BenchError> {
        let mut measured = Self::default();
        for file in files {
            let text = std::fs::read_to_string(file).when(format_args!("cannot read {}", file.display()))?;
            measured.take(&text, file)?;
        }
        Ok(measured)
    }

    fn take(&mut self, text: &str, file: &Path) -> Result<(), BenchError> {
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let place = || format!("{}, line {}", file.display(), number + 1);
            let bad = |error: serde_json::Error| BenchError::Usage(format!("{}: {error}", place()));
            let value: serde_json::Value = serde_json::from_str(line).map_err(bad)?;
            if value.get("suite").and_then(|suite| suite.as_str()) == Some(Machine::SUITE) {
                self.machines.push(serde_json::from_value(value).map_err(bad)?);
            } else {
                self.rows.push(serde_json::from_value(value).map_err(bad)?);
            }
        }
        Ok(())
    }

    /// Returns the page.
    #[must_use]
    pub fn page(&self) -> String {
        let mut body = String::new();
        self.facts(&mut body);
        for suite in Suite::ALL {
            let rows: Vec<&Row> = self.rows.iter().filter(|row| row.suite == suite.word()).collect();
            if !rows.is_empty() {
                section(&mut body, suite.word(), &rows);
            }
        }
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\
             <meta name=\"color-scheme\" content=\"light dark\"/>\
             <title>Phalanx: what was measured</title><style>{}</style></head>\
             <body><h1>Phalanx: what was measured</h1>\
             <p>Every figure is the median of the rounds; its baseline was measured in the same round, and a ratio is \
             the median of the rounds' ratios. Thin lines reach from the least to the greatest round.</p>\
             {body}</body></html>\n",
            style::CSS
        )
    }

    fn facts(&self, body: &mut String) {
        let mut told: BTreeMap<String, String> = BTreeMap::new();
        body.push_str("<h2>Machine</h2>");
        for machine in &self.machines {
            let mut facts = machine.facts();
            // The command differs from run to run; it stands apart from the facts that do not.
            let command = facts.iter().position(|(name, _)| *name == "command").map(|at| facts.remove(at).1);
            let rows: String = facts.iter().fold(String::new(), |mut rows, (name, value)| {
                let _ = write!(rows, "<tr><th>{}</th><td>{}</td></tr>", escape(name), escape(value));
                rows
            });
            let commands = told.entry(rows).or_default();
            let _ =
                write!(commands, "<li><code>phalanx {}</code></li>", escape(command.as_deref().unwrap_or_default()));
        }
        for (rows, commands) in told {
            let _ = write!(body, "<table class=\"facts\">{rows}</table><ul>{commands}</ul>");
        }
    }
}

fn section(body: &mut String, suite: &str, rows: &[&Row]) {
    let _ = write!(body, "<h2 id=\"{suite}\">{suite}</h2>");
    if suite == Suite::Tap.word() {
        draw(body, linkage::charts(rows).iter());
        // What was printed in 1993 is no baseline of the same round.
        let measured: Vec<&Row> = rows.iter().copied().filter(|row| row.against != PRINTED).collect();
        plots_of_ratios(body, &measured);
        table(body, rows);
        return;
    }
    plots_of_sizes(body, rows);
    plots_of_ratios(body, rows);
    plots_of_times(body, rows);
    plots_of_parameters(body, rows);
    table(body, rows);
}

/// Whether a greater value is better: it is for counts per second, and is not for all other units.
fn more_is_better(unit: &str) -> bool {
    unit.ends_with("/s")
}

/// Plots the value against the size, one line for cases that differ in nothing else.
fn plots_of_sizes(body: &mut String, rows: &[&Row]) {
    let mut families: BTreeMap<(&str, &str, String), Vec<&Row>> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.size > 0 && parameter_of(&row.metric).is_none()) {
        let family = row.case.replacen(&row.size.to_string(), "*", 1);
        families.entry((&row.metric, &row.unit, family)).or_default().push(row);
    }
    let mut charts: BTreeMap<(&str, &str), Lines> = BTreeMap::new();
    for ((metric, unit, family), mut rows) in families {
        rows.sort_by_key(|row| row.size);
        rows.dedup_by_key(|row| row.size);
        if rows.len() < 2 || !more_is_better(unit) {
            continue;
        }
        let of = |value: fn(&Row) -> Option<f64>| -> Vec<(f64, f64)> {
            rows.iter().filter_map(|row| Some((row.size as f64, value(row)?))).collect()
        };
        let chart = charts.entry((metric, unit)).or_insert_with(|| Lines {
            title: format!("{metric} against size"),
            x: "bytes of a message".to_owned(),
            y: unit.to_owned(),
            is_linear: false,
            lines: Vec::new(),
        });
        chart.lines.push((family.clone(), false, of(|row| Some(row.value))));
        let baseline = of(|row| row.baseline);
        if baseline.len() > 1 {
            chart.lines.push((format!("{} beside {family}", rows[0].against), true, baseline));
        }
    }
    draw(body, charts.values());
}

fn plots_of_ratios(body: &mut String, rows: &[&Row]) {
    for better in [true, false] {
        let fits = |row: &&&Row| row.ratio.is_some() && more_is_better(&row.unit) == better;
        let all: Vec<Bar> = rows
            .iter()
            .filter(fits)
            .map(|row| Bar {
                label: format!("{}: {}, against {}", row.case, row.metric, row.against),
                value: row.ratio.unwrap_or_default(),
                spread: extremes(&row.ratios),
                good: row.ratio.is_some_and(|ratio| (ratio >= 1.0) == better),
            })
            .collect();
        if !all.is_empty() {
            let sense = if better { "greater is better" } else { "less is better" };
            body.push_str(&bars(&format!("Ratio to the baseline ({sense})"), &all));
        }
    }
}

fn plots_of_times(body: &mut String, rows: &[&Row]) {
    let of = |row: &&Row| {
        Some(Spread {
            label: format!("{}: {}", row.case, row.metric),
            values: [row.p50?, row.p99?, row.p999?],
            baseline: row.baseline,
        })
    };
    let all: Vec<Spread> = rows.iter().filter_map(of).collect();
    if !all.is_empty() {
        body.push_str(&spreads("Times in microseconds: half, 99 % and 99.9 % were not longer", &all));
    }
}

/// Plots values against a parameter: loss, load, processes, or a limit. The metrics are called `.. at 5 % loss`.
fn plots_of_parameters(body: &mut String, rows: &[&Row]) {
    let mut families: BTreeMap<(&str, &str, String), Curve> = BTreeMap::new();
    for row in rows {
        let Some((what, number, parameter)) = parameter_of(&row.metric) else { continue };
        // Where the parameter is part of the case's name, cases that differ in nothing else make one line.
        let case = row.case.replacen(&format!("-{number}x"), "-*x", 1);
        let Curve { values, p99 } = families.entry((parameter, &row.unit, format!("{case}: {what}"))).or_default();
        values.push((number, row.value));
        p99.extend(row.p99.map(|value| (number, value)));
    }
    let mut charts: BTreeMap<(&str, &str), Lines> = BTreeMap::new();
    for ((parameter, unit, family), Curve { values, p99 }) in families {
        for (name, dashed, mut points) in [(family.clone(), false, values), (format!("99 % of {family}"), true, p99)] {
            if points.len() < 2 || points.iter().all(|(_, value)| *value == 0.0) {
                continue;
            }
            points.sort_by(|left, right| left.0.total_cmp(&right.0));
            let chart = charts.entry((parameter, unit)).or_insert_with(|| Lines {
                title: format!("{unit} against {parameter}"),
                x: parameter.to_owned(),
                y: unit.to_owned(),
                is_linear: false,
                lines: Vec::new(),
            });
            chart.lines.push((name, dashed, points));
        }
    }
    draw(body, charts.values());
}

/// Values by parameter, and the 99th percentiles.
#[derive(Default)]
struct Curve {
    values: Vec<(f64, f64)>,
    p99: Vec<(f64, f64)>,
}

/// Draws charts of at most [`LINES_MAX`] lines each. More lines than colours could not be distinguished, so the rest
/// goes to further plots.
fn draw<'a>(body: &mut String, charts: impl Iterator<Item = &'a Lines>) {
    for chart in charts {
        for part in chart.lines.chunks(LINES_MAX) {
            body.push_str(&lines(&Lines { lines: part.to_vec(), ..chart.clone() }));
        }
    }
}

fn extremes(values: &[f64]) -> Option<(f64, f64)> {
    let least = values.iter().copied().reduce(f64::min)?;
    Some((least, values.iter().copied().reduce(f64::max)?))
}

fn table(body: &mut String, rows: &[&Row]) {
    body.push_str("<details><summary>All figures</summary><div class=\"wide\"><table><tr>");
    for head in Row::HEADS {
        let _ = write!(body, "<th>{}</th>", escape(head));
    }
    body.push_str("</tr>");
    for row in rows {
        body.push_str("<tr>");
        for cell in row.cells() {
            let _ = write!(body, "<td>{}</td>", escape(&cell));
        }
        body.push_str("</tr>");
    }
    body.push_str("</table></div></details>");
}

/// Lines in one plot.
const LINES_MAX: usize = 6;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::{Quantiles, Series};

    fn measured() -> Measured {
        let mut rows = Vec::new();
        for size in [1, 100, 7_168] {
            let mut series = Series::new("throughput", "msg/s", 4, size).against("raw UDP <1>");
            series.add_beside(1e6 / size as f64, 1e4);
            series.add_beside(2e6 / size as f64, 1e4);
            rows.extend(series.row("stream", &format!("total-one-4x{size}-udp-sealed")));
        }
        let mut series = Series::new("round trip", "us", 2, 64).against("raw UDP");
        series.add_quantiles_beside(&Quantiles { count: 5, p50: 20.0, p99: 90.0, p999: 400.0 }, 10.0);
        rows.extend(series.row("latency", "roundtrip & more"));
        for share in ["0", "0.1", "5"] {
            let mut series = Series::new(format!("goodput at {share} % loss"), "msg/s", 4, 1_024);
            series.add_beside(5e5, 5e5);
            rows.extend(series.row("flow", "loss-udp"));
        }
        Measured { machines: vec![Machine::here(), Machine::here()], rows }
    }

    /// Counts the elements of a page, and checks that each is closed in order.
    fn parse(page: &str) -> Result<usize, String> {
        let mut open: Vec<&str> = Vec::new();
        let mut elements = 0;
        let mut rest = page.strip_prefix("<!DOCTYPE html>").ok_or("no document type")?;
        while let Some(at) = rest.find('<') {
            let end = at + rest[at..].find('>').ok_or("a tag without an end")?;
            let tag = &rest[at + 1..end];
            if tag.matches('"').count() % 2 != 0 {
                return Err(format!("an attribute without an end: {tag}"));
            }
            if let Some(name) = tag.strip_prefix('/') {
                if open.pop() != Some(name) {
                    return Err(format!("</{name}> closes nothing"));
                }
            } else {
                elements += 1;
                let name = tag.split([' ', '/']).next().unwrap_or_default();
                if !tag.ends_with('/') {
                    open.push(name);
                }
            }
            rest = &rest[end + 1..];
        }
        if open.is_empty() { Ok(elements) } else { Err(format!("left open: {open:?}")) }
    }

    #[test]
    fn the_page_stands_alone_and_parses() {
        let page = measured().page();
        assert!(parse(&page).expect("it parses") > 50);
        for foreign in ["http", "src=", "url(", "@import", "<script"] {
            assert!(!page.contains(foreign), "{foreign} reaches beyond the page");
        }
        assert!(page.contains("roundtrip &amp; more") && page.contains("raw UDP &lt;1&gt;"));
        assert!(page.contains("prefers-color-scheme") && page.contains("width=device-width"));
        assert!(page.matches("<svg").count() >= 5, "sizes, ratios of both senses, times, loss");
        assert!(!page.contains("NaN") && !page.contains("inf"));
    }

    #[test]
    fn figures_are_drawn_against_what_was_set() {
        let mut rows = Vec::new();
        for clients in [1, 4, 16] {
            let mut series = Series::new(format!("throughput at {clients} clients"), "calls/s", clients + 1, 64);
            series.add(1e5);
            rows.extend(series.row("rpc", &format!("clients-{clients}x64")));
        }
        let page = Measured { machines: Vec::new(), rows }.page();
        assert_eq!(page.matches("clients-*x64: throughput").count(), 1, "one line for all");
        assert!(page.contains("calls/s against clients"));
    }

    #[test]
    fn linkage_is_drawn_in_the_form_of_the_paper_alone() {
        let mut rows = Vec::new();
        let mut add = |metric: String, unit, value| {
            let mut series = Series::new(metric, unit, 0, 0);
            series.add(value);
            rows.extend(series.row("tap", "read"));
        };
        for len in [64, 512, 1_500] {
            add(format!("accept all, STREAMS: time at {len} B"), "ns", 30.0 + f64::from(len) / 50.0);
        }
        add("accept all, STREAMS: intercept".to_owned(), "ns", 30.0);
        add("accept all, STREAMS: slope".to_owned(), "ns/B", 0.02);
        let page = Measured { machines: Vec::new(), rows }.page();
        assert_eq!(page.matches("<svg").count(), 3, "that of 1993, two ways, and every way");
        assert!(page.contains("NIT, on STREAMS") && page.contains("least squares: 30.0 ns + 0.020 ns/B"));
    }

    #[test]
    fn an_empty_run_has_a_page() {
        let page = Measured::default().page();
        assert!(parse(&page).is_ok());
    }

    #[test]
    fn files_are_read_and_bad_lines_named() {
        let directory = tempfile::tempdir().expect("a directory");
        let good = directory.path().join("a.json");
        let all = measured();
        let mut text = serde_json::to_string(&all.machines[0]).expect("plain data");
        for row in &all.rows {
            text.push('\n');
            text.push_str(&serde_json::to_string(row).expect("plain data"));
        }
        std::fs::write(&good, text).expect("writable");
        let read = Measured::read(&[good.clone(), good]).expect("own lines");
        assert_eq!((read.machines.len(), read.rows.len()), (2, 2 * all.rows.len()));
        let bad = directory.path().join("b.json");
        std::fs::write(&bad, "\n{\"suite\":\"stream\"}\n").expect("writable");
        let error = Measured::read(&[bad]).expect_err("a row has more").to_string();
        assert!(error.contains("b.json, line 2"), "{error}");
    }
}
