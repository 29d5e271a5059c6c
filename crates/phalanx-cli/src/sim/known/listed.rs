//! The part of the list that applies to one campaign, and how the campaign's runs compare with it.

use std::fmt;

use phalanx_sim::Class;

use super::{Campaign, Codes, ENOUGH, Entry, Kind, words};

/// The rows that apply to one campaign.
#[derive(Debug)]
pub(in crate::sim) struct Listed {
    campaign: Campaign,
    runs: Vec<Entry>,
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
    /// How a run that broke `found` compares with a row for it.
    pub(super) fn of_listed(listed: &Codes, found: &Codes) -> Self {
        if listed == found { Self::AsListed } else { Self::NotAsListed(words(listed)) }
    }

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
    /// The rows that may be about runs of `campaign`. Those about one class come before those about all ordinary seeds.
    pub(super) fn new(
        campaign: Campaign,
        runs: impl IntoIterator<Item = Entry>,
        kinds: impl IntoIterator<Item = Kind>,
    ) -> Self {
        let drawn = || [None].into_iter().chain(Class::ALL.map(Some));
        let may_apply = |kind: &Kind| drawn().any(|class| kind.applies_to(campaign, class));
        let may_be = |entry: &Entry| drawn().any(|class| entry.campaign.is_about(campaign, class));
        let mut kinds: Vec<(Kind, Met)> =
            kinds.into_iter().filter(may_apply).map(|kind| (kind, Met::default())).collect();
        kinds.sort_by_key(|(kind, _)| kind.campaign == campaign);
        Self { campaign, runs: runs.into_iter().filter(may_be).collect(), kinds }
    }

    /// The codes listed for a run.
    fn codes_of(&self, seed: u64, class: Option<Class>) -> Option<&Codes> {
        let is_it = |entry: &&Entry| entry.seed == seed && entry.campaign.is_about(self.campaign, class);
        self.runs.iter().find(is_it).map(|entry| &entry.codes)
    }

    pub(in crate::sim) fn is_empty(&self) -> bool {
        self.runs.is_empty() && self.kinds.is_empty()
    }

    /// Compares a run of `seed`, which drew `class` and broke `codes`, with the rows for its seed, and with the kinds.
    pub(in crate::sim) fn standing(&self, seed: u64, class: Option<Class>, codes: &Codes) -> Standing {
        let allows = |kind: &Kind| kind.applies_to(self.campaign, class) && kind.allows(seed, codes);
        match self.codes_of(seed, class) {
            None if codes.is_empty() => Standing::Holds,
            None if self.kinds.iter().any(|(kind, _)| allows(kind)) => Standing::OfKind,
            None => Standing::Unlisted,
            Some(listed) => Standing::of_listed(listed, codes),
        }
    }

