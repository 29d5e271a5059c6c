//! The transmit path of a fragment: through shared memory, unbuffered, or in a batch.

use std::net::SocketAddr;

use super::CallEffects;
use crate::id::{Incarnation, TrafficClass};
use crate::seal::{Sealer, associated};
use crate::wire::Header;

/// The way that a packet took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TransmitPath {
    Memory,
    Network,
}

/// Seals a packet for `dest` and sends it. `packet` is its beginning, from the header on, and `piece` its end. The
/// content of `packet` is unspecified afterwards.
pub(super) fn transmit_message(
    sealer: &mut Sealer,
    dest: Incarnation,
    to: SocketAddr,
    packet: &mut Vec<u8>,
    piece: &[u8],
    fx: &mut impl CallEffects,
) -> TransmitPath {
    if let Some((header, frames)) = packet.split_first_chunk::<{ Header::LEN }>()
        && fx.write_shared(TrafficClass::Data, &[to], [&associated(header, dest), frames, piece]) > 0
    {
        return TransmitPath::Memory;
    }
    if piece.len() < UNBUFFERED_BYTES {
        packet.extend_from_slice(piece);
        sealer.seal(dest, packet);
    } else if let Some(tag) = sealer.seal_parts(dest, packet, piece) {
        if fx.send_unbuffered(TrafficClass::Data, to, [packet, piece, &tag]) {
            return TransmitPath::Network;
        }
        packet.extend_from_slice(piece);
        packet.extend_from_slice(&tag);
    } else if fx.send_unbuffered(TrafficClass::Data, to, [packet, &[], &[]]) {
        return TransmitPath::Network;
    }
    fx.transmit(TrafficClass::Data, &[to], packet);
    TransmitPath::Network
}

/// Pieces of at least this length bypass the queue of packets. In it they would be copied once more, for the little
/// that short packets save by going together.
const UNBUFFERED_BYTES: usize = 4 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::{CallId, ClientCallId, HandlerResult, Outcome};
    use crate::seal::{CellKey, Security};
    use crate::wire::{Kind, PacketNumber, Space};

    /// A driver: how many read its memory, whether it takes packets in parts, and what it got in each way.
    #[derive(Default)]
    struct Driver {
        readers: usize,
        takes: bool,
        shared: usize,
        passed: Vec<Vec<u8>>,
        queued: Vec<Vec<u8>>,
    }

    impl CallEffects for Driver {
        fn write_shared(&mut self, _lane: TrafficClass, _to: &[SocketAddr], _parts: [&[u8]; 3]) -> usize {
            self.shared += self.readers;
            self.readers
        }

        fn send_unbuffered(&mut self, _lane: TrafficClass, _to: SocketAddr, parts: [&[u8]; 3]) -> bool {
            if self.takes {
                self.passed.push(parts.concat());
            }
            self.takes
        }

        fn transmit(&mut self, _lane: TrafficClass, _to: &[SocketAddr], packet: &[u8]) {
            self.queued.push(packet.to_vec());
        }

        fn request(&mut self, _: CallId, _: Incarnation, _: &[u8], _: &mut Vec<u8>) -> HandlerResult {
            HandlerResult::Refused
        }

        fn outcome(&mut self, _: ClientCallId, _: Outcome<'_>) {}
    }

    fn leaves(security: &Security, piece_len: usize, mut driver: Driver) -> (TransmitPath, Driver) {
        let mut sealer = Sealer::new(security, "test", Incarnation(1));
        let mut packet = Vec::new();
        sealer.header(Kind::Session, Space(0), PacketNumber(1)).write(&mut packet);
        packet.extend_from_slice(b"frames");
        let to = SocketAddr::from(([127, 0, 0, 1], 1));
        let way = transmit_message(&mut sealer, Incarnation(2), to, &mut packet, &vec![7; piece_len], &mut driver);
        (way, driver)
    }

    /// Each packet takes one way. Only long ones bypass the queue, in which short ones go together. What the driver
    /// does not take in parts goes into the queue as the same packet.
    #[test]
    fn a_packet_leaves_once_and_a_short_one_with_others() {
        for security in [Security::None, Security::Sealed(CellKey::from_bytes([3; 32]))] {
            for len in [0, 100, UNBUFFERED_BYTES - 1, UNBUFFERED_BYTES, 3 * UNBUFFERED_BYTES] {
                let (way, shared) = leaves(&security, len, Driver { readers: 1, takes: true, ..Driver::default() });
                assert_eq!(
                    (way, shared.shared, shared.passed.len(), shared.queued.len()),
                    (TransmitPath::Memory, 1, 0, 0)
                );
                let (way, queued) = leaves(&security, len, Driver::default());
                assert_eq!(
                    (way, queued.passed.len(), queued.queued.len()),
                    (TransmitPath::Network, 0, 1),
                    "{len} bytes"
                );
                let (way, passed) = leaves(&security, len, Driver { takes: true, ..Driver::default() });
                let (long, short) = if len >= UNBUFFERED_BYTES { (1, 0) } else { (0, 1) };
                assert_eq!(
                    (way, passed.passed.len(), passed.queued.len()),
                    (TransmitPath::Network, long, short),
                    "{len} bytes"
                );
                assert!([passed.passed, passed.queued].concat() == queued.queued, "the same packet of {len} bytes");
            }
        }
    }
}
