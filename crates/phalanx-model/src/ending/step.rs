//! The steps of the model of ends with waiting groups.

use super::config::{Ending, Missing, PROCESSES};
use super::rule::{
    after_death, after_end, has_to_wait, is_doubtful, is_over, is_quorum, latest_known, may_end, next_view,
};
use super::state::{
    Action, Group, Instance, Process, Record, Spent, Stage, State, Waiting, founding_of, generation_of, set,
    view_number,
};

/// Lists all actions that may be possible in a state; [`next`] decides which are.
pub(super) fn list(model: &Ending, s: &State, actions: &mut Vec<Action>) {
    for p in 0..model.processes {
        if !s.lives(p) {
            actions.push(Action::Start(p));
            actions.extend((1..=s.latest()).map(|of| Action::Prove(of, p)));
            continue;
        }
        let one = [Action::Ask, Action::LearnGone, Action::LearnOut, Action::Go, Action::Overdue, Action::Crash];
        actions.extend(one.map(|action| action(p)));
        let group = [Action::Revive, Action::Decline, Action::FoundGroup, Action::Reform];
        actions.extend(group.map(|action| action(p)));
    }
    for of in 1..=s.latest() {
        actions.push(Action::WaitOver(of));
        if s.spent.decrees < model.decrees && !s.of(of).over {
            decrees(model, s, of, actions);
        }
    }
    let founders = (1 << model.founders) - 1;
    for heard in [false, true] {
        actions.push(Action::Found(heard));
        actions.extend((1..=founders).map(|those| Action::Command(those, heard)));
    }
}

/// Every set of members that may hear each other, with every set of leavers, and what may be known of the others.
fn decrees(model: &Ending, s: &State, of: u8, actions: &mut Vec<Action>) {
    let (there, leavers, members) = (s.present(of), s.leavers(), s.of(of).members);
    let subsets = |all: u8| (0..=all).filter(move |set| set & !all == 0);
    let joiners = || std::iter::once(None).chain((0..model.processes).filter(|&p| s.searches(p)).map(Some));
    for present in subsets(there).filter(|set| *set != 0 && is_quorum(members, *set)) {
        let silent = members & !present;
        for go in subsets(present & leavers) {
            for asked in subsets(silent & there & leavers) {
                for dead in subsets(silent & set(|p| !s.lives(p))) {
                    for joins in joiners() {
                        actions.push(Action::Decree { of, present, go, asked, dead, joins });
                    }
                }
            }
        }
    }
}

/// The state after an action; `None` if it is not possible, or changes nothing.
pub(super) fn next(model: &Ending, state: &State, action: Action) -> Option<State> {
    let mut next = state.clone();
    let s = &mut next;
    let done = match action {
        Action::Ask(p) => {
            let asks = s.is_present(p) && !s.processes[p].wants;
            s.processes[p].wants = true;
            asks
        }
        Action::Decree { of, present, go, asked, dead, joins } => {
            decree(model, s, &Decree { of, present, go, asked, dead, joins })
        }
        Action::WaitOver(of) => {
            let (present, waits) = (s.present(of), has_to_wait(s, of));
            let ending = present != 0 && present & !s.leavers() == 0;
            s.of_mut(of).waited = true;
            ending && waits
        }
        Action::LearnGone(p) => {
            let process = &mut s.processes[p];
            let gone = process.stage == Stage::Member && process.released;
            process.stage = if gone { Stage::Going } else { process.stage };
            gone && hear_out(s, p)
        }
        Action::LearnOut(p) => learn_out(model, s, p),
        Action::Go(p) => go(model, s, p),
        Action::Overdue(p) => {
            s.spent.overdue += 1;
            let process = &s.processes[p];
            let waits = process.stage == Stage::Member && process.wants;
            s.doubted |= waits && !model.lacks(Missing::OverdueNotTold);
            s.silent |= model.lacks(Missing::OverdueNotTold) && s.leaves_behind(p);
            end(s, p);
            waits && s.spent.overdue <= model.overdue
        }
        Action::Crash(p) => {
            s.spent.crashes += 1;
            end(s, p);
            s.spent.crashes <= model.crashes
        }
        Action::Start(p) => {
            s.spent.starts += 1;
            s.processes[p].stage = Stage::Searching;
            s.spent.starts <= model.starts
        }
        Action::Prove(of, p) => prove(s, of, p),
        Action::Revive(p) => revive(model, s, p),
        Action::Decline(p) => decline(s, p),
        Action::FoundGroup(p) => found_group(model, s, p),
        Action::Found(heard) => found(model, s, heard),
        Action::Command(those, heard) => command(model, s, those, heard),
        Action::Reform(p) => reform(model, s, p),
    };
    (done && next != *state).then_some(next)
}

