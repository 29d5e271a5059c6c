//! What builds the packets of all sessions of an endpoint: the sealer, the packet numbers not given out yet, buffers.

use std::net::SocketAddr;

use super::api::{CallEffects, EndpointOptions};
use super::buffer_pool::BufferPool;
use super::congestion::Pace;
use super::counters::Counters;
use super::wire::{HANDSHAKE_SPACE, OFFER_BYTES_MAX, SessionHandshake};
use crate::id::{Incarnation, TrafficClass};
use crate::packet::ClearPacket;
use crate::seal::{Sealer, Security};
use crate::wire::{Header, Kind, PacketNumber};

/// Builds and sends the packets of all sessions.
pub(super) struct SessionPackets {
    pub(super) sealer: Sealer,
    pub(super) tag_len: usize,
    /// Upper half of the next session's packet numbers. The greatest value is never used: it means that none is left.
    next_serial: u32,
    handshakes: u64,
    pub(super) packet: Vec<u8>,
    pub(super) counters: Counters,
    pub(super) buffer_pool: BufferPool,
    /// The longest packet that this side accepts, in bytes.
    pub(super) packet_bytes: u32,
    /// How this side can be reached beside the network.
    pub(super) offer: Vec<u8>,
    pub(super) pace: Pace,
}

impl SessionPackets {
    pub(super) fn new(security: &Security, options: &EndpointOptions, pace: Pace) -> Self {
        let EndpointOptions { cell, me, packet_bytes_max, offer, .. } = options;
        Self {
            sealer: Sealer::new(security, cell, *me),
            tag_len: security.tag_len(),
            next_serial: 1,
            handshakes: 0,
            packet: Vec::with_capacity(65_536),
            counters: Counters::default(),
            buffer_pool: BufferPool::default(),
            packet_bytes: *packet_bytes_max,
            offer: if offer.len() <= OFFER_BYTES_MAX { offer.clone() } else { Vec::new() },
            pace,
        }
    }

    /// Takes the upper half of packet numbers for a session, which no session had before.
    ///
    /// `None`: all are used up, and a nonce would repeat. Then this incarnation of the endpoint is over, except for
    /// sessions that have numbers.
    pub(super) fn take_serial(&mut self) -> Option<u32> {
        let serial = self.next_serial;
        self.next_serial = serial.checked_add(1)?;
        Some(serial)
    }

    /// Whether no further session can have packet numbers.
    pub(super) fn is_used_up(&self) -> bool {
        self.next_serial == u32::MAX
    }

    /// Leaves this many serials, for tests.
    #[cfg(test)]
    pub(super) fn use_up(&mut self, serials_left: u32) {
        self.next_serial = u32::MAX - serials_left;
    }

    /// Sends a handshake packet, for which no session is needed. `handshake` is given this side's offer.
    pub(super) fn send_handshake(
        &mut self,
        to: SocketAddr,
        handshake: impl for<'o> FnOnce(&'o [u8]) -> SessionHandshake<'o>,
        fx: &mut impl CallEffects,
    ) {
        self.handshakes += 1;
        self.packet.clear();
        let header = self.sealer.header(Kind::Open, HANDSHAKE_SPACE, PacketNumber(self.handshakes));
        header.write(&mut self.packet);
        handshake(&self.offer).write(&mut self.packet);
        let frames = &self.packet[Header::LEN..];
        let clear = ClearPacket { to: Incarnation::NONE, header, frames, frames_bytes: frames.len() };
        fx.sealing(TrafficClass::Data, to, clear);
        self.sealer.seal(Incarnation::NONE, &mut self.packet);
        self.counters.packets_sent += 1;
        fx.transmit(TrafficClass::Data, &[to], &self.packet);
    }
}
