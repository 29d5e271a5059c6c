//! A driver over two UDP sockets, one per traffic class, with batched system calls both ways.

mod bind;
mod control_poll;
mod destinations;
mod losses;
#[allow(unsafe_code)]
#[expect(
    clippy::cast_possible_truncation,
    reason = "the system's constants and sizes have other types than its fields"
)]
mod mmsg;
#[cfg(test)]
mod namespace;
mod queue;
mod slots;
mod stats;
#[cfg(test)]
mod tests;

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use phalanx_core::{Origin, Packet, TrafficClass};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::Socket;

use crate::driver::{Driver, EXTRA_MAX, LONG_BYTES, LossReport, Received, Transmit, Wait, Woken};
use crate::fork::Home;
use crate::tap::Tap;
use crate::waker::Waker;
use bind::Opened;
pub use bind::{BindError, Buffers, UdpOptions};
use control_poll::ControlPoll;
use losses::Losses;
use queue::SendQueue;
use slots::{Filled, Slots};
pub use stats::UdpStats;

/// The longest packet that needs no fragments on an Ethernet of 1,500 bytes, with room for IPv6 and a tunnel's header.
pub const PACKET_BYTES_ETHERNET: u32 = 1_432;

/// The longest packet if every peer is on this host: 32 KiB of a message and the headers around it. Lengths are mostly
/// powers of two, so long messages divide into full packets.
pub const PACKET_BYTES_LOOPBACK: u32 = 32_896;

/// A driver over two UDP sockets, so that packets waiting on the data socket never delay control traffic.
///
/// A forked child shares the sockets with its parent. There the driver sends and receives nothing; see [`crate::fork`].
#[derive(Debug)]
pub struct Udp {
    outbox: UdpOutbox,
    /// Indexed by [`TrafficClass`].
    inbox: [ReceiveSocket; 2],
    control_poll: ControlPoll,
    packet_bytes_max: u32,
    granted: Buffers,
    waker: Waker,
    /// The refusals counted at the last report.
    refusals_reported: u64,
}

/// The sending half of [`Udp`]: packets queue here until the flush.
#[derive(Debug)]
pub struct UdpOutbox {
    control: SendSocket,
    data: SendSocket,
    stats: UdpStats,
    home: Home,
    tap: Tap,
}

#[derive(Debug)]
struct SendSocket {
    socket: Socket,
    queue: SendQueue,
}

#[derive(Debug)]
struct ReceiveSocket {
    address: SocketAddr,
    slots: Slots,
    losses: Losses,
    coalesces: bool,
    /// Makes no further call in this receive: the last one took everything that waited, or the first packet after a
    /// silence, which is to be handled first.
    dry: bool,
    /// The last call left nothing waiting.
    empty: bool,
}

impl Udp {
    /// Binds both sockets.
    ///
    /// # Errors
    /// See [`BindError`]; no socket stays bound.
    pub fn bind(options: &UdpOptions) -> Result<Self, BindError> {
        let control = bind::open(options.control, options)?;
        let data = bind::open(options.data, options)?;
        let packet_bytes_max = options.packet_bytes_max.unwrap_or_else(|| {
            let local = [&control, &data].iter().all(|opened| opened.address.ip().is_loopback());
            if local { PACKET_BYTES_LOOPBACK } else { PACKET_BYTES_ETHERNET }
        });
        let packet_bytes_max = packet_bytes_max.clamp(PACKET_BYTES_MIN, PACKET_BYTES_CEILING);
        let waker = Waker::new().map_err(|source| BindError::Other { address: options.control, source })?;
        let granted = data.granted;
        let (data_in, data) = ReceiveSocket::open(data, packet_bytes_max, DATA_QUEUE_BYTES);
        let (control_in, control) = ReceiveSocket::open(control, packet_bytes_max, CONTROL_QUEUE_BYTES);
        const { assert!(TrafficClass::Data as usize == 0 && TrafficClass::Control as usize == 1) };
        Ok(Self {
            inbox: [data_in, control_in],
            control_poll: ControlPoll::new(),
            packet_bytes_max,
            granted,
            waker,
            outbox: UdpOutbox { control, data, stats: UdpStats::default(), home: Home::here(), tap: Tap::default() },
            refusals_reported: 0,
        })
    }

    /// The buffers that the kernel granted the data socket.
    #[must_use]
    pub fn granted(&self) -> Buffers {
        self.granted
    }

    /// The most that the kernel accounts to a receive buffer for one datagram of this many bytes, on loopback and with
    /// common network cards. Packets of a run cost less. Where a card's driver uses a whole page for each datagram, the
    /// kernel may account 4,352 bytes and this returns 2,304.
    #[must_use]
    pub fn truesize(packet_bytes: u32) -> u64 {
        phalanx_core::truesize(u64::from(packet_bytes))
    }

