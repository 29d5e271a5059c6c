//! Properties of ends with waiting groups: invariants, and states that must be reached.

use stateright::{Model, Property};

use super::config::{Ending, PROCESSES};
use super::rule::is_quorum;
use super::state::{Action, Group, Stage, State, generation_of};

/// See the property.
pub const FREE: &str =
    "no group is founded anew while a process lives that has its last state and did not ask to leave";
/// See the property.
pub const TOLD: &str = "whoever ends and leaves somebody behind with the group's state is told that it is in doubt";
/// See the property.
pub const ONE_NUMBER: &str = "no two views of a group have one number";
/// See the property.
pub const RESOLVED: &str = "a holder that is in the cell can bring the group back, or is struck off";
/// See the property.
pub const CAN_END: &str = "a quorum whose members all asked to leave can end, whoever is cut off";
/// See the property.
pub const CAN_FOUND: &str = "when the last members left and all processes look for the cell, it can be founded";

/// All properties of a model. States that its bounds cannot reach are not required.
pub(super) fn all(model: &Ending) -> Vec<Property<Ending>> {
    let mut all = vec![
        Property::always(FREE, |_, s: &State| !s.usurped),
        Property::always(TOLD, |_, s: &State| !s.silent),
        Property::always(ONE_NUMBER, |_, s: &State| !s.twice),
        Property::always(RESOLVED, resolved),
        Property::always(CAN_END, can_end),
        Property::always(CAN_FOUND, can_found),
    ];
    reached(model, &mut all);
    all
}

fn reached(model: &Ending, all: &mut Vec<Property<Ending>>) {
    all.push(Property::sometimes("a cell ends while a group waits", |_, s: &State| {
        (1..=s.latest()).any(|of| s.of(of).over && matches!(s.of(of).group, Group::Waits(_)))
    }));
    if model.decrees > if model.cut == 0 { 2 } else { 0 } {
        all.push(Property::sometimes("a holder comes back while the last members wait", |_, s: &State| s.returned));
    }
    let begins_again = model.last != 0 || usize::from(model.starts) >= model.founders;
    if model.instances < 2 || !begins_again {
        return;
    }
    // If all processes are in the group, whoever is last ends it with its leave.
    if model.group.count_ones() as usize != model.processes {
        all.push(Property::sometimes("the group waits in the next instance", |_, s: &State| {
            s.latest() > 1 && generation_of(s.of(s.latest()).group.waiting().view) == 1
        }));
        all.push(Property::sometimes("the group comes back in the next instance", |_, s: &State| {
            s.latest() > 1 && generation_of(s.last) > 1 && s.last >> 6 == 1
        }));
    }
    all.push(Property::sometimes("all holders are gone, and the group is founded anew", |_, s: &State| {
        s.last >> 6 == 2 && generation_of(s.last) > 1
    }));
    if model.overdue > 0 {
        all.push(Property::sometimes("a leaver that hears no decree ends in doubt", |_, s: &State| s.doubted));
    }
}

/// Each holder that is in the view in force of an instance in which the group waits.
fn resolved(m: &Ending, s: &State) -> bool {
    (1..=s.latest()).all(|of| {
        let (present, waits) = (s.present(of), s.of(of).group.waiting());
        let can = |p: usize| [Action::Revive(p), Action::Decline(p)].into_iter().any(|a| m.next_state(s, a).is_some());
        (0..PROCESSES).filter(|p| present & waits.holders & 1 << p != 0).all(can)
    })
}

fn can_end(m: &Ending, s: &State) -> bool {
    (1..=s.latest()).filter(|of| !s.of(*of).over).all(|of| {
        let (present, members) = (s.present(of), s.of(of).members);
        let ending = present != 0 && present == members && present & !s.leavers() == 0 && s.spent.has_decree(m);
        let end = Action::Decree { of, present, go: present, asked: 0, dead: 0, joins: None };
        let ends = |s: &State| m.next_state(s, end).is_some();
        let waited = m.next_state(s, Action::WaitOver(of));
        !ending || !is_quorum(members, present) || ends(s) || waited.is_some_and(|s| ends(&s))
    })
}

/// If all run and are in no view, the last instance is over, and one of its last members recorded that.
fn can_found(m: &Ending, s: &State) -> bool {
    let latest = s.latest();
    let all = (0..m.processes).all(|p| s.searches(p));
    let recorded = s.processes.iter().any(|p| p.stage == Stage::Searching && p.record.ended && p.record.end == latest);
    !all || !recorded || latest >= m.instances || m.next_state(s, Action::Found(true)).is_some()
}
