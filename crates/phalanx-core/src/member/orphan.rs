//! Orphaned groups: all members that hold the state are cut off from the quorum (`docs/orphans.md`).
//!
//! The record of them is in the directory: in the tails of member records, of group entries and of decisions about
//! groups, from level [`ORPHANS_LEVEL`] on.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{Directory, GroupChange, GroupEntry, Proposal};
use crate::api::{GroupTerms, LeaveReason};
use crate::id::{GroupId, Incarnation, MemberInfo, ViewNumber};

/// The lowest level at which a group waits for members that are cut off with its state.
pub const ORPHANS_LEVEL: u16 = 3;

/// The most earlier incarnations in a member record.
pub const INCARNATIONS_MAX: usize = 64;

/// Tag in a member record: the seat, which is the same for all starts of this name in one state directory.
const SEAT: u64 = 2;
/// Tag in a member record: earlier incarnations whose state it kept.
const INCARNATIONS: u64 = 3;

/// Tag in a group's entry: how its view began.
const BEGUN: u64 = 3;
/// Tag in an orphan's entry: the members for which it waits.
const ORPHAN: u64 = 4;
/// Tag in a change, and in the entry after it: an orphan came back.
const REVIVED: u64 = 5;
/// Tag in a change: holders that are struck off.
const STRUCK: u64 = 6;

/// Tag in a change, and in the entry after it: members that reported incomplete state. (7 is a tag of the terms.)
const LACKING: u64 = 8;

/// Tag in an orphan's entry, and in that of the revived group: its last view when another instance of the cell took it
/// over.
const TAKEN_OVER: u64 = 9;
/// Tag in the same: for how many generations of the cell it was taken over. From level 6 on.
const GENERATIONS: u64 = 12;

/// View numbers that a group skips for each generation of the cell that takes it over. An earlier instance may have
/// continued with it, unknown to the survivors: its views must not have the same numbers.
const UNKNOWN_VIEWS: u64 = 1 << 32;

/// An orphan keeps the names of its holders if its last view had at most this many members. Bounds the directory.
pub const NAMED_MAX: usize = 1000;

impl MemberInfo {
    /// Records its seat: a number that is the same for all starts of this name in one state directory, and for no
    /// other.
    pub fn sit(&mut self, seat: u64) {
        self.tail.put_number(SEAT, seat);
    }

    /// Its seat; 0 if unknown.
    #[must_use]
    pub fn seat(&self) -> u64 {
        self.tail.number(SEAT).ok().flatten().unwrap_or(0)
    }

    /// Records earlier incarnations of the process, whose state it kept.
    pub fn keeps(&mut self, lives: &[Incarnation]) {
        if lives.is_empty() {
            self.tail.remove(INCARNATIONS);
        } else {
            self.tail.put_value(INCARNATIONS, &lives);
        }
    }

    /// The earlier incarnations whose state it kept.
    #[must_use]
    pub fn earlier_incarnations(&self) -> Vec<Incarnation> {
        self.tail.value(INCARNATIONS).ok().flatten().unwrap_or_default()
    }

    /// Whether it is this incarnation, or kept its state.
    #[must_use]
    pub fn is_or_keeps(&self, who: Incarnation) -> bool {
        self.incarnation == who || self.tail.get(INCARNATIONS).is_some() && self.earlier_incarnations().contains(&who)
    }

    /// Whether it runs where the holder ran, without the holder's state. One process runs in a seat at a time, so the holder
    /// is gone then.
    pub(super) fn has_begun_anew_at(&self, holder: &OrphanHolder) -> bool {
        holder.seat != 0 && self.seat() == holder.seat && !self.is_or_keeps(holder.who)
    }
}

/// How a view of a group began. A holder that had not installed the view needs it when it comes back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ViewStart {
    /// Number of its members, in rank order from 0, that were in the view before.
    stayed: u64,
    /// The cut of the view before: the prefix of each of its streams.
    prefixes: Vec<u64>,
}

/// The members for which a group waits, because no member of the cell has its state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Orphan {
    /// Number of members of its last view.
    pub members: u32,
    /// Those of them that may have the state, are not known to be dead, and are out of the cell.
    pub holders: Vec<OrphanHolder>,
}

