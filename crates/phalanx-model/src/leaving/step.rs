//! The steps of the model of leaving.

use super::rule::{may_decide, may_go, may_live};
use super::state::{Process, Record, State, View};
use super::{Action, Leaving, Missing, PROCESSES};

/// Lists all actions that may be possible in a state; [`next`] decides which are.
pub(super) fn list(model: &Leaving, s: &State, actions: &mut Vec<Action>) {
    for at in (0..model.processes).filter(|&at| s.processes[at].lives) {
        actions.extend([Action::Ask(at), Action::Learn(at), Action::Go(at)]);
        if s.lives_in_it(at) && usize::from(s.processes[at].view) <= model.decrees {
            decisions(model, s, at, actions);
        }
        if s.crashes < model.crashes {
            actions.push(Action::Crash(at));
        }
        for other in 0..model.processes {
            actions.extend([Action::Excuse(at, other), Action::See(at, other)]);
        }
    }
    if s.starts < model.starts {
        actions.extend((0..model.processes).filter(|&at| !s.processes[at].lives).map(Action::Start));
    }
    actions.push(Action::Found);
}

/// Every set of members that may hear each other, with every set of requests to leave that may be known.
fn decisions(model: &Leaving, s: &State, by: usize, actions: &mut Vec<Action>) {
    let wants = (0..model.processes).filter(|&at| s.processes[at].wants).fold(0_u8, |set, at| set | 1 << at);
    for present in (1..1 << model.processes).filter(|set| set & 1 << by != 0) {
        for leavers in (0..1 << model.processes).filter(|set: &u8| set & !wants == 0) {
            actions.push(Action::Decide(by, present, leavers, None));
            let joiners = (0..model.processes).filter(|&at| s.searches(at));
            actions.extend(joiners.map(|at| Action::Decide(by, present, leavers, Some(at))));
        }
    }
}

/// The state after an action; `None` if it is not possible, or changes nothing.
pub(super) fn next(model: &Leaving, state: &State, action: Action) -> Option<State> {
    let mut next = state.clone();
    let s = &mut next;
    let done = match action {
        Action::Ask(at) => {
            let asks = s.lives_in_it(at);
            s.processes[at].wants |= asks;
            asks
        }
        Action::Decide(by, present, leavers, joiner) => decide(model, s, by, present, leavers, joiner),
        Action::Learn(at) => learn(s, at),
        Action::Go(at) => go(model, s, at),
        Action::Crash(at) => {
            s.crashes += 1;
            let p = &mut s.processes[at];
            *p = Process { life: p.life, record: p.record, ..Process::default() };
            true
        }
        Action::Start(at) => {
            s.starts += 1;
            let p = &mut s.processes[at];
            *p = Process { lives: true, life: p.life + 1, record: p.record, ..Process::default() };
            true
        }
        Action::Excuse(at, other) => {
            let excused = s.searches(other) || s.processes[other].out;
            let record = &mut s.processes[at].record;
            let named = record.ended && record.but & 1 << other != 0;
            record.but &= !(1 << other);
            excused && named
        }
        Action::See(at, other) => see(model, s, at, other),
        Action::Found => {
            let founders = 0..model.founders;
            let found = founders.clone().all(|at| s.searches(at) && !s.processes[at].record.mark);
            founders.for_each(|at| s.processes[at].anew = true);
            found
        }
    };
    (done && next != *state).then_some(next)
}

