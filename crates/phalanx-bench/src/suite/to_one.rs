//! Messages to one member of a group and back, beside an abcast that is answered by one, and beside a call.

use std::time::Duration;

use super::latency::{Way, timed};
use super::rpc::pair::{Pair, Setup, none_failed};
use crate::Request;
use crate::bench::{Bench, Case};
use crate::calls::{Carrier, Load};
use crate::cell::{Cell, CellPlan};
use crate::choice::{Cores, Security, Transport, Waiting};
use crate::error::BenchError;
use crate::row::{Quantiles, Series};

/// Within a packet, about as much as one holds on an Ethernet, and several of these. A message carries 9 B of the benchmark.
const SIZES: [usize; 3] = [9, 1_100, 7 << 10];

const PLACES: [(Waiting, Cores); 2] = [(Waiting::Block, Cores::Two), (Waiting::Spin, Cores::Two)];

pub(super) fn cases(request: &Request) -> Vec<Case> {
    let mut cases = Vec::new();
    for transport in [Transport::Udp, Transport::Shm] {
        for (wait, cores) in PLACES {
            for size in SIZES {
                if request.is_sketch() && (size != 1_100 || wait == Waiting::Spin || transport == Transport::Shm) {
                    continue;
                }
                let name = format!("there-and-back-{size}-{}-{}-{}", wait.word(), cores.word(), transport.word());
                let what = format!("{size} B to one member and back, beside an abcast each way, and a call");
                cases.push(Case::new(name, what, move |bench| measure(bench, transport, (wait, cores), size)));
            }
        }
    }
    cases
}

fn measure(
    bench: &mut Bench<'_>,
    transport: Transport,
    (wait, cores): (Waiting, Cores),
    size: usize,
) -> Result<(), BenchError> {
    let security = Security::Sealed;
    let mut cell = bench.cell(&CellPlan { wait, cores: Some(cores), ..CellPlan::new(2, transport, security) })?;
    let mut pair = Pair::start(bench, &Setup { transport, security, wait, cores, ..Setup::new(Carrier::Reliable) })?;
    let series = |metric, unit| Series::new(metric, unit, 2, size);
    let mut abcast = series("messages to one, round trip", "us").against("abcasts");
    let mut call = series("the same", "us").against("a call");
    let mut packets = series("packets of both, for each round trip", "packets").against("abcasts");
    let load = Load::closed(size, 1);
    for round in 0..bench.rounds() {
        bench.round(round)?;
        // Each way comes first in turn.
        let mut trips = [Trips::default(); 2];
        let ways = [Way::ToOne, Way::Round];
        for which in if round % 2 == 0 { [0, 1] } else { [1, 0] } {
            timed(&mut cell, ways[which], size, None, bench.warm())?;
            trips[which] = Trips::measure(&mut cell, ways[which], size, bench.measured())?;
        }
        let called = cell.stopped(|| pair.timed(&load, bench))?.called;
        none_failed(called.failed)?;
        let [to_one, abcasts] = trips;
        abcast.add_quantiles_beside(&to_one.times, abcasts.times.p50);
        call.add_quantiles_beside(&to_one.times, called.times.p50);
        packets.add_beside(to_one.packets, abcasts.packets);
    }
    cell.unchanged()?;
    bench.keep(cell);
    bench.report([&abcast, &call, &packets]);
    Ok(())
}

/// Round trips of one measurement.
#[derive(Clone, Copy, Default)]
struct Trips {
    times: Quantiles,
    /// Packets that both members sent, for each round trip: acknowledgements and heartbeats, too.
    packets: f64,
}

impl Trips {
    fn measure(cell: &mut Cell, way: Way, size: usize, time: Duration) -> Result<Self, BenchError> {
        let before = cell.marks()?;
        let times = timed(cell, way, size, None, time)?;
        if times.count == 0 {
            return Err(BenchError::Child("no message came back in time".to_owned()));
        }
        let after = cell.marks()?;
        let sent = before.iter().zip(&after).map(|(before, after)| after.sent_packets - before.sent_packets);
        Ok(Self { times, packets: sent.sum::<u64>() as f64 / times.count as f64 })
    }
}
