//! What an application wants of a group: to be in it or out of it, and under which terms.

use crate::api::{GroupTerms, OwnDomain};
use crate::id::{DecreeNumber, Incarnation};
use crate::member::{Directory, DomainsOf, GroupEntry, Role, agrees_on_state, lists_domains};
use crate::time::Instant;

/// A group that the application wants to be in, or out of.
#[derive(Clone, Debug)]
pub(in crate::process) struct GroupIntent {
    pub(in crate::process) role: Role,
    /// Terms of the group if this process founds it.
    pub(in crate::process) terms: GroupTerms,
    /// What this process has for the group's state, if it takes it.
    pub(in crate::process) own: Vec<OwnDomain>,
    /// In which decree it said so as a member, and to which coordinator.
    pub(in crate::process) said: Option<(DecreeNumber, Incarnation)>,
    /// Since when the application wants to leave it.
    pub(in crate::process) leaving: Option<Instant>,
    /// Whether the cell may be asked to take this process in.
    pub(in crate::process) ready: Ready,
    /// Whether the state of other members was sought, and never completed.
    pub(in crate::process) seeks: bool,
}

impl GroupIntent {
    pub(in crate::process) fn takes_state(&self) -> bool {
        self.role == Role::State
    }

    /// Whether this process has the state itself alone, in its first version. Who says nothing has that.
    fn is_plain(&self) -> bool {
        matches!(&self.own[..], [only] if *only == OwnDomain::unnamed())
    }

    /// What is to be said of the domains that this process has when it asks to join.
    pub(in crate::process) fn said_to_join(&self, directory: &Directory, name: &str) -> Option<DomainsOf> {
        let says = self.takes_state() && !self.is_plain() && lists_domains(directory);
        says.then(|| DomainsOf { group: name.to_owned(), own: self.own.clone() })
    }

    /// What a member is to say of the domains that it has: some that the group's list lacks.
    pub(in crate::process) fn said_as_member(&self, directory: &Directory, entry: &GroupEntry) -> Option<DomainsOf> {
        if self.is_plain() || self.leaving.is_some() || entry.has_state() != Some(true) {
            return None;
        }
        let list = entry.domains().unwrap_or_default();
        let is_listed = |own: &OwnDomain| list.iter().any(|listed| listed.name == own.domain.name);
        if self.own.iter().all(is_listed) { None } else { self.said_to_join(directory, &entry.name) }
    }

    /// Whether it is to be observed as soon as others have made it.
    pub(in crate::process) fn only_observes(&self, directory: &Directory) -> bool {
        self.role == Role::Observer && self.leaving.is_none() && agrees_on_state(directory)
    }

    /// Whether a joiner of the cell may come into the group in the same view. An observer may not, because it does not
    /// know yet whether the level in force has observers.
    pub(in crate::process) fn joins_at_once(&self) -> bool {
        self.role == Role::Stateless && self.leaving.is_none()
    }
}

/// Whether a process that first takes a group's state may become a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::process) enum Ready {
    /// The state is still to be taken.
    No,
    /// No such group exists: it may be founded with this process in it.
    IfNew,
    /// The state is here, or the group has none.
    Yes,
}

/// Upper bound on the requests about groups that a coordinator keeps per member.
pub const REQUESTS_MAX: usize = 1024;
