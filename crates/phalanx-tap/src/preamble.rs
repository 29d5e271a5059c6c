//! The bytes that a tap writes in preamble of a packet.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use phalanx_core::id::Incarnation;

use crate::checksum::Sum;
use crate::layout::{
    CLEAR_ACKED, CLEAR_ACKED_SPACE, CLEAR_BYTES, CLEAR_FRAMES, CLEAR_ORDERS, CLEAR_TO, IPV4_BYTES, IPV6_BYTES, Layout,
    UDP_BYTES,
};
use crate::summary::Summary;

pub(crate) const UDP: u8 = 17;
const HOPS: u8 = 64;

/// The IP and UDP header of a datagram, as its addresses and its length imply them.
///
/// ```
/// use phalanx_tap::{Layout, UdpPreamble};
///
/// # fn main() -> Result<(), std::net::AddrParseError> {
/// let preamble = UdpPreamble::new("[fd00::1]:7000".parse()?, "[fd00::2]:7001".parse()?, 100);
/// assert_eq!((preamble.layout(), preamble.bytes().len()), (Layout::Ipv6, 48));
/// assert_eq!(preamble.bytes()[40..44], [0x1b, 0x58, 0x1b, 0x59]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct UdpPreamble {
    bytes: [u8; (IPV6_BYTES + UDP_BYTES) as usize],
    layout: Layout,
}

impl UdpPreamble {
    /// The headers of a datagram with `payload_bytes` behind them, without a checksum of UDP. It is IPv4 if both addresses
    /// are, also if they are written as IPv6. An unspecified address is not known, and of the other one's version. A length
    /// that does not fit its field is 65,535.
    #[must_use]
    pub fn new(from: SocketAddr, to: SocketAddr, payload_bytes: usize) -> Self {
        let udp_bytes = payload_bytes.saturating_add(UDP_BYTES as usize);
        let mut bytes = [0; (IPV6_BYTES + UDP_BYTES) as usize];
        let source = known_as(from.ip().to_canonical(), to.ip().to_canonical());
        let target = known_as(to.ip().to_canonical(), source);
        let (layout, at) = match (source, target) {
            (IpAddr::V4(source), IpAddr::V4(target)) => {
                let total = length(udp_bytes.saturating_add(IPV4_BYTES as usize));
                bytes[0] = 0x45;
                bytes[2..4].copy_from_slice(&total);
                (bytes[8], bytes[9]) = (HOPS, UDP);
                bytes[12..16].copy_from_slice(&source.octets());
                bytes[16..20].copy_from_slice(&target.octets());
                let mut sum = Sum::default();
                sum.add(&bytes[..IPV4_BYTES as usize]);
                bytes[10..12].copy_from_slice(&sum.complement());
                (Layout::Ipv4, IPV4_BYTES as usize)
            }
            (source, target) => {
                bytes[0] = 0x60;
                bytes[4..6].copy_from_slice(&length(udp_bytes));
                (bytes[6], bytes[7]) = (UDP, HOPS);
                bytes[8..24].copy_from_slice(&mapped(source).octets());
                bytes[24..40].copy_from_slice(&mapped(target).octets());
                (Layout::Ipv6, IPV6_BYTES as usize)
            }
        };
        bytes[at..at + 2].copy_from_slice(&from.port().to_be_bytes());
        bytes[at + 2..at + 4].copy_from_slice(&to.port().to_be_bytes());
        bytes[at + 4..at + 6].copy_from_slice(&length(udp_bytes));
        Self { bytes, layout }
    }

    /// The layout of a packet behind it.
    #[inline]
    #[must_use]
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// The checksum covers the packet behind the headers, which is not here.
    pub(crate) fn set_udp_checksum(&mut self, sum: [u8; 2]) {
        let end = self.layout.preamble_bytes() as usize;
        self.bytes[end - 2..end].copy_from_slice(&sum);
    }

    /// Its bytes.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.layout.preamble_bytes() as usize]
    }
}

fn length(bytes: usize) -> [u8; 2] {
    u16::try_from(bytes).unwrap_or(u16::MAX).to_be_bytes()
}

fn mapped(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}

/// An unspecified address in the version of the other one; any other address as it is.
fn known_as(address: IpAddr, other: IpAddr) -> IpAddr {
    match other {
        IpAddr::V4(_) if address.is_unspecified() => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) if address.is_unspecified() => Ipv6Addr::UNSPECIFIED.into(),
        IpAddr::V4(_) | IpAddr::V6(_) => address,
    }
}

/// The preamble of a packet in clear.
///
/// ```
/// use phalanx_core::id::Incarnation;
/// use phalanx_tap::{ClearPreamble, Summary};
///
/// let preamble = ClearPreamble::new(Incarnation(0x0102_0304_0506_0708), &Summary::new());
/// assert_eq!(preamble.bytes()[..8], [1, 2, 3, 4, 5, 6, 7, 8]);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ClearPreamble {
    bytes: [u8; CLEAR_BYTES as usize],
}

