//! The simulated driver: two bounded socket buffers for input, a list of packets for output, and shared memory if the
//! world has hosts. The world moves packets between drivers. The driver itself uses neither time nor chance.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::rc::Rc;

use phalanx_core::wire::{PacketNumber, Space};
use phalanx_core::{Incarnation, Origin, Packet, TrafficClass};
use phalanx_driver::{Driver, LossReport, Received, Transmit};
use phalanx_runtime::Node;

use crate::clock::MS;
use crate::memory::Memory;
use crate::tap::{Named, Tap, TapFile};

/// The kernel's charge for a packet in a socket buffer, beyond its bytes.
pub(crate) const PACKET_OVERHEAD_BYTES: usize = 512;

/// One process's sockets.
#[derive(Debug)]
pub(crate) struct SimDriver {
    outbox: SimOutbox,
    control: Socket,
    data: Socket,
    packet_bytes_max: u32,
    /// Buffer in which a packet is opened in place, because its bytes may be shared with other receivers.
    scratch: Vec<u8>,
    /// Whether the last poll found the sockets empty.
    silent: bool,
    /// Packets that found no room, or were too long, since the owner last asked.
    lost: u64,
    /// The world's time, at which records in memory become visible.
    now_ns: u64,
}

/// The sending half of a [`SimDriver`].
#[derive(Debug, Default)]
pub(crate) struct SimOutbox {
    pub(crate) sent: Vec<Outgoing>,
    /// Receivers of all packets in `sent`, one after the other.
    pub(crate) receivers: Vec<SocketAddr>,
    /// Memory that this process shares with others of its host.
    memory: Option<Memory>,
    /// Capacity of the data socket's interface, if bounded.
    egress: Option<Egress>,
    /// Packets that the full send buffer did not take, one for each receiver, since the owner last asked.
    pub(crate) refused: u64,
    /// Shows what is sent.
    tap: Option<Tap>,
    /// Packets of streams that this process cannot read: their sender, space and number.
    pub(crate) unreadable: Vec<(Incarnation, Space, PacketNumber)>,
}

/// An outgoing packet.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) class: TrafficClass,
    pub(crate) bytes: Rc<[u8]>,
    /// Number of the outbox's receivers that belong to this packet.
    pub(crate) receivers: usize,
    /// Bit set of the places in memory that receive it in clear; 0: it goes over the network.
    pub(crate) readers: u64,
}

#[derive(Debug)]
struct Socket {
    address: SocketAddr,
    queue: VecDeque<(SocketAddr, Rc<[u8]>)>,
    charged_bytes: usize,
    capacity_bytes: usize,
}

/// An interface that is slower than the process. Packets that it has not taken wait in the socket's send buffer. In the
/// simulation the packets themselves leave at once; only the process observes the full buffer.
#[derive(Debug)]
struct Egress {
    bytes_per_ms: u64,
    waiting: u64,
    at_ns: u64,
}

impl Egress {
    fn drain(&mut self, now_ns: u64) {
        let passed_ns = now_ns.saturating_sub(self.at_ns);
        self.waiting = self.waiting.saturating_sub(passed_ns.saturating_mul(self.bytes_per_ms) / MS);
        self.at_ns = now_ns;
    }

    fn is_full(&self) -> bool {
        self.waiting > EGRESS_ROOM_BYTES
    }

    /// Whether the send buffer takes `bytes` more.
    fn takes(&mut self, bytes: u64) -> bool {
        let fits = self.waiting + bytes <= EGRESS_MAX_BYTES;
        self.waiting += if fits { bytes } else { 0 };
        fits
    }
}

/// Bytes waiting for an interface at which it counts as full.
const EGRESS_ROOM_BYTES: u64 = 16 << 10;
/// Bound on the bytes waiting for it, as in the kernel's send buffer and the driver's queue behind it. More is dropped.
const EGRESS_MAX_BYTES: u64 = 1 << 20;

