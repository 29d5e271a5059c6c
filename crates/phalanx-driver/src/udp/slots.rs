//! Buffers for one receiving system call, and the datagrams in them.

use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

use super::mmsg::{self, Arrived};

/// Reusable buffers for one batch. A received datagram stays in them until it is handed up.
#[derive(Debug)]
pub(super) struct Slots {
    bytes: Vec<u8>,
    stride: usize,
    slot_bytes: usize,
    arrived: Vec<Arrived>,
    /// Buffers set up for the next call. Each costs some nanoseconds, so a call that may find nothing should set up
    /// few.
    slots: usize,
    /// The next datagram to hand up: its buffer, and its offset in it.
    at: usize,
    offset: usize,
}

/// The outcome of a call that received something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Filled {
    /// Everything that waited.
    All,
    /// The one buffer that is set up after a call that found nothing: more may wait.
    First,
    /// More may wait.
    Some,
}

/// One datagram, in its buffer.
pub(super) struct Datagram<'a> {
    /// `None`: the sender has no IP address.
    pub(super) from: Option<SocketAddr>,
    pub(super) bytes: &'a mut [u8],
    /// It was longer than the buffer.
    pub(super) truncated: bool,
}

impl Slots {
    /// Buffers for packets of at most `packet_bytes`. `coalesced`: one buffer may receive several.
    pub(super) fn new(packet_bytes: usize, coalesced: bool) -> Self {
        let (slot_bytes, count) =
            if coalesced { (COALESCED_BYTES_MAX, COALESCED_SLOTS) } else { (packet_bytes.max(1), SLOTS) };
        let stride = slot_bytes + if coalesced { SKEW_BYTES } else { 0 };
        Self {
            // The allocator gets zeroed pages from the system, so only those that traffic fills become resident.
            bytes: vec![0; stride * count],
            stride,
            slot_bytes,
            arrived: Vec::with_capacity(count),
            slots: 1,
            at: 0,
            offset: 0,
        }
    }

    /// Whether every received datagram was handed up.
    pub(super) fn is_empty(&self) -> bool {
        self.at >= self.arrived.len()
    }

    /// Receives as many waiting datagrams as the buffers hold. Every earlier datagram must have been handed up. After a
    /// call that found nothing, only one buffer is set up.
    ///
    /// # Errors
    /// `WouldBlock` if nothing waits. On any error no datagram is held.
    pub(super) fn fill(&mut self, socket: BorrowedFd<'_>) -> io::Result<Filled> {
        debug_assert!(self.is_empty(), "nothing received is overwritten");
        (self.at, self.offset) = (0, 0);
        let slots = self.slots;
        let room = &mut self.bytes[..slots * self.stride];
        // `arrived` is cleared first, so it is empty after an error.
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

    /// The filled buffers of the last call.
    pub(super) fn arrived(&self) -> &[Arrived] {
        &self.arrived
    }

    /// Hands up the next datagram.
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
/// The factor by which the number of buffers grows while all are filled.
const GROWTH: usize = 2;

const _: () = assert!(COALESCED_SLOTS <= SLOTS);

/// Buffers that hold several packets each.
const COALESCED_SLOTS: usize = 8;

/// The most that the kernel coalesces into one buffer: the longest IP datagram.
const COALESCED_BYTES_MAX: usize = 65_535;

/// Offsets the starts of buffers from each other by a length that is no multiple of a cache line. Most buffers hold one
/// small packet, and aligned starts would compete for the same cache sets.
const SKEW_BYTES: usize = 577;
