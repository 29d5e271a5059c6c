//! U6, uniform is what the group goes on from: let any process `p` deliver the uniform `m` in a view `v` of a group,
//! even one that dies afterwards, is excluded, or hears no quorum. The processes that carry the group on have `m`:
//!
//! - Let a process come to a later view of the group with a state, and let no process there record to have brought it.
//!   Then `m` is in that state, from a snapshot or a replay, if the view holds members that had been there before, or
//!   if `p` lives.
//! - No process founds a group of the same name, in the same cell instance or a later one that can know of it, that lacks `m`, while `p` lives: while it
//!   was not killed, and has not asked to leave. That is, M10 holds where something uniform was delivered.
//!
//! Some cases are reported by other properties. A process that went on from `v` itself delivered `m` (U1; U4 for `p`'s
//! own; M7 for what `p` delivers after a cell view without it; X6 if `p` left). Joiners have the state of the members
//! that brought it along (X1, X2).
//!
//! Instances: uniform messages delivered before, for each joiner of the first clause; and groups with something uniform
//! whose name another group took. Source: as U1; the primary partition model asks that a component goes on from the
//! state of the one before (Chockler, Keidar, Vitenberg 2001, section 3.2).

use super::{Run, anew, carried, x6};
use crate::findings::{Findings, Place};
use crate::model::{EpochIx, Model, ProcIx, Step};

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    let model = run.model;
    for carrier in carried::carriers(run) {
        for (e, step) in carried::uniform_before(model, &carrier) {
            let proc = &model.procs[model.epochs[e].proc];
            let lives = || proc.crashed.is_none_or(|at| at.at_ns > model.epochs[carrier.stay].install.at_ns);
            if x6::left_in_the_end(model, e) || !(carrier.followed || lives()) {
                continue;
            }
            out.instance();
            if !carrier.holds(model, step.message) {
                out.violation(&[model.place(e, step.index), carrier.place(model)], || {
                    let [p, q] = [e, carrier.stay].map(|e| model.who(model.epochs[e].proc));
                    let what = model.what(step.message);
                    format!("{p} delivered the uniform {what}; {q} went on with a state without it")
                });
            }
        }
    }
    for anew in anew::begun_anew(run) {
        let group = model.views[anew.last].group;
        let stays = || model.groups[group].views.values().flat_map(|&v| model.views[v].epochs.iter().copied());
        if !stays().any(|e| last_uniform(model, e).is_some()) {
            continue;
        }
        out.instance();
        for alive in &anew.alive {
            let Some((e, step)) = last_of(model, model.epochs[alive.stay].proc, group) else { continue };
            let evidence: Vec<Place> = [Some(model.place(e, step.index)), alive.dropped, Some(anew.founded.place)]
                .into_iter()
                .flatten()
                .collect();
            out.violation(&evidence, || {
                let (who, what) = (model.who(model.epochs[e].proc), model.what(step.message));
                format!(
                    "{who} delivered the uniform {what}, and lived when a group was founded in the place of its group"
                )
            });
        }
    }
}

fn last_uniform(model: &Model, stay: EpochIx) -> Option<&Step> {
    model.delivered(stay).rfind(|step| step.uniform)
}

/// The last message that the process delivered as uniform in the group.
pub(super) fn last_of(model: &Model, proc: ProcIx, group: usize) -> Option<(EpochIx, &Step)> {
    let stays = model.procs[proc].epochs.iter().rev().copied();
    let mut of_group = stays.filter(|&e| model.views[model.epochs[e].view].group == group);
    of_group.find_map(|e| last_uniform(model, e).map(|step| (e, step)))
}
