//! Identifiers of processes, groups, views and what is numbered in them.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::time::TURN_GAP_MAX;
use crate::wire::Tags;

/// The level of this build: which features it knows (`docs/levels.md`).
pub const LEVEL: u16 = 10;

/// The longest name of a cell, a process or a group, in bytes.
pub const NAME_BYTES_MAX: usize = 200;

/// A name is empty, or longer than [`NAME_BYTES_MAX`]. All errors about a name's length use this text.
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

/// Whether a received name is within [`NAME_BYTES_MAX`]. It may be empty: where that matters, the reader of the message
/// checks it.
pub(crate) const fn fits_name(name: &str) -> bool {
    name.len() <= NAME_BYTES_MAX
}

/// An incarnation of a process: random 64 bits, new at every start, never zero. Identifies a process in a cell.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Incarnation(pub u64);

impl Incarnation {
    /// No process in particular: the destination of a multicast packet.
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

/// An instance of a cell, drawn when the cell is founded, and carried in every packet. The upper 16 bits are its
/// generation, the rest is random. Of two instances of a cell, the later has the larger number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CellInstance(pub u64);

impl CellInstance {
    /// No instance: the process is in none, or its build does not report one.
    pub const NONE: Self = Self(0);

    /// A new instance of a generation, from 64 random bits.
    #[must_use]
    pub const fn fresh(generation: u16, random: u64) -> Self {
        // The lowest bit is set, so that no instance equals `NONE`.
        Self((generation as u64) << 48 | random >> 16 | 1)
    }

    /// Its generation: 1 for a founded cell, and one more each time the cell is founded again by command.
    #[must_use]
    pub const fn generation(self) -> u16 {
        (self.0 >> 48) as u16
    }

    /// The generation of an instance that is founded by command after this one.
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

/// The most members of a view: as many as a [`Rank`] can count.
pub const MEMBERS_MAX: usize = 1 << 16;

/// A member's index in one view, 0 the oldest; meaningless without the view.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
#[repr(transparent)]
pub struct Rank(pub u16);

impl Rank {
    /// The oldest member. Of two halves of a view, the half with this rank is a quorum.
    pub const FIRST: Self = Self(0);

    /// The index into a list with one entry for each member of the view.
    #[inline]
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The rank of the member at `index` of a view's members, of which there are at most [`MEMBERS_MAX`].
    #[inline]
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "a list of more members is no view")]
    pub const fn from_index(index: usize) -> Self {
        debug_assert!(index < MEMBERS_MAX);
        Self(index as u16)
    }

    /// All ranks of a view of `members`, ascending.
    pub fn all(members: usize) -> impl DoubleEndedIterator<Item = Self> + ExactSizeIterator + Clone {
        (0..members).map(Self::from_index)
    }

    /// Pairs each entry of a list by rank with its rank.
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

/// The number of a decree. A cell counts its decrees from 1, without a gap, in the order in which they are installed.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
#[repr(transparent)]
pub struct DecreeNumber(pub u64);

impl DecreeNumber {
    /// Before the first decree: the process has installed none.
    pub const NONE: Self = Self(0);
    /// The decree that founds a cell.
    pub const FIRST: Self = Self(1);

    /// The decree after this one.
    #[must_use]
    #[inline]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// The decree after this one, or `None` if a hostile peer's number has none.
    #[must_use]
    #[inline]
    pub fn checked_next(self) -> Option<Self> {
        self.0.checked_add(1).map(Self)
    }

    /// The decree before this one, which must not be [`Self::NONE`].
    #[must_use]
    #[inline]
    pub const fn previous(self) -> Self {
        Self(self.0 - 1)
    }
}

impl fmt::Debug for DecreeNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for DecreeNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// The number of a view of a cell or of a group. Each counts its views from 1; a number is never used twice for other
/// members.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
#[repr(transparent)]
pub struct ViewNumber(pub u64);

impl ViewNumber {
    /// Before the first view: the process has installed none.
    pub const NONE: Self = Self(0);
    /// The first view of a cell or of a group.
    pub const FIRST: Self = Self(1);

