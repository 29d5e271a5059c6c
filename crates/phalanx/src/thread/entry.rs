//! One group at the protocol thread.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use phalanx_core as core;
use phalanx_core::GroupId;

use crate::commands::Command;
use crate::error::SendError;
use crate::group::{GroupShared, Phase};
use crate::id::LeaveReason;
use crate::inbox::Next;
use crate::message::Message;
use crate::queue::Outlet;
use crate::replica::Replicating;
use crate::send::{Life, Receipt, Sent};
use crate::tally::Tally;
use crate::view::View;

/// The protocol thread's end of an inbox that groups share.
pub(super) type MergedOutlet = Rc<RefCell<Outlet<(Arc<str>, Next)>>>;

/// Where the items of a group go.
pub(super) enum Feed {
    Own(Outlet<Next>),
    Merged { name: Arc<str>, outlet: MergedOutlet },
}

impl Feed {
    fn is_ready(&mut self) -> bool {
        match self {
            Self::Own(outlet) => outlet.is_ready(),
            Self::Merged { outlet, .. } => outlet.borrow_mut().is_ready(),
        }
    }

    fn stage(&mut self, next: Next) {
        match self {
            Self::Own(outlet) => outlet.stage(next),
            Self::Merged { name, outlet } => outlet.borrow_mut().stage((Arc::clone(name), next)),
        }
    }

    /// Fills the queue. True: something is left.
    fn publish(&mut self) -> bool {
        match self {
            Self::Own(outlet) => {
                outlet.publish();
                !outlet.is_empty()
            }
            Self::Merged { outlet, .. } => {
                let mut outlet = outlet.borrow_mut();
                outlet.publish();
                !outlet.is_empty()
            }
        }
    }

    #[cfg(test)]
    fn last(&self) -> Option<&Next> {
        let Self::Own(outlet) = self else { return None };
        outlet.last()
    }

    /// Nothing follows of this group.
    fn end(&self) {
        if let Self::Own(outlet) = self {
            outlet.end();
        }
    }
}

/// A group that this process is in, joins, or was in with items that its inbox has no room for yet.
pub(super) struct Entry {
    pub(super) shared: Arc<GroupShared>,
    feed: Feed,
    pub(super) replica: Option<Box<dyn Replicating>>,
    pub(super) with_state: bool,
    pub(super) group: Option<GroupId>,
    /// The group whose complete state is here; kept through an exclusion.
    pub(super) holds: Option<GroupId>,
    pub(super) view: Option<View>,
    /// Messages that are staged and that the replica has not applied.
    to_apply: Vec<Message>,
    /// Messages and flushes that wait to be carried out.
    queue: VecDeque<Command>,
    life: Arc<Life>,
    life_number: u64,
    tally: Tally,
    /// Messages of this life that were delivered here.
    delivered: u64,
    /// Enough members hold the group's state, by the latest views that were handed over. While not, no outcome is
    /// published: a message may be held by this process alone, whose death would undo what somebody was told.
    is_adequate: bool,
    /// Receipts to be given when so many messages are bound.
    receipts: VecDeque<(u64, Arc<Receipt>)>,
    /// The standing to publish, if it changed.
    phase: Option<Phase>,
    /// It was in a view, perhaps before the standing was published last.
    was_member: bool,
    pub(super) leave_asked: bool,
    /// Nothing follows what is staged.
    pub(super) is_over: bool,
    /// It is among those to be published.
    pub(super) is_touched: bool,
    /// It is among those with messages that wait.
    pub(super) is_busy: bool,
}

impl Entry {
    pub(super) fn new(
        shared: Arc<GroupShared>,
        feed: Feed,
        with_state: bool,
        replica: Option<Box<dyn Replicating>>,
    ) -> Self {
        let life = Arc::new(Life::new(shared.home()));
        let life_number = shared.life();
        Self {
            shared,
            feed,
            replica,
            with_state,
            group: None,
            holds: None,
            view: None,
            to_apply: Vec::new(),
            queue: VecDeque::new(),
            life,
            life_number,
            tally: Tally::default(),
            delivered: 0,
            is_adequate: true,
            receipts: VecDeque::new(),
            phase: None,
            was_member: false,
            leave_asked: false,
            is_over: false,
            is_touched: false,
            is_busy: false,
        }
    }

    /// Whether the inbox has room for one more.
    pub(super) fn is_ready(&mut self) -> bool {
        self.feed.is_ready()
    }

    pub(super) fn stage(&mut self, next: Next) {
        self.feed.stage(next);
    }