    /// Whether packets of one length are sent as runs: the kernel can, and has not refused one so far.
    #[must_use]
    pub fn segments(&self) -> bool {
        self.outbox.data.queue.segments()
    }

    /// Whether packets that arrive together are received together.
    #[must_use]
    pub fn coalesces(&self) -> bool {
        self.inbox[TrafficClass::Data as usize].coalesces
    }

    /// The counters so far.
    #[must_use]
    pub fn stats(&self) -> UdpStats {
        self.outbox.stats
    }

    fn receive_class(
        &mut self,
        class: TrafficClass,
        max: usize,
        each: &mut impl FnMut(&mut UdpOutbox, TrafficClass, Origin, Packet<'_>),
    ) -> Received {
        let longest = self.packet_bytes_max as usize;
        let inbox = &mut self.inbox[class as usize];
        let mut taken = 0;
        while taken < max && (!inbox.slots.is_empty() || inbox.fill(class, &mut self.outbox)) {
            while taken < max
                && let Some(datagram) = inbox.slots.next()
            {
                taken += 1;
                let outbox = &mut self.outbox;
                let fits = !datagram.truncated && datagram.bytes.len() <= longest;
                let Some(from) = datagram.from.filter(|_| fits) else {
                    outbox.stats.truncated += 1;
                    continue;
                };
                outbox.stats.received_packets += 1;
                outbox.stats.received_bytes += datagram.bytes.len() as u64;
                outbox.tap.received(class, &from, datagram.bytes);
                each(outbox, class, Origin::Network(from), Packet::Lent(datagram.bytes));
            }
        }
        Received { packets: taken, more: taken == max || !inbox.empty }
    }
}

impl ReceiveSocket {
    /// Both halves of a class.
    fn open(opened: Opened, packet_bytes_max: u32, queue_bytes: usize) -> (Self, SendSocket) {
        let inbox = Self {
            address: opened.address,
            slots: Slots::new(packet_bytes_max as usize, opened.coalesces),
            losses: Losses::new(opened.granted.receive_bytes),
            coalesces: opened.coalesces,
            dry: false,
            empty: false,
        };
        (inbox, SendSocket { socket: opened.socket, queue: SendQueue::new(queue_bytes, opened.segments) })
    }

    /// Receives waiting datagrams into the slots, which must be empty. False: nothing waits.
    fn fill(&mut self, class: TrafficClass, outbox: &mut UdpOutbox) -> bool {
        // Checked here too, because the callback that handles a packet may fork.
        if self.dry || !outbox.home.is_here() {
            return false;
        }
        self.empty = false;
        for _ in 0..FAULTS_PER_CALL {
            outbox.stats.receive_calls += 1;
            match self.slots.fill(outbox.class(class).socket.as_fd()) {
                Ok(filled) => {
                    (self.dry, self.empty) = (filled != Filled::Some, filled == Filled::All);
                    break;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    (self.dry, self.empty) = (true, true);
                    break;
                }
                // The kernel reports an error that a peer's host caused once, in whichever call comes next. It says
                // nothing about what waits in the buffer, so the call is repeated.
                Err(error) => outbox.note_fault(class, &error),
            }
        }
        for arrived in self.slots.arrived() {
            outbox.stats.receive_overflows += self.losses.take(arrived.len_bytes, arrived.overflow);
            if let Some(segment) = arrived.segment.filter(|segment| *segment < arrived.len_bytes) {
                outbox.stats.coalesced_packets += arrived.len_bytes.div_ceil(segment) as u64;
            }
        }
        if self.empty {
            self.losses.note_empty();
        }
        !self.slots.is_empty()
    }
}

impl UdpOutbox {
    fn class(&mut self, class: TrafficClass) -> &mut SendSocket {
        match class {
            TrafficClass::Control => &mut self.control,
            TrafficClass::Data => &mut self.data,
        }
    }

    /// Counts the error of a call that sent or received nothing, and drains the kernel's queue of error reports.
    fn note_fault(&mut self, class: TrafficClass, error: &io::Error) {
        self.stats.count(error);
        self.hear(class);
    }

    /// Reads the kernel's reports on packets sent earlier.
    fn hear(&mut self, class: TrafficClass) {
        if !self.home.is_here() {
            return;
        }
        let (out, stats) = self.parts(class);
        out.queue.hear(&out.socket, stats);
    }

    fn flush_class(&mut self, class: TrafficClass) {
        if !self.home.is_here() {
            return;
        }
        let (out, stats) = self.parts(class);
        out.queue.flush(&out.socket, stats);
    }

