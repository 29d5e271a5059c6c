//! Room for what one receiving call brings, handed on datagram by datagram.

use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

use super::mmsg::{self, Arrived};

/// Buffers for one batch, used again and again. What was received and not yet handed on stays in them.
#[derive(Debug)]
pub(super) struct Slots {
    bytes: Vec<u8>,
    stride: usize,
    slot_bytes: usize,
    arrived: Vec<Arrived>,
    /// Buffers set up for the next call: each costs some nanoseconds, and one that finds nothing many.
    slots: usize,
    /// The next to hand on: a buffer, and a place in it.
    at: usize,
    offset: usize,
}

/// What a call brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Filled {
    /// All that waited.
    All,
    /// The only buffer set up, after a call that found nothing: more may wait.
    First,
    /// More may wait.
    Some,
}

/// One datagram, in place.
pub(super) struct Datagram<'a> {
    /// `None`: it came from no IP address.
    pub(super) from: Option<SocketAddr>,
    pub(super) bytes: &'a mut [u8],
    /// It was longer than the buffer.
    pub(super) truncated: bool,
}

impl Slots {
    /// For packets of at most `packet_bytes`; `coalesced`: several may come in one buffer.
    pub(super) fn new(packet_bytes: usize, coalesced: bool) -> Self {
        let (slot_bytes, count) =
            if coalesced { (COALESCED_BYTES_MAX, COALESCED_SLOTS) } else { (packet_bytes.max(1), SLOTS) };
        let stride = slot_bytes + if coalesced { SKEW_BYTES } else { 0 };
        Self {
            // Zeroed pages come from the system untouched: only what traffic fills becomes resident.
            bytes: vec![0; stride * count],
            stride,
            slot_bytes,
            arrived: Vec::with_capacity(count),
            slots: 1,
            at: 0,
            offset: 0,
        }
    }

    /// Everything received was handed on.
    pub(super) fn is_empty(&self) -> bool {
        self.at >= self.arrived.len()
    }

    /// Takes what waits, as far as the buffers go. `WouldBlock` when nothing waits. What was received before must have
    /// been handed on. Only one buffer is set up after a call that found nothing.
    pub(super) fn fill(&mut self, socket: BorrowedFd<'_>) -> io::Result<Filled> {
        debug_assert!(self.is_empty(), "nothing received is overwritten");
        (self.at, self.offset) = (0, 0);
        let slots = self.slots;
        let room = &mut self.bytes[..slots * self.stride];
        // What was received stays empty on an error.
        let outcome = mmsg::receive(socket, room, self.stride, self.slot_bytes, &mut self.arrived);
        if outcome.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
            self.slots = 1;
        }
        outcome?;
        if self.arrived.len() < slots {
            return Ok(Filled::All);
        }
        self.slots = (slots * GROWTH).min(self.bytes.len() / self.stride);
        Ok(if slots == 1 { Filled::First } else { Filled::Some })
    }

    /// What the last call brought, buffer by buffer.
    pub(super) fn arrived(&self) -> &[Arrived] {
        &self.arrived
    }

    /// The next datagram.
    pub(super) fn next(&mut self) -> Option<Datagram<'_>> {
        let arrived = self.arrived.get(self.at)?;
        let left = arrived.len_bytes - self.offset;
        let len_bytes = arrived.segment.map_or(left, |segment| segment.min(left));
        let start = self.at * self.stride + self.offset;
        if len_bytes < left {
            self.offset += len_bytes;
        } else {
            (self.at, self.offset) = (self.at + 1, 0);
        }
        let bytes = &mut self.bytes[start..start + len_bytes];
        Some(Datagram { from: arrived.from, bytes, truncated: arrived.truncated })
    }
}

/// Buffers of one packet each.
const SLOTS: usize = mmsg::RECEIVE_MAX;
/// Buffers grow so in number while all of them are filled.
const GROWTH: usize = 2;

const _: () = assert!(COALESCED_SLOTS <= SLOTS);

/// Buffers that hold several packets.
const COALESCED_SLOTS: usize = 8;

/// The most the kernel puts into one buffer.
const COALESCED_BYTES_MAX: usize = 65_535;

/// Keeps the beginnings of buffers out of one another's place in the cache: most hold one small packet.
const SKEW_BYTES: usize = 577;
