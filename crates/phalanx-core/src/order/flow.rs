//! All streams of one group view at one member, and the member's own sending.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;

use super::frame::{Part, put_message, put_stable};
use super::place::Holder;
use super::stream::{Deliverable, Message, Stream};
use super::total::Total;
use crate::api::Order;
use crate::id::{GroupId, Incarnation};
use crate::link::{Arrival, Receipt, Sending};
use crate::time::Instant;
use crate::wire::codec::varint_len;

/// What a flow is made of; the same at all its members but `me`.
#[derive(Clone, Debug)]
pub struct FlowSettings {
    /// The group.
    pub group: GroupId,
    /// Its view.
    pub view: u64,
    /// The packet space all its members send in; agreed, and used by no other view of any group.
    pub space: u32,
    /// Members in rank order.
    pub members: Vec<Incarnation>,
    /// This process's rank.
    pub me: usize,
    /// Bytes of frames that fit in one packet.
    pub packet_room: usize,
    /// Packets each stream may hold unconsumed.
    pub window: u64,
    /// The longest a receipt is held back.
    pub ack_delay: Duration,
    /// Bytes that may wait for the window, beyond one message.
    pub outbox_bytes: usize,
}

/// Where a flow's output goes.
pub trait Outgoing {
    /// Sends packet `number` of `space`, holding `frames`, to all other members.
    fn multicast(&mut self, space: u32, number: u64, frames: &[u8]);
    /// Sends a packet again, with the same frames, to one member.
    fn repair(&mut self, rank: usize, space: u32, number: u64, frames: &[u8]);
    /// A receipt for `rank`'s stream.
    fn receipt(&mut self, space: u32, rank: usize, receipt: &Receipt, wants_stable: bool);
    /// This member's stream status, to one member or (`None`) all others.
    fn status(&mut self, space: u32, rank: Option<usize>, status: &Status);
    /// A message for the application. True if it took it at once.
    fn deliver(&mut self, message: Deliverable) -> bool;
    /// A message of ours was bound to this view.
    fn sent(&mut self, seq: u64, order: Order, uniform: bool, payload: &[u8]);
    /// A member's packet made no sense.
    fn malformed(&mut self, rank: usize);
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

/// All streams of one group view at one member.
#[derive(Debug)]
pub struct Flow {
    pub(super) set: FlowSettings,
    pub(super) streams: Vec<Stream>,
    pub(super) total: Total,
    pub(super) holder: Option<Holder>,
    /// Per rank: the messages that the abcasts delivered so far, and their past, reach up to.
    total_past: Vec<u64>,
    tx: Sending,
    /// Frames of the packet being filled.
    pub(super) packer: Vec<u8>,
    /// Whether the packet being filled holds something whose stability is waited for.
    pub(super) packer_prompt: bool,
    outbox: VecDeque<Pending>,
    outbox_bytes: usize,
    /// Bytes of the first pending message already in packets.
    cut: usize,
    /// Messages of ours that are packed to their end.
    sent: u64,
    /// Our abcasts that went out unordered and are not yet placed.
    pub(super) own_unplaced: u64,
    /// The tenure in which this member passed the token on.
    pub(super) passed_tenure: Option<u32>,
    /// Delivered counts as told in our last causal message.
    pub(super) told: Vec<u64>,
    pub(super) told_old: bool,
    announced_stable: u64,
    prompt_up_to: u64,
    wedged: bool,
}

#[derive(Debug)]
struct Pending {
    order: Order,
    uniform: bool,
    payload: Bytes,
}

/// The end of each packet's room that is kept for a stability mark.
const MARK_ROOM: usize = 11;

impl Flow {
    /// A fresh view's streams.
    ///
    /// # Panics
    /// When `me` is not a rank of the view: an error of the caller.
    #[must_use]
    pub fn new(set: FlowSettings, now: Instant) -> Self {
        let n = set.members.len();
        assert!(set.me < n, "this process is a member of its flow");
        Self {
            streams: (0..n).map(|_| Stream::new(n, set.window)).collect(),
            total: Total::new(),
            holder: (set.me == 0).then(|| Holder::new(vec![0; n], vec![0; n])),
            total_past: vec![0; n],
            tx: Sending::new(n, set.window, now),
            packer: Vec::with_capacity(set.packet_room),
            packer_prompt: false,
            outbox: VecDeque::new(),
            outbox_bytes: 0,
            cut: 0,
            sent: 0,
            own_unplaced: 0,
            passed_tenure: None,
            told: vec![0; n],
            told_old: false,
            announced_stable: 0,
            prompt_up_to: 0,
            wedged: false,
            set,
        }
    }

