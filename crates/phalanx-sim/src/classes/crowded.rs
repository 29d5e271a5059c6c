//! Hundreds of groups, all at one or two members. These are lost for a while, so that their groups wait at once, and
//! others ask for a new group meanwhile.

use phalanx_core::rng::Rng;

use super::Crowd;
use super::parts::calm;
use crate::clock::{MS, SECOND};
use crate::draw::index;
use crate::fault::{Aim, Fault, Kind, Role, Shape};
use crate::plan::Plan;
use crate::result::add_to;
use crate::world::World;

/// Numbers of groups: more than may wait at a time, and more than one list of requests holds. Few seeds have so many: the
/// core looks up a group by its name in a list, and each such seed costs as much as twenty ordinary ones.
const GROUPS: [usize; 2] = [300, 1_100];
const MORE_PPM: u32 = 20_000;

/// Number of waiting groups from which on no group is made, and number of groups in one list of requests.
const MANY: [(usize, &str); 2] =
    [(256, "seconds in which 256 groups and more waited"), (1_024, "seconds in which 1,024 groups and more waited")];

/// Makes `plan` a cell with many groups whose members are lost. Nothing else strikes, and few multicasts are sent.
pub(crate) fn crowd(rng: &mut Rng, plan: &mut Plan) {
    calm(plan, 0);
    let groups = GROUPS[usize::from(rng.chance_ppm(MORE_PPM))];
    let count = if plan.members > 3 { 1 + index(rng, 2) } else { 1 };
    let first = index(rng, plan.members);
    let holders: Vec<usize> = (0..count).map(|step| (first + step) % plan.members).collect();
    plan.workload.gap_ns = SECOND;
    (plan.workload.long_ppm, plan.workload.state_bytes, plan.workload.operations_ppm) = (0, 0, 0);
    plan.workload.to_one_ppm = 0;
    (plan.workload.ask_ppm, plan.workload.submit_ppm) = (0, 0);
    let at_ns = 5 * SECOND + rng.below(SECOND);
    let lasts_ns = 3_000 * MS + rng.below(2_000) * MS;
    let how = rng.below(4);
    for slot in &holders {
        let role = Role::Slot(*slot);
        let kind = match how {
            0 | 1 => Kind::Cut(Shape::Isolate(role)),
            2 => Kind::Pause(role),
            _ => Kind::Crash { role, back_ns: rng.chance_ppm(500_000).then_some(lasts_ns), moved: false },
        };
        plan.faults.push(Fault { aim: Aim::At(at_ns), kind, lasts_ns });
    }
    if rng.chance_ppm(700_000) {
        let asker = Role::Slot((first + count) % plan.members);
        let aim = Aim::At(at_ns + 1_300 * MS + rng.below(500) * MS);
        plan.faults.push(Fault { aim, kind: Kind::AskNew(asker), lasts_ns: 0 });
    }
    plan.heal_ns = at_ns + 5 * SECOND;
    plan.crowd = Some(Crowd { groups, holders });
}

/// Counts a second in which many groups wait.
pub(crate) fn count_waiting(world: &mut World) {
    let waiting = waiting(world);
    for (_, name) in MANY.into_iter().filter(|(many, _)| waiting >= *many) {
        add_to(&mut world.counters.moments, name, 1);
    }
}

/// The most groups of whose waiting a process knows.
pub(crate) fn waiting(world: &World) -> usize {
    let nodes = world.slots.iter().filter_map(|slot| slot.node.as_ref());
    nodes.map(|node| node.process().orphans().count()).max().unwrap_or(0)
}

/// A process asks for a group that does not exist.
pub(crate) fn ask_new(world: &mut World, slot: usize) {
    world.note(Some(slot), "wants to be in group \"new\"");
    if waiting(world) >= MANY[0].0 {
        add_to(&mut world.counters.moments, "groups asked for while 256 and more waited", 1);
    }
    world.settings.askers.push(slot);
}
