//! The steps of the model of founding.

use super::rule::{is_all, is_assumed, is_confirmed, is_quorum, proposal, takes_part};
use super::state::{Life, Phase, State, Try, slot_of};
use super::{Action, Founding, JOINER, Missing, NAMES, SLOTS, TWIN};

/// Most incarnations in a slot.
const LIVES: u8 = 3;

/// Lists all actions that may be possible in a state; [`next`] decides which are.
pub(super) fn list(model: &Founding, s: &State, actions: &mut Vec<Action>) {
    let living = || (0..SLOTS).filter(|&at| s.processes[at].lives);
    for at in living() {
        for round in 1..=model.rounds {
            actions.extend([Action::Lead(at, round, false), Action::Lead(at, round, true)]);
        }
        actions.extend([Action::Propose(at), Action::Decide(at), Action::Restore(at)]);
        for ballot in 0..s.begun() {
            actions.extend([Action::Report(at, ballot), Action::Accept(at, ballot)]);
            actions.extend([Action::Confirm(at, ballot), Action::Install(at, ballot)]);
        }
        actions.push(Action::Bury(at));
        if !model.twin_hears {
            actions.extend(living().map(|other| Action::Hear(at, other)));
        }
        if s.crashes < model.crashes {
            actions.push(Action::Crash(at));
        }
    }
    for cell in (0..s.begun()).filter(|&cell| s.tries[cell].view != 0) {
        actions.extend(living().map(|at| Action::Leave(cell, at)));
        for present in 1..1 << SLOTS {
            actions.push(Action::Change(cell, present, None));
            actions.extend(living().map(|joiner| Action::Change(cell, present, Some(joiner))));
        }
    }
    actions.extend((0..SLOTS).filter(|&at| !s.processes[at].lives).map(Action::Restart));
    actions.push(Action::Twin);
    if s.emptied < model.emptied {
        actions.extend((0..SLOTS).map(Action::Empty));
    }
}

/// The state after an action; `None` if it is not possible, changes nothing, or violates the fault assumption.
pub(super) fn next(model: &Founding, state: &State, action: Action) -> Option<State> {
    let mut next = state.clone();
    let s = &mut next;
    let done = match action {
        Action::Lead(by, round, second) => s.begun() < model.ballots && lead(model, s, by, round, second),
        Action::Report(at, ballot) => report(model, s, at, ballot),
        Action::Propose(by) => propose(model, s, by),
        Action::Accept(at, ballot) => accept(model, s, at, ballot),
        Action::Decide(by) => decide(model, s, by),
        Action::Confirm(at, ballot) => confirm(model, s, at, ballot),
        Action::Install(at, list) => install(model, s, at, list),
        Action::Change(cell, present, joiner) => change(model, s, cell, present, joiner),
        Action::Hear(at, other) => hear(model, s, at, other),
        Action::Leave(cell, at) => leave(model, s, cell, at),
        Action::Bury(at) => bury(model, s, at),
        Action::Crash(at) => {
            s.crashes += 1;
            stop(s, at);
            true
        }
        Action::Restart(at) => restart(s, at),
        Action::Twin => start_twin(model, s),
        Action::Empty(at) => empty(model, s, at),
        Action::Restore(at) => restore(model, s, at),
    };
    (done && next != *state && is_assumed(model, &next)).then_some(next)
}

/// Begins a ballot. Its number is above all that the leader promised; no two incarnations use the same number.
pub(super) fn lead(model: &Founding, s: &mut State, by: usize, round: u8, second: bool) -> bool {
    let number = round * 32 + s.life(by);
    if !takes_part(model, s, by) || number <= s.processes[by].promised {
        return false;
    }
    let names = model.list_of(by);
    let mut t = Try { phase: Phase::Gathering, number, names, ..Try::default() };
    for name in (0..model.names()).filter(|name| names & 1 << name != 0) {
        let at = if second && model.twin == Some(name) { TWIN } else { name };
        if !s.processes[at].lives {
            return false;
        }
        (t.asked[name], t.disks[name]) = (s.life(at), s.processes[at].memory.id);
    }
    if !t.asked.contains(&s.life(by)) || (second && model.twin.is_none()) {
        return false;
    }
    let ballot = s.begun();
    s.tries[ballot] = t;
    s.processes[by].current = ballot as u8 + 1;
    report(model, s, by, ballot)
}