    /// The view's settings.
    #[must_use]
    pub fn settings(&self) -> &FlowSettings {
        &self.set
    }

    /// Accepts a message: packs it now if the window allows, else keeps it for later. False: no credit, not taken.
    pub fn multicast(
        &mut self,
        now: Instant,
        order: Order,
        uniform: bool,
        parts: &[&[u8]],
        io: &mut impl Outgoing,
    ) -> bool {
        let len: usize = parts.iter().map(|p| p.len()).sum();
        if self.outbox.is_empty() && self.tell_past(now, order, io) && self.make_room(now, len, io) {
            self.pack(order, uniform, Part::Whole, len, io, |packer| {
                parts.iter().for_each(|p| packer.extend_from_slice(p));
            });
            return true;
        }
        if self.outbox_bytes > 0 && self.outbox_bytes + len > self.set.outbox_bytes {
            return false;
        }
        self.queue(order, uniform, Bytes::from(parts.concat()));
        true
    }

    fn queue(&mut self, order: Order, uniform: bool, payload: Bytes) {
        self.outbox_bytes += payload.len() + 1;
        self.outbox.push_back(Pending { order, uniform, payload });
    }

    /// Makes room in the packet being filled for a whole message of `len` bytes. False: it does not fit in any
    /// packet, or nothing may be sent now.
    fn make_room(&mut self, now: Instant, len: usize, io: &mut impl Outgoing) -> bool {
        let need = self.header_bound() + len;
        if need > self.usable_room() {
            return false;
        }
        if self.packer.len() + need > self.usable_room() {
            self.close_packet(now, io);
        }
        self.may_pack()
    }

    pub(super) fn usable_room(&self) -> usize {
        self.set.packet_room - MARK_ROOM
    }

    /// Whether frames may be added to the packet being filled.
    pub(super) fn may_pack(&self) -> bool {
        !self.wedged && self.tx.may_send()
    }

    /// Appends one piece of a message.
    fn pack(
        &mut self,
        order: Order,
        uniform: bool,
        part: Part,
        len: usize,
        io: &mut impl Outgoing,
        body: impl FnOnce(&mut Vec<u8>),
    ) {
        // A message is sent when its last piece is: its causal past is what was delivered here by then.
        let ends = matches!(part, Part::Whole | Part::Last);
        let deps = if ends && order != Order::Fifo { self.take_deps() } else { Vec::new() };
        // An abcast of the token holder is ordered by its place in the stream, unless an earlier one of its own
        // still waits to be ordered, or it needs several packets.
        let placed = order == Order::Total && part == Part::Whole && self.holder.is_some() && self.own_unplaced == 0;
        if order == Order::Total && ends && !placed {
            self.own_unplaced += 1;
        }
        put_message(&mut self.packer, order, placed, uniform, part, &deps, len);
        let start = self.packer.len();
        body(&mut self.packer);
        self.packer_prompt |= uniform;
        if ends {
            self.sent += 1;
        }
        if part == Part::Whole {
            io.sent(self.sent, order, uniform, &self.packer[start..]);
        }
    }

    /// Packs what waits in the outbox, as far as the window allows.
    fn drain_outbox(&mut self, now: Instant, io: &mut impl Outgoing) {
        while let Some(next) = self.outbox.front() {
            let (order, uniform, payload) = (next.order, next.uniform, next.payload.clone());
            if !self.tell_past(now, order, io) {
                return;
            }
            if self.cut == 0 && self.header_bound() + payload.len() <= self.usable_room() {
                if !self.make_room(now, payload.len(), io) {
                    return;
                }
                self.pack(order, uniform, Part::Whole, payload.len(), io, |p| p.extend_from_slice(&payload));
                self.forget_front();
                continue;
            }
            if !self.pack_piece(now, order, uniform, &payload, io) {
                return;
            }
        }
    }

