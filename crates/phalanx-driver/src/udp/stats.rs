//! Counts what passed and what was refused.

use std::io;

/// What happened on the sockets of a [`Udp`](super::Udp) since it was bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UdpStats {
    /// Datagrams the kernel took.
    pub sent_packets: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// System calls that sent.
    pub send_calls: u64,
    /// Datagrams handed up.
    pub received_packets: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// System calls that received.
    pub receive_calls: u64,
    /// Datagrams the kernel dropped because the receive buffer was full, as far as it has told.
    pub receive_overflows: u64,
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
    /// Reports of errors the kernel had queued.
    pub reported_errors: u64,
}

impl UdpStats {
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
        each("udp_received_packets", self.received_packets);
        each("udp_received_bytes", self.received_bytes);
        each("udp_receive_calls", self.receive_calls);
        each("udp_receive_overflows", self.receive_overflows);
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
    }
}
