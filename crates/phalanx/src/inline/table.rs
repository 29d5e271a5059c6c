//! The groups of an inline process, and the handler that passes on what the core reports.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use phalanx_core as core;
use phalanx_core::{Delivery, Event, GroupId, InboxId, MemberInfo, Sequence, Uniformity, ViewNumber};
use phalanx_runtime::Handler;

use super::app::{App, InlineGroup, MessageRef};
use crate::error::DecodeError;
use crate::id::{LeaveReason, MemberId, Order};
use crate::layout::{Flags, Incoming, Outgoing, Taker, shown};
use crate::notices::{self, Notices};
use crate::tally::Tally;
use crate::view::View;

/// The groups, by slot. A slot is used again when its group is left.
pub(super) struct Table {
    me: core::Incarnation,
    rejoin: bool,
    cell_view: Option<Arc<core::CellView>>,
    slots: Vec<Slot>,
    names: BTreeMap<Arc<str>, usize>,
    numbers: BTreeMap<GroupId, usize>,
    /// The latest group: most messages have the same.
    latest: (GroupId, usize),
    notices: Notices,
    /// Whether this process left as one of the last, and left something behind.
    pub(super) in_doubt: bool,
    /// Notices of snapshots that are on their way to others.
    of_snapshots: Arc<Mutex<Vec<String>>>,
    /// The cell has as many members as agreed.
    is_cell_adequate: bool,
    /// Some group has multicasts that became stable, and the program was not told.
    pub(super) has_outcomes: bool,
    /// Something is to be done after the poll.
    pub(super) is_untidy: bool,
    /// Names whose groups are over, for the process to forget.
    forgotten: Vec<Arc<str>>,
}

pub(super) struct Slot {
    /// Grows when a membership ends.
    membership: u32,
    /// Why the one before ended.
    ended: LeaveReason,
    group: Option<Held>,
}

