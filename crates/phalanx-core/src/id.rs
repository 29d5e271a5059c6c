//! Identifiers of processes, groups, views and what is numbered in them.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::time::TURN_GAP_MAX;
use crate::wire::Tags;

/// The level of this build: what it may send and understands (`docs/levels.md`).
pub const LEVEL: u16 = 5;

/// The longest name of a cell, a process or a group, in bytes.
pub const NAME_BYTES_MAX: usize = 200;

/// A name is empty, or longer than [`NAME_BYTES_MAX`]. Its text is what every error about a name's length says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a name has 1 to {NAME_BYTES_MAX} bytes")]
pub struct BadName;

/// Checks the length of a name that a user chose for a cell, a process or a group.
///
/// # Errors
/// [`BadName`] if it is empty or longer than [`NAME_BYTES_MAX`].
pub const fn check_name(name: &str) -> Result<(), BadName> {
    if name.is_empty() || !fits_name(name) { Err(BadName) } else { Ok(()) }
}

/// Whether a name that came in a message is no longer than one may be. It may be empty: where that matters the reader
/// of the message checks it.
pub(crate) const fn fits_name(name: &str) -> bool {
    name.len() <= NAME_BYTES_MAX
}

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

/// Which founding of a cell: drawn when the cell is founded, carried in every packet. The upper 16 bits are its generation, the rest
/// is random; of two instances of a cell the later one has the larger number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CellInstance(pub u64);

impl CellInstance {
    /// No instance: the process is in none, or a build does not say.
    pub const NONE: Self = Self(0);

    /// A fresh instance of a generation, of 64 random bits.
    #[must_use]
    pub const fn fresh(generation: u16, random: u64) -> Self {
        Self((generation as u64) << 48 | random >> 16 | 1)
    }

    /// Its generation: 1 when the cell is founded, and one more each time the cell is founded again by command.
    #[must_use]
    pub const fn generation(self) -> u16 {
        (self.0 >> 48) as u16
    }

    /// The generation of the instance that is founded by command after this one.
    #[must_use]
    pub const fn next_generation(self) -> u16 {
        self.generation().saturating_add(1)
    }
}

impl fmt::Display for CellInstance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// A view has no more members than this: a [`Rank`] counts them.
pub const MEMBERS_MAX: usize = 1 << 16;

/// A member's index in one view, 0 the oldest; meaningless without the view.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
#[repr(transparent)]
pub struct Rank(pub u16);

impl Rank {
    /// The oldest member. Of two halves of a view, the one with it is a quorum.
    pub const FIRST: Self = Self(0);

    /// As an index into a list that has an entry for each member of the view.
    #[inline]
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The rank of the member at `index` of a view's list of members, which has at most [`MEMBERS_MAX`].
    #[inline]
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "a list of more members is no view")]
    pub const fn from_index(index: usize) -> Self {
        debug_assert!(index < MEMBERS_MAX);
        Self(index as u16)
    }

    /// All ranks of a view of `members`, in rising order.
    pub fn all(members: usize) -> impl DoubleEndedIterator<Item = Self> + ExactSizeIterator + Clone {
        (0..members).map(Self::from_index)
    }

    /// Entries of a list by rank, each with its rank.
    pub fn enumerate<I: IntoIterator>(entries: I) -> impl Iterator<Item = (Self, I::Item)> {
        entries.into_iter().enumerate().map(|(index, entry)| (Self::from_index(index), entry))
    }
}

impl fmt::Debug for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
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
    /// the lives whose state it kept (`docs/orphans.md`). Tag 4: see [`Self::turn_gap`].
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

    /// Notes how long it may stay away between two turns (see [`Timing::turn_gap_max`](crate::Timing::turn_gap_max)). What is borne
    /// of everybody is not told.
    pub fn turns_within(&mut self, gap: Duration) {
        if gap <= AWAY {
            return self.tail.remove(TURN_GAP);
        }
        let micros = gap.min(TURN_GAP_MAX).as_micros();
        self.tail.put_number(TURN_GAP, u64::try_from(micros).unwrap_or(u64::MAX));
    }

    /// How much longer than others it may be silent, as it said itself: at most [`TURN_GAP_MAX`], whatever it said. Zero where it said
    /// nothing, or what is no number.
    #[must_use]
    pub fn turn_gap(&self) -> Duration {
        let micros = self.tail.number(TURN_GAP).ok().flatten().unwrap_or(0);
        Duration::from_micros(micros).min(TURN_GAP_MAX)
    }
}

/// In the tail of a member's record: how long it may stay away between two turns, in microseconds.
const TURN_GAP: u64 = 4;
/// A turn this late means that its process was away (stopped, starved). It judges nobody by that, and the others bear it.
pub(crate) const AWAY: Duration = Duration::from_millis(50);

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
pub enum TrafficClass {
    /// Multicast streams, point-to-point messages, state.
    Data,
    /// Heartbeats, acknowledgements, membership.
    Control,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_is_believed_up_to_its_bound() {
        let address = SocketAddr::from(([127, 0, 0, 1], 1));
        let mut info = MemberInfo::new(Incarnation(1), "m", address, address);
        assert_eq!(info.turn_gap(), Duration::ZERO);
        for (told, known) in [
            (Duration::from_millis(600), Duration::from_millis(600)),
            (TURN_GAP_MAX, TURN_GAP_MAX),
            (TURN_GAP_MAX * 2, TURN_GAP_MAX),
            (AWAY, Duration::ZERO),
        ] {
            info.turns_within(told);
            assert_eq!(info.turn_gap(), known);
        }
        assert!(info.tail.is_empty(), "what is borne of everybody is not told");
        for (micros, known) in [(60_000_000, TURN_GAP_MAX), (60_000_001, TURN_GAP_MAX), (u64::MAX, TURN_GAP_MAX)] {
            info.tail.put_number(TURN_GAP, micros);
            assert_eq!(info.turn_gap(), known);
        }
        info.tail.put(TURN_GAP, &[1, 1]);
        assert_eq!(info.turn_gap(), Duration::ZERO, "no number");
    }
}
