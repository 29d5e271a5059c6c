//! V17, a sender learns that its multicasts are stable. Let `p` send `m` in the group view `v`, and live on.
//!
//! - If `p` goes on to a next view of the group, it is notified before that `m` is stable: the view ended, and every
//!   survivor has what it had sent.
//! - If `v` is its last view, it is notified within the bound of V3 and V4, counted from the send or from V1's deadline
//!   if that is later, whether it sent `m` before the quiet phase or in it. Evaluated only if V1 holds, or its part in
//!   V14.
//!
//! Evaluated if any process records such a notice, or if this property is required by name: a process that records one
//! records all, and so do all processes of its run. Traces of formats without the record are left out.
//!
//! Instances: multicasts whose sender went on, and those whose bound passed; *under failure*: those whose view lost a
//! member, and those sent before the quiet phase. Source: stability (Birman, Schiper, Stephenson 1991: a sender learns
//! when all have a message), with a bound.

use phalanx_trace::FORMAT_STABLE;

use super::{Run, v4, v16};
use crate::findings::Findings;
use crate::model::intern::FastMap;
use crate::model::quiet::Quiet;
use crate::model::{EpochEnd, EpochIx, Moment, ProcIx, ViewIx};
use crate::{Property, Require};

/// Notices to each process in each view: up to which number, and when.
type Told = FastMap<(ProcIx, ViewIx), Vec<(u64, Moment)>>;

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    let model = run.model;
    let is_required = match &run.options.require {
        Require::These(these) => these.contains(&Property::V17),
        Require::Features | Require::Nothing => false,
    };
    let is_recorded = model.procs.iter().any(|proc| !proc.receipts.is_empty());
    if !(is_recorded || is_required || model.harness.about.contains(&Property::V17)) {
        return;
    }
    let mut told = Told::default();
    for (p, proc) in model.procs.iter().enumerate() {
        for receipt in &proc.receipts {
            told.entry((p, receipt.view)).or_default().push((receipt.seq, receipt.moment));
        }
    }
    for (e, epoch) in model.epochs.iter().enumerate() {
        if let EpochEnd::Next(next) = epoch.end {
            went_on(run, &told, (e, next), out);
        }
    }
    if let Some(quiet) = v4::due(run) {
        v4::last_stays(run, quiet).for_each(|e| stayed(run, quiet, &told, e, out));
    }
}

/// Whether the process of the stay records such notices.
fn has_word(run: &Run<'_>, e: EpochIx) -> bool {
    let trace = run.model.procs[run.model.epochs[e].proc].trace;
    trace.is_some_and(|trace| run.model.traces[trace].format >= FORMAT_STABLE)
}

fn went_on(run: &Run<'_>, told: &Told, (e, next): (EpochIx, EpochIx), out: &mut Findings) {
    let model = run.model;
    let (epoch, next) = (&model.epochs[e], model.epochs[next].install);
    if !has_word(run, e) {
        return;
    }
    let own = told.get(&(epoch.proc, epoch.view)).map_or(&[][..], Vec::as_slice);
    // A notice that comes after the next view is S10.
    let stable = own.iter().map(|(seq, _)| *seq).max().unwrap_or(0);
    let loses = model.lost_a_member(e);
    for step in model.sent(e) {
        out.instance_when(loses);
        if model.seq(step) > stable {
            out.violation(&[model.place(e, step.index), next.place], || {
                let (who, what) = (model.who(epoch.proc), model.what(step.message));
                format!("{who} went on from its view, and was not notified that its {what} is stable")
            });
        }
    }
}

fn stayed(run: &Run<'_>, quiet: &Quiet, told: &Told, e: EpochIx, out: &mut Findings) {
    let model = run.model;
    let epoch = &model.epochs[e];
    if !has_word(run, e) || model.procs[epoch.proc].leave_asked.is_some_and(|at| at.at_ns <= quiet.end_ns) {
        return;
    }
    let own = told.get(&(epoch.proc, epoch.view)).map_or(&[][..], Vec::as_slice);
    for step in model.sent(e) {
        let deadline = v4::deadline_in(run, quiet, epoch.view, step.at_ns);
        if deadline > quiet.end_ns || v16::concerns(run, e, (step.at_ns, deadline)) {
            continue;
        }
        out.instance_when(step.at_ns < quiet.begun_ns);
        let first = own.iter().find(|(seq, _)| *seq >= model.seq(step));
        if first.is_none_or(|(_, at)| at.at_ns > deadline) {
            out.violation(&[quiet.place, model.place(e, step.index)], || {
                let (who, what) = (model.who(epoch.proc), model.what(step.message));
                format!("{who} was not notified within the bound that its {what} is stable")
            });
        }
    }
}