/// See [`Action::Decree`].
struct Decree {
    of: u8,
    present: u8,
    go: u8,
    asked: u8,
    dead: u8,
    joins: Option<usize>,
}

fn decree(model: &Ending, s: &mut State, d: &Decree) -> bool {
    let (members, stay) = (s.of(d.of).members, d.present & !d.go);
    let rest = members & !(d.go | d.asked);
    let joined = d.joins.map_or(0, |p| 1 << p);
    let may_decide = is_quorum(members, d.present) && (rest == 0 || is_quorum(rest, stay));
    let changes = stay != members || joined != 0;
    if !may_decide || !changes || stay == 0 && (joined != 0 || !may_end(model, s, d.of)) {
        return false;
    }
    let silent = members & !d.present;
    // A new process in its place proves that the member has ended.
    let left_out = silent & !d.dead & !joined;
    let Some(group) = group_after(model, s, d, left_out & !d.asked) else { return false };
    let waits = group.waiting();
    let back = d.joins.is_some_and(|p| waits.holders & 1 << p != 0);
    s.spent.decrees += 1;
    for p in (0..PROCESSES).filter(|p| d.present & 1 << p != 0) {
        let process = &mut s.processes[p];
        process.released = d.go & 1 << p != 0;
        if process.wants {
            process.behind = (process.behind | left_out & !d.asked) & !joined;
        }
    }
    s.returned |= back && stay & !s.leavers() == 0;
    let of = s.of_mut(d.of);
    (of.members, of.over, of.waited, of.group) = (stay | joined, stay == 0, false, group);
    of.lost = (of.lost | left_out | d.go) & !joined;
    if let Some(p) = d.joins {
        enter(model, s, p, d.of, if model.lacks(Missing::JoinsWithoutList) { Waiting::default() } else { waits });
    }
    true
}

/// The group after a decree that leaves out these members of the cell, which neither are proved dead nor asked to leave.
/// `None`: there is no such decree.
fn group_after(model: &Ending, s: &mut State, d: &Decree, left_out: u8) -> Option<Group> {
    match s.of(d.of).group {
        Group::Free => Some(Group::Free),
        Group::Live(view, members) => {
            let stay = members & d.present & !d.go;
            let holders = members & left_out;
            match (stay, members & d.go != 0 && holders != 0) {
                (0, true) => None, // a decree of their own drops the others (`docs/orphans.md`, *Leaving*)
                (0, false) => Some(Group::of(Waiting { view, holders })),
                (stay, _) if stay == members => Some(Group::Live(view, members)),
                (stay, _) => {
                    let view = next_view(model, view, d.of);
                    make_view(s, view, stay);
                    Some(Group::Live(view, stay))
                }
            }
        }
        Group::Waits(Waiting { view, holders }) => {
            // Started again without the state.
            let anew = d.joins.filter(|&p| s.processes[p].has == 0).map_or(0, |p| 1 << p);
            Some(Group::of(Waiting { view, holders: holders & !anew }))
        }
    }
}

/// A view of the group begins, with these members.
fn make_view(s: &mut State, view: u8, members: u8) {
    let bit = 1 << (view & 63);
    s.twice |= s.views & bit != 0;
    s.views |= bit;
    s.last = view;
    for p in (0..PROCESSES).filter(|p| members & 1 << p != 0) {
        s.processes[p].has = view;
    }
}

/// A process becomes a member of an instance, in which this group waits.
fn enter(model: &Ending, s: &mut State, p: usize, instance: u8, begun: Waiting) {
    let process = &mut s.processes[p];
    let Record { end, ended, lost, waits, .. } = process.record;
    let mut record = Record { mark: instance, begun, ..Record::default() };
    if p >= model.founders {
        record = Record::default(); // only founders have markers
    }
    if end != instance {
        (record.end, record.ended, record.lost, record.waits) = (end, ended, lost, waits);
    }
    *process = Process { stage: Stage::Member, instance, has: process.has, record, ..Process::default() };
}

/// A process ends.
fn end(s: &mut State, p: usize) {
    let record = s.processes[p].record;
    s.processes[p] = Process { record, ..Process::default() };
}

