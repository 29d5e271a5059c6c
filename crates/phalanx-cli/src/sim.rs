//! `phalanx sim`: whole cells in one thread, under faults drawn from a seed, judged by the checker.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{IsTerminal, Write};
use std::ops::{Range, RangeInclusive};
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use phalanx_sim::{Options, Reduction, SeedResult, Shrunk, Stop, Summary, campaign, draw_seed, shrink};

use crate::exit::{Exit, Failure, While};
use crate::notice::{data, say};
use crate::table::Table;

/// Runs simulated cells under faults and judges what they did
///
/// One seed decides everything, so a failed seed fails again: the command that replays it is printed.
#[derive(Args, Debug)]
pub(crate) struct Sim {
    /// The seeds to run, the last one excluded
    #[arg(long, value_name = "A..B", default_value = "0..100", value_parser = parse_seeds)]
    seeds: Range<u64>,
    /// Processes of each cell; 0: three to nine, as the seed says
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = parse_members)]
    members: usize,
    /// No faults but mild weather, for so long each: 5 % loss, 50 ms of jitter, pauses of up to 200 ms; whoever is
    /// excluded in it was excluded wrongly
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(10..=86_400))]
    mild: Option<u64>,
    /// Only these of the faults that the one seed draws, by the numbers that a failed seed's story gives them
    #[arg(long, value_name = "N,..", value_delimiter = ',', conflicts_with = "mild")]
    faults: Option<Vec<usize>>,
    /// Do less than the one seed draws, as a failed seed's story says: members=N, until=MS, gap=MS, faultN=MS, and
    /// what is left out
    #[arg(long, value_name = "WORD,..", conflicts_with = "mild")]
    reduced: Option<Reduction>,
    /// Draw a space-time diagram into this file: of the one seed, or of the first that failed, made as small as it
    /// gets
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Draw these seconds of the run instead of what is around the violation
    #[arg(long, value_name = "FROM..TO", requires = "svg", value_parser = parse_window)]
    window: Option<RangeInclusive<u64>>,
    /// Threads; 0: one for each core
    #[arg(long, value_name = "N", default_value_t = 0)]
    threads: usize,
    /// Stop at the first failed seed
    #[arg(long)]
    stop: bool,
    /// Fail also when a guarantee was never put to the test: for campaigns of hundreds of seeds
    #[arg(long)]
    all_tested: bool,
    /// One line of JSON for each seed (its number, its trace hash, its violations); the summary goes to standard error
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(sim: &Sim) -> Result<Exit, Failure> {
    let stop = if sim.stop { Stop::AtFailure } else { Stop::AtTheEnd };
    let mut options =
        Options { members: sim.members, mild_s: sim.mild, threads: sim.threads, stop, ..Options::default() };
    if let Some(faults) = &sim.faults {
        options.faults = Some(chosen_faults(faults, sim, &options)?);
    }
    if let Some(reduced) = &sim.reduced {
        options.reduced = one_reduction(reduced, sim)?;
    }
    let total = sim.seeds.end.saturating_sub(sim.seeds.start);
    let began = Instant::now();
    let mut progress = Progress { total, done: 0, failed: 0, began, shown: std::io::stderr().is_terminal() };
    let summary = campaign(sim.seeds.clone(), &options, |result| {
        progress.note(result);
        if sim.json {
            data(as_json(result));
        }
    });
    progress.clear();
    let seconds = began.elapsed().as_secs_f64();
    let small = summary.failed.first().map(|failed| shrink(failed, &options));
    let story = small.as_ref().map(small_story);
    let text = tell(&summary, story.as_deref(), &options, seconds);
    if sim.json {
        say(text);
    } else {
        data(text);
    }
    if let Some(file) = &sim.svg {
        draw(file, sim, small.as_ref(), &options)?;
    }
    let vacuous = sim.all_tested && !summary.never_checked.is_empty();
    Ok(if summary.failed.is_empty() && !vacuous { Exit::Good } else { Exit::Failure })
}

