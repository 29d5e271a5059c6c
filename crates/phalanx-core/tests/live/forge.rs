//! Packets that no correct process makes, sealed with the key of a process in the cell.

use std::collections::BTreeMap;

use phalanx_core::seal::{CellKey, Opener, Sealer, Security};
use phalanx_core::wire::codec::put_varint;
use phalanx_core::wire::{Header, Kind, PacketNumber, Space, cell_tag};
use phalanx_core::{Incarnation, Instant, TrafficClass};

use super::cell::Flying;
use super::member::{CELL, security};
use super::steps::Edit;

/// Upper bound on the frames in a packet.
const FRAMES_MAX: usize = 1432 - Header::LEN - 16;
/// Flags of a message of a channel in one piece: first and last fragment.
const WHOLE: u8 = 3;

/// Knows the cell key and what everybody sends, because all can read the headers of packets.
pub(super) struct Forger {
    security: Security,
    /// The latest space and number of each kind of packet, by sender and receiver.
    latest: BTreeMap<(usize, usize, u8), (Space, PacketNumber)>,
}

impl Forger {
    pub(super) fn new(sealed: bool) -> Self {
        Self { security: security(sealed), latest: BTreeMap::new() }
    }

    /// Notes a sent packet.
    pub(super) fn saw(&mut self, from: usize, to: usize, packet: &[u8]) {
        if let Ok(header) = Header::parse(packet) {
            let latest = self.latest.entry((from, to, header.kind as u8)).or_default();
            *latest =
                (header.space, header.number.max(if header.space == latest.0 { latest.1 } else { PacketNumber(0) }));
        }
    }

    /// Changes the content of a packet, as if its sender had written that. Returns false if it is not one for `dest`.
    pub(super) fn twist(&self, packet: &mut Flying, dest: Incarnation, edits: &[Edit]) -> bool {
        let mut opener = Opener::new(&self.security, CELL, dest);
        let mut bytes = packet.bytes.clone();
        let Ok((header, frames)) = opener.open(&mut bytes) else { return false };
        let mut frames = frames.to_vec();
        for edit in edits {
            let at = usize::from(edit.at) % (frames.len() + 1);
            match (edit.how % 5, frames.get_mut(at)) {
                (0, Some(byte)) => *byte = edit.value,
                (1, Some(byte)) => *byte = byte.wrapping_add(edit.value),
                (2, Some(_)) => drop(frames.remove(at)),
                (3, _) => frames.insert(at, edit.value),
                _ => frames.truncate(at),
            }
        }
        packet.bytes = self.seal(header, dest, &frames);
        true
    }

    /// Packets of the process `from` with `frames` in them. `space` and `number` lie near those in use, or anywhere.
    pub(super) fn forge(
        &mut self,
        from: (usize, Incarnation),
        to: (usize, Incarnation),
        kind: u8,
        (space, number): (u8, u8),
        times: u8,
        frames: &[u8],
    ) -> Vec<Flying> {
        let class = if kind & 0x80 == 0 { TrafficClass::Control } else { TrafficClass::Data };
        let kind = Kind::ALL[usize::from(kind) % Kind::ALL.len()];
        let latest = self.latest.entry((from.0, to.0, kind as u8)).or_default();
        let in_use = *latest;
        let space = match space {
            0..128 => in_use.0,
            128..192 => Space(u32::from(space - 128)),
            _ => Space(u32::MAX - u32::from(space - 192)),
        };
        let base = if space == in_use.0 { in_use.1.0 } else { 0 };
        let first = match number {
            0..192 => base.saturating_add(1 + u64::from(number)),
            192..224 => base.saturating_sub(u64::from(number - 192)),
            _ => base.saturating_add(1 << (number - 192)),
        };
        let numbers = (0..=u64::from(times % 32)).map(|i| PacketNumber(first.saturating_add(i)));
        if number < 192 {
            *latest = (space, PacketNumber(first.saturating_add(u64::from(times % 32))));
        }
        numbers.map(|number| self.packet(from, to, class, kind, (space, number), frames)).collect()
    }

    /// The next message of the control or data channel from `from` to `to`, in as many packets as it needs.
    pub(super) fn speak(
        &mut self,
        from: (usize, Incarnation),
        to: (usize, Incarnation),
        data: bool,
        message: &[u8],
    ) -> Vec<Flying> {
        let (kind, class) =
            if data { (Kind::Data, TrafficClass::Data) } else { (Kind::Control, TrafficClass::Control) };
        let message = &message[..message.len().min(FRAMES_MAX - 8)];
        let mut frames = vec![WHOLE];
        put_varint(&mut frames, message.len() as u64);
        put_varint(&mut frames, message.len() as u64);
        frames.extend_from_slice(message);
        let latest = self.latest.entry((from.0, to.0, kind as u8)).or_default();
        latest.1 = PacketNumber(latest.1.0.saturating_add(1));
        let place = *latest;
        vec![self.packet(from, to, class, kind, place, &frames)]
    }

    /// A packet of `stranger`, which does not hold the cell key: in clear, or sealed with a key of its own.
    pub(super) fn intrude(stranger: Incarnation, to: Incarnation, kind: u8, seals: bool, frames: &[u8]) -> Vec<u8> {
        let foreign = Self { security: Security::Sealed(CellKey::from_bytes([4; 32])), latest: BTreeMap::new() };
        let kind = Kind::ALL[usize::from(kind) % Kind::ALL.len()];
        let header = Header {
            kind,
            cell_tag: cell_tag(CELL),
            sender: stranger,
            space: Space(u32::MAX),
            number: PacketNumber(stranger.0),
        };
        let mut packet = foreign.seal(header, to, frames);
        if !seals {
            packet.truncate(packet.len() - foreign.security.tag_len());
        }
        packet
    }

    fn packet(
        &self,
        from: (usize, Incarnation),
        to: (usize, Incarnation),
        class: TrafficClass,
        kind: Kind,
        (space, number): (Space, PacketNumber),
        frames: &[u8],
    ) -> Flying {
        let header = Header { kind, cell_tag: cell_tag(CELL), sender: from.1, space, number };
        let bytes = self.seal(header, to.1, frames);
        Flying { due: Instant(0), class, from: from.0, to: to.0, bytes }
    }

    /// Uses a new sealer for each packet, because this process uses nonces twice.
    fn seal(&self, header: Header, dest: Incarnation, frames: &[u8]) -> Vec<u8> {
        let mut packet = Vec::new();
        header.write(&mut packet);
        packet.extend_from_slice(&frames[..frames.len().min(FRAMES_MAX)]);
        let dest = if header.kind.is_addressed() { dest } else { Incarnation::NONE };
        Sealer::new(&self.security, CELL, header.sender).seal(dest, &mut packet);
        packet
    }
}