fn decide(model: &Leaving, s: &mut State, by: usize, present: u8, leavers: u8, joiner: Option<usize>) -> bool {
    let Some(view) = s.view_of(by).copied() else { return false };
    let number = s.processes[by].view;
    let free = |at: usize| {
        let p = &s.processes[at];
        s.lives_in_it(at) && p.view == number && !p.accepted && view.members[at] == p.life
    };
    let among = |set: u8| (0..PROCESSES).filter(move |at| set & 1 << at != 0);
    let known = leavers & !view.set() == 0 && among(present).all(free);
    if !known || !may_decide(model, &view, present, leavers) {
        return false;
    }
    let stays = present & !leavers;
    if stays == 0 && joiner.is_some() || joiner.is_some_and(|at| stays & 1 << at != 0) {
        return false;
    }
    if s.views[usize::from(number)].decided {
        s.split = true; // by others than these
        return true;
    }
    // A decision must change something.
    if stays == view.set() && joiner.is_none() {
        return false;
    }
    let mut next = View { decided: true, accepters: present, ..View::default() };
    let count = view.set().count_ones() as usize;
    let order = view.ranks[..count].iter().copied().filter(|at| stays & 1 << at != 0);
    for (rank, at) in order.chain(joiner.map(|at| at as u8)).enumerate() {
        next.ranks[rank] = at;
        next.members[usize::from(at)] = s.processes[usize::from(at)].life;
    }
    s.dropped |= next.set() == 0
        && (0..PROCESSES).any(|at| {
            let p = &s.processes[at];
            view.members[at] == p.life && s.lives_in_it(at) && !p.wants
        });
    s.views[usize::from(number)] = next;
    among(present).for_each(|at| s.processes[at].accepted = true);
    learn(s, by)
}

/// A decision may be learned from any process that knew it, alive or not, or from a quorum of the view before.
fn learn(s: &mut State, at: usize) -> bool {
    let (number, number_next) = (s.processes[at].view, s.processes[at].view + 1);
    let life = s.processes[at].life;
    if s.searches(at) {
        // A joiner learns of the last view if that holds it.
        let last = s.last();
        let joins = last > 0 && s.views[last].members[at] == life && s.views[last].installed & 1 << at == 0;
        return joins && install(s, at, last as u8 + 1);
    }
    let Some(next) = s.following(at).copied() else { return false };
    if s.processes[at].out || number == 0 {
        return false;
    }
    if next.members[at] == life {
        return install(s, at, number_next);
    }
    let p = &mut s.processes[at];
    if p.wants {
        (p.out, p.accepted, p.record.left) = (true, false, true);
    } else if next.set() != 0 && !next.is_quorum(next.set(), next.installed) {
        return false; // an excluded member learns of it late, too
    } else {
        // It was excluded, and continues as a new incarnation.
        *p = Process { lives: true, life: life + 1, record: p.record, ..Process::default() };
    }
    true
}

fn install(s: &mut State, at: usize, number: u8) -> bool {
    let p = &mut s.processes[at];
    (p.view, p.accepted) = (number, false);
    p.record = Record { mark: true, ..Record::default() };
    s.views[usize::from(number) - 1].installed |= 1 << at;
    true
}

fn go(model: &Leaving, s: &mut State, at: usize) -> bool {
    let Some(next) = s.following(at).copied() else { return false };
    if !s.processes[at].out || !may_go(model, &next) {
        return false;
    }
    let (but, life) = (may_live(model, s, at), s.processes[at].life);
    s.views.iter_mut().filter(|view| view.members[at] == life).for_each(|view| view.gone |= 1 << at);
    let p = &mut s.processes[at];
    let mut record = p.record;
    if next.set() == 0 {
        (record.ended, record.but) = (true, but);
    }
    record.mark &= !model.lacks(Missing::LeaverClears);
    *p = Process { life: p.life, gone: true, record, ..Process::default() };
    true
}

fn see(model: &Leaving, s: &mut State, at: usize, other: usize) -> bool {
    let told = s.processes[other].lives && s.processes[other].record.ended && s.processes[other].record.but == 0;
    let left = |at: usize| s.searches(at) && s.processes[at].record.left;
    let assumed = model.lacks(Missing::AllFoundersLeft) && (0..model.founders).all(left);
    if !s.searches(at) || !s.processes[at].record.mark || !(told || assumed) {
        return false;
    }
    s.processes[at].record = Record { ended: true, ..Record::default() };
    true
}