impl SimDriver {
    pub(crate) fn new(data: SocketAddr, control: SocketAddr, buffer_bytes: usize, packet_bytes_max: u32) -> Self {
        Self {
            outbox: SimOutbox::default(),
            control: Socket::new(control, buffer_bytes),
            data: Socket::new(data, buffer_bytes),
            packet_bytes_max,
            scratch: Vec::new(),
            silent: true,
            lost: 0,
            now_ns: 0,
        }
    }

    /// The same driver with memory that others may read.
    pub(crate) fn sharing(self, memory: Option<Memory>) -> Self {
        Self { outbox: SimOutbox { memory, ..self.outbox }, ..self }
    }

    /// Its shared memory.
    pub(crate) fn memory(&self) -> Option<&Memory> {
        self.outbox.memory.as_ref()
    }

    pub(crate) fn memory_mut(&mut self) -> Option<&mut Memory> {
        self.outbox.memory.as_mut()
    }

    /// The same driver behind an interface of this many bytes per millisecond.
    pub(crate) fn behind(self, bytes_per_ms: Option<u64>) -> Self {
        let egress = bytes_per_ms.map(|bytes_per_ms| Egress { bytes_per_ms, waiting: 0, at_ns: 0 });
        Self { outbox: SimOutbox { egress, ..self.outbox }, ..self }
    }

    /// The same driver, showing what it sends.
    pub(crate) fn shown(self, file: Option<TapFile>) -> Self {
        let tap = file.map(|file| Tap::new(file, self.data.address, self.control.address));
        Self { outbox: SimOutbox { tap, ..self.outbox }, ..self }
    }

    /// Begins an event-loop iteration.
    pub(crate) fn at(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
        if let Some(tap) = &mut self.outbox.tap {
            tap.at(now_ns);
        }
        if let Some(egress) = &mut self.outbox.egress {
            egress.drain(now_ns);
        }
    }

    /// Receives a packet. False: the socket's buffer is full, or the packet is longer than the receiver takes.
    pub(crate) fn arrive(&mut self, class: TrafficClass, from: SocketAddr, bytes: Rc<[u8]>) -> bool {
        let fits = bytes.len() <= self.packet_bytes_max as usize;
        let taken = match class {
            TrafficClass::Data => fits && self.data.arrive(from, bytes),
            TrafficClass::Control => fits && self.control.arrive(from, bytes),
        };
        self.lost += u64::from(!taken);
        taken
    }

    /// Whether packets wait to be received.
    pub(crate) fn has_input(&self) -> bool {
        !self.control.queue.is_empty() || !self.data.queue.is_empty()
    }

    /// Capacity of each socket buffer.
    pub(crate) fn buffer_bytes(&self) -> usize {
        self.data.capacity_bytes
    }

    /// Changes the capacity of each socket buffer; waiting packets stay.
    pub(crate) fn set_buffer(&mut self, bytes: usize) {
        self.control.capacity_bytes = bytes;
        self.data.capacity_bytes = bytes;
    }

    pub(crate) fn outgoing(&mut self) -> &mut SimOutbox {
        &mut self.outbox
    }
}

/// Gives the tap of a process the names that the process knows now.
pub(crate) fn learn_names(node: &mut Node<SimDriver>, name: &str) {
    let Some(tap) = &node.driver().outbox.tap else { return };
    let directory = node.process().decree_state().directory;
    let named = Named::new(node.incarnation(), directory);
    if tap.knows(named) {
        return;
    }
    let directory = directory.clone();
    if let Some(tap) = &mut node.driver_mut().outbox.tap {
        tap.learn(named, name, &directory);
    }
}

impl Socket {
    fn new(address: SocketAddr, capacity_bytes: usize) -> Self {
        Self { address, queue: VecDeque::new(), charged_bytes: 0, capacity_bytes }
    }

