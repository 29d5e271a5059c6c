//! One membership of this process in a group.

mod asks;

use std::sync::Arc;

use phalanx_core::{DomainIndex, GroupId, GroupView, Incarnation, Sent, Sequence, ToOneKind, ToOneOutcome, ViewNumber};

use crate::asks::Asks;
use crate::front::{Bound, Front, Key, Refusal, Step};
use crate::messages::{Messages, NextMessage, Queued, latest};
use crate::records::Records;
use crate::tally::Tally;
use crate::to_one::{Ended, MessageTo, NextToOne, ToOnes};

/// A group that this process is in, joins, or comes back to.
#[derive(Debug)]
pub(crate) struct Membership<G, R> {
    pub(crate) name: Arc<str>,
    pub(crate) with_state: bool,
    /// It never has the group's state.
    pub(crate) observes: bool,
    /// The group's number in this incarnation.
    pub(crate) number: Option<GroupId>,
    /// The group whose complete state is here; kept through an exclusion.
    pub(crate) holds: Option<GroupId>,
    pub(crate) in_view: bool,
    /// Enough members hold the group's state, by the latest view that was handed over.
    pub(crate) is_adequate: bool,
    /// The state is the group's, or one that will be: false if the latest one that came makes no sense.
    pub(crate) is_sound: bool,
    pub(crate) leave: Leave,
    /// Counts lives: a message asked for in one is not sent in the next.
    life: u64,
    pub(crate) tally: Tally,
    messages: Messages<R>,
    to_ones: ToOnes<R>,
    pub(crate) asks: Asks<R>,
    /// The view that was told last, in this life.
    pub(crate) view: Option<Arc<GroupView>>,
    /// Where the message to one is whose turn it is.
    turn: Turn,
    /// Views in which messages became stable since that was told, and up to which number in each.
    reached: Vec<(ViewNumber, Sequence)>,
    /// It is among those with something to tell.
    pub(crate) has_news: bool,
    /// It is among those with messages that wait to be sent.
    pub(crate) is_busy: bool,
    /// What the front keeps.
    pub(crate) own: G,
}

/// Where a message to one waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// At the front of the queue.
    Queue,
    /// At the front of those that are held back for that receiver.
    Held(Incarnation),
    /// At the front of what is to be said of asks.
    Asks,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leave {
    No,
    /// As soon as this process is in a view, and nothing waits to be sent.
    Wanted,
    Queued,
}

impl<G, R> Membership<G, R> {
    pub(crate) fn new(name: Arc<str>, with_state: bool, observes: bool, own: G) -> Self {
        Self {
            name,
            with_state,
            observes,
            number: None,
            holds: None,
            in_view: false,
            is_adequate: true,
            is_sound: true,
            leave: Leave::No,
            life: 0,
            tally: Tally::default(),
            messages: Messages::new(),
            to_ones: ToOnes::new(),
            asks: Asks::new(),
            view: None,
            turn: Turn::Queue,
            reached: Vec::new(),
            has_news: false,
            is_busy: false,
            own,
        }
    }

    /// The group's number, while this process is in a view of it.
    #[inline]
    pub(crate) fn number_in_view(&self) -> Option<GroupId> {
        self.number.filter(|_| self.in_view)
    }

    /// The place of a domain in the group's list.
    pub(crate) fn domain(&self, name: &str) -> Option<DomainIndex> {
        DomainIndex::of(self.view.as_ref()?.domains.as_deref()?, name)
    }

    /// The group's number, if it is to be left now.
    pub(crate) fn to_leave(&self) -> Option<GroupId> {
        let waits = self.has_unsent();
        self.number_in_view().filter(|_| self.leave == Leave::Wanted && !waits)
    }

    /// Whether something waits to be sent.
    fn has_unsent(&self) -> bool {
        !self.messages.is_empty() || self.to_ones.has_held() || self.asks.out().is_some()
    }

    /// Another state comes, or this process's own is the group's.
    pub(crate) fn begin_state(&mut self, holds: Option<GroupId>) {
        (self.holds, self.is_sound) = (holds, true);
    }

    // Messages.

    pub(crate) fn push(&mut self, asked: Queued<R>) {
        self.messages.push(asked);
    }

