//! Members that are stopped or cut off until they are excluded, and then die. The operating system reports the death to
//! the others of their host, late or inside a ballot. Their groups need not wait for them any more.

use phalanx_core::rng::Rng;
use phalanx_core::{Incarnation, Membership};

use super::parts::calm;
use crate::clock::{MS, SECOND};
use crate::draw::index;
use crate::fault::{Aim, Busy, Fault, Kind, Role};
use crate::plan::Plan;
use crate::result::add_to;
use crate::world::World;

/// Lets the members of a minority group of `plan` die after their exclusion.
pub(crate) fn add_late_deaths(rng: &mut Rng, plan: &mut Plan) {
    let more = [0, 0, 1, 2][index(rng, 4)];
    calm(plan, more);
    let count = 1 + index(rng, (plan.members - 1) / 2);
    let first = index(rng, plan.members);
    plan.minority = (0..count).map(|step| (first + step) % plan.members).collect();
    // Two machines at most, so that the dead have survivors beside them.
    let machines = if count < plan.members / 2 { 1 + index(rng, 2) as u64 } else { 1 };
    plan.hosts = (0..plan.members as u64).map(|slot| 1 + slot % machines).collect();
    plan.death_notice = true;
    plan.death_delay_ns = Some([0, 200 * MS, 2 * SECOND][index(rng, 3)]);
    let at_ns = 5 * SECOND + rng.below(2 * SECOND);
    let kind = Kind::Strand { stops: rng.chance_ppm(600_000) };
    plan.faults.push(Fault { aim: Aim::At(at_ns), kind, lasts_ns: 8 * SECOND });
    // Most die after the exclusion, some in the middle of the view change that makes it.
    let (from_ns, inside) = (at_ns + 1_300 * MS + rng.below(2_000) * MS, rng.chance_ppm(400_000));
    if inside {
        // A view change takes long enough for a notice to come in the middle of it.
        (plan.weather.base_ns, plan.weather.jitter_ns) = (8 * MS, 4 * MS);
        plan.death_delay_ns = Some([1, 40 * MS][index(rng, 2)]);
    }
    for slot in plan.minority.clone() {
        let aim = if inside {
            let busy = [Busy::Flush, Busy::Proposal][index(rng, 2)];
            Aim::Inside { busy, from_ns: at_ns, after_ns: rng.below(3 * plan.weather.base_ns) }
        } else {
            Aim::At(from_ns + rng.below(500) * MS)
        };
        plan.faults.push(Fault { aim, kind: Kind::Kill(Role::Slot(slot)), lasts_ns: 0 });
    }
    for _ in 0..1 + rng.below(2) {
        let aim = Aim::At(at_ns + SECOND + rng.below(4 * SECOND));
        plan.faults.push(Fault { aim, kind: Kind::FoundAgain, lasts_ns: 0 });
    }
    plan.heal_ns = plan.heal_ns.max(13 * SECOND);
}

/// Counts the circumstances in which a process learns of a death.
pub(crate) fn count_death(world: &mut World, told: usize, dead: Incarnation) {
    let Some(node) = world.slots[told].node.as_ref() else { return };
    let (process, activity) = (node.process(), world.slots[told].activity);
    let Some(view) = process.cell_view().filter(|_| node.membership() == Membership::Primary) else { return };
    let is_out = view.members.iter().all(|member| member.incarnation != dead);
    let waits = process.orphans().any(|(_, holders)| holders.into_iter().any(|(who, _)| who == dead));
    for (met, name) in [
        (is_out, "deaths told after the exclusion"),
        (waits, "deaths told while a group waited for the dead"),
        (activity.flushing, "deaths told inside a ballot"),
    ] {
        if met {
            add_to(&mut world.counters.moments, name, 1);
        }
    }
    if world.settings.death_delay_ns.is_some() {
        let life = world.slots[told].life;
        world.operator.proved.entry(dead).or_default().insert((told, life));
    }
}

/// A process dies and is never started again. Returns false if it does not run, or the cell needs it.
pub(crate) fn kill_for_good(world: &mut World, slot: usize) -> bool {
    if !world.slots[slot].runs() || !world.has_future(Some(slot)) {
        return false;
    }
    world.slots[slot].retired = true;
    world.crash(slot);
    true
}
