//! Draws the plans beyond ordinary ones.

use phalanx_core::rng::Rng;

use super::{Beyond, churn, crowded, declared, far, late_death, mixed, stop};
use crate::plan::Plan;
use crate::swarm::draw_swarm;

/// The plan of `seed`, with what `class` adds.
pub(crate) fn draw_beyond(seed: u64, members: usize, class: Beyond) -> Plan {
    // Cells of the earliest levels promise nothing of this.
    let mut plan = Plan { builds: None, ..Plan::draw_single_inbox(seed, members) };
    let root = Rng::new(seed);
    if plan.mild {
        plan.mild = false;
        plan.faults = draw_swarm(&mut root.fork("faults"), &plan);
    }
    plan.beyond = Some(class);
    let rng = &mut root.fork("beyond").fork(class.name());
    match class {
        Beyond::Far => far::put_far(rng, &mut plan),
        Beyond::Declared => declared::make_late(rng, &mut plan),
        Beyond::Mixed => mixed::mix(rng, &mut plan),
        Beyond::Crowded => crowded::crowd(rng, &mut plan),
        Beyond::Churn => churn::add_churn(rng, &mut plan),
        Beyond::LateDeath => late_death::add_late_deaths(rng, &mut plan),
        Beyond::Stop => stop::add_stop(rng, &mut plan),
    }
    plan
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::Aim;

    #[test]
    fn a_class_draws_the_same_plan_again_and_has_a_name_of_its_own() {
        for class in Beyond::ALL {
            assert_eq!(class.name().parse(), Ok(class));
            for seed in 0..50 {
                let plan = draw_beyond(seed, 0, class);
                assert_eq!(plan, draw_beyond(seed, 0, class));
                assert_eq!(plan.beyond, Some(class));
                assert!(!plan.mild && plan.builds.is_none());
            }
        }
        assert!("farther".parse::<Beyond>().expect_err("no class").contains("far, declared"));
    }

    #[test]
    fn faults_strike_as_long_before_the_heal_as_drawn() {
        for seed in 0..100 {
            let (near, far) = (Plan::draw_single_inbox(seed, 5), draw_beyond(seed, 5, Beyond::Far));
            if near.mild {
                continue;
            }
            let at = |plan: &Plan| match plan.faults[0].aim {
                Aim::At(at_ns) | Aim::Inside { from_ns: at_ns, .. } => plan.heal_ns - at_ns,
            };
            assert_eq!(at(&near), at(&far));
        }
    }
}
