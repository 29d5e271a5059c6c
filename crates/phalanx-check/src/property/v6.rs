//! V6, joins: in the quiet phase, a running, connected process that asked to join the cell, or a group, is in a view of
//! it within the bound, also while others that join die or give up.
//!
//! For the cell the bound counts from the request, or from the phase's begin or the last stop or continuation if that
//! is later; starts and deaths of others do not postpone it. An operator's command to found the cell does: until then
//! nobody may be able to found it. For a group it counts from the request, or from the last cell view. Evaluated only if V1 holds. A join that was withdrawn is not due. One that takes state and was under way
//! when the phase began is V12. Where paths stay partly broken, joins of the cell are V14's, which gives them longer. A
//! process at the end of such a path is not evaluated, and neither is a join of a group all of whose members are, or died before a
//! later incarnation was kept out by its cell. An observer waits until somebody is in the group.
//!
//! Instances: joins that were not done when the phase began. Source: Chockler, Keidar, Vitenberg 2001 (liveness of
//! membership), with a bound; joins that wait for each other for ever are a defect known from the field.

use super::{Run, v4};
use crate::findings::{Findings, Place};
use crate::model::quiet::Quiet;
use crate::model::{EpochIx, FaultKind, GroupJoin, Moment, ProcIx};

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    let (model, Some(quiet)) = (run.model, v4::due(run)) else { return };
    let stops = model.harness.faults.iter().filter(|f| f.kind != FaultKind::Crash).map(|f| f.moment.at_ns);
    let commands = model.anew_asked.iter().map(|asked| asked.at_ns);
    let from_ns = stops.chain(commands).filter(|&at| at <= quiet.end_ns).fold(quiet.begun_ns, u64::max);
    let is_whole = |p: &&ProcIx| quiet.impaired_ns.is_none() && model.procs[**p].tail_complete;
    for &p in quiet.running.iter().filter(is_whole) {
        let proc = &model.procs[p];
        let Some(asked) = proc.join_asked else { continue };
        let done = proc.installs.first().map(|&i| model.installs[i].moment);
        judge(run, quiet, (p, asked, done, from_ns), out, || "the cell".to_owned());
    }
    groups(run, quiet, out, |join| !is_pending_transfer(quiet, join));
}

/// Whether the join takes state and was requested before the quiet phase.
pub(super) fn is_pending_transfer(quiet: &Quiet, join: &GroupJoin) -> bool {
    join.with_state && join.asked.at_ns < quiet.begun_ns
}

/// Evaluates the joins of groups that `which` selects.
pub(super) fn groups(run: &Run<'_>, quiet: &Quiet, out: &mut Findings, which: impl Fn(&GroupJoin) -> bool) {
    let model = run.model;
    let settled_ns = run.last_install(quiet);
    for &p in quiet.running.iter().filter(|&&p| model.procs[p].tail_complete) {
        let proc = &model.procs[p];
        for (i, join) in proc.group_joins.iter().enumerate().filter(|(_, join)| which(join)) {
            let after = |place: Place| place.index > join.asked.place.index;
            let again = proc.group_joins[i + 1..].iter().find(|later| later.name == join.name);
            let mut epochs = proc.epochs.iter().map(|&e| &model.epochs[e]);
            let named = |group: usize| model.groups[group].name == join.name;
            let done = epochs.find(|e| after(e.install.place) && named(model.views[e.view].group)).map(|e| e.install);
            let left = proc.group_leaves.iter().map(|leave| leave.1).chain(proc.leave_asked);
            let by_then = |m: &Moment| m.at_ns <= quiet.end_ns;
            let withdrawn = left.into_iter().chain(again.map(|a| a.asked)).filter(by_then).any(|m| after(m.place));
            let waits = || join.observes && !is_there(run, quiet, &join.name);
            if done.is_none() && (is_out_of_reach(run, quiet, &join.name) || waits()) {
                continue;
            }
            if done.is_some() || !withdrawn {
                judge(run, quiet, (p, join.asked, done, settled_ns), out, || format!("group {:?}", join.name));
            }
        }
    }
}

/// Whether some process is in a group of that name.
fn is_there(run: &Run<'_>, quiet: &Quiet, name: &str) -> bool {
    let model = run.model;
    let is_named = |e: EpochIx| model.groups[model.views[model.epochs[e].view].group].name == name;
    quiet.running.iter().any(|&p| model.stays_at(p, quiet.end_ns).any(is_named))
}

/// Whether all members of a group are at the ends of partly broken paths, or were not running when a later incarnation of
/// a process was kept out by its cell, which then learns of no death from it. Their state may reach no process.
fn is_out_of_reach(run: &Run<'_>, quiet: &Quiet, name: &str) -> bool {
    let model = run.model;
    let is_named = |e: EpochIx| model.groups[model.views[model.epochs[e].view].group].name == name;
    let is_in = |p: &ProcIx| model.stays_at(*p, quiet.end_ns).any(is_named);
    let was_in = |p: ProcIx| model.procs[p].epochs.iter().any(|e| is_named(*e));
    let is_elsewhere = || (0..model.procs.len()).any(|p| !quiet.running.contains(&p) && was_in(p));
    let may_be = quiet.impaired_ns.is_some() || model.procs.iter().any(|proc| proc.is_kept_out(quiet.end_ns));
    may_be && !quiet.running.iter().any(is_in) && is_elsewhere()
}

fn judge(
    run: &Run<'_>,
    quiet: &Quiet,
    (p, asked, done, from_ns): (ProcIx, Moment, Option<Moment>, u64),
    out: &mut Findings,
    what: impl FnOnce() -> String,
) {
    let deadline = asked.at_ns.max(from_ns).saturating_add(run.options.join_bound_ns);
    if deadline > quiet.end_ns || done.is_some_and(|m| m.at_ns < quiet.begun_ns) {
        return;
    }
    out.instance();
    if done.is_none_or(|m| m.at_ns > deadline) {
        let evidence: Vec<Place> = [Some(asked.place), done.map(|m| m.place)].into_iter().flatten().collect();
        out.violation(&evidence, || format!("{} did not come into {} within the bound", run.model.who(p), what()));
    }
}