    pub(super) fn deliver(&mut self, message: Message, is_mine: bool) {
        if is_mine && !message.replayed {
            self.delivered += 1;
            debug_assert!(self.delivered <= self.tally.sent, "a message of ours is delivered that was not sent");
        }
        if self.replica.is_some() {
            self.to_apply.push(message.clone());
        }
        self.stage(Next::Message(message));
    }

    /// Before any inbox is filled: applies what is staged, and publishes the view, so that who takes an item finds both at
    /// least as new as the item. The phase follows the items: who learns that it is a member, or is none any more, finds
    /// them.
    pub(super) fn prepare(&mut self) {
        self.apply();
        if self.phase.is_some() {
            let view = self.view.clone();
            self.shared.change(|status| status.view = view);
        }
    }

    /// Applies the messages that wait for that.
    pub(super) fn apply(&mut self) {
        if let Some(replica) = &mut self.replica
            && !self.to_apply.is_empty()
        {
            replica.apply(&self.to_apply);
            self.to_apply.clear();
        }
    }

    /// Notes whether enough members hold the group's state, by the latest views that were handed over.
    pub(super) fn note_adequacy(&mut self, is_cell_adequate: bool) {
        self.is_adequate = is_cell_adequate && self.view.as_ref().is_none_or(View::is_adequate);
    }

    /// No outcome of this life is published any more.
    pub(super) fn withhold(&mut self) {
        self.is_adequate = false;
    }

    pub(super) fn set_phase(&mut self, phase: Phase) {
        self.was_member |= phase == Phase::Member;
        self.phase = Some(phase);
    }

    /// Fills the inbox as far as it has room, and publishes what became of messages and of the membership. Call
    /// [`Self::prepare`] before. True: something is left.
    ///
    /// `is_adequate`: enough members hold the group's state, as far as the core knows.
    pub(super) fn publish(&mut self, is_adequate: bool) -> bool {
        debug_assert!(self.to_apply.is_empty(), "a message is published that the replica has not applied");
        let is_left = self.feed.publish();
        let withheld = !(is_adequate && self.is_adequate);
        if !withheld {
            self.life.publish(self.tally.stable, self.delivered);
        }
        if let Some(phase) = self.phase.take() {
            let was_member = self.was_member;
            self.shared.change(|status| (status.phase, status.was_member) = (phase, was_member));
        }
        if self.is_over && !is_left {
            self.feed.end();
        }
        let waits = self.tally.stable > self.life.stable() || self.delivered > self.life.delivered();
        is_left || withheld && waits && !self.is_over
    }

    /// Queues a message or a flush.
    pub(super) fn queue(&mut self, command: Command) {
        self.queue.push_back(command);
    }

    /// What waits at the front, once flushes and empty batches before it are answered.
    pub(super) fn front(&mut self) -> Option<&Command> {
        while self.queue.front().is_some_and(Command::is_empty) {
            match self.queue.pop_front() {
                Some(Command::Flush { receipt, life, .. }) => self.answer(receipt, life),
                Some(Command::Send { receipt, life, body, .. }) => {
                    self.shared.sent(body.bytes());
                    receipt.into_iter().for_each(|receipt| self.answer(receipt, life));
                }
                _ => {}
            }
        }
        self.queue.front()
    }

    /// Gives a receipt for all messages accepted so far, once they are bound to a view.
    fn answer(&mut self, receipt: Arc<Receipt>, life: u64) {
        if life != self.life_number {
            receipt.end(Err(SendError::NotSent));
        } else if self.tally.sent >= self.tally.accepted {
            let (view, seq) = self.tally.latest();
            receipt.end(Ok(Sent::new(view, seq, self.tally.sent, Arc::clone(&self.life))));
        } else {
            self.receipts.push_back((self.tally.accepted, receipt));
        }
    }

    /// The number of the life in which messages are sent now.
    pub(super) fn life_number(&self) -> u64 {
        self.life_number
    }

    /// The core accepted the message at the front. `sent`: where it belongs, unless [`Self::bind`] says that later.
    pub(super) fn accepted(&mut self, sent: Option<core::Sent>) {
        let Some(Command::Send { receipt, body, .. }) = self.queue.front_mut() else { return };
        self.tally.accepted += 1;
        if body.len() == 1
            && let Some(receipt) = receipt.take()
        {
            self.receipts.push_back((self.tally.accepted, receipt));
        }
        let bytes = body.bytes();
        if body.forget_front() {
            self.queue.pop_front();
            self.shared.sent(bytes);
        }
        if let Some(core::Sent { view, seq }) = sent {
            self.bind(view.0, seq.0);
        }
    }