    /// Counts a run for the kinds that apply to it. A failure counts for the first kind that allows it.
    pub(in crate::sim) fn count(&mut self, seed: u64, class: Option<Class>, codes: &Codes) {
        if self.codes_of(seed, class).is_some() {
            return;
        }
        let (mut is_counted, campaign) = (false, self.campaign);
        let applies = |kind: &Kind| kind.from <= seed && kind.applies_to(campaign, class);
        for (kind, met) in self.kinds.iter_mut().filter(|(kind, _)| applies(kind)) {
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

/// The rows, without campaigns, members and causes.
impl fmt::Display for Listed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Entry { seed, codes, .. } in &self.runs {
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

    use super::*;

    const SWARM: Campaign = Campaign::Cells(Draw::Swarm);

    fn set(codes: &str) -> Codes {
        codes.split_whitespace().map(str::to_owned).collect()
    }

    fn kind(from: u64, most: u64, rare: bool, codes: &str) -> Kind {
        Kind { campaign: SWARM, members: None, from, most, rare, codes: set(codes) }
    }

    fn entry(campaign: Campaign, codes: &str) -> Entry {
        Entry { campaign, members: 5, seed: 7, codes: set(codes) }
    }

    fn held(listed: &Listed) -> Vec<bool> {
        listed.kinds_met().iter().map(|(_, held)| *held).collect()
    }

    #[test]
    fn a_run_must_fail_exactly_as_listed() {
        let none = Listed::new(SWARM, [], []);
        assert_eq!(none.standing(7, None, &set("")), Standing::Holds);
        assert_eq!(none.standing(7, None, &set("V1")), Standing::Unlisted);
        let listed = Listed::new(SWARM, [entry(SWARM, "U1 V1")], []);
        assert_eq!(listed.standing(7, None, &set("V1 U1 V1")), Standing::AsListed);
        for codes in ["", "U1", "U1 V1 V3", "S3 U2"] {
            assert_eq!(listed.standing(7, None, &set(codes)), Standing::NotAsListed("U1 V1".to_owned()));
        }
    }

    #[test]
    fn a_row_of_a_class_is_about_ordinary_seeds_that_draw_it_and_no_others() {
        let (far, none) = (Campaign::Cells(Draw::Only(Class::Far)), Campaign::Cells(Draw::Plain));
        let listed = |campaign| Listed::new(campaign, [entry(far, "V2"), entry(none, "V1")], []);
        for (campaign, class, codes, standing) in [
            (SWARM, Some(Class::Far), "V2", Standing::AsListed),
            (SWARM, None, "V1", Standing::AsListed),
            (SWARM, Some(Class::Stop), "V1", Standing::Unlisted),
            (SWARM, Some(Class::Far), "", Standing::NotAsListed("V2".to_owned())),
            (far, Some(Class::Far), "V2", Standing::AsListed),
            (none, None, "V1", Standing::AsListed),
            (Campaign::Cells(Draw::Rare), None, "V1", Standing::Unlisted),
        ] {
            assert_eq!(listed(campaign).standing(7, class, &set(codes)), standing, "{campaign:?} {class:?}");
        }
        // A failure that a row of the class and one of all ordinary seeds allow counts for the class.
        let of_far = Kind { campaign: far, ..kind(0, 500, false, "V2") };
        let mut both = Listed::new(SWARM, [], [kind(0, 500, false, "V2"), of_far]);
        for (class, codes) in [(Some(Class::Far), "V2"), (Some(Class::Stop), "V2"), (Some(Class::Far), ""), (None, "")]
        {
            both.count(7, class, &set(codes));
        }
        let met: Vec<String> = both.kinds_met().into_iter().map(|(text, _)| text).collect();
        assert_eq!(
            met,
            ["1 of 2 seeds broke only V2 (seeds 7), as is known", "1 of 4 seeds broke only V2 (seeds 7), as is known"]
        );
    }

    #[test]
    fn a_kind_of_failures_is_met_as_often_as_is_known() {
        let listed = |from| Listed::new(SWARM, [], [kind(from, 250, false, "M10 U6")]);
        for (codes, wanted) in [
            ("U6", Standing::OfKind),
            ("U6 M10", Standing::OfKind),
            ("U6 U1", Standing::Unlisted),
            ("", Standing::Holds),
        ] {
            assert_eq!(listed(7).standing(7, None, &set(codes)), wanted);
        }
        assert_eq!(listed(8).standing(7, None, &set("U6")), Standing::Unlisted);
        for (failed, runs, good) in
            [(0, 99, true), (0, 100, false), (1, 100, true), (25, 100, true), (26, 100, false), (25, 30, true)]
        {
            let mut listed = listed(7);
            for run in 0..runs {
                listed.count(7, None, &set(if run < failed { "U6" } else { "" }));
            }
            assert_eq!(held(&listed), [good], "{failed} of {runs}");
        }
        let mut later = listed(8);
        later.count(7, None, &set("U6"));
        assert!(later.kinds_met().is_empty());
    }

    #[test]
    fn a_rare_kind_may_be_absent_and_may_not_be_frequent() {
        for (failed, runs, good) in [(0, 100, true), (1, 100, true), (2, 100, false), (4, 1000, true), (5, 1000, false)]
        {
            let mut listed = Listed::new(SWARM, [], [kind(0, 4, true, "V14")]);
            for run in 0..runs {
                listed.count(run, None, &set(if run < failed { "V14" } else { "" }));
            }
            assert_eq!(held(&listed), [good], "{failed} of {runs}");
        }
    }

    #[test]
    fn a_failure_counts_once_and_its_seed_is_named() {
        let kinds = [kind(0, 10, true, "V14"), kind(0, 900, false, "V14 V6")];
        let mut listed = Listed::new(SWARM, [], kinds);
        listed.count(17, None, &set("V14"));
        listed.count(18, None, &set("V6 V14"));
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
