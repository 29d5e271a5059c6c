//! Packets between processes of one user on one host through shared memory; a driver below carries the rest.
//!
//! Each process owns one segment of memory with a ring for each traffic class, and only the owner can write it. It
//! writes a packet there once, with one bit for each reader, and never waits for a reader. Each process reads the rings
//! of the processes it is attached to. `docs/shm.md` describes the segment and argues why no process can harm another
//! through it.

#[allow(unsafe_code)]
mod lend;
mod links;
mod parked;
mod segment;
mod sending;
mod stats;
#[cfg(test)]
mod tests;

use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use phalanx_core::{Arriving, Origin, Packet, TrafficClass};

use crate::driver::{Driver, EXTRA_MAX, LONG_BYTES, LossReport, Received, Transmit, Wait, Woken};
use crate::waker::Waker;
use lend::Lender;
use links::Links;
use parked::Sleep;
use segment::Own;
pub use segment::Refused;
pub use sending::{Sending, ShmOutbox};
pub use stats::{LinkStats, SentStats};

/// The ring sizes of a process. The system provides memory only as it is first written.
#[derive(Clone, Copy, Debug)]
pub struct ShmOptions {
    /// Size of the data ring in bytes, rounded up to a power of two, from 256 KiB to 1 GiB. Default 16 MiB.
    ///
    /// A reader that falls behind by more than this loses packets, which are retransmitted. So the ring should hold
    /// more than flow control lets be in flight.
    pub data_ring_bytes: usize,
    /// Size of the control ring, with the same limits. Default 1 MiB.
    pub control_ring_bytes: usize,
}

impl Default for ShmOptions {
    fn default() -> Self {
        Self { data_ring_bytes: 16 << 20, control_ring_bytes: 1 << 20 }
    }
}

/// Where other processes of the same user, in the same process namespace, find a process's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Its process id.
    pub pid: u32,
    /// Its descriptor of the segment.
    pub memory: u32,
    /// Its descriptor of the pipe whose readability ends its sleep.
    pub doorbell: u32,
}

/// A process that can be reached through memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Where its memory is.
    pub offer: Offer,
    /// The incarnation that the caller means; see [`Neighbours::begin_incarnation`].
    pub token: u64,
    /// Where it receives data.
    pub data: SocketAddr,
    /// Where it receives control traffic.
    pub control: SocketAddr,
}

/// Control over the processes of this host that are reached through memory, for the owner of a driver.
pub trait Neighbours {
    /// Begins an incarnation of this process, with a number that no other incarnation has. Detaches all processes.
    /// Packets still written for an earlier incarnation are not received.
    fn begin_incarnation(&mut self, token: u64);

    /// Attaches a process's memory. Packets go through memory once it has attached this process as well.
    ///
    /// # Errors
    /// See [`Refused`]; nothing changed, and packets for the process go as datagrams.
    fn attach(&mut self, peer: &Peer) -> Result<(), Refused>;

    /// Detaches a process: from now on packets pass as datagrams only, both ways.
    fn detach(&mut self, token: u64);
}

/// A driver that sends packets through memory where it can, and through `D` otherwise.
///
/// A forked child shares the memory with its parent. There the driver sends and receives nothing; see [`crate::fork`].
#[derive(Debug)]
pub struct Shm<D: Driver> {
    inner: D,
    half: Lender<Sending, D::Outbox>,
    links: Links,
    sleep: Sleep,
    below: Below,
    unavailable: Option<io::Error>,
}

/// When to poll the driver below, which costs a system call.
#[derive(Debug, Default)]
struct Below {
    /// It had packets lately, or reported that it may have.
    warm: bool,
    /// Polls of memory alone since it was last polled.
    passed: u32,
}

impl<D: Driver> Shm<D> {
    /// Creates this process's segment. If the system refuses, everything goes through `inner`, and [`Shm::unavailable`]
    /// gives the error.
    pub fn new(inner: D, options: &ShmOptions) -> Self {
        match Own::create(options) {
            Ok(own) => Self::around(inner, Some(own), None),
            Err(error) => Self::around(inner, None, Some(error)),
        }
    }

    /// A driver that shares no memory: everything goes through `inner`.
    pub fn without_memory(inner: D) -> Self {
        Self::around(inner, None, None)
    }

