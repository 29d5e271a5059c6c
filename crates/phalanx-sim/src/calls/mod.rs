//! Calls under faults: endpoints of `phalanx_core::rpc` on a network in memory, and a judge that does not know how
//! calls are made.
//!
//! One seed decides everything. A run has a *faulty* phase, in which packets are lost, late, repeated and out of order,
//! buffers overflow, and processes are stopped and restarted. Then everything is whole again, and after a while calls
//! in every session must be answered. [`run_calls`] runs one seed. `docs/rpc.md` has the promises. `judge.rs` evaluates
//! them, and so does the checker, from traces as real processes write them.
//!
//! [`links`] is another simulation, for speed, in which nothing breaks.

mod callers;
mod judge;
pub mod links;
mod network;
mod node;
mod payload;
mod plan;
mod record;
mod result;
mod routes;
mod servers;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::panics;
use world::World;

pub use result::{CallsResult, CallsStats};

/// Runs one seed.
#[must_use]
pub fn run_calls(seed: u64) -> CallsResult {
    run(seed, false).0
}

/// Runs one seed and describes its events, one line each.
#[must_use]
pub fn tell_calls(seed: u64) -> (CallsResult, Vec<String>) {
    run(seed, true)
}

fn run(seed: u64, tells: bool) -> (CallsResult, Vec<String>) {
    let mut world = World::new(seed, tells);
    // A panic is a result; the events until then are kept.
    let outcome = catch_unwind(AssertUnwindSafe(|| panics::quietly(|| world.run())));
    if let Err(payload) = outcome {
        world.break_off(&panics::describe(payload.as_ref()));
    }
    world.into_result(seed)
}
