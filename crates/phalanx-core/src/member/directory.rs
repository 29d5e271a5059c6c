//! The directory: the state that all decrees so far have made, the members of the cell and its groups.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::decree::{GroupChange, Proposal};
use crate::api::LeaveReason;
use crate::id::{DecreeNumber, GroupId, Incarnation, MemberInfo, Rank, ViewNumber};
use crate::wire::{Space, Tags};

/// The decided state of a cell. All processes that installed the same decree have the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Directory {
    /// The number of the last installed decree.
    pub decree: DecreeNumber,
    /// The number of the cell view.
    pub view: ViewNumber,
    /// Members in rank order.
    pub members: Vec<MemberInfo>,
    /// The groups.
    pub groups: BTreeMap<GroupId, GroupEntry>,
    /// Incarnations that the latest decrees left out, oldest first. They do not come back. Bounded: the oldest are
    /// forgotten.
    pub departed: Vec<Incarnation>,
    /// The next unused group number.
    pub next_group: u32,
    /// The next unused packet-number space.
    pub next_space: Space,
    /// The level in force (`docs/levels.md`).
    pub level: u16,
    /// The agreed settings in force.
    pub settings: Tags,
    /// Entries that later builds added to decrees: the latest for each tag.
    pub tail: Tags,
}

/// Tag in a directory's tail: members whose streams were nonsense to most.
const OUTCASTS: u64 = 4;

/// From this number of groups or spaces on, no group is made. The remaining numbers are for further views of existing
/// groups.
pub const NUMBERED_MAX: u32 = u32::MAX - (1 << 24);

/// The most departed incarnations that are remembered. A process that was taken in and left out again without noticing
/// looks for its cell for seconds at most.
const DEPARTED_MAX: usize = 256;
const _: () = assert!(u32::MAX - NUMBERED_MAX >= 1 << 16, "groups that are there can have further views");

/// The decided state of one group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupEntry {
    /// Its name.
    pub name: String,
    /// The number of its view.
    pub view: ViewNumber,
    /// The packet-number space of that view.
    pub space: Space,
    /// Members in rank order. Empty if the group waits for members that are out of the cell (`docs/orphans.md`): its
    /// view is then its last.
    pub members: Vec<Incarnation>,
    /// Entries that later builds added to decrees about it: the latest for each tag.
    pub tail: Tags,
}

/// How many members with a group's state were in its last view to the end of that: those that stay, and those that leave
/// in order. `next`: the group when `change` has come into force, if it goes on.
#[must_use]
pub fn stayed_to_its_end(change: &GroupChange, next: Option<&GroupEntry>) -> usize {
    let leave = change.left.iter().filter(|(_, why)| *why == LeaveReason::Left).count();
    let stay = |entry: &GroupEntry| {
        let stays = |who: &&Incarnation| !change.joined.contains(who) && !entry.has_observer(**who);
        entry.members.iter().filter(stays).count()
    };
    leave + next.map_or(0, stay)
}

impl Directory {
    /// The directory of a new cell in view 1.
    #[must_use]
    pub fn found(members: Vec<MemberInfo>, level: u16, settings: Tags) -> Self {
        Self {
            decree: DecreeNumber::FIRST,
            view: ViewNumber::FIRST,
            members,
            level,
            settings,
            tail: Tags::default(),
            groups: BTreeMap::new(),
            departed: Vec::new(),
            next_group: 1,
            next_space: Space(1),
        }
    }

    /// The directory after `proposal`.
    #[must_use]
    pub fn after(&self, proposal: &Proposal) -> Self {
        let mut next = self.clone();
        next.decree = proposal.decree;
        next.view = proposal.view;
        next.members = self.members_after(proposal);
        next.depart(proposal.left.iter().map(|(who, _)| *who));
        next.next_group = proposal.next_group;
        next.next_space = proposal.next_space;
        next.level = proposal.level;
        next.settings = self.settings.under(&proposal.settings);
        next.tail = self.tail.under(&proposal.tail);
        for change in &proposal.groups {
            let entry = next.groups.remove(&change.group);
            let members = members_after(entry.as_ref(), change);
            if let Some(entry) = self.entry_after(entry, change, members) {
                next.groups.insert(change.group, entry);
            }
        }
        // After the groups, because a decree strikes holders off the orphans that it leaves.
        next.strike_proved(self, proposal);
        next.cast_out(proposal);
        next
    }

    /// Members that left a group because their streams were nonsense to most. The cell is to continue without them. A
    /// joiner learns them with the directory.
    #[must_use]
    pub fn outcasts(&self) -> BTreeSet<Incarnation> {
        let mut named: BTreeSet<Incarnation> = self.tail.value(OUTCASTS).ok().flatten().unwrap_or_default();
        // Those that are out need no further decision. That also bounds the list.
        named.retain(|who| self.rank(*who).is_some());
        named
    }

    fn cast_out(&mut self, proposal: &Proposal) {
        let left = proposal.groups.iter().flat_map(|change| &change.left);
        let nonsense = left.filter(|(_, why)| *why == LeaveReason::Nonsense).map(|(who, _)| *who);
        let mut outcasts = self.outcasts();
        outcasts.extend(nonsense.filter(|who| self.rank(*who).is_some()));
        self.forget_outcasts();
        if !outcasts.is_empty() {
            self.tail.put_value(OUTCASTS, &outcasts);
        }
    }

    /// Removes the record for a new instance: the streams of its members start anew.
    pub(super) fn forget_outcasts(&mut self) {
        self.tail.remove(OUTCASTS);
    }