/// A group that this process is in, or joins.
struct Held {
    name: Arc<str>,
    with_state: bool,
    number: Option<GroupId>,
    /// The group whose complete state is here; kept through an exclusion.
    holds: Option<GroupId>,
    in_view: bool,
    /// The state of another member that is on its way.
    incoming: Option<Incoming>,
    /// What comes of it now is a domain that this process does not know.
    passes_over: bool,
    /// The state that was taken last makes no sense: the group is left.
    is_senseless: bool,
    leave: Leave,
    tally: Tally,
    /// Enough members hold the group's state, by the latest view that the program was told of.
    is_adequate: bool,
    /// Multicasts that became stable since the program was told: views, and numbers in them.
    reached: Vec<(u64, u64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leave {
    No,
    /// As soon as this process is in a view.
    Wanted,
    Asked,
}

impl Table {
    pub(super) fn new(me: core::Incarnation, rejoin: bool, warnings: Vec<String>) -> Self {
        Self {
            me,
            rejoin,
            cell_view: None,
            slots: Vec::new(),
            names: BTreeMap::new(),
            numbers: BTreeMap::new(),
            latest: (GroupId(0), usize::MAX),
            notices: Notices::from(warnings),
            in_doubt: false,
            of_snapshots: Arc::default(),
            is_cell_adequate: true,
            has_outcomes: false,
            is_untidy: false,
            forgotten: Vec::new(),
        }
    }

    pub(super) fn has_name(&self, name: &str) -> bool {
        self.names.contains_key(name)
    }

    /// Adds a group that is about to be joined.
    pub(super) fn add(&mut self, name: &str, with_state: bool) -> InlineGroup {
        let name: Arc<str> = name.into();
        let free = self.slots.iter().position(|slot| slot.group.is_none() && slot.membership < u32::MAX);
        let at = free.unwrap_or_else(|| {
            self.slots.push(Slot { membership: 0, ended: LeaveReason::Left, group: None });
            self.slots.len() - 1
        });
        self.names.insert(Arc::clone(&name), at);
        self.slots[at].group = Some(Held {
            name,
            with_state,
            number: None,
            holds: None,
            in_view: false,
            incoming: None,
            passes_over: false,
            is_senseless: false,
            leave: Leave::No,
            tally: Tally::default(),
            is_adequate: true,
            reached: Vec::new(),
        });
        self.key(at)
    }

    /// Takes a group back whose join was refused.
    pub(super) fn remove(&mut self, group: InlineGroup) {
        self.end(group.slot as usize, LeaveReason::Left);
    }

    fn key(&self, at: usize) -> InlineGroup {
        InlineGroup { slot: u32::try_from(at).unwrap_or(u32::MAX), membership: self.slots[at].membership }
    }

    #[inline]
    fn held(&mut self, group: InlineGroup) -> Option<&mut Held> {
        self.slots.get_mut(group.slot as usize).filter(|slot| slot.membership == group.membership)?.group.as_mut()
    }

    /// The number of a group; `Some(None)`: this process is in no view of it.
    #[inline]
    pub(super) fn number_in_view(&mut self, group: InlineGroup) -> Option<Option<GroupId>> {
        let held = self.held(group)?;
        Some(held.number.filter(|_| held.in_view))
    }

    /// The multicasts that were accepted and are not stable.
    pub(super) fn unstable(&self, group: InlineGroup) -> Option<u64> {
        let slot = self.slots.get(group.slot as usize).filter(|slot| slot.membership == group.membership)?;
        slot.group.as_ref().map(|held| held.tally.accepted - held.tally.stable)
    }

    /// The group shall be left; the error is why it was left before.
    pub(super) fn want_leave(&mut self, group: InlineGroup) -> Result<(), LeaveReason> {
        if let Some(held) = self.held(group) {
            if held.leave == Leave::No {
                held.leave = Leave::Wanted;
                self.is_untidy = true;
            }
            return Ok(());
        }
        let slot =
            self.slots.get(group.slot as usize).filter(|slot| slot.membership == group.membership.wrapping_add(1));
        Err(slot.map_or(LeaveReason::Left, |slot| slot.ended))
    }

    /// A group in a view that shall be left.
    pub(super) fn to_leave(&self) -> Option<(InlineGroup, GroupId)> {
        let due = |held: &Held| held.number.filter(|_| held.in_view && held.leave == Leave::Wanted);
        let mut slots = self.slots.iter().enumerate();
        slots.find_map(|(at, slot)| Some((self.key(at), slot.group.as_ref().and_then(due)?)))
    }

    pub(super) fn leave_asked(&mut self, group: InlineGroup) {
        if let Some(held) = self.held(group) {
            held.leave = Leave::Asked;
        }
    }

    pub(super) fn take_forgotten(&mut self) -> Vec<Arc<str>> {
        let names = std::mem::take(&mut self.forgotten);
        names.into_iter().filter(|name| !self.names.contains_key(name)).collect()
    }

    pub(super) fn take_notices(&mut self) -> Vec<String> {
        let late = std::mem::take(&mut *self.of_snapshots.lock().unwrap_or_else(PoisonError::into_inner));
        late.into_iter().for_each(|text| self.notice(text));
        self.notices.take()
    }

    pub(super) fn notice(&mut self, text: String) {
        self.notices.push(text);
    }

    #[inline]
    fn numbered(&mut self, group: GroupId) -> Option<usize> {
        if self.latest.0 != group {
            self.latest = (group, *self.numbers.get(&group)?);
        }
        Some(self.latest.1)
    }

    /// Learns the number of a named group.
    fn number(&mut self, group: GroupId, name: &str) -> Option<usize> {
        let at = *self.names.get(name)?;
        self.numbers.insert(group, at);
        self.latest = (GroupId(0), usize::MAX);
        self.slots[at].group.as_mut()?.number = Some(group);
        Some(at)
    }

    /// This process is out of the group for good.
    fn end(&mut self, at: usize, reason: LeaveReason) {
        let Some(slot) = self.slots.get_mut(at) else { return };
        let Some(held) = slot.group.take() else { return };
        (slot.membership, slot.ended) = (slot.membership + 1, reason);
        self.names.remove(&held.name);
        self.numbers.retain(|_, other| *other != at);
        self.latest = (GroupId(0), usize::MAX);
        self.forgotten.push(held.name);
        self.is_untidy = true;
    }
}

/// Passes on what the core reports.
pub(super) struct Adapter<'a, A> {
    pub(super) table: &'a mut Table,
    pub(super) app: &'a mut A,
}

impl<A: App> Adapter<'_, A> {
    /// The core accepted a multicast. `sent`: where it belongs, unless [`Handler::sent`] says that later.
    #[inline]
    pub(super) fn accepted(&mut self, group: InlineGroup, sent: Option<core::Sent>) {
        let Some(held) = self.table.held(group) else { return };
        held.tally.accepted += 1;
        if let Some(core::Sent { view, seq }) = sent {
            held.tally.bind(view.0, seq.0);
            self.app.sent(group, view.0, seq.0);
        }
    }

