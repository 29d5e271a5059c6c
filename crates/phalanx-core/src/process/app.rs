//! The delivery queues: deliveries and events that the application has not taken yet, in one sequence for each inbox.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;

use super::partners::{Pair, ToOne};
use crate::api::{
    Delivery, DomainIndex, Effects, Event, Expected, LeaveReason, Order, ToOneKind, ToOneOutcome, Uniformity,
};
use crate::frames::Frames;
use crate::id::{GroupId, InboxId, Incarnation, Rank, Sequence, ViewNumber};
use crate::member::replayed_bytes;
use crate::sorted::SortedMap;
use crate::wire::Space;

/// A delivery that owns its bytes.
#[derive(Clone, Debug)]
pub(super) struct OwnedDelivery {
    pub(super) group: GroupId,
    pub(super) view: ViewNumber,
    /// Packet space of the view it came from, and the sender's rank in it: the stream that gets credit when the
    /// application takes it.
    pub(super) space: Space,
    pub(super) rank: Rank,
    pub(super) sender: Incarnation,
    pub(super) seq: Sequence,
    pub(super) order: Order,
    pub(super) uniformity: Uniformity,
    pub(super) position: Option<u64>,
    pub(super) replayed: bool,
    /// Who is to answer it, if it asks; see [`Expected`].
    pub(super) asked: Option<Box<[u8]>>,
    /// The domain to which alone it goes.
    pub(super) domain: Option<DomainIndex>,
    pub(super) payload: Bytes,
}

impl OwnedDelivery {
    /// Copies a delivery that cannot be handed to the application yet.
    pub(super) fn of(delivery: &Delivery<'_>, space: Space, rank: Rank) -> Self {
        Self {
            group: delivery.group,
            view: delivery.view,
            space,
            rank,
            sender: delivery.sender,
            seq: delivery.seq,
            order: delivery.order,
            uniformity: delivery.uniformity,
            position: delivery.position,
            replayed: delivery.replayed,
            asked: delivery.asked.map(|expected| expected.bits().into()),
            domain: delivery.domain,
            payload: Bytes::copy_from_slice(delivery.payload),
        }
    }

    pub(super) fn delivery(&self) -> Delivery<'_> {
        Delivery {
            group: self.group,
            view: self.view,
            sender: self.sender,
            seq: self.seq,
            order: self.order,
            uniformity: self.uniformity,
            position: self.position,
            replayed: self.replayed,
            asked: self.asked.as_deref().map(Expected::of),
            domain: self.domain,
            payload: &self.payload,
        }
    }
}

/// One item for the application.
#[derive(Clone, Debug)]
pub(super) enum Item {
    Delivery(OwnedDelivery),
    Event(Event),
    Message {
        from: Incarnation,
        payload: Bytes,
    },
    Restore {
        group: GroupId,
        chunk: Bytes,
    },
    /// A message to this process alone, sent in that view.
    ToOne {
        pair: Pair,
        view: ViewNumber,
        kind: ToOneKind,
        payload: Frames,
        /// What it takes of its sender's window.
        costs: u64,
    },
    /// What became of the next messages of this process to one member.
    Settled {
        group: GroupId,
        to: Incarnation,
        outcome: ToOneOutcome,
        messages: u64,
    },
    /// This process's multicasts in the view are stable up to a number.
    Stable {
        group: GroupId,
        view: ViewNumber,
        seq: Sequence,
    },
}

impl Item {
    /// The group that it belongs to, and its name if the item has it. `None`: it belongs to the process.
    fn group(&self) -> Option<(GroupId, Option<&str>)> {
        match self {
            Self::Delivery(held) => Some((held.group, None)),
            Self::Restore { group, .. } | Self::Settled { group, .. } => Some((*group, None)),
            Self::ToOne { pair, .. } => Some((pair.group, None)),
            // A receipt waits for the event that a quorum is heard again, which is the process's own.
            Self::Message { .. } | Self::Stable { .. } => None,
            Self::Event(event) => match event {
                Event::GroupView(view) | Event::GroupViewReplayed(view) => Some((view.group, Some(&view.name))),
                Event::StateBegin { group, name, .. }
                | Event::StateAnew { group, name }
                | Event::StateKept { group, name, .. }
                | Event::GroupForgotten { group, name, .. }
                | Event::GroupOrphaned { group, name, .. } => Some((*group, Some(name))),
                Event::GroupAdequacy { group, .. }
                | Event::Unsent { group, .. }
                | Event::GroupLeft { group, .. }
                | Event::StateEnd { group } => Some((*group, None)),
                _ => None,
            },
        }
    }

