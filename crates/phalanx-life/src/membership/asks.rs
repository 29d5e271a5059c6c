//! Asks of a membership: those of this process, and those that it is to answer.

use std::time::Duration;

use phalanx_core::{Delivery, Expected, GroupView, Incarnation, Instant, MessageToOne, Rank, Sent};
use phalanx_trace::{AskStep, payload_hash};

use super::Membership;
use crate::asks::{Answer, Ask, AskEnd, AskId, AskNumber, Asked, EndedAsks, Filled, Frame, Heard, Reply, What};
use crate::front::{Front, Key, Refusal};
use crate::messages::Queued;
use crate::records::{Records, ask_end, ask_reply, ask_want};

/// How long the inbox of an asker may stay full.
const FULL_PATIENCE: Duration = Duration::from_secs(1);
/// How often that is looked at.
const FULL_POLL: Duration = Duration::from_millis(200);

impl<G, R> Membership<G, R> {
    fn record(
        &self,
        records: &mut Option<Records>,
        asker: Incarnation,
        ask: AskNumber,
        what: impl FnOnce() -> AskStep,
    ) {
        if let (Some(records), Some(group)) = (records, self.number) {
            records.ask(group, asker, ask, what());
        }
    }

    /// The core accepted an ask that was not queued here.
    pub(crate) fn accept_ask<F: Front<Group = G, Receipt = R>>(
        &mut self,
        key: Key,
        ask: Box<Ask<R>>,
        sent: Option<Sent>,
        front: &mut F,
    ) {
        self.tally.accepted += 1;
        self.asks.accepted(self.tally.accepted, ask);
        if let Some(Sent { view, seq }) = sent {
            self.bind(key, view, seq, front);
        }
    }

    // Of this process.

    /// An ask was delivered: to the application, which is to answer it if this process is expected to.
    pub(crate) fn deliver_ask<F: Front<Group = G, Receipt = R>>(
        &mut self,
        key: Key,
        me: Incarnation,
        delivery: &Delivery<'_>,
        expected: Expected<'_>,
        front: &mut F,
        records: &mut Option<Records>,
    ) {
        let number = (delivery.view, delivery.seq);
        let view = self.view.clone().filter(|view| view.view == delivery.view);
        debug_assert!(view.is_some() || delivery.replayed, "a message comes in the view that was told last");
        let (Some(view), false) = (view, delivery.replayed) else {
            return front.deliver(key, &mut self.own, delivery);
        };
        let mut with_self = true;
        if delivery.sender == me {
            if let Some(end) = self.asks.delivered(number, expected, &view, me) {
                self.record(records, me, number, || AskStep::Ended(ask_end(end)));
            }
            if let Some(open) = self.asks.open(number) {
                with_self = open.ask.with_self;
                // Without a trace nothing is listed.
                let opened = records.is_some().then(|| AskStep::Opened {
                    places: open.ranks().map(|rank| rank.0).collect(),
                    want: ask_want(open.ask.want),
                });
                opened.into_iter().for_each(|step| self.record(records, me, number, || step));
            } else {
                with_self = false; // it was given up
            }
        }
        match view.members.iter().position(|who| *who == me) {
            Some(rank) if with_self && expected.contains(rank) => {
                let id = AskId { asker: delivery.sender, number, place: Rank::from_index(rank) };
                let asked = Asked { id, expected, payload: delivery.payload, delivery: Some(delivery) };
                self.show(key, &asked, front, records);
            }
            _ => front.deliver(key, &mut self.own, delivery),
        }
    }

    fn show<F: Front<Group = G, Receipt = R>>(
        &mut self,
        key: Key,
        asked: &Asked<'_>,
        front: &mut F,
        records: &mut Option<Records>,
    ) {
        let AskId { asker, number, place } = asked.id;
        let position = asked.delivery.and_then(|delivery| delivery.position);
        let forwarded = asked.delivery.is_none();
        self.record(records, asker, number, || AskStep::Shown { place: place.0, position, forwarded });
        self.asks.show(asked.id);
        let mut value = self.asks.take_value();
        if let Some(reply) = front.asked(key, &mut self.own, asked, &mut value) {
            self.answer(asked.id, reply, &value, records);
        }
        self.asks.keep_value(value);
    }

