//! The handler on the protocol thread: turns what the core reports into items, receipts and states.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use phalanx_core::{
    CellView, Delivery, Event, GroupId, GroupView, InboxId, Incarnation, LeaveReason as CoreReason, MemberInfo, Order,
    Sent, Sequence, Snapshot, Stability, Uniformity, ViewNumber,
};
use phalanx_runtime::Handler;

use super::entry::{Entry, Feed, MergedOutlet, refuse};
use crate::cell::CellShared;
use crate::commands::{Command, Destination};
use crate::error::SendError;
use crate::group::{GroupShared, Phase};
use crate::id::{LeaveReason, MemberId};
use crate::inbox::Next;
use crate::message::Message;
use crate::notices;
use crate::queue::Outlet;
use crate::replica::Replicating;
use crate::view::View;

pub(super) struct AppHandler {
    shared: Arc<CellShared>,
    rejoin: bool,
    me: Incarnation,
    cell_view: Option<Arc<CellView>>,
    /// The cell has as many members as agreed.
    is_cell_adequate: bool,
    copier: Copier,
    /// By slot. A slot is used again when nothing of its group is left.
    entries: Vec<Option<Entry>>,
    names: BTreeMap<Arc<str>, usize>,
    numbers: BTreeMap<GroupId, usize>,
    /// The latest delivery's group and slot: most deliveries have the same.
    latest: (GroupId, usize),
    /// Slots that changed since the last publication.
    touched: Vec<usize>,
    /// Slots with messages that wait to be sent.
    busy: Vec<usize>,
    /// Inboxes that groups share, by number. One whose reader is gone, and of which no group is left, is dropped.
    merged: Vec<Option<MergedOutlet>>,
    /// The names of groups of which nothing is left, for the process to forget.
    forgotten: Vec<Arc<str>>,
}

/// A message that may be sent now.
pub(super) struct Front {
    pub(super) group: GroupId,
    pub(super) order: Order,
    pub(super) guarantee: Stability,
    /// The only view in which it may be sent.
    pub(super) in_view: Option<ViewNumber>,
    pub(super) payload: Bytes,
}

impl AppHandler {
    /// `rejoin`: the process comes back after an exclusion.
    pub(super) fn new(shared: Arc<CellShared>, rejoin: bool) -> Self {
        Self {
            shared,
            rejoin,
            me: Incarnation::NONE,
            cell_view: None,
            is_cell_adequate: true,
            copier: Copier::default(),
            entries: Vec::new(),
            names: BTreeMap::new(),
            numbers: BTreeMap::new(),
            latest: (GroupId(0), usize::MAX),
            touched: Vec::new(),
            busy: Vec::new(),
            merged: Vec::new(),
            forgotten: Vec::new(),
        }
    }

    fn entry(&mut self, slot: usize) -> Option<&mut Entry> {
        self.entries.get_mut(slot)?.as_mut()
    }

    /// The entry of a group, which changes now.
    fn touch(&mut self, slot: usize) -> Option<&mut Entry> {
        let entry = self.entries.get_mut(slot)?.as_mut()?;
        if !entry.is_touched {
            entry.is_touched = true;
            self.touched.push(slot);
        }
        Some(entry)
    }

    fn numbered(&mut self, group: GroupId) -> Option<&mut Entry> {
        if self.latest.0 != group {
            self.latest = (group, *self.numbers.get(&group)?);
        }
        self.touch(self.latest.1)
    }

    fn named(&mut self, name: &str) -> Option<&mut Entry> {
        let slot = *self.names.get(name)?;
        self.touch(slot)
    }

    /// Learns the number of a named group.
    fn number(&mut self, group: GroupId, name: &str) -> Option<&mut Entry> {
        let slot = *self.names.get(name)?;
        self.numbers.insert(group, slot);
        self.latest = (GroupId(0), usize::MAX);
        let entry = self.touch(slot)?;
        entry.group = Some(group);
        Some(entry)
    }