    /// The multicast whose turn it is. What comes before it and sends nothing, or was asked for in an earlier life, is
    /// answered. `Err(true)`: nothing waits.
    pub(crate) fn due<F: Front<Group = G, Receipt = R>>(
        &mut self,
        key: Key,
        front: &mut F,
    ) -> Result<NextMessage, bool> {
        loop {
            self.advance(key, front);
            let Some((mut options, payload)) = self.messages.front() else { return Err(!self.has_unsent()) };
            // In no view yet, or between two incarnations.
            let group = self.number_in_view().ok_or(false)?;
            if options.asks && !self.asks.has_room() {
                self.refuse_front(key, Refusal::TooManyAsks, front);
                continue;
            }
            if let Some(name) = self.messages.front_domain() {
                options.domain = self.domain(name);
                if options.domain.is_none() {
                    self.refuse_front(key, Refusal::NoSuchDomain, front);
                    continue;
                }
            }
            return Ok(NextMessage { group, options, payload });
        }
    }

    /// Answers what is at the front and sends nothing, or was asked for in an earlier life.
    fn advance<F: Front<Group = G, Receipt = R>>(&mut self, key: Key, front: &mut F) {
        loop {
            if let Some(asked) = self.messages.take_empty() {
                self.answer_empty(asked, front);
            } else if self.messages.front_life().is_some_and(|life| life != self.life) {
                self.refuse_front(key, Refusal::NotSent, front);
            } else {
                return;
            }
        }
    }

    /// Gives a receipt for all messages accepted so far, once they are bound to a view.
    fn answer_empty<F: Front<Group = G, Receipt = R>>(&mut self, asked: Queued<R>, front: &mut F) {
        let (life, bytes) = (asked.life(), asked.bytes());
        if bytes > 0 {
            front.release(&mut self.own, bytes);
        }
        let is_flush = matches!(asked, Queued::Flush { .. });
        let Some(receipt) = asked.into_receipt() else { return };
        if life != self.life {
            return front.answer(&mut self.own, receipt, Err(Refusal::NotSent));
        }
        let number = self.tally.accepted;
        let ready = if is_flush { self.to_ones.flush(number, receipt) } else { Some(receipt) };
        if let Some(receipt) = ready {
            self.answer_bound(number, receipt, front);
        }
    }

    /// Gives a receipt for the first `number` messages, once they are bound to a view.
    fn answer_bound<F: Front<Group = G, Receipt = R>>(&mut self, number: u64, receipt: R, front: &mut F) {
        if self.tally.sent >= number {
            front.answer(&mut self.own, receipt, Ok(latest(&self.tally, number)));
        } else {
            self.messages.wait(number, receipt);
        }
    }

    /// The core accepted a message. `sent`: where it belongs, unless [`Self::bind`] says that later.
    #[inline]
    pub(crate) fn take_in<F: Front<Group = G, Receipt = R>>(
        &mut self,
        key: Key,
        is_queued: bool,
        sent: Option<Sent>,
        front: &mut F,
    ) {
        self.accepted(is_queued, front);
        if let Some(Sent { view, seq }) = sent {
            self.bind(key, view, seq, front);
        }
    }

    /// The core accepted a message. `is_queued`: the one at the front.
    #[inline]
    fn accepted<F: Front<Group = G, Receipt = R>>(&mut self, is_queued: bool, front: &mut F) {
        self.tally.accepted += 1;
        if is_queued && let Some(ask) = self.messages.pop_ask() {
            front.release(&mut self.own, ask.bytes());
            self.asks.accepted(self.tally.accepted, ask);
        } else if is_queued && let Some(bytes) = self.messages.accepted(self.tally.accepted) {
            front.release(&mut self.own, bytes);
        }
    }

    /// A message was bound to a view.
    #[inline]
    pub(crate) fn bind<F: Front<Group = G, Receipt = R>>(
        &mut self,
        key: Key,
        view: ViewNumber,
        seq: Sequence,
        front: &mut F,
    ) {
        self.tally.bind(view, seq);
        self.asks.bind(self.tally.sent, (view, seq));
        front.sent(key, &mut self.own, (view, seq), self.messages.is_awaited(&self.tally));
        while let Some((number, receipt)) = self.messages.bound(&self.tally) {
            front.answer(&mut self.own, receipt, Ok(Bound { view, seq, number }));
        }
    }

