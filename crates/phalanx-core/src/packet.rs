//! Received packets as drivers hand them over, whole or header first.

use std::fmt;
use std::ops::{Deref, DerefMut};

/// A packet that came in.
#[derive(Debug)]
pub enum Packet<'a> {
    /// Its owner uses the place again.
    Lent(&'a mut [u8]),
    /// So many bytes at the beginning of a buffer that may be kept, if another is left in its place: of any length, and
    /// whatever is in it.
    Given(&'a mut Vec<u8>, usize),
}

impl Deref for Packet<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Self::Lent(bytes) => bytes,
            Self::Given(buffer, len) => &buffer[..*len],
        }
    }
}

impl DerefMut for Packet<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Lent(bytes) => bytes,
            Self::Given(buffer, len) => &mut buffer[..*len],
        }
    }
}

/// A packet that is there, or begins to be.
#[derive(Debug)]
pub enum Arriving<'a> {
    /// All of it is here.
    Whole(Packet<'a>),
    /// Its beginning is here.
    HeaderFirst(PartialPacket<'a>),
}

/// A long packet whose beginning is here. The rest lies where it came, until whoever knows where it belongs has it copied there: nothing
/// is copied twice.
pub struct PartialPacket<'a> {
    /// Its first bytes: a header, and more than what frames say before the bytes of a message.
    pub head: &'a mut [u8],
    /// How long all of it is, in bytes.
    pub len: usize,
    /// What follows the head. It need not be taken.
    pub rest: &'a mut dyn RemainingPayload,
}

impl PartialPacket<'_> {
    /// All of it, put together at the beginning of `room`, which grows if need be. `None`: it is lost.
    pub fn complete(self, room: &mut Vec<u8>) -> Option<Packet<'_>> {
        let Self { head, len, rest } = self;
        if room.len() < len {
            room.resize(len, 0);
        }
        let (begin, beyond) = room[..len].split_at_mut(head.len());
        begin.copy_from_slice(head);
        rest.take(beyond, &mut []).then_some(Packet::Given(room, len))
    }
}

/// The rest of a packet, where it came.
pub trait RemainingPayload {
    /// Copies it, once: to `place`, and what that has no room for to `tail`; together they are as long as the rest. False: it is
    /// no longer there, the packet is lost, and what stands in both means nothing.
    fn take(&mut self, place: &mut [u8], tail: &mut [u8]) -> bool;
}

impl fmt::Debug for PartialPacket<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PartialPacket").field("head", &self.head).field("len", &self.len).finish_non_exhaustive()
    }
}