    /// Packs the next piece of a message that needs several packets. False: nothing may be sent now.
    fn pack_piece(
        &mut self,
        now: Instant,
        order: Order,
        uniform: bool,
        payload: &Bytes,
        io: &mut impl Outgoing,
    ) -> bool {
        let header = self.header_bound() + varint_len(payload.len() as u64);
        if self.packer.len() + header >= self.usable_room() {
            self.close_packet(now, io);
        }
        if !self.may_pack() {
            return false;
        }
        let rest = payload.len() - self.cut;
        let mut take = rest.min(self.usable_room() - self.packer.len() - header);
        if self.cut == 0 && take == rest {
            take = rest / 2; // a message cut into pieces has a first and a last one
        }
        let part = match (self.cut == 0, take == rest) {
            (true, _) => Part::First(payload.len()),
            (false, true) => Part::Last,
            (false, false) => Part::Middle,
        };
        let piece = payload.slice(self.cut..self.cut + take);
        self.pack(order, uniform, part, take, io, |p| p.extend_from_slice(&piece));
        self.cut += take;
        if part == Part::Last {
            io.sent(self.sent, order, uniform, payload);
            self.forget_front();
        }
        true
    }

    fn forget_front(&mut self) {
        self.cut = 0;
        if let Some(done) = self.outbox.pop_front() {
            self.outbox_bytes -= done.payload.len() + 1;
        }
    }

    /// Sends the packet being filled, if it holds anything, and takes it into our own stream.
    pub(super) fn close_packet(&mut self, now: Instant, io: &mut impl Outgoing) {
        if self.packer.is_empty() {
            return;
        }
        debug_assert!(self.tx.may_send(), "a packet is filled only when it may be sent");
        let stable = self.tx.stable();
        if stable > self.announced_stable {
            put_stable(&mut self.packer, stable);
            self.announced_stable = stable;
        }
        let number = self.tx.next();
        io.multicast(self.set.space, number, &self.packer);
        let frames = Bytes::copy_from_slice(&self.packer);
        self.packer.clear();
        self.tx.push(now, frames.clone());
        if std::mem::take(&mut self.packer_prompt) {
            self.prompt_up_to = number;
        }
        let me = self.set.me;
        let arrival = self.streams[me].rx.accept(number, frames);
        debug_assert_eq!(arrival, Arrival::New, "our own packets come once, in order");
        self.parse(me, u64::MAX, io);
    }

    pub(super) fn parse(&mut self, rank: usize, up_to: u64, io: &mut impl Outgoing) -> bool {
        let parsed = self.streams[rank].parse(up_to, rank_u16(rank), &mut self.total);
        if parsed.malformed {
            io.malformed(rank);
        }
        parsed.prompt
    }

    /// A packet of `rank`'s stream arrived.
    pub fn handle_packet(
        &mut self,
        now: Instant,
        rank: usize,
        number: u64,
        frames: &[u8],
        io: &mut impl Outgoing,
    ) -> Arrival {
        let Some(stream) = self.streams.get_mut(rank) else { return Arrival::Ahead };
        if rank == self.set.me || stream.rx.has(number) {
            if !self.wedged && rank != self.set.me {
                stream.rx.ack_by(now); // its receipt was lost
            }
            return Arrival::Duplicate;
        }
        let arrival = stream.rx.accept(number, Bytes::copy_from_slice(frames));
        if self.wedged || arrival == Arrival::Ahead {
            return arrival; // kept, neither acknowledged nor parsed
        }
        let prompt = self.parse(rank, u64::MAX, io);
        let rx = &mut self.streams[rank].rx;
        let soon = prompt || rx.has_gap() || u64::from(rx.unacknowledged()) * 4 >= self.set.window;
        rx.ack_by(if soon { now } else { now + self.set.ack_delay });
        arrival
    }

    /// A packet handed on by somebody who holds it; taken only inside a known cut.
    pub fn handle_recovered(&mut self, rank: usize, number: u64, frames: Bytes) {
        if let Some(stream) = self.streams.get_mut(rank) {
            stream.rx.accept(number, frames);
        }
    }

    /// `rank` says what it has of our stream.
    pub fn handle_receipt(
        &mut self,
        now: Instant,
        rank: usize,
        receipt: &Receipt,
        wants_stable: bool,
        io: &mut impl Outgoing,
    ) {
        self.tx.handle_receipt(now, rank, receipt);
        if wants_stable && rank != self.set.me {
            let status = self.status();
            io.status(self.set.space, Some(rank), &status);
        }
    }

