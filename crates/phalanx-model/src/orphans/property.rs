//! Properties of orphans: invariants, and states that must be reached.

use stateright::{Model, Property};

use super::state::Entry;
use super::{Action, Orphans, State};

/// See the property.
pub const UNIFORM: &str = "a uniform message that anybody delivered is in the state of all later views of the group";
/// See the property.
pub const SAME: &str = "whoever is complete in a view began it with the same state";
/// See the property.
pub const HISTORY: &str = "a view begins with the state of the one before and messages of that one";
/// See the property.
pub const FORGET: &str = "nobody is told to forget a uniform message";
/// See the property.
pub const FREE: &str = "the name is free only when nobody lives who has the state of the last view";
/// See the property.
pub const LIVE: &str = "a group that is no orphan has a member that is complete";
/// See the property.
pub const RESOLVED: &str =
    "an orphan lists all who live and have its state, and whoever is back can revive it or say no";

/// See the property.
pub const GOES: &str = "the last member that is complete may leave observers behind";

/// All properties of a model. States that its bounds cannot reach are not required.
pub(super) fn all(model: &Orphans) -> Vec<Property<Orphans>> {
    let mut all = vec![
        Property::always(UNIFORM, uniform_kept),
        Property::always(SAME, |_, s: &State| {
            let began = s.processes.iter().filter(|p| p.complete && p.view != 0);
            began.into_iter().all(|p| s.view(p.view).is_some_and(|v| v.start == p.base))
        }),
        Property::always(HISTORY, |m: &Orphans, s: &State| {
            (2..=s.decided).all(|v| {
                let (before, next) = (s.views[usize::from(v) - 2], s.views[usize::from(v) - 1]);
                let news = sent_in(m, s, |view| view == v - 1);
                let grows = before.start & !next.start == 0 && next.start & !(before.start | news) == 0;
                if next.life == before.life { grows } else { next.start == 0 }
            })
        }),
        Property::always(FORGET, |m: &Orphans, s: &State| s.forgotten & m.uniform() == 0),
        Property::always(FREE, |m: &Orphans, s: &State| {
            !s.usurped && (s.entry != Entry::Free || !(0..m.processes).any(|p| s.has_state(p)))
        }),
        Property::always(LIVE, |m: &Orphans, s: &State| {
            let complete =
                |p: usize| s.last().members & 1 << p != 0 && s.processes[p].complete && s.last().joined & 1 << p == 0;
            let joined = |p: usize| s.processes[p].view == s.decided && s.processes[p].complete;
            s.entry != Entry::Live || (0..m.processes).any(|p| complete(p) || joined(p))
        }),
        Property::always(RESOLVED, resolved),
        Property::always(GOES, goes),
    ];
    reached(model, &mut all);
    all
}

