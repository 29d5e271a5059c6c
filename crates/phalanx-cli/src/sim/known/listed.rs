//! The part of the list that applies to one campaign, and how the campaign's runs compare with it.

use std::collections::BTreeMap;
use std::fmt;

use super::{Codes, ENOUGH, Kind, words};

/// The rows that apply to one campaign.
#[derive(Debug, Default)]
pub(in crate::sim) struct Listed {
    runs: BTreeMap<u64, Codes>,
    kinds: Vec<(Kind, Met)>,
}

/// Runs that a kind applies to, and those of them that failed accordingly.
#[derive(Clone, Debug, Default)]
struct Met {
    runs: u64,
    failed: u64,
    /// The first seeds that failed.
    seeds: Vec<u64>,
}

/// Seeds that are named for a kind.
const SEEDS_NAMED: usize = 10;

/// How a run compares with the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::sim) enum Standing {
    /// It holds, and is not listed.
    Holds,
    /// It fails as listed.
    AsListed,
    /// It fails as one of the kinds says.
    OfKind,
    /// It fails, and is not listed.
    Unlisted,
    /// It is listed with certain codes, and holds or fails with others.
    NotAsListed(String),
}

impl Standing {
    /// Whether the run is as the list says.
    pub(in crate::sim) fn is_expected(&self) -> bool {
        matches!(self, Self::Holds | Self::AsListed | Self::OfKind)
    }

    /// How a run that broke `found` differs from the list.
    pub(in crate::sim) fn explain(&self, found: &Codes) -> String {
        let found = if found.is_empty() { "holds".to_owned() } else { format!("broke {}", words(found)) };
        match self {
            Self::Holds | Self::AsListed | Self::OfKind => found,
            Self::Unlisted => format!("{found}, and is not listed as known"),
            Self::NotAsListed(listed) => {
                format!(
                    "{found}; it is listed with {listed}: correct the list if that was mended or seeds mean something else now"
                )
            }
        }
    }
}

impl Listed {
    pub(super) fn new(runs: BTreeMap<u64, Codes>, kinds: impl IntoIterator<Item = Kind>) -> Self {
        Self { runs, kinds: kinds.into_iter().map(|kind| (kind, Met::default())).collect() }
    }

    pub(in crate::sim) fn is_empty(&self) -> bool {
        self.runs.is_empty() && self.kinds.is_empty()
    }

    /// Compares a run of `seed` that broke `codes` with the rows for its seed, and with the kinds.
    pub(in crate::sim) fn standing(&self, seed: u64, codes: &Codes) -> Standing {
        match self.runs.get(&seed) {
            None if codes.is_empty() => Standing::Holds,
            None if self.kinds.iter().any(|(kind, _)| kind.allows(seed, codes)) => Standing::OfKind,
            None => Standing::Unlisted,
            Some(listed) if listed == codes => Standing::AsListed,
            Some(listed) => Standing::NotAsListed(words(listed)),
        }
    }

    /// Counts a run for the kinds that apply to it. A failure counts for the first kind that allows it.
    pub(in crate::sim) fn count(&mut self, seed: u64, codes: &Codes) {
        if self.runs.contains_key(&seed) {
            return;
        }
        let mut is_counted = false;
        for (kind, met) in self.kinds.iter_mut().filter(|(kind, _)| kind.from <= seed) {
            met.runs += 1;
            if !is_counted && kind.allows(seed, codes) {
                is_counted = true;
                met.failed += 1;
                if met.seeds.len() < SEEDS_NAMED {
                    met.seeds.push(seed);
                }
            }
        }
    }

    /// How often each kind was met, and whether that agrees with the list.
    pub(in crate::sim) fn kinds_met(&self) -> Vec<(String, bool)> {
        let met = self.kinds.iter().filter(|(_, met)| met.runs > 0);
        met.map(|(kind, met)| {
            let codes = words(&kind.codes);
            let seeds: String = met.seeds.iter().map(|seed| format!(" {seed}")).collect();
            let more = if met.failed > met.seeds.len() as u64 { " and others" } else { "" };
            let seeds = if met.failed == 0 { seeds } else { format!(" (seeds{seeds}{more})") };
            let text = format!("{} of {} seeds broke only {codes}{seeds}", met.failed, met.runs);
            // With fewer than [`ENOUGH`] runs, the bound is that of [`ENOUGH`] runs: chance decides among few. One
            // failure of a rare kind is always within it.
            let most = (kind.most * met.runs.max(ENOUGH)).max(if kind.rare { 1_000 } else { 0 });
            match (met.failed, met.runs >= ENOUGH && !kind.rare) {
                (0, true) => (format!("{text}, as is listed: correct the list if that was mended"), false),
                (failed, _) if failed * 1_000 > most => {
                    (format!("{text}; at most {} of 1000 are known to", kind.most), false)
                }
                _ => (format!("{text}, as is known"), true),
            }
        })
        .collect()
    }
}

