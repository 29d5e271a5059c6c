//! The part of a cell with the lowest capacity, and how much it can carry.

use crate::clock::{MS, SECOND};

/// The load, as a multiple of what can be carried.
pub const TIMES: u64 = 3;

/// Bytes that an interface takes in a millisecond.
pub(super) const INTERFACE_BYTES_PER_MS: u64 = 400;

/// Bytes that a link carries in a second.
pub(super) const LINK_BYTES: u64 = 400_000;

/// Time that a packet costs its receiver.
pub(super) const PACKET_NS: u64 = MS;

/// The longest packet.
const PACKET_BYTES: u64 = 1_472;

/// The part of a cell with the lowest capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bottleneck {
    /// Every process is behind a slow interface, and notices when it is full.
    Interfaces,
    /// Every link is slow. It drops packets that would wait long, heartbeats among them.
    Links,
    /// Every packet costs its receiver time, and a full socket drops more.
    Processors,
}

impl Bottleneck {
    /// All bottlenecks.
    pub const ALL: [Self; 3] = [Self::Interfaces, Self::Links, Self::Processors];

    /// Its name in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Interfaces => "interfaces",
            Self::Links => "links",
            Self::Processors => "processors",
        }
    }

    /// Time between two messages of each of `members`, whose mean length is `mean_bytes`, such that the load is
    /// [`TIMES`] what can be carried.
    pub(super) fn gap_ns(self, members: usize, mean_bytes: u64) -> u64 {
        let others = members as u64 - 1;
        let alone_ns = match self {
            Self::Interfaces => others * mean_bytes * MS / INTERFACE_BYTES_PER_MS,
            Self::Links => mean_bytes * SECOND / LINK_BYTES,
            // A sender under load fills its packets.
            Self::Processors => others * mean_bytes * PACKET_NS / PACKET_BYTES,
        };
        alone_ns / TIMES
    }
}
