//! Orphaned groups: all members that hold the state are cut off from the quorum (`docs/orphans.md`).
//!
//! The record of them is in the directory: in the tails of member records, of group entries and of decisions about
//! groups, from level [`ORPHANS_LEVEL`] on.

use serde::{Deserialize, Serialize};

use super::{Directory, GroupChange, GroupEntry, Proposal};
use crate::api::{GroupTerms, LeaveReason};
use crate::id::{GroupId, Incarnation, MemberInfo};
use crate::wire::Tags;

/// From this level on a group waits for members with its state that are cut off.
pub const ORPHANS_LEVEL: u16 = 3;

/// Orphans that a directory holds at most: with more, no new group is made.
pub const ORPHANS_MAX: usize = 256;

/// Lives of a process that its record names at most.
pub const INCARNATIONS_MAX: usize = 64;

/// In a member's record: the place that a process of this name is started in, the same for all its starts there.
const SEAT: u64 = 2;
/// In the same: earlier lives of the process whose state it kept.
const INCARNATIONS: u64 = 3;

/// In a group's entry: how its view began.
const BEGUN: u64 = 3;
/// In an orphan's entry: whom it waits for.
const ORPHAN: u64 = 4;
/// In a change, and in the entry after it: an orphan came back.
const REVIVED: u64 = 5;
/// In a change: these holders are struck off.
const STRUCK: u64 = 6;

/// In a change, and in the entry after it: members that reported that their state is not whole. (7 is one of the terms.)
const LACKING: u64 = 8;

/// In an orphan's entry, and in that of the group when it is back: its last view when another instance of the cell took it over.
const TAKEN_OVER: u64 = 9;

/// Numbers of views that a group skips when another instance takes it over. The instance before may have gone on with it, unknown to
/// those that are left: its views have numbers of their own.
const UNKNOWN_VIEWS: u64 = 1 << 32;

/// An orphan keeps the names of its holders if its last view had at most this many members.
pub const NAMED_MAX: usize = 1000;

impl MemberInfo {
    /// Notes where it runs: a number that is the same for all starts of this name in one state directory, and for no other.
    pub fn sit(&mut self, seat: u64) {
        self.tail.put_number(SEAT, seat);
    }

    /// Where it runs; 0: not known.
    #[must_use]
    pub fn seat(&self) -> u64 {
        self.tail.number(SEAT).ok().flatten().unwrap_or(0)
    }

    /// Notes earlier lives of the same process, whose state it kept.
    pub fn keeps(&mut self, lives: &[Incarnation]) {
        if lives.is_empty() {
            self.tail.remove(INCARNATIONS);
        } else {
            self.tail.put_value(INCARNATIONS, &lives);
        }
    }

    /// Earlier lives whose state it kept.
    #[must_use]
    pub fn earlier_incarnations(&self) -> Vec<Incarnation> {
        self.tail.value(INCARNATIONS).ok().flatten().unwrap_or_default()
    }

    /// Whether it is this life, or kept its state.
    #[must_use]
    pub fn is_or_keeps(&self, who: Incarnation) -> bool {
        self.incarnation == who || self.tail.get(INCARNATIONS).is_some() && self.earlier_incarnations().contains(&who)
    }
}

/// How a view of a group began. A member that has not installed the view needs it when it comes back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ViewStart {
    /// How many of its members, in rank order from 0, were in the view before.
    stayed: u64,
    /// Where the view before ended: the prefix of each of its streams.
    prefixes: Vec<u64>,
}

/// Whom a group waits for of which nobody in the cell has the state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Orphan {
    /// Members of its last view.
    pub members: u32,
    /// Those of them that may have the state, live for all that is known, and are out of the cell.
    pub holders: Vec<OrphanHolder>,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrphanHolder {
    /// The life that was in the group's last view.
    pub who: Incarnation,
    /// See [`MemberInfo::seat`].
    pub seat: u64,
    /// It was in the view before the last as well.
    pub stayed: bool,
    /// Its name, for people; empty in large groups.
    pub name: String,
}

/// An orphan came back: what its next view goes on from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revived {
    /// The view that was its last, and ended at the change's cut.
    pub view: u64,
    /// The holder whose state it is.
    pub was: Incarnation,
    /// By rank in that view: the messages of each sender that are in the state.
    pub counts: Vec<u64>,
}

/// What a member that is back says of a group that waits for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Return {
    /// The group.
    pub group: GroupId,
    /// The life that is listed as a holder.
    pub was: Incarnation,
    /// What it can go on from; `None`: it cannot.
    pub from: Option<ReturnPoint>,
}

/// Where a holder's state stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReturnPoint {
    /// The view that it installed last.
    pub view: u64,
    /// The prefix of each stream of that view that it holds.
    pub prefixes: Vec<u64>,
    /// The messages of each sender that are in these.
    pub counts: Vec<u64>,
}

/// What a coordinator knows of an orphan that is back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Returns {
    /// Who is to go on with it, from what.
    pub donor: Option<(Incarnation, Return)>,
    /// Others that may have its state have not answered.
    pub by_some: bool,
    /// Holders that are no more.
    pub struck: Vec<Incarnation>,
}

