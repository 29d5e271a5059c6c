//! One member's stream at one receiver: packets in order, their messages, and the packets kept for other members'
//! retransmissions.

use std::collections::VecDeque;
use std::ops::Range;

use super::frame::{MessageHead, MessageKind, read_head};
use super::packet_reader::{Context, Orders, PacketPosition, Stop, Taker, Tenure, entry_of};
use super::total_order::{Run, Total};
use crate::api::{DomainIndex, Expected, Order, Uniformity};
use crate::frames::{Frames, Pool};
use crate::id::{Rank, Sequence};
use crate::link::{Receiving, StreamReport};
use crate::wire::PacketNumber;

/// A message that waits for delivery.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) order: Order,
    /// Whether its position in the token holder's stream is its place in the total order.
    pub(super) sequenced: bool,
    pub(super) uniformity: Uniformity,
    /// Whether its bytes begin with a head.
    has_head: bool,
    /// Index of its first dependency among all that the stream's messages named (see [`Stream::deps_base`]). Only those
    /// beyond what the sender's earlier messages depend on.
    deps_from: u64,
    deps: u32,
    /// The packet that holds its last byte.
    pub(super) packet: PacketNumber,
    pub(super) seq: Sequence,
    body: Body,
}

impl Message {
    /// Whether the message depends on more than its sender's earlier messages do. Most do not.
    #[inline]
    pub(super) fn has_deps(&self) -> bool {
        self.deps > 0
    }
}

/// Where a message's payload is.
#[derive(Debug)]
enum Body {
    /// In its packet, which the stream keeps until the message is taken.
    Packet { start: u32, len: u32 },
    /// Reassembled from several packets.
    Own(Box<[u8]>),
}

/// A message that is ready for the application.
#[derive(Clone, Copy, Debug)]
pub struct Deliverable<'a> {
    /// The sender's rank in the group view.
    pub rank: Rank,
    /// Its number in the sender's stream, from 1.
    pub seq: Sequence,
    /// The order that the sender requested.
    pub order: Order,
    /// Whether it was delivered only when stable.
    pub uniformity: Uniformity,
    /// Its position in the total order, from 1; `None` for other orders.
    pub position: Option<u64>,
    /// If it is an ask: who is to answer it.
    pub asked: Option<Expected<'a>>,
    /// The domain to which alone it goes.
    pub domain: Option<DomainIndex>,
    /// The payload, borrowed from its packet if it lies in one.
    pub payload: &'a [u8],
}

#[derive(Debug)]
pub(super) struct Stream {
    pub(super) rx: Receiving,
    /// Parsed packets `kept_base ..= rx.prefix()`. They are not known to be stable, so that other members may need
    /// them, or they hold an undelivered message.
    kept: VecDeque<Frames>,
    kept_base: u64,
    pub(super) queue: VecDeque<Message>,
    /// Dependencies of the messages in `queue`, in their order: (rank, absolute count). `deps_base` were removed
    /// before.
    deps: VecDeque<(Rank, u64)>,
    deps_base: u64,
    /// Counts of complete, delivered and consumed messages. Invariant: `parsed >= delivered >= consumed`.
    pub(super) parsed: u64,
    pub(super) delivered: u64,
    consumed: u64,
    /// The sender's vector time as of the head of `queue`, by rank; 0 beyond the end. Grows on demand: a member that
    /// sends nothing causal costs no memory.
    head_vector: Vec<u64>,
    /// How far every member has this stream, in packets and in messages.
    pub(super) stable: u64,
    pub(super) stable_messages: u64,
    /// (packet, messages complete at its end), for packets that are unstable or unconsumed.
    ends: VecDeque<(u64, u64)>,
    context: Context,
    /// Fragments of the incomplete message.
    assembled: Vec<u8>,
    /// The first packet that is nonsense here. Neither it nor any later one is read, acknowledged or handed to others.
    nonsense: Option<PacketNumber>,
    /// The highest credit limit that was sent to the stream's sender.
    pub(super) advertised: u64,
}

/// What the receiver of a packet has to do beside delivering.
struct Read {
    /// A member waits for the stability of the packet.
    prompt: bool,
    /// Every member has the stream up to here.
    stable: u64,
}

