//! The handler on the protocol thread: turns what the core reports into items, receipts and states.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use phalanx_core::member::Directory;
use phalanx_core::{
    Decree, Delivery, Event, GroupId, InboxId, Incarnation, MemberInfo, Order, Sent, Sequence, Snapshot, ToOneOutcome,
    Uniformity, ViewNumber,
};
use phalanx_life as life;
use phalanx_life::{Bound, End, Front, Key, Lives, NextMessage, NextToOne, Publication, Publishes, Refusal, Step};
use phalanx_runtime::{Handler, clock, traced};
use phalanx_trace as trace;

use super::entry::{Entry, Feed, MergedOutlet};
use super::rounds::Rounds;
use crate::answer::{Answer, AskEnd};
use crate::asked::Asked;
use crate::cell_view::CellView;
use crate::end;
use crate::error::SendError;
use crate::events::CellEvent;
use crate::id::{LeaveReason, Member, MemberId};
use crate::message::{Message, MessageToOne};
use crate::next::Next;
use crate::sent;
use crate::sent_to;
use crate::shared::asks::{Answerer, AskNote};
use crate::shared::cell::CellShared;
use crate::shared::commands::{Command, Destination, Keeps, Queued, Waiter};
use crate::shared::group::{GroupShared, Phase};
use crate::shared::queue::Outlet;
use crate::view::View;
use crate::watch::CellChange;

pub(super) struct AppHandler {
    pub(super) lives: Lives<Entry, Waiter>,
    pub(super) front: ThreadFront,
    rounds: Rounds,
    /// When asks are to be looked at again.
    asks_due: Option<phalanx_core::Instant>,
    /// This process, in an incarnation that goes on.
    me: Option<MemberInfo>,
    rejoin: bool,
    /// What is to be recorded since the last call, in its order. `None`: the process writes no trace.
    records: Option<Vec<trace::Event>>,
}

/// What the groups share, and hands over what happens in them.
pub(super) struct ThreadFront {
    shared: Arc<CellShared>,
    copier: Copier,
    publication: Publication<Entry>,
    /// Memberships to whose state the program may submit.
    submitting: Vec<Key>,
    /// What is to be recorded of submits to memberships that are over.
    over_records: Vec<trace::Event>,
    /// Inboxes that groups share, by number. One whose reader is gone, and of which no group is left, is dropped.
    merged: Vec<Option<MergedOutlet>>,
    /// A notice said that a message to this process alone was dropped.
    is_drop_told: bool,
}

impl AppHandler {
    /// `rejoin`: the process comes back after an exclusion.
    pub(super) fn new(shared: Arc<CellShared>, rejoin: bool) -> Self {
        let front = ThreadFront {
            shared,
            copier: Copier::default(),
            publication: Publication::default(),
            submitting: Vec::new(),
            over_records: Vec::new(),
            merged: Vec::new(),
            is_drop_told: false,
        };
        Self {
            lives: Lives::new(rejoin),
            front,
            rounds: Rounds::default(),
            asks_due: None,
            me: None,
            rejoin,
            records: None,
        }
    }

    /// Records from here on what the program is told, for [`Self::take_records`].
    pub(super) fn record(&mut self) {
        self.lives.record(traced::reason);
        self.records = Some(Vec::new());
    }

    /// What is to be recorded since the last call; empty if nothing is.
    pub(super) fn take_records(&mut self) -> Vec<trace::Event> {
        self.gather_records();
        self.records.as_mut().map_or_else(Vec::new, std::mem::take)
    }

    /// Puts what is to be recorded into its order: an outcome of a submit stands behind the end that is its reason. Called
    /// before an end, too, because what was sent stands before it.
    fn gather_records(&mut self) {
        let Self { lives, front, records: Some(records), .. } = self else { return };
        records.append(&mut lives.take_records());
        records.append(&mut front.over_records);
        for key in &front.submitting {
            let submits = lives.own(*key).into_iter().flat_map(|entry| &entry.submits);
            submits.for_each(|to| to.submits.move_records(records));
        }
    }

    /// Adds a group that is about to be joined. Returns the core's name for its inbox.
    pub(super) fn add(
        &mut self,
        shared: Arc<GroupShared>,
        inbox: Destination,
        with_state: bool,
        observes: bool,
        keeps: Keeps,
    ) -> InboxId {
        let key = self.lives.next_key();
        let (feed, inbox) = match inbox {
            Destination::Own(queue) => (Feed::Own(Outlet::new(queue)), inbox_of(key)),
            Destination::Merged(queue) => {
                let merged = &mut self.front.merged;
                let known = |outlet: &Option<MergedOutlet>| outlet.as_ref().is_some_and(|o| o.borrow().is_of(&queue));
                let number = merged.iter().position(known).unwrap_or(merged.len());
                if number == merged.len() {
                    merged.push(Some(Rc::new(RefCell::new(Outlet::new(queue)))));
                }
                let outlet = merged[number].clone().expect("it was found, or added");
                (Feed::Merged(outlet), merged_inbox(number))
            }
        };
        let name = Arc::clone(&shared.name);
        let first = shared.key.set(key).is_ok();
        debug_assert!(first, "a group is joined once");
        let (protocol, is_recorded) = (&self.front.shared.protocol, self.records.is_some());
        keeps.submits.iter().for_each(|to| to.submits.attach(protocol.clone(), is_recorded));
        if !keeps.submits.is_empty() {
            self.front.submitting.push(key);
        }
        self.lives.add(name, with_state, observes, Entry::new(shared, feed, keeps));
        inbox
    }

    /// Carries out something that was asked for in a group, or refuses it.
    pub(super) fn queue(&mut self, group: &GroupShared, asked: Queued) {
        if let Queued::Ask(_) = &asked {
            self.asks_due = Some(phalanx_core::Instant::default());
        }
        let refused = match group.key.get() {
            Some(key) => self.lives.queue(*key, asked).err(),
            None => Some(asked),
        };
        refused.into_iter().for_each(|asked| refuse(&self.front.shared, group, asked, SendError::NotSent));
    }

    /// Refuses a command that came too late.
    pub(super) fn refuse(&self, command: Command) {
        match command {
            Command::Queue { group, asked } => refuse(&self.front.shared, &group, asked, SendError::NotSent),
            Command::Join { group, inbox, .. } => {
                group.change(|status| status.phase = Phase::Left(LeaveReason::Over));
                self.front.shared.free_name(&group);
                inbox.end();
            }
            Command::RaiseLevel { .. } | Command::GiveUpGroup { .. } | Command::Reform(_) | Command::FoundAnew => {}
        }
    }

    /// The next message of a group that may be sent now.
    pub(super) fn due(&mut self, key: Key) -> Option<NextMessage> {
        self.lives.due(key, &mut self.front)
    }

    /// The core accepted the message that was due.
    pub(super) fn accepted(&mut self, key: Key, sent: Option<Sent>) {
        self.lives.accepted(key, sent, &mut self.front);
    }