/// The name for which a ballot asked a process, if it did.
fn asked_for(s: &State, at: usize, ballot: usize) -> Option<usize> {
    s.tries[ballot].asked.iter().position(|who| *who == s.life(at))
}

pub(super) fn report(model: &Founding, s: &mut State, at: usize, ballot: usize) -> bool {
    let Some(name) = asked_for(s, at, ballot) else { return false };
    let t = &s.tries[ballot];
    let same_names = t.names == model.list_of(at) || model.lacks(Missing::ListsNotCompared);
    let asks = t.phase == Phase::Gathering && t.reported & 1 << name == 0;
    if !asks || !same_names || !takes_part(model, s, at) || t.number <= s.processes[at].promised {
        return false;
    }
    promise(s, at, ballot);
    let p = &s.processes[at];
    let accepted = (p.accepted != 0 && model.lacks(Missing::AdoptsUnmarked))
        .then(|| (s.tries[usize::from(p.accepted) - 1].proposal, p.accepted));
    let mark = (p.memory.mark, p.memory.marked_in);
    let t = &mut s.tries[ballot];
    t.reported |= 1 << name;
    t.had[name] = if mark.0 == 0 { accepted.unwrap_or_default() } else { mark };
    true
}

fn promise(s: &mut State, at: usize, ballot: usize) {
    let p = &mut s.processes[at];
    p.promised = s.tries[ballot].number;
    if usize::from(p.current) != ballot + 1 {
        p.current = 0;
    }
}

/// The ballot that a process leads, if it is in that phase and was not overtaken.
fn led(s: &State, by: usize, phase: Phase) -> Option<usize> {
    let ballot = usize::from(s.processes[by].current).checked_sub(1)?;
    (s.tries[ballot].phase == phase && s.processes[by].promised == s.tries[ballot].number).then_some(ballot)
}

pub(super) fn propose(model: &Founding, s: &mut State, by: usize) -> bool {
    let Some(ballot) = led(s, by, Phase::Gathering) else { return false };
    if !is_all(model, &s.tries[ballot], s.tries[ballot].reported) {
        return false;
    }
    let list = proposal(model, s, ballot);
    let t = &mut s.tries[ballot];
    (t.phase, t.proposal, t.had) = (Phase::Proposing, list, [(0, 0); NAMES]);
    accept(model, s, by, ballot)
}

pub(super) fn accept(model: &Founding, s: &mut State, at: usize, ballot: usize) -> bool {
    let Some(name) = asked_for(s, at, ballot) else { return false };
    let t = &s.tries[ballot];
    let asks = t.phase >= Phase::Proposing && t.reported & !t.accepted & 1 << name != 0;
    if !asks || !takes_part(model, s, at) || t.number < s.processes[at].promised {
        return false;
    }
    promise(s, at, ballot);
    s.processes[at].accepted = ballot as u8 + 1;
    s.tries[ballot].accepted |= 1 << name;
    true
}

pub(super) fn decide(model: &Founding, s: &mut State, by: usize) -> bool {
    let Some(ballot) = led(s, by, Phase::Proposing) else { return false };
    if !takes_part(model, s, by) || !is_all(model, &s.tries[ballot], s.tries[ballot].accepted) {
        return false;
    }
    s.tries[ballot].phase = Phase::Decided;
    confirm(model, s, by, ballot)
}

/// Syncs a marker and announces it. A process that promised a later ballot has renounced the list.
pub(super) fn confirm(model: &Founding, s: &mut State, at: usize, ballot: usize) -> bool {
    let Some(name) = asked_for(s, at, ballot) else { return false };
    let t = s.tries[ballot];
    let p = &s.processes[at];
    let current = usize::from(p.accepted) == ballot + 1 && p.promised == t.number;
    let stands = current || model.lacks(Missing::ConfirmsRenounced);
    let listed = s.tries[usize::from(t.proposal.max(1)) - 1].asked[name] == s.life(at);
    let may = listed || !model.lacks(Missing::OnlyListedConfirm);
    if t.phase != Phase::Decided || t.accepted & 1 << name == 0 || !stands || !may || !takes_part(model, s, at) {
        return false;
    }
    set_mark(model, s, at, t.proposal, ballot);
    s.tries[usize::from(t.proposal) - 1].confirmed |= 1 << name;
    true
}