fn reached(model: &Orphans, all: &mut Vec<Property<Orphans>>) {
    let members = (model.members & !model.observers).count_ones();
    all.push(Property::sometimes("an orphan", |_, s: &State| matches!(s.entry, Entry::Orphan(_))));
    if model.returns == 0 || model.views < 2 {
        return;
    }
    all.push(Property::sometimes("an orphan is revived", |_, s: &State| s.last().holders != 0));
    if members > 1 {
        all.push(Property::sometimes("one of two holders revives", |_, s: &State| s.last().holders.count_ones() > 1));
    }
    if model.messages.iter().any(|(_, uniform)| *uniform) {
        all.push(Property::sometimes(
            "a uniform message is delivered after its view was orphaned",
            |m: &Orphans, s: &State| {
                let delivers = |p: usize, n: usize| m.next_state(s, Action::Deliver(p, n)).is_some();
                let now = |p: usize| (0..m.messages.len()).any(|n| s.messages[n].view == s.decided && delivers(p, n));
                matches!(s.entry, Entry::Orphan(_)) && (0..m.processes).any(|p| s.processes[p].complete && now(p))
            },
        ));
    }
    if model.returns > 1 && members > 1 && model.messages.iter().any(|(_, uniform)| !uniform) {
        all.push(Property::sometimes(
            "two holders are back, one with more plain messages",
            |m: &Orphans, s: &State| {
                let Entry::Orphan(holders) = s.entry else { return false };
                let ready = |p: usize| {
                    holders & 1 << p != 0 && is_back(s, p) && s.has_state(p) && s.processes[p].view == s.decided
                };
                let plain = |p: usize| s.processes[p].delivered & !m.uniform();
                (0..m.processes).any(|p| (0..m.processes).any(|q| ready(p) && ready(q) && plain(p) & !plain(q) != 0))
            },
        ));
    }
    if model.crashes > 0 {
        all.push(Property::sometimes("the holders are proved dead, and the name is free", |m: &Orphans, s: &State| {
            let gone = |p: usize| !s.processes[p].lives && s.processes[p].proved && !s.processes[p].in_cell;
            s.entry == Entry::Free && (0..m.processes).any(|p| s.last().members & 1 << p != 0 && gone(p))
        }));
    }
    let joins = |p: usize| model.members & 1 << p == 0 && !model.observes(p);
    let joiner = (0..model.processes).any(joins) && model.views > 2;
    if model.observers & model.members != 0 {
        all.push(Property::sometimes("an observer stayed, and the others are holders", |m: &Orphans, s: &State| {
            let Entry::Orphan(holders) = s.entry else { return false };
            let observes = |p: usize| m.observes(p) && s.processes[p].in_cell && s.last().members & 1 << p != 0;
            holders & m.observers == 0 && (0..m.processes).any(observes)
        }));
    }
    if model.incomplete != 0 || joiner {
        all.push(Property::sometimes("an incomplete member stayed in the primary", |m: &Orphans, s: &State| {
            let Entry::Orphan(holders) = s.entry else { return false };
            let out = s.last().members & !holders;
            (0..m.processes).any(|p| out & 1 << p != 0 && s.processes[p].in_cell && s.processes[p].wedged)
        }));
        all.push(Property::sometimes("a holder is back and is incomplete", |m: &Orphans, s: &State| {
            let Entry::Orphan(holders) = s.entry else { return false };
            (0..m.processes).any(|p| holders & 1 << p != 0 && is_back(s, p) && !s.processes[p].complete)
        }));
    }
    if model.views > 2 {
        all.push(Property::sometimes("revived by who had not installed the orphaned view", |_, s: &State| {
            (2..=s.decided).any(|v| s.view(v).is_some_and(|view| view.late))
        }));
        all.push(Property::sometimes("orphaned twice", |_, s: &State| {
            let revived = (2..=s.decided).any(|v| s.view(v).is_some_and(|view| view.holders != 0 && view.life == 1));
            matches!(s.entry, Entry::Orphan(_)) && revived && s.last().life == 1
        }));
        if model.returns > 1 && members > 1 && model.messages.iter().any(|(_, uniform)| !uniform) {
            all.push(Property::sometimes(
                "somebody takes the state anew and forgets a plain message",
                |_, s: &State| s.forgotten != 0,
            ));
        }
    }
}

fn is_back(s: &State, p: usize) -> bool {
    s.processes[p].lives && s.processes[p].in_cell
}

/// The messages that were sent in these views.
fn sent_in(model: &Orphans, s: &State, views: impl Fn(u8) -> bool) -> u8 {
    let sent = (0..model.messages.len()).filter(|&m| s.messages[m].view != 0 && views(s.messages[m].view));
    sent.fold(0, |set, m| set | 1 << m)
}

fn uniform_kept(m: &Orphans, s: &State) -> bool {
    (2..=s.decided).all(|v| {
        let view = s.views[usize::from(v) - 1];
        let before = |number: u8| number < v && s.view(number).is_some_and(|sent| sent.life == view.life);
        s.uniform & sent_in(m, s, before) & !view.start == 0
    })
}

fn goes(m: &Orphans, s: &State) -> bool {
    let members = s.last().members;
    let reports = |p: usize| {
        let process = &s.processes[p];
        process.lives && process.in_cell && !process.frozen && process.view == s.decided
    };
    let asks = s.entry == Entry::Live && s.leaves < m.leaves && m.observers & members != 0;
    let all_report = || (0..m.processes).filter(|p| members & 1 << p != 0).all(reports);
    if !asks || !all_report() {
        return true;
    }
    let last = members & !m.observers;
    let alone = last.count_ones() == 1 && (0..m.processes).all(|p| last & 1 << p == 0 || s.processes[p].complete);
    let stay = members & m.observers;
    !alone || m.next_state(s, Action::Decree { stay, leaves: last, joins: None }).is_some()
}

fn resolved(m: &Orphans, s: &State) -> bool {
    let Entry::Orphan(holders) = s.entry else { return true };
    let has = (0..m.processes).filter(|&p| s.has_state(p));
    let listed = has.into_iter().all(|p| holders & 1 << p != 0);
    // Reaching the bound on views is no violation.
    let open = s.decided >= m.views;
    let can = |p: usize| {
        let mut steps = [Action::Revive(p), Action::CatchUp(p), Action::Decline(p)].into_iter();
        steps.any(|step| m.next_state(s, step).is_some())
    };
    let back = |p: usize| holders & 1 << p != 0 && is_back(s, p);
    listed && (0..m.processes).filter(|&p| back(p)).all(|p| can(p) || (open && s.has_state(p)))
}