/// A former member that may have an orphan's state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrphanHolder {
    /// The incarnation that was in the group's last view.
    pub who: Incarnation,
    /// See [`MemberInfo::seat`].
    pub seat: u64,
    /// Whether it was in the view before the last, too.
    pub stayed: bool,
    /// Its name, for people. Empty in large groups.
    pub name: String,
}

/// The return of an orphan: what its next view continues from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revived {
    /// The view that was its last. It ended at the change's cut.
    pub view: ViewNumber,
    /// The holder whose state it is.
    pub was: Incarnation,
    /// By rank in that view: number of each sender's messages in the state.
    pub counts: Vec<u64>,
}

/// A returned member's report on a group that waits for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Return {
    /// The group.
    pub group: GroupId,
    /// The incarnation that is listed as a holder.
    pub was: Incarnation,
    /// The point from which it can continue; `None` if it cannot.
    pub from: Option<ReturnPoint>,
}

/// How far a holder's state goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReturnPoint {
    /// The view that it installed last.
    pub view: ViewNumber,
    /// The prefix of each stream of that view that it holds.
    pub prefixes: Vec<u64>,
    /// Number of each sender's messages in these prefixes.
    pub counts: Vec<u64>,
}

/// What a coordinator knows of an orphan whose holders come back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Returns {
    /// The member that is to continue it, and from where.
    pub donor: Option<(Incarnation, Return)>,
    /// Whether other holders have not answered yet. They may have more of the state.
    pub by_some: bool,
    /// Holders that are struck off.
    pub struck: Vec<Incarnation>,
}

impl GroupEntry {
    /// The group without members, waiting for these holders.
    #[must_use]
    pub(crate) fn waiting_for(mut self, orphan: Orphan) -> Self {
        debug_assert!(!orphan.holders.is_empty(), "a group that waits for nobody is over");
        self.members.clear();
        self.tail.put_value(ORPHAN, &orphan);
        self
    }

    /// Whether it waits: no member of the cell has its state.
    #[must_use]
    pub fn is_orphan(&self) -> bool {
        self.members.is_empty()
    }

    /// The holders for which it waits, if it does.
    #[must_use]
    pub fn orphan(&self) -> Option<Orphan> {
        if !self.is_orphan() {
            return None;
        }
        self.tail.value(ORPHAN).ok().flatten()
    }

    /// The point from which it came back last, if it did.
    #[must_use]
    pub fn revived(&self) -> Option<Revived> {
        self.tail.value(REVIVED).ok().flatten()
    }

    /// The cut of the view before its last.
    #[must_use]
    pub fn begun_at(&self) -> Option<Vec<u64>> {
        Some(self.tail.value::<ViewStart>(BEGUN).ok()??.prefixes)
    }

    /// Records that a later instance of the cell takes it over, and how many generations lie between the two.
    pub(super) fn take_over(&mut self, generations: u64) {
        let all = self.taken_over_for().saturating_add(generations);
        self.tail.put_number(TAKEN_OVER, self.view.0);
        self.tail.put_number(GENERATIONS, all);
    }

    /// The same below level 6, where it counts once, for however many generations.
    pub(super) fn take_over_once(&mut self) {
        self.tail.put_number(TAKEN_OVER, self.view.0);
    }

    /// For how many generations of the cell it was taken over since its last view.
    fn taken_over_for(&self) -> u64 {
        let number = |tag| self.tail.number(tag).ok().flatten();
        if number(TAKEN_OVER) != Some(self.view.0) {
            return 0;
        }
        number(GENERATIONS).unwrap_or(1).clamp(1, u64::from(u16::MAX))
    }

    /// The number of its next view, if one is left.
    #[must_use]
    pub fn next_view(&self) -> Option<ViewNumber> {
        self.view.checked_add(match self.taken_over_for() {
            0 => 1,
            generations => generations * UNKNOWN_VIEWS,
        })
    }

    /// Whether its view directly follows `view`.
    #[must_use]
    pub fn follows(&self, view: ViewNumber) -> bool {
        let more = self.view.0.saturating_sub(view.0);
        more == 1 || more > 0 && more.is_multiple_of(UNKNOWN_VIEWS)
    }

