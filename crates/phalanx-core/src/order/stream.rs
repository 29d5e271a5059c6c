//! One member's stream at one receiver: packets in order, their messages, and the packets kept for other members'
//! retransmissions.

use std::collections::VecDeque;
use std::ops::Range;

use super::packet_reader::{Context, MessageKind, Orders, PacketPosition, Stop, Taker, Tenure, entry_of};
use super::total_order::{Run, Total};
use crate::api::Order;
use crate::frames::{Frames, Pool};
use crate::id::Rank;
use crate::link::{Receiving, StreamReport};
use crate::wire::PacketNumber;

/// A message that waits for its turn.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) order: Order,
    /// Ordered by its place in the token holder's stream.
    pub(super) sequenced: bool,
    pub(super) uniform: bool,
    /// What must be delivered before it, beyond what its sender's earlier messages need: so many, from this place on
    /// in all that the stream's messages named.
    deps_from: u64,
    deps: u32,
    /// The packet that holds its end.
    pub(super) packet: PacketNumber,
    pub(super) seq: u64,
    body: Body,
}

impl Message {
    /// Whether it needs anything beyond what its sender's earlier messages need: most do not.
    #[inline]
    pub(super) fn has_deps(&self) -> bool {
        self.deps > 0
    }
}

/// Where a message's bytes are.
#[derive(Debug)]
enum Body {
    /// In its packet.
    Packet { start: u32, len: u32 },
    /// Put together from several.
    Own(Box<[u8]>),
}

/// A message on its way to the application.
#[derive(Clone, Copy, Debug)]
pub struct Deliverable<'a> {
    /// The sender's rank in the group view.
    pub rank: Rank,
    /// Its number in its sender's stream, from 1.
    pub seq: u64,
    /// The order it was sent with.
    pub order: Order,
    /// Delivered when stable.
    pub uniform: bool,
    /// Its place in the total order, if it has one.
    pub position: Option<u64>,
    /// The bytes, where possible in the packet they came in.
    pub payload: &'a [u8],
}

#[derive(Debug)]
pub(super) struct Stream {
    pub(super) rx: Receiving,
    /// Packets parsed that are not known to be stable, for those who may miss them, or hold a message that is not
    /// delivered: `kept_base ..= rx.prefix()`.
    kept: VecDeque<Frames>,
    kept_base: u64,
    pub(super) queue: VecDeque<Message>,
    /// What the messages in `queue` depend on, in their order, as absolute counts: (rank, messages). `deps_base` were
    /// named before.
    deps: VecDeque<(Rank, u64)>,
    deps_base: u64,
    /// Messages complete, delivered, taken by the application. Invariant: `parsed >= delivered >= consumed`.
    pub(super) parsed: u64,
    pub(super) delivered: u64,
    consumed: u64,
    /// The sender's vector time as of the head of `queue`: by rank, as far as any entry is above 0. A member that sent
    /// nothing causal, or nothing at all, costs no memory for it.
    head_vector: Vec<u64>,
    /// Every member has this stream up to here, in packets and in messages.
    pub(super) stable: u64,
    pub(super) stable_messages: u64,
    /// (packet, messages complete at its end) for packets that are unstable or unconsumed.
    ends: VecDeque<(u64, u64)>,
    context: Context,
    /// The pieces of a message that is not complete.
    assembled: Vec<u8>,
    /// The first packet found to make no sense: nothing from it on is read, acknowledged, or handed to others.
    nonsense: Option<PacketNumber>,
    /// The highest packet whose credit was advertised.
    pub(super) advertised: u64,
}

/// What a packet asks of its receiver besides.
struct Read {
    /// Somebody waits for its stability.
    prompt: bool,
    /// Every member has the stream up to here.
    stable: u64,
}

/// Takes what a packet says.
struct Keep<'a> {
    position: PacketPosition,
    queue: &'a mut VecDeque<Message>,
    deps: &'a mut VecDeque<(Rank, u64)>,
    deps_base: u64,
    /// The next message depends on what was named from here on.
    deps_from: u64,
    parsed: &'a mut u64,
    assembled: &'a mut Vec<u8>,
    total: &'a mut Total,
    pass: Option<Rank>,
    stable: u64,
}

impl Keep<'_> {
    #[inline]
    fn complete(&mut self, MessageKind { order, sequenced, uniform }: MessageKind, body: Body) {
        *self.parsed += 1;
        let (deps_from, packet, seq) = (self.deps_from, self.position.number, *self.parsed);
        self.deps_from = self.deps_base + self.deps.len() as u64;
        // A packet names fewer.
        let deps = u32::try_from(self.deps_from - deps_from).unwrap_or(u32::MAX);
        self.queue.push_back(Message { order, sequenced, uniform, deps_from, deps, packet, seq, body });
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

/// Takes nothing but token passes: for reading that only asks whether a packet makes sense.
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

/// Reads on from where a stream was parsed to, without acting upon anything.
pub(super) struct Ahead {
    context: Context,
    next: PacketNumber,
    /// It stopped in front of what has to wait.
    pub(super) waits: bool,
}

/// Packets of a stream that take memory at a member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeldPackets {
    /// Parsed, and kept for members that may lack them.
    pub kept: usize,
    /// They wait for a packet before them.
    pub waiting: usize,
}

impl HeldPackets {
    /// The larger of each.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self { kept: self.kept.max(other.kept), waiting: self.waiting.max(other.waiting) }
    }
}

impl Stream {
    pub(super) fn new(members: usize, window: u64) -> Self {
        Self {
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
            advertised: window,
        }
    }

