//! What names a packet beside its sender: its packet-number space, its number there, and the session of
//! calls that it belongs to.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::id::Incarnation;

/// A packet-number space of one sender. An incarnation never reuses one. Each stream, channel and kind of best-effort
/// packet has its own; for sessions of calls see [`SessionIndex::space`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Space(pub u32);

impl Space {
    /// The space that is assigned after this one.
    #[must_use]
    #[inline]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The number of a packet in its space, never used for other bytes. Streams and channels count from 1, so that a prefix
/// of a stream (a plain `u64`) is both its number of packets and the number of its last one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PacketNumber(pub u64);

impl PacketNumber {
    /// The prefix of the stream that ends before this packet. The number must not be 0.
    #[must_use]
    #[inline]
    pub const fn prefix_before(self) -> u64 {
        self.0 - 1
    }
}

impl fmt::Display for PacketNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The index of a session of calls in the table of one of its two endpoints. Each end has its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SessionIndex(pub u32);

impl SessionIndex {
    /// No session. No table reaches this index.
    pub const NONE: Self = Self(u32::MAX);

    /// The index into the table of sessions.
    #[must_use]
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The space of the session's packets to the endpoint that this index belongs to.
    #[must_use]
    #[inline]
    pub const fn space(self) -> Space {
        Space(self.0)
    }

    /// The session that a packet in `space` is for.
    #[must_use]
    #[inline]
    pub const fn of(space: Space) -> Self {
        Self(space.0)
    }
}

impl fmt::Display for SessionIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Random bits that the two ends of a session of calls share; never zero. The session's packets are sealed for them, as
/// others are for an incarnation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionSecret(pub u64);

impl SessionSecret {
    /// The secret in the place of a packet's destination.
    #[must_use]
    #[inline]
    pub const fn destination(self) -> Incarnation {
        Incarnation(self.0)
    }
}