    /// Refuses the message at the front, and all behind it that was asked for together.
    pub(crate) fn refuse_front<F: Front<Group = G, Receipt = R>>(&mut self, key: Key, why: Refusal, front: &mut F) {
        if let Some(asked) = self.messages.pop() {
            self.refuse(key, asked, why, front);
        }
    }

    fn refuse<F: Front<Group = G, Receipt = R>>(&mut self, key: Key, asked: Queued<R>, why: Refusal, front: &mut F) {
        let messages = asked.messages();
        release(&mut self.own, &asked, front);
        let receipt = asked.into_receipt();
        if receipt.is_none() || why == Refusal::NotSent {
            front.step(key, &mut self.own, Step::Unsent { messages });
        }
        if let Some(receipt) = receipt {
            front.answer(&mut self.own, receipt, Err(why));
        }
    }

    // Messages to one member.

    /// What is held back may be tried again.
    pub(crate) fn begin_turn(&mut self) {
        self.to_ones.begin_turn();
    }

    /// The message to one member whose turn it is: first those that are held back, because they were asked for before all
    /// in the queue. So one whose receiver has room again, and which waits for multicasts, is not overtaken by more of them.
    pub(crate) fn due_to_one<F: Front<Group = G, Receipt = R>>(
        &mut self,
        key: Key,
        front: &mut F,
    ) -> Option<NextToOne> {
        self.advance(key, front);
        // In no view yet, or between two incarnations.
        let group = self.number_in_view()?;
        if let Some(out) = self.asks.out() {
            self.turn = Turn::Asks;
            return Some(NextToOne { group, to: out.to, kind: ToOneKind::Answer, payload: out.payload.clone() });
        }
        loop {
            let held = self.to_ones.untried();
            self.turn = held.map_or(Turn::Queue, |message| Turn::Held(message.to));
            let message = held.or_else(|| self.messages.front_to_one())?;
            // It comes behind those that were asked for before.
            if self.turn == Turn::Queue && self.to_ones.holds_back(message.to) {
                self.hold_back();
                self.advance(key, front);
                continue;
            }
            let (to, payload) = (message.to, message.payload.clone());
            return Some(NextToOne { group, to, kind: ToOneKind::Message, payload });
        }
    }

    /// The receiver of the message to one that was due has no room: it waits, and holds back those to the same receiver alone.
    pub(crate) fn hold_back(&mut self) {
        match self.turn {
            Turn::Held(to) => self.to_ones.hold_on(to),
            // Answers take no room.
            Turn::Asks => {}
            Turn::Queue => {
                if let Some(message) = self.messages.pop_to_one() {
                    self.to_ones.hold(message);
                }
            }
        }
    }

    fn take_to_one(&mut self) -> Option<MessageTo<R>> {
        match self.turn {
            Turn::Held(to) => self.to_ones.take_held(to),
            Turn::Asks => None,
            Turn::Queue => self.messages.pop_to_one(),
        }
    }

    /// The core accepted the message to one that was due.
    pub(crate) fn sent_to_one<F: Front<Group = G, Receipt = R>>(&mut self, view: ViewNumber, front: &mut F) {
        if self.turn == Turn::Asks {
            self.asks.take_out();
            return;
        }
        let Some(message) = self.take_to_one() else { return };
        front.release_to_one(&mut self.own, message.to, message.bytes());
        message.receipt.iter().for_each(|receipt| front.sent_to_one(&mut self.own, receipt, view));
        self.to_ones.sent(message.to, message.receipt);
    }

    /// The core accepted a message to one that was not queued here.
    pub(crate) fn sent_to_one_at_once(&mut self, to: Incarnation) {
        self.to_ones.sent(to, None);
    }

    /// The core refused the message to one that was due, for good.
    pub(crate) fn refuse_to_one<F: Front<Group = G, Receipt = R>>(&mut self, key: Key, why: Refusal, front: &mut F) {
        if self.turn == Turn::Asks {
            // Who asked is gone.
            self.asks.take_out();
            return;
        }
        let Some(message) = self.take_to_one() else { return };
        if self.turn != Turn::Queue {
            self.to_ones.refused(message.to);
        }
        self.refuse(key, Queued::ToOne(message), why, front);
        self.answer_flushes(front);
    }