fn chosen_faults(faults: &[usize], sim: &Sim, options: &Options) -> Result<Vec<usize>, Failure> {
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

/// What is reduced is told of one seed: a fault's number means another fault in another.
fn one_reduction(reduced: &Reduction, sim: &Sim) -> Result<Reduction, Failure> {
    if sim.seeds.end - sim.seeds.start == 1 {
        return Ok(reduced.clone());
    }
    Err(Failure::new(Exit::Usage, "--reduced: name one seed with --seeds, like 7..8; it was written for that one"))
}

/// The story of a failed seed with no more of everything than it takes.
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

/// Draws the first failed seed, made small, or the one that was asked for.
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
    std::fs::write(file, picture).when(format!("cannot write {}", file.display()))?;
    say(format_args!("seed {seed} is drawn in {}", file.display()));
    Ok(())
}

/// One seed for a program: the hash as text, because JSON's numbers do not hold 64 bits.
fn as_json(result: &SeedResult) -> serde_json::Value {
    serde_json::json!({
        "seed": result.seed,
        "trace_hash": format!("{:016x}", result.trace_hash),
        "violations": result.violations,
    })
}

/// The running count, while standard error is a terminal.
struct Progress {
    total: u64,
    done: u64,
    failed: u64,
    began: Instant,
    shown: bool,
}

impl Progress {
    fn note(&mut self, result: &SeedResult) {
        self.done += 1;
        if let Some(violation) = result.violations.first() {
            self.failed += 1;
            self.clear();
            say(format_args!("seed {} failed: {} {}", result.seed, violation.code, violation.text));
        }
        if self.shown {
            let (done, total, failed) = (self.done, self.total, self.failed);
            let rate = done as f64 / self.began.elapsed().as_secs_f64().max(1e-3);
            let _ = write!(std::io::stderr(), "\r{done} of {total} seeds, {failed} failed, {rate:.1} seeds/s ");
        }
    }

    fn clear(&self) {
        if self.shown {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

fn tell(summary: &Summary, story: Option<&str>, options: &Options, seconds: f64) -> String {
    let totals = &summary.totals;
    let mut text = String::new();
    if let Some(story) = story {
        text.push_str(story);
        text.push('\n');
    }
    let mut table = Table::new(&["", "total"]).numbers_from(1);
    for (name, count) in [
        ("deliveries", totals.deliveries),
        ("cell views decided", totals.cell_views),
        ("group views installed", totals.group_view_installs),
        ("state transfers", totals.transfers),
        ("exclusions", totals.exclusions),
        ("take-overs of a view change", totals.take_overs),
        ("faults", totals.faults_total()),
        ("  inside a flush", totals.faults_in_flush),
        ("  inside a join", totals.faults_in_join),
        ("  inside a state transfer", totals.faults_in_transfer),
        ("packets", totals.packets),
        ("forged or replayed packets", totals.attacks),
    ] {
        table.row([name.to_owned(), count.to_string()]);
    }
    let _ = writeln!(text, "{table}");
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
        "{} seeds ({} in full), {} failed, {} run twice and equal; {simulated:.0} s simulated in {seconds:.1} s ({:.0} times real time)",
        summary.seeds,
        summary.full,
        summary.failures,
        summary.repeated,
        simulated / seconds
    );
    text
}

fn parse_seeds(text: &str) -> Result<Range<u64>, String> {
    let read = |part: &str| part.parse::<u64>().map_err(|error| format!("'{part}': {error}"));
    let (first, last) = text.split_once("..").ok_or("write the seeds as A..B, like 0..100")?;
    let range = read(first)?..read(last)?;
    if range.is_empty() { Err("no seed lies in that range".to_owned()) } else { Ok(range) }
}

pub(crate) fn parse_window(text: &str) -> Result<RangeInclusive<u64>, String> {
    let read = |part: &str| match part.trim().parse::<f64>() {
        Ok(seconds) if seconds.is_finite() && (0.0..1e9).contains(&seconds) => Ok((seconds * 1e9) as u64),
        Ok(_) => Err(format!("'{part}' is no time in seconds")),
        Err(error) => Err(format!("'{part}': {error}")),
    };
    let (from, to) = text.split_once("..").ok_or("write the window in seconds as FROM..TO, like 3.2..4")?;
    let window = read(from)?..=read(to)?;
    if window.is_empty() { Err("the window ends before it begins".to_owned()) } else { Ok(window) }
}

fn parse_members(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(members @ (0 | 2..=16)) => Ok(members),
        _ => Err("0, or 2 to 16".to_owned()),
    }
}
