//! Other systems, measured alternately with the library. Each has a runner, and all runners follow one contract.

pub(super) mod runner;

use std::time::Duration;

use crate::Request;
use crate::bench::{Bench, Case};
use crate::cell::{Cell, CellPlan};
use crate::choice::{Cores, Ordering, Security, Senders, Transport, Waiting};
use crate::error::BenchError;
use crate::row::{Quantiles, Series};
use crate::suite::latency::{Way, timed};
use runner::{Peer, Streamed, Trip, Tripped};

/// A stream to some receivers: the peer's and the library's.
#[derive(Clone, Copy, Debug)]
struct StreamPlan {
    peer: Peer,
    senders: Senders,
    size: usize,
    transport: Transport,
    orders: &'static [Ordering],
    security: &'static [Security],
}

/// Round trips to one or more processes. The peer calls them one after the other; the library sends one multicast.
#[derive(Clone, Copy, Debug)]
struct TripPlan {
    peer: Peer,
    servers: usize,
    size: usize,
    wait: Waiting,
    cores: Cores,
    transport: Transport,
    ways: &'static [Way],
}

const fn peer(name: &'static str, variant: &'static str) -> Peer {
    Peer { name, variant }
}

/// Peers that multicast, and the library's cases beside each. Peers with FIFO order only are also compared with the
/// library's FIFO order. Peers without encryption are also compared with the library without it.
const STREAMS: [(Peer, &[Ordering], &[Security]); 9] = [
    (peer("jgroups", "sequencer"), TOTAL, SEALED),
    (peer("jgroups", "sequencer-tq"), TOTAL, SEALED),
    (peer("jgroups", "sequencer-new"), TOTAL, SEALED),
    (peer("jgroups", "sequencer2"), TOTAL, SEALED),
    (peer("jgroups", "udp-new"), TOTAL_AND_FIFO, SEALED),
    (peer("corosync", "knet"), TOTAL, SEALED),
    (peer("aeron", "udp"), TOTAL_AND_FIFO, Security::ALL),
    (peer("zeromq", "tcp"), TOTAL_AND_FIFO, Security::ALL),
    (peer("nats", "core"), TOTAL_AND_FIFO, Security::ALL),
];
const TOTAL: &[Ordering] = &[Ordering::Total];
const TOTAL_AND_FIFO: &[Ordering] = &[Ordering::Total, Ordering::Fifo];
const SEALED: &[Security] = &[Security::Sealed];

/// Peers that pass messages through memory. They are compared with the library's shared memory.
const MEMORY: [Peer; 2] = [peer("aeron", "ipc"), peer("iceoryx2", "ipc")];

/// Peers with calls and answers.
const CALLS: [Peer; 4] = [peer("sunrpc", "udp"), peer("grpc", "tonic"), peer("nats", "core"), peer("zeromq", "tcp")];

const SIZES: [usize; 3] = [100, 1_024, 7_168];
const RECEIVERS: usize = 3;
/// Size of a call in bytes.
const CALL_BYTES: usize = 64;

/// The shared-memory transport, if the library has it.
fn memory() -> Option<Transport> {
    Transport::ALL.iter().copied().find(|transport| transport.word() == "shm")
}

pub(super) fn cases(request: &Request) -> Vec<Case> {
    let mut cases = Vec::new();
    for (peer, orders, security) in STREAMS {
        for senders in Senders::ALL {
            for size in SIZES {
                let transport = Transport::Udp;
                cases.push(StreamPlan { peer, senders: *senders, size, transport, orders, security }.case());
            }
        }
    }
    if let Some(transport) = memory() {
        for peer in MEMORY {
            for size in SIZES {
                let (senders, orders, security) = (Senders::One, TOTAL_AND_FIFO, Security::ALL);
                cases.push(StreamPlan { peer, senders, size, transport, orders, security }.case());
            }
            let (wait, cores) = (Waiting::Spin, Cores::Two);
            let ways: &[Way] = &[Way::Round, Way::Replies];
            let plan = TripPlan { peer, servers: 1, size: CALL_BYTES, wait, cores, transport, ways };
            cases.push(plan.case());
        }
    }
    for peer in CALLS {
        for &cores in Cores::ALL {
            let (wait, transport) = (Waiting::Block, Transport::Udp);
            let ways: &[Way] = &[Way::Round, Way::Replies];
            cases.push(TripPlan { peer, servers: 1, size: CALL_BYTES, wait, cores, transport, ways }.case());
            if peer.name == "sunrpc" {
                let plan =
                    TripPlan { peer, servers: 3, size: CALL_BYTES, wait, cores, transport, ways: &[Way::Replies] };
                cases.push(plan.case());
            }
        }
    }
    if request.is_sketch() {
        const FEW: [&str; 4] = [
            "jgroups-sequencer-one-3x100",
            "corosync-knet-one-3x100",
            "zeromq-tcp-one-3x100",
            "sunrpc-udp-call-1x64-block-one",
        ];
        cases.retain(|case| FEW.contains(&case.name.as_str()));
    }
    cases
}

