//! The proposals that a coordinator may make when none was accepted before, given the directory in force, the reports
//! and the membership requests.

use std::collections::{BTreeMap, BTreeSet};

use phalanx_core::member::{
    Coordinator, Directory, GroupChange, GroupCut, GroupEntry, MembershipRequests, Orphan, Proposal, Report,
};
use phalanx_core::{GroupId, GroupTerms, Incarnation, LeaveReason, Rank, ViewNumber};

use super::waits;
use crate::rules::Rules;

/// A proposal, and what it was made from.
pub(super) struct Draft<'a> {
    pub(super) rules: Rules,
    pub(super) directory: &'a Directory,
    /// The requests that its coordinator knew, if they were observed.
    pub(super) requests: Option<&'a MembershipRequests>,
    pub(super) proposal: &'a Proposal,
}

/// The observed part of its reports. Two kinds are not observed: reports of a ballot that begins and ends within one
/// poll, and the last report of a ballot that ends in the poll in which it arrives. Where reports are missing,
/// everything that they may allow is allowed.
pub(super) struct Observed<'a> {
    /// The coordinator, if it still drives the ballot.
    pub(super) coordinator: Option<&'a Coordinator>,
    /// The members that reported, by rank.
    pub(super) asked: &'a BTreeSet<Rank>,
    /// The groups in which they stopped, if that was observed.
    pub(super) groups: Option<&'a BTreeSet<GroupId>>,
    /// By rank, the observed reports as of the time when the proposal was fixed.
    pub(super) reports: BTreeMap<Rank, &'a Report>,
}

impl Observed<'_> {
    /// Whether every report was observed.
    pub(super) fn is_all(&self) -> bool {
        self.asked.iter().all(|rank| self.reports.contains_key(rank))
    }
}

type Checked = Result<(), String>;

fn ensure(holds: bool, problem: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(problem()) }
}

fn reason(left: &[(Incarnation, LeaveReason)], who: Incarnation) -> Option<LeaveReason> {
    left.iter().find(|(other, _)| *other == who).map(|(_, why)| *why)
}

