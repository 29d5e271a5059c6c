//! M8, exclusion is announced and final. Let `p in M_u`, `p not in M_w` for neighbours `u`, `w` of the cell's chain:
//!
//! - No later view of the instance lists `p`: it comes back only as a new incarnation.
//! - After *excluded* `p` records nothing but its end.
//! - *Excluded by w* is announced only when `w` does not hold `p`, and when a quorum of `M_w` has installed `w`. If
//!   announced earlier, `p` would go away while it may be needed, as a member of the view before, to recover the
//!   decision. (Evaluated when all traces are given. A process that may have installed `w` unrecorded counts as having
//!   installed it. The empty view is installed when all members of the view before have gone.)
//! - If a view holds a later incarnation of `p`'s name, which began after the notice to `p`, the notice did not name
//!   that view.
//! - If `p` runs, connected, at the end of a quiet phase, it was notified (*excluded* or *left*) by then.
//! - If `p` ends before the harness does, neither killed nor stopped, and `w` was installed before, it was notified.
//!
//! Instances: processes notified of their exclusion, and those that should have been. Source: Ricciardi and Birman 1991
//! (no re-instatement). The announcement answers a defect of field systems, where a resumed process never learnt that
//! it had been excluded.

use std::ops::Bound;

use super::Run;
use crate::findings::Findings;
use crate::model::{Model, Moment, Over, ProcIx};

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    let model = run.model;
    for after in &model.after_over {
        if matches!(after.over, Over::Excluded(_)) {
            out.violation(&[after.told, after.place], || {
                "a record after the process was notified of its exclusion".to_owned()
            });
        }
    }
    for (p, proc) in model.procs.iter().enumerate() {
        let Some((Over::Excluded(view), told)) = proc.over else { continue };
        out.instance();
        let instance = proc.installs.last().map(|&i| model.installs[i].instance);
        let named = instance.and_then(|i| model.cells.get(&i)?.get(&view)?.first()).copied();
        if let Some(named) = named.map(|i| &model.installs[i]).filter(|i| i.members.contains(&p)) {
            let text = || format!("{} is notified of its exclusion by cell view {view}, which holds it", model.who(p));
            out.violation(&[told.place, named.moment.place], text);
            continue;
        }
        if let Some((named, heir)) = named.and_then(|named| Some((named, heir(model, p, named, told)?))) {
            let text = || {
                let (who, heir) = (model.who(p), model.who(heir));
                format!("{who} is notified of its exclusion by cell view {view}, which holds {heir}, begun after that")
            };
            out.violation(&[told.place, model.installs[named].moment.place], text);
            continue;
        }
        // Without a common clock the time of the notice cannot be compared, so any time is early enough.
        let by_ns =
            if model.one_clock().is_some() { told.at_ns.saturating_add(run.options.clock_slack_ns) } else { u64::MAX };
        if let Some(instance) = instance.filter(|_| run.options.complete)
            && !model.may_be_held(p, instance, view, by_ns, run.options)
        {
            let text = || {
                format!(
                    "{} is notified of its exclusion by cell view {view} before a quorum of it has installed it",
                    model.who(p)
                )
            };
            let mut evidence = vec![told.place];
            evidence.extend(named.map(|i| model.installs[i].moment.place));
            out.violation(&evidence, text);
        }
    }
    reinstated(model, out);
    ended_untold(model, out);
    if let Ok(quiet) = &run.quiet {
        for &p in &quiet.running {
            if let Some(without) = dropped_untold(model, p, quiet.end_ns) {
                out.instance();
                let text = || {
                    format!(
                        "cell view {} does not hold {}, which was never notified",
                        model.installs[without].view,
                        model.who(p)
                    )
                };
                out.violation(&[model.installs[without].moment.place, quiet.place], text);
            }
        }
    }
}

/// The member of a view that has `p`'s name and began after the notice to `p`. What a process does under its name comes
/// after what it was notified of.
fn heir(model: &Model, p: ProcIx, view: usize, told: Moment) -> Option<ProcIx> {
    let began_after = |q: ProcIx| {
        let start = model.procs[q].started.filter(|m| model.same_clock(m.place.trace, told.place.trace));
        start.is_some_and(|start| start.at_ns >= told.at_ns)
    };
    let named = |&q: &ProcIx| q != p && model.procs[q].name == model.procs[p].name && model.procs[p].name.is_some();
    model.installs[view].members.iter().copied().find(|q| named(q) && began_after(*q))
}

/// A view that dropped a process which, at that time, runs on without knowing.
pub(super) fn dropped_untold(model: &Model, p: ProcIx, at_ns: u64) -> Option<usize> {
    let proc = &model.procs[p];
    let told = proc.over.is_some_and(|(_, m)| m.at_ns <= at_ns);
    let last = model.install_at(p, at_ns).filter(|_| !told && proc.tail_complete)?;
    let last = &model.installs[last];
    let later = model.cells.get(&last.instance)?.range((Bound::Excluded(last.view), Bound::Unbounded));
    let by_then = |i: &usize| model.installs[*i].moment.at_ns <= at_ns;
    let next = later.into_iter().find_map(|(_, installers)| installers.iter().copied().find(by_then))?;
    (last.members.contains(&p) && !model.installs[next].members.contains(&p)).then_some(next)
}

/// Processes that recorded their end, after a view without them and not by the harness's hand.
fn ended_untold(model: &Model, out: &mut Findings) {
    let (Some(over), true) = (model.harness.ended, model.one_clock().is_some()) else { return };
    for (p, proc) in model.procs.iter().enumerate().filter(|(_, p)| p.over.is_none() && p.crashed.is_none()) {
        let Some(ended) = proc.ended.filter(|m| m.at_ns < over.at_ns) else { continue };
        if let Some(without) = dropped_untold(model, p, ended.at_ns) {
            out.instance();
            let without = &model.installs[without];
            let text =
                || format!("cell view {} does not hold {}, which ended without a notice", without.view, model.who(p));
            out.violation(&[without.moment.place, ended.place], text);
        }
    }
}

fn reinstated(model: &Model, out: &mut Findings) {
    for views in model.cells.values() {
        // By process: the view that dropped it.
        let mut dropped = std::collections::BTreeMap::new();
        let mut before: Option<&Vec<ProcIx>> = None;
        for installers in views.values() {
            let Some(install) = installers.first().map(|&i| &model.installs[i]) else { continue };
            for &gone in before.into_iter().flatten().filter(|p| !install.members.contains(p)) {
                dropped.entry(gone).or_insert(install);
            }
            for p in &install.members {
                let Some(by) = dropped.remove(p) else { continue };
                let text =
                    || format!("cell view {} takes {} back, dropped by view {}", install.view, model.who(*p), by.view);
                out.violation(&[by.moment.place, install.moment.place], text);
            }
            before = Some(&install.members);
        }
    }
}
