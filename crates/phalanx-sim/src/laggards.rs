//! Applications that take nothing for long, in cells whose policy is to expel slow members.

use std::time::Duration;

use phalanx_core::rng::Rng;

use crate::clock::{MS, SECOND};
use crate::draw::index;
use crate::fault::{Aim, Fault, Kind, Role};
use crate::plan::Plan;

/// Draws how long a member may hold others back; `None`: for ever. Mild seeds take part: no member is slow in them, so
/// none may be taken for slow.
pub(crate) fn draw_expel_after(rng: &mut Rng) -> Option<Duration> {
    rng.chance_ppm(300_000).then(|| Duration::from_millis(1000 + rng.below(3000)))
}

/// Lets applications of `plan` take nothing for longer than is tolerated, and makes windows small, so that the others
/// wait for them.
pub(crate) fn add_laggards(rng: &mut Rng, plan: &mut Plan) {
    if plan.expel_after.is_none() || plan.mild {
        return;
    }
    plan.window_bytes = plan.window_bytes.min([16 << 10, 64 << 10][index(rng, 2)]);
    for _ in 0..1 + rng.below(3) {
        let at_ns = 3 * SECOND + rng.below(plan.heal_ns - 6 * SECOND);
        let role = [Role::Coordinator, Role::Joiner, Role::Bystander, Role::Slot(index(rng, 64))][index(rng, 4)];
        let lasts_ns = 3 * SECOND + rng.below(8000) * MS;
        plan.faults.push(Fault { aim: Aim::At(at_ns), kind: Kind::SlowReader(role), lasts_ns });
    }
}