    /// Number of members of its last view that were in the one before, according to the entry.
    fn stayed(&self) -> usize {
        let begun: Option<ViewStart> = self.tail.value(BEGUN).ok().flatten();
        begun.map_or(0, |begun| usize::try_from(begun.stayed).unwrap_or(usize::MAX))
    }
}

impl GroupChange {
    /// Records that an orphan comes back by this change.
    pub fn revive(&mut self, revived: &Revived) {
        self.tail.put_value(REVIVED, revived);
    }

    /// The point from which an orphan comes back by this change, if one does.
    #[must_use]
    pub fn revived(&self) -> Option<Revived> {
        self.tail.value(REVIVED).ok().flatten()
    }

    /// Records holders that are struck off.
    pub fn strike(&mut self, who: &[Incarnation]) {
        self.tail.put_value(STRUCK, &who);
    }

    /// Holders that are struck off.
    #[must_use]
    pub fn struck(&self) -> Vec<Incarnation> {
        self.tail.value(STRUCK).ok().flatten().unwrap_or_default()
    }

    /// Records which of the members so far reported incomplete state.
    pub fn note_lacking(&mut self, who: &[Incarnation]) {
        self.tail.put_value(LACKING, &who);
    }

    /// The members so far that reported incomplete state. Below level 3 no member reports that.
    #[must_use]
    pub fn lacking(&self) -> Vec<Incarnation> {
        self.tail.value(LACKING).ok().flatten().unwrap_or_default()
    }

    /// Those of `members`, the group after this change, that do not have the whole state then, as agreed. Joiners take
    /// it from the others, if any of these has it.
    #[must_use]
    pub fn incomplete(&self, members: &[Incarnation]) -> Vec<Incarnation> {
        let lacking = self.lacking();
        let is_first = self.view == ViewNumber::FIRST || self.revived().is_some();
        let takes = |who: &Incarnation| !is_first && self.joined.contains(who);
        members.iter().copied().filter(|who| lacking.contains(who) || takes(who)).collect()
    }

    /// Whether it is a valid change of an orphan: the group comes back with one member, or holders are struck off.
    #[must_use]
    pub(super) fn fits_orphan(&self, entry: &GroupEntry, orphan: &Orphan) -> bool {
        let streams = usize::try_from(orphan.members).unwrap_or(usize::MAX);
        let fits = entry.next_view() == Some(self.view) && entry.name == self.name && self.left.is_empty();
        fits && match (&self.cut, self.revived()) {
            (Some(cut), Some(revived)) => {
                cut.prefixes.len() == streams
                    && cut.holders.len() == streams
                    && revived.counts.len() == streams
                    && revived.view == entry.view
                    && orphan.holders.iter().any(|holder| holder.who == revived.was)
                    && self.joined.len() == 1
            }
            (None, None) => self.joined.is_empty() && !self.struck().is_empty(),
            _ => false,
        }
    }
}

/// The processes for which groups wait.
#[must_use]
pub fn holders(directory: &Directory) -> BTreeSet<Incarnation> {
    directory.orphans().flat_map(|(_, _, orphan)| orphan.holders).map(|holder| holder.who).collect()
}

/// Former members for whom something waits: holders of groups that wait, and members that were left out without proof of
/// death.
#[must_use]
pub fn awaited(directory: &Directory) -> BTreeSet<Incarnation> {
    let lost = directory.lost().into_iter().flatten().map(|lost| lost.who);
    holders(directory).into_iter().chain(lost).collect()
}

impl Directory {
    /// Groups that wait for members that are out of the cell.
    pub fn orphans(&self) -> impl Iterator<Item = (GroupId, &GroupEntry, Orphan)> {
        self.groups.iter().filter_map(|(id, entry)| Some((*id, entry, entry.orphan()?)))
    }

    /// Whether groups wait in cases in which they end below level 3.
    #[must_use]
    pub fn has_orphans(&self) -> bool {
        self.level >= ORPHANS_LEVEL
    }

