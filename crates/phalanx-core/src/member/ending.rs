//! The end of a cell instance when its members leave, and how founders learn of it (`docs/founding.md`). The rules were
//! explored first: `docs/model.md`, *Leaving*.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{Directory, Proposal, Waiting};
use crate::api::LeaveReason;
use crate::id::{CellInstance, Incarnation, MemberInfo, ViewNumber, fits_name};

/// Tag in a proposal that changes the view, and in the directory after it: former members that may live in the
/// instance.
const LOST: u64 = 3;

/// The most former members in a directory. With more, the instance does not end in order.
pub const LOST_MAX: usize = 256;

/// A former member of an instance that may not know that it is out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lost {
    /// The incarnation that was a member.
    pub who: Incarnation,
    /// See [`MemberInfo::seat`].
    pub seat: u64,
    /// Its name, for people.
    pub name: String,
}

impl Lost {
    /// Whether `now`, heard outside of the instance, shows that the former member no longer runs: it is a later
    /// incarnation in the same state directory, in which one process runs at a time.
    #[must_use]
    pub fn is_succeeded_by(&self, now: &MemberInfo) -> bool {
        // An unknown seat proves nothing.
        self.seat != 0 && self.seat == now.seat() && self.who != now.incarnation
    }
}

/// The end of an instance: its last members left, and nobody can join it any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// The instance.
    pub instance: CellInstance,
    /// The number of the view without members.
    pub view: ViewNumber,
    /// Former members that may not know of the end.
    pub but_for: Vec<Lost>,
    /// Groups that wait for some of these, or for members that were left out earlier. Written in the tail of the record or
    /// message, from level 6 on.
    #[serde(skip)]
    pub waiting: Waiting,
}

/// How an instance ended for one process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum End {
    /// This process left, and others stayed.
    Left {
        /// The instance.
        instance: CellInstance,
    },
    /// The last members left.
    Ended(Ended),
}

impl End {
    /// The instance.
    #[must_use]
    pub fn instance(&self) -> CellInstance {
        match self {
            Self::Left { instance } | Self::Ended(Ended { instance, .. }) => *instance,
        }
    }

    /// The end of the instance itself, if its last members left.
    #[must_use]
    pub fn ended(&self) -> Option<&Ended> {
        match self {
            Self::Left { .. } => None,
            Self::Ended(ended) => Some(ended),
        }
    }
}

impl Ended {
    /// Whether its lists are within their bounds.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        are_sound(&self.but_for) && self.waiting.is_sound()
    }

    /// Adds what another record of the same end says. Former members that it does not name are dropped: its writer
    /// learned that they know. Groups that wait are the same in each record, but a build below level 6 passes none on.
    pub fn complete_with(&mut self, other: &Self) {
        self.but_for.retain(|lost| other.but_for.iter().any(|also| also.who == lost.who));
        if self.waiting.is_empty() {
            self.waiting.clone_from(&other.waiting);
        }
    }
}

/// Whether a list of former members is within its bounds.
fn are_sound(lost: &[Lost]) -> bool {
    lost.len() <= LOST_MAX && lost.iter().all(|lost| fits_name(&lost.name))
}

/// What a view's coordinator recorded.
#[derive(Serialize, Deserialize)]
struct Written {
    /// The view. A coordinator of an earlier build records nothing; the entry then has an earlier view.
    view: ViewNumber,
    /// `None` if there were too many, or a coordinator of an earlier build had recorded none.
    lost: Option<Vec<Lost>>,
}

impl Directory {
    /// Former members that may live in the instance, as decided. `None` if nobody knows who they are.
    #[must_use]
    pub fn lost(&self) -> Option<Vec<Lost>> {
        match self.tail.value::<Written>(LOST) {
            // written.lost, => An entry of an earlier view was not continued: nobody knows whom the views since then
            // have lost.
            Ok(Some(written)) if written.view == self.view => written.lost,
            Ok(None) if self.view == ViewNumber::FIRST => Some(Vec::new()),
            Ok(_) | Err(_) => None,
        }
    }

