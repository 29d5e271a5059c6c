//! Ways out: packets built and sealed, peers and their channels, a flow's port.

use std::net::SocketAddr;
use std::sync::Arc;

use super::app::{AppQueue, Held, Item};
use super::counters::Counters;
use super::peers::Peers;
use super::transfer::Transfers;
use super::unrepaired::{Target, put_receipt, put_status};
use crate::api::{Delivery, Effects, GroupTerms, Order};
use crate::id::{GroupId, Incarnation, Lane};
use crate::link::{Channel, Receipt};
use crate::order::{Deliverable, Flow, Full, Outgoing, Status};
use crate::seal::{ReplayWindow, Sealer, Security, associated};
use crate::time::Instant;
use crate::wire::{Header, Kind, cell_tag};

/// First byte of a message on the data channel: for the application, or of a state transfer.
pub(super) const DATA_MESSAGE: u8 = 0;
/// See [`DATA_MESSAGE`].
pub(super) const DATA_STATE: u8 = 1;

/// Packet spaces of this process that are not agreed by a view. Agreed ones count up from 1; channels' count
/// down from [`CHANNEL_SPACES`]; the two never meet in the life of an incarnation.
const GREETING_SPACE: u32 = u32::MAX;
const DIRECT_SPACE: u32 = u32::MAX - 1;
const SPREAD_SPACE: u32 = u32::MAX - 2;
const CHANNEL_SPACES: u32 = u32::MAX - 16;

/// What names a packet of this process and says for whom it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Label {
    pub(super) kind: Kind,
    pub(super) space: u32,
    pub(super) number: u64,
    /// The one process that can open it, for kinds that are addressed.
    pub(super) dest: Incarnation,
    /// It went out before, with the same frames.
    pub(super) again: bool,
}

impl Label {
    /// A packet for many.
    pub(super) fn for_all(kind: Kind, space: u32, number: u64) -> Self {
        Self { kind, space, number, dest: Incarnation::NONE, again: false }
    }

    /// The same packet once more.
    pub(super) fn again(self) -> Self {
        Self { again: true, ..self }
    }
}

/// Builds packets and sends them: in clear where memory is shared, sealed elsewhere.
pub(super) struct Net {
    sealer: Sealer,
    cell_tag: u32,
    me: Incarnation,
    next_channel_space: u32,
    greeting: u64,
    direct: u64,
    spread: u64,
    buffer: Vec<u8>,
}

impl Net {
    pub(super) fn new(security: &Security, cell: &str, me: Incarnation) -> Self {
        Self {
            sealer: Sealer::new(security, cell, me),
            cell_tag: cell_tag(cell),
            me,
            next_channel_space: CHANNEL_SPACES,
            greeting: 0,
            direct: 0,
            spread: 0,
            buffer: Vec::with_capacity(65_536),
        }
    }

    /// A packet space for a channel, never used before.
    pub(super) fn channel_space(&mut self) -> u32 {
        self.next_channel_space -= 1;
        self.next_channel_space
    }

    /// Sends a packet to each of `to`.
    pub(super) fn send(
        &mut self,
        label: Label,
        lane: Lane,
        to: &[SocketAddr],
        frames: &[u8],
        counters: &mut Counters,
        fx: &mut impl Effects,
    ) {
        if to.is_empty() {
            return;
        }
        let Label { kind, space, number, dest, again } = label;
        let header = Header { kind, cell_tag: self.cell_tag, sender: self.me, space, number }.to_bytes();
        let shared = fx.share(lane, to, &associated(&header, dest), frames);
        counters.packets_shared += shared as u64;
        let Some(rest @ 1..) = to.len().checked_sub(shared) else { return };
        counters.datagrams_sent += rest as u64;
        self.buffer.clear();
        self.buffer.extend_from_slice(&header);
        self.buffer.extend_from_slice(frames);
        if again {
            self.sealer.seal_again(dest, &mut self.buffer);
        } else {
            self.sealer.seal(dest, &mut self.buffer);
        }
        fx.transmit(lane, to, &self.buffer);
    }

    /// What the next greeting is called.
    pub(super) fn greeting(&mut self) -> Label {
        self.greeting += 1;
        Label::for_all(Kind::Greeting, GREETING_SPACE, self.greeting)
    }

    /// What the next direct packet is called.
    pub(super) fn direct(&mut self, dest: Incarnation) -> Label {
        self.direct += 1;
        Label { dest, ..Label::for_all(Kind::Direct, DIRECT_SPACE, self.direct) }
    }

    /// What the next packet that is spread is called.
    pub(super) fn spread(&mut self) -> Label {
        self.spread += 1;
        Label::for_all(Kind::Spread, SPREAD_SPACE, self.spread)
    }
}

/// What this process keeps of another one.
pub(super) struct Peer {
    pub(super) data: SocketAddr,
    pub(super) control: SocketAddr,
    /// Its rank in the cell view, if it is a member.
    pub(super) rank: Option<usize>,
    pub(super) control_channel: Channel,
    pub(super) data_channel: Channel,
    pub(super) direct_seen: ReplayWindow,
    pub(super) spread_seen: ReplayWindow,
    /// A message on one of its channels made no sense.
    pub(super) is_unreadable: bool,
    /// Frames for its next direct packet.
    pub(super) direct: Vec<u8>,
    /// Bytes of frames that fit in a packet to it.
    pub(super) packet_room: usize,
}

