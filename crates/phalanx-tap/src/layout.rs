//! Where the fields of a packet lie in what a tap shows of it.

use phalanx_core::wire::Header;

/// What a tap shows in preamble of a packet, and so where the packet begins. A filter is compiled for one layout.
///
/// ```
/// use phalanx_tap::Layout;
///
/// assert_eq!(Layout::ALL.map(Layout::preamble_bytes), [28, 48, 32]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Layout {
    /// A sealed packet behind an IPv4 and a UDP header.
    Ipv4,
    /// A sealed packet behind an IPv6 and a UDP header.
    Ipv6,
    /// A packet in clear, behind a [`crate::ClearPreamble`].
    Clear,
}

impl Layout {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Ipv4, Self::Ipv6, Self::Clear];

    /// The length of the preamble, in bytes: the packet's header begins there.
    #[inline]
    #[must_use]
    pub const fn preamble_bytes(self) -> u32 {
        match self {
            Self::Ipv4 => IPV4_BYTES + UDP_BYTES,
            Self::Ipv6 => IPV6_BYTES + UDP_BYTES,
            Self::Clear => CLEAR_BYTES,
        }
    }

    /// Whether the frames are in clear.
    #[inline]
    #[must_use]
    pub const fn is_clear(self) -> bool {
        matches!(self, Self::Clear)
    }
}

pub(crate) const IPV4_BYTES: u32 = 20;
pub(crate) const IPV6_BYTES: u32 = 40;
pub(crate) const UDP_BYTES: u32 = 8;

/// The clear preamble: see `docs/tap.md`.
pub(crate) const CLEAR_BYTES: u32 = 32;
pub(crate) const CLEAR_TO: u32 = 0;
pub(crate) const CLEAR_FRAMES: u32 = 8;
pub(crate) const CLEAR_ORDERS: u32 = 12;
pub(crate) const CLEAR_ACKED_SPACE: u32 = 16;
pub(crate) const CLEAR_ACKED: u32 = 20;

/// The fields of a packet's header, from its beginning (`docs/wire.md`).
pub(crate) const HEADER_SENDER: u32 = 4;
pub(crate) const HEADER_SPACE: u32 = 12;
pub(crate) const HEADER_NUMBER: u32 = 16;
const _: () = assert!(HEADER_NUMBER as usize + 8 == Header::LEN, "the number ends the header");

/// Where a program loads a packet's [`Flags`] from, as a word. No packet reaches so far. Linux has its own such data
/// there, too.
pub const FLAGS_AT: u32 = 0xffff_f000;

/// What is not in the bytes of a packet.
///
/// ```
/// use phalanx_tap::Flags;
///
/// assert_eq!(Flags::new().sent().control().bits(), 0b011);
/// assert_eq!(Flags::new().through_memory().bits(), 0b100);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flags(u32);

impl Flags {
    pub(crate) const SENT: u32 = 1;
    pub(crate) const CONTROL: u32 = 2;
    pub(crate) const MEMORY: u32 = 4;

    /// Received, of the data class, by a datagram.
    #[inline]
    #[must_use]
    pub const fn new() -> Self {
        Self(0)
    }

    /// It is sent.
    #[inline]
    #[must_use]
    pub const fn sent(self) -> Self {
        Self(self.0 | Self::SENT)
    }

    /// It is of the control class.
    #[inline]
    #[must_use]
    pub const fn control(self) -> Self {
        Self(self.0 | Self::CONTROL)
    }

    /// It goes through memory.
    #[inline]
    #[must_use]
    pub const fn through_memory(self) -> Self {
        Self(self.0 | Self::MEMORY)
    }

    /// What a program loads.
    #[inline]
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.0
    }
}

