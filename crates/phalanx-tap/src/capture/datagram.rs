//! The IP and UDP header of a datagram, as its addresses and its length imply them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::interfaces::Form;
use super::pcapng::SNAP_MAX;
use super::seen::Seen;

const IPV4_BYTES: usize = 20;
const IPV6_BYTES: usize = 40;
const UDP_BYTES: usize = 8;
const UDP: u8 = 17;
const HOPS: u8 = 64;

/// The headers in front of a sealed packet.
pub(super) struct Headers {
    bytes: [u8; IPV6_BYTES + UDP_BYTES],
    ip_bytes: usize,
}

impl Headers {
    /// The headers of this packet's datagram. It is IPv4 if both addresses are, also if they are written as IPv6. One that
    /// is not known is of the other one's version.
    pub(super) fn of(seen: &Seen<'_>) -> Self {
        let (from, to) = if seen.is_sent { (seen.local, seen.peer) } else { (seen.peer, seen.local) };
        let udp_bytes = seen.whole_bytes().saturating_add(UDP_BYTES);
        let mut bytes = [0; IPV6_BYTES + UDP_BYTES];
        let source = known_as(from.ip().to_canonical(), to.ip().to_canonical());
        let target = known_as(to.ip().to_canonical(), source);
        match (source, target) {
            (IpAddr::V4(source), IpAddr::V4(target)) => {
                bytes[0] = 0x45;
                bytes[2..4].copy_from_slice(&length(udp_bytes.saturating_add(IPV4_BYTES)));
                (bytes[8], bytes[9]) = (HOPS, UDP);
                bytes[12..16].copy_from_slice(&source.octets());
                bytes[16..20].copy_from_slice(&target.octets());
                let mut sum = Sum::default();
                sum.add(&bytes[..IPV4_BYTES]);
                bytes[10..12].copy_from_slice(&sum.complement());
                udp(&mut bytes[IPV4_BYTES..], from, to, udp_bytes);
                Self { bytes, ip_bytes: IPV4_BYTES }
            }
            (source, target) => {
                let (source, target) = (as_v6(source).octets(), as_v6(target).octets());
                bytes[0] = 0x60;
                bytes[4..6].copy_from_slice(&length(udp_bytes));
                (bytes[6], bytes[7]) = (UDP, HOPS);
                bytes[8..24].copy_from_slice(&source);
                bytes[24..40].copy_from_slice(&target);
                udp(&mut bytes[IPV6_BYTES..], from, to, udp_bytes);
                // Over what is not here, or has a length that does not fit, there is no sum.
                if seen.held_bytes() == seen.whole_bytes() && udp_bytes <= usize::from(u16::MAX) {
                    let mut sum = Sum::default();
                    sum.add(&source);
                    sum.add(&target);
                    sum.add(&length(udp_bytes));
                    sum.add(&[0, UDP]);
                    sum.add(&bytes[IPV6_BYTES..]);
                    seen.parts.iter().for_each(|part| sum.add(part));
                    // 0 would say that there is none.
                    let sum = Some(sum.complement()).filter(|sum| *sum != [0, 0]).unwrap_or([0xff, 0xff]);
                    bytes[IPV6_BYTES + 6..].copy_from_slice(&sum);
                }
                Self { bytes, ip_bytes: IPV6_BYTES }
            }
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.ip_bytes + UDP_BYTES]
    }

    pub(super) fn form(&self) -> Form {
        if self.ip_bytes == IPV4_BYTES { Form::SealedIpv4 } else { Form::SealedIpv6 }
    }

    /// The most bytes that the file has of such a packet: IPv4 counts its own header in a length of 16 bits.
    pub(super) fn longest(&self) -> usize {
        let uncounted = if self.ip_bytes == IPV6_BYTES { IPV6_BYTES } else { 0 };
        SNAP_MAX.min(usize::from(u16::MAX) + uncounted)
    }
}

fn udp(header: &mut [u8], from: SocketAddr, to: SocketAddr, udp_bytes: usize) {
    header[..2].copy_from_slice(&from.port().to_be_bytes());
    header[2..4].copy_from_slice(&to.port().to_be_bytes());
    header[4..6].copy_from_slice(&length(udp_bytes));
}

/// A length that does not fit is the greatest that does.
fn length(bytes: usize) -> [u8; 2] {
    u16::try_from(bytes).unwrap_or(u16::MAX).to_be_bytes()
}

/// An unspecified address in the version of the other one; any other address as it is.
fn known_as(address: IpAddr, other: IpAddr) -> IpAddr {
    match other {
        IpAddr::V4(_) if address.is_unspecified() => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) if address.is_unspecified() => Ipv6Addr::UNSPECIFIED.into(),
        IpAddr::V4(_) | IpAddr::V6(_) => address,
    }
}

fn as_v6(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}

/// The Internet checksum (RFC 1071), over bytes that come in pieces of any length.
#[derive(Default)]
pub(super) struct Sum {
    sum: u64,
    is_odd: bool,
}

impl Sum {
    pub(super) fn add(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            let byte = u64::from(byte);
            self.sum += if self.is_odd { byte } else { byte << 8 };
            self.is_odd = !self.is_odd;
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "it is folded to 16 bits")]
    pub(super) fn complement(&self) -> [u8; 2] {
        let mut sum = self.sum;
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        (!(sum as u16)).to_be_bytes()
    }
}
