//! What the protocol thread keeps for one group: where its items go, its replica, and what its handles read.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, Weak};

use phalanx_core::{GroupId, Order, Stability, ViewNumber};
use phalanx_driver::fork::Home;
use phalanx_life as life;
use phalanx_life::{AskId, Outgoing, Payloads, Shown};

use crate::asked::{ANSWER_BYTES, Asked};
use crate::message::{Message, MessageToOne};
use crate::next::Next;
use crate::replica::Replicating;
use crate::sent::Life;
use crate::shared::asks::Answerer;
use crate::shared::commands::{Keeps, Queued, SubmitWaiter, SubmitsTo, Waiter};
use crate::shared::group::{GroupShared, Phase};
use crate::shared::queue::Outlet;
use crate::shared::submits::random;
use crate::view::View;

/// The protocol thread's end of an inbox that groups share.
pub(super) type MergedOutlet = Rc<RefCell<Outlet<(Arc<str>, Next)>>>;

/// Where the items of a group go.
pub(super) enum Feed {
    Own(Outlet<Next>),
    Merged(MergedOutlet),
}

impl Feed {
    fn is_ready(&mut self) -> bool {
        match self {
            Self::Own(outlet) => outlet.is_ready(),
            Self::Merged(outlet) => outlet.borrow_mut().is_ready(),
        }
    }

    /// `name`: of the group.
    fn stage(&mut self, name: &Arc<str>, next: Next) {
        match self {
            Self::Own(outlet) => outlet.stage(next),
            Self::Merged(outlet) => outlet.borrow_mut().stage((Arc::clone(name), next)),
        }
    }

    /// Fills the queue. True: something is left.
    fn publish(&mut self) -> bool {
        match self {
            Self::Own(outlet) => {
                outlet.publish();
                !outlet.is_empty()
            }
            Self::Merged(outlet) => {
                let mut outlet = outlet.borrow_mut();
                outlet.publish();
                !outlet.is_empty()
            }
        }
    }

    /// Whether the reader can take all that was staged.
    fn is_published(&self) -> bool {
        match self {
            Self::Own(outlet) => outlet.is_empty(),
            Self::Merged(outlet) => outlet.borrow().is_empty(),
        }
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
    /// The view that its handles are to see.
    pub(super) view: Option<View>,
    /// What the program submits to the replica's domains.
    pub(super) submits: Vec<SubmitsTo>,
    /// The group, as the present incarnation names it.
    group: Option<GroupId>,
    /// The state answers asks.
    answers: bool,
    /// Messages that are staged and that the replica has not applied.
    to_apply: Vec<Message>,
    pub(super) life: Arc<Life>,
    /// Asks that the program was shown and may not have answered.
    asked: Vec<Weak<Answerer>>,
    /// How many of them there may be before those that are gone are dropped.
    asked_room: usize,
    /// The standing to publish, if it changed.
    phase: Option<Phase>,
    /// It was in a view, perhaps before the standing was published last.
    was_member: bool,
    /// Nothing follows what is staged.
    is_over: bool,
    /// It is among those to be published.
    is_touched: bool,
}

impl Entry {
    pub(super) fn new(shared: Arc<GroupShared>, feed: Feed, Keeps { replica, submits, answers }: Keeps) -> Self {
        let life = Arc::new(Life::new(Home::here()));
        Self {
            shared,
            feed,
            replica,
            view: None,
            submits,
            group: None,
            answers,
            to_apply: Vec::new(),
            life,
            asked: Vec::new(),
            asked_room: ASKED_ROOM,
            phase: None,
            was_member: false,
            is_over: false,
            is_touched: false,
        }
    }

    /// Whether the inbox has room for one more.
    pub(super) fn is_ready(&mut self) -> bool {
        self.feed.is_ready()
    }

    pub(super) fn stage(&mut self, next: Next) {
        self.feed.stage(&self.shared.name, next);
    }

    pub(super) fn deliver(&mut self, message: Message) {
        if message.is_to_domain() {
            // It is for a part of the state alone, and enters no inbox.
            if self.replica.is_some() {
                self.to_apply.push(message);
            }
            return;
        }
        if self.replica.is_some() {
            self.to_apply.push(message.clone());
        }
        self.stage(Next::Message(message));
    }

    /// An ask that this process is to answer. A state applies one that was not forwarded, and may answer it.
    pub(super) fn deliver_ask(&mut self, asked: Asked, answerer: &Arc<Answerer>) {
        if self.answers && !asked.is_forwarded {
            self.apply();
            if let Some(replica) = &mut self.replica {
                let value = replica.apply_asked(&asked.message).filter(|value| value.len() <= ANSWER_BYTES);
                let reply = if value.is_some() { life::Reply::Value } else { life::Reply::Null };
                // This one was given to nobody else, and a thread that ends sends no answers.
                let _ = answerer.answer(reply, value.unwrap_or_default().into());
            }
            return self.stage(Next::Message(asked.message));
        }
        if self.replica.is_some() && !asked.is_forwarded {
            self.to_apply.push(asked.message.clone());
        }
        if self.asked.len() >= self.asked_room {
            self.asked.retain(|answerer| answerer.strong_count() > 0);
            self.asked_room = ASKED_ROOM.max(2 * self.asked.len());
        }
        self.asked.push(Arc::downgrade(answerer));
        self.stage(Next::Asked(asked));
    }

