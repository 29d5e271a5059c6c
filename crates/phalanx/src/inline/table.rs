//! The groups of an inline process, and the handler that passes on what the core reports.

use std::sync::Arc;

use bytes::Bytes;
use phalanx_core as core;
use phalanx_core::{
    Delivery, Event, GroupId, InboxId, Incarnation, MemberInfo, Sequence, ToOneOutcome, Uniformity, ViewNumber,
};
use phalanx_life as life;
use phalanx_life::{Bound, End, Front, Key, Lives, NextMessage, NextToOne, Refusal, Step};
use phalanx_runtime::{Handler, traced};
use phalanx_trace as trace;

use super::app::{
    AnswerRef, App, AskedRef, InlineAsk, InlineGroup, InlineReply, MessageRef, MessageToOneRef, ReplyRef,
};
use super::submits::{Records, Submits};
use crate::answer::AskEnd;
use crate::domain_name::shown;
use crate::error::{AskError, DecodeError, SendError};
use crate::events::{CellEvent, Log};
use crate::id::{LeaveReason, MemberId, Order};
use crate::layout::{Flags, Incoming, Outgoing, Taker};
use crate::sent_to;
use crate::shared::noted::Noted;
use crate::view::View;

/// What an inline process keeps between its owner's calls.
pub(super) struct Table {
    /// What clients have to say alone is queued.
    pub(super) lives: Lives<Taking, Waiter>,
    kept: Kept,
}

/// What waits for the outcome of a message.
#[derive(Debug)]
pub(super) enum Waiter {
    /// An ask, by number.
    Ask(u64),
    /// What a client says: the submit in it, by number. `None`: it opens or closes the client.
    Submit(Option<u64>),
}

/// What its groups share.
struct Kept {
    notices: Log,
    /// What the program is told by the next poll.
    untold: Vec<CellEvent>,
    /// Whether this process left as one of the last, and left something behind.
    in_doubt: bool,
    late: Late,
    /// Some client may have something to say, or to tell the program.
    submits_due: bool,
    /// What is to be recorded of submits.
    records: Records,
}

/// What is told from where the program is not at hand: by snapshots that are on their way to others, and by the trace.
#[derive(Clone, Default)]
pub(super) struct Late(Arc<Noted<CellEvent>>);

impl Late {
    pub(super) fn tell(&self, event: CellEvent) {
        self.0.push(event);
    }

    fn take(&self) -> Vec<CellEvent> {
        self.0.take()
    }
}

/// The state of another member that is on its way to a group.
#[derive(Debug)]
pub(super) struct Taking {
    group: InlineGroup,
    /// Why asks of this process are aborted that have not ended, by number.
    reasons: Vec<(u64, Bytes)>,
    incoming: Option<Incoming>,
    /// What comes of it now.
    part: Part,
    /// The table of clients, and the client, if the state takes submits.
    pub(super) submits: Option<Box<Submits>>,
    /// Whether the program keeps the group's state: the domain without a name.
    keeps_state: bool,
    /// Where the group lists that.
    place: Option<core::DomainIndex>,
    /// The domains that it lists.
    list: Option<Arc<[core::Domain]>>,
}

impl Taking {
    /// Notes where the group lists the state that the program keeps.
    fn adopt(&mut self, list: Option<&Arc<[core::Domain]>>) {
        self.list = list.cloned();
        self.place = if self.keeps_state { self.domain("") } else { None };
    }

    /// Where the group lists a domain.
    pub(super) fn domain(&self, name: &str) -> Option<core::DomainIndex> {
        core::DomainIndex::of(self.list.as_deref()?, name)
    }
}

impl Table {
    pub(super) fn new(rejoin: bool) -> Self {
        let (notices, late) = Default::default();
        let kept = Kept { notices, untold: Vec::new(), in_doubt: false, late, submits_due: false, records: None };
        Self { lives: Lives::new(rejoin), kept }
    }

    /// Adds a group that is about to be joined. `submits`: of its state.
    pub(super) fn add(
        &mut self,
        name: &str,
        with_state: bool,
        observes: bool,
        submits: Option<Submits>,
    ) -> InlineGroup {
        let group = InlineGroup(self.lives.next_key());
        let taking = Taking {
            group,
            reasons: Vec::new(),
            incoming: None,
            part: Part::Other,
            submits: submits.map(Box::new),
            keeps_state: with_state,
            place: None,
            list: None,
        };
        let key = self.lives.add(name.into(), with_state, observes, taking);
        debug_assert_eq!(key, group.0, "the key was told before");
        group
    }

