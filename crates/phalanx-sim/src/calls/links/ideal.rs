//! Times of calls that nothing delays: the reference for measurements.

use phalanx_core::seal::Security;
use phalanx_core::wire::Header;

use super::fabric::{takes_ns, wire_bytes};
use super::setup::Setup;

impl Setup {
    /// Time of a single call if each host polls all the time and sends all of a message at once.
    #[must_use]
    pub fn call_ns(&self, request_bytes: usize, answer_bytes: usize) -> u64 {
        self.message_ns(request_bytes) + self.message_ns(answer_bytes)
    }

    /// Time of several calls whose answers follow each other on the link, and the first of which was made alone.
    #[must_use]
    pub fn calls_ns(&self, calls: usize, request_bytes: usize, answer_bytes: usize) -> u64 {
        let others = calls.saturating_sub(1) as u64;
        self.call_ns(request_bytes, answer_bytes)
            + self.stream_ns(others * self.message_wire_bytes(answer_bytes), others * self.packets(answer_bytes))
    }

    /// Time of a single message from one host to another: the path of its first packet, and the packets behind it.
    fn message_ns(&self, bytes: usize) -> u64 {
        let first = self.first_wire_bytes(bytes);
        2 * (self.packet_ns + takes_ns(self.link_bps, first) + self.hop_ns)
            + self.stream_ns(self.message_wire_bytes(bytes) - first, self.packets(bytes) - 1)
    }

    /// Time of packets behind each other: the slower one of link and host decides.
    fn stream_ns(&self, wire_bytes: u64, packets: u64) -> u64 {
        takes_ns(self.link_bps, wire_bytes).max(packets * self.packet_ns)
    }

    /// Bytes that a message takes on a link.
    pub(super) fn message_wire_bytes(&self, bytes: usize) -> u64 {
        let others = self.packets(bytes) - 1;
        let last = bytes - others as usize * self.fragment_bytes();
        others * self.first_wire_bytes(bytes) + wire_bytes(self.packet_of(last))
    }

    fn first_wire_bytes(&self, bytes: usize) -> u64 {
        wire_bytes(self.packet_of(bytes.min(self.fragment_bytes())))
    }

    fn packets(&self, bytes: usize) -> u64 {
        bytes.div_ceil(self.fragment_bytes()).max(1) as u64
    }

    /// Bytes of a fragmented message in one packet.
    fn fragment_bytes(&self) -> usize {
        (self.packet_bytes as usize).saturating_sub(Header::LEN + SECURITY.tag_len() + DATA_HEAD_MAX).max(1)
    }

    fn packet_of(&self, bytes: usize) -> usize {
        bytes + Header::LEN + SECURITY.tag_len() + DATA_HEAD
    }
}

/// No encryption: a seal costs the simulation time, and 12 more bytes in each packet.
pub(super) const SECURITY: Security = Security::None;
/// Bytes of the header in front of a fragment: those of most packets, and the maximum.
const DATA_HEAD: usize = 10;
const DATA_HEAD_MAX: usize = 32;