    /// The next messages to a member have an outcome.
    pub(crate) fn settle<F: Front<Group = G, Receipt = R>>(
        &mut self,
        key: Key,
        to: Incarnation,
        outcome: ToOneOutcome,
        messages: u64,
        front: &mut F,
    ) {
        let (messages, receipts) = self.to_ones.settle(to, messages);
        if messages > 0 {
            front.settled(key, &mut self.own, to, outcome, messages);
        }
        receipts.into_iter().for_each(|receipt| front.settled_one(&mut self.own, receipt, outcome));
        self.answer_flushes(front);
    }

    /// Answers the flushes that wait for no message to one any more.
    fn answer_flushes<F: Front<Group = G, Receipt = R>>(&mut self, front: &mut F) {
        while let Some((number, receipt)) = self.to_ones.flushed() {
            self.answer_bound(number, receipt, front);
        }
    }

    /// A view was installed.
    pub(crate) fn forget_idle(&mut self) {
        self.to_ones.forget_idle();
    }

    // Outcomes.

    /// Every member has the messages of a view up to `seq`.
    pub(crate) fn stabilize(&mut self, view: ViewNumber, seq: Sequence) {
        self.tally.stabilize(view, seq);
        match self.reached.last_mut() {
            Some((last, up_to)) if *last == view => *up_to = seq,
            _ => self.reached.push((view, seq)),
        }
    }

    /// Tells what may be told.
    pub(crate) fn tell<F: Front<Group = G, Receipt = R>>(
        &mut self,
        key: Key,
        front: &mut F,
        records: &mut Option<Records>,
    ) {
        if !self.tally.has_news() {
            return;
        }
        let (stable, delivered) = (self.tally.stable, self.tally.delivered);
        front.step(key, &mut self.own, Step::Reached { latest: &self.reached, stable, delivered });
        if let (Some(records), Some(group)) = (records, self.number) {
            records.reached(group, &self.reached);
        }
        self.reached.clear();
        (self.tally.told_stable, self.tally.told_delivered) = (stable, delivered);
    }

    /// Accepted messages that nobody was told of as stable.
    pub(crate) fn unstable(&self) -> u64 {
        self.tally.accepted - self.tally.told_stable
    }

    /// This incarnation, or this membership, is over: what was not sent will not be, and what was not told as stable is in
    /// doubt.
    ///
    /// `may_tell`: enough members hold the group's state, so that what was reached is told first.
    pub(crate) fn end_life<F: Front<Group = G, Receipt = R>>(
        &mut self,
        (key, me): (Key, Incarnation),
        is_final: bool,
        may_tell: bool,
        front: &mut F,
        records: &mut Option<Records>,
    ) {
        front.step(key, &mut self.own, Step::Ending { is_final });
        if may_tell {
            self.tell(key, front, records);
        }
        self.reached.clear();
        let tally = std::mem::take(&mut self.tally);
        let mut not_sent = tally.accepted - tally.sent;
        let in_doubt = tally.sent - tally.told_stable;
        // What still waits in the queue was never accepted.
        if let (Some(records), Some(group), true) = (&mut *records, self.number, self.in_view) {
            records.over(group, not_sent, in_doubt);
        }
        self.end_asks(me, front, records);
        let Ended { held, open, flushes } = self.to_ones.end();
        for (to, messages, receipts) in open {
            front.settled(key, &mut self.own, to, ToOneOutcome::InDoubt, messages);
            for receipt in receipts {
                front.settled_one(&mut self.own, receipt, ToOneOutcome::InDoubt);
            }
        }
        let (receipts, queue) = self.messages.end();
        for receipt in receipts.into_iter().map(|(_, receipt)| receipt).chain(flushes) {
            front.answer(&mut self.own, receipt, Err(Refusal::NotSent));
        }
        for asked in held.into_iter().map(Queued::ToOne).chain(queue) {
            not_sent += asked.messages();
            release(&mut self.own, &asked, front);
            if let Some(receipt) = asked.into_receipt() {
                front.answer(&mut self.own, receipt, Err(Refusal::NotSent));
            }
        }
        (self.in_view, self.view) = (false, None);
        self.life += 1;
        front.step(key, &mut self.own, Step::Over { next: self.life, not_sent, in_doubt });
    }
}

/// Gives back what something that was asked for occupied.
fn release<G, R, F: Front<Group = G, Receipt = R>>(own: &mut G, asked: &Queued<R>, front: &mut F) {
    match asked.to() {
        Some(to) => front.release_to_one(own, to, asked.bytes()),
        None => front.release(own, asked.bytes()),
    }
}
