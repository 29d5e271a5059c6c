//! What the application is told of its memberships and messages. The machine that decides it is the one of real
//! processes.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use phalanx_core::rng::Rng;
use phalanx_core::{
    Delivery, Event, GroupId, InboxId, Incarnation, Instant, LeaveReason, MessageToOne, Order, Sequence, Snapshot,
    Stability, ViewNumber,
};
use phalanx_life::{
    Answer, Ask, AskEnd, AskId, Asked, Bound, End, Front, Key, Lives, Message, NextMessage, NextToOne, Payloads,
    Publication, Publishes, Queued, Refusal, Reply, Shown, Step,
};
use phalanx_runtime::traced;
use phalanx_trace as trace;

use super::answering::{ASK, Answering};
use super::desk::{Desk, Shelf};
use super::submits::{Book, Due, SUBMIT};
use crate::program::CLIENTS;

/// The memberships of one process, through its incarnations, and what is counted of them.
#[derive(Debug)]
pub(crate) struct Told {
    lives: Lives<Shelf, u64>,
    writer: Writer,
    /// Requests for groups whose earlier membership has not ended, oldest first: the core takes such a request.
    again: Vec<Request>,
    /// Groups whose outcomes are withheld, and need not be by all that the application was told.
    ahead: Vec<GroupId>,
    /// Records that are not given yet.
    records: Vec<trace::Event>,
    panic: Panic,
    /// The message that the core is asked to take is the one that is due.
    is_sending: bool,
    /// An ask that the core is asked to take.
    asking: Option<Box<Ask<u64>>>,
}

/// A message to be queued.
#[derive(Clone, Debug)]
pub(crate) struct ToQueue {
    pub(crate) order: Order,
    pub(crate) stability: Stability,
    /// The domain to which alone it goes.
    pub(crate) domain: Option<Arc<str>>,
    pub(crate) payload: Bytes,
    /// Whether a receipt is awaited.
    pub(crate) awaits: bool,
}

/// What is done with submits.
#[derive(Clone, Debug)]
pub(crate) enum Submit {
    /// Another one.
    Message(Bytes),
    /// One of them is abandoned.
    Abandon(u64),
    /// The client is closed, and another one begins.
    Close,
}

/// Bytes of one membership's messages with which no more may wait.
const WAITING_BYTES: usize = 8 << 10;

/// A request for a group.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) name: String,
    pub(crate) with_state: bool,
    pub(crate) observes: bool,
    /// Where its items go.
    pub(crate) inbox: InboxId,
}

/// A panic in the application, on the thread that runs the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Panic {
    #[default]
    No,
    /// With the next message.
    Due,
    /// What it means is told, and to be recorded.
    Over,
    /// Its trace just stops.
    Silent,
}

impl Told {
    /// Of a process whose clients draw from that generator.
    pub(crate) fn new(rng: Rng) -> Self {
        Self::of(Book::new(rng))
    }

    fn of(book: Book) -> Self {
        let mut lives = Lives::new(true);
        lives.record(traced::reason);
        Self {
            lives,
            writer: Writer::new(book),
            again: Vec::new(),
            ahead: Vec::new(),
            records: Vec::new(),
            panic: Panic::No,
            is_sending: false,
            asking: None,
        }
    }
}

/// Counts, and what the application reads by itself.
#[derive(Debug)]
struct Writer {
    counts: ToldCounts,
    desk: Rc<RefCell<Desk>>,
    publication: Publication<Shelf>,
    me: Option<Incarnation>,
    answering: Answering,
    book: Book,
    /// A state was refused, and all that members give make sense.
    is_mistaken: bool,
    /// Why the state that is complete now is refused, as the application decided.
    refuses: Option<String>,
    /// When it last refused one.
    refused_ns: Option<u64>,
}

/// What applications were told.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ToldCounts {
    /// Multicasts that were not sent, and in doubt.
    pub(crate) not_sent: u64,
    pub(crate) in_doubt: u64,
    /// Times in which an outcome was withheld for another iteration.
    pub(crate) withheld: u64,
    /// Ends of memberships: by a leave, because the group stopped, and with the process.
    pub(crate) left: u64,
    pub(crate) stopped: u64,
    pub(crate) over: u64,
    /// States whose donors were gone before they were complete.
    pub(crate) own_states: u64,
    /// Items that the reader looked at.
    pub(crate) looks: u64,
    /// Ends of a thread, panics among them, while outcomes were withheld that the application knew no reason to withhold.
    pub(crate) ends_ahead: u64,
    /// Panics of the application.
    pub(crate) panics: u64,
    /// Messages that were queued, and receipts that were given.
    pub(crate) queued: u64,
    pub(crate) receipts: u64,
    /// States that the application refused.
    pub(crate) refused: u64,
}

