//! What an application wants of a group: to be in it or out of it, and under which terms.

use crate::api::GroupTerms;
use crate::member::{Directory, Role, agrees_on_state};
use crate::time::Instant;

/// A group that the application wants to be in, or out of.
#[derive(Clone, Debug)]
pub(in crate::process) struct GroupIntent {
    pub(in crate::process) role: Role,
    /// Terms of the group if this process founds it.
    pub(in crate::process) terms: GroupTerms,
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