    /// Refuses the message at the front, and all behind it of the same batch. What nobody awaits is counted as lost.
    pub(super) fn refuse_front(&mut self, why: SendError) {
        let Some(command) = self.queue.pop_front() else { return };
        let is_awaited = matches!(command, Command::Send { receipt: Some(_), .. });
        let not_sent = refuse(command, why);
        if why == SendError::NotSent {
            self.shared.lost.add(not_sent, 0);
        } else if !is_awaited {
            self.shared.lost.add(not_sent, 0);
            self.stage(Next::Lost { not_sent, in_doubt: 0 });
        }
    }

    /// A message was bound to a view.
    pub(super) fn bind(&mut self, view: u64, seq: u64) {
        self.tally.bind(view, seq);
        while self.receipts.front().is_some_and(|(number, _)| *number <= self.tally.sent) {
            if let Some((number, receipt)) = self.receipts.pop_front() {
                receipt.end(Ok(Sent::new(view, seq, number, Arc::clone(&self.life))));
            }
        }
    }

    /// Every member has the messages of a view up to `seq`.
    pub(super) fn stabilize(&mut self, view: u64, seq: u64) {
        self.tally.stabilize(view, seq);
    }

    /// This incarnation, or this membership, is over: what was not sent will not be, and what is not stable is in doubt.
    pub(super) fn end_life(&mut self) {
        if self.is_adequate {
            self.life.publish(self.tally.stable, self.delivered);
        }
        let mut not_sent = self.tally.accepted - self.tally.sent;
        let in_doubt = self.tally.sent - self.life.stable();
        for (_, receipt) in self.receipts.drain(..) {
            receipt.end(Err(SendError::NotSent));
        }
        for command in std::mem::take(&mut self.queue) {
            not_sent += refuse(command, SendError::NotSent);
        }
        // Who waited for room finds it, or learns that nothing is accepted any more.
        self.shared.room().wake();
        self.life.end();
        self.life = Arc::new(Life::new(self.shared.home()));
        self.life_number = self.shared.next_life();
        (self.tally, self.delivered) = (Tally::default(), 0);
        self.shared.lost.add(not_sent, in_doubt);
        if not_sent + in_doubt > 0 {
            self.stage(Next::Lost { not_sent, in_doubt });
        }
        self.view = None;
        if let Some(replica) = &mut self.replica {
            replica.set_current(false);
        }
    }

    /// This process is out of the group for good.
    pub(super) fn end(&mut self, last: Option<Next>, phase: Phase) {
        self.shared.close();
        // Before anybody learns of the end: who does may join a group of this name at once.
        self.shared.cell.free_name(&self.shared);
        self.end_life();
        last.into_iter().for_each(|last| self.stage(last));
        self.set_phase(phase);
        self.is_over = true;
    }

    /// The thread ends: nobody makes room any more, so what the inbox has no place for stays out.
    ///
    /// All that may be told was published before, when the core was asked last. What was withheld ends in doubt: the view
    /// that has too few members may still wait for the inbox.
    pub(super) fn end_with_thread(&mut self) {
        self.withhold();
        if !self.is_over {
            self.end(None, Phase::Left(LeaveReason::Left));
        }
        self.prepare();
        self.publish(true);
        self.feed.end();
    }
}

/// After a panic in a state, all that waits for this group ends, and nothing of the application is called any more.
impl Drop for Entry {
    fn drop(&mut self) {
        if std::thread::panicking() && !self.is_over {
            if let Some(mut replica) = self.replica.take() {
                replica.set_current(false);
            }
            self.to_apply.clear();
            // What was not published was perhaps not applied.
            self.delivered = self.life.delivered();
            self.end_with_thread();
        }
    }
}