impl Writer {
    fn new(book: Book) -> Self {
        Self {
            counts: ToldCounts::default(),
            desk: Rc::default(),
            publication: Publication::default(),
            me: None,
            answering: Answering::default(),
            book,
            is_mistaken: false,
            refuses: None,
            refused_ns: None,
        }
    }
}

impl Publishes for Writer {
    fn publication(&mut self) -> &mut Publication<Shelf> {
        &mut self.publication
    }
}

impl Front for Writer {
    type Group = Shelf;
    type Receipt = u64;

    const COUNTS_DELIVERED: bool = true;

    fn deliver(&mut self, key: Key, shelf: &mut Shelf, delivery: &Delivery<'_>) {
        self.publication.touch(key, shelf);
        shelf.deliver(Some(delivery.sender) == self.me && !delivery.replayed);
    }

    fn sent(&mut self, _key: Key, shelf: &mut Shelf, _sent: (ViewNumber, Sequence), _is_awaited: bool) {
        shelf.asked.bind();
    }

    fn step(&mut self, key: Key, shelf: &mut Shelf, step: Step<'_>) {
        let life = shelf.asked.life;
        if let Step::Reached { delivered, .. } = step {
            shelf.submits.reached(delivered, life, &mut self.book);
            return shelf.tell_delivered(delivered);
        }
        self.publication.touch(key, shelf);
        match step {
            Step::View(seen) => {
                shelf.adequate = seen.view.adequate.then_some(seen.view.group);
                shelf.change_state();
                shelf.show_state();
                shelf.set_view();
                shelf.stage();
                shelf.set_standing();
                if !seen.view.observers.contains(&seen.me) {
                    shelf.submits.begin_life(life, &mut self.book);
                }
            }
            Step::ViewReplayed(_) => {
                shelf.change_state();
                shelf.show_state();
            }
            Step::Adequate(_) => {
                shelf.set_view();
                shelf.stage();
                shelf.set_standing();
            }
            // Outcomes may follow, and who learns of one finds the message in the state.
            Step::Ending { .. } => shelf.show_state(),
            Step::Over { not_sent, in_doubt, .. } => {
                self.counts.not_sent += not_sent;
                self.counts.in_doubt += in_doubt;
                shelf.adequate = None;
                shelf.submits.end_life(life, &mut self.book);
                shelf.end_life(not_sent);
                shelf.set_view();
            }
            Step::Excluded { .. } | Step::Anew(_) => {
                shelf.stage();
                shelf.set_standing();
            }
            Step::Senseless => self.is_mistaken = self.refused_ns.is_none(),
            Step::OwnState => {
                self.counts.own_states += 1;
                shelf.stage();
            }
            Step::Waiting(_) | Step::Forgotten | Step::Kept | Step::Taking { .. } | Step::Current => shelf.stage(),
            Step::Unsent { messages } => {
                shelf.asked.refuse(messages);
            }
            Step::Reached { .. } => {}
        }
    }

    fn asked(&mut self, key: Key, shelf: &mut Shelf, asked: &Asked<'_>, value: &mut Vec<u8>) -> Option<Reply> {
        match asked.delivery {
            Some(delivery) => self.deliver(key, shelf, delivery),
            None => {
                self.publication.touch(key, shelf);
                shelf.stage();
            }
        }
        self.answering.asked(key, asked, value)
    }

    fn given_up(&mut self, _key: Key, _shelf: &mut Shelf, _id: AskId) {
        self.answering.count("asks that their asker gave up before an answer");
    }

    fn answered(&mut self, _shelf: &mut Shelf, receipt: &u64, answer: &Answer<'_>) -> bool {
        self.answering.answered(*receipt, answer)
    }

    fn ask_ended(&mut self, _shelf: &mut Shelf, receipt: u64, end: AskEnd) {
        self.answering.ended(receipt, Some(end));
    }