    /// Adds a group that is about to be joined. Returns the core's name for its inbox.
    pub(super) fn add(
        &mut self,
        shared: Arc<GroupShared>,
        inbox: Destination,
        with_state: bool,
        replica: Option<Box<dyn Replicating>>,
    ) -> InboxId {
        let slot = self.entries.iter().position(Option::is_none).unwrap_or(self.entries.len());
        shared.slot.store(slot, Ordering::Relaxed);
        self.names.insert(Arc::clone(&shared.name), slot);
        let (feed, inbox) = match inbox {
            Destination::Own(queue) => (Feed::Own(Outlet::new(queue)), inbox_of(slot)),
            Destination::Merged(queue) => {
                let known = |outlet: &Option<MergedOutlet>| outlet.as_ref().is_some_and(|o| o.borrow().is_of(&queue));
                let number = self.merged.iter().position(known).unwrap_or(self.merged.len());
                if number == self.merged.len() {
                    self.merged.push(Some(Rc::new(RefCell::new(Outlet::new(queue)))));
                }
                let outlet = self.merged[number].clone().expect("it was found, or added");
                (Feed::Merged { name: Arc::clone(&shared.name), outlet }, merged_inbox(number))
            }
        };
        let entry = Some(Entry::new(shared, feed, with_state, replica));
        if slot == self.entries.len() {
            self.entries.push(entry);
        } else {
            self.entries[slot] = entry;
        }
        inbox
    }

    /// The names of groups that were forgotten since the last call.
    pub(super) fn take_forgotten(&mut self) -> Vec<Arc<str>> {
        let names = std::mem::take(&mut self.forgotten);
        names.into_iter().filter(|name| !self.names.contains_key(name)).collect()
    }

    /// Queues a message or a flush in its group.
    pub(super) fn queue(&mut self, command: Command) {
        let (slot, group) = match &command {
            Command::Send { group, .. } | Command::Flush { group, .. } => {
                (group.slot.load(Ordering::Relaxed), Arc::as_ptr(group))
            }
            _ => return,
        };
        let is_its = |entry: &&mut Entry| std::ptr::eq(Arc::as_ptr(&entry.shared), group);
        let entry = self.entries.get_mut(slot).and_then(Option::as_mut).filter(is_its);
        match entry {
            Some(entry) if !entry.is_over => {
                entry.queue(command);
                if !entry.is_busy {
                    entry.is_busy = true;
                    self.busy.push(slot);
                }
            }
            _ => self.refuse(command),
        }
    }

    /// Refuses a command that came too late.
    pub(super) fn refuse(&mut self, command: Command) {
        match command {
            Command::Send { ref group, .. } | Command::Flush { ref group, .. } => {
                let group = Arc::clone(group);
                let lost = refuse(command, SendError::NotSent);
                group.lost.add(lost, 0);
            }
            Command::Join { group, inbox, .. } => {
                group.change(|status| status.phase = Phase::Left(LeaveReason::Left));
                self.shared.free_name(&group);
                inbox.end();
            }
            Command::RaiseLevel { .. } | Command::GiveUpGroup { .. } | Command::Reform | Command::FoundAnew => {}
        }
    }

    /// The slot at place `at` among those with messages that wait.
    pub(super) fn busy(&self, at: usize) -> Option<usize> {
        self.busy.get(at).copied()
    }

    /// The next message of a group that may be sent now. `None`: nothing waits, or the process is not in the group yet.
    pub(super) fn front(&mut self, slot: usize) -> Option<Front> {
        let entry = self.entries.get_mut(slot)?.as_mut()?;
        loop {
            let life = entry.life_number();
            let Some(Command::Send { order, guarantee, in_view, body, life: asked, .. }) = entry.front() else {
                entry.is_busy = false;
                self.busy.retain(|other| *other != slot);
                return None;
            };
            if *asked != life {
                // Asked for in a life that has ended since.
                entry.refuse_front(SendError::NotSent);
                continue;
            }
            let (order, guarantee, payload) = (order.to_core(), guarantee.to_core(), body.front());
            let in_view = in_view.map(|view| ViewNumber(view.get()));
            // In no view yet, or between two incarnations.
            entry.view.as_ref()?;
            let (Some(group), Some(payload)) = (entry.group, payload) else { return None };
            return Some(Front { group, order, guarantee, in_view, payload });
        }
    }

