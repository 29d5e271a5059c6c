//! What a cell instance passes on to the next one, when a survivor founds that (`docs/founding.md`).

use serde::{Deserialize, Serialize};

use super::messages::GroupChange;
use super::{Directory, GroupEntry};
use crate::api::LeaveReason;
use crate::id::{Incarnation, MemberInfo};
use crate::wire::Tags;

/// In a directory: the earlier instances whose groups it goes on with, latest first.
const ANCESTORS: u64 = 2;

/// Earlier instances that a directory names at most.
pub const ANCESTORS_MAX: usize = 16;

/// The instance that a survivor renounced, as it stood there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inheritance {
    /// The instance.
    pub instance: u64,
    /// What its decrees had decided.
    pub directory: Directory,
    /// Members that were proved dead.
    pub dead: Vec<Incarnation>,
}

impl Inheritance {
    /// The directory with which the next instance begins: `founder` is its only member, and each group waits for those that were
    /// in it.
    #[must_use]
    pub fn passed_on_to(&self, founder: MemberInfo) -> Directory {
        let before = &self.directory;
        let mut next = before.clone();
        next.groups = before.groups.iter().filter_map(|(id, entry)| Some((*id, self.passed_on(*id, entry)?))).collect();
        (next.decree, next.view) = (1, 1);
        next.members = vec![founder];
        next.depart(before.members.iter().map(|member| member.incarnation));
        let mut ancestors = vec![self.instance];
        ancestors.extend(before.ancestors());
        ancestors.truncate(ANCESTORS_MAX);
        next.lose_nobody();
        next.tail.put_value(ANCESTORS, &ancestors);
        next
    }

    fn passed_on(&self, group: crate::id::GroupId, entry: &GroupEntry) -> Option<GroupEntry> {
        if entry.is_orphan() {
            return Some(entry.clone());
        }
        let reason = |who: &Incarnation| {
            if self.dead.contains(who) { LeaveReason::Died } else { LeaveReason::Unreachable }
        };
        let left = entry.members.iter().map(|who| (*who, reason(who))).collect();
        let (name, joined, tail) = (entry.name.clone(), Vec::new(), Tags::default());
        let all_go =
            GroupChange { group, name, view: entry.view + 1, space: entry.space, cut: None, joined, left, tail };
        self.directory.entry_after(Some(entry.clone()), &all_go, Vec::new())
    }
}

impl Directory {
    /// Earlier instances whose groups it goes on with, latest first.
    #[must_use]
    pub fn ancestors(&self) -> Vec<u64> {
        self.tail.value(ANCESTORS).ok().flatten().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::member::Agreed;
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
            let inheritance = Inheritance { instance, directory, dead: Vec::new() };
            directory = inheritance.passed_on_to(founder());
            assert_eq!((directory.decree, directory.view, directory.members.len()), (1, 1, 1));
        }
        let latest: Vec<u64> = (4..=last).rev().collect();
        assert_eq!(directory.ancestors(), latest);
    }
}
