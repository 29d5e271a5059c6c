//! X13, told what was executed: let the application of `p` be told of a submit.
//!
//! - If it is told a result, or that the result is too long, the state of some process executed the submit, with that result: that
//!   of `p`, before; or of another process, and `p` took a state with the answer, or kept one from an earlier incarnation.
//! - If it is told that it is not executed, no state executes it, by a message that `p` or an earlier incarnation of it sent before.
//!
//! Whether another process executed it is known where the traces of all members of the group are whole.
//!
//! Instances: such outcomes; *under failure*: results that the state of `p` did not compute in this incarnation. Source: as R2
//! and R4, by the state in place of a server.

use std::collections::{BTreeMap, BTreeSet};

use phalanx_trace::SubmitStep;

use super::Run;
use super::x12::shown;
use crate::findings::Findings;
use crate::model::submits::{SubmitName, SubmitRecord};
use crate::model::{Model, ProcIx};

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    let model = run.model;
    let mut executed: BTreeMap<SubmitName, Vec<&SubmitRecord>> = BTreeMap::new();
    for record in model.submits.iter().filter(|record| matches!(record.what, SubmitStep::Executed { .. })) {
        executed.entry(record.submit).or_default().push(record);
    }
    // Groups whose members' traces are all whole.
    let groups: BTreeSet<usize> = model.submits.iter().map(|record| record.group).collect();
    let whole: BTreeSet<usize> = groups.into_iter().filter(|group| model.tells_all_of(*group)).collect();
    for record in &model.submits {
        let all = executed.get(&record.submit).map_or(&[][..], Vec::as_slice);
        match record.what {
            SubmitStep::Told { .. } | SubmitStep::TooLong => {
                told(model, record, (all, whole.contains(&record.group)), out);
            }
            SubmitStep::NotExecuted => {
                out.instance();
                let of_it = all.iter().find(|execution| sent_before(model, execution, record));
                if let Some(execution) = of_it {
                    out.violation(&[execution.moment.place, record.moment.place], || {
                        let who = model.who(execution.proc);
                        format!("{} that it is not executed, and {who} executed it", shown(model, record))
                    });
                }
            }
            SubmitStep::Sent { .. } | SubmitStep::Executed { .. } | SubmitStep::Unknown => {}
        }
    }
}

/// Judges a result that was told. `is_whole`: all executions are known.
fn told(model: &Model, record: &SubmitRecord, (executed, is_whole): (&[&SubmitRecord], bool), out: &mut Findings) {
    let (me, at) = (record.proc, record.moment.place);
    let is_own = |execution: &&&SubmitRecord| {
        execution.proc == me && execution.group == record.group && execution.moment.place.index < at.index
    };
    let own = executed.iter().find(is_own);
    out.instance_when(own.is_none());
    let is_it = |execution: &SubmitRecord| match (record.what, execution.what) {
        (SubmitStep::Told { hash: told }, SubmitStep::Executed { hash, .. }) => told == hash,
        // What is too long has no hash to compare.
        _ => true,
    };
    let other = executed.iter().find(|execution| !is_it(execution));
    if let Some(other) = other.filter(|_| !executed.iter().any(|execution| is_it(execution))) {
        return out.violation(&[other.moment.place, at], || {
            format!("{} another result than its execution gave", shown(model, record))
        });
    }
    if own.is_some() {
        return;
    }
    if executed.is_empty() && is_whole {
        return out.violation(&[at], || format!("{} a result, and nobody executed it", shown(model, record)));
    }
    let was_here = executed.iter().any(|execution| is_same(model, execution.proc, me));
    if !was_here && !has_taken(model, record) {
        out.violation(&[at], || {
            format!("{} a result, and neither executed it nor took a state of the group", shown(model, record))
        });
    }
}

/// Whether two incarnations are of one process.
pub(super) fn is_same(model: &Model, one: ProcIx, other: ProcIx) -> bool {
    one == other || model.procs[one].name.is_some() && model.procs[one].name == model.procs[other].name
}

/// When an incarnation began.
pub(super) fn began(model: &Model, proc: ProcIx) -> u64 {
    model.procs[proc].started.map_or(0, |started| started.at_ns)
}

/// Whether the process that was told had taken a state of the group before, or kept one.
fn has_taken(model: &Model, told: &SubmitRecord) -> bool {
    let proc = &model.procs[told.proc];
    let before = told.moment.place.index;
    let stays = proc.epochs.iter().map(|stay| &model.epochs[*stay]);
    let kept = stays.filter(|stay| model.views[stay.view].group == told.group && stay.install.place.index < before);
    let has_kept = kept.filter_map(|stay| stay.transfer.as_ref()).any(|transfer| transfer.kept.is_some());
    let takes = |(group, moment): &(usize, crate::model::Moment)| *group == told.group && moment.place.index < before;
    has_kept || proc.begun.iter().any(takes)
}

/// Whether the message of an execution was sent before the outcome was told, by the process that was told or an earlier incarnation of
/// it. A later one may submit it again, under the name of its client.
fn sent_before(model: &Model, execution: &SubmitRecord, told: &SubmitRecord) -> bool {
    let Some(message) = execution.message else { return true };
    let sender = model.stream_of(message).sender;
    let sent = model.messages[message as usize].sent;
    match sent {
        Some(sent) if sender == told.proc => sent.place.index < told.moment.place.index,
        _ => is_same(model, sender, told.proc) && began(model, sender) <= began(model, told.proc),
    }
}
