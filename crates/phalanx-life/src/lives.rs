//! All memberships of a process, by slot, and what the core reports of them.

mod asks;
mod to_one;

use std::collections::BTreeMap;
use std::sync::Arc;

use phalanx_core::{
    Delivery, Event, GroupId, GroupView, Incarnation, LeaveReason, Sent, Sequence, Snapshot, ViewNumber,
};
use phalanx_trace as trace;

use crate::front::{End, Front, Key, Refusal, ShownView, Step};
use crate::membership::{Leave, Membership};
use crate::messages::{NextMessage, Queued};
use crate::records::{Reason, Records};

pub use asks::Asking;
pub use to_one::MessagesToOne;

/// The memberships of a process: `G` is what the front keeps for each, `R` what waits for the outcome of a queued
/// message. Every method that tells something takes the [`Front`] to be told.
#[derive(Debug)]
pub struct Lives<G, R> {
    me: Incarnation,
    rejoin: bool,
    /// The cell has as many members as agreed, by its latest view that was handed over.
    is_cell_adequate: bool,
    /// A quorum is heard, as far as the application was told.
    is_primary: bool,
    slots: Vec<Slot<G, R>>,
    names: BTreeMap<Arc<str>, usize>,
    numbers: BTreeMap<GroupId, usize>,
    /// The latest group and its slot: most deliveries have the same.
    latest: (GroupId, usize),
    /// Slots with something to tell.
    news: Vec<usize>,
    /// Slots with messages that wait to be sent.
    busy: Vec<usize>,
    core_notes: CoreNotes,
    is_untidy: bool,
    records: Option<Records>,
}

#[derive(Debug)]
struct Slot<G, R> {
    /// Grows when a membership ends.
    membership: u32,
    /// How the one before ended.
    ended: End,
    held: Option<Membership<G, R>>,
}

/// What the core is to learn of memberships.
#[derive(Debug, Default)]
pub struct CoreNotes {
    /// Names whose memberships are over: their groups need not be told apart any more.
    pub forgotten: Vec<Arc<str>>,
    /// Groups whose state came and was refused: this process must not count among those that have it.
    pub refused: Vec<GroupId>,
}

impl<G, R> Lives<G, R> {
    /// Of a process that comes back after an exclusion, or not.
    #[must_use]
    pub fn new(rejoin: bool) -> Self {
        Self {
            me: Incarnation::NONE,
            rejoin,
            is_cell_adequate: true,
            is_primary: true,
            slots: Vec::new(),
            names: BTreeMap::new(),
            numbers: BTreeMap::new(),
            latest: NO_GROUP,
            news: Vec::new(),
            busy: Vec::new(),
            core_notes: CoreNotes::default(),
            is_untidy: false,
            records: None,
        }
    }

    /// Records from here on what is told about messages and memberships, for [`Self::take_records`]. `reason`: how a record
    /// names a reason to leave.
    pub fn record(&mut self, reason: Reason) {
        self.records = Some(Records::new(reason));
    }

    /// What was told since the last call, in that order within each group; empty if nothing is recorded.
    #[inline]
    pub fn take_records(&mut self) -> Vec<trace::Event> {
        self.records.as_mut().map_or_else(Vec::new, Records::take)
    }

    // Memberships.

    /// The key of the next membership. `own` of [`Self::add`] may hold it.
    #[must_use]
    pub fn next_key(&self) -> Key {
        let is_free = |slot: &Slot<G, R>| slot.held.is_none() && slot.membership < u32::MAX;
        let at = self.slots.iter().position(is_free).unwrap_or(self.slots.len());
        self.key(at)
    }

    /// Adds a group that is about to be joined. No other of its name is among them. `observes`: it never has the group's
    /// state.
    pub fn add(&mut self, name: Arc<str>, with_state: bool, observes: bool, own: G) -> Key {
        debug_assert!(!self.names.contains_key(&name), "one membership of a name at a time");
        let key = self.next_key();
        let at = key.slot as usize;
        if at == self.slots.len() {
            self.slots.push(Slot { membership: 0, ended: End::Left(LeaveReason::Left), held: None });
        }
        self.names.insert(Arc::clone(&name), at);
        self.slots[at].held = Some(Membership::new(name, with_state, observes, own));
        key
    }