    /// The application answers an ask that it was shown. False: it did before, or nobody waits for the answer any more.
    pub(crate) fn answer(&mut self, id: AskId, reply: Reply, value: &[u8], records: &mut Option<Records>) -> bool {
        let is_taken = self.asks.answer(id, reply, value);
        if is_taken {
            let AskId { asker, number, place } = id;
            self.record(records, asker, number, || AskStep::Replied {
                place: place.0,
                reply: ask_reply(reply),
                hash: payload_hash(value),
            });
        }
        is_taken
    }

    /// Something that another member says of an ask. False: it is of no use.
    pub(crate) fn hear<F: Front<Group = G, Receipt = R>>(
        &mut self,
        key: Key,
        me: Incarnation,
        message: &MessageToOne<'_>,
        front: &mut F,
        records: &mut Option<Records>,
    ) {
        let heard = match (Frame::read(message.payload), self.view.clone()) {
            (Ok(frame), Some(view)) => match frame.what {
                What::Reply(reply, value) => {
                    self.hear_reply(me, message.sender, (frame.ask, frame.place), (reply, value), &view, front, records)
                }
                What::GivenUp => self.hear_given_up(key, message.sender, frame.ask, front),
                What::Forwarded(expected, payload) => {
                    let id = AskId { asker: message.sender, number: frame.ask, place: frame.place };
                    // One that was excluded meanwhile, and whose ask was in an earlier stay of this process.
                    let is_in = view.members.contains(&message.sender);
                    if is_in {
                        self.show(key, &Asked { id, expected, payload, delivery: None }, front, records);
                    }
                    is_in
                }
            },
            _ => false,
        };
        self.asks.late += u64::from(!heard);
    }

    #[expect(clippy::too_many_arguments, reason = "who says what of which place")]
    fn hear_reply<F: Front<Group = G, Receipt = R>>(
        &mut self,
        me: Incarnation,
        from: Incarnation,
        (number, place): (AskNumber, Rank),
        (reply, value): (Reply, &[u8]),
        view: &GroupView,
        front: &mut F,
        records: &mut Option<Records>,
    ) -> bool {
        let Some(open) = self.asks.open(number) else { return false };
        let Some(of) = open.member_at(place) else { return false };
        let Some(heard) = open.hear(place, from, reply, &view.members) else { return false };
        let filled = match (heard, reply) {
            (Heard::Forward(to), _) => {
                let (expected, payload) = (open.expected().bits().to_vec(), open.ask.payload.clone());
                let what = What::Forwarded(Expected::of(&expected), &payload);
                self.asks.say(to, &Frame { ask: number, place, what });
                None
            }
            (Heard::Left(by), _) => Some((by, Filled::Left)),
            (Heard::Filled, Reply::Value) => Some((from, Filled::Value(value))),
            (Heard::Filled, Reply::Abort) => Some((from, Filled::Abort(value))),
            (Heard::Filled | Heard::Vain, _) => Some((from, Filled::Null)),
        };
        self.record(records, me, number, || AskStep::Heard {
            place: place.0,
            from: from.0,
            reply: ask_reply(reply),
            hash: payload_hash(value),
        });
        if let (Some((by, filled)), Some(open)) = (filled, self.asks.open(number)) {
            open.is_enough |=
                front.answered(&mut self.own, &open.ask.receipt, &Answer { ask: number, place, of, by, filled });
        }
        true
    }

    fn hear_given_up<F: Front<Group = G, Receipt = R>>(
        &mut self,
        key: Key,
        asker: Incarnation,
        ask: AskNumber,
        front: &mut F,
    ) -> bool {
        let mut was_due = false;
        while let Some(id) = self.asks.take_given_up(asker, ask) {
            was_due = true;
            front.given_up(key, &mut self.own, id);
        }
        was_due
    }

