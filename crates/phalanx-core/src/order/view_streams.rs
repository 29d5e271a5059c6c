//! All streams of one group view at one member, and the sending of its own: packing, acknowledgements, retransmission,
//! stability.

use std::time::Duration;

use super::backpressure::BackpressureState;
use super::flow_control_lag::FlowControlLag;
use super::outbox::Outbox;
use super::output::{Backpressure, Hold, Status, StreamOutput};
use super::packer::{AskHead, Packer};
use super::packet_reader::Orders;
use super::receipts::Receipts;
use super::sequencer::Sequencer;
use super::stream::{HeldPackets, Stream};
use super::total_order::Total;
use crate::frames::{Frames, Pool, ReceivedFrames};
use crate::id::{GroupId, Incarnation, Rank, Sequence, ViewNumber};
use crate::link::{Ack, Arrival, Sending, StreamReport};
use crate::time::Instant;
use crate::wire::{PacketNumber, Space};

/// Settings of a view's streams, the same at all members except for `me`.
#[derive(Clone, Debug)]
pub struct ViewStreamsSettings {
    /// The group.
    pub group: GroupId,
    /// The number of the group's view.
    pub view: ViewNumber,
    /// The packet-number space in which all members send. The decree that makes the view assigns it; no other view has
    /// it.
    pub space: Space,
    /// Members in rank order.
    pub members: Vec<Incarnation>,
    /// This process's rank.
    pub me: Rank,
    /// The most bytes of frames in one packet.
    pub packet_room: usize,
    /// The most packets of each stream that may be unconsumed.
    pub window: u64,
    /// The longest delay of an ack.
    pub ack_delay: Duration,
    /// The most bytes that may wait for the window, beyond one message.
    pub outbox_bytes: usize,
    /// Abcasts after which the token holder checks which member sends most; see [`crate::Limits::token_tally`].
    pub token_tally: u64,
}

impl ViewStreamsSettings {
    /// The most packets that a member may have sent and not know to be stable: its window, and the announcements that
    /// may exceed it. Receivers keep as many, see [`crate::link::Receiving`].
    #[must_use]
    pub fn unstable_max(&self) -> u64 {
        self.window + self.orders_ahead()
    }

    /// Packets by which the token holder may exceed its window to announce orders. One is enough: all that a holder's
    /// own messages depend on was delivered at the holder, so that its first announcement orders all of them.
    pub(super) fn orders_ahead(&self) -> u64 {
        self.window.min(2)
    }
}

/// Events of a group view's token at one member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenCounts {
    /// How often this member passed the token on.
    pub passed: u64,
    /// How often this member kept it although another sends most, because not all members had the pass that brought it.
    pub kept: u64,
    /// How often a stream had to wait for the pass that gave its sender the token.
    pub overtaken: u64,
}

/// How far a member has one stream, in packets without a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamPrefixes {
    /// Every packet up to here is parsed.
    pub parsed: u64,
    /// Every packet up to here is held, parsed or not.
    pub held: u64,
}

/// Message counts of one view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageCounts {
    /// Sent by this member.
    pub sent: u64,
    /// Delivered at this member, its own included.
    pub delivered: u64,
}

/// Messages that were accepted and that no packet holds yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backlog {
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
    /// By rank: the last message on which the abcasts delivered so far depend.
    pub(super) total_past: Vec<u64>,
    pub(super) tx: Sending,
    pub(super) packer: Packer,
    pub(super) outbox: Outbox,
    pub(crate) ask_head: AskHead,
    /// Our last message that is packed to its end.
    pub(super) sent: Sequence,
    /// What became of our messages, for their sender.
    pub(super) receipts: Receipts,
    /// The number of our last abcast that went out without a place.
    pub(super) last_unsequenced: Sequence,
    /// This process hears no quorum of the cell. No uniform message is sent or delivered until it does, or the view
    /// ends.
    pub(super) outside: bool,
    /// The tenure in which this member passed the token on. It stays set until the pass is read here.
    pub(super) passed_tenure: Option<u32>,
    /// What became of the token here.
    pub(super) token: TokenCounts,
    /// Delivered counts as of our last causal message, by rank.
    pub(super) announced_deps: Vec<u64>,
    /// Whether messages were delivered since then. Spares the search for most messages.
    pub(super) announced_old: bool,
    /// Buffer for a message's dependencies while its header is written; empty otherwise.
    pub(super) due: Vec<(Rank, u64)>,
    /// The last stability announcement, in any packet.
    pub(super) announced_stable: u64,
    /// The last stability announcement in a packet of the stream, which is retransmitted if lost.
    pub(super) packed_stable: u64,
    /// The last packet of ours for whose stability a member waits.
    pub(super) prompt_up_to: u64,
    pub(super) wedged: bool,
    /// The data socket takes no more packets for now: messages wait in the outbox.
    pub(super) congested: bool,
    /// The view has too few members: no uniform message is sent, nor any message behind one.
    pub(super) inadequate: bool,
    /// The next acks request the senders' status.
    acks_ask_status: bool,
    /// How long each member has held our stream back.
    pub(super) flow_control_lag: FlowControlLag,
    pub(super) backpressure: BackpressureState,
    /// Buffers of packets that are stable and delivered.
    pub(super) pool: Pool,
}

