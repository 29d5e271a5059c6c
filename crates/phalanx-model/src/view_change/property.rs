//! Properties of a view change: invariants, and states that must be reached.

use stateright::Property;

use super::ViewChange;
use super::config::{Config, STREAMS};
use super::nonsense;
use super::state::{BROKE_GATE, BROKE_SURVIVORS, Phase, Proposal, State, Try};

/// One decision per decree.
pub const ONE_DECISION: &str = "one decision per decree";
/// See the property.
pub const SAME_DELIVERIES: &str = "members of the next view delivered the same";
/// See the property.
pub const UNIFORM: &str = "a uniform message delivered by anybody is delivered by all that install the next view";
/// See the property.
pub const GATE: &str = "nothing is acknowledged outside of an installed unwedged view";
/// See the property.
pub const REPORT: &str = "nothing beyond the report is delivered before the decision";
/// See the property.
pub const SURVIVORS: &str = "survivors are reporters";
/// See the property.
pub const REACHABLE: &str = "what was accepted can be completed by all it names";
/// See the property.
pub const QUORUM: &str = "what is installed was accepted by a quorum";
/// See the property.
pub const SKIPPED: &str = "nobody acts upon, acknowledges or delivers what makes no sense to it, nor what follows";
/// See the property.
pub const CAN_FINISH: &str = "a ballot whose members live can be decided";
/// See the property.
pub const KEEPERS: &str = "a group that goes on keeps members with its state";
/// See the property.
pub const FEWER: &str = "those that take the state anew are no more than those that keep it";
/// See the property.
pub const BLAME: &str = "who is alone with it is at fault: one reader, or the sender";
/// See the property.
pub const TAKE_OVER: &str = "a take-over decides what an earlier coordinator proposed";

/// All properties of a model. States that its bounds cannot reach are not required.
pub(super) fn all(config: &Config) -> Vec<Property<ViewChange>> {
    let mut all = vec![
        Property::always(ONE_DECISION, one_decision),
        Property::always(SAME_DELIVERIES, same_deliveries),
        Property::always(UNIFORM, uniform),
        Property::always(GATE, |_: &ViewChange, s: &State| s.broken & BROKE_GATE == 0),
        Property::always(REPORT, report),
        Property::always(SURVIVORS, |_: &ViewChange, s: &State| s.broken & BROKE_SURVIVORS == 0),
        Property::always(REACHABLE, reachable),
        Property::always(QUORUM, quorum),
        Property::sometimes("a view is installed by all that are in it", all_installed),
    ];
    if !config.poisoned.is_empty() {
        all.extend(nonsense::all(config));
    }
    if config.ballots > 1 && config.processes > 2 {
        all.push(Property::sometimes(TAKE_OVER, take_over));
        all.push(Property::sometimes("a take-over decides its own proposal", own_take_over));
        all.push(Property::sometimes("rivals both propose", |_: &ViewChange, s: &State| {
            s.ballots.iter().filter(|b| b.phase == Phase::Proposing).count() > 1
        }));
    }
    if config.crashes > 0 && config.processes > 2 {
        all.push(Property::sometimes("a view is installed after a crash", |_: &ViewChange, s: &State| {
            s.crashes > 0 && s.members.iter().any(|m| m.lives && m.installed)
        }));
    }
    if !config.senders.is_empty() && config.group.count_ones() > 2 {
        all.push(Property::sometimes("a cut is filled", |_: &ViewChange, s: &State| {
            s.ballots.iter().any(|b| b.phase == Phase::Filling)
        }));
        all.push(Property::sometimes("a view ends with a message in its cut", |_: &ViewChange, s: &State| {
            s.decisions().any(|p| p.ends && p.cut != [0; STREAMS])
        }));
    }
    if config.uniform.iter().flatten().any(|u| *u) {
        all.push(Property::sometimes(
            "a uniform message is delivered before the view change",
            |m: &ViewChange, s: &State| {
                s.ballots.iter().all(|b| b.phase == Phase::None) && most_uniform(&m.config, s) != [0; STREAMS]
            },
        ));
    }
    if config.senders.len() > 1 && config.processes > 3 && config.senders.iter().all(|&s| s > 0) {
        all.push(Property::sometimes("a message is discarded with its past", |m: &ViewChange, s: &State| {
            let discards = |p: &Proposal, r: usize| s.members[r].delivered.iter().zip(p.cut).any(|(&d, cut)| d < cut);
            s.decisions().any(|p| p.ends && installed(&m.config, s).any(|r| discards(p, r)))
        }));
    }
    all
}