impl Peer {
    pub(super) fn new(
        net: &mut Net,
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
            spread_seen: ReplayWindow::default(),
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
}

/// A flow and what its packets need.
pub(super) struct GroupFlow {
    pub(super) flow: Flow,
    pub(super) meta: FlowMeta,
    /// Something changed since its last turn.
    pub(super) touched: bool,
    /// When a turn is due though nothing changes, as of the last one.
    due: Option<Instant>,
}

impl GroupFlow {
    pub(super) fn new(flow: Flow, meta: FlowMeta) -> Self {
        Self { flow, meta, touched: true, due: None }
    }

    /// Whether it has something to do in a turn.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.touched || self.due.is_some_and(|at| at <= now)
    }

    /// It had its turn. If it `worked`, the next one looks at it again.
    pub(super) fn rests(&mut self, worked: bool) {
        self.touched = worked;
        self.due = self.flow.deadline();
    }

    /// When it wants its next turn.
    pub(super) fn deadline(&self) -> Option<Instant> {
        if self.touched { self.flow.deadline() } else { self.due }
    }
}

/// What is known of a group view outside its flow.
pub(super) struct FlowMeta {
    pub(super) group: GroupId,
    pub(super) name: Arc<str>,
    pub(super) view: u64,
    /// The view this process came with.
    pub(super) since: u64,
    /// The latest view since then that the application has reached; before the first, it sends nothing.
    pub(super) told: Option<u64>,
    pub(super) space: u32,
    pub(super) members: Vec<Incarnation>,
    /// Data addresses by rank, and those of all others.
    pub(super) addresses: Vec<SocketAddr>,
    pub(super) others: Vec<SocketAddr>,
    /// What was agreed for the group.
    pub(super) terms: GroupTerms,
    /// Whether as many members hold the group's state as its terms ask for, as the application is told.
    pub(super) adequate: bool,
}

impl FlowMeta {
    /// What a stream of the view gives out, as the application takes it.
    #[inline]
    pub(super) fn delivery<'a>(&self, d: Deliverable<'a>, replayed: bool) -> Delivery<'a> {
        Delivery {
            group: self.group,
            view: self.view,
            sender: self.members[d.rank],
            seq: d.seq,
            order: d.order,
            uniform: d.uniform,
            position: d.position,
            replayed,
            payload: d.payload,
        }
    }

    pub(super) fn rank(&self, who: Incarnation) -> Option<usize> {
        self.members.iter().position(|&m| m == who)
    }
}

/// The port of a flow of `$process`, which lends all that is not the flow.
macro_rules! flow_port {
    ($process:ident, $fx:expr, $meta:expr) => {
        $crate::process::port::FlowPort {
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
pub(super) use flow_port;

/// Where a flow's output goes.
pub(super) struct FlowPort<'a, F> {
    pub(super) fx: &'a mut F,
    pub(super) net: &'a mut Net,
    pub(super) app: &'a mut AppQueue,
    pub(super) peers: &'a mut Peers,
    pub(super) transfers: &'a mut Transfers,
    pub(super) counters: &'a mut Counters,
    pub(super) attention: &'a mut bool,
    pub(super) meta: &'a FlowMeta,
}

impl<F: Effects> Outgoing for FlowPort<'_, F> {
    fn multicast(&mut self, space: u32, number: u64, frames: &[u8]) {
        self.counters.multicast_packets += 1;
        let label = Label::for_all(Kind::Multicast, space, number);
        self.net.send(label, Lane::Data, &self.meta.others, frames, self.counters, self.fx);
    }

    fn is_congested(&mut self) -> bool {
        self.fx.is_congested()
    }

    fn repair(&mut self, rank: usize, space: u32, number: u64, frames: &[u8]) {
        self.counters.repairs += 1;
        let label = Label::for_all(Kind::Multicast, space, number).again();
        let to = &self.meta.addresses[rank..=rank];
        self.net.send(label, Lane::Data, to, frames, self.counters, self.fx);
    }

    fn receipt(&mut self, space: u32, rank: usize, receipt: &Receipt, wants_stable: bool) {
        if let Some(peer) = self.peers.get_mut(self.meta.members[rank]) {
            put_receipt(&mut peer.direct, Target::Stream { space, wants_stable }, receipt);
        }
    }

    fn status(&mut self, space: u32, rank: Option<usize>, status: &Status) {
        match rank {
            Some(rank) => {
                if let Some(peer) = self.peers.get_mut(self.meta.members[rank]) {
                    put_status(&mut peer.direct, space, status);
                }
            }
            None if self.meta.others.is_empty() => {}
            None => {
                let mut frames = Vec::with_capacity(32);
                put_status(&mut frames, space, status);
                let label = self.net.spread();
                self.net.send(label, Lane::Data, &self.meta.others, &frames, self.counters, self.fx);
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
            let held = Held::of(&delivery, self.meta.space, d.rank);
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

    fn full(&mut self, bound: Full) {
        let counter = match bound {
            Full::Outbox => &mut self.counters.outbox_full,
            Full::Window => &mut self.counters.window_full,
            Full::Credit => &mut self.counters.held_by_credit,
            Full::Receipts => &mut self.counters.held_by_receipts,
            Full::Members => &mut self.counters.held_for_members,
            Full::Quorum => &mut self.counters.held_for_quorum,
            Full::Orders => &mut self.counters.orders_held,
        };
        *counter += 1;
    }

    #[inline]
    fn can_read(&mut self, space: u32, rank: usize, number: u64) -> bool {
        self.fx.can_read(self.meta.members[rank], space, number)
    }

    fn nonsense(&mut self, _rank: usize) {
        self.counters.nonsense_streams += 1;
        *self.attention = true;
    }
}
