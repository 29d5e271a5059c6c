//! Pairs of groups where the second was founded under the name of the first, in the same cell instance or in a later one
//! that can know of it.
//!
//! An instance can know of an earlier one if it began without a command, and if its first view holds a process, by its
//! name, that was in the last view of the earlier one and left that in order. Such a process has a record of how the
//! instance ended. (An instance that goes on with the groups of another one counts as the same.) A command to found anew
//! is the word of an operator that nobody lives.

use std::collections::BTreeMap;

use phalanx_trace::LeaveReason;

use super::Run;
use crate::findings::Place;
use crate::model::{CellInstall, EpochEnd, EpochIx, Forgotten, Model, Moment, Over, Proc, ProcIx, ViewIx};

/// The level from which on a group waits for members with its state that are cut off.
const ORPHANS_LEVEL: u16 = 3;

/// Time for which the holders of a group that waits are waited for once one of them is back (`docs/orphans.md`, [o17]).
const HOLDERS_NS: u64 = 1_000_000_000;

/// A group that ended, as its successor of the same name shows.
#[derive(Debug)]
pub(super) struct Anew {
    /// The last installed view of the old group.
    pub(super) last: ViewIx,
    /// The first view of the new one.
    pub(super) first: ViewIx,
    /// The first installation of that view.
    pub(super) founded: Moment,
    /// Members at the end of the old group that lived then, and had not asked to leave.
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

/// Returns all pairs of consecutive groups of one name. Without a common clock there are none, because their order
/// cannot be known.
pub(super) fn begun_anew(run: &Run<'_>) -> Vec<Anew> {
    let model = run.model;
    let mut named: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (ix, group) in model.groups.iter().enumerate() {
        if !group.name.is_empty() {
            named.entry(&group.name).or_default().push(ix);
        }
    }
    let begun: BTreeMap<u64, Moment> = instances(model);
    let mut all = Vec::new();
    for groups in named.values_mut().filter(|groups| groups.len() > 1 && model.one_clock().is_some()) {
        let begun_ns = |instance: u64| begun.get(&instance).map_or(0, |at| at.at_ns);
        groups.sort_by_key(|&ix| (begun_ns(model.groups[ix].instance), model.groups[ix].instance, model.groups[ix].id));
        for pair in groups.windows(2) {
            let [before, after] = [pair[0], pair[1]].map(|ix| model.groups[ix].instance);
            if before != after && !can_know(model, before, after) {
                continue;
            }
            let installed =
                |ix: usize| model.groups[ix].views.values().copied().filter(|&v| !model.views[v].epochs.is_empty());
            let (Some(last), Some(first)) = (installed(pair[0]).next_back(), installed(pair[1]).next()) else {
                continue;
            };
            // All its members were notified that it stopped. M12 evaluates that.
            let stopped = |&e: &EpochIx| model.epochs[e].lost.is_some_and(|(why, _)| why == LeaveReason::Stopped);
            if model.views[last].epochs.iter().any(stopped) {
                continue;
            }
            let begun = model.views[last].epochs.iter().map(|&e| model.epochs[e].install).min_by_key(|at| at.at_ns);
            let founded = model.views[first].epochs.iter().map(|&e| model.epochs[e].install);
            let (Some(founded), Some(begun)) = (founded.min_by_key(|install| install.at_ns), begun) else { continue };
            if model.was_given_up(&model.groups[pair[0]].name, &begun, &founded) {
                continue;
            }
            // A later view existed: a process kept its state without having installed it, or was notified that the
            // group went on from `last`. So the members of `last` were not the group's last.
            let (id, number) = (model.groups[pair[0]].id, model.views[last].number);
            let has_later = |forgotten: &Forgotten| {
                let is_later = forgotten.view > number || forgotten.went_on && forgotten.view == number;
                forgotten.group == id && is_later && forgotten.moment.at_ns >= begun.at_ns
            };
            if model.procs.iter().any(|proc| proc.forgotten.iter().any(has_later)) {
                continue;
            }
            if may_have_gone_on(model, last, founded) {
                continue;
            }
            let mut alive = outlived(run, last, founded);
            // A process in the primary partition of the earlier instance, when another one begins, is M6.
            alive.retain(|alive| before == after || alive.dropped.is_some());
            all.push(Anew { last, first, founded, alive });
        }
    }
    all
}

/// Whether the group may have gone on in a process that came back with its state and was killed. Holders that are not
/// back are waited for no longer than [`HOLDERS_NS`]. Then the next view of the group holds that process alone, and it
/// may be killed before it records that.
fn may_have_gone_on(model: &Model, last: ViewIx, founded: Moment) -> bool {
    let group = model.views[last].group;
    let (name, instance) = (&model.groups[group].name, model.groups[group].instance);
    let goes_on = |of: u64| of == instance || model.lineages.get(&of) == Some(&instance);
    let is_back = |p: &ProcIx| {
        if model.procs[*p].crashed.is_some() || model.procs[*p].leave_asked.is_some() {
            return false;
        }
        let Some(back) = next_life(model, *p).map(|next| &model.procs[next]) else { return false };
        let Some(crashed) = back.crashed.filter(|at| at.at_ns <= founded.at_ns) else { return false };
        let mut installs = back.installs.iter().map(|&i| &model.installs[i]).filter(|i| goes_on(i.instance));
        let waited = installs.next().is_some_and(|i| crashed.at_ns.saturating_sub(i.moment.at_ns) >= HOLDERS_NS);
        let is_told = |e: &EpochIx| model.views[model.epochs[*e].view].group == group;
        let wants = back.group_joins.iter().any(|join| join.name == *name);
        waited && wants && !back.epochs.iter().any(is_told) && back.group_leaves.is_empty()
    };
    model.views[last].members.iter().filter(|p| !observes(model, **p, last)).any(is_back)
}

/// The next incarnation of an excluded process, if the process lived until it began.
fn next_life(model: &Model, life: ProcIx) -> Option<ProcIx> {
    let proc = &model.procs[life];
    let (_, over) = proc.over?;
    // The next incarnation begins in the iteration of the event loop after the exclusion.
    let next = |(_, q): &(ProcIx, &Proc)| {
        q.name == proc.name
            && q.started.is_some_and(|started| started.at_ns >= over.at_ns)
            && q.incarnation != proc.incarnation
    };
    let later = model.procs.iter().enumerate().filter(next);
    let (next, _) = later.min_by_key(|(_, q)| q.started.map(|started| started.at_ns))?;
    let begun_ns = model.procs[next].started.map_or(u64::MAX, |started| started.at_ns);
    let in_between = |at: Moment| (over.at_ns..=begun_ns).contains(&at.at_ns);
    // An incarnation that was killed before its first record has no name, so it may have been the next one.
    let may_be_it = |q: &Proc| q.name == proc.name || q.name.is_none();
    let died = model.procs.iter().any(|q| may_be_it(q) && q.crashed.is_some_and(in_between));
    (!died).then_some(next)
}

/// The first installation in each instance, by the first in the chain of those that went on with its groups.
fn instances(model: &Model) -> BTreeMap<u64, Moment> {
    let mut begun: BTreeMap<u64, Moment> = BTreeMap::new();
    for install in &model.installs {
        let of = model.lineages.get(&install.instance).copied().unwrap_or(install.instance);
        let first = begun.entry(of).or_insert(install.moment);
        if install.moment.at_ns < first.at_ns {
            *first = install.moment;
        }
    }
    begun
}

/// Whether the instances of `after` can know how those of `before` ended. Both are named by the first in their chain.
fn can_know(model: &Model, before: u64, after: u64) -> bool {
    let is_of =
        |install: &CellInstall, of: u64| install.instance == of || model.lineages.get(&install.instance) == Some(&of);
    let own = |of: u64| model.installs.iter().filter(move |install| is_of(install, of));
    let (Some(last), Some(first)) =
        (own(before).max_by_key(|i| i.moment.at_ns), own(after).min_by_key(|i| i.moment.at_ns))
    else {
        return false;
    };
    let commanded =
        model.anew_asked.iter().any(|asked| (last.moment.at_ns..=first.moment.at_ns).contains(&asked.at_ns));
    let left_in_order = |&p: &ProcIx| {
        let left = model.procs[p].over.is_some_and(|(over, at)| over == Over::Left && at.at_ns <= first.moment.at_ns);
        left && model.procs[p].name.as_ref().is_some_and(|name| first.names.contains(name))
    };
    !commanded && last.members.iter().any(left_in_order)
}

/// The members of a group's last view with which it ended, that lived then and had not asked to leave.
fn outlived(run: &Run<'_>, last: ViewIx, founded: Moment) -> Vec<Alive> {
    let model = run.model;
    let group = &model.groups[model.views[last].group];
    // Observers never had the group's state, and the group does not go on through them.
    let members: Vec<ProcIx> =
        model.views[last].members.iter().copied().filter(|&p| !observes(model, p, last)).collect();
    let drops: Vec<Option<Drop<'_>>> = members.iter().map(|&p| dropped(model, group.instance, p)).collect();
    let mut alive = Vec::new();
    for (&p, drop) in members.iter().zip(&drops) {
        // A member that was dropped only after the new group was founded had not gone before.
        let drop = drop.filter(|drop| drop.known.at_ns <= founded.at_ns);
        let end = drop.map_or(founded, |drop| drop.known);
        let others = || members.iter().zip(&drops).filter(|(q, _)| **q != p);
        let ended_with_it = |drop: Drop<'_>| others().all(|(&q, other)| is_out(model, last, q, *other, drop));
        // A process that was admitted and never notified of it holds no state of the group, and leaves by itself.
        let Some(stay) = model.last_stay(p, model.views[last].group) else { continue };
        // A member without the state lost the last one that had it. It is in the group no more, and waits for that one.
        let is_without = model.epochs[stay].lost.is_some_and(|(why, _)| why == LeaveReason::Anew);
        if is_without && model.epochs[stay].end == EpochEnd::GroupLeft {
            continue;
        }
        // It refused the state that it was given, so the group cannot go on through it.
        if model.epochs[stay].refused {
            continue;
        }
        // Below this level a group ends with the last of its members that is in the cell.
        let waits = drop.map_or(is_promised(model, stay), |drop| promises(drop.by));
        if drop.is_some_and(|drop| !ended_with_it(drop)) || !waits || !lives(run, stay, group.id, end) {
            continue;
        }
        // It gave the group up meanwhile, without knowing that it was out.
        let has_asked = || !lives(run, stay, group.id, founded);
        if drop.is_some() && (has_asked() || !lives_on(model, p, &group.name, founded)) {
            continue;
        }
        alive.push(Alive { stay, dropped: drop.map(|drop| drop.by.moment.place) });
    }
    alive
}

/// Whether a process observes in a view, by the first record of an installation.
fn observes(model: &Model, p: ProcIx, view: ViewIx) -> bool {
    model.views[view].epochs.first().is_some_and(|&e| model.epochs[e].observers.contains(&p))
}

/// The drop of a process from the cell.
#[derive(Clone, Copy)]
struct Drop<'a> {
    /// The first cell view without it, after one with it.
    by: &'a CellInstall,
    /// The number of the first view that may have been without it. It is below that of `by` if no process recorded the
    /// views between.
    since: u64,
    /// The first installation of a view without it. A joiner may be notified sooner than members that read slowly.
    known: Moment,
}

