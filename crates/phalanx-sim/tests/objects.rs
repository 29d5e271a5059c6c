//! Registers, locks and the bank: applications use them, their answers are evaluated, and histories are available for
//! other checkers.

use std::collections::{BTreeMap, BTreeSet};

use phalanx_sim::{Operation, Options, SeedResult, campaign, run_seed};

const SEEDS: std::ops::Range<u64> = 500..530;
/// The properties of registers, locks and the bank.
const OBJECTS: [&str; 4] = ["R7", "L1", "L2", "BANK"];

#[test]
fn operations_are_asked_answered_and_judged() {
    let options = Options { histories: true, ..Options::default() };
    let mut histories: Vec<Vec<Operation>> = Vec::new();
    let summary = campaign(SEEDS, &options, |result| histories.push(result.history.clone()));
    let about_objects = |failed: &&SeedResult| failed.violations.iter().any(|v| OBJECTS.contains(&v.code.as_str()));
    if let Some(failed) = summary.failed.iter().find(about_objects) {
        panic!("{}", failed.story.as_deref().unwrap_or("a failed seed has a story"));
    }
    for code in OBJECTS {
        assert!(summary.totals.checked[code] > 100, "{code} was hardly put to the test");
    }
    assert!(histories.iter().any(Vec::is_empty), "some seeds use no objects");
    let mut outcomes: BTreeMap<&str, BTreeSet<Option<&str>>> = BTreeMap::new();
    for one in histories.iter().flatten() {
        outcomes.entry(one.action).or_default().insert(one.outcome);
        assert!(one.return_ns.is_none_or(|at_ns| at_ns >= one.call_ns));
    }
    let expected: [(&str, &[Option<&str>]); 7] = [
        ("acquire", &[None, Some("granted"), Some("held")]),
        ("cas", &[None, Some("value")]),
        ("leave", &[None]),
        ("read", &[None, Some("value")]),
        ("release", &[None, Some("done")]),
        ("transfer", &[None, Some("done"), Some("nothing")]),
        ("write", &[None, Some("done")]),
    ];
    for (action, wanted) in expected {
        let seen = &outcomes[action];
        assert!(wanted.iter().all(|outcome| seen.contains(outcome)), "{action}: only {seen:?}");
    }
}

#[test]
fn histories_cost_nothing_unless_asked_for() {
    let seed = SEEDS.start;
    let with = run_seed(seed, &Options { histories: true, ..Options::default() });
    let without = run_seed(seed, &Options::default());
    assert!(without.history.is_empty());
    assert_eq!(with.trace_hash, without.trace_hash);
}
