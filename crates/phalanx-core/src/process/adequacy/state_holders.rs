//! Which members are known to hold the state of which group.

use std::collections::BTreeMap;

use crate::id::{GroupId, Incarnation, ViewNumber};
use crate::member::Directory;
use crate::process::REQUESTS_MAX;

/// Groups, per process, whose state it announced before it is a member of them here. A sender is at most one decree
/// ahead, and a decree brings it into no more groups than it may request at a time.
pub(super) const EARLY_STATES_MAX: usize = REQUESTS_MAX;

/// Which processes are known to hold the state of which group, each with the latest view in which it was announced.
#[derive(Debug, Default)]
pub(in crate::process) struct StateHolders(BTreeMap<(Incarnation, GroupId), ViewNumber>);

impl StateHolders {
    pub(super) fn note(&mut self, who: Incarnation, group: GroupId, view: ViewNumber) {
        let since = self.0.entry((who, group)).or_default();
        *since = view.max(*since);
    }

    /// Notes what another process announced. Returns false if it announced too many groups in which it is not a member
    /// here yet.
    pub(super) fn note_said(
        &mut self,
        directory: &Directory,
        who: Incarnation,
        group: GroupId,
        view: ViewNumber,
    ) -> bool {
        let is_member = |group| directory.groups.get(group).is_some_and(|entry| entry.members.contains(&who));
        let all = (who, GroupId(0))..=(who, GroupId(u32::MAX));
        let early = || self.0.range(all).filter(|((_, group), _)| !is_member(group)).count();
        let has_room = is_member(&group) || self.0.contains_key(&(who, group)) || early() < EARLY_STATES_MAX;
        if has_room {
            self.note(who, group, view);
        }
        has_room
    }

    pub(super) fn holds(&self, who: Incarnation, group: GroupId) -> bool {
        self.0.contains_key(&(who, group))
    }

    /// Forgets processes that left the cell or the group. Announcements for a view that is not installed here yet are
    /// kept.
    pub(in crate::process) fn forget_departed(&mut self, directory: &Directory) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Space, Tags};

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
