//! Adequacy of a view: whether it has as many members as were agreed. In an inadequate view no uniform message is sent.
//!
//! The same knowledge names the members that are expected to answer an ask.
//!
//! In the cell all members count. In a group the members that hold its state count: those that founded it, those that
//! joined without taking the state, and those that reported it complete. These reports exist from level 2 on where the
//! terms require more than one member, and from level 9 on in all groups that may have a state. A member reports when its
//! state becomes complete, and again to each member that joins.

mod state_holders;

use super::group_streams::GroupStreams;
use super::{Process, Stage};
use crate::api::{Event, GroupTerms};
use crate::id::{GroupId, Incarnation, LEVEL, ViewNumber};
use crate::member::{Agreed, Control, GroupChange, GroupEntry};
use crate::wire::{DropReason, Space};

pub(super) use state_holders::StateHolders;

/// The level from which on a group's minimum is in force: from it on, members announce whether they hold a group's
/// state.
const GROUP_MINIMA_LEVEL: u16 = 2;

/// The level from which on members ask their group.
pub const ASKS_LEVEL: u16 = 9;

const _: () = assert!(GROUP_MINIMA_LEVEL <= ASKS_LEVEL, "who announces a state for asks does so for minima");
const _: () = assert!(ASKS_LEVEL <= LEVEL, "a build knows the levels that it has rules for");

impl Process {
    /// Handles a member's announcement that it holds a group's state.
    pub(super) fn handle_holds_state(&mut self, from: Incarnation, group: GroupId, view: ViewNumber) {
        let is_searching = matches!(self.stage, Stage::Searching(_));
        if !is_searching && self.directory.rank(from).is_none() {
            return;
        }
        if !self.state_holders.note_said(&self.directory, from, group, view) {
            return self.counters.drop(DropReason::Overload);
        }
        self.evaluate_adequacy();
    }

    /// Starts a group's view, and returns whether it is adequate as far as is known. `came`: this process joined with
    /// it.
    pub(super) fn enter_adequacy(&mut self, change: &GroupChange, came: bool, terms: GroupTerms) -> bool {
        if change.cut.is_none() {
            // A group that this view founds has no state to take, so its first members hold it.
            for &who in &change.joined {
                self.state_holders.note(who, change.group, change.view);
            }
        }
        // A process that just came into an existing group does not know yet which members hold the state.
        !self.asks_for_members(terms) || (!came || change.cut.is_none()) && self.is_group_adequate(change.group, terms)
    }

    /// Announces the state held here to those that came with a group's view, or to all members if this process came
    /// with it.
    pub(super) fn announce_state_to_new_members(&mut self, change: &GroupChange, came: bool) {
        if change.cut.is_none() {
            return; // a founded group: every member holds its state already
        }
        let others: Vec<Incarnation> = match came {
            true => self.directory.groups.get(&change.group).map(|entry| entry.members.clone()).unwrap_or_default(),
            false => change.joined.clone(),
        };
        self.announce_state_held(change.group, &others);
    }

    /// Announces that the state of a group became complete here, or that its terms came into force.
    pub(super) fn announce_state_to_group(&mut self, group: GroupId) {
        let others = self.directory.groups.get(&group).map(|entry| entry.members.clone()).unwrap_or_default();
        self.announce_state_held(group, &others);
        self.evaluate_adequacy();
    }

    fn announce_state_held(&mut self, group: GroupId, others: &[Incarnation]) {
        let me = self.me();
        let Some(view_streams) = self.group_streams.values().find(|view_streams| view_streams.meta.group == group)
        else {
            return;
        };
        let (terms, view) = (view_streams.meta.terms, view_streams.meta.view);
        let has_state = self.directory.groups.get(&group).and_then(GroupEntry::has_state);
        let is_told = self.directory.level >= ASKS_LEVEL && has_state != Some(false) || self.asks_for_members(terms);
        if !is_told || self.transfers.lacks_state(&self.directory, self.set.me.incarnation, group) {
            return;
        }
        for &to in others.iter().filter(|who| **who != me) {
            debug_assert!(self.directory.groups.contains_key(&group), "a state is of a group that there is");
            self.send_control(to, &Control::HoldsState { group, view });
        }
    }

