//! Carries packets from a process's driver through the network to another process's socket.

use std::rc::Rc;

use phalanx_core::TrafficClass;
use phalanx_core::wire::Header;

use crate::address::Endpoint;
use crate::attacker::corrupt;
use crate::driver::Outgoing;
use crate::memory::{LINKS_MAX, Memory};
use crate::network::{Lost, Packet};
use crate::slot::Doom;
use crate::world::{Event, World};

impl World {
    /// The current endpoint of a slot's process.
    pub(crate) fn endpoint(&self, slot: usize, class: TrafficClass) -> Endpoint {
        Endpoint::new(slot, self.slots[slot].moves, class)
    }

    /// Gives the packets that a process sent to the network.
    pub(crate) fn carry(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        let moves = slot.moves;
        let Some(node) = slot.node.as_mut() else { return };
        let outbox = node.driver_mut().outgoing();
        self.lost[Lost::SendBuffer as usize] += std::mem::take(&mut outbox.refused);
        if outbox.sent.is_empty() {
            return;
        }
        // The lists are taken out because `send` borrows the world. They are put back below, so that their memory is
        // reused.
        let mut sent = std::mem::take(&mut outbox.sent);
        let mut receivers = std::mem::take(&mut outbox.receivers);
        let mut at = 0;
        for packet in &sent {
            if packet.readers != 0 {
                if !self.may_send(index) {
                    return;
                }
                self.write_memory(index, packet);
                continue;
            }
            let from = Endpoint::new(index, moves, packet.class);
            // Once for each packet, however many receivers it has: a multicast is sealed once.
            let header = self.examine(index, &packet.bytes);
            for to in &receivers[at..at + packet.receivers] {
                // A doomed process crashes between two receivers: some get the packet, the others do not.
                if !self.may_send(index) {
                    return;
                }
                self.counters.packets += 1;
                self.counters.packet_bytes += packet.bytes.len() as u64;
                let traffic = &mut self.slots[index].traffic;
                traffic.sent_packets += 1;
                traffic.sent_bytes += packet.bytes.len() as u64;
                match Endpoint::of(*to).filter(|to| to.index() < self.slots.len()) {
                    Some(to) => self.send(from, to, header, &packet.bytes),
                    None => self.lose(Lost::Nobody),
                }
            }
            at += packet.receivers;
        }
        sent.clear();
        receivers.clear();
        if let Some(node) = self.slots[index].node.as_mut() {
            let outbox = node.driver_mut().outgoing();
            (outbox.sent, outbox.receivers) = (sent, receivers);
        }
    }

    /// Writes a packet to a process's memory, for those of its readers that it can reach.
    fn write_memory(&mut self, index: usize, packet: &Outgoing) {
        let Some(settings) = self.settings.memory else { return };
        let header = self.examine_clear(index, &packet.bytes);
        let places = (0..LINKS_MAX).filter(|place| packet.readers >> place & 1 == 1);
        let memory = self.slots[index].memory();
        let reader = |place: usize| Some((place, Endpoint::of(memory?.address_of(place)?)?.index()));
        let mut readers: Vec<(usize, usize)> = places.filter_map(reader).collect();
        self.counters.shared += readers.len() as u64;
        let traffic = &mut self.slots[index].traffic;
        traffic.sent_packets += readers.len() as u64;
        traffic.sent_bytes += (readers.len() * packet.bytes.len()) as u64;
        let before = readers.len();
        readers.retain(|(_, to)| {
            let cut = self.net.is_cut(index, *to) && !settings.bridges;
            let stopped = self.net.is_stopped((index, *to), packet.class, header, packet.bytes.len());
            !cut && !stopped && !self.is_filtered(index, *to, packet.class, header, packet.bytes.len())
        });
        let bits = readers.iter().fold(0, |bits, (place, _)| bits | 1 << place);
        let now_ns = self.now_ns;
        if let Some(memory) = self.slots[index].memory_mut() {
            memory.count("cut", (before - readers.len()) as u64);
            memory.write(now_ns, settings.latency_ns, packet.class, bits, &packet.bytes);
        }
        for (_, to) in readers {
            if let Some(at_ns) = self.slots[to].memory().and_then(Memory::next_ns) {
                self.wake(to, at_ns);
            }
        }
    }

