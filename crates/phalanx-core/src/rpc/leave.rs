//! How a packet with a piece of a message leaves: through memory, past the queue, or with others.

use std::net::SocketAddr;

use super::CallEffects;
use crate::id::{Incarnation, Lane};
use crate::seal::{Sealer, associated};
use crate::wire::Header;

/// Where packets went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Memory,
    Network,
}

/// Seals for `dest` and hands out a packet of which `packet`, from its header, is the beginning, and `piece` the end. What is in
/// `packet` after that means nothing.
pub(super) fn leave(
    sealer: &mut Sealer,
    dest: Incarnation,
    to: SocketAddr,
    packet: &mut Vec<u8>,
    piece: &[u8],
    fx: &mut impl CallEffects,
) -> Way {
    if let Some((header, frames)) = packet.split_first_chunk::<{ Header::LEN }>()
        && fx.share(Lane::Data, &[to], [&associated(header, dest), frames, piece]) > 0
    {
        return Way::Memory;
    }
    if piece.len() < PASSING_BYTES {
        packet.extend_from_slice(piece);
        sealer.seal(dest, packet);
    } else if let Some(tag) = sealer.seal_parts(dest, packet, piece) {
        if fx.pass(Lane::Data, to, [packet, piece, &tag]) {
            return Way::Network;
        }
        packet.extend_from_slice(piece);
        packet.extend_from_slice(&tag);
    } else if fx.pass(Lane::Data, to, [packet, &[], &[]]) {
        return Way::Network;
    }
    fx.transmit(Lane::Data, &[to], packet);
    Way::Network
}

/// Pieces of so many bytes do not wait in a queue, where they would be copied once more for the little that others save by going
/// with them.
const PASSING_BYTES: usize = 4 << 10;