/// Applies a packet to a stream and to the total order.
struct Keep<'a> {
    position: PacketPosition,
    queue: &'a mut VecDeque<Message>,
    deps: &'a mut VecDeque<(Rank, u64)>,
    deps_base: u64,
    /// Index of the next message's first dependency.
    deps_from: u64,
    parsed: &'a mut u64,
    assembled: &'a mut Vec<u8>,
    total: &'a mut Total,
    pass: Option<Rank>,
    stable: u64,
}

impl Keep<'_> {
    #[inline]
    fn complete(&mut self, MessageKind { order, sequenced, uniformity, has_head }: MessageKind, body: Body) {
        *self.parsed += 1;
        let (deps_from, packet, seq) = (self.deps_from, self.position.number, Sequence(*self.parsed));
        self.deps_from = self.deps_base + self.deps.len() as u64;
        // A packet names fewer than 2^32.
        let deps = u32::try_from(self.deps_from - deps_from).unwrap_or(u32::MAX);
        self.queue.push_back(Message { order, sequenced, uniformity, has_head, deps_from, deps, packet, seq, body });
    }
}

impl Taker for Keep<'_> {
    fn depend(&mut self, dep: (Rank, u64)) {
        self.deps.push_back(dep);
    }

    #[inline]
    fn whole(&mut self, kind: MessageKind, start: u32, len: u32) {
        self.complete(kind, Body::Packet { start, len });
    }

    fn piece(&mut self, body: &[u8]) {
        self.assembled.extend_from_slice(body);
    }

    fn last(&mut self, kind: MessageKind) {
        let bytes = std::mem::take(self.assembled).into_boxed_slice();
        self.complete(kind, Body::Own(bytes));
    }

    #[inline]
    fn order(&mut self, rank: Rank, count: u64) {
        let PacketPosition { by, number: packet } = self.position;
        self.total.announce(Run { rank, count, by, packet });
    }

    fn pass(&mut self, to: Rank) {
        self.pass = Some(to);
    }

    fn stable(&mut self, prefix: u64) {
        self.stable = self.stable.max(prefix);
    }
}

/// Takes only token passes. Used to find out whether a packet is nonsense, without acting upon it.
struct TokenScan {
    pass: Option<Rank>,
}

impl Taker for TokenScan {
    fn depend(&mut self, _dep: (Rank, u64)) {}
    fn whole(&mut self, _kind: MessageKind, _start: u32, _len: u32) {}
    fn piece(&mut self, _body: &[u8]) {}
    fn last(&mut self, _kind: MessageKind) {}
    fn order(&mut self, _rank: Rank, _count: u64) {}
    fn pass(&mut self, to: Rank) {
        self.pass = Some(to);
    }
    fn stable(&mut self, _prefix: u64) {}
}

/// A reader that goes on behind the parsed packets without acting upon them.
pub(super) struct Ahead {
    context: Context,
    next: PacketNumber,
    /// It stopped before a packet that waits for a token pass.
    pub(super) waits: bool,
}

/// Packets of a stream that take memory at a member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeldPackets {
    /// Parsed packets, kept for members that may lack them.
    pub kept: usize,
    /// Packets that wait for an earlier one.
    pub waiting: usize,
}

impl HeldPackets {
    /// The larger of each count.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self { kept: self.kept.max(other.kept), waiting: self.waiting.max(other.waiting) }
    }
}

impl Stream {
    pub(super) fn new(members: usize, window: u64) -> Self {
        Self {
            // Twice the window covers the window and the announcements that may exceed it.
            rx: Receiving::new(window.saturating_mul(2)),
            kept: VecDeque::new(),
            kept_base: 1,
            queue: VecDeque::new(),
            deps: VecDeque::new(),
            deps_base: 0,
            parsed: 0,
            delivered: 0,
            consumed: 0,
            head_vector: Vec::new(),
            stable: 0,
            stable_messages: 0,
            ends: VecDeque::new(),
            context: Context::new(members),
            assembled: Vec::new(),
            nonsense: None,
            // The first limit needs no ack: the window is the same at all members.
            advertised: window,
        }
    }