    /// A group's entry after `change`, which leaves it with `members`; `None` if the group is over.
    pub(super) fn entry_after(
        &self,
        entry: Option<GroupEntry>,
        change: &GroupChange,
        members: Vec<Incarnation>,
    ) -> Option<GroupEntry> {
        let waits = entry.as_ref().and_then(GroupEntry::orphan);
        if members.is_empty() {
            // Below level 3 a group ends with its last member in the cell.
            let entry = entry.filter(|_| self.has_orphans())?;
            return match waits {
                Some(mut orphan) => {
                    let struck = change.struck();
                    orphan.holders.retain(|holder| !struck.contains(&holder.who));
                    (!orphan.holders.is_empty()).then(|| entry.waiting_for(orphan))
                }
                None => {
                    let orphan = self.orphaned(&entry, change);
                    (!orphan.holders.is_empty()).then(|| entry.waiting_for(orphan))
                }
            };
        }
        let stayed = members.len() - change.joined.iter().filter(|who| members.contains(who)).count();
        let mut tail = entry.map(|entry| entry.tail).unwrap_or_default().under(&change.tail);
        if self.has_orphans() {
            tail.remove(ORPHAN);
            // The donor is alone in this view, and has the state of the view before.
            let stayed = if waits.is_some() { members.len() } else { stayed } as u64;
            let prefixes = change.cut.as_ref().map(|cut| cut.prefixes.clone()).unwrap_or_default();
            tail.put_value(BEGUN, &ViewStart { stayed, prefixes });
        }
        Some(GroupEntry { name: change.name.clone(), view: change.view, space: change.space, members, tail })
    }

    /// The orphan that `change` leaves without a member. Its holders are the members that leave, except those that are
    /// dead or requested to leave. Nobody checks whether a holder has the whole state, because it did not report.
    fn orphaned(&self, entry: &GroupEntry, change: &GroupChange) -> Orphan {
        let stayed = entry.stayed();
        let out = |who: &Incarnation| change.left.iter().any(|(left, why)| left == who && why.may_come_back());
        let holder = |(rank, who): (usize, &Incarnation)| {
            let info = self.rank(*who).map(|rank| &self.members[rank.index()]);
            let name = info.filter(|_| entry.members.len() <= NAMED_MAX).map(|info| info.name.clone());
            let (seat, name) = (info.map_or(0, MemberInfo::seat), name.unwrap_or_default());
            OrphanHolder { who: *who, seat, stayed: rank < stayed, name }
        };
        // The group's terms may let it end at once.
        let waits = !GroupTerms::of(&entry.tail).ends_alone;
        let may_hold = |who: &Incarnation| waits && out(who) && !entry.has_observer(*who);
        let holders = entry.members.iter().enumerate().filter(|(_, who)| may_hold(who)).map(holder).collect();
        Orphan { members: u32::try_from(entry.members.len()).unwrap_or(u32::MAX), holders }
    }

    /// Strikes off the holders that a decree proves gone: their process ended, or was started again without their
    /// state. `before` is the directory that the decree followed.
    pub(super) fn strike_proved(&mut self, before: &Self, proposal: &Proposal) {
        if !before.has_orphans() || !self.groups.values().any(GroupEntry::is_orphan) {
            return;
        }
        let ended = |why: &LeaveReason| matches!(why, LeaveReason::Died | LeaveReason::Left);
        let left = proposal.left.iter().filter(|(_, why)| ended(why));
        let gone: Vec<&MemberInfo> =
            left.filter_map(|(who, _)| before.members.get(before.rank(*who)?.index())).collect();
        // Silence strikes nobody off: a holder that is cut off is what the group waits for.
        let is_gone = |holder: &OrphanHolder| {
            gone.iter().any(|info| info.is_or_keeps(holder.who))
                || proposal.joined.iter().any(|info| info.has_begun_anew_at(holder))
        };
        self.groups.retain(|_, entry| {
            let Some(mut orphan) = entry.orphan() else { return true };
            let all = orphan.holders.len();
            orphan.holders.retain(|holder| !is_gone(holder));
            if orphan.holders.len() < all {
                entry.tail.put_value(ORPHAN, &orphan);
            }
            !orphan.holders.is_empty()
        });
    }
}

impl LeaveReason {
    /// Whether a member that left for this reason may still run with its state: it is not proved dead, and did not
    /// request to leave.
    pub(crate) fn may_come_back(self) -> bool {
        matches!(self, Self::Unreachable | Self::TooSlow | Self::NoProgress)
    }
}
