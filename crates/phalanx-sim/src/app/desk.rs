//! What a simulated application can read by itself, at any time: of each membership its state, its view and its standing,
//! and the items in its inboxes. Its reader looks between any two steps of a publication.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use phalanx_core::{GroupId, InboxId};
use phalanx_life::Shown;

use super::asked::Asked;
use super::submits::Submits;

/// Items that an inbox takes while nobody reads it.
const ROOM: usize = 3;

/// What the reader sees, shared by all memberships of a process.
#[derive(Debug, Default)]
pub(super) struct Desk {
    piles: BTreeMap<InboxId, Pile>,
    /// By the shelf's number.
    seen: BTreeMap<u64, Seen>,
    shelves: u64,
    /// Looks that found items, and what was wrong.
    pub(super) looks: u64,
    pub(super) faults: Vec<String>,
}

/// An inbox. Groups may share it.
#[derive(Debug, Default)]
struct Pile {
    /// Not shown yet.
    staged: VecDeque<Item>,
    /// In the inbox, and not looked at together with the present steps.
    there: Vec<Item>,
    /// Places that are taken while nobody reads.
    full: usize,
    is_unread: bool,
}

/// An item, with what its reader must find.
#[derive(Clone, Copy, Debug)]
struct Item {
    shelf: u64,
    /// Its number among those of its membership, from 1.
    number: u64,
    state: u64,
    view: u64,
}

/// What is shown of a membership, counted in changes.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    state: u64,
    view: u64,
    items: u64,
    /// Own messages of this life that are in the state.
    own: u64,
}

/// What an application keeps for a membership, and what of it is shown.
#[derive(Debug)]
pub(super) struct Shelf {
    desk: Rc<RefCell<Desk>>,
    number: u64,
    inbox: InboxId,
    /// Changes so far.
    now: Seen,
    /// A view, or none, that is not shown.
    has_view: bool,
    /// A standing that is not shown, with the number of items before it.
    standing: Option<u64>,
    is_over: bool,
    is_touched: bool,
    /// Bytes of messages that wait to be sent.
    pub(super) waiting: usize,
    /// What it asked for.
    pub(super) asked: Asked,
    /// What it submits.
    pub(super) submits: Submits,
    /// The group, if enough members hold its state by what the application was told.
    pub(super) adequate: Option<GroupId>,
}

impl Desk {
    /// Notes whether an inbox is read.
    pub(super) fn set_read(&mut self, reads: impl Fn(InboxId) -> bool) {
        for (inbox, pile) in &mut self.piles {
            pile.is_unread = !reads(*inbox);
            if !pile.is_unread {
                pile.full = 0;
            }
        }
    }

    /// The protocol thread is over, and what it had found no room for goes with it.
    pub(super) fn drop_staged(&mut self) {
        self.piles.values_mut().for_each(|pile| pile.staged.clear());
    }

    /// The reader looks at all that is there.
    fn look(&mut self) {
        let Self { piles, seen, looks, faults, .. } = self;
        for item in piles.values_mut().flat_map(|pile| pile.there.drain(..)) {
            *looks += 1;
            let Some(seen) = seen.get_mut(&item.shelf) else {
                faults.push("an item is shown of a membership that was shown to be over".to_owned());
                continue;
            };
            seen.items = item.number;
            if seen.state < item.state {
                faults.push(format!("an item is shown before the state of change {}", item.state));
            }
            if seen.view < item.view {
                faults.push(format!("an item is shown before the view of change {}", item.view));
            }
        }
    }
}

impl Shelf {
    pub(super) fn new(desk: &Rc<RefCell<Desk>>, inbox: InboxId) -> Self {
        let mut shared = desk.borrow_mut();
        shared.shelves += 1;
        let number = shared.shelves;
        shared.seen.insert(number, Seen::default());
        shared.piles.entry(inbox).or_default();
        drop(shared);
        Self {
            desk: Rc::clone(desk),
            number,
            inbox,
            now: Seen::default(),
            has_view: false,
            standing: None,
            is_over: false,
            is_touched: false,
            waiting: 0,
            asked: Asked::default(),
            submits: Submits::default(),
            adequate: None,
        }
    }

    /// Something is handed over that its reader takes from the inbox.
    pub(super) fn stage(&mut self) {
        self.now.items += 1;
        let Seen { state, view, items, .. } = self.now;
        let item = Item { shelf: self.number, number: items, state, view };
        self.desk.borrow_mut().piles.entry(self.inbox).or_default().staged.push_back(item);
    }

    /// A message is handed over.
    pub(super) fn deliver(&mut self, is_own: bool) {
        self.now.state += 1;
        self.now.own += u64::from(is_own);
        self.stage();
    }