    /// Parses packets in order up to `up_to`, and applies each whole or not at all. `me` is the rank of the stream's
    /// sender.
    ///
    /// It stops before a packet that has to wait, and for good before nonsense (`docs/fail-stop.md`). True if a member
    /// waits for the stability of what was parsed, so that it is acknowledged at once.
    pub(super) fn parse(
        &mut self,
        up_to: u64,
        me: Rank,
        orders: Orders,
        total: &mut Total,
        pool: &mut Pool,
        mut can_read: impl FnMut(PacketNumber) -> bool,
    ) -> bool {
        let mut is_prompt = false;
        let up_to = self.nonsense.map_or(up_to, |first| up_to.min(first.prefix_before()));
        while let Some((number, frames)) = self.rx.pop(up_to) {
            let read = if can_read(number) {
                self.parse_packet(PacketPosition { by: me, number }, &frames, orders, total)
            } else {
                Err(Stop::Nonsense)
            };
            match read {
                Ok(Read { prompt, stable }) => {
                    is_prompt |= prompt;
                    self.kept.push_back(frames);
                    self.ends.push_back((number.0, self.parsed));
                    self.set_stable(stable, pool);
                }
                Err(stop) => {
                    // Still held: a token pass may make it readable, and the coordinator asks how far the stream is
                    // held.
                    self.rx.put_back(number, frames);
                    // For good: a reader that skipped it would deliver what follows, and nobody would know
                    // (`docs/fail-stop.md`).
                    self.nonsense = (stop == Stop::Nonsense).then_some(number).or(self.nonsense);
                    break;
                }
            }
        }
        is_prompt
    }

    #[inline]
    fn parse_packet(
        &mut self,
        position: PacketPosition,
        frames: &[u8],
        orders: Orders,
        total: &mut Total,
    ) -> Result<Read, Stop> {
        let (queued, named, parsed, ordered) = (self.queue.len(), self.deps.len(), self.parsed, total.checkpoint());
        let tenure = total.in_force();
        let deps_from = self.named();
        let Self { queue, deps, deps_base, parsed: count, assembled, context, .. } = self;
        let (deps_base, pass, stable) = (*deps_base, None, 0);
        let mut out =
            Keep { position, queue, deps, deps_base, deps_from, parsed: count, assembled, total, pass, stable };
        let read = context.read(position, frames, tenure, orders, &mut out);
        let Keep { pass, stable, .. } = out;
        match read {
            Ok(prompt) => {
                if let Some(to) = pass {
                    total.pass(position, to);
                }
                Ok(Read { prompt, stable })
            }
            // The packet may be read later, or by the cut's rules: leave no trace of it.
            Err(stop) => {
                total.undo(ordered);
                self.parsed = parsed;
                self.deps.truncate(named);
                // If the packet completed a message, its earlier fragments were moved into that message. They go back.
                let own = self.queue.drain(queued..).find_map(|message| match message.body {
                    Body::Own(bytes) => Some(bytes),
                    Body::Packet { .. } => None,
                });
                let pieces = self.context.pieces_len();
                if let Some(bytes) = own
                    && pieces > 0
                {
                    self.assembled = bytes.into_vec();
                }
                self.assembled.truncate(pieces);
                Err(stop)
            }
        }
    }

    /// A reader from here on that applies nothing; `None` if no further packet can be read.
    pub(super) fn ahead(&self) -> Option<Ahead> {
        let next = PacketNumber(self.rx.prefix() + 1);
        let is_more = self.nonsense.is_none() && self.rx.has(next);
        is_more.then(|| Ahead { context: self.context.clone(), next, waits: false })
    }

    /// Reads as far as possible without another stream's packets, and records nonsense. Updates `tenure` with the
    /// passes.
    pub(super) fn scan(
        &mut self,
        ahead: &mut Ahead,
        me: Rank,
        tenure: &mut Tenure,
        orders: Orders,
        mut can_read: impl FnMut(PacketNumber) -> bool,
    ) {
        ahead.waits = false;
        while self.nonsense.is_none()
            && let Some(frames) = self.rx.peek(ahead.next)
        {
            let position = PacketPosition { by: me, number: ahead.next };
            let mut scan = TokenScan { pass: None };
            let read = if can_read(position.number) {
                ahead.context.read(position, &frames, *tenure, orders, &mut scan)
            } else {
                Err(Stop::Nonsense)
            };
            match read {
                Ok(_prompt) => {
                    ahead.next.0 += 1;
                    if let Some(holder) = scan.pass {
                        *tenure = Tenure { number: tenure.number + 1, holder };
                    }
                }
                Err(Stop::Early) => {
                    ahead.waits = true;
                    return;
                }
                Err(Stop::Nonsense) => self.nonsense = Some(position.number),
            }
        }
    }

