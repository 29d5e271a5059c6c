//! `phalanx sim`: whole cells in one thread, under faults drawn from a seed, evaluated by the checker.

mod calls;
mod costs;
mod each;
mod histories;
mod journal;
mod known;
mod scale;
mod spent;
mod states;
mod tap;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{IsTerminal, Write};
use std::ops::{ControlFlow, Range, RangeInclusive};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use clap::Args;
use phalanx_sim::{
    Class, Coverage, Draw, Options, Reduction, SeedResult, Shrunk, Stop, Summary, coverage, coverage_table, draw_seed,
    resume, shrink,
};

use self::journal::Journal;
use self::known::{Known, Listed, Standing, codes};
use self::spent::Watch;

use crate::check::parse_window;
use crate::exit::{Exit, Failure, While};
use crate::notice::{data, say};
use crate::table::Table;

/// Runs simulated cells under faults and checks what they did
///
/// One seed decides everything, so a failed seed fails again: the command that replays it is printed.
#[derive(Args, Debug)]
pub(crate) struct Sim {
    /// The seeds to run, the last one excluded
    #[arg(long, value_name = "A..B", default_value = "0..100", value_parser = parse_seeds)]
    seeds: Range<u64>,
    /// Instead of cells: calls between clients and servers under faults, for these seeds, the last one excluded
    #[arg(long, value_name = "A..B", value_parser = parse_seeds, conflicts_with_all = [
        "seeds", "only_known", "partial", "draw", "mild", "faults", "reduced", "svg", "journal", "all_tested",
        "histories", "tap",
    ])]
    calls: Option<Range<u64>>,
    /// Runs that this file lists must fail with exactly the codes it gives, all others must hold: for violations that
    /// are known and not fixed yet
    #[arg(long, value_name = "FILE", conflicts_with = "journal")]
    known: Option<PathBuf>,
    /// Run the listed runs, and no other seeds
    #[arg(long, requires = "known", conflicts_with_all = ["seeds", "faults", "reduced", "svg", "histories", "all_tested", "tap"])]
    only_known: bool,
    /// Processes of each cell; 0: three to sixteen, as the seed says [default: 5; with --costs, --churn and --overload three to seven, as
    /// the seed says]
    #[arg(long, value_name = "N", value_parser = parse_members)]
    members: Option<usize>,
    /// No faults but mild weather, for this many seconds: 5 % loss, 50 ms of jitter, pauses of up to 200 ms. Every
    /// exclusion in it counts as wrong
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(10..=86_400))]
    mild: Option<u64>,
    /// After a short faulty phase, paths that break in part and stay so to the end: one link, one direction, one
    /// socket, packets of one kind, long packets. Members on none of these paths must go on
    #[arg(long, conflicts_with = "mild")]
    partial: bool,
    /// Few of the faults of each seed, and the circumstances of one condition that the others hardly ever meet
    #[arg(long, conflicts_with_all = ["mild", "partial"])]
    rare: bool,
    /// Let every seed draw this class, of which ordinary seeds draw one or none: far (round trips of up to a second),
    /// declared (members that are late and declared it), mixed (members with and without a group's state), crowded (300
    /// and 1,100 groups), churn (a group that changes while another waits), late-death (deaths after the exclusion), stop
    /// (a majority leaves while a group waits), late (members that are late and did not declare it). none: no seed draws
    /// one. states: a user's state in every seed, through the crate phalanx, which a third of ordinary seeds have
    #[arg(long, value_name = "CLASS", conflicts_with_all = ["mild", "partial", "rare"])]
    draw: Option<Drawn>,
    /// Only these of the faults that the one seed draws, by their numbers in the story of a failed seed; none: without
    /// faults
    #[arg(long, value_name = "N,..", conflicts_with = "mild")]
    faults: Option<FaultNumbers>,
    /// Do less than the one seed draws, as printed in the story of a failed seed: members=N, until=MS, gap=MS,
    /// faultN=MS, and the names of omitted parts
    #[arg(long, value_name = "WORD,..", conflicts_with = "mild")]
    reduced: Option<Reduction>,
    /// Draw a space-time diagram into this file: of the one seed, or of the first that failed, after it was shrunk;
    /// with --scale, the figures
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Draw these seconds of the run instead of the violation's surroundings
    #[arg(long, value_name = "FROM..TO", requires = "svg", value_parser = parse_window)]
    window: Option<RangeInclusive<u64>>,
    /// Up to this many members, everybody watches everybody; a larger cell uses the watch graph of large cells
    /// [default: 16]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(2..))]
    watchers: Option<u16>,
    /// Threads; 0: one for each core
    #[arg(long, value_name = "N", default_value_t = 0)]
    threads: usize,
    /// Run only every Nth seed
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    step: u64,
    /// Keep the counts in this file, every few seconds and at the end (SIGINT and SIGTERM included), and continue from
    /// there when it exists: for campaigns of hours
    #[arg(long, value_name = "FILE")]
    journal: Option<PathBuf>,
    /// Stop at the first failed seed
    #[arg(long)]
    stop: bool,
    /// Fail also when a guarantee was never put to the test, or when the campaign's coverage is below its floor: for
    /// campaigns of hundreds of seeds
    #[arg(long)]
    all_tested: bool,
    /// Print the table of the situations that the seeds met, scaled to 10,000 seeds, as in docs/simulator.md
    #[arg(long, conflicts_with = "json")]
    coverage: bool,
    /// One line of JSON for each seed (its number, its trace hash, its violations); the summary goes to standard error
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    scale: scale::Scale,
    #[command(flatten)]
    costs: costs::Costs,
    /// Write the operations of each seed's register and lock users, with their answers, to files in this directory, for
    /// linearizability checkers: seed-7.jsonl and so on
    #[arg(long, value_name = "DIR")]
    histories: Option<PathBuf>,
    #[command(flatten)]
    tap: tap::Tap,
}