    /// `rank` says where its stream stands.
    pub fn handle_status(&mut self, now: Instant, rank: usize, status: &Status) {
        let Some(stream) = self.streams.get_mut(rank) else { return };
        if rank == self.set.me {
            return;
        }
        stream.set_stable(status.stable.min(stream.rx.prefix()));
        if self.wedged {
            return;
        }
        stream.rx.expect_up_to(status.highest);
        if status.blocked || stream.rx.has_gap() {
            stream.rx.ack_by(now);
        }
    }

    fn status(&self) -> Status {
        Status { highest: self.tx.next() - 1, stable: self.tx.stable(), blocked: self.is_blocked() }
    }

    /// Whether messages wait for credit.
    #[must_use]
    pub fn is_blocked(&self) -> bool {
        !self.outbox.is_empty() && !self.tx.may_send()
    }

    /// End of a turn: orders, packs, delivers, repairs, acknowledges. True if it delivered or packed something: the
    /// next turn may find more to do, though nothing else changes.
    pub fn turn(&mut self, now: Instant, io: &mut impl Outgoing) -> bool {
        let first = self.tx.next();
        let mut any = false;
        loop {
            let delivered = self.deliver_ready(io);
            any |= delivered;
            if !self.wedged {
                self.place(now, io);
                self.drain_outbox(now, io);
                self.close_packet(now, io);
            }
            self.acknowledge_self(now);
            if !delivered && !self.has_deliverable() {
                break;
            }
        }
        self.tx.handle_timeout(now, self.set.ack_delay);
        while let Some((rank, number, frames)) = self.tx.poll_repair() {
            if rank != self.set.me {
                io.repair(rank, self.set.space, number, &frames);
            }
        }
        self.announce_stability(io);
        self.send_receipts(now, io);
        any || self.tx.next() > first
    }

    fn acknowledge_self(&mut self, now: Instant) {
        let me = self.set.me;
        let own = &self.streams[me];
        let (prefix, limit) = (own.rx.prefix(), own.consumed_packet() + self.set.window);
        if !self.tx.knows(me, prefix, limit) {
            self.tx.handle_receipt(now, me, &Receipt { prefix, limit, gaps: Vec::new() });
        }
        let stable = self.tx.stable();
        self.streams[me].set_stable(stable);
    }

    /// The mark is sent at once when somebody waits or we fall idle; else it rides on the next packet.
    fn announce_stability(&mut self, io: &mut impl Outgoing) {
        let stable = self.tx.stable();
        if stable > self.announced_stable && (self.prompt_up_to > self.announced_stable || self.tx.outstanding() == 0) {
            self.announced_stable = stable;
            if self.set.members.len() > 1 {
                io.status(self.set.space, None, &self.status());
            }
        }
    }

    fn send_receipts(&mut self, now: Instant, io: &mut impl Outgoing) {
        if self.wedged {
            return; // a wedged member acknowledges nothing
        }
        let (me, window, space) = (self.set.me, self.set.window, self.set.space);
        for (rank, stream) in self.streams.iter_mut().enumerate() {
            let limit = stream.consumed_packet() + window;
            let opened = limit >= stream.advertised + window.div_ceil(2);
            let due = stream.rx.ack_due().is_some_and(|at| at <= now);
            if rank != me && (due || opened) {
                stream.rx.acknowledged();
                stream.advertised = stream.advertised.max(limit);
                io.receipt(space, rank, &stream.rx.receipt(limit), false);
            }
        }
    }

    /// Now and then: tells where streams stand, so that nothing waits for a lost receipt or mark.
    pub fn heartbeat(&mut self, io: &mut impl Outgoing) {
        if self.tx.outstanding() > 0 || self.is_blocked() {
            io.status(self.set.space, None, &self.status());
        }
        if self.wedged {
            return;
        }
        let (me, window, space) = (self.set.me, self.set.window, self.set.space);
        for (rank, stream) in self.streams.iter_mut().enumerate() {
            if rank != me && stream.has_unstable() {
                let limit = stream.consumed_packet() + window;
                io.receipt(space, rank, &stream.rx.receipt(limit), true);
            }
        }
    }

