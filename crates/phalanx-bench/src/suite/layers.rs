//! Layers bound early and late: the same core and the same messages, with the sink that the compiler knows, and with one
//! that takes a descriptor for each packet.

use phalanx_runtime::driver::udp::PACKET_BYTES_ETHERNET;

use super::core_loop::{Pair, Sink, Wire, thread_nanos};
use super::late_sink::LateSink;
use crate::alloc::{counts, taken};
use crate::bench::Bench;
use crate::error::BenchError;
use crate::row::Series;

/// What one binding cost.
#[derive(Clone, Copy)]
struct Cost {
    nanos: f64,
    allocations: f64,
    packets: f64,
}

/// What a case sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Load {
    /// Abcasts of 100 bytes, packed.
    Stream,
    /// An abcast of 64 bytes and one in answer, a packet for each.
    Trips,
}

/// Measures both bindings in each round, and reports what one message or round trip costs both sides.
pub(super) fn measure(bench: &mut Bench<'_>, load: Load) -> Result<(), BenchError> {
    let (count, per) = match load {
        Load::Stream => (STREAM, "per message"),
        Load::Trips => (TRIPS, "per round trip"),
    };
    let count = if bench.request.quick { count / 10 } else { count };
    let early = |metric: &str, unit| Series::new(format!("early binding: {metric}, {per}"), unit, 2, 0);
    let late =
        |metric: &str, unit| Series::new(format!("late binding: {metric}, {per}"), unit, 2, 0).against("early binding");
    let mut time = [early("time", "ns"), late("time", "ns")];
    let mut allocations = [early("allocations", "allocations"), late("allocations", "allocations")];
    let mut packets = early("packets", "packets");
    for round in 0..bench.rounds() {
        bench.round(round)?;
        let first = cost::<Wire>(load, count)?;
        let second = cost::<LateSink>(load, count)?;
        time[0].add(first.nanos);
        time[1].add_beside(second.nanos, first.nanos);
        if counts() {
            allocations[0].add(first.allocations);
            allocations[1].add_beside(second.allocations, first.allocations);
        }
        packets.add(first.packets);
    }
    bench.report(time.iter().chain(&allocations).chain([&packets]));
    Ok(())
}

fn cost<S: Sink + Default>(load: Load, count: usize) -> Result<Cost, BenchError> {
    let mut pair = Pair::<S>::meet(PACKET_BYTES_ETHERNET, false)?;
    // Queues and maps grow to their size first, and the token passes to who sends.
    drive(&mut pair, load, count / 10)?;
    let (nanos, allocations, packets) = (thread_nanos(), taken(), pair.sent());
    drive(&mut pair, load, count)?;
    let per = count as f64;
    Ok(Cost {
        nanos: (thread_nanos() - nanos) / per,
        allocations: (taken() - allocations) as f64 / per,
        packets: (pair.sent() - packets) as f64 / per,
    })
}

/// Sends `count` messages or makes as many round trips.
fn drive<S: Sink + Default>(pair: &mut Pair<S>, load: Load, count: usize) -> Result<(), BenchError> {
    match load {
        Load::Stream => pair.push(false, count),
        Load::Trips => pair.trips(count).map(drop),
    }
}

/// Messages, and round trips, of a round.
const STREAM: usize = 100_000;
const TRIPS: usize = 30_000;