    /// Makes holders announce themselves when the cell rises to a level from which on more of them do.
    pub(super) fn bring_group_minima(&mut self, former_level: u16) {
        let rises_to = |level| former_level < level && self.directory.level >= level;
        if rises_to(GROUP_MINIMA_LEVEL) || rises_to(ASKS_LEVEL) {
            let groups: Vec<GroupId> =
                self.group_streams.values().map(|view_streams| view_streams.meta.group).collect();
            groups.into_iter().for_each(|group| self.announce_state_to_group(group));
        }
    }

    /// Re-evaluates which groups may send uniform messages, and reports changes within a view to the application. So it does
    /// for the members that are expected to answer.
    pub(super) fn evaluate_adequacy(&mut self) {
        self.expect_answers();
        let cell = self.directory.members.len() >= Agreed::members_min(&self.directory.settings);
        let groups: Vec<(Space, bool)> = self
            .group_streams
            .iter()
            .map(|(&space, view_streams)| {
                let terms = view_streams.meta.terms;
                (space, !self.asks_for_members(terms) || self.is_group_adequate(view_streams.meta.group, terms))
            })
            .collect();
        for (space, adequate) in groups {
            let Some(view_streams) = self.group_streams.get_mut(&space) else { continue };
            view_streams.view_streams.set_adequate(cell && adequate);
            view_streams.touched = true;
            if std::mem::replace(&mut view_streams.meta.adequate, adequate) != adequate {
                let (group, view) = (view_streams.meta.group, view_streams.meta.view);
                let item = super::app::Item::Event(Event::GroupAdequacy { group, view, adequate });
                // Behind the group's view, which may itself wait for a state.
                self.transfers.hold(&mut self.app, item, group);
            }
        }
    }

    /// Names the members that asks from here on expect to answer: those that observe not and, in a group that may have a
    /// state, have it by the view or said so since.
    fn expect_answers(&mut self) {
        let Self { group_streams, directory, state_holders, transfers, set, .. } = self;
        if directory.level < ASKS_LEVEL {
            return;
        }
        let me = set.me.incarnation;
        for GroupStreams { view_streams, meta, .. } in group_streams.values_mut() {
            let Some(entry) = directory.groups.get(&meta.group) else { continue };
            let (has_state, observers) = (entry.has_state(), entry.observers());
            let holds = |who: Incarnation| match who == me {
                _ if has_state == Some(false) => true,
                true => !transfers.has_nothing_to_give(directory, me, meta.group),
                false => !meta.incomplete.contains(&who) || state_holders.holds(who, meta.group),
            };
            view_streams.ask_head.expect(meta.members.iter().map(|who| !observers.contains(who) && holds(*who)));
        }
    }

    /// Whether cell and group have as many members as agreed, in the latest views installed here, of which the application
    /// may not know yet. `None`: this process is in no view of the group.
    #[must_use]
    pub fn is_adequate(&self, group: GroupId) -> Option<bool> {
        let view_streams = self.group_streams.values().find(|view_streams| view_streams.meta.group == group)?;
        Some(view_streams.view_streams.is_adequate())
    }

    pub(super) fn asks_for_members(&self, terms: GroupTerms) -> bool {
        terms.members_min > 1 && self.directory.level >= GROUP_MINIMA_LEVEL
    }

    /// Whether at least `terms.members_min` members are known to hold the group's state.
    fn is_group_adequate(&self, group: GroupId, terms: GroupTerms) -> bool {
        let me = self.me();
        let Some(entry) = self.directory.groups.get(&group) else { return false };
        let holds = |who: &&Incarnation| match **who == me {
            true => !self.transfers.lacks_state(&self.directory, self.set.me.incarnation, group),
            false => self.state_holders.holds(**who, group) && !entry.has_observer(**who),
        };
        entry.members.iter().filter(holds).count() >= usize::from(terms.members_min)
    }
}