    /// Whether a process is a member, or one of `lost`.
    #[must_use]
    pub fn may_hold(&self, lost: &Option<Vec<Lost>>, who: Incarnation) -> bool {
        self.rank(who).is_some() || lost.iter().flatten().any(|lost| lost.who == who)
    }

    /// Removes the record for a new instance, which has lost no members.
    pub(super) fn lose_nobody(&mut self) {
        self.tail.remove(LOST);
    }

    /// Records in a proposal which former members may live in the instance without knowing that they are out. `out`:
    /// former members that confirmed that they know, or are proved dead.
    pub(super) fn note_lost(&self, proposal: &mut Proposal, out: &BTreeSet<Incarnation>) {
        // The record belongs to a view: without a new one, the record in force still holds.
        if proposal.view == self.view {
            return;
        }
        let left: BTreeMap<Incarnation, LeaveReason> = proposal.left.iter().copied().collect();
        let dead = |who: &Incarnation| left.get(who) == Some(&LeaveReason::Died);
        let leaving = self.members.iter().filter(|member| left.contains_key(&member.incarnation));
        let leaving = leaving.filter(|member| !dead(&member.incarnation)).map(|member| Lost {
            who: member.incarnation,
            seat: member.seat(),
            name: member.name.clone(),
        });
        let lost = self.lost().map(|before| {
            let all = before.into_iter().chain(leaving);
            let is_back = |lost: &Lost| proposal.joined.iter().any(|joined| lost.is_succeeded_by(joined));
            all.filter(|lost| !out.contains(&lost.who) && !is_back(lost)).collect::<Vec<Lost>>()
        });
        // Too many to name: the instance then does not end in order.
        let lost = lost.filter(|lost| lost.len() <= LOST_MAX);
        proposal.tail.put_value(LOST, &Written { view: proposal.view, lost });
    }
}

impl Proposal {
    /// Whether its record of former members can be read, and is within its bounds.
    pub(super) fn has_sound_lost(&self) -> bool {
        match self.tail.value::<Written>(LOST) {
            Ok(Some(written)) => written.view == self.view && written.lost.is_none_or(|lost| are_sound(&lost)),
            Ok(None) => true,
            Err(_) => false,
        }
    }
}

/// What founders that look for their cell know of ended instances.
#[derive(Clone, Debug, Default)]
pub struct Ends(BTreeMap<CellInstance, Ended>);

impl Ends {
    /// Collects the reports of the founders that were asked. Each of `asked` is in no view, so it is no member of any
    /// instance.
    #[must_use]
    pub fn told<'a>(asked: &[MemberInfo], told: impl IntoIterator<Item = &'a End>) -> Self {
        let mut ends: BTreeMap<CellInstance, Ended> = BTreeMap::new();
        for told in told.into_iter().filter_map(End::ended) {
            let ended = ends.entry(told.instance).or_insert_with(|| told.clone());
            ended.complete_with(told);
            ended.but_for.retain(|lost| !asked.iter().any(|asked| lost.is_succeeded_by(asked)));
        }
        Self(ends)
    }

    /// The ends, by instance.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Ended> {
        self.0.values()
    }

    /// Whether nobody lives in the instance: all know that it ended, or that a later one ended. A later one was founded
    /// when nobody lived in this one.
    #[must_use]
    pub fn is_over(&self, instance: CellInstance) -> bool {
        let over = self.0.values().filter(|ended| ended.but_for.is_empty()).map(|ended| ended.instance);
        instance != CellInstance::NONE
            && over.into_iter().any(|over| over == instance || over.generation() > instance.generation())
    }

    /// The former members that may live in an instance that ended.
    #[must_use]
    pub fn but_for(&self, instance: CellInstance) -> Option<&[Lost]> {
        self.0.get(&instance).map(|ended| ended.but_for.as_slice())
    }
}

#[cfg(test)]
mod tests;
