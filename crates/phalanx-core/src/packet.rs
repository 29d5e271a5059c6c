//! Received packets as drivers hand them over, whole or header first.

use std::fmt;
use std::ops::{Deref, DerefMut};

use crate::id::Incarnation;
use crate::wire::Header;

/// A received packet.
#[derive(Debug)]
pub enum Packet<'a> {
    /// The caller reuses the buffer: what is kept must be copied.
    Lent(&'a mut [u8]),
    /// The packet is this many bytes at the beginning of the buffer. The buffer may be taken if another is left in its
    /// place, of any length and contents.
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

/// A packet in clear, before it is sealed or after it was opened, as a tap sees it (`docs/tap.md`).
#[derive(Clone, Copy, Debug)]
pub struct ClearPacket<'a> {
    /// The incarnation that it is sealed for; [`Incarnation::NONE`] for nobody in particular.
    pub to: Incarnation,
    /// Its header.
    pub header: Header,
    /// Its frames, or as many of their bytes as are here.
    pub frames: &'a [u8],
    /// Length of all its frames, in bytes.
    pub frames_bytes: usize,
}

/// A packet that arrived in whole or in part.
#[derive(Debug)]
pub enum Arriving<'a> {
    /// All of it is here.
    Whole(Packet<'a>),
    /// Its beginning is here.
    HeaderFirst(PartialPacket<'a>),
}

/// A long packet whose beginning is here. The rest stays where it arrived until a reader knows its destination, so that
/// it is copied once.
pub struct PartialPacket<'a> {
    /// Its first bytes: the header, and all that frames hold before a message's payload.
    pub head: &'a mut [u8],
    /// Length of the whole packet, in bytes.
    pub len: usize,
    /// What follows the head. A reader need not take it.
    pub rest: &'a mut dyn RemainingPayload,
}

impl PartialPacket<'_> {
    /// Copies the whole packet to the beginning of `room`, which grows if necessary. `None` if the rest is lost.
    pub fn complete(self, room: &mut Vec<u8>) -> Option<Packet<'_>> {
        let Self { head, len, rest } = self;
        // Never shortened, so that a buffer that grew once is not filled with zeros for each packet.
        if room.len() < len {
            room.resize(len, 0);
        }
        let (begin, beyond) = room[..len].split_at_mut(head.len());
        begin.copy_from_slice(head);
        rest.take(beyond, &mut []).then_some(Packet::Given(room, len))
    }
}

/// The remainder of a packet, where it arrived.
pub trait RemainingPayload {
    /// Copies the remainder, once: first into `place`, then into `tail`. Together they have its length. False if it is
    /// no longer there: the packet is lost, and the contents of both are undefined.
    fn take(&mut self, place: &mut [u8], tail: &mut [u8]) -> bool;
}

impl fmt::Debug for PartialPacket<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PartialPacket").field("head", &self.head).field("len", &self.len).finish_non_exhaustive()
    }
}
