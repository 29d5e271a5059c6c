//! The way out: packets are built, sealed and addressed; peers and their channels; the port of a view's streams.

use super::app::{AppQueue, Item, OwnedDelivery};
use super::best_effort::{Target, put_ack, put_status};
use super::counters::ProcessCounters;
use super::group_streams::ViewMeta;
use super::packet_builder::{Label, PacketBuilder};
use super::peers::Peers;
use super::transfer::Transfers;
use crate::api::{Effects, Order, Uniformity};
use crate::id::{Rank, Sequence, TrafficClass};
use crate::link::Ack;
use crate::order::{Backpressure, Deliverable, Status, StreamOutput};
use crate::wire::{Kind, PacketNumber, Space};

/// First byte of a message of the application on the data channel.
pub(super) const DATA_MESSAGE: u8 = 0;
/// First byte of a state-transfer message on the data channel.
pub(super) const DATA_STATE: u8 = 1;

/// Borrows everything of `$process` that a view's streams write to, except these streams.
macro_rules! streams_port {
    ($process:ident, $fx:expr, $meta:expr) => {
        $crate::process::port::StreamsPort {
            fx: $fx,
            net: &mut $process.net,
            app: &mut $process.app,
            peers: &mut $process.peers,
            transfers: &mut $process.transfers,
            counters: &mut $process.counters,
            attention: &mut $process.attention,
            meta: $meta,
        }
    };
}
pub(super) use streams_port;

/// Where the output of a view's streams goes.
pub(super) struct StreamsPort<'a, F: ?Sized> {
    pub(super) fx: &'a mut F,
    pub(super) net: &'a mut PacketBuilder,
    pub(super) app: &'a mut AppQueue,
    pub(super) peers: &'a mut Peers,
    pub(super) transfers: &'a mut Transfers,
    pub(super) counters: &'a mut ProcessCounters,
    pub(super) attention: &'a mut bool,
    pub(super) meta: &'a ViewMeta,
}

impl<F: Effects + ?Sized> StreamOutput for StreamsPort<'_, F> {
    fn multicast(&mut self, space: Space, number: PacketNumber, frames: &[u8]) {
        self.counters.multicast_packets += 1;
        let label = Label::for_all(Kind::Multicast, space, number);
        self.net.send(label, TrafficClass::Data, &self.meta.others, frames, self.counters, self.fx);
    }

    fn is_congested(&mut self) -> bool {
        self.fx.is_congested()
    }

    fn retransmit(&mut self, rank: Rank, space: Space, number: PacketNumber, frames: &[u8]) {
        self.counters.retransmissions += 1;
        let label = Label::for_all(Kind::Multicast, space, number).retransmitted();
        let to = std::slice::from_ref(&self.meta.addresses[rank.index()]);
        self.net.send(label, TrafficClass::Data, to, frames, self.counters, self.fx);
    }

    fn ack(&mut self, space: Space, rank: Rank, ack: &Ack, wants_stable: bool) {
        if let Some(peer) = self.peers.get_mut(self.meta.members[rank.index()]) {
            put_ack(&mut peer.direct, Target::Stream { space, wants_stable }, ack);
        }
    }

    fn status(&mut self, space: Space, rank: Option<Rank>, status: &Status) {
        match rank {
            Some(rank) => {
                if let Some(peer) = self.peers.get_mut(self.meta.members[rank.index()]) {
                    put_status(&mut peer.direct, space, status);
                }
            }
            None if self.meta.others.is_empty() => {}
            None => {
                let mut frames = Vec::with_capacity(32);
                put_status(&mut frames, space, status);
                let label = self.net.best_effort();
                self.net.send(label, TrafficClass::Data, &self.meta.others, &frames, self.counters, self.fx);
            }
        }
    }

    #[inline]
    fn deliver(&mut self, d: Deliverable<'_>) -> bool {
        if !self.meta.is_addressed(&d) {
            self.counters.messages_astray += 1;
            return true;
        }
        let delivery = self.meta.delivery(d, false);
        self.counters.delivered_bytes += d.payload.len() as u64;
        // A member whose state is not complete yet gets deliveries of its view only after the state.
        let transfer = self.transfers.holds_back(self.meta.group);
        if transfer || !self.app.is_open(self.meta.group, self.fx) {
            self.counters.app_full += u64::from(!transfer && self.app.is_empty_at(self.app.inbox_of(self.meta.group)));
            let held = OwnedDelivery::of(&delivery, self.meta.space, d.rank);
            self.transfers.hold(self.app, Item::Delivery(held), self.meta.group);
            return false;
        }
        self.transfers.record(&delivery);
        self.counters.delivered += 1;
        self.fx.deliver(&delivery);
        true
    }

    fn sent(&mut self, seq: Sequence, order: Order, uniformity: Uniformity, payload: &[u8]) {
        self.counters.count_sent(payload.len());
        self.fx.sent(self.meta.group, self.meta.view, seq, order, uniformity, payload);
    }

    /// At once, also while items wait: who waits for a receipt need not take deliveries. An application that was told
    /// that no quorum is heard learns first that one is.
    fn stable(&mut self, seq: Sequence) {
        let ViewMeta { group, view, .. } = *self.meta;
        if self.app.is_outside() {
            return self.app.push(Item::Stable { group, view, seq });
        }
        self.fx.stable(group, view, seq);
    }

    /// In order with what the application learns of the cut: nobody else may know yet that the view ended.
    fn stable_at_end(&mut self, seq: Sequence) {
        let ViewMeta { group, view, .. } = *self.meta;
        self.app.push(Item::Stable { group, view, seq });
    }

    fn backpressure(&mut self, bound: Backpressure) {
        let counter = match bound {
            Backpressure::Outbox => &mut self.counters.outbox_full,
            Backpressure::Window => &mut self.counters.window_full,
            Backpressure::Credit => &mut self.counters.held_by_credit,
            Backpressure::Acks => &mut self.counters.held_by_acks,
            Backpressure::Members => &mut self.counters.held_for_members,
            Backpressure::Quorum => &mut self.counters.held_for_quorum,
            Backpressure::Orders => &mut self.counters.orders_held,
        };
        *counter += 1;
    }

    #[inline]
    fn can_read(&mut self, space: Space, rank: Rank, number: PacketNumber) -> bool {
        self.fx.can_read(self.meta.members[rank.index()], space, number)
    }

    fn nonsense(&mut self, _rank: Rank) {
        self.counters.nonsense_streams += 1;
        // The reader has stopped for good in this view. Only a view change can decide who is at fault.
        *self.attention = true;
    }
}
