//! Explores the models, and checks simulated runs by their rules.
//!
//! Exit code 0: all invariants hold and all required states were reached. 1: otherwise. 2: wrong usage.
#![allow(clippy::print_stdout)]

use std::ops::Range;
use std::process::ExitCode;

use phalanx_model::explore::{Breach, explore, shortest};
use phalanx_model::progress;

mod report;

/// The parsed command line.
#[derive(Debug)]
struct Asked {
    processes: Option<usize>,
    json: bool,
    mutants: bool,
    short: bool,
    progress: bool,
    threads: usize,
    validate: Option<Range<u64>>,
    members: usize,
}

const USAGE: &str = "usage: phalanx-model [--processes 3|4] [--short] [--threads N] [--json]
       phalanx-model --mutants [--json]
       phalanx-model --progress [--mutants] [--threads N]
       phalanx-model --validate A..B [--members N] [--threads N] [--json]

Without an option: all configurations of the long run, more than ten million states. --short: over three million of the
test. --mutants: each rule missing in turn, and the shortest way to what that breaks. --progress: who is removed when a member or a
path is broken in part. --validate: these seeds of the
simulator, each step of each process judged by the model's rules; cells of N processes (5), or, with 0, as the seed
says.";

fn parse(mut args: impl Iterator<Item = String>) -> Result<Asked, String> {
    let mut asked = Asked {
        processes: None,
        json: false,
        mutants: false,
        short: false,
        progress: false,
        threads: 2,
        validate: None,
        members: 5,
    };
    while let Some(arg) = args.next() {
        let mut value = |what: &str| args.next().ok_or(format!("{arg} needs {what}"));
        match arg.as_str() {
            "--json" => asked.json = true,
            "--mutants" => asked.mutants = true,
            "--progress" => asked.progress = true,
            "--short" => asked.short = true,
            "--processes" => {
                let text = value("a number: 3 or 4")?;
                let count = text.parse().ok().filter(|n| [3, 4].contains(n));
                asked.processes = Some(count.ok_or(format!("--processes {text}: it is 3 or 4"))?);
            }
            "--threads" => {
                let text = value("a number")?;
                let count = text.parse().ok().filter(|n| (1..=64).contains(n));
                asked.threads = count.ok_or(format!("--threads {text}: it is 1 to 64"))?;
            }
            "--validate" => {
                let text = value("seeds, as in 0..200")?;
                let range = text.split_once("..").and_then(|(a, b)| Some(a.parse().ok()?..b.parse().ok()?));
                let range = range.filter(|r| !r.is_empty());
                asked.validate = Some(range.ok_or(format!("--validate {text}: it is a range, as in 0..200"))?);
            }
            "--members" => {
                let text = value("a number")?;
                let count = text.parse().ok().filter(|n| *n == 0 || (2..=16).contains(n));
                asked.members = count.ok_or(format!("--members {text}: it is 2 to 16, or 0"))?;
            }
            _ => return Err(format!("unknown argument {arg:?}")),
        }
    }
    Ok(asked)
}

/// Explores the model of progress, or with `mutants` each of its variants without one rule. True if all holds, all was
/// reached and each missing rule is detected.
fn explore_progress(mutants: bool, threads: usize) -> bool {
    let mut good = true;
    if mutants {
        for missing in progress::Missing::ALL {
            let (model, property) = progress::without(missing);
            let found = shortest(&model, property);
            let Breach { steps, states } = found.unwrap_or_default();
            println!("{}: {steps} steps, {states} states: {property}", missing.name());
            good &= found.is_some();
        }
        return good;
    }
    for model in progress::cases(true) {
        let text = model.describe();
        let outcome = explore(model, threads, &[]);
        println!("{text}: {} states, {} steps, {:.1} s", outcome.unique, outcome.steps, outcome.seconds);
        let wrong = outcome.broken().map(|f| ("broken", f)).chain(outcome.missed().map(|f| ("never reached", f)));
        for (what, found) in wrong {
            println!("  {what}: {}", found.name);
            found.path.iter().flatten().for_each(|step| println!("      {step}"));
        }
        good &= outcome.is_good();
    }
    for members in 3..=progress::MEMBERS {
        for silent in [false, true] {
            let found = progress::window::erosion(members, silent, progress::rule::Variant::default());
            println!("window: members {members} heartbeats too {silent}: {found:?}");
            good &= found.most <= progress::budget(members as u32);
        }
    }
    good
}

fn main() -> ExitCode {
    let asked = match parse(std::env::args().skip(1)) {
        Ok(asked) => asked,
        Err(problem) => {
            eprintln!("{problem}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let good = if asked.progress {
        explore_progress(asked.mutants, asked.threads)
    } else if let Some(seeds) = asked.validate {
        report::validation(seeds, asked.members, asked.threads, asked.json)
    } else if asked.mutants {
        report::mutants(asked.json)
    } else {
        let configs = match (asked.short, asked.processes) {
            (true, _) => phalanx_model::cases::short(),
            (_, Some(processes)) => phalanx_model::cases::long(processes),
            (_, None) => [3, 4].into_iter().flat_map(phalanx_model::cases::long).collect(),
        };
        // The small models are explored in the short run, and in the runs of 3 processes.
        let long = (asked.short || asked.processes != Some(4)).then_some(!asked.short);
        report::explorations(&configs, long, asked.threads, asked.json)
    };
    ExitCode::from(u8::from(!good))
}