    /// Remembers incarnations that may not come back.
    pub(super) fn depart(&mut self, who: impl Iterator<Item = Incarnation>) {
        self.departed.extend(who);
        // The list travels with every welcome, so it is bounded.
        self.departed.drain(..self.departed.len().saturating_sub(DEPARTED_MAX));
    }

    /// Checks the invariants.
    ///
    /// # Panics
    /// If one is violated.
    pub fn check_invariants(&self) {
        let incarnations: BTreeSet<Incarnation> = self.members.iter().map(|m| m.incarnation).collect();
        assert_eq!(incarnations.len(), self.members.len(), "a process is a member once");
        assert!(!incarnations.contains(&Incarnation::NONE), "an incarnation is zero");
        let names: BTreeSet<&str> = self.members.iter().map(|m| m.name.as_str()).collect();
        assert_eq!(names.len(), self.members.len(), "two members have one name");
        assert!(self.departed.len() <= DEPARTED_MAX, "too many departed incarnations are remembered");
        assert!(self.departed.iter().all(|who| !incarnations.contains(who)), "a departed incarnation is a member");
        assert!(self.level > 0, "a cell has a level");
        assert!(self.view.0 <= self.decree.0, "each decree makes one view at most");
        let spaces: BTreeSet<Space> = self.groups.values().map(|entry| entry.space).collect();
        assert_eq!(spaces.len(), self.groups.len(), "two groups number their packets in one space");
        let names: BTreeSet<&str> = self.groups.values().map(|entry| entry.name.as_str()).collect();
        assert_eq!(names.len(), self.groups.len(), "two groups have one name");
        for (id, entry) in &self.groups {
            assert!(id.0 < self.next_group, "a group has an unused number");
            assert!(entry.space < self.next_space, "a group has an unused packet-number space");
            assert!(entry.view > ViewNumber::NONE, "views are numbered from 1");
            let members: BTreeSet<Incarnation> = entry.members.iter().copied().collect();
            assert_eq!(members.len(), entry.members.len(), "a process is a group's member once");
            assert!(members.is_subset(&incarnations), "a group's member is no member of the cell");
            let waits_for = entry.orphan().map_or(0, |orphan| orphan.holders.len());
            assert_eq!(waits_for > 0, entry.is_orphan(), "a group waits for holders exactly if it has no members");
        }
    }

    /// The cell's members after `proposal`, in rank order. Those that stay keep their order, so that the oldest stays
    /// rank 0.
    #[must_use]
    pub fn members_after(&self, proposal: &Proposal) -> Vec<MemberInfo> {
        let left: BTreeSet<Incarnation> = proposal.left.iter().map(|(who, _)| *who).collect();
        let stay = self.members.iter().filter(|m| !left.contains(&m.incarnation));
        stay.chain(&proposal.joined).cloned().collect()
    }

    /// The rank of a process in the cell view, if it is a member.
    #[must_use]
    pub fn rank(&self, who: Incarnation) -> Option<Rank> {
        self.members.iter().position(|m| m.incarnation == who).map(Rank::from_index)
    }

    /// The group with this name, if there is one.
    #[must_use]
    pub fn group_named(&self, name: &str) -> Option<(GroupId, &GroupEntry)> {
        self.groups.iter().find(|(_, e)| e.name == name).map(|(&id, e)| (id, e))
    }

    /// Whether a new group can get a number. An instance uses each number once.
    #[must_use]
    pub fn can_number_groups(&self) -> bool {
        self.next_group.max(self.next_space.0) < NUMBERED_MAX
    }

    /// Whether the next view of each group can get a packet-number space. While new groups can be made, the groups that
    /// one decree adds have numbers, too.
    #[must_use]
    pub fn can_number_views(&self) -> bool {
        u32::try_from(self.groups.len()).is_ok_and(|groups| self.next_space.0.checked_add(groups).is_some())
    }

    /// Whether the members that `present` names are a quorum of the view in force.
    #[must_use]
    pub fn is_quorum(&self, present: impl Fn(Rank) -> bool) -> bool {
        let count = Rank::all(self.members.len()).filter(|&r| present(r)).count();
        is_quorum(count, self.members.len(), present(Rank::FIRST))
    }

    /// The size of a quorum without rank 0.
    #[must_use]
    pub fn quorum(&self) -> usize {
        self.members.len() / 2 + 1
    }
}

/// A group's members after `change`, in rank order.
pub(super) fn members_after(entry: Option<&GroupEntry>, change: &GroupChange) -> Vec<Incarnation> {
    let left: BTreeSet<Incarnation> = change.left.iter().map(|(who, _)| *who).collect();
    let members = entry.map(|entry| entry.members.as_slice()).unwrap_or_default();
    members.iter().filter(|who| !left.contains(who)).chain(&change.joined).copied().collect()
}

/// Whether `present` of `of` members are a quorum: a majority, or half with rank 0.
///
/// Any two quorums intersect: of two halves, only one holds rank 0. So a view of two survives the death of its younger
/// member, and a cell that splits into halves continues in one of them.
#[must_use]
pub fn is_quorum(present: usize, of: usize, with_rank_0: bool) -> bool {
    debug_assert!(present <= of, "more members are present than the view has");
    present * 2 > of || (with_rank_0 && present * 2 == of && of > 0)
}

#[cfg(test)]
mod tests {
    use super::is_quorum;

    /// Any two quorums of a view intersect, for all views of up to ten members.
    #[test]
    fn quorums_intersect() {
        for n in 1..=10usize {
            let sets: Vec<u32> = (0..1u32 << n).filter(|s| is_quorum(s.count_ones() as usize, n, s & 1 == 1)).collect();
            assert!(!sets.is_empty());
            for a in &sets {
                assert!(sets.iter().all(|b| a & b != 0), "{n} members: {a:b} misses another quorum");
            }
        }
    }
}
