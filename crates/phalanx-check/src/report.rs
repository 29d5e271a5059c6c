//! The result of a check, for programs and people.

use std::collections::BTreeMap;

use phalanx_trace::FORMAT_STABLE;
use serde::Serialize;

use crate::Options;
use crate::findings::{Findings, Place, Texts};
use crate::model::{EpochEnd, Model};
use crate::property::{Property, required};

/// Result of a check.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Whether there was no violation, every required property was put to the test, and no search was given up.
    pub passed: bool,
    /// One entry per property, in fixed order.
    pub properties: Vec<PropertyReport>,
    /// Properties that were never put to the test.
    pub vacuous: Vec<Property>,
    /// Required properties that were never put to the test: the run did not do what it should.
    pub missing: Vec<Property>,
    /// Counts of the input.
    pub stats: Stats,
}

/// Result of one property.
#[derive(Clone, Debug, Serialize)]
pub struct PropertyReport {
    /// The property.
    pub property: Property,
    /// Its short statement.
    pub title: &'static str,
    /// Number of cases in which it was put to the test.
    pub instances: u64,
    /// Number of these cases under failure; which cases these are depends on the property (`docs/checker.md`).
    pub under_failure: u64,
    /// Number of violations.
    pub violations: u64,
    /// Number of searches given up because they took too long. Only R7 searches.
    pub given_up: u64,
    /// The first few violations.
    pub first: Vec<Violation>,
}

/// A violation of a property.
#[derive(Clone, Debug, Serialize)]
pub struct Violation {
    /// What is wrong, in one sentence.
    pub summary: String,
    /// The records that prove it.
    pub evidence: Vec<Evidence>,
}

/// A record of a trace.
#[derive(Clone, Debug, Serialize)]
pub struct Evidence {
    /// The trace's file, or name and incarnation for traces in memory.
    pub file: String,
    /// The record's index in it, from 0.
    pub index: usize,
    /// The record.
    pub text: String,
}

/// Outcomes of multicasts, as their senders learned them. Other ones are sent, and their senders go on.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Outcomes {
    /// Reported as stable.
    pub stable: u64,
    /// Reported as not sent.
    pub not_sent: u64,
    /// Sent and not reported as stable by an incarnation that is over. Its trace records such reports.
    pub in_doubt: u64,
}

/// Counts of the input.
#[derive(Clone, Debug, Serialize)]
pub struct Stats {
    /// Traces, including the harness's.
    pub traces: usize,
    /// Records.
    pub records: u64,
    /// Process incarnations with a trace.
    pub processes: usize,
    /// Cell instances.
    pub instances: usize,
    /// Different cell views installed.
    pub cell_views: usize,
    /// Different group views installed.
    pub group_views: usize,
    /// Group views on whose way out a member was lost, counted once for each.
    pub lossy_changes: usize,
    /// Multicasts sent or delivered.
    pub multicasts: usize,
    /// Deliveries of multicasts.
    pub deliveries: u64,
    /// Multicasts by their outcome.
    pub outcomes: Outcomes,
    /// Processes killed by the harness.
    pub crashes: usize,
    /// Processes notified of their exclusion.
    pub exclusions: usize,
    /// State transfers completed.
    pub transfers: u64,
    /// Whether liveness was due at the end, or why not.
    pub quiet: String,
    /// Files that end inside a record.
    pub truncated: Vec<String>,
    /// Files without a header, which were skipped.
    pub empty_files: Vec<String>,
    /// Incarnations of members without a trace. What depends on them was not evaluated.
    pub missing_traces: Vec<String>,
}

impl Report {
    /// The properties with a violation.
    #[must_use]
    pub fn violated(&self) -> Vec<Property> {
        self.properties.iter().filter(|p| p.violations > 0).map(|p| p.property).collect()
    }

    /// Number of cases in which the property was put to the test.
    #[must_use]
    pub fn instances(&self, property: Property) -> u64 {
        self.properties.iter().find(|p| p.property == property).map_or(0, |p| p.instances)
    }

    /// Formats the report as one JSON object.
    ///
    /// # Panics
    /// Never: strings, numbers and lists can always be written.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a report holds only strings, numbers and lists")
    }
}

