//! Properties of founding: invariants, and states that must be reached.

use stateright::Property;

use super::rule::{is_confirmed, is_quorum, takes_part};
use super::state::{Phase, State, Try, slot_of};
use super::{BALLOTS, Founding, JOINER, Missing, TWIN, step};

/// See the property.
pub const ONE_PRIMARY: &str = "there are never two primaries";
/// See the property.
pub const ONE_LIST: &str = "one list at most is confirmed";
/// A founding whose founders are all present can be finished by them.
pub const CAN_FINISH: &str = "founders that all live and hear each other can found";

/// All properties of a model. States that its bounds cannot reach are not required.
pub(super) fn all(model: &Founding) -> Vec<Property<Founding>> {
    let mut all = vec![
        Property::always(ONE_PRIMARY, |_, s: &State| (0..BALLOTS).filter(|cell| is_primary(s, *cell)).count() < 2),
        Property::always(ONE_LIST, |m: &Founding, s: &State| s.tries.iter().filter(|t| is_confirmed(m, t)).count() < 2),
        Property::always(CAN_FINISH, can_finish),
    ];
    if model.lists.iter().any(|list| *list != model.lists[0]) {
        return all;
    }
    all.push(Property::sometimes("all that are listed install view 1", |m: &Founding, s: &State| {
        (0..BALLOTS).any(|cell| {
            let t = &s.tries[cell];
            t.view == 1 && t.asked[..m.names()].iter().all(|who| step::is_present(s, cell, *who))
        })
    }));
    if model.ballots > 1 {
        all.push(Property::sometimes("a list is adopted", |_, s: &State| {
            adopted(s).any(|t| t.phase == Phase::Decided)
        }));
    }
    if model.ballots > 1 && model.crashes > 0 {
        all.push(Property::sometimes("a founder confirms a list without itself", |m: &Founding, s: &State| {
            adopted(s).filter(|t| t.phase == Phase::Decided).any(|t| {
                let list = &s.tries[usize::from(t.proposal) - 1];
                (0..m.names()).any(|n| list.asked[n] != t.asked[n] && has_mark(s, t, n))
            })
        }));
    }
    if model.ballots > 1 && usize::from(model.crashes) + 1 >= model.names() {
        all.push(Property::sometimes("a list is overruled", |m: &Founding, s: &State| {
            let fresh = |(at, t): (usize, &Try)| usize::from(t.proposal) == at + 1 && is_confirmed(m, t);
            s.tries.iter().enumerate().filter(|(_, t)| t.confirmed != 0).count() > 1
                && s.tries.iter().enumerate().any(fresh)
        }));
    }
    if model.views > 0 && model.crashes > 0 {
        all.push(Property::sometimes("a founder starts again and is taken in", |_, s: &State| {
            (0..JOINER).any(|slot| s.processes[slot].life > 1 && s.processes[slot].view > 1)
        }));
    }
    if model.views > 2 && model.joiner {
        all.push(Property::sometimes("a cell goes on without founders", |_, s: &State| {
            (0..BALLOTS).any(|cell| {
                let members = &s.tries[cell].members;
                is_primary(s, cell) && members.iter().all(|who| *who == 0 || slot_of(*who) == JOINER)
            })
        }));
    }
    if model.emptied > 0 && model.crashes > 0 {
        all.push(Property::sometimes("a directory is emptied, and holds a mark again", |_, s: &State| {
            s.processes.iter().any(|p| p.disk.id > 0 && p.disk.mark != 0)
        }));
    }
    all
}

/// Whether running members of a cell believe to be its primary.
fn is_primary(s: &State, cell: usize) -> bool {
    let t = &s.tries[cell];
    t.view != 0 && is_quorum(&t.members, |who| step::is_present(s, cell, who))
}

fn adopted(s: &State) -> impl Iterator<Item = &Try> {
    s.tries.iter().enumerate().filter(|(at, t)| t.proposal != 0 && usize::from(t.proposal) != at + 1).map(|(_, t)| t)
}

fn has_mark(s: &State, t: &Try, name: usize) -> bool {
    s.runs(t.asked[name]) && s.processes[slot_of(t.asked[name])].memory.mark == t.proposal
}

/// If all founders live, one of each name, one more ballot founds the cell. The exception is a list with a marker and
/// without a living quorum that may have been confirmed: that may be a cell that was lost.
fn can_finish(model: &Founding, state: &State) -> bool {
    let founders = 0..model.names();
    let calm = founders.clone().all(|at| takes_part(model, state, at))
        && state.processes[TWIN].life == 0
        && model.lists.iter().all(|list| *list == model.lists[0])
        && state.begun() < BALLOTS
        && state.tries.iter().all(|t| t.view == 0);
    let lost = |t: &Try| {
        let known = founders.clone().all(|at| state.processes[at].memory.id == t.disks[at]);
        let dead = !is_quorum(&t.first_members(), |who| state.runs(who));
        t.confirmed != 0 && dead && (is_confirmed(model, t) || !known)
    };
    if !calm || state.tries.iter().any(lost) {
        return true;
    }
    let s = &mut state.clone();
    if model.lacks(Missing::MajorityAccepts) || !step::lead(model, s, 0, 7, false) {
        return false;
    }
    let ballot = s.begun() - 1;
    let all = |s: &mut State, act: &dyn Fn(&mut State, usize)| founders.clone().for_each(|at| act(s, at));
    all(s, &|s, at| _ = step::report(model, s, at, ballot));
    step::propose(model, s, 0);
    all(s, &|s, at| _ = step::accept(model, s, at, ballot));
    step::decide(model, s, 0);
    all(s, &|s, at| _ = step::confirm(model, s, at, ballot));
    for list in 0..s.begun() {
        all(s, &|s, at| _ = step::install(model, s, at, list));
    }
    (0..s.begun()).any(|cell| is_primary(s, cell))
}
