//! Validation of decisions that a peer sends: a peer's error must not become ours.
//!
//! A proposal of [`super::build_proposal`] always passes. Everything else in the core relies on these checks.

use std::collections::BTreeSet;

use super::directory::members_after;
use super::{Agreed, Directory, GroupChange, Proposal, Welcome, mismatch};
use crate::id::{Incarnation, MEMBERS_MAX, MemberInfo};
use crate::wire::{Space, Tags};

impl Directory {
    /// Whether `proposal` may follow this directory.
    #[must_use]
    pub fn admits(&self, proposal: &Proposal) -> bool {
        let spaces: BTreeSet<Space> = proposal.groups.iter().map(|change| change.space).collect();
        let groups: BTreeSet<_> = proposal.groups.iter().map(|change| change.group).collect();
        let changes = u32::try_from(proposal.groups.len()).unwrap_or(u32::MAX);
        let next = self.members_after(proposal);
        let rises = proposal.level > self.level;
        self.decree.checked_next() == Some(proposal.decree)
            && (proposal.view == self.view || self.view.checked_add(1) == Some(proposal.view))
            && proposal.level >= self.level
            // A level is in force only in a view whose members all know it.
            && (!rises || proposal.view > self.view && self.members.iter().all(|m| m.level >= proposal.level))
            && (rises || proposal.settings.is_empty())
            // A rise adds settings, and changes none that is in force.
            && self.settings.is_apart_from(&proposal.settings)
            // Otherwise decrees could let the directory grow without bound.
            && self.tail.fits_under(&proposal.tail)
            && proposal.has_sound_lost()
            && suit_each_other(proposal.level, &self.settings.under(&proposal.settings), &next)
            && proposal.left.iter().all(|(who, _)| self.rank(*who).is_some())
            && proposal.joiners().all(|who| self.rank(who).is_none())
            && are_members(&next)
            // Numbers of spaces and groups grow by at most one for each change: they must last for the life of the
            // cell.
            && proposal.next_space >= self.next_space
            && proposal.next_space.0 - self.next_space.0 <= changes
            && proposal.next_group >= self.next_group
            && proposal.next_group - self.next_group <= changes
            // Two views that number packets in one space would use a nonce twice.
            && spaces.len() == proposal.groups.len()
            && groups.len() == proposal.groups.len()
            && proposal.groups.iter().all(|change| self.admits_change(proposal, change, &next))
    }

    fn admits_change(&self, proposal: &Proposal, change: &GroupChange, next: &[MemberInfo]) -> bool {
        let entry = self.groups.get(&change.group);
        if let Some((entry, orphan)) = entry.and_then(|entry| Some((entry, entry.orphan()?))) {
            return change.fits_orphan(entry, &orphan)
                && entry.tail.fits_under(&change.tail)
                && (self.next_space..proposal.next_space).contains(&change.space)
                && are_among(&change.joined, next);
        }
        let fits = match (&change.cut, entry) {
            (Some(cut), Some(entry)) => {
                cut.prefixes.len() == entry.members.len()
                    && cut.holders.len() == entry.members.len()
                    && entry.view.checked_add(1) == Some(change.view)
                    && entry.name == change.name
            }
            (None, None) => {
                (self.next_group..proposal.next_group).contains(&change.group.0) && !change.joined.is_empty()
            }
            _ => false,
        };
        let fits = fits && entry.is_none_or(|entry| entry.tail.fits_under(&change.tail));
        fits && (self.next_space..proposal.next_space).contains(&change.space)
            && are_among(&members_after(entry, change), next)
    }

    /// Whether this directory is consistent.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let spaces: BTreeSet<Space> = self.groups.values().map(|entry| entry.space).collect();
        are_members(&self.members)
            && suit_each_other(self.level, &self.settings, &self.members)
            && spaces.len() == self.groups.len()
            && spaces.iter().all(|space| *space < self.next_space)
            && self.groups.iter().all(|(id, entry)| {
                let is_one = !entry.is_orphan() || entry.orphan().is_some_and(|orphan| !orphan.holders.is_empty());
                id.0 < self.next_group && is_one && are_among(&entry.members, &self.members)
            })
    }
}

impl Welcome {
    /// Whether the directory can be the result of the decision.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let (directory, proposal) = (&self.directory, &self.proposal);
        let groups: BTreeSet<_> = proposal.groups.iter().map(|change| change.group).collect();
        directory.is_sound()
            && directory.decree == proposal.decree
            && directory.view == proposal.view
            && directory.level == proposal.level
            && directory.members.ends_with(&proposal.joined)
            && proposal.left.iter().all(|(who, _)| directory.rank(*who).is_none())
            && directory.next_space == proposal.next_space
            && groups.len() == proposal.groups.len()
            && proposal.groups.iter().all(|change| match directory.groups.get(&change.group) {
                Some(entry) if entry.is_orphan() => entry.name == change.name && change.joined.is_empty(),
                Some(entry) => {
                    (&entry.name, entry.view, entry.space) == (&change.name, change.view, change.space)
                        && entry.members.ends_with(&change.joined)
                        && change.left.iter().all(|(who, _)| !entry.members.contains(who))
                }
                None => change.joined.is_empty(),
            })
    }
}

/// Whether a list can be the members of a cell view.
#[must_use]
pub(super) fn are_members(members: &[MemberInfo]) -> bool {
    let distinct: BTreeSet<Incarnation> = members.iter().map(|m| m.incarnation).collect();
    distinct.len() == members.len() && members.len() <= MEMBERS_MAX && !distinct.contains(&Incarnation::NONE)
}

/// Whether a cell of these members can have this level and these settings.
#[must_use]
fn suit_each_other(level: u16, settings: &Tags, members: &[MemberInfo]) -> bool {
    level > 0 && Agreed::are_settings(settings, level) && members.iter().all(|m| mismatch(level, settings, m).is_none())
}

/// Whether a group's members are distinct members of the cell.
fn are_among(group: &[Incarnation], cell: &[MemberInfo]) -> bool {
    let present: BTreeSet<Incarnation> = cell.iter().map(|m| m.incarnation).collect();
    let distinct: BTreeSet<Incarnation> = group.iter().copied().collect();
    distinct.len() == group.len() && distinct.is_subset(&present)
}

#[cfg(test)]
mod tests;
