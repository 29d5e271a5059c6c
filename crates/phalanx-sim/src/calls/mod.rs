//! Calls under faults: endpoints of `phalanx_core::rpc` on a network in memory, and a judge that knows nothing of how calls
//! are made.
//!
//! One seed decides everything. A run has a *faulty* phase, in which packets get lost, late, repeated and out of order, buffers
//! overflow, processes stop and are started anew; then everything is whole again, and after a while calls in every session
//! must be answered. [`run_calls`] runs one seed. `docs/rpc.md` tells what is promised, `judge.rs` judges it, and so does the
//! checker, from traces as real processes write them.
//!
//! [`links`] is another simulation, for speed: there nothing breaks.

mod judge;
pub mod links;
mod network;
mod node;
mod payload;
mod plan;
mod record;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::panics;
use world::World;

/// What became of one seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallsResult {
    /// The seed.
    pub seed: u64,
    /// What was broken: a code, when, and how, for example `R1 at 1.250 s: ...`. Empty: nothing.
    pub violations: Vec<String>,
    /// Over all packets and outcomes and their times: the same for the same seed.
    pub trace_hash: u64,
    /// What happened.
    pub stats: CallsStats,
}

macro_rules! stats {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// How often what happened.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct CallsStats {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl CallsStats {
            /// Each count with its name, in a fixed order.
            pub fn each(&self, mut each: impl FnMut(&'static str, u64)) {
                $(each(stringify!($name), self.$name);)*
            }

            /// Adds the counts of another seed.
            pub fn add(&mut self, other: &Self) {
                $(self.$name += other.$name;)*
            }
        }
    };
}

stats! {
    /// Calls accepted.
    calls,
    /// Of these, idempotent ones.
    idempotent,
    /// Calls not accepted, as too many waited or the request was too long.
    not_accepted,
    /// Outcomes: the answer.
    answers,
    /// Outcomes: not executed.
    not_executed,
    /// Outcomes: unknown.
    unknown,
    /// Failures because the deadline passed.
    deadlines,
    /// Failures because it was cancelled.
    cancelled,
    /// Failures because the server refused.
    refused,
    /// Failures because the session was lost.
    session_lost,
    /// Failures because the answer was too long.
    answer_too_long,
    /// Calls whose client was started anew: nobody was there to be told.
    abandoned,
    /// Handlers begun.
    runs,
    /// Idempotent calls that ran more than once.
    ran_again,
    /// Handlers that answered later.
    answered_later,
    /// Handlers that did not answer until everything was whole again.
    answered_never,
    /// Handlers that answered twice.
    answered_twice,
    /// Handlers that said that there is no such service.
    handlers_refused,
    /// Calls given up by the application.
    cancels,
    /// Sessions closed with calls under way.
    closes,
    /// Servers started anew.
    server_restarts,
    /// Clients started anew.
    client_restarts,
    /// One way cut for a while.
    cuts,
    /// Times in which most is lost.
    bursts,
    /// Processes stopped for a while.
    pauses,
    /// Clients that had another address from then on.
    moves,
    /// Packets sent to an address that its client had no more.
    strayed,
    /// Packets sent.
    packets,
    /// Of these, lost on their way.
    lost,
    /// Came twice.
    duplicated,
    /// Came again much later.
    replayed,
    /// Overtaken by one sent later.
    reordered,
    /// Packets through memory.
    shared,
    /// Of these, overwritten before they were read.
    overtaken,
    /// Of these, written for a life that is over, or for somebody who does not read them any more or yet.
    unread,
    /// Found no room in the receiver's buffer.
    overflowed,
    /// Calls, runs and answers that the checker judged, once for each property of calls.
    checked,
    /// Calls made when everything was whole again, which had to be answered.
    calls_after,
}

/// Runs one seed.
#[must_use]
pub fn run_calls(seed: u64) -> CallsResult {
    run(seed, false).0
}

/// Runs one seed and tells what happened, a line for each event.
#[must_use]
pub fn tell_calls(seed: u64) -> (CallsResult, Vec<String>) {
    run(seed, true)
}

fn run(seed: u64, tells: bool) -> (CallsResult, Vec<String>) {
    let mut world = World::new(seed, tells);
    // A panic is a result: what was seen until then is kept.
    let outcome = catch_unwind(AssertUnwindSafe(|| panics::quietly(|| world.run())));
    if let Err(payload) = outcome {
        world.break_off(&panics::describe(payload.as_ref()));
    }
    world.into_result(seed)
}
