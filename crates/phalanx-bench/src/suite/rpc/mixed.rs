//! Short calls beside long ones.

use crate::bench::{Bench, Case};
use crate::calls::{Load, Tuning};
use crate::error::BenchError;
use crate::row::Series;

use super::pair::{Pair, Setup, none_failed};

/// Share of calls in percent, and their size in bytes. Few calls make most of the bytes.
const SIZES: [(u32, usize); 4] = [(80, SHORT), (15, 1 << 10), (4, 64 << 10), (1, 1 << 20)];
const SHORT: usize = 64;
const OUTSTANDING: usize = 16;

pub(super) fn cases() -> Vec<Case> {
    let case = |slots: u8| {
        let what = format!("{OUTSTANDING} calls of mixed sizes under way in {slots} slots, beside short ones alone");
        Case::new(format!("mixed-{slots}-slots"), what, move |bench| measure(bench, slots))
    };
    [8, 16].map(case).into()
}

fn measure(bench: &mut Bench<'_>, slots: u8) -> Result<(), BenchError> {
    let mut pair = Pair::start(bench, &Setup::tuned(Tuning { slots: Some(slots), ..Tuning::default() }))?;
    let series = |metric, unit| Series::new(metric, unit, 2, SHORT);
    let mut short = series("short call", "us").against("short calls alone");
    let mut late = series("short call, p99", "us").against("short calls alone");
    let mut rate = series("all calls", "calls/s").against("short calls alone");
    let mut bytes = series("all answers", "B/s");
    let mix = Load::Closed { sizes: SIZES.to_vec(), outstanding: OUTSTANDING };
    let alone = Load::closed(SHORT, OUTSTANDING);
    let mut failures = 0;
    for round in 0..bench.rounds() {
        bench.round(round)?;
        let alone = pair.timed(&alone, bench)?.called;
        let mixed = pair.timed(&mix, bench)?.called;
        short.add_quantiles_beside(&mixed.times, alone.times.p50);
        late.add_beside(mixed.times.p99, alone.times.p99);
        rate.add_beside(mixed.rate(), alone.rate());
        bytes.add(mixed.byte_rate());
        failures += alone.failed + mixed.failed;
    }
    bench.report([&short, &late, &rate, &bytes]);
    none_failed(failures)
}
