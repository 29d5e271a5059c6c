//! The input of a drawing: traces, findings, and actions on processes.

use std::ops::RangeInclusive;

use crate::report::Report;
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
    pub(super) title: String,
    pub(super) traces: &'a [Trace],
    pub(super) findings: Vec<Finding>,
    pub(super) marks: Vec<Mark>,
    pub(super) window: Option<RangeInclusive<u64>>,
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

    fn time_of(&self, (trace, record): (usize, usize)) -> Option<u64> {
        Some(self.traces.get(trace)?.records.get(record)?.at_ns)
    }
}