    /// The core accepted the message at the front; see [`Entry::accepted`].
    pub(super) fn accepted(&mut self, slot: usize, sent: Option<Sent>) {
        if let Some(entry) = self.entry(slot) {
            entry.accepted(sent);
        }
    }

    /// The core refused the message at the front for good.
    pub(super) fn refused(&mut self, slot: usize, why: SendError) {
        if let Some(entry) = self.touch(slot) {
            entry.refuse_front(why);
        }
    }

    /// The number of slots.
    pub(super) fn slots(&self) -> usize {
        self.entries.len()
    }

    /// Whether a group asks to be left: its number; `Some(None)`: not yet.
    pub(super) fn leaves(&mut self, slot: usize) -> Option<Option<GroupId>> {
        let entry = self.entry(slot)?;
        if !entry.shared.is_leaving() || entry.leave_asked || entry.is_over {
            return None;
        }
        let ready = entry.view.is_some() && entry.front().is_none();
        Some(entry.group.filter(|_| ready))
    }

    pub(super) fn leave_asked(&mut self, slot: usize) {
        if let Some(entry) = self.entry(slot) {
            entry.leave_asked = true;
        }
    }

    /// Publishes what changed. `is_adequate`: whether cell and group have as many members as agreed, as far as the core
    /// knows.
    pub(super) fn publish(&mut self, is_adequate: impl Fn(GroupId) -> Option<bool>) {
        // All are prepared before the first is published: groups may share an inbox.
        for at in 0..self.touched.len() {
            if let Some(entry) = self.entries[self.touched[at]].as_mut() {
                entry.prepare();
            }
        }
        let mut kept = 0;
        for at in 0..self.touched.len() {
            let slot = self.touched[at];
            let Some(entry) = self.entries.get_mut(slot).and_then(Option::as_mut) else { continue };
            entry.is_touched = false;
            let is_left = entry.publish(entry.group.and_then(&is_adequate).unwrap_or(true));
            if is_left {
                entry.is_touched = true;
                self.touched[kept] = slot;
                kept += 1;
            } else if entry.is_over {
                self.remove(slot);
            }
        }
        self.touched.truncate(kept);
    }

    /// Forgets a group of which nothing is left.
    fn remove(&mut self, slot: usize) {
        let Some(entry) = self.entries[slot].take() else { return };
        if self.names.get(&entry.shared.name) == Some(&slot) {
            self.names.remove(&entry.shared.name);
            self.forgotten.push(Arc::clone(&entry.shared.name));
        }
        self.numbers.retain(|_, other| *other != slot);
        self.busy.retain(|other| *other != slot);
        self.latest = (GroupId(0), usize::MAX);
        drop(entry);
        for merged in &mut self.merged {
            merged.take_if(|outlet| Rc::strong_count(outlet) == 1 && outlet.borrow().is_discarding());
        }
    }

    /// The thread ends.
    pub(super) fn end(&mut self) {
        self.entries.iter_mut().flatten().for_each(Entry::apply);
        for entry in self.entries.iter_mut().flatten() {
            entry.end_with_thread();
        }
    }

    /// This incarnation is over in all groups.
    fn end_incarnation(&mut self, is_final: bool, reason: LeaveReason) {
        let was = MemberId::of(self.me);
        for slot in 0..self.entries.len() {
            let Some(entry) = self.touch(slot).filter(|entry| !entry.is_over) else { continue };
            entry.apply();
            if reason == LeaveReason::Left {
                entry.end(Some(Next::Left(reason)), Phase::Left(reason));
            } else if is_final {
                entry.end(Some(Next::Excluded { was }), Phase::Left(reason));
            } else {
                let was_in = entry.view.is_some();
                entry.end_life();
                if was_in {
                    entry.stage(Next::Excluded { was });
                    entry.set_phase(Phase::Member);
                }
            }
        }
        self.me = Incarnation::NONE;
    }

