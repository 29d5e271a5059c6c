//! X6, a graceful leave loses nothing: let `p` leave a group, or the cell, by its own will, and let it have delivered
//! the uniform `m` in `v` before its leave was done. Its own messages are included (for these that is the
//! acknowledgement, U4). Then the processes that go on with the group have `m`:
//!
//! - Every `q` with `v -> w` has `m in del_q(v)`.
//! - If a process comes to a later view of the group with a state, and no process there records to have brought it, `m`
//!   is in that state, from a snapshot or a replay.
//!
//! The same applies to a group that is followed by the next of its name. A process that had begun to take the state
//! before the leave was done, and so was about to go on with the group, does not found that next group. (Without such a
//! process, a group ends with its last member, which gave up what it knew.)
//!
//! The first clause is U1, U4 and M7 for members that left, and is reported only here.
//!
//! Instances: uniform messages that a leaver delivered in its last view, for each of those who went on from it; those
//! delivered before, for each joiner of the second clause; and founders that had begun to take the state of the group
//! before. *Under failure*: as U1. Source: Birman and Joseph 1987 (a leave is a view change like another; the state is
//! transferred before it).

use phalanx_trace::LeaveReason;

use super::{Run, anew, carried, group_of, u1, u6};
use crate::findings::Findings;
use crate::model::{EpochEnd, EpochIx, Model, Over, ProcIx};

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    let model = run.model;
    u1::judge(run, out, |e, _| left_gracefully(model, e).then_some(None));
    abandoned(run, out);
    for carrier in carried::carriers(run) {
        for (e, step) in carried::uniform_before(model, &carrier) {
            if !left_in_the_end(model, e) {
                continue;
            }
            out.instance();
            if !carrier.holds(model, step.message) {
                out.violation(&[model.place(e, step.index), carrier.place(model)], || {
                    let [p, q] = [e, carrier.stay].map(|e| model.who(model.epochs[e].proc));
                    let what = model.what(step.message);
                    format!("{p} delivered the uniform {what}, and left; {q} went on with a state without it")
                });
            }
        }
    }
}

/// Processes that found a group in the place of one whose last member left while it gave its state.
fn abandoned(run: &Run<'_>, out: &mut Findings) {
    let model = run.model;
    for anew in anew::begun_anew(run) {
        let group = model.views[anew.last].group;
        for &e in
            model.views[anew.last].epochs.iter().filter(|&&e| left_gracefully(model, e) && anew::is_promised(model, e))
        {
            let leaver = &model.epochs[e];
            let Some((at, step)) = u6::last_of(model, leaver.proc, group) else { continue };
            let Some(left) = leaver.left_at.or(model.procs[leaver.proc].over.map(|(_, told)| told)) else { continue };
            // The group went on in others that had its state. They died with it, or M10 reports it.
            let lacking: Vec<_> = model.views[anew.last].epochs.iter().flat_map(|&e| lacking(model, e)).collect();
            let went_on = |q: &ProcIx| {
                let last = model.last_stay(*q, group);
                *q != leaver.proc && !lacking.contains(q) && last.is_none_or(|last| !left_gracefully(model, last))
            };
            if model.views[anew.last].members.iter().any(went_on) {
                continue;
            }
            for founder in model.views[anew.first].epochs.iter().map(|&e| &model.epochs[e]) {
                let begun =
                    model.procs[founder.proc].begun.iter().filter(|(of, _)| *of == group).map(|(_, begun)| begun);
                let Some(begun) = begun.into_iter().rfind(|begun| begun.at_ns < left.at_ns) else { continue };
                // It had the state before, and left the group.
                let was_in = model.procs[founder.proc].epochs.iter().any(|&e| {
                    model.views[model.epochs[e].view].group == group
                        && model.epochs[e].install.place.index > begun.place.index
                });
                if was_in {
                    continue;
                }
                out.instance();
                out.violation(&[begun.place, model.place(at, step.index), left.place, founder.install.place], || {
                    let [p, q] = [leaver.proc, founder.proc].map(|p| model.who(p));
                    let what = model.what(step.message);
                    format!(
                        "{p} delivered the uniform {what}, and left; {q}, which took its state, founded the group anew"
                    )
                });
            }
        }
    }
}

/// The members that never had the group's state in the view of this stay. A joiner installs the view when it has the state,
/// and from then on it has what the others have. An observer never has it.
fn lacking(model: &Model, stay: EpochIx) -> impl Iterator<Item = ProcIx> {
    let epoch = &model.epochs[stay];
    let installed = |who: &ProcIx| model.views[epoch.view].epochs.iter().any(|&e| model.epochs[e].proc == *who);
    epoch.incomplete.iter().copied().filter(move |who| epoch.observers.contains(who) || !installed(who))
}

/// Whether this stay ended with a leave that the process had requested, and that a view granted.
pub(super) fn left_gracefully(model: &Model, stay: EpochIx) -> bool {
    let epoch = &model.epochs[stay];
    let proc = &model.procs[epoch.proc];
    match epoch.end {
        EpochEnd::GroupLeft => {
            let group = group_of(model, stay);
            proc.group_leaves.iter().any(|(id, _)| *id == group)
        }
        EpochEnd::Over => {
            let let_go = || model.installs.iter().any(|i| i.left.contains(&(epoch.proc, LeaveReason::Left)));
            proc.leave_asked.is_some() && matches!(proc.over, Some((Over::Left, _))) && let_go()
        }
        EpochEnd::Next(_) | EpochEnd::Open => false,
    }
}

/// Whether the uninterrupted membership that contains this stay ended that way.
pub(super) fn left_in_the_end(model: &Model, mut stay: EpochIx) -> bool {
    while let EpochEnd::Next(next) = model.epochs[stay].end {
        stay = next;
    }
    left_gracefully(model, stay)
}