pub(crate) fn run(sim: &Sim) -> Result<Exit, Failure> {
    if sim.scale.is_asked() {
        return scale::run(&sim.scale, sim.svg.as_deref(), sim.watchers.map(usize::from), sim.json);
    }
    let known = sim.known.as_deref().map(Known::read).transpose()?.unwrap_or_default();
    if let Some(seeds) = &sim.calls {
        return Ok(calls::run(seeds, &mut known.of_calls(), sim.threads, sim.json));
    }
    if sim.costs.is_asked() {
        let members = sim.members.unwrap_or(0);
        return Ok(costs::run(&sim.costs, &sim.seeds, sim.step, members, sim.threads, sim.json));
    }
    let members = sim.members.unwrap_or(MEMBERS);
    let stop = if sim.stop { Stop::AtFailure } else { Stop::AtTheEnd };
    let mut options =
        Options { members, draw: drawn(sim), threads: sim.threads, step: sim.step, stop, ..Options::default() };
    options.watchers = sim.watchers.map(usize::from);
    options.states = Some(states::states());
    if sim.only_known {
        return Ok(run_known(&known, &options, sim.json));
    }
    if let Some(faults) = &sim.faults {
        options.faults = Some(chosen_faults(faults, sim, &options)?);
    }
    if let Some(reduced) = &sim.reduced {
        options.reduced = one_reduction(reduced, sim)?;
    }
    if let Some(directory) = &sim.histories {
        histories::prepare(directory)?;
        options.histories = true;
    }
    let tap = sim.tap.file(&sim.seeds)?;
    options.tap.clone_from(&tap);
    let mut lost = None;
    let total = (sim.seeds.end - sim.seeds.start).div_ceil(sim.step);
    let mut journal =
        sim.journal.as_deref().map(|file| Journal::open(file, sim.seeds.clone(), &options)).transpose()?;
    let before = journal.as_ref().map(Journal::summary).unwrap_or_default();
    if before.seeds > 0 {
        say(format_args!("{} of {total} seeds were run before, {} of them failed", before.seeds, before.failures));
    }
    let interrupted = Arc::new(AtomicBool::new(false));
    if journal.is_some() {
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&interrupted)).when("cannot watch for signals")?;
        }
    }
    let watch = Watch::start();
    let began = Instant::now();
    let mut progress = Progress {
        total,
        before: before.seeds,
        done: before.seeds,
        failed: before.failures,
        began,
        shown: std::io::stderr().is_terminal(),
        listed: known.of(&options),
        unexpected: Vec::new(),
    };
    let mut kept = Ok(());
    let summary = resume(before, sim.seeds.clone(), &options, |result, so_far| {
        progress.note(result);
        if let Some(directory) = &sim.histories {
            lost = lost.take().or(histories::write(directory, result).err());
        }
        if sim.json {
            data(as_json(result));
        }
        if let Some(journal) = &mut journal
            && kept.is_ok()
        {
            kept = journal.keep_sometimes(so_far);
        }
        if kept.is_err() || interrupted.load(Ordering::Relaxed) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    progress.clear();
    lost.map_or(Ok(()), Err)?;
    kept?;
    let mut spent = watch.spent();
    if let Some(journal) = &mut journal {
        spent = journal.keep(&summary)?;
    }
    let listed = &progress.listed;
    let unexpected = |result: &&SeedResult| !listed.standing(result.seed, result.class, &codes(result)).is_expected();
    let small = summary.failed.iter().find(unexpected).map(|failed| shrink(failed, &options));
    let story = small.as_ref().map(small_story);
    let covered = coverage(&summary, members, options.draw);
    let text = tell(&summary, &covered, story.as_deref(), &options, &spent);
    if sim.json {
        say(text);
    } else {
        data(text);
    }
    if sim.coverage {
        data(coverage_table(&summary).trim_end());
    }
    if let Some(file) = &tap {
        sim.tap.finish(file)?;
    }
    if let Some(file) = &sim.svg {
        draw(file, sim, small.as_ref(), &options)?;
    }
    if interrupted.load(Ordering::Relaxed) && summary.seeds < total {
        say(format_args!("stopped after {} of {total} seeds; the same command goes on from there", summary.seeds));
    }
    let missed = covered.iter().any(|line| !line.is_reached());
    let vacuous = sim.all_tested && (missed || !summary.never_checked.is_empty());
    // Without a list, failures that an earlier process found before an interruption count as well.
    let mut failed = if listed.is_empty() { summary.failures > 0 } else { !progress.unexpected.is_empty() };
    for (text, as_known) in listed.kinds_met() {
        say(text);
        failed |= !as_known;
    }
    Ok(if failed || vacuous { Exit::Failure } else { Exit::Good })
}

/// Runs the listed runs, and prints for each whether it fails as listed.
fn run_known(known: &Known, options: &Options, json: bool) -> Exit {
    let mut unexpected = 0;
    known.run_all(options, |ran| {
        if let Some(result) = ran.result.filter(|_| json) {
            data(as_json(&result));
        }
        if !ran.standing.is_expected() {
            unexpected += 1;
            say(format_args!("{}: {}", ran.command, ran.standing.explain(&ran.codes)));
        }
    });
    let text = format!("{} known violations: {unexpected} of them not as listed", known.len());
    if json {
        say(text);
    } else {
        data(text);
    }
    if unexpected == 0 { Exit::Good } else { Exit::Failure }
}

/// What `--draw` names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Drawn {
    /// A class in every seed.
    Class(Class),
    /// No class in any seed.
    Nothing,
    /// A user's state in every seed, and no class.
    States,
}

