//! Sealing of packets: authenticated encryption under keys derived from the cell key.
//!
//! A sender seals each packet once with its own key. The nonce is the packet's space and number, so a space and a
//! number name one byte string for ever. Header and destination are authenticated with the frames. Nothing about a
//! sender is stored before the tag verifies. Specified in `docs/wire.md`.
//!
//! Read first: RFC 5116 (AEAD), RFC 5869 (HKDF), NIST SP 800-38D (GCM and why a nonce must never repeat).

mod checksum;
mod cookie;
mod key;
mod opener;
mod replay;
mod sealer;

pub use cookie::CookieKey;
pub use key::{BadKey, CellKey};
pub(crate) use opener::read_clear_for;
pub use opener::{Opener, SessionKey};
pub use replay::ReplayWindow;
pub use sealer::Sealer;

pub use crate::wire::header::cell_tag;

use crate::id::Incarnation;
use crate::wire::Header;

/// How packets are protected.
#[derive(Clone, Debug)]
pub enum Security {
    /// Encrypted and authenticated with keys derived from the cell's key.
    Sealed(CellKey),
    /// In clear with a checksum. It detects accidents and stops no attacker, so it is an explicit choice, never a
    /// default.
    None,
}

impl Security {
    /// Number of bytes that the seal appends to a packet.
    #[must_use]
    pub fn tag_len(&self) -> usize {
        match self {
            Self::Sealed(_) => SEALED_TAG_LEN,
            Self::None => CHECKSUM_LEN,
        }
    }
}

/// The authenticated data beside the frames: the header's bytes and the destination. A packet in clear begins with it.
type Associated = [u8; CLEAR_HEAD_LEN];

/// Offset of the frames in a packet in clear.
pub(crate) const CLEAR_HEAD_LEN: usize = Header::LEN + 8;

/// Header and destination, as they are authenticated. The destination is not sent over the network: a packet that
/// reaches another process, or another incarnation, does not verify there.
pub(crate) fn associated(header: &[u8; Header::LEN], dest: Incarnation) -> Associated {
    let mut bytes = [0; CLEAR_HEAD_LEN];
    bytes[..Header::LEN].copy_from_slice(header);
    bytes[Header::LEN..].copy_from_slice(&dest.0.to_le_bytes());
    bytes
}

/// Length of an AES-GCM tag, in bytes.
const SEALED_TAG_LEN: usize = 16;

/// Length of the checksum that stands for a seal, in bytes.
const CHECKSUM_LEN: usize = 4;

#[cfg(test)]
mod tests;
