//! A list of runs that are known to fail, each with the exact codes of its violations.
//!
//! A listed run that holds, or fails with other codes, is as wrong as an unlisted one that fails. So the list states
//! exactly what is broken today.
//!
//! A failure that occurs in many seeds cannot be listed run by run for seeds that have not run yet. For these the list
//! has kinds of failures: from a seed on, runs may break only these properties, and at most N of 1,000 runs do. It is
//! also wrong if no run does, once [`ENOUGH`] have run. A *rare* kind may have no run at all; a listed run of the same
//! campaign shows that it exists.

mod list;
mod listed;
mod read;

use std::collections::BTreeSet;

use phalanx_sim::calls::CallsResult;
use phalanx_sim::{Class, Draw, SeedResult};

pub(super) use list::Known;
pub(super) use listed::{Listed, Standing};

/// Properties, by their codes.
pub(super) type Codes = BTreeSet<String>;

/// What a row of the list is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Campaign {
    /// Cells.
    Cells(Draw),
    /// Calls between clients and servers.
    Calls,
}

/// One listed run.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    campaign: Campaign,
    /// 0 for calls: the seed says how many take part.
    members: usize,
    seed: u64,
    codes: Codes,
}

/// A kind of failure, expected of any seed.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Kind {
    campaign: Campaign,
    /// Members of the runs it applies to. `None`: any number.
    members: Option<usize>,
    /// The first seed that it applies to.
    from: u64,
    /// Bound on the failures in 1,000 runs.
    most: u64,
    /// Whether it is right that no run fails so.
    rare: bool,
    /// The properties of which a failing run breaks some, and no others.
    codes: Codes,
}

/// Number of runs after which at least one must have failed as its kind says, unless that is rare.
const ENOUGH: u64 = 100;

impl Campaign {
    /// Whether a row about this campaign is about a run of `campaign` that drew `class`. A row about a class is about
    /// ordinary seeds that draw it, too, and a row about none about ordinary seeds without a class.
    fn is_about(self, campaign: Self, class: Option<Class>) -> bool {
        let in_ordinary = Self::Cells(class.map_or(Draw::Plain, Draw::Only));
        self == campaign || campaign == Self::Cells(Draw::Swarm) && self == in_ordinary
    }
}

impl Entry {
    fn is_same_run(&self, other: &Self) -> bool {
        (self.campaign, self.members, self.seed) == (other.campaign, other.members, other.seed)
    }
}

impl Kind {
    /// Whether it is about runs of `campaign` that drew `class`. What may happen in ordinary seeds may in plain ones.
    fn applies_to(&self, campaign: Campaign, class: Option<Class>) -> bool {
        let is_plain = campaign == Campaign::Cells(Draw::Plain) && self.campaign == Campaign::Cells(Draw::Swarm);
        is_plain || self.campaign.is_about(campaign, class)
    }

    fn allows(&self, seed: u64, codes: &Codes) -> bool {
        self.from <= seed && !codes.is_empty() && codes.is_subset(&self.codes)
    }

    /// Whether a listed run shows that it exists.
    fn is_shown_by(&self, entry: &Entry) -> bool {
        self.applies_to(entry.campaign, None)
            && self.members.is_none_or(|members| members == entry.members)
            && entry.codes.is_subset(&self.codes)
    }
}

/// The properties that the run broke.
pub(super) fn codes(result: &SeedResult) -> Codes {
    result.violations.iter().map(|violation| violation.code.clone()).collect()
}

/// The properties that a run of calls broke. Each violation begins with its code.
pub(super) fn codes_of_calls(result: &CallsResult) -> Codes {
    result.violations.iter().filter_map(|text| text.split_whitespace().next()).map(str::to_owned).collect()
}

/// Codes separated by blanks.
pub(super) fn words(codes: &Codes) -> String {
    codes.iter().map(String::as_str).collect::<Vec<_>>().join(" ")
}