    /// Records from here on what the program is told, and what was submitted, for [`Self::take_records`].
    pub(super) fn record(&mut self) {
        self.lives.record(traced::reason);
        self.kept.records = Some(Vec::new());
    }

    pub(super) fn take_records(&mut self) -> Vec<trace::Event> {
        take_records(&mut self.lives, &mut self.kept)
    }

    pub(super) fn left_in_doubt(&self) -> bool {
        self.kept.in_doubt
    }

    pub(super) fn take_notices(&mut self) -> Vec<String> {
        self.gather();
        self.kept.notices.take_notices()
    }

    /// Takes note of what the program is told by the next poll.
    pub(super) fn note(&mut self, event: CellEvent) {
        self.kept.notices.push(event.clone());
        self.kept.untold.push(event);
    }

    /// Tells the program what was noted.
    pub(super) fn tell_noted(&mut self, app: &mut impl App) {
        self.gather();
        for event in self.kept.untold.drain(..) {
            app.event(&event);
        }
    }

    fn gather(&mut self) {
        self.kept.late.take().into_iter().for_each(|event| self.note(event));
    }

    /// Tells the program and the operator.
    pub(super) fn tell(&mut self, event: CellEvent, app: &mut impl App) {
        app.event(&event);
        self.kept.notices.push(event);
    }

    pub(super) fn late(&self) -> Late {
        self.kept.late.clone()
    }

    /// Some client may have something to say.
    pub(super) fn note_submits(&mut self) {
        self.kept.submits_due = true;
    }

    /// Whether some client may have something to say, or to tell the program.
    pub(super) fn has_submits(&self) -> bool {
        self.kept.submits_due
    }
}

/// What is to be recorded since the last time. An outcome stands behind the end that is its reason.
fn take_records(lives: &mut Lives<Taking, Waiter>, kept: &mut Kept) -> Vec<trace::Event> {
    let mut records = lives.take_records();
    kept.records.iter_mut().for_each(|of_submits| records.append(of_submits));
    records
}

/// Why a membership is over, for the program.
pub(super) fn reason(end: End) -> LeaveReason {
    match end {
        End::Left(why) => LeaveReason::of(why),
        End::Over => LeaveReason::Over,
        End::Refused | End::Differs { .. } | End::Domains(_) => LeaveReason::Left,
    }
}

/// Passes on what the core reports.
pub(super) struct Adapter<'a, A> {
    lives: &'a mut Lives<Taking, Waiter>,
    front: InlineFront<'a, A>,
}

impl<'a, A: App> Adapter<'a, A> {
    pub(super) fn new(table: &'a mut Table, app: &'a mut A) -> Self {
        let Table { lives, kept } = table;
        Self { lives, front: InlineFront { app, kept } }
    }

    /// The core accepted a multicast. `sent`: where it belongs, unless [`Handler::sent`] says that later.
    #[inline]
    pub(super) fn accepted(&mut self, group: InlineGroup, sent: Option<core::Sent>) {
        self.lives.accepted_at_once(group.0, sent, &mut self.front);
    }

    /// The core accepted a message to one member.
    #[inline]
    pub(super) fn accepted_to_one(&mut self, group: InlineGroup, to: Incarnation) {
        self.lives.to_one().sent_at_once(group.0, to);
    }

    /// The core accepted an ask.
    pub(super) fn accepted_ask(&mut self, group: InlineGroup, ask: life::Ask<Waiter>, sent: Option<core::Sent>) {
        self.lives.asks().accepted_at_once(group.0, Box::new(ask), sent, &mut self.front);
    }

    /// Gives an ask of this process up.
    pub(super) fn cancel_ask(&mut self, group: InlineGroup, number: u64) {
        self.lives.asks().cancel(group.0, number, &mut self.front);
    }

    /// Ends asks that are late. Returns when to do so again.
    pub(super) fn expire_asks(&mut self, now: core::Instant) -> Option<core::Instant> {
        self.lives.asks().expire(now, &mut self.front)
    }

