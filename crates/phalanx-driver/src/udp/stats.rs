//! Counts what passed and what was refused.

use std::io;

use super::mmsg::{Cause, Run};

/// What happened on the sockets of a [`Udp`](super::Udp) since it was bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UdpStats {
    /// Datagrams the kernel took.
    pub sent_packets: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// System calls that sent.
    pub send_calls: u64,
    /// Runs of several datagrams of one length that passed the stack as one.
    pub segmented_runs: u64,
    /// The datagrams in them.
    pub segmented_packets: u64,
    /// Runs refused as such; their datagrams were sent one by one.
    pub segmentation_refused: u64,
    /// Datagrams handed up.
    pub received_packets: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// System calls that received.
    pub receive_calls: u64,
    /// Datagrams that arrived together with others in one buffer.
    pub coalesced_packets: u64,
    /// What the kernel dropped because the receive buffer was full, as far as it has told. A run counts once,
    /// whatever it holds: at least so many datagrams are lost.
    pub receive_overflows: u64,
    /// Those of them that no later datagram told of: the kernel was asked.
    pub overflows_asked: u64,
    /// How often the kernel was asked for drops and for what its buffers hold.
    pub memory_asks: u64,
    /// The most that it said it held for the data socket, as it charges.
    pub held_bytes_max: u64,
    /// Datagrams longer than a packet may be (or without a sender's address), dropped.
    pub truncated: u64,
    /// Packets dropped because the kernel refused them, or took too few.
    pub send_dropped: u64,
    /// Sends put off because the socket's send buffer was full.
    pub send_blocked: u64,
    /// Sends refused because an interface's queue was full (`ENOBUFS`).
    pub no_buffers: u64,
    /// "Connection refused": nobody has that port. A hint, never a verdict.
    pub refused: u64,
    /// No way to that host or network.
    pub unreachable: u64,
    /// A firewall or the system's policy refused (`EPERM`, `EACCES`).
    pub not_permitted: u64,
    /// Longer than the path takes (`EMSGSIZE`).
    pub too_long: u64,
    /// Other errors.
    pub other_errors: u64,
    /// Reports on packets sent earlier that the kernel had queued.
    pub reported_errors: u64,
    /// Those of them that say: nobody has that port.
    pub reported_refused: u64,
    /// No way to that host or network.
    pub reported_unreachable: u64,
    /// Longer than the path takes.
    pub reported_too_long: u64,
    /// How often a report told the length a path takes, and it was not known before.
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

    /// A packet that was all there was to send.
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

    /// Packets put off or dropped because the system took no more.
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
