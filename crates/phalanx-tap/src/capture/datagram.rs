//! The IP and UDP header of a datagram in a file: those that filters see, and for IPv6 the checksum of UDP.

use super::interfaces::Form;
use super::pcapng::SNAP_MAX;
use super::seen::Seen;
use crate::checksum::Sum;
use crate::layout::{IPV6_BYTES, Layout, UDP_BYTES};
use crate::preamble::{UDP, UdpPreamble};

/// The headers in front of a sealed packet.
pub(super) struct Headers {
    preamble: UdpPreamble,
}

impl Headers {
    /// The headers of this packet's datagram.
    pub(super) fn of(seen: &Seen<'_>) -> Self {
        let (from, to) = if seen.is_sent { (seen.local, seen.peer) } else { (seen.peer, seen.local) };
        let payload_bytes = seen.whole_bytes();
        let mut preamble = UdpPreamble::new(from, to, payload_bytes);
        let udp_bytes = u16::try_from(payload_bytes.saturating_add(UDP_BYTES as usize));
        // Over what is not here, or has a length that does not fit, there is no sum.
        if let Ok(udp_bytes) = udp_bytes
            && preamble.layout() == Layout::Ipv6
            && seen.held_bytes() == payload_bytes
        {
            let mut sum = Sum::default();
            // The addresses, and the header of UDP.
            sum.add(&preamble.bytes()[8..]);
            sum.add(&udp_bytes.to_be_bytes());
            sum.add(&[0, UDP]);
            seen.parts.iter().for_each(|part| sum.add(part));
            // 0 would say that there is none.
            let sum = Some(sum.complement()).filter(|sum| *sum != [0, 0]).unwrap_or([0xff, 0xff]);
            preamble.set_udp_checksum(sum);
        }
        Self { preamble }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        self.preamble.bytes()
    }

    pub(super) fn form(&self) -> Form {
        if self.preamble.layout() == Layout::Ipv4 { Form::SealedIpv4 } else { Form::SealedIpv6 }
    }

    /// The most bytes that the file has of such a packet: IPv4 counts its own header in a length of 16 bits.
    pub(super) fn longest(&self) -> usize {
        let uncounted = if self.preamble.layout() == Layout::Ipv6 { IPV6_BYTES as usize } else { 0 };
        SNAP_MAX.min(usize::from(u16::MAX) + uncounted)
    }
}