    /// Takes a group back whose join was refused at once. Nothing is told.
    pub fn remove(&mut self, key: Key) -> Option<G> {
        self.held(key)?;
        self.take(key.slot as usize, End::Left(LeaveReason::Left))
    }

    /// This incarnation; [`Incarnation::NONE`] between two.
    #[must_use]
    pub fn me(&self) -> Incarnation {
        self.me
    }

    /// The name of a group that the core names by number.
    #[must_use]
    pub fn name_of(&mut self, group: GroupId) -> Option<Arc<str>> {
        self.numbered(group).map(|(_, held)| Arc::clone(&held.name))
    }

    /// The membership of a group that the core names by number.
    #[must_use]
    pub fn key_of(&mut self, group: GroupId) -> Option<Key> {
        self.numbered(group).map(|(key, _)| key)
    }

    /// The membership of this name.
    #[must_use]
    pub fn key_named(&self, name: &str) -> Option<Key> {
        self.names.get(name).map(|at| self.key(*at))
    }

    /// The membership in a slot.
    #[must_use]
    pub fn key_in(&self, slot: u32) -> Option<Key> {
        let at = slot as usize;
        self.slots.get(at)?.held.as_ref().map(|_| self.key(at))
    }

    /// What the front keeps for a membership.
    #[must_use]
    pub fn own(&mut self, key: Key) -> Option<&mut G> {
        self.held(key).map(|held| &mut held.own)
    }

    /// What the front keeps for each membership.
    pub fn owns(&mut self) -> impl Iterator<Item = (Key, &mut G)> {
        self.slots.iter_mut().enumerate().filter_map(|(at, slot)| {
            let key = key_of(at, slot.membership);
            slot.held.as_mut().map(|held| (key, &mut held.own))
        })
    }

    fn key(&self, at: usize) -> Key {
        key_of(at, self.slots.get(at).map_or(0, |slot| slot.membership))
    }

    #[inline]
    fn held(&mut self, key: Key) -> Option<&mut Membership<G, R>> {
        self.slots.get_mut(key.slot as usize).filter(|slot| slot.membership == key.membership)?.held.as_mut()
    }

    #[inline]
    fn look(&self, key: Key) -> Option<&Membership<G, R>> {
        self.slots.get(key.slot as usize).filter(|slot| slot.membership == key.membership)?.held.as_ref()
    }

    /// The membership of a group that the core names by number.
    #[inline]
    fn numbered(&mut self, group: GroupId) -> Option<(Key, &mut Membership<G, R>)> {
        if self.latest.0 != group {
            self.latest = (group, *self.numbers.get(&group)?);
        }
        self.at(self.latest.1)
    }

    #[inline]
    fn at(&mut self, at: usize) -> Option<(Key, &mut Membership<G, R>)> {
        let slot = self.slots.get_mut(at)?;
        let key = key_of(at, slot.membership);
        slot.held.as_mut().map(|held| (key, held))
    }

    /// Learns the number of a named group.
    fn number(&mut self, group: GroupId, name: &str) -> Option<(Key, &mut Membership<G, R>)> {
        let at = *self.names.get(name)?;
        self.numbers.insert(group, at);
        self.latest = NO_GROUP;
        self.slots.get_mut(at)?.held.as_mut()?.number = Some(group);
        self.at(at)
    }

    /// Frees the slot of a membership.
    fn take(&mut self, at: usize, end: End) -> Option<G> {
        let slot = self.slots.get_mut(at)?;
        let held = slot.held.take()?;
        (slot.membership, slot.ended) = (slot.membership + 1, end);
        self.names.remove(&held.name);
        self.numbers.retain(|_, other| *other != at);
        self.news.retain(|other| *other != at);
        self.busy.retain(|other| *other != at);
        self.latest = NO_GROUP;
        self.core_notes.forgotten.push(held.name);
        self.is_untidy = true;
        Some(held.own)
    }