/// The rows, without members and causes.
impl fmt::Display for Listed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (seed, codes) in &self.runs {
            writeln!(f, "{seed}: {}", words(codes))?;
        }
        for (Kind { from, most, rare, codes, .. }, _) in &self.kinds {
            let or_none = if *rare { " or none" } else { "" };
            writeln!(f, "{from}.. at most {most} of 1000{or_none}: {}", words(codes))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use phalanx_sim::Draw;

    use super::super::Campaign;
    use super::*;

    fn set(codes: &str) -> Codes {
        codes.split_whitespace().map(str::to_owned).collect()
    }

    fn kind(from: u64, most: u64, rare: bool, codes: &str) -> Kind {
        let campaign = Campaign::Cells(Draw::Swarm);
        Kind { campaign, members: None, from, most, rare, codes: set(codes) }
    }

    fn held(listed: &Listed) -> Vec<bool> {
        listed.kinds_met().iter().map(|(_, held)| *held).collect()
    }

    #[test]
    fn a_run_must_fail_exactly_as_listed() {
        let none = Listed::default();
        assert_eq!(none.standing(7, &set("")), Standing::Holds);
        assert_eq!(none.standing(7, &set("V1")), Standing::Unlisted);
        let listed = Listed::new([(7, set("U1 V1"))].into(), []);
        assert_eq!(listed.standing(7, &set("V1 U1 V1")), Standing::AsListed);
        for codes in ["", "U1", "U1 V1 V3", "S3 U2"] {
            assert_eq!(listed.standing(7, &set(codes)), Standing::NotAsListed("U1 V1".to_owned()));
        }
    }

    #[test]
    fn a_kind_of_failures_is_met_as_often_as_is_known() {
        let listed = |from| Listed::new(BTreeMap::new(), [kind(from, 250, false, "M10 U6")]);
        for (codes, wanted) in [
            ("U6", Standing::OfKind),
            ("U6 M10", Standing::OfKind),
            ("U6 U1", Standing::Unlisted),
            ("", Standing::Holds),
        ] {
            assert_eq!(listed(7).standing(7, &set(codes)), wanted);
        }
        assert_eq!(listed(8).standing(7, &set("U6")), Standing::Unlisted);
        for (failed, runs, good) in
            [(0, 99, true), (0, 100, false), (1, 100, true), (25, 100, true), (26, 100, false), (25, 30, true)]
        {
            let mut listed = listed(7);
            for run in 0..runs {
                listed.count(7, &set(if run < failed { "U6" } else { "" }));
            }
            assert_eq!(held(&listed), [good], "{failed} of {runs}");
        }
        let mut later = listed(8);
        later.count(7, &set("U6"));
        assert!(later.kinds_met().is_empty());
    }

    #[test]
    fn a_rare_kind_may_be_absent_and_may_not_be_frequent() {
        for (failed, runs, good) in [(0, 100, true), (1, 100, true), (2, 100, false), (4, 1000, true), (5, 1000, false)]
        {
            let mut listed = Listed::new(BTreeMap::new(), [kind(0, 4, true, "V14")]);
            for run in 0..runs {
                listed.count(run, &set(if run < failed { "V14" } else { "" }));
            }
            assert_eq!(held(&listed), [good], "{failed} of {runs}");
        }
    }

    #[test]
    fn a_failure_counts_once_and_its_seed_is_named() {
        let kinds = [kind(0, 10, true, "V14"), kind(0, 900, false, "V14 V6")];
        let mut listed = Listed::new(BTreeMap::new(), kinds);
        listed.count(17, &set("V14"));
        listed.count(18, &set("V6 V14"));
        let met: Vec<String> = listed.kinds_met().into_iter().map(|(text, _)| text).collect();
        assert_eq!(
            met,
            [
                "1 of 2 seeds broke only V14 (seeds 17), as is known",
                "1 of 2 seeds broke only V14 V6 (seeds 18), as is known"
            ]
        );
    }
}