/// Members of its instance, and those that were let go with it, hear that a process knows that it is out.
fn hear_out(s: &mut State, p: usize) -> bool {
    let of = s.processes[p].instance;
    let hears = |q: usize| {
        let other = &s.processes[q];
        q != p && other.instance == of && (s.is_present(q) || other.stage == Stage::Going)
    };
    let heard = (0..PROCESSES).any(hears);
    if heard {
        s.of_mut(of).lost &= !(1 << p);
    }
    true
}

/// A former member is told by a member of its instance or of a later one, or by one that recorded the end.
fn learn_out(model: &Ending, s: &mut State, p: usize) -> bool {
    let Process { stage, instance, released, wants, .. } = s.processes[p];
    if stage != Stage::Member || released {
        return false;
    }
    let is_out = s.of(instance).members & 1 << p == 0;
    let tells = |q: usize| {
        let other = &s.processes[q];
        match other.stage {
            Stage::Member => s.is_present(q) && (is_out && other.instance == instance || other.instance > instance),
            Stage::Going => is_out && other.instance == instance,
            Stage::Searching => is_out && other.record.ended && other.record.end == instance,
            Stage::Off => false,
        }
    };
    // A member yields to a later instance only if it hears no quorum of its own.
    let alone = is_out || !is_quorum(s.of(instance).members, s.present(instance));
    if !alone || !(0..PROCESSES).any(tells) {
        return false;
    }
    hear_out(s, p);
    if wants {
        s.doubted |= !model.lacks(Missing::ExcludedNotTold);
        s.silent |= model.lacks(Missing::ExcludedNotTold) && s.leaves_behind(p);
        end(s, p);
    } else {
        let Process { has, record, .. } = s.processes[p];
        s.processes[p] = Process { stage: Stage::Searching, has, record, ..Process::default() };
    }
    true
}

fn go(model: &Ending, s: &mut State, p: usize) -> bool {
    let Process { stage, instance, .. } = s.processes[p];
    if stage != Stage::Going {
        return false;
    }
    let of = *s.of(instance);
    s.silent |= of.over && !is_doubtful(model, s, p) && s.leaves_behind(p);
    let record = &mut s.processes[p].record;
    (record.end, record.ended, record.lost, record.waits) = (instance, of.over, 0, Waiting::default());
    if of.over {
        record.lost = of.lost & !(1 << p);
        record.waits = if model.lacks(Missing::ListNotRecorded) { Waiting::default() } else { of.group.waiting() };
    }
    end(s, p);
    true
}

/// A proof of death reaches those that watched the process as a member of their instance.
fn prove(s: &mut State, of: u8, p: usize) -> bool {
    let present = s.present(of);
    let watched = match s.of(of).group {
        Group::Waits(waits) => waits.holders & 1 << p != 0 && generation_of(waits.view) == of,
        Group::Free | Group::Live(..) => false,
    };
    let behind = |s: &State| (0..PROCESSES).any(|q| present & 1 << q != 0 && s.processes[q].behind & 1 << p != 0);
    let concerns = watched || s.of(of).lost & 1 << p != 0 || behind(s);
    if s.lives(p) || present == 0 || !concerns || s.of(of).members & 1 << p != 0 {
        return false;
    }
    for q in (0..PROCESSES).filter(|q| present & 1 << q != 0) {
        s.processes[q].behind &= !(1 << p);
    }
    let of = s.of_mut(of);
    of.lost &= !(1 << p);
    if let Group::Waits(Waiting { view, holders }) = of.group
        && watched
    {
        of.group = Group::of(Waiting { view, holders: holders & !(1 << p) });
    }
    true
}

fn revive(model: &Ending, s: &mut State, p: usize) -> bool {
    let Process { instance, has, .. } = s.processes[p];
    if !s.is_present(p) {
        return false;
    }
    let Group::Waits(Waiting { view, holders }) = s.of(instance).group else { return false };
    if holders & 1 << p == 0 || has != view {
        return false;
    }
    let view = next_view(model, view, instance);
    make_view(s, view, 1 << p);
    s.of_mut(instance).group = Group::Live(view, 1 << p);
    true
}

fn decline(s: &mut State, p: usize) -> bool {
    let Process { instance, has, .. } = s.processes[p];
    if !s.is_present(p) {
        return false;
    }
    let Group::Waits(Waiting { view, holders }) = s.of(instance).group else { return false };
    // A process that was started again does not know that it was a holder.
    if holders & 1 << p == 0 || has == 0 || has == view {
        return false;
    }
    s.of_mut(instance).group = Group::of(Waiting { view, holders: holders & !(1 << p) });
    true
}

