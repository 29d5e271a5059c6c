//! All streams of one group view at one member, and the sending of its own: packing, acknowledgements, retransmission,
//! stability.

use std::time::Duration;

use super::backpressure::{Backpressure, BackpressureState};
use super::flow_control_lag::FlowControlLag;
use super::outbox::Outbox;
use super::packet_reader::Orders;
use super::sequencer::Sequencer;
use super::stream::{Deliverable, HeldPackets, Stream};
use super::total_order::Total;
use crate::api::Order;
use crate::frames::{Frames, Pool, ReceivedFrames};
use crate::id::{GroupId, Incarnation, Rank};
use crate::link::{Ack, Arrival, Sending, StreamReport};
use crate::time::Instant;
use crate::wire::{PacketNumber, Space};

/// What a view's streams are made of; the same at all its members but `me`.
#[derive(Clone, Debug)]
pub struct ViewStreamsSettings {
    /// The group.
    pub group: GroupId,
    /// Its view.
    pub view: u64,
    /// The packet space all its members send in; agreed, and used by no other view of any group.
    pub space: Space,
    /// Members in rank order.
    pub members: Vec<Incarnation>,
    /// This process's rank.
    pub me: Rank,
    /// Bytes of frames that fit in one packet.
    pub packet_room: usize,
    /// Packets each stream may hold unconsumed.
    pub window: u64,
    /// The longest an ack is held back.
    pub ack_delay: Duration,
    /// Bytes that may wait for the window, beyond one message.
    pub outbox_bytes: usize,
    /// Abcasts after which the token holder looks who sends most; see [`crate::Limits::token_tally`].
    pub token_tally: u64,
}

impl ViewStreamsSettings {
    /// Packets that a member may have sent and not know to be stable: its window, and what the token holder may order
    /// beyond it. Receivers keep as many, see [`crate::link::Receiving`].
    #[must_use]
    pub fn unstable_max(&self) -> u64 {
        self.window + self.orders_ahead()
    }

    /// Packets by which the token holder may exceed its window to order. One is enough: what a holder's own messages
    /// depend on was delivered at the holder, so its first announcement orders all of them.
    pub(super) fn orders_ahead(&self) -> u64 {
        self.window.min(2)
    }
}

/// Where the output of a view's streams goes.
pub trait StreamOutput {
    /// Sends packet `number` of `space`, holding `frames`, to all other members.
    fn multicast(&mut self, space: Space, number: PacketNumber, frames: &[u8]);
    /// Whether the system takes no more packets for now.
    fn is_congested(&mut self) -> bool;
    /// Sends a packet again, with the same frames, to one member.
    fn retransmit(&mut self, rank: Rank, space: Space, number: PacketNumber, frames: &[u8]);
    /// An ack for `rank`'s stream.
    fn ack(&mut self, space: Space, rank: Rank, ack: &Ack, wants_stable: bool);
    /// This member's stream status, to one member or (`None`) all others.
    fn status(&mut self, space: Space, rank: Option<Rank>, status: &Status);
    /// A message for the application. True if it took it at once.
    fn deliver(&mut self, message: Deliverable<'_>) -> bool;
    /// A message of ours was bound to this view.
    fn sent(&mut self, seq: u64, order: Order, uniform: bool, payload: &[u8]);
    /// Our stream has come to a bound.
    fn backpressure(&mut self, bound: Backpressure);
    /// Whether this member can read packet `number` of `rank`'s stream: always, but where a simulation plays a defect.
    fn can_read(&mut self, space: Space, rank: Rank, number: PacketNumber) -> bool;
    /// A packet of `rank`'s stream makes no sense: the stream is read no further.
    fn nonsense(&mut self, rank: Rank);
}

/// Where a member's own stream stands, told when somebody may wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// The last packet sent.
    pub highest: u64,
    /// Every member has it up to here.
    pub stable: u64,
    /// It waits for credit.
    pub blocked: bool,
}

