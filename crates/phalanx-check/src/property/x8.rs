//! X8, views are part of a transfer: let joiner `q` take a state that was frozen in view `u` of the group, and let its first
//! view be `w`. Between the two it is replayed each view `u < v < w`, once and in order, as the members that installed `v`
//! have it: members, who joined, who left and why. A message of `v` that is replayed comes after `v` and before the view that
//! follows. So the sequence of views and messages of its state is that of the other members' states. Some member froze its
//! state in `u`.
//!
//! From level 7 on: a state that is asked for at that level says in which view it was frozen. One that a process kept has
//! its views, and none is replayed to it.
//!
//! Instances: joins with such a state; *under failure*: those to which a view was replayed. Source: as X1, with the views
//! among the events that a state machine takes (Schneider 1990).

use phalanx_trace::FORMAT_REPLAYED_VIEWS;

use super::{Run, x1};
use crate::findings::Findings;
use crate::model::{EpochIx, Model, ReplayedView, Transfer};

/// The level from which on it holds.
const LEVEL: u16 = 7;

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    let model = run.model;
    for (e, epoch) in model.epochs.iter().enumerate() {
        let Some(transfer) = epoch.transfer.as_ref().filter(|transfer| transfer.frozen_in.is_none()) else { continue };
        if let Some(view) = transfer.views.first() {
            out.violation(&[view.place, epoch.install.place], || {
                format!("{} is replayed a view, and no snapshot with its view came before", model.who(epoch.proc))
            });
        } else if let Some((_, begun)) = transfer.snapshot.filter(|(bytes, _)| *bytes > 0 && says_view(model, e)) {
            out.violation(&[begun, epoch.install.place], || {
                format!("{} takes a state and is not told in which view it was frozen", model.who(epoch.proc))
            });
        }
    }
    for joiner in x1::joiners(model) {
        let epoch = &model.epochs[joiner];
        let Some(transfer) = &epoch.transfer else { continue };
        let Some(frozen_in) = transfer.frozen_in else { continue };
        out.instance_when(!transfer.views.is_empty());
        let who = model.who(epoch.proc);
        let first = model.number(joiner);
        if let Some((_, begun)) = transfer.snapshot.filter(|_| !is_frozen(model, joiner, frozen_in)) {
            out.violation(&[begun, epoch.install.place], || {
                format!("{who} takes a state of view {frozen_in}, in which no member froze it")
            });
        }
        let numbers = transfer.views.iter().map(|view| view.number);
        if !numbers.eq(frozen_in.saturating_add(1)..first) {
            let place = transfer.views.first().map_or(epoch.install.place, |view| view.place);
            out.violation(&[place, epoch.install.place], || {
                let replayed: Vec<u64> = transfer.views.iter().map(|view| view.number).collect();
                format!("{who} is replayed views {replayed:?} between view {frozen_in} and its first, {first}")
            });
            continue;
        }
        for view in &transfer.views {
            if let Some(other) = differs(model, joiner, view) {
                out.violation(&[view.place, model.epochs[other].install.place], || {
                    let (number, other) = (view.number, model.who(model.epochs[other].proc));
                    format!("{who} is replayed view {number} with other lists than {other} installed")
                });
            }
        }
        misplaced(model, transfer, frozen_in, who, out);
    }
}

/// Replayed messages on the wrong side of a replayed view.
fn misplaced(model: &Model, transfer: &Transfer, frozen_in: u64, who: impl std::fmt::Display, out: &mut Findings) {
    for message in &transfer.replayed {
        let before = transfer.views.iter().rfind(|view| view.place.index < message.place.index);
        let in_force = before.map_or(frozen_in, |view| view.number);
        let of = model.views[model.stream_of(message.step.message).view].number;
        if of != in_force {
            out.violation(&[message.place], || {
                format!("{who} replayed {} in view {in_force}", model.what(message.step.message))
            });
        }
    }
}

/// Whether the level was in force as the state was asked for, and the trace would say its view. A snapshot that began before
/// may be read after the rise.
fn says_view(model: &Model, e: EpochIx) -> bool {
    let epoch = &model.epochs[e];
    let proc = &model.procs[epoch.proc];
    let Some((_, begun)) = epoch.transfer.as_ref().and_then(|transfer| transfer.snapshot) else { return false };
    let mut installs = proc.installs.iter().map(|&i| &model.installs[i]);
    let name = &model.groups[model.views[epoch.view].group].name;
    let mut joins = proc.group_joins.iter().filter(|join| join.name == *name);
    let Some(join) = joins.rfind(|join| join.asked.place.index < begun.index) else { return false };
    let last = installs.rfind(|install| install.moment.place.index < join.asked.place.index);
    let level = last.and_then(|install| install.level).is_some_and(|(level, _)| level >= LEVEL);
    level && proc.trace.is_some_and(|trace| model.traces[trace].format >= FORMAT_REPLAYED_VIEWS)
}

/// Whether some member froze its state in that view, or may have done so in a trace that is cut or missing.
fn is_frozen(model: &Model, joiner: EpochIx, frozen_in: u64) -> bool {
    let group = model.views[model.epochs[joiner].view].group;
    let of_group = |e: EpochIx| model.views[model.epochs[e].view].group == group;
    let froze = |e: EpochIx| of_group(e) && model.number(e) == frozen_in;
    let Some(&view) = model.groups[group].views.get(&frozen_in) else { return true };
    let view = &model.views[view];
    let is_whole = |&p: &usize| view.epochs.iter().any(|&e| model.epochs[e].proc == p && model.procs[p].tail_complete);
    model.snapshots.iter().any(|snapshot| froze(snapshot.epoch))
        || view.members.is_empty()
        || !view.members.iter().all(is_whole)
}

/// A member that installed the view with other lists.
fn differs(model: &Model, joiner: EpochIx, replayed: &ReplayedView) -> Option<EpochIx> {
    let group = model.views[model.epochs[joiner].view].group;
    let view = &model.views[*model.groups[group].views.get(&replayed.number)?];
    view.epochs.iter().copied().find(|&e| {
        let epoch = &model.epochs[e];
        (&epoch.members, &epoch.joined, &epoch.left) != (&replayed.members, &replayed.joined, &replayed.left)
    })
}
