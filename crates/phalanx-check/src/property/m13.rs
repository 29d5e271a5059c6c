//! M13, all founders accept: let a cell instance that goes on with no earlier one begin with view 1. Each member of that
//! view accepted the list of its members, so that it ran, and was reachable, at some time after the last of them had
//! started and before the view was first installed.
//!
//! Acceptance is not recorded, so it is refuted instead, as reception is in U3: a member cannot have accepted if the
//! harness kept it stopped, dead, deaf or mute towards all other members for all of that time. Cuts during an attack
//! prove nothing: an attacker that replays old packets carries them around.
//!
//! Instances: members of first views besides the first that installs it; *under failure*: those that could not be
//! reached at some time in that span. Source: the founding of a cell is a commit of all (`docs/founding.md`), as atomic
//! commitment with unanimous votes (Gray 1978).

use super::Run;
use crate::findings::Findings;
use crate::model::{CellInstall, Model, ProcIx, Span};

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    let model = run.model;
    if model.one_clock().is_none() {
        return;
    }
    for (instance, views) in model.cells.iter().filter(|(instance, _)| !model.lineages.contains_key(instance)) {
        let installs = views.get(&1).into_iter().flatten().map(|&ix| &model.installs[ix]);
        // Two at one instant: which trace was read first decides nothing.
        let earliest = |install: &&CellInstall| (install.moment.at_ns, model.procs[install.proc].incarnation);
        let Some(first) = installs.min_by_key(earliest) else { continue };
        debug_assert_eq!(first.instance, *instance, "an installation is listed under its instance");
        let started: Option<Vec<u64>> =
            first.members.iter().map(|&q| model.procs[q].started.map(|at| at.at_ns)).collect();
        let Some(all_there_ns) = started.and_then(|started| started.into_iter().max()) else { continue };
        let (from_ns, to_ns) = (all_there_ns.saturating_sub(run.options.clock_slack_ns), first.moment.at_ns);
        for &q in first.members.iter().filter(|&&q| q != first.proc) {
            let away: Vec<Span> =
                unreachable(model, first, q).into_iter().chain(run.absences[q].iter().copied()).collect();
            out.instance_when(away.iter().any(|span| span.meets(from_ns, to_ns)));
            if let Some(span) = away.iter().find(|span| span.covers(from_ns, to_ns)) {
                out.violation(&[span.from.place, first.moment.place], || {
                    let (who, by) = (model.who(q), model.who(first.proc));
                    format!("{by} installed the first view of the cell with {who}, which cannot have accepted it")
                });
            }
        }
    }
}

/// Times in which none of the other members could reach `q`, or `q` none of them.
fn unreachable(model: &Model, first: &CellInstall, q: ProcIx) -> Vec<Span> {
    let others: Vec<ProcIx> = first.members.iter().copied().filter(|&r| r != q).collect();
    let of_all = |cut: &dyn Fn(ProcIx) -> Vec<Span>| {
        let mut each = others.iter().map(|&r| cut(r));
        let first = each.next().unwrap_or_default();
        each.fold(first, |all, one| Span::both(&all, &one))
    };
    let mut spans = of_all(&|r| model.cut(r, q).to_vec());
    spans.extend(of_all(&|r| model.cut(q, r).to_vec()));
    spans.retain(|span| !model.harness.attacks.iter().any(|attack| attack.overlaps(span)));
    spans
}