    /// Tells the program which multicasts are stable, in groups whose state enough members hold. `is_adequate`: whether they
    /// do, as far as the core knows.
    pub(super) fn tell_outcomes(&mut self, is_adequate: impl Fn(GroupId) -> Option<bool>) {
        self.table.has_outcomes = false;
        for at in 0..self.table.slots.len() {
            let Some(held) = &self.table.slots[at].group else { continue };
            if held.reached.is_empty() {
                continue;
            }
            if held.number.and_then(&is_adequate).unwrap_or(true) && held.is_adequate && self.table.is_cell_adequate {
                self.tell_stable(at);
            } else {
                self.table.has_outcomes = true;
            }
        }
    }

    fn tell_stable(&mut self, at: usize) {
        let key = self.table.key(at);
        let Some(held) = self.table.slots[at].group.as_mut() else { return };
        for (view, seq) in held.reached.drain(..) {
            held.tally.stabilize(view, seq);
            self.app.stable(key, view, seq);
        }
    }

    /// The group's multicasts of this incarnation have come to their end.
    fn end_life(&mut self, at: usize) {
        if self.table.slots[at].group.as_ref().is_some_and(|held| held.is_adequate) && self.table.is_cell_adequate {
            self.tell_stable(at);
        }
        let Some(held) = self.table.slots[at].group.as_mut() else { return };
        let Tally { accepted, sent, stable, .. } = std::mem::take(&mut held.tally);
        held.in_view = false;
        held.reached.clear();
        if accepted > stable {
            let key = self.table.key(at);
            self.app.lost(key, accepted - sent, sent - stable);
        }
    }

    /// This incarnation is over in all groups.
    fn end_incarnation(&mut self, is_final: bool, reason: LeaveReason) {
        for at in 0..self.table.slots.len() {
            self.end_life(at);
        }
        if reason != LeaveReason::Left {
            self.app.excluded(MemberId::of(self.table.me));
        }
        for at in 0..self.table.slots.len() {
            let Some(held) = &self.table.slots[at].group else { continue };
            // The process does not join a group again that it had asked to leave.
            let is_left = held.leave == Leave::Asked;
            if is_final || is_left {
                let reason = if is_left { LeaveReason::Left } else { reason };
                self.app.left(self.table.key(at), reason);
                self.table.end(at, reason);
            }
        }
        self.table.numbers.clear();
        self.table.latest = (GroupId(0), usize::MAX);
        self.table.cell_view = None;
        self.table.me = core::Incarnation::NONE;
        // The next incarnation numbers its groups anew.
        for slot in &mut self.table.slots {
            if let Some(held) = &mut slot.group {
                held.number = None;
            }
        }
    }

    fn view(&mut self, view: &Arc<core::GroupView>) {
        let Some(at) = self.table.number(view.group, &view.name) else { return };
        let seen = View::new(Arc::clone(view), self.table.cell_view.clone(), self.table.me);
        let key = self.table.key(at);
        if let Some(held) = &mut self.table.slots[at].group {
            (held.in_view, held.holds) = (true, Some(view.group));
            held.is_adequate = view.adequate;
            // A leave that waited for a view, or that an earlier incarnation asked for.
            self.table.is_untidy |= held.leave == Leave::Wanted;
        }
        self.app.view(key, &seen);
    }

