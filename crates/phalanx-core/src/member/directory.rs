//! The directory: the state that all decrees so far have made, the members of the cell and its groups.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::messages::{GroupChange, Proposal};
use crate::api::LeaveReason;
use crate::id::{GroupId, Incarnation, MemberInfo, Rank};
use crate::wire::{Space, Tags};

/// The cell as decided, the same at every process that installed the same decree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Directory {
    /// The last decree installed.
    pub decree: u64,
    /// The cell view's number.
    pub view: u64,
    /// Members in rank order.
    pub members: Vec<MemberInfo>,
    /// The groups.
    pub groups: BTreeMap<GroupId, GroupEntry>,
    /// Incarnations left out by the latest decrees, oldest first: they do not come back. Bounded, the oldest forgotten.
    pub departed: Vec<Incarnation>,
    /// The next unused group number.
    pub next_group: u32,
    /// The next unused packet space.
    pub next_space: Space,
    /// The level in force (`docs/levels.md`).
    pub level: u16,
    /// The agreed settings in force.
    pub settings: Tags,
    /// What later builds added to decrees so far: of each tag the latest.
    pub tail: Tags,
}

/// In a directory's tail: members whose streams made no sense to most.
const OUTCASTS: u64 = 4;

/// From this number of groups or spaces on no group is made: what is left is for further views of those that are there.
pub const NUMBERED_MAX: u32 = u32::MAX - (1 << 24);

/// A process that was taken in without knowing and left out again looks for its cell for seconds at most.
const DEPARTED_MAX: usize = 256;
const _: () = assert!(u32::MAX - NUMBERED_MAX >= 1 << 16, "groups that are there can have further views");

/// One group as decided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupEntry {
    /// Its name.
    pub name: String,
    /// Its view's number.
    pub view: u64,
    /// The packet space of that view.
    pub space: Space,
    /// Members in rank order. Nobody: it waits for members that are out of the cell (`docs/orphans.md`), and its view is its last.
    pub members: Vec<Incarnation>,
    /// What later builds added to the decrees about it so far: of each tag the latest.
    pub tail: Tags,
}

impl Directory {
    /// View 1 of a new cell.
    #[must_use]
    pub fn found(members: Vec<MemberInfo>, level: u16, settings: Tags) -> Self {
        Self {
            decree: 1,
            view: 1,
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
        next.strike_proved(self, proposal);
        next.cast_out(proposal);
        next
    }

    /// Members that left a group because their streams made no sense to most: the cell is to go on without them. Who joins learns
    /// them with the directory.
    #[must_use]
    pub fn outcasts(&self) -> BTreeSet<Incarnation> {
        let mut named: BTreeSet<Incarnation> = self.tail.value(OUTCASTS).ok().flatten().unwrap_or_default();
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

    /// Begins a new instance with what another one had decided: its members' streams begin anew.
    pub(super) fn forget_outcasts(&mut self) {
        self.tail.remove(OUTCASTS);
    }

    /// These do not come back.
    pub(super) fn depart(&mut self, who: impl Iterator<Item = Incarnation>) {
        self.departed.extend(who);
        self.departed.drain(..self.departed.len().saturating_sub(DEPARTED_MAX));
    }

    /// Checks what must always hold.
    ///
    /// # Panics
    /// When it does not.
    pub fn check_invariants(&self) {
        let incarnations: BTreeSet<Incarnation> = self.members.iter().map(|m| m.incarnation).collect();
        assert_eq!(incarnations.len(), self.members.len(), "a process is a member once");
        assert!(!incarnations.contains(&Incarnation::NONE), "nobody in particular is a member");
        let names: BTreeSet<&str> = self.members.iter().map(|m| m.name.as_str()).collect();
        assert_eq!(names.len(), self.members.len(), "two members have one name");
        assert!(self.departed.len() <= DEPARTED_MAX, "more are remembered than may be");
        assert!(self.departed.iter().all(|who| !incarnations.contains(who)), "who was left out does not come back");
        assert!(self.level > 0, "a cell has a level");
        assert!(self.view <= self.decree, "each decree makes one view at most");
        let spaces: BTreeSet<Space> = self.groups.values().map(|entry| entry.space).collect();
        assert_eq!(spaces.len(), self.groups.len(), "two groups number their packets in one space");
        let names: BTreeSet<&str> = self.groups.values().map(|entry| entry.name.as_str()).collect();
        assert_eq!(names.len(), self.groups.len(), "two groups have one name");
        for (id, entry) in &self.groups {
            assert!(id.0 < self.next_group, "a group has a number that is not given yet");
            assert!(entry.space < self.next_space, "a group has a packet space that is not given yet");
            assert!(entry.view > 0, "views are numbered from 1");
            let members: BTreeSet<Incarnation> = entry.members.iter().copied().collect();
            assert_eq!(members.len(), entry.members.len(), "a process is a group's member once");
            assert!(members.is_subset(&incarnations), "a group's member is none of the cell");
            let waits_for = entry.orphan().map_or(0, |orphan| orphan.holders.len());
            assert_eq!(waits_for > 0, entry.is_orphan(), "a group without members waits for some");
        }
    }

    /// The cell's members after `proposal`, in rank order.
    #[must_use]
    pub fn members_after(&self, proposal: &Proposal) -> Vec<MemberInfo> {
        let left: BTreeSet<Incarnation> = proposal.left.iter().map(|(who, _)| *who).collect();
        let stay = self.members.iter().filter(|m| !left.contains(&m.incarnation));
        stay.chain(&proposal.joined).cloned().collect()
    }

    /// The rank of a process in the cell view.
    #[must_use]
    pub fn rank(&self, who: Incarnation) -> Option<Rank> {
        self.members.iter().position(|m| m.incarnation == who).map(Rank::from_index)
    }

    /// The group of that name.
    #[must_use]
    pub fn group_named(&self, name: &str) -> Option<(GroupId, &GroupEntry)> {
        self.groups.iter().find(|(_, e)| e.name == name).map(|(&id, e)| (id, e))
    }

    /// Whether a new group can have a number. Each is given once in the life of an instance.
    #[must_use]
    pub fn can_number_groups(&self) -> bool {
        self.next_group.max(self.next_space.0) < NUMBERED_MAX
    }

    /// Whether a view of each group that is there can have a number. While new groups can be numbered, as many as one decree may bring
    /// can be too.
    #[must_use]
    pub fn can_number_views(&self) -> bool {
        u32::try_from(self.groups.len()).is_ok_and(|groups| self.next_space.0.checked_add(groups).is_some())
    }

    /// Whether `present` (by rank) is a quorum of the view in force.
    #[must_use]
    pub fn is_quorum(&self, present: impl Fn(Rank) -> bool) -> bool {
        let count = Rank::all(self.members.len()).filter(|&r| present(r)).count();
        is_quorum(count, self.members.len(), present(Rank::FIRST))
    }

    /// How many make a quorum without rank 0.
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

/// A majority, or half with rank 0. Any two such sets intersect: two halves both hold rank 0.
#[must_use]
pub fn is_quorum(present: usize, of: usize, with_rank_0: bool) -> bool {
    debug_assert!(present <= of, "more are present than there are");
    present * 2 > of || (with_rank_0 && present * 2 == of && of > 0)
}

#[cfg(test)]
mod tests {
    use super::is_quorum;

    /// Every two quorums of a view intersect, for all views of up to ten members.
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