    /// Queues what clients have to say, and tells the program what is known of its submits.
    pub(super) fn look_at_submits(&mut self) {
        self.front.kept.submits_due = false;
        let mut due = Vec::new();
        for (key, group) in self.lives.owns() {
            if let Some(submits) = &mut group.submits {
                submits.tell(InlineGroup(key), self.front.app, &mut self.front.kept.records);
                due.extend(submits.due(Waiter::Submit, &mut self.front.kept.records).map(|queued| (key, queued)));
            }
        }
        for (key, queued) in due {
            let taken = self.lives.queue(key, queued);
            debug_assert!(taken.is_ok(), "the membership goes on");
        }
    }

    /// A group of which something waits to be sent, by place, and what.
    pub(super) fn due(&mut self, at: usize) -> Option<(Key, Option<Due>)> {
        let key = self.lives.busy(at)?;
        if let Some(to_one) = self.lives.to_one().due(key, &mut self.front) {
            return Some((key, Some(Due::ToOne(to_one))));
        }
        Some((key, self.lives.due(key, &mut self.front).map(Due::Multicast)))
    }

    /// The core took the multicast that was due, or refused it for good.
    pub(super) fn end_multicast(&mut self, key: Key, outcome: Result<Option<core::Sent>, Refusal>) {
        match outcome {
            Ok(sent) => self.lives.accepted(key, sent, &mut self.front),
            Err(why) => self.lives.refused(key, why, &mut self.front),
        }
    }

    /// The core took the message to one that was due, or refused it for good.
    pub(super) fn end_to_one(&mut self, key: Key, sent: Option<ViewNumber>) {
        match sent {
            Some(view) => self.lives.to_one().sent(key, view, &mut self.front),
            None => self.lives.to_one().refused(key, Refusal::NotSent, &mut self.front),
        }
    }

    /// Tells the program which multicasts are stable, in groups whose state enough members hold. `is_adequate`: whether they
    /// do, as far as the core knows.
    pub(super) fn tell_outcomes(&mut self, is_adequate: impl Fn(GroupId) -> Option<bool>) {
        self.lives.tell(is_adequate, &mut self.front);
    }

    /// The process is over.
    pub(super) fn end(&mut self) {
        self.lives.end(&mut self.front);
    }
}

/// What is to be sent.
pub(super) enum Due {
    ToOne(NextToOne),
    Multicast(NextMessage),
}

/// Calls the program.
struct InlineFront<'a, A> {
    app: &'a mut A,
    kept: &'a mut Kept,
}

impl<A: App> InlineFront<'_, A> {
    /// A message to a domain that the program does not keep: the library keeps the table of clients.
    #[cold]
    fn deliver_beside(&mut self, key: Key, group: &mut Taking, delivery: &Delivery<'_>) {
        let Self { app, kept } = self;
        let Some(submits) = group.submits.as_mut().filter(|submits| submits.place() == delivery.domain) else { return };
        let execute = |payload: &[u8], result: &mut Vec<u8>| {
            app.execute(&MessageRef { payload, ..message_of(key, delivery) }, result);
        };
        kept.submits_due |= submits.deliver(delivery, execute, &mut kept.records);
    }
}

