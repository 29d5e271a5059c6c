//! Plots as inline SVG, narrow enough for a phone: 480 units wide, font size 13.

use std::fmt::Write;

use super::escape::escape;
use crate::row::show;

/// A bar on a logarithmic axis around 1.
#[derive(Clone, Debug)]
pub(super) struct Bar {
    pub(super) label: String,
    pub(super) value: f64,
    pub(super) spread: Option<(f64, f64)>,
    pub(super) good: bool,
}

/// A line: its name, whether it is a baseline, its points.
pub(super) type Line = (String, bool, Vec<(f64, f64)>);

/// A plot of lines.
#[derive(Clone, Debug)]
pub(super) struct Lines {
    pub(super) title: String,
    pub(super) x: String,
    pub(super) y: String,
    /// Whether both axes begin at zero, whatever the values are.
    pub(super) is_linear: bool,
    pub(super) lines: Vec<Line>,
}

/// Three quantiles, and those of the baseline.
#[derive(Clone, Debug)]
pub(super) struct Spread {
    pub(super) label: String,
    pub(super) values: [f64; 3],
    pub(super) baseline: Option<f64>,
}

const WIDTH: f64 = 480.0;
/// Height of a bar with the label above it.
const BAR_HEIGHT: f64 = 40.0;
/// Width at the right of the bars, for their figures.
const FIGURES: f64 = 160.0;
/// Margins around lines: left, right, top, bottom.
const LEFT: f64 = 58.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 40.0;
const LINES_HEIGHT: f64 = 280.0;

/// Maps values to coordinates.
#[derive(Clone, Copy, Debug)]
struct Scale {
    logarithmic: bool,
    least: f64,
    greatest: f64,
    from: f64,
    to: f64,
}

impl Scale {
    fn new(values: impl Iterator<Item = f64>, logarithmic: bool, (from, to): (f64, f64)) -> Self {
        let of = |value: f64| if logarithmic { value.max(1e-9).log10() } else { value };
        let (mut least, mut greatest) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.filter(|value| value.is_finite()).map(of) {
            (least, greatest) = (least.min(value), greatest.max(value));
        }
        if least > greatest {
            (least, greatest) = (0.0, 1.0);
        }
        if greatest - least < 1e-9 {
            greatest = least + 1.0;
        }
        Self { logarithmic, least, greatest, from, to }
    }

    fn place(&self, value: f64) -> f64 {
        let value = if self.logarithmic { value.max(1e-9).log10() } else { value };
        let share = ((value - self.least) / (self.greatest - self.least)).clamp(0.0, 1.0);
        self.from + share * (self.to - self.from)
    }

    /// Values that get a tick.
    fn ticks(&self) -> Vec<f64> {
        if !self.logarithmic {
            let step = (self.greatest - self.least) / 4.0;
            return (0..=4).map(|index| self.least + f64::from(index) * step).collect();
        }
        let (first, last) = (self.least.ceil() as i32, self.greatest.floor() as i32);
        let each = ((last - first) / 5).max(1);
        let powers = (first..=last).step_by(usize::try_from(each).unwrap_or(1)).map(|power| 10_f64.powi(power));
        let powers: Vec<f64> = powers.collect();
        // A range below a power of ten has no tick of its own, so its ends are marked.
        if powers.len() < 2 { vec![10_f64.powf(self.least), 10_f64.powf(self.greatest)] } else { powers }
    }
}

fn open(out: &mut String, title: &str, height: f64) {
    let title = escape(title);
    let _ =
        write!(out, "<h3>{title}</h3><svg viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-label=\"{title}\">");
}

fn text(out: &mut String, x: f64, y: f64, class: &str, anchor: &str, words: &str) {
    let words = escape(words);
    let _ = write!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\" class=\"{class}\" text-anchor=\"{anchor}\">{words}</text>");
}

fn rule(out: &mut String, class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
    let _ = write!(out, "<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>");
}

/// Draws bars from 1 to each ratio.
pub(super) fn bars(title: &str, all: &[Bar]) -> String {
    let height = all.len() as f64 * BAR_HEIGHT + 10.0;
    let ends = all.iter().flat_map(|bar| {
        let (least, greatest) = bar.spread.unwrap_or((bar.value, bar.value));
        [bar.value, least, greatest, 1.0]
    });
    let scale = Scale::new(ends, true, (2.0, WIDTH - FIGURES));
    let one = scale.place(1.0);
    let mut out = String::new();
    open(&mut out, title, height);
    for (index, bar) in all.iter().enumerate() {
        let top = index as f64 * BAR_HEIGHT;
        text(&mut out, 0.0, top + 15.0, "f", "start", &shortened(&bar.label));
        let at = scale.place(bar.value);
        let (from, to) = (one.min(at), one.max(at));
        let class = if bar.good { "good" } else { "bad" };
        let _ = write!(
            out,
            "<rect class=\"{class}\" x=\"{from:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"12\"/>",
            top + 20.0,
            (to - from).max(1.0)
        );
        if let Some((least, greatest)) = bar.spread {
            let y = top + 26.0;
            rule(&mut out, "w", (scale.place(least), y), (scale.place(greatest), y));
        }
        let figure = match bar.spread {
            Some((least, greatest)) if least < greatest => {
                format!("{} ({} - {})", show(bar.value), show(least), show(greatest))
            }
            _ => show(bar.value),
        };
        text(&mut out, WIDTH, top + 31.0, "", "end", &figure);
    }
    rule(&mut out, "w", (one, 0.0), (one, height));
    out.push_str("</svg>");
    out
}