/// Writes a marker, and waits until it is synced.
fn set_mark(model: &Founding, s: &mut State, at: usize, list: u8, ballot: usize) {
    let p = &mut s.processes[at];
    (p.memory.mark, p.memory.marked_in, p.memory.heard) = (list, ballot as u8 + 1, 0);
    if model.lacks(Missing::MarkAfter) {
        p.disk.due = true;
    } else {
        p.disk = p.memory;
    }
}

/// Makes a process a member; it forgets everything about ballots.
fn enter(s: &mut State, at: usize, list: usize, view: u8) {
    let p = &mut s.processes[at];
    (p.promised, p.accepted, p.current) = (0, 0, 0);
    (p.instance, p.view, p.lost) = (list as u8 + 1, view, false);
}

pub(super) fn install(model: &Founding, s: &mut State, at: usize, list: usize) -> bool {
    let l = s.tries[list];
    let p = &s.processes[at];
    // A process that comes too late for view 1 was left out of the next view.
    if asked_for(s, at, list).is_none() || !is_confirmed(model, &l) || p.instance != 0 || l.view > 1 {
        return false;
    }
    if p.memory.mark as usize != list + 1 {
        set_mark(model, s, at, list as u8 + 1, list);
    }
    enter(s, at, list, 1);
    let t = &mut s.tries[list];
    t.view = 1;
    t.members[..NAMES].copy_from_slice(&l.asked);
    true
}

/// Whether an incarnation runs and has installed the last view of a cell.
pub(super) fn is_present(s: &State, cell: usize, who: Life) -> bool {
    let t = &s.tries[cell];
    let p = |who| &s.processes[slot_of(who)];
    s.runs(who) && usize::from(p(who).instance) == cell + 1 && p(who).view == t.view && t.members.contains(&who)
}

fn change(model: &Founding, s: &mut State, cell: usize, present: u8, joiner: Option<usize>) -> bool {
    let t = s.tries[cell];
    let stays = |who: Life| who != 0 && present & 1 << slot_of(who) != 0;
    let all: Vec<Life> = t.members.iter().copied().filter(|who| *who != 0).collect();
    let staying: Vec<Life> = all.iter().copied().filter(|who| stays(*who)).collect();
    let possible = staying.len() == present.count_ones() as usize
        && staying.iter().all(|who| is_present(s, cell, *who))
        && is_quorum(&t.members, stays);
    let joins = joiner.is_none_or(|at| {
        let taken = |who: &Life| model.name_of(slot_of(*who)) == model.name_of(at) && at != JOINER;
        s.processes[at].lives && s.processes[at].instance == 0 && !staying.iter().any(taken)
    });
    if t.view > model.views || !possible || !joins || (joiner.is_none() && staying.len() == all.len()) {
        return false;
    }
    let (next, view) = (&mut s.tries[cell], t.view + 1);
    (next.view, next.members) = (view, [0; SLOTS]);
    next.members[..staying.len()].copy_from_slice(&staying);
    for who in &staying {
        s.processes[slot_of(*who)].view = view;
    }
    if let Some(at) = joiner {
        s.tries[cell].members[staying.len()] = s.life(at);
        join(model, s, at, cell, view);
    }
    true
}

/// A member leaves in order, if the remaining members are a quorum of the rest.
fn leave(model: &Founding, s: &mut State, cell: usize, at: usize) -> bool {
    let (t, who) = (s.tries[cell], s.life(at));
    let mut rest = t.members;
    rest.iter_mut().filter(|m| **m == who).for_each(|m| *m = 0);
    let stays = |s: &State, m: Life| m != who && is_present(s, cell, m);
    let agreed = is_quorum(&t.members, |m| is_present(s, cell, m)) && is_quorum(&rest, |m| stays(s, m));
    if t.view > model.views || !is_present(s, cell, who) || !agreed {
        return false;
    }
    let staying: Vec<Life> = rest.iter().copied().filter(|m| *m != 0 && stays(s, *m)).collect();
    let next = &mut s.tries[cell];
    (next.view, next.members) = (t.view + 1, [0; SLOTS]);
    next.members[..staying.len()].copy_from_slice(&staying);
    staying.iter().for_each(|m| s.processes[slot_of(*m)].view = t.view + 1);
    stop(s, at);
    true
}