    fn view(&mut self, view: &Arc<GroupView>) {
        let (cell_view, me, is_cell_adequate) = (self.cell_view.clone(), self.me, self.is_cell_adequate);
        let Some(entry) = self.number(view.group, &view.name) else { return };
        let seen = View::new(Arc::clone(view), cell_view, me);
        entry.apply();
        if let Some(replica) = &mut entry.replica {
            replica.view(&seen);
            replica.set_current(true);
        }
        // A state that made no sense is none: the group is left.
        entry.holds = entry.replica.as_ref().is_none_or(|replica| replica.is_sound()).then_some(view.group);
        entry.view = Some(seen.clone());
        entry.note_adequacy(is_cell_adequate);
        entry.stage(Next::View(seen));
        entry.set_phase(Phase::Member);
    }

    fn left(&mut self, group: GroupId, why: CoreReason) {
        let Some(entry) = self.numbered(group) else { return };
        entry.apply();
        let reason = LeaveReason::of(why);
        if why == CoreReason::Anew {
            entry.end_life();
            entry.stage(Next::Left(reason));
            entry.set_phase(Phase::Member);
        } else {
            entry.end(Some(Next::Left(reason)), Phase::Left(reason));
        }
    }

    fn state_end(&mut self, group: GroupId) {
        let Some(entry) = self.numbered(group) else { return };
        entry.apply();
        let completed = entry.replica.as_mut().map_or(Ok(()), |replica| replica.complete());
        if let Err(error) = completed {
            let shared = Arc::clone(&entry.shared);
            self.shared.notice(format!("the state of group {} makes no sense here: {error}; it is left", shared.name));
            shared.ask_to_leave();
        } else {
            entry.stage(Next::Current);
        }
    }
}

impl Handler for AppHandler {
    fn begin(&mut self, me: &MemberInfo) {
        // Without an event an incarnation ends when the process gives it up by itself. What was asked for since the event
        // waits for the next view. The core that knew whether enough members hold a state is gone.
        if self.me != Incarnation::NONE {
            self.entries.iter_mut().flatten().for_each(Entry::withhold);
            self.end_incarnation(false, LeaveReason::Unreachable);
        }
        self.me = me.incarnation;
        self.cell_view = None;
        let mut facts = self.shared.facts();
        (facts.me, facts.view) = (me.clone(), None);
    }

    fn ready(&mut self, inbox: InboxId) -> bool {
        // Nothing of the process itself waits for the application.
        if let Some(number) = merged_number(inbox) {
            let outlet = self.merged.get(number).and_then(Option::as_ref);
            return outlet.is_none_or(|outlet| outlet.borrow_mut().is_ready());
        }
        let Some(slot) = slot_of(inbox) else { return true };
        self.entry(slot).is_none_or(|entry| entry.is_over || entry.is_ready())
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
        if let Some(entry) = self.numbered(group) {
            entry.bind(view.0, seq.0);
        }
    }

    fn stable(&mut self, group: GroupId, view: ViewNumber, seq: Sequence) {
        if let Some(entry) = self.numbered(group) {
            entry.stabilize(view.0, seq.0);
        }
    }

    fn deliver(&mut self, delivery: &Delivery<'_>) {
        let message = Message::of(delivery, self.copier.copy(delivery.payload));
        let is_mine = delivery.sender == self.me;
        if let Some(entry) = self.numbered(delivery.group) {
            entry.deliver(message, is_mine);
        }
    }

