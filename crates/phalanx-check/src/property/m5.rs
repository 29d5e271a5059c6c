//! M5, justified change. For `v -> w` at some process:
//!
//! - The joined and left lists are exactly `M_w \ M_v` and `M_v \ M_w` (cell views record no joined list).
//! - A joiner had asked to join, before its own first view. A process that left with reason *left* had asked to leave,
//!   unless it never installed a view of the group: a process itself withdraws a join that fails half-way.
//! - A process that left with reason *died* has no record later than the first installation of `w`.
//! - No ghosts: after the harness killed `q`, at most two cell views that list `q` are installed for the first time.
//!   One can be under way, and one decided and not yet taken by any application. Installations by a process that read
//!   nothing for a while after the kill prove nothing: they may have been decided long before.
//!
//! *Unreachable* needs no proof, because a failure detector may err. What needs the trace of a process is not evaluated
//! without it.
//!
//! Instances: changes of one member. Source: Ricciardi and Birman 1991 (no capricious removal); Chockler, Keidar,
//! Vitenberg 2001.

use phalanx_trace::{LeaveReason, Trouble};

use super::Run;
use crate::findings::{Findings, Place};
use crate::model::{Model, Moment, ProcIx};

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    cell_lists(run, out);
    cell_joins(run, out);
    group_lists(run, out);
    group_joins(run, out);
    departures(run, out);
    ghosts(run.model, out);
}

fn cell_lists(run: &Run<'_>, out: &mut Findings) {
    let model = run.model;
    for install in &model.installs {
        let Some(prev) = install.prev.map(|p| &model.installs[p]) else { continue };
        let view = || format!("cell view {}", install.view);
        let listed: Vec<ProcIx> = install.left.iter().map(|l| l.0).collect();
        compare(model, (&prev.members, &install.members), &listed, install.moment.place, &view, out);
    }
}

fn group_lists(run: &Run<'_>, out: &mut Findings) {
    let model = run.model;
    for epoch in &model.epochs {
        let view = || model.view_name(epoch.view);
        let place = epoch.install.place;
        match epoch.prev_epoch.map(|p| &model.epochs[p]) {
            Some(prev) => {
                let listed: Vec<ProcIx> = epoch.left.iter().map(|l| l.0).collect();
                compare(model, (&prev.members, &epoch.members), &listed, place, &view, out);
                compare(model, (&epoch.members, &prev.members), &epoch.joined, place, &view, out);
            }
            None if !epoch.joined.contains(&epoch.proc) => {
                out.violation(&[place], || format!("{} does not list its installer as joined", view()));
            }
            None => {}
        }
    }
}

/// Checks that `listed` is exactly what `from` has and `to` lacks.
fn compare(
    model: &Model,
    (from, to): (&[ProcIx], &[ProcIx]),
    listed: &[ProcIx],
    place: Place,
    view: &dyn Fn() -> String,
    out: &mut Findings,
) {
    let changed = |p: &ProcIx| from.contains(p) && !to.contains(p);
    for p in from.iter().filter(|&p| changed(p)) {
        out.instance();
        if !listed.contains(p) {
            out.violation(&[place], || format!("{} does not say that {} came or went", view(), model.who(*p)));
        }
    }
    for p in listed.iter().filter(|&p| !changed(p)) {
        out.violation(&[place], || format!("{} says that {} came or went, but it did not", view(), model.who(*p)));
    }
}

fn cell_joins(run: &Run<'_>, out: &mut Findings) {
    let model = run.model;
    for view in model.cells.values().flat_map(|c| c.values()) {
        let Some(install) = view.first().map(|&i| &model.installs[i]) else { continue };
        for &q in &install.members {
            let proc = &model.procs[q];
            let own = proc.installs.iter().copied().find(|&i| model.installs[i].view == install.view);
            let own = own.map(|i| model.installs[i].moment.place);
            let first = proc.installs.first().map(|&i| model.installs[i].view);
            if first.is_some_and(|first| first < install.view) || !known(model, q) {
                continue;
            }
            out.instance();
            let asked = proc.join_asked.is_some_and(|m| own.is_none_or(|own| m.place.index < own.index));
            if !asked {
                let text = || format!("cell view {} holds {}, which had not asked to join", install.view, model.who(q));
                out.violation(&[install.moment.place], text);
            }
        }
    }
}