    fn left(&mut self, group: GroupId, why: core::LeaveReason) {
        let Some(at) = self.table.numbered(group) else { return };
        let reason = LeaveReason::of(why);
        self.end_life(at);
        let key = self.table.key(at);
        self.app.left(key, reason);
        if why != core::LeaveReason::Anew {
            self.table.end(at, reason);
        }
    }

    fn state_end(&mut self, group: GroupId) {
        let Some(at) = self.table.numbered(group) else { return };
        let Some(held) = self.table.slots[at].group.as_mut() else { return };
        if let Some(incoming) = held.incoming.take()
            && !incoming.is_complete()
            && !held.is_senseless
        {
            self.make_no_sense(at, &DecodeError::new("a part of it is missing"));
        }
        let is_senseless = self.table.slots[at].group.as_ref().is_some_and(|held| held.is_senseless);
        self.tell(Some(at).filter(|_| !is_senseless), A::current);
    }

    /// The state that another member sent makes no sense here: the group is left.
    fn make_no_sense(&mut self, at: usize, error: &DecodeError) {
        let Some(held) = self.table.slots[at].group.as_mut() else { return };
        held.is_senseless = true;
        let text = format!("the state of group {} makes no sense here: {error}; it is left", held.name);
        if held.leave == Leave::No {
            held.leave = Leave::Wanted;
        }
        self.table.is_untidy = true;
        self.table.notice(text);
    }

    /// Calls the program about a group.
    fn tell(&mut self, at: Option<usize>, call: impl FnOnce(&mut A, InlineGroup)) {
        if let Some(at) = at.filter(|at| self.table.slots[*at].group.is_some()) {
            call(self.app, self.table.key(at));
        }
    }
}