impl FromStr for Drawn {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            STATES => Ok(Self::States),
            NOTHING => Ok(Self::Nothing),
            _ => text.parse().map(Self::Class).map_err(|wrong: String| format!("{wrong}, {NOTHING}, {STATES}")),
        }
    }
}

/// The name of [`Drawn::States`].
const STATES: &str = "states";
/// The name of [`Drawn::Nothing`].
const NOTHING: &str = "none";

/// Default number of processes of a cell.
const MEMBERS: usize = 5;

fn drawn(sim: &Sim) -> Draw {
    match sim.mild {
        Some(seconds) => Draw::Mild(seconds),
        None if sim.partial => Draw::Partial,
        None if sim.rare => Draw::Rare,
        None => match sim.draw {
            Some(Drawn::Class(class)) => Draw::Only(class),
            Some(Drawn::Nothing) => Draw::Plain,
            Some(Drawn::States) => Draw::States,
            None => Draw::Swarm,
        },
    }
}

/// Some of a seed's faults, by their numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FaultNumbers(Vec<usize>);

impl FromStr for FaultNumbers {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "none" {
            return Ok(Self(Vec::new()));
        }
        let number = |word: &str| {
            word.trim().parse::<usize>().map_err(|error| format!("{word:?} is no number of a fault: {error}"))
        };
        text.split(',').map(number).collect::<Result<_, _>>().map(Self)
    }
}

