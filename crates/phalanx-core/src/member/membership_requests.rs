//! What processes ask of the next view, as a coordinator knows it.

use std::collections::{BTreeMap, BTreeSet};

use super::{RemovalEvidence, Removals, Returns, Rise};
use crate::api::GroupTerms;
use crate::id::{GroupId, Incarnation, MemberInfo};
use crate::time::Instant;

/// What the next view should bring, as known to a coordinator.
#[derive(Clone, Debug, Default)]
pub struct MembershipRequests {
    /// Processes to take in, with the groups they want at once.
    pub joiners: Vec<(MemberInfo, Vec<String>)>,
    /// Members (by incarnation) that want to leave the cell.
    pub leavers: BTreeSet<Incarnation>,
    /// Members that want into a group: (group name, who), in order of asking.
    pub group_joins: Vec<(String, Incarnation)>,
    /// Members that want out of a group.
    pub group_leaves: Vec<(String, Incarnation)>,
    /// What a group is agreed to be that one of those who want into it makes, by name and wisher.
    pub terms: BTreeMap<(String, Incarnation), GroupTerms>,
    /// A level that the cell is to rise to.
    pub rise: Option<Rise>,
    /// Orphans that are back, or wait for fewer.
    pub returns: BTreeMap<GroupId, Returns>,
    /// Former members that are known to be out, and members that are proved dead. No reason for a new view.
    pub out: BTreeSet<Incarnation>,
    /// What is known of those that are to leave because they are silent, or a path to them failed. No reason for a new view.
    pub removal_evidence: BTreeMap<Incarnation, RemovalEvidence>,
    /// From level 5 on: who was left out lately, and now. No reason for a new view.
    pub removals: Option<(Instant, Removals)>,
}

impl MembershipRequests {
    /// Nobody wants anything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.joiners.is_empty()
            && self.leavers.is_empty()
            && self.group_joins.is_empty()
            && self.group_leaves.is_empty()
            && self.rise.is_none()
            && self.returns.is_empty()
    }
}