    /// The message to one member that may be sent now.
    pub(super) fn due_to_one(&mut self, key: Key) -> Option<NextToOne> {
        self.lives.to_one().due(key, &mut self.front)
    }

    /// The core accepted the message to one that was due.
    pub(super) fn sent_to_one(&mut self, key: Key, view: ViewNumber) {
        self.lives.to_one().sent(key, view, &mut self.front);
    }

    /// The core refused the message to one that was due, for good.
    pub(super) fn refused_to_one(&mut self, key: Key, why: Refusal) {
        self.lives.to_one().refused(key, why, &mut self.front);
    }

    /// The core refused the message that was due, for good.
    pub(super) fn refused(&mut self, key: Key, why: Refusal) {
        self.lives.refused(key, why, &mut self.front);
    }

    /// Carries out what the program says of asks. Returns how much it was.
    pub(super) fn carry_ask_notes(&mut self) -> usize {
        let notes = self.front.shared.ask_notes.take();
        let count = notes.len();
        for note in notes {
            match note {
                AskNote::Answer { group, id, reply, value } => {
                    if let Some(key) = group.key.get() {
                        self.lives.asks().answer(*key, id, reply, &value);
                    }
                }
                AskNote::Cancel { group, number } => {
                    if let Some(key) = group.key.get() {
                        self.lives.asks().cancel(*key, number, &mut self.front);
                    }
                }
            }
        }
        count
    }

    /// Whether something that clients have to say waits.
    pub(super) fn has_submits(&mut self) -> bool {
        let Self { lives, front, .. } = self;
        front.submitting.iter().any(|key| lives.own(*key).is_some_and(|entry| entry.has_submits()))
    }

    /// Queues what clients have to say to the tables of their groups. Returns how much it was.
    pub(super) fn queue_submits(&mut self) -> usize {
        let mut count = 0;
        for at in 0..self.front.submitting.len() {
            let key = self.front.submitting[at];
            for queued in self.lives.own(key).map(Entry::take_submits).into_iter().flatten() {
                let taken = self.lives.queue(key, queued);
                debug_assert!(taken.is_ok(), "the membership goes on");
                count += 1;
            }
        }
        count
    }

    /// Ends asks that are late. Returns whether some did.
    pub(super) fn expire_asks(&mut self) -> bool {
        let now = clock::now();
        if self.asks_due.is_none_or(|due| due > now) {
            return false;
        }
        self.asks_due = self.lives.asks().expire(now, &mut self.front);
        true
    }

    /// Notes which groups are to be left.
    pub(super) fn note_leaves(&mut self) {
        let leaving: Vec<Key> =
            self.lives.owns().filter(|(_, entry)| entry.shared.is_leaving()).map(|(key, _)| key).collect();
        for key in leaving {
            let noted = self.lives.want_leave(key);
            debug_assert!(noted.is_ok(), "the membership goes on");
        }
    }

    /// Publishes what changed. `is_adequate`: whether cell and group have as many members as agreed, as far as the core
    /// knows.
    pub(super) fn publish(&mut self, is_adequate: impl Fn(GroupId) -> Option<bool>) {
        let has_over = self.front.publication.has_over();
        self.lives.publish(is_adequate, &mut self.front);
        if has_over {
            self.front.drop_merged();
        }
    }

    /// Tells the watches what the inboxes have. `directory`: of the cell, if this process is in a view.
    pub(super) fn tell_watches<'a>(&mut self, directory: impl FnOnce() -> Option<&'a Directory>) {
        let Self { lives, front, rounds, .. } = self;
        let watches = &front.shared.watches;
        if !rounds.is_empty() {
            rounds.tell(clock::now(), watches, |group, view| {
                let key = lives.key_of(group);
                key.and_then(|key| lives.own(key)).is_none_or(|entry| entry.has_shown(view))
            });
        }
        if watches.has_new_groups()
            && rounds.is_empty()
            && let Some(directory) = directory()
        {
            watches.begin_groups(directory);
        }
    }

    /// How long watches wait for inboxes, and asks for their deadlines, at most.
    pub(super) fn patience(&self) -> Option<Duration> {
        if self.rounds.is_empty() && self.asks_due.is_none() {
            return None;
        }
        let now = clock::now();
        let rounds = if self.rounds.is_empty() { None } else { self.rounds.patience(now) };
        rounds.into_iter().chain(self.asks_due.map(|due| due.since(now))).min()
    }

    /// This incarnation is over.
    fn end_incarnation(&mut self, why: Option<LeaveReason>, comes_back: bool) {
        if let Some(me) = self.me.take() {
            self.rounds.end(clock::now(), Member::of(&me), why, comes_back);
        }
    }

    /// The thread ends.
    pub(super) fn end(&mut self) {
        self.gather_records();
        self.lives.end(&mut self.front);
        self.front.publication.end();
        self.rounds.tell_all(&self.front.shared.watches);
    }
}

/// After a panic in a state, all that waits for a group ends, and nothing of the application is called any more.
impl Drop for AppHandler {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.lives.owns().for_each(|(_, entry)| entry.give_up_replica());
            self.front.publication.over().for_each(Entry::give_up_replica);
            self.end();
        }
    }
}

impl ThreadFront {
    /// Drops shared inboxes whose reader is gone, and of which no group is left.
    fn drop_merged(&mut self) {
        for merged in &mut self.merged {
            merged.take_if(|outlet| Rc::strong_count(outlet) == 1 && outlet.borrow().is_discarding());
        }
    }
}

impl Publishes for ThreadFront {
    fn publication(&mut self) -> &mut Publication<Entry> {
        &mut self.publication
    }
}

impl Front for ThreadFront {
    type Group = Entry;
    type Receipt = Waiter;

    const COUNTS_DELIVERED: bool = true;

    fn deliver(&mut self, key: Key, entry: &mut Entry, delivery: &Delivery<'_>) {
        let message = Message::of(delivery, self.copier.copy(delivery.payload));
        self.publication.touch(key, entry);
        entry.set_group(delivery.group);
        entry.deliver(message);
    }

    fn to_one(&mut self, key: Key, entry: &mut Entry, message: &phalanx_core::MessageToOne<'_>) {
        let payload = self.copier.copy(message.payload);
        self.publication.touch(key, entry);
        entry.deliver_to_one(MessageToOne::new(message.view.0, MemberId::of(message.sender), payload));
    }

