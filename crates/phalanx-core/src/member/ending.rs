//! The end of a cell instance when its members leave, and how founders learn of it (`docs/founding.md`). The rules were
//! explored first: `docs/model.md`, *Leaving*.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{Directory, FounderRecord, Proposal};
use crate::api::LeaveReason;
use crate::id::{CellInstance, Incarnation, MemberInfo, fits_name};

/// In a proposal that changes the view, and in the directory after it: former members that may live in the instance.
const LOST: u64 = 3;

/// Former members that a directory names at most. With more, the instance does not end in order.
pub const LOST_MAX: usize = 256;

/// A former member of an instance of which nobody knows that it learned that it is out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lost {
    /// The life that was a member.
    pub who: Incarnation,
    /// See [`MemberInfo::seat`].
    pub seat: u64,
    /// Its name, for people.
    pub name: String,
}

impl Lost {
    /// Whether `now`, heard outside of the instance, shows that the former member is no more: it is a later life in the same
    /// directory, in which one process runs at a time.
    #[must_use]
    pub fn is_succeeded_by(&self, now: &MemberInfo) -> bool {
        self.seat != 0 && self.seat == now.seat() && self.who != now.incarnation
    }
}

/// An instance ended: its last members left, and nobody can join it any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// The instance.
    pub instance: CellInstance,
    /// The number of the view of nobody.
    pub view: u64,
    /// But for these former members, which may not know it.
    pub but_for: Vec<Lost>,
}

/// How an instance ended for a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum End {
    /// It left, and others stayed.
    Left {
        /// The instance.
        instance: CellInstance,
    },
    /// The last members left.
    Ended(Ended),
}

impl End {
    /// Of which instance.
    #[must_use]
    pub fn instance(&self) -> CellInstance {
        match self {
            Self::Left { instance } | Self::Ended(Ended { instance, .. }) => *instance,
        }
    }

    /// If the last members left.
    #[must_use]
    pub fn ended(&self) -> Option<&Ended> {
        match self {
            Self::Left { .. } => None,
            Self::Ended(ended) => Some(ended),
        }
    }
}

impl Ended {
    /// Whether it is within its bounds.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        are_sound(&self.but_for)
    }

    /// Takes out those that another record of the same instance does not name.
    pub fn excuse_as(&mut self, other: &Self) {
        self.but_for.retain(|lost| other.but_for.iter().any(|also| also.who == lost.who));
    }
}

/// Whether a list of former members is within its bounds.
fn are_sound(lost: &[Lost]) -> bool {
    lost.len() <= LOST_MAX && lost.iter().all(|lost| fits_name(&lost.name))
}

/// What a view's coordinator wrote.
#[derive(Serialize, Deserialize)]
struct Written {
    /// The view. A coordinator of an earlier build writes nothing: then this is not the view in force.
    view: u64,
    /// `None`: there were too many, or a coordinator of an earlier build had not written them.
    lost: Option<Vec<Lost>>,
}

impl Directory {
    /// Former members that may live in the instance, as far as is decided; `None`: nobody knows who they are.
    #[must_use]
    pub fn lost(&self) -> Option<Vec<Lost>> {
        match self.tail.value::<Written>(LOST) {
            Ok(Some(written)) if written.view == self.view => written.lost,
            Ok(None) if self.view == 1 => Some(Vec::new()),
            Ok(_) | Err(_) => None,
        }
    }

    /// Whether a process is a member, or one of the `lost`.
    #[must_use]
    pub fn may_hold(&self, lost: &Option<Vec<Lost>>, who: Incarnation) -> bool {
        self.rank(who).is_some() || lost.iter().flatten().any(|lost| lost.who == who)
    }

    /// Begins a new instance with what another one had decided: it has lost nobody.
    pub(super) fn lose_nobody(&mut self) {
        self.tail.remove(LOST);
    }

    /// Notes in a proposal who may live in the instance without knowing of it. `out`: those that said that they know that they are
    /// out, or are proved dead.
    pub(super) fn note_lost(&self, proposal: &mut Proposal, out: &BTreeSet<Incarnation>) {
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
        let lost = lost.filter(|lost| lost.len() <= LOST_MAX);
        proposal.tail.put_value(LOST, &Written { view: proposal.view, lost });
    }
}

impl Proposal {
    /// Whether what it says of former members can be read, and is within its bounds.
    pub(super) fn has_sound_lost(&self) -> bool {
        match self.tail.value::<Written>(LOST) {
            Ok(Some(written)) => written.view == self.view && written.lost.is_none_or(|lost| are_sound(&lost)),
            Ok(None) => true,
            Err(_) => false,
        }
    }
}

/// What founders that look for their cell know of instances that ended.
#[derive(Clone, Debug, Default)]
pub struct Ends(BTreeMap<CellInstance, Ended>);

impl Ends {
    /// From what those that were asked reported. Each of `asked` is in no view: it is no member of any instance.
    #[must_use]
    pub fn told<'a>(asked: &[MemberInfo], records: impl IntoIterator<Item = &'a FounderRecord>) -> Self {
        let mut ends: BTreeMap<CellInstance, Ended> = BTreeMap::new();
        let told = records.into_iter().filter_map(|record| record.end.as_ref()?.ended());
        for told in told {
            let ended = ends.entry(told.instance).or_insert_with(|| told.clone());
            ended.excuse_as(told);
            ended.but_for.retain(|lost| !asked.iter().any(|asked| lost.is_succeeded_by(asked)));
        }
        Self(ends)
    }

    /// Whether nobody lives in the instance: it ended and all know it, or a later one did, which was founded when nobody lived in it.
    #[must_use]
    pub fn is_over(&self, instance: CellInstance) -> bool {
        let over = self.0.values().filter(|ended| ended.but_for.is_empty()).map(|ended| ended.instance);
        instance != CellInstance::NONE
            && over.into_iter().any(|over| over == instance || over.generation() > instance.generation())
    }

    /// Of an instance that ended: those that may live in it.
    #[must_use]
    pub fn but_for(&self, instance: CellInstance) -> Option<&[Lost]> {
        self.0.get(&instance).map(|ended| ended.but_for.as_slice())
    }
}

#[cfg(test)]
mod tests;
