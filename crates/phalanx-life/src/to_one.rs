//! Messages to one member of a group: those that wait for that member's window, and those without an outcome.
//!
//! They are asked for in one queue with multicasts, because a message to one comes after all multicasts that were asked for
//! before it. One whose receiver has no room must not hold back what goes to others: it leaves the queue, and waits behind
//! the earlier ones for the same receiver. It is tried again before the queue's turn.

use std::collections::VecDeque;

use bytes::Bytes;
use phalanx_core::{GroupId, Incarnation, ToOneKind};

/// A message to one member.
#[derive(Debug)]
pub struct MessageTo<R> {
    /// The life in which it was asked for. In a later one it is not sent.
    pub life: u64,
    /// Its receiver.
    pub to: Incarnation,
    /// What is sent.
    pub payload: Bytes,
    /// What waits for its outcome.
    pub receipt: Option<R>,
}

impl<R> MessageTo<R> {
    /// The memory that it occupies, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.payload.len() + MESSAGE_BYTES
    }
}

/// The fixed cost of a message that waits, beside its payload.
pub(crate) const MESSAGE_BYTES: usize = 64;

/// A message to one member, whose turn it is.
#[derive(Clone, Debug)]
pub struct NextToOne {
    /// Its group.
    pub group: GroupId,
    /// Its receiver.
    pub to: Incarnation,
    /// A message, or something about an ask.
    pub kind: ToOneKind,
    /// What is sent.
    pub payload: Bytes,
}

/// Messages to one receiver. They are numbered in the order in which they were asked for.
#[derive(Debug)]
struct Line<R> {
    to: Incarnation,
    /// They wait for room in the receiver's window.
    held: VecDeque<MessageTo<R>>,
    /// The first of them was tried in this turn.
    is_tried: bool,
    /// Messages that the core accepted, and how many of them have an outcome.
    sent: u64,
    settled: u64,
    /// What waits for the outcome of a message that was sent, with its number.
    receipts: VecDeque<(u64, R)>,
}

/// A flush that waits for messages to one.
#[derive(Debug)]
struct Flush<R> {
    /// The multicasts before it.
    number: u64,
    /// Receivers, and the last message to each before it.
    open: Vec<(Incarnation, u64)>,
    receipt: R,
}

/// The messages to one of a membership in a life.
#[derive(Debug)]
pub(crate) struct ToOnes<R> {
    /// Sorted by receiver. One without a message that waits, or that has no outcome, is dropped with the next view.
    lines: Vec<Line<R>>,
    flushes: Vec<Flush<R>>,
}

/// What is left of them at the end of a life.
pub(crate) struct Ended<R> {
    /// Messages that were not sent.
    pub(crate) held: Vec<MessageTo<R>>,
    /// Receivers with messages without an outcome: how many, and what waits for them.
    pub(crate) open: Vec<(Incarnation, u64, Vec<R>)>,
    /// What waits for flushes.
    pub(crate) flushes: Vec<R>,
}

impl<R> ToOnes<R> {
    pub(crate) fn new() -> Self {
        Self { lines: Vec::new(), flushes: Vec::new() }
    }

    fn at(&self, to: Incarnation) -> Result<usize, usize> {
        self.lines.binary_search_by_key(&to, |line| line.to)
    }

    fn line(&mut self, to: Incarnation) -> &mut Line<R> {
        let at = self.at(to).unwrap_or_else(|at| {
            let (held, receipts) = (VecDeque::new(), VecDeque::new());
            self.lines.insert(at, Line { to, held, is_tried: false, sent: 0, settled: 0, receipts });
            at
        });
        &mut self.lines[at]
    }

    /// What is held back may be tried again.
    pub(crate) fn begin_turn(&mut self) {
        self.lines.iter_mut().for_each(|line| line.is_tried = false);
    }

    /// A message that was held back, and not tried in this turn.
    pub(crate) fn untried(&self) -> Option<&MessageTo<R>> {
        self.lines.iter().find_map(|line| line.held.front().filter(|_| !line.is_tried))
    }