    /// What the core is to learn since the last call.
    pub fn take_core_notes(&mut self) -> CoreNotes {
        let CoreNotes { mut forgotten, refused } = std::mem::take(&mut self.core_notes);
        forgotten.retain(|name| !self.names.contains_key(name));
        CoreNotes { forgotten, refused }
    }

    /// Whether names are to be forgotten, or groups left, since the last call.
    pub fn take_untidy(&mut self) -> bool {
        std::mem::take(&mut self.is_untidy)
    }

    // Leaves.

    /// A group shall be left, once this process is in a view and nothing of it waits to be sent.
    ///
    /// # Errors
    /// How it ended before.
    pub fn want_leave(&mut self, key: Key) -> Result<(), End> {
        if let Some(held) = self.held(key) {
            if held.leave == Leave::No {
                held.leave = Leave::Wanted;
                self.is_untidy = true;
            }
            return Ok(());
        }
        let slot = self.slots.get(key.slot as usize).filter(|slot| slot.membership == key.membership.wrapping_add(1));
        Err(slot.map_or(End::Left(LeaveReason::Left), |slot| slot.ended.clone()))
    }

    /// A group that is to be left now.
    #[must_use]
    pub fn to_leave(&self) -> Option<(Key, GroupId)> {
        let due = |slot: &Slot<G, R>| slot.held.as_ref().and_then(Membership::to_leave);
        self.slots.iter().enumerate().find_map(|(at, slot)| Some((self.key(at), due(slot)?)))
    }

    /// Whether some group waits to be left.
    #[must_use]
    pub fn wants_leave(&self) -> bool {
        self.slots.iter().filter_map(|slot| slot.held.as_ref()).any(|held| held.leave == Leave::Wanted)
    }

    /// The core was asked to leave a group.
    pub fn leave_asked(&mut self, key: Key) {
        if let Some(held) = self.held(key) {
            held.leave = Leave::Queued;
        }
    }

    // Messages.

    /// The number of a group; `Some(None)`: this process is in no view of it.
    #[inline]
    #[must_use]
    pub fn number_in_view(&self, key: Key) -> Option<Option<GroupId>> {
        self.look(key).map(Membership::number_in_view)
    }

    /// Queues something that was asked for in a group; gives it back if that membership is over.
    ///
    /// # Errors
    /// What was asked for.
    pub fn queue(&mut self, key: Key, asked: Queued<R>) -> Result<(), Queued<R>> {
        let Some(held) = self.held(key) else { return Err(asked) };
        held.push(asked);
        if !std::mem::replace(&mut held.is_busy, true) {
            self.busy.push(key.slot as usize);
        }
        Ok(())
    }

    /// The membership at place `at` among those with messages that wait to be sent.
    #[must_use]
    pub fn busy(&self, at: usize) -> Option<Key> {
        self.busy.get(at).map(|slot| self.key(*slot))
    }