    /// Delivers whatever may be delivered; true if anything was.
    pub(super) fn deliver_ready(&mut self, io: &mut impl Outgoing) -> bool {
        let mut any = false;
        while self.has_queued() {
            let mut progress = false;
            for rank in 0..self.streams.len() {
                while self.is_ready(rank) {
                    self.deliver_head(rank, io);
                    progress = true;
                }
            }
            if !progress {
                return any;
            }
            any = true;
        }
        any
    }

    /// Whether any message waits to be delivered, at a glance.
    fn has_queued(&self) -> bool {
        self.streams.iter().any(|stream| !stream.queue.is_empty())
    }

    fn has_deliverable(&mut self) -> bool {
        self.has_queued() && (0..self.streams.len()).any(|rank| self.is_ready(rank))
    }

    fn is_ready(&mut self, rank: usize) -> bool {
        let Some(head) = self.streams[rank].queue.front() else { return false };
        let (order, uniform, packet) = (head.order, head.uniform, head.packet);
        if order == Order::Total && self.total.front().is_none_or(|run| usize::from(run.rank) != rank) {
            return false;
        }
        if order != Order::Fifo && !self.deps_met(rank) {
            return false;
        }
        !uniform || self.is_stable(rank, order, packet)
    }

    /// Whether all that the head of `rank`'s queue depends on was delivered here.
    pub(super) fn deps_met(&self, rank: usize) -> bool {
        self.streams[rank].queue.front().is_some_and(|head| {
            head.deps
                .iter()
                .all(|&(r, count)| usize::from(r) == rank || self.streams[usize::from(r)].delivered >= count)
        })
    }

    /// Stable: every member has the message and its past, and for an abcast also what its place rests on: all
    /// abcasts before it with their past, and the announcements that order them. The past is that of all its
    /// sender's messages so far: one of them held back would hold this one back.
    fn is_stable(&mut self, rank: usize, order: Order, packet: u64) -> bool {
        if self.streams[rank].stable < packet {
            return false;
        }
        let stream = &mut self.streams[rank];
        stream.advance_to_head();
        let past = self.streams[rank].head_vector().iter().enumerate();
        let past_stable = past.into_iter().all(|(r, &needed)| r == rank || self.streams[r].stable_messages >= needed);
        if order != Order::Total || !past_stable {
            return past_stable;
        }
        let has = |holder: u16, packet: u64| self.streams[usize::from(holder)].stable >= packet;
        self.total.front().is_some_and(|run| has(run.by, run.packet))
            && self.total.rests_on().all(|(holder, packet)| has(holder, packet))
            && self.streams.iter().zip(&self.total_past).all(|(s, &past)| s.stable_messages >= past)
    }

    /// Delivers the head of `rank`'s queue.
    fn deliver_head(&mut self, rank: usize, io: &mut impl Outgoing) {
        let position = if self.streams[rank].queue.front().is_some_and(|m| m.order == Order::Total) {
            Some(self.total.take_front())
        } else {
            None
        };
        self.deliver_numbered(rank, position, io);
    }

    pub(super) fn deliver_numbered(&mut self, rank: usize, position: Option<u64>, io: &mut impl Outgoing) {
        let stream = &mut self.streams[rank];
        let Some(Message { order, uniform, deps, seq, payload, .. }) = stream.queue.pop_front() else { return };
        stream.advance_head(&deps);
        stream.delivered += 1;
        if order == Order::Total {
            self.total_past[rank] = seq;
            for (past, &needed) in self.total_past.iter_mut().zip(stream.head_vector()) {
                *past = needed.max(*past);
            }
        }
        if let Some(holder) = &mut self.holder {
            holder.passed(rank, seq, order);
        }
        debug_assert_eq!(stream.delivered, seq, "delivered in the order sent");
        if rank != self.set.me {
            self.told_old = true;
        }
        if io.deliver(Deliverable { rank, seq, order, uniform, position, payload }) {
            self.streams[rank].consume(1);
        }
    }

    /// The application took a message of `rank` that it had not taken at once.
    pub fn consumed(&mut self, rank: usize) {
        if let Some(stream) = self.streams.get_mut(rank) {
            stream.consume(1);
        }
    }

    /// Stops sending, acknowledging and parsing, for good in this view. Gives, per stream, the prefix that is held:
    /// what came after the stop is part of it, neither acknowledged nor delivered.
    pub fn wedge(&mut self, now: Instant, io: &mut impl Outgoing) -> Vec<u64> {
        if !self.wedged {
            self.close_packet(now, io); // messages already bound to this view belong to our prefix
            self.wedged = true;
        }
        self.streams.iter().map(|s| s.rx.held()).collect()
    }