impl ViewStreams {
    /// The streams of a new view.
    ///
    /// # Panics
    /// If `me` is not a rank of the view. That is an error of the caller.
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
            packer: Packer { frames: Vec::with_capacity(set.packet_room), is_prompt: false },
            outbox: Outbox::default(),
            ask_head: AskHead::of_nobody(),
            sent: Sequence::NONE,
            receipts: Receipts::new(n),
            last_unsequenced: Sequence::NONE,
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

    /// Parses the packets that came of `rank`'s stream, and those of other streams that waited for a token pass in it.
    /// True if the stream is acknowledged at once.
    pub(super) fn parse(&mut self, now: Instant, rank: Rank, io: &mut impl StreamOutput) -> bool {
        debug_assert!(!self.wedged, "a member that is wedged reads no further");
        let orders = if rank == self.set.me { Orders::Own } else { Orders::Evaluated };
        let mut tenure = self.total.tenure();
        let prompt = self.parse_stream(rank, u64::MAX, orders, io);
        // 1. A pass in this stream begins a tenure.
        // 2. The new holder's stream, received earlier, waited for it, and may hold the next pass. So all streams are
        //    tried again until no pass is found.
        while self.total.tenure() > tenure {
            tenure = self.total.tenure();
            let me = self.set.me;
            for other in Rank::all(self.streams.len()).filter(|other| *other != me) {
                let before = self.streams[other.index()].rx.prefix();
                self.parse_stream(other, u64::MAX, Orders::Evaluated, io);
                if self.streams[other.index()].rx.prefix() > before {
                    self.token.overtaken += 1;
                    self.streams[other.index()].rx.ack_by(now);
                }
            }
        }
        prompt
    }

    /// Parses the packets that came of one stream, up to number `up_to`.
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

    /// Takes a packet of `rank`'s stream that arrived. Also a duplicate is acknowledged, because its ack may be lost.
    pub fn handle_packet(
        &mut self,
        now: Instant,
        rank: Rank,
        number: PacketNumber,
        frames: ReceivedFrames<'_>,
        io: &mut impl StreamOutput,
    ) -> Arrival {
        // The rank comes from a packet: one beyond the view is dropped.
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
        // At once if a member waits or a packet is missing, and at a quarter of the window: the sender must not run out
        // of credit while an ack is delayed.
        let soon = prompt || rx.has_gap() || u64::from(rx.unacknowledged()) * 4 >= self.set.window;
        rx.ack_by(if soon { now } else { now + self.set.ack_delay });
        arrival
    }

    /// Takes a packet from a member that holds it, during cut recovery. The caller takes only packets inside a known
    /// cut.
    pub fn handle_recovered(&mut self, rank: Rank, number: PacketNumber, frames: Frames) {
        if let Some(stream) = self.streams.get_mut(rank.index()) {
            // Not parsed: a wedged member acts upon nothing before the cut is decided.
            stream.rx.accept(number, frames);
        }
    }

    /// Takes `rank`'s ack for our stream, and answers with our status if `rank` requests it.
    pub fn handle_ack(&mut self, now: Instant, rank: Rank, ack: &Ack, wants_stable: bool, io: &mut impl StreamOutput) {
        self.tx.handle_ack(now, rank.index(), ack);
        if wants_stable && rank != self.set.me {
            let status = self.status();
            io.status(self.set.space, Some(rank), &status);
        }
    }