impl<A: App> Handler for Adapter<'_, A> {
    fn begin(&mut self, me: &MemberInfo) {
        // Without an event an incarnation ends when the process gives it up by itself, before it was in a view.
        if self.table.me != core::Incarnation::NONE && self.table.me != me.incarnation {
            // The core that knew whether enough members hold a state is gone, so what was withheld ends in doubt.
            self.table.slots.iter_mut().flat_map(|slot| &mut slot.group).for_each(|held| held.is_adequate = false);
            self.end_incarnation(false, LeaveReason::Unreachable);
        }
        self.table.me = me.incarnation;
    }

    fn ready(&mut self, inbox: InboxId) -> bool {
        // Nothing of the process itself waits for the program.
        let Some(at) = slot_of(inbox).filter(|at| *at < self.table.slots.len()) else { return true };
        self.table.slots[at].group.is_none() || self.app.ready(self.table.key(at))
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
        let Some(at) = self.table.numbered(group) else { return };
        if let Some(held) = &mut self.table.slots[at].group {
            held.tally.bind(view.0, seq.0);
            self.app.sent(self.table.key(at), view.0, seq.0);
        }
    }

    fn stable(&mut self, group: GroupId, view: ViewNumber, seq: Sequence) {
        let Some(at) = self.table.numbered(group) else { return };
        if let Some(held) = &mut self.table.slots[at].group {
            // Told after the poll, when the core knows what follows the view.
            match held.reached.last_mut() {
                Some((last, up_to)) if *last == view.0 => *up_to = seq.0,
                _ => held.reached.push((view.0, seq.0)),
            }
            self.table.has_outcomes = true;
        }
    }

    #[inline]
    fn deliver(&mut self, delivery: &Delivery<'_>) {
        let Some(at) = self.table.numbered(delivery.group) else { return };
        if self.table.slots[at].group.as_ref().is_none_or(|held| held.is_senseless) {
            return;
        }
        self.app.message(&MessageRef {
            group: self.table.key(at),
            view: delivery.view.0,
            sender: MemberId::of(delivery.sender),
            seq: delivery.seq.0,
            order: Order::of(delivery.order),
            uniform: delivery.uniformity.is_uniform(),
            position: delivery.position,
            replayed: delivery.replayed,
            payload: delivery.payload,
        });
    }

    fn event(&mut self, event: Event) {
        if let Some(text) = notices::text(&event) {
            self.table.notice(text);
        }
        match event {
            Event::CellView(view) => {
                self.table.is_cell_adequate = view.is_adequate();
                self.table.cell_view = Some(view);
            }
            Event::GroupView(view) => self.view(&view),
            Event::GroupAdequacy { group, adequate, .. } => {
                let at = self.table.numbered(group);
                if let Some(held) = at.and_then(|at| self.table.slots[at].group.as_mut()) {
                    held.is_adequate = adequate;
                }
                self.tell(at, |app, key| app.adequate(key, adequate));
            }
            Event::GroupLeft { group, why } => self.left(group, why),
            Event::GroupRefused { name } | Event::GroupDiffers { name, .. } => {
                let at = self.table.names.get(&name).copied();
                self.tell(at, A::refused);
                at.into_iter().for_each(|at| self.table.end(at, LeaveReason::Left));
            }
            Event::GroupOrphaned { name, waits_for, .. } => {
                let names: Vec<String> = waits_for.into_iter().map(|(_, name)| name).collect();
                let at = self.table.names.get(&name).copied();
                self.tell(at, |app, key| app.waiting(key, &names));
            }
            Event::GroupForgotten { name, .. } => {
                let at = self.table.names.get(&name).copied();
                self.tell(at, A::forgotten);
            }
            Event::StateKept { group, name, .. } => {
                let at = self.table.number(group, &name);
                if let Some(held) = at.and_then(|at| self.table.slots[at].group.as_mut()) {
                    (held.incoming, held.is_senseless) = (None, false);
                }
                self.tell(at, A::kept);
            }
            Event::StateBegin { group, name, bytes } => {
                let at = self.table.number(group, &name);
                if let Some(held) = at.and_then(|at| self.table.slots[at].group.as_mut()) {
                    (held.holds, held.incoming) = (None, Some(Incoming::default()));
                    held.is_senseless = false;
                }
                self.tell(at, |app, key| app.taking(key, bytes));
            }
            Event::StateAnew { group, name } => {
                let at = self.table.number(group, &name);
                if let Some(held) = at.and_then(|at| self.table.slots[at].group.as_mut()) {
                    (held.holds, held.incoming, held.is_senseless) = (None, None, false);
                }
                self.tell(at, |app, key| app.taking(key, 0));
                self.tell(at, A::current);
            }
            Event::StateEnd { group } => self.state_end(group),
            Event::Excluded { .. } | Event::Renounced { .. } => {
                self.end_incarnation(!self.table.rejoin, LeaveReason::Unreachable);
            }
            Event::EndInDoubt { .. } => self.table.in_doubt = true,
            Event::Left => self.end_incarnation(true, LeaveReason::Left),
            // The outcomes of multicasts follow from what was accepted, bound and stable.
            _ => {}
        }
    }

    fn snapshot(&mut self, group: GroupId) -> Option<Box<dyn core::Snapshot>> {
        let at = self.table.numbered(group)?;
        let held = self.table.slots[at].group.as_ref()?;
        if !held.with_state {
            return None;
        }
        let notices = Arc::clone(&self.table.of_snapshots);
        let name = Arc::clone(&held.name);
        let notice = Box::new(move |text: String| {
            notices.lock().unwrap_or_else(PoisonError::into_inner).push(format!("group {name}: {text}"));
        });
        if held.is_senseless {
            return Some(Box::new(Outgoing::failed(notice)));
        }
        let snapshot = self.app.snapshot(self.table.key(at))?;
        let mut outgoing = Outgoing::new(notice);
        // The state itself is the domain without a name.
        outgoing.add("", false, snapshot);
        Some(Box::new(outgoing))
    }

    fn restore(&mut self, group: GroupId, chunk: &[u8]) {
        let Some(at) = self.table.numbered(group) else { return };
        let key = self.table.key(at);
        let Some(held) = self.table.slots[at].group.as_mut() else { return };
        let Some(incoming) = held.incoming.as_mut().filter(|_| !held.is_senseless) else { return };
        let mut part = Part { app: self.app, key, passes_over: &mut held.passes_over };
        if let Err(error) = incoming.take(chunk, &mut part) {
            self.make_no_sense(at, &error);
        }
    }

    fn keeps_state(&mut self, group: GroupId) -> bool {
        let holds = |slot: &Slot| slot.group.as_ref().is_some_and(|held| held.holds == Some(group));
        let found = self.table.slots.iter().position(holds);
        found.is_some_and(|at| {
            let key = self.table.key(at);
            self.app.keeps_state(key)
        })
    }
}

