//! Calls one after the other, beside calls without guarantees and calls over TCP.

use crate::Request;
use crate::bench::{Bench, Case};
use crate::calls::{Carrier, Load};
use crate::choice::{Cores, Security, Transport, Waiting};
use crate::error::BenchError;
use crate::row::{Quantiles, Series};

use super::pair::{Pair, Setup, none_failed};

#[derive(Clone, Copy, Debug)]
struct Plan {
    transport: Transport,
    security: Security,
    wait: Waiting,
    cores: Cores,
    size: usize,
}

/// Prefix of the names of these cases.
pub(super) const PREFIX: &str = "one-";

pub(super) const SIZES: [usize; 6] = [64, 1 << 10, 8 << 10, 64 << 10, 1 << 20, 8 << 20];

const PLACES: [(Waiting, Cores); 3] =
    [(Waiting::Spin, Cores::Two), (Waiting::Block, Cores::Two), (Waiting::Block, Cores::One)];

pub(super) fn cases(request: &Request) -> Vec<Case> {
    let mut cases = Vec::new();
    // Shared memory is never sealed.
    const WAYS: [(Transport, Security); 3] =
        [(Transport::Udp, Security::Sealed), (Transport::Udp, Security::None), (Transport::Shm, Security::Sealed)];
    for (transport, security) in WAYS {
        for (wait, cores) in PLACES {
            for size in SIZES {
                if request.is_sketch() && (size > 1 << 10 || wait == Waiting::Block) {
                    continue;
                }
                let plan = Plan { transport, security, wait, cores, size };
                let way = match transport {
                    Transport::Udp => format!("udp-{}", security.word()),
                    Transport::Shm | Transport::Mixed => transport.word().to_owned(),
                };
                let name = format!("{PREFIX}{}-{}-{way}-{size}", wait.word(), cores.word());
                let what = format!("calls of {size} B with an answer as long, one after the other");
                cases.push(Case::new(name, what, move |bench| measure(bench, &plan)));
            }
        }
    }
    cases
}

fn measure(bench: &mut Bench<'_>, plan: &Plan) -> Result<(), BenchError> {
    let Plan { transport, security, wait, cores, size } = *plan;
    let mut pairs = Vec::new();
    for carrier in [Carrier::Plain, Carrier::Reliable, Carrier::Tcp] {
        let setup = Setup { transport, security, wait, cores, ..Setup::new(carrier) };
        pairs.push((carrier, Pair::start(bench, &setup)?));
    }
    let mut plain = Series::new("reliable", "us", 2, size).against("unreliable");
    let mut tcp = Series::new("reliable", "us", 2, size).against("TCP");
    let mut more = Series::new("more than unreliable, at p50", "ns", 2, size);
    let mut lost = Series::new("unreliable, lost", "calls", 2, size);
    let load = Load::closed(size, 1);
    for round in 0..bench.rounds() {
        bench.round(round)?;
        let mut times = [Quantiles::default(); 3];
        for ((carrier, pair), times) in pairs.iter_mut().zip(&mut times) {
            let called = pair.timed(&load, bench)?.called;
            *times = called.times;
            match carrier {
                Carrier::Reliable => none_failed(called.failed)?,
                Carrier::Plain => lost.add(called.failed as f64),
                Carrier::Tcp => {}
            }
        }
        let [without, with, stream] = times;
        plain.add_quantiles_beside(&with, without.p50);
        tcp.add_quantiles_beside(&with, stream.p50);
        more.add((with.p50 - without.p50) * 1e3);
    }
    bench.report([&plain, &more, &tcp, &lost]);
    if bench.request.trace {
        let measured = bench.measured();
        for (_, pair) in pairs.iter_mut().filter(|(carrier, _)| *carrier == Carrier::Reliable) {
            let told = pair.slowest(&load, measured)?;
            bench.notice(&format!("the slowest call of {}\n{told}", bench.case));
        }
    }
    Ok(())
}
