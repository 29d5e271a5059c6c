//! One member's stream at one receiver: packets in order, the messages in them, what is kept for others.

use std::collections::VecDeque;

use bytes::Bytes;

use super::frame::{Part, StreamFrame, read_frame};
use super::total::{Run, Total};
use crate::api::Order;
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
    /// What must be delivered before it, beyond what its sender's earlier messages need: (rank, messages).
    pub(super) deps: Vec<(u16, u64)>,
    /// The packet that holds its end.
    pub(super) packet: u64,
    pub(super) seq: u64,
    pub(super) payload: Bytes,
}

/// A message on its way to the application.
#[derive(Clone, Debug)]
pub struct Deliverable {
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
    /// The bytes, shared with the packet they came in where possible.
    pub payload: Bytes,
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
    /// Packets parsed and not known to be stable, for those who may miss them: `kept_base ..= rx.prefix()`.
    kept: VecDeque<Bytes>,
    kept_base: u64,
    pub(super) queue: VecDeque<Message>,
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

#[derive(Debug)]
struct Assembly {
    order: Order,
    placed: bool,
    uniform: bool,
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

    /// Parses packets in order up to `up_to`. `me` is the rank of the stream's sender.
    pub(super) fn parse(&mut self, up_to: u64, me: u16, total: &mut Total) -> Parsed {
        let mut parsed = Parsed::default();
        while let Some((number, frames)) = self.rx.pop(up_to) {
            match self.parse_packet(number, &frames, me, total) {
                Ok(prompt) => parsed.prompt |= prompt,
                Err(Malformed) => parsed.malformed = true,
            }
            self.kept.push_back(frames);
            self.ends.push_back((number, self.parsed));
        }
        parsed
    }

