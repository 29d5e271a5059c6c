//! X14, one outcome: let the application of a process be told of a submit.
//!
//! - It was sent before, and was told no other outcome since.
//! - It is told that the submit was executed once or never only if the incarnation of the process that sent it is over, or its
//!   membership, or the life of its membership, which is recorded before (`ToldLost`).
//!
//! The records of one process count together, incarnation by incarnation.
//!
//! Instances: outcomes; *under failure*: those of submits that were executed once or never. Source: the definition of an outcome
//! that is not known (`docs/submit.md`), as S12 has it of messages.

use std::collections::BTreeMap;

use phalanx_trace::SubmitStep;

use super::Run;
use super::x12::shown;
use super::x13::began;
use crate::findings::Findings;
use crate::model::Model;
use crate::model::submits::{SubmitName, SubmitRecord};

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    let model = run.model;
    // By process and submit, in the order in which the incarnations began.
    let mut all: BTreeMap<(&str, SubmitName), Vec<&SubmitRecord>> = BTreeMap::new();
    for record in model.submits.iter().filter(|record| !matches!(record.what, SubmitStep::Executed { .. })) {
        let name = model.procs[record.proc].name.as_deref().unwrap_or_default();
        all.entry((name, record.submit)).or_default().push(record);
    }
    for records in all.values_mut() {
        records.sort_by_key(|record| (began(model, record.proc), record.proc, record.moment.place.index));
        judge(run, records, out);
    }
}

fn judge(run: &Run<'_>, records: &[&SubmitRecord], out: &mut Findings) {
    let model = run.model;
    let mut told: Option<&SubmitRecord> = None;
    for (at, record) in records.iter().enumerate() {
        if matches!(record.what, SubmitStep::Sent { .. }) {
            told = None;
            continue;
        }
        let is_unknown = record.what == SubmitStep::Unknown;
        out.instance_when(is_unknown);
        if let Some(first) = told.replace(record) {
            out.violation(&[first.moment.place, record.moment.place], || {
                format!("{} twice, and sent it once", shown(model, record))
            });
            continue;
        }
        let mut sent = records[..at].iter().filter(|sent| matches!(sent.what, SubmitStep::Sent { .. }));
        let Some(last) = sent.clone().next_back() else {
            // An earlier incarnation may have no trace.
            if run.options.complete {
                out.violation(&[record.moment.place], || format!("{}, and did not send it", shown(model, record)));
            }
            continue;
        };
        if is_unknown && !sent.any(|sent| is_over(model, sent, record)) {
            out.violation(&[last.moment.place, record.moment.place], || {
                format!(
                    "{} that it was executed once or never, and nothing ended since it sent it",
                    shown(model, record)
                )
            });
        }
    }
}

/// Whether the life in which a submit was sent was over when its outcome was told.
fn is_over(model: &Model, sent: &SubmitRecord, told: &SubmitRecord) -> bool {
    let between = sent.moment.place.index..told.moment.place.index;
    let group = model.groups[sent.group].id;
    let mut lives = model.procs[sent.proc].told.lives.iter();
    sent.proc != told.proc || lives.any(|life| life.group == group && between.contains(&life.moment.place.index))
}
