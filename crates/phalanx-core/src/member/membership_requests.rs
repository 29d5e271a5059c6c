//! What processes ask of the next view, as a coordinator knows it.

use std::collections::{BTreeMap, BTreeSet};

use super::{RemovalEvidence, Removals, Returns, Rise, Role};
use crate::api::{GroupTerms, OwnDomain};
use crate::id::{GroupId, Incarnation, MemberInfo};
use crate::time::Instant;

/// What the next view should bring, as a coordinator knows it.
#[derive(Clone, Debug, Default)]
pub struct MembershipRequests {
    /// Processes to take in, each with the groups that it requests at once.
    pub joiners: Vec<(MemberInfo, Vec<String>)>,
    /// Members that request to leave the cell.
    pub leavers: BTreeSet<Incarnation>,
    /// Members that request to join a group: (group name, member), in the order of the requests.
    pub group_joins: Vec<(String, Incarnation)>,
    /// Those of them that bring a state of their own if they make the group. Only one of a group does.
    pub founders: BTreeSet<(String, Incarnation)>,
    /// Members that request to leave a group.
    pub group_leaves: Vec<(String, Incarnation)>,
    /// The terms of a group, if this member makes it; by group name and member.
    pub terms: BTreeMap<(String, Incarnation), GroupTerms>,
    /// What those that request to join want of the group's state; absent: nothing.
    pub roles: BTreeMap<(String, Incarnation), Role>,
    /// What members and joiners have for a group's state; by group name and member.
    pub domains: BTreeMap<(String, Incarnation), Vec<OwnDomain>>,
    /// Groups whose lists of domains may grow.
    pub growing: BTreeSet<GroupId>,
    /// A level to which the cell is to rise.
    pub rise: Option<Rise>,
    /// Orphans that can continue, or of which holders are to be struck off.
    pub returns: BTreeMap<GroupId, Returns>,
    /// Former members that are known to be out, and members that are proved dead. No reason for a new view.
    pub out: BTreeSet<Incarnation>,
    /// What is known of members that are to leave because they are silent, or a path to them failed. No reason for a
    /// new view.
    pub removal_evidence: BTreeMap<Incarnation, RemovalEvidence>,
    /// The removals of the last minutes, and the time now. No reason for a new view.
    pub removals: Option<(Instant, Removals)>,
}

impl MembershipRequests {
    /// What this member wants of the state of the group that it requests.
    pub(super) fn role(&self, name: &str, who: Incarnation) -> Role {
        if self.roles.is_empty() {
            return Role::default();
        }
        self.roles.get(&(name.to_owned(), who)).copied().unwrap_or_default()
    }

    /// Whether nothing is requested that is a reason for a new view.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.joiners.is_empty()
            && self.leavers.is_empty()
            && self.group_joins.is_empty()
            && self.group_leaves.is_empty()
            && self.growing.is_empty()
            && self.rise.is_none()
            && self.returns.is_empty()
    }
}