    fn parts(&mut self, class: TrafficClass) -> (&mut SendSocket, &mut UdpStats) {
        match class {
            TrafficClass::Control => (&mut self.control, &mut self.stats),
            TrafficClass::Data => (&mut self.data, &mut self.stats),
        }
    }
}

impl Transmit for UdpOutbox {
    fn send_unbuffered(&mut self, class: TrafficClass, to: SocketAddr, parts: [&[u8]; 3]) -> bool {
        if !self.home.is_here() {
            return false;
        }
        let (out, stats) = self.parts(class);
        let taken = out.queue.send_unbuffered(to, parts, &out.socket, stats);
        if taken {
            self.tap.sent(class, &[to], parts);
        }
        taken
    }

    /// Nobody is reached so, but whoever looks at packets in clear sees it.
    fn write_shared(&mut self, class: TrafficClass, to: &[SocketAddr], parts: [&[u8]; 3]) -> usize {
        self.tap.sealing(class, to, parts);
        0
    }

    #[inline]
    fn tap(&mut self) -> Option<&mut Tap> {
        Some(&mut self.tap)
    }

    fn transmit(&mut self, class: TrafficClass, to: &[SocketAddr], packet: &[u8]) {
        if to.is_empty() {
            return;
        }
        // A long packet gains nothing from a run, and its receiver takes it while the sender makes the next one.
        if packet.len() >= LONG_BYTES
            && let [to] = to
            && self.send_unbuffered(class, *to, [packet, &[], &[]])
        {
            return;
        }
        self.tap.sent(class, to, [packet, &[], &[]]);
        // A flush makes room. What does not fit even then is dropped and counted, so that the queue stays bounded.
        if !self.class(class).queue.has_room(to.len(), packet.len()) {
            self.flush_class(class);
        }
        let queued = self.class(class).queue.push(to, packet);
        self.stats.send_dropped += (to.len() - queued) as u64;
        if packet.len() >= LONG_BYTES && !self.class(class).queue.is_held() {
            self.flush_class(class);
        }
    }

    fn is_congested(&mut self) -> bool {
        self.data.queue.is_held()
    }
}

impl Driver for Udp {
    type Outbox = UdpOutbox;