    fn arrive(&mut self, from: SocketAddr, bytes: Rc<[u8]>) -> bool {
        let charge = bytes.len() + PACKET_OVERHEAD_BYTES;
        // As in the kernel, a socket with some room takes a whole packet, even beyond its limit.
        if self.charged_bytes >= self.capacity_bytes {
            return false;
        }
        self.charged_bytes += charge;
        self.queue.push_back((from, bytes));
        true
    }

    fn take(&mut self) -> Option<(SocketAddr, Rc<[u8]>)> {
        let (from, bytes) = self.queue.pop_front()?;
        self.charged_bytes -= bytes.len() + PACKET_OVERHEAD_BYTES;
        Some((from, bytes))
    }
}

impl Transmit for SimOutbox {
    fn can_read(&mut self, sender: Incarnation, space: Space, number: PacketNumber) -> bool {
        !self.unreadable.contains(&(sender, space, number))
    }

    fn write_shared(&mut self, class: TrafficClass, to: &[SocketAddr], parts: [&[u8]; 3]) -> usize {
        let memory = self.memory.as_ref().filter(|memory| !memory.is_idle());
        if let Some(tap) = &self.tap {
            tap.opened(class, to, parts, |to| memory.is_some_and(|memory| memory.place_at(class, to).is_some()));
        }
        let Some(memory) = memory else { return 0 };
        let (mut readers, mut count) = (0, 0);
        for place in to.iter().filter_map(|to| memory.place_at(class, to)) {
            readers |= 1 << place;
            count += 1;
        }
        if count > 0 {
            self.sent.push(Outgoing { class, bytes: parts.concat().into(), receivers: 0, readers });
        }
        count
    }

    fn transmit(&mut self, class: TrafficClass, to: &[SocketAddr], packet: &[u8]) {
        let before = self.receivers.len();
        match self.memory.as_ref().filter(|memory| !memory.is_idle()) {
            None => self.receivers.extend_from_slice(to),
            Some(memory) => self.receivers.extend(to.iter().filter(|to| memory.place_at(class, to).is_none())),
        }
        let receivers = self.receivers.len() - before;
        if let Some(tap) = &self.tap {
            tap.datagram(class, &self.receivers[before..], packet);
        }
        if let (TrafficClass::Data, Some(egress)) = (class, &mut self.egress)
            && !egress.takes((receivers * packet.len()) as u64)
        {
            self.receivers.truncate(before);
            self.refused += receivers as u64;
            return;
        }
        if receivers > 0 {
            self.sent.push(Outgoing { class, bytes: packet.into(), receivers, readers: 0 });
        }
    }

    fn is_congested(&mut self) -> bool {
        self.egress.as_ref().is_some_and(Egress::is_full)
    }
}

impl SimDriver {
    /// Takes up to `max` packets out of memory. Control packets come first, and cannot starve data.
    fn receive_memory(
        &mut self,
        max: usize,
        each: &mut impl FnMut(&mut SimOutbox, TrafficClass, Origin, Packet<'_>),
    ) -> usize {
        let mut taken = 0;
        // Control takes at most three quarters of the batch, so that it cannot starve data.
        for (class, max) in [(TrafficClass::Control, max - max / 4), (TrafficClass::Data, max)] {
            if let Some(memory) = self.outbox.memory.as_mut() {
                // Another neighbour is read first each time, so that none starves the others.
                memory.rotate();
            }
            while taken < max
                && let Some(bytes) = self.outbox.memory.as_mut().and_then(|memory| memory.take(self.now_ns, class))
            {
                taken += 1;
                self.scratch.clear();
                self.scratch.extend_from_slice(&bytes);
                let len = self.scratch.len();
                each(&mut self.outbox, class, Origin::Memory, Packet::Given(&mut self.scratch, len));
            }
        }
        taken
    }
}

impl Driver for SimDriver {
    type Outbox = SimOutbox;