    /// How far the stream is held and makes sense, as far as it was read or scanned.
    pub(super) fn stream_report(&self) -> StreamReport {
        let held = self.rx.held();
        let prefix = self.nonsense.map_or(held, |number| held.min(number.prefix_before()));
        StreamReport { prefix, read: self.rx.prefix(), nonsense: self.nonsense == Some(PacketNumber(prefix + 1)) }
    }

    /// The first packet that is nonsense here, if any was found.
    pub(super) fn nonsense(&self) -> Option<PacketNumber> {
        self.nonsense
    }

    /// Number of dependencies named so far.
    #[inline]
    fn named(&self) -> u64 {
        self.deps_base + self.deps.len() as u64
    }

    /// Dependencies of `message`, which is in the queue.
    #[inline]
    pub(super) fn deps_of(&self, message: &Message) -> impl Iterator<Item = (Rank, u64)> {
        self.deps.range(self.places(message.deps_from, message.deps)).copied()
    }

    /// Range of `deps` dependencies in the list, from index `deps_from` of all that were named.
    #[inline]
    fn places(&self, deps_from: u64, deps: u32) -> Range<usize> {
        if deps == 0 {
            return 0..0;
        }
        debug_assert!(deps_from >= self.deps_base, "the dependencies of an undelivered message are kept");
        let from = usize::try_from(deps_from - self.deps_base).unwrap_or(usize::MAX);
        from..from + deps as usize
    }

    /// Removes the head of the queue and counts it as delivered. Its dependencies become part of [`Self::head_vector`].
    #[inline]
    pub(super) fn take_head(&mut self) -> Option<Message> {
        let message = self.queue.pop_front()?;
        debug_assert!(message.packet.0 >= self.kept_base, "the packet of an undelivered message is kept");
        if message.deps > 0 {
            self.advance(message.deps_from, message.deps);
            let passed = message.deps_from + u64::from(message.deps) - self.deps_base;
            self.deps.drain(..usize::try_from(passed).unwrap_or(usize::MAX));
            self.deps_base += passed;
        }
        self.delivered += 1;
        Some(message)
    }