    fn is_full(&mut self, _key: Key, shelf: &mut Shelf) -> bool {
        shelf.is_full()
    }

    fn answer(&mut self, shelf: &mut Shelf, receipt: u64, outcome: Result<Bound, Refusal>) {
        // The others are counted with all that is not sent.
        shelf.asked.refuse(u64::from(outcome.is_err_and(|why| why != Refusal::NotSent)));
        if receipt & ASK != 0 {
            return self.answering.ended(receipt, None);
        }
        if receipt & SUBMIT != 0 {
            let (outcome, life) = (outcome.map(|bound| bound.number), shelf.asked.life);
            return shelf.submits.answer(receipt, outcome, life, &mut self.book);
        }
        self.counts.receipts += 1;
        shelf.answer(receipt, outcome.ok().map(|bound| bound.number));
    }

    fn ended(&mut self, _key: Key, mut shelf: Shelf, end: End) {
        let life = shelf.asked.life;
        shelf.submits.end(life, &mut self.book);
        shelf.end();
        self.publication.ended(shelf);
        match end {
            End::Left(LeaveReason::Stopped) => self.counts.stopped += 1,
            End::Over => self.counts.over += 1,
            _ => self.counts.left += 1,
        }
    }

    // The states are the application's.
    fn snapshot(&mut self, _: Key, _shelf: &mut Shelf, _: &Arc<str>, _is_sound: bool) -> Option<Box<dyn Snapshot>> {
        None
    }

    fn restore(&mut self, _key: Key, _shelf: &mut Shelf, _chunk: &[u8]) -> Result<(), String> {
        Ok(())
    }

    fn complete(&mut self, _key: Key, _shelf: &mut Shelf) -> Result<(), String> {
        self.refuses.take().map_or(Ok(()), Err)
    }

    fn release(&mut self, shelf: &mut Shelf, bytes: usize) {
        shelf.waiting -= bytes;
    }

    fn notice(&mut self, _text: String) {}
}

impl Told {
    /// Another process starts in its place.
    pub(crate) fn start_anew(&mut self) {
        let (counts, moments) = (self.counts(), std::mem::take(&mut self.writer.answering.moments));
        let book = self.writer.book.start_anew();
        *self = Self::of(book);
        self.writer.counts = counts;
        self.writer.answering.moments = moments;
    }

    pub(crate) fn counts(&self) -> ToldCounts {
        ToldCounts { looks: self.writer.counts.looks + self.writer.desk.borrow().looks, ..self.writer.counts }
    }

    /// It asks to join a group.
    pub(crate) fn joins(&mut self, request: Request) {
        if self.lives.key_named(&request.name).is_some() {
            return self.again.push(request);
        }
        let Request { name, with_state, observes, inbox } = request;
        let shelf = Shelf::new(&self.writer.desk, inbox);
        self.lives.add(name.into(), with_state, observes, shelf);
    }

    /// It asked to leave a group.
    pub(crate) fn leaves(&mut self, group: GroupId) {
        if let Some(key) = self.lives.key_of(group) {
            let wanted = self.lives.want_leave(key);
            debug_assert!(wanted.is_ok(), "the membership goes on");
            self.lives.leave_asked(key);
        }
    }

    /// The application refuses the state that is complete now.
    pub(super) fn refuse(&mut self, why: String, now_ns: u64) {
        self.writer.counts.refused += 1;
        (self.writer.refuses, self.writer.refused_ns) = (Some(why), Some(now_ns));
    }

    /// When the application last refused a state.
    pub(crate) fn refused_ns(&self) -> Option<u64> {
        self.writer.refused_ns
    }

    /// Groups whose state was refused, for the core to know.
    pub(crate) fn take_refused(&mut self) -> Vec<GroupId> {
        self.lives.take_core_notes().refused
    }

    /// A group that is to be left because its state was refused.
    pub(crate) fn to_leave(&self) -> Option<GroupId> {
        self.writer.refused_ns?;
        self.lives.to_leave().map(|(_, group)| group)
    }

    pub(super) fn begin(&mut self, me: Incarnation) {
        self.writer.me = Some(me);
        self.writer.answering.me = Some(me);
        self.writer.answering.forget_asks();
        self.lives.begin(me, &mut self.writer);
        self.join_again();
        // One request for each group goes into the next incarnation.
        self.again.clear();
    }

