//! The way out: packets are built, sealed and addressed; peers and their channels; the port of a view's streams.

use std::net::SocketAddr;
use std::sync::Arc;

use super::app::{AppQueue, Item, OwnedDelivery};
use super::best_effort::{Target, put_ack, put_status};
use super::counters::ProcessCounters;
use super::peers::Peers;
use super::transfer::Transfers;
use crate::api::{Delivery, Effects, GroupTerms, Order, Uniformity};
use crate::id::{GroupId, Incarnation, Rank, Sequence, TrafficClass, ViewNumber};
use crate::link::{Ack, Channel};
use crate::order::{Backpressure, Deliverable, Status, StreamOutput, ViewStreams};
use crate::seal::{ReplayWindow, Sealer, Security, associated};
use crate::time::Instant;
use crate::wire::{Header, Kind, PacketNumber, Space, cell_tag};

/// First byte of a message of the application on the data channel.
pub(super) const DATA_MESSAGE: u8 = 0;
/// First byte of a state-transfer message on the data channel.
pub(super) const DATA_STATE: u8 = 1;

/// Packet spaces of this process that no view agrees on. Agreed spaces count up from 1, and those of channels count
/// down from [`CHANNEL_SPACES`]. They never meet within an incarnation. A collision would use one nonce twice.
const HANDSHAKE_SPACE: Space = Space(u32::MAX);
const DIRECT_SPACE: Space = Space(u32::MAX - 1);
const BEST_EFFORT_SPACE: Space = Space(u32::MAX - 2);
const CHANNEL_SPACES: Space = Space(u32::MAX - 16);

/// Identifies a packet of this process and its receiver.
#[derive(Clone, Copy, Debug)]
pub(super) struct Label {
    pub(super) kind: Kind,
    pub(super) space: Space,
    pub(super) number: PacketNumber,
    /// The only process that can open it, for kinds that are addressed.
    pub(super) dest: Incarnation,
    /// Whether it was sent before under this number, with the same frames.
    pub(super) is_retransmission: bool,
}

impl Label {
    /// A label for a packet to many receivers.
    pub(super) fn for_all(kind: Kind, space: Space, number: PacketNumber) -> Self {
        Self { kind, space, number, dest: Incarnation::NONE, is_retransmission: false }
    }

    /// The same label, for a retransmission.
    pub(super) fn retransmitted(self) -> Self {
        Self { is_retransmission: true, ..self }
    }
}

/// Builds and sends packets: in clear through shared memory, sealed elsewhere.
pub(super) struct PacketBuilder {
    sealer: Sealer,
    cell_tag: u32,
    me: Incarnation,
    next_channel_space: Space,
    handshake: PacketNumber,
    direct: PacketNumber,
    best_effort: PacketNumber,
    buffer: Vec<u8>,
}

impl PacketBuilder {
    pub(super) fn new(security: &Security, cell: &str, me: Incarnation) -> Self {
        Self {
            sealer: Sealer::new(security, cell, me),
            cell_tag: cell_tag(cell),
            me,
            next_channel_space: CHANNEL_SPACES,
            handshake: PacketNumber(0),
            direct: PacketNumber(0),
            best_effort: PacketNumber(0),
            buffer: Vec::with_capacity(65_536),
        }
    }

    /// A packet space for a channel that was never used before.
    pub(super) fn channel_space(&mut self) -> Space {
        self.next_channel_space.0 -= 1;
        self.next_channel_space
    }

    /// Sends a packet to each of `to`.
    pub(super) fn send(
        &mut self,
        label: Label,
        class: TrafficClass,
        to: &[SocketAddr],
        frames: &[u8],
        counters: &mut ProcessCounters,
        fx: &mut impl Effects,
    ) {
        if to.is_empty() {
            return;
        }
        let Label { kind, space, number, dest, is_retransmission } = label;
        let header = Header { kind, cell_tag: self.cell_tag, sender: self.me, space, number }.to_bytes();
        let shared = fx.write_shared(class, to, &associated(&header, dest), frames);
        counters.packets_shared += shared as u64;
        let Some(rest @ 1..) = to.len().checked_sub(shared) else { return };
        counters.datagrams_sent += rest as u64;
        self.buffer.clear();
        self.buffer.extend_from_slice(&header);
        self.buffer.extend_from_slice(frames);
        // A number is sealed twice only for a retransmission, and then with the same frames: the same bytes come out,
        // and the nonce protects nothing new.
        if is_retransmission {
            self.sealer.seal_retransmission(dest, &mut self.buffer);
        } else {
            self.sealer.seal(dest, &mut self.buffer);
        }
        fx.transmit(class, to, &self.buffer);
    }

    /// The label of the next handshake packet.
    pub(super) fn handshake(&mut self) -> Label {
        self.handshake.0 += 1;
        Label::for_all(Kind::Handshake, HANDSHAKE_SPACE, self.handshake)
    }

    /// The label of the next direct packet to `dest`.
    pub(super) fn direct(&mut self, dest: Incarnation) -> Label {
        self.direct.0 += 1;
        Label { dest, ..Label::for_all(Kind::Direct, DIRECT_SPACE, self.direct) }
    }