    /// Whether it ends the incarnation.
    fn is_last(&self) -> bool {
        matches!(self, Self::Event(Event::Excluded { .. } | Event::Renounced { .. } | Event::Left))
    }
}

/// The queues of items for the application: one for each inbox. Multicasts in them are bounded by the windows of their
/// streams, because an item that is not taken gives no credit. Channels have no such coupling, so their bytes are
/// counted here.
#[derive(Debug, Default)]
pub(super) struct AppQueue {
    /// The queue of [`InboxId::MAIN`].
    main: VecDeque<Item>,
    /// The other queues. One that is empty may be absent.
    others: SortedMap<InboxId, VecDeque<Item>>,
    /// Items in all queues.
    len: usize,
    /// Messages to this process alone that wait for their past, and those of this process to others.
    pub(super) to_one: ToOne,
    /// Groups with an inbox of their own, by name and, once an item said it, by number.
    names: BTreeMap<String, InboxId>,
    numbers: SortedMap<GroupId, InboxId>,
    owed: UntakenBytes,
    /// The application was last told that no quorum is heard. It takes itself for primary in each view, until then.
    outside: bool,
    /// It will be so once it has taken all that waits.
    outside_in_the_end: bool,
}

/// Bytes that arrived on data channels and that the application has not taken.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct UntakenBytes {
    /// Messages of other processes.
    pub(super) messages: usize,
    /// Messages to this process alone, within groups.
    pub(super) to_one: usize,
    /// Chunks of a state, and the deliveries replayed after it.
    pub(super) state: usize,
}

/// Bytes charged for an item beside its payload. Without it, many short messages would cost memory and count as
/// nothing.
const ITEM_BYTES: usize = 128;

impl AppQueue {
    /// Gives the named group another inbox, from the next item on that has its name.
    pub(super) fn assign(&mut self, name: &str, inbox: InboxId) {
        if inbox == InboxId::MAIN {
            self.names.remove(name);
        } else {
            self.names.insert(name.to_owned(), inbox);
        }
    }

    /// The inbox of a group.
    #[inline]
    pub(super) fn inbox_of(&self, group: GroupId) -> InboxId {
        self.numbers.get(&group).copied().unwrap_or_default()
    }

    /// Whether the next item of a group can go straight to the application.
    #[inline]
    pub(super) fn is_open(&self, group: GroupId, fx: &mut (impl Effects + ?Sized)) -> bool {
        let inbox = self.inbox_of(group);
        self.is_empty_at(inbox) && fx.ready(inbox)
    }

    /// Whether no item waits for an inbox.
    #[inline]
    pub(super) fn is_empty_at(&self, inbox: InboxId) -> bool {
        self.len == 0 || self.queue(inbox).is_none_or(VecDeque::is_empty)
    }

    fn queue(&self, inbox: InboxId) -> Option<&VecDeque<Item>> {
        if inbox == InboxId::MAIN { Some(&self.main) } else { self.others.get(&inbox) }
    }

    /// Whether the application knows that no quorum is heard, and nothing later.
    pub(super) fn is_outside(&self) -> bool {
        self.outside
    }

    /// Whether the last of what is told to the application about this is that no quorum is heard.
    pub(super) fn is_outside_in_the_end(&self) -> bool {
        self.outside_in_the_end
    }

