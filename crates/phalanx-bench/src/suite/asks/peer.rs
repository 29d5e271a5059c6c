//! Group calls of `JGroups`, with as many members, and answers as long.

use super::exchange::{MEMBERS, SIZES, What, crowd, exchange};
use crate::Request;
use crate::bench::{Bench, Case};
use crate::cell::CellPlan;
use crate::choice::{Cores, Interface, Security, Transport, Waiting, Want};
use crate::error::BenchError;
use crate::protocol::AskPlan;
use crate::row::{Quantiles, Series};
use crate::suite::peers::runner::{Peer, Trip};

/// Each way of calling a group, and the ask that stands beside it.
const WAYS: [(&str, Want, bool); 8] = [
    ("rpc", Want::All, false),
    ("rpc-self", Want::All, true),
    ("rpc-majority", Want::Majority, false),
    ("rpc-majority-self", Want::Majority, true),
    ("rpc-first", Want::First, false),
    ("rpc-first-self", Want::First, true),
    ("rpc-inband", Want::All, false),
    ("rpc-inband-self", Want::All, true),
];

pub(super) fn cases(request: &Request) -> Vec<Case> {
    let mut cases = Vec::new();
    // Peers take longer than a sketch may.
    if request.is_sketch() {
        return cases;
    }
    let chosen = &request.selection;
    let members = if chosen.members.is_empty() { &MEMBERS[..] } else { &chosen.members };
    let sizes = if chosen.sizes.is_empty() { &SIZES[..] } else { &chosen.sizes };
    for (variant, want, with_self) in WAYS {
        for &members in members {
            for &size in sizes {
                for &cores in Cores::ALL {
                    let peer = Peer { name: "jgroups", variant };
                    let name = format!("peer-{}-{variant}-{members}x{size}-{}", peer.name, cores.word());
                    let crowd = crowd(members);
                    let what = format!("{size} B asked of {members} members, beside {}{crowd}", peer.title());
                    let beside = Beside { peer, members, size, cores, want, with_self };
                    cases.push(Case::new(name, what, move |bench| beside.measure(bench)));
                }
            }
        }
    }
    cases
}

#[derive(Clone, Copy)]
struct Beside {
    peer: Peer,
    members: usize,
    size: usize,
    cores: Cores,
    want: Want,
    with_self: bool,
}

impl Beside {
    fn measure(self, bench: &mut Bench<'_>) -> Result<(), BenchError> {
        let Self { peer, members, size, cores, want, with_self } = self;
        if !peer.is_there(bench) {
            return Ok(());
        }
        // The peer blocks while it waits.
        let wait = Waiting::Block;
        let mut ours = Vec::new();
        for transport in [Transport::Shm, Transport::Udp] {
            for interface in [Interface::Inline, Interface::Threads] {
                let plan = CellPlan { wait, cores: Some(cores), ..CellPlan::new(members, transport, Security::Sealed) };
                let cell = bench.new_cell(&CellPlan { interface: Some(interface), ..plan })?;
                let series = |uniform| {
                    let what = What::Ask(interface, AskPlan { size, want, with_self, uniform });
                    let name = format!("{}, {}", what.name(), transport.word());
                    (what, Series::new(name, "us", members, size).against(peer.title()))
                };
                ours.push((cell, [false, true].map(series)));
            }
        }
        let trip = Trip { size, answer: 0, servers: members - 1, wait, cores };
        let mut theirs = Series::new(peer.title(), "us", members, size);
        let mut guarantee = String::new();
        for round in 0..bench.rounds() {
            bench.round(round)?;
            let tripped = peer.ping(bench, trip)?;
            let [p50, p99, p999] = [tripped.p50_ns, tripped.p99_ns, tripped.p999_ns].map(|nanos| nanos / 1e3);
            theirs.add_quantiles(&Quantiles { count: 1, p50, p99, p999 });
            guarantee = tripped.guarantee;
            for (cell, asks) in &mut ours {
                for (what, series) in asks {
                    exchange(cell, *what, size, bench.warm())?;
                    let times = exchange(cell, *what, size, bench.measured())?;
                    if times.count == 0 {
                        return Err(BenchError::Child(format!("none ended in time: {}", series.metric)));
                    }
                    series.add_quantiles_beside(&times, p50);
                }
            }
        }
        bench.tell_guarantee(peer, &guarantee);
        bench.report(
            [&theirs].into_iter().chain(ours.iter().flat_map(|(_, asks)| asks.iter().map(|(_, series)| series))),
        );
        Ok(())
    }
}
