//! Members that are late in every event-loop iteration of the run, and declared it (`timing.turn_gap_max`). Unlike the
//! late members of `late.rs`, they are owed every promise, within the bounds of `docs/costs.md`.

use std::time::Duration;

use phalanx_core::rng::Rng;

use super::parts::allow_for_distance;
use crate::clock::MS;
use crate::draw::index;
use crate::plan::Plan;

/// The shortest and the longest iteration of a late member, in milliseconds.
const TURN_MS: (u64, u64) = (100, 700);

/// A member declares a little more than its iterations take.
const SPARE_MS: u64 = 20;

/// Makes all processes of `plan` late, or some of them, and lets them declare it.
pub(crate) fn make_late(rng: &mut Rng, plan: &mut Plan) {
    let some = 1 + index(rng, plan.members - 1);
    let count = if rng.chance_ppm(400_000) { plan.members } else { some };
    let first = index(rng, plan.members);
    for slot in (0..count).map(|step| (first + step) % plan.members) {
        let turn_ms = TURN_MS.0 + rng.below(TURN_MS.1 - TURN_MS.0 + 1);
        plan.late.push((slot, turn_ms * MS));
        plan.turn_gaps.push((slot, Duration::from_millis(turn_ms + SPARE_MS)));
    }
    allow_for_distance(plan);
}