    pub(super) fn event(&mut self, event: Event) {
        self.lives.event(event, &mut self.writer);
        self.join_again();
    }

    /// Joins groups again whose earlier membership has ended.
    fn join_again(&mut self) {
        // Once more, if that name is in use.
        std::mem::take(&mut self.again).into_iter().for_each(|request| self.joins(request));
    }

    /// The core accepted a multicast. [`Self::sent`] follows, at once or later.
    pub(super) fn accepted(&mut self, group: GroupId) {
        let Some(key) = self.lives.key_of(group) else { return };
        if let Some(ask) = self.asking.take() {
            self.lives.own(key).into_iter().for_each(|shelf| _ = shelf.asked.ask(false));
            self.lives.asks().accepted_at_once(key, ask, None, &mut self.writer);
        } else if self.is_sending {
            self.lives.accepted(key, None, &mut self.writer);
        } else {
            self.lives.own(key).into_iter().for_each(|shelf| _ = shelf.asked.ask(false));
            self.lives.accepted_at_once(key, None, &mut self.writer);
        }
    }

    /// It asks for a message in a group, to be sent when the group has room for it, and perhaps for a receipt. False: too
    /// many wait.
    pub(crate) fn ask(&mut self, name: &str, message: ToQueue) -> bool {
        let Some(key) = self.lives.key_named(name) else { return false };
        let Some(shelf) = self.lives.own(key).filter(|shelf| shelf.waiting < WAITING_BYTES) else { return false };
        let ToQueue { order, stability, domain, payload, awaits } = message;
        let (life, receipt) = (shelf.asked.life, shelf.asked.ask(awaits));
        let body = Payloads::One(payload);
        let queued = Queued::Send(Message { life, order, stability, in_view: None, domain, body, receipt });
        shelf.waiting += queued.bytes();
        let flush = awaits.then(|| Queued::Flush { life, receipt: shelf.asked.receipt() });
        self.writer.counts.queued += 1;
        [Some(queued), flush].into_iter().flatten().all(|asked| self.lives.queue(key, asked).is_ok())
    }

    /// Begins an ask of a group: the number of its life, and its receipt. `None`: it is not in the group, or too much waits.
    pub(crate) fn begin_ask(&mut self, group: GroupId, want: phalanx_life::Want) -> Option<(Key, u64, u64)> {
        let key = self.lives.key_of(group)?;
        let has_room = self.lives.asks().has_room(key);
        let shelf = self.lives.own(key).filter(|shelf| has_room && shelf.waiting < WAITING_BYTES)?;
        Some((key, shelf.asked.life, self.writer.answering.begin(want)))
    }

    /// Leaves an ask to the machine that sends it when there is room.
    pub(crate) fn queue_ask(&mut self, key: Key, ask: Box<Ask<u64>>) {
        let queued = Queued::Ask(ask);
        if let Some(shelf) = self.lives.own(key) {
            shelf.waiting += queued.bytes();
            shelf.asked.ask(false);
        }
        let taken = self.lives.queue(key, queued);
        debug_assert!(taken.is_ok(), "the membership goes on");
    }

    /// The core is asked to take an ask; [`Self::end_asking`] follows.
    pub(crate) fn begin_asking(&mut self, ask: Box<Ask<u64>>) {
        self.asking = Some(ask);
    }

    /// The ask that the core did not take is forgotten.
    pub(crate) fn end_asking(&mut self) {
        if let Some(ask) = self.asking.take() {
            self.writer.answering.take_back(ask.receipt);
        }
    }

    /// Gives up one of its asks.
    pub(crate) fn cancel_ask(&mut self, draw: u64) {
        let Some(receipt) = self.writer.answering.any_open(draw) else { return };
        let keys: Vec<Key> = self.lives.owns().map(|(key, _)| key).collect();
        for key in keys {
            self.lives.asks().cancel(key, receipt, &mut self.writer);
        }
    }

    /// Something is said of an ask.
    pub(super) fn hear(&mut self, message: &MessageToOne<'_>) {
        let late = self.lives.asks().late();
        self.lives.to_one().deliver(message, &mut self.writer);
        // What begins with 0 is about no ask.
        if self.lives.asks().late() > late && message.payload.first() != Some(&0) {
            self.writer.answering.count("words of asks that came too late");
        }
    }

