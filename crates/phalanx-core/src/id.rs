//! Names for processes, groups and views.

use std::fmt;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::wire::Tags;

/// The level of this build: what it may send and understands (`docs/levels.md`).
pub const LEVEL: u16 = 5;

/// Which life of a process: random 64 bits, new at every start, never zero. Identifies a process in a cell.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Incarnation(pub u64);

impl Incarnation {
    /// "Nobody in particular": what a multicast packet names as its destination.
    pub const NONE: Self = Self(0);
}

impl fmt::Debug for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// A member's index in one view, 0 the oldest; meaningless without the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Rank(pub u16);

impl Rank {
    /// As an index into the view's member list.
    #[must_use]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// A group of a cell, numbered by the cell when the group is made; never reused in a cell instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct GroupId(pub u32);

/// One process as its cell knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberInfo {
    /// This life of the process.
    pub incarnation: Incarnation,
    /// The process's name, unique among the members of a view; survives restarts.
    pub name: String,
    /// Where it receives data.
    pub data: SocketAddr,
    /// Where it receives control traffic (heartbeats, wedge, decisions).
    pub control: SocketAddr,
    /// The machine it runs on; equal on two members that share an operating system. 0: unknown.
    pub host: u64,
    /// The longest packet it can receive, in bytes.
    pub packet_bytes_max: u32,
    /// How many such packets the buffer holds in which the system keeps data for it until it takes them, from all senders
    /// together. 0: not known, or no such bound.
    pub receive_packets: u32,
    /// The highest level that its build knows.
    pub level: u16,
    /// What later builds add. Tag 1: its own values of the settings that it may be refused for. Tags 2 and 3: its seat, and
    /// the lives whose state it kept (`docs/orphans.md`).
    pub tail: Tags,
}

impl MemberInfo {
    /// A process of this build on an unknown machine, that takes packets of at most 1,432 bytes.
    #[must_use]
    pub fn new(incarnation: Incarnation, name: impl Into<String>, data: SocketAddr, control: SocketAddr) -> Self {
        Self {
            incarnation,
            name: name.into(),
            data,
            control,
            host: 0,
            packet_bytes_max: 1432,
            receive_packets: 0,
            level: LEVEL,
            tail: Tags::default(),
        }
    }
}

/// How a packet came here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Over the network, sealed, from this address.
    Network(SocketAddr),
    /// Out of memory shared with a process of the same user on this host, in clear: header, frames, and in the place of
    /// the tag the destination's incarnation.
    Memory,
}

impl Origin {
    /// The address it came from over the network, if it did.
    #[must_use]
    pub fn address(self) -> Option<SocketAddr> {
        match self {
            Self::Network(from) => Some(from),
            Self::Memory => None,
        }
    }
}

/// Which of a process's two sockets: data never delays control.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// Multicast streams, point-to-point messages, state.
    Data,
    /// Heartbeats, acknowledgements, membership.
    Control,
}
