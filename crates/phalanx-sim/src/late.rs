//! Processes that are late with everything, from the first turn to the last: a starved virtual machine, a host that swaps.
//!
//! Today's core does not stand them: a member with turns of 150 ms is heard and so stays, but what it is to answer within the
//! patience of a ballot or of a transfer comes too late, again and again.

use phalanx_core::rng::Rng;

use crate::plan::{MS, Plan};
use crate::swarm::index;

/// The longest turn: two of them, and a heartbeat that is due, are still heard within
/// [`phalanx_core::Timing::suspect_after`], so the documents give no reason why such a process could not be a member.
const LONGEST_MS: u64 = 500;

/// Makes a minority of the processes of `plan` late, or all of them, each with turns of 100 ms and more.
pub(crate) fn make_late(rng: &mut Rng, plan: &mut Plan) {
    let minority = 1 + index(rng, (plan.members - 1) / 2);
    let count = if rng.chance_ppm(500_000) { plan.members } else { minority };
    let first = index(rng, plan.members);
    let slots = (0..count).map(|step| (first + step) % plan.members);
    plan.late = slots.map(|slot| (slot, (100 + rng.below(LONGEST_MS - 99)) * MS)).collect();
    // A quorum of those who are on time is asked of the cell; a second minority broken for good would leave none.
    plan.ruin = false;
}
