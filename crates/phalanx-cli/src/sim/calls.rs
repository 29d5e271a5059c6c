//! `phalanx sim --calls`: calls under faults, evaluated by the simulation's own checks and by the checker.

use std::io::{IsTerminal, Write};
use std::ops::Range;
use std::time::Instant;

use phalanx_sim::calls::{CallsResult, CallsStats, run_calls, tell_calls};

use super::each::each;
use super::known::{Listed, codes_of_calls};
use crate::exit::Exit;
use crate::notice::{data, say};

/// Runs these seeds and prints the story of the first one that failed and is not listed as known.
pub(super) fn run(seeds: &Range<u64>, listed: &mut Listed, threads: usize, json: bool) -> Exit {
    let (began, shown) = (Instant::now(), std::io::stderr().is_terminal());
    let total = seeds.end - seeds.start;
    let (mut totals, mut done, mut failed, mut unexpected) = (CallsStats::default(), 0_u64, 0_u64, Vec::new());
    each(seeds.clone(), threads, run_calls, |result| {
        done += 1;
        let codes = codes_of_calls(&result);
        let standing = listed.standing(result.seed, None, &codes);
        listed.count(result.seed, None, &codes);
        totals.add(&result.stats);
        if json {
            data(as_json(&result));
        }
        failed += u64::from(!codes.is_empty());
        if !standing.is_expected() {
            unexpected.push(result.seed);
            for violation in &result.violations {
                say(format_args!("seed {}: {violation}", result.seed));
            }
            if !listed.is_empty() {
                say(format_args!("seed {}: {}", result.seed, standing.explain(&codes)));
            }
        }
        if shown && done.is_multiple_of(SHOWN_EVERY) {
            // A closed standard error is no reason to stop.
            let _ = write!(std::io::stderr(), "\r{done} of {total} seeds, {failed} failed ");
        }
    });
    if shown {
        let _ = write!(std::io::stderr(), "\r\x1b[K");
    }
    let mut text = String::new();
    totals.each(|name, count| text.push_str(&format!("{name:>20} {count}\n")));
    if let Some(seed) = unexpected.iter().min() {
        text.push_str(&format!("\nwhat happened in seed {seed}:\n"));
        for line in tell_calls(*seed).1 {
            text.push_str(&line);
            text.push('\n');
        }
        text.push_str(&format!("\nagain: phalanx sim --calls {seed}..{}\n", seed + 1));
    }
    let mut missing = Vec::new();
    if done >= FLOORS_SEEDS {
        totals.each(|name, count| missing.extend((count == 0).then_some(name)));
    }
    for name in &missing {
        text.push_str(&format!("{name} never happened in {done} seeds\n"));
    }
    let seconds = began.elapsed().as_secs_f64();
    text.push_str(&format!("{done} seeds of calls, {failed} failed, in {seconds:.1} s"));
    if json {
        say(text);
    } else {
        data(text);
    }
    let mut as_known = true;
    for (text, held) in listed.kinds_met() {
        say(text);
        as_known &= held;
    }
    if unexpected.is_empty() && missing.is_empty() && as_known { Exit::Good } else { Exit::Failure }
}

/// A seed's result as JSON. The hash is text, because JSON's numbers do not hold 64 bits.
fn as_json(result: &CallsResult) -> serde_json::Value {
    serde_json::json!({
        "seed": result.seed,
        "trace_hash": format!("{:016x}", result.trace_hash),
        "violations": result.violations,
    })
}

const SHOWN_EVERY: u64 = 16;

/// In a campaign of so many seeds each kind of event has to happen.
const FLOORS_SEEDS: u64 = 1_000;