pub(crate) fn assemble(model: &Model, options: &Options, findings: Vec<Findings>, texts: &Texts) -> Report {
    let evidence = |place: &Place| Evidence {
        file: model.traces[place.trace].label.clone(),
        index: place.index,
        text: texts.get(place).cloned().unwrap_or_default(),
    };
    let one = |f: Findings| PropertyReport {
        property: f.property,
        title: f.property.title(),
        instances: f.instances,
        under_failure: f.under_failure,
        violations: f.violations,
        given_up: f.given_up,
        first: f
            .kept
            .into_iter()
            .map(|(summary, places)| Violation { summary, evidence: places.iter().map(evidence).collect() })
            .collect(),
    };
    let properties: Vec<PropertyReport> = findings.into_iter().map(one).collect();
    let vacuous: Vec<Property> = properties.iter().filter(|p| p.instances == 0).map(|p| p.property).collect();
    let missing: Vec<Property> = required(model, options).into_iter().filter(|p| vacuous.contains(p)).collect();
    let passed = missing.is_empty() && properties.iter().all(|p| p.violations == 0 && p.given_up == 0);
    Report { passed, properties, vacuous, missing, stats: stats(model, options) }
}

fn stats(model: &Model, options: &Options) -> Stats {
    let labels = |keep: fn(&crate::model::TraceInfo) -> bool| {
        model.traces.iter().filter(|t| keep(t)).map(|t| t.label.clone()).collect()
    };
    let listed = model
        .procs
        .iter()
        .enumerate()
        .filter(|(ix, p)| p.trace.is_none() && model.installs.iter().any(|i| i.members.contains(ix)));
    let lossy = |view: usize| {
        let mut ends = model.views[view].epochs.iter().filter(|&&e| matches!(model.epochs[e].end, EpochEnd::Next(_)));
        ends.any(|&e| model.lost_a_member(e))
    };
    Stats {
        traces: model.traces.len(),
        records: model.traces.iter().map(|t| t.records).sum(),
        processes: model.procs.iter().filter(|p| p.trace.is_some()).count(),
        instances: model.cells.len(),
        cell_views: model.cells.values().map(BTreeMap::len).sum(),
        group_views: model.views.iter().filter(|v| !v.epochs.is_empty()).count(),
        lossy_changes: (0..model.views.len()).filter(|&v| lossy(v)).count(),
        multicasts: model.messages.len(),
        deliveries: model.traces.iter().map(|t| t.kinds.deliveries + t.kinds.replayed).sum(),
        outcomes: outcomes(model),
        crashes: model.procs.iter().filter(|p| p.crashed.is_some()).count(),
        exclusions: model.procs.iter().filter(|p| matches!(p.over, Some((crate::model::Over::Excluded(_), _)))).count(),
        transfers: model.traces.iter().map(|t| t.kinds.state_ends).sum(),
        quiet: model
            .quiet(options)
            .map_or_else(|why| format!("liveness not due: {why}"), |_| "liveness due".to_owned()),
        truncated: labels(|t| t.truncated),
        empty_files: model.empty_files.clone(),
        missing_traces: listed.map(|(_, p)| format!("{:016x}", p.incarnation)).collect(),
    }
}

fn outcomes(model: &Model) -> Outcomes {
    let not_sent = model.accepted.waits.iter().filter(|wait| wait.told.is_some()).count() as u64;
    let mut outcomes = Outcomes { stable: 0, not_sent, in_doubt: 0 };
    for proc in &model.procs {
        let Some(trace) = proc.trace.map(|trace| &model.traces[trace]) else { continue };
        let mut last: BTreeMap<usize, u64> = BTreeMap::new();
        for receipt in &proc.receipts {
            last.insert(receipt.view, receipt.seq);
        }
        let stable = last.values().fold(0u64, |sum, seq| sum.saturating_add(*seq));
        outcomes.stable = outcomes.stable.saturating_add(stable);
        if trace.format >= FORMAT_STABLE && (proc.over.is_some() || proc.crashed.is_some()) {
            outcomes.in_doubt += trace.kinds.sends.saturating_sub(stable);
        }
    }
    outcomes
}
