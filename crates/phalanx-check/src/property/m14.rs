//! M14, nobody ends a cell in silence: let `p` leave in order as one of the last of a cell instance: no process installs a
//! later view than `p`'s last one, `w`, and each member of `w` left in order. Let a view of the instance have dropped `q`
//! for silence after `p` had asked to leave, or let `q` be a member with which a group ended in the cell (all members of
//! its last view were so dropped, and live). If `q` lives when `p` leaves, and is not back, then `p` was told before that
//! what `q` has may be lost: its leave is in doubt.
//!
//! From level 6 on. Not evaluated for groups that an operator gave up, and without a common clock. `q` lives if neither it
//! nor the next incarnation of its process was killed or asked to leave. It is back if that one was in a view.
//!
//! Instances: processes that left as one of the last; *under failure*: those that left somebody behind. Source: the end of
//! an instance is decided like a view (`docs/founding.md`), and who loses data by it has to learn of it.

use phalanx_trace::{FORMAT_LEFT_BEHIND, LeaveReason};

use super::Run;
use crate::findings::{Findings, Place};
use crate::model::{CellInstall, Model, Moment, Over, Proc, ProcIx};

/// The level from which on it holds.
const LEVEL: u16 = 6;

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    let model = run.model;
    if model.one_clock().is_none() || !run.options.complete {
        return;
    }
    for (p, proc) in model.procs.iter().enumerate() {
        let tells = proc.trace.is_some_and(|trace| model.traces[trace].format >= FORMAT_LEFT_BEHIND);
        let Some((Over::Left, left)) = proc.over.filter(|_| tells && proc.tail_complete) else { continue };
        let Some(last) = proc.installs.last().map(|&i| &model.installs[i]) else { continue };
        if last.level.is_none_or(|(level, _)| level < LEVEL) || !is_last(model, last) {
            continue;
        }
        let behind = missed(model, p, last, left).or_else(|| waits(model, last, left));
        out.instance_when(behind.is_some());
        if let Some((q, dropped)) = behind.filter(|_| !proc.is_in_doubt) {
            out.violation(&[dropped, left.place], || {
                let (who, q) = (model.who(p), model.who(q));
                format!("{who} left as one of the last members, left {q} behind, which lives, and was not told so")
            });
        }
    }
}

/// Whether nobody went on after this view: each of its members left in order, and none installed a later one.
fn is_last(model: &Model, last: &CellInstall) -> bool {
    let later = |install: &CellInstall| install.instance == last.instance && install.view > last.view;
    let has_left = |&q: &ProcIx| matches!(model.procs[q].over, Some((Over::Left, _)));
    last.members.iter().all(has_left) && !model.installs.iter().any(later)
}

/// A member that was dropped after `p` had asked to leave, and lives.
fn missed(model: &Model, p: ProcIx, last: &CellInstall, left: Moment) -> Option<(ProcIx, Place)> {
    let asked = model.procs[p].leave_asked?;
    let own = model.procs[p].installs.iter().map(|&i| &model.installs[i]).filter(|i| i.instance == last.instance);
    let after = own.filter(|install| first_at(model, install) > asked.at_ns);
    let drops = after.flat_map(|install| install.left.iter().map(|(q, why)| (*q, *why, install.moment.place)));
    let behind = drops.filter(|(q, why, _)| is_for_silence(*why) && lives(model, *q, left));
    behind.map(|(q, _, place)| (q, place)).next()
}

/// When the view of this installation was first installed.
fn first_at(model: &Model, install: &CellInstall) -> u64 {
    let all = model.cells.get(&install.instance).and_then(|views| views.get(&install.view)).into_iter().flatten();
    all.map(|&i| model.installs[i].moment.at_ns).fold(install.moment.at_ns, u64::min)
}

/// A member of a group that waits when its instance ends: all members of the group's last view were dropped and live.
fn waits(model: &Model, last: &CellInstall, left: Moment) -> Option<(ProcIx, Place)> {
    let views = model.cells.get(&last.instance)?.values().flatten().map(|&i| &model.installs[i]);
    let drops: Vec<(ProcIx, Place)> = views
        .flat_map(|install| install.left.iter().map(|(q, why)| (*q, *why, install.moment.place)))
        .filter(|(q, why, _)| is_for_silence(*why) && lives(model, *q, left))
        .map(|(q, _, place)| (q, place))
        .collect();
    let groups = model.groups.iter().filter(|group| group.instance == last.instance);
    let waiting = groups.filter_map(|group| {
        let (_, &view) = group.views.last_key_value()?;
        let view = &model.views[view];
        let dropped = |q: &ProcIx| drops.iter().find(|(dropped, _)| dropped == q);
        let all_live = !view.members.is_empty() && view.members.iter().all(|q| dropped(q).is_some());
        // A process that installed it holds its state as of its beginning.
        let holds =
            |&e: &usize| model.epochs[e].stateful && !model.epochs[e].incomplete.contains(&model.epochs[e].proc);
        let begun = view.epochs.first().map(|&e| model.epochs[e].install)?;
        let given_up = model.was_given_up(&group.name, &begun, &left);
        (all_live && !given_up && view.epochs.iter().any(holds))
            .then(|| view.members.iter().find_map(dropped).copied())?
    });
    waiting.into_iter().next()
}

fn is_for_silence(why: LeaveReason) -> bool {
    matches!(why, LeaveReason::Unreachable | LeaveReason::TooSlow | LeaveReason::NoProgress)
}

/// Whether the process of `q` lives at that time, wants to be a member, and is not back.
fn lives(model: &Model, q: ProcIx, at: Moment) -> bool {
    let by_then = |moment: &Moment| moment.at_ns <= at.at_ns;
    let stays = |proc: &Proc| {
        let is_gone = [proc.crashed, proc.leave_asked].iter().flatten().any(by_then);
        proc.trace.is_some() && proc.tail_complete && !is_gone
    };
    let proc = &model.procs[q];
    let excluded = match proc.over.filter(|(_, over)| by_then(over)) {
        None => return stays(proc) && !proc.ended.as_ref().is_some_and(by_then),
        Some((Over::Excluded(_), over)) => over,
        Some(_) => return false,
    };
    // Its next incarnation begins at once, or is not known.
    let mut next = model.procs.iter().filter(|next| {
        let is_later = next.started.is_some_and(|started| (excluded.at_ns..=at.at_ns).contains(&started.at_ns));
        next.name == proc.name && is_later && next.incarnation != proc.incarnation
    });
    let lives_on =
        |next: &Proc| stays(next) && next.over.is_none_or(|(_, over)| !by_then(&over)) && next.installs.is_empty();
    stays(proc) && next.next().is_some_and(lives_on) && next.next().is_none()
}