    /// Notes that packets may have been dropped on their way in. The next poll acknowledges all streams, and requests
    /// the senders' status.
    pub fn handle_loss(&mut self, now: Instant) {
        if self.wedged {
            return;
        }
        // A loss at the end of a stream leaves no gap. The sender's status shows it.
        self.acks_ask_status = true;
        for (rank, stream) in Rank::enumerate(self.streams.iter_mut()) {
            if rank != self.set.me && stream.rx.has_begun() {
                stream.rx.ack_by(now);
            }
        }
    }

    /// Takes the status of `rank`'s stream.
    pub fn handle_status(&mut self, now: Instant, rank: Rank, status: &Status) {
        let Some(stream) = self.streams.get_mut(rank.index()) else { return };
        if rank == self.set.me {
            return;
        }
        // The status may come before packets that it covers: stability counts only for what was parsed here.
        stream.set_stable(status.stable.min(stream.rx.prefix()), &mut self.pool);
        if self.wedged {
            return;
        }
        // Packets that the sender reports and that are not here become gaps of the next ack.
        stream.rx.expect_up_to(status.highest);
        if status.blocked || stream.rx.has_gap() {
            stream.rx.ack_by(now);
        }
    }

    fn status(&self) -> Status {
        debug_assert!(self.tx.stable() <= self.tx.next().prefix_before(), "a packet is stable that was not sent");
        Status { highest: self.tx.next().prefix_before(), stable: self.tx.stable(), blocked: self.is_blocked() }
    }

    /// Whether messages wait for credit.
    #[must_use]
    pub fn is_blocked(&self) -> bool {
        !self.outbox.is_empty() && !self.tx.may_send()
    }

    /// Whether the data socket was full at the last check. Each packet sent updates it; see [`Self::set_congested`].
    #[must_use]
    #[inline]
    pub fn is_congested(&self) -> bool {
        self.congested
    }

    /// Sets whether the data socket takes no more packets. Meanwhile no message is packed. The packet being filled
    /// still goes out, and so do orders, acks and retransmissions: others wait for them.
    pub fn set_congested(&mut self, congested: bool) {
        self.congested = congested;
    }

    /// Whether a message may be packed now.
    #[inline]
    pub(super) fn may_pack(&self) -> bool {
        !self.wedged && !self.congested && self.tx.may_send()
    }

    /// Whether the view has as many members as agreed.
    #[must_use]
    pub fn is_adequate(&self) -> bool {
        !self.inadequate
    }

    /// Sets whether the view has as many members as agreed. While it has not, no uniform message is sent.
    pub fn set_adequate(&mut self, is_adequate: bool) {
        self.inadequate = !is_adequate;
    }

    /// Whether uniform messages wait for a quorum of the cell or for more members.
    #[inline]
    pub(super) fn withholds(&self) -> bool {
        self.outside || self.inadequate
    }

    /// Whether the first waiting message waits for a quorum of the cell or for more members.
    #[inline]
    pub(super) fn front_is_withheld(&self) -> bool {
        self.withholds() && self.outbox.front().is_some_and(|front| front.request.uniformity.is_uniform())
    }

    /// Whether something waits that could be sent now.
    #[must_use]
    #[inline]
    pub fn is_packing(&self) -> bool {
        !self.packer.frames.is_empty() || (!self.outbox.is_empty() && self.may_pack() && !self.front_is_withheld())
    }

    /// Sends what was accepted or ordered since the last packet. The caller does so before it handles further input.
    ///
    /// Orders that wait for the window come before our own messages. A token holder that always has more to send than
    /// the window takes would otherwise order nobody else's abcasts.
    pub fn flush(&mut self, now: Instant, io: &mut impl StreamOutput) {
        if !self.wedged {
            if self.backpressure.orders {
                self.sequence(now, io);
            }
            self.drain_outbox(now, io);
            self.close_packet(now, io);
        }
    }