    fn parse_packet(&mut self, number: u64, frames: &Bytes, me: u16, total: &mut Total) -> Result<bool, Malformed> {
        let mut r = Reader::new(frames);
        let mut is_prompt = false;
        while !r.is_empty() {
            match read_frame(&mut r)? {
                None => {}
                Some(StreamFrame::Message { order, placed, uniform, part, deps, body }) => {
                    let mut deps = self.absolute(deps)?;
                    if order != Order::Fifo && matches!(part, Part::Whole | Part::Last) && !self.past.is_empty() {
                        deps.splice(..0, self.past.drain(..));
                    }
                    let body = frames.slice_ref(body);
                    if self.take_part(number, order, placed, uniform, part, deps, body)? {
                        is_prompt |= uniform;
                        if placed && !total.announce(self.tenure, Run { rank: me, count: 1, by: me, packet: number }) {
                            return Err(Malformed);
                        }
                    }
                }
                Some(StreamFrame::Announce { tenure, prompt, runs }) => {
                    is_prompt |= prompt;
                    self.tenure = self.tenure.max(tenure);
                    for (rank, count) in runs {
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
                Some(StreamFrame::Stable { prefix }) => self.set_stable(prefix),
                Some(StreamFrame::Past { deps }) => {
                    let deps = self.absolute(deps)?;
                    self.past.extend(deps);
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

    /// Growths to absolute counts.
    fn absolute(&mut self, mut deps: Vec<(u16, u64)>) -> Result<Vec<(u16, u64)>, Malformed> {
        for (rank, count) in &mut deps {
            if usize::from(*rank) >= self.members {
                return Err(Malformed);
            }
            let entry = entry_of(&mut self.vector, *rank);
            *entry = entry.checked_add(*count).ok_or(Malformed)?;
            *count = *entry;
        }
        Ok(deps)
    }

    /// True when a message became complete.
    #[expect(clippy::too_many_arguments, reason = "the fields of one frame")]
    fn take_part(
        &mut self,
        packet: u64,
        order: Order,
        placed: bool,
        uniform: bool,
        part: Part,
        deps: Vec<(u16, u64)>,
        body: Bytes,
    ) -> Result<bool, Malformed> {
        let message = match part {
            Part::Whole => Message { order, placed, uniform, deps, packet, seq: 0, payload: body },
            Part::First(total) => {
                self.assembling = Some(Assembly { order, placed, uniform, total, bytes: body.to_vec() });
                return Ok(false);
            }
            Part::Middle | Part::Last => {
                let a = self.assembling.as_mut().ok_or(Malformed)?;
                if a.bytes.len() + body.len() > a.total {
                    return Err(Malformed);
                }
                a.bytes.extend_from_slice(&body);
                if part == Part::Middle {
                    return Ok(false);
                }
                let a = self.assembling.take().ok_or(Malformed)?;
                if a.bytes.len() != a.total {
                    return Err(Malformed);
                }
                Message {
                    order: a.order,
                    placed: a.placed,
                    uniform: a.uniform,
                    deps,
                    packet,
                    seq: 0,
                    payload: Bytes::from(a.bytes),
                }
            }
        };
        self.parsed += 1;
        self.queue.push_back(Message { seq: self.parsed, ..message });
        Ok(true)
    }

    /// Every member has this stream up to `prefix`; what is here of it need not be kept.
    pub(super) fn set_stable(&mut self, prefix: u64) {
        if prefix <= self.stable {
            return;
        }
        self.stable = prefix;
        self.prune();
        while self.kept_base <= prefix && self.kept.pop_front().is_some() {
            self.kept_base += 1;
        }
    }

    /// The application took `messages` more.
    pub(super) fn consume(&mut self, messages: u64) {
        self.consumed = (self.consumed + messages).min(self.delivered);
        self.prune();
    }

    fn prune(&mut self) {
        for &(packet, messages) in &self.ends {
            if packet > self.stable {
                break;
            }
            self.stable_messages = self.stable_messages.max(messages);
        }
        while self.ends.front().is_some_and(|&(packet, messages)| packet <= self.stable && messages <= self.consumed) {
            self.ends.pop_front();
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

    /// The message taken from the head of the queue depends on these of others: (rank, messages).
    pub(super) fn advance_head(&mut self, deps: &[(u16, u64)]) {
        for &(rank, count) in deps {
            *entry_of(&mut self.head_vector, rank) = count;
        }
    }

    /// The same for the message that is at the head now, if there is one.
    pub(super) fn advance_to_head(&mut self) {
        let Self { queue, head_vector, .. } = self;
        for &(rank, count) in queue.front().iter().flat_map(|head| &head.deps) {
            *entry_of(head_vector, rank) = count;
        }
    }

    /// What the head of the queue, or the last message delivered, depends on: messages by rank, 0 beyond the end.
    pub(super) fn head_vector(&self) -> &[u64] {
        &self.head_vector
    }

    /// A packet kept for others: parsed or waiting.
    pub(super) fn packet(&self, number: u64) -> Option<Bytes> {
        let index = usize::try_from(number.checked_sub(self.kept_base)?).ok()?;
        self.kept.get(index).cloned().or_else(|| self.rx.peek(number))
    }

    /// Packets kept for others, and packets that wait for one before them.
    pub(super) fn held(&self) -> (usize, usize) {
        (self.kept.len(), self.rx.waiting())
    }

    /// Whether packets are held that are not known to be stable.
    pub(super) fn has_unstable(&self) -> bool {
        !self.kept.is_empty()
    }

    pub(super) fn check_invariants(&self) {
        assert!(self.vector.len() <= self.members, "a vector time reaches beyond the view");
        assert!(self.parsed >= self.delivered, "delivered more than was parsed");
        assert!(self.delivered >= self.consumed, "consumed more than was delivered");
        assert_eq!(self.queue.len() as u64, self.parsed - self.delivered, "queue and counts disagree");
        assert_eq!(self.kept_base + self.kept.len() as u64, self.rx.prefix() + 1, "kept packets have a hole");
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
