//! The configurations that are explored, and what each missing rule must break.

use crate::credits::{Credits, FINISH, Missing};
use crate::explore::{always_reaches, explore};
use crate::rules::Mutant;
use crate::view_change::property::{ONE_DECISION, REACHABLE, SAME_DELIVERIES, UNIFORM};
use crate::view_change::{Config, Wish};

/// The configurations of the long run: together more than ten million states.
#[must_use]
pub fn long(processes: usize) -> Vec<Config> {
    let with = Config::bare;
    match processes {
        3 => vec![
            // Three ballots, rounds enough for each to overtake the one before; nothing sent.
            with(3).bounds(3, 3, 2).wish(Wish::Cell),
            // Two streams, one message each: a uniform one and a plain one in its causal past, or the other way.
            with(3).stream(0, &[true]).stream(1, &[false]).bounds(2, 2, 1),
            // A stream with two messages, and three ballots.
            with(3).stream(1, &[false, true]).bounds(2, 3, 1),
            with(3).stream(0, &[true]).bounds(3, 3, 2),
        ],
        _ => vec![
            with(4).bounds(2, 3, 1),
            with(4).stream(0, &[true]).bounds(2, 2, 1),
            Config { group: 0b0110, ..with(4).stream(1, &[true]).bounds(2, 2, 1) },
        ],
    }
}

/// The configurations of the test: about a million states.
#[must_use]
pub fn short() -> Vec<Config> {
    let with = Config::bare;
    vec![
        with(3).bounds(2, 3, 1),
        with(3).stream(0, &[true]).bounds(2, 2, 1),
        with(3).stream(0, &[true]).bounds(2, 2, 1).wish(Wish::Group),
        with(3).stream(1, &[false, true]).bounds(1, 2, 1),
        Config { leaver: Some(0), ..with(3).stream(1, &[true]).bounds(1, 2, 1) },
        Config { group: 0b0011, ..with(3).stream(0, &[true]).bounds(2, 2, 1) },
        Config { group: 0b1110, ..with(4).stream(1, &[false]).stream(2, &[true]).bounds(1, 1, 0) },
    ]
}

/// Where the lack of a rule shows, and which property breaks there; `None`: none does, the rule is a choice.
#[must_use]
pub fn mutant(mutant: Mutant) -> (Config, Option<&'static str>) {
    let with = Config::bare;
    let (config, breaks) = match mutant {
        Mutant::AckAfterReport => (with(3).stream(0, &[true]).bounds(1, 1, 0), Some(UNIFORM)),
        Mutant::DeliverBeforeDecision => {
            (Config { group: 0b0011, ..with(3).stream(0, &[true]).bounds(1, 2, 0) }, Some(UNIFORM))
        }
        Mutant::ProposeWithoutFilling => (with(3).stream(0, &[true]).bounds(1, 1, 0), Some(REACHABLE)),
        Mutant::UnwedgeAfterPromise => (with(3).stream(0, &[false]).bounds(1, 1, 0), Some(SAME_DELIVERIES)),
        Mutant::SurvivorsBeyondReporters => {
            (with(3).stream(0, &[false]).bounds(1, 1, 0).wish(Wish::Group), Some(SAME_DELIVERIES))
        }
        Mutant::AckedRangesCount => (with(3).stream(0, &[false, true]).bounds(1, 1, 0), Some(UNIFORM)),
        Mutant::HalfWithoutRank0 => (with(4).bounds(1, 2, 0), Some(ONE_DECISION)),
        Mutant::IgnoreAccepted | Mutant::MergeOwnChange | Mutant::AcceptBelowPromise => {
            (with(3).bounds(2, 2, 0), Some(ONE_DECISION))
        }
        Mutant::AdoptLowest => (with(3).bounds(3, 3, 0), Some(ONE_DECISION)),
        Mutant::InstallBeforeDecision => (with(3).bounds(1, 2, 0), Some(ONE_DECISION)),
        Mutant::UniformWithoutStability => (with(3).stream(0, &[true]).bounds(1, 1, 0), Some(UNIFORM)),
        Mutant::UniformWithoutItsPast => {
            (Config { group: 0b1110, ..with(4).stream(1, &[false]).stream(2, &[true]).bounds(1, 1, 0) }, Some(UNIFORM))
        }
        Mutant::DiscardInsteadOfKeep => (with(3).stream(0, &[true]).bounds(1, 2, 1), None),
    };
    (config.without(mutant), breaks)
}

/// The configurations of the credit model.
#[must_use]
pub fn credits() -> Vec<Credits> {
    let with = |receivers, packets, window| Credits { receivers, packets, window, missing: None };
    vec![with(1, 6, 2), with(1, 5, 3), with(2, 3, 1), with(2, 3, 2)]
}

/// The steps to where `property` breaks without a rule of credits, if it does.
#[must_use]
pub fn without_credit_rule(missing: Missing, property: &'static str) -> Option<usize> {
    let model = Credits { receivers: 2, packets: 3, window: 1, missing: Some(missing) };
    let path = if property == FINISH {
        always_reaches(&model, |s| model.is_finished(s)).1
    } else {
        let outcome = explore(model, 1, &[property]);
        outcome.always.into_iter().find(|f| f.name == property).and_then(|f| f.path)
    };
    path.map(|path| path.len())
}