    /// A view was told: places of those that are not in it are filled with nothing.
    pub(crate) fn hear_view<F: Front<Group = G, Receipt = R>>(&mut self, front: &mut F) {
        let Some(view) = self.view.clone() else { return };
        self.asks.keep_askers(&view.members);
        for open in self.asks.all_open() {
            while let Some((place, of, by)) = open.take_left(&view.members) {
                let answer = Answer { ask: open.number, place, of, by, filled: Filled::Left };
                open.is_enough |= front.answered(&mut self.own, &open.ask.receipt, &answer);
            }
        }
    }

    /// Tells the ends of asks that have as many answers as they wanted, or can get no more.
    pub(crate) fn tell_asks<F: Front<Group = G, Receipt = R>>(
        &mut self,
        me: Incarnation,
        front: &mut F,
        records: &mut Option<Records>,
    ) {
        while let Some((open, end)) = self.asks.take_ended() {
            self.record(records, me, open.number, || AskStep::Ended(ask_end(end)));
            front.ask_ended(&mut self.own, open.ask.receipt, end);
        }
    }

    /// Ends an ask without waiting for more, or refuses it if it was not sent. False: there is none.
    pub(crate) fn give_up<F: Front<Group = G, Receipt = R>>(
        &mut self,
        key: Key,
        me: Incarnation,
        (why, end): (Refusal, AskEnd),
        is_meant: impl Fn(&Ask<R>) -> bool,
        front: &mut F,
        records: &mut Option<Records>,
    ) -> bool {
        if let Some(ask) = self.messages.take_ask(&is_meant) {
            self.refuse(key, Queued::Ask(ask), why, front);
            return true;
        }
        self.end_ask(me, end, is_meant, front, records)
    }

    /// Ends an ask that was sent. False: there is none.
    fn end_ask<F: Front<Group = G, Receipt = R>>(
        &mut self,
        me: Incarnation,
        end: AskEnd,
        is_meant: impl Fn(&Ask<R>) -> bool,
        front: &mut F,
        records: &mut Option<Records>,
    ) -> bool {
        let Some((number, ask)) = self.asks.give_up(end, is_meant) else { return false };
        if let Some(number) = number {
            self.record(records, me, number, || AskStep::Ended(ask_end(end)));
        }
        front.ask_ended(&mut self.own, ask.receipt, end);
        true
    }

    /// Ends what is late, and all asks if the inbox stays full behind which their answers wait. Returns when to look again.
    pub(crate) fn expire<F: Front<Group = G, Receipt = R>>(
        &mut self,
        key: Key,
        me: Incarnation,
        now: Instant,
        front: &mut F,
        records: &mut Option<Records>,
    ) -> Option<Instant> {
        let is_late = |ask: &Ask<R>| ask.deadline.is_some_and(|at| at <= now);
        while self.give_up(key, me, (Refusal::Late, AskEnd::Deadline), is_late, front, records) {}
        let deadline = [self.asks.deadline(), self.messages.deadline()].into_iter().flatten().min();
        if !self.asks.is_waiting() && !self.messages.has_ask() {
            self.asks.full_since = None;
            return deadline;
        }
        if !front.is_full(key, &mut self.own) {
            self.asks.full_since = None;
        } else if now.since(*self.asks.full_since.get_or_insert(now)) >= FULL_PATIENCE {
            while self.give_up(key, me, (Refusal::Full, AskEnd::Full), |_| true, front, records) {}
            self.asks.full_since = None;
            return None;
        }
        let look = now + FULL_POLL;
        Some(deadline.map_or(look, |at| at.min(look)))
    }

    /// The life is over, and all asks with it.
    pub(super) fn end_asks<F: Front<Group = G, Receipt = R>>(
        &mut self,
        me: Incarnation,
        front: &mut F,
        records: &mut Option<Records>,
    ) {
        let EndedAsks { unsent, sent } = self.asks.end();
        for ask in unsent {
            front.answer(&mut self.own, ask.receipt, Err(Refusal::NotSent));
        }
        for (number, ask) in sent {
            self.record(records, me, number, || AskStep::Ended(ask_end(AskEnd::Over)));
            front.ask_ended(&mut self.own, ask.receipt, AskEnd::Over);
        }
    }
}