    fn receive(
        &mut self,
        max: usize,
        each: &mut impl FnMut(&mut SimOutbox, TrafficClass, Origin, Packet<'_>),
    ) -> Received {
        // A flood in memory leaves room for packets from sockets.
        let room = if self.has_input() { max - max / 4 } else { max };
        let from_memory = if self.outbox.memory.is_some() { self.receive_memory(room, each) } else { 0 };
        let more = from_memory == room;
        for taken in from_memory..max {
            let (class, packet) = match self.control.take() {
                Some(packet) => (TrafficClass::Control, packet),
                None => match self.data.take() {
                    Some(packet) => (TrafficClass::Data, packet),
                    None => {
                        self.silent = taken == from_memory;
                        return Received { packets: taken, more };
                    }
                },
            };
            let (from, bytes) = packet;
            self.scratch.clear();
            self.scratch.extend_from_slice(&bytes);
            each(&mut self.outbox, class, Origin::Network(from), Packet::Lent(&mut self.scratch));
            // As with sockets, the packet that ends a silence comes alone, whatever waits behind it.
            if std::mem::take(&mut self.silent) {
                return Received { packets: taken + 1, more: true };
            }
        }
        Received { packets: max, more: true }
    }

    fn outbox(&mut self) -> &mut SimOutbox {
        &mut self.outbox
    }

    /// Checks which processes read this one's memory. The world takes sent packets after each iteration.
    fn flush(&mut self) {
        if let Some(memory) = self.outbox.memory.as_mut() {
            memory.settle();
        }
    }

    /// Like a socket, it reports packets without room at the next call.
    fn loss_report(&mut self) -> LossReport {
        LossReport { lost: std::mem::take(&mut self.lost), ..LossReport::default() }
    }

    fn local_address(&self, class: TrafficClass) -> SocketAddr {
        match class {
            TrafficClass::Data => self.data.address,
            TrafficClass::Control => self.control.address,
        }
    }

    fn packet_bytes_max(&self) -> u32 {
        self.packet_bytes_max
    }

    /// Empty: the world itself counts losses and their reasons.
    fn counters(&self, _each: &mut dyn FnMut(&'static str, u64)) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::Endpoint;

    #[test]
    fn control_first_and_full_buffers_drop() {
        let at = |slot, class| Endpoint::new(slot, 0, class).address();
        let (data, control, peer) =
            (at(0, TrafficClass::Data), at(0, TrafficClass::Control), at(1, TrafficClass::Data));
        let mut driver = SimDriver::new(data, control, 2_000, 1500);
        let packet: Rc<[u8]> = Rc::from([1_u8; 1000]);
        assert!(driver.arrive(TrafficClass::Data, peer, Rc::clone(&packet)));
        assert!(driver.arrive(TrafficClass::Data, peer, Rc::clone(&packet)));
        assert!(!driver.arrive(TrafficClass::Data, peer, Rc::clone(&packet)), "full");
        assert!(driver.arrive(TrafficClass::Control, peer, packet), "the other socket has room");
        assert!(!driver.arrive(TrafficClass::Control, peer, Rc::from([0_u8; 1501])), "too long");
        let mut classes = Vec::new();
        let mut take = |driver: &mut SimDriver| {
            driver.receive(64, &mut |outbox, class, origin, mut bytes| {
                classes.push(class);
                bytes[0] = 9;
                let from = origin.address().expect("over the network");
                outbox.transmit(class, &[from, from], &bytes);
            })
        };
        assert_eq!(take(&mut driver), Received { packets: 1, more: true }, "the first alone");
        assert_eq!(take(&mut driver), Received { packets: 2, more: false });
        assert_eq!(classes, [TrafficClass::Control, TrafficClass::Data, TrafficClass::Data]);
        assert!(!driver.has_input());
        assert_eq!(driver.outgoing().sent.len(), 3);
        assert_eq!(driver.outgoing().receivers.len(), 6);
        assert!(driver.arrive(TrafficClass::Data, peer, Rc::from([0_u8; 10])), "room again");
    }
}
