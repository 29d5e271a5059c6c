//! Decides which class a seed draws, and draws the plans of each class.

use phalanx_core::rng::Rng;

use super::{Class, churn, crowded, declared, far, late, late_death, mixed, stop};
use crate::plan::Plan;
use crate::swarm::draw_swarm;

/// Of [`SHARES_OF`] ordinary seeds, the number that draws each class.
pub(crate) const SHARES: [(Class, u64); 8] = [
    (Class::Far, 30),
    (Class::Declared, 30),
    (Class::Mixed, 50),
    (Class::Crowded, 3),
    (Class::Churn, 24),
    (Class::LateDeath, 50),
    (Class::Stop, 30),
    (Class::Late, 24),
];

/// The number of ordinary seeds to which the shares refer.
pub(crate) const SHARES_OF: u64 = 600;

/// Of these, the number that may draw a class: of 100 seeds 67 have one build, and of these 95 in 100 are not mild.
const MAY_DRAW: u64 = SHARES_OF * 67 * 95 / 10_000;

/// The class that `seed` draws, whose plan is `plain` without one.
///
/// It draws from a generator of its own, so that all else of a seed without a class is as it is without classes. Cells of
/// the earliest levels promise nothing of what the classes are about. In mild weather nobody may be excluded, which a class
/// would not leave so.
pub(crate) fn class_of(seed: u64, plain: &Plan) -> Option<Class> {
    if plain.builds.is_some() || plain.mild {
        return None;
    }
    let mut drawn = Rng::new(seed).fork("class").below(MAY_DRAW);
    for (class, share) in SHARES {
        match drawn.checked_sub(share) {
            Some(rest) => drawn = rest,
            None => return Some(class),
        }
    }
    None
}

/// The plan of `seed`, with what `class` adds: in an ordinary seed that draws the class, and in a campaign of the class.
pub(crate) fn draw_class(seed: u64, members: usize, class: Class) -> Plan {
    let mut plan = Plan { builds: None, ..Plan::draw_single_inbox(seed, members) };
    let root = Rng::new(seed);
    if plan.mild {
        plan.mild = false;
        plan.faults = draw_swarm(&mut root.fork("faults"), &plan);
    }
    plan.class = Some(class);
    let rng = &mut root.fork("beyond").fork(class.name());
    match class {
        Class::Far => far::put_far(rng, &mut plan),
        Class::Declared => declared::make_late(rng, &mut plan),
        Class::Mixed => mixed::mix(rng, &mut plan),
        Class::Crowded => crowded::crowd(rng, &mut plan),
        Class::Churn => churn::add_churn(rng, &mut plan),
        Class::LateDeath => late_death::add_late_deaths(rng, &mut plan),
        Class::Stop => stop::add_stop(rng, &mut plan),
        Class::Late => late::make_late(rng, &mut plan),
    }
    plan
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::Aim;

    #[test]
    fn ordinary_seeds_draw_each_class_at_its_share_and_are_plain_otherwise() {
        // Five times as many seeds as the shares are told for, so that chance decides little.
        let seeds = 5 * SHARES_OF;
        for members in [5, 0] {
            let plans: Vec<(u64, Plan)> = (0..seeds).map(|seed| (seed, Plan::draw(seed, members))).collect();
            for (class, share) in SHARES {
                let drawn = plans.iter().filter(|(_, plan)| plan.class == Some(class)).count() as f64;
                let wanted = (5 * share) as f64;
                // Four times the standard deviation.
                assert!((drawn - wanted).abs() <= 4.0 * wanted.sqrt(), "{class}: {drawn} times, not {wanted}");
            }
            for (seed, plan) in plans.into_iter().take(600) {
                let plain = Plan::draw_plain(seed, members);
                assert_eq!(plain.class, None);
                match plan.class {
                    None => assert_eq!(plan, plain, "seed {seed}"),
                    Some(class) => {
                        assert!(!plain.mild && plain.builds.is_none(), "seed {seed}");
                        assert_eq!(plan, draw_class(seed, members, class), "seed {seed}");
                    }
                }
            }
        }
    }

    #[test]
    fn each_class_has_one_share_and_about_half_of_the_seeds_are_plain() {
        assert_eq!(SHARES.map(|(class, _)| class), Class::ALL);
        let sum: u64 = SHARES.iter().map(|(_, share)| share).sum();
        assert!((SHARES_OF * 35 / 100..=SHARES_OF * 55 / 100).contains(&sum), "{sum}");
    }

    /// The table of `docs/simulator.md` tells the share of each class.
    #[test]
    fn the_documents_tell_the_shares() {
        let docs = include_str!("../../../../docs/simulator.md");
        for (class, share) in SHARES {
            let row = format!("| `{class}` | {share} |");
            assert!(docs.contains(&row), "no row {row}");
        }
        assert!(docs.contains(&format!("| class | of {SHARES_OF} seeds |")));
    }

    #[test]
    fn a_class_draws_the_same_plan_again_and_has_a_name_of_its_own() {
        for class in Class::ALL {
            assert_eq!(class.name().parse(), Ok(class));
            for seed in 0..50 {
                let plan = draw_class(seed, 0, class);
                assert_eq!(plan, draw_class(seed, 0, class));
                assert_eq!(plan.class, Some(class));
                assert!(!plan.mild && plan.builds.is_none());
            }
        }
        assert!("farther".parse::<Class>().expect_err("no class").contains("far, declared"));
    }

    #[test]
    fn faults_strike_as_long_before_the_heal_as_drawn() {
        for seed in 0..100 {
            let (near, far) = (Plan::draw_single_inbox(seed, 5), draw_class(seed, 5, Class::Far));
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
