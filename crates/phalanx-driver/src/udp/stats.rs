//! Counters of traffic and refusals.

use std::io;

use super::mmsg::{Cause, Run};

/// Counters of a [`Udp`](super::Udp)'s sockets since it was bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UdpStats {
    /// Datagrams the kernel took.
    pub sent_packets: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// System calls made to send.
    pub send_calls: u64,
    /// Runs: several datagrams of one length that passed the stack as one.
    pub segmented_runs: u64,
    /// The datagrams in them.
    pub segmented_packets: u64,
    /// Runs that the kernel refused; their datagrams were sent one by one.
    pub segmentation_refused: u64,
    /// Datagrams handed up.
    pub received_packets: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// System calls made to receive.
    pub receive_calls: u64,
    /// Datagrams that arrived together with others in one buffer.
    pub coalesced_packets: u64,
    /// Datagrams that the kernel reported as dropped because the receive buffer was full. It counts a coalesced run
    /// once, so this is a lower bound.
    pub receive_overflows: u64,
    /// Those of them that were learned by asking the kernel, not from a later datagram.
    pub overflows_asked: u64,
    /// Queries of the kernel for drops and buffer use.
    pub memory_asks: u64,
    /// The most buffer memory seen in use at the data socket, in bytes as the kernel accounts them.
    pub held_bytes_max: u64,
    /// Datagrams longer than a packet may be (or without a sender's address), dropped.
    pub truncated: u64,
    /// Packets dropped because the kernel refused them, or took too few.
    pub send_dropped: u64,
    /// Sends postponed because the socket's send buffer was full.
    pub send_blocked: u64,
    /// Sends refused because an interface's queue was full (`ENOBUFS`).
    pub no_buffers: u64,
    /// "Connection refused": no socket has that port. A hint, never a verdict, because anyone can send such a report.
    pub refused: u64,
    /// No route to that host or network.
    pub unreachable: u64,
    /// A firewall or the system's policy refused (`EPERM`, `EACCES`).
    pub not_permitted: u64,
    /// Longer than the path's MTU (`EMSGSIZE`).
    pub too_long: u64,
    /// Other errors.
    pub other_errors: u64,
    /// Reports on packets sent earlier that the kernel had queued.
    pub reported_errors: u64,
    /// Reports that no socket has the port.
    pub reported_refused: u64,
    /// Reports of no route to the host or network.
    pub reported_unreachable: u64,
    /// Reports of a packet longer than the path's MTU.
    pub reported_too_long: u64,
    /// Reports that gave a path's MTU which was not known before.
    pub paths_learned: u64,
}

impl UdpStats {
    pub(super) fn count_sent(&mut self, run: &Run) {
        self.sent_packets += run.packets as u64;
        self.sent_bytes += run.bytes as u64;
        if run.packets > 1 {
            self.segmented_runs += 1;
            self.segmented_packets += run.packets as u64;
        }
    }

    /// Counts a packet that was sent alone.
    pub(super) fn count_alone(&mut self, len_bytes: usize) {
        self.sent_packets += 1;
        self.sent_bytes += len_bytes as u64;
    }

    pub(super) fn count_report(&mut self, cause: Cause) {
        self.reported_errors += 1;
        match cause {
            Cause::Refused => self.reported_refused += 1,
            Cause::Unreachable => self.reported_unreachable += 1,
            Cause::TooLong { .. } => self.reported_too_long += 1,
            Cause::Other => {}
        }
    }

    /// Packets postponed or dropped because the system took no more.
    pub(super) fn refusals(&self) -> u64 {
        self.send_dropped + self.send_blocked + self.no_buffers
    }

    pub(super) fn count(&mut self, error: &io::Error) {
        let counter = match error.raw_os_error() {
            Some(libc::EAGAIN) => &mut self.send_blocked,
            Some(libc::ENOBUFS | libc::ENOMEM) => &mut self.no_buffers,
            Some(libc::ECONNREFUSED) => &mut self.refused,
            Some(libc::EHOSTUNREACH | libc::ENETUNREACH | libc::EHOSTDOWN | libc::ENETDOWN) => &mut self.unreachable,
            Some(libc::EPERM | libc::EACCES) => &mut self.not_permitted,
            Some(libc::EMSGSIZE) => &mut self.too_long,
            _ => &mut self.other_errors,
        };
        *counter += 1;
    }

    pub(super) fn each(&self, each: &mut dyn FnMut(&'static str, u64)) {
        each("udp_sent_packets", self.sent_packets);
        each("udp_sent_bytes", self.sent_bytes);
        each("udp_send_calls", self.send_calls);
        each("udp_segmented_runs", self.segmented_runs);
        each("udp_segmented_packets", self.segmented_packets);
        each("udp_segmentation_refused", self.segmentation_refused);
        each("udp_received_packets", self.received_packets);
        each("udp_received_bytes", self.received_bytes);
        each("udp_receive_calls", self.receive_calls);
        each("udp_coalesced_packets", self.coalesced_packets);
        each("udp_receive_overflows", self.receive_overflows);
        each("udp_overflows_asked", self.overflows_asked);
        each("udp_memory_asks", self.memory_asks);
        each("udp_held_bytes_max", self.held_bytes_max);
        each("udp_truncated", self.truncated);
        each("udp_send_dropped", self.send_dropped);
        each("udp_send_blocked", self.send_blocked);
        each("udp_no_buffers", self.no_buffers);
        each("udp_refused", self.refused);
        each("udp_unreachable", self.unreachable);
        each("udp_not_permitted", self.not_permitted);
        each("udp_too_long", self.too_long);
        each("udp_other_errors", self.other_errors);
        each("udp_reported_errors", self.reported_errors);
        each("udp_reported_refused", self.reported_refused);
        each("udp_reported_unreachable", self.reported_unreachable);
        each("udp_reported_too_long", self.reported_too_long);
        each("udp_paths_learned", self.paths_learned);
    }
}