impl<A: App> Front for InlineFront<'_, A> {
    type Group = Taking;
    type Receipt = Waiter;

    // `App::message` says it, but for submits.
    const COUNTS_DELIVERED: bool = false;

    #[inline]
    fn deliver(&mut self, key: Key, group: &mut Taking, delivery: &Delivery<'_>) {
        if delivery.domain.is_some() && delivery.domain != group.place {
            return self.deliver_beside(key, group, delivery);
        }
        self.app.message(&message_of(key, delivery));
    }

    #[inline]
    fn to_one(&mut self, key: Key, _group: &mut Taking, message: &core::MessageToOne<'_>) {
        self.app.to_one(&MessageToOneRef {
            group: InlineGroup(key),
            view: message.view.0,
            sender: MemberId::of(message.sender),
            payload: message.payload,
        });
    }

    #[inline]
    fn settled(&mut self, key: Key, _group: &mut Taking, to: Incarnation, outcome: ToOneOutcome, messages: u64) {
        self.app.settled(InlineGroup(key), MemberId::of(to), sent_to::outcome(outcome), messages);
    }

    #[inline]
    fn sent(&mut self, key: Key, _group: &mut Taking, (view, seq): (ViewNumber, Sequence), is_awaited: bool) {
        // What the library sends for submits is none of the program's multicasts.
        if !is_awaited {
            self.app.sent(InlineGroup(key), view.0, seq.0);
        }
    }

    fn step(&mut self, key: Key, group: &mut Taking, step: Step<'_>) {
        let (app, key) = (&mut *self.app, InlineGroup(key));
        match step {
            Step::View(seen) => {
                let view = View::of(seen);
                group.adopt(seen.view.domains.as_ref());
                if let Some(submits) = &mut group.submits {
                    submits.view(&view);
                    submits.begin_life(seen.view.group);
                    self.kept.submits_due = true;
                }
                app.view(key, &view);
            }
            Step::ViewReplayed(seen) => {
                let view = View::replayed(Arc::clone(seen.view), seen.me);
                group.adopt(seen.view.domains.as_ref());
                group.submits.iter_mut().for_each(|submits| submits.view(&view));
                app.view(key, &view);
            }
            Step::Adequate(adequate) => app.adequate(key, adequate),
            Step::Reached { latest, .. } => {
                latest.iter().for_each(|(view, seq)| app.stable(key, view.0, seq.0));
                if let Some(submits) = &mut group.submits {
                    submits.reached();
                    submits.tell(key, app, &mut self.kept.records);
                }
            }
            Step::Over { next, not_sent, in_doubt } => {
                group.submits.iter_mut().for_each(|submits| submits.end_life(next));
                if not_sent + in_doubt > 0 {
                    app.lost(key, not_sent, in_doubt);
                }
            }
            Step::Anew(why) => app.left(key, LeaveReason::of(why)),
            Step::Waiting(members) => {
                let names: Vec<String> = members.iter().map(|(_, name)| name.clone()).collect();
                app.waiting(key, &names);
            }
            Step::Forgotten => app.forgotten(key),
            Step::Kept => {
                group.incoming = None;
                app.kept(key);
            }
            Step::Taking { bytes, domains } => {
                group.adopt(domains);
                group.submits.iter_mut().for_each(|submits| submits.begin_state(domains));
                group.incoming = Some(Incoming::default());
                app.taking(key, bytes);
            }
            Step::OwnState => {
                group.incoming = None;
                group.submits.iter_mut().for_each(|submits| submits.begin_anew());
                app.founded_anew(key);
            }
            Step::Current => app.current(key),
            Step::Senseless => group.incoming = None,
            // The program is told of an exclusion once, for all groups. Nothing is queued.
            Step::Excluded { .. } | Step::Ending { .. } | Step::Unsent { .. } => {}
        }
    }

    fn asked(
        &mut self,
        key: Key,
        _group: &mut Taking,
        asked: &life::Asked<'_>,
        value: &mut Vec<u8>,
    ) -> Option<life::Reply> {
        let life::AskId { asker, number: (view, seq), place } = asked.id;
        let message = asked.delivery.map_or_else(
            || MessageRef {
                group: InlineGroup(key),
                view: view.0,
                sender: MemberId::of(asker),
                seq: seq.0,
                order: Order::Fifo,
                uniform: false,
                position: None,
                replayed: false,
                payload: asked.payload,
                domain: None,
            },
            |delivery| message_of(key, delivery),
        );
        let asked = AskedRef {
            ask: InlineAsk(key, asked.id),
            message,
            rank: place.index(),
            is_forwarded: asked.delivery.is_none(),
            expected: asked.expected,
        };
        self.app.asked(&asked, value).map(reply_of)
    }

    fn given_up(&mut self, key: Key, _group: &mut Taking, id: life::AskId) {
        self.app.ask_given_up(InlineAsk(key, id));
    }

    fn answered(&mut self, group: &mut Taking, receipt: &Waiter, answer: &life::Answer<'_>) -> bool {
        let Waiter::Ask(number) = receipt else { return false };
        let answer = AnswerRef {
            view: answer.ask.0.0,
            rank: answer.place.index(),
            member: MemberId::of(answer.of),
            by: MemberId::of(answer.by),
            reply: match answer.filled {
                life::Filled::Value(value) => ReplyRef::Value(value),
                life::Filled::Null => ReplyRef::Null,
                life::Filled::Abort(reason) => {
                    group.reasons.push((*number, Bytes::copy_from_slice(reason)));
                    ReplyRef::Abort(reason)
                }
                life::Filled::Left => ReplyRef::Left,
            },
        };
        self.app.answered(group.group, *number, &answer)
    }

    fn ask_ended(&mut self, group: &mut Taking, receipt: Waiter, end: life::AskEnd) {
        let Waiter::Ask(number) = receipt else { return };
        let reason = group.reasons.iter().find(|(of, _)| *of == number).map(|(_, reason)| reason.clone());
        group.reasons.retain(|(of, _)| *of != number);
        let end = AskEnd::of(end, || reason.unwrap_or_default()).ok_or(AskError::Unknown);
        self.app.ask_ended(group.group, number, end);
    }

    fn is_full(&mut self, key: Key, _group: &mut Taking) -> bool {
        !self.app.ready(InlineGroup(key))
    }

    fn answer(&mut self, group: &mut Taking, receipt: Waiter, outcome: Result<Bound, Refusal>) {
        match (receipt, outcome) {
            (Waiter::Ask(number), Err(why)) => {
                self.app.ask_ended(group.group, number, Err(AskError::Refused(SendError::of(why))));
            }
            // It is told of its answers instead.
            (Waiter::Ask(_), Ok(_)) => {}
            (Waiter::Submit(number), outcome) => {
                let submits = group.submits.iter_mut();
                submits.for_each(|submits| submits.answer(number, outcome.map(|bound| bound.number)));
                self.kept.submits_due |= outcome.is_err();
            }
        }
    }

    fn excluded(&mut self, was: Incarnation) {
        self.app.excluded(MemberId::of(was));
    }

    fn ended(&mut self, key: Key, group: Taking, end: End) {
        if let Some(mut submits) = group.submits {
            submits.end_membership();
            submits.tell(InlineGroup(key), self.app, &mut self.kept.records);
        }
        match end {
            End::Left(_) | End::Over => self.app.left(InlineGroup(key), reason(end)),
            End::Refused | End::Differs { .. } | End::Domains(_) => self.app.refused(InlineGroup(key)),
        }
    }

    fn snapshot(
        &mut self,
        key: Key,
        group: &mut Taking,
        name: &Arc<str>,
        is_sound: bool,
    ) -> Option<Box<dyn core::Snapshot>> {
        let (late, name) = (self.kept.late.clone(), Arc::clone(name));
        let notice = Box::new(move |text: String| late.tell(CellEvent::Notice(format!("group {name}: {text}"))));
        if !is_sound {
            return Some(Box::new(Outgoing::failed(notice)));
        }
        let snapshot = self.app.snapshot(InlineGroup(key))?;
        let mut outgoing = Outgoing::new(notice);
        // The state itself is the domain without a name.
        outgoing.add("", false, snapshot);
        group.submits.iter().for_each(|submits| submits.add_to(&mut outgoing));
        Some(Box::new(outgoing))
    }

    fn restore(&mut self, key: Key, group: &mut Taking, chunk: &[u8]) -> Result<(), String> {
        let Taking { incoming: Some(incoming), part, submits, .. } = group else { return Ok(()) };
        let mut taker = Taken { app: self.app, key: InlineGroup(key), part, submits: submits.as_deref_mut() };
        incoming.take(chunk, &mut taker).map_err(|error| error.to_string())
    }

    fn complete(&mut self, _key: Key, group: &mut Taking) -> Result<(), String> {
        match group.incoming.take() {
            Some(incoming) if !incoming.is_complete() => Err("a part of it is missing".to_owned()),
            _ => group.submits.as_mut().map_or(Ok(()), |submits| submits.complete()).map_err(|error| error.to_string()),
        }
    }

    fn keeps_state(&mut self, key: Key, group: &mut Taking) -> bool {
        let keeps = self.app.keeps_state(InlineGroup(key));
        // The table is part of the state.
        group.submits.iter_mut().filter(|_| !keeps).for_each(|submits| submits.begin_anew());
        keeps
    }

    fn digest(&mut self, key: Key, _group: &mut Taking) -> Option<u64> {
        self.app.digest(InlineGroup(key))
    }

    fn notice(&mut self, text: String) {
        let event = CellEvent::Notice(text);
        self.app.event(&event);
        self.kept.notices.push(event);
    }
}

