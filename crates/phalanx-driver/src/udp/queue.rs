//! Packets that wait for the next flush.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;

use socket2::Socket;

use super::mmsg::{self, Outgoing};
use super::stats::UdpStats;

/// A bounded queue of packets; the bytes of one that goes to many are kept once.
#[derive(Debug)]
pub(super) struct SendQueue {
    bytes: Vec<u8>,
    bytes_max: usize,
    packets: Vec<Outgoing>,
    /// Packets before this one are the kernel's.
    head: usize,
    hold: Hold,
    /// How often the interface's queue refused the first packet.
    refusals: u32,
}

/// Why the last flush left packets behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hold {
    None,
    /// The socket's send buffer is full; it becomes writable again.
    Blocked,
    /// The interface's queue is full; only time tells when it is not.
    Congested,
}

impl SendQueue {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self {
            bytes: Vec::with_capacity(bytes_max),
            bytes_max,
            packets: Vec::with_capacity(PACKETS_MAX),
            head: 0,
            hold: Hold::None,
            refusals: 0,
        }
    }

    pub(super) fn has_room(&self, copies: usize, len_bytes: usize) -> bool {
        self.bytes.len() + len_bytes <= self.bytes_max && self.packets.len() + copies <= PACKETS_MAX
    }

    /// Returns for how many of `to` the packet was queued.
    pub(super) fn push(&mut self, to: &[SocketAddr], packet: &[u8]) -> usize {
        if self.bytes.len() + packet.len() > self.bytes_max {
            return 0;
        }
        let copies = to.len().min(PACKETS_MAX - self.packets.len());
        let start = self.bytes.len();
        if copies > 0 {
            self.bytes.extend_from_slice(packet);
        }
        self.packets.extend(to.iter().take(copies).map(|to| Outgoing::new(*to, start, packet.len())));
        copies
    }

    pub(super) fn is_blocked(&self) -> bool {
        self.hold == Hold::Blocked
    }

    pub(super) fn is_congested(&self) -> bool {
        self.hold == Hold::Congested
    }

    /// Hands over all the kernel takes.
    pub(super) fn flush(&mut self, socket: &Socket, stats: &mut UdpStats) {
        self.hold = Hold::None;
        // An error that a peer's host caused earlier is reported by the next call, whatever that call sends: the
        // first such error costs a second try, not the packet.
        let mut second_try = false;
        while self.head < self.packets.len() {
            stats.send_calls += 1;
            match mmsg::send(socket.as_fd(), &self.packets[self.head..], &self.bytes) {
                Ok(count) => {
                    let done = &self.packets[self.head..self.head + count];
                    stats.sent_packets += count as u64;
                    stats.sent_bytes += done.iter().map(|p| p.len_bytes() as u64).sum::<u64>();
                    self.head += count;
                    self.refusals = 0;
                    second_try = false;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    stats.count(&error);
                    match error.raw_os_error() {
                        Some(libc::EAGAIN) => self.hold = Hold::Blocked,
                        Some(libc::ENOBUFS | libc::ENOMEM) if self.refusals < REFUSALS_MAX => {
                            self.refusals += 1;
                            self.hold = Hold::Congested;
                        }
                        Some(libc::ECONNREFUSED | libc::EHOSTUNREACH | libc::ENETUNREACH | libc::EHOSTDOWN)
                            if !second_try =>
                        {
                            second_try = true;
                            stats.reported_errors += mmsg::drain_errors(socket.as_fd());
                        }
                        _ => {
                            stats.send_dropped += 1;
                            self.head += 1;
                            self.refusals = 0;
                            second_try = false;
                        }
                    }
                    if self.hold != Hold::None {
                        break;
                    }
                }
            }
        }
        self.compact();
    }

    /// Forgets what the kernel took.
    fn compact(&mut self) {
        let kept = self.packets.get(self.head).map_or(self.bytes.len(), Outgoing::start);
        self.packets.drain(..self.head);
        self.head = 0;
        self.bytes.drain(..kept);
        self.packets.iter_mut().for_each(|packet| packet.shift(kept));
    }
}

/// Most packets a queue holds, copies counted.
const PACKETS_MAX: usize = 2_048;

/// Flushes that a full interface queue may refuse one packet before it is dropped, so that one bad interface does
/// not stop what goes over others.
const REFUSALS_MAX: u32 = 3;
