//! One member's stream at one receiver: packets in order, the messages in them, what is kept for others.

use std::collections::VecDeque;
use std::ops::Range;

use super::frame::{Pairs, Part, Plain, StreamFrame, read_frame, read_plain};
use super::total::{Run, Total};
use crate::api::Order;
use crate::frames::{Frames, Pool};
use crate::link::Receiving;
use crate::wire::Malformed;
use crate::wire::codec::Reader;

/// A message that waits for its turn.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) order: Order,
    /// Ordered by its place in the token holder's stream.
    pub(super) placed: bool,
    pub(super) uniform: bool,
    /// What must be delivered before it, beyond what its sender's earlier messages need: so many, from this place on
    /// in all that the stream's messages named.
    deps_from: u64,
    deps: u32,
    /// The packet that holds its end.
    pub(super) packet: u64,
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
    pub rank: usize,
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

/// What a parsed packet asks of its receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Parsed {
    /// Somebody waits for this packet's stability: acknowledge at once.
    pub(super) prompt: bool,
    pub(super) malformed: bool,
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
    deps: VecDeque<(u16, u64)>,
    deps_base: u64,
    /// Messages complete, delivered, taken by the application. Invariant: `parsed >= delivered >= consumed`.
    pub(super) parsed: u64,
    pub(super) delivered: u64,
    consumed: u64,
    /// The members of the view.
    members: usize,
    /// The sender's vector time as of its last parsed message, and as of the head of `queue`: by rank, as far as any
    /// entry is above 0. A member that sent nothing causal, or nothing at all, costs no memory for it.
    vector: Vec<u64>,
    head_vector: Vec<u64>,
    /// Every member has this stream up to here, in packets and in messages.
    pub(super) stable: u64,
    pub(super) stable_messages: u64,
    /// (packet, messages complete at its end) for packets that are unstable or unconsumed.
    ends: VecDeque<(u64, u64)>,
    assembling: Option<Assembly>,
    /// Dependencies told ahead of the next message that may have any, as absolute counts.
    past: Vec<(u16, u64)>,
    /// The tenure the stream's sender last spoke for.
    tenure: u32,
    /// The highest packet whose credit was advertised.
    pub(super) advertised: u64,
}

/// What a message's sender asked for.
#[derive(Clone, Copy, Debug)]
struct Kind {
    order: Order,
    placed: bool,
    uniform: bool,
}

