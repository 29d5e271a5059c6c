//! A list of runs that are known to fail, each with the exact codes of its violations.
//!
//! A listed run that holds, or fails with other codes, is as wrong as an unlisted one that fails. So the list states
//! exactly what is broken today.
//!
//! A failure that occurs in many seeds cannot be listed run by run for seeds that have not run yet. For these the list
//! has kinds of failures: from a seed on, runs may break only these properties, and at most N of 1,000 runs do. It is
//! also wrong if no run does, once [`ENOUGH`] have run.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use phalanx_sim::{Draw, Options, SeedResult, UnknownDraw, run_seed};

use crate::exit::{Exit, Failure, While};

/// Properties, by their codes.
pub(super) type Codes = BTreeSet<String>;

/// One listed run.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    draw: Draw,
    members: usize,
    seed: u64,
    codes: Codes,
}

/// A kind of failure, expected of any seed.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Kind {
    draw: Draw,
    /// Members of the runs it applies to. `None`: any number.
    members: Option<usize>,
    /// The first seed that it applies to.
    from: u64,
    /// Bound on the failures in 1,000 runs.
    most: u64,
    /// The properties of which a failing run breaks some, and no others.
    codes: Codes,
}

/// Number of runs after which at least one must have failed as its kind says.
const ENOUGH: u64 = 100;

/// The list.
#[derive(Debug, Default)]
pub(super) struct Known {
    entries: Vec<Entry>,
    kinds: Vec<Kind>,
}

/// The part of the list that applies to one campaign, and the campaign's matches.
#[derive(Debug, Default)]
pub(super) struct Listed {
    runs: BTreeMap<u64, Codes>,
    kinds: Vec<(Kind, Met)>,
}

/// Runs that a kind applies to, and those of them that failed accordingly.
#[derive(Clone, Copy, Debug, Default)]
struct Met {
    runs: u64,
    failed: u64,
}

/// How a run compares with the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Standing {
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

impl Known {
    /// Reads a list. A line for each run has five columns separated by tabs: kind of campaign, members, seed, codes
    /// separated by blanks, cause. A kind of failures has `any` for the members, and `A.. at most N of 1000` for the
    /// seed: it applies from seed A on. Empty lines and lines that begin with `#` are skipped.
    ///
    /// # Errors
    /// When the file cannot be read, a line is malformed, or a run is listed twice.
    pub(super) fn read(file: &Path) -> Result<Self, Failure> {
        let text = fs::read_to_string(file).when(format_args!("cannot read {}", file.display()))?;
        let mut known = Self::default();
        for (index, line) in text.lines().enumerate() {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let wrong =
                |what: &str| Failure::new(Exit::Usage, format!("{}, line {}: {what}", file.display(), index + 1));
            let entry = match parse(line).map_err(|what| wrong(&what))? {
                Row::Run(entry) => entry,
                Row::Kind(kind) => {
                    known.kinds.push(kind);
                    continue;
                }
            };
            if known.entries.iter().any(|other| other.is_same_run(&entry)) {
                return Err(wrong("this run is listed twice"));
            }
            known.entries.push(entry);
        }
        Ok(known)
    }

    /// The entries that apply to runs under `options`.
    pub(super) fn of(&self, options: &Options) -> Listed {
        let here = self.entries.iter().filter(|e| e.draw == options.draw && e.members == options.members);
        let runs = here.map(|entry| (entry.seed, entry.codes.clone())).collect();
        let is_here = |k: &&Kind| k.draw == options.draw && k.members.is_none_or(|members| members == options.members);
        let kinds = self.kinds.iter().filter(is_here).map(|kind| (kind.clone(), Met::default())).collect();
        Listed { runs, kinds }
    }

    /// Runs every listed run, otherwise under `options`, and calls `each` with the result and how it compares.
    pub(super) fn run_all(&self, options: &Options, mut each: impl FnMut(&SeedResult, &Options, &Standing)) {
        for entry in &self.entries {
            let options = Options { draw: entry.draw, members: entry.members, ..options.clone() };
            let result = run_seed(entry.seed, &options);
            let listed = Listed { runs: BTreeMap::from([(entry.seed, entry.codes.clone())]), kinds: Vec::new() };
            each(&result, &options, &listed.standing(&result));
        }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }
}

impl Entry {
    fn is_same_run(&self, other: &Self) -> bool {
        (&self.draw, self.members, self.seed) == (&other.draw, other.members, other.seed)
    }
}

/// A parsed line.
enum Row {
    Run(Entry),
    Kind(Kind),
}