/// What a member's messages wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// A member has all that was sent, and its application has not taken it.
    Credit,
    /// A member does not acknowledge what was sent.
    Ack,
    /// A new view is being decided.
    Change,
    /// The system takes no more packets for now.
    System,
    /// The first of them is uniform, and this process hears no quorum of the cell.
    Outside,
    /// The first of them is uniform, and the view has fewer members than were agreed on.
    Inadequate,
}

/// What became of the token of one group view at one member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenCounts {
    /// Times this member passed it on.
    pub passed: u64,
    /// Times this member kept it, though another sends most: not all members had the pass that brought it.
    pub kept: u64,
    /// Times that a stream had to wait for the pass that gave its sender the token.
    pub overtaken: u64,
}

/// How far a member has one stream, in packets without a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamPrefixes {
    /// It has parsed every packet up to here.
    pub parsed: u64,
    /// Every packet up to here is here, parsed or not.
    pub held: u64,
}

/// Messages of one view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageCounts {
    /// Sent by this member.
    pub sent: u64,
    /// Delivered at this member, its own among them.
    pub delivered: u64,
}

/// What a member's application sent and no packet holds yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queued {
    /// Messages.
    pub messages: usize,
    /// The bytes of those messages.
    pub bytes: usize,
}

/// All streams of one group view at one member.
#[derive(Debug)]
pub struct ViewStreams {
    pub(super) set: ViewStreamsSettings,
    pub(super) streams: Vec<Stream>,
    pub(super) total: Total,
    pub(super) holder: Option<Sequencer>,
    /// Per rank: the messages that the abcasts delivered so far, and their past, reach up to.
    pub(super) total_past: Vec<u64>,
    pub(super) tx: Sending,
    /// Frames of the packet being filled.
    pub(super) packer: Vec<u8>,
    /// Whether the packet being filled holds something whose stability is waited for.
    pub(super) packer_prompt: bool,
    pub(super) outbox: Outbox,
    /// Messages of ours that are packed to their end.
    pub(super) sent: u64,
    /// The last abcast of ours that went out unordered: one of our messages, by its number.
    pub(super) last_unsequenced: u64,
    /// This process hears no quorum of the cell: nothing is sent as uniform before it does, or the view ends, and nothing delivered.
    pub(super) outside: bool,
    /// The tenure in which this member passed the token on.
    pub(super) passed_tenure: Option<u32>,
    /// What became of the token here.
    pub(super) token: TokenCounts,
    /// Delivered counts as told in our last causal message.
    pub(super) announced_deps: Vec<u64>,
    pub(super) announced_old: bool,
    /// Room for what a message depends on, while its header is written; empty between.
    pub(super) due: Vec<(Rank, u64)>,
    /// The last stability mark that was told in any way.
    pub(super) announced_stable: u64,
    /// The last one that was told in a packet of the stream.
    pub(super) packed_stable: u64,
    pub(super) prompt_up_to: u64,
    pub(super) wedged: bool,
    /// The system takes no more packets for now: messages wait in the outbox.
    pub(super) congested: bool,
    /// Too few members: no uniform message is sent, nor what comes behind one.
    pub(super) inadequate: bool,
    /// Acks ask how far the streams go.
    acks_ask_status: bool,
    /// Who holds our stream back.
    pub(super) flow_control_lag: FlowControlLag,
    pub(super) backpressure: BackpressureState,
    /// Buffers of packets that are stable and delivered.
    pub(super) pool: Pool,
}