impl<A: App> Handler for Adapter<'_, A> {
    fn begin(&mut self, me: &MemberInfo) {
        self.lives.begin(me.incarnation, &mut self.front);
    }

    fn ready(&mut self, inbox: InboxId) -> bool {
        // Nothing of the process itself waits for the program.
        let key = slot_of(inbox).and_then(|slot| self.lives.key_in(slot));
        key.is_none_or(|key| self.front.app.ready(InlineGroup(key)))
    }

    fn sent(
        &mut self,
        group: GroupId,
        view: ViewNumber,
        seq: Sequence,
        _order: core::Order,
        _uniformity: Uniformity,
        _payload: &[u8],
    ) {
        self.lives.sent(group, view, seq, &mut self.front);
    }

    fn stable(&mut self, group: GroupId, view: ViewNumber, seq: Sequence) {
        self.lives.stable(group, view, seq);
    }

    #[inline]
    fn deliver(&mut self, delivery: &Delivery<'_>) {
        self.lives.deliver(delivery, &mut self.front);
    }

    #[inline]
    fn to_one(&mut self, message: &core::MessageToOne<'_>) {
        self.lives.to_one().deliver(message, &mut self.front);
    }

    fn settled(&mut self, group: GroupId, to: Incarnation, outcome: ToOneOutcome, messages: u64) {
        self.lives.to_one().settled(group, to, outcome, messages, &mut self.front);
    }

    fn event(&mut self, event: Event) {
        if let Some(told) = CellEvent::of(&event, self.lives.me()) {
            self.front.app.event(&told);
            if told.is_notice() {
                self.front.kept.notices.push(told);
            }
        }
        if let Event::GroupAdequacy { group, view, adequate } = &event
            && let Some(group) = self.lives.name_of(*group)
        {
            self.front.app.event(&CellEvent::GroupAdequate { group, view: view.0, adequate: *adequate });
        }
        match event {
            Event::EndInDoubt { .. } => self.front.kept.in_doubt = true,
            Event::InDoubt { to, messages } => self.front.app.unicasts_in_doubt(MemberId::of(to), messages),
            _ => {}
        }
        self.lives.event(event, &mut self.front);
    }

    fn message(&mut self, from: Incarnation, payload: &[u8]) {
        self.front.app.unicast(MemberId::of(from), payload);
    }

    fn snapshot(&mut self, group: GroupId) -> Option<Box<dyn core::Snapshot>> {
        self.lives.snapshot(group, &mut self.front)
    }

    fn restore(&mut self, group: GroupId, chunk: &[u8]) {
        self.lives.restore(group, chunk, &mut self.front);
    }

    fn keeps_state(&mut self, group: GroupId) -> bool {
        self.lives.keeps_state(group, &mut self.front)
    }

    fn digest(&mut self, group: GroupId) -> Option<u64> {
        self.lives.digest(group, &mut self.front)
    }

    fn told(&mut self) -> Vec<trace::Event> {
        take_records(self.lives, self.front.kept)
    }
}