/// Draws times on a logarithmic axis: a line from the first quantile to the last, and a dot for each.
pub(super) fn spreads(title: &str, all: &[Spread]) -> String {
    let height = all.len() as f64 * BAR_HEIGHT + 26.0;
    let ends = all.iter().flat_map(|spread| spread.values.into_iter().chain(spread.baseline));
    let scale = Scale::new(ends, true, (6.0, WIDTH - FIGURES));
    let mut out = String::new();
    open(&mut out, title, height);
    for (index, spread) in all.iter().enumerate() {
        let top = index as f64 * BAR_HEIGHT;
        text(&mut out, 0.0, top + 15.0, "f", "start", &shortened(&spread.label));
        let y = top + 27.0;
        rule(&mut out, "w", (scale.place(spread.values[0]), y), (scale.place(spread.values[2]), y));
        for (value, radius) in spread.values.into_iter().zip([5.0, 4.0, 3.0]) {
            let x = scale.place(value);
            let _ = write!(out, "<circle class=\"good\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\"/>");
        }
        if let Some(baseline) = spread.baseline {
            let x = scale.place(baseline);
            let _ = write!(
                out,
                "<rect class=\"bad\" x=\"{:.1}\" y=\"{:.1}\" width=\"3\" height=\"14\"/>",
                x - 1.5,
                y - 7.0
            );
        }
        let figures = spread.values.map(show).join(" / ");
        text(&mut out, WIDTH, y + 4.0, "", "end", &figures);
    }
    text(&mut out, 0.0, height - 4.0, "f", "start", "dots: 50 %, 99 %, 99.9 %; upright: half of the baseline's times");
    out.push_str("</svg>");
    out
}

/// Draws lines. An axis is logarithmic if all its values are above zero and the chart is not linear; otherwise it starts
/// at zero.
pub(super) fn lines(chart: &Lines) -> String {
    let legend = chart.lines.len() as f64 * 18.0;
    let height = LINES_HEIGHT + legend;
    let points = || chart.lines.iter().flat_map(|(_, _, points)| points.iter().copied());
    let axis = |values: Vec<f64>, ends| {
        let logarithmic = !chart.is_linear && values.iter().all(|value| *value > 0.0);
        let zero = if logarithmic { None } else { Some(0.0) };
        Scale::new(values.into_iter().chain(zero), logarithmic, ends)
    };
    let across = axis(points().map(|(x, _)| x).collect(), (LEFT, WIDTH - RIGHT));
    let up = axis(points().map(|(_, y)| y).collect(), (LINES_HEIGHT - BOTTOM, TOP));
    let mut out = String::new();
    open(&mut out, &chart.title, height);
    for tick in up.ticks() {
        let y = up.place(tick);
        rule(&mut out, "r", (LEFT, y), (WIDTH - RIGHT, y));
        text(&mut out, LEFT - 6.0, y + 4.0, "f", "end", &show(tick));
    }
    for tick in across.ticks() {
        let x = across.place(tick);
        rule(&mut out, "r", (x, TOP), (x, LINES_HEIGHT - BOTTOM));
        let anchor = if x > WIDTH - LEFT { "end" } else { "middle" };
        text(&mut out, x, LINES_HEIGHT - BOTTOM + 16.0, "f", anchor, &show(tick));
    }
    text(&mut out, WIDTH - RIGHT, LINES_HEIGHT - 6.0, "f", "end", &chart.x);
    text(&mut out, 0.0, LINES_HEIGHT - 6.0, "f", "start", &chart.y);
    for (index, (name, baseline, points)) in chart.lines.iter().enumerate() {
        let dash = if *baseline { " stroke-dasharray=\"4 4\"" } else { "" };
        let places: Vec<String> =
            points.iter().map(|(x, y)| format!("{:.1},{:.1}", across.place(*x), up.place(*y))).collect();
        let stroke = format!("fill=\"none\" stroke=\"var(--c{})\" stroke-width=\"2\"{dash}", index % 6);
        let _ = write!(out, "<polyline {stroke} points=\"{}\"/>", places.join(" "));
        let y = LINES_HEIGHT + index as f64 * 18.0 + 8.0;
        let _ = write!(out, "<polyline {stroke} points=\"0,{y} 26,{y}\"/>");
        text(&mut out, 32.0, y + 4.0, "", "start", &shortened(name));
    }
    out.push_str("</svg>");
    out
}

/// Shortens a label to [`LABEL_MAX`] characters.
fn shortened(label: &str) -> String {
    if label.chars().count() <= LABEL_MAX {
        return label.to_owned();
    }
    label.chars().take(LABEL_MAX - 1).chain(['…']).collect()
}

/// Characters of a label.
const LABEL_MAX: usize = 58;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_stay_inside() {
        let scale = Scale::new([1.0, 100.0].into_iter(), true, (0.0, 10.0));
        assert!((scale.place(10.0) - 5.0).abs() < 1e-9);
        assert!((scale.place(1e9) - 10.0).abs() < 1e-9 && scale.place(0.0).abs() < 1e-9);
        assert_eq!(scale.ticks(), [1.0, 10.0, 100.0]);
        let point = Scale::new([7.0].into_iter(), true, (0.0, 10.0));
        assert!(point.place(7.0).is_finite());
        let nothing = Scale::new(std::iter::empty(), false, (0.0, 10.0));
        assert_eq!(nothing.ticks().len(), 5);
    }
}