    fn asked(&mut self, key: Key, entry: &mut Entry, asked: &life::Asked<'_>, _: &mut Vec<u8>) -> Option<life::Reply> {
        let payload = self.copier.copy(asked.payload);
        self.publication.touch(key, entry);
        let life::AskId { asker, number: (view, seq), place } = asked.id;
        // Of one that was forwarded the view may be over, and its ranks are those of nobody here.
        let shown = entry.view.as_ref().filter(|shown| shown.number() == view.0);
        let members: Vec<MemberId> = shown.map_or_else(Vec::new, |shown| shown.members().map(|of| of.id).collect());
        let member = |rank: usize| Some((u16::try_from(rank).ok()?, *members.get(rank)?));
        let expected: Vec<_> = asked.expected.ranks().filter_map(member).collect();
        let of =
            expected.iter().find(|(rank, _)| *rank == place.0).map_or(MemberId::of(Incarnation::NONE), |(_, id)| *id);
        let message = match asked.delivery {
            Some(delivery) => Message::of(delivery, payload),
            None => Message::forwarded(view.0, MemberId::of(asker), seq.0, payload),
        };
        let answerer = Arc::new(Answerer::new(&self.shared.ask_notes, Arc::clone(&entry.shared), asked.id, expected));
        let is_forwarded = asked.delivery.is_none();
        entry.deliver_ask(Asked::new(message, of, is_forwarded, Arc::clone(&answerer)), &answerer);
        None
    }

    fn given_up(&mut self, _key: Key, entry: &mut Entry, id: life::AskId) {
        entry.give_up_ask(id);
    }

    fn answered(&mut self, _entry: &mut Entry, receipt: &Waiter, answer: &life::Answer<'_>) -> bool {
        if let Waiter::Ask(receipt) = receipt { receipt.push(Answer::of(answer)) } else { false }
    }

    fn ask_ended(&mut self, _entry: &mut Entry, receipt: Waiter, end: life::AskEnd) {
        if let Waiter::Ask(receipt) = receipt {
            receipt.end(Ok(AskEnd::of(end, || receipt.reason())));
        }
    }

    fn is_full(&mut self, _key: Key, entry: &mut Entry) -> bool {
        !entry.is_ready()
    }

    fn sent_to_one(&mut self, _entry: &mut Entry, receipt: &Waiter, view: ViewNumber) {
        if let Waiter::ToOne(receipt) = receipt {
            receipt.end(Ok(view.0));
        }
    }

    fn settled(&mut self, key: Key, entry: &mut Entry, _to: Incarnation, outcome: ToOneOutcome, messages: u64) {
        let (not_delivered, in_doubt) = match outcome {
            ToOneOutcome::Delivered => return,
            ToOneOutcome::NotDelivered => (messages, 0),
            ToOneOutcome::InDoubt => (0, messages),
        };
        self.publication.touch(key, entry);
        entry.lose(not_delivered, in_doubt);
    }

    fn settled_one(&mut self, _entry: &mut Entry, receipt: Waiter, outcome: ToOneOutcome) {
        if let Waiter::ToOne(receipt) = receipt {
            receipt.settle(sent_to::outcome(outcome));
        }
    }

    fn step(&mut self, key: Key, entry: &mut Entry, step: Step<'_>) {
        if let Step::Reached { stable, delivered, .. } = step {
            return entry.reached(stable, delivered);
        }
        self.publication.touch(key, entry);
        match step {
            Step::View(seen) => {
                entry.set_group(seen.view.group);
                let view = View::of(seen);
                entry.apply();
                if let Some(replica) = &mut entry.replica {
                    replica.view(&view);
                    replica.set_current(true);
                }
                entry.view = Some(view.clone());
                entry.stage(Next::View(view));
                entry.set_phase(Phase::Member);
                entry.submits.iter().for_each(|to| to.submits.begin_life());
            }
            Step::ViewReplayed(seen) => {
                entry.apply();
                if let Some(replica) = &mut entry.replica {
                    replica.view_replayed(&View::replayed(Arc::clone(seen.view), seen.me));
                }
            }
            Step::Adequate(adequate) => {
                entry.view = entry.view.as_ref().map(|view| view.with_adequate(adequate));
                entry.stage(Next::Adequate(adequate));
                entry.set_phase(Phase::Member);
            }
            Step::Ending { is_final } => {
                entry.apply();
                if is_final {
                    entry.shared.close();
                    // Before anybody learns of the end: who does may join a group of this name at once.
                    self.shared.free_name(&entry.shared);
                }
            }
            Step::Over { next, not_sent, in_doubt } => {
                // Who waited for room finds it, or learns that nothing is accepted any more.
                self.shared.commands.room.wake();
                entry.end_life(next, not_sent, in_doubt);
            }
            Step::Unsent { messages } => entry.lose(messages, 0),
            Step::Excluded { was } => {
                entry.stage(Next::Excluded { was: MemberId::of(was) });
                entry.set_phase(Phase::Member);
            }
            Step::Anew(why) => {
                entry.stage(Next::Left(LeaveReason::of(why)));
                entry.set_phase(Phase::Member);
            }
            Step::Waiting(members) => {
                let for_members = members.iter().map(|(_, name)| name.clone()).collect();
                entry.stage(Next::Waiting { for_members });
            }
            Step::Forgotten => entry.stage(Next::Forgotten),
            Step::Kept => {
                entry.replica.iter_mut().for_each(|replica| replica.keep());
                entry.stage(Next::Kept);
            }
            Step::Taking { bytes, domains } => {
                entry.apply();
                entry.replica.iter_mut().for_each(|replica| replica.begin(bytes, domains));
                entry.stage(Next::Taking { bytes });
            }
            Step::OwnState => {
                entry.apply();
                entry.replica.iter_mut().for_each(|replica| replica.keep());
                entry.stage(Next::FoundedAnew);
            }
            Step::Current => entry.stage(Next::Current),
            // No message is accepted any more.
            Step::Senseless => {
                entry.shared.close();
            }
            Step::Reached { .. } => {}
        }
    }

    fn answer(&mut self, entry: &mut Entry, receipt: Waiter, outcome: Result<Bound, Refusal>) {
        match (receipt, outcome) {
            (Waiter::Multicast(receipt), Ok(Bound { view, seq, number })) => {
                receipt.end(Ok(sent::Sent::new(view.0, seq.0, number, Arc::clone(&entry.life))));
            }
            (Waiter::ToOne(receipt), Ok(Bound { view, .. })) => receipt.end(Ok(view.0)),
            // It is told of its answers instead.
            (Waiter::Ask(_), Ok(_)) => {}
            (Waiter::Submit(of), Ok(bound)) => of.submits.bound(of.client, of.number, bound.number),
            (Waiter::Submit(of), Err(why)) => of.submits.refused(of.client, of.number, why),
            (receipt, Err(why)) => receipt.refuse(SendError::of(why)),
        }
    }

    fn release(&mut self, entry: &mut Entry, bytes: usize) {
        self.shared.release(&entry.shared, None, bytes);
    }

    fn release_to_one(&mut self, entry: &mut Entry, to: Incarnation, bytes: usize) {
        self.shared.release(&entry.shared, Some(to), bytes);
    }

    fn ended(&mut self, key: Key, mut entry: Entry, end: End) {
        entry.submits.iter().for_each(|to| to.submits.end_membership(&mut self.over_records));
        self.submitting.retain(|other| *other != key);
        entry.end(match end {
            End::Left(why) => Phase::Left(LeaveReason::of(why)),
            End::Over => Phase::Left(LeaveReason::Over),
            End::Refused => Phase::Refused,
            End::Differs { has_state } => Phase::Differs { has_state },
            End::Domains(mismatch) => Phase::Domains(mismatch),
        });
        self.publication.ended(entry);
    }