/// A part of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// What the program keeps.
    Program,
    /// The table of clients.
    Clients,
    /// A domain that this process does not know, and passes over.
    Other,
}

/// The program and the library, as the takers of a group's state.
struct Taken<'a, A> {
    app: &'a mut A,
    key: InlineGroup,
    part: &'a mut Part,
    submits: Option<&'a mut Submits>,
}

impl<A: App> Taker for Taken<'_, A> {
    fn begin(&mut self, name: &str, flags: Flags) -> Result<(), DecodeError> {
        let is_table = self.submits.as_mut().map_or(Ok(false), |submits| submits.begin_domain(name))?;
        *self.part = match name {
            "" => Part::Program,
            _ if is_table => Part::Clients,
            _ if flags.is_optional => Part::Other,
            _ => return Err(DecodeError::new(format!("it has {}, which this process does not know", shown(name)))),
        };
        Ok(())
    }

    fn bytes(&mut self, bytes: &[u8], is_end: bool) -> Result<(), DecodeError> {
        match self.part {
            Part::Program => return self.app.restore(self.key, bytes, is_end),
            Part::Clients => self.submits.iter_mut().for_each(|submits| submits.bytes(bytes)),
            Part::Other => {}
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), DecodeError> {
        let submits = self.submits.as_mut().filter(|_| *self.part == Part::Clients);
        submits.map_or(Ok(()), |submits| submits.end_domain())
    }
}