impl Draft<'_> {
    /// Checks that the directory and the requests allow each change of a group.
    pub(super) fn check_shapes(&self) -> Checked {
        for change in &self.proposal.groups {
            let group = change.group;
            match self.directory.groups.get(&group) {
                None => self.check_new(change),
                Some(entry) => match entry.orphan() {
                    Some(orphan) => self.check_orphan(change, entry, &orphan),
                    None => self.check_usual(change, entry),
                },
            }
            .map_err(|problem| format!("{group:?}: {problem}"))?;
        }
        Ok(())
    }

    /// Checks who stays and what becomes of groups, which reports and requests decide.
    pub(super) fn check_by_reports(&self, observed: &Observed<'_>) -> Checked {
        self.check_leavers(observed)?;
        for change in &self.proposal.groups {
            let Some(entry) = self.directory.groups.get(&change.group).filter(|entry| !entry.members.is_empty()) else {
                continue;
            };
            let checked = self.check_members(observed, change, entry).and_then(|()| self.check_cut(observed, change));
            checked.map_err(|problem| format!("{:?}: {problem}", change.group))?;
        }
        let (Some(requests), true) = (self.requests, self.waits()) else {
            return ensure(self.held(observed).is_empty(), || {
                format!("{:?} are held, below level 3", self.held(observed))
            });
        };
        self.check_let_go(observed, requests)?;
        self.check_held(observed, requests)
    }

    /// The members that asked to leave and reported, and that this proposal keeps in the cell or in a group.
    pub(super) fn held(&self, observed: &Observed<'_>) -> BTreeSet<Incarnation> {
        let Some(requests) = self.requests else { return BTreeSet::new() };
        let of_cell = requests.leavers.iter().filter(|who| reason(&self.proposal.left, **who).is_none());
        let of_groups = requests.group_leaves.iter().filter(|(name, who)| {
            let entry = self.directory.group_named(name);
            entry.is_some_and(|(id, entry)| entry.members.contains(who) && self.leaves(id, *who).is_none())
        });
        let all = of_cell.chain(of_groups.map(|(_, who)| who)).copied();
        all.filter(|who| self.reported(observed, *who)).collect()
    }

    fn waits(&self) -> bool {
        waits::groups_wait(self.directory)
    }

    fn reported(&self, observed: &Observed<'_>, who: Incarnation) -> bool {
        self.directory.rank(who).is_some_and(|rank| observed.asked.contains(&rank))
    }

    fn report<'t>(&self, observed: &Observed<'t>, who: Incarnation) -> Option<&'t Report> {
        observed.reports.get(&self.directory.rank(who)?).copied()
    }

    /// Whether it reported to have the complete state of a group that it is a member of.
    fn is_complete(&self, observed: &Observed<'_>, group: GroupId, who: Incarnation) -> bool {
        self.report(observed, who).is_some_and(|report| !report.incomplete.contains(&group))
    }

    /// The same, or its report was not observed.
    fn may_be_complete(&self, observed: &Observed<'_>, group: GroupId, who: Incarnation) -> bool {
        self.reported(observed, who)
            && self.report(observed, who).is_none_or(|report| !report.incomplete.contains(&group))
    }

    fn gives(&self, observed: &Observed<'_>, group: GroupId, who: Incarnation) -> bool {
        self.report(observed, who).is_some_and(|report| report.giving.contains(&group))
    }

    /// The reason for which it leaves a group by this proposal, if it does.
    fn leaves(&self, group: GroupId, who: Incarnation) -> Option<LeaveReason> {
        let of_group = self.proposal.groups.iter().find(|change| change.group == group);
        of_group.and_then(|change| reason(&change.left, who)).or_else(|| reason(&self.proposal.left, who))
    }

    fn is_let_go(&self, group: GroupId, who: Incarnation) -> bool {
        self.leaves(group, who) == Some(LeaveReason::Left)
    }

    fn is_in_next(&self, who: Incarnation) -> bool {
        let stays = self.directory.rank(who).is_some() && reason(&self.proposal.left, who).is_none();
        stays || self.proposal.joiners().any(|joiner| joiner == who)
    }

    fn check_new(&self, change: &GroupChange) -> Checked {
        let taken = self.directory.groups.values().any(|entry| entry.name == change.name);
        ensure(!taken, || format!("{:?} is made, and there is a group of that name", change.name))?;
        let is_plain = change.cut.is_none() && change.left.is_empty() && change.view == ViewNumber(1);
        ensure(is_plain && !change.joined.is_empty(), || "a new group with something else than members".into())?;
        ensure(change.revived().is_none() && change.struck().is_empty(), || "a new group is back".into())?;
        self.check_joined(change)
    }

    fn check_usual(&self, change: &GroupChange, entry: &GroupEntry) -> Checked {
        ensure(!entry.members.is_empty(), || "a group without members waits for nobody".into())?;
        ensure(change.name == entry.name && change.view == entry.view.next(), || "it is not its next view".into())?;
        ensure(change.revived().is_none() && change.struck().is_empty(), || "it is no orphan, and is back".into())?;
        ensure(change.cut.is_some(), || "its view ends without a cut".into())?;
        ensure(change.joined.iter().all(|who| !entry.members.contains(who)), || "a member joins it".into())?;
        ensure(change.left.iter().all(|(who, _)| entry.members.contains(who)), || "who is no member leaves".into())?;
        self.check_joined(change)
    }

    /// Checks that each joiner of a group is in the next view of the cell and requested to join.
    fn check_joined(&self, change: &GroupChange) -> Checked {
        for who in &change.joined {
            ensure(self.is_in_next(*who), || format!("{who:?} comes, and is not in the cell"))?;
            let Some(requests) = self.requests else { continue };
            let of_member = requests.group_joins.iter().any(|(name, wisher)| *name == change.name && wisher == who);
            let of_joiner =
                requests.joiners.iter().any(|(info, names)| info.incarnation == *who && names.contains(&change.name));
            ensure(of_member || of_joiner, || format!("{who:?} comes, and did not ask for it"))?;
        }
        Ok(())
    }

    /// Checks that an orphan returns with a process that kept its state, from that process's position, or waits for
    /// fewer holders.
    fn check_orphan(&self, change: &GroupChange, entry: &GroupEntry, orphan: &Orphan) -> Checked {
        ensure(self.waits(), || "it waits, below level 3".into())?;
        ensure(change.name == entry.name && Some(change.view) == entry.next_view(), || {
            "it is not its next view".into()
        })?;
        ensure(change.left.is_empty(), || "somebody leaves an orphan".into())?;
        let is_listed = |who: &Incarnation| orphan.holders.iter().any(|holder| holder.who == *who);
        let returns = self.requests.map(|requests| requests.returns.get(&change.group).cloned().unwrap_or_default());
        let Some(revived) = change.revived() else {
            let struck = change.struck();
            ensure(change.cut.is_none() && change.joined.is_empty(), || "an orphan changes that is not back".into())?;
            ensure(!struck.is_empty(), || "an orphan changes, and waits for as many".into())?;
            ensure(struck.iter().all(is_listed), || format!("{struck:?} are struck off, and not all are listed"))?;
            let has_reason = returns.is_none_or(|returns| struck.iter().all(|who| returns.struck.contains(who)));
            return ensure(has_reason, || format!("{struck:?} are struck off, and no member gave a reason"));
        };
        ensure(change.struck().is_empty(), || "an orphan is back, and holders are struck off".into())?;
        let (Some(cut), [donor]) = (&change.cut, &change.joined[..]) else {
            return Err("an orphan is back without a cut, or not with one member".into());
        };
        let info = self.directory.members.iter().find(|info| info.incarnation == *donor);
        let keeps = info.is_some_and(|info| info.is_or_keeps(revived.was));
        let may = self.rules.may_revive(is_listed(&revived.was), keeps, self.is_in_next(*donor));
        ensure(may, || format!("it comes back with {donor:?}, as {:?}, of {:?}", revived.was, orphan.holders))?;
        ensure(revived.view == entry.view, || format!("it comes back from view {}", revived.view))?;
        let streams = usize::try_from(orphan.members).unwrap_or(usize::MAX);
        let lens = [cut.prefixes.len(), cut.holders.len(), revived.counts.len()];
        ensure(lens == [streams; 3], || format!("its cut and counts have {lens:?} streams of {streams}"))?;
        ensure(cut.holders.iter().all(|who| *who == Incarnation::NONE), || "its cut is to be fetched".into())?;
        let Some(returns) = returns else { return Ok(()) };
        let said =
            returns.donor.filter(|(who, back)| who == donor && back.was == revived.was && back.group == change.group);
        let from = said.and_then(|(_, back)| back.from);
        let same = from.as_ref().is_some_and(|from| {
            from.view == entry.view && from.prefixes == cut.prefixes && from.counts == revived.counts
        });
        ensure(same, || format!("it comes back from {:?}, and its donor reported {from:?}", cut.prefixes))
    }

    /// Checks the leavers of the cell, and that they leave their groups too.
    fn check_leavers(&self, observed: &Observed<'_>) -> Checked {
        for &(who, why) in &self.proposal.left {
            let Some(rank) = self.directory.rank(who) else { return Err(format!("{who:?} leaves, and is no member")) };
            let reported = observed.asked.contains(&rank);
            let is_reason = |why: LeaveReason| observed.coordinator.is_none_or(|c| c.reason(rank) == why);
            let allowed = match why {
                LeaveReason::Left => reported && self.requests.is_none_or(|requests| requests.leavers.contains(&who)),
                LeaveReason::Died => !reported,
                LeaveReason::Unreachable | LeaveReason::TooSlow | LeaveReason::NoProgress => {
                    !reported && is_reason(why)
                }
                LeaveReason::Nonsense | LeaveReason::Anew | LeaveReason::Stopped => false,
            };
            ensure(allowed, || format!("rank {rank} leaves as {why:?}; reported: {reported}"))?;
            for (group, _) in self.directory.groups.iter().filter(|(_, entry)| entry.members.contains(&who)) {
                let change = self.proposal.groups.iter().find(|change| change.group == *group);
                let goes = change.is_some_and(|change| reason(&change.left, who) == Some(why));
                ensure(goes, || format!("rank {rank} leaves as {why:?}, and stays in {group:?}"))?;
            }
        }
        Ok(())
    }

    /// Checks who leaves a group and stays in the cell, and whether the remaining members continue with the group's
    /// state.
    fn check_members(&self, observed: &Observed<'_>, change: &GroupChange, entry: &GroupEntry) -> Checked {
        let group = change.group;
        let is_stopped = observed.groups.is_none_or(|groups| groups.contains(&group));
        ensure(is_stopped, || "it changes, and nobody was asked to stop in it".into())?;
        let goes_on = |who: &Incarnation| {
            let stays = reason(&change.left, *who).is_none();
            self.rules.goes_on(self.waits(), stays, self.may_be_complete(observed, group, *who))
        };
        let has_next = entry.members.iter().any(goes_on);
        ensure(has_next || change.left.len() == entry.members.len(), || {
            format!("it goes on, and nobody who stays has its state: {:?} leave", change.left)
        })?;
        ensure(has_next || change.joined.is_empty(), || "somebody comes where nobody has the state".into())?;
        let lacking = change.lacking();
        for &who in entry.members.iter().filter(|who| self.waits() && self.report(observed, **who).is_some()) {
            let complete = self.is_complete(observed, group, who);
            ensure(lacking.contains(&who) != complete, || {
                format!("{who:?} is listed as lacking the state: {}; it reported that it has it: {complete}", !complete)
            })?;
        }
        for &(who, why) in change.left.iter().filter(|(who, _)| reason(&self.proposal.left, *who).is_none()) {
            let complete = self.is_complete(observed, group, who);
            let allowed = match why {
                LeaveReason::Left => self.requests.is_none_or(|requests| {
                    requests.group_leaves.iter().any(|(name, other)| *name == entry.name && *other == who)
                }),
                _ if self.is_judged(observed, change) => why.is_loss(),
                LeaveReason::Anew => !self.rules.goes_on(self.waits(), true, complete) && !has_next,
                _ => false,
            };
            ensure(allowed, || format!("{who:?} leaves as {why:?}; complete: {complete}, it goes on: {has_next}"))?;
        }
        let is_unreadable = observed.coordinator.is_none_or(|c| c.unreadable_groups().contains(&group));
        let changes = !change.left.is_empty() || !change.joined.is_empty();
        ensure(changes || is_unreadable, || "its view ends for nothing".into())
    }

    /// Whether a group's nonsense was resolved in the poll in which the ballot ended.
    fn is_judged(&self, observed: &Observed<'_>, change: &GroupChange) -> bool {
        let has_next =
            change.left.len() < self.directory.groups.get(&change.group).map_or(0, |entry| entry.members.len());
        let by_nonsense = |why: &LeaveReason| match why {
            LeaveReason::Nonsense | LeaveReason::Stopped => true,
            LeaveReason::Anew => has_next,
            _ => false,
        };
        observed.coordinator.is_none() && change.left.iter().any(|(_, why)| by_nonsense(why))
    }

    /// Checks that each stream is cut at the longest reported prefix, and that the named holder holds it.
    fn check_cut(&self, observed: &Observed<'_>, change: &GroupChange) -> Checked {
        let Some(GroupCut { prefixes, holders }) = &change.cut else { return Ok(()) };
        let of_group = |report: &&Report| report.prefixes.iter().find(|(group, _)| *group == change.group).cloned();
        let held: Vec<Vec<u64>> = observed.reports.values().filter_map(of_group).map(|(_, held)| held).collect();
        for (stream, (&end, &holder)) in prefixes.iter().zip(holders).enumerate() {
            let longest = self.rules.cut(held.iter().filter_map(|held| held.get(stream).copied()));
            let is_longest = longest == end || longest < end && !observed.is_all() || self.is_judged(observed, change);
            ensure(is_longest, || format!("it is cut at {prefixes:?}, not at the longest of {held:?}"))?;
            let has = match self.report(observed, holder) {
                Some(report) => of_group(&report).is_some_and(|(_, held)| held.get(stream) == Some(&end)),
                None => self.reported(observed, holder) || end == 0 && holder == Incarnation::NONE,
            } || self.is_judged(observed, change);
            ensure(has, || format!("{holder:?} is to hold {end} of stream {stream}, of {held:?}"))?;
        }
        Ok(())
    }

    /// Checks that no leaver is let go that is needed.
    fn check_let_go(&self, observed: &Observed<'_>, requests: &MembershipRequests) -> Checked {
        let quorum_stays = self.quorum_stays(observed, requests);
        let goes = self.proposal.left.iter().any(|(_, why)| *why == LeaveReason::Left);
        let may_go = !goes || !self.rules.must_stay(false, !quorum_stays, false);
        ensure(may_go, || "leavers are let go, and who stays is no quorum of the view without them".into())?;
        for (&group, entry) in self.directory.groups.iter().filter(|(_, entry)| !entry.members.is_empty()) {
            let members = || entry.members.iter().copied();
            let stays = |who: Incarnation| self.reported(observed, who) && !self.is_let_go(group, who);
            let kept = members().any(|who| stays(who) && self.may_be_complete(observed, group, who));
            // An observer never has the state, and nobody waits until it has.
            let wants = |who: Incarnation| stays(who) && !asked(requests, entry, who) && !entry.has_observer(who);
            let waits =
                members().any(wants) || is_taken(observed, group) || members().any(|who| self.comes_back(entry, who));
            for who in members().filter(|who| self.is_let_go(group, *who)) {
                let gives = self.gives(observed, group, who);
                let leaves_without = self.is_complete(observed, group, who) && !kept && waits;
                ensure(!self.rules.must_stay(gives, false, leaves_without), || {
                    format!(
                        "{who:?} is let go from {group:?}; it gives the state: {gives}, others lose it: {leaves_without}"
                    )
                })?;
            }
        }
        Ok(())
    }

    /// Checks that a leaver is kept for a reason only.
    fn check_held(&self, observed: &Observed<'_>, requests: &MembershipRequests) -> Checked {
        let quorum_stays = self.quorum_stays(observed, requests);
        for who in self.held(observed).into_iter().filter(|who| self.report(observed, *who).is_some()) {
            let no_quorum = requests.leavers.contains(&who) && !quorum_stays;
            let of = self.directory.groups.iter().filter(|(_, entry)| entry.members.contains(&who));
            let mut of = of.filter(|(group, _)| observed.groups.is_none_or(|groups| groups.contains(group)));
            let needed = of.any(|(&group, entry)| {
                let leaves_without =
                    self.is_complete(observed, group, who) && self.is_needed(observed, requests, group, entry);
                self.rules.must_stay(self.gives(observed, group, who), false, leaves_without)
            });
            ensure(needed || self.rules.must_stay(false, no_quorum, false), || {
                format!("{who:?} asked to leave and is held, without a reason")
            })?;
        }
        Ok(())
    }

    /// Whether a group would be left to members without its state, if those that asked to leave it went.
    fn is_needed(
        &self,
        observed: &Observed<'_>,
        requests: &MembershipRequests,
        group: GroupId,
        entry: &GroupEntry,
    ) -> bool {
        let stays = |who: Incarnation| self.reported(observed, who) && !self.is_let_go(group, who);
        let has_state = |who: Incarnation| self.is_complete(observed, group, who);
        let members = || entry.members.iter().copied();
        let kept =
            members().any(|who| has_state(who) && (!asked(requests, entry, who) || self.gives(observed, group, who)));
        let waits = members().any(|who| stays(who) && !has_state(who))
            || is_taken(observed, group)
            || members().any(|who| self.comes_back(entry, who))
            || !observed.is_all();
        !kept && waits
    }

    /// Whether a member of a group is cut off by this proposal and may bring the group back.
    fn comes_back(&self, entry: &GroupEntry, who: Incarnation) -> bool {
        let why = reason(&self.proposal.left, who);
        !GroupTerms::of(&entry.tail).ends_alone
            && why.is_some_and(|why| !matches!(why, LeaveReason::Died | LeaveReason::Left))
    }

    /// Whether the members that reported and did not ask to leave are a quorum of the view without its leavers. True if
    /// that view would be empty.
    fn quorum_stays(&self, observed: &Observed<'_>, requests: &MembershipRequests) -> bool {
        let all = self.directory.members.iter().map(|info| info.incarnation);
        let rest: Vec<Incarnation> = all.filter(|who| !requests.leavers.contains(who)).collect();
        let present = rest.iter().filter(|who| self.reported(observed, **who)).count();
        let with_first = rest.first().is_some_and(|who| self.reported(observed, *who));
        rest.is_empty() || self.rules.is_quorum(present, rest.len(), with_first)
    }
}

