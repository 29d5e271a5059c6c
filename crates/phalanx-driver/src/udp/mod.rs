//! Two UDP sockets, one per lane, with batched system calls both ways.

mod bind;
#[allow(unsafe_code)]
mod mmsg;
mod queue;
mod stats;
#[cfg(test)]
mod tests;

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use phalanx_core::{Lane, Origin};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::Socket;

use crate::driver::{Driver, EXTRA_MAX, Transmit, Wait, Woken};
use crate::waker::Waker;
pub use bind::{BindError, Buffers, UdpOptions};
use mmsg::ReceiveBuffers;
use queue::SendQueue;
pub use stats::UdpStats;

/// The longest packet that passes an Ethernet of 1,500 bytes whole, with room for IPv6 and a tunnel's header.
pub const PACKET_BYTES_ETHERNET: u32 = 1_432;

/// The longest packet when every peer is on this host.
pub const PACKET_BYTES_LOOPBACK: u32 = 32_768;

/// A driver over two UDP sockets: what waits on the data socket never delays control traffic.
#[derive(Debug)]
pub struct Udp {
    outbox: UdpOutbox,
    buffers: ReceiveBuffers,
    overflows: [Overflow; 2],
    addresses: [SocketAddr; 2],
    packet_bytes_max: u32,
    granted: Buffers,
    waker: Waker,
}

/// The sending half of [`Udp`]: packets queue here until the flush.
#[derive(Debug)]
pub struct UdpOutbox {
    control: LaneOut,
    data: LaneOut,
    stats: UdpStats,
}

#[derive(Debug)]
struct LaneOut {
    socket: Socket,
    queue: SendQueue,
}

/// The kernel's running count of datagrams it dropped because the receive buffer was full.
#[derive(Clone, Copy, Debug, Default)]
struct Overflow(u32);

impl Udp {
    /// Binds both sockets.
    ///
    /// # Errors
    /// See [`BindError`]; nothing stays bound.
    pub fn bind(options: &UdpOptions) -> Result<Self, BindError> {
        let control = bind::open(options.control, options)?;
        let data = bind::open(options.data, options)?;
        let addresses = [control.address, data.address];
        let packet_bytes_max = options.packet_bytes_max.unwrap_or_else(|| {
            let local = addresses.iter().all(|a| a.ip().is_loopback());
            if local { PACKET_BYTES_LOOPBACK } else { PACKET_BYTES_ETHERNET }
        });
        let packet_bytes_max = packet_bytes_max.clamp(PACKET_BYTES_MIN, PACKET_BYTES_CEILING);
        let waker = Waker::new().map_err(|source| BindError::Other { address: options.control, source })?;
        Ok(Self {
            buffers: ReceiveBuffers::new(packet_bytes_max as usize),
            overflows: [Overflow::default(); 2],
            addresses,
            packet_bytes_max,
            granted: data.granted,
            waker,
            outbox: UdpOutbox {
                control: LaneOut { socket: control.socket, queue: SendQueue::new(CONTROL_QUEUE_BYTES) },
                data: LaneOut { socket: data.socket, queue: SendQueue::new(DATA_QUEUE_BYTES) },
                stats: UdpStats::default(),
            },
        })
    }

    /// What the kernel granted the data socket.
    #[must_use]
    pub fn granted(&self) -> Buffers {
        self.granted
    }

    /// What happened so far.
    #[must_use]
    pub fn stats(&self) -> UdpStats {
        self.outbox.stats
    }

    fn receive_lane(
        &mut self,
        lane: Lane,
        max: usize,
        each: &mut impl FnMut(&mut UdpOutbox, Lane, Origin, &mut [u8]),
    ) -> usize {
        let mut taken = 0;
        let mut faults = 0;
        while taken < max {
            let want = (max - taken).min(mmsg::BATCH);
            let outbox = &mut self.outbox;
            outbox.stats.receive_calls += 1;
            let batch = match self.buffers.fill(outbox.lane(lane).socket.as_fd(), want) {
                Ok(batch) => batch,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // An error a peer's host caused is reported once by whichever call comes next, and says nothing
                // about what waits in the buffer.
                Err(error) => {
                    faults += 1;
                    outbox.note_fault(lane, &error);
                    if faults >= FAULTS_PER_CALL {
                        break;
                    }
                    continue;
                }
            };
            let count = batch.len();
            for datagram in batch {
                if let Some(total) = datagram.overflow {
                    let overflow = &mut self.overflows[lane as usize];
                    outbox.stats.receive_overflows += u64::from(total.wrapping_sub(overflow.0));
                    overflow.0 = total;
                }
                let Some(from) = datagram.from.filter(|_| !datagram.truncated) else {
                    outbox.stats.truncated += 1;
                    continue;
                };
                outbox.stats.received_packets += 1;
                outbox.stats.received_bytes += datagram.bytes.len() as u64;
                each(outbox, lane, Origin::Network(from), datagram.bytes);
            }
            taken += count;
            if count < want {
                break;
            }
        }
        taken
    }
}

impl UdpOutbox {
    fn lane(&mut self, lane: Lane) -> &mut LaneOut {
        match lane {
            Lane::Control => &mut self.control,
            Lane::Data => &mut self.data,
        }
    }

    /// Counts an error of a call that sent or received nothing, and clears what the kernel keeps about it.
    fn note_fault(&mut self, lane: Lane, error: &io::Error) {
        self.stats.count(error);
        let LaneOut { socket, .. } = self.lane(lane);
        mmsg::drain_errors(socket.as_fd());
    }