fn chosen_faults(FaultNumbers(faults): &FaultNumbers, sim: &Sim, options: &Options) -> Result<Vec<usize>, Failure> {
    let wrong = |what: String| Failure::new(Exit::Usage, format!("--faults: {what}"));
    if sim.seeds.end - sim.seeds.start != 1 {
        return Err(wrong("name one seed with --seeds, like 7..8; each seed draws faults of its own".to_owned()));
    }
    let drawn = options.plan(sim.seeds.start).faults.len();
    if let Some(number) = faults.iter().find(|number| **number >= drawn) {
        return Err(wrong(format!("the seed draws {drawn} faults, counted from 0; there is no fault {number}")));
    }
    Ok(faults.iter().copied().collect::<BTreeSet<usize>>().into_iter().collect())
}

/// A reduction applies to one seed only, because a fault's number means another fault in another seed.
fn one_reduction(reduced: &Reduction, sim: &Sim) -> Result<Reduction, Failure> {
    if sim.seeds.end - sim.seeds.start == 1 {
        return Ok(reduced.clone());
    }
    Err(Failure::new(Exit::Usage, "--reduced: name one seed with --seeds, like 7..8; it was written for that one"))
}

/// The story of a failed seed after it was shrunk.
fn small_story(shrunk: &Shrunk) -> String {
    let seed = shrunk.result.seed;
    let plan = shrunk.options.plan(seed);
    let (left, before, runs) = (plan.faults.len(), shrunk.faults_before, shrunk.runs);
    let (members, milliseconds) = (plan.members, shrunk.result.counters.simulated_ms);
    let story = shrunk.result.story.as_deref().unwrap_or_default();
    let picture = shrunk.options.replay_command(seed);
    format!(
        "seed {seed} fails with {left} of its {before} faults, {members} members, in {:.1} simulated seconds ({runs} runs to find out):\n\n{story}\na picture of it: {picture} --svg seed-{seed}.svg\n",
        milliseconds as f64 / 1_000.0
    )
}

/// Draws the first failed seed after it was shrunk, or the requested one.
fn draw(file: &Path, sim: &Sim, small: Option<&Shrunk>, options: &Options) -> Result<(), Failure> {
    let (seed, options) = match small {
        Some(small) => (small.result.seed, &small.options),
        None if sim.seeds.end - sim.seeds.start == 1 => (sim.seeds.start, options),
        None => {
            say(
                "no seed failed: nothing was drawn; name one seed with --seeds, like 7..8, to have it drawn all the same",
            );
            return Ok(());
        }
    };
    let picture = draw_seed(seed, options, sim.window.clone());
    std::fs::write(file, picture).when(format_args!("cannot write {}", file.display()))?;
    say(format_args!("seed {seed} is drawn in {}", file.display()));
    Ok(())
}

/// A seed's result as JSON. The hash is text, because JSON's numbers do not hold 64 bits.
fn as_json(result: &SeedResult) -> serde_json::Value {
    serde_json::json!({
        "seed": result.seed,
        "trace_hash": format!("{:016x}", result.trace_hash),
        "class": result.class.map(Class::name),
        "partial": result.counters.partial.keys().collect::<Vec<_>>(),
        "violations": result.violations,
    })
}

/// Progress of the run, shown while standard error is a terminal.
struct Progress {
    /// Runs known to fail.
    listed: Listed,
    /// Seeds that differ from the list.
    unexpected: Vec<u64>,
    total: u64,
    /// Seeds run by an earlier process.
    before: u64,
    done: u64,
    failed: u64,
    began: Instant,
    shown: bool,
}