    /// Whether the view is being left.
    #[must_use]
    pub fn is_wedged(&self) -> bool {
        self.wedged
    }

    /// Per stream: the prefix parsed, and the prefix held.
    pub fn prefixes(&self) -> impl Iterator<Item = (u64, u64)> {
        self.streams.iter().map(|s| (s.rx.prefix(), s.rx.held()))
    }

    /// The decided next view leaves this one as it is: it goes on.
    pub fn unwedge(&mut self, now: Instant, io: &mut impl Outgoing) {
        if std::mem::take(&mut self.wedged) {
            for rank in 0..self.streams.len() {
                self.parse(rank, u64::MAX, io);
                if rank != self.set.me {
                    self.streams[rank].rx.ack_by(now);
                }
            }
        }
    }

    /// A packet of `rank`'s stream kept for others.
    #[must_use]
    pub fn kept(&self, rank: usize, number: u64) -> Option<Bytes> {
        self.streams.get(rank)?.packet(number)
    }

    /// When something is due without further input.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        if !self.packer.is_empty() || (!self.outbox.is_empty() && self.may_pack()) {
            return Some(Instant::ZERO); // accepted between two turns: it goes out with the next, at once
        }
        let receipts = if self.wedged { None } else { self.streams.iter().filter_map(|s| s.rx.ack_due()).min() };
        [receipts, self.tx.deadline(self.set.ack_delay)].into_iter().flatten().min()
    }

    /// Messages not bound to this view, in order, for the next one. A message cut off in its middle starts again.
    pub fn take_outbox(&mut self) -> Vec<(Order, bool, Bytes)> {
        self.cut = 0;
        self.outbox_bytes = 0;
        self.outbox.drain(..).map(|p| (p.order, p.uniform, p.payload)).collect()
    }

    /// Puts back what [`Self::take_outbox`] of the previous view gave.
    pub fn put_outbox(&mut self, messages: Vec<(Order, bool, Bytes)>) {
        for (order, uniform, payload) in messages {
            self.queue(order, uniform, payload);
        }
    }

    /// Messages and bytes accepted and not yet in a packet.
    #[must_use]
    pub fn queued(&self) -> (usize, usize) {
        (self.outbox.len(), self.outbox_bytes)
    }

    /// Of the streams here, the most packets that one keeps for others, and that wait for one before them.
    #[must_use]
    pub fn held(&self) -> (usize, usize) {
        self.streams.iter().map(Stream::held).fold((0, 0), |a, b| (a.0.max(b.0), a.1.max(b.1)))
    }

    /// Packets sent and not stable.
    #[must_use]
    pub fn unstable_packets(&self) -> u64 {
        self.tx.outstanding()
    }

    /// Nothing of ours is queued, unstable or undelivered here.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.outbox.is_empty() && self.tx.outstanding() == 0 && self.streams[self.set.me].queue.is_empty()
    }

    /// The rank that holds our stream back, if any does.
    #[must_use]
    pub fn waits_for(&self) -> Option<usize> {
        self.tx.slowest()
    }

    /// The ranks that owe a receipt for packets of ours; none while the view is being left.
    pub fn late(&self) -> impl Iterator<Item = usize> {
        self.tx.late().filter(|rank| !self.wedged && *rank != self.set.me)
    }

    /// Messages sent by us and delivered here, in this view.
    #[must_use]
    pub fn counts(&self) -> (u64, u64) {
        (self.sent, self.streams.iter().map(|s| s.delivered).sum())
    }

    /// Checks what must always hold.
    ///
    /// # Panics
    /// When it does not.
    pub fn check_invariants(&self) {
        self.streams.iter().for_each(Stream::check_invariants);
        let own = &self.streams[self.set.me];
        assert_eq!(own.rx.prefix() + 1, self.tx.next(), "our stream and our sending side disagree");
        assert!(self.total.delivered() <= self.streams.iter().map(|s| s.delivered).sum(), "more abcasts than messages");
    }
}

pub(super) fn rank_u16(rank: usize) -> u16 {
    u16::try_from(rank).unwrap_or(u16::MAX)
}