fn found_group(model: &Ending, s: &mut State, p: usize) -> bool {
    let Process { instance, wants, .. } = s.processes[p];
    if !s.is_present(p) || wants || founding_of(s.last) > 1 {
        return false;
    }
    let free = match s.of(instance).group {
        Group::Free => true,
        Group::Live(..) => false,
        Group::Waits(waits) => model.lacks(Missing::NameIsFree) && generation_of(waits.view) < instance,
    };
    let has = |q: usize| s.lives(q) && s.processes[q].has == s.last && !s.processes[q].wants;
    s.usurped |= (0..PROCESSES).any(has);
    let view = view_number(founding_of(s.last) + 1, instance, 1);
    s.views = 0;
    make_view(s, view, 1 << p);
    s.of_mut(instance).group = Group::Live(view, 1 << p);
    free
}

/// The records that these founders know when they found: their own, and those of others that look for the cell.
fn records(model: &Ending, s: &State, those: u8, heard: bool) -> Vec<Record> {
    let known = |p: &usize| those & 1 << p != 0 || heard && s.searches(*p);
    (0..model.processes).filter(known).map(|p| s.processes[p].record).collect()
}

fn found(model: &Ending, s: &mut State, heard: bool) -> bool {
    let founders = (1 << model.founders) - 1;
    let search = set(|p| s.searches(p));
    if founders & !search != 0 {
        return false;
    }
    let records = records(model, s, founders, heard);
    let shown = if heard { search } else { founders };
    let over = |p: usize| is_over(&records, s.processes[p].record.mark, shown);
    let waits = after_end(model, &records);
    (0..model.founders).all(over) && begin(model, s, founders, latest_known(&records), waits)
}

fn command(model: &Ending, s: &mut State, those: u8, heard: bool) -> bool {
    s.spent.commands += 1;
    let search = set(|p| s.searches(p));
    let enough = those.count_ones() as usize * 2 > model.founders;
    if those & !search != 0 || !enough || s.spent.commands > model.commands {
        return false;
    }
    // What the operator states: no member of the latest instance lives, nor a former one with a state made there.
    let latest = s.latest();
    let lives = |p: usize| {
        let process = &s.processes[p];
        let is_in = matches!(process.stage, Stage::Member | Stage::Going) && process.instance == latest;
        let keeps = s.lives(p) && process.has != 0 && generation_of(process.has) == latest;
        is_in || keeps && !model.lacks(Missing::CommandDespiteHolder)
    };
    if (0..PROCESSES).any(lives) {
        return false;
    }
    let records = records(model, s, those, heard);
    let waits = after_death(model, &records);
    begin(model, s, those, latest_known(&records), waits)
}

/// Founders begin the instance after the latest that they know.
fn begin(model: &Ending, s: &mut State, those: u8, known: u8, waits: Waiting) -> bool {
    // Instances that no founder knows are not modelled.
    if known != s.latest() || known >= model.instances {
        return false;
    }
    // Started again without the state.
    let anew = set(|p| those & 1 << p != 0 && s.processes[p].has == 0);
    let struck = if model.lacks(Missing::FounderNotStruck) { 0 } else { anew };
    let group = Group::of(Waiting { holders: waits.holders & !struck, ..waits });
    let next = known + 1;
    *s.of_mut(next) = Instance { exists: true, members: those, group, ..Instance::default() };
    for p in (0..PROCESSES).filter(|p| those & 1 << p != 0) {
        enter(model, s, p, next, group.waiting());
    }
    true
}

fn reform(model: &Ending, s: &mut State, p: usize) -> bool {
    s.spent.commands += 1;
    let Process { instance, wants, .. } = s.processes[p];
    if !s.is_present(p) || wants || s.spent.commands > model.commands || instance != s.latest() {
        return false;
    }
    let members = s.of(instance).members;
    if s.present(instance) != 1 << p || is_quorum(members, 1 << p) || instance >= model.instances {
        return false;
    }
    let group = match s.of(instance).group {
        Group::Live(view, holders) => Group::of(Waiting { view, holders }),
        other => other,
    };
    *s.of_mut(instance + 1) = Instance { exists: true, members: 1 << p, group, ..Instance::default() };
    let begun = if model.lacks(Missing::ReformsWithoutList) { Waiting::default() } else { group.waiting() };
    enter(model, s, p, instance + 1, begun);
    true
}

impl Spent {
    /// Whether a decree is left.
    pub(super) fn has_decree(self, model: &Ending) -> bool {
        self.decrees < model.decrees
    }
}
