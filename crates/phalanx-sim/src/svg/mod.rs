//! A space-time diagram. Processes are lifelines from left to right and time runs down. Messages are arrows, views are
//! bars across the processes that install them, and the proofs of a violation are marked and captioned.
//!
//! It needs only traces and findings, so it draws simulated and real runs alike. The picture is one SVG file without
//! scripts or external resources; equal input gives equal bytes.

mod axis;
mod draw;
mod legend;
mod messages;
mod scene;
mod select;
mod style;
mod text;

use std::ops::RangeInclusive;

use phalanx_check::Report;
use phalanx_trace::Trace;

/// A violation and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The property's code.
    pub code: String,
    /// Description, for people.
    pub text: String,
    /// Time on the traces' clock.
    pub at_ns: u64,
    /// The records that prove it: index of the trace, index of the record in it.
    pub evidence: Vec<(usize, usize)>,
}

/// An action on processes that no trace records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Its time.
    pub at_ns: u64,
    /// The affected process, by name; `None`: several.
    pub node: Option<String>,
    /// Description.
    pub text: String,
}

/// Input of a drawing.
#[derive(Clone, Debug)]
pub struct Diagram<'a> {
    title: String,
    traces: &'a [Trace],
    findings: Vec<Finding>,
    marks: Vec<Mark>,
    window: Option<RangeInclusive<u64>>,
}

impl<'a> Diagram<'a> {
    /// Begins a diagram of `traces`, which must share one clock.
    #[must_use]
    pub fn new(title: impl Into<String>, traces: &'a [Trace]) -> Self {
        Self { title: title.into(), traces, findings: Vec::new(), marks: Vec::new(), window: None }
    }

    /// Adds the checker's findings: the first violation of each property. `labels` are the report's names of the
    /// traces, in their order.
    #[must_use]
    pub fn with_report(mut self, report: &Report, labels: &[String]) -> Self {
        for property in &report.properties {
            let Some(first) = property.first.first() else { continue };
            let spots = first.evidence.iter();
            let spot = |file: &str| labels.iter().position(|label| label == file);
            let evidence: Vec<(usize, usize)> =
                spots.filter_map(|evidence| Some((spot(&evidence.file)?, evidence.index))).collect();
            let at_ns = evidence.iter().filter_map(|spot| self.time_of(*spot)).max().unwrap_or(0);
            let code = property.property.code().to_owned();
            let text = format!("{}: {}", property.title, first.summary);
            self.findings.push(Finding { code, text, at_ns, evidence });
        }
        self
    }

    /// Adds a finding that is not the checker's.
    #[must_use]
    pub fn with_finding(mut self, finding: Finding) -> Self {
        self.findings.push(finding);
        self
    }

    /// Adds actions on processes.
    #[must_use]
    pub fn with_marks(mut self, marks: impl IntoIterator<Item = Mark>) -> Self {
        self.marks.extend(marks);
        self
    }

    /// Draws this part of the run, in nanoseconds. Without it, draws the surroundings of the first finding.
    #[must_use]
    pub fn with_window(mut self, window: Option<RangeInclusive<u64>>) -> Self {
        self.window = window.or(self.window);
        self
    }

    /// Returns the picture as the text of an SVG file.
    #[must_use]
    pub fn to_svg(&self) -> String {
        draw::draw(&scene::Scene::collect(self))
    }

    fn time_of(&self, (trace, record): (usize, usize)) -> Option<u64> {
        Some(self.traces.get(trace)?.records.get(record)?.at_ns)
    }
}

/// The checker's name for a trace in memory.
#[must_use]
pub fn memory_label(trace: &Trace) -> String {
    match trace.header.incarnation {
        0 => trace.header.node.clone(),
        incarnation => format!("{}-{incarnation:016x}", trace.header.node),
    }
}
