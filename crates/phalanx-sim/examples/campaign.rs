//! Runs simulated cells: `cargo run -p phalanx-sim --release --example campaign -- A..B [MEMBERS [PLANS]]`. PLANS is the
//! name of a kind of plan: swarm (ordinary ones), none (without a class), far and the other classes, rare, partial, mild=SECONDS.
//!
//! With `HASHES=` in the environment it prints the trace hash of each seed, by which two builds can be compared. With
//! `STOP_AT=` in the environment it stops at the first failed seed, with `STOP_AT="S3 U1"` at one of these codes. Exit
//! code 0: all seeds passed. 1: some failed. 2: wrong usage.
#![allow(clippy::print_stdout)]

use std::process::ExitCode;
use std::time::Instant;

use phalanx_sim::{Draw, Options, Stop, campaign};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let seeds = args.first().and_then(|text| {
        let (start, end) = text.split_once("..")?;
        Some(start.parse().ok()?..end.parse().ok()?)
    });
    let members = args.get(1).map_or(Ok(5), |text| text.parse());
    let draw = args.get(2).map_or(Ok(Draw::default()), |text| text.parse());
    let (Some(seeds), Ok(members), Ok(draw)) = (seeds, members, draw) else {
        eprintln!("usage: campaign A..B [MEMBERS [PLANS]]   (MEMBERS 0: three to sixteen, as the seed says)");
        return ExitCode::from(2);
    };
    let options = Options {
        members,
        draw,
        stop: match std::env::var("STOP_AT").ok().as_deref() {
            None => Stop::AtTheEnd,
            Some("") => Stop::AtFailure,
            Some(codes) => Stop::AtCodes(codes.split_whitespace().map(str::to_owned).collect()),
        },
        command: "cargo run -p phalanx-sim --release --example campaign -- {seeds} {members}".into(),
        story_rows: std::env::var("ROWS").ok().and_then(|rows| rows.parse().ok()).unwrap_or(200),
        ..Options::default()
    };
    let started = Instant::now();
    let hashes = std::env::var_os("HASHES").is_some();
    let summary = campaign(seeds, &options, |result| {
        if hashes {
            println!("seed {}: trace hash {:016x}", result.seed, result.trace_hash);
        }
        if result.violations.is_empty() {
            return;
        }
        for violation in &result.violations {
            println!("seed {}: {} {}", result.seed, violation.code, violation.text);
        }
    });
    if let Some(first) = summary.failed.first() {
        println!("\n{}", first.story.as_deref().unwrap_or_default());
    }
    let seconds = started.elapsed().as_secs_f64();
    let simulated = summary.totals.simulated_ms as f64 / 1000.0;
    println!("{:#?}", summary.totals);
    println!(
        "{} seeds, {} failed, {} run twice; {simulated:.0} s simulated in {seconds:.1} s ({:.0} times real time)",
        summary.seeds,
        summary.failures,
        summary.repeated,
        simulated / seconds
    );
    if !summary.never_checked.is_empty() {
        println!("never put to the test: {}", summary.never_checked.join(" "));
    }
    ExitCode::from(u8::from(summary.failures > 0))
}
