//! Runs calls under faults: `cargo run -p phalanx-sim --release --example calls -- A..B`.
//!
//! Prints the failed seeds and the totals. With `STORY=` in the environment it prints the events of each failed seed,
//! with `HASHES=` the trace hash of each seed. Exit code 0: all seeds passed. 1: some failed. 2: wrong usage.
#![allow(clippy::print_stdout)]

use std::process::ExitCode;
use std::time::Instant;

use phalanx_sim::calls::{CallsStats, run_calls, tell_calls};

fn main() -> ExitCode {
    let seeds = std::env::args().nth(1).and_then(|text| {
        let (start, end) = text.split_once("..")?;
        Some(start.parse::<u64>().ok()?..end.parse::<u64>().ok()?)
    });
    let Some(seeds) = seeds else {
        eprintln!("usage: calls A..B");
        return ExitCode::from(2);
    };
    let (tells, hashes) = (std::env::var_os("STORY").is_some(), std::env::var_os("HASHES").is_some());
    let started = Instant::now();
    let mut totals = CallsStats::default();
    let (mut count, mut failed) = (0, 0);
    for seed in seeds {
        let result = run_calls(seed);
        totals.add(&result.stats);
        count += 1;
        if hashes {
            println!("seed {seed}: trace hash {:016x}", result.trace_hash);
        }
        if result.violations.is_empty() {
            continue;
        }
        failed += 1;
        if tells {
            for line in tell_calls(seed).1 {
                println!("{line}");
            }
        }
        for violation in &result.violations {
            println!("seed {seed}: {violation}");
        }
    }
    totals.each(|name, count| println!("{name:>20} {count}"));
    println!("{count} seeds, {failed} failed, in {:.1} s", started.elapsed().as_secs_f64());
    ExitCode::from(u8::from(failed > 0))
}
