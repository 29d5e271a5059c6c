//! The handler that runs on the protocol thread.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use phalanx_core::{Delivery, Event, GroupId, GroupView, InboxId, Incarnation, LeaveReason, MemberInfo, Snapshot};

use super::Shared;
use super::group::Slot;
use super::items::{Copier, Item};
use crate::handler::Handler;
use crate::state::State;

/// Queues deliveries and events, and maintains the groups' states.
pub(super) struct Queueing {
    shared: Arc<Shared>,
    rejoin: bool,
    copier: Copier,
    /// Items that arrived when there was no room, in order. The core is not asked for more while there are any.
    spilled: VecDeque<Item>,
    /// The last run of unsent multicasts: group, first number, count. A run that follows directly is merged into it.
    lost: Option<(Arc<str>, u64, u64)>,
    /// The event that says that the process is over, held until all unsent multicasts were reported.
    last: Option<Event>,
    groups: BTreeMap<Arc<str>, Joined>,
    names: BTreeMap<GroupId, Arc<str>>,
}

struct Joined {
    slot: Arc<Slot>,
    with_state: bool,
    state: Option<Box<dyn State>>,
    /// The group whose state is here; kept through an exclusion.
    holds: Option<GroupId>,
}

impl Joined {
    /// Whether it has the complete state of the group. Pieces of a state without a [`State`] to take them are dropped.
    fn keeps(&self, group: GroupId) -> bool {
        self.holds == Some(group) && (self.state.is_some() || !self.with_state)
    }
}

impl Queueing {
    /// `rejoin`: the process comes back after an exclusion.
    pub(super) fn new(shared: Arc<Shared>, rejoin: bool) -> Self {
        let (spilled, groups, names) = (VecDeque::new(), BTreeMap::new(), BTreeMap::new());
        Self { shared, rejoin, copier: Copier::default(), spilled, lost: None, last: None, groups, names }
    }

    /// Adds a group that is about to be joined.
    pub(super) fn add(&mut self, slot: Arc<Slot>, with_state: bool, state: Option<Box<dyn State>>) {
        self.groups.insert(Arc::clone(&slot.name), Joined { slot, with_state, state, holds: None });
    }

    /// The number of the slot's group, once it is joined.
    pub(super) fn number(&self, slot: &Arc<Slot>) -> Option<GroupId> {
        let joined = self.groups.get(&slot.name).filter(|joined| Arc::ptr_eq(&joined.slot, slot))?;
        joined.slot.view().map(|view| view.group)
    }

    /// Whether an earlier membership of a group of that name has not ended yet.
    pub(super) fn has(&self, name: &str) -> bool {
        self.groups.contains_key(name)
    }

    pub(super) fn notice(&mut self, notice: String) {
        self.push(Item::Notice(notice.into()));
    }

    /// Reports multicasts that were taken from the command queue for that group, the last of them with number `last`,
    /// as never sent.
    pub(super) fn unsent(&mut self, slot: &Slot, messages: u64, last: u64) {
        if messages == 0 {
            return;
        }
        let first = last.saturating_sub(messages) + 1;
        match &mut self.lost {
            Some((group, begun, count)) if *group == slot.name && *begun + *count == first => *count += messages,
            _ => {
                self.report_lost();
                self.lost = Some((Arc::clone(&slot.name), first, messages));
            }
        }
    }

    fn report_lost(&mut self) {
        if let Some((group, first, messages)) = self.lost.take() {
            self.queue(Item::Unsent { group, first, messages });
        }
    }

    /// Reports the end, after all unsent multicasts were reported.
    pub(super) fn finish(&mut self) {
        if let Some(last) = self.last.take() {
            self.push(Item::Event(last));
        }
    }

    /// Wakes threads that wait for items.
    pub(super) fn publish(&mut self) {
        self.report_lost();
        self.unspill();
        self.shared.items.publish();
    }

    fn push(&mut self, item: Item) {
        self.report_lost();
        self.queue(item);
    }

    fn queue(&mut self, item: Item) {
        self.unspill();
        // Behind the spilled items, so that the order is kept.
        let refused = if self.spilled.is_empty() { self.shared.items.push(item).err() } else { Some(item) };
        self.spilled.extend(refused);
    }

    fn unspill(&mut self) {
        while let Some(item) = self.spilled.pop_front() {
            if let Err(item) = self.shared.items.push(item) {
                self.spilled.push_front(item);
                break;
            }
        }
    }

    /// Drops a group that this process is not in and does not request.
    fn forget(&mut self, name: &str) {
        if let Some(joined) = self.groups.remove(name) {
            joined.slot.leave();
            joined.slot.set_view(None);
            self.shared.forget(&joined.slot);
        }
    }

    fn state(&mut self, group: GroupId) -> Option<&mut Box<dyn State>> {
        let name = self.names.get(&group)?;
        self.groups.get_mut(name)?.state.as_mut()
    }
}