impl ViewStreams {
    /// A fresh view's streams.
    ///
    /// # Panics
    /// When `me` is not a rank of the view: an error of the caller.
    #[must_use]
    pub fn new(set: ViewStreamsSettings, now: Instant) -> Self {
        let n = set.members.len();
        assert!(set.me.index() < n, "this process is a member of its view");
        Self {
            streams: (0..n).map(|_| Stream::new(n, set.window)).collect(),
            total: Total::new(),
            holder: (set.me == Rank::FIRST).then(|| Sequencer::new(vec![0; n], vec![0; n])),
            total_past: vec![0; n],
            tx: Sending::new(n, set.window, now),
            packer: Vec::with_capacity(set.packet_room),
            packer_prompt: false,
            outbox: Outbox::default(),
            sent: 0,
            last_unsequenced: 0,
            outside: false,
            passed_tenure: None,
            token: TokenCounts::default(),
            announced_deps: vec![0; n],
            announced_old: false,
            due: Vec::new(),
            announced_stable: 0,
            packed_stable: 0,
            prompt_up_to: 0,
            wedged: false,
            congested: false,
            inadequate: false,
            acks_ask_status: false,
            flow_control_lag: FlowControlLag::default(),
            backpressure: BackpressureState::default(),
            pool: Pool::default(),
            set,
        }
    }

    /// The view's settings.
    #[must_use]
    pub fn settings(&self) -> &ViewStreamsSettings {
        &self.set
    }

    /// Reads what came of `rank`'s stream, and what waited in other streams for a pass in it. True: it is acknowledged at once.
    pub(super) fn parse(&mut self, now: Instant, rank: Rank, io: &mut impl StreamOutput) -> bool {
        debug_assert!(!self.wedged, "a member that is wedged reads no further");
        let orders = if rank == self.set.me { Orders::Own } else { Orders::Judged };
        let mut tenure = self.total.tenure();
        let prompt = self.parse_stream(rank, u64::MAX, orders, io);
        while self.total.tenure() > tenure {
            tenure = self.total.tenure();
            let me = self.set.me;
            for other in Rank::all(self.streams.len()).filter(|other| *other != me) {
                let before = self.streams[other.index()].rx.prefix();
                self.parse_stream(other, u64::MAX, Orders::Judged, io);
                if self.streams[other.index()].rx.prefix() > before {
                    self.token.overtaken += 1;
                    self.streams[other.index()].rx.ack_by(now);
                }
            }
        }
        prompt
    }

    /// Reads what came of one stream, up to a packet of it.
    pub(super) fn parse_stream(&mut self, rank: Rank, up_to: u64, orders: Orders, io: &mut impl StreamOutput) -> bool {
        let Self { streams, total, pool, set, .. } = self;
        let can_read = |number| rank == set.me || io.can_read(set.space, rank, number);
        let made_sense = streams[rank.index()].nonsense().is_none();
        let prompt = streams[rank.index()].parse(up_to, rank, orders, total, pool, can_read);
        if made_sense && streams[rank.index()].nonsense().is_some() {
            io.nonsense(rank);
        }
        prompt
    }

    /// A packet of `rank`'s stream arrived.
    pub fn handle_packet(
        &mut self,
        now: Instant,
        rank: Rank,
        number: PacketNumber,
        frames: ReceivedFrames<'_>,
        io: &mut impl StreamOutput,
    ) -> Arrival {
        let Some(stream) = self.streams.get_mut(rank.index()) else { return Arrival::Ahead };
        if rank == self.set.me || stream.rx.has(number) {
            if !self.wedged && rank != self.set.me {
                stream.rx.ack_by(now); // its ack was lost
            }
            return Arrival::Duplicate;
        }
        let arrival = stream.rx.accept(number, self.pool.keep(frames));
        if self.wedged || arrival == Arrival::Ahead {
            return arrival; // kept, neither acknowledged nor parsed
        }
        let prompt = self.parse(now, rank, io);
        let rx = &mut self.streams[rank.index()].rx;
        let soon = prompt || rx.has_gap() || u64::from(rx.unacknowledged()) * 4 >= self.set.window;
        rx.ack_by(if soon { now } else { now + self.set.ack_delay });
        arrival
    }

    /// A packet handed on by somebody who holds it; taken only inside a known cut.
    pub fn handle_recovered(&mut self, rank: Rank, number: PacketNumber, frames: Frames) {
        if let Some(stream) = self.streams.get_mut(rank.index()) {
            stream.rx.accept(number, frames);
        }
    }

