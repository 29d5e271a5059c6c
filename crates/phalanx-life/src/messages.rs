//! The messages that wait to be sent in a group, in the order in which they were asked for.

use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::sync::Arc;

use bytes::Bytes;
use phalanx_core::{GroupId, Incarnation, Instant, Order, SendOptions, Stability, ViewNumber};

use crate::asks::Ask;
use crate::front::Bound;
use crate::tally::Tally;
use crate::to_one::{MESSAGE_BYTES, MessageTo};

/// Something asked for in a group.
#[derive(Debug)]
pub enum Queued<R> {
    /// Messages of one kind.
    Send(Message<R>),
    /// A message to one member.
    ToOne(MessageTo<R>),
    /// A message that others answer.
    Ask(Box<Ask<R>>),
    /// It is answered when all multicasts before it are sent, and all messages to one before it have an outcome.
    Flush {
        /// The life in which it was asked for.
        life: u64,
        /// What waits for it.
        receipt: R,
    },
}

/// Messages to be sent.
#[derive(Debug)]
pub struct Message<R> {
    /// The life in which they were asked for. In a later one they are not sent.
    pub life: u64,
    /// The order.
    pub order: Order,
    /// Whether they are uniform.
    pub stability: Stability,
    /// The only view in which they may be sent.
    pub in_view: Option<NonZeroU64>,
    /// The domain of the group's state to which alone they go.
    pub domain: Option<Arc<str>>,
    /// The payloads.
    pub body: Payloads,
    /// What waits for the outcome of the last of them.
    pub receipt: Option<R>,
}

impl<R> Queued<R> {
    /// Whether it asks for a receipt and sends nothing.
    fn is_empty(&self) -> bool {
        match self {
            Self::Flush { .. } => true,
            Self::Send(message) => message.body.len() == 0,
            Self::ToOne(_) | Self::Ask(_) => false,
        }
    }

    /// The life in which it was asked for.
    pub(crate) fn life(&self) -> u64 {
        match self {
            Self::Flush { life, .. } | Self::Send(Message { life, .. }) | Self::ToOne(MessageTo { life, .. }) => *life,
            Self::Ask(ask) => ask.life,
        }
    }

    /// The memory that it occupies, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            Self::Flush { .. } => 0,
            Self::Send(message) => message.body.bytes(),
            Self::ToOne(message) => message.bytes(),
            Self::Ask(ask) => ask.bytes(),
        }
    }

    /// Its receiver, if it is a message to one member.
    #[must_use]
    pub fn to(&self) -> Option<Incarnation> {
        match self {
            Self::ToOne(message) => Some(message.to),
            Self::Flush { .. } | Self::Send(_) | Self::Ask(_) => None,
        }
    }

    /// The messages in it.
    #[must_use]
    pub fn messages(&self) -> u64 {
        match self {
            Self::Flush { .. } => 0,
            Self::Send(message) => message.body.len(),
            Self::ToOne(_) | Self::Ask(_) => 1,
        }
    }

    /// What waits for it.
    #[must_use]
    pub fn into_receipt(self) -> Option<R> {
        match self {
            Self::Flush { receipt, .. } => Some(receipt),
            Self::Send(message) => message.receipt,
            Self::ToOne(message) => message.receipt,
            Self::Ask(ask) => Some(ask.receipt),
        }
    }
}

/// A message whose turn it is.
#[derive(Clone, Debug)]
pub struct NextMessage {
    /// Its group.
    pub group: GroupId,
    /// How it is sent.
    pub options: SendOptions,
    /// What is sent.
    pub payload: Bytes,
}

/// What is sent.
#[derive(Debug)]
pub enum Payloads {
    /// One message.
    One(Bytes),
    /// Several. Boxed, because what is asked for is moved several times on its way, and most of it is single messages.
    Batch(Box<Batch>),
}