    /// The messages to one member of the groups.
    pub fn to_one(&mut self) -> MessagesToOne<'_, G, R> {
        MessagesToOne(self)
    }

    /// The next multicast of a group that may be sent now. `None`: nothing waits, or the process is not in the group yet.
    pub fn due<F: Front<Group = G, Receipt = R>>(&mut self, key: Key, front: &mut F) -> Option<NextMessage> {
        let held = self.held(key)?;
        match held.due(key, front) {
            Ok(due) => Some(due),
            Err(is_idle) => {
                if is_idle {
                    held.is_busy = false;
                    self.busy.retain(|other| *other != key.slot as usize);
                }
                None
            }
        }
    }

    /// The core accepted the message that was due. `sent`: where it belongs, unless [`Self::sent`] says that later.
    pub fn accepted<F: Front<Group = G, Receipt = R>>(&mut self, key: Key, sent: Option<Sent>, front: &mut F) {
        if let Some(held) = self.held(key) {
            held.take_in(key, true, sent, front);
        }
    }

    /// The core accepted a message that was not queued here.
    #[inline]
    pub fn accepted_at_once<F: Front<Group = G, Receipt = R>>(&mut self, key: Key, sent: Option<Sent>, front: &mut F) {
        if let Some(held) = self.held(key) {
            held.take_in(key, false, sent, front);
        }
    }

    /// The core refused the message that was due, for good.
    pub fn refused<F: Front<Group = G, Receipt = R>>(&mut self, key: Key, why: Refusal, front: &mut F) {
        if let Some(held) = self.held(key) {
            held.refuse_front(key, why, front);
        }
    }

    /// The accepted messages of a membership that were not told as stable.
    #[must_use]
    pub fn unstable(&self, key: Key) -> Option<u64> {
        self.look(key).map(Membership::unstable)
    }

    /// A message was bound to a view.
    #[inline]
    pub fn sent<F: Front<Group = G, Receipt = R>>(
        &mut self,
        group: GroupId,
        view: ViewNumber,
        seq: Sequence,
        front: &mut F,
    ) {
        if let Some((key, held)) = self.numbered(group) {
            held.bind(key, view, seq, front);
        }
    }

    /// Every member has this process's messages of a view up to `seq`. Told by [`Self::tell`].
    pub fn stable(&mut self, group: GroupId, view: ViewNumber, seq: Sequence) {
        let Some((key, held)) = self.numbered(group) else { return };
        held.stabilize(view, seq);
        if !std::mem::replace(&mut held.has_news, true) {
            self.news.push(key.slot as usize);
        }
    }

    /// Whether outcomes are to be told.
    #[inline]
    #[must_use]
    pub fn has_news(&self) -> bool {
        !self.news.is_empty()
    }

    /// Tells outcomes, after the core's turn, when it knows what follows the view. What a group withholds waits.
    ///
    /// `is_adequate`: whether enough members hold a group's state, as far as the core knows: the view that has too few may
    /// still wait for the application. `None`: the core is in no view of the group any more, and what the application is
    /// yet to learn of its last ones decides.
    pub fn tell<F: Front<Group = G, Receipt = R>>(
        &mut self,
        is_adequate: impl Fn(GroupId) -> Option<bool>,
        front: &mut F,
    ) {
        let mut kept = 0;
        let mut records = self.records.take();
        for place in 0..self.news.len() {
            let at = self.news[place];
            let (me, may_tell, is_primary) = (self.me, self.is_cell_adequate, self.is_primary);
            let Some((key, held)) = self.at(at) else { continue };
            let may_tell = may_tell && held.is_adequate && held.number.and_then(&is_adequate) == Some(true);
            if may_tell {
                held.tell(key, front, &mut records);
            }
            if may_tell && (is_primary || !held.asks.is_waiting()) {
                held.has_news = false;
                held.tell_asks(me, front, &mut records);
            } else {
                self.news[kept] = at;
                kept += 1;
            }
        }
        self.news.truncate(kept);
        self.records = records;
    }

    /// A message was delivered.
    #[inline]
    pub fn deliver<F: Front<Group = G, Receipt = R>>(&mut self, delivery: &Delivery<'_>, front: &mut F) {
        let me = self.me;
        if delivery.asked.is_some() {
            return self.asks().deliver(delivery, front);
        }
        let Some((key, held)) = self.numbered(delivery.group) else { return };
        if !held.is_sound {
            return;
        }
        let counts = F::COUNTS_DELIVERED || delivery.domain.is_some();
        let is_news = counts && delivery.sender == me && !delivery.replayed;
        if is_news {
            held.tally.deliver();
        }
        front.deliver(key, &mut held.own, delivery);
        if is_news && !std::mem::replace(&mut held.has_news, true) {
            self.news.push(key.slot as usize);
        }
    }

    // The end of lives.

    /// An incarnation begins.
    pub fn begin<F: Front<Group = G, Receipt = R>>(&mut self, me: Incarnation, front: &mut F) {
        // Without an event an incarnation ends when the process gives it up by itself. The core that knew whether enough
        // members hold a state is gone with it, so what was withheld ends in doubt.
        if self.me != Incarnation::NONE && self.me != me {
            self.withhold();
            self.end_incarnation(false, LeaveReason::Unreachable, front);
        }
        self.me = me;
    }

    /// The process is over, and nobody asks the core any more: all memberships end, and what was withheld ends in doubt.
    pub fn end<F: Front<Group = G, Receipt = R>>(&mut self, front: &mut F) {
        self.withhold();
        for at in 0..self.slots.len() {
            self.end_membership(at, End::Over, front);
        }
    }

    /// No outcome of the present lives is told any more.
    fn withhold(&mut self) {
        self.slots.iter_mut().filter_map(|slot| slot.held.as_mut()).for_each(|held| held.is_adequate = false);
    }

    fn end_life<F: Front<Group = G, Receipt = R>>(&mut self, at: usize, is_final: bool, front: &mut F) {
        let (me, is_cell_adequate) = (self.me, self.is_cell_adequate);
        let mut records = self.records.take();
        if let Some((key, held)) = self.at(at) {
            let may_tell = held.is_adequate && is_cell_adequate;
            held.end_life((key, me), is_final, may_tell, front, &mut records);
        }
        self.records = records;
    }

    /// This process is out of a group for good.
    fn end_membership<F: Front<Group = G, Receipt = R>>(&mut self, at: usize, end: End, front: &mut F) {
        self.end_life(at, true, front);
        self.end_slot(at, end, front);
    }

    fn end_slot<F: Front<Group = G, Receipt = R>>(&mut self, at: usize, end: End, front: &mut F) {
        let key = self.key(at);
        if let (Some(records), Some(held)) = (&mut self.records, &self.slots[at].held) {
            records.ended(&held.name, &end);
        }
        if let Some(own) = self.take(at, end.clone()) {
            front.ended(key, own, end);
        }
    }

    /// This incarnation is over in all groups.
    fn end_incarnation<F: Front<Group = G, Receipt = R>>(
        &mut self,
        is_final: bool,
        reason: LeaveReason,
        front: &mut F,
    ) {
        let was = self.me;
        self.core_notes.refused.clear();
        let mut were_in = Vec::new();
        for at in 0..self.slots.len() {
            let Some((_, held)) = self.at(at) else { continue };
            // The process does not join a group again that it had asked to leave.
            let is_left = held.leave == Leave::Queued;
            were_in.push((at, held.in_view, is_left));
            self.end_life(at, is_final || is_left, front);
        }
        let is_excluded = reason != LeaveReason::Left;
        if is_excluded {
            front.excluded(was);
        }
        for (at, was_in, is_left) in were_in {
            if let Some((key, held)) = self.at(at).filter(|_| is_excluded && was_in) {
                front.step(key, &mut held.own, Step::Excluded { was });
            }
            if is_final || is_left {
                let reason = if is_left { LeaveReason::Left } else { reason };
                self.end_slot(at, End::Left(reason), front);
            }
        }
        // The next incarnation numbers its groups anew.
        self.slots.iter_mut().filter_map(|slot| slot.held.as_mut()).for_each(|held| held.number = None);
        self.numbers.clear();
        self.latest = NO_GROUP;
        self.me = Incarnation::NONE;
    }

    // What the core reports.

    /// An event of the core.
    pub fn event<F: Front<Group = G, Receipt = R>>(&mut self, event: Event, front: &mut F) {
        match event {
            Event::CellView(view) => (self.is_cell_adequate, self.is_primary) = (view.is_adequate(), true),
            Event::NonPrimary { .. } => self.is_primary = false,
            Event::Primary => self.is_primary = true,
            Event::GroupView(view) => self.view(&view, front),
            Event::GroupViewReplayed(view) => {
                let me = self.me;
                if let Some((key, held)) =
                    self.numbered(view.group).filter(|(_, held)| held.with_state && held.is_sound)
                {
                    front.step(key, &mut held.own, Step::ViewReplayed(ShownView { view: &view, me }));
                }
            }
            Event::GroupAdequacy { group, adequate, .. } => {
                if let Some((key, held)) = self.numbered(group) {
                    held.is_adequate = adequate;
                    front.step(key, &mut held.own, Step::Adequate(adequate));
                }
            }
            Event::GroupLeft { group, why } => self.left(group, why, front),
            Event::GroupRefused { name } => self.end_named(&name, End::Refused, front),
            Event::GroupDiffers { name, has_state } => self.end_named(&name, End::Differs { has_state }, front),
            Event::GroupDomains { name, mismatch } => self.end_named(&name, End::Domains(mismatch), front),
            Event::GroupOrphaned { name, waits_for, .. } => {
                if let Some(key) = self.key_named(&name)
                    && let Some(held) = self.held(key)
                {
                    front.step(key, &mut held.own, Step::Waiting(&waits_for));
                }
            }
            Event::GroupForgotten { name, .. } => {
                if let Some(key) = self.key_named(&name) {
                    self.step(key, Step::Forgotten, front);
                }
            }
            Event::StateKept { group, name, .. } => {
                if let Some((key, held)) = self.number(group, &name) {
                    held.begin_state(held.holds);
                    self.step(key, Step::Kept, front);
                }
            }
            Event::StateBegin { group, name, bytes, domains, .. } => {
                if let Some((key, held)) = self.number(group, &name) {
                    held.begin_state(None);
                    self.step(key, Step::Taking { bytes, domains: domains.as_ref() }, front);
                }
            }
            Event::StateAnew { group, name } => {
                if let Some((key, held)) = self.number(group, &name) {
                    held.begin_state(None);
                    self.step(key, Step::OwnState, front);
                }
            }
            Event::StateEnd { group } => self.state_end(group, front),
            Event::Excluded { .. } | Event::Renounced { .. } => {
                self.end_incarnation(!self.rejoin, LeaveReason::Unreachable, front);
            }
            Event::Left => self.end_incarnation(true, LeaveReason::Left, front),
            // The outcomes of messages follow from what was accepted, bound and stable. The rest is of the cell.
            _ => {}
        }
    }

    /// Tells a step of a membership, and records it.
    fn step<F: Front<Group = G, Receipt = R>>(&mut self, key: Key, step: Step<'_>, front: &mut F) {
        let Self { slots, records, .. } = self;
        let Some(held) = slots.get_mut(key.slot as usize).and_then(|slot| slot.held.as_mut()) else { return };
        records.iter_mut().for_each(|records| records.step(&held.name, &step));
        front.step(key, &mut held.own, step);
    }

    fn view<F: Front<Group = G, Receipt = R>>(&mut self, view: &Arc<GroupView>, front: &mut F) {
        let me = self.me;
        let Some((key, held)) = self.number(view.group, &view.name) else { return };
        (held.in_view, held.is_adequate) = (true, view.adequate);
        // A state that made no sense is none: the group is left.
        held.holds = (held.is_sound && !held.observes).then_some(view.group);
        held.forget_idle();
        // A leave that waited for a view, or that an earlier incarnation asked for.
        let wants_leave = held.leave == Leave::Wanted;
        held.view = Some(Arc::clone(view));
        self.step(key, Step::View(ShownView { view, me }), front);
        if let Some(held) = self.held(key) {
            held.hear_view(front);
        }
        self.asks().note(key);
        self.is_untidy |= wants_leave;
    }

    fn left<F: Front<Group = G, Receipt = R>>(&mut self, group: GroupId, why: LeaveReason, front: &mut F) {
        // What the application refused was the state of this stay. The process may have come again already.
        self.core_notes.refused.retain(|refused| *refused != group);
        let Some((key, held)) = self.numbered(group) else { return };
        let at = key.slot as usize;
        // The core does not join again a group that it was asked to leave.
        let why = if why == LeaveReason::Anew && held.leave == Leave::Queued { LeaveReason::Left } else { why };
        if why != LeaveReason::Anew {
            return self.end_membership(at, End::Left(why), front);
        }
        self.end_life(at, false, front);
        self.step(key, Step::Anew(why), front);
    }

    fn end_named<F: Front<Group = G, Receipt = R>>(&mut self, name: &str, end: End, front: &mut F) {
        if let Some(at) = self.names.get(name).copied() {
            self.end_membership(at, end, front);
        }
    }

    fn state_end<F: Front<Group = G, Receipt = R>>(&mut self, group: GroupId, front: &mut F) {
        let Some((key, held)) = self.numbered(group) else { return };
        // Of one that is refused already, a piece made no sense.
        if held.is_sound {
            match front.complete(key, &mut held.own) {
                Ok(()) => return self.step(key, Step::Current, front),
                Err(why) => self.makes_no_sense(key, &why, front),
            }
        }
        self.core_notes.refused.push(group);
        self.is_untidy = true;
    }

    /// The state that another member sent makes no sense here: the group is left.
    fn makes_no_sense<F: Front<Group = G, Receipt = R>>(&mut self, key: Key, why: &str, front: &mut F) {
        let Some(held) = self.held(key) else { return };
        held.is_sound = false;
        if held.leave == Leave::No {
            held.leave = Leave::Wanted;
        }
        front.notice(format!("the state of group {} makes no sense here: {why}; it is left", held.name));
        self.step(key, Step::Senseless, front);
        self.is_untidy = true;
    }

    /// A piece of another member's state.
    pub fn restore<F: Front<Group = G, Receipt = R>>(&mut self, group: GroupId, chunk: &[u8], front: &mut F) {
        let Some((key, held)) = self.numbered(group).filter(|(_, held)| held.is_sound) else { return };
        if let Err(why) = front.restore(key, &mut held.own, chunk) {
            self.makes_no_sense(key, &why, front);
        }
    }

    /// The present state of a group, for a member that joins.
    pub fn snapshot<F: Front<Group = G, Receipt = R>>(
        &mut self,
        group: GroupId,
        front: &mut F,
    ) -> Option<Box<dyn Snapshot>> {
        let (key, held) = self.numbered(group).filter(|(_, held)| held.with_state)?;
        front.snapshot(key, &mut held.own, &held.name, held.is_sound)
    }

    /// Whether the group's complete state is still here after an exclusion.
    pub fn keeps_state<F: Front<Group = G, Receipt = R>>(&mut self, group: GroupId, front: &mut F) -> bool {
        let held = holder(&self.slots, group).and_then(|at| self.at(at));
        held.is_some_and(|(key, held)| front.keeps_state(key, &mut held.own))
    }

    /// A digest of a group's state, for a trace; after an exclusion, of the state that was kept. `None`: the application
    /// gives none, or has no state that is the group's.
    pub fn digest<F: Front<Group = G, Receipt = R>>(&mut self, group: GroupId, front: &mut F) -> Option<u64> {
        // The next incarnation numbers the group only when it goes on with the state.
        let at = self.numbers.get(&group).copied().or_else(|| holder(&self.slots, group))?;
        let (key, held) = self.at(at)?;
        if held.with_state && held.is_sound { front.digest(key, &mut held.own) } else { None }
    }
}

/// The place of the membership that has this group's complete state.
fn holder<G, R>(slots: &[Slot<G, R>], group: GroupId) -> Option<usize> {
    slots.iter().position(|slot| slot.held.as_ref().is_some_and(|held| held.holds == Some(group)))
}

fn key_of(at: usize, membership: u32) -> Key {
    Key { slot: u32::try_from(at).unwrap_or(u32::MAX), membership }
}

/// No group has this number and this slot.
const NO_GROUP: (GroupId, usize) = (GroupId(0), usize::MAX);

#[cfg(test)]
mod tests;