    fn receive(
        &mut self,
        max: usize,
        each: &mut impl FnMut(&mut UdpOutbox, TrafficClass, Origin, Packet<'_>),
    ) -> Received {
        if max == 0 {
            return Received { packets: 0, more: true };
        }
        if !self.outbox.home.is_here() {
            return Received::default();
        }
        self.inbox.iter_mut().for_each(|class| class.dry = false);
        // One system call if nothing waits, most of the time: see [`ControlPoll`].
        let rest = !self.inbox[TrafficClass::Control as usize].slots.is_empty();
        let control = if rest || self.control_poll.is_due() {
            // Control goes first but leaves a quarter, so that a flood of it cannot starve data.
            self.receive_class(TrafficClass::Control, max - max / 4, each)
        } else {
            Received::default()
        };
        let data = self.receive_class(TrafficClass::Data, max - control.packets, each);
        let taken = Received { packets: control.packets + data.packets, more: control.more || data.more };
        if control.packets > 0 || taken.packets >= BUSY_PACKETS {
            self.control_poll.expect();
        }
        taken
    }

    fn outbox(&mut self) -> &mut UdpOutbox {
        &mut self.outbox
    }

    fn flush(&mut self) {
        self.outbox.flush_class(TrafficClass::Control);
        self.outbox.flush_class(TrafficClass::Data);
    }

    fn local_address(&self, class: TrafficClass) -> SocketAddr {
        self.inbox[class as usize].address
    }

    fn packet_bytes_max(&self) -> u32 {
        self.packet_bytes_max
    }

    fn receive_packets(&self) -> u32 {
        // A kernel that grants less than one packet still accepts one.
        let packets = self.granted.receive_bytes as u64 / Self::truesize(self.packet_bytes_max);
        u32::try_from(packets).unwrap_or(u32::MAX).max(1)
    }

    fn loss_report(&mut self) -> LossReport {
        for class in [TrafficClass::Data, TrafficClass::Control] {
            let losses = &mut self.inbox[class as usize].losses;
            let (out, stats) = self.outbox.parts(class);
            if let Some(drops) = losses.ask(out.socket.as_fd()) {
                stats.memory_asks += 1;
                stats.receive_overflows += drops;
                stats.overflows_asked += drops;
            }
        }
        let [data, control] = &mut self.inbox;
        let stats = &mut self.outbox.stats;
        stats.held_bytes_max = stats.held_bytes_max.max(data.losses.held_bytes());
        let refused = stats.refusals() - self.refusals_reported;
        self.refusals_reported += refused;
        LossReport {
            lost: data.losses.report() + control.losses.report(),
            refused,
            held_bytes: data.losses.held_bytes(),
            capacity_bytes: data.losses.capacity_bytes(),
        }
    }

    fn unreachable(&mut self) -> Vec<SocketAddr> {
        self.outbox.data.queue.take_unreachable()
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        self.outbox.stats.each(each);
        self.outbox.tap.counters(each);
    }
}

impl Wait for Udp {
    fn wait(&mut self, timeout: Option<Duration>, extra: &[BorrowedFd<'_>]) -> io::Result<Woken> {
        self.outbox.home.check()?;
        if !self.waker.begin() {
            let waker = self.waker.end();
            return Ok(Woken { waker, ..Woken::default() });
        }
        // `begin` has marked this thread as asleep: a waker that runs from here on writes to the descriptor that is
        // polled.
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
        // The kernel does not know of datagrams that were received and not yet handed up, so the poll must not block.
        let rest = self.inbox.iter().any(|class| !class.slots.is_empty());
        if rest {
            timeout = Some(Duration::ZERO);
        }
        let interest = |out: &SendSocket| {
            if out.queue.is_blocked() { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN }
        };
        let (control, data) = (&self.outbox.control, &self.outbox.data);
        if control.queue.is_congested() || data.queue.is_congested() {
            // The socket polls as writable although the interface's queue is full, so the retry is timed.
            timeout = Some(timeout.map_or(CONGESTED_RETRY, |t| t.min(CONGESTED_RETRY)));
        }
        let own = [
            PollFd::from_borrowed_fd(self.waker.descriptor(), PollFlags::IN),
            PollFd::from_borrowed_fd(control.socket.as_fd(), interest(control)),
            PollFd::from_borrowed_fd(data.socket.as_fd(), interest(data)),
        ];
        let extra = extra.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN));
        let (mut few, mut many);
        let watched = if extra.len() <= FEW {
            few = std::array::from_fn::<_, { 3 + FEW }, _>(|i| own[i.min(2)].clone());
            let count = 3 + extra.len();
            few[3..].iter_mut().zip(extra).for_each(|(slot, fd)| *slot = fd);
            &mut few[..count]
        } else {
            many = own.into_iter().chain(extra).collect::<Vec<_>>();
            &mut many[..]
        };
        let limit = timeout.map(|t| Timespec {
            tv_sec: i64::try_from(t.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(t.subsec_nanos()),
        });
        match poll(watched, limit.as_ref()) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok(Woken::default()),
            // `poll` gives EINVAL for more descriptors than `RLIMIT_NOFILE`, which may have been lowered since they
            // were opened.
            Err(rustix::io::Errno::INVAL) => poll_each(watched, timeout)?,
            Err(error) => return Err(error.into()),
        }
        let fired = |fd: &PollFd<'_>| !fd.revents().is_empty();
        let errors = [watched[1].revents(), watched[2].revents()].map(|r| r.contains(PollFlags::ERR));
        if fired(&watched[1]) {
            self.control_poll.expect();
        }
        let mut woken = Woken { traffic: rest || fired(&watched[1]) || fired(&watched[2]), ..Woken::default() };
        for (i, fd) in watched[3..].iter().enumerate() {
            woken.extra |= u64::from(fired(fd)) << i;
        }
        // The kernel's error reports keep a socket ready until they are read.
        for (class, reported) in [TrafficClass::Control, TrafficClass::Data].into_iter().zip(errors) {
            if reported {
                self.outbox.hear(class);
            }
        }
        Ok(woken)
    }
}

/// Polls one descriptor after another, after a short sleep.
fn poll_each(watched: &mut [PollFd<'_>], timeout: Option<Duration>) -> io::Result<()> {
    std::thread::sleep(timeout.map_or(CONGESTED_RETRY, |t| t.min(CONGESTED_RETRY)));
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    for one in watched.chunks_mut(1) {
        match poll(one, Some(&at_once)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Extra descriptors that need no allocation: as many as a driver around this one and its owner usually have.
const FEW: usize = 3;

/// From this many packets on, a receive is taken as one of a busy period. Then control is polled in the next receive
/// too, so that control packets do not wait long.
const BUSY_PACKETS: usize = 8;

/// Smaller packets would carry no useful frame.
const PACKET_BYTES_MIN: u32 = 512;

/// The longest UDP datagram over IPv4, in bytes.
pub const PACKET_BYTES_CEILING: u32 = 65_507;

/// Bytes that may wait for the kernel. Heartbeats and decisions are small. A data queue holds some hundreds of Ethernet
/// packets, or 16 of the loopback's.
const CONTROL_QUEUE_BYTES: usize = 128 << 10;
const DATA_QUEUE_BYTES: usize = 512 << 10;

/// How long to wait before a retry after an interface's queue was full.
const CONGESTED_RETRY: Duration = Duration::from_millis(1);

/// Errors tolerated in one receive before it gives up until the next.
const FAULTS_PER_CALL: usize = 16;
