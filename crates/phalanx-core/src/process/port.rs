//! The way out: packets are built, sealed and addressed; peers and their channels; the port of a view's streams.

use std::net::SocketAddr;
use std::sync::Arc;

use super::app::{AppQueue, Item, OwnedDelivery};
use super::best_effort::{Target, put_ack, put_status};
use super::counters::ProcessCounters;
use super::peers::Peers;
use super::transfer::Transfers;
use crate::api::{Delivery, Effects, GroupTerms, Order};
use crate::id::{GroupId, Incarnation, Rank, TrafficClass};
use crate::link::{Ack, Channel};
use crate::order::{Backpressure, Deliverable, Status, StreamOutput, ViewStreams};
use crate::seal::{ReplayWindow, Sealer, Security, associated};
use crate::time::Instant;
use crate::wire::{Header, Kind, PacketNumber, Space, cell_tag};

/// First byte of a message on the data channel: for the application, or of a state transfer.
pub(super) const DATA_MESSAGE: u8 = 0;
/// See [`DATA_MESSAGE`].
pub(super) const DATA_STATE: u8 = 1;

/// Packet spaces of this process that are not agreed by a view. Agreed ones count up from 1; channels' count
/// down from [`CHANNEL_SPACES`]; the two never meet in the life of an incarnation.
const HANDSHAKE_SPACE: Space = Space(u32::MAX);
const DIRECT_SPACE: Space = Space(u32::MAX - 1);
const BEST_EFFORT_SPACE: Space = Space(u32::MAX - 2);
const CHANNEL_SPACES: Space = Space(u32::MAX - 16);

/// What names a packet of this process and says for whom it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Label {
    pub(super) kind: Kind,
    pub(super) space: Space,
    pub(super) number: PacketNumber,
    /// The one process that can open it, for kinds that are addressed.
    pub(super) dest: Incarnation,
    /// It went out before, with the same frames.
    pub(super) is_retransmission: bool,
}

impl Label {
    /// A packet for many.
    pub(super) fn for_all(kind: Kind, space: Space, number: PacketNumber) -> Self {
        Self { kind, space, number, dest: Incarnation::NONE, is_retransmission: false }
    }

    /// The same packet once more.
    pub(super) fn retransmitted(self) -> Self {
        Self { is_retransmission: true, ..self }
    }
}

/// Builds packets and sends them: in clear where memory is shared, sealed elsewhere.
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

    /// A packet space for a channel, never used before.
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
        if is_retransmission {
            self.sealer.seal_retransmission(dest, &mut self.buffer);
        } else {
            self.sealer.seal(dest, &mut self.buffer);
        }
        fx.transmit(class, to, &self.buffer);
    }

    /// What the next handshake is called.
    pub(super) fn handshake(&mut self) -> Label {
        self.handshake.0 += 1;
        Label::for_all(Kind::Handshake, HANDSHAKE_SPACE, self.handshake)
    }

    /// What the next direct packet is called.
    pub(super) fn direct(&mut self, dest: Incarnation) -> Label {
        self.direct.0 += 1;
        Label { dest, ..Label::for_all(Kind::Direct, DIRECT_SPACE, self.direct) }
    }

    /// What the next best-effort multicast packet is called.
    pub(super) fn best_effort(&mut self) -> Label {
        self.best_effort.0 += 1;
        Label::for_all(Kind::BestEffortMulticast, BEST_EFFORT_SPACE, self.best_effort)
    }
}

/// What this process keeps of another one.
pub(super) struct Peer {
    pub(super) data: SocketAddr,
    pub(super) control: SocketAddr,
    /// Its rank in the cell view, if it is a member.
    pub(super) rank: Option<Rank>,
    pub(super) control_channel: Channel,
    pub(super) data_channel: Channel,
    pub(super) direct_seen: ReplayWindow,
    pub(super) best_effort_seen: ReplayWindow,
    /// A message on one of its channels made no sense.
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
    /// Neither channel nor the next direct packet has anything to do, now or later, unless something comes.
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
    /// Something changed since its last turn.
    pub(super) touched: bool,
    /// When a turn is due though nothing changes, as of the last one.
    due: Option<Instant>,
}

impl GroupStreams {
    pub(super) fn new(view_streams: ViewStreams, meta: ViewMeta) -> Self {
        Self { view_streams, meta, touched: true, due: None }
    }

    /// Whether it has something to do in a turn.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.touched || self.due.is_some_and(|at| at <= now)
    }

    /// It had its turn. If it `worked`, the next one looks at it again.
    pub(super) fn rests(&mut self, worked: bool) {
        self.touched = worked;
        self.due = self.view_streams.deadline();
    }

    /// When it wants its next turn.
    pub(super) fn deadline(&self) -> Option<Instant> {
        if self.touched { self.view_streams.deadline() } else { self.due }
    }
}

/// What is known of a group view outside its streams.
pub(super) struct ViewMeta {
    pub(super) group: GroupId,
    pub(super) name: Arc<str>,
    pub(super) view: u64,
    /// The view this process came with.
    pub(super) since: u64,
    /// The latest view since then that the application has reached; before the first, it sends nothing.
    pub(super) told: Option<u64>,
    pub(super) space: Space,
    pub(super) members: Vec<Incarnation>,
    /// Data addresses by rank, and those of all others.
    pub(super) addresses: Vec<SocketAddr>,
    pub(super) others: Vec<SocketAddr>,
    /// What was agreed for the group.
    pub(super) terms: GroupTerms,
    /// Whether as many members hold the group's state as its terms ask for, as the application is told.
    pub(super) adequate: bool,
}

impl ViewMeta {
    /// What a stream of the view gives out, as the application takes it.
    #[inline]
    pub(super) fn delivery<'a>(&self, d: Deliverable<'a>, replayed: bool) -> Delivery<'a> {
        Delivery {
            group: self.group,
            view: self.view,
            sender: self.members[d.rank.index()],
            seq: d.seq,
            order: d.order,
            uniform: d.uniform,
            position: d.position,
            replayed,
            payload: d.payload,
        }
    }

    pub(super) fn rank(&self, who: Incarnation) -> Option<Rank> {
        self.members.iter().position(|&m| m == who).map(Rank::from_index)
    }
}

/// The port of a view's streams of `$process`, which lends all that is not these streams.
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
        // A member whose state is not complete yet takes what is delivered to its view afterwards.
        let transfer = self.transfers.holds_back(self.meta.group);
        if transfer || !self.app.is_open(self.fx) {
            self.counters.app_full += u64::from(!transfer && self.app.is_empty());
            let held = OwnedDelivery::of(&delivery, self.meta.space, d.rank);
            self.transfers.hold(self.app, Item::Delivery(held), self.meta.group);
            return false;
        }
        self.transfers.record(&delivery);
        self.counters.delivered += 1;
        self.fx.deliver(&delivery);
        true
    }

    fn sent(&mut self, seq: u64, order: Order, uniform: bool, payload: &[u8]) {
        self.counters.sent += 1;
        self.counters.sent_bytes += payload.len() as u64;
        self.fx.sent(self.meta.group, self.meta.view, seq, order, uniform, payload);
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
        *self.attention = true;
    }
}
