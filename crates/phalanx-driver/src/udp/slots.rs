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
    /// The next to hand on: a buffer, and a place in it.
    at: usize,
    offset: usize,
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
            at: 0,
            offset: 0,
        }
    }

    /// Everything received was handed on.
    pub(super) fn is_empty(&self) -> bool {
        self.at >= self.arrived.len()
    }

    /// Takes what waits, as far as the buffers go. `WouldBlock` when nothing waits. False: it took all. What was
    /// received before must have been handed on. `quiet`: little or nothing is expected, and fewer buffers are set up.
    pub(super) fn fill(&mut self, socket: BorrowedFd<'_>, quiet: bool) -> io::Result<bool> {
        debug_assert!(self.is_empty(), "nothing received is overwritten");
        (self.at, self.offset) = (0, 0);
        // What was received stays empty on an error.
        let room = if quiet { &mut self.bytes[..QUIET_SLOTS * self.stride] } else { &mut self.bytes[..] };
        let room_bytes = room.len();
        mmsg::receive(socket, room, self.stride, self.slot_bytes, &mut self.arrived)?;
        Ok(self.arrived.len() * self.stride == room_bytes)
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
/// Buffers set up while nothing comes: each costs some nanoseconds of every look.
const QUIET_SLOTS: usize = 2;

const _: () = assert!(QUIET_SLOTS <= COALESCED_SLOTS && COALESCED_SLOTS <= SLOTS);

/// Buffers that hold several packets.
const COALESCED_SLOTS: usize = 8;

/// The most the kernel puts into one buffer.
const COALESCED_BYTES_MAX: usize = 65_535;

/// Keeps the beginnings of buffers out of one another's place in the cache: most hold one small packet.
const SKEW_BYTES: usize = 577;