    /// Nobody waits for the answer any more.
    pub(super) fn give_up_ask(&mut self, id: AskId) {
        self.asked.iter().filter_map(Weak::upgrade).filter(|asked| asked.id == id).for_each(|asked| asked.give_up());
    }

    /// Whether its inbox is in a view.
    pub(super) fn is_in_view(&self) -> bool {
        self.view.is_some()
    }

    /// Whether its inbox has the view of that number, and all before it. Also if the life is over in which it would come.
    pub(super) fn has_shown(&self, view: ViewNumber) -> bool {
        self.view.as_ref().is_none_or(|shown| shown.number() >= view.0 && self.feed.is_published())
    }

    /// A message to this process alone. No state sees it.
    pub(super) fn deliver_to_one(&mut self, message: MessageToOne) {
        self.stage(Next::ToOne(message));
    }

    /// Outcomes up to these messages may be told.
    pub(super) fn reached(&self, stable: u64, delivered: u64) {
        self.life.publish(stable, delivered);
        self.submits.iter().for_each(|to| to.submits.reached(delivered));
    }

    /// What follows is of the group of that number.
    pub(super) fn set_group(&mut self, group: GroupId) {
        if self.group.replace(group) != Some(group) {
            self.submits.iter().for_each(|to| to.submits.set_group(group));
        }
    }

    /// Whether clients may have something to say.
    pub(super) fn has_submits(&self) -> bool {
        self.submits.iter().any(|to| to.submits.is_due())
    }

    /// What clients have to say now.
    pub(super) fn take_submits(&mut self) -> Vec<Queued> {
        let Self { shared, submits, .. } = self;
        let mut all = Vec::new();
        for SubmitsTo { table, submits } in submits {
            for (client, Outgoing { payload, number }) in submits.take_due(&mut random) {
                let waiter = SubmitWaiter { submits: Arc::clone(submits), client, number };
                let receipt = Some(Waiter::Submit(Box::new(waiter)));
                let queued = Queued::Send(life::Message {
                    life: shared.life(),
                    order: Order::Total,
                    stability: Stability::Uniform,
                    in_view: None,
                    domain: Some(Arc::clone(table)),
                    body: Payloads::One(payload),
                    receipt,
                });
                shared.admit_beyond(queued.bytes());
                all.push(queued);
            }
        }
        all
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

    pub(super) fn set_phase(&mut self, phase: Phase) {
        self.was_member |= phase == Phase::Member;
        self.phase = Some(phase);
    }

    /// A life is over, with messages of it that came to nothing. `next`: the number of the next life.
    pub(super) fn end_life(&mut self, next: u64, not_sent: u64, in_doubt: u64) {
        self.submits.iter().for_each(|to| to.submits.end_life());
        self.life.end();
        self.life = Arc::new(Life::new(Home::here()));
        self.shared.begin_life(next);
        self.lose(not_sent, in_doubt);
        self.view = None;
        if let Some(replica) = &mut self.replica {
            replica.set_current(false);
        }
    }

    /// Messages came to nothing.
    pub(super) fn lose(&mut self, not_sent: u64, in_doubt: u64) {
        if not_sent + in_doubt > 0 {
            self.shared.lost.add(not_sent, in_doubt);
            self.stage(Next::Lost { not_sent, in_doubt });
        }
    }

    /// This process is out of the group for good.
    pub(super) fn end(&mut self, phase: Phase) {
        if let Phase::Left(reason) = phase {
            self.stage(Next::Left(reason));
        }
        self.set_phase(phase);
        self.is_over = true;
    }

    /// The replica panicked, or another one did: nothing of the application is called any more.
    pub(super) fn give_up_replica(&mut self) {
        if let Some(mut replica) = self.replica.take() {
            replica.set_current(false);
        }
        self.to_apply.clear();
    }
}

/// Asks of which it is noted whether they were given up, before those that are answered are dropped.
const ASKED_ROOM: usize = 64;

impl Shown for Entry {
    fn show_state(&mut self) {
        self.apply();
    }

    fn show_view(&mut self) {
        if self.phase.is_some() {
            let view = self.view.clone();
            self.shared.change(|status| status.view = view);
        }
    }

    fn show_items(&mut self) -> bool {
        debug_assert!(self.to_apply.is_empty(), "a message is published that the replica has not applied");
        self.feed.publish()
    }

    fn show_standing(&mut self, is_left: bool) {
        if let Some(phase) = self.phase.take() {
            let was_member = self.was_member;
            self.shared.change(|status| (status.phase, status.was_member) = (phase, was_member));
        }
        if self.is_over && !is_left {
            self.feed.end();
        }
    }

    fn is_touched(&mut self) -> &mut bool {
        &mut self.is_touched
    }
}
