//! Groups all of whose members are in a minority: cut off from the others, or stopped, and back later.

use phalanx_core::rng::Rng;

use crate::clock::{MS, SECOND};
use crate::draw::index;
use crate::fault::{Aim, Fault, Kind, Role, Shape};
use crate::plan::Plan;

/// Gives some seeds a minority group, and strands it.
pub(crate) fn add_stranded(rng: &mut Rng, plan: &mut Plan) {
    if rng.chance_ppm(200_000) && !plan.mild && plan.members >= 3 {
        strand(rng, plan);
    }
}

/// Cuts off or stops a minority group as a whole, for longer than suspicion takes. In some seeds another process founds
/// a group of its name meanwhile.
fn strand(rng: &mut Rng, plan: &mut Plan) {
    let first = index(rng, plan.members);
    let count = 1 + index(rng, (plan.members - 1) / 2);
    plan.minority = (0..count).map(|step| (first + step) % plan.members).collect();
    for _ in 0..1 + rng.below(2) {
        let at_ns = 4 * SECOND + rng.below(plan.heal_ns - 8 * SECOND);
        let lasts_ns = 1_500 * MS + rng.below(3_500) * MS;
        let kind = Kind::Strand { stops: rng.chance_ppm(400_000) };
        plan.faults.push(Fault { aim: Aim::At(at_ns), kind, lasts_ns });
        if count > 1 && rng.chance_ppm(500_000) {
            // One of them comes back later than the others.
            let (late, role) = (Aim::At(at_ns + lasts_ns + MS), Role::Slot(first));
            let lasts_ns = 2 * SECOND + rng.below(2 * SECOND);
            plan.faults.push(Fault { aim: late, kind: Kind::Cut(Shape::Isolate(role)), lasts_ns });
        }
        if rng.chance_ppm(600_000) {
            let aim = Aim::At(at_ns + lasts_ns / 2 + rng.below(lasts_ns / 2));
            plan.faults.push(Fault { aim, kind: Kind::FoundAgain, lasts_ns: 0 });
        }
    }
}
