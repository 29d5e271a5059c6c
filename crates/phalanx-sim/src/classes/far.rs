//! Members far from each other: a round trip of up to a second, for the whole run.

use phalanx_core::rng::Rng;

use super::parts::allow_for_distance;
use super::{Far, Where};
use crate::clock::MS;
use crate::draw::index;
use crate::plan::Plan;

/// The least delay between far members, one way, in milliseconds.
const BASE_MS: [u64; 8] = [25, 60, 120, 120, 200, 300, 400, 500];

/// Puts members of `plan` far from each other: all in half of the seeds, otherwise one of them, or some.
pub(crate) fn put_far(rng: &mut Rng, plan: &mut Plan) {
    let first = index(rng, plan.members);
    let some = 1 + index(rng, plan.members - 1);
    let from = match rng.below(10) {
        0..=4 => Where::Everybody,
        5..=7 => Where::Site(vec![first]),
        _ => Where::Site((0..some).map(|step| (first + step) % plan.members).collect()),
    };
    plan.far = Some(Far { base_ns: BASE_MS[index(rng, BASE_MS.len())] * MS, from });
    // Who is far is on another machine.
    plan.hosts = (1..=plan.members as u64).collect();
    plan.memory = None;
    allow_for_distance(plan);
}
