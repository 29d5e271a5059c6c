//! The packet header: 24 bytes in clear. The kind of a packet is there.

use aws_lc_rs::digest;

use crate::id::Incarnation;
use crate::wire::drop::DropReason;
use crate::wire::numbers::{PacketNumber, Space};

/// The purpose of a packet. It determines whether the packet is retransmitted, and for whom it is sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Kind {
    /// Between processes that do not know each other: probes and the join challenge. Never retransmitted.
    Handshake = 1,
    /// To one process, never retransmitted: acknowledgements, heartbeats.
    Direct = 2,
    /// To many processes, the same bytes for each. Never retransmitted.
    BestEffortMulticast = 3,
    /// To one process on the control channel, retransmitted.
    Control = 4,
    /// To one process on the data channel, retransmitted.
    Data = 5,
    /// To the members of a group, the same bytes for each. Retransmitted.
    Multicast = 6,
    /// Between endpoints that do not know each other: opens a session of calls. Never retransmitted.
    Open = 7,
    /// Of a session of calls. Lost contents are sent again in other packets.
    Session = 8,
    /// A call without any guarantee.
    Unreliable = 9,
    /// To one process on the channel for messages to one member of a group, retransmitted.
    ToOne = 10,
}

impl Kind {
    /// All kinds, in the order of their numbers.
    pub const ALL: [Self; 10] = [
        Self::Handshake,
        Self::Direct,
        Self::BestEffortMulticast,
        Self::Control,
        Self::Data,
        Self::Multicast,
        Self::Open,
        Self::Session,
        Self::Unreliable,
        Self::ToOne,
    ];

    /// Whether such a packet is sealed for one incarnation or one session's secret. All others are sealed for
    /// [`Incarnation::NONE`].
    #[must_use]
    pub fn is_addressed(self) -> bool {
        match self {
            Self::Direct | Self::Control | Self::Data | Self::Session | Self::ToOne => true,
            Self::Handshake | Self::BestEffortMulticast | Self::Multicast | Self::Open | Self::Unreliable => false,
        }
    }

    fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == number)
    }
}

/// The part of a packet that is in clear. It is authenticated, not encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// What the packet is for.
    pub kind: Kind,
    /// 24 bits of a hash of the cell's name; see [`cell_tag`]. Tells cells on one network apart cheaply.
    pub cell_tag: u32,
    /// The incarnation that sealed the packet. Never [`Incarnation::NONE`].
    pub sender: Incarnation,
    /// The sender's packet-number space. An incarnation never reuses one.
    pub space: Space,
    /// The packet's number in its space, never used for other bytes: space and number are the nonce.
    pub number: PacketNumber,
}

impl Header {
    /// Length on the network, in bytes.
    pub const LEN: usize = 24;

    /// The major version of the format.
    pub const VERSION: u8 = 3;

    /// The largest cell tag, of 24 bits.
    pub const CELL_TAG_MAX: u32 = 0x00ff_ffff;

    /// Parses the header at the start of `packet`, and ignores what follows it.
    ///
    /// # Errors
    /// [`DropReason::Short`], [`DropReason::Version`], [`DropReason::Kind`]; [`DropReason::Malformed`] if the sender is
    /// [`Incarnation::NONE`].
    pub fn parse(packet: &[u8]) -> Result<Self, DropReason> {
        let (bytes, _) = packet.split_first_chunk::<{ Self::LEN }>().ok_or(DropReason::Short)?;
        // A pattern of fixed length: the compiler proves every field in bounds, so that no packet can cause a panic.
        let [b0, c0, c1, c2, i0, i1, i2, i3, i4, i5, i6, i7, s0, s1, s2, s3, n0, n1, n2, n3, n4, n5, n6, n7] = *bytes;
        // First, because no other bit has a known meaning in another version.
        if b0 >> 4 != Self::VERSION {
            return Err(DropReason::Version);
        }
        let kind = Kind::from_number(b0 & 0x0f).ok_or(DropReason::Kind)?;
        let sender = Incarnation(u64::from_le_bytes([i0, i1, i2, i3, i4, i5, i6, i7]));
        // Zero stands for no process, so it must not become known as one.
        if sender == Incarnation::NONE {
            return Err(DropReason::Malformed);
        }
        Ok(Self {
            kind,
            cell_tag: u32::from_le_bytes([c0, c1, c2, 0]),
            sender,
            space: Space(u32::from_le_bytes([s0, s1, s2, s3])),
            number: PacketNumber(u64::from_le_bytes([n0, n1, n2, n3, n4, n5, n6, n7])),
        })
    }