fn parse(line: &str) -> Result<Row, String> {
    let columns: Vec<&str> = line.split('\t').collect();
    let [draw, members, seed, codes, cause] = columns.as_slice() else {
        return Err(format!("{} columns instead of five, between tabs", columns.len()));
    };
    let number = |what: &str, text: &str| text.parse::<u64>().map_err(|error| format!("{what} '{text}': {error}"));
    let codes: Codes = codes.split_whitespace().map(str::to_owned).collect();
    if codes.is_empty() {
        return Err("no code: which property does it break?".to_owned());
    }
    if cause.trim().is_empty() {
        return Err("no cause: why does it fail?".to_owned());
    }
    let draw = draw.parse().map_err(|error: UnknownDraw| error.to_string())?;
    let members = match *members {
        "any" => None,
        text => Some(usize::try_from(number("members", text)?).map_err(|error| error.to_string())?),
    };
    if let Some((from, most)) = seed.split_once(".. at most ") {
        let most =
            most.strip_suffix(" of 1000").ok_or_else(|| format!("seeds '{seed}': write A.. at most N of 1000"))?;
        let kind = Kind { draw, members, from: number("seed", from)?, most: number("at most", most)?, codes };
        return if kind.most < 1000 {
            Ok(Row::Kind(kind))
        } else {
            Err("such a kind of failures forbids nothing".to_owned())
        };
    }
    let members = members.ok_or("one run has a number of members")?;
    Ok(Row::Run(Entry { draw, members, seed: number("seed", seed)?, codes }))
}

impl Standing {
    /// Whether the run is as the list says.
    pub(super) fn is_expected(&self) -> bool {
        matches!(self, Self::Holds | Self::AsListed | Self::OfKind)
    }
}

impl Listed {
    pub(super) fn is_empty(&self) -> bool {
        self.runs.is_empty() && self.kinds.is_empty()
    }

    /// Compares `result` with the entries for its seed, and with the kinds.
    pub(super) fn standing(&self, result: &SeedResult) -> Standing {
        let codes = codes(result);
        match self.runs.get(&result.seed) {
            None if codes.is_empty() => Standing::Holds,
            None if self.kinds.iter().any(|(kind, _)| kind.allows(result.seed, &codes)) => Standing::OfKind,
            None => Standing::Unlisted,
            Some(listed) if *listed == codes => Standing::AsListed,
            Some(listed) => Standing::NotAsListed(words(listed)),
        }
    }

    /// Counts a run for the kinds that apply to it.
    pub(super) fn count(&mut self, result: &SeedResult) {
        let codes = codes(result);
        let unlisted = !self.runs.contains_key(&result.seed);
        for (kind, met) in self.kinds.iter_mut().filter(|(kind, _)| unlisted && kind.from <= result.seed) {
            met.runs += 1;
            met.failed += u64::from(kind.allows(result.seed, &codes));
        }
    }

    /// How often each kind was met, and whether that agrees with the list.
    pub(super) fn kinds_met(&self) -> Vec<(String, bool)> {
        let met = self.kinds.iter().filter(|(_, met)| met.runs > 0);
        met.map(|(kind, met)| {
            let codes = words(&kind.codes);
            let text = format!("{} of {} seeds broke only {codes}", met.failed, met.runs);
            // With fewer than [`ENOUGH`] runs, the bound is that of [`ENOUGH`] runs: chance decides among few.
            let too_many = met.failed * 1_000 > kind.most * met.runs.max(ENOUGH);
            match (met.failed, met.runs >= ENOUGH) {
                (0, true) => (format!("{text}, as is listed: correct the list if that was mended"), false),
                _ if too_many => (format!("{text}; at most {} of 1000 are known to", kind.most), false),
                _ => (format!("{text}, as is known"), true),
            }
        })
        .collect()
    }
}

impl Kind {
    fn allows(&self, seed: u64, codes: &Codes) -> bool {
        self.from <= seed && !codes.is_empty() && codes.is_subset(&self.codes)
    }
}

/// The properties that the run broke.
pub(super) fn codes(result: &SeedResult) -> Codes {
    result.violations.iter().map(|violation| violation.code.clone()).collect()
}