#[derive(Debug)]
struct Assembly {
    kind: Kind,
    total: usize,
    bytes: Vec<u8>,
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
            members,
            vector: Vec::new(),
            head_vector: Vec::new(),
            stable: 0,
            stable_messages: 0,
            ends: VecDeque::new(),
            assembling: None,
            past: Vec::new(),
            tenure: 0,
            advertised: window,
        }
    }

    /// Parses packets in order up to `up_to`. `me` is the rank of the stream's sender. If the stream is `own`, the order
    /// its packets announce is known already, from the moment it was put there.
    pub(super) fn parse(&mut self, up_to: u64, me: u16, own: bool, total: &mut Total, pool: &mut Pool) -> Parsed {
        let mut parsed = Parsed::default();
        while let Some((number, frames)) = self.rx.pop(up_to) {
            match self.parse_packet(number, &frames, me, own, total, pool) {
                Ok(prompt) => parsed.prompt |= prompt,
                Err(Malformed) => {
                    parsed.malformed = true;
                    self.forget_unused();
                }
            }
            self.kept.push_back(frames);
            self.ends.push_back((number, self.parsed));
        }
        parsed
    }

    #[inline]
    fn parse_packet(
        &mut self,
        number: u64,
        frames: &[u8],
        me: u16,
        own: bool,
        total: &mut Total,
        pool: &mut Pool,
    ) -> Result<bool, Malformed> {
        let mut r = Reader::new(frames);
        let mut is_prompt = false;
        while !r.is_empty() {
            if self.past.is_empty()
                && let Some(Plain { order, placed, uniform, body }) = read_plain(&mut r)
            {
                let start = frames.len() - r.remaining() - body.len();
                self.take_whole(number, Kind { order, placed, uniform }, self.named(), start, body.len())?;
                is_prompt |= uniform;
                let run = Run { rank: me, count: 1, by: me, packet: number };
                if placed && !own && !total.announce(self.tenure, run) {
                    return Err(Malformed);
                }
                continue;
            }
            match read_frame(&mut r)? {
                None => {}
                Some(StreamFrame::Message { order, placed, uniform, part, deps, body }) => {
                    let deps_from = self.named();
                    let ends = matches!(part, Part::Whole | Part::Last);
                    if ends && order != Order::Fifo && !self.past.is_empty() {
                        self.deps.extend(self.past.drain(..));
                    }
                    if !deps.is_empty() {
                        self.depend(deps, ends)?;
                    }
                    let start = frames.len() - r.remaining() - body.len();
                    let kind = Kind { order, placed, uniform };
                    if self.take_part(number, kind, part, deps_from, start, body)? {
                        is_prompt |= uniform;
                        let run = Run { rank: me, count: 1, by: me, packet: number };
                        if placed && !own && !total.announce(self.tenure, run) {
                            return Err(Malformed);
                        }
                    }
                }
                Some(StreamFrame::Announce { tenure, prompt, runs }) => {
                    is_prompt |= prompt;
                    self.tenure = self.tenure.max(tenure);
                    let runs = if own { Pairs::default() } else { runs };
                    for (rank, count) in runs.iter() {
                        if usize::from(rank) >= self.members
                            || !total.announce(tenure, Run { rank, count, by: me, packet: number })
                        {
                            return Err(Malformed);
                        }
                    }
                }
                Some(StreamFrame::Pass { tenure, to }) => {
                    let passed = usize::from(to) < self.members && total.pass(tenure, me, to, number);
                    passed.then_some(()).ok_or(Malformed)?;
                }
                Some(StreamFrame::Stable { prefix }) => self.set_stable(prefix, pool),
                Some(StreamFrame::Past { deps }) => {
                    for dep in deps.iter() {
                        let dep = self.absolute(dep)?;
                        self.past.push(dep);
                    }
                    self.forget_overtaken();
                }
            }
        }
        Ok(is_prompt)
    }

    /// Of the dependencies told ahead, only the last of each rank says anything.
    fn forget_overtaken(&mut self) {
        if self.past.len() > 2 * self.members {
            self.past.reverse();
            self.past.sort_by_key(|(rank, _)| *rank); // stable: the latest of each rank stays first
            self.past.dedup_by_key(|(rank, _)| *rank);
        }
    }

    /// A growth as an absolute count.
    fn absolute(&mut self, (rank, growth): (u16, u64)) -> Result<(u16, u64), Malformed> {
        if usize::from(rank) >= self.members {
            return Err(Malformed);
        }
        let entry = entry_of(&mut self.vector, rank);
        *entry = entry.checked_add(growth).ok_or(Malformed)?;
        Ok((rank, *entry))
    }

    /// The message that `ends` here depends on these.
    fn depend(&mut self, deps: Pairs<'_>, ends: bool) -> Result<(), Malformed> {
        for dep in deps.iter() {
            let dep = self.absolute(dep)?;
            if ends {
                self.deps.push_back(dep);
            }
        }
        Ok(())
    }

    /// A packet that made no sense may have named dependencies of no message.
    fn forget_unused(&mut self) {
        let used = self.queue.back().map_or(self.deps_base, |m| m.deps_from + u64::from(m.deps));
        self.deps.truncate(usize::try_from(used.saturating_sub(self.deps_base)).unwrap_or(usize::MAX));
    }

    /// True when a message became complete.
    #[inline]
    fn take_part(
        &mut self,
        packet: u64,
        kind: Kind,
        part: Part,
        deps_from: u64,
        start: usize,
        body: &[u8],
    ) -> Result<bool, Malformed> {
        let (kind, body) = match part {
            Part::Whole => {
                self.take_whole(packet, kind, deps_from, start, body.len())?;
                return Ok(true);
            }
            Part::First(total) => {
                self.assembling = Some(Assembly { kind, total, bytes: body.to_vec() });
                return Ok(false);
            }
            Part::Middle | Part::Last => {
                let a = self.assembling.as_mut().ok_or(Malformed)?;
                if a.bytes.len() + body.len() > a.total {
                    return Err(Malformed);
                }
                a.bytes.extend_from_slice(body);
                if part == Part::Middle {
                    return Ok(false);
                }
                let a = self.assembling.take().ok_or(Malformed)?;
                if a.bytes.len() != a.total {
                    return Err(Malformed);
                }
                (a.kind, Body::Own(a.bytes.into()))
            }
        };
        self.complete(packet, kind, deps_from, body)?;
        Ok(true)
    }

    /// A message that lies whole in `packet`, `len` bytes from `start` on.
    #[inline]
    fn take_whole(
        &mut self,
        packet: u64,
        kind: Kind,
        deps_from: u64,
        start: usize,
        len: usize,
    ) -> Result<(), Malformed> {
        // A packet is far shorter than four gigabytes.
        let (Ok(start), Ok(len)) = (u32::try_from(start), u32::try_from(len)) else { return Err(Malformed) };
        self.complete(packet, kind, deps_from, Body::Packet { start, len })
    }

    /// A message is here to its end.
    #[inline]
    fn complete(&mut self, packet: u64, kind: Kind, deps_from: u64, body: Body) -> Result<(), Malformed> {
        self.parsed += 1;
        let deps = u32::try_from(self.named() - deps_from).map_err(|_too_many| Malformed)?;
        let Kind { order, placed, uniform } = kind;
        self.queue.push_back(Message { order, placed, uniform, deps_from, deps, packet, seq: self.parsed, body });
        Ok(())
    }

    /// Dependencies named so far.
    #[inline]
    fn named(&self) -> u64 {
        self.deps_base + self.deps.len() as u64
    }

    /// What `message`, one of the queue, depends on.
    #[inline]
    pub(super) fn deps_of(&self, message: &Message) -> impl Iterator<Item = (u16, u64)> {
        self.deps.range(self.places(message.deps_from, message.deps)).copied()
    }

    /// Where in `deps` so many stand, named from there on.
    #[inline]
    fn places(&self, deps_from: u64, deps: u32) -> Range<usize> {
        if deps == 0 {
            return 0..0;
        }
        let from = usize::try_from(deps_from - self.deps_base).unwrap_or(usize::MAX);
        from..from + deps as usize
    }

    /// Takes the message at the head of the queue: it is delivered. What it depends on becomes part of
    /// [`Self::head_vector`].
    #[inline]
    pub(super) fn take_head(&mut self) -> Option<Message> {
        let message = self.queue.pop_front()?;
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
                let index = usize::try_from(message.packet - self.kept_base).unwrap_or(usize::MAX);
                let frames = self.kept.get(index).expect("the packet of an undelivered message is kept");
                &frames[*start as usize..][..*len as usize]
            }
        }
    }

    /// Every member has this stream up to `prefix`; what is here of it need not be kept for others.
    pub(super) fn set_stable(&mut self, prefix: u64, pool: &mut Pool) {
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
        let undelivered = self.queue.front().map_or(u64::MAX, |head| head.packet);
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

    /// A packet kept for others: parsed or waiting.
    pub(super) fn packet(&self, number: u64) -> Option<Frames> {
        let index = usize::try_from(number.checked_sub(self.kept_base)?).ok()?;
        self.kept.get(index).cloned().or_else(|| self.rx.peek(number))
    }

    /// Packets kept for others, and packets that wait for one before them.
    pub(super) fn held(&self) -> (usize, usize) {
        (self.kept.len(), self.rx.waiting())
    }

    /// Whether packets are held that are not known to be stable.
    pub(super) fn has_unstable(&self) -> bool {
        self.rx.prefix() > self.stable
    }

    pub(super) fn check_invariants(&self) {
        assert!(self.vector.len() <= self.members, "a vector time reaches beyond the view");
        assert!(self.parsed >= self.delivered, "delivered more than was parsed");
        assert!(self.delivered >= self.consumed, "consumed more than was delivered");
        assert_eq!(self.queue.len() as u64, self.parsed - self.delivered, "queue and counts disagree");
        assert_eq!(self.kept_base + self.kept.len() as u64, self.rx.prefix() + 1, "kept packets have a hole");
        let undelivered = self.queue.front();
        assert!(undelivered.is_none_or(|m| m.packet >= self.kept_base), "a packet with an undelivered message is gone");
        let named = self.named();
        assert!(undelivered.is_none_or(|m| m.deps_from >= self.deps_base || m.deps == 0), "dependencies are gone");
        assert!(self.queue.back().is_none_or(|m| m.deps_from + u64::from(m.deps) <= named), "dependencies to come");
    }
}

/// The entry of `rank`, made if the vector does not reach that far.
fn entry_of(vector: &mut Vec<u64>, rank: u16) -> &mut u64 {
    let index = usize::from(rank);
    if vector.len() <= index {
        vector.resize(index + 1, 0);
    }
    &mut vector[index]
}
