//! `phalanx sim --costs` and `--churn`: measure for each kind of fault what a single one costs the other members,
//! against the promised bound. `--overload`: checks whether an overloaded cell stays whole.

use std::io::{IsTerminal, Write};
use std::ops::Range;
use std::time::Instant;

use clap::Args;
use phalanx_runtime::core::member::FaultKind;
use phalanx_sim::costs::{Bottleneck, CHURNING, Changes, Cost, Overload, SIMULATED, TIMES, cost, overload};

use super::each::each;
use crate::exit::Exit;
use crate::notice::{data, say};
use crate::table::Table;

/// Flags of `--costs`, `--churn` and `--overload`.
#[derive(Args, Debug)]
pub(super) struct Costs {
    /// Instead of a seed's random faults: one fault of each of these kinds [default: all], which stays for a minute in
    /// a cell with steady traffic; shows how long the others were without new messages, against the bound of
    /// docs/costs.md
    #[arg(long, value_name = "KIND,..", value_delimiter = ',', num_args = 0..=1, default_missing_value = "all")]
    #[arg(value_parser = parse_kinds, conflicts_with_all = NOT_WITH)]
    costs: Option<Vec<Kinds>>,
    /// The same for five minutes: counts the view changes, exclusions and transfers of each minute [default: link,
    /// flapping-link, flapping-host]
    #[arg(long, value_name = "KIND,..", value_delimiter = ',', num_args = 0..=1, default_missing_value = "all")]
    #[arg(value_parser = parse_kinds, conflicts_with_all = NOT_WITH, conflicts_with = "costs")]
    churn: Option<Vec<Kinds>>,
    /// Instead of faults: a cell under three times the load that its interfaces, its links or its processors can carry,
    /// for this many seconds each; no member may be excluded
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(10..=86_400))]
    #[arg(conflicts_with_all = NOT_WITH, conflicts_with_all = ["costs", "churn"])]
    overload: Option<u64>,
}

const NOT_WITH: [&str; 15] = [
    "calls",
    "scale",
    "known",
    "only_known",
    "partial",
    "draw",
    "mild",
    "faults",
    "reduced",
    "svg",
    "journal",
    "all_tested",
    "coverage",
    "histories",
    "tap",
];

/// One element of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kinds {
    All,
    One(FaultKind),
}

fn parse_kinds(text: &str) -> Result<Kinds, String> {
    if text == "all" {
        return Ok(Kinds::All);
    }
    let found = SIMULATED.into_iter().find(|kind| kind.name() == text);
    let known = || SIMULATED.map(FaultKind::name).join(", ");
    found.map(Kinds::One).ok_or_else(|| format!("no kind that is simulated; these are: {}", known()))
}

/// Duration of a fault.
const STAYS_S: u64 = 60;
const CHURNS_S: u64 = 300;
/// Bound on the views, on the exclusions and on the transfers of any minute but the first.
const CHANGES_MAX: u64 = 2;
/// Number of seeds named in the table's last column.
const NAMED: usize = 4;

impl Costs {
    /// Whether one of these flags was given.
    pub(super) fn is_asked(&self) -> bool {
        self.costs.is_some() || self.churn.is_some() || self.overload.is_some()
    }
}

/// Runs each kind with each seed. With `members` 0 the seed chooses three to seven.
pub(super) fn run(costs: &Costs, seeds: &Range<u64>, step: u64, members: usize, threads: usize, json: bool) -> Exit {
    let seeds: Vec<u64> = seeds.clone().step_by(usize::try_from(step).unwrap_or(1)).collect();
    match costs.overload {
        None => run_faults(costs, &seeds, members, threads, json),
        Some(seconds) => run_overload(seconds, &seeds, members, threads, json),
    }
}