    /// Whether messages to that receiver are held back.
    pub(crate) fn holds_back(&self, to: Incarnation) -> bool {
        self.at(to).is_ok_and(|at| !self.lines[at].held.is_empty())
    }

    /// Whether some message is held back.
    pub(crate) fn has_held(&self) -> bool {
        self.lines.iter().any(|line| !line.held.is_empty())
    }

    /// Holds a message back until the next turn.
    pub(crate) fn hold(&mut self, message: MessageTo<R>) {
        let line = self.line(message.to);
        line.held.push_back(message);
        line.is_tried = true;
    }

    /// The message that was held back has to wait on.
    pub(crate) fn hold_on(&mut self, to: Incarnation) {
        self.line(to).is_tried = true;
    }

    /// Takes the first message that is held back, which was sent or is refused.
    pub(crate) fn take_held(&mut self, to: Incarnation) -> Option<MessageTo<R>> {
        self.line(to).held.pop_front()
    }

    /// The core accepted a message.
    pub(crate) fn sent(&mut self, to: Incarnation, receipt: Option<R>) {
        let line = self.line(to);
        line.sent += 1;
        if let Some(receipt) = receipt {
            line.receipts.push_back((line.sent, receipt));
        }
    }

    /// A message that was held back is refused. Those behind it move up.
    pub(crate) fn refused(&mut self, to: Incarnation) {
        let sent = self.line(to).sent;
        let open = self.flushes.iter_mut().flat_map(|flush| &mut flush.open);
        for (_, last) in open.filter(|(of, last)| *of == to && *last > sent) {
            *last -= 1;
        }
    }

    /// The next messages to a receiver have an outcome. Returns how many of them are known, and what waits for them.
    pub(crate) fn settle(&mut self, to: Incarnation, messages: u64) -> (u64, Vec<R>) {
        let line = self.line(to);
        debug_assert!(line.settled + messages <= line.sent, "a message has an outcome that was not sent");
        let messages = messages.min(line.sent - line.settled);
        line.settled += messages;
        let due = line.receipts.partition_point(|(number, _)| *number <= line.settled);
        (messages, line.receipts.drain(..due).map(|(_, receipt)| receipt).collect())
    }

    /// Makes a flush wait for all messages before it. If there are none without an outcome, the receipt is returned.
    pub(crate) fn flush(&mut self, number: u64, receipt: R) -> Option<R> {
        let last = |line: &Line<R>| line.sent + line.held.len() as u64;
        let open = self.lines.iter().filter(|line| line.settled < last(line));
        let open: Vec<_> = open.map(|line| (line.to, last(line))).collect();
        if open.is_empty() {
            return Some(receipt);
        }
        self.flushes.push(Flush { number, open, receipt });
        None
    }

    /// Takes a flush that waits for nothing any more, with the number of multicasts before it.
    pub(crate) fn flushed(&mut self) -> Option<(u64, R)> {
        let Self { lines, flushes } = self;
        let settled = |to| lines.iter().find(|line| line.to == to).map_or(u64::MAX, |line| line.settled);
        for flush in &mut *flushes {
            flush.open.retain(|(to, last)| settled(*to) < *last);
        }
        let at = flushes.iter().position(|flush| flush.open.is_empty())?;
        let Flush { number, receipt, .. } = flushes.remove(at);
        Some((number, receipt))
    }

    /// Drops the lines of receivers for which nothing is open: they may be gone.
    pub(crate) fn forget_idle(&mut self) {
        self.lines.retain(|line| !line.held.is_empty() || line.settled < line.sent);
    }

    /// The life is over.
    pub(crate) fn end(&mut self) -> Ended<R> {
        let Self { lines, flushes } = std::mem::replace(self, Self::new());
        let flushes = flushes.into_iter().map(|flush| flush.receipt).collect();
        let mut ended = Ended { held: Vec::new(), open: Vec::new(), flushes };
        for Line { to, held, sent, settled, receipts, .. } in lines {
            ended.held.extend(held);
            if settled < sent {
                ended.open.push((to, sent - settled, receipts.into_iter().map(|(_, receipt)| receipt).collect()));
            }
        }
        ended
    }
}