    /// The head of the message that [`Self::take_head`] returned last, if it has one, and its payload.
    #[inline]
    pub(super) fn payload<'a>(&'a self, message: &'a Message) -> (Option<MessageHead<'a>>, &'a [u8]) {
        let bytes = self.bytes(message);
        if !message.has_head {
            return (None, bytes);
        }
        // Checked when it was read.
        read_head(bytes, usize::MAX).map_or((None, bytes), |(head, payload)| (Some(head), payload))
    }

    #[inline]
    fn bytes<'a>(&'a self, message: &'a Message) -> &'a [u8] {
        match &message.body {
            Body::Own(bytes) => bytes,
            Body::Packet { start, len } => {
                let index = usize::try_from(message.packet.0 - self.kept_base).unwrap_or(usize::MAX);
                let frames = self.kept.get(index).expect("the packet of an undelivered message is kept");
                &frames[*start as usize..][..*len as usize]
            }
        }
    }

    /// Notes that every member has this stream up to `prefix`. Packets up to there need not be kept for others.
    pub(super) fn set_stable(&mut self, prefix: u64, pool: &mut Pool) {
        debug_assert!(prefix <= self.rx.prefix(), "a packet is stable that was not read here");
        if prefix <= self.stable {
            return;
        }
        self.stable = prefix;
        for &(packet, messages) in &self.ends {
            if packet > prefix {
                break;
            }
            self.stable_messages = self.stable_messages.max(messages);
        }
        self.prune(pool);
    }

    /// Notes that the application took `messages` more.
    #[inline]
    pub(super) fn consume(&mut self, messages: u64, pool: &mut Pool) {
        debug_assert!(self.consumed + messages <= self.delivered, "the application took more than was delivered");
        self.consumed = (self.consumed + messages).min(self.delivered);
        let is_done = |&(packet, messages): &(u64, u64)| packet <= self.stable && messages <= self.consumed;
        // Checked first, because most messages end no packet.
        if self.ends.front().is_some_and(is_done) {
            self.prune(pool);
        }
    }

    /// Returns the buffers of packets that are stable and delivered to the pool.
    fn prune(&mut self, pool: &mut Pool) {
        while self.ends.front().is_some_and(|&(packet, messages)| packet <= self.stable && messages <= self.consumed) {
            self.ends.pop_front();
        }
        // An undelivered message may lie in a stable packet: its payload is borrowed from there.
        let undelivered = self.queue.front().map_or(u64::MAX, |head| head.packet.0);
        while self.kept_base <= self.stable
            && self.kept_base < undelivered
            && let Some(frames) = self.kept.pop_front()
        {
            self.kept_base += 1;
            pool.give(frames);
        }
    }

    /// The last packet up to which the application took all messages. Credit is counted from here.
    pub(super) fn consumed_packet(&self) -> u64 {
        if self.consumed == self.parsed {
            return self.rx.prefix();
        }
        let index = self.ends.partition_point(|&(_, messages)| messages <= self.consumed);
        self.ends.get(index).map_or(self.rx.prefix(), |&(packet, _)| packet - 1)
    }

    /// Merges the dependencies of the head of the queue into [`Self::head_vector`]. Repeating it changes nothing.
    pub(super) fn advance_to_head(&mut self) {
        if let Some(&Message { deps_from, deps: deps @ 1.., .. }) = self.queue.front() {
            self.advance(deps_from, deps);
        }
    }

    fn advance(&mut self, deps_from: u64, deps: u32) {
        let places = self.places(deps_from, deps);
        for &(rank, count) in self.deps.range(places) {
            *entry_of(&mut self.head_vector, rank) = count;
        }
    }

    /// Dependencies of the head of the queue, or of the last delivered message, by rank; 0 beyond the end.
    #[inline]
    pub(super) fn head_vector(&self) -> &[u64] {
        &self.head_vector
    }

    /// A packet held here, parsed or waiting, for another member. `None` from the first nonsense on.
    pub(super) fn packet(&self, number: PacketNumber) -> Option<Frames> {
        if self.nonsense.is_some_and(|first| first <= number) {
            return None;
        }
        let index = usize::try_from(number.0.checked_sub(self.kept_base)?).ok()?;
        self.kept.get(index).cloned().or_else(|| self.rx.peek(number))
    }

    /// Numbers of parsed and of waiting packets held.
    pub(super) fn held(&self) -> HeldPackets {
        HeldPackets { kept: self.kept.len(), waiting: self.rx.waiting() }
    }

    /// Whether packets are held that are not known to be stable.
    pub(super) fn has_unstable(&self) -> bool {
        self.rx.prefix() > self.stable
    }

    pub(super) fn check_invariants(&self) {
        self.rx.check_invariants();
        assert!(self.parsed >= self.delivered, "delivered more than was parsed");
        assert!(self.delivered >= self.consumed, "consumed more than was delivered");
        assert_eq!(self.queue.len() as u64, self.parsed - self.delivered, "queue and counts disagree");
        assert_eq!(self.kept_base + self.kept.len() as u64, self.rx.prefix() + 1, "kept packets have a hole");
        let undelivered = self.queue.front();
        assert!(
            undelivered.is_none_or(|m| m.packet.0 >= self.kept_base),
            "a packet with an undelivered message is gone"
        );
        let named = self.named();
        assert!(undelivered.is_none_or(|m| m.deps_from >= self.deps_base || m.deps == 0), "dependencies are gone");
        assert!(self.queue.back().is_none_or(|m| m.deps_from + u64::from(m.deps) <= named), "dependencies to come");
        assert!(self.stable <= self.rx.prefix(), "all members have more than was read here");
        assert!(self.stable_messages <= self.parsed, "all members have messages that were not read here");
        assert!(self.ends.iter().is_sorted(), "packets and messages end in order");
        assert!(
            self.ends.back().is_none_or(|(packet, _)| *packet <= self.rx.prefix()),
            "a packet ends that was not read"
        );
        assert!(self.ends.back().is_none_or(|(_, end)| *end <= self.parsed), "a packet ends with messages to come");
        assert!(self.nonsense.is_none_or(|first| first.0 > self.rx.prefix()), "a nonsense packet was read");
        assert_eq!(self.assembled.len(), self.context.pieces_len(), "the pieces put together are those read");
        assert!(self.queue.iter().is_sorted_by_key(|m| m.packet), "messages wait in the order of their packets");
    }
}