    /// Ends an iteration of the event loop: orders, delivers, packs, retransmits, acknowledges. True if it delivered or
    /// packed something: the next iteration may find more to do without new input.
    ///
    /// After a delivery the packet being filled stays open, with the order just given. The application's answer then
    /// travels in the same packet. The next iteration or [`Self::flush`], due at once, sends it.
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
        self.give_receipts(io);
        self.announce_stability(io);
        self.send_acks(now, io);
        let withheld = !self.wedged && self.front_is_withheld();
        let bound = if self.outside { Backpressure::Quorum } else { Backpressure::Members };
        self.backpressure.note_withheld(withheld, bound, io);
        // A wait ends when the outbox is empty, not when the window opens.
        let is_full = !self.wedged && !self.tx.may_send();
        let waits = !self.outbox.is_empty() && (self.backpressure.window || is_full);
        self.backpressure.note_window(waits, io);
        any || self.tx.next() > first
    }

    /// Delivers what is ready, orders what can be ordered, and packs what waits. True if it delivered something. The
    /// caller calls [`Self::poll`] afterwards.
    pub fn deliver(&mut self, now: Instant, io: &mut impl StreamOutput) -> bool {
        // Once before and once after ordering. A loop around one call, so that `deliver_ready` is inlined once.
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

    /// Reports how far our messages are stable, if that has changed. Not outside the primary partition: the others may
    /// have gone on without this process, and what they hold of this view counts for nothing there.
    #[inline]
    fn give_receipts(&mut self, io: &mut impl StreamOutput) {
        let streams = &self.streams;
        self.receipts.acknowledged(self.tx.stable(), |rank| streams[rank.index()].stable_messages);
        if !self.outside
            && let Some(seq) = self.receipts.report()
        {
            io.stable(seq);
        }
    }

    /// Announces stability in a packet of its own if a member waits for it or we fall idle. Otherwise the next packet
    /// of the stream carries it, and saves a datagram.
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
            // Its report must stay true: the cut is made of what members held, and had acted upon, when they reported.
            return; // a wedged member acknowledges nothing
        }
        debug_assert!(self.streams[self.set.me.index()].rx.ack_due().is_none(), "nobody acknowledges to itself");
        let (me, window, space) = (self.set.me, self.set.window, self.set.space);
        let asks = std::mem::take(&mut self.acks_ask_status);
        for (rank, stream) in Rank::enumerate(self.streams.iter_mut()) {
            let limit = stream.consumed_packet() + window;
            // Half a window of new credit goes out without a packet to acknowledge: a sender whose window is full sends
            // none.
            let opened = limit >= stream.advertised + window.div_ceil(2);
            let due = stream.rx.ack_due().is_some_and(|at| at <= now);
            if rank != me && (due || opened) {
                stream.rx.acknowledged();
                stream.advertised = stream.advertised.max(limit);
                io.ack(space, rank, &stream.rx.ack(limit), asks);
            }
        }
    }

    /// Repeats the status of our stream and the acks of others, so that nothing waits for a lost one. Called at each
    /// heartbeat.
    pub fn heartbeat(&mut self, io: &mut impl StreamOutput) {
        let hold = self.hold();
        self.backpressure.note_hold(hold, io);
        // Nothing else repeats a status or an ack that was lost: they are best-effort packets.
        if self.tx.outstanding() > 0 || self.is_blocked() {
            io.status(self.set.space, None, &self.status());
        }
        if self.wedged {
            return;
        }
        let (me, window, space) = (self.set.me, self.set.window, self.set.space);
        for (rank, stream) in Rank::enumerate(self.streams.iter_mut()) {
            // With a request for the sender's status, because its stability announcement may have been lost.
            if rank != me && stream.has_unstable() {
                let limit = stream.consumed_packet() + window;
                io.ack(space, rank, &stream.rx.ack(limit), true);
            }
        }
    }

    /// Stops sending, acknowledging and parsing, for good in this view. Returns for each stream how far it is held and
    /// makes sense. That includes packets that arrived after the stop: they are neither acknowledged nor delivered.
    pub fn wedge(&mut self, now: Instant, io: &mut impl StreamOutput) -> Vec<StreamReport> {
        if !self.wedged {
            self.close_packet(now, io); // messages already bound to this view belong to our prefix
            self.wedged = true;
        }
        self.scan_ahead(io);
        debug_assert!(self.packer.frames.is_empty(), "a packet waits that nobody will have");
        self.streams.iter().map(Stream::stream_report).collect()
    }

    /// Whether this member alone has unstable packets or stability to announce, and no more to send. With the next ack
    /// or announcement the group falls silent.
    #[must_use]
    pub fn is_last_falling_idle(&self) -> bool {
        let me = self.set.me;
        let open = self.tx.outstanding() > 0 || self.tx.stable() > self.announced_stable;
        let is_silent = |(rank, stream): (Rank, &Stream)| rank == me || !stream.has_unstable();
        !self.wedged && open && self.outbox.is_empty() && Rank::enumerate(&self.streams).all(is_silent)
    }

    /// Sets whether this process hears a quorum of the cell. While it does not, it neither sends nor delivers uniform
    /// messages: the others may continue without what this group delivers. What a cut holds is decided, and is
    /// delivered in any case.
    pub fn set_primary(&mut self, is_primary: bool) {
        self.outside = !is_primary;
    }

    /// Whether all accepted messages were sent, except those that wait for more members. Without a quorum nothing is
    /// decided, and they are sent once it is heard again.
    #[must_use]
    pub fn is_sent(&self) -> bool {
        self.outbox.is_empty() || self.front_is_withheld() && !self.outside
    }

    /// Whether the view is about to end.
    #[must_use]
    pub fn is_wedged(&self) -> bool {
        self.wedged
    }

    /// How far each stream is parsed and held, by rank.
    pub fn prefixes(&self) -> impl Iterator<Item = StreamPrefixes> {
        self.streams.iter().map(|s| StreamPrefixes { parsed: s.rx.prefix(), held: s.rx.held() })
    }

    /// Continues in this view: the decided next view of the cell leaves the group as it is.
    pub fn unwedge(&mut self, now: Instant, io: &mut impl StreamOutput) {
        if std::mem::take(&mut self.wedged) {
            // Packets that arrived meanwhile were held without being parsed or acknowledged.
            for rank in Rank::all(self.streams.len()) {
                self.parse(now, rank, io);
                if rank != self.set.me {
                    self.streams[rank.index()].rx.ack_by(now);
                }
            }
        }
    }

    /// A packet of `rank`'s stream that is held here for others.
    #[must_use]
    pub fn kept(&self, rank: Rank, number: PacketNumber) -> Option<Frames> {
        self.streams.get(rank.index())?.packet(number)
    }

    /// When [`Self::poll`] is due without further input.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        if self.is_packing() {
            return Some(Instant::ZERO); // accepted between two turns: it goes out with the next, at once
        }
        let acks = if self.wedged { None } else { self.streams.iter().filter_map(|s| s.rx.ack_due()).min() };
        [acks, self.tx.deadline(self.set.ack_delay)].into_iter().flatten().min()
    }

    /// The most held packets of each kind that any stream has.
    #[must_use]
    pub fn held(&self) -> HeldPackets {
        self.streams.iter().map(Stream::held).fold(HeldPackets::default(), HeldPackets::max)
    }

    /// The number of the next packet of this member's stream.
    #[must_use]
    pub fn next_packet(&self) -> PacketNumber {
        self.tx.next()
    }

    /// Number of packets of ours that are not stable.
    #[must_use]
    pub fn unstable_packets(&self) -> u64 {
        self.tx.outstanding()
    }

    /// Whether nothing of ours is queued, unstable or undelivered here.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.outbox.is_empty() && self.tx.outstanding() == 0 && self.streams[self.set.me.index()].queue.is_empty()
    }

    /// The rank that holds our stream back, if any does.
    #[must_use]
    pub fn waits_for(&self) -> Option<Rank> {
        self.tx.slowest().map(Rank::from_index)
    }

    /// Why our messages wait that no packet holds; `None` if none waits.
    #[must_use]
    pub fn hold(&self) -> Option<Hold> {
        if self.outbox.is_empty() {
            return None;
        }
        if self.wedged {
            return Some(Hold::Change);
        }
        // Before the socket, which is full for moments: a message that waits for members waits however empty it is.
        if self.front_is_withheld() {
            return Some(if self.outside { Hold::Outside } else { Hold::Inadequate });
        }
        if self.congested {
            return Some(Hold::System);
        }
        let slowest = self.tx.slowest().filter(|_| !self.tx.may_send())?;
        Some(if self.tx.has_all(slowest) { Hold::Credit } else { Hold::Ack })
    }

    /// Ranks that hold this member's stream back and made no progress in it for `after`.
    ///
    /// The caller checks at each heartbeat. `passed` is the time that counts since the last check: zero if this process
    /// was away or the view is about to change. `own_waits` says that the application of this member has not taken what
    /// was delivered to it.
    ///
    /// - Members that do not acknowledge come first. Without their acks, uniform messages are delivered nowhere, and so
    ///   nobody gives credit.
    /// - Otherwise it returns the members that have everything and give no credit. If this member is one of them, it
    ///   returns nobody: the messages cannot be delivered anywhere, or the fault is here.
    /// - A token holder returns itself if its own application keeps it from ordering what others wait for.
    /// - If half of the members or more hold the stream back, and not one alone, it returns nobody: the sender is fast.
    pub fn lagging(&mut self, passed: Duration, after: Duration, own_waits: bool) -> Vec<Rank> {
        let ordering = self.orders_wait();
        // A view change stops all streams, whatever their receivers do.
        if self.wedged {
            return Vec::new();
        }
        if !(ordering || self.is_blocked()) {
            self.flow_control_lag.clear();
            return Vec::new();
        }
        let ranks = (self.set.me, self.set.members.len());
        self.flow_control_lag.lagging(&self.tx, ranks, passed, after, ordering && own_waits)
    }

    /// Ranks that owe an ack for packets of ours; none while the view is about to end.
    pub fn late(&self) -> impl Iterator<Item = Rank> {
        self.tx.late().map(Rank::from_index).filter(|rank| !self.wedged && *rank != self.set.me)
    }

    /// The prefix of our stream that `rank` acknowledged, in packets.
    #[must_use]
    pub fn acknowledged(&self, rank: Rank) -> u64 {
        self.tx.standing(rank.index()).acked
    }

    /// Message counts of this view.
    #[must_use]
    pub fn counts(&self) -> MessageCounts {
        MessageCounts { sent: self.sent.0, delivered: self.streams.iter().map(|s| s.delivered).sum() }
    }

    /// Messages delivered in this view, by sender's rank.
    #[must_use]
    pub fn delivered_counts(&self) -> Vec<u64> {
        self.streams.iter().map(|s| s.delivered).collect()
    }

    /// Events of the token, as far as this member knows.
    #[must_use]
    pub fn token_counts(&self) -> TokenCounts {
        self.token
    }

    /// The number of the tenure in force here: how often the token was passed on.
    #[must_use]
    pub fn tenure(&self) -> u32 {
        self.total.tenure()
    }

    /// Checks the invariants.
    ///
    /// # Panics
    /// If one is violated.
    pub fn check_invariants(&self) {
        self.streams.iter().for_each(Stream::check_invariants);
        let own = &self.streams[self.set.me.index()];
        self.tx.check_invariants();
        assert_eq!(own.rx.prefix(), self.tx.next().prefix_before(), "our stream and our sending side disagree");
        assert!(self.total.delivered() <= self.streams.iter().map(|s| s.delivered).sum(), "more abcasts than messages");
        let members = self.set.members.len();
        self.total.check_invariants(members);
        self.outbox.check_invariants();
        self.receipts.check_invariants(self.sent);
        assert_eq!(self.streams.len(), members, "each member has a stream");
        assert!(self.due.is_empty(), "the dependency buffer is empty between messages");
        assert!(
            self.packer.frames.len() <= self.set.packet_room,
            "the packet being filled exceeds the room of a packet"
        );
        assert!(self.last_unsequenced <= self.sent, "the last unsequenced abcast was not sent");
        assert!(self.announced_stable <= self.tx.stable(), "stability is announced beyond what is stable");
        assert!(self.packed_stable <= self.announced_stable, "a packet carries more stability than was announced");
        assert!(self.prompt_up_to <= self.tx.next().prefix_before(), "somebody waits for a packet that was not sent");
        let holds = self.total.holder() == self.set.me;
        assert!(self.holder.is_none() || holds, "a member orders without holding the token");
        let mut told = self.announced_deps.iter().zip(&self.streams);
        assert!(told.all(|(told, s)| *told <= s.delivered), "a message of ours depends on an undelivered one");
        if let Some(holder) = &self.holder {
            holder.check_invariants(self.streams.iter().map(|s| (s.delivered, s.parsed)));
        }
    }
}
