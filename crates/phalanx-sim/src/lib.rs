//! Whole cells in one thread. One seed decides everything: network, clocks, faults, workload. The processes are the
//! shipped ones, with the shipped event loop, core and seal. The checker evaluates what they deliver.
//!
//! [`campaign`] runs many seeds on all cores, and [`run_seed`] one. With [`Cell`] a test scripts a story by hand.
//! `docs/simulator.md` describes what is simulated and how to read a failed seed.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod address;
mod app;
mod attacker;
mod bounds;
mod bursts;
pub mod calls;
mod campaign;
mod carry;
mod chain;
mod chaos;
mod classes;
mod clock;
mod commands;
pub mod costs;
mod coverage;
mod disk;
mod draw;
mod driver;
mod estranged;
pub mod fault;
mod founding;
mod history;
mod holders;
mod inboxes;
mod judge;
mod laggards;
mod leaving;
mod links;
mod lost_view;
mod machine;
mod memory;
mod minima;
mod neighbours;
mod network;
mod nonsense;
mod objects;
mod observe;
mod operate;
mod options;
mod oracle;
mod orphans;
mod panics;
mod partial;
mod picture;
mod plan;
mod queue;
mod queued;
mod rare;
mod reduce;
mod resources;
mod result;
mod ruin;
mod run;
pub mod scale;
mod script;
mod shrink;
mod slot;
mod state;
mod storm;
mod stranded;
mod strays;
mod swarm;
mod threads;
mod timeline;
mod timer;
mod unequal;
mod watch;
mod weather;
mod workload;
mod world;

pub use campaign::{campaign, resume};
pub use classes::{Churn, Class, Crowd, Far, Where};
pub use coverage::{Coverage, FLOOR_SEEDS, coverage, coverage_table, floors};
pub use history::Operation;
pub use machine::{Machine, Machines, ToSend};
pub use memory::MemorySettings;
pub use network::{Lost, Packet, QUEUE_NS_MAX};
pub use options::{Draw, Options, Stop, UnknownDraw};
pub use partial::{Break, Partial, Place, Provoke, What};
pub use picture::draw_seed;
pub use plan::{Bursts, Plan, Workload};
pub use reduce::{Part, Reduction};
pub use result::{Counters, SeedResult, Summary, Violation};
pub use run::{run_seed, watch_seed};
pub use script::{Cell, KeptPackets, blind_channel, send_until};
pub use shrink::{Shrunk, shrink};
pub use unequal::{Builds, Own, OwnAgreed};
pub use weather::Weather;
pub use world::{SUSPECT_AFTER, Watcher, WorldSettings};