    /// Reads packets in order up to `up_to`, each whole or not at all, and acts upon them. `me` is the rank of the stream's
    /// sender. It stops in front of what makes no sense, for good, and of what has to wait. True: somebody waits for the
    /// stability of what was read, it is acknowledged at once.
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
                    self.rx.put_back(number, frames);
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
            Err(stop) => {
                total.undo(ordered);
                self.parsed = parsed;
                self.deps.truncate(named);
                // The pieces before this packet are put back, if it completed a message.
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

    /// To read on from here without acting upon it; `None` if nothing more is held that could be read.
    pub(super) fn ahead(&self) -> Option<Ahead> {
        let next = PacketNumber(self.rx.prefix() + 1);
        let is_more = self.nonsense.is_none() && self.rx.has(next);
        is_more.then(|| Ahead { context: self.context.clone(), next, waits: false })
    }

    /// Reads as far as it can without another stream, and notes what makes no sense. `tenure` follows the passes read.
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

    /// How far it can be read, as far as that was looked at.
    pub(super) fn stream_report(&self) -> StreamReport {
        let held = self.rx.held();
        let prefix = self.nonsense.map_or(held, |number| held.min(number.prefix_before()));
        StreamReport { prefix, read: self.rx.prefix(), nonsense: self.nonsense == Some(PacketNumber(prefix + 1)) }
    }

    /// The first packet that makes no sense here, if any was found.
    pub(super) fn nonsense(&self) -> Option<PacketNumber> {
        self.nonsense
    }

    /// Dependencies named so far.
    #[inline]
    fn named(&self) -> u64 {
        self.deps_base + self.deps.len() as u64
    }

    /// What `message`, one of the queue, depends on.
    #[inline]
    pub(super) fn deps_of(&self, message: &Message) -> impl Iterator<Item = (Rank, u64)> {
        self.deps.range(self.places(message.deps_from, message.deps)).copied()
    }

    /// Where in `deps` so many stand, named from there on.
    #[inline]
    fn places(&self, deps_from: u64, deps: u32) -> Range<usize> {
        if deps == 0 {
            return 0..0;
        }
        debug_assert!(deps_from >= self.deps_base, "the dependencies of an undelivered message are kept");
        let from = usize::try_from(deps_from - self.deps_base).unwrap_or(usize::MAX);
        from..from + deps as usize
    }

    /// Takes the message at the head of the queue: it is delivered. What it depends on becomes part of
    /// [`Self::head_vector`].
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

    /// The bytes of a message that [`Self::take_head`] gave last.
    #[inline]
    pub(super) fn payload<'a>(&'a self, message: &'a Message) -> &'a [u8] {
        match &message.body {
            Body::Own(bytes) => bytes,
            Body::Packet { start, len } => {
                let index = usize::try_from(message.packet.0 - self.kept_base).unwrap_or(usize::MAX);
                let frames = self.kept.get(index).expect("the packet of an undelivered message is kept");
                &frames[*start as usize..][..*len as usize]
            }
        }
    }

    /// Every member has this stream up to `prefix`; what is here of it need not be kept for others.
    pub(super) fn set_stable(&mut self, prefix: u64, pool: &mut Pool) {
        debug_assert!(prefix <= self.rx.prefix(), "what all members have was read here");
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

    /// The application took `messages` more.
    #[inline]
    pub(super) fn consume(&mut self, messages: u64, pool: &mut Pool) {
        debug_assert!(self.consumed + messages <= self.delivered, "the application takes what was delivered");
        self.consumed = (self.consumed + messages).min(self.delivered);
        let is_done = |&(packet, messages): &(u64, u64)| packet <= self.stable && messages <= self.consumed;
        if self.ends.front().is_some_and(is_done) {
            self.prune(pool);
        }
    }

    /// Lets go of what nobody needs any more.
    fn prune(&mut self, pool: &mut Pool) {
        while self.ends.front().is_some_and(|&(packet, messages)| packet <= self.stable && messages <= self.consumed) {
            self.ends.pop_front();
        }
        let undelivered = self.queue.front().map_or(u64::MAX, |head| head.packet.0);
        while self.kept_base <= self.stable
            && self.kept_base < undelivered
            && let Some(frames) = self.kept.pop_front()
        {
            self.kept_base += 1;
            pool.give(frames);
        }
    }

    /// Packets all of whose messages the application took.
    pub(super) fn consumed_packet(&self) -> u64 {
        if self.consumed == self.parsed {
            return self.rx.prefix();
        }
        let index = self.ends.partition_point(|&(_, messages)| messages <= self.consumed);
        self.ends.get(index).map_or(self.rx.prefix(), |&(packet, _)| packet - 1)
    }

    /// The message at the head of the queue, if there is one, counts as the latest of [`Self::head_vector`].
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

    /// What the head of the queue, or the last message delivered, depends on: messages by rank, 0 beyond the end.
    #[inline]
    pub(super) fn head_vector(&self) -> &[u64] {
        &self.head_vector
    }

    /// A packet kept for others: parsed or waiting. What makes no sense is not handed on.
    pub(super) fn packet(&self, number: PacketNumber) -> Option<Frames> {
        if self.nonsense.is_some_and(|first| first <= number) {
            return None;
        }
        let index = usize::try_from(number.0.checked_sub(self.kept_base)?).ok()?;
        self.kept.get(index).cloned().or_else(|| self.rx.peek(number))
    }

    /// Packets kept for others, and packets that wait for one before them.
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
        assert!(self.nonsense.is_none_or(|first| first.0 > self.rx.prefix()), "what makes no sense was read");
        assert_eq!(self.assembled.len(), self.context.pieces_len(), "the pieces put together are those read");
        assert!(self.queue.iter().is_sorted_by_key(|m| m.packet), "messages wait in the order of their packets");
    }
}