    fn around(inner: D, own: Option<Own>, unavailable: Option<io::Error>) -> Self {
        Self {
            inner,
            half: Lender::new(Sending::new(own)),
            links: Links::new(),
            sleep: Sleep::default(),
            below: Below::default(),
            unavailable,
        }
    }

    /// What others need to attach this process; `None` if it shares no memory.
    pub fn offer(&self) -> Option<Offer> {
        self.half.mine().own.as_ref().filter(|_| self.is_here()).map(Own::offer)
    }

    fn is_here(&self) -> bool {
        self.half.mine().home.is_here()
    }

    /// Why memory that was asked for is not available.
    pub fn unavailable(&self) -> Option<&io::Error> {
        self.unavailable.as_ref()
    }

    /// How many processes read this one's memory.
    pub fn readers(&self) -> u64 {
        self.links.readers()
    }

    /// The driver below.
    pub fn inner(&self) -> &D {
        &self.inner
    }

    /// The counters of what was written.
    pub fn sent_stats(&self) -> SentStats {
        self.half.mine().stats
    }

    /// The counters of what was read, and of attachments.
    pub fn link_stats(&self) -> LinkStats {
        self.links.stats
    }

    fn receive_memory(
        &mut self,
        max: usize,
        whole_max: usize,
        each: &mut impl FnMut(&mut ShmOutbox<D::Outbox>, TrafficClass, Origin, Arriving<'_>),
    ) -> Received {
        let Self { inner, half, links, .. } = self;
        let mut receive = |class, max| {
            let mut hand_up = |arriving: Arriving<'_>| {
                let outbox = inner.outbox();
                if let Some(tap) = outbox.tap() {
                    let (head, len) = match &arriving {
                        Arriving::Whole(packet) => (&packet[..], packet.len()),
                        Arriving::HeaderFirst(begun) => (&*begun.head, begun.len),
                    };
                    tap.came(class, head, len);
                }
                each(half.lend(outbox), class, Origin::Memory, arriving);
            };
            links.receive(class, max, whole_max, &mut hand_up)
        };
        // Control goes first but leaves a quarter, so that a flood of it cannot starve data.
        let control = receive(TrafficClass::Control, max - max / 4);
        let data = receive(TrafficClass::Data, max - control.packets);
        Received { packets: control.packets + data.packets, more: control.more || data.more }
    }

