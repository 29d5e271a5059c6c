//! Groups with members of both kinds: those that asked for the state, and those that did not, as `phalanx node -g`
//! joins. A member without the state delivers and acknowledges, gives no digest that counts, and uses no objects.

use phalanx_core::rng::Rng;

use crate::draw::index;
use crate::plan::Plan;

/// Groups "a", "b" and "m".
const GROUPS: usize = 3;

/// Lets some processes of `plan` ask for their groups without the state: in group "a" at least one, and not all.
pub(crate) fn mix(rng: &mut Rng, plan: &mut Plan) {
    let share_ppm = [200_000, 400_000, 700_000][index(rng, 3)];
    for slot in 0..plan.members {
        for group in 0..GROUPS {
            if rng.chance_ppm(share_ppm) {
                plan.stateless.push((slot, group));
            }
        }
    }
    let (with, without) = (index(rng, plan.members), 1 + index(rng, plan.members - 1));
    plan.stateless.retain(|place| *place != (with, 0));
    let without = ((with + without) % plan.members, 0);
    if !plan.stateless.contains(&without) {
        plan.stateless.push(without);
    }
}

#[cfg(test)]
mod tests {
    use crate::classes::{Class, draw_class};

    #[test]
    fn group_a_has_members_of_both_kinds() {
        for seed in 0..200 {
            let plan = draw_class(seed, 0, Class::Mixed);
            let without = (0..plan.members).filter(|slot| plan.stateless.contains(&(*slot, 0))).count();
            assert!(without > 0 && without < plan.members, "{without} of {}", plan.members);
        }
    }
}