    /// The view after this one.
    #[must_use]
    #[inline]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// The view that is `views` later, or `None` if a hostile peer's number has none.
    #[must_use]
    #[inline]
    pub fn checked_add(self, views: u64) -> Option<Self> {
        self.0.checked_add(views).map(Self)
    }
}

impl fmt::Debug for ViewNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for ViewNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// The number of a message among those that its sender multicasts in one view of a group, from 1. A plain `u64` counts
/// messages: it is also the number of the last of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
#[repr(transparent)]
pub struct Sequence(pub u64);

impl Sequence {
    /// Before the first message of a view.
    pub const NONE: Self = Self(0);
    /// The first message of a view.
    pub const FIRST: Self = Self(1);

    /// The number of the sender's next message.
    #[inline]
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A group of a cell. The cell numbers it when it is made; a cell instance reuses no number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct GroupId(pub u32);

/// A queue of the application. A group whose application takes its items slowly delays those of other inboxes no more
/// than if it were alone; see [`Process::set_inbox`](crate::process::Process::set_inbox).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InboxId(pub u32);

impl InboxId {
    /// The inbox of the process itself, and of all groups that have none of their own.
    pub const MAIN: Self = Self(0);
}

/// The record of a process in its cell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberInfo {
    /// This incarnation.
    pub incarnation: Incarnation,
    /// The process's name, unique among the members of a view. It survives restarts.
    pub name: String,
    /// The address of its data socket.
    pub data: SocketAddr,
    /// The address of its control socket (heartbeats, wedge, decisions).
    pub control: SocketAddr,
    /// Its machine: equal for members that share an operating system. 0 if unknown.
    pub host: u64,
    /// The longest packet that it can receive, in bytes.
    pub packet_bytes_max: u32,
    /// How many such packets its receive buffer holds, from all senders together. 0 if unknown or unbounded. Senders
    /// derive a group's window from it (`docs/ARCHITECTURE.md`, *Bounds*).
    pub receive_packets: u32,
    /// The highest level that its build knows.
    pub level: u16,
    /// Entries that later builds add. Tag 1: its own values of the settings for which it may be refused. Tags 2 and 3:
    /// its seat, and the earlier incarnations whose state it kept (`docs/orphans.md`). Tag 4: see [`Self::turn_gap`].
    pub tail: Tags,
}

impl MemberInfo {
    /// The record of a process of this build on an unknown machine, with packets of at most 1,432 bytes.
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

    /// Declares the longest gap between two of its polls (see [`Timing::turn_gap_max`](crate::Timing::turn_gap_max)). A
    /// gap that every process is granted is not declared.
    pub fn turns_within(&mut self, gap: Duration) {
        if gap <= AWAY {
            return self.tail.remove(TURN_GAP);
        }
        let micros = gap.min(TURN_GAP_MAX).as_micros();
        self.tail.put_number(TURN_GAP, u64::try_from(micros).unwrap_or(u64::MAX));
    }

    /// The declared gap: how much longer than others it may be silent. At most [`TURN_GAP_MAX`], whatever it declared,
    /// so that no member can keep its own failure from being found. Zero if it declared nothing, or no number.
    #[must_use]
    pub fn turn_gap(&self) -> Duration {
        let micros = self.tail.number(TURN_GAP).ok().flatten().unwrap_or(0);
        Duration::from_micros(micros).min(TURN_GAP_MAX)
    }
}

/// Tag in a member record: the longest gap between two polls, in microseconds.
const TURN_GAP: u64 = 4;
/// A poll that is late by this much means that its process was away (stopped, starved). It then suspects nobody for
/// that time, and the others tolerate its silence.
pub(crate) const AWAY: Duration = Duration::from_millis(50);

/// The way a packet came here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Over the network from this address, sealed.
    Network(SocketAddr),
    /// Through memory shared with a process of the same user on this host, in clear. The destination's incarnation
    /// follows the header; there is no tag.
    Memory,
}

impl Origin {
    /// The address from which it came, if it came over the network.
    #[must_use]
    pub fn address(self) -> Option<SocketAddr> {
        match self {
            Self::Network(from) => Some(from),
            Self::Memory => None,
        }
    }
}

/// One of a process's two sockets. Control has its own, so that data never delays it.
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
        assert!(info.tail.is_empty(), "a gap that every process is granted is not declared");
        for (micros, known) in [(60_000_000, TURN_GAP_MAX), (60_000_001, TURN_GAP_MAX), (u64::MAX, TURN_GAP_MAX)] {
            info.tail.put_number(TURN_GAP, micros);
            assert_eq!(info.turn_gap(), known);
        }
        info.tail.put(TURN_GAP, &[1, 1]);
        assert_eq!(info.turn_gap(), Duration::ZERO, "no number");
    }
}