    /// `rank` says what it has of our stream.
    pub fn handle_ack(&mut self, now: Instant, rank: Rank, ack: &Ack, wants_stable: bool, io: &mut impl StreamOutput) {
        self.tx.handle_ack(now, rank.index(), ack);
        if wants_stable && rank != self.set.me {
            let status = self.status();
            io.status(self.set.space, Some(rank), &status);
        }
    }

    /// Packets may have been dropped on their way in: with the next turn every sender learns what is here, and is asked
    /// how far its stream goes.
    pub fn handle_loss(&mut self, now: Instant) {
        if self.wedged {
            return;
        }
        self.acks_ask_status = true;
        for (rank, stream) in Rank::enumerate(self.streams.iter_mut()) {
            if rank != self.set.me && stream.rx.has_begun() {
                stream.rx.ack_by(now);
            }
        }
    }

    /// `rank` says where its stream stands.
    pub fn handle_status(&mut self, now: Instant, rank: Rank, status: &Status) {
        let Some(stream) = self.streams.get_mut(rank.index()) else { return };
        if rank == self.set.me {
            return;
        }
        stream.set_stable(status.stable.min(stream.rx.prefix()), &mut self.pool);
        if self.wedged {
            return;
        }
        stream.rx.expect_up_to(status.highest);
        if status.blocked || stream.rx.has_gap() {
            stream.rx.ack_by(now);
        }
    }

    fn status(&self) -> Status {
        debug_assert!(self.tx.stable() <= self.tx.next().prefix_before(), "what all members have was sent");
        Status { highest: self.tx.next().prefix_before(), stable: self.tx.stable(), blocked: self.is_blocked() }
    }

    /// Whether messages wait for credit.
    #[must_use]
    pub fn is_blocked(&self) -> bool {
        !self.outbox.is_empty() && !self.tx.may_send()
    }

    /// See [`Self::set_congested`]; it also finds out by itself, with each packet it sends.
    #[must_use]
    #[inline]
    pub fn is_congested(&self) -> bool {
        self.congested
    }

    /// The system takes no more packets for now, or takes them again. Meanwhile no message is packed; what is packed already
    /// goes out, and so does all that is sent for others' sake: orders, acks, retransmissions.
    pub fn set_congested(&mut self, congested: bool) {
        self.congested = congested;
    }

    /// Whether a message may be packed now.
    #[inline]
    pub(super) fn may_pack(&self) -> bool {
        !self.wedged && !self.congested && self.tx.may_send()
    }

    /// Whether the members are as many as were agreed on. While they are not, no uniform message is sent.
    pub fn set_adequate(&mut self, is_adequate: bool) {
        self.inadequate = !is_adequate;
    }

    /// Whether uniform messages wait: for a quorum of the cell, or for more members.
    #[inline]
    pub(super) fn withholds(&self) -> bool {
        self.outside || self.inadequate
    }

    /// Whether the message in front waits for a quorum of the cell, or for more members.
    #[inline]
    pub(super) fn front_is_withheld(&self) -> bool {
        self.withholds() && self.outbox.front().is_some_and(|front| front.uniform)
    }

    /// Whether something waits that could go out now.
    #[must_use]
    #[inline]
    pub fn is_packing(&self) -> bool {
        !self.packer.is_empty() || (!self.outbox.is_empty() && self.may_pack() && !self.front_is_withheld())
    }

    /// Sends what was accepted or ordered since the last packet, before anything that comes in is looked at.
    pub fn flush(&mut self, now: Instant, io: &mut impl StreamOutput) {
        if !self.wedged {
            self.drain_outbox(now, io);
            self.close_packet(now, io);
        }
    }