    fn flush_lane(&mut self, lane: Lane) {
        let mut stats = self.stats;
        let out = self.lane(lane);
        out.queue.flush(&out.socket, &mut stats);
        self.stats = stats;
    }
}

impl Transmit for UdpOutbox {
    fn transmit(&mut self, lane: Lane, to: &[SocketAddr], packet: &[u8]) {
        if to.is_empty() {
            return;
        }
        if !self.lane(lane).queue.has_room(to.len(), packet.len()) {
            self.flush_lane(lane);
        }
        let queued = self.lane(lane).queue.push(to, packet);
        self.stats.send_dropped += (to.len() - queued) as u64;
    }
}

impl Driver for Udp {
    type Outbox = UdpOutbox;

    fn receive(&mut self, max: usize, each: &mut impl FnMut(&mut UdpOutbox, Lane, Origin, &mut [u8])) -> usize {
        // Control goes first but leaves a quarter, so that a flood of it cannot stop data for good.
        let control = self.receive_lane(Lane::Control, max - max / 4, each);
        control + self.receive_lane(Lane::Data, max - control, each)
    }

    fn outbox(&mut self) -> &mut UdpOutbox {
        &mut self.outbox
    }

    fn flush(&mut self) {
        self.outbox.flush_lane(Lane::Control);
        self.outbox.flush_lane(Lane::Data);
    }

    fn local_address(&self, lane: Lane) -> SocketAddr {
        match lane {
            Lane::Control => self.addresses[0],
            Lane::Data => self.addresses[1],
        }
    }

    fn packet_bytes_max(&self) -> u32 {
        self.packet_bytes_max
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        self.outbox.stats.each(each);
    }
}

impl Wait for Udp {
    fn wait(&mut self, timeout: Option<Duration>, extra: &[BorrowedFd<'_>]) -> io::Result<Woken> {
        if !self.waker.begin() {
            let waker = self.waker.end();
            return Ok(Woken { waker, ..Woken::default() });
        }
        let result = self.poll(timeout, extra);
        let waker = self.waker.end();
        result.map(|woken| Woken { waker, ..woken })
    }

    fn waker(&self) -> Waker {
        self.waker.clone()
    }
}

impl Udp {
    fn poll(&mut self, timeout: Option<Duration>, extra: &[BorrowedFd<'_>]) -> io::Result<Woken> {
        let extra = extra.get(..EXTRA_MAX).unwrap_or(extra);
        let mut timeout = timeout;
        let interest = |out: &LaneOut| {
            if out.queue.is_blocked() { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN }
        };
        let (control, data) = (&self.outbox.control, &self.outbox.data);
        if control.queue.is_congested() || data.queue.is_congested() {
            // The socket is writable while the interface's queue is full: only time tells.
            timeout = Some(timeout.map_or(CONGESTED_RETRY, |t| t.min(CONGESTED_RETRY)));
        }
        let mut watched: [PollFd<'_>; 3 + EXTRA_MAX] =
            std::array::from_fn(|_| PollFd::from_borrowed_fd(self.waker.descriptor(), PollFlags::IN));
        watched[1] = PollFd::from_borrowed_fd(control.socket.as_fd(), interest(control));
        watched[2] = PollFd::from_borrowed_fd(data.socket.as_fd(), interest(data));
        for (slot, fd) in watched[3..].iter_mut().zip(extra) {
            *slot = PollFd::from_borrowed_fd(*fd, PollFlags::IN);
        }
        let limit = timeout.map(|t| Timespec {
            tv_sec: i64::try_from(t.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(t.subsec_nanos()),
        });
        match poll(&mut watched[..3 + extra.len()], limit.as_ref()) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok(Woken::default()),
            Err(error) => return Err(error.into()),
        }
        let fired = |fd: &PollFd<'_>| !fd.revents().is_empty();
        let errors = [watched[1].revents(), watched[2].revents()].map(|r| r.contains(PollFlags::ERR));
        let mut woken = Woken { traffic: fired(&watched[1]) || fired(&watched[2]), ..Woken::default() };
        for (i, fd) in watched[3..3 + extra.len()].iter().enumerate() {
            woken.extra |= u64::from(fired(fd)) << i;
        }
        // The kernel's error reports keep a socket ready until they are read.
        for (lane, reported) in [Lane::Control, Lane::Data].into_iter().zip(errors) {
            if reported {
                let drained = mmsg::drain_errors(self.outbox.lane(lane).socket.as_fd());
                self.outbox.stats.reported_errors += drained;
            }
        }
        Ok(woken)
    }
}

/// Smaller packets carry no useful frame.
const PACKET_BYTES_MIN: u32 = 512;

/// The longest UDP datagram over IPv4.
const PACKET_BYTES_CEILING: u32 = 65_507;

/// What may wait for the kernel, in bytes. Heartbeats and decisions are small; a data queue holds some hundreds
/// of Ethernet packets, or 16 of the loopback's.
const CONTROL_QUEUE_BYTES: usize = 128 << 10;
const DATA_QUEUE_BYTES: usize = 512 << 10;

/// How long to wait before trying an interface whose queue was full.
const CONGESTED_RETRY: Duration = Duration::from_millis(1);

/// Error reports taken in one receive before giving up until the next.
const FAULTS_PER_CALL: usize = 16;
