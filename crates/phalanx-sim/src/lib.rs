//! Whole cells in one thread. One seed decides everything: network, clocks, faults, workload. The processes are
//! the shipped ones, with the shipped turn loop, core and seal; what they deliver is judged by the checker.
//!
//! [`campaign`] runs many seeds on all cores; [`run_seed`] one; [`Cell`] lets a test write a story by hand.
//! `docs/simulator.md` tells what is simulated and how to read a failed seed.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod address;
mod app;
mod attacker;
mod campaign;
mod carry;
mod chaos;
mod commands;
mod driver;
pub mod fault;
mod judge;
mod links;
mod network;
mod observe;
mod oracle;
mod panics;
mod plan;
mod queue;
mod result;
mod run;
pub mod scale;
mod script;
mod shrink;
mod slot;
mod state;
mod swarm;
mod timeline;
mod workload;
mod world;

pub use campaign::{Options, Stop, campaign};
pub use carry::Packet;
pub use network::{Lost, QUEUE_NS_MAX, Weather};
pub use plan::{Plan, Workload};
pub use result::{Counters, SeedResult, Summary, Violation};
pub use run::run_seed;
pub use script::Cell;
pub use shrink::{Shrunk, shrink};
pub use world::WorldSettings;