    /// End of a turn: orders, delivers, packs, retransmits, acknowledges. True if it delivered or packed something: the
    /// next turn may find more to do, though nothing else changes.
    ///
    /// After a delivery the packet being filled stays open, with the order just given: the application may answer, and
    /// its answer goes out in the same packet, with the next turn or [`Self::flush`], which is due at once.
    pub fn poll(&mut self, now: Instant, io: &mut impl StreamOutput) -> bool {
        let first = self.tx.next();
        let mut any = false;
        loop {
            let delivered = self.deliver(now, io);
            any |= delivered;
            if !self.wedged && !delivered {
                self.close_packet(now, io);
            }
            self.acknowledge_self(now);
            if !self.has_deliverable() {
                break;
            }
        }
        self.tx.handle_timeout(now, self.set.ack_delay);
        while let Some((receiver, number)) = self.tx.poll_retransmit() {
            let rank = Rank::from_index(receiver);
            if rank != self.set.me
                && let Some(frames) = self.streams[self.set.me.index()].packet(number)
            {
                io.retransmit(rank, self.set.space, number, &frames);
            }
        }
        self.announce_stability(io);
        self.send_acks(now, io);
        self.note_window(io);
        any || self.tx.next() > first
    }

    /// Delivers what may be delivered, orders what may be ordered, and packs what waits for room. True if it delivered
    /// something. Needs a [`Self::poll`] afterwards.
    pub fn deliver(&mut self, now: Instant, io: &mut impl StreamOutput) -> bool {
        // Once before and once after what waits is ordered; in one place, so that a delivery costs no call.
        let mut delivered = false;
        for ordered in [false, true] {
            delivered |= self.deliver_ready(io);
            if self.wedged {
                return delivered;
            }
            if !ordered {
                self.sequence(now, io);
            }
        }
        self.drain_outbox(now, io);
        delivered
    }

    fn acknowledge_self(&mut self, now: Instant) {
        let me = self.set.me;
        let own = &self.streams[me.index()];
        let (prefix, limit) = (own.rx.prefix(), own.consumed_packet() + self.set.window);
        if !self.tx.knows(me.index(), prefix, limit) {
            self.tx.handle_ack(now, me.index(), &Ack { prefix, limit, gaps: Vec::new() });
        }
        let stable = self.tx.stable();
        self.streams[me.index()].set_stable(stable, &mut self.pool);
    }

    /// The mark is sent at once when somebody waits or we fall idle; else it rides on the next packet.
    fn announce_stability(&mut self, io: &mut impl StreamOutput) {
        let stable = self.tx.stable();
        if stable > self.announced_stable && (self.prompt_up_to > self.announced_stable || self.tx.outstanding() == 0) {
            self.announced_stable = stable;
            if self.set.members.len() > 1 {
                io.status(self.set.space, None, &self.status());
            }
        }
    }

    fn send_acks(&mut self, now: Instant, io: &mut impl StreamOutput) {
        if self.wedged {
            return; // a wedged member acknowledges nothing
        }
        debug_assert!(self.streams[self.set.me.index()].rx.ack_due().is_none(), "nobody acknowledges to itself");
        let (me, window, space) = (self.set.me, self.set.window, self.set.space);
        let asks = std::mem::take(&mut self.acks_ask_status);
        for (rank, stream) in Rank::enumerate(self.streams.iter_mut()) {
            let limit = stream.consumed_packet() + window;
            let opened = limit >= stream.advertised + window.div_ceil(2);
            let due = stream.rx.ack_due().is_some_and(|at| at <= now);
            if rank != me && (due || opened) {
                stream.rx.acknowledged();
                stream.advertised = stream.advertised.max(limit);
                io.ack(space, rank, &stream.rx.ack(limit), asks);
            }
        }
    }

    /// Now and then: tells where streams stand, so that nothing waits for a lost ack or mark.
    pub fn heartbeat(&mut self, io: &mut impl StreamOutput) {
        self.note_hold(io);
        if self.tx.outstanding() > 0 || self.is_blocked() {
            io.status(self.set.space, None, &self.status());
        }
        if self.wedged {
            return;
        }
        let (me, window, space) = (self.set.me, self.set.window, self.set.space);
        for (rank, stream) in Rank::enumerate(self.streams.iter_mut()) {
            if rank != me && stream.has_unstable() {
                let limit = stream.consumed_packet() + window;
                io.ack(space, rank, &stream.rx.ack(limit), true);
            }
        }
    }

