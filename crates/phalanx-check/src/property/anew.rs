//! Groups that began anew: a group of a name, and the next that was founded under the name in the same cell instance.

use std::collections::BTreeMap;

use phalanx_trace::LeaveReason;

use super::Run;
use crate::findings::Place;
use crate::model::{CellInstall, EpochEnd, EpochIx, Model, Moment, ProcIx, ViewIx};

/// A group that ended, as its successor of the same name shows.
#[derive(Debug)]
pub(super) struct Anew {
    /// The last view of the old group that anybody installed.
    pub(super) last: ViewIx,
    /// The first view of the new one.
    pub(super) first: ViewIx,
    /// Where the first view of the new one was installed first.
    pub(super) founded: Moment,
    /// Members of the old group as it ended that lived then, and had not asked to leave.
    pub(super) alive: Vec<Alive>,
}

/// A member that outlived its group.
#[derive(Clone, Copy, Debug)]
pub(super) struct Alive {
    /// Its stay in the last view of the group that it installed.
    pub(super) stay: EpochIx,
    /// The first cell view without it, if the group ended with that.
    pub(super) dropped: Option<Place>,
}

/// All pairs of neighbouring groups of one name. Without one clock there are none: who came first cannot be known.
pub(super) fn begun_anew(run: &Run<'_>) -> Vec<Anew> {
    let model = run.model;
    let mut named: BTreeMap<(u64, &str), Vec<usize>> = BTreeMap::new();
    for (ix, group) in model.groups.iter().enumerate() {
        if !group.name.is_empty() {
            named.entry((group.instance, &group.name)).or_default().push(ix);
        }
    }
    let mut all = Vec::new();
    for groups in named.values_mut().filter(|groups| groups.len() > 1 && model.one_clock().is_some()) {
        groups.sort_by_key(|&ix| model.groups[ix].id);
        for pair in groups.windows(2) {
            let installed =
                |ix: usize| model.groups[ix].views.values().copied().filter(|&v| !model.views[v].epochs.is_empty());
            let (Some(last), Some(first)) = (installed(pair[0]).next_back(), installed(pair[1]).next()) else {
                continue;
            };
            // All its members were told that it is over (M12 judges that).
            let stopped = |&e: &EpochIx| model.epochs[e].lost.is_some_and(|(why, _)| why == LeaveReason::Stopped);
            if model.views[last].epochs.iter().any(stopped) {
                continue;
            }
            let founded = model.views[first].epochs.iter().map(|&e| model.epochs[e].install);
            let Some(founded) = founded.min_by_key(|install| install.at_ns) else { continue };
            let alive = outlived(run, last, founded);
            all.push(Anew { last, first, founded, alive });
        }
    }
    all
}

/// Those members of a group's last view with which it ended, and that lived then and had not asked to leave.
fn outlived(run: &Run<'_>, last: ViewIx, founded: Moment) -> Vec<Alive> {
    let model = run.model;
    let group = &model.groups[model.views[last].group];
    let members = &model.views[last].members;
    let drops: Vec<Option<&CellInstall>> = members.iter().map(|&p| dropped(model, group.instance, p)).collect();
    let mut alive = Vec::new();
    for (&p, drop) in members.iter().zip(&drops) {
        // Who was dropped only after the new group was founded had not gone before.
        let drop = drop.filter(|drop| drop.moment.at_ns <= founded.at_ns);
        let end = drop.map_or(founded, |drop| drop.moment);
        let others = || members.iter().zip(&drops).filter(|(q, _)| **q != p);
        let ended_with_it = |drop: &CellInstall| others().all(|(&q, other)| is_out(model, last, q, *other, drop));
        // Who was taken in and never told has no state of the group, and goes by itself.
        let mut stays = model.procs[p].epochs.iter().copied();
        let Some(stay) = stays.rfind(|&e| model.views[model.epochs[e].view].group == model.views[last].group) else {
            continue;
        };
        if drop.is_some_and(|drop| !ended_with_it(drop)) || !lives(run, stay, group.id, end) {
            continue;
        }
        alive.push(Alive { stay, dropped: drop.map(|drop| drop.moment.place) });
    }
    alive
}

/// The first cell view without the process, as it was installed first, after one with it.
fn dropped(model: &Model, instance: u64, p: ProcIx) -> Option<&CellInstall> {
    let views = model.cells.get(&instance)?.values();
    let first = views.filter_map(|installers| {
        installers.iter().map(|&i| &model.installs[i]).min_by_key(|install| install.moment.at_ns)
    });
    first.skip_while(|view| !view.members.contains(&p)).find(|view| !view.members.contains(&p))
}

/// Whether `q` certainly was in the group no more once the cell view `drop` was: it was dropped by then, or it left,
/// or it went on to that view and would have told of the group's next one.
fn is_out(model: &Model, last: ViewIx, q: ProcIx, other: Option<&CellInstall>, drop: &CellInstall) -> bool {
    let proc = &model.procs[q];
    let left = || {
        let stays = model.views[last].epochs.iter().map(|&e| &model.epochs[e]);
        stays.into_iter().any(|stay| stay.proc == q && stay.end == EpochEnd::GroupLeft)
    };
    let went_on = || {
        let mut later = proc.installs.iter().map(|&i| &model.installs[i]).filter(|i| i.instance == drop.instance);
        model.reads_to_the_end(q) || later.any(|install| install.view > drop.view)
    };
    other.is_some_and(|other| other.view <= drop.view) || left() || proc.tail_complete && went_on()
}

/// Whether the process of this stay lived at that time, and had asked to leave neither the group nor the cell.
fn lives(run: &Run<'_>, stay: EpochIx, group: u32, at: Moment) -> bool {
    let model = run.model;
    let (proc, of) = (&model.procs[model.epochs[stay].proc], model.views[model.epochs[stay].view].group);
    let by_then = |moment: &Moment| moment.at_ns <= at.at_ns.saturating_add(run.options.clock_slack_ns);
    // Who comes and goes asks to leave once for each time that it was in. An application that takes nothing for a
    // while may ask long before it is told that it was in, and then counting alone tells which time an ask was about.
    let stays = proc.epochs.iter().copied().filter(|&e| model.views[model.epochs[e].view].group == of);
    let came = stays.filter(|&e| model.epochs[e].prev_epoch.is_none() && !model.epochs[e].came_back);
    let (times, since) = came.fold((0, 0), |(times, _), e| (times + 1, model.epochs[e].install.place.index));
    let asked: Vec<&Moment> = proc
        .group_leaves
        .iter()
        .filter(|(id, _)| *id == group)
        .map(|(_, asked)| asked)
        .filter(|a| by_then(a))
        .collect();
    let has_left = asked.len() >= times || asked.iter().any(|asked| asked.place.index > since);
    let is_gone = [proc.crashed, proc.ended, proc.leave_asked].iter().flatten().any(by_then);
    proc.trace.is_some() && proc.tail_complete && !has_left && !is_gone
}