    pub(super) fn push(&mut self, item: Item) {
        if let Some((count, bytes)) = self.owed.share(&item) {
            *count += bytes;
        }
        let mut inbox = InboxId::MAIN;
        if !self.names.is_empty()
            && let Some((group, name)) = item.group()
        {
            // The first item of a group that the application gets has its name.
            if let Some(named) = name.and_then(|name| self.names.get(name)) {
                self.numbers.insert(group, *named);
            }
            inbox = self.inbox_of(group);
            if matches!(&item, Item::Event(Event::GroupLeft { why, .. }) if *why != LeaveReason::Anew) {
                self.numbers.remove(&group);
            }
        }
        self.len += 1;
        if inbox == InboxId::MAIN {
            self.main.push_back(item);
        } else {
            self.others.get_or_insert_with(inbox, VecDeque::new).push_back(item);
        }
    }

    pub(super) fn event(&mut self, event: Event) {
        self.outside_in_the_end = says_outside(&event).unwrap_or(self.outside_in_the_end);
        self.push(Item::Event(event));
    }

    /// Reports that `messages` multicasts that were accepted for the group will not be sent.
    pub(super) fn unsent(&mut self, group: GroupId, messages: usize) {
        if messages > 0 {
            self.event(Event::Unsent { group, messages: messages as u64 });
        }
    }

    /// Such reports that the application has not taken.
    pub(super) fn unreported_unsent(&self) -> impl Iterator<Item = (GroupId, u64)> {
        self.items().filter_map(|item| match item {
            Item::Event(Event::Unsent { group, messages }) => Some((*group, *messages)),
            _ => None,
        })
    }

    /// Whether the application has yet to read that it is out of the group.
    pub(super) fn has_unread_end(&self, group: GroupId) -> bool {
        self.items().any(|item| matches!(item, Item::Event(Event::GroupLeft { group: left, .. }) if *left == group))
    }

    fn items(&self) -> impl Iterator<Item = &Item> {
        self.main.iter().chain(self.others.values().flatten())
    }

    /// The first inbox after `at` for which items wait.
    pub(super) fn next_waiting(&self, at: Option<InboxId>) -> Option<InboxId> {
        if at.is_none() && !self.main.is_empty() {
            return Some(InboxId::MAIN);
        }
        let mut behind = self.others.after(at.unwrap_or_default());
        behind.find(|(_, items)| !items.is_empty()).map(|(inbox, _)| *inbox)
    }

    /// The next item for an inbox.
    ///
    /// The last item of an incarnation comes when no other inbox has an item: the next incarnation begins after it, and
    /// must not wait for a program that reads no more.
    pub(super) fn pop(&mut self, inbox: InboxId) -> Option<Item> {
        let from = match inbox {
            InboxId::MAIN if self.main.front().is_some_and(Item::is_last) => {
                self.others.values_mut().find(|items| !items.is_empty()).unwrap_or(&mut self.main)
            }
            InboxId::MAIN => &mut self.main,
            other => self.others.get_mut(&other)?,
        };
        let item = from.pop_front()?;
        self.len -= 1;
        if let Item::Event(event) = &item {
            self.outside = says_outside(event).unwrap_or(self.outside);
        }
        if let Some((count, bytes)) = self.owed.share(&item) {
            debug_assert!(*count >= bytes, "an item that is taken was counted when it came");
            *count -= bytes;
        }
        Some(item)
    }

    /// Checks what must always hold.
    pub(super) fn check_invariants(&self) {
        let mut owed = UntakenBytes::default();
        for item in self.items() {
            if let Some((count, bytes)) = owed.share(item) {
                *count += bytes;
            }
        }
        assert_eq!(self.items().count(), self.len, "items that wait are miscounted");
        assert_eq!(owed.messages, self.owed.messages, "bytes of messages that wait are miscounted");
        assert_eq!(owed.to_one, self.owed.to_one, "bytes of messages to one that wait are miscounted");
        assert_eq!(owed.state, self.owed.state, "bytes of states that wait are miscounted");
    }