/// A kind of frame, as filters name it.
///
/// ```
/// use phalanx_tap::FrameKind;
///
/// assert_eq!(FrameKind::Announcement.word(), "announcement");
/// assert_eq!(FrameKind::ALL.len(), 26);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum FrameKind {
    /// A multicast, or a piece of one.
    Message,
    /// An announcement of orders.
    Announcement,
    /// A token pass.
    Token,
    /// A stability frame.
    Stability,
    /// Dependencies of the next message.
    Past,
    /// An acknowledgement, of whatever kind of packet.
    Ack,
    /// The status of a stream.
    Status,
    /// A heartbeat, of small and large cells.
    Heartbeat,
    /// A notice of exclusion.
    Exclusion,
    /// A link-state report.
    Links,
    /// A slow-member report.
    Slow,
    /// A probe of a path, or its answer.
    Probe,
    /// Findings about paths.
    Findings,
    /// A message of a channel, or a piece of one.
    Piece,
    /// A handshake message.
    Greeting,
    /// An ask for a session of calls, its grant or refusal.
    Session,
    /// A request of a call, or a fragment of one.
    Request,
    /// An answer of a call, or a fragment of one.
    Answer,
    /// A status query for a call.
    Query,
    /// A call is cancelled, or was.
    Cancel,
    /// Request credit.
    Credit,
    /// A session ends.
    Close,
    /// An answer is ready.
    Ready,
    /// A ping or a pong.
    Ping,
    /// A challenge or a proof of an address.
    Challenge,
    /// A frame of a later build, which was skipped.
    Unknown,
}

impl FrameKind {
    /// All of them, in the order of their bits.
    pub const ALL: [Self; 26] = [
        Self::Message,
        Self::Announcement,
        Self::Token,
        Self::Stability,
        Self::Past,
        Self::Ack,
        Self::Status,
        Self::Heartbeat,
        Self::Exclusion,
        Self::Links,
        Self::Slow,
        Self::Probe,
        Self::Findings,
        Self::Piece,
        Self::Greeting,
        Self::Session,
        Self::Request,
        Self::Answer,
        Self::Query,
        Self::Cancel,
        Self::Credit,
        Self::Close,
        Self::Ready,
        Self::Ping,
        Self::Challenge,
        Self::Unknown,
    ];

    /// Its word in filters.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Message => "message",
            Self::Announcement => "announcement",
            Self::Token => "token",
            Self::Stability => "stability",
            Self::Past => "past",
            Self::Ack => "ack",
            Self::Status => "status",
            Self::Heartbeat => "heartbeat",
            Self::Exclusion => "exclusion",
            Self::Links => "links",
            Self::Slow => "slow",
            Self::Probe => "probe",
            Self::Findings => "findings",
            Self::Piece => "piece",
            Self::Greeting => "greeting",
            Self::Session => "session",
            Self::Request => "request",
            Self::Answer => "answer",
            Self::Query => "query",
            Self::Cancel => "cancel",
            Self::Credit => "credit",
            Self::Close => "close",
            Self::Ready => "ready",
            Self::Ping => "ping",
            Self::Challenge => "challenge",
            Self::Unknown => "unknown",
        }
    }

    pub(crate) const fn bit(self) -> u32 {
        1 << self as u32
    }
}

#[cfg(test)]
mod tests {
    use phalanx_core::id::Incarnation;
    use phalanx_core::wire::{Header, Kind, PacketNumber, Space};

    use super::{FrameKind, HEADER_NUMBER, HEADER_SENDER, HEADER_SPACE};

    #[test]
    fn header_fields_lie_where_the_core_writes_them() {
        let (kind, cell_tag, sender) = (Kind::Data, 0, Incarnation(0x0102_0304_0506_0708));
        let header = Header { kind, cell_tag, sender, space: Space(0xa1b2_c3d4), number: PacketNumber(0x1112) };
        let bytes = header.to_bytes();
        let at = |from: u32, count: usize| &bytes[from as usize..from as usize + count];
        assert_eq!(at(HEADER_SENDER, 8), sender.0.to_le_bytes());
        assert_eq!(at(HEADER_SPACE, 4), 0xa1b2_c3d4_u32.to_le_bytes());
        assert_eq!(at(HEADER_NUMBER, 8), 0x1112_u64.to_le_bytes());
    }

    #[test]
    fn kinds_of_frames_have_a_bit_and_a_word_each() {
        let bits = FrameKind::ALL.iter().fold(0, |bits, kind| bits | kind.bit());
        assert_eq!(bits.count_ones() as usize, FrameKind::ALL.len());
        for (number, kind) in FrameKind::ALL.iter().enumerate() {
            assert_eq!(kind.bit(), 1 << number, "the order of {kind:?}");
            assert!(FrameKind::ALL[..number].iter().all(|other| other.word() != kind.word()));
        }
    }
}
