//! The driver contract: what the event loop that polls a driver relies on. A new driver implements [`Driver`].

use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use phalanx_core::wire::{PacketNumber, Space};
use phalanx_core::{Arriving, Incarnation, Origin, Packet, TrafficClass};

use crate::shm::Neighbours;
use crate::tap::Tap;
use crate::waker::Waker;

/// The sending half of a driver.
pub trait Transmit {
    /// Writes a packet in clear, given in parts, to shared memory for those of `to` that read this process's memory.
    /// Returns how many of `to` that reaches.
    ///
    /// A following [`Self::transmit`] with the same `to` sends to the others only. A driver that shares no memory
    /// returns 0.
    fn write_shared(&mut self, _lane: TrafficClass, _to: &[SocketAddr], _parts: [&[u8]; 3]) -> usize {
        0
    }

    /// Sends a packet, given in parts, by a system call at once, without copying it into a queue.
    ///
    /// Returns false and sends nothing if packets are queued before it, if the system did not take it, or if the driver
    /// has no such path. The caller then passes it to [`Self::transmit`].
    fn send_unbuffered(&mut self, _lane: TrafficClass, _to: SocketAddr, _parts: [&[u8]; 3]) -> bool {
        false
    }

    /// Queues `packet` for each of `to` that [`Self::write_shared`] does not reach; all of them get the same bytes.
    ///
    /// The bytes are copied once, or sent, before the call returns. Arrival is not promised. A packet that the system
    /// refuses is counted and not reported here, because the layer above retransmits what is lost anyway.
    fn transmit(&mut self, class: TrafficClass, to: &[SocketAddr], packet: &[u8]);

    /// Queues `packet` as a datagram for each of `to`, also for those that [`Self::write_shared`] reaches: their process may
    /// be dead, with its memory still mapped here.
    fn transmit_datagram(&mut self, class: TrafficClass, to: &[SocketAddr], packet: &[u8]) {
        self.transmit(class, to, packet);
    }

    /// Whether this process can parse the given packet of a member's stream. Only a simulated driver that injects a
    /// defect returns false.
    #[inline]
    fn can_read(&mut self, _sender: Incarnation, _space: Space, _number: PacketNumber) -> bool {
        true
    }

    /// Where this driver shows packets; see `docs/tap.md`. None: it shows none.
    #[inline]
    fn tap(&mut self) -> Option<&mut Tap> {
        None
    }

    /// Whether the system takes no more packets of [`TrafficClass::Data`] for now. Packets transmitted meanwhile are
    /// queued up to a small bound and dropped beyond it. The answer holds until a flush, or a transmit that made room
    /// for itself, finds otherwise.
    fn is_congested(&mut self) -> bool {
        false
    }
}

/// Moves datagrams. Calls are bound at compile time and allocate nothing per packet.
///
/// A driver knows bytes and addresses, never views or members. In a forked child it sends and receives nothing, and a
/// wait is an error; see [`crate::fork`].
pub trait Driver {
    /// The sending half. It is a type of its own so that the callback of [`Driver::receive`] can transmit while
    /// the receiving half still holds the packet.
    type Outbox: Transmit + ?Sized;

    /// Hands each waiting packet, in place, to `each`, together with the sending half. Never blocks.
    ///
    /// Takes at most `max` datagrams, those of [`TrafficClass::Control`] first. It may take fewer than wait;
    /// [`Received::more`] reports that. While nothing arrives, a driver may skip a class until one of the next calls,
    /// so that polling an idle socket is cheap. It skips none after [`Wait::wait`].
    fn receive(
        &mut self,
        max: usize,
        each: &mut impl FnMut(&mut Self::Outbox, TrafficClass, Origin, Packet<'_>),
    ) -> Received;

    /// Like [`Self::receive`], but a driver may hand up a long packet as soon as its header has arrived. The remaining
    /// payload then stays where it is until the callback takes it.
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

    /// How many packets of that length the system buffers for this process until it receives them. 0: unknown or
    /// unbounded.
    fn receive_packets(&self) -> u32 {
        0
    }

    /// The packets lost and refused since the last call, and how full the receive buffer is. Cheap enough to be called
    /// each time the input is drained. All zero from a driver that does not know.
    fn loss_report(&mut self) -> LossReport {
        LossReport::default()
    }

    /// Destinations of data packets that the system reported to have no such socket, or no route, since the last call. At
    /// most 64 are kept, each once. A report may be late, and another host can forge it. None from a driver without
    /// reports.
    fn unreachable(&mut self) -> Vec<SocketAddr> {
        Vec::new()
    }

    /// Passes every counter of the driver, by name, to `each`, in a fixed order.
    fn counters(&self, each: &mut dyn FnMut(&'static str, u64));
}

/// The outcome of one receive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Packets taken from below.
    pub packets: usize,
    /// More may wait: the bound was reached, or the driver handed up the first packet after a silence without checking
    /// for a second, so that the answer to it goes out sooner.
    pub more: bool,
}

/// A driver's own losses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LossReport {
    /// Datagrams for this process that were dropped below since the last report: a lower bound. Any value above zero is
    /// certain loss.
    pub lost: u64,
    /// Packets that the system refused since the last report; the driver kept them for later or dropped them.
    pub refused: u64,
    /// Bytes accounted to the receive buffer (with the kernel's overhead) when the driver last read it.
    pub held_bytes: u64,
    /// The limit of that accounting, in bytes. 0: unknown.
    pub capacity_bytes: u64,
}

/// A driver whose thread can sleep until something happens.
pub trait Wait: Driver {
    /// Sleeps until a datagram waits, the [`Waker`] fires, one of `extra` becomes readable, or `timeout` has
    /// passed (`None`: no limit). May return early for no reason. `extra` beyond [`EXTRA_MAX`] is not watched.
    ///
    /// # Errors
    /// The error of `poll`, except an interrupted call. [`crate::fork::Forked`], wrapped, in a forked child.
    fn wait(&mut self, timeout: Option<Duration>, extra: &[BorrowedFd<'_>]) -> io::Result<Woken>;

    /// A handle with which other threads end [`Wait::wait`].
    fn waker(&self) -> Waker;

    /// Control over the processes of this host that are reached through memory, if this driver shares any.
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

/// From this length on a packet does not wait for a flush, and its sleeping reader is woken at once: the reader copies
/// one packet while the sender makes the next. Where the caller wants it, such a packet is handed up as soon as its
/// header has arrived.
pub(crate) const LONG_BYTES: usize = 16 << 10;