    /// Passes a packet in memory to the oracle for clear packets; returns its header.
    fn examine_clear(&mut self, index: usize, packet: &[u8]) -> Option<Header> {
        let header = Header::parse(packet).ok();
        let same = header.is_some_and(|h| self.clear.check((h.sender.0, h.space, h.number), packet));
        if !same {
            let text = format!("{} wrote two packets to memory as {header:?}", self.slots[index].name);
            self.violation("nonce", text);
        }
        header
    }

    /// Passes a packet to the nonce oracle; returns its header.
    fn examine(&mut self, index: usize, packet: &[u8]) -> Option<Header> {
        let Ok(header) = Header::parse(packet) else {
            let text = format!("{} sent a packet that has no header", self.slots[index].name);
            self.violation("nonce", text);
            return None;
        };
        let name = (header.sender.0, header.space, header.number);
        if !self.oracle.check(name, packet) {
            let sender = &self.slots[index].name;
            let text = format!("{sender} sealed two packets as space {}, number {}", header.space, header.number);
            self.violation("nonce", text);
        }
        Some(header)
    }

    /// Counts down the packets that a doomed process still sends. False: it has crashed.
    fn may_send(&mut self, index: usize) -> bool {
        let Some(doom) = &mut self.slots[index].doom else { return true };
        if doom.left > 0 {
            doom.left -= 1;
            return true;
        }
        let Doom { back, spare_the_last, .. } = *doom;
        self.slots[index].doom = None;
        if spare_the_last && !(self.running() > 1 && self.has_future(Some(index))) {
            return true;
        }
        self.crash(index);
        if let Some((after_ns, moved)) = back {
            self.start_later(index, after_ns, moved);
        }
        false
    }

    fn send(&mut self, from: Endpoint, to: Endpoint, header: Option<Header>, bytes: &Rc<[u8]>) {
        // Before any loss: an attacker may also replay packets that never arrived.
        self.attacker.observe(from, to, bytes);
        if self.is_filtered(from.index(), to.index(), to.class, header, bytes.len()) {
            self.lose(Lost::Cut);
            return;
        }
        let kind = header.map(|header| header.kind);
        if self.net.is_stopped((from.index(), to.index()), to.class, header, bytes.len()) {
            self.lose(Lost::Toll);
            return;
        }
        match self.net.offer(self.now_ns, from.index(), to.index(), bytes.len(), kind) {
            Err(reason) => self.lose(reason),
            Ok((first, second)) => {
                for arrival in [Some(first), second].into_iter().flatten() {
                    // Receivers share the bytes, so a damaged packet needs a copy of its own.
                    let bytes = if arrival.corrupt {
                        let mut copy = bytes.to_vec();
                        corrupt(&mut copy, &mut self.noise);
                        copy.into()
                    } else {
                        Rc::clone(bytes)
                    };
                    self.queue.push(arrival.at_ns, Event::Arrive { from, to, bytes });
                }
            }
        }
    }

    /// Whether a script loses the packet.
    fn is_filtered(
        &mut self,
        from: usize,
        to: usize,
        class: TrafficClass,
        header: Option<Header>,
        len_bytes: usize,
    ) -> bool {
        let (Some(filter), Some(header)) = (self.filter.as_mut(), header) else { return false };
        filter(&Packet { from, to, class, kind: header.kind, number: header.number.0, len_bytes })
    }

    fn lose(&mut self, reason: Lost) {
        self.lost[reason as usize] += 1;
    }

    /// Handles the arrival of a packet at its socket, if a process has that open.
    pub(crate) fn arrive(&mut self, from: Endpoint, to: Endpoint, bytes: Rc<[u8]>) {
        // An address of the slot from before a move receives nothing any more.
        let here = self.slots.get_mut(to.index()).filter(|slot| slot.moves == to.moves);
        let Some((node, traffic)) = here.and_then(|slot| Some((slot.node.as_mut()?, &mut slot.traffic))) else {
            self.lose(Lost::Nobody);
            return;
        };
        traffic.received_packets += 1;
        traffic.received_bytes += bytes.len() as u64;
        if !node.driver_mut().arrive(to.class, from.address(), bytes) {
            self.lose(Lost::Buffer);
            return;
        }
        self.wake(to.index(), self.now_ns);
    }
}
