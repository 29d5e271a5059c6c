//! Adequacy of a view: whether it has as many members as were agreed. In an inadequate view no uniform message is sent.
//!
//! In the cell all members count. In a group the members that hold its state count: those that founded it, those that
//! joined without taking the state, and those that reported it complete. These reports exist from level 2 on, and only
//! where the terms require more than one member. A member reports when its state becomes complete, and again to each
//! member that joins.

use std::collections::BTreeMap;

use super::{Process, REQUESTS_MAX, Stage};
use crate::api::{Event, GroupTerms};
use crate::id::{GroupId, Incarnation, LEVEL, ViewNumber};
use crate::member::{Agreed, Control, Directory, GroupChange};
use crate::wire::{DropReason, Space};

/// The level from which on a group's minimum is in force: from it on, members announce whether they hold a group's
/// state.
const GROUP_MINIMA_LEVEL: u16 = 2;

/// Groups, per process, whose state it announced before it is a member of them here. A sender is at most one decree
/// ahead, and a decree brings it into no more groups than it may request at a time.
const EARLY_STATES_MAX: usize = REQUESTS_MAX;
const _: () = assert!(GROUP_MINIMA_LEVEL <= LEVEL, "a build knows the levels that it has rules for");

/// Which processes are known to hold the state of which group, each with the latest view in which it was announced.
#[derive(Debug, Default)]
pub(super) struct StateHolders(BTreeMap<(Incarnation, GroupId), ViewNumber>);

impl StateHolders {
    fn note(&mut self, who: Incarnation, group: GroupId, view: ViewNumber) {
        let since = self.0.entry((who, group)).or_default();
        *since = view.max(*since);
    }

    /// Notes what another process announced. Returns false if it announced too many groups in which it is not a member
    /// here yet.
    fn note_said(&mut self, directory: &Directory, who: Incarnation, group: GroupId, view: ViewNumber) -> bool {
        let is_member = |group| directory.groups.get(group).is_some_and(|entry| entry.members.contains(&who));
        let all = (who, GroupId(0))..=(who, GroupId(u32::MAX));
        let early = || self.0.range(all).filter(|((_, group), _)| !is_member(group)).count();
        let has_room = is_member(&group) || self.0.contains_key(&(who, group)) || early() < EARLY_STATES_MAX;
        if has_room {
            self.note(who, group, view);
        }
        has_room
    }

    fn holds(&self, who: Incarnation, group: GroupId) -> bool {
        self.0.contains_key(&(who, group))
    }

    /// Forgets processes that left the cell or the group. Announcements for a view that is not installed here yet are
    /// kept.
    fn forget_departed(&mut self, directory: &Directory) {
        self.0.retain(|(who, group), since| {
            let is_member = directory.rank(*who).is_some();
            is_member
                && match directory.groups.get(group) {
                    Some(entry) => entry.members.contains(who) || *since > entry.view,
                    None => group.0 >= directory.next_group,
                }
        });
    }
}

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

    /// Follows the directory that came into force: processes that left hold nothing any more.
    pub(super) fn forget_state_holders(&mut self) {
        self.state_holders.forget_departed(&self.directory);
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
        if !self.asks_for_members(terms) || self.transfers.is_incomplete(group) {
            return;
        }
        for &to in others.iter().filter(|who| **who != me) {
            debug_assert!(self.directory.groups.contains_key(&group), "a state is of a group that there is");
            self.send_control(to, &Control::HoldsState { group, view });
        }
    }

    /// Makes holders announce themselves when the cell rises to the level from which on minima of groups are in force.
    pub(super) fn bring_group_minima(&mut self, former_level: u16) {
        if former_level < GROUP_MINIMA_LEVEL && self.directory.level >= GROUP_MINIMA_LEVEL {
            let groups: Vec<GroupId> =
                self.group_streams.values().map(|view_streams| view_streams.meta.group).collect();
            groups.into_iter().for_each(|group| self.announce_state_to_group(group));
        }
    }

    /// Re-evaluates which groups may send uniform messages, and reports changes within a view to the application.
    pub(super) fn evaluate_adequacy(&mut self) {
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

    fn asks_for_members(&self, terms: GroupTerms) -> bool {
        terms.members_min > 1 && self.directory.level >= GROUP_MINIMA_LEVEL
    }

    /// Whether at least `terms.members_min` members are known to hold the group's state.
    fn is_group_adequate(&self, group: GroupId, terms: GroupTerms) -> bool {
        let me = self.me();
        let Some(entry) = self.directory.groups.get(&group) else { return false };
        let holds = |who: &&Incarnation| match **who == me {
            true => !self.transfers.is_incomplete(group),
            false => self.state_holders.holds(**who, group),
        };
        entry.members.iter().filter(holds).count() >= usize::from(terms.members_min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Tags;

    fn directory(view: ViewNumber, members: &[u64]) -> Directory {
        let info =
            |number: u64| crate::id::MemberInfo { incarnation: Incarnation(number), ..crate::process::tests::member() };
        let mut directory = Directory::found((1..=3).map(info).collect(), 2, Tags::default());
        let members = members.iter().copied().map(Incarnation).collect();
        let entry =
            crate::member::GroupEntry { name: "g".into(), view, space: Space(1), members, tail: Tags::default() };
        directory.groups.insert(GroupId(1), entry);
        directory.next_group = 2;
        directory
    }

    #[test]
    fn who_left_holds_nothing_and_what_is_said_early_is_kept() {
        let mut holders = StateHolders::default();
        for (who, group, view) in [(1, 1, 2), (2, 1, 2), (3, 1, 4), (2, 2, 1), (3, 0, 1), (9, 1, 4)] {
            holders.note(Incarnation(who), GroupId(group), ViewNumber(view));
        }
        holders.forget_departed(&directory(ViewNumber(3), &[1]));
        let left: Vec<_> = holders.0.into_iter().map(|((who, group), view)| (who.0, group.0, view.0)).collect();
        assert_eq!(left, [(1, 1, 2), (2, 2, 1), (3, 1, 4)], "a member; of a group and of a view to come");
    }

    #[test]
    fn of_groups_that_a_process_is_not_in_yet_it_says_that_it_holds_a_bounded_number() {
        let (mut holders, directory) = (StateHolders::default(), directory(ViewNumber(3), &[1]));
        let mut said = |who, group| holders.note_said(&directory, Incarnation(who), GroupId(group), ViewNumber(1));
        let groups = u32::try_from(EARLY_STATES_MAX).expect("small");
        assert!((2..2 + groups).all(|group| said(1, group)));
        assert!(!said(1, 2 + groups) && said(1, 2) && said(1, 1) && said(2, 2 + groups), "its own groups always");
    }
}
