//! Packets between processes of one user on one host through shared memory; a driver below carries the rest.
//!
//! Each process owns one segment of memory, which it alone can write, with a ring for each class. It puts a packet
//! there once, with a bit for each process it is for, and waits for nobody. Each process reads the rings of those it is
//! attached to. `docs/shm.md` describes the segment and argues why nobody can harm another.

#[allow(unsafe_code)]
mod lend;
mod links;
#[allow(unsafe_code)]
mod map;
mod parked;
mod ring;
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

use crate::driver::{Driver, EXTRA_MAX, LONG_BYTES, LossReport, Received, Wait, Woken};
use crate::waker::Waker;
use lend::Lender;
use links::Links;
use parked::Sleep;
use segment::Own;
pub use segment::Refused;
pub use sending::{Sending, ShmOutbox};
pub use stats::{LinkStats, SentStats};

/// How large the rings of a process are. Memory is taken as it is first written.
#[derive(Clone, Copy, Debug)]
pub struct ShmOptions {
    /// The ring for data, in bytes, rounded up to a power of two, from 256 KiB to 1 GiB. What a reader falls behind
    /// by more than this is lost, and retransmitted: larger than what flow control lets be under way. Default 16 MiB.
    pub data_ring_bytes: usize,
    /// The same for control traffic. Default 1 MiB.
    pub control_ring_bytes: usize,
}

impl Default for ShmOptions {
    fn default() -> Self {
        Self { data_ring_bytes: 16 << 20, control_ring_bytes: 1 << 20 }
    }
}

/// Where a process's memory is found by others of the same user in the same process namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Its number.
    pub pid: u32,
    /// Its descriptor of the segment.
    pub memory: u32,
    /// Its descriptor of the pipe that ends its sleep.
    pub doorbell: u32,
}

/// A process to be reached through memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Where its memory is.
    pub offer: Offer,
    /// The life of it that is meant; see [`Neighbours::begin_incarnation`].
    pub token: u64,
    /// Where it receives data.
    pub data: SocketAddr,
    /// Where it receives control traffic.
    pub control: SocketAddr,
}

/// What the owner of a driver does about the processes of this host.
pub trait Neighbours {
    /// A life of this process begins, named by a number that no other life has. Nobody is attached any more, and what
    /// is still written for an earlier life is not received.
    fn begin_incarnation(&mut self, token: u64);

    /// Tries to reach a process through memory. Packets go that way once it has attached this one as well.
    ///
    /// # Errors
    /// See [`Refused`]; its packets go as datagrams.
    fn attach(&mut self, peer: &Peer) -> Result<(), Refused>;

    /// Reaches and hears it as datagrams only.
    fn detach(&mut self, token: u64);
}

/// A driver that carries packets through memory where it can, and through `D` where it cannot.
///
/// In a forked child, which shares the memory with its parent, it does neither; see [`crate::fork`].
#[derive(Debug)]
pub struct Shm<D: Driver> {
    inner: D,
    half: Lender<Sending, D::Outbox>,
    links: Links,
    sleep: Sleep,
    below: Below,
    unavailable: Option<io::Error>,
}

/// When to look at the driver below, which costs a call of the system.
#[derive(Debug, Default)]
struct Below {
    /// It had something lately, or said so.
    warm: bool,
    /// Looks at memory since.
    passed: u32,
}

impl<D: Driver> Shm<D> {
    /// Makes this process's segment. If the system refuses, everything goes through `inner`; see
    /// [`Shm::unavailable`].
    pub fn new(inner: D, options: &ShmOptions) -> Self {
        match Own::create(options) {
            Ok(own) => Self::around(inner, Some(own), None),
            Err(error) => Self::around(inner, None, Some(error)),
        }
    }

    /// Shares no memory: everything goes through `inner`.
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

    /// What others must know to attach this process; `None` if it shares no memory.
    pub fn offer(&self) -> Option<Offer> {
        self.half.mine().own.as_ref().filter(|_| self.is_here()).map(Own::offer)
    }

    fn is_here(&self) -> bool {
        self.half.mine().home.is_here()
    }

    /// Why there is no memory although it was asked for.
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

    /// What was written.
    pub fn sent_stats(&self) -> SentStats {
        self.half.mine().stats
    }

    /// What was read, and what happened between the processes.
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
            let mut hand_up = |arriving: Arriving<'_>| each(half.lend(inner.outbox()), class, Origin::Memory, arriving);
            links.receive(class, max, whole_max, &mut hand_up)
        };
        // As everywhere: control goes first, but cannot stop data for good.
        let (control, more_control) = receive(TrafficClass::Control, max - max / 4);
        let (data, more_data) = receive(TrafficClass::Data, max - control);
        Received { packets: control + data, more: more_control || more_data }
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

    /// Receives; out of memory, what is longer than `whole_max` when it has begun.
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
        // A flood in memory leaves room for the datagrams of others.
        let mut taken = self.receive_memory(if due { max - max / 4 } else { max }, whole_max, each);
        if due && taken.packets < max {
            let below = self.receive_below(max - taken.packets, each);
            taken.packets += below.packets;
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

    /// What was lost below. What a reader lost in memory may have been for others.
    fn loss_report(&mut self) -> LossReport {
        self.inner.loss_report()
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
    /// As for any driver, but for one less of `extra`.
    fn wait(&mut self, timeout: Option<Duration>, extra: &[BorrowedFd<'_>]) -> io::Result<Woken> {
        self.half.mine().home.check()?;
        let Self { inner, half, links, sleep, below, .. } = self;
        let own = half.mine().own.as_ref().filter(|_| !links.is_empty());
        let Some(own) = own else { return inner.wait(timeout, extra) };
        if timeout.is_none_or(|timeout| timeout >= links::LINGERS) && links.linger() {
            return Ok(Woken { traffic: true, ..Woken::default() });
        }
        sleep.begin(own.parked());
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
        // Woken by something else, it may not have looked at its sockets.
        below.warm |= woken.traffic || woken.waker;
        let knocked = woken.extra & 1 != 0;
        if knocked {
            own.drain();
            links.stats.wakes += 1;
        }
        Ok(Woken { traffic: woken.traffic || knocked, extra: woken.extra >> 1, ..woken })
    }

    fn waker(&self) -> Waker {
        self.inner.waker()
    }

    fn neighbours(&mut self) -> Option<&mut dyn Neighbours> {
        (self.half.mine().own.is_some() && self.is_here()).then_some(self)
    }
}

/// While memory is looked at turn after turn, the driver below is looked at every so many times: looking at memory
/// costs some nanoseconds, looking at two sockets about a microsecond.
const BELOW_EVERY: u32 = 16;
