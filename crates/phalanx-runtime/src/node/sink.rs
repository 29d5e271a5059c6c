//! Joins a driver's sending half and a handler into the core's effect sink, and records some of the events.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use phalanx_core::member::{Directory, FounderRecord};
use phalanx_core::wire::{PacketNumber, Space};
use phalanx_core::{
    ClearPacket, Decree, Delivery, Effects, Event, GroupId, InboxId, Incarnation, LeaveReason, MessageToOne, Order,
    Origin, Sequence, Snapshot, ToOneOutcome, TrafficClass, Uniformity, ViewNumber,
};
use phalanx_driver::Transmit;

use crate::handler::Handler;

/// What a node remembers of the events that its handler received.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// The handler learned that a decided view does not hold this incarnation, or that it renounced its cell instance.
    pub(super) excluded: bool,
    /// The handler learned that the graceful leave is done.
    pub(super) left: bool,
    /// Names of the groups this process is a member of.
    pub(super) names: BTreeMap<GroupId, Arc<str>>,
    /// Names of groups whose membership is over, or that refused this process, since the node last checked.
    pub(super) over: Vec<Arc<str>>,
}

pub(super) struct Sink<'a, T: ?Sized, H> {
    pub(super) outbox: &'a mut T,
    pub(super) handler: &'a mut H,
    pub(super) watch: &'a mut Watch,
}

#[deny(clippy::missing_trait_methods, reason = "a decorator forwards every method, those with a default too")]
impl<T: Transmit + ?Sized, H: Handler> Effects for Sink<'_, T, H> {
    fn write_shared(&mut self, class: TrafficClass, to: &[SocketAddr], head: &[u8], frames: &[u8]) -> usize {
        self.handler.before_transmit();
        self.outbox.write_shared(class, to, [head, frames, &[]])
    }

    fn transmit(&mut self, class: TrafficClass, to: &[SocketAddr], packet: &[u8]) {
        self.handler.before_transmit();
        self.outbox.transmit(class, to, packet);
    }

    #[inline]
    fn opened(&mut self, class: TrafficClass, origin: Origin, packet: ClearPacket<'_>) {
        if let Some(tap) = self.outbox.tap() {
            tap.opened(class, origin, &packet);
        }
    }

    fn installed(&mut self, directory: &Directory, decree: &Decree<'_>) {
        if let Some(tap) = self.outbox.tap().filter(|tap| tap.is_attached()) {
            tap.learn(directory);
        }
        self.handler.installed(directory, decree);
    }

    fn is_congested(&mut self) -> bool {
        self.outbox.is_congested()
    }

    #[inline]
    fn can_read(&mut self, sender: Incarnation, space: Space, number: PacketNumber) -> bool {
        self.outbox.can_read(sender, space, number)
    }

    fn ready(&mut self, inbox: InboxId) -> bool {
        self.handler.ready(inbox)
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
        self.handler.sent(group, view, seq, order, uniformity, payload);
    }

    fn stable(&mut self, group: GroupId, view: ViewNumber, seq: Sequence) {
        self.handler.stable(group, view, seq);
    }

    fn keep_record(&mut self, record: &FounderRecord) -> bool {
        self.handler.keep_record(record)
    }

    fn deliver(&mut self, delivery: &Delivery<'_>) {
        self.handler.deliver(delivery);
    }

    fn event(&mut self, event: Event) {
        match &event {
            Event::GroupView(view) => {
                self.watch.names.insert(view.group, Arc::clone(&view.name));
            }
            Event::GroupLeft { group, why } => {
                let name = self.watch.names.remove(group);
                self.watch.over.extend(name.filter(|_| *why != LeaveReason::Anew));
            }
            Event::GroupRefused { name } | Event::GroupDiffers { name, .. } | Event::GroupDomains { name, .. } => {
                self.watch.over.push(Arc::clone(name));
            }
            Event::Excluded { .. } | Event::Renounced { .. } => self.watch.excluded = true,
            Event::Left => self.watch.left = true,
            _ => {}
        }
        self.handler.event(event);
    }

    fn message(&mut self, from: Incarnation, payload: &[u8]) {
        self.handler.message(from, payload);
    }

    fn to_one(&mut self, message: &MessageToOne<'_>) {
        self.handler.to_one(message);
    }

    fn settled(&mut self, group: GroupId, to: Incarnation, outcome: ToOneOutcome, messages: u64) {
        self.handler.settled(group, to, outcome, messages);
    }

    fn snapshot(&mut self, group: GroupId) -> Option<Box<dyn Snapshot>> {
        self.handler.snapshot(group)
    }

    fn restore(&mut self, group: GroupId, chunk: &[u8]) {
        self.handler.restore(group, chunk);
    }
}