impl Handler for Queueing {
    fn begin(&mut self, me: &MemberInfo) {
        self.names.clear();
        for joined in self.groups.values() {
            joined.slot.set_view(None);
        }
        self.shared.update(|facts| {
            facts.me = me.clone();
            facts.view = None;
            facts.primary = false;
        });
    }

    fn ready(&mut self, _inbox: InboxId) -> bool {
        self.unspill();
        self.spilled.is_empty() && self.shared.items.ready()
    }

    fn deliver(&mut self, delivery: &Delivery<'_>) {
        // Applied before it is queued: a thread that takes the message finds it in the state.
        if let Some(state) = self.state(delivery.group) {
            state.apply(delivery);
        }
        let message = self.copier.message(delivery);
        self.push(Item::Message(message));
    }

    fn event(&mut self, event: Event) {
        match &event {
            Event::CellView(view) => self.shared.update(|facts| {
                facts.view = Some(Arc::clone(view));
                facts.primary = true;
            }),
            Event::Primary => self.shared.update(|facts| facts.primary = true),
            Event::NonPrimary { .. } => self.shared.update(|facts| facts.primary = false),
            Event::Excluded { .. } | Event::Renounced { .. } | Event::Left => self.shared.update(|facts| {
                facts.primary = false;
                facts.view = None;
            }),
            Event::GroupView(view) => {
                self.names.insert(view.group, Arc::clone(&view.name));
                if let Some(joined) = self.groups.get_mut(&view.name) {
                    joined.holds = Some(view.group);
                    joined.slot.set_view(Some(Arc::clone(view)));
                    if let Some(state) = &mut joined.state {
                        state.view(view);
                    }
                }
            }
            // It belongs to the state, and to no inbox.
            Event::GroupViewReplayed(view) => {
                if let Some(state) = self.state(view.group) {
                    state.view(view);
                }
                return;
            }
            Event::GroupAdequacy { group, adequate, .. } => {
                if let Some(joined) = self.names.get(group).and_then(|name| self.groups.get(name))
                    && let Some(view) = joined.slot.view()
                {
                    joined.slot.set_view(Some(Arc::new(GroupView { adequate: *adequate, ..GroupView::clone(&view) })));
                }
            }
            Event::GroupLeft { group, why: LeaveReason::Anew } => {
                if let Some(joined) = self.names.get(group).and_then(|name| self.groups.get_mut(name)) {
                    joined.slot.set_view(None); // the node joins it again, and the state is kept
                }
            }
            Event::GroupLeft { group, .. } => {
                if let Some(name) = self.names.remove(group) {
                    self.forget(&name);
                }
            }
            Event::GroupRefused { name } | Event::GroupDiffers { name, .. } => self.forget(name),
            Event::StateKept { group, name, .. } => {
                self.names.insert(*group, Arc::clone(name));
                if let Some(state) = self.state(*group) {
                    state.kept();
                }
            }
            Event::StateBegin { group, name, .. } => {
                self.names.insert(*group, Arc::clone(name));
                if let Some(joined) = self.groups.get_mut(name) {
                    joined.holds = None;
                    if let Some(state) = &mut joined.state {
                        state.clear();
                    }
                }
            }
            Event::StateAnew { group, name } => {
                self.names.insert(*group, Arc::clone(name));
                if let Some(joined) = self.groups.get_mut(name) {
                    joined.holds = None;
                    if let Some(state) = &mut joined.state {
                        state.clear();
                        state.restored();
                    }
                }
            }
            Event::StateEnd { group } => {
                if let Some(state) = self.state(*group) {
                    state.restored();
                }
            }
            Event::Unsent { group, messages } => {
                // The core reports only how many. They are the last ones that it accepted.
                let slot = self.names.get(group).and_then(|name| self.groups.get(name)).map(|joined| &joined.slot);
                if let Some(slot) = slot.cloned() {
                    self.unsent(&slot, *messages, slot.accepted());
                }
                return;
            }
            _ => {}
        }
        if matches!(event, Event::Left)
            || !self.rejoin && matches!(event, Event::Excluded { .. } | Event::Renounced { .. })
        {
            self.last = Some(event);
            return;
        }
        self.push(Item::Event(event));
    }

    fn message(&mut self, from: Incarnation, payload: &[u8]) {
        let payload = self.copier.copy(payload);
        self.push(Item::Direct { from, payload });
    }

    fn snapshot(&mut self, group: GroupId) -> Option<Box<dyn Snapshot>> {
        self.state(group).map(|state| state.snapshot())
    }

    fn restore(&mut self, group: GroupId, chunk: &[u8]) {
        if let Some(state) = self.state(group) {
            state.restore(chunk);
        }
    }

    fn keeps_state(&mut self, group: GroupId) -> bool {
        self.groups.values().any(|joined| joined.keeps(group))
    }

    fn digest(&mut self, group: GroupId) -> Option<u64> {
        self.state(group)?.digest()
    }
}