#[inline]
fn message_of<'a>(key: Key, delivery: &Delivery<'a>) -> MessageRef<'a> {
    MessageRef {
        group: InlineGroup(key),
        view: delivery.view.0,
        sender: MemberId::of(delivery.sender),
        seq: delivery.seq.0,
        order: Order::of(delivery.order),
        uniform: delivery.uniformity.is_uniform(),
        position: delivery.position,
        replayed: delivery.replayed,
        payload: delivery.payload,
        domain: delivery.domain,
    }
}

/// As the asker reads it. A rank that no member has is one to which nothing is forwarded.
pub(super) fn reply_of(reply: InlineReply) -> life::Reply {
    match reply {
        InlineReply::Value => life::Reply::Value,
        InlineReply::Null => life::Reply::Null,
        InlineReply::Abort => life::Reply::Abort,
        InlineReply::Forward(rank) => {
            u16::try_from(rank).map_or(life::Reply::Null, |rank| life::Reply::Forward(core::Rank(rank)))
        }
    }
}

/// The core's name for the inbox of a group.
pub(super) fn inbox_of(group: InlineGroup) -> InboxId {
    InboxId(group.0.slot + 1)
}

fn slot_of(inbox: InboxId) -> Option<u32> {
    inbox.0.checked_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::Snapshot;

    #[derive(Default)]
    struct Told {
        stable: Vec<(u64, u64)>,
        lost: Vec<(u64, u64)>,
        steps: Vec<String>,
        is_full: bool,
    }

    impl App for Told {
        fn view(&mut self, _group: InlineGroup, view: &View) {
            self.steps.push(format!("view {}", view.number()));
        }

        fn message(&mut self, message: &MessageRef<'_>) {
            self.steps.push(format!("message {}", message.seq));
        }

        fn ready(&mut self, _group: InlineGroup) -> bool {
            !self.is_full
        }

        fn taking(&mut self, _group: InlineGroup, bytes: u64) {
            self.steps.push(format!("taking {bytes}"));
        }

        fn restore(&mut self, _group: InlineGroup, part: &[u8], is_end: bool) -> Result<(), DecodeError> {
            self.steps.push(format!("{} bytes{}", part.len(), if is_end { ", the end" } else { "" }));
            Ok(())
        }

        fn current(&mut self, _group: InlineGroup) {
            self.steps.push("current".to_owned());
        }

        fn snapshot(&mut self, _group: InlineGroup) -> Option<Snapshot> {
            Some(Snapshot::new("state"))
        }

        fn left(&mut self, _group: InlineGroup, reason: LeaveReason) {
            self.steps.push(format!("left {reason:?}"));
        }

        fn excluded(&mut self, _was: MemberId) {
            self.steps.push("excluded".to_owned());
        }

        fn stable(&mut self, _group: InlineGroup, view: u64, seq: u64) {
            self.stable.push((view, seq));
        }

        fn lost(&mut self, _group: InlineGroup, not_sent: u64, in_doubt: u64) {
            self.lost.push((not_sent, in_doubt));
        }
    }

    fn me(incarnation: u64) -> MemberInfo {
        let config = phalanx_runtime::config::Config::default();
        let directory = tempfile::tempdir().expect("a directory");
        let (runtime_dir, state_dir) = (Some(directory.path().join("run")), Some(directory.path().join("state")));
        let config = phalanx_runtime::config::Config { runtime_dir, state_dir, ..config };
        let process = phalanx_runtime::Inline::start(&phalanx_runtime::Options::from(config)).expect("starts");
        MemberInfo { incarnation: Incarnation(incarnation), ..process.node().settings().me.clone() }
    }

    /// The view that has too few still waits for the program, so the core alone knows of it. An incarnation that the
    /// process gives up by itself takes that knowledge with it.
    #[test]
    fn what_was_withheld_is_in_doubt_when_the_incarnation_is_given_up() {
        let me = [me(1), me(2)];
        let mut table = Table::new(true);
        let mut app = Told::default();
        let group = table.add("g", false, false, None);
        let mut adapter = Adapter::new(&mut table, &mut app);
        adapter.begin(&me[0]);
        adapter.event(Event::GroupView(Arc::new(crate::view::of_nobody(7))));
        for seq in 1..=2 {
            assert_eq!(adapter.lives.number_in_view(group.0), Some(Some(GroupId(1))));
            adapter.accepted(group, Some(core::Sent { view: ViewNumber(7), seq: Sequence(seq) }));
        }
        adapter.stable(GroupId(1), ViewNumber(7), Sequence(1));
        adapter.tell_outcomes(|_| Some(true));
        adapter.stable(GroupId(1), ViewNumber(7), Sequence(2));
        adapter.tell_outcomes(|_| Some(false));
        assert_eq!(adapter.front.app.stable, [(7, 1)], "the core knows of too few");
        adapter.begin(&me[1]);
        assert_eq!((&adapter.front.app.stable[..], &adapter.front.app.lost[..]), (&[(7, 1)][..], &[(0, 1)][..]));
    }

    const GROUP: GroupId = GroupId(1);

    fn view(number: u64) -> Event {
        Event::GroupView(Arc::new(crate::view::of_nobody(number)))
    }

    fn begins(bytes: usize) -> Event {
        Event::StateBegin { group: GROUP, name: "g".into(), bytes: bytes as u64, view: None, domains: None }
    }

    /// The state that this process gives away.
    fn given(adapter: &mut Adapter<'_, Told>) -> Vec<u8> {
        let mut snapshot = adapter.snapshot(GROUP).expect("it gives one");
        let mut bytes = Vec::new();
        while (bytes.len() as u64) < snapshot.len_bytes() {
            let before = bytes.len();
            snapshot.read(before as u64, 1 << 10, &mut bytes);
            if bytes.len() == before {
                break;
            }
        }
        bytes
    }

    /// A program restores where its state is, so it must be told whether that is whole.
    #[test]
    fn a_state_that_is_not_whole_is_left_and_given_to_nobody() {
        let mut table = Table::new(true);
        let mut app = Told::default();
        let group = table.add("g", true, false, None);
        let mut adapter = Adapter::new(&mut table, &mut app);
        adapter.begin(&me(1));
        adapter.event(view(1));
        let whole = given(&mut adapter);
        assert!(whole.windows(5).any(|part| part == b"state"), "{whole:?}");
        adapter.event(begins(whole.len()));
        adapter.restore(GROUP, &whole);
        adapter.event(Event::StateEnd { group: GROUP });
        adapter.event(view(2));
        let told = ["view 1", &format!("taking {}", whole.len()), "5 bytes, the end", "current", "view 2"];
        assert_eq!(std::mem::take(&mut adapter.front.app.steps), told);
        assert_eq!(adapter.lives.to_leave(), None);

        adapter.event(begins(whole.len()));
        adapter.restore(GROUP, &whole[..whole.len() - 1]);
        adapter.event(Event::StateEnd { group: GROUP });
        adapter.event(view(3));
        assert!(!adapter.front.app.steps.contains(&"current".to_owned()), "{:?}", adapter.front.app.steps);
        assert_eq!(adapter.lives.to_leave(), Some((group.0, GROUP)));
        assert!(given(&mut adapter).is_empty(), "who asks for it is sent elsewhere");
        assert!(table.take_notices().iter().any(|notice| notice.contains("a part of it is missing")));
    }

    /// By default a program that founds a group anew is told of an empty state, which drops what came of another one.
    #[test]
    fn what_is_told_of_a_group_that_is_founded_anew_of_exclusions_and_of_the_end() {
        let mut table = Table::new(true);
        let mut app = Told::default();
        let group = table.add("g", true, false, None);
        let mut adapter = Adapter::new(&mut table, &mut app);
        adapter.begin(&me(1));
        adapter.event(view(7));
        let whole = given(&mut adapter);
        adapter.event(begins(whole.len()));
        adapter.event(Event::StateAnew { group: GROUP, name: "g".into() });
        // It is none of that state's parts any more.
        adapter.restore(GROUP, &whole);
        adapter.event(view(1));
        let told = ["view 7", &format!("taking {}", whole.len()), "taking 0", "current", "view 1"];
        assert_eq!(std::mem::take(&mut adapter.front.app.steps), told);
        assert!(adapter.ready(inbox_of(group)) && adapter.ready(InboxId::MAIN));
        adapter.front.app.is_full = true;
        assert!(!adapter.ready(inbox_of(group)) && adapter.ready(InboxId::MAIN));
        adapter.event(Event::Excluded { view: ViewNumber(4) });
        adapter.begin(&me(2));
        adapter.end();
        assert_eq!(adapter.front.app.steps, ["excluded", "left Over"], "it would have come back");
        assert!(table.take_notices().iter().any(|notice| notice.starts_with("group g is founded anew")));
    }
}
