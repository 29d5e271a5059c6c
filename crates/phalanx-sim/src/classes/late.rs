//! Members that are late in every event-loop iteration of the run, and did not declare it: a starved virtual machine, a
//! host that swaps. Those that declare it are another class (`declared.rs`).
//!
//! A member with iterations of 150 ms is heard and so stays. All that waits for its answers takes longer, as between far
//! members (`docs/costs.md`).

use phalanx_core::rng::Rng;

use super::parts::allow_for_distance;
use crate::clock::MS;
use crate::draw::index;
use crate::plan::Plan;

/// The longest iteration. Two of them, and a heartbeat that is due, are still within
/// [`phalanx_core::Timing::suspect_after`]. So the documents give no reason why such a process could not be a member.
const LONGEST_MS: u64 = 500;

/// Makes a minority of the processes of `plan` late, or all of them, each with iterations of 100 ms and more.
pub(crate) fn make_late(rng: &mut Rng, plan: &mut Plan) {
    let minority = 1 + index(rng, (plan.members - 1) / 2);
    let count = if rng.chance_ppm(500_000) { plan.members } else { minority };
    let first = index(rng, plan.members);
    let slots = (0..count).map(|step| (first + step) % plan.members);
    plan.late = slots.map(|slot| (slot, (100 + rng.below(LONGEST_MS - 99)) * MS)).collect();
    // The cell needs a quorum of processes that are on time; a second minority broken for good would leave none.
    plan.ruin = false;
    allow_for_distance(plan);
}
