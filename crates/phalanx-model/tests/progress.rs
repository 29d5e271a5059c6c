//! The members that are removed when a member or a path is partly broken, and what breaks without each rule.

use phalanx_model::explore::explore;
use phalanx_model::progress::rule::{Variant, budget};
use phalanx_model::progress::window::{dead_after_budget, dead_among_late, erosion, greedy_removes_more};
use phalanx_model::progress::{Missing, cases, without};

#[test]
fn the_faulty_member_or_one_end_of_the_path_goes() {
    for model in cases(false) {
        let text = model.describe();
        let outcome = explore(model, 2, &[]);
        let broken: Vec<_> = outcome.broken().collect();
        assert!(broken.is_empty(), "{text}: {broken:#?}");
        let missed: Vec<_> = outcome.missed().map(|f| f.name).collect();
        assert!(missed.is_empty(), "{text}: never reached: {missed:?}");
    }
}

#[test]
fn each_missing_rule_of_progress_breaks_what_it_protects() {
    for missing in Missing::ALL {
        let (model, property) = without(missing);
        let outcome = explore(model, 1, &[property]);
        let broken: Vec<_> = outcome.broken().map(|f| f.name).collect();
        assert!(broken.contains(&property), "{}: {broken:?}", missing.name());
    }
}

#[test]
fn no_cell_is_eroded_within_a_window() {
    for members in 3..=5 {
        for silent in [false, true] {
            let found = erosion(members, silent, Variant::default());
            assert!(found.most <= budget(members as u32), "{members}: {found:?}");
        }
        let late = erosion(members, false, Variant::default());
        assert_eq!(late.fewest, members as u32 - budget(members as u32), "{late:?}");
        let unbounded = erosion(members, false, Variant { unbounded: true, ..Variant::default() });
        assert_eq!(unbounded.fewest, 1, "without the budget: {unbounded:?}");
    }
}

#[test]
fn a_dead_member_goes_whatever_the_budget() {
    for members in 3..=5 {
        for dead in 0..members {
            assert_eq!(dead_after_budget(members, dead, Variant::default()), 1 << dead);
            assert_eq!(dead_among_late(members, dead, 1, Variant::default()), 1 << dead);
            let counts = Variant { silent_counts: true, ..Variant::default() };
            assert_eq!(dead_after_budget(members, dead, counts), 0, "it stays for as long as the window lasts");
            let once = Variant { no_second_look: true, ..Variant::default() };
            assert_eq!(dead_among_late(members, dead, 1, once), 0, "it stays for as long as the others are late");
        }
    }
}

#[test]
fn whoever_has_most_failed_links_is_not_always_among_the_fewest() {
    assert_eq!([3, 4, 5].map(|members| greedy_removes_more(members).worse), [0, 0, 20]);
}