fn run_faults(costs: &Costs, seeds: &[u64], members: usize, threads: usize, json: bool) -> Exit {
    let (asked, all, stays_s) = match (&costs.costs, &costs.churn) {
        (Some(asked), _) => (asked, &SIMULATED[..], STAYS_S),
        (None, asked) => (asked.as_ref().unwrap_or(const { &Vec::new() }), &CHURNING[..], CHURNS_S),
    };
    let churns = costs.churn.is_some();
    let is_asked =
        |kind: &&FaultKind| asked.contains(&Kinds::One(**kind)) || asked.contains(&Kinds::All) && all.contains(*kind);
    let kinds: Vec<FaultKind> = SIMULATED.iter().filter(is_asked).copied().collect();
    let began = Instant::now();
    let run = |number: usize| cost(kinds[number % kinds.len()], seeds[number / kinds.len()], members, stays_s);
    let (mut rows, story) = all_of(kinds.len() * seeds.len(), threads, json, run, |cost: &mut Cost| cost.story.take());
    rows.sort_by_key(|cost| cost.seed);
    let table = if churns { tell_changes(&kinds, &rows) } else { tell_costs(&kinds, &rows) };
    let runs = rows.len();
    let end = format!("{runs} runs of {stays_s} s with the fault, in {:.0} s", began.elapsed().as_secs_f64());
    tell(story, &table, &end, json);
    let kept = |cost: &Cost| if churns { is_calm(cost) && cost.violations.is_empty() } else { cost.is_kept() };
    if rows.iter().all(kept) { Exit::Good } else { Exit::Failure }
}

/// Overloads each part of a cell with each seed.
fn run_overload(seconds: u64, seeds: &[u64], members: usize, threads: usize, json: bool) -> Exit {
    let began = Instant::now();
    let kinds = Bottleneck::ALL;
    let run = |number: usize| overload(kinds[number % kinds.len()], seeds[number / kinds.len()], members, seconds);
    let (mut rows, story) =
        all_of(kinds.len() * seeds.len(), threads, json, run, |row: &mut Overload| row.story.take());
    rows.sort_by_key(|row| row.seed);
    let runs = rows.len();
    let end = format!(
        "{runs} runs of {seconds} s, asked for {TIMES} times what can be done, in {:.0} s",
        began.elapsed().as_secs_f64()
    );
    tell(story, &tell_overload(&rows), &end, json);
    if rows.iter().all(Overload::is_kept) { Exit::Good } else { Exit::Failure }
}

/// Returns every run's result, and the first story of a failure. With `json` each result is printed at once.
fn all_of<R: serde::Serialize + Send>(
    total: usize,
    threads: usize,
    json: bool,
    run: impl Fn(usize) -> R + Sync,
    story_of: impl Fn(&mut R) -> Option<String>,
) -> (Vec<R>, Option<String>) {
    let shown = std::io::stderr().is_terminal();
    let (mut rows, mut story) = (Vec::new(), None);
    let run = |number: u64| run(usize::try_from(number).unwrap_or(0));
    each(0..total as u64, threads, run, |mut row: R| {
        if json {
            data(serde_json::json!(row));
        }
        if let Some(told) = story_of(&mut row) {
            story = story.take().or(Some(told));
        }
        rows.push(row);
        if shown {
            // A closed standard error is no reason to stop.
            let _ = write!(std::io::stderr(), "\r{} of {total} runs ", rows.len());
        }
    });
    if shown {
        let _ = write!(std::io::stderr(), "\r\x1b[K");
    }
    (rows, story)
}

/// Prints the end of all runs. With `json` standard output carries only JSON, so this goes to standard error.
fn tell(story: Option<String>, table: &str, end: &str, json: bool) {
    let story = story.map(|story| format!("{story}\n")).unwrap_or_default();
    let text = format!("{story}{table}\n{end}");
    if json {
        say(text);
    } else {
        data(text);
    }
}

/// One row for each bottleneck.
fn tell_overload(rows: &[Overload]) -> String {
    let heads =
        ["overloaded", "asked kB/s", "refused %", "longest wait s", "runs", "not met", "left out", "violated", "seeds"];
    let mut table = Table::new(&heads).numbers_from(1);
    for kind in Bottleneck::ALL {
        let of: Vec<&Overload> = rows.iter().filter(|row| row.bottleneck == kind.name()).collect();
        let sum = |of_row: fn(&Overload) -> u64| of.iter().map(|row| of_row(row)).sum::<u64>();
        let (asked, refused, time) = (sum(|row| row.asked_bytes), sum(|row| row.refused_bytes), sum(|row| row.seconds));
        let broken: Vec<String> =
            of.iter().filter(|row| !row.is_kept()).take(NAMED).map(|row| row.seed.to_string()).collect();
        table.row([
            kind.name().to_owned(),
            (asked / time.max(1) / 1_000).to_string(),
            (refused * 100 / asked.max(1)).to_string(),
            seconds(of.iter().map(|row| row.waited_ms).max().unwrap_or(0)),
            of.len().to_string(),
            of.iter().filter(|row| !row.is_met()).count().to_string(),
            of.iter().map(|row| row.left_out.len()).sum::<usize>().to_string(),
            of.iter().filter(|row| !row.violations.is_empty()).count().to_string(),
            broken.join(" "),
        ]);
    }
    table.to_string()
}