/// Codes separated by blanks.
pub(super) fn words(codes: &Codes) -> String {
    codes.iter().map(String::as_str).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use phalanx_sim::{Counters, Violation};

    use super::*;

    fn set(codes: &str) -> Codes {
        codes.split_whitespace().map(str::to_owned).collect()
    }

    fn result(codes: &[&str]) -> SeedResult {
        let violation = |code: &&str| Violation { code: (*code).to_owned(), at_ns: 0, text: String::new() };
        SeedResult {
            seed: 7,
            members: 3,
            trace_hash: 0,
            full: true,
            violations: codes.iter().map(violation).collect(),
            counters: Counters::default(),
            story: None,
            history: Vec::new(),
        }
    }

    #[test]
    fn a_run_must_fail_exactly_as_listed() {
        let none = Listed::default();
        assert_eq!(none.standing(&result(&[])), Standing::Holds);
        assert_eq!(none.standing(&result(&["V1"])), Standing::Unlisted);
        let listed = Listed { runs: BTreeMap::from([(7, set("U1 V1"))]), kinds: Vec::new() };
        assert_eq!(listed.standing(&result(&["V1", "U1", "V1"])), Standing::AsListed);
        for codes in [&[][..], &["U1"], &["U1", "V1", "V3"], &["S3", "U2"]] {
            assert_eq!(listed.standing(&result(codes)), Standing::NotAsListed("U1 V1".to_owned()));
        }
    }

    #[test]
    fn a_kind_of_failures_is_met_as_often_as_is_known() {
        let kind = |from| Kind { draw: Draw::Swarm, members: None, from, most: 250, codes: set("M10 U6") };
        let listed = |from| Listed { runs: BTreeMap::new(), kinds: vec![(kind(from), Met::default())] };
        for (codes, wanted) in [
            (&["U6"][..], Standing::OfKind),
            (&["U6", "M10"], Standing::OfKind),
            (&["U6", "U1"], Standing::Unlisted),
            (&[], Standing::Holds),
        ] {
            assert_eq!(listed(7).standing(&result(codes)), wanted);
        }
        assert_eq!(listed(8).standing(&result(&["U6"])), Standing::Unlisted);
        for (failed, runs, held) in
            [(0, 99, true), (0, 100, false), (1, 100, true), (25, 100, true), (26, 100, false), (25, 30, true)]
        {
            let mut listed = listed(7);
            for run in 0..runs {
                listed.count(&result(if run < failed { &["U6"] } else { &[] }));
            }
            assert_eq!(
                listed.kinds_met().iter().map(|(_, held)| *held).collect::<Vec<_>>(),
                [held],
                "{failed} of {runs}"
            );
        }
        let mut later = listed(8);
        later.count(&result(&["U6"]));
        assert!(later.kinds_met().is_empty());
    }

    #[test]
    fn a_list_is_read_and_what_is_wrong_in_it_is_named() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let file = directory.path().join("known.tsv");
        let read = |text: &str| {
            fs::write(&file, text).expect("writable");
            Known::read(&file)
        };
        let known = "# a comment\n\nswarm\t5\t7\tU1 V1\tits cause\nswarm\t3\t7\tU1\tanother\n\
            swarm\tany\t8.. at most 250 of 1000\tU1\ta third\npartial\t5\t8.. at most 2 of 1000\tU2\ta fourth\n";
        let known = read(known).expect("reads");
        let here = known.of(&Options { members: 5, ..Options::default() });
        assert_eq!(here.runs, BTreeMap::from([(7, set("U1 V1"))]));
        assert_eq!(here.kinds.iter().map(|(kind, _)| (kind.from, kind.most)).collect::<Vec<_>>(), [(8, 250)]);
        assert_eq!(known.len(), 2);
        for (text, what) in [
            ("swarm\t5\t7\tU1\n", "line 1: 4 columns"),
            ("storm\t5\t7\tU1\tcause\n", "line 1: no kind of campaign"),
            ("swarm\t5\tx\tU1\tcause\n", "line 1: seed 'x'"),
            ("#\nswarm\t5\t7\t \tcause\n", "line 2: no code"),
            ("swarm\t5\t7\tU1\t \n", "line 1: no cause"),
            ("swarm\tany\t7\tU1\tcause\n", "line 1: one run has a number of members"),
            ("swarm\tany\t7.. at most 3\tU1\tcause\n", "line 1: seeds '7.. at most 3': write A.. at most N of 1000"),
            ("swarm\tany\t7.. at most 1000 of 1000\tU1\tcause\n", "line 1: such a kind of failures forbids nothing"),
            ("swarm\t5\t7\tU1\ta\nswarm\t5\t7\tU2\tb\n", "line 2: this run is listed twice"),
        ] {
            let failure = read(text).expect_err("refused");
            assert!(failure.what.contains(what), "{}", failure.what);
        }
    }
}
