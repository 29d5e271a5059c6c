//! Groups that wait while no instance of the cell is there: the last members of one instance leave them, and the founders
//! of the next one begin with them (`docs/founding.md`, *When all members left*).

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::orphan::OrphanHolder;
use super::{Directory, GroupEntry, KIND_LEVEL};
use crate::id::{CellInstance, GroupId, MemberInfo, check_name};
use crate::wire::{Malformed, Space, Tags};

/// The level from which on groups wait while no instance is there.
pub const PASSED_ON_LEVEL: u16 = KIND_LEVEL;

/// Tag in a directory: earlier instances whose groups it continues, latest first.
const ANCESTORS: u64 = 2;

/// The most earlier instances in a directory.
pub const ANCESTORS_MAX: usize = 16;

/// Group numbers that are skipped: the earlier instance may have made groups that the survivors or founders do not know.
pub(super) const UNKNOWN_GROUPS: u32 = 1 << 16;

/// The most bytes of such groups: a record holds those of a list and those of an end. With more, an instance does not
/// end in order.
pub const PASSED_ON_BYTES_MAX: usize = 480 << 10;
const _: () = assert!(2 * PASSED_ON_BYTES_MAX < crate::wire::TAGS_BYTES_MAX, "a record holds two lists of them");

/// Groups that wait, and what the next instance needs to go on with them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    /// The instance in which they waited, and those before it, latest first.
    pub ancestors: Vec<CellInstance>,
    /// The groups. None has a member.
    pub groups: BTreeMap<GroupId, GroupEntry>,
    /// The next unused group number.
    pub next_group: u32,
    /// The next unused packet-number space.
    pub next_space: Space,
}

impl Waiting {
    /// The groups that wait in `directory`, that of an instance which ends. `None` if they are too many to be recorded.
    #[must_use]
    pub fn of(instance: CellInstance, directory: &Directory) -> Option<Self> {
        let waits = |(id, entry): (&GroupId, &GroupEntry)| entry.is_orphan().then(|| (*id, entry.clone()));
        let groups: BTreeMap<GroupId, GroupEntry> = directory.groups.iter().filter_map(waits).collect();
        if groups.is_empty() || directory.level < PASSED_ON_LEVEL {
            return Some(Self::default());
        }
        let mut ancestors = vec![instance];
        ancestors.extend(directory.ancestors());
        ancestors.truncate(ANCESTORS_MAX);
        let (next_group, next_space) = (directory.next_group, directory.next_space);
        Some(Self { ancestors, groups, next_group, next_space }).filter(Self::fits)
    }

    /// Whether a record has room for them.
    fn fits(&self) -> bool {
        postcard::experimental::serialized_size(self).is_ok_and(|bytes| bytes <= PASSED_ON_BYTES_MAX)
    }

    /// Whether no group waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Whether its entries are consistent, and within their bounds.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let names: BTreeSet<&str> = self.groups.values().map(|entry| entry.name.as_str()).collect();
        let spaces: BTreeSet<Space> = self.groups.values().map(|entry| entry.space).collect();
        let waits = |entry: &GroupEntry| entry.orphan().is_some_and(|orphan| !orphan.holders.is_empty());
        names.len() == self.groups.len()
            && spaces.len() == self.groups.len()
            && self.ancestors.len() <= ANCESTORS_MAX
            && self.groups.iter().all(|(id, entry)| {
                id.0 < self.next_group
                    && entry.space < self.next_space
                    && entry.view.0 > 0
                    && check_name(&entry.name).is_ok()
                    && waits(entry)
            })
    }

    /// Adds what another process knows of the same instance. The later view of a group counts, with all its holders. If a
    /// record has no room for both, the larger one counts: the operator who founds by command says that nobody lives.
    pub(super) fn add(&mut self, other: &Self) {
        let before = self.clone();
        self.unite(other);
        if !self.fits() {
            *self = if other.groups.len() > before.groups.len() { other.clone() } else { before };
        }
    }

    fn unite(&mut self, other: &Self) {
        for (id, entry) in &other.groups {
            let known = self.groups.get(id).filter(|known| known.view >= entry.view);
            let Some(known) = known else {
                self.groups.insert(*id, entry.clone());
                continue;
            };
            if let Some((mut orphan, more)) = known.orphan().zip(entry.orphan()).filter(|_| known.view == entry.view) {
                let is_new = |holder: &OrphanHolder| orphan.holders.iter().all(|known| known.who != holder.who);
                let new: Vec<OrphanHolder> = more.holders.into_iter().filter(is_new).collect();
                orphan.holders.extend(new);
                self.groups.insert(*id, known.clone().waiting_for(orphan));
            }
        }
        if self.ancestors.len() < other.ancestors.len() {
            self.ancestors.clone_from(&other.ancestors);
        }
        self.next_group = self.next_group.max(other.next_group);
        self.next_space = self.next_space.max(other.next_space);
    }

    /// The groups with which `next` begins, from the record of an earlier instance.
    #[must_use]
    pub fn passed_on_to(mut self, earlier: CellInstance, next: CellInstance) -> Self {
        if self.is_empty() {
            return Self::default();
        }
        if self.ancestors.first() != Some(&earlier) {
            self.ancestors.insert(0, earlier);
            self.ancestors.truncate(ANCESTORS_MAX);
        }
        // Instances in between may have continued with them, unknown to the founders. Generations are numbered once.
        let generations = u64::from(next.generation().saturating_sub(earlier.generation()).max(1));
        self.groups.values_mut().for_each(|entry| entry.take_over(generations));
        self.next_group = self.next_group.saturating_add(UNKNOWN_GROUPS);
        self
    }

    /// Adds them to a tail.
    pub(super) fn put(&self, tail: &mut Tags, tag: u64) {
        if !self.is_empty() {
            tail.put_value(tag, self);
        }
    }

    /// Reads what [`Self::put`] added.
    pub(super) fn read(tail: &Tags, tag: u64) -> Result<Self, Malformed> {
        Ok(tail.value(tag)?.unwrap_or_default())
    }
}

impl Directory {
    /// Earlier instances whose groups it continues, latest first.
    #[must_use]
    pub fn ancestors(&self) -> Vec<CellInstance> {
        self.tail.value(ANCESTORS).ok().flatten().unwrap_or_default()
    }
}

/// Records the earlier instances whose groups a new one continues.
pub(super) fn descend_from(directory: &mut Directory, ancestors: &[CellInstance]) {
    directory.tail.put_value(ANCESTORS, &ancestors);
}

/// Lets a new instance begin with groups that wait.
///
/// A founder that runs where a holder ran, and has not kept the state, proves that the holder is gone.
pub(super) fn begin_with(directory: &mut Directory, waiting: &Waiting) {
    if waiting.is_empty() || directory.level < PASSED_ON_LEVEL {
        return;
    }
    let members = &directory.members;
    let is_gone = |holder: &OrphanHolder| members.iter().any(|info: &MemberInfo| info.has_begun_anew_at(holder));
    let waits = |(id, entry): (&GroupId, &GroupEntry)| {
        let mut orphan = entry.orphan()?;
        orphan.holders.retain(|holder| !is_gone(holder));
        (!orphan.holders.is_empty()).then(|| (*id, entry.clone().waiting_for(orphan)))
    };
    directory.groups = waiting.groups.iter().filter_map(waits).collect();
    (directory.next_group, directory.next_space) = (waiting.next_group, waiting.next_space);
    descend_from(directory, &waiting.ancestors);
}

#[cfg(test)]
mod tests;