impl GroupEntry {
    /// The same group, without members, as it waits for these.
    #[must_use]
    pub(crate) fn waiting_for(mut self, orphan: Orphan) -> Self {
        debug_assert!(!orphan.holders.is_empty(), "a group that waits for nobody is over");
        self.members.clear();
        self.tail.put_value(ORPHAN, &orphan);
        self
    }

    /// Whether it waits: nobody in the cell has its state.
    #[must_use]
    pub fn is_orphan(&self) -> bool {
        self.members.is_empty()
    }

    /// Whom it waits for, if it does.
    #[must_use]
    pub fn orphan(&self) -> Option<Orphan> {
        if !self.is_orphan() {
            return None;
        }
        self.tail.value(ORPHAN).ok().flatten()
    }

    /// From where it came back last, if it did.
    #[must_use]
    pub fn revived(&self) -> Option<Revived> {
        self.tail.value(REVIVED).ok().flatten()
    }

    /// Where the view before its last ended.
    #[must_use]
    pub fn begun_at(&self) -> Option<Vec<u64>> {
        Some(self.tail.value::<ViewStart>(BEGUN).ok()??.prefixes)
    }

    /// The same group as another instance of the cell takes it over.
    #[must_use]
    pub(super) fn taken_over(mut self) -> Self {
        self.tail.put_number(TAKEN_OVER, self.view);
        self
    }

    /// The number of its next view, if there is one more.
    #[must_use]
    pub fn next_view(&self) -> Option<u64> {
        let taken_over = self.tail.number(TAKEN_OVER).ok().flatten() == Some(self.view);
        self.view.checked_add(if taken_over { UNKNOWN_VIEWS } else { 1 })
    }

    /// Whether its view is the one after this.
    #[must_use]
    pub fn follows(&self, view: u64) -> bool {
        [1, UNKNOWN_VIEWS].into_iter().any(|more| view.checked_add(more) == Some(self.view))
    }

    /// Who of its last view was in the one before, as the entry tells.
    fn stayed(&self) -> usize {
        let begun: Option<ViewStart> = self.tail.value(BEGUN).ok().flatten();
        begun.map_or(0, |begun| usize::try_from(begun.stayed).unwrap_or(usize::MAX))
    }
}

impl GroupChange {
    /// Notes that an orphan comes back with it.
    pub fn revive(&mut self, revived: &Revived) {
        self.tail.put_value(REVIVED, revived);
    }

    /// From where an orphan comes back with it, if one does.
    #[must_use]
    pub fn revived(&self) -> Option<Revived> {
        self.tail.value(REVIVED).ok().flatten()
    }

    /// Notes that these holders are no more.
    pub fn strike(&mut self, who: &[Incarnation]) {
        self.tail.put_value(STRUCK, &who);
    }

    /// Holders that are no more.
    #[must_use]
    pub fn struck(&self) -> Vec<Incarnation> {
        self.tail.value(STRUCK).ok().flatten().unwrap_or_default()
    }

    /// Notes that these of its members so far reported that their state is not whole.
    pub fn note_lacking(&mut self, who: &[Incarnation]) {
        self.tail.put_value(LACKING, &who);
    }

    /// Of its members so far, those that reported that their state is not whole; below level 3 nobody says so.
    #[must_use]
    pub fn lacking(&self) -> Vec<Incarnation> {
        self.tail.value(LACKING).ok().flatten().unwrap_or_default()
    }

    /// Those of `members`, who are in the group after it, that have not the whole state then as far as is agreed: who joins takes it
    /// from the others, if there are any that have it.
    #[must_use]
    pub fn incomplete(&self, members: &[Incarnation]) -> Vec<Incarnation> {
        let lacking = self.lacking();
        let is_first = self.view == 1 || self.revived().is_some();
        let takes = |who: &Incarnation| !is_first && self.joined.contains(who);
        members.iter().copied().filter(|who| lacking.contains(who) || takes(who)).collect()
    }

    /// Whether it fits on an orphan's entry: the group comes back with one member, or holders are struck off.
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

impl Directory {
    /// Groups that wait for members that are out of the cell.
    pub fn orphans(&self) -> impl Iterator<Item = (GroupId, &GroupEntry, Orphan)> {
        self.groups.iter().filter_map(|(id, entry)| Some((*id, entry, entry.orphan()?)))
    }

    /// Whether groups wait where they would end.
    #[must_use]
    pub fn has_orphans(&self) -> bool {
        self.level >= ORPHANS_LEVEL
    }