    pub(super) fn owed(&self) -> UntakenBytes {
        self.owed
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl UntakenBytes {
    /// The counter that an item is charged to, and by how much.
    fn share(&mut self, item: &Item) -> Option<(&mut usize, usize)> {
        match item {
            Item::Message { payload, .. } => Some((&mut self.messages, payload.len() + ITEM_BYTES)),
            Item::Restore { chunk, .. } => Some((&mut self.state, chunk.len() + ITEM_BYTES)),
            Item::ToOne { payload, .. } => Some((&mut self.to_one, payload.len() + ITEM_BYTES)),
            Item::Delivery(held) if held.replayed => Some((&mut self.state, held.payload.len() + ITEM_BYTES)),
            Item::Event(Event::GroupViewReplayed(view)) => Some((&mut self.state, replayed_bytes(view) + ITEM_BYTES)),
            // A state can begin without a byte of it, and still takes memory.
            Item::Event(Event::StateBegin { .. } | Event::StateAnew { .. } | Event::StateEnd { .. }) => {
                Some((&mut self.state, ITEM_BYTES))
            }
            // The stream's window bounds these while deliveries wait.
            Item::Delivery(_) | Item::Event(_) | Item::Stable { .. } | Item::Settled { .. } => None,
        }
    }
}

/// Whether the event tells the application that no quorum is heard, or, by a view or otherwise, that one is.
fn says_outside(event: &Event) -> Option<bool> {
    match event {
        Event::NonPrimary { .. } => Some(true),
        Event::Primary | Event::CellView(_) => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::api::GroupView;
    use crate::id::ViewNumber;

    fn view(group: u32, name: &str) -> Item {
        Item::Event(Event::GroupView(Arc::new(GroupView::new(GroupId(group), name, ViewNumber(1)))))
    }

    fn restored(group: u32) -> Item {
        Item::Restore { group: GroupId(group), chunk: Bytes::from_static(b"chunk") }
    }

    fn groups(app: &mut AppQueue, inbox: InboxId) -> Vec<Option<u32>> {
        std::iter::from_fn(|| app.pop(inbox)).map(|item| item.group().map(|(group, _)| group.0)).collect()
    }

    #[test]
    fn each_inbox_has_its_groups_items_in_order() {
        let (mut app, a) = (AppQueue::default(), InboxId(7));
        app.assign("a", a);
        for item in [view(1, "a"), view(2, "b"), restored(1), Item::Event(Event::Primary), restored(2), restored(1)] {
            app.push(item);
            app.check_invariants();
        }
        assert_eq!([app.inbox_of(GroupId(1)), app.inbox_of(GroupId(2))], [a, InboxId::MAIN]);
        assert_eq!([app.next_waiting(None), app.next_waiting(Some(InboxId::MAIN))], [Some(InboxId::MAIN), Some(a)]);
        assert_eq!(groups(&mut app, InboxId::MAIN), [Some(2), None, Some(2)]);
        assert!(app.is_empty_at(InboxId::MAIN) && !app.is_empty());
        assert_eq!(groups(&mut app, a), [Some(1); 3]);
        app.check_invariants();
        assert_eq!(app.next_waiting(None), None);
    }

    #[test]
    fn the_end_of_an_incarnation_comes_after_all_inboxes() {
        let (mut app, a) = (AppQueue::default(), InboxId(7));
        app.assign("a", a);
        for item in [Item::Event(Event::Primary), view(1, "a"), restored(1), Item::Event(Event::Left)] {
            app.push(item);
        }
        assert_eq!(groups(&mut app, InboxId::MAIN), [None, Some(1), Some(1), None]);
    }

    #[test]
    fn a_group_that_is_left_gives_its_inbox_up() {
        let (mut app, a) = (AppQueue::default(), InboxId(7));
        app.assign("a", a);
        app.push(view(1, "a"));
        app.push(Item::Event(Event::GroupLeft { group: GroupId(1), why: LeaveReason::Left }));
        assert_eq!((app.inbox_of(GroupId(1)), groups(&mut app, a).len()), (InboxId::MAIN, 2));
        app.assign("a", InboxId::MAIN);
        app.push(view(3, "a"));
        assert_eq!(groups(&mut app, InboxId::MAIN), [Some(3)]);
    }
}
