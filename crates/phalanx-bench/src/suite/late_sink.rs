//! The core of Phalanx as if its layers were bound late: every effect is a dynamic call, and every packet is wrapped in a
//! descriptor, queued, and put to the next layer.

use std::collections::VecDeque;
use std::hint::black_box;
use std::net::SocketAddr;

use phalanx_runtime::core::member::{Directory, FounderRecord};
use phalanx_runtime::core::wire::{PacketNumber, Space};
use phalanx_runtime::core::{
    ClearPacket, Decree, Delivery, Effects, Event, GroupId, InboxId, Incarnation, MessageToOne, Order, Origin,
    Sequence, Snapshot, ToOneOutcome, TrafficClass, Uniformity, ViewNumber,
};

use super::core_loop::{Sink, Wire};

/// A sink that is chosen when the program runs.
pub(crate) struct LateSink(Box<dyn Sink>);

impl Default for LateSink {
    fn default() -> Self {
        // The compiler must not know which one it is.
        Self(black_box(Box::new(Descriptors::default())))
    }
}

impl Sink for LateSink {
    fn wire(&self) -> &Wire {
        self.0.wire()
    }

    fn wire_mut(&mut self) -> &mut Wire {
        self.0.wire_mut()
    }

    fn arrive(&mut self, packet: Vec<u8>) -> Vec<u8> {
        self.0.arrive(packet)
    }
}

#[deny(clippy::missing_trait_methods, reason = "every effect is a dynamic call, those with a default too")]
impl Effects for LateSink {
    fn write_shared(&mut self, class: TrafficClass, to: &[SocketAddr], head: &[u8], frames: &[u8]) -> usize {
        self.0.write_shared(class, to, head, frames)
    }

    fn transmit(&mut self, class: TrafficClass, to: &[SocketAddr], packet: &[u8]) {
        self.0.transmit(class, to, packet);
    }

    fn opened(&mut self, class: TrafficClass, origin: Origin, packet: ClearPacket<'_>) {
        self.0.opened(class, origin, packet);
    }

    fn installed(&mut self, directory: &Directory, decree: &Decree<'_>) {
        self.0.installed(directory, decree);
    }

    fn is_congested(&mut self) -> bool {
        self.0.is_congested()
    }

    fn can_read(&mut self, sender: Incarnation, space: Space, number: PacketNumber) -> bool {
        self.0.can_read(sender, space, number)
    }

    fn ready(&mut self, inbox: InboxId) -> bool {
        self.0.ready(inbox)
    }

    fn sent(
        &mut self,
        group: GroupId,
        view: ViewNumber,
        seq: Sequence,
        order: Order,
        uniformity: Uniformity,
        payload: &[u8],
    ) {
        self.0.sent(group, view, seq, order, uniformity, payload);
    }

    fn stable(&mut self, group: GroupId, view: ViewNumber, seq: Sequence) {
        self.0.stable(group, view, seq);
    }

    fn keep_record(&mut self, record: &FounderRecord) -> bool {
        self.0.keep_record(record)
    }

    fn deliver(&mut self, delivery: &Delivery<'_>) {
        self.0.deliver(delivery);
    }

    fn event(&mut self, event: Event) {
        self.0.event(event);
    }

    fn to_one(&mut self, message: &MessageToOne<'_>) {
        self.0.to_one(message);
    }

    fn settled(&mut self, group: GroupId, to: Incarnation, outcome: ToOneOutcome, messages: u64) {
        self.0.settled(group, to, outcome, messages);
    }

    fn message(&mut self, from: Incarnation, payload: &[u8]) {
        self.0.message(from, payload);
    }

    fn snapshot(&mut self, group: GroupId) -> Option<Box<dyn Snapshot>> {
        self.0.snapshot(group)
    }

    fn restore(&mut self, group: GroupId, chunk: &[u8]) {
        self.0.restore(group, chunk);
    }
}

/// A packet between two layers.
struct Descriptor {
    way: Way,
    data: Vec<u8>,
}

/// Where a packet goes. Every layer has to look.
#[derive(Clone, Copy)]
enum Way {
    Down(TrafficClass),
    Up,
}

/// A layer below the core.
trait Layer {
    fn put(&mut self, descriptor: Box<Descriptor>, wire: &mut Wire, up: &mut Option<Box<Descriptor>>);
}

/// The layer that is a driver: it sends what goes down, and hands up what comes.
struct Driver;

impl Layer for Driver {
    fn put(&mut self, descriptor: Box<Descriptor>, wire: &mut Wire, up: &mut Option<Box<Descriptor>>) {
        match descriptor.way {
            Way::Down(class) => wire.transmit(class, &[SocketAddr::from(([127, 0, 0, 1], 0))], &descriptor.data),
            Way::Up => *up = Some(descriptor),
        }
    }
}

/// A sink that queues descriptors for a layer, and runs the queue.
struct Descriptors {
    wire: Wire,
    queue: VecDeque<Box<Descriptor>>,
    /// What came up and the core has not taken yet.
    up: Option<Box<Descriptor>>,
    below: Box<dyn Layer>,
}

impl Default for Descriptors {
    fn default() -> Self {
        let below = black_box(Box::new(Driver));
        Self { wire: Wire::default(), queue: VecDeque::new(), up: None, below }
    }
}

impl Descriptors {
    fn put(&mut self, way: Way, data: Vec<u8>) {
        self.queue.push_back(Box::new(Descriptor { way, data }));
        while let Some(descriptor) = self.queue.pop_front() {
            self.below.put(descriptor, &mut self.wire, &mut self.up);
        }
    }
}

impl Sink for Descriptors {
    fn wire(&self) -> &Wire {
        &self.wire
    }

    fn wire_mut(&mut self) -> &mut Wire {
        &mut self.wire
    }

    fn arrive(&mut self, packet: Vec<u8>) -> Vec<u8> {
        self.put(Way::Up, packet);
        self.up.take().map_or_else(Vec::new, |descriptor| descriptor.data)
    }
}

impl Effects for Descriptors {
    fn transmit(&mut self, class: TrafficClass, to: &[SocketAddr], packet: &[u8]) {
        // The layer below may use it later, so it gets a copy of its own.
        to.iter().for_each(|_| self.put(Way::Down(class), packet.to_vec()));
    }

    fn deliver(&mut self, delivery: &Delivery<'_>) {
        self.wire.deliver(delivery);
    }

    fn event(&mut self, event: Event) {
        self.wire.event(event);
    }
}
