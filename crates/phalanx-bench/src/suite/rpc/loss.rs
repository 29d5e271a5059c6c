//! Calls whose packets are lost on purpose, in both directions.

use crate::bench::{Bench, Case};
use crate::calls::{Load, Tuning};
use crate::error::BenchError;
use crate::row::Series;

use super::pair::{Pair, Setup, none_failed};

/// Losses: the label in percent, and the value in parts per million.
const LOSSES: [(&str, u32); 4] = [("0", 0), ("0.1", 1_000), ("1", 10_000), ("5", 50_000)];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for size in [64, 64 << 10] {
        for outstanding in [1, 8] {
            let what = format!("calls of {size} B, {outstanding} under way, while so many of all packets are lost");
            let name = format!("loss-{size}-{outstanding}-under-way");
            cases.push(Case::new(name, what, move |bench| measure(bench, size, outstanding)));
        }
    }
    cases
}

fn measure(bench: &mut Bench<'_>, size: usize, outstanding: usize) -> Result<(), BenchError> {
    let mut all = Vec::new();
    for (share, loss_ppm) in LOSSES {
        let pair = Pair::start(bench, &Setup::tuned(Tuning { loss_ppm, ..Tuning::default() }))?;
        let series = |what: &str, unit| {
            let metric = format!("{what} at {share} % loss");
            Series::new(metric, unit, 2, size).against("0 % loss")
        };
        all.push((pair, series("call", "us"), series("rate", "calls/s")));
    }
    let load = Load::closed(size, outstanding);
    let mut failures = 0;
    for round in 0..bench.rounds() {
        bench.round(round)?;
        let mut without = None;
        for (pair, times, rate) in &mut all {
            let called = pair.timed(&load, bench)?.called;
            let (usual_time, usual_rate) = *without.get_or_insert((called.times.p50, called.rate()));
            times.add_quantiles_beside(&called.times, usual_time);
            rate.add_beside(called.rate(), usual_rate);
            failures += called.failed;
        }
    }
    bench.report(all.iter().flat_map(|(_, times, rate)| [times, rate]));
    none_failed(failures)
}
