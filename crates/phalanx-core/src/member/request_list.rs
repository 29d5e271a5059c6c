//! All that a member requests of the next view, as it travels to the others.

use serde::{Deserialize, Serialize};

use super::orphan::Return;
use crate::api::GroupTerms;
use crate::id::{DecreeNumber, Incarnation};
use crate::wire::{Malformed, Tags};

/// A request of a cell member about one group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct GroupRequest {
    /// The group's name.
    pub name: String,
    /// True to join, false to leave.
    pub join: bool,
    /// Join only if the group is made by that: the member has not taken its state.
    pub only_new: bool,
    /// The terms of the group if the member makes it. `None` from an earlier build. Sent in the message's tail.
    #[serde(skip)]
    pub terms: Option<GroupTerms>,
}

/// All requests of a member that no decree has fulfilled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestList {
    /// The decree in force at the member. A request holds until the next decree.
    pub decree: DecreeNumber,
    /// Requests about groups.
    pub groups: Vec<GroupRequest>,
    /// The level to which the cell is to rise; 0 for no request.
    pub level: u16,
    /// Groups that wait for this member. This and the following fields are sent in the message's tail, from level 3 on.
    #[serde(skip)]
    pub returns: Vec<Return>,
    /// Names of groups that are to wait no longer.
    #[serde(skip)]
    pub given_up: Vec<String>,
    /// Incarnations for which groups wait, and that are proved dead.
    #[serde(skip)]
    pub dead: Vec<Incarnation>,
}

impl RequestList {
    /// Whether it requests nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        // Every field is named, so that a new one cannot be forgotten here.
        let Self { decree: _, groups, level, returns, given_up, dead } = self;
        groups.is_empty() && *level == 0 && returns.is_empty() && given_up.is_empty() && dead.is_empty()
    }

    /// Cuts each list after `max`. Returns how many entries that drops.
    pub fn cut(&mut self, max: usize) -> usize {
        let Self { decree: _, groups, level: _, returns, given_up, dead } = self;
        let lens = [groups.len(), returns.len(), given_up.len(), dead.len()];
        groups.truncate(max);
        returns.truncate(max);
        given_up.truncate(max);
        dead.truncate(max);
        lens.into_iter().map(|len| len.saturating_sub(max)).sum()
    }

    /// Puts the fields that travel in the message's tail there.
    pub(super) fn put_tail(&self, tail: &mut Tags) {
        if !self.returns.is_empty() {
            tail.put_value(RETURNS, &self.returns);
        }
        if !self.given_up.is_empty() {
            tail.put_value(GIVEN_UP, &self.given_up);
        }
        if !self.dead.is_empty() {
            tail.put_value(DEAD, &self.dead);
        }
    }

    /// Reads the fields of [`Self::put_tail`].
    pub(super) fn read_tail(&mut self, tail: &Tags) -> Result<(), Malformed> {
        self.returns = tail.value(RETURNS)?.unwrap_or_default();
        self.given_up = tail.value(GIVEN_UP)?.unwrap_or_default();
        self.dead = tail.value(DEAD)?.unwrap_or_default();
        Ok(())
    }
}

/// Tag in the tail of requests: reports of a returned member on groups that wait for it.
const RETURNS: u64 = 2;

/// Tags in the tail of requests: names of groups that are to wait no longer, and incarnations that are proved dead.
const GIVEN_UP: u64 = 3;

/// See [`GIVEN_UP`].
const DEAD: u64 = 4;
