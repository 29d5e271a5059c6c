//! Reliable, flow-controlled packet streams: numbered packets with acknowledgements, retransmission and windows.
//!
//! [`Sending`] tracks each packet until every receiver acknowledged it, and retransmits it. [`Receiving`] reorders
//! packets and builds acknowledgements. [`Channel`] is one of each between two processes; it fragments messages and
//! reassembles them. `link` knows no views: the owner decides whether a packet may be acknowledged.
//!
//! Sources: absolute window positions and selective acks after TCP SACK (RFC 2018) and QUIC (RFC 9002,
//! sections 5 and 6.2: round-trip estimate and probe timeout).

mod channel;
mod receiving;
mod rtt;
mod sending;

pub use channel::{Channel, ChannelError, ChannelFrame, ChannelMessage, SHORT_BYTES};
pub use receiving::{Arrival, Receiving, StreamReport};
pub use rtt::Rtt;
pub use sending::{Sending, Standing};

/// An acknowledgement of one stream. All positions are absolute, so that a late or repeated ack does no harm.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Ack {
    /// Every packet up to here has arrived.
    pub prefix: u64,
    /// The sender may send packets up to here.
    pub limit: u64,
    /// Missing packets above `prefix`, ascending; at most [`GAPS_MAX`].
    pub gaps: Vec<Gap>,
}

/// Consecutive packets that a receiver lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The first missing packet.
    pub first: u64,
    /// The last missing packet.
    pub last: u64,
}

/// The most gaps in one ack. Enough for a burst of losses, and an ack still fits into a small packet.
pub const GAPS_MAX: usize = 32;
// Otherwise nothing would be retransmitted before a probe timeout.
const _: () = assert!(GAPS_MAX > 0, "an ack names at least one gap");