/// Whether a member asked to leave a group, or the cell.
fn asked(requests: &MembershipRequests, entry: &GroupEntry, who: Incarnation) -> bool {
    let of_group = requests.group_leaves.iter().any(|(name, other)| *name == entry.name && *other == who);
    of_group || requests.leavers.contains(&who)
}

/// Whether some process in the cell takes a group's state, or looks for a donor.
fn is_taken(observed: &Observed<'_>, group: GroupId) -> bool {
    observed.reports.values().any(|report| report.taking.contains(&group))
}

/// Whether a group with resolved nonsense continues with a member that reported its state, or not at all.
pub(super) fn keeps_state(rules: Rules, directory: &Directory, c: &Coordinator, change: &GroupChange) -> bool {
    let Some(entry) = directory.groups.get(&change.group).filter(|entry| !entry.members.is_empty()) else {
        return true;
    };
    let complete = |who: Incarnation| {
        let report = directory.rank(who).and_then(|rank| c.reports.get(&rank));
        report.is_some_and(|report| !report.incomplete.contains(&change.group))
    };
    let waits = waits::groups_wait(directory);
    let goes_on = |who: &Incarnation| rules.goes_on(waits, reason(&change.left, *who).is_none(), complete(*who));
    let nobody = change.joined.is_empty() && entry.members.iter().all(|who| reason(&change.left, *who).is_some());
    nobody || entry.members.iter().any(goes_on)
}
