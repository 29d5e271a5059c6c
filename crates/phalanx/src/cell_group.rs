//! The groups of a cell, as each of its members knows them.

use phalanx_core::member::{Directory, GroupEntry};
use phalanx_core::{GroupId, Incarnation};

use crate::id::MemberId;

/// A group of the cell, whether or not this process is in it; see [`Inline::groups`](crate::Inline::groups) and
/// [`Cell::watch_group`](crate::Cell::watch_group).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CellGroup {
    /// Its number. A group that is made anew under the same name has another one.
    pub number: u32,
    /// Its name.
    pub name: String,
    /// The members of its view, by rank. None while it waits.
    pub members: Vec<MemberId>,
    /// The members that it waits for, because they are cut off and nobody else has its state. A name may be empty, if nobody
    /// here knows it.
    pub waits_for: Vec<(MemberId, String)>,
}

impl CellGroup {
    /// Whether the group waits for members that are cut off. Until one of them is back, nobody can join it.
    /// [`Inline::give_up_group`](crate::Inline::give_up_group) ends it.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        !self.waits_for.is_empty()
    }

    /// The groups of a cell, by name.
    pub(crate) fn all_of(directory: &Directory) -> Vec<Self> {
        let mut groups: Vec<Self> = directory.groups.iter().map(|(number, entry)| Self::of(*number, entry)).collect();
        groups.sort_by(|one, other| one.name.cmp(&other.name));
        groups
    }

    pub(crate) fn of(number: GroupId, entry: &GroupEntry) -> Self {
        let ids = |members: &[Incarnation]| members.iter().map(|who| MemberId::of(*who)).collect();
        let holders = entry.orphan().map_or_else(Vec::new, |orphan| orphan.holders);
        Self {
            number: number.0,
            name: entry.name.clone(),
            members: ids(&entry.members),
            waits_for: holders.into_iter().map(|holder| (MemberId::of(holder.who), holder.name)).collect(),
        }
    }
}