    fn event(&mut self, event: Event) {
        if let Some(text) = notices::text(&event) {
            self.shared.notice(text);
        }
        match event {
            Event::CellView(view) => {
                self.cell_view = Some(Arc::clone(&view));
                self.is_cell_adequate = view.is_adequate();
                for slot in 0..self.entries.len() {
                    if let Some(entry) = self.touch(slot) {
                        entry.note_adequacy(view.is_adequate());
                    }
                }
                self.shared.facts().view = Some(view);
            }
            Event::GroupView(view) => self.view(&view),
            Event::GroupAdequacy { group, adequate, .. } => {
                let is_cell_adequate = self.is_cell_adequate;
                if let Some(entry) = self.numbered(group) {
                    entry.view = entry.view.as_ref().map(|view| view.with_adequate(adequate));
                    entry.note_adequacy(is_cell_adequate);
                    entry.stage(Next::Adequate(adequate));
                    entry.set_phase(Phase::Member);
                }
            }
            Event::GroupLeft { group, why } => self.left(group, why),
            Event::GroupRefused { name } => {
                if let Some(entry) = self.named(&name) {
                    entry.end(None, Phase::Refused);
                }
            }
            Event::GroupDiffers { name, has_state } => {
                if let Some(entry) = self.named(&name) {
                    entry.end(None, Phase::Differs { has_state });
                }
            }
            Event::GroupOrphaned { name, waits_for, .. } => {
                if let Some(entry) = self.named(&name) {
                    let for_members = waits_for.into_iter().map(|(_, name)| name).collect();
                    entry.stage(Next::Waiting { for_members });
                }
            }
            Event::GroupForgotten { name, .. } => {
                if let Some(entry) = self.named(&name) {
                    entry.stage(Next::Forgotten);
                }
            }
            Event::StateKept { group, name, .. } => {
                if let Some(entry) = self.number(group, &name) {
                    if let Some(replica) = &mut entry.replica {
                        replica.keep();
                    }
                    entry.stage(Next::Kept);
                }
            }
            Event::StateBegin { group, name, bytes } => {
                if let Some(entry) = self.number(group, &name) {
                    entry.apply();
                    entry.holds = None;
                    if let Some(replica) = &mut entry.replica {
                        replica.begin(bytes);
                    }
                    entry.stage(Next::Taking { bytes });
                }
            }
            Event::StateAnew { group, name } => {
                if let Some(entry) = self.number(group, &name) {
                    entry.apply();
                    entry.holds = None;
                    if let Some(replica) = &mut entry.replica {
                        replica.keep();
                    }
                    entry.stage(Next::Current);
                }
            }
            Event::StateEnd { group } => self.state_end(group),
            Event::Excluded { .. } | Event::Renounced { .. } => {
                self.end_incarnation(!self.rejoin, LeaveReason::Unreachable);
                self.shared.facts().view = None;
            }
            Event::EndInDoubt { .. } => self.shared.in_doubt.store(true, Ordering::SeqCst),
            Event::Left => {
                self.end_incarnation(true, LeaveReason::Left);
                self.shared.facts().view = None;
            }
            // The outcomes of messages follow from what was accepted, bound and stable.
            _ => {}
        }
    }

    fn snapshot(&mut self, group: GroupId) -> Option<Box<dyn Snapshot>> {
        let cell = Arc::clone(&self.shared);
        let entry = self.numbered(group)?;
        entry.apply();
        let name = Arc::clone(&entry.shared.name);
        let notice = move |why| cell.notice(format!("group {name}: {why}"));
        entry.replica.as_mut().map(|replica| replica.snapshot(Box::new(notice)))
    }

    fn restore(&mut self, group: GroupId, chunk: &[u8]) {
        if let Some(replica) = self.numbered(group).and_then(|entry| entry.replica.as_mut()) {
            replica.restore(chunk);
        }
    }

    fn keeps_state(&mut self, group: GroupId) -> bool {
        let keeps = |entry: &Entry| entry.holds == Some(group) && (entry.replica.is_some() || !entry.with_state);
        self.entries.iter().flatten().any(keeps)
    }
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

/// The core's name for the inbox of a slot.
fn inbox_of(slot: usize) -> InboxId {
    InboxId(u32::try_from(slot + 1).unwrap_or(u32::MAX))
}

fn slot_of(inbox: InboxId) -> Option<usize> {
    inbox.0.checked_sub(1).map(|slot| slot as usize)
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