    /// Stops sending, acknowledging and acting upon what comes, for good in this view. Gives, per stream, how far it is held
    /// and makes sense: what came after the stop is part of it, neither acknowledged nor delivered.
    pub fn wedge(&mut self, now: Instant, io: &mut impl StreamOutput) -> Vec<StreamReport> {
        if !self.wedged {
            self.close_packet(now, io); // messages already bound to this view belong to our prefix
            self.wedged = true;
        }
        self.scan_ahead(io);
        debug_assert!(self.packer.is_empty(), "a packet waits that nobody will have");
        self.streams.iter().map(Stream::stream_report).collect()
    }

    /// Whether this member, alone, has sent what is not stable or not known to be, and has no more to send: with the next
    /// ack or mark the group would be silent.
    #[must_use]
    pub fn is_last_falling_idle(&self) -> bool {
        let me = self.set.me;
        let open = self.tx.outstanding() > 0 || self.tx.stable() > self.announced_stable;
        let is_silent = |(rank, stream): (Rank, &Stream)| rank == me || !stream.has_unstable();
        !self.wedged && open && self.outbox.is_empty() && Rank::enumerate(&self.streams).all(is_silent)
    }

    /// Whether this process hears a quorum of the cell. While it does not, nothing is sent or delivered as uniform: the others may go
    /// on without what this group delivers. What a cut holds is decided, and delivered in any case.
    pub fn set_primary(&mut self, is_primary: bool) {
        self.outside = !is_primary;
    }

    /// Whether all that was accepted here has been sent, but for what waits for a quorum or for more members.
    #[must_use]
    pub fn is_sent(&self) -> bool {
        self.outbox.is_empty() || self.front_is_withheld()
    }

    /// Whether the view is being left.
    #[must_use]
    pub fn is_wedged(&self) -> bool {
        self.wedged
    }

    /// Per stream: how far it was parsed, and how far it is here.
    pub fn prefixes(&self) -> impl Iterator<Item = StreamPrefixes> {
        self.streams.iter().map(|s| StreamPrefixes { parsed: s.rx.prefix(), held: s.rx.held() })
    }

    /// The decided next view leaves this one as it is: it goes on.
    pub fn unwedge(&mut self, now: Instant, io: &mut impl StreamOutput) {
        if std::mem::take(&mut self.wedged) {
            for rank in Rank::all(self.streams.len()) {
                self.parse(now, rank, io);
                if rank != self.set.me {
                    self.streams[rank.index()].rx.ack_by(now);
                }
            }
        }
    }

    /// A packet of `rank`'s stream kept for others.
    #[must_use]
    pub fn kept(&self, rank: Rank, number: PacketNumber) -> Option<Frames> {
        self.streams.get(rank.index())?.packet(number)
    }

