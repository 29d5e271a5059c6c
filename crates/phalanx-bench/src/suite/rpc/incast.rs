//! Many servers answer one client at once.

use crate::bench::{Bench, Case};
use crate::calls::{Carrier, Load, Tuning};
use crate::error::BenchError;
use crate::row::Series;

use super::pair::{Pair, Setup, none_failed};

/// Size of a request and of an answer, in bytes.
pub(super) const ASKED: usize = 64;
pub(super) const ANSWERED: usize = 64 << 10;
/// Default of `net.core.rmem_max`. A larger request by an unprivileged process is cut to it.
const USUAL_BUFFER: usize = 212_992;

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (ending, receive_bytes) in [("", None), ("-usual-buffer", Some(USUAL_BUFFER))] {
        for servers in [8, 16, 64] {
            let with = if receive_bytes.is_some() { ", with the receive buffer of an unconfigured system" } else { "" };
            let what = format!("{servers} servers are called at once and answer {ANSWERED} B each, beside one{with}");
            let name = format!("incast-{servers}x{ANSWERED}{ending}");
            cases.push(Case::new(name, what, move |bench| measure(bench, servers, receive_bytes)));
        }
    }
    cases
}

/// Rounds of one call to each server at once.
pub(super) fn rounds(calls: usize) -> Load {
    Load::Rounds { size: ASKED, calls, fresh: false }
}

fn measure(bench: &mut Bench<'_>, servers: usize, receive_bytes: Option<usize>) -> Result<(), BenchError> {
    let bounded = Tuning { receive_bytes, ..Tuning::default() };
    let setup = Setup { answer: Some(ANSWERED), tuning: bounded, ..Setup::new(Carrier::Reliable) };
    let mut one = Pair::start(bench, &setup)?;
    let mut many = Pair::start(bench, &Setup { servers, ..setup })?;
    let tuning = Tuning { unbounded: true, ..bounded };
    let mut unbounded = Pair::start(bench, &Setup { servers, tuning, ..setup })?;
    let series = |what: &str, unit| {
        let metric = format!("{what} at {servers} servers");
        Series::new(metric, unit, servers + 1, ANSWERED).against("one server")
    };
    let figures = |name: &str| {
        [
            series(&format!("round{name}"), "us"),
            series(&format!("answers{name}"), "B/s"),
            series(&format!("dropped by the client's kernel{name}"), "packets"),
            series(&format!("failed{name}"), "calls"),
        ]
    };
    let (mut with, mut without) = (figures(""), figures(" without response credit"));
    let load = rounds(servers);
    let mut failures = 0;
    for round in 0..bench.rounds() {
        bench.round(round)?;
        let alone = one.timed(&load, bench)?.called;
        let bounded = many.timed(&load, bench)?.called;
        let free = unbounded.timed(&load, bench)?.called;
        failures += alone.failed + bounded.failed;
        for (figures, called) in [(&mut with, bounded), (&mut without, free)] {
            let [time, bytes, drops, failed] = figures;
            time.add_quantiles_beside(&called.times, alone.times.p50);
            bytes.add_beside(called.byte_rate(), alone.byte_rate());
            drops.add_beside(called.kernel_drops as f64, alone.kernel_drops as f64);
            failed.add(called.failed as f64);
        }
    }
    bench.report(with.iter().chain(&without));
    none_failed(failures)
}