/// Finds the drop. `instance` is the first in the chain of those that went on with the group.
fn dropped(model: &Model, instance: u64, p: ProcIx) -> Option<Drop<'_>> {
    let goes_on = |of: u64| of == instance || model.lineages.get(&of) == Some(&instance);
    let views = model.cells.iter().filter(|(of, _)| goes_on(**of)).flat_map(|(_, views)| views.values());
    let first = views.filter_map(|installers| {
        installers.iter().map(|&i| &model.installs[i]).min_by_key(|install| install.moment.at_ns)
    });
    let mut recorded = first.skip_while(|view| !view.members.contains(&p));
    let mut with = recorded.next()?;
    let by = loop {
        let next = recorded.next()?;
        if !next.members.contains(&p) {
            break next;
        }
        with = next;
    };
    let since = if with.instance == by.instance { with.view.saturating_add(1) } else { by.view };
    let without = recorded.filter(|view| !view.members.contains(&p));
    let known = without.map(|view| view.moment).fold(by.moment, |a, b| if b.at_ns < a.at_ns { b } else { a });
    Some(Drop { by, since, known })
}

/// Whether `q` was certainly out of the group after the drop `drop` of another member. It was if it was dropped by
/// then, if it left, or if it went on to that view and would have recorded the group's next one. A member of that view
/// that was not notified of it, because a later view dropped it or it left with that, was in the group until then. Of
/// two members dropped in views that no process recorded, either may have been the last.
fn is_out(model: &Model, last: ViewIx, q: ProcIx, other: Option<Drop<'_>>, drop: Drop<'_>) -> bool {
    let proc = &model.procs[q];
    let installs = || proc.installs.iter().map(|&i| &model.installs[i]).filter(|i| i.instance == drop.by.instance);
    let left = || {
        let stays = model.views[last].epochs.iter().map(|&e| &model.epochs[e]);
        stays.into_iter().any(|stay| stay.proc == q && stay.end == EpochEnd::GroupLeft)
    };
    let is_told = || installs().any(|install| install.view >= drop.by.view);
    let read_on = || model.reads_to_the_end(q) || installs().any(|install| install.view > drop.by.view);
    // The group's next view may wait in an inbox of its own that nobody reads, though the cell's was taken.
    let unread = || {
        let mut stays = model.views[last].epochs.iter().filter(|&&e| model.epochs[e].proc == q);
        stays.any(|&e| model.unread(e).iter().any(|span| span.meets(drop.by.moment.at_ns, u64::MAX)))
    };
    other.is_some_and(|other| other.by.view <= drop.since)
        || left()
        || proc.tail_complete && is_told() && read_on() && !unread()
}

