//! Graceful leaves at the worst moment: during state transfers, and while another member is silent.

use phalanx_core::rng::Rng;

use crate::clock::{MS, SECOND};
use crate::draw::index;
use crate::fault::{Aim, Busy, Fault, Kind, Role, Shape};
use crate::plan::Plan;

/// Adds leaves to some seeds: beside transfers, and beside members that are stopped, cut off, deaf or mute.
pub(crate) fn add_leaving(rng: &mut Rng, plan: &mut Plan) {
    if !rng.chance_ppm(150_000) || plan.mild || plan.members < 3 {
        return;
    }
    for _ in 0..1 + rng.below(3) {
        let at_ns = 3 * SECOND + rng.below(plan.heal_ns - 6 * SECOND);
        if rng.chance_ppm(500_000) {
            let who = if rng.chance_ppm(500_000) { Role::Donor } else { Role::Bystander };
            leave_in_transfer(rng, plan, at_ns, who);
        } else {
            let leavers = 1 + index(rng, 3);
            leave_beside_silence(rng, plan, at_ns, leavers);
        }
    }
}

/// A member leaves a group and rejoins it with state; while that is under way, `who` leaves the cell.
pub(crate) fn leave_in_transfer(rng: &mut Rng, plan: &mut Plan, at_ns: u64, who: Role) {
    let regroup = Kind::Regroup(Role::Slot(index(rng, plan.members)));
    plan.faults.push(Fault { aim: Aim::At(at_ns), kind: regroup, lasts_ns: 0 });
    let aim = Aim::Inside { busy: Busy::Transfer, from_ns: at_ns, after_ns: rng.below(8 * plan.weather.base_ns) };
    plan.faults.push(Fault { aim, kind: Kind::Leave { role: who, back_ns: back_ns(rng) }, lasts_ns: 0 });
}

/// One member is silent for 0.3 to 3 s, and `leavers` others leave meanwhile.
pub(crate) fn leave_beside_silence(rng: &mut Rng, plan: &mut Plan, at_ns: u64, leavers: usize) {
    let first = index(rng, plan.members);
    let silent = Role::Slot(first);
    let kind = match rng.below(4) {
        0 => Kind::Cut(Shape::Isolate(silent)),
        1 => Kind::Cut(Shape::Mute(silent)),
        2 => Kind::Cut(Shape::Deaf(silent)),
        _ => Kind::Pause(silent),
    };
    let lasts_ns = 300 * MS + rng.below(2_700) * MS;
    plan.faults.push(Fault { aim: Aim::At(at_ns), kind, lasts_ns });
    for step in 1..=leavers {
        let aim = Aim::At(at_ns + rng.below(lasts_ns));
        let role = Role::Slot((first + step) % plan.members);
        plan.faults.push(Fault { aim, kind: Kind::Leave { role, back_ns: back_ns(rng) }, lasts_ns: 0 });
    }
}

fn back_ns(rng: &mut Rng) -> Option<u64> {
    rng.chance_ppm(700_000).then(|| 100 * MS + rng.below(2 * SECOND))
}