    /// The state changes, other than by a message.
    pub(super) fn change_state(&mut self) {
        self.now.state += 1;
    }

    /// A view comes into force, or none.
    pub(super) fn set_view(&mut self) {
        self.now.view += 1;
        self.has_view = true;
    }

    /// How the membership stands changes. Call it after what was staged with it.
    pub(super) fn set_standing(&mut self) {
        self.standing = Some(self.now.items);
    }

    /// So many of this life's own messages are told to be delivered.
    pub(super) fn tell_delivered(&mut self, delivered: u64) {
        self.see(|seen, faults| {
            if seen.own < delivered {
                faults.push(format!("told that {delivered} messages are delivered, and {} are in the state", seen.own));
            }
        });
    }

    /// A life is over, with so many messages that nobody has.
    pub(super) fn end_life(&mut self, not_sent: u64) {
        self.now.own = 0;
        let wrong = self
            .asked
            .end_life(not_sent)
            .or_else(|| (self.waiting > 0).then(|| format!("{} bytes of messages wait in no life", self.waiting)));
        self.see(|seen, faults| {
            seen.own = 0;
            faults.extend(wrong);
        });
    }

    /// A receipt is given: with a place in a view, or with a refusal.
    pub(super) fn answer(&mut self, receipt: u64, messages: Option<u64>) {
        let wrong = self.asked.answer(receipt, messages);
        self.see(|_, faults| faults.extend(wrong));
    }

    /// Whether its inbox takes nothing.
    pub(super) fn is_full(&self) -> bool {
        self.desk.borrow().piles.get(&self.inbox).is_some_and(|pile| pile.is_unread)
    }

    pub(super) fn end(&mut self) {
        self.stage();
        self.set_standing();
        self.is_over = true;
    }

    fn see(&mut self, look: impl FnOnce(&mut Seen, &mut Vec<String>)) {
        let mut desk = self.desk.borrow_mut();
        let Desk { seen, faults, .. } = &mut *desk;
        match seen.get_mut(&self.number) {
            Some(seen) => look(seen, faults),
            None => faults.push("something is shown of a membership that was shown to be over".to_owned()),
        }
        desk.look();
    }
}

impl Shown for Shelf {
    fn show_state(&mut self) {
        let Seen { state, own, .. } = self.now;
        self.see(|seen, _| (seen.state, seen.own) = (state, own));
    }

    fn show_view(&mut self) {
        if std::mem::take(&mut self.has_view) {
            let view = self.now.view;
            self.see(|seen, _| seen.view = view);
        }
    }

    fn show_items(&mut self) -> bool {
        let mut desk = self.desk.borrow_mut();
        let pile = desk.piles.entry(self.inbox).or_default();
        while let Some(item) = pile.staged.front().copied().filter(|_| !pile.is_unread || pile.full < ROOM) {
            pile.staged.pop_front();
            pile.full += usize::from(pile.is_unread);
            pile.there.push(item);
        }
        let is_left = !pile.staged.is_empty();
        desk.look();
        is_left
    }

    fn show_standing(&mut self, is_left: bool) {
        let mut desk = self.desk.borrow_mut();
        let is_full = desk.piles.get(&self.inbox).is_some_and(|pile| pile.is_unread && pile.full >= ROOM);
        let Desk { seen, faults, .. } = &mut *desk;
        let items = seen.get(&self.number).map_or(0, |seen| seen.items);
        if let Some(before) = self.standing.take().filter(|before| items < *before && !is_full) {
            faults.push(format!("its standing is shown before its item {before}, and item {items} was the last"));
        }
        if self.is_over && !is_left && seen.remove(&self.number).is_none() {
            faults.push("a membership is shown to be over twice".to_owned());
        }
    }

    fn is_touched(&mut self) -> &mut bool {
        &mut self.is_touched
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The next process of that place has inboxes of its own.
    #[test]
    fn what_an_ended_process_had_no_room_for_is_not_shown_by_the_next_one() {
        let desk = Rc::<RefCell<Desk>>::default();
        let inbox = InboxId(1);
        for drops in [true, false] {
            let mut shelf = Shelf::new(&desk, inbox);
            desk.borrow_mut().set_read(|_| false);
            (0..=ROOM).for_each(|_| shelf.stage());
            assert!(shelf.show_items(), "one has no room");
            shelf.end();
            // As at the end of a thread: nobody makes room any more.
            shelf.show_items();
            shelf.show_standing(false);
            if drops {
                desk.borrow_mut().drop_staged();
            }
            desk.borrow_mut().set_read(|_| true);
            let mut next = Shelf::new(&desk, inbox);
            next.stage();
            next.show_items();
            assert_eq!(std::mem::take(&mut desk.borrow_mut().faults).is_empty(), drops);
        }
    }
}
