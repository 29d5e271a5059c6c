//! The protocol core of Phalanx: deterministic state machines. Inputs are time, random numbers and packets; effects go
//! to a sink that the packet path binds statically. The core opens no socket, reads no clock and starts no thread.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::cast_possible_truncation))]
#![deny(missing_docs)]

pub mod api;
mod frames;
pub mod id;
pub mod link;
pub mod member;
pub mod order;
mod packet;
pub mod process;
pub mod rng;
pub mod rpc;
pub mod seal;
mod sorted;
pub mod time;
mod transitions;
mod truesize;
pub mod wire;

/// Golden vectors, for the unit tests.
#[cfg(test)]
#[path = "../tests/golden/file.rs"]
mod golden;

pub use api::*;
pub use frames::Frames;
pub use id::{
    BadName, CellInstance, DecreeNumber, GroupId, InboxId, Incarnation, LEVEL, MemberInfo, NAME_BYTES_MAX, Origin,
    Rank, Sequence, TrafficClass, ViewNumber, check_name,
};
pub use packet::{Arriving, ClearPacket, Packet, PartialPacket, RemainingPayload};
pub use process::{Activity, Process, StreamStatus};
pub use seal::Security;
pub use time::{Instant, TURN_GAP_MAX};
pub use truesize::{TRUESIZE_MIN, truesize};