impl Progress {
    fn note(&mut self, result: &SeedResult) {
        self.done += 1;
        self.failed += u64::from(!result.violations.is_empty());
        let codes = codes(result);
        let standing = self.listed.standing(result.seed, result.class, &codes);
        self.listed.count(result.seed, result.class, &codes);
        if !standing.is_expected() {
            self.unexpected.push(result.seed);
            self.clear();
            match result.violations.first() {
                Some(first) if standing == Standing::Unlisted => {
                    say(format_args!("seed {} failed: {} {}", result.seed, first.code, first.text));
                }
                _ => say(format_args!("seed {}: {}", result.seed, standing.explain(&codes))),
            }
        }
        if self.shown {
            let (done, total, failed) = (self.done, self.total, self.failed);
            let rate = (done - self.before) as f64 / self.began.elapsed().as_secs_f64().max(1e-3);
            let _ = write!(std::io::stderr(), "\r{done} of {total} seeds, {failed} failed, {rate:.1} seeds/s ");
        }
    }

    fn clear(&self) {
        if self.shown {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

fn tell(
    summary: &Summary,
    covered: &[Coverage],
    story: Option<&str>,
    options: &Options,
    spent: &spent::Spent,
) -> String {
    let totals = &summary.totals;
    let mut text = String::new();
    if let Some(story) = story {
        text.push_str(story);
        text.push('\n');
    }
    let mut table = Table::new(&["", "total", "at least", ""]).numbers_from(1);
    for (name, count) in [
        ("deliveries", totals.deliveries),
        ("packets", totals.packets),
        ("faults", totals.faults_total()),
        ("  inside a flush", totals.faults_in_flush),
        ("  inside a join", totals.faults_in_join),
        ("  inside a state transfer", totals.faults_in_transfer),
    ] {
        table.row([name.to_owned(), count.to_string(), String::new(), String::new()]);
    }
    for line in covered {
        let floor = if line.floor == 0 { String::new() } else { line.floor.to_string() };
        let verdict = if line.is_reached() { "" } else { "too few" };
        table.row([line.name.to_owned(), line.count.to_string(), floor, verdict.to_owned()]);
    }
    let _ = writeln!(text, "{table}");
    if !totals.partial.is_empty() {
        let mut table = Table::new(&["broken in part", "times", "in failed seeds"]).numbers_from(1);
        for (name, count) in &totals.partial {
            let failed = totals.partial_failed.get(name).copied().unwrap_or(0);
            table.row([name.clone(), count.to_string(), failed.to_string()]);
        }
        let _ = writeln!(text, "{table}");
    }
    if !totals.classes.is_empty() {
        let mut table = Table::new(&["class", "seeds", "failed"]).numbers_from(1);
        for (name, count) in &totals.classes {
            let failed = totals.classes_failed.get(name).copied().unwrap_or(0);
            table.row([name.clone(), count.to_string(), failed.to_string()]);
        }
        let _ = writeln!(text, "{table}");
    }
    if !summary.never_checked.is_empty() {
        let _ = writeln!(text, "never put to the test: {}", summary.never_checked.join(" "));
    }
    for result in &summary.failed {
        let codes: Vec<&str> = result.violations.iter().map(|violation| violation.code.as_str()).collect();
        let command = options.replay_command(result.seed);
        let _ = writeln!(text, "seed {} broke {}: {command}", result.seed, codes.join(" "));
    }
    let simulated = totals.simulated_ms as f64 / 1_000.0;
    let _ = write!(
        text,
        "{} seeds ({} in full), {} failed, {} run twice and equal; {simulated:.0} s simulated in {:.1} s ({:.0} times real time)",
        summary.seeds,
        summary.full,
        summary.failures,
        summary.repeated,
        spent.wall_s,
        simulated / spent.wall_s.max(1e-3)
    );
    let threads = options.threads_used();
    let (cpu_s, per_core) = (spent.cpu_s, simulated / spent.cpu_s.max(1e-3));
    let _ = write!(
        text,
        "\n{threads} threads, {cpu_s:.1} s of processor time ({per_core:.0} times real time on each core)"
    );
    text
}

fn parse_seeds(text: &str) -> Result<Range<u64>, String> {
    let read = |part: &str| part.parse::<u64>().map_err(|error| format!("'{part}': {error}"));
    let (first, last) = text.split_once("..").ok_or("write the seeds as A..B, like 0..100")?;
    let range = read(first)?..read(last)?;
    if range.is_empty() { Err("no seed lies in that range".to_owned()) } else { Ok(range) }
}

fn parse_members(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(members @ (0 | 2..=16)) => Ok(members),
        _ => Err("0, or 2 to 16".to_owned()),
    }
}