/// Payloads one behind the other.
#[derive(Debug)]
pub struct Batch {
    bytes: Bytes,
    /// Where each ends.
    ends: Vec<usize>,
    /// How many were taken.
    taken: usize,
}

impl Payloads {
    /// Several messages, that end in `bytes` at `ends`.
    ///
    /// # Panics
    /// If an end lies before the one before it, or behind the bytes.
    #[must_use]
    pub fn batch(bytes: Bytes, ends: Vec<usize>) -> Self {
        assert!(
            ends.is_sorted() && ends.last().is_none_or(|end| *end <= bytes.len()),
            "ends of payloads lie in the bytes"
        );
        Self::Batch(Box::new(Batch { bytes, ends, taken: 0 }))
    }

    /// The first payload that was not taken.
    #[must_use]
    pub fn front(&self) -> Option<Bytes> {
        match self {
            Self::One(payload) => Some(payload.clone()),
            Self::Batch(batch) => {
                let Batch { bytes, ends, taken } = &**batch;
                let start = taken.checked_sub(1).map_or(0, |last| ends[last]);
                ends.get(*taken).map(|end| bytes.slice(start..*end))
            }
        }
    }

    /// Drops the payload at the front. True: none is left.
    fn forget_front(&mut self) -> bool {
        match self {
            Self::One(_) => true,
            Self::Batch(batch) => {
                batch.taken += 1;
                batch.taken >= batch.ends.len()
            }
        }
    }

    /// The number of payloads left.
    #[must_use]
    pub fn len(&self) -> u64 {
        match self {
            Self::One(_) => 1,
            Self::Batch(batch) => (batch.ends.len() - batch.taken) as u64,
        }
    }

    /// Whether no payload is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The memory that it occupies, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            Self::One(payload) => payload.len() + MESSAGE_BYTES,
            Self::Batch(batch) => batch.bytes.len() + batch.ends.len() * size_of::<usize>() + MESSAGE_BYTES,
        }
    }
}

/// What waits in one group, and what waits for a place in a view.
#[derive(Debug)]
pub(crate) struct Messages<R> {
    queue: VecDeque<Queued<R>>,
    /// Receipts to be given when so many messages are bound.
    receipts: VecDeque<(u64, R)>,
}

impl<R> Messages<R> {
    pub(crate) fn new() -> Self {
        Self { queue: VecDeque::new(), receipts: VecDeque::new() }
    }

    pub(crate) fn push(&mut self, asked: Queued<R>) {
        self.queue.push_back(asked);
    }

    /// The life in which the front was asked for.
    pub(crate) fn front_life(&self) -> Option<u64> {
        self.queue.front().map(Queued::life)
    }

    /// The message to one member at the front.
    pub(crate) fn front_to_one(&self) -> Option<&MessageTo<R>> {
        match self.queue.front() {
            Some(Queued::ToOne(message)) => Some(message),
            _ => None,
        }
    }

    /// Takes the message to one member at the front.
    pub(crate) fn pop_to_one(&mut self) -> Option<MessageTo<R>> {
        self.front_to_one()?;
        match self.queue.pop_front() {
            Some(Queued::ToOne(message)) => Some(message),
            _ => None,
        }
    }

    /// Takes what waits at the front if it sends nothing: what asks for a receipt alone has its turn then.
    pub(crate) fn take_empty(&mut self) -> Option<Queued<R>> {
        self.queue.front().is_some_and(Queued::is_empty).then(|| self.queue.pop_front()).flatten()
    }

    /// The multicast whose turn it is: how it is sent, and its payload.
    pub(crate) fn front(&self) -> Option<(SendOptions, Bytes)> {
        match self.queue.front()? {
            Queued::Send(Message { order, stability, in_view, body, .. }) => {
                let in_view = in_view.map(|view| ViewNumber(view.get()));
                let options = SendOptions { in_view, ..SendOptions::new(*order, *stability) };
                Some((options, body.front()?))
            }
            Queued::Ask(ask) => Some((ask.options, ask.payload.clone())),
            Queued::ToOne(_) | Queued::Flush { .. } => None,
        }
    }

