//! Plots the figures: one square for each quantity. Both axes are logarithmic, so that a power of the size is a
//! straight line. The SVG is self-contained.

use std::fmt::Write;

use super::ScaleRow;

/// A line of a square: its name, and the figure of a row.
type Line = (&'static str, fn(&ScaleRow) -> f64);

/// The squares, in reading order.
const SQUARES: [(&str, &[Line]); 6] = [
    (
        "idle, packets sent a second",
        &[("rank 0", |r| r.idle_coordinator.sent_packets), ("each member", |r| r.idle_member.sent_packets)],
    ),
    (
        "idle, bytes sent a second",
        &[("rank 0", |r| r.idle_coordinator.sent_bytes), ("each member", |r| r.idle_member.sent_bytes)],
    ),
    ("one crash, milliseconds", &[("until a ballot", |r| r.detect_ms), ("until all installed", |r| r.change_ms)]),
    (
        "one crash, packets of the coordinator",
        &[("sent", |r| r.change_coordinator.sent_packets), ("received", |r| r.change_coordinator.received_packets)],
    ),
    (
        "one crash, bytes of the coordinator",
        &[("sent", |r| r.change_coordinator.sent_bytes), ("received", |r| r.change_coordinator.received_bytes)],
    ),
    ("memory of a member, bytes", &[("simulated", |r| r.memory_bytes.map_or(f64::NAN, |bytes| bytes as f64))]),
];

const COLOURS: [&str; 2] = ["#1f5fa8", "#c8501e"];
const COLUMNS: usize = 3;
const SIDE: f64 = 240.0;
const LEFT: f64 = 62.0;
const TOP: f64 = 52.0;
const BELOW: f64 = 44.0;
const GAP: f64 = 18.0;

/// Draws all rows.
#[must_use]
pub fn svg(rows: &[ScaleRow]) -> String {
    let (cell_w, cell_h) = (LEFT + SIDE + GAP, TOP + SIDE + BELOW);
    let lines = SQUARES.len().div_ceil(COLUMNS);
    let (width, height) = (cell_w * COLUMNS as f64, cell_h * lines as f64);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"sans-serif\" \
         font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
    );
    for (number, (title, lines)) in SQUARES.iter().enumerate() {
        let (x, y) = (cell_w * (number % COLUMNS) as f64 + LEFT, cell_h * (number / COLUMNS) as f64 + TOP);
        square(&mut out, (x, y), title, lines, rows);
    }
    out.push_str("</svg>\n");
    out
}

fn square(out: &mut String, (x, y): (f64, f64), title: &str, lines: &[Line], rows: &[ScaleRow]) {
    let points = |line: &Line| -> Vec<(f64, f64)> {
        let of = |row: &ScaleRow| (row.members as f64, (line.1)(row));
        rows.iter().map(of).filter(|(_, figure)| *figure > 0.0).collect()
    };
    let all: Vec<(f64, f64)> = lines.iter().flat_map(points).collect();
    let _ = writeln!(out, "<text x=\"{x:.1}\" y=\"{:.1}\" font-weight=\"bold\">{title}</text>", y - 32.0);
    let (Some(across), Some(up)) = (Axis::over(all.iter().map(|p| p.0)), Axis::over(all.iter().map(|p| p.1))) else {
        return;
    };
    for decade in across.decades() {
        let at = x + across.place(decade) * SIDE;
        let (top, bottom) = (y, y + SIDE);
        let _ = writeln!(out, "<path d=\"M{at:.1} {top:.1}V{bottom:.1}\" stroke=\"#dddddd\"/>");
        let label = short(decade);
        let _ = writeln!(out, "<text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{label}</text>", bottom + 16.0);
    }
    for decade in up.decades() {
        let at = y + (1.0 - up.place(decade)) * SIDE;
        let _ = writeln!(out, "<path d=\"M{x:.1} {at:.1}H{:.1}\" stroke=\"#dddddd\"/>", x + SIDE);
        let label = short(decade);
        let _ = writeln!(out, "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>", x - 6.0, at + 4.0);
    }
    let _ = writeln!(
        out,
        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{SIDE}\" height=\"{SIDE}\" fill=\"none\" stroke=\"#888888\"/>"
    );
    for (number, line) in lines.iter().enumerate() {
        let colour = COLOURS[number % COLOURS.len()];
        let placed: Vec<(f64, f64)> = points(line)
            .into_iter()
            .map(|(n, figure)| (x + across.place(n) * SIDE, y + (1.0 - up.place(figure)) * SIDE))
            .collect();
        let path: Vec<String> = placed.iter().map(|(px, py)| format!("{px:.1},{py:.1}")).collect();
        let path = path.join(" ");
        let _ = writeln!(out, "<polyline points=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>");
        for (px, py) in placed {
            let _ = writeln!(out, "<circle cx=\"{px:.1}\" cy=\"{py:.1}\" r=\"3\" fill=\"{colour}\"/>");
        }
        let (tx, ty) = (x + number as f64 * SIDE / 2.0, y - 14.0);
        let _ = writeln!(out, "<text x=\"{tx:.1}\" y=\"{ty:.1}\" fill=\"{colour}\">{}</text>", line.0);
    }
    let (tx, ty) = (x + SIDE / 2.0, y + SIDE + 34.0);
    let _ = writeln!(out, "<text x=\"{tx:.1}\" y=\"{ty:.1}\" text-anchor=\"middle\">members</text>");
}

/// A logarithmic axis over whole decades.
struct Axis {
    from: f64,
    to: f64,
}

impl Axis {
    /// The decades that hold all of `figures`; `None` if there are none.
    fn over(figures: impl Iterator<Item = f64>) -> Option<Self> {
        let (least, most) = figures.fold((f64::INFINITY, 0.0_f64), |(a, b), f| (a.min(f), b.max(f)));
        (most > 0.0).then(|| {
            let from = least.log10().floor();
            Self { from, to: most.log10().ceil().max(from + 1.0) }
        })
    }

    fn place(&self, figure: f64) -> f64 {
        (figure.log10() - self.from) / (self.to - self.from)
    }

    fn decades(&self) -> impl Iterator<Item = f64> {
        let (from, to) = (self.from, self.to);
        (0..16_i32).map(move |step| from + f64::from(step)).take_while(move |at| *at <= to).map(|at| 10_f64.powf(at))
    }
}

fn short(figure: f64) -> String {
    match figure {
        f if f >= 1e9 => format!("{}G", f / 1e9),
        f if f >= 1e6 => format!("{}M", f / 1e6),
        f if f >= 1e3 => format!("{}k", f / 1e3),
        f => format!("{f}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decade_is_as_long_as_the_next() {
        let axis = Axis::over([64.0, 256.0, 1000.0].into_iter()).expect("figures");
        let decades: Vec<f64> = axis.decades().collect();
        assert_eq!(decades.len(), 3, "10, 100, 1000");
        assert!((axis.place(100.0) - 0.5).abs() < 1e-9);
        assert!(Axis::over(std::iter::empty()).is_none());
    }
}
