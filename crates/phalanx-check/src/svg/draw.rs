//! Draws a scene.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::axis::{Axis, LINE};
use super::scene::{Bar, Glyph, Piece, Scene, What};
use super::style::STYLE;
use super::text::{escape, seconds, shorten, wrap};

/// Position of the first lifeline; times are left of it.
const LEFT: f64 = 120.0;
/// Width at the right for notes on what was done to the cell.
const NOTES: f64 = 330.0;
const NOTE_LETTERS: usize = 52;
/// Letters in the label of a view.
const PILL_LETTERS: usize = 14;
/// Letters in a line of a caption, for each unit of width.
const LETTERS_PER_UNIT: f64 = 1.0 / 6.4;
/// The place of notes among the places of texts.
const NOTE_PLACE: usize = usize::MAX;

/// Returns the picture as text.
pub(super) fn draw(scene: &Scene) -> String {
    Paper::new(scene).finish()
}

pub(super) struct Paper<'a> {
    pub(super) scene: &'a Scene,
    axis: Axis,
    /// Distance between two lifelines.
    step: f64,
    pub(super) width: f64,
    top: f64,
    title: Vec<String>,
    /// Number of texts at a place and moment so far.
    texts: BTreeMap<(usize, u64), u32>,
    pub(super) out: String,
}

impl<'a> Paper<'a> {
    fn new(scene: &'a Scene) -> Self {
        let n = scene.columns.len().max(1);
        let step = if n <= 6 { 150.0 } else { 118.0 };
        let width = LEFT + step * n as f64 + NOTES;
        let title = wrap(&scene.title, letters(width) * 7 / 8);
        let top = 40.0 + 18.0 * title.len() as f64;
        Self {
            axis: Axis::new(moments(scene), top + 26.0),
            scene,
            step,
            width,
            top,
            title,
            texts: BTreeMap::new(),
            out: String::new(),
        }
    }

    fn x(&self, column: usize) -> f64 {
        LEFT + self.step * column as f64
    }

    fn y(&self, at_ns: u64) -> f64 {
        self.axis.height(at_ns)
    }

    fn notes_x(&self) -> f64 {
        LEFT + self.step * self.scene.columns.len() as f64 - self.step * 0.2
    }

    fn finish(mut self) -> String {
        self.times();
        self.marks();
        self.broken();
        self.lifelines();
        let scene = self.scene;
        scene.bars.iter().for_each(|bar| self.bar_line(bar));
        self.arrows();
        scene.bars.iter().for_each(|bar| self.pills(bar));
        scene.glyphs.iter().for_each(|glyph| self.glyph(glyph));
        self.proofs();
        let end = self.captions(self.axis.end() + 2.0 * LINE);
        let end = self.legend(end + LINE);
        self.frame(end + LINE)
    }