    fn receive_below(
        &mut self,
        max: usize,
        each: &mut impl FnMut(&mut ShmOutbox<D::Outbox>, TrafficClass, Origin, Arriving<'_>),
    ) -> Received {
        let Self { inner, half, .. } = self;
        let taken = inner.receive(max, &mut |outbox, class, origin, packet| {
            each(half.lend(outbox), class, origin, Arriving::Whole(packet));
        });
        self.below = Below { warm: taken.packets > 0, passed: 0 };
        taken
    }

    /// Receives. A packet in memory that is longer than `whole_max` is handed up when its header is there.
    fn take(
        &mut self,
        max: usize,
        whole_max: usize,
        each: &mut impl FnMut(&mut ShmOutbox<D::Outbox>, TrafficClass, Origin, Arriving<'_>),
    ) -> Received {
        if !self.is_here() {
            return Received::default();
        }
        if self.links.is_empty() {
            return self.receive_below(max, each);
        }
        let due = self.below.warm || self.below.passed >= BELOW_EVERY;
        self.below.passed += 1;
        // A flood in memory leaves a quarter of `max` to datagrams.
        let mut taken = self.receive_memory(if due { max - max / 4 } else { max }, whole_max, each);
        if due && taken.packets < max {
            let below = self.receive_below(max - taken.packets, each);
            taken.packets += below.packets;
            // What the sockets left of `max` goes to packets that still wait in memory.
            if taken.more && taken.packets < max {
                let again = self.receive_memory(max - taken.packets, whole_max, each);
                taken = Received { packets: taken.packets + again.packets, more: again.more };
            }
            taken.more |= below.more;
        }
        taken
    }
}

impl<D: Driver> Neighbours for Shm<D> {
    fn begin_incarnation(&mut self, token: u64) {
        if self.is_here() {
            self.links.begin_incarnation(token, self.half.mine_mut());
        }
    }

    fn attach(&mut self, peer: &Peer) -> Result<(), Refused> {
        self.half.mine().home.check().map_err(io::Error::from)?;
        self.links.attach(peer, self.half.mine_mut())
    }

    fn detach(&mut self, token: u64) {
        if self.is_here() {
            self.links.detach(token, self.half.mine_mut());
        }
    }
}

#[deny(clippy::missing_trait_methods, reason = "a decorator forwards every method, those with a default too")]
impl<D: Driver> Driver for Shm<D> {
    type Outbox = ShmOutbox<D::Outbox>;

    fn receive(
        &mut self,
        max: usize,
        each: &mut impl FnMut(&mut Self::Outbox, TrafficClass, Origin, Packet<'_>),
    ) -> Received {
        self.take(max, usize::MAX, &mut |outbox, class, origin, arriving| {
            if let Arriving::Whole(packet) = arriving {
                each(outbox, class, origin, packet);
            }
        })
    }

    fn receive_header_first(
        &mut self,
        max: usize,
        each: &mut impl FnMut(&mut Self::Outbox, TrafficClass, Origin, Arriving<'_>),
    ) -> Received {
        self.take(max, LONG_BYTES - 1, each)
    }

    fn outbox(&mut self) -> &mut Self::Outbox {
        self.half.lend(self.inner.outbox())
    }

    fn flush(&mut self) {
        if !self.is_here() {
            return;
        }
        let sending = self.half.mine_mut();
        sending.ring_doorbell();
        self.links.settle(sending);
        self.inner.flush();
    }

    fn local_address(&self, class: TrafficClass) -> SocketAddr {
        self.inner.local_address(class)
    }

    fn receive_packets(&self) -> u32 {
        self.inner.receive_packets()
    }

    fn packet_bytes_max(&self) -> u32 {
        self.inner.packet_bytes_max()
    }

    /// Losses below only. A packet that this process lost in memory may have been for others, so it is not counted
    /// here.
    fn loss_report(&mut self) -> LossReport {
        self.inner.loss_report()
    }

    fn unreachable(&mut self) -> Vec<SocketAddr> {
        self.inner.unreachable()
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        self.inner.counters(each);
        self.sent_stats().each(each);
        self.link_stats().each(each);
        each("shm_readers", self.readers());
    }
}

#[deny(clippy::missing_trait_methods, reason = "a decorator forwards every method, those with a default too")]
impl<D: Wait> Wait for Shm<D> {
    /// As for any driver, but with one descriptor fewer in `extra`, because the doorbell takes one.
    fn wait(&mut self, timeout: Option<Duration>, extra: &[BorrowedFd<'_>]) -> io::Result<Woken> {
        self.half.mine().home.check()?;
        let Self { inner, half, links, sleep, below, .. } = self;
        let own = half.mine().own.as_ref().filter(|_| !links.is_empty());
        let Some(own) = own else { return inner.wait(timeout, extra) };
        // Lingering takes up to `LINGERS`, so it must not outlast the caller's timeout.
        if timeout.is_none_or(|timeout| timeout >= links::LINGERS) && links.linger() {
            return Ok(Woken { traffic: true, ..Woken::default() });
        }
        sleep.begin(own.parked());
        // After the mark is set: a packet published before it is found here, and the writer of a later one sees the
        // mark.
        if links.has_more() {
            sleep.end(own.parked());
            return Ok(Woken { traffic: true, ..Woken::default() });
        }
        let mut watched = [own.doorbells(); EXTRA_MAX];
        let count = extra.len().min(EXTRA_MAX - 1);
        watched[1..=count].copy_from_slice(&extra[..count]);
        let outcome = inner.wait(timeout, &watched[..=count]);
        sleep.end(own.parked());
        let woken = outcome?;
        // Ended by another event, the wait may not have polled its sockets: poll them next.
        below.warm |= woken.traffic || woken.waker;
        let doorbell_rang = woken.extra & 1 != 0;
        if doorbell_rang {
            own.drain();
            links.stats.wakes += 1;
        }
        Ok(Woken { traffic: woken.traffic || doorbell_rang, extra: woken.extra >> 1, ..woken })
    }

    fn waker(&self) -> Waker {
        self.inner.waker()
    }

    fn neighbours(&mut self) -> Option<&mut dyn Neighbours> {
        (self.half.mine().own.is_some() && self.is_here()).then_some(self)
    }
}

/// While packets keep arriving in memory, every n-th receive polls the driver below too. A poll of memory costs some
/// nanoseconds, one of two sockets about a microsecond.
const BELOW_EVERY: u32 = 16;