/// The program, as the taker of a group's state.
struct Part<'a, A> {
    app: &'a mut A,
    key: InlineGroup,
    passes_over: &'a mut bool,
}

impl<A: App> Taker for Part<'_, A> {
    fn begin(&mut self, name: &str, flags: Flags) -> Result<(), DecodeError> {
        *self.passes_over = !name.is_empty();
        if *self.passes_over && !flags.is_optional {
            return Err(DecodeError::new(format!("it has {}, which this process does not know", shown(name))));
        }
        Ok(())
    }

    fn bytes(&mut self, bytes: &[u8], is_end: bool) -> Result<(), DecodeError> {
        if *self.passes_over { Ok(()) } else { self.app.restore(self.key, bytes, is_end) }
    }

    fn end(&mut self) -> Result<(), DecodeError> {
        Ok(())
    }
}

/// The core's name for the inbox of a group.
pub(super) fn inbox_of(group: InlineGroup) -> InboxId {
    InboxId(group.slot + 1)
}

fn slot_of(inbox: InboxId) -> Option<usize> {
    inbox.0.checked_sub(1).map(|slot| slot as usize)
}

#[cfg(test)]
mod tests {
    use phalanx_core::{GroupTerms, GroupView};

    use super::*;

    #[derive(Default)]
    struct Told {
        stable: Vec<(u64, u64)>,
        lost: Vec<(u64, u64)>,
    }

    impl App for Told {
        fn view(&mut self, _group: InlineGroup, _view: &View) {}

        fn message(&mut self, _message: &MessageRef<'_>) {}

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
        MemberInfo { incarnation: core::Incarnation(incarnation), ..process.node().settings().me.clone() }
    }

    /// The view that has too few still waits for the program, so the core alone knows of it. An incarnation that the
    /// process gives up by itself takes that knowledge with it.
    #[test]
    fn what_was_withheld_is_in_doubt_when_the_incarnation_is_given_up() {
        let me = [me(1), me(2)];
        let mut table = Table::new(me[0].incarnation, true, Vec::new());
        let mut app = Told::default();
        let group = table.add("g", false);
        let mut adapter = Adapter { table: &mut table, app: &mut app };
        adapter.begin(&me[0]);
        let view = GroupView {
            group: GroupId(1),
            name: "g".into(),
            view: ViewNumber(7),
            prev: None,
            members: Vec::new(),
            joined: Vec::new(),
            left: Vec::new(),
            incomplete: Vec::new(),
            observers: Vec::new(),
            has_state: None,
            terms: GroupTerms::default(),
            adequate: true,
        };
        adapter.event(Event::GroupView(Arc::new(view)));
        for seq in 1..=2 {
            assert_eq!(adapter.table.number_in_view(group), Some(Some(GroupId(1))));
            adapter.accepted(group, Some(core::Sent { view: ViewNumber(7), seq: Sequence(seq) }));
        }
        adapter.stable(GroupId(1), ViewNumber(7), Sequence(1));
        adapter.tell_outcomes(|_| Some(true));
        adapter.stable(GroupId(1), ViewNumber(7), Sequence(2));
        adapter.tell_outcomes(|_| Some(false));
        assert_eq!(adapter.app.stable, [(7, 1)], "the core knows of too few");
        adapter.begin(&me[1]);
        assert_eq!((&adapter.app.stable[..], &adapter.app.lost[..]), (&[(7, 1)][..], &[(0, 1)][..]));
    }
}
