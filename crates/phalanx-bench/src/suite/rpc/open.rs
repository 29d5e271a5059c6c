//! Calls at a fixed rate, due whether or not earlier calls have ended (an open load).

use crate::bench::{Bench, Case};
use crate::calls::{Carrier, Load};
use crate::choice::{Cores, Waiting};
use crate::error::BenchError;
use crate::row::Series;

use super::pair::{Pair, Setup, none_failed};

const SIZE: usize = 64;
/// Load in percent of the maximum rate.
const SHARES: [u32; 5] = [10, 25, 50, 75, 90];
/// Calls under way while the maximum rate is measured.
const OUTSTANDING: usize = 8;

pub(super) fn cases() -> Vec<Case> {
    let case = |(wait, cores): (Waiting, Cores)| {
        let name = format!("open-{}-{}-{SIZE}", wait.word(), cores.word());
        let what = format!("calls of {SIZE} B due at parts of the greatest rate, timed from when each was due");
        Case::new(name, what, move |bench| measure(bench, wait, cores))
    };
    [(Waiting::Spin, Cores::Two), (Waiting::Block, Cores::Two)].map(case).into()
}

struct Share {
    percent: u32,
    reliable: Series,
    unreliable: Series,
    lost: Series,
}

fn measure(bench: &mut Bench<'_>, wait: Waiting, cores: Cores) -> Result<(), BenchError> {
    let setup = |carrier| Setup { wait, cores, ..Setup::new(carrier) };
    let mut reliable = Pair::start(bench, &setup(Carrier::Reliable))?;
    let mut plain = Pair::start(bench, &setup(Carrier::Plain))?;
    let mut greatest = Series::new("greatest rate", "calls/s", 2, SIZE).against("unreliable");
    let series = |what: &str, unit, percent| Series::new(format!("{what} at {percent} % load"), unit, 2, SIZE);
    let share = |percent: &u32| Share {
        percent: *percent,
        reliable: series("reliable", "us", *percent).against("unreliable"),
        unreliable: series("unreliable", "us", *percent),
        lost: series("unreliable, lost", "calls", *percent),
    };
    let percents = if bench.request.is_sketch() { &SHARES[2..3] } else { &SHARES[..] };
    let mut shares: Vec<Share> = percents.iter().map(share).collect();
    let mut failures = 0;
    for round in 0..bench.rounds() {
        bench.round(round)?;
        let closed = Load::closed(SIZE, OUTSTANDING);
        let without = plain.timed(&closed, bench)?.called.rate();
        let with = reliable.timed(&closed, bench)?.called.rate();
        greatest.add_beside(with, without);
        for share in &mut shares {
            let load = Load::Open { size: SIZE, per_second: with * f64::from(share.percent) / 100.0 };
            let theirs = plain.timed(&load, bench)?.called;
            let ours = reliable.timed(&load, bench)?.called;
            share.reliable.add_quantiles_beside(&ours.times, theirs.times.p50);
            share.unreliable.add_quantiles(&theirs.times);
            share.lost.add(theirs.failed as f64);
            failures += ours.failed;
        }
    }
    let shares = shares.iter().flat_map(|share| [&share.reliable, &share.unreliable, &share.lost]);
    bench.report(std::iter::once(&greatest).chain(shares));
    none_failed(failures)
}
