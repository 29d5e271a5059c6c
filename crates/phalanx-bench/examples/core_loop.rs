//! Runs the protocol core in a loop and nothing else, for a profiler or for valgrind:
//!
//! ```text
//! cargo build --release -p phalanx-bench --example core_loop
//! valgrind --tool=callgrind target/release/examples/core_loop 20000 none
//! valgrind --tool=callgrind target/release/examples/core_loop 20000 none trips
//! ```
//!
//! `phalanx bench core` gives the figures.

fn main() -> Result<(), phalanx_bench::BenchError> {
    let messages = std::env::args().nth(1).and_then(|word| word.parse().ok()).unwrap_or(200_000);
    let sealed = std::env::args().nth(2).as_deref() != Some("none");
    let trips = std::env::args().nth(3).as_deref() == Some("trips");
    phalanx_bench::drive_core(messages, sealed, trips)
}