fn group_joins(run: &Run<'_>, out: &mut Findings) {
    let model = run.model;
    for epoch in &model.epochs {
        let group = &model.groups[model.views[epoch.view].group];
        for &q in epoch.joined.iter().filter(|&&q| known(model, q)) {
            out.instance();
            let own = (q == epoch.proc).then_some(epoch.install.place.index);
            let before = |asked: Moment| own.is_none_or(|own| asked.place.index < own);
            if !model.procs[q].group_joins.iter().any(|join| join.name == group.name && before(join.asked)) {
                let text = || format!("{} joined {} without having asked", model.who(q), model.view_name(epoch.view));
                out.violation(&[epoch.install.place], text);
            }
        }
    }
}

fn departures(run: &Run<'_>, out: &mut Findings) {
    let model = run.model;
    for install in &model.installs {
        let view = || format!("cell view {}", install.view);
        for &(q, reason) in &install.left {
            departure(run, (q, reason, install.moment), model.procs[q].leave_asked, &view, out);
        }
    }
    for epoch in &model.epochs {
        let group = &model.groups[model.views[epoch.view].group];
        let view = || model.view_name(epoch.view);
        for &(q, reason) in &epoch.left {
            let proc = &model.procs[q];
            // A process that was admitted to the group and went before its application was notified left by itself.
            let told = epoch
                .prev_epoch
                .is_some_and(|p| model.views[model.epochs[p].view].epochs.iter().any(|&e| model.epochs[e].proc == q));
            if reason == LeaveReason::Left && !told {
                continue;
            }
            let from_group = proc.group_leaves.iter().find(|(id, _)| *id == group.id).map(|l| l.1);
            departure(run, (q, reason, epoch.install), from_group.or(proc.leave_asked), &view, out);
        }
    }
}

fn departure(
    run: &Run<'_>,
    (q, reason, install): (ProcIx, LeaveReason, Moment),
    asked: Option<Moment>,
    view: &dyn Fn() -> String,
    out: &mut Findings,
) {
    let model = run.model;
    match reason {
        LeaveReason::Left if known(model, q) => {
            out.instance();
            if asked.is_none() {
                let text = || format!("{} says that {} left, but it had not asked to", view(), model.who(q));
                out.violation(&[install.place], text);
            }
        }
        LeaveReason::Died => {
            let Some(trace) = model.procs[q].trace.filter(|&t| model.same_clock(t, install.place.trace)) else {
                return;
            };
            out.instance();
            let info = &model.traces[trace];
            if info.last_at_ns > install.at_ns.saturating_add(run.options.clock_slack_ns) {
                let last = Place { trace, index: usize::try_from(info.records).map_or(0, |n| n.saturating_sub(1)) };
                let text = || format!("{} says that {} died, but it lives on", view(), model.who(q));
                out.violation(&[install.place, last], text);
            }
        }
        LeaveReason::Left
        | LeaveReason::Unreachable
        | LeaveReason::TooSlow
        | LeaveReason::NoProgress
        | LeaveReason::Nonsense
        | LeaveReason::Anew
        | LeaveReason::Stopped => {}
    }
}

fn ghosts(model: &Model, out: &mut Findings) {
    for (q, proc) in model.procs.iter().enumerate() {
        let Some(crash) = proc.crashed else { continue };
        for views in model.cells.values() {
            let mut late = Vec::new();
            for installers in views.values() {
                let prompt = installers.iter().map(|&i| &model.installs[i]).filter(|i| {
                    let unread = model.harness.troubles.get(&(Trouble::NotReading, Some(i.proc)));
                    unread.is_none_or(|spans| !spans.iter().any(|s| s.meets(crash.at_ns, i.moment.at_ns)))
                });
                let first = prompt.min_by_key(|i| i.moment.at_ns);
                let Some(first) = first.filter(|i| model.same_clock(i.moment.place.trace, crash.place.trace)) else {
                    continue;
                };
                if first.moment.at_ns > crash.at_ns && first.members.contains(&q) {
                    late.push(first);
                }
            }
            if let [_, _, third, ..] = late.as_slice() {
                let text = || {
                    format!("cell view {} still lists {}, dead before two views before it", third.view, model.who(q))
                };
                out.violation(&[crash.place, third.moment.place], text);
            }
        }
    }
}

/// Whether the process's requests would be in the traces.
fn known(model: &Model, q: ProcIx) -> bool {
    model.procs[q].trace.is_some() && model.procs[q].tail_complete
}
