//! What a run with a class met, and the least that a campaign of the class, or of ordinary seeds, must have met.

use super::{Class, exchange_ns};
use crate::clock::MS;
use crate::plan::Plan;
use crate::result::{Counters, add_to};

impl Class {
    /// Names of what its campaigns count, with their floors for [`crate::FLOOR_SEEDS`] seeds of five members.
    pub(crate) fn floors(self) -> &'static [(&'static str, u64)] {
        match self {
            Self::Far => FAR,
            Self::Declared => DECLARED,
            Self::Mixed => MIXED,
            Self::Crowded => CROWDED,
            Self::Churn => CHURN,
            Self::LateDeath => LATE_DEATH,
            Self::Stop => STOP,
            Self::Late => LATE,
        }
    }
}

const FAR: &[(&str, u64)] = &[
    ("cell views decided, with round trips of 0.48 s and more", 4_000),
    ("state transfers, with round trips of 0.48 s and more", 5_000),
    ("take-overs in a view change, with round trips of 0.48 s and more", 300),
    ("members that were excluded, with round trips of 0.48 s and more", 350),
    ("cell views decided, with round trips of 0.8 s and more", 2_100),
    ("take-overs in a view change, with round trips of 0.8 s and more", 250),
];
const DECLARED: &[(&str, u64)] = &[
    ("cell views decided, with declared gaps", 20_000),
    ("state transfers, with declared gaps", 28_000),
    ("take-overs in a view change, with declared gaps", 4_600),
    ("members that were excluded, with declared gaps", 900),
    ("cell views decided, with declared gaps of all members", 6_700),
    ("state transfers, with declared gaps of all members", 8_200),
];
const MIXED: &[(&str, u64)] = &[
    ("members without the state of a group that others have", 21_000),
    ("state transfers, in groups of both kinds", 15_000),
    ("members that were excluded, in groups of both kinds", 2_000),
];
const CROWDED: &[(&str, u64)] = &[
    ("seconds in which 256 groups and more waited", 8_000),
    ("seconds in which 1,024 groups and more waited", 250),
    ("groups asked for while 256 and more waited", 2_000),
];
const CHURN: &[(&str, u64)] = &[
    ("changes of a group while another one waited", 32_000),
    ("changes of a group while a process was kept out", 60_000),
];
const LATE_DEATH: &[(&str, u64)] = &[
    ("deaths told after the exclusion", 14_000),
    ("deaths told while a group waited for the dead", 10_000),
    ("deaths told inside a ballot", 230),
];
const STOP: &[(&str, u64)] = &[
    ("majorities that left in order while a group waited", 1_300),
    ("majorities that left in order while a member was cut off", 1_900),
    ("cells that all left and that were founded again", 1_300),
    ("last members told that their leave is in doubt", 1_400),
];

const LATE: &[(&str, u64)] = &[
    ("members late for the whole run", 10_000),
    ("cells late as a whole", 1_500),
    ("cell views decided, with late members", 25_000),
    ("state transfers, with late members", 30_000),
];

/// What a campaign of ordinary seeds must have met of the classes that they draw. What comes too seldom among them is left
/// to the campaigns of the classes.
pub(crate) const ORDINARY: &[(&str, u64)] = &[
    ("cell views decided, with round trips of 0.48 s and more", 200),
    ("state transfers, with round trips of 0.48 s and more", 250),
    ("cell views decided, with round trips of 0.8 s and more", 105),
    ("cell views decided, with declared gaps", 830),
    ("state transfers, with declared gaps", 1_100),
    ("take-overs in a view change, with declared gaps", 130),
    ("members that were excluded, with declared gaps", 40),
    ("cell views decided, with declared gaps of all members", 330),
    ("state transfers, with declared gaps of all members", 410),
    ("members without the state of a group that others have", 1_500),
    ("state transfers, in groups of both kinds", 1_250),
    ("members that were excluded, in groups of both kinds", 166),
    ("changes of a group while another one waited", 410),
    ("changes of a group while a process was kept out", 970),
    ("deaths told after the exclusion", 1_100),
    ("deaths told while a group waited for the dead", 670),
    ("majorities that left in order while a group waited", 35),
    ("majorities that left in order while a member was cut off", 65),
    ("last members told that their leave is in doubt", 70),
    ("members late for the whole run", 380),
    ("cells late as a whole", 60),
    ("cell views decided, with late members", 920),
    ("state transfers, with late members", 900),
];

/// Counts what a run met beside the moments that it counted itself. Called when all else is counted.
pub(crate) fn count(plan: &Plan, counters: &mut Counters) {
    let over: Vec<&str> = match plan.class {
        Some(Class::Far) => {
            let over = [(480, "with round trips of 0.48 s and more"), (800, "with round trips of 0.8 s and more")];
            over.into_iter().filter(|(ms, _)| exchange_ns(plan) >= ms * MS).map(|(_, over)| over).collect()
        }
        Some(Class::Declared) => {
            let all = plan.late.len() == plan.members;
            let over = [(true, "with declared gaps"), (all, "with declared gaps of all members")];
            over.into_iter().filter(|(is, _)| *is).map(|(_, over)| over).collect()
        }
        Some(Class::Mixed) => vec!["in groups of both kinds"],
        Some(Class::Late) => vec!["with late members"],
        _ => return,
    };
    let met = [
        ("cell views decided", counters.cell_views),
        ("state transfers", counters.transfers),
        ("take-overs in a view change", counters.take_overs),
        ("members that were excluded", counters.exclusions),
    ];
    for (what, count) in met.into_iter().filter(|(_, count)| *count > 0) {
        for over in &over {
            add_to(&mut counters.moments, &format!("{what}, {over}"), count);
        }
    }
    match plan.class {
        Some(Class::Mixed) => {
            let count = plan.stateless.len() as u64;
            add_to(&mut counters.moments, "members without the state of a group that others have", count);
        }
        Some(Class::Late) => {
            add_to(&mut counters.moments, "members late for the whole run", plan.late.len() as u64);
            let all = u64::from(plan.late.len() == plan.members);
            add_to(&mut counters.moments, "cells late as a whole", all);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of `docs/simulator.md` has a row for each floor, and no floor is more than a third of what is usual.
    #[test]
    fn the_documents_tell_the_floors() {
        let docs = include_str!("../../../../docs/simulator.md");
        let number = |cell: &str| cell.trim().replace(',', "").parse::<u64>().expect("a number");
        for class in Class::ALL {
            for (name, floor) in class.floors() {
                let begin = format!("| `{class}` | {name} |");
                let row = docs.lines().find_map(|line| line.strip_prefix(&begin));
                let (met, told) = row.and_then(|rest| rest.trim_end_matches('|').split_once('|')).expect(&begin);
                assert_eq!(number(told), *floor, "{name}");
                assert!(floor * 3 <= number(met), "{name}: {floor} of {met}");
            }
        }
    }
}
