//! V9, no hostage: while one member of the cell is stopped and nothing else disturbs it, the others install a view
//! without it within the bound, and deliver there what they send.
//!
//! Evaluated from the moment a member is stopped, under these conditions. It stays stopped for the bound. Meanwhile no
//! other member is stopped, dead or in trouble, no link between the others is cut, the network is sound, and the others
//! are a quorum. All members had installed the view by then. Members of the views that the others install meanwhile
//! count as well, so a joiner that dies is a disturbance. What each of the others sent in the first half of that time
//! it has delivered itself at its end, unless it lost the group by then, where M12 evaluates why, or did not read its
//! inbox meanwhile. (A slow reader is not excluded: it holds its senders back, by policy.)
//!
//! Instances: pairs of a stopped member and another one. Source: Birman and Joseph 1987 (progress despite failures),
//! with a bound.

use std::collections::{BTreeSet, HashMap};

use phalanx_trace::Trouble;

use super::Run;
use crate::findings::Findings;
use crate::model::{CellInstall, EpochIx, FaultKind, Model, ProcIx, Span};

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    let model = run.model;
    if model.one_clock().is_none() {
        return;
    }
    let absences = model.absences();
    for stop in model.harness.faults.iter().filter(|f| f.kind == FaultKind::Stop) {
        let (from_ns, q) = (stop.moment.at_ns, stop.proc);
        let until_ns = from_ns.saturating_add(run.options.hostage_bound_ns);
        let Some(view) = view_of(model, q, from_ns) else { continue };
        let stays = absences[q].iter().any(|s| s.covers(from_ns, until_ns));
        let ends = model.harness.ended.is_some_and(|end| end.at_ns < until_ns);
        let others: Vec<ProcIx> = view.members.iter().copied().filter(|&r| r != q).collect();
        let with_oldest = view.members.first().is_some_and(|&r| r != q);
        let quorum = run.options.quorum.holds(view.members.len(), others.len(), with_oldest);
        if !stays || ends || !quorum {
            continue;
        }
        let members = concerned(model, view, &others, until_ns);
        if !undisturbed(model, &absences, (q, &members), (from_ns, until_ns)) {
            continue;
        }
        for &r in &others {
            out.instance();
            let mut own = model.procs[r].installs.iter().map(|&i| &model.installs[i]);
            let without = own.find(|i| i.view > view.view && !i.members.contains(&q) && i.moment.at_ns <= until_ns);
            if without.is_none() {
                let text =
                    || format!("{} is stopped, and {} goes on with no view without it", model.who(q), model.who(r));
                out.violation(&[stop.moment.place, view.moment.place], text);
                continue;
            }
            let half_ns = from_ns.saturating_add(run.options.hostage_bound_ns / 2);
            let lost = |e: EpochIx| model.epochs[e].lost.is_some_and(|(_, told)| told.at_ns <= until_ns);
            let reads = |e: EpochIx| !model.unread(e).iter().any(|span| span.meets(from_ns, until_ns));
            for e in model.procs[r].epochs.iter().copied().filter(|&e| !lost(e) && reads(e)) {
                let delivered: HashMap<_, _> = model.delivered(e).map(|s| (s.message, s.at_ns)).collect();
                for step in model.sent(e).filter(|s| s.at_ns >= from_ns && s.at_ns <= half_ns) {
                    if delivered.get(&step.message).is_none_or(|&at| at > until_ns) {
                        let text = || {
                            let (r, q) = (model.who(r), model.who(q));
                            format!("{q} is stopped, and {r} does not deliver its own {}", model.what(step.message))
                        };
                        out.violation(&[stop.moment.place, model.place(e, step.index)], text);
                    }
                }
            }
        }
    }
}

/// The cell view that all its members were in when `q` stopped; `q` is one of them.
fn view_of(model: &Model, q: ProcIx, at_ns: u64) -> Option<&CellInstall> {
    let last = |p: ProcIx| {
        let own = model.procs[p].installs.iter().map(|&i| &model.installs[i]);
        own.take_while(|i| i.moment.at_ns < at_ns).last()
    };
    let view = last(q).filter(|_| model.procs[q].over.is_none_or(|(_, m)| m.at_ns > at_ns))?;
    let same = |p: &ProcIx| last(*p).is_some_and(|i| (i.instance, i.view) == (view.instance, view.view));
    view.members.iter().all(same).then_some(view)
}

/// The members of `view`, and of every view that `others` of it install by then.
fn concerned(model: &Model, view: &CellInstall, others: &[ProcIx], until_ns: u64) -> BTreeSet<ProcIx> {
    let installs = others.iter().flat_map(|&r| &model.procs[r].installs).map(|&i| &model.installs[i]);
    let later = installs.filter(|i| i.instance == view.instance && i.view > view.view && i.moment.at_ns <= until_ns);
    later.chain([view]).flat_map(|i| &i.members).copied().collect()
}

fn undisturbed(
    model: &Model,
    absences: &[Vec<Span>],
    (q, members): (ProcIx, &BTreeSet<ProcIx>),
    (from_ns, until_ns): (u64, u64),
) -> bool {
    let meets = |spans: &[Span]| spans.iter().any(|s| s.meets(from_ns, until_ns));
    let troubled = |(_, whom): &(Trouble, Option<ProcIx>)| whom.is_none_or(|w| members.contains(&w));
    let trouble = model.harness.troubles.iter().any(|(key, spans)| troubled(key) && meets(spans));
    let attacked = meets(&model.harness.attacks);
    let going = |p: ProcIx| {
        let proc = &model.procs[p];
        let ends = [proc.leave_asked, proc.over.map(|(_, m)| m), proc.ended, proc.crashed];
        proc.trace.is_none() || ends.into_iter().flatten().any(|m| m.at_ns <= until_ns)
    };
    let cut = |a: ProcIx| members.iter().any(|&b| a != b && meets(model.cut(a, b)));
    !trouble
        && !attacked
        && members.iter().filter(|&&r| r != q).all(|&r| !meets(&absences[r]) && !going(r))
        && !members.iter().any(|&a| cut(a))
}
