//! The sealer: every packet that this process sends is sealed here.

#[cfg(debug_assertions)]
use std::collections::BTreeMap;
use std::fmt;

use super::key::{KeySource, SenderKey};
use super::{Associated, CHECKSUM_LEN, Security, associated, cell_tag, checksum};
use crate::id::Incarnation;
use crate::wire::{Header, Kind, PacketNumber, Space};

/// Seals the packets of one incarnation. An incarnation has one sealer: two would use a nonce twice.
pub struct Sealer {
    me: Incarnation,
    cell_tag: u32,
    /// `None` without sealing: packets carry a checksum instead.
    key: Option<SenderKey>,
    /// The highest number sealed in each space. For a session, in each space and upper half of the numbers. Numbers
    /// only grow, so no nonce is used twice. Debug builds only: the map costs time for each packet.
    #[cfg(debug_assertions)]
    sealed: BTreeMap<(Space, u64), PacketNumber>,
}

impl Sealer {
    /// A sealer for the incarnation `me` in the cell named `cell`.
    #[must_use]
    pub fn new(security: &Security, cell: &str, me: Incarnation) -> Self {
        let key = match security {
            Security::Sealed(key) => Some(KeySource::new(key, cell).of(me)),
            Security::None => None,
        };
        Self {
            me,
            cell_tag: cell_tag(cell),
            key,
            #[cfg(debug_assertions)]
            sealed: BTreeMap::new(),
        }
    }

    /// The header of a packet of this process.
    #[must_use]
    pub fn header(&self, kind: Kind, space: Space, number: PacketNumber) -> Header {
        Header { kind, cell_tag: self.cell_tag, sender: self.me, space, number }
    }

    /// Seals `packet`, which is a header from [`Self::header`] and frames. Encrypts the frames in place and appends the
    /// tag.
    ///
    /// `dest` is the only process that can open it; [`Incarnation::NONE`] exactly for kinds that are not addressed. The
    /// caller never seals two packets with one space and number. To retransmit a packet, it seals the same bytes with
    /// [`Self::seal_retransmission`].
    ///
    /// # Panics
    /// If `packet` does not begin with a header. In debug builds also if the header is not this process's, `dest` does
    /// not fit the kind, or the numbers of a space do not grow.
    pub fn seal(&mut self, dest: Incarnation, packet: &mut Vec<u8>) {
        #[cfg(debug_assertions)]
        self.assert_fresh(&Header::parse(packet).expect("a packet begins with a header"));
        self.seal_retransmission(dest, packet);
    }

    /// Seals a packet that begins with `packet` and ends with `rest`. With a key it appends `rest` to `packet` and
    /// seals that. Without one it copies nothing, and returns the checksum that follows `rest`.
    ///
    /// # Panics
    /// As [`Self::seal`].
    pub fn seal_parts(&mut self, dest: Incarnation, packet: &mut Vec<u8>, rest: &[u8]) -> Option<[u8; CHECKSUM_LEN]> {
        // Encryption changes every byte, so the parts have to be joined. A checksum leaves them where they are.
        if self.key.is_some() {
            packet.extend_from_slice(rest);
            self.seal(dest, packet);
            return None;
        }
        #[cfg(debug_assertions)]
        self.assert_fresh(&Header::parse(packet).expect("a packet begins with a header"));
        let (clear, frames) = packet.split_first_chunk::<{ Header::LEN }>().expect("a packet begins with a header");
        let (_, associated) = self.associated(clear, dest);
        Some(checksum::crc32c(&[&associated, frames, rest]).to_le_bytes())
    }

    /// Seals a packet that was sealed before. The same header and frames give the same bytes, so the nonce names no
    /// others.
    ///
    /// # Panics
    /// As [`Self::seal`], except that numbers need not grow.
    pub fn seal_retransmission(&self, dest: Incarnation, packet: &mut Vec<u8>) {
        let (clear, frames) = packet.split_first_chunk_mut::<{ Header::LEN }>().expect("a packet begins with a header");
        let (header, associated) = self.associated(clear, dest);
        match &self.key {
            Some(key) => {
                let tag = key.seal(&header, &associated, frames);
                packet.extend_from_slice(tag.as_ref());
            }
            None => {
                let sum = checksum::crc32c(&[&associated, frames]);
                packet.extend_from_slice(&sum.to_le_bytes());
            }
        }
    }

    /// The parsed header, and what is authenticated beside the frames.
    fn associated(&self, clear: &[u8; Header::LEN], dest: Incarnation) -> (Header, Associated) {
        let header = Header::parse(clear).expect("a packet begins with a header");
        debug_assert_eq!(header.sender, self.me, "a process seals its own packets");
        debug_assert_eq!(header.cell_tag, self.cell_tag, "a process seals for its own cell");
        debug_assert_eq!(header.kind.is_addressed(), dest != Incarnation::NONE, "{:?} to {dest}", header.kind);
        (header, associated(clear, dest))
    }

    /// Asserts the invariant on which the cipher rests: (key, space, number) names one byte string for ever.
    #[cfg(debug_assertions)]
    fn assert_fresh(&mut self, header: &Header) {
        // The upper half of a session's packet numbers is its serial number: sessions that use one space in turn never
        // share a number (`docs/rpc.md`).
        let session = if header.kind == Kind::Session { header.number.0 >> 32 } else { 0 };
        let before = self.sealed.insert((header.space, session), header.number);
        assert!(
            before.is_none_or(|before| before < header.number),
            "space {} seals number {} after {before:?}: a nonce may come twice",
            header.space,
            header.number,
        );
    }
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sealer").field("me", &self.me).field("sealed", &self.key.is_some()).finish_non_exhaustive()
    }
}
