//! Whether a group has a state: an agreed term of it, from level [`KIND_LEVEL`] on (`docs/levels.md`, *Has a state*).
//!
//! The view that makes a group decides it. Later only those that asked for the same join it, and observers: members
//! that never have its state. The group's entry in the directory lists them.

use serde::{Deserialize, Serialize};

use super::{Directory, GroupChange, GroupEntry};
use crate::id::{GroupId, Incarnation};

/// The level from which on it is agreed whether a group has a state.
pub const KIND_LEVEL: u16 = 6;

/// Tag in a group's change and entry: 1 if it has a state, 0 if it has none.
const HAS_STATE: u64 = 10;
/// Tag in the same: members that observe.
const OBSERVERS: u64 = 11;

/// What a process that requests a group wants of its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub enum Role {
    /// Nothing: the group has no state.
    #[default]
    Stateless,
    /// It takes the group's state, and has it from then on.
    State,
    /// Nothing, whether the group has a state or not.
    Observer,
}

impl GroupEntry {
    /// Whether the group has a state. `None`: it was made below level 6, and nothing is agreed.
    #[must_use]
    pub fn has_state(&self) -> Option<bool> {
        Some(self.tail.number(HAS_STATE).ok().flatten()? == 1)
    }

    /// The members that observe, in rank order.
    #[must_use]
    pub fn observers(&self) -> Vec<Incarnation> {
        let mut observers: Vec<Incarnation> = self.tail.value(OBSERVERS).ok().flatten().unwrap_or_default();
        observers.retain(|who| self.members.contains(who));
        observers
    }

    /// Whether this member observes.
    #[must_use]
    pub fn has_observer(&self, who: Incarnation) -> bool {
        self.observers().contains(&who)
    }

    /// Whether a process with this request can become a member.
    #[must_use]
    pub fn suits(&self, role: Role) -> bool {
        let has_state = self.has_state();
        role == Role::Observer || has_state.is_none_or(|has_state| has_state == (role == Role::State))
    }
}

impl GroupChange {
    /// Records whether the group that this change makes has a state.
    pub(super) fn note_has_state(&mut self, has_state: bool) {
        self.tail.put_number(HAS_STATE, u64::from(has_state));
    }

    /// Records the members that observe after this change, if `entry`, the group before it, does not say the same. Those
    /// of `coming` are new.
    pub(super) fn note_observers(&mut self, entry: &GroupEntry, coming: &[Incarnation]) {
        let stays = |who: &Incarnation| self.left.iter().all(|(left, _)| left != who);
        let observers: Vec<Incarnation> =
            entry.observers().into_iter().filter(stays).chain(coming.iter().copied()).collect();
        // Who leaves may come again as another kind of member.
        if entry.tail.get(OBSERVERS).is_some() || !observers.is_empty() {
            self.tail.put_value(OBSERVERS, &observers);
        }
    }
}

/// Whether it is agreed of the groups that are made whether they have a state.
#[must_use]
pub fn agrees_on_state(directory: &Directory) -> bool {
    directory.level >= KIND_LEVEL
}

/// Whether it is agreed that the group has a state.
#[must_use]
pub fn has_agreed_state(directory: &Directory, group: GroupId) -> bool {
    directory.groups.get(&group).and_then(GroupEntry::has_state) == Some(true)
}

#[cfg(test)]
mod tests;
