//! The models hold their invariants, reach the required states, and detect each missing rule.

use std::fmt::Debug;
use std::hash::Hash;

use phalanx_model::cases;
use phalanx_model::credits::Missing;
use phalanx_model::ending;
use phalanx_model::explore::{always_reaches, explore};
use phalanx_model::founding;
use phalanx_model::leaving;
use phalanx_model::levels;
use phalanx_model::orphans;
use phalanx_model::rules::Mutant;
use phalanx_model::view_change::property::TAKE_OVER;
use phalanx_model::view_change::{Config, ViewChange};
use phalanx_model::waits;
use stateright::Model;

/// Asserts that a model holds its invariants and reaches the required states. Returns its number of states.
fn holds<M>(text: &str, model: M) -> usize
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync + 'static,
    M::Action: Clone + Debug + PartialEq + Send + Sync,
{
    let outcome = explore(model, 2, &[]);
    let broken: Vec<_> = outcome.broken().collect();
    assert!(broken.is_empty(), "{text}: {broken:#?}");
    let missed: Vec<_> = outcome.missed().map(|f| f.name).collect();
    assert!(missed.is_empty(), "{text}: never reached: {missed:?}");
    outcome.unique
}

/// Asserts that a model without a rule breaks a property, or none where the rule is a choice.
fn breaks<M>(missing: &str, model: M, property: Option<&'static str>)
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync + 'static,
    M::Action: Clone + Debug + PartialEq + Send + Sync,
{
    let outcome = explore(model, 1, property.as_slice());
    let broken: Vec<_> = outcome.broken().map(|f| f.name).collect();
    match property {
        Some(property) => assert!(broken.contains(&property), "{missing}: {broken:?}"),
        None => assert!(broken.is_empty(), "{missing}: {broken:?}"),
    }
}

/// Over seven hundred thousand states, with crashes, loss, rivals and take-overs.
#[test]
fn the_view_change_holds() {
    let mut unique = 0;
    for config in cases::short() {
        unique += holds(&config.describe(), ViewChange { config });
    }
    assert!(unique > 700_000, "{unique} states are fewer than they were");
}

/// A required state is reported as missed where it cannot be reached: one ballot allows no take-over.
#[test]
fn an_unreached_state_is_reported() {
    let mut config = Config::bare(3).bounds(2, 2, 0);
    let reached = |config: Config| {
        let outcome = explore(ViewChange { config }, 1, &[]);
        outcome.sometimes.iter().any(|f| f.name == TAKE_OVER && f.path.is_some())
    };
    assert!(reached(config.clone()));
    config.rounds = 1;
    config.group = 0;
    config.processes = 1;
    assert!(!reached(config));
}

#[test]
fn each_missing_rule_breaks_what_it_protects() {
    for mutant in Mutant::ALL {
        let (config, property) = cases::mutant(mutant);
        breaks(mutant.name(), ViewChange { config }, property);
    }
}

#[test]
fn credits_bound_what_is_held_and_never_stand_still() {
    for model in cases::credits() {
        let outcome = explore(model.clone(), 2, &[]);
        assert!(outcome.is_good(), "{model:?}: {outcome:#?}");
        let (_, stuck) = always_reaches(&model, |s| model.is_finished(s));
        assert_eq!(stuck, None, "{model:?}");
    }
}

#[test]
fn each_missing_rule_of_credits_breaks_what_it_protects() {
    for (missing, property) in Missing::ALL {
        assert!(cases::without_credit_rule(missing, property).is_some(), "{}", missing.name());
    }
}

#[test]
fn levels_rise_by_command_and_past_no_member() {
    for model in cases::levels(false) {
        holds(&model.describe(), model);
    }
}

#[test]
fn each_missing_rule_of_levels_breaks_what_it_protects() {
    for missing in levels::Missing::ALL {
        for (model, property) in cases::without_level_rule(missing) {
            breaks(missing.name(), model, property);
        }
    }
}

#[test]
fn a_cell_is_founded_once_and_can_be() {
    for model in cases::founding(false) {
        holds(&model.describe(), model);
    }
}

#[test]
fn each_missing_rule_of_founding_breaks_what_it_protects() {
    for missing in founding::Missing::ALL {
        for (model, property) in cases::without_founding_rule(missing) {
            breaks(missing.name(), model, Some(property));
        }
    }
}

#[test]
fn members_leave_in_order_and_the_cell_is_founded_again() {
    for model in cases::leaving(false) {
        holds(&model.describe(), model);
    }
}

#[test]
fn each_missing_rule_of_leaving_breaks_what_it_protects() {
    for missing in leaving::Missing::ALL {
        let (model, property) = cases::without_leaving_rule(missing);
        breaks(missing.name(), model, Some(property));
    }
}

#[test]
fn a_cell_ends_and_its_next_instance_knows_which_groups_wait() {
    for model in cases::ending(false) {
        holds(&model.describe(), model);
    }
}

#[test]
fn each_missing_rule_of_ends_breaks_what_it_protects() {
    for missing in ending::Missing::ALL {
        let (model, property) = cases::without_ending_rule(missing);
        breaks(missing.name(), model, property);
    }
}

#[test]
fn orphans_come_back_with_all_that_is_uniform() {
    for model in cases::orphans(false) {
        holds(&model.describe(), model);
    }
}

#[test]
fn each_missing_rule_of_orphans_breaks_what_it_protects() {
    for missing in orphans::Missing::ALL {
        for (model, property) in cases::without_orphan_rule(missing) {
            breaks(missing.name(), model, property);
        }
    }
}

#[test]
fn every_run_of_ballots_comes_to_a_decree() {
    for family in waits::cases(false) {
        let found = family.explore();
        assert_eq!((found.endless, found.cut), (0, 0), "{}: {found:?}", family.describe());
        assert!(found.cells == 27 && found.longest > 50, "{}: {found:?}", family.describe());
    }
}

#[test]
fn each_missing_rule_of_waits_leaves_rivals_that_never_decide() {
    for missing in waits::Missing::ALL {
        let (families, property) = waits::without(missing);
        let endless: usize = families.iter().map(|family| family.explore().endless).sum();
        assert_eq!(endless > 0, property.is_some(), "{}: {endless} cells", missing.name());
    }
}
