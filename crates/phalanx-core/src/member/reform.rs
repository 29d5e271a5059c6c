//! The record that a cell instance hands on when a survivor founds the next one (`docs/founding.md`).

use super::decree::GroupChange;
use super::waiting::{ANCESTORS_MAX, UNKNOWN_GROUPS, descend_from};
use super::{Directory, GroupEntry, PASSED_ON_LEVEL};
use crate::api::LeaveReason;
use crate::id::{CellInstance, DecreeNumber, Incarnation, MemberInfo, ViewNumber};
use crate::time::Instant;
use crate::wire::Tags;

/// What a survivor takes over from the instance that it renounced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inheritance {
    /// The instance.
    pub instance: CellInstance,
    /// What the decrees of the instance had decided.
    pub directory: Directory,
    /// Members that were proved dead.
    pub dead: Vec<Incarnation>,
    /// When it was renounced.
    pub at: Instant,
}

impl Inheritance {
    /// The directory of the next instance. `founder` is its only member, and each group waits for its former members.
    ///
    /// The next instance numbers views and groups differently from this one. This one may have decided more than the
    /// survivor knows, and two views with one number would differ.
    #[must_use]
    pub fn passed_on_to(&self, founder: MemberInfo) -> Directory {
        let before = &self.directory;
        let mut next = before.clone();
        next.groups = before.groups.iter().filter_map(|(id, entry)| Some((*id, self.passed_on(*id, entry)?))).collect();
        (next.decree, next.view) = (DecreeNumber::FIRST, ViewNumber::FIRST);
        next.next_group = before.next_group.saturating_add(UNKNOWN_GROUPS);
        debug_assert!(next.groups.values().all(GroupEntry::is_orphan), "each group waits for those that were in it");
        next.members = vec![founder];
        // Members of the earlier instance come back only as new incarnations.
        next.depart(before.members.iter().map(|member| member.incarnation));
        let mut ancestors = vec![self.instance];
        ancestors.extend(before.ancestors());
        ancestors.truncate(ANCESTORS_MAX);
        next.lose_nobody();
        next.forget_outcasts();
        next.forget_removals();
        descend_from(&mut next, &ancestors);
        next
    }

    fn passed_on(&self, group: crate::id::GroupId, entry: &GroupEntry) -> Option<GroupEntry> {
        let take_over = |mut entry: GroupEntry| {
            if self.directory.level < PASSED_ON_LEVEL {
                entry.take_over_once();
            } else {
                entry.take_over(1);
            }
            entry
        };
        if entry.is_orphan() {
            return Some(take_over(entry.clone()));
        }
        let reason = |who: &Incarnation| {
            if self.dead.contains(who) { LeaveReason::Died } else { LeaveReason::Unreachable }
        };
        let left = entry.members.iter().map(|who| (*who, reason(who))).collect();
        let (name, joined, tail) = (entry.name.clone(), Vec::new(), Tags::default());
        let all_go =
            GroupChange { group, name, view: entry.view.next(), space: entry.space, cut: None, joined, left, tail };
        self.directory.entry_after(Some(entry.clone()), &all_go, Vec::new()).map(take_over)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::member::Agreed;
    use crate::wire::Space;
    use crate::{LEVEL, Limits, Timing};

    #[test]
    fn an_instance_names_its_latest_ancestors_and_no_more() {
        let founder = || {
            let at = std::net::SocketAddr::from(([127, 0, 0, 1], 1000));
            MemberInfo::new(Incarnation(1), "a", at, at)
        };
        let settings = Agreed::of(&Limits::default(), &Timing::default()).tags(LEVEL);
        let mut directory = Directory::found(vec![founder()], LEVEL, settings);
        let last = ANCESTORS_MAX as u64 + 3;
        for instance in 1..=last {
            let inheritance =
                Inheritance { instance: CellInstance(instance), directory, dead: Vec::new(), at: Instant::ZERO };
            directory = inheritance.passed_on_to(founder());
            assert_eq!(
                (directory.decree, directory.view, directory.members.len()),
                (DecreeNumber::FIRST, ViewNumber::FIRST, 1)
            );
        }
        let latest: Vec<CellInstance> = (4..=last).rev().map(CellInstance).collect();
        assert_eq!(directory.ancestors(), latest);
    }

    #[test]
    fn groups_skip_the_numbers_of_what_is_not_known() {
        let at = std::net::SocketAddr::from(([127, 0, 0, 1], 1000));
        let founder = MemberInfo::new(Incarnation(1), "a", at, at);
        let settings = Agreed::of(&Limits::default(), &Timing::default()).tags(LEVEL);
        let mut directory = Directory::found(vec![founder.clone()], LEVEL, settings);
        let group = crate::id::GroupId(1);
        let (name, members) = ("g".to_owned(), vec![Incarnation(1)]);
        directory
            .groups
            .insert(group, GroupEntry { name, view: ViewNumber(4), space: Space(1), members, tail: Tags::default() });
        (directory.next_group, directory.next_space) = (2, Space(2));
        assert_eq!(directory.groups[&group].next_view(), Some(ViewNumber(5)));
        let mut view = ViewNumber(4);
        for _ in 0..3 {
            let before = directory.clone();
            let inheritance =
                Inheritance { instance: CellInstance(1), directory: before, dead: Vec::new(), at: Instant::ZERO };
            let next = inheritance.passed_on_to(founder.clone());
            assert!(next.is_sound() && next.next_group - directory.next_group >= 1 << 16);
            let mut entry = next.groups[&group].clone();
            // The holders know it by its last view. A group that already waits is taken over once for each instance.
            assert!(entry.is_orphan() && entry.view == view);
            let after = entry.next_view().expect("there is one more");
            assert!(Some(after) >= view.checked_add(1 << 32));
            entry.view = after;
            assert!(entry.follows(view) && !entry.follows(ViewNumber(view.0 - 1)) && !entry.follows(view.next()));
            assert_eq!(entry.next_view(), Some(after.next()));
            (directory, view) = (next, after);
            directory.groups.insert(group, entry);
        }
    }
}
