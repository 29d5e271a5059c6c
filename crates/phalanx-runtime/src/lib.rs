//! Process groups: sets of processes that see the same members, the same messages and the same failures in the
//! same order.
#![cfg_attr(not(test), warn(clippy::cast_possible_truncation))]
#![deny(missing_docs)]

pub mod belief;
pub mod clock;
pub mod config;
pub mod counters;
pub mod deaths;
mod fork;
mod frozen;
pub mod handler;
pub mod inline;
pub mod local;
mod neighbours;
pub mod node;
pub mod rpc;
mod start;
pub mod tap;
pub mod traced;

pub use belief::{Belief, Believed, WaitError};
pub use frozen::Frozen;
pub use handler::Handler;
pub use inline::Inline;
pub use node::{Node, NodeOptions, PollReport};
pub use phalanx_core as core;
pub use phalanx_driver as driver;
pub use start::{Options, StartError};
pub use traced::{Recorder, Traced};
