//! What builds and sends the packets of a process, and numbers those that no stream or channel numbers.

use std::net::SocketAddr;

use super::counters::ProcessCounters;
use crate::api::Effects;
use crate::id::{Incarnation, TrafficClass};
use crate::seal::{Sealer, Security, associated};
use crate::wire::{Header, Kind, PacketNumber, Space, cell_tag};

/// Packet spaces of this process that no view agrees on. Agreed spaces count up from 1, and those of channels count
/// down from [`CHANNEL_SPACES`]. They never meet within an incarnation. A collision would use one nonce twice.
const HANDSHAKE_SPACE: Space = Space(u32::MAX);
const DIRECT_SPACE: Space = Space(u32::MAX - 1);
const BEST_EFFORT_SPACE: Space = Space(u32::MAX - 2);
const CHANNEL_SPACES: Space = Space(u32::MAX - 16);

/// Identifies a packet of this process and its receiver.
#[derive(Clone, Copy, Debug)]
pub(super) struct Label {
    pub(super) kind: Kind,
    pub(super) space: Space,
    pub(super) number: PacketNumber,
    /// The only process that can open it, for kinds that are addressed.
    pub(super) dest: Incarnation,
    /// Whether it was sent before under this number, with the same frames.
    pub(super) is_retransmission: bool,
}

impl Label {
    /// A label for a packet to many receivers.
    pub(super) fn for_all(kind: Kind, space: Space, number: PacketNumber) -> Self {
        Self { kind, space, number, dest: Incarnation::NONE, is_retransmission: false }
    }

    /// The same label, for a retransmission.
    pub(super) fn retransmitted(self) -> Self {
        Self { is_retransmission: true, ..self }
    }
}

/// Builds and sends packets: in clear through shared memory, sealed elsewhere.
pub(super) struct PacketBuilder {
    sealer: Sealer,
    cell_tag: u32,
    me: Incarnation,
    next_channel_space: Space,
    handshake: PacketNumber,
    direct: PacketNumber,
    best_effort: PacketNumber,
    buffer: Vec<u8>,
}

impl PacketBuilder {
    pub(super) fn new(security: &Security, cell: &str, me: Incarnation) -> Self {
        Self {
            sealer: Sealer::new(security, cell, me),
            cell_tag: cell_tag(cell),
            me,
            next_channel_space: CHANNEL_SPACES,
            handshake: PacketNumber(0),
            direct: PacketNumber(0),
            best_effort: PacketNumber(0),
            buffer: Vec::with_capacity(65_536),
        }
    }

    /// A packet space for a channel that was never used before.
    pub(super) fn channel_space(&mut self) -> Space {
        self.next_channel_space.0 -= 1;
        self.next_channel_space
    }

    /// Sends a packet to each of `to`.
    pub(super) fn send(
        &mut self,
        label: Label,
        class: TrafficClass,
        to: &[SocketAddr],
        frames: &[u8],
        counters: &mut ProcessCounters,
        fx: &mut (impl Effects + ?Sized),
    ) {
        if to.is_empty() {
            return;
        }
        let Label { kind, space, number, dest, is_retransmission } = label;
        let header = Header { kind, cell_tag: self.cell_tag, sender: self.me, space, number }.to_bytes();
        let shared = fx.write_shared(class, to, &associated(&header, dest), frames);
        counters.packets_shared += shared as u64;
        let Some(rest @ 1..) = to.len().checked_sub(shared) else { return };
        counters.datagrams_sent += rest as u64;
        self.buffer.clear();
        self.buffer.extend_from_slice(&header);
        self.buffer.extend_from_slice(frames);
        // A number is sealed twice only for a retransmission, and then with the same frames: the same bytes come out,
        // and the nonce protects nothing new.
        if is_retransmission {
            self.sealer.seal_retransmission(dest, &mut self.buffer);
        } else {
            self.sealer.seal(dest, &mut self.buffer);
        }
        fx.transmit(class, to, &self.buffer);
    }

    /// The label of the next handshake packet.
    pub(super) fn handshake(&mut self) -> Label {
        self.handshake.0 += 1;
        Label::for_all(Kind::Handshake, HANDSHAKE_SPACE, self.handshake)
    }

    /// The label of the next direct packet to `dest`.
    pub(super) fn direct(&mut self, dest: Incarnation) -> Label {
        self.direct.0 += 1;
        Label { dest, ..Label::for_all(Kind::Direct, DIRECT_SPACE, self.direct) }
    }

    /// The label of the next best-effort multicast packet.
    pub(super) fn best_effort(&mut self) -> Label {
        self.best_effort.0 += 1;
        Label::for_all(Kind::BestEffortMulticast, BEST_EFFORT_SPACE, self.best_effort)
    }
}
