//! Asks of all groups of a process, as the front and the core see them.

use phalanx_core::{Delivery, GroupId, Incarnation, Instant, MessageToOne, Sent};

use super::Lives;
use crate::asks::{Ask, AskEnd, AskId, Reply};
use crate::front::{Front, Key, Refusal};
use crate::membership::Membership;
use crate::records::Records;

/// The asks of all groups of a process; see [`Lives::asks`].
#[derive(Debug)]
pub struct Asking<'a, G, R>(pub(super) &'a mut Lives<G, R>);

impl<G, R> Asking<'_, G, R> {
    /// Whether another ask of a group may wait for answers. Looked at before one is sent that was not queued here.
    #[must_use]
    pub fn has_room(&self, key: Key) -> bool {
        self.0.look(key).is_some_and(|held| held.asks.has_room())
    }

    /// The core accepted an ask that was not queued here.
    pub fn accepted_at_once<F: Front<Group = G, Receipt = R>>(
        &mut self,
        key: Key,
        ask: Box<Ask<R>>,
        sent: Option<Sent>,
        front: &mut F,
    ) {
        if let Some(held) = self.0.held(key) {
            held.accept_ask(key, ask, sent, front);
        }
    }

    /// The application answers an ask that it was shown in a membership's present life. False, and nothing is sent: it did
    /// before, or nobody waits for the answer any more.
    pub fn answer(&mut self, key: Key, id: AskId, reply: Reply, value: &[u8]) -> bool {
        let mut records = self.0.records.take();
        let is_taken = self.0.held(key).is_some_and(|held| held.answer(id, reply, value, &mut records));
        self.0.records = records;
        self.note(key);
        is_taken
    }

    /// Gives up an ask of this process, by its own name for it. Without effect if it ended before.
    pub fn cancel<F: Front<Group = G, Receipt = R>>(&mut self, key: Key, number: u64, front: &mut F) {
        let (me, mut records) = (self.0.me, self.0.records.take());
        if let Some(held) = self.0.held(key) {
            let how = (Refusal::GivenUp, AskEnd::Cancelled);
            held.give_up(key, me, how, |ask| ask.number == number, front, &mut records);
        }
        self.0.records = records;
        self.note(key);
    }

    /// Ends asks that are late, and those whose answers wait behind an inbox that stays full. Returns when to call it again at
    /// the latest; another ask may want it earlier.
    pub fn expire<F: Front<Group = G, Receipt = R>>(&mut self, now: Instant, front: &mut F) -> Option<Instant> {
        let (me, mut records) = (self.0.me, self.0.records.take());
        let mut next: Option<Instant> = None;
        for at in 0..self.0.slots.len() {
            let Some((key, held)) = self.0.at(at) else { continue };
            let due = held.expire(key, me, now, front, &mut records);
            next = [next, due].into_iter().flatten().min();
            self.note(key);
        }
        self.0.records = records;
        next
    }

    /// Messages about asks that came too late to count, or made no sense, over all memberships that go on.
    #[must_use]
    pub fn late(&self) -> u64 {
        self.0.slots.iter().filter_map(|slot| slot.held.as_ref()).map(|held| held.asks.late).sum()
    }
}

impl<G, R> Lives<G, R> {
    /// The asks of all groups.
    pub fn asks(&mut self) -> Asking<'_, G, R> {
        Asking(self)
    }
}

impl<G, R> Asking<'_, G, R> {
    /// An ask was delivered.
    pub(super) fn deliver<F: Front<Group = G, Receipt = R>>(&mut self, delivery: &Delivery<'_>, front: &mut F) {
        let Some(expected) = delivery.asked else { return };
        self.with(delivery.group, |key, held, me, records| {
            if held.is_sound {
                if F::COUNTS_DELIVERED && delivery.sender == me && !delivery.replayed {
                    held.tally.deliver();
                }
                held.deliver_ask(key, me, delivery, expected, front, records);
            }
        });
    }

    /// A member said something of an ask.
    pub(super) fn hear<F: Front<Group = G, Receipt = R>>(&mut self, message: &MessageToOne<'_>, front: &mut F) {
        self.with(message.group, |key, held, me, records| held.hear(key, me, message, front, records));
    }

    /// Does something with the asks of a group, and notes what follows.
    fn with(
        &mut self,
        group: GroupId,
        act: impl FnOnce(Key, &mut Membership<G, R>, Incarnation, &mut Option<Records>),
    ) {
        let (me, mut records) = (self.0.me, self.0.records.take());
        let mut at = None;
        if let Some((key, held)) = self.0.numbered(group) {
            act(key, held, me, &mut records);
            at = Some(key);
        }
        self.0.records = records;
        at.into_iter().for_each(|key| self.note(key));
    }

    /// Asks of a membership changed: some may have ended, and something may have to be said.
    pub(super) fn note(&mut self, key: Key) {
        let Some(held) = self.0.held(key) else { return };
        let has_news = held.asks.is_waiting() || held.tally.has_news();
        let is_new = has_news && !std::mem::replace(&mut held.has_news, true);
        let is_busy = held.asks.out().is_some() && !std::mem::replace(&mut held.is_busy, true);
        if is_new {
            self.0.news.push(key.slot as usize);
        }
        if is_busy {
            self.0.busy.push(key.slot as usize);
        }
    }
}
