//! Many clients of one server.

use crate::bench::{Bench, Case};
use crate::calls::{Carrier, Load};
use crate::error::BenchError;
use crate::row::Series;

use super::pair::{Pair, Setup, none_failed};

const SIZE: usize = 64;

pub(super) fn cases() -> Vec<Case> {
    let case = |clients: usize| {
        let what = format!("{clients} clients of one server, each with one call after the other, beside one client");
        Case::new(format!("clients-{clients}x{SIZE}"), what, move |bench| measure(bench, clients))
    };
    [1, 4, 16, 64, 256].map(case).into()
}

fn measure(bench: &mut Bench<'_>, clients: usize) -> Result<(), BenchError> {
    // One process holds all clients. With several, the system's scheduler would decide how they share the processor.
    let mut one = Pair::start(bench, &Setup::new(Carrier::Reliable))?;
    let mut many = Pair::start(bench, &Setup { clients, ..Setup::new(Carrier::Reliable) })?;
    let series = |what: &str, unit| Series::new(format!("{what} at {clients} clients"), unit, clients + 1, SIZE);
    let mut rate = series("throughput", "calls/s").against("one client");
    let mut times = series("call", "us").against("one client");
    let mut share = series("fastest to slowest client", "ratio");
    let mut server_drops = series("dropped by the server's kernel", "packets");
    let mut client_drops = series("dropped by the clients' kernel", "packets");
    let mut failed = series("failed", "calls");
    let load = Load::closed(SIZE, 1);
    let mut failures = 0;
    for round in 0..bench.rounds() {
        bench.round(round)?;
        let alone = one.timed(&load, bench)?.called;
        let all = many.timed(&load, bench)?;
        rate.add_beside(all.called.rate(), alone.rate());
        times.add_quantiles_beside(&all.called.times, alone.times.p50);
        share.add(all.called.greatest_share());
        server_drops.add(all.server_drops as f64);
        client_drops.add(all.called.kernel_drops as f64);
        failed.add(all.called.failed as f64);
        failures += all.called.failed + alone.failed;
    }
    bench.report([&rate, &times, &share, &server_drops, &client_drops, &failed]);
    none_failed(failures)
}