    /// A group's entry after `change`, which leaves it with `members`; `None`: it is over.
    pub(super) fn entry_after(
        &self,
        entry: Option<GroupEntry>,
        change: &GroupChange,
        members: Vec<Incarnation>,
    ) -> Option<GroupEntry> {
        let waits = entry.as_ref().and_then(GroupEntry::orphan);
        if members.is_empty() {
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
            // The donor, alone in this view, has the state of the view before.
            let stayed = if waits.is_some() { members.len() } else { stayed } as u64;
            let prefixes = change.cut.as_ref().map(|cut| cut.prefixes.clone()).unwrap_or_default();
            tail.put_value(BEGUN, &ViewStart { stayed, prefixes });
        }
        Some(GroupEntry { name: change.name.clone(), view: change.view, space: change.space, members, tail })
    }

    /// Whom the group waits for that `change` leaves without a member: those that leave, unless they are dead or asked to.
    fn orphaned(&self, entry: &GroupEntry, change: &GroupChange) -> Orphan {
        let stayed = entry.stayed();
        let out = |who: &Incarnation| change.left.iter().any(|(left, why)| left == who && why.may_come_back());
        let holder = |(rank, who): (usize, &Incarnation)| {
            let info = self.rank(*who).map(|rank| &self.members[rank.index()]);
            let name = info.filter(|_| entry.members.len() <= NAMED_MAX).map(|info| info.name.clone());
            let (seat, name) = (info.map_or(0, MemberInfo::seat), name.unwrap_or_default());
            OrphanHolder { who: *who, seat, stayed: rank < stayed, name }
        };
        let waits = !GroupTerms::of(&entry.tail).ends_alone;
        let holders = entry.members.iter().enumerate().filter(|(_, who)| waits && out(who)).map(holder).collect();
        Orphan { members: u32::try_from(entry.members.len()).unwrap_or(u32::MAX), holders }
    }

    /// What a decree proves besides: holders whose process ended, or that was started again without their state. `before`: the
    /// directory that it followed on.
    pub(super) fn strike_proved(&mut self, before: &Self, proposal: &Proposal) {
        if !before.has_orphans() || !self.groups.values().any(GroupEntry::is_orphan) {
            return;
        }
        let ended = |why: &LeaveReason| matches!(why, LeaveReason::Died | LeaveReason::Left);
        let left = proposal.left.iter().filter(|(_, why)| ended(why));
        let gone: Vec<&MemberInfo> =
            left.filter_map(|(who, _)| before.members.get(before.rank(*who)?.index())).collect();
        let is_gone = |holder: &OrphanHolder| {
            let anew = |info: &MemberInfo| info.seat() == holder.seat && !info.is_or_keeps(holder.who);
            gone.iter().any(|info| info.is_or_keeps(holder.who)) || holder.seat != 0 && proposal.joined.iter().any(anew)
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
    /// Whether a member that left for this reason may still run with its state: it is not proved dead and did not ask to leave.
    pub(super) fn may_come_back(self) -> bool {
        matches!(self, Self::Unreachable | Self::TooSlow | Self::NoProgress)
    }
}

/// In a report's tail: groups of which the reporter has not the whole state.
const INCOMPLETE: u64 = 1;
/// In the same: groups whose state it gives, and takes.
const GIVING: u64 = 2;
/// See [`GIVING`].
const TAKING: u64 = 3;
/// In the tail of requests: what a member that is back says of groups that wait for it.
const RETURNS: u64 = 2;
/// In the same: names of groups that are to wait no more, and lives that are proved dead.
const GIVEN_UP: u64 = 3;
/// See [`GIVEN_UP`].
const DEAD: u64 = 4;

/// What travels in the tails of reports and requests.
pub(super) mod tails {
    use super::{DEAD, GIVEN_UP, GIVING, INCOMPLETE, RETURNS, TAKING, Tags};
    use crate::member::{Report, RequestList};
    use crate::wire::Malformed;

    pub(in crate::member) fn put_report(tail: &mut Tags, report: &Report) {
        for (tag, groups) in [(INCOMPLETE, &report.incomplete), (GIVING, &report.giving), (TAKING, &report.taking)] {
            if !groups.is_empty() {
                tail.put_value(tag, groups);
            }
        }
    }

    pub(in crate::member) fn read_report(tail: &Tags, report: &mut Report) -> Result<(), Malformed> {
        report.incomplete = tail.value(INCOMPLETE)?.unwrap_or_default();
        report.giving = tail.value(GIVING)?.unwrap_or_default();
        report.taking = tail.value(TAKING)?.unwrap_or_default();
        Ok(())
    }

    pub(in crate::member) fn put_requests(tail: &mut Tags, list: &RequestList) {
        if !list.returns.is_empty() {
            tail.put_value(RETURNS, &list.returns);
        }
        if !list.given_up.is_empty() {
            tail.put_value(GIVEN_UP, &list.given_up);
        }
        if !list.dead.is_empty() {
            tail.put_value(DEAD, &list.dead);
        }
    }

    pub(in crate::member) fn read_requests(tail: &Tags, list: &mut RequestList) -> Result<(), Malformed> {
        list.returns = tail.value(RETURNS)?.unwrap_or_default();
        list.given_up = tail.value(GIVEN_UP)?.unwrap_or_default();
        list.dead = tail.value(DEAD)?.unwrap_or_default();
        Ok(())
    }
}
