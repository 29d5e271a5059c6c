//! X2, no gap, no overlap: let a donor freeze its state in view `u` after delivering the set `D` of `u`'s messages, and
//! let joiner `q`'s first view be `w`. `q` replays exactly the messages of `u` outside `D` and all messages of the
//! views between `u` and `w`, and every replayed message belongs to a view before `w`.
//!
//! No record names the donor whose snapshot was taken, so at least one of the frozen ones must fit. Not evaluated when
//! no snapshot of the group is known, when a trace that may hold one is cut, or when no member brought the state to
//! `w`.
//!
//! Instances: joins with a snapshot to compare with. Source: as X1.

use std::collections::HashSet;

use super::{Run, x1};
use crate::findings::Findings;
use crate::model::{EpochEnd, EpochIx, Model, SetSum, Snapshot};

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    let model = run.model;
    let mut covered: Option<Vec<SetSum>> = None;
    for joiner in x1::joiners(model) {
        let epoch = &model.epochs[joiner];
        let (group, first) = (model.views[epoch.view].group, model.number(joiner));
        let Some(transfer) = &epoch.transfer else { continue };
        let mut replayed = SetSum::default();
        let mut seen = HashSet::new();
        let mut early = true;
        for r in &transfer.replayed {
            if model.views[model.stream_of(r.step.message).view].number >= first {
                early = false;
                let text = || {
                    format!(
                        "{} replayed {}, which is of no view before its first",
                        model.who(epoch.proc),
                        model.what(r.step.message)
                    )
                };
                out.violation(&[r.place, epoch.install.place], text);
            }
            if seen.insert(r.step.message) {
                replayed.add(r.step.message);
            }
        }
        let brought = model.views[epoch.view].epochs.iter().map(|&e| &model.epochs[e]);
        let brought = brought.into_iter().any(|e| e.prev_epoch.is_some() && e.stateful);
        let Some((_, taken)) = transfer.snapshot.filter(|_| early && brought) else { continue };
        let covered = covered.get_or_insert_with(|| model.snapshots.iter().map(|s| set_before(model, s)).collect());
        let expected: Vec<SetSum> = model
            .snapshots
            .iter()
            .zip(covered)
            .filter(|(s, _)| model.views[model.epochs[s.epoch].view].group == group && model.number(s.epoch) < first)
            .filter_map(|(s, before)| after(model, s, *before, first))
            .collect();
        let whole =
            model.epochs.iter().all(|e| model.views[e.view].group != group || model.procs[e.proc].tail_complete);
        if expected.is_empty() || !whole {
            continue;
        }
        out.instance();
        if !expected.contains(&replayed) {
            let text = || {
                let known: Vec<u64> = expected.iter().map(|s| s.count).collect();
                let (who, count) = (model.who(epoch.proc), replayed.count);
                format!(
                    "{who} replayed {count} messages, which no donor delivered after its snapshot (those: {known:?} messages)"
                )
            };
            out.violation(&[taken, epoch.install.place], text);
        }
    }
    for stray in model.strays.iter().filter(|s| s.kind == crate::model::StrayKind::Replay) {
        out.violation(&[stray.place], || {
            format!("a replay in group {}, of which the process is a member", stray.group)
        });
    }
}

/// Messages of the snapshot's view that the donor had delivered before it.
fn set_before(model: &Model, snapshot: &Snapshot) -> SetSum {
    let mut set = SetSum::default();
    let mut seen = HashSet::new();
    for step in model.epochs[snapshot.epoch].steps[..snapshot.steps].iter().filter(|s| !s.sent && !s.foreign) {
        if seen.insert(step.message) {
            set.add(step.message);
        }
    }
    set
}

/// Messages delivered in the group after the snapshot and before view `first`, by those that went on.
fn after(model: &Model, snapshot: &Snapshot, before: SetSum, first: u64) -> Option<SetSum> {
    let group = model.views[model.epochs[snapshot.epoch].view].group;
    let views = model.groups[group].views.range(model.number(snapshot.epoch)..first);
    let all = views.filter_map(|(_, &view)| survivors_set(model, view)).fold(SetSum::default(), SetSum::plus);
    Some(SetSum { count: all.count.checked_sub(before.count)?, sum: all.sum.wrapping_sub(before.sum) })
}

fn survivors_set(model: &Model, view: usize) -> Option<SetSum> {
    let went_on = |e: &&EpochIx| matches!(model.epochs[**e].end, EpochEnd::Next(_));
    model.views[view].epochs.iter().find(went_on).map(|&e| model.epochs[e].set)
}