    fn snapshot(
        &mut self,
        _key: Key,
        entry: &mut Entry,
        name: &Arc<str>,
        _is_sound: bool,
    ) -> Option<Box<dyn Snapshot>> {
        entry.apply();
        let (cell, name) = (Arc::clone(&self.shared), Arc::clone(name));
        let notice = move |why| cell.notice(format!("group {name}: {why}"));
        entry.replica.as_mut().map(|replica| replica.snapshot(Box::new(notice)))
    }

    fn restore(&mut self, _key: Key, entry: &mut Entry, chunk: &[u8]) -> Result<(), String> {
        let restored = entry.replica.as_mut().map_or(Ok(()), |replica| replica.restore(chunk));
        restored.map_err(|error| error.to_string())
    }

    fn complete(&mut self, _key: Key, entry: &mut Entry) -> Result<(), String> {
        entry.apply();
        let completed = entry.replica.as_mut().map_or(Ok(()), |replica| replica.complete());
        completed.map_err(|error| error.to_string())
    }

    fn notice(&mut self, text: String) {
        self.shared.notice(text);
    }
}

impl Handler for AppHandler {
    fn begin(&mut self, me: &MemberInfo) {
        // Without an event, if the process gave the incarnation before up by itself.
        self.end_incarnation(None, true);
        self.gather_records();
        self.me = Some(me.clone());
        self.lives.begin(me.incarnation, &mut self.front);
        let mut facts = self.front.shared.facts();
        (facts.me, facts.view) = (me.clone(), None);
    }

    fn installed(&mut self, directory: &Directory, decree: &Decree<'_>) {
        let Self { lives, front, rounds, .. } = self;
        let groups = front.shared.watches.installed(directory, decree);
        let me = lives.me();
        rounds.installed(clock::now(), me, directory, decree, groups, |group| {
            let key = lives.key_of(group);
            key.and_then(|key| lives.own(key)).is_some_and(|entry| entry.is_in_view())
        });
    }

    fn ready(&mut self, inbox: InboxId) -> bool {
        // Nothing of the process itself waits for the application.
        if let Some(number) = merged_number(inbox) {
            let outlet = self.front.merged.get(number).and_then(Option::as_ref);
            return outlet.is_none_or(|outlet| outlet.borrow_mut().is_ready());
        }
        let key = slot_of(inbox).and_then(|slot| self.lives.key_in(slot));
        key.and_then(|key| self.lives.own(key)).is_none_or(Entry::is_ready)
    }

    fn sent(
        &mut self,
        group: GroupId,
        view: ViewNumber,
        seq: Sequence,
        _order: Order,
        _uniformity: Uniformity,
        _payload: &[u8],
    ) {
        self.lives.sent(group, view, seq, &mut self.front);
    }

    fn stable(&mut self, group: GroupId, view: ViewNumber, seq: Sequence) {
        self.lives.stable(group, view, seq);
    }

    fn deliver(&mut self, delivery: &Delivery<'_>) {
        self.lives.deliver(delivery, &mut self.front);
    }

    fn to_one(&mut self, message: &phalanx_core::MessageToOne<'_>) {
        self.lives.to_one().deliver(message, &mut self.front);
    }

    fn settled(&mut self, group: GroupId, to: Incarnation, outcome: ToOneOutcome, messages: u64) {
        self.lives.to_one().settled(group, to, outcome, messages, &mut self.front);
    }

    fn event(&mut self, event: Event) {
        let shared = &self.front.shared;
        match &event {
            // First: who learns of the view finds it.
            Event::CellView(view) => shared.facts().view = Some(Arc::clone(view)),
            Event::EndInDoubt { .. } => shared.in_doubt.store(true, Ordering::SeqCst),
            Event::GroupAdequacy { group, view, adequate } => {
                if let Some(group) = self.lives.name_of(*group) {
                    shared.tell(CellEvent::GroupAdequate { group, view: view.0, adequate: *adequate });
                }
            }
            _ => {}
        }
        if let Some(told) = CellEvent::of(&event, self.lives.me()) {
            shared.tell(told);
        }
        match &event {
            Event::CellView(view) => self.rounds.view(&CellView::new(Arc::clone(view), self.lives.me())),
            Event::NonPrimary { heard, needed, .. } => {
                self.rounds.cell(clock::now(), CellChange::NonPrimary { heard: *heard, needed: *needed });
            }
            Event::Primary => self.rounds.cell(clock::now(), CellChange::Primary),
            Event::Excluded { .. } | Event::Renounced { .. } => {
                let comes_back = self.rejoin && !self.front.shared.commands.is_leaving();
                if !comes_back {
                    self.front.shared.ends_as(end::End::Excluded);
                }
                self.end_incarnation(None, comes_back);
            }
            Event::Left => {
                let in_doubt = self.front.shared.in_doubt.load(Ordering::SeqCst);
                self.front.shared.ends_as(if in_doubt { end::End::InDoubt } else { end::End::Left });
                self.end_incarnation(Some(LeaveReason::Left), false);
            }
            _ => {}
        }
        let is_end = matches!(event, Event::Excluded { .. } | Event::Renounced { .. } | Event::Left);
        self.gather_records();
        self.lives.event(event, &mut self.front);
        if is_end {
            self.front.shared.facts().view = None;
        }
    }

    /// Nobody could take it. Its sender cannot know that, so the operator is told; once, because more may follow.
    fn message(&mut self, from: Incarnation, _payload: &[u8]) {
        if !std::mem::replace(&mut self.front.is_drop_told, true) {
            self.front.notice(format!(
                "member {from} sends messages to this process alone (Inline::unicast), which has a thread and drops them"
            ));
        }
    }

    fn snapshot(&mut self, group: GroupId) -> Option<Box<dyn Snapshot>> {
        self.lives.snapshot(group, &mut self.front)
    }

    fn restore(&mut self, group: GroupId, chunk: &[u8]) {
        self.lives.restore(group, chunk, &mut self.front);
    }

    fn keeps_state(&mut self, group: GroupId) -> bool {
        self.lives.keeps_state(group, &mut self.front)
    }

    fn told(&mut self) -> Vec<trace::Event> {
        self.take_records()
    }
}

/// Ends something asked for in a group that never reached its membership, and gives its room back.
pub(super) fn refuse(cell: &CellShared, group: &GroupShared, asked: Queued, why: SendError) {
    cell.release(group, asked.to(), asked.bytes());
    group.lost.add(asked.messages(), 0);
    asked.into_receipt().into_iter().for_each(|receipt| receipt.refuse(why));
}

/// Numbers of inboxes that groups share begin here.
const MERGED: u32 = 1 << 31;