/// A process joins. A founder syncs its marker before it installs its first view of a cell.
fn join(model: &Founding, s: &mut State, at: usize, cell: usize, view: u8) {
    let p = &mut s.processes[at];
    let unmarked = usize::from(p.memory.mark) != cell + 1;
    if at != JOINER && unmarked && model.lacks(Missing::JoinsUnmarked) {
        p.memory.due = true;
        p.disk.due = true;
    } else if at != JOINER && unmarked {
        set_mark(model, s, at, cell as u8 + 1, cell);
    }
    enter(s, at, cell, view);
}

fn hear(model: &Founding, s: &mut State, at: usize, other: usize) -> bool {
    let (p, o) = (&s.processes[at], &s.processes[other]);
    if at == other || model.name_of(at).is_none() || p.instance != 0 || p.memory.mark != 0 || p.memory.heard != 0 {
        return false;
    }
    // If it is listed in view 1, it learns of that view instead.
    if o.instance == 0 || s.tries[usize::from(o.instance) - 1].asked.contains(&s.life(at)) {
        return false;
    }
    record_hearing(model, s, at, other);
    true
}

fn record_hearing(model: &Founding, s: &mut State, at: usize, other: usize) {
    let who = s.life(other);
    let p = &mut s.processes[at];
    (p.memory.heard, p.lost) = (who, false);
    if model.lacks(Missing::HeardIsForgotten) {
        p.disk.due = true;
    } else {
        p.disk = p.memory;
    }
}

fn forget(s: &mut State, at: usize) {
    let p = &mut s.processes[at];
    (p.promised, p.accepted, p.current, p.instance, p.view) = (0, 0, 0, 0, 0);
}

/// The member that was heard is proved dead.
fn bury(model: &Founding, s: &mut State, at: usize) -> bool {
    let p = &s.processes[at];
    if !model.lacks(Missing::BuriesOne) || p.instance != 0 || p.memory.heard == 0 || s.runs(p.memory.heard) {
        return false;
    }
    let p = &mut s.processes[at];
    p.memory.heard = 0;
    p.disk = p.memory;
    true
}

fn stop(s: &mut State, at: usize) {
    forget(s, at);
    let p = &mut s.processes[at];
    p.lost |= p.memory.holds() && !p.disk.holds();
    (p.lives, p.memory) = (false, super::Disk::default());
}

fn restart(s: &mut State, at: usize) -> bool {
    let p = &mut s.processes[at];
    if p.lives || p.life == 0 || p.life == LIVES {
        return false;
    }
    (p.lives, p.life, p.memory) = (true, p.life + 1, p.disk);
    true
}

fn start_twin(model: &Founding, s: &mut State) -> bool {
    let Some(name) = model.twin else { return false };
    let p = &mut s.processes[TWIN];
    if p.life != 0 {
        return false;
    }
    (p.lives, p.life, p.lost) = (true, 1, true);
    let first = &mut s.processes[name];
    first.lost |= !first.disk.holds();
    if model.twin_hears && s.processes[name].lives && s.processes[name].instance != 0 {
        record_hearing(model, s, TWIN, name);
    }
    true
}

fn empty(model: &Founding, s: &mut State, at: usize) -> bool {
    let p = &mut s.processes[at];
    if !p.disk.holds() || model.name_of(at).is_none() {
        return false;
    }
    s.emptied += 1;
    p.lost |= !p.lives;
    p.disk = super::Disk { id: p.disk.id + 1, ..Default::default() };
    true
}

fn restore(model: &Founding, s: &mut State, at: usize) -> bool {
    let p = &mut s.processes[at];
    if p.disk == p.memory {
        return false;
    }
    if model.lacks(Missing::NotRestored) {
        p.disk.due = true;
    } else {
        p.disk = p.memory;
    }
    true
}