    /// Adds the head of the file, whose height is known only at the end.
    fn frame(self, height: f64) -> String {
        let width = self.width;
        let mut all = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
             viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"DejaVu Sans, Verdana, sans-serif\" font-size=\"10\">\n\
             <title>{}</title>\n<style>{STYLE}</style>\n\
             <defs>{}{}</defs>\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n",
            escape(&self.scene.title),
            tip("arrow", "#8a8a9a"),
            tip("proofarrow", "#c01818")
        );
        for (i, line) in self.title.iter().enumerate() {
            let y = 26.0 + 18.0 * i as f64;
            let _ = writeln!(all, "<text class=\"head\" x=\"16\" y=\"{y:.1}\">{}</text>", escape(line));
        }
        for (column, name) in self.scene.columns.iter().enumerate() {
            for y in [self.top + 4.0, self.axis.end() + 14.0] {
                let x = self.x(column);
                let name = escape(&shorten(name, 18));
                let _ = writeln!(all, "<text class=\"name\" x=\"{x:.1}\" y=\"{y:.1}\">{name}</text>");
            }
        }
        all.push_str(&self.out);
        all.push_str("</svg>\n");
        all
    }

    fn times(&mut self) {
        let _ = writeln!(self.out, "<text class=\"time\" x=\"76\" y=\"{:.1}\">seconds</text>", self.top + 4.0);
        let right = self.notes_x();
        for (at_ns, y) in self.axis.ticks() {
            let text = seconds(at_ns);
            let _ = writeln!(
                self.out,
                "<line class=\"tick\" x1=\"80\" y1=\"{y:.1}\" x2=\"{right:.1}\" y2=\"{y:.1}\"/>\
                 <text class=\"time\" x=\"76\" y=\"{:.1}\">{text}</text>",
                y + 3.5
            );
        }
    }

    /// Position of the next text of a place at a moment.
    fn text_y(&mut self, place: usize, at_ns: u64) -> f64 {
        let count = self.texts.entry((place, at_ns)).or_default();
        let line = *count;
        *count += 1;
        self.axis.height(at_ns) + LINE * f64::from(line)
    }

    fn marks(&mut self) {
        let scene = self.scene;
        for (column, mark) in &scene.marks {
            let (y, x) = (self.text_y(NOTE_PLACE, mark.at_ns), self.notes_x());
            let from = column.map_or(80.0, |column| self.x(column));
            let at = self.y(mark.at_ns);
            let who = column.map_or(String::new(), |column| format!("{}: ", scene.columns[column]));
            let text = escape(&shorten(&format!("{who}{}", mark.text), NOTE_LETTERS));
            let _ = writeln!(
                self.out,
                "<line class=\"mark\" x1=\"{from:.1}\" y1=\"{at:.1}\" x2=\"{x:.1}\" y2=\"{at:.1}\"/>\
                 <text class=\"note\" x=\"{:.1}\" y=\"{:.1}\"><title>{}</title>{text}</text>",
                x + 6.0,
                y + 3.5,
                escape(&mark.text)
            );
        }
    }

    fn lifelines(&mut self) {
        let scene = self.scene;
        let (from_ns, to_ns) = (*scene.window.start(), *scene.window.end());
        let (top, end) = (self.top + 10.0, self.axis.end());
        let span = |paper: &Self, piece: &Piece| {
            let y1 = if piece.from_ns <= from_ns { top } else { paper.y(piece.from_ns) };
            let y2 = if piece.to_ns >= to_ns { end } else { paper.y(piece.to_ns) };
            (piece.to_ns >= from_ns && piece.from_ns <= to_ns).then_some((paper.x(piece.column), y1, y2))
        };
        for (class, pieces) in [("life", &scene.lives), ("stop", &scene.stops)] {
            let spans: Vec<_> = pieces.iter().filter_map(|piece| span(self, piece)).collect();
            for (x, y1, y2) in spans {
                let _ = writeln!(
                    self.out,
                    "<line class=\"{class}\" x1=\"{x:.1}\" y1=\"{y1:.1}\" x2=\"{x:.1}\" y2=\"{y2:.1}\"/>"
                );
            }
        }
    }

    fn bar_line(&mut self, bar: &Bar) {
        let class = if bar.is_cell { "cell" } else { "group" };
        let points: Vec<String> =
            bar.points.iter().map(|&(c, at)| format!("{:.1},{:.1}", self.x(c), self.y(at))).collect();
        let (points, hint) = (points.join(" "), escape(&bar.hint));
        let _ = writeln!(self.out, "<polyline class=\"{class}\" points=\"{points}\"><title>{hint}</title></polyline>");
    }

    fn pills(&mut self, bar: &Bar) {
        let class = if bar.is_cell { "cellpill" } else { "grouppill" };
        let label = shorten(&bar.label, PILL_LETTERS);
        let width = pill_width(&bar.label);
        for &(column, at_ns) in &bar.points {
            let (x, y) = (self.x(column), self.text_y(column, at_ns));
            let _ = writeln!(
                self.out,
                "<rect class=\"{class}\" x=\"{:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"12\" rx=\"6\">\
                 <title>{}</title></rect><text class=\"pill\" x=\"{x:.1}\" y=\"{:.1}\">{}</text>",
                x - width / 2.0,
                y - 6.0,
                escape(&bar.hint),
                y + 3.5,
                escape(&label)
            );
        }
    }

    fn arrows(&mut self) {
        let scene = self.scene;
        for arrow in &scene.arrows {
            let class = if arrow.is_proof { "proofarrow" } else { "arrow" };
            let label = escape(&arrow.label);
            if let Some((from, at_ns)) = arrow.sent {
                let (x1, y1) = (self.x(from), self.y(at_ns));
                for &(to, to_ns) in arrow.delivered.iter().filter(|(to, _)| *to != from) {
                    let (x2, y2) = (self.x(to), self.y(to_ns));
                    let _ = writeln!(
                        self.out,
                        "<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" \
                         marker-end=\"url(#{class}-tip)\"><title>{label}</title></line>"
                    );
                }
                let y = self.text_y(from, at_ns);
                let shown = escape(&shorten(&arrow.label, 18));
                let _ = writeln!(
                    self.out,
                    "<circle class=\"{class}\" cx=\"{x1:.1}\" cy=\"{y1:.1}\" r=\"2.5\"/>\
                     <text class=\"label {class}text\" x=\"{:.1}\" y=\"{:.1}\">{shown}</text>",
                    x1 + 7.0,
                    y + 3.5
                );
            }
            for &(to, to_ns) in &arrow.delivered {
                let (x, y) = (self.x(to), self.y(to_ns));
                let filled = if arrow.is_uniform { "uniform" } else { "plain" };
                let _ = writeln!(
                    self.out,
                    "<circle class=\"{class} {filled}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.2\"><title>{label} is \
                     delivered at {} s</title></circle>",
                    seconds(to_ns)
                );
            }
        }
    }

    fn glyph(&mut self, glyph: &Glyph) {
        let x = self.x(glyph.column);
        let y = self.text_y(glyph.column, glyph.at_ns);
        let _ = writeln!(
            self.out,
            "{}<text class=\"label {}\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            symbol(glyph.what, x, y),
            if is_bad(glyph.what) { "bad" } else { "good" },
            x + 9.0,
            y + 3.5,
            escape(&shorten(&glyph.label, 22))
        );
    }

    /// Draws the times at which violations were found.
    fn broken(&mut self) {
        let scene = self.scene;
        for caption in &scene.captions {
            if scene.window.contains(&caption.at_ns) {
                let (y, right) = (self.y(caption.at_ns), self.width - 12.0);
                let code = escape(&caption.code);
                let _ = writeln!(
                    self.out,
                    "<line class=\"broken\" x1=\"80\" y1=\"{y:.1}\" x2=\"{right:.1}\" y2=\"{y:.1}\"/>\
                     <text class=\"brokentext\" x=\"{right:.1}\" y=\"{:.1}\">{code} is broken</text>",
                    y - 3.0
                );
            }
        }
    }

    /// Draws the records that prove them, with their numbers.
    fn proofs(&mut self) {
        let scene = self.scene;
        let mut beside: BTreeMap<(Option<usize>, u64), u32> = BTreeMap::new();
        for caption in &scene.captions {
            for proof in caption.proofs.iter().filter(|proof| scene.window.contains(&proof.at_ns)) {
                let count = beside.entry((proof.column, proof.at_ns)).or_default();
                // Around and beside the label of a view, not on it.
                let is_here =
                    |bar: &&Bar| proof.column.is_some_and(|column| bar.points.contains(&(column, proof.at_ns)));
                let half = scene.bars.iter().find(is_here).map_or(5.5, |bar| pill_width(&bar.label) / 2.0 + 2.0);
                let shift = 19.0 * f64::from(*count) + half + 10.5;
                *count += 1;
                let (x, y) = (proof.column.map_or(92.0, |column| self.x(column)), self.y(proof.at_ns));
                let _ = writeln!(
                    self.out,
                    "<rect class=\"ring\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"{:.1}\"/>\
                     <circle class=\"number\" cx=\"{:.1}\" cy=\"{y:.1}\" r=\"8\"/>\
                     <text class=\"numbertext\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                    x - half,
                    y - half.min(8.0),
                    2.0 * half,
                    2.0 * half.min(8.0),
                    half.min(8.0),
                    x - shift,
                    x - shift,
                    y + 3.5,
                    proof.number
                );
            }
        }
    }
}

