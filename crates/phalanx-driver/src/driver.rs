//! The contract between a driver and whoever turns it.

use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use phalanx_core::{Arriving, Incarnation, Origin, Packet, TrafficClass};

use crate::shm::Neighbours;
use crate::waker::Waker;

/// The sending half of a driver.
pub trait Transmit {
    /// Hands a packet in clear, given in parts, to those of `to` that read this process's memory, and gives their count.
    /// [`Self::transmit`] with the same `to` then goes to the others alone. A driver that shares no memory gives 0.
    fn write_shared(&mut self, _lane: TrafficClass, _to: &[SocketAddr], _parts: [&[u8]; 3]) -> usize {
        0
    }

    /// Hands a packet, given in parts, to the system at once: nothing of it is copied here. False: something waits before it, or the
    /// system did not take it, or this driver cannot; it is to be given to [`Self::transmit`].
    fn send_unbuffered(&mut self, _lane: TrafficClass, _to: SocketAddr, _parts: [&[u8]; 3]) -> bool {
        false
    }

    /// Queues `packet`, the same bytes, for each of `to` that [`Self::write_shared`] does not reach. The bytes are copied once, or sent, before the call
    /// returns. Nothing is promised about arrival; what the system refuses is counted and never reported here,
    /// because the layer above retransmits what is lost anyway.
    fn transmit(&mut self, class: TrafficClass, to: &[SocketAddr], packet: &[u8]);

    /// Whether this process can read a packet of a member's stream. Only a simulated driver that plays a defect says no.
    #[inline]
    fn can_read(&mut self, _sender: Incarnation, _space: u32, _number: u64) -> bool {
        true
    }

    /// The system takes no more packets of [`TrafficClass::Data`] for now: what is transmitted meanwhile waits in little room, and is
    /// dropped beyond. So until a flush, or a transmit that made room for itself, has found otherwise.
    fn is_congested(&mut self) -> bool {
        false
    }
}

/// Moves datagrams. Calls are bound at compile time and allocate nothing per packet.
///
/// A driver knows bytes and addresses, never views or members. In a forked child it is dead: it sends and receives nothing,
/// and a wait is an error; see [`crate::fork`].
pub trait Driver {
    /// The sending half. It is a type of its own so that the callback of [`Driver::receive`] can transmit while
    /// the receiving half still holds the packet.
    type Outbox: Transmit + ?Sized;

    /// Hands each waiting packet, in place, to `each`, together with the sending half. Takes at most `max`
    /// datagrams, those of [`TrafficClass::Control`] first, and may take fewer than wait: [`Received::more`] says so. Never
    /// blocks. While nothing comes a driver may leave a class for one of the next calls, so that a look at nothing is
    /// cheap; not after [`Wait::wait`].
    fn receive(
        &mut self,
        max: usize,
        each: &mut impl FnMut(&mut Self::Outbox, TrafficClass, Origin, Packet<'_>),
    ) -> Received;

    /// As [`Self::receive`], but that a driver may hand up a long packet when its beginning is here, and leave the rest where it
    /// lies for whoever takes it.
    fn receive_header_first(
        &mut self,
        max: usize,
        each: &mut impl FnMut(&mut Self::Outbox, TrafficClass, Origin, Arriving<'_>),
    ) -> Received {
        self.receive(max, &mut |outbox, class, origin, packet| each(outbox, class, origin, Arriving::Whole(packet)))
    }

    /// The sending half, between receives.
    fn outbox(&mut self) -> &mut Self::Outbox;

    /// Hands queued packets to the kernel (or the next layer below), those of [`TrafficClass::Control`] first.
    fn flush(&mut self);

    /// Where this driver receives `class`.
    fn local_address(&self, class: TrafficClass) -> SocketAddr;

    /// The longest packet it can receive, in bytes.
    fn packet_bytes_max(&self) -> u32;

    /// How many packets of that length the buffer holds in which the system keeps data for this process until it receives.
    /// 0: not known, or no such bound.
    fn receive_packets(&self) -> u32 {
        0
    }

    /// What this driver lost and refused since it was last asked, and how full its receive buffer is. Cheap enough to
    /// be asked after every drained input. Zeros from a driver that cannot tell.
    fn loss_report(&mut self) -> LossReport {
        LossReport::default()
    }

    /// Every counter of the driver, by name, in a fixed order.
    fn counters(&self, each: &mut dyn FnMut(&'static str, u64));
}

/// What a receive took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Packets taken from below.
    pub packets: usize,
    /// More may wait: the bound was met, or a driver gave the first packet after a silence without looking for a second,
    /// so that the answer to it goes out the sooner.
    pub more: bool,
}

/// What a driver knows of its own losses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LossReport {
    /// Datagrams that came for this process and were dropped below since the last report: at least so many. More than
    /// zero means certain loss.
    pub lost: u64,
    /// Packets that the system would not take since the last report: it was asked to send them and put them off, or
    /// they were dropped.
    pub refused: u64,
    /// What waits to be received, in bytes as the receive buffer is charged for it, when the driver last looked.
    pub held_bytes: u64,
    /// What the receive buffer may be charged. Zero: unknown.
    pub capacity_bytes: u64,
}

/// A driver whose thread can sleep until something happens.
pub trait Wait: Driver {
    /// Sleeps until a datagram waits, the [`Waker`] fires, one of `extra` becomes readable, or `timeout` has
    /// passed (`None`: no limit). May return early for no reason. `extra` beyond [`EXTRA_MAX`] is not watched.
    ///
    /// # Errors
    /// What `poll` reports; an interrupted call is not an error. [`crate::fork::Forked`] inside, in a forked child.
    fn wait(&mut self, timeout: Option<Duration>, extra: &[BorrowedFd<'_>]) -> io::Result<Woken>;

    /// A handle by which other threads end [`Wait::wait`].
    fn waker(&self) -> Waker;

    /// What reaches processes of this host through memory, if this driver does.
    fn neighbours(&mut self) -> Option<&mut dyn Neighbours> {
        None
    }
}

/// The most extra descriptors one [`Wait::wait`] watches.
pub const EXTRA_MAX: usize = 64;

/// What ended a [`Wait::wait`]. Several may be true; none is true after a timeout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Woken {
    /// A datagram waits, or the kernel takes packets again.
    pub traffic: bool,
    /// The waker fired.
    pub waker: bool,
    /// At least one extra descriptor is readable: bit `i` stands for `extra[i]`.
    pub extra: u64,
}

/// Packets of so many bytes do not wait for a flush, nor do those who sleep until they come: the other side begins with one
/// while the next is made. They are handed up when they have begun, where that is wanted.
pub(crate) const LONG_BYTES: usize = 16 << 10;