/// One row a kind: the promised bound, the measured cost, and the first seeds that exceeded it.
fn tell_costs(kinds: &[FaultKind], rows: &[Cost]) -> String {
    let heads =
        ["fault", "promised s", "p50 s", "p99 s", "worst s", "runs", "exceeded", "left out", "violated", "seeds"];
    let mut table = Table::new(&heads).numbers_from(1);
    for kind in kinds {
        let of: Vec<&Cost> = rows.iter().filter(|cost| cost.kind == kind.name()).collect();
        let mut waited: Vec<u64> = of.iter().map(|cost| cost.waited_ms).collect();
        waited.sort_unstable();
        let bound = of.first().and_then(|cost| cost.bound_ms);
        table.row([
            kind.name().to_owned(),
            bound.map_or_else(|| "-".to_owned(), seconds),
            seconds(percentile(&waited, 50)),
            seconds(percentile(&waited, 99)),
            seconds(percentile(&waited, 100)),
            of.len().to_string(),
            of.iter().filter(|cost| cost.is_exceeded()).count().to_string(),
            of.iter().map(|cost| cost.left_out.len()).sum::<usize>().to_string(),
            of.iter().filter(|cost| !cost.violations.is_empty()).count().to_string(),
            named(of.iter().filter(|cost| !cost.is_kept())),
        ]);
    }
    table.to_string()
}

/// One row a kind: the changes per minute, after the first minute.
fn tell_changes(kinds: &[FaultKind], rows: &[Cost]) -> String {
    let heads = [
        "fault",
        "views: mean",
        "worst",
        "exclusions: mean",
        "worst",
        "transfers: mean",
        "worst",
        "runs",
        "over 2 a minute",
        "seeds",
    ];
    let mut table = Table::new(&heads).numbers_from(1);
    let counts: [fn(&Changes) -> u64; 3] = [|c| c.views, |c| c.exclusions, |c| c.transfers];
    for kind in kinds {
        let of: Vec<&Cost> = rows.iter().filter(|cost| cost.kind == kind.name()).collect();
        let mut row = vec![kind.name().to_owned()];
        for count in counts {
            let minutes: Vec<u64> = of.iter().flat_map(|cost| cost.minutes.iter().skip(1)).map(count).collect();
            let mean = minutes.iter().sum::<u64>() as f64 / minutes.len().max(1) as f64;
            row.push(format!("{mean:.1}"));
            row.push(minutes.iter().max().copied().unwrap_or(0).to_string());
        }
        row.push(of.len().to_string());
        row.push(of.iter().filter(|cost| !is_calm(cost)).count().to_string());
        row.push(named(of.iter().filter(|cost| !is_calm(cost) || !cost.violations.is_empty())));
        table.row(row);
    }
    table.to_string()
}

fn is_calm(cost: &Cost) -> bool {
    let Changes { views, exclusions, transfers } = cost.worst_minute();
    [views, exclusions, transfers].into_iter().all(|count| count <= CHANGES_MAX)
}

/// The first few seeds of these runs.
fn named<'a>(of: impl Iterator<Item = &'a &'a Cost>) -> String {
    let seeds: Vec<String> = of.take(NAMED).map(|cost| cost.seed.to_string()).collect();
    seeds.join(" ")
}

/// The smallest value that `percent` of the values do not exceed; 0 if there are none.
fn percentile(sorted: &[u64], percent: usize) -> u64 {
    let place = (sorted.len() * percent).div_ceil(100);
    sorted.get(place.saturating_sub(1)).copied().unwrap_or(0)
}

fn seconds(ms: u64) -> String {
    format!("{:.1}", ms as f64 / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_came() {
        let sorted: Vec<u64> = (1..=200).collect();
        assert_eq!([50, 99, 100].map(|percent| percentile(&sorted, percent)), [100, 198, 200]);
        assert_eq!((percentile(&[7], 50), percentile(&[], 50)), (7, 0));
    }

    #[test]
    fn kinds_have_the_names_of_the_documents() {
        assert_eq!(parse_kinds("all"), Ok(Kinds::All));
        assert_eq!(parse_kinds("one-way"), Ok(Kinds::One(FaultKind::OneWay)));
        assert!(parse_kinds("full-disk").is_err_and(|why| why.contains("hanging-joiner")));
    }
}