/// All moments that are shown, and the place of the text at each.
fn moments(scene: &Scene) -> Vec<(u64, Option<usize>)> {
    let mut all: Vec<(u64, Option<usize>)> = vec![(*scene.window.start(), None), (*scene.window.end(), None)];
    all.extend(scene.glyphs.iter().map(|glyph| (glyph.at_ns, Some(glyph.column))));
    all.extend(scene.bars.iter().flat_map(|bar| &bar.points).map(|&(column, at_ns)| (at_ns, Some(column))));
    all.extend(scene.arrows.iter().filter_map(|arrow| arrow.sent).map(|(column, at_ns)| (at_ns, Some(column))));
    all.extend(scene.arrows.iter().flat_map(|arrow| &arrow.delivered).map(|&(_, at_ns)| (at_ns, None)));
    all.extend(scene.marks.iter().map(|(_, mark)| (mark.at_ns, Some(NOTE_PLACE))));
    let shown = |at_ns: &u64| scene.window.contains(at_ns);
    let proofs = scene.captions.iter().flat_map(|caption| caption.proofs.iter().map(|proof| proof.at_ns));
    all.extend(proofs.filter(shown).map(|at_ns| (at_ns, None)));
    all.extend(scene.captions.iter().map(|caption| caption.at_ns).filter(shown).map(|at_ns| (at_ns, None)));
    all
}

