//! Reads the list.

use std::fs;
use std::path::Path;

use phalanx_sim::UnknownDraw;

use super::list::Known;
use super::{Campaign, Codes, Entry, Kind};
use crate::exit::{Exit, Failure, While};

/// A parsed line.
enum Row {
    Run(Entry),
    Kind(Kind),
}

impl Known {
    /// Reads a list. A line for each run has five columns separated by tabs: kind of campaign, members, seed, codes
    /// separated by blanks, cause. Kinds of campaigns are those of [`phalanx_sim::Draw`], and `calls` with 0
    /// members. A kind of failures has `any` for the
    /// members, or a number, and `A.. at most N of 1000` for the seed: it applies from seed A on. With ` or none` after
    /// that it is rare. Empty lines and lines that begin with `#` are skipped.
    ///
    /// # Errors
    /// When the file cannot be read, a line is malformed, a run is listed twice, or no listed run fails as a rare kind
    /// says.
    pub(in crate::sim) fn read(file: &Path) -> Result<Self, Failure> {
        let text = fs::read_to_string(file).when(format_args!("cannot read {}", file.display()))?;
        let wrong =
            |line: usize, what: &str| Failure::new(Exit::Usage, format!("{}, line {line}: {what}", file.display()));
        let mut known = Self::default();
        let mut rare = Vec::new();
        for (index, line) in text.lines().enumerate() {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            match parse(line).map_err(|what| wrong(index + 1, &what))? {
                Row::Run(entry) if known.entries.iter().any(|other| other.is_same_run(&entry)) => {
                    return Err(wrong(index + 1, "this run is listed twice"));
                }
                Row::Run(entry) => known.entries.push(entry),
                Row::Kind(kind) => {
                    rare.extend(kind.rare.then_some((index + 1, known.kinds.len())));
                    known.kinds.push(kind);
                }
            }
        }
        for (line, kind) in rare {
            if !known.entries.iter().any(|entry| known.kinds[kind].is_shown_by(entry)) {
                return Err(wrong(line, "no listed run fails so: a rare kind of failures needs one"));
            }
        }
        Ok(known)
    }
}

fn parse(line: &str) -> Result<Row, String> {
    let columns: Vec<&str> = line.split('\t').collect();
    let [campaign, members, seed, codes, cause] = columns.as_slice() else {
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
    let campaign = match *campaign {
        "calls" => Campaign::Calls,
        text => Campaign::Cells(text.parse().map_err(|error: UnknownDraw| error.to_string())?),
    };
    let members = match *members {
        "any" => None,
        text => Some(usize::try_from(number("members", text)?).map_err(|error| error.to_string())?),
    };
    if campaign == Campaign::Calls && members != Some(0) {
        return Err("calls have 0 members: the seed says how many take part".to_owned());
    }
    if let Some((from, most)) = seed.split_once(".. at most ") {
        let (most, rare) = most.strip_suffix(" or none").map_or((most, false), |most| (most, true));
        let most = most
            .strip_suffix(" of 1000")
            .ok_or_else(|| format!("seeds '{seed}': write A.. at most N of 1000, and 'or none' if it is rare"))?;
        let (from, most) = (number("seed", from)?, number("at most", most)?);
        return if most < 1000 {
            Ok(Row::Kind(Kind { campaign, members, from, most, rare, codes }))
        } else {
            Err("such a kind of failures forbids nothing".to_owned())
        };
    }
    let members = members.ok_or("one run has a number of members")?;
    Ok(Row::Run(Entry { campaign, members, seed: number("seed", seed)?, codes }))
}

#[cfg(test)]
mod tests {
    use phalanx_sim::Options;

    use super::*;

    #[test]
    fn a_list_is_read_and_what_is_wrong_in_it_is_named() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let file = directory.path().join("known.tsv");
        let read = |text: &str| {
            fs::write(&file, text).expect("writable");
            Known::read(&file)
        };
        let known = "# a comment\n\nswarm\t5\t7\tU1 V1\tits cause\nswarm\t3\t7\tU1\tanother\n\
            swarm\tany\t8.. at most 250 of 1000\tU1\ta third\npartial\t5\t8.. at most 2 of 1000\tU2\ta fourth\n\
            calls\t0\t9\tR1\ta fifth\ncalls\t0\t10.. at most 1 of 1000 or none\tR1 R2\ta sixth\n";
        let known = read(known).expect("reads");
        let here = known.of(&Options { members: 5, ..Options::default() });
        assert_eq!(here.to_string(), "7: U1 V1\n8.. at most 250 of 1000: U1\n");
        assert_eq!(known.of_calls().to_string(), "9: R1\n10.. at most 1 of 1000 or none: R1 R2\n");
        assert_eq!(known.len(), 3);
        for (text, what) in [
            ("swarm\t5\t7\tU1\n", "line 1: 4 columns"),
            ("storm\t5\t7\tU1\tcause\n", "line 1: no kind of campaign"),
            ("swarm\t5\tx\tU1\tcause\n", "line 1: seed 'x'"),
            ("#\nswarm\t5\t7\t \tcause\n", "line 2: no code"),
            ("swarm\t5\t7\tU1\t \n", "line 1: no cause"),
            ("swarm\tany\t7\tU1\tcause\n", "line 1: one run has a number of members"),
            ("calls\t5\t7\tR1\tcause\n", "line 1: calls have 0 members"),
            ("swarm\tany\t7.. at most 3\tU1\tcause\n", "line 1: seeds '7.. at most 3': write A.. at most N of 1000"),
            ("swarm\tany\t7.. at most 1000 of 1000\tU1\tcause\n", "line 1: such a kind of failures forbids nothing"),
            ("swarm\t5\t7\tU1\ta\nswarm\t5\t7\tU2\tb\n", "line 2: this run is listed twice"),
            ("swarm\tany\t7.. at most 1 of 1000 or none\tU1\tcause\n", "line 1: no listed run fails so"),
            (
                "swarm\t5\t7\tU1 U2\ta\nswarm\t5\t7.. at most 1 of 1000 or none\tU1\tb\n",
                "line 2: no listed run fails so",
            ),
        ] {
            let failure = read(text).expect_err("refused");
            assert!(failure.what.contains(what), "{}", failure.what);
        }
    }
}