    /// Appends the header to `packet`.
    ///
    /// # Panics
    /// In debug builds, if `cell_tag` has more than 24 bits or the sender is [`Incarnation::NONE`].
    pub fn write(&self, packet: &mut Vec<u8>) {
        packet.extend_from_slice(&self.to_bytes());
    }

    /// The header's bytes on the network.
    ///
    /// # Panics
    /// In debug builds, if `cell_tag` has more than 24 bits or the sender is [`Incarnation::NONE`].
    #[must_use]
    pub fn to_bytes(&self) -> [u8; Self::LEN] {
        debug_assert!(self.cell_tag <= Self::CELL_TAG_MAX, "a cell tag has 24 bits");
        debug_assert!(self.sender != Incarnation::NONE, "a packet has a sender");
        let mut bytes = [0; Self::LEN];
        let [tag @ .., _] = self.cell_tag.to_le_bytes();
        bytes[0] = Self::VERSION << 4 | self.kind as u8;
        bytes[1..4].copy_from_slice(&tag);
        bytes[4..12].copy_from_slice(&self.sender.0.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.space.0.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.number.0.to_le_bytes());
        bytes
    }
}

/// 24 bits of the SHA-256 of the cell's name. Tells cells on one network apart before any key is used; two names may
/// have the same tag.
#[must_use]
pub fn cell_tag(cell: &str) -> u32 {
    match *digest::digest(&digest::SHA256, cell.as_bytes()).as_ref() {
        [a, b, c, ..] => u32::from_le_bytes([a, b, c, 0]),
        _ => unreachable!("SHA-256 gives 32 bytes"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Header, Kind, PacketNumber, Space, cell_tag};
    use crate::id::Incarnation;
    use crate::wire::drop::DropReason;

    fn sample() -> Header {
        Header {
            kind: Kind::Data,
            cell_tag: 0x0003_0201,
            sender: Incarnation(4),
            space: Space(5),
            number: PacketNumber(6),
        }
    }

    #[test]
    fn fields_lie_where_the_document_says() {
        let bytes = sample().to_bytes();
        assert_eq!(bytes[0], 0x35);
        assert_eq!(bytes[1..4], [1, 2, 3]);
        assert_eq!(bytes[4..12], [4, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes[12..16], [5, 0, 0, 0]);
        assert_eq!(bytes[16..24], [6, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn refuses_by_name() {
        let good = sample().to_bytes();
        assert_eq!(Header::parse(&good[..23]), Err(DropReason::Short));
        assert_eq!(Header::parse(&[]), Err(DropReason::Short));
        let with_first = |first: u8| {
            let mut bytes = good;
            bytes[0] = first;
            Header::parse(&bytes)
        };
        assert_eq!(with_first(0x25), Err(DropReason::Version));
        assert_eq!(with_first(0x05), Err(DropReason::Version));
        for number in [0, 11, 15] {
            assert_eq!(with_first(0x30 | number), Err(DropReason::Kind));
        }
        let mut nobody = good;
        nobody[4..12].fill(0);
        assert_eq!(Header::parse(&nobody), Err(DropReason::Malformed));
    }

    #[test]
    fn kinds_keep_their_numbers() {
        let numbers = Kind::ALL.map(|kind| kind as u8);
        assert_eq!(numbers, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
        let addressed = Kind::ALL.map(Kind::is_addressed);
        assert_eq!(addressed, [false, true, false, true, true, false, false, true, false, true]);
    }

    #[test]
    fn cell_tags_have_24_bits_and_follow_the_name() {
        // The first three bytes of SHA-256 of nothing are e3 b0 c4.
        assert_eq!(cell_tag(""), 0x00c4_b0e3);
        assert_ne!(cell_tag("home"), cell_tag("away"));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            kind in proptest::sample::select(Kind::ALL.to_vec()),
            cell_tag in 0..=Header::CELL_TAG_MAX,
            sender in 1..=u64::MAX,
            space: u32,
            number: u64,
            rest: Vec<u8>,
        ) {
            let header = Header { kind, cell_tag, sender: Incarnation(sender), space: Space(space), number: PacketNumber(number) };
            let mut packet = Vec::new();
            header.write(&mut packet);
            prop_assert_eq!(packet.len(), Header::LEN);
            packet.extend_from_slice(&rest);
            prop_assert_eq!(Header::parse(&packet), Ok(header));
        }

        #[test]
        fn what_is_read_is_written_alike(bytes: [u8; Header::LEN]) {
            if let Ok(header) = Header::parse(&bytes) {
                prop_assert_eq!(header.to_bytes(), bytes);
            }
        }
    }
}