#[allow(clippy::cast_possible_truncation, reason = "a page is a few thousand units wide")]
pub(super) fn letters(width: f64) -> usize {
    ((width - 40.0) * LETTERS_PER_UNIT) as usize
}

/// Width of a view's label.
fn pill_width(label: &str) -> f64 {
    8.0 + 6.0 * label.chars().count().min(PILL_LETTERS) as f64
}

/// The head of an arrow of a class.
fn tip(class: &str, color: &str) -> String {
    format!(
        "<marker id=\"{class}-tip\" viewBox=\"0 0 8 8\" refX=\"9.5\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" \
         orient=\"auto\" markerUnits=\"userSpaceOnUse\"><path d=\"M0 0.8 L7.5 4 L0 7.2 z\" fill=\"{color}\"/></marker>"
    )
}

fn is_bad(what: What) -> bool {
    match what {
        What::Crashes | What::Stops | What::IsExcluded | What::HearsNoQuorum => true,
        What::Starts | What::GoesOn | What::Leaves | What::HearsOne | What::TakesState | What::GivesState => false,
    }
}

pub(super) fn symbol(what: What, x: f64, y: f64) -> String {
    let path = |class: &str, steps: &str| format!("<path class=\"{class}\" d=\"M{x:.1} {y:.1} {steps}\"/>");
    match what {
        What::Starts => path("goodsign", "m-5 3 l5 -8 l5 8 z"),
        What::Crashes => path("cross", "m-5 -5 l10 10 m0 -10 l-10 10"),
        What::Stops => path("cross", "m-3 -5 v10 m6 0 v-10"),
        What::GoesOn => path("goodsign", "m-4 -5 l8 5 l-8 5 z"),
        What::IsExcluded => path("badsign", "m-5 -5 h10 v10 h-10 z"),
        What::Leaves => path("goodsign", "m-5 -5 h10 v10 h-10 z"),
        What::HearsNoQuorum => path("badopen", "m-5 0 l5 -5 l5 5 l-5 5 z"),
        What::HearsOne => path("goodsign", "m-5 0 l5 -5 l5 5 l-5 5 z"),
        What::TakesState => path("state", "m-5 -2 h10 v5 h-10 z"),
        What::GivesState => path("stateopen", "m-5 -2 h10 v5 h-10 z"),
    }
}
