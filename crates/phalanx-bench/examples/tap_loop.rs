//! Shows packets to a filter in a loop, or runs the core with layers bound early or late, and nothing else: for a profiler
//! or for valgrind.
//!
//! ```text
//! cargo build --release -p phalanx-bench --example tap_loop
//! valgrind --tool=callgrind target/release/examples/tap_loop 20000 nothing 64
//! valgrind --tool=callgrind target/release/examples/tap_loop 20000 none 'in place' 1514
//! valgrind --tool=callgrind target/release/examples/tap_loop 20000 all STREAMS 64
//! valgrind --tool=callgrind target/release/examples/tap_loop 20000 snapshot 64 1514
//! valgrind --tool=callgrind target/release/examples/tap_loop 20000 filter ports
//! valgrind --tool=callgrind target/release/examples/tap_loop 20000 layers late trips
//! ```
//!
//! The difference between two runs of different counts is free of what starts and ends the program. `phalanx bench tap`
//! gives the figures.

use phalanx_bench::{BenchError, Tapped, drive_layers, drive_tap};

fn main() -> Result<(), BenchError> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        [count, "layers", binding @ ("early" | "late"), load @ ("stream" | "trips")] => {
            drive_layers(number(count)?, binding == "late", load == "trips")
        }
        [count, "nothing", len] => drive_tap(Tapped::Nothing, number(len)?, number(count)?),
        [count, takes @ ("all" | "none"), way, len] => {
            drive_tap(Tapped::Way(way, takes == "all"), number(len)?, number(count)?)
        }
        [count, "snapshot", snap, len] => {
            let snap = u32::try_from(number(snap)?).unwrap_or(u32::MAX);
            drive_tap(Tapped::Snapshot(snap), number(len)?, number(count)?)
        }
        [count, "filter", name] => drive_tap(Tapped::Filter(name), 64, number(count)?),
        _ => Err(usage()),
    }
}

fn number(word: &str) -> Result<usize, BenchError> {
    word.parse().map_err(|_bad| usage())
}

fn usage() -> BenchError {
    let what = "nothing BYTES | all WAY BYTES | none WAY BYTES | snapshot SNAP BYTES | filter NAME | \
                layers early|late stream|trips";
    BenchError::Usage(format!("tap_loop COUNT, and: {what}"))
}