/// The core's name for an inbox that groups share.
fn merged_inbox(number: usize) -> InboxId {
    InboxId(u32::try_from(number).map_or(u32::MAX, |number| MERGED | number))
}

fn merged_number(inbox: InboxId) -> Option<usize> {
    inbox.0.checked_sub(MERGED).map(|number| number as usize)
}

/// The core's name for the inbox of a membership.
fn inbox_of(key: Key) -> InboxId {
    InboxId(key.slot + 1)
}

fn slot_of(inbox: InboxId) -> Option<u32> {
    inbox.0.checked_sub(1)
}

/// Copies payloads out of packets, many small ones into one block of memory.
#[derive(Debug, Default)]
struct Copier {
    piece: bytes::BytesMut,
}

impl Copier {
    fn copy(&mut self, payload: &[u8]) -> Bytes {
        if payload.len() >= ALONE_BYTES {
            return Bytes::copy_from_slice(payload);
        }
        if self.piece.capacity() < payload.len() {
            self.piece = bytes::BytesMut::with_capacity(PIECE_BYTES);
        }
        self.piece.extend_from_slice(payload);
        self.piece.split().freeze()
    }
}

/// Payloads of at least this length get their own allocation.
const ALONE_BYTES: usize = 4 << 10;

/// Shorter ones share blocks of this size.
const PIECE_BYTES: usize = 32 << 10;

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use phalanx_core::Stability;
    use phalanx_driver::fork::Home;
    use phalanx_life::{Message, Payloads, Shown, clients_domain};
    use phalanx_runtime::config::Config;
    use phalanx_runtime::{Inline, Options};
    use phalanx_trace::SubmitStep;

    use super::*;
    use crate::domains::Domains;
    use crate::error::{InDoubt, SubmitError, Undelivered};
    use crate::inbox::Inbox;
    use crate::replica::{Replica, Replicating, State};
    use crate::send::Multicast;
    use crate::send_to::SendTo;
    use crate::sent::Receipt;
    use crate::shared::commands::SubmitsTo;
    use crate::shared::queue::Queue;
    use crate::shared::submits::SubmitReceipt;
    use crate::snapshot::Snapshot as Snap;
    use crate::submit::ClientTable;
    use crate::waiting::Place;

    const GROUP: GroupId = GroupId(1);

    /// A process in view 7 of a group, that it shares with nobody.
    fn member() -> (AppHandler, Arc<GroupShared>, Inbox) {
        member_of(None)
    }

    /// The same of a group with a state. Its inbox has room for eight items.
    fn member_of(replica: Option<Box<dyn Replicating>>) -> (AppHandler, Arc<GroupShared>, Inbox) {
        member_with(Keeps { replica, ..Keeps::default() }, false, crate::view::of_nobody(7))
    }

    /// The same, in that view, of a process that records what its program is told or not.
    fn member_with(
        keeps: Keeps,
        is_recorded: bool,
        view: phalanx_core::GroupView,
    ) -> (AppHandler, Arc<GroupShared>, Inbox) {
        let directory = tempfile::tempdir().expect("a directory");
        let (runtime_dir, state_dir) = (Some(directory.path().join("run")), Some(directory.path().join("state")));
        let options = Options::from(Config { runtime_dir, state_dir, ..Config::default() });
        let process = Inline::start(&options).expect("starts");
        let me = process.node().settings().me.clone();
        let cell = Arc::new(CellShared::new(process.waker(), process.belief(), me.clone(), options.config.clone()));
        let mut handler = AppHandler::new(Arc::clone(&cell), true);
        if is_recorded {
            handler.record();
        }
        handler.begin(&me);
        let group = Arc::new(GroupShared::new("g"));
        let queue = Arc::new(Queue::new(8, 1 << 20, process.waker(), Home::here()));
        let has_state = keeps.replica.is_some();
        handler.add(Arc::clone(&group), Destination::Own(Arc::clone(&queue)), has_state, false, keeps);
        handler.event(Event::GroupView(Arc::new(view)));
        handler.publish(|_| Some(true));
        (handler, group, Inbox::new(queue))
    }

    /// Has the core accept a message, as number `seq` of view 7. Its receipt.
    fn send(handler: &mut AppHandler, group: &GroupShared, seq: u64) -> sent::Sent {
        send_in(handler, group, 7, seq)
    }

    fn send_in(handler: &mut AppHandler, group: &GroupShared, view: u64, seq: u64) -> sent::Sent {
        let receipt = Arc::new(Receipt::new());
        let asked = Queued::Send(Message {
            life: group.life(),
            order: Order::Total,
            stability: Stability::Uniform,
            in_view: None,
            domain: None,
            body: Payloads::One(Bytes::from_static(b"m")),
            receipt: Some(Waiter::Multicast(Arc::clone(&receipt))),
        });
        handler.queue(group, asked);
        let key = *group.key.get().expect("it is joined");
        assert!(handler.due(key).is_some(), "it may be sent");
        handler.accepted(key, Some(Sent { view: ViewNumber(view), seq: Sequence(seq) }));
        match receipt.poll(&Context::from_waker(Waker::noop())) {
            Poll::Ready(sent) => sent.expect("it was sent"),
            Poll::Pending => panic!("it is bound to a view"),
        }
    }

    fn look<F: Future>(future: F) -> Option<F::Output> {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }

    /// Who sees a death by a watch finds the view, and the messages before it, in the inbox.
    #[test]
    fn a_watch_tells_a_death_when_the_inbox_has_the_view() {
        use crate::departure::tests::{info, view_of};
        use crate::shared::watches::Whom;
        use crate::shared::watches::tests::{decree, directory, group as entry, left};
        use crate::watch::{MemberChange, Watch};

        let (mut handler, _group, mut inbox) = member();
        let me = handler.lives.me().0;
        let cell = Arc::clone(&handler.front.shared);
        let mut watch = Watch::new(cell.watches.member(Whom::Named("m2".to_owned())));
        let install = |handler: &mut AppHandler, view: u64, members: &[u64]| {
            let gone: &[(u64, phalanx_core::LeaveReason)] = match members.contains(&2) {
                true => &[],
                false => &[(2, phalanx_core::LeaveReason::Died)],
            };
            let next = directory(view, members, &[(GROUP.0, entry("g", 6 + view, members))]);
            handler.installed(&next, &decree(&next, &left(gone), &[GROUP.0]));
            let shown = phalanx_core::CellView {
                members: members.iter().map(|who| info(*who)).collect(),
                ..view_of(view, 2, gone)
            };
            handler.event(Event::CellView(Arc::new(shown)));
        };
        let publish = |handler: &mut AppHandler| {
            handler.publish(|_| Some(true));
            handler.tell_watches(|| None);
        };
        install(&mut handler, 1, &[me, 2]);
        publish(&mut handler);
        assert!(matches!(watch.try_next(), Some(MemberChange::Here(_))));
        let waits = std::iter::from_fn(|| inbox.try_next()).count();
        assert_eq!(waits, 1, "view 7");
        // The inbox has room for eight. The view finds none, and is told when a reader makes some.
        install(&mut handler, 2, &[me]);
        publish(&mut handler);
        assert!(watch.try_next().is_none(), "the core has the view of the group still");
        (0..8).for_each(|_| handler.event(Event::GroupAdequacy { group: GROUP, view: ViewNumber(7), adequate: true }));
        handler.event(Event::GroupView(Arc::new(crate::view::of_nobody(8))));
        handler.tell_watches(|| None);
        assert!(watch.try_next().is_none(), "it is not published");
        publish(&mut handler);
        assert!(watch.try_next().is_none(), "the inbox is full");
        assert!(inbox.try_next().is_some());
        publish(&mut handler);
        assert!(matches!(watch.try_next(), Some(MemberChange::Gone(_))));
        let rest: Vec<Next> = std::iter::from_fn(|| inbox.try_next()).collect();
        assert!(matches!(rest.last(), Some(Next::View(view)) if view.number() == 8), "{rest:?}");
        // Nobody waits for an inbox without a reader.
        drop(inbox);
        install(&mut handler, 3, &[me, 2]);
        handler.event(Event::GroupView(Arc::new(crate::view::of_nobody(9))));
        publish(&mut handler);
        assert!(matches!(watch.try_next(), Some(MemberChange::Here(_))));
    }

    /// The view that has too few still waits for the inbox, so the core alone knows of it. Nobody asks the core when the
    /// thread ends or a state panics: what was withheld must not be told then.
    #[test]
    fn what_was_withheld_is_in_doubt_when_the_thread_ends() {
        let ends: [fn(AppHandler); 2] = [
            |mut handler| handler.end(),
            |handler| {
                let panics = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
                    let _handler = handler;
                    std::panic::resume_unwind(Box::new("a state panics"));
                }));
                panics.expect_err("it panics");
            },
        ];
        for end in ends {
            let (mut handler, group, mut inbox) = member();
            let [told, withheld] = [1, 2].map(|seq| send(&mut handler, &group, seq));
            handler.stable(GROUP, ViewNumber(7), Sequence(1));
            assert!(look(told.stable()).is_none(), "not published yet");
            handler.publish(|_| Some(true));
            handler.stable(GROUP, ViewNumber(7), Sequence(2));
            handler.publish(|_| Some(false));
            assert_eq!(
                [look(told.stable()), look(withheld.stable())],
                [Some(Ok(())), None],
                "the core knows of too few"
            );
            end(handler);
            assert_eq!([look(told.stable()), look(withheld.stable())], [Some(Ok(())), Some(Err(InDoubt))]);
            assert_eq!(group.lost.get(), (0, 1));
            let items: Vec<Next> = std::iter::from_fn(|| inbox.blocking_next()).collect();
            let [Next::View(_), lost, left] = &items[..] else { panic!("{items:?}") };
            assert!(matches!(lost, Next::Lost { not_sent: 0, in_doubt: 1 }), "{lost:?}");
            assert!(matches!(left, Next::Left(LeaveReason::Over)), "{left:?}");
        }
    }

    fn view(number: u64) -> Event {
        Event::GroupView(Arc::new(crate::view::of_nobody(number)))
    }

    fn deliver(handler: &mut AppHandler, seq: u64) {
        handler.deliver(&Delivery {
            group: GROUP,
            view: ViewNumber(7),
            sender: Incarnation(77),
            seq: Sequence(seq),
            order: Order::Total,
            uniformity: Uniformity::Uniform,
            position: Some(seq),
            replayed: false,
            asked: None,
            domain: None,
            payload: b"m",
        });
    }

    fn taken(inbox: &mut Inbox) -> Vec<String> {
        let items = std::iter::from_fn(|| inbox.try_next());
        items
            .map(|item| match item {
                Next::View(view) => format!("view {}", view.number()),
                Next::Message(message) => format!("message {}", message.seq),
                other => format!("{other:?}"),
            })
            .collect()
    }

    /// The numbers of its views, and 0 for each message.
    #[derive(Debug, Default, PartialEq, Eq)]
    struct Seen(Vec<u64>);

    impl State for Seen {
        fn apply(&mut self, _message: &crate::message::Message) {
            self.0.push(0);
        }

        fn view(&mut self, view: &View) {
            self.0.push(view.number());
        }

        fn snapshot(&self) -> Snap {
            Snap::encode(&self.0)
        }

        fn restore(snapshot: Snap) -> Result<Self, crate::error::DecodeError> {
            snapshot.decode().map(Self)
        }
    }

    fn seeing() -> (Replica<Seen>, Option<Box<dyn Replicating>>) {
        let replica = Replica::new(Seen::default());
        let side = Box::new(Domains::new(vec![(String::new(), replica.for_group(None))]));
        (replica, Some(side))
    }

    /// A reader that stands still must not have the process keep what its group sends without end.
    #[test]
    fn an_inbox_without_room_holds_its_groups_back() {
        let (mut handler, group, mut inbox) = member();
        let own = inbox_of(*group.key.get().expect("it is joined"));
        let waker = phalanx_driver::Waker::new().expect("a descriptor is left");
        let shared_queue = Arc::new(Queue::new(2, 1 << 20, waker, Home::here()));
        let other = Arc::new(GroupShared::new("h"));
        let merged = handler.add(other, Destination::Merged(Arc::clone(&shared_queue)), false, false, Keeps::default());
        // The view is one of the eight.
        for seq in 1..=7 {
            assert!(handler.ready(own) && handler.ready(merged), "item {seq} has room");
            deliver(&mut handler, seq);
            handler.publish(|_| Some(true));
        }
        assert!(!handler.ready(own) && handler.ready(merged) && handler.ready(InboxId::MAIN));
        assert_eq!(taken(&mut inbox).len(), 8);
        assert!(handler.ready(own));
        for number in 1..=2 {
            assert!(handler.ready(merged));
            let view =
                phalanx_core::GroupView { name: "h".into(), group: GroupId(2), ..crate::view::of_nobody(number) };
            handler.event(Event::GroupView(Arc::new(view)));
            handler.publish(|_| Some(true));
        }
        assert!(handler.ready(own) && !handler.ready(merged));
        shared_queue.discard();
        assert!(handler.ready(merged), "nobody reads it any more");
    }

    /// What one incarnation was told says nothing of the messages of the next, which are numbered from 1 again.
    #[test]
    fn a_life_begins_with_no_outcome_of_the_one_before() {
        let (mut handler, group, mut inbox) = member();
        let before = send(&mut handler, &group, 1);
        handler.stable(GROUP, ViewNumber(7), Sequence(1));
        handler.publish(|_| Some(true));
        assert_eq!((look(before.stable()), group.life()), (Some(Ok(())), 0));
        handler.event(Event::Excluded { view: ViewNumber(9) });
        assert_eq!((group.life(), group.status().view.is_none()), (1, false), "published with the items");
        let mut me = handler.front.shared.facts().me.clone();
        me.incarnation = Incarnation(me.incarnation.0 ^ 1);
        handler.begin(&me);
        handler.event(view(2));
        handler.publish(|_| Some(true));
        let after = send_in(&mut handler, &group, 2, 1);
        assert!(look(after.stable()).is_none() && !after.is_stable(), "nobody else has it yet");
        handler.stable(GROUP, ViewNumber(2), Sequence(1));
        handler.publish(|_| Some(true));
        assert_eq!([look(before.stable()), look(after.stable())], [Some(Ok(())); 2]);
        let items = taken(&mut inbox);
        let [first, excluded, second] = &items[..] else { panic!("{items:?}") };
        assert!(first == "view 7" && excluded.starts_with("Excluded") && second == "view 2", "{items:?}");
    }

    /// Who takes an item finds the view, and a state, that are at least as new.
    #[test]
    fn views_and_states_are_never_older_than_the_inbox() {
        let (replica, side) = seeing();
        let (mut handler, group, mut inbox) = member_of(side);
        let key = *group.key.get().expect("it is joined");
        assert_eq!((taken(&mut inbox), &*replica.read()), (vec!["view 7".to_owned()], &Seen(vec![7])));
        deliver(&mut handler, 1);
        handler.event(view(8));
        deliver(&mut handler, 2);
        // The first steps of a publication.
        let entry = handler.lives.own(key).expect("it goes on");
        entry.show_state();
        entry.show_view();
        let seen = group.status().view.as_ref().map(View::number);
        assert_eq!((seen, replica.applied(), &*replica.read()), (Some(8), 2, &Seen(vec![7, 0, 8, 0])));
        assert!(taken(&mut inbox).is_empty());
        handler.publish(|_| Some(true));
        assert_eq!(taken(&mut inbox), ["message 1", "view 8", "message 2"]);
    }

    #[test]
    fn a_replica_is_current_in_a_view_alone() {
        let (replica, side) = seeing();
        let (mut handler, group, mut inbox) = member_of(side);
        assert!(replica.is_current());
        handler.event(Event::GroupLeft { group: GROUP, why: phalanx_core::LeaveReason::Anew });
        assert!(!replica.is_current(), "it comes back with another state");
        handler.event(view(8));
        assert!(replica.is_current());
        handler.event(Event::StateBegin { group: GROUP, name: "g".into(), bytes: 8, view: None, domains: None });
        assert!(!replica.is_current(), "another one comes");
        handler.event(Event::StateAnew { group: GROUP, name: "g".into() });
        assert!(!replica.is_current());
        handler.event(view(1));
        assert!(replica.is_current());
        handler.event(Event::Excluded { view: ViewNumber(9) });
        assert!(!replica.is_current(), "others may go on without it");
        handler.publish(|_| Some(true));
        let items = taken(&mut inbox);
        assert_eq!(items[3..6], ["Taking { bytes: 8 }", "FoundedAnew", "view 1"], "{items:?}");
        assert_eq!(group.status().phase, Phase::Member, "it comes back by itself");
    }

    /// A sender that gives up its wait has sent nothing, and one that waits on sends when there is room.
    #[test]
    fn messages_wait_for_room_and_are_sent_once() {
        let (handler, group, _inbox) = member();
        let cell = Arc::clone(&handler.front.shared);
        let long = || Ok(Payloads::One(Bytes::from(vec![0; 1 << 20])));
        let post = || Multicast::new(Arc::clone(&cell), Arc::clone(&group), long());
        let mut accepted = 0;
        while post().try_post().is_ok() {
            accepted += 1;
            assert!(accepted < 9, "what waits has no bound");
        }
        assert_eq!(post().try_post(), Err(SendError::Full));
        let mut given_up = Box::pin(post().into_future());
        let mut context = Context::from_waker(Waker::noop());
        assert!(given_up.as_mut().poll(&mut context).is_pending() && !given_up.is_queued());
        drop(given_up);
        let mut waits = Box::pin(post().into_future());
        assert!(waits.as_mut().poll(&mut context).is_pending() && !waits.is_queued());
        let mut sent = 0;
        while let Some(Command::Queue { group, asked }) = cell.commands.pop() {
            cell.release(&group, None, asked.bytes());
            sent += 1;
        }
        assert_eq!((sent, group.queued_bytes()), (accepted, 0));
        assert!(waits.as_mut().poll(&mut context).is_pending() && waits.is_queued());
        assert!(matches!(cell.commands.pop(), Some(Command::Queue { asked, .. }) if asked.messages() == 1));
        assert!(cell.commands.pop().is_none(), "it is queued once");
    }

    /// Each sender learns what became of its message, and a flush and the inbox what was lost.
    #[test]
    fn messages_to_one_end_with_an_outcome_and_what_is_lost_is_counted() {
        let (mut handler, group, mut inbox) = member();
        let (cell, key) = (Arc::clone(&handler.front.shared), *group.key.get().expect("it is joined"));
        let to = Incarnation(77);
        let mut context = Context::from_waker(Waker::noop());
        let mut sending: Vec<_> = (0..6)
            .map(|_| {
                let payload = Ok(Bytes::from_static(b"m"));
                let send = SendTo::new(Arc::clone(&cell), Arc::clone(&group), MemberId::of(to), payload);
                let mut sending = Box::pin(send.into_future());
                assert!(sending.as_mut().poll(&mut context).is_pending() && sending.is_queued());
                let Some(Command::Queue { asked, .. }) = cell.commands.pop() else { panic!("a command waits") };
                handler.queue(&group, asked);
                sending
            })
            .collect();
        for _ in 0..4 {
            assert_eq!(handler.due_to_one(key).map(|due| due.to), Some(to));
            handler.sent_to_one(key, ViewNumber(7));
        }
        assert!(handler.due_to_one(key).is_some());
        handler.refused_to_one(key, Refusal::NoSuchMember(ViewNumber(7)));
        let mut look = |at: usize| sending[at].as_mut().poll(&mut context).map_ok(|sent| (sent.view(), sent));
        let sent: Vec<_> = (0..4)
            .map(|at| match look(at) {
                Poll::Ready(Ok((7, sent))) => sent,
                other => panic!("{other:?}"),
            })
            .collect();
        assert!(matches!(look(4), Poll::Ready(Err(SendError::NotInView { view: 7 }))), "its sender knows");
        assert_eq!(group.lost.get(), (0, 0));
        handler.settled(GROUP, to, ToOneOutcome::Delivered, 1);
        handler.settled(GROUP, to, ToOneOutcome::NotDelivered, 1);
        handler.settled(GROUP, to, ToOneOutcome::InDoubt, 1);
        let outcomes: Vec<_> = sent.iter().map(sent_to::SentTo::outcome).collect();
        let (not_delivered, in_doubt) = (Some(Err(Undelivered::NotDelivered)), Some(Err(Undelivered::InDoubt)));
        assert_eq!(outcomes, [Some(Ok(())), not_delivered, in_doubt, None]);
        assert_eq!(group.lost.get(), (1, 1));
        handler.end();
        assert_eq!(sent[3].outcome(), in_doubt);
        assert!(matches!(look(5), Poll::Ready(Err(SendError::NotSent))), "it waited");
        assert_eq!((group.lost.get(), group.queued_bytes()), ((2, 2), 0));
        let lost: Vec<_> = taken(&mut inbox).into_iter().filter(|item| item.starts_with("Lost")).collect();
        let [one, two, three, four] = &lost[..] else { panic!("{lost:?}") };
        assert_eq!(one, "Lost { not_sent: 1, in_doubt: 0 }");
        assert_eq!([two, three], ["Lost { not_sent: 0, in_doubt: 1 }"; 2]);
        assert_eq!(four, "Lost { not_sent: 1, in_doubt: 0 }");
    }

    #[test]
    fn a_message_to_this_process_alone_comes_into_the_inbox_and_into_no_state() {
        let (replica, side) = seeing();
        let (mut handler, _group, mut inbox) = member_of(side);
        deliver(&mut handler, 1);
        let (view, sender, kind) = (ViewNumber(6), Incarnation(77), phalanx_core::ToOneKind::Message);
        handler.to_one(&phalanx_core::MessageToOne { group: GROUP, view, sender, kind, payload: b"alone" });
        deliver(&mut handler, 2);
        handler.publish(|_| Some(true));
        let items: Vec<Next> = std::iter::from_fn(|| inbox.try_next()).collect();
        let [Next::View(_), Next::Message(_), Next::ToOne(alone), Next::Message(_)] = &items[..] else {
            panic!("{items:?}")
        };
        assert_eq!((alone.view, alone.sender, &alone.payload[..]), (6, MemberId::of(sender), &b"alone"[..]));
        assert_eq!((&*replica.read(), replica.applied()), (&Seen(vec![7, 0, 0]), 2));
    }

    /// So the checker finds the end by which a submit is executed once or never, and nothing that was sent behind it.
    #[test]
    fn what_was_sent_is_recorded_before_an_end_and_the_outcome_behind_it() {
        let (replica, table) = (Replica::new(Seen::default()), clients_domain(""));
        replica.set_execute(|_, _| b"result".to_vec());
        let submits = Arc::clone(&replica.handle.submits);
        let parts = [(String::new(), replica.for_group(None)), (table.clone(), ClientTable::domain(&submits))];
        let keeps = Keeps {
            replica: Some(Box::new(Domains::new(parts.into()))),
            submits: vec![SubmitsTo { table: table.as_str().into(), submits: Arc::clone(&submits) }],
            answers: false,
        };
        let list = ["", &table].map(|name| phalanx_core::Domain { name: name.into(), version: 1 });
        let view = phalanx_core::GroupView { domains: Some(list.into()), ..crate::view::of_nobody(7) };
        let (mut handler, group, _inbox) = member_with(keeps, true, view);
        let (key, me) = (*group.key.get().expect("it is joined"), handler.lives.me());
        let mut position = 0;
        // The core accepts what is due, as the next message of the view, and delivers it or not.
        let mut go_on = |handler: &mut AppHandler, is_delivered: bool| {
            assert_eq!(handler.queue_submits(), 1);
            let NextMessage { payload, .. } = handler.due(key).expect("it waits");
            position += 1;
            handler.accepted(key, Some(Sent { view: ViewNumber(7), seq: Sequence(position) }));
            if is_delivered {
                handler.deliver(&Delivery {
                    group: GROUP,
                    view: ViewNumber(7),
                    sender: me,
                    seq: Sequence(position),
                    order: Order::Total,
                    uniformity: Uniformity::Uniform,
                    position: Some(position),
                    replayed: false,
                    asked: None,
                    domain: Some(phalanx_core::DomainIndex(1)),
                    payload: &payload,
                });
            }
            handler.publish(|_| Some(true));
        };
        let client = replica.handle.client();
        let context = Context::from_waker(Waker::noop());
        let submit = || {
            let (receipt, payload) = (Arc::new(SubmitReceipt::new()), Bytes::from_static(b"m"));
            let begun = submits.poll_submit(client, None, (&payload, &receipt), &mut Place::default(), &context);
            assert!(matches!(begun, Poll::Ready(Ok(_))));
            receipt
        };
        let first = submit();
        go_on(&mut handler, true); // the client is opened
        go_on(&mut handler, true);
        let second = submit();
        go_on(&mut handler, false);
        handler.event(Event::GroupLeft { group: GROUP, why: phalanx_core::LeaveReason::Stopped });
        assert!(matches!(first.poll(&context), Poll::Ready(Ok(result)) if result == "result"));
        assert!(matches!(second.poll(&context), Poll::Ready(Err(SubmitError::Unknown))));
        let records = handler.take_records();
        let shown = |record: &trace::Event| match record {
            trace::Event::Submit { group: 1, number, what, .. } => Some(match what {
                SubmitStep::Executed { view: 7, position: 2, .. } => format!("{number} executed"),
                SubmitStep::Told { .. } => format!("{number} told"),
                what => format!("{number} {what:?}").chars().take_while(|c| *c != '{').collect(),
            }),
            trace::Event::ToldLost { .. } => Some("lost".to_owned()),
            trace::Event::MembershipEnded { .. } => Some("ended".to_owned()),
            _ => None,
        };
        let shown: Vec<_> = records.iter().filter_map(shown).map(|text| text.trim_end().to_owned()).collect();
        assert_eq!(shown, ["1 Sent", "1 executed", "1 told", "2 Sent", "lost", "ended", "2 Unknown"]);
        assert!(handler.take_records().is_empty());
    }

    /// Room that a refused message kept would be lost to its group for ever.
    #[test]
    fn what_comes_too_late_is_refused_and_gives_its_room_back() {
        let (mut handler, group, _inbox) = member();
        let (cell, life) = (Arc::clone(&handler.front.shared), group.life());
        let post = |body| {
            Queued::Send(Message {
                life,
                order: Order::Fifo,
                stability: Stability::Plain,
                in_view: None,
                domain: None,
                body,
                receipt: None,
            })
        };
        let command = |asked| Command::Queue { group: Arc::clone(&group), asked };
        for text in ["of a life that ends", "for a handler that has ended"] {
            cell.push(command(post(Payloads::One(Bytes::from_static(text.as_bytes()))))).expect("there is room");
        }
        let Some(Command::Queue { asked, .. }) = cell.commands.pop() else { panic!("a command waits") };
        handler.event(Event::Excluded { view: ViewNumber(9) });
        handler.queue(&group, asked);
        let key = *group.key.get().expect("it is joined");
        assert!(handler.due(key).is_none() && group.lost.get() == (1, 0));
        handler.end();
        let late = cell.commands.pop().expect("a command waits");
        handler.refuse(late);
        assert_eq!((group.queued_bytes(), group.lost.get()), (0, (2, 0)));
    }
}