/// Members of the group that installed a view which ends it and keep its state, alive or not.
fn installed<'a>(config: &'a Config, s: &'a State) -> impl Iterator<Item = usize> + 'a {
    let keeps = |r: usize| {
        let m = &s.members[r];
        let p = || &s.ballot(m.decided).proposal;
        m.installed && !m.anew && (m.decided == 0 || !p().ends || p().keep(config.group) & 1 << r != 0)
    };
    (0..config.processes).filter(move |&r| config.is_member(r) && keeps(r))
}

fn one_decision(_: &ViewChange, s: &State) -> bool {
    let mut decisions = s.decisions();
    let first = decisions.next();
    decisions.all(|p| Some(p) == first)
}

fn same_deliveries(m: &ViewChange, s: &State) -> bool {
    let ends = s.decisions().any(|p| p.ends);
    let mut delivered = installed(&m.config, s).map(|r| s.members[r].delivered);
    let first = delivered.next();
    !ends || delivered.all(|d| Some(d) == first)
}

/// For each stream, the last uniform message that some member delivered.
fn most_uniform(config: &Config, s: &State) -> [u8; STREAMS] {
    let mut most = [0; STREAMS];
    for (stream, kinds) in config.uniform.iter().enumerate() {
        for (index, _) in kinds.iter().enumerate().filter(|(_, uniform)| **uniform) {
            let number = index as u8 + 1;
            if s.members.iter().any(|m| m.delivered[stream] >= number) {
                most[stream] = number;
            }
        }
    }
    most
}

fn uniform(m: &ViewChange, s: &State) -> bool {
    if !s.decisions().any(|p| p.ends) {
        return true;
    }
    let most = most_uniform(&m.config, s);
    // Where no member of the group stays, no delivery is required.
    let goes_on = |p: &&Proposal| p.keep(m.config.group) != 0;
    let in_cut = s.decisions().filter(goes_on).all(|p| p.cut.iter().zip(most).all(|(&cut, most)| cut >= most));
    in_cut && installed(&m.config, s).all(|r| s.members[r].delivered.iter().zip(most).all(|(&d, most)| d >= most))
}

fn report(_: &ViewChange, s: &State) -> bool {
    s.members.iter().filter(|m| m.lives && m.wedged).all(|m| m.delivered.iter().zip(m.told).all(|(&d, told)| d <= told))
}

fn reachable(m: &ViewChange, s: &State) -> bool {
    let completable = |b: &Try| {
        let p = &b.proposal;
        let needs = |r: &usize| {
            let me = &s.members[*r];
            me.lives && !me.installed && p.keep(m.config.group) & 1 << r != 0
        };
        let holds = |r: usize| (0..STREAMS).all(|stream| nonsense::could_read(m, s, r, stream) >= p.cut[stream]);
        b.accepters == 0 || !p.ends || (0..m.config.processes).filter(needs).all(holds)
    };
    s.ballots.iter().all(completable)
}

fn quorum(m: &ViewChange, s: &State) -> bool {
    s.members.iter().all(|me| !me.installed || me.decided == 0 || m.config.is_quorum(s.ballot(me.decided).accepters))
}

fn all_installed(_: &ViewChange, s: &State) -> bool {
    let done = |p: &Proposal| (0..).zip(&s.members).all(|(r, m)| p.survivors & 1 << r == 0 || m.installed);
    s.decisions().any(done)
}

/// Whether a decided ballot's proposal was built by another coordinator.
fn take_over(m: &ViewChange, s: &State) -> bool {
    decided_by(m, s).any(|(by, built_by, _)| by != built_by)
}

fn own_take_over(m: &ViewChange, s: &State) -> bool {
    decided_by(m, s).any(|(by, built_by, others)| by == built_by && others)
}

/// For each decided ballot: its coordinator, the builder of its proposal, and whether an earlier ballot had another
/// coordinator.
fn decided_by<'a>(m: &'a ViewChange, s: &'a State) -> impl Iterator<Item = (usize, usize, bool)> + 'a {
    (1..).zip(&s.ballots).filter(|(_, b)| b.phase == Phase::Decided).map(|(number, b)| {
        let by = m.config.coordinator_of(number);
        let others = (1..number).any(|n| s.ballot(n).phase != Phase::None && m.config.coordinator_of(n) != by);
        (by, m.config.coordinator_of(b.proposal.origin), others)
    })
}
