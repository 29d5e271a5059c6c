//! An orderly stop of a majority, while the members of a group are cut off or stopped, or were excluded. Then all are
//! started again, and those that were away come back.

use phalanx_core::rng::Rng;

use super::crowded::waiting;
use super::parts::calm;
use crate::clock::{MS, SECOND};
use crate::draw::index;
use crate::fault::{Aim, Fault, Kind};
use crate::plan::Plan;
use crate::result::add_to;
use crate::workload::MINORITY;
use crate::world::World;

/// Lets the majority of `plan` leave while the members of a minority group are away.
pub(crate) fn add_stop(rng: &mut Rng, plan: &mut Plan) {
    let more = [0, 0, 0, 1][index(rng, 4)];
    calm(plan, more);
    let count = 1 + index(rng, (plan.members - 1) / 2);
    plan.minority = (plan.members - count..plan.members).collect();
    // The founders leave, so that they can found the next instance.
    plan.founders = (2 + index(rng, 2)).min(plan.members - count);
    let at_ns = 5 * SECOND + rng.below(2 * SECOND);
    let stops = rng.chance_ppm(300_000);
    // Up to the suspicion the minority is a member that is cut off; after it, its group waits.
    let until_leave_ns = [200, 600, 1_000, 2_500][index(rng, 4)] * MS + rng.below(300) * MS;
    // Within the time that the last members wait, and beyond it: then the cell ends, and the next one begins with their group.
    let lasts_ns = until_leave_ns + [300 * MS, SECOND, 4 * SECOND, 9 * SECOND, 14 * SECOND][index(rng, 5)];
    plan.faults.push(Fault { aim: Aim::At(at_ns), kind: Kind::Strand { stops }, lasts_ns });
    if rng.chance_ppm(300_000) {
        let aim = Aim::At(at_ns + until_leave_ns / 2);
        plan.faults.push(Fault { aim, kind: Kind::FoundAgain, lasts_ns: 0 });
    }
    plan.faults.push(Fault { aim: Aim::At(at_ns + until_leave_ns), kind: Kind::StopMajority, lasts_ns: 0 });
    plan.heal_ns = plan.heal_ns.max(at_ns + lasts_ns + 5 * SECOND);
}

/// Orders all processes outside of the minority group to leave. They are started again when all of them are gone.
pub(crate) fn stop_majority(world: &mut World) -> bool {
    // Those that asked for the group later belong to the majority.
    let is_spared =
        |slot: &usize| *slot >= world.settings.founders && world.slots[*slot].app.member_of(MINORITY).is_some();
    let spared: Vec<usize> = world.settings.minority.iter().copied().filter(is_spared).collect();
    if spared.is_empty() {
        return false;
    }
    let waits = waiting(world) > 0;
    let is_member = |slot: &usize| {
        let who = world.slots[*slot].incarnation();
        who.is_some_and(|who| world.last_view().is_some_and(|view| view.members.iter().any(|m| m.incarnation == who)))
    };
    let is_in = spared.iter().any(is_member);
    if !world.disband(spared) {
        return false;
    }
    for (met, name) in [
        (waits, "majorities that left in order while a group waited"),
        (is_in && !waits, "majorities that left in order while a member was cut off"),
    ] {
        if met {
            add_to(&mut world.counters.moments, name, 1);
        }
    }
    true
}
