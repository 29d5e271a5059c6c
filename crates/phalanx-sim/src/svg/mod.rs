//! A space-time diagram: processes as lifelines from left to right, time running down, messages as arrows, views as
//! bars across those who install them, and what proves a violation marked and captioned.
//!
//! Traces and findings are all it takes, so that it draws simulated runs and real ones alike. The picture is one SVG
//! file without scripts or anything from outside; equal input gives equal bytes.

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

/// Something that was found broken, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The property's code.
    pub code: String,
    /// What is wrong, for people.
    pub text: String,
    /// When, on the traces' clock.
    pub at_ns: u64,
    /// The records that prove it: number of the trace, number of the record in it.
    pub evidence: Vec<(usize, usize)>,
}

/// Something that was done to the processes and stands in no trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// When.
    pub at_ns: u64,
    /// The process it was done to, by name; `None`: to several.
    pub node: Option<String>,
    /// What.
    pub text: String,
}

/// What is to be drawn.
#[derive(Clone, Debug)]
pub struct Diagram<'a> {
    title: String,
    traces: &'a [Trace],
    findings: Vec<Finding>,
    marks: Vec<Mark>,
    window: Option<RangeInclusive<u64>>,
}

impl<'a> Diagram<'a> {
    /// Draws `traces`, which must share one clock.
    #[must_use]
    pub fn new(title: impl Into<String>, traces: &'a [Trace]) -> Self {
        Self { title: title.into(), traces, findings: Vec::new(), marks: Vec::new(), window: None }
    }

    /// Adds what the checker found broken: the first violation of each property. `labels` are the names that the
    /// report gives to the traces, in their order.
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

    /// Adds a finding that the checker knows nothing of.
    #[must_use]
    pub fn with_finding(mut self, finding: Finding) -> Self {
        self.findings.push(finding);
        self
    }

    /// Adds what was done to the processes.
    #[must_use]
    pub fn with_marks(mut self, marks: impl IntoIterator<Item = Mark>) -> Self {
        self.marks.extend(marks);
        self
    }

    /// Draws this part of the run, in nanoseconds; without it, what is around the first finding.
    #[must_use]
    pub fn with_window(mut self, window: Option<RangeInclusive<u64>>) -> Self {
        self.window = window.or(self.window);
        self
    }

    /// The picture, as the text of an SVG file.
    #[must_use]
    pub fn to_svg(&self) -> String {
        draw::draw(&scene::Scene::collect(self))
    }

    fn time_of(&self, (trace, record): (usize, usize)) -> Option<u64> {
        Some(self.traces.get(trace)?.records.get(record)?.at_ns)
    }
}

/// The name that the checker gives to a trace in memory.
#[must_use]
pub fn memory_label(trace: &Trace) -> String {
    match trace.header.incarnation {
        0 => trace.header.node.clone(),
        incarnation => format!("{}-{incarnation:016x}", trace.header.node),
    }
}