/// Whether the promises of level 3 apply to the process of this stay, as far as recorded.
pub(super) fn is_promised(model: &Model, stay: EpochIx) -> bool {
    let mut installs = model.procs[model.epochs[stay].proc].installs.iter().rev().map(|&i| &model.installs[i]);
    installs.find(|install| install.level.is_some()).is_none_or(promises)
}

/// The same in a cell view.
fn promises(install: &CellInstall) -> bool {
    install.level.is_none_or(|(level, _)| level >= ORPHANS_LEVEL)
}

/// Whether a process that was excluded ran on until then, one incarnation after the other, and had not asked to leave.
fn lives_on(model: &Model, p: ProcIx, name: &str, until: Moment) -> bool {
    let by_then = |moment: &&Moment| moment.at_ns <= until.at_ns;
    let mut life = p;
    loop {
        let proc = &model.procs[life];
        if [proc.crashed, proc.leave_asked].iter().flatten().any(|moment| by_then(&moment)) {
            return false;
        }
        if proc.over.is_none_or(|(_, over)| !by_then(&&over)) {
            return true;
        }
        let Some(next) = next_life(model, life) else { return false };
        // A process that does not ask for the group again has no use for its state.
        let wants = model.procs[next].group_joins.iter().any(|join| join.name == name);
        if !wants {
            return false;
        }
        life = next;
    }
}

/// Whether the process of this stay lived at that time, and had asked to leave neither the group nor the cell.
fn lives(run: &Run<'_>, stay: EpochIx, group: u32, at: Moment) -> bool {
    let model = run.model;
    let (proc, of) = (&model.procs[model.epochs[stay].proc], model.views[model.epochs[stay].view].group);
    let by_then = |moment: &Moment| moment.at_ns <= at.at_ns.saturating_add(run.options.clock_slack_ns);
    // A process that joins and leaves repeatedly asks to leave once for each stay. If its application takes nothing for
    // a while, it may ask long before it is notified that it was in. Only counting then shows to which stay a request
    // belongs.
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
