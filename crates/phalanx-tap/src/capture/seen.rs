//! A packet as a tap saw it.

use std::net::SocketAddr;
use std::time::Duration;

use phalanx_core::id::{Incarnation, TrafficClass};

/// A packet that a tap saw.
///
/// ```
/// use std::time::Duration;
/// use phalanx_tap::capture::Seen;
///
/// # fn main() -> Result<(), std::net::AddrParseError> {
/// let at = "10.0.0.1:7000".parse()?;
/// // A long packet through memory, of which only the beginning is here.
/// let seen = Seen::new(Duration::ZERO, at, at, [&[0x35; 24], &[0; 104], &[]]);
/// let seen = Seen { is_memory: true, packet_bytes: 65_507, ..seen };
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// Since the Unix epoch, or since the beginning of a simulation. A file holds nanoseconds up to the year 2554.
    pub time: Duration,
    /// Sent, or else received.
    pub is_sent: bool,
    /// The socket that it goes through.
    pub class: TrafficClass,
    /// Through shared memory, or else by a datagram.
    pub is_memory: bool,
    /// The address of this end: the one that it advertises, or at which the packet was received.
    pub local: SocketAddr,
    /// The address of the other end. An unspecified one is not known.
    pub peer: SocketAddr,
    /// The incarnation that it is sealed for; [`Incarnation::NONE`] for nobody in particular.
    pub to: Incarnation,
    /// Its bytes, in up to three parts.
    pub parts: [&'a [u8]; 3],
    /// The length of the whole packet. It is no less than that of the parts, whatever this says.
    pub packet_bytes: usize,
    /// The most bytes that the file keeps, headers in front of the packet included: the verdict of a filter.
    pub snap: u32,
    /// Packets that the tap lost since the one before.
    pub missed: u64,
}

impl<'a> Seen<'a> {
    /// A datagram of the data class that was received whole, for nobody in particular.
    #[must_use]
    pub fn new(time: Duration, local: SocketAddr, peer: SocketAddr, parts: [&'a [u8]; 3]) -> Self {
        Self {
            time,
            is_sent: false,
            class: TrafficClass::Data,
            is_memory: false,
            local,
            peer,
            to: Incarnation::NONE,
            parts,
            packet_bytes: 0,
            snap: u32::MAX,
            missed: 0,
        }
    }

    /// How many bytes are here.
    pub(crate) fn held_bytes(&self) -> usize {
        self.parts.iter().map(|part| part.len()).sum()
    }

    /// The length of the whole packet.
    pub(crate) fn whole_bytes(&self) -> usize {
        self.packet_bytes.max(self.held_bytes())
    }
}
