//! Violations that are known and not mended yet: a list of runs that fail, each with exactly the codes it fails with.
//!
//! A listed run that holds, or fails with other codes, is as wrong as an unlisted one that fails: the list says what is
//! broken today, no more and no less.

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

/// The list.
#[derive(Debug, Default)]
pub(super) struct Known {
    entries: Vec<Entry>,
}

/// How a run stands to the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It holds, and is not listed.
    Holds,
    /// It fails as listed.
    AsListed,
    /// It fails, and is not listed.
    Unlisted,
    /// It is listed with these codes, and holds or fails with others.
    NotAsListed(String),
}

impl Known {
    /// Reads a list: a line for each run, with five columns between tabs: kind of campaign, members asked for, seed,
    /// codes between blanks, cause. Empty lines and lines that begin with `#` are passed over.
    ///
    /// # Errors
    /// When the file cannot be read, or a line is not of that form, or a run is listed twice.
    pub(super) fn read(file: &Path) -> Result<Self, Failure> {
        let text = fs::read_to_string(file).when(format_args!("cannot read {}", file.display()))?;
        let mut known = Self::default();
        for (index, line) in text.lines().enumerate() {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let wrong =
                |what: &str| Failure::new(Exit::Usage, format!("{}, line {}: {what}", file.display(), index + 1));
            let entry = parse(line).map_err(|what| wrong(&what))?;
            if known.entries.iter().any(|other| other.is_same_run(&entry)) {
                return Err(wrong("this run is listed twice"));
            }
            known.entries.push(entry);
        }
        Ok(known)
    }

    /// What the list says of runs under `options`: codes by seed.
    pub(super) fn of(&self, options: &Options) -> BTreeMap<u64, Codes> {
        let here = self.entries.iter().filter(|e| e.draw == options.draw && e.members == options.members);
        here.map(|entry| (entry.seed, entry.codes.clone())).collect()
    }

    /// Runs everything that is listed, under `options` otherwise, and calls `each` with the result and how it stands.
    pub(super) fn run_all(&self, options: &Options, mut each: impl FnMut(&SeedResult, &Options, &Standing)) {
        for entry in &self.entries {
            let options = Options { draw: entry.draw, members: entry.members, ..options.clone() };
            let result = run_seed(entry.seed, &options);
            each(&result, &options, &standing(&result, Some(&entry.codes)));
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

fn parse(line: &str) -> Result<Entry, String> {
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
    let members = usize::try_from(number("members", members)?).map_err(|error| error.to_string())?;
    let draw = draw.parse().map_err(|error: UnknownDraw| error.to_string())?;
    Ok(Entry { draw, members, seed: number("seed", seed)?, codes })
}

impl Standing {
    /// Whether it is as it should be.
    pub(super) fn is_expected(&self) -> bool {
        matches!(self, Self::Holds | Self::AsListed)
    }
}

/// How `result` stands to the codes listed for its seed.
pub(super) fn standing(result: &SeedResult, listed: Option<&Codes>) -> Standing {
    let codes: Codes = result.violations.iter().map(|violation| violation.code.clone()).collect();
    match listed {
        None if codes.is_empty() => Standing::Holds,
        None => Standing::Unlisted,
        Some(listed) if *listed == codes => Standing::AsListed,
        Some(listed) => Standing::NotAsListed(words(listed)),
    }
}

/// Codes with blanks between them.
pub(super) fn words(codes: &Codes) -> String {
    codes.iter().map(String::as_str).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use phalanx_sim::{Counters, Violation};

    use super::*;

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
        let listed = BTreeSet::from(["U1".to_owned(), "V1".to_owned()]);
        assert_eq!(standing(&result(&[]), None), Standing::Holds);
        assert_eq!(standing(&result(&["V1"]), None), Standing::Unlisted);
        assert_eq!(standing(&result(&["V1", "U1", "V1"]), Some(&listed)), Standing::AsListed);
        for codes in [&[][..], &["U1"], &["U1", "V1", "V3"], &["S3", "U2"]] {
            assert_eq!(standing(&result(codes), Some(&listed)), Standing::NotAsListed("U1 V1".to_owned()));
        }
    }

    #[test]
    fn a_list_is_read_and_what_is_wrong_in_it_is_named() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let file = directory.path().join("known.tsv");
        let read = |text: &str| {
            fs::write(&file, text).expect("writable");
            Known::read(&file)
        };
        let known = read("# a comment\n\nswarm\t5\t7\tU1 V1\tits cause\nswarm\t3\t7\tU1\tanother\n").expect("reads");
        let here = known.of(&Options { members: 5, ..Options::default() });
        assert_eq!(here, BTreeMap::from([(7, BTreeSet::from(["U1".to_owned(), "V1".to_owned()]))]));
        assert_eq!(known.len(), 2);
        for (text, what) in [
            ("swarm\t5\t7\tU1\n", "line 1: 4 columns"),
            ("storm\t5\t7\tU1\tcause\n", "line 1: no kind of campaign"),
            ("swarm\t5\tx\tU1\tcause\n", "line 1: seed 'x'"),
            ("#\nswarm\t5\t7\t \tcause\n", "line 2: no code"),
            ("swarm\t5\t7\tU1\t \n", "line 1: no cause"),
            ("swarm\t5\t7\tU1\ta\nswarm\t5\t7\tU2\tb\n", "line 2: this run is listed twice"),
        ] {
            let failure = read(text).expect_err("refused");
            assert!(failure.what.contains(what), "{}", failure.what);
        }
    }
}