    /// When something is due without further input.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        if self.is_packing() {
            return Some(Instant::ZERO); // accepted between two turns: it goes out with the next, at once
        }
        let acks = if self.wedged { None } else { self.streams.iter().filter_map(|s| s.rx.ack_due()).min() };
        [acks, self.tx.deadline(self.set.ack_delay)].into_iter().flatten().min()
    }

    /// Of each kind of held packet, the most that one of the streams here has.
    #[must_use]
    pub fn held(&self) -> HeldPackets {
        self.streams.iter().map(Stream::held).fold(HeldPackets::default(), HeldPackets::max)
    }

    /// The number of the next packet of this member's stream.
    #[must_use]
    pub fn next_packet(&self) -> PacketNumber {
        self.tx.next()
    }

    /// Packets sent and not stable.
    #[must_use]
    pub fn unstable_packets(&self) -> u64 {
        self.tx.outstanding()
    }

    /// Nothing of ours is queued, unstable or undelivered here.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.outbox.is_empty() && self.tx.outstanding() == 0 && self.streams[self.set.me.index()].queue.is_empty()
    }

    /// The rank that holds our stream back, if any does.
    #[must_use]
    pub fn waits_for(&self) -> Option<Rank> {
        self.tx.slowest().map(Rank::from_index)
    }

    /// What messages of ours wait for that are in no packet yet.
    #[must_use]
    pub fn hold(&self) -> Option<Hold> {
        if self.outbox.is_empty() {
            return None;
        }
        if self.wedged {
            return Some(Hold::Change);
        }
        if self.congested {
            return Some(Hold::System);
        }
        if self.front_is_withheld() {
            return Some(if self.outside { Hold::Outside } else { Hold::Inadequate });
        }
        let slowest = self.tx.slowest().filter(|_| !self.tx.may_send())?;
        Some(if self.tx.has_all(slowest) { Hold::Credit } else { Hold::Ack })
    }

    /// The ranks that owe an ack for packets of ours; none while the view is being left.
    pub fn late(&self) -> impl Iterator<Item = Rank> {
        self.tx.late().map(Rank::from_index).filter(|rank| !self.wedged && *rank != self.set.me)
    }

    /// How many packets of ours `rank` has acknowledged, with all before them.
    #[must_use]
    pub fn acknowledged(&self, rank: Rank) -> u64 {
        self.tx.standing(rank.index()).acked
    }

    /// Messages of this view, so far.
    #[must_use]
    pub fn counts(&self) -> MessageCounts {
        MessageCounts { sent: self.sent, delivered: self.streams.iter().map(|s| s.delivered).sum() }
    }

    /// By rank: the messages of each sender that were delivered in this view.
    #[must_use]
    pub fn delivered_counts(&self) -> Vec<u64> {
        self.streams.iter().map(|s| s.delivered).collect()
    }

    /// What became of the token, as far as this member knows.
    #[must_use]
    pub fn token_counts(&self) -> TokenCounts {
        self.token
    }

    /// The tenure of the token holder in force here: so often the token was passed on.
    #[must_use]
    pub fn tenure(&self) -> u32 {
        self.total.tenure()
    }

    /// Checks what must always hold.
    ///
    /// # Panics
    /// When it does not.
    pub fn check_invariants(&self) {
        self.streams.iter().for_each(Stream::check_invariants);
        let own = &self.streams[self.set.me.index()];
        self.tx.check_invariants();
        assert_eq!(own.rx.prefix(), self.tx.next().prefix_before(), "our stream and our sending side disagree");
        assert!(self.total.delivered() <= self.streams.iter().map(|s| s.delivered).sum(), "more abcasts than messages");
        let members = self.set.members.len();
        self.total.check_invariants(members);
        self.outbox.check_invariants();
        assert_eq!(self.streams.len(), members, "each member has a stream");
        assert!(self.due.is_empty(), "the list that is lent is empty between messages");
        assert!(self.packer.len() <= self.set.packet_room, "the packet being filled is too long");
        assert!(self.last_unsequenced <= self.sent, "an abcast went out that was not sent");
        assert!(self.announced_stable <= self.tx.stable(), "more is told to be stable than is");
        assert!(self.packed_stable <= self.announced_stable, "a packet tells of more than was announced");
        assert!(self.prompt_up_to <= self.tx.next().prefix_before(), "somebody waits for a packet that was not sent");
        let holds = self.total.holder() == self.set.me;
        assert!(self.holder.is_none() || holds, "two members order at a time");
        let mut told = self.announced_deps.iter().zip(&self.streams);
        assert!(told.all(|(told, s)| *told <= s.delivered), "our messages depend on what was not delivered");
        if let Some(holder) = &self.holder {
            holder.check_invariants(self.streams.iter().map(|s| (s.delivered, s.parsed)));
        }
    }
}