/// Ends a command of a group that is not carried out, and gives its room back. Returns how many messages it holds.
pub(super) fn refuse(command: Command, why: SendError) -> u64 {
    match command {
        Command::Send { group, body, receipt, .. } => {
            group.sent(body.bytes());
            if let Some(receipt) = receipt {
                receipt.end(Err(why));
            }
            body.len()
        }
        Command::Flush { receipt, .. } => {
            receipt.end(Err(why));
            0
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use bytes::Bytes;
    use phalanx_core::{Sequence, ViewNumber};
    use phalanx_driver::fork::Home;
    use phalanx_runtime::config::Config;
    use phalanx_runtime::{Inline, Options};

    use super::*;
    use crate::cell::CellShared;
    use crate::commands::Body;
    use crate::error::InDoubt;
    use crate::id::{Guarantee, Order};
    use crate::queue::Queue;

    fn entry() -> Entry {
        let directory = tempfile::tempdir().expect("a directory");
        let (runtime_dir, state_dir) = (Some(directory.path().join("run")), Some(directory.path().join("state")));
        let options = Options::from(Config { runtime_dir, state_dir, ..Config::default() });
        let process = Inline::start(&options).expect("starts");
        let me = process.node().settings().me.clone();
        let shared = CellShared::new(process.waker(), process.belief(), me, options.config.clone());
        let inbox = Arc::new(Queue::new(8, 1 << 20, process.waker(), Home::here()));
        Entry::new(Arc::new(GroupShared::new("g", Arc::new(shared))), Feed::Own(Outlet::new(inbox)), false, None)
    }

    /// Queues a message, and has the core accept it. Its receipt.
    fn accept(entry: &mut Entry) -> Arc<Receipt> {
        let receipt = Arc::new(Receipt::new());
        let command = Command::Send {
            group: Arc::clone(&entry.shared),
            life: entry.life_number(),
            order: Order::Total,
            guarantee: Guarantee::Uniform,
            in_view: None,
            body: Body::One(Bytes::from_static(b"m")),
            receipt: Some(Arc::clone(&receipt)),
        };
        entry.queue(command);
        entry.accepted(None);
        receipt
    }

    fn flush(entry: &mut Entry) -> Arc<Receipt> {
        let receipt = Arc::new(Receipt::new());
        let (group, life) = (Arc::clone(&entry.shared), entry.life_number());
        entry.queue(Command::Flush { group, life, receipt: Arc::clone(&receipt) });
        assert!(entry.front().is_none(), "nothing waits behind it");
        receipt
    }

    fn look<F: Future>(future: F) -> Option<F::Output> {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }

    fn outcome(receipt: &Receipt) -> Option<Result<Sent, SendError>> {
        match receipt.poll(&Context::from_waker(Waker::noop())) {
            Poll::Ready(outcome) => Some(outcome),
            Poll::Pending => None,
        }
    }

    fn sent(receipt: &Receipt) -> Sent {
        outcome(receipt).expect("it has an outcome").expect("it was sent")
    }

    #[test]
    fn each_message_ends_as_stable_in_doubt_or_not_sent() {
        let mut entry = entry();
        let receipts = [(); 4].map(|()| accept(&mut entry));
        assert!(receipts.iter().all(|receipt| outcome(receipt).is_none()), "none is bound to a view");
        entry.bind(7, 1);
        entry.bind(7, 2);
        entry.bind(8, 1);
        let [first, second, third] = [0, 1, 2].map(|at| sent(&receipts[at]));
        assert_eq!([&first, &second, &third].map(|sent| (sent.view(), sent.seq())), [(7, 1), (7, 2), (8, 1)]);
        // View 7 ended, and all survivors have what was sent in it. That is learnt after a message is bound to view 8.
        entry.stabilize(7, 2);
        assert!(look(first.stable()).is_none(), "not published yet");
        entry.publish(true);
        assert_eq!(
            [look(first.stable()), look(second.stable()), look(third.stable())],
            [Some(Ok(())), Some(Ok(())), None]
        );
        entry.end_life();
        assert_eq!([look(second.stable()), look(third.stable())], [Some(Ok(())), Some(Err(InDoubt))]);
        assert!(matches!(outcome(&receipts[3]), Some(Err(SendError::NotSent))));
        assert_eq!(entry.shared.lost.get(), (1, 1));
        assert!(matches!(entry.feed.last(), Some(Next::Lost { not_sent: 1, in_doubt: 1 })));

        // The next life counts from the start, and tells nothing about the one before.
        let again = accept(&mut entry);
        entry.bind(9, 1);
        entry.stabilize(9, 1);
        entry.publish(true);
        assert_eq!(look(sent(&again).stable()), Some(Ok(())));
        assert_eq!(look(third.stable()), Some(Err(InDoubt)));
    }

    #[test]
    fn a_flush_waits_for_what_was_sent_before_it() {
        let mut entry = entry();
        assert_eq!(look(sent(&flush(&mut entry)).stable()), Some(Ok(())), "nothing was sent");
        drop(accept(&mut entry));
        let waits = flush(&mut entry);
        assert!(outcome(&waits).is_none());
        entry.bind(1, 1);
        let bound = sent(&waits);
        assert!(look(bound.stable()).is_none());
        entry.stabilize(1, 1);
        entry.publish(true);
        assert_eq!(look(bound.stable()), Some(Ok(())));
    }

    #[test]
    fn the_receipt_of_a_batch_is_that_of_its_last_message() {
        let mut entry = entry();
        let receipt = Arc::new(Receipt::new());
        let (group, life) = (Arc::clone(&entry.shared), entry.life_number());
        let body = crate::send::batch(["a", "b"]).expect("short");
        let (order, guarantee) = (Order::Fifo, Guarantee::Plain);
        entry.queue(Command::Send {
            group,
            life,
            order,
            guarantee,
            in_view: None,
            body,
            receipt: Some(Arc::clone(&receipt)),
        });
        for seq in 1..=2 {
            assert!(outcome(&receipt).is_none() && entry.front().is_some());
            entry.accepted(Some(core::Sent { view: ViewNumber(1), seq: Sequence(seq) }));
        }
        assert_eq!(sent(&receipt).seq(), 2, "the receipt of a batch is that of its last message");
        assert!(entry.front().is_none());
    }

    /// While too few members hold the state, what is reached is not told; if the incarnation ends then, it is in doubt.
    #[test]
    fn outcomes_are_withheld_while_too_few_hold_the_state() {
        let mut entry = entry();
        let (first, second) = (accept(&mut entry), accept(&mut entry));
        (1..=2).for_each(|seq| entry.bind(7, seq));
        let (first, second) = (sent(&first), sent(&second));
        entry.stabilize(7, 1);
        assert!(entry.publish(false), "it is looked at again");
        assert!(look(first.stable()).is_none(), "the core knows of too few");
        entry.is_adequate = false;
        assert!(entry.publish(true));
        assert!(look(first.stable()).is_none(), "the last view that was handed over has too few");
        entry.is_adequate = true;
        entry.publish(true);
        assert_eq!(look(first.stable()), Some(Ok(())));
        entry.is_adequate = false;
        entry.stabilize(7, 2);
        entry.publish(true);
        entry.end_life();
        assert_eq!(look(second.stable()), Some(Err(InDoubt)));
        assert!(matches!(entry.feed.last(), Some(Next::Lost { not_sent: 0, in_doubt: 1 })));
    }

    /// The view that has too few still waits for the inbox, so the core alone knows of it. Nobody asks the core when the
    /// thread ends or a state panics: what was withheld must not be told then.
    #[test]
    fn what_was_withheld_is_in_doubt_when_the_thread_ends() {
        let ends: [fn(Entry); 2] = [
            |mut entry| entry.end_with_thread(),
            |entry| {
                let panics = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
                    let _entry = entry;
                    std::panic::resume_unwind(Box::new("a state panics"));
                }));
                panics.expect_err("it panics");
            },
        ];
        for end in ends {
            let mut entry = entry();
            let (told, withheld) = (accept(&mut entry), accept(&mut entry));
            (1..=2).for_each(|seq| entry.bind(7, seq));
            let (told, withheld) = (sent(&told), sent(&withheld));
            entry.stabilize(7, 1);
            entry.publish(true);
            entry.stabilize(7, 2);
            assert!(entry.publish(false), "the core knows of too few");
            let shared = Arc::clone(&entry.shared);
            end(entry);
            assert_eq!([look(told.stable()), look(withheld.stable())], [Some(Ok(())), Some(Err(InDoubt))]);
            assert_eq!(shared.lost.get(), (0, 1));
        }
    }

    /// Room that a refused message kept would be lost to its group for ever, and an empty batch must hold nobody up.
    #[test]
    fn what_is_refused_or_empty_gives_its_room_back() {
        let mut entry = entry();
        let send = |entry: &Entry, life: u64, body: Body| {
            let (group, receipt) = (Arc::clone(&entry.shared), Arc::new(Receipt::new()));
            let (order, guarantee) = (Order::Fifo, Guarantee::Plain);
            let command = Command::Send {
                group,
                life,
                order,
                guarantee,
                in_view: None,
                body,
                receipt: Some(Arc::clone(&receipt)),
            };
            entry.shared.push(command).expect("there is room");
            receipt
        };
        let none = || crate::send::batch(Vec::<&str>::new()).expect("short");
        let empty = send(&entry, 0, none());
        let old = send(&entry, 7, Body::One(Bytes::from_static(b"of another life")));
        while let Some(command) = entry.shared.cell.commands.pop() {
            entry.queue(command);
        }
        assert!(entry.front().is_some_and(|next| !next.is_empty()), "the empty batch is answered");
        assert_eq!(look(sent(&empty).stable()), Some(Ok(())));
        entry.refuse_front(SendError::NotSent);
        assert!(matches!(outcome(&old), Some(Err(SendError::NotSent))));
        assert_eq!(entry.shared.queued_bytes(), 0);
    }
}
