//! The content of a decree: the next view of the cell, and of the groups that change.

use serde::{Deserialize, Serialize};

use crate::api::{Decree, GroupDecree, LeaveReason};
use crate::id::{DecreeNumber, GroupId, Incarnation, MemberInfo, ViewNumber};
use crate::wire::{Space, Tags};

/// Where a group's view ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "super::sparse::SparseCut", into = "super::sparse::SparseCut")]
pub struct GroupCut {
    /// By rank in the ending group view: the longest reported prefix.
    pub prefixes: Vec<u64>,
    /// By rank: a member that reported that prefix, and so holds it; [`Incarnation::NONE`] for an empty prefix.
    pub holders: Vec<Incarnation>,
}

/// The next view of one group, as the difference from the view in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupChange {
    /// The group.
    pub group: GroupId,
    /// Its name.
    pub name: String,
    /// The next view's number.
    pub view: ViewNumber,
    /// The packet space of the next view.
    pub space: Space,
    /// Where the view in force ends; `None` for a new group.
    pub cut: Option<GroupCut>,
    /// Incarnations that enter. They rank after those that stay.
    pub joined: Vec<Incarnation>,
    /// Incarnations that leave, and why.
    pub left: Vec<(Incarnation, LeaveReason)>,
    /// Entries that later builds add.
    pub tail: Tags,
}

impl GroupChange {
    /// Whether `who` loses the group's state by this change.
    #[must_use]
    pub fn is_lost_to(&self, who: Incarnation) -> bool {
        self.left.iter().any(|(left, why)| *left == who && why.is_loss())
    }
}

/// The content of a decree, as the difference from the directory in force. So one leaver of a thousand members costs a
/// few bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proposal {
    /// The decree's number.
    pub decree: DecreeNumber,
    /// The number of the cell view after the decree.
    pub view: ViewNumber,
    /// Processes that enter the cell. They rank after those that stay.
    pub joined: Vec<MemberInfo>,
    /// Incarnations that leave the cell, and why.
    pub left: Vec<(Incarnation, LeaveReason)>,
    /// Groups whose view changes.
    pub groups: Vec<GroupChange>,
    /// The next unused group number and packet space.
    pub next_group: u32,
    /// See `next_group`.
    pub next_space: Space,
    /// The level in force after it.
    pub level: u16,
    /// The agreed settings that a rise to `level` brings; otherwise empty.
    pub settings: Tags,
    /// Entries that later builds add.
    pub tail: Tags,
}

impl Proposal {
    /// What an application is shown of it.
    #[must_use]
    pub fn shown<'a>(&'a self) -> Decree<'a> {
        let group =
            |change: &'a GroupChange| GroupDecree { group: change.group, view: change.view, left: &change.left };
        Decree { left: &self.left, groups: self.groups.iter().map(group).collect() }
    }

    /// The incarnations that enter the cell.
    pub fn joiners(&self) -> impl Iterator<Item = Incarnation> {
        self.joined.iter().map(|member| member.incarnation)
    }

    /// Whether it leaves `who` out without that member's request.
    #[must_use]
    pub fn leaves_out(&self, who: Incarnation) -> bool {
        self.left.iter().any(|(left, why)| *left == who && *why != LeaveReason::Left)
    }

    /// The cuts of the groups that change.
    pub fn cuts(&self) -> impl Iterator<Item = (GroupId, &GroupCut)> {
        self.groups.iter().filter_map(|change| Some((change.group, change.cut.as_ref()?)))
    }
}