    /// The label of the next best-effort multicast packet.
    pub(super) fn best_effort(&mut self) -> Label {
        self.best_effort.0 += 1;
        Label::for_all(Kind::BestEffortMulticast, BEST_EFFORT_SPACE, self.best_effort)
    }
}

/// State that this process keeps for another process.
pub(super) struct Peer {
    pub(super) data: SocketAddr,
    pub(super) control: SocketAddr,
    /// Its rank in the cell view, if it is a member.
    pub(super) rank: Option<Rank>,
    pub(super) control_channel: Channel,
    pub(super) data_channel: Channel,
    pub(super) direct_seen: ReplayWindow,
    pub(super) best_effort_seen: ReplayWindow,
    /// Whether a message on one of its channels made no sense.
    pub(super) is_unreadable: bool,
    /// Frames for its next direct packet.
    pub(super) direct: Vec<u8>,
    /// Bytes of frames that fit in a packet to it.
    pub(super) packet_room: usize,
}

impl Peer {
    pub(super) fn new(
        net: &mut PacketBuilder,
        data: SocketAddr,
        control: SocketAddr,
        window: u64,
        packet_room: usize,
        now: Instant,
    ) -> Self {
        Self {
            data,
            control,
            rank: None,
            control_channel: Channel::new(net.channel_space(), window, now),
            data_channel: Channel::new(net.channel_space(), window, now),
            direct_seen: ReplayWindow::default(),
            best_effort_seen: ReplayWindow::default(),
            is_unreadable: false,
            direct: Vec::new(),
            packet_room,
        }
    }
}

impl Peer {
    /// Whether the channels and the next direct packet have nothing to do, now or later, unless something arrives.
    #[inline]
    pub(super) fn is_at_rest(&self) -> bool {
        self.direct.is_empty() && self.control_channel.is_at_rest() && self.data_channel.is_at_rest()
    }

    /// Checks what must always hold.
    pub(super) fn check_invariants(&self) {
        self.control_channel.check_invariants();
        self.data_channel.check_invariants();
        assert_ne!(
            self.control_channel.space, self.data_channel.space,
            "two channels number their packets in one space"
        );
    }
}

/// A view's streams and what their packets need.
pub(super) struct GroupStreams {
    pub(super) view_streams: ViewStreams,
    pub(super) meta: ViewMeta,
    /// Whether something changed since its last poll.
    pub(super) touched: bool,
    /// When the next poll is due although nothing changes, as of the last one.
    due: Option<Instant>,
}

impl GroupStreams {
    pub(super) fn new(view_streams: ViewStreams, meta: ViewMeta) -> Self {
        Self { view_streams, meta, touched: true, due: None }
    }

    /// Whether a poll has something to do.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.touched || self.due.is_some_and(|at| at <= now)
    }

    /// Notes that it was polled. If it `worked`, the next poll checks it again.
    pub(super) fn rests(&mut self, worked: bool) {
        self.touched = worked;
        self.due = self.view_streams.deadline();
    }

    /// When its next poll is due.
    pub(super) fn deadline(&self) -> Option<Instant> {
        if self.touched { self.view_streams.deadline() } else { self.due }
    }
}

/// Facts on a group view beside its streams.
pub(super) struct ViewMeta {
    pub(super) group: GroupId,
    pub(super) name: Arc<str>,
    pub(super) view: ViewNumber,
    /// The first view of this group that this process was in.
    pub(super) since: ViewNumber,
    /// The latest view since then that the application was notified of. Before the first, the application sends
    /// nothing.
    pub(super) told: Option<ViewNumber>,
    pub(super) space: Space,
    pub(super) members: Vec<Incarnation>,
    /// Data addresses by rank. `others` has them without this process's own.
    pub(super) addresses: Vec<SocketAddr>,
    pub(super) others: Vec<SocketAddr>,
    /// Terms agreed for the group.
    pub(super) terms: GroupTerms,
    /// Whether enough members hold the group's state, as last reported to the application.
    pub(super) adequate: bool,
}

impl ViewMeta {
    /// Turns a delivery of one of the streams into what the application gets.
    #[inline]
    pub(super) fn delivery<'a>(&self, d: Deliverable<'a>, replayed: bool) -> Delivery<'a> {
        Delivery {
            group: self.group,
            view: self.view,
            sender: self.members[d.rank.index()],
            seq: d.seq,
            order: d.order,
            uniformity: d.uniformity,
            position: d.position,
            replayed,
            payload: d.payload,
        }
    }

    pub(super) fn rank(&self, who: Incarnation) -> Option<Rank> {
        self.members.iter().position(|&m| m == who).map(Rank::from_index)
    }
}

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
pub(super) struct StreamsPort<'a, F> {
    pub(super) fx: &'a mut F,
    pub(super) net: &'a mut PacketBuilder,
    pub(super) app: &'a mut AppQueue,
    pub(super) peers: &'a mut Peers,
    pub(super) transfers: &'a mut Transfers,
    pub(super) counters: &'a mut ProcessCounters,
    pub(super) attention: &'a mut bool,
    pub(super) meta: &'a ViewMeta,
}

impl<F: Effects> StreamOutput for StreamsPort<'_, F> {
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
        self.counters.sent += 1;
        self.counters.sent_bytes += payload.len() as u64;
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
