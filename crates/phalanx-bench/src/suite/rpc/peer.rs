//! Calls of other systems, with requests, answers and waiting like the library's.

use crate::bench::{Bench, Case};
use crate::calls::{Carrier, Load};
use crate::choice::{Cores, Security, Transport, Waiting};
use crate::error::BenchError;
use crate::row::Series;
use crate::suite::peers::runner::{Peer, Trip};

use super::one::SIZES;
use super::pair::{Pair, Setup, none_failed};

/// Peers, each with the longest message it carries both ways.
const PEERS: [(Peer, usize); 3] = [
    // A message of Sun RPC over UDP is one datagram.
    (Peer { name: "sunrpc", variant: "udp" }, 60_000),
    (Peer { name: "sunrpc", variant: "tcp" }, usize::MAX),
    (Peer { name: "grpc", variant: "tonic" }, usize::MAX),
];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (peer, longest) in PEERS {
        for &cores in Cores::ALL {
            for size in SIZES {
                let name = format!("peer-{}-{}-block-{}-{size}", peer.name, peer.variant, cores.word());
                let title = peer.title();
                let what = format!("calls of {size} B with an answer as long, one after the other, beside {title}");
                cases.push(Case::new(name, what, move |bench| {
                    if size > longest {
                        bench.notice_once(&format!(
                            "{title} carries no more than {longest} B: longer calls have no row"
                        ));
                        return Ok(());
                    }
                    measure(bench, peer, cores, size)
                }));
            }
        }
    }
    cases
}

fn measure(bench: &mut Bench<'_>, peer: Peer, cores: Cores, size: usize) -> Result<(), BenchError> {
    if !peer.is_there(bench) {
        return Ok(());
    }
    // The peers block while they wait.
    let wait = Waiting::Block;
    let mut ours = Vec::new();
    // Shared memory is never sealed.
    const WAYS: [(&str, Transport, Security); 3] = [
        ("reliable, udp sealed", Transport::Udp, Security::Sealed),
        ("reliable, udp none", Transport::Udp, Security::None),
        ("reliable, shm", Transport::Shm, Security::Sealed),
    ];
    for (name, transport, security) in WAYS {
        let setup = Setup { transport, security, wait, cores, ..Setup::new(Carrier::Reliable) };
        ours.push((Pair::start(bench, &setup)?, Series::new(name, "us", 2, size).against(peer.title())));
    }
    let trip = Trip { size, answer: size, servers: 1, wait, cores };
    let load = Load::closed(size, 1);
    let mut guarantee = String::new();
    let mut failures = 0;
    for round in 0..bench.rounds() {
        bench.round(round)?;
        let theirs = peer.ping(bench, trip)?;
        for (pair, series) in &mut ours {
            let called = pair.timed(&load, bench)?.called;
            series.add_quantiles_beside(&called.times, theirs.p50_ns / 1e3);
            failures += called.failed;
        }
        guarantee = theirs.guarantee;
    }
    bench.tell_guarantee(peer, &guarantee);
    bench.report(ours.iter().map(|(_, series)| series));
    none_failed(failures)
}
