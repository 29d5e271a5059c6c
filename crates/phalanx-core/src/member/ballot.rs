//! What a coordinator and the acceptors exchange in a ballot: the wedge, and the reports that answer it.

use serde::{Deserialize, Serialize};

use super::decree::{GroupCut, Proposal};
use crate::id::{DecreeNumber, GroupId, Rank};
use crate::wire::{Malformed, Tags};

/// The number of an attempt at a decree. A later round wins; of one round, the higher rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default)]
pub struct Ballot {
    /// Grows with each attempt.
    pub round: u32,
    /// The coordinator's rank in the view in force.
    pub rank: Rank,
}

/// Asks the acceptors of a view to stop and report. With cuts, asks them to report once they hold these.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wedge {
    /// The decree to decide: the one after the decree in force.
    pub decree: DecreeNumber,
    /// This attempt.
    pub ballot: Ballot,
    /// The groups that may change: those with a candidate for leaving, and those with a pending request.
    pub groups: Vec<GroupId>,
    /// Where these groups' views are to end; empty in the first request for reports.
    ///
    /// A proposal is made only when each member of these groups that reported holds its group's cut. So an accepted cut
    /// can always be completed: it does not depend on a packet that one member alone holds.
    pub cuts: Vec<(GroupId, GroupCut)>,
}

/// The promise of an acceptor, and what it holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The decree.
    pub decree: DecreeNumber,
    /// The promised ballot.
    pub ballot: Ballot,
    /// The proposal accepted last, if there is one, and its ballot.
    pub accepted: Option<(Ballot, Proposal)>,
    /// For each wedged group that has the reporter as a member: the prefix of each stream that it holds, by rank in the
    /// group view.
    #[serde(with = "super::sparse::prefixes")]
    pub prefixes: Vec<(GroupId, Vec<u64>)>,
    /// Wedged groups whose state the reporter does not have in full. It does not receive the rest before the decision.
    /// Sent in the message's tail, from level 3 on.
    #[serde(skip)]
    pub incomplete: Vec<GroupId>,
    /// Wedged groups whose state the reporter gives to a joiner. It does not want to leave before that is done. Sent in
    /// the tail, too.
    #[serde(skip)]
    pub giving: Vec<GroupId>,
    /// Wedged groups whose state the reporter takes, or looks for, without being a member. Sent in the tail, too.
    #[serde(skip)]
    pub taking: Vec<GroupId>,
}

impl Report {
    /// Puts the fields that travel in the message's tail there.
    pub(super) fn put_tail(&self, tail: &mut Tags) {
        for (tag, groups) in [(INCOMPLETE, &self.incomplete), (GIVING, &self.giving), (TAKING, &self.taking)] {
            if !groups.is_empty() {
                tail.put_value(tag, groups);
            }
        }
    }

    /// Reads the fields of [`Self::put_tail`].
    pub(super) fn read_tail(&mut self, tail: &Tags) -> Result<(), Malformed> {
        self.incomplete = tail.value(INCOMPLETE)?.unwrap_or_default();
        self.giving = tail.value(GIVING)?.unwrap_or_default();
        self.taking = tail.value(TAKING)?.unwrap_or_default();
        Ok(())
    }

    /// Whether the reporter, a member of the group, has its whole state.
    #[must_use]
    pub fn has_state(&self, group: GroupId) -> bool {
        !self.incomplete.contains(&group)
    }
}

/// Streams of a group that a member cannot read as far as it holds them, or had not acted upon as far.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unread {
    /// The group.
    pub group: GroupId,
    /// For each such stream: the sender's rank in the group view, the prefix acted upon, and whether the packet after
    /// the reported prefix is held and is nonsense.
    pub streams: Vec<(Rank, u64, bool)>,
}

impl Unread {
    /// Whether any of them has nonsense.
    #[must_use]
    pub fn has_nonsense(&self) -> bool {
        self.streams.iter().any(|(.., nonsense)| *nonsense)
    }
}

/// A report of streams that a member cannot read on, or an addition to its report. From level 2 on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unreadable {
    /// The decree to decide; the one in force at the sender is the one before.
    pub decree: DecreeNumber,
    /// The ballot of the report that follows and that this belongs to. `None` if it is a reason to begin a ballot.
    pub ballot: Option<Ballot>,
    /// The streams that cannot be read. Groups that are read as far as reported are absent.
    pub groups: Vec<Unread>,
}

/// Tag in a report's tail: groups whose state the reporter does not have in full.
const INCOMPLETE: u64 = 1;

/// Tags in a report's tail: groups whose state it gives, and takes.
const GIVING: u64 = 2;

/// See [`GIVING`].
const TAKING: u64 = 3;
