//! A simulation of calls for speed: endpoints of `phalanx_core::rpc` on links of a given rate, joined by a switch with
//! bounded queues.
//!
//! Nothing breaks here. Packets are lost where a queue is full, or by chance if that is requested. One seed decides
//! everything. [`measure`] runs a [`Workload`] on a [`Setup`] and reports how long calls took, what was lost and where.
//! It answers questions that no single machine can: the effect of windows and timers with hundreds of peers on links of
//! 10 and 100 Gb/s. `docs/simulator.md` describes the model; `crates/phalanx-sim/examples/links.rs` sweeps parameters.

mod fabric;
mod host;
mod ideal;
mod measured;
mod setup;
mod work;
mod world;

use phalanx_core::rng::Rng;

pub use measured::{Extremes, Measured, SizeClass, Spread};
pub use setup::{Long, Setup, Workload};

use measured::Record;
use work::{Closed, Incast, Mixed};
use world::{Work, World};

/// Runs a workload, on sessions that are open and have been used once.
///
/// # Panics
/// If an endpoint violates its invariants.
#[must_use]
pub fn measure(setup: &Setup, workload: &Workload, seed: u64) -> Measured {
    let mut world = World::new(setup, workload, seed);
    let (clients, servers) = (workload.clients(), workload.servers());
    let mut rng = Rng::new(seed).fork("work");
    let mut record = match *workload {
        Workload::Closed { at_once, request_bytes, answer_bytes, think_ns, for_ns, calls, .. } => {
            world.open((0..clients).map(|client| (client, clients + client % servers)));
            let mut work = Closed {
                clients,
                servers,
                at_once,
                request_bytes,
                answer_bytes,
                think_ns,
                until_ns: for_ns,
                left: vec![calls; clients],
                open: 0,
                rng,
                done: Vec::new(),
            };
            let record = run(&mut world, &mut work);
            Record { done: work.done, ideal_ns: setup.call_ns(request_bytes, answer_bytes), ..record }
        }
        Workload::Incast { answer_bytes, rounds, .. } => {
            world.open((1..=servers).map(|server| (0, server)));
            let mut work = Incast {
                servers,
                answer_bytes,
                left: rounds,
                open: 0,
                round_began_ns: 0,
                rounds_ns: Vec::new(),
                done: Vec::new(),
            };
            let record = run(&mut world, &mut work);
            let ideal_ns = setup.calls_ns(servers, setup::SMALL_BYTES, answer_bytes);
            Record { done: work.done, spans_ns: work.rounds_ns, ideal_ns, ..record }
        }
        Workload::Mixed { long, load_permille, calls, .. } => {
            world
                .open((0..clients).flat_map(|client| (clients..clients + servers).map(move |server| (client, server))));
            let mut work = Mixed::new(setup, (clients, servers), long, load_permille, calls, &mut rng);
            let record = run(&mut world, &mut work);
            Record { done: work.done, by_size: Some(long), ..record }
        }
    };
    world.check();
    record.charged_max = world.charged_max();
    record.judge(setup)
}

/// Runs the work; returns the counts of that time.
fn run(world: &mut World, work: &mut dyn Work) -> Record {
    let (before, began_ns) = (world.totals(), world.now_ns);
    world.work(work);
    Record { before, after: world.totals(), began_ns, ..Record::default() }
}

#[cfg(test)]
mod tests;