    /// Answers the asks that it put off.
    pub(crate) fn answer_later(&mut self) {
        for (key, id, value) in self.writer.answering.due() {
            let is_taken = self.lives.asks().answer(key, id, Reply::Value, &value);
            self.writer.answering.count(if is_taken {
                "answers that came later"
            } else {
                "answers refused where given"
            });
        }
    }

    pub(crate) fn has_later(&self) -> bool {
        self.writer.answering.has_later()
    }

    /// Ends asks that are late.
    pub(crate) fn expire_asks(&mut self, now: Instant) {
        self.lives.asks().expire(now, &mut self.writer);
    }

    /// What happened with asks and submits since the last call, by name.
    pub(crate) fn take_moments(&mut self) -> BTreeMap<&'static str, u64> {
        let mut moments = std::mem::take(&mut self.writer.answering.moments);
        moments.append(&mut self.writer.book.moments);
        moments
    }

    /// Does something with the submits of a membership.
    pub(crate) fn submit(&mut self, name: &str, what: Submit) {
        let Some(key) = self.lives.key_named(name) else { return };
        let Some(shelf) = self.lives.own(key) else { return };
        match what {
            Submit::Message(payload) => shelf.submits.submit(name, payload, &mut self.writer.book),
            Submit::Abandon(draw) => shelf.submits.abandon(draw, &mut self.writer.book),
            Submit::Close => shelf.submits.close(&mut self.writer.book),
        }
    }

    /// Of each group that it is in, and to whose state it submitted: the submits that have no outcome yet.
    pub(crate) fn open_submits(&mut self) -> Vec<(GroupId, usize)> {
        let open: Vec<(Key, usize)> =
            self.lives.owns().filter_map(|(key, shelf)| Some((key, shelf.submits.open()?))).collect();
        open.into_iter().filter_map(|(key, open)| Some((self.lives.number_in_view(key)??, open))).collect()
    }

    /// Queues what clients are to send. False: there is nothing.
    pub(crate) fn queue_submits(&mut self) -> bool {
        let keys: Vec<Key> = self.lives.owns().map(|(key, _)| key).collect();
        let mut is_due = false;
        for key in keys {
            let Some(Some(group)) = self.lives.number_in_view(key) else { continue };
            while let Some(shelf) = self.lives.own(key) {
                let life = shelf.asked.life;
                let Some(Due { payload, receipt }) = shelf.submits.due(group, life, &mut self.writer.book) else {
                    break;
                };
                shelf.asked.ask(false);
                let (order, stability) = (Order::Total, Stability::Uniform);
                let (domain, body) = (Some(CLIENTS.into()), Payloads::One(payload));
                let message = Message { life, order, stability, in_view: None, domain, body, receipt: Some(receipt) };
                let queued = Queued::Send(message);
                shelf.waiting += queued.bytes();
                is_due = true;
                let taken = self.lives.queue(key, queued);
                debug_assert!(taken.is_ok(), "the membership goes on");
            }
        }
        is_due
    }

    /// A command of a client came to its place.
    pub(super) fn applied(&mut self, group: GroupId, told: &phalanx_life::Told) {
        let Some(key) = self.lives.key_of(group) else { return };
        if let Some(shelf) = self.lives.own(key) {
            let life = shelf.asked.life;
            shelf.submits.applied(told, life, &mut self.writer.book);
        }
    }

    /// The next word about an ask that may be sent now.
    pub(crate) fn due_to_one(&mut self, key: Key) -> Option<NextToOne> {
        self.lives.to_one().due(key, &mut self.writer)
    }

    /// The core took it, or refused it for good.
    pub(crate) fn end_to_one(&mut self, key: Key, sent: Option<ViewNumber>) {
        match sent {
            Some(view) => self.lives.to_one().sent(key, view, &mut self.writer),
            None => self.lives.to_one().refused(key, Refusal::NotSent, &mut self.writer),
        }
    }

    /// A group with messages that wait, by its place among those.
    pub(crate) fn busy(&self, at: usize) -> Option<Key> {
        self.lives.busy(at)
    }

    /// The next message of a group that may be sent now. Send it between [`Self::begin_sending`] and [`Self::end_sending`].
    pub(crate) fn due(&mut self, key: Key) -> Option<NextMessage> {
        self.lives.due(key, &mut self.writer)
    }

    pub(crate) fn begin_sending(&mut self) {
        self.is_sending = true;
    }

    /// `refused`: why the core refused it for good, if it did.
    pub(crate) fn end_sending(&mut self, key: Key, refused: Option<Refusal>) {
        self.is_sending = false;
        if let Some(why) = refused {
            self.lives.refused(key, why, &mut self.writer);
        }
    }

    pub(super) fn sent(&mut self, group: GroupId, view: ViewNumber, seq: Sequence) {
        self.lives.sent(group, view, seq, &mut self.writer);
    }

    pub(super) fn stable(&mut self, group: GroupId, view: ViewNumber, seq: Sequence) {
        self.lives.stable(group, view, seq);
    }

    pub(super) fn deliver(&mut self, delivery: &Delivery<'_>) {
        self.lives.deliver(delivery, &mut self.writer);
        if self.panic == Panic::Due {
            self.panic = Panic::Over;
            self.writer.counts.panics += 1;
            self.end();
        }
    }

    /// Its iteration is over: what changed is shown, and outcomes are told that may be. `is_adequate`: whether enough
    /// members hold a group's state. `reads`: whether an inbox is read.
    pub(crate) fn publish(&mut self, is_adequate: impl Fn(GroupId) -> Option<bool>, reads: impl Fn(InboxId) -> bool) {
        self.writer.desk.borrow_mut().set_read(reads);
        self.lives.publish(&is_adequate, &mut self.writer);
        self.ahead.clear();
        if self.lives.has_news() {
            let adequate = self.lives.owns().filter_map(|(_, shelf)| shelf.adequate);
            self.ahead.extend(adequate.filter(|group| is_adequate(*group) == Some(false)));
        }
        self.writer.counts.withheld += u64::from(self.lives.has_news());
    }

    /// Its thread ends, and the process goes on for a moment: nobody asks the core any more.
    pub(crate) fn end(&mut self) {
        self.writer.counts.ends_ahead += u64::from(self.is_ahead());
        self.records.append(&mut self.lives.take_records());
        self.lives.end(&mut self.writer);
        self.writer.publication.end();
        self.writer.desk.borrow_mut().drop_staged();
        for record in self.lives.take_records() {
            if let trace::Event::ToldStable { group, view, seq } = record
                && self.ahead.contains(&GroupId(group))
            {
                let text =
                    format!("told that message {seq} in view {view} of group {group} is stable, with too few members");
                self.writer.desk.borrow_mut().faults.push(text);
            }
            self.records.push(record);
        }
        self.records.append(&mut self.writer.book.records);
    }

    /// Whether outcomes are withheld that need not be by all that the application was told.
    pub(crate) fn is_ahead(&self) -> bool {
        !self.ahead.is_empty()
    }

    /// Whether the next message makes the application panic.
    pub(crate) fn panic_next(&mut self, panics: bool) {
        if !self.has_panicked() {
            self.panic = if panics { Panic::Due } else { Panic::No };
        }
    }

    /// Whether it panicked.
    pub(crate) fn has_panicked(&self) -> bool {
        matches!(self.panic, Panic::Over | Panic::Silent)
    }

    /// What a panic means is recorded: nothing follows.
    pub(crate) fn fall_silent(&mut self) {
        self.panic = Panic::Silent;
    }

    pub(crate) fn is_silent(&self) -> bool {
        self.panic == Panic::Silent
    }

    /// What is to be recorded since the last call, and whether a state was refused.
    pub(super) fn settle(&mut self) -> (Vec<trace::Event>, bool) {
        // An outcome stands behind the end that is its reason.
        self.records.append(&mut self.lives.take_records());
        self.records.append(&mut self.writer.book.records);
        (std::mem::take(&mut self.records), std::mem::take(&mut self.writer.is_mistaken))
    }

    /// What the reader found wrong since the last call.
    pub(super) fn take_faults(&mut self) -> Vec<String> {
        let mut faults = std::mem::take(&mut self.writer.desk.borrow_mut().faults);
        faults.append(&mut self.writer.answering.faults);
        faults.append(&mut self.writer.book.faults);
        faults
    }
}
