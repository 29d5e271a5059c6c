//! One membership of this process in a group.

use std::sync::Arc;

use phalanx_core::{GroupId, Sequence, ViewNumber};

use crate::front::{Bound, Front, Key, Refusal, Step};
use crate::messages::{Messages, NextMessage, Queued, latest};
use crate::records::Records;
use crate::tally::Tally;

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
    /// Views in which messages became stable since that was told, and up to which number in each.
    reached: Vec<(ViewNumber, Sequence)>,
    /// It is among those with something to tell.
    pub(crate) has_news: bool,
    /// It is among those with messages that wait to be sent.
    pub(crate) is_busy: bool,
    /// What the front keeps.
    pub(crate) own: G,
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

    /// The group's number, if it is to be left now.
    pub(crate) fn to_leave(&self) -> Option<GroupId> {
        self.number_in_view().filter(|_| self.leave == Leave::Wanted && self.messages.is_empty())
    }

    /// Another state comes, or this process's own is the group's.
    pub(crate) fn begin_state(&mut self, holds: Option<GroupId>) {
        (self.holds, self.is_sound) = (holds, true);
    }

    // Messages.

    pub(crate) fn push(&mut self, asked: Queued<R>) {
        self.messages.push(asked);
    }

    /// The message whose turn it is. What comes before it and sends nothing, or was asked for in an earlier life, is
    /// answered. `Err(true)`: nothing waits.
    pub(crate) fn due<F: Front<Group = G, Receipt = R>>(
        &mut self,
        key: Key,
        front: &mut F,
    ) -> Result<NextMessage, bool> {
        loop {
            while let Some(asked) = self.messages.take_empty() {
                self.answer_empty(asked, front);
            }
            let message = self.messages.front().ok_or(true)?;
            if message.life != self.life {
                self.refuse_front(key, Refusal::NotSent, front);
                continue;
            }
            // In no view yet, or between two incarnations.
            let group = self.number_in_view().ok_or(false)?;
            let payload = message.body.front().ok_or(false)?;
            let in_view = message.in_view.map(|view| ViewNumber(view.get()));
            return Ok(NextMessage { group, order: message.order, stability: message.stability, in_view, payload });
        }
    }

    /// Gives a receipt for all messages accepted so far, once they are bound to a view.
    fn answer_empty<F: Front<Group = G, Receipt = R>>(&mut self, asked: Queued<R>, front: &mut F) {
        let (life, bytes) = (asked.life(), asked.bytes());
        if bytes > 0 {
            front.release(&mut self.own, bytes);
        }
        let Some(receipt) = asked.into_receipt() else { return };
        if life != self.life {
            front.answer(&mut self.own, receipt, Err(Refusal::NotSent));
        } else if self.tally.sent >= self.tally.accepted {
            front.answer(&mut self.own, receipt, Ok(latest(&self.tally, self.tally.sent)));
        } else {
            self.messages.wait(self.tally.accepted, receipt);
        }
    }

    /// The core accepted a message. `is_queued`: the one at the front.
    #[inline]
    pub(crate) fn accepted<F: Front<Group = G, Receipt = R>>(&mut self, is_queued: bool, front: &mut F) {
        self.tally.accepted += 1;
        if is_queued && let Some(bytes) = self.messages.accepted(self.tally.accepted) {
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
        front.sent(key, &mut self.own, view, seq);
        while let Some((number, receipt)) = self.messages.bound(&self.tally) {
            front.answer(&mut self.own, receipt, Ok(Bound { view, seq, number }));
        }
    }

    /// Refuses the message at the front, and all behind it that was asked for together.
    pub(crate) fn refuse_front<F: Front<Group = G, Receipt = R>>(&mut self, key: Key, why: Refusal, front: &mut F) {
        let Some(asked) = self.messages.pop() else { return };
        let (messages, bytes) = (asked.messages(), asked.bytes());
        front.release(&mut self.own, bytes);
        let receipt = asked.into_receipt();
        if receipt.is_none() || why == Refusal::NotSent {
            front.step(key, &mut self.own, Step::Unsent { messages });
        }
        if let Some(receipt) = receipt {
            front.answer(&mut self.own, receipt, Err(why));
        }
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
        key: Key,
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
        if let (Some(records), Some(group), true) = (records, self.number, self.in_view) {
            records.over(group, not_sent, in_doubt);
        }
        let (receipts, queue) = self.messages.end();
        for (_, receipt) in receipts {
            front.answer(&mut self.own, receipt, Err(Refusal::NotSent));
        }
        for asked in queue {
            not_sent += asked.messages();
            front.release(&mut self.own, asked.bytes());
            if let Some(receipt) = asked.into_receipt() {
                front.answer(&mut self.own, receipt, Err(Refusal::NotSent));
            }
        }
        self.in_view = false;
        self.life += 1;
        front.step(key, &mut self.own, Step::Over { next: self.life, not_sent, in_doubt });
    }
}