impl ClearPreamble {
    /// The preamble of a packet that goes to `to`, [`Incarnation::NONE`] if that is not known.
    #[must_use]
    pub fn new(to: Incarnation, summary: &Summary) -> Self {
        let mut bytes = [0; CLEAR_BYTES as usize];
        let mut put = |at: u32, field: &[u8]| bytes[at as usize..][..field.len()].copy_from_slice(field);
        put(CLEAR_TO, &to.0.to_be_bytes());
        put(CLEAR_FRAMES, &summary.frames.to_be_bytes());
        put(CLEAR_ORDERS, &[summary.orders]);
        put(CLEAR_ACKED_SPACE, &summary.acked_space.map_or(0, |space| space.0).to_be_bytes());
        put(CLEAR_ACKED, &summary.acked.to_be_bytes());
        Self { bytes }
    }

    /// Its bytes.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use phalanx_core::Order;
    use phalanx_core::id::Incarnation;
    use phalanx_core::wire::Space;

    use super::{ClearPreamble, UdpPreamble};
    use crate::layout::{FrameKind, Layout};
    use crate::summary::Summary;

    fn preamble(from: &str, to: &str, payload_bytes: usize) -> UdpPreamble {
        UdpPreamble::new(from.parse().expect("an address"), to.parse().expect("an address"), payload_bytes)
    }

    #[test]
    fn headers_of_ipv4_are_as_their_addresses_and_length_say() {
        let preamble = preamble("10.1.2.3:4000", "192.168.0.9:5000", 100);
        assert_eq!(preamble.layout(), Layout::Ipv4);
        let bytes = preamble.bytes();
        assert_eq!(bytes[..10], [0x45, 0, 0, 128, 0, 0, 0, 0, 64, 17]);
        assert_eq!(bytes[12..20], [10, 1, 2, 3, 192, 168, 0, 9]);
        assert_eq!(bytes[20..], [0x0f, 0xa0, 0x13, 0x88, 0, 108, 0, 0]);
        // RFC 1071: the sum of all words with the checksum is ffff.
        let words = bytes[..20].chunks(2).map(|two| u32::from(two[0]) << 8 | u32::from(two[1]));
        let sum: u32 = words.sum();
        assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
    }

    #[test]
    fn headers_of_ipv6_are_as_their_addresses_and_length_say() {
        let preamble = preamble("[fd00::1]:1", "10.0.0.7:2", 3);
        assert_eq!(preamble.layout(), Layout::Ipv6);
        let bytes = preamble.bytes();
        assert_eq!(bytes[..8], [0x60, 0, 0, 0, 0, 11, 17, 64]);
        assert_eq!(bytes[8..24], [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(bytes[24..40], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 7]);
        assert_eq!(bytes[40..], [0, 1, 0, 2, 0, 11, 0, 0]);
    }

    #[test]
    fn two_addresses_of_ipv4_written_as_ipv6_are_ipv4() {
        let preamble = preamble("[::ffff:10.0.0.1]:1", "[::ffff:10.0.0.2]:2", 0);
        assert_eq!(preamble.layout(), Layout::Ipv4);
        assert_eq!(preamble.bytes()[12..20], [10, 0, 0, 1, 10, 0, 0, 2]);
    }

    #[test]
    fn an_address_that_is_not_known_has_the_version_of_the_other() {
        assert_eq!(preamble("[::]:1", "10.0.0.2:2", 0).layout(), Layout::Ipv4);
        let unknown = preamble("0.0.0.0:1", "[fd00::2]:2", 0);
        assert_eq!((unknown.layout(), &unknown.bytes()[8..24]), (Layout::Ipv6, &[0; 16][..]));
    }

    #[test]
    fn a_length_that_does_not_fit_is_the_greatest() {
        let long = preamble("10.0.0.1:1", "10.0.0.2:2", 65_507);
        assert_eq!((&long.bytes()[2..4], &long.bytes()[24..26]), (&[0xff, 0xff][..], &[0xff, 0xeb][..]));
        let longer = preamble("10.0.0.1:1", "10.0.0.2:2", usize::MAX);
        assert_eq!((&longer.bytes()[2..4], &longer.bytes()[24..26]), (&[0xff, 0xff][..], &[0xff, 0xff][..]));
    }

    #[test]
    fn a_clear_front_holds_the_summary_where_the_document_says() {
        let mut summary = Summary::new();
        summary.message(Order::Causal, false);
        summary.message(Order::Total, true);
        summary.ack(None, 0x0a0b);
        summary.ack(Some(Space(0x0102_0304)), 9);
        summary.ack(Some(Space(8)), 10);
        let preamble = ClearPreamble::new(Incarnation(5), &summary);
        let bytes = preamble.bytes();
        assert_eq!(bytes[..8], [0, 0, 0, 0, 0, 0, 0, 5]);
        assert_eq!(bytes[8..12], (FrameKind::Message.bit() | FrameKind::Ack.bit()).to_be_bytes());
        assert_eq!(bytes[12..16], [0b1110, 0, 0, 0]);
        assert_eq!(bytes[16..20], [1, 2, 3, 4]);
        assert_eq!(bytes[20..28], [0, 0, 0, 0, 0, 0, 0, 9]);
        assert_eq!(bytes[28..], [0; 4]);
    }
}