impl StreamPlan {
    fn case(self) -> Case {
        let Self { peer, senders, size, .. } = self;
        let name = format!("{}-{}-{}-{RECEIVERS}x{size}", peer.name, peer.variant, senders.word());
        let who = if senders == Senders::One { "one sends" } else { "all send" };
        let what = format!("abcast to {RECEIVERS} others beside {}, {who} {size} B", peer.title());
        Case::new(name, what, move |bench| self.measure(bench))
    }

    fn measure(&self, bench: &mut Bench<'_>) -> Result<(), BenchError> {
        let Self { peer, senders, size, transport, .. } = *self;
        if !peer.is_there(bench) {
            return Ok(());
        }
        let members = RECEIVERS + 1;
        let mut ours: Vec<(Cell, Vec<(Ordering, Series)>)> = Vec::new();
        for &security in self.security {
            let cell = bench.new_cell(&CellPlan::new(members, transport, security))?;
            let series = |ordering: &Ordering| {
                let name = if *ordering == Ordering::Total { "abcast" } else { "fbcast" };
                let metric = format!("{name} {} {}", transport.word(), security.word());
                (*ordering, Series::new(metric, "msg/s", members, size).against(peer.title()))
            };
            ours.push((cell, self.orders.iter().map(series).collect()));
        }
        let mut lost = Series::new(format!("never delivered by {}", peer.title()), "msg", members, size);
        let mut guarantee = String::new();
        for round in 0..bench.rounds() {
            bench.round(round)?;
            let theirs: Streamed = peer.stream(bench, size, RECEIVERS, senders)?;
            for (cell, all) in &mut ours {
                for (ordering, series) in all {
                    let measured = cell.measure(senders, *ordering, size, bench.times())?;
                    series.add_beside(measured.delivered_per_s(), theirs.msgs_per_s);
                }
            }
            lost.runs.extend(theirs.lost);
            guarantee = theirs.guarantee;
        }
        bench.tell_guarantee(peer, &guarantee);
        bench.report(ours.iter().flat_map(|(_, all)| all).map(|(_, series)| series).chain([&lost]));
        Ok(())
    }
}

impl TripPlan {
    fn case(self) -> Case {
        let Self { peer, servers, size, wait, cores, .. } = self;
        let (wait, cores) = (wait.word(), cores.word());
        let name = format!("{}-{}-call-{servers}x{size}-{wait}-{cores}", peer.name, peer.variant);
        let calls = if servers == 1 { "a call".to_owned() } else { format!("{servers} calls, one after the other") };
        let what = format!("a multicast with all answers beside {calls} of {}, {cores} processors", peer.title());
        Case::new(name, what, move |bench| self.measure(bench))
    }

    fn measure(&self, bench: &mut Bench<'_>) -> Result<(), BenchError> {
        let Self { peer, servers, size, wait, cores, transport, .. } = *self;
        if !peer.is_there(bench) {
            return Ok(());
        }
        let members = servers + 1;
        let plan = CellPlan { wait, cores: Some(cores), ..CellPlan::new(members, transport, Security::Sealed) };
        let mut cell = bench.cell(&plan)?;
        let series = |way: &Way| {
            let metric = match way {
                Way::One => "one way",
                Way::Round => "abcast, answered with an abcast",
                Way::ToOne => "message to one, answered with one",
                Way::Replies => "cbcast with all answers",
            };
            Series::new(metric, "us", members, size).against(peer.title())
        };
        let mut ours: Vec<(Way, Series)> = self.ways.iter().map(|way| (*way, series(way))).collect();
        let mut guarantee = String::new();
        for round in 0..bench.rounds() {
            bench.round(round)?;
            let theirs: Tripped = peer.ping(bench, Trip { size, answer: 0, servers, wait, cores })?;
            for (way, series) in &mut ours {
                timed(&mut cell, *way, size, None, Duration::from_millis(200).min(bench.measured()))?;
                let times: Quantiles = timed(&mut cell, *way, size, None, bench.measured())?;
                if times.count == 0 {
                    return Err(BenchError::Child("no message came back in time".to_owned()));
                }
                series.add_quantiles_beside(&times, theirs.p50_ns / 1e3);
            }
            guarantee = theirs.guarantee;
        }
        cell.unchanged()?;
        bench.keep(cell);
        bench.tell_guarantee(peer, &guarantee);
        bench.report(ours.iter().map(|(_, series)| series));
        Ok(())
    }
}

impl Bench<'_> {
    /// Reports a peer's guarantee beside its figures, because a stronger guarantee costs more.
    pub(super) fn tell_guarantee(&mut self, peer: Peer, guarantee: &str) {
        self.notice_once(&format!("{} promises: {guarantee}", peer.title()));
    }
}