    /// The domain to which the multicast goes whose turn it is.
    pub(crate) fn front_domain(&self) -> Option<&str> {
        match self.queue.front()? {
            Queued::Send(message) => message.domain.as_deref(),
            Queued::Ask(_) | Queued::ToOne(_) | Queued::Flush { .. } => None,
        }
    }

    /// Takes the ask at the front.
    pub(crate) fn pop_ask(&mut self) -> Option<Box<Ask<R>>> {
        if !matches!(self.queue.front()?, Queued::Ask(_)) {
            return None;
        }
        match self.queue.pop_front()? {
            Queued::Ask(ask) => Some(ask),
            _ => None,
        }
    }

    /// Takes the first ask that waits and is meant.
    pub(crate) fn take_ask(&mut self, is_meant: impl Fn(&Ask<R>) -> bool) -> Option<Box<Ask<R>>> {
        let is_meant = |queued: &Queued<R>| matches!(queued, Queued::Ask(ask) if is_meant(ask));
        match self.queue.remove(self.queue.iter().position(is_meant)?)? {
            Queued::Ask(ask) => Some(ask),
            _ => None,
        }
    }

    /// Whether an ask waits.
    pub(crate) fn has_ask(&self) -> bool {
        self.queue.iter().any(|queued| matches!(queued, Queued::Ask(_)))
    }

    /// The earliest deadline of the asks that wait.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let asks =
            self.queue.iter().filter_map(|queued| if let Queued::Ask(ask) = queued { ask.deadline } else { None });
        asks.min()
    }

    /// Takes all at the front that was asked for together.
    pub(crate) fn pop(&mut self) -> Option<Queued<R>> {
        self.queue.pop_front()
    }

    /// The message at the front was accepted, as the message `number` of this life. Returns the bytes that nothing of it
    /// occupies any more, if all of what was asked for together is accepted.
    pub(crate) fn accepted(&mut self, number: u64) -> Option<usize> {
        let Some(Queued::Send(message)) = self.queue.front_mut() else { return None };
        if message.body.len() == 1
            && let Some(receipt) = message.receipt.take()
        {
            self.receipts.push_back((number, receipt));
        }
        let bytes = message.body.bytes();
        if !message.body.forget_front() {
            return None;
        }
        self.queue.pop_front();
        Some(bytes)
    }

    /// Has a receipt wait until so many messages are bound.
    pub(crate) fn wait(&mut self, number: u64, receipt: R) {
        // One that waited for messages to one comes behind others.
        let at = self.receipts.partition_point(|(other, _)| *other <= number);
        self.receipts.insert(at, (number, receipt));
    }

    /// A receipt whose messages are bound, with its number.
    #[inline]
    pub(crate) fn bound(&mut self, tally: &Tally) -> Option<(u64, R)> {
        self.is_awaited(tally).then(|| self.receipts.pop_front()).flatten()
    }

    /// Whether the next receipt can be answered: all of its messages are bound.
    #[inline]
    pub(crate) fn is_awaited(&self, tally: &Tally) -> bool {
        self.receipts.front().is_some_and(|(number, _)| *number <= tally.sent)
    }

    /// Ends all: first what waits for a place in a view, then what waits to be sent.
    pub(crate) fn end(&mut self) -> (VecDeque<(u64, R)>, VecDeque<Queued<R>>) {
        (std::mem::take(&mut self.receipts), std::mem::take(&mut self.queue))
    }

    /// Whether something waits to be sent.
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}

/// Where the latest message that was bound belongs, as what a receipt says that was given for message `number`.
pub(crate) fn latest(tally: &Tally, number: u64) -> Bound {
    let (view, seq) = tally.latest();
    Bound { view, seq, number }
}
