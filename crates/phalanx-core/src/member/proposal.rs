//! Building a proposal from all reports, when no acceptor had accepted one before.

use std::collections::{BTreeMap, BTreeSet};

use super::ballot::Report;
use super::decree::{GroupChange, GroupCut, Proposal};
use super::domains::note_domains;
use super::orphan::Revived;
use super::{
    Directory, GroupEntry, GroupNames, GroupRoom, MembershipRequests, PASSED_ON_LEVEL, Returns, Role, agrees_on_state,
    is_quorum, lists_domains, mismatch,
};
use crate::api::{GroupTerms, LeaveReason};
use crate::id::{GroupId, Incarnation, MemberInfo, Rank, ViewNumber};
use crate::wire::{Space, Tags};

/// Builds a proposal from all reports. The survivors are exactly the members that reported and do not leave.
#[must_use]
pub fn build_proposal(
    directory: &Directory,
    reports: &BTreeMap<Rank, Report>,
    wedged: &BTreeSet<GroupId>,
    unreadable: &BTreeSet<GroupId>,
    requests: &MembershipRequests,
    reason: impl Fn(Rank) -> LeaveReason,
) -> Proposal {
    debug_assert!(reports.keys().all(|rank| rank.index() < directory.members.len()), "a report comes from no member");
    let held = held_leavers(directory, reports, wedged, requests, &reason);
    debug_assert!(held.iter().all(|who| directory.rank(*who).is_some()), "a held leaver is no member");
    let leaves = |who: &Incarnation| requests.leavers.contains(who) && !held.contains(who);
    let stays = |r: Rank| reports.contains_key(&r) && !leaves(&directory.members[r.index()].incarnation);
    let survivors: Vec<&MemberInfo> =
        Rank::enumerate(&directory.members).filter(|&(r, _)| stays(r)).map(|(_, m)| m).collect();
    let left: Vec<(Incarnation, LeaveReason)> = Rank::enumerate(&directory.members)
        .filter(|&(r, _)| !stays(r))
        .map(|(r, m)| (m.incarnation, if reports.contains_key(&r) { LeaveReason::Left } else { reason(r) }))
        .collect();
    // A member that is left out must be able to follow, too: it may be back in a moment.
    let rise = requests.rise.as_ref().filter(|rise| rise.hindered_by(directory).is_none());
    let level = rise.map_or(directory.level, |rise| rise.level);
    let brought = rise.map(|rise| rise.settings.clone()).unwrap_or_default();
    let settings = directory.settings.under(&brought);
    // Survivors must be a quorum of the next view, too: at most as many joiners as survivors (half, with rank 0).
    let joiners: Vec<_> = requests
        .joiners
        .iter()
        .filter(|(j, _)| survivors.iter().all(|s| s.name != j.name && s.incarnation != j.incarnation))
        .filter(|(j, _)| mismatch(level, &settings, j).is_none())
        .take(survivors.len())
        .collect();
    let joined: Vec<MemberInfo> = joiners.iter().map(|(j, _)| j.clone()).collect();

    // One process assigns numbers, and `Directory::admits` checks that none is used twice.
    let mut next = NextIds { group: directory.next_group, space: directory.next_space };
    let group_joins = requests
        .group_joins
        .iter()
        .map(|(name, who)| (name.as_str(), *who))
        .chain(joiners.iter().flat_map(|(j, groups)| groups.iter().map(|g| (g.as_str(), j.incarnation))));
    let present: BTreeMap<Incarnation, &MemberInfo> =
        survivors.into_iter().chain(&joined).map(|m| (m.incarnation, m)).collect();
    let mut coming: BTreeMap<&str, Vec<Incarnation>> = BTreeMap::new();
    for (name, who) in group_joins.filter(|(_, who)| present.contains_key(who)) {
        let list = coming.entry(name).or_default();
        if !list.contains(&who) {
            list.push(who);
        }
    }
    let may_go = |(_, who): &&(String, Incarnation)| !held.contains(who);
    let group_leaves: Vec<(String, Incarnation)> = requests.group_leaves.iter().filter(may_go).cloned().collect();
    let mut groups = Vec::new();
    for (&id, returns) in &requests.returns {
        let Some(entry) = directory.groups.get(&id) else { continue };
        groups.extend(change_orphan(directory, id, entry, returns, &present, &mut next));
    }
    for &id in wedged {
        let Some(entry) = directory.groups.get(&id).filter(|entry| !entry.is_orphan()) else { continue };
        let mut coming = coming.remove(entry.name.as_str()).unwrap_or_default();
        coming.retain(|who| entry.suits(requests.role(&entry.name, *who)));
        if let Some(list) = entry.domains() {
            let observes = |who: &Incarnation| requests.role(&entry.name, *who) == Role::Observer;
            coming.retain(|who| observes(who) || requests.mismatch(&list, &entry.name, *who).is_none());
        }
        let ends = unreadable.contains(&id) || requests.growing.contains(&id);
        let change = change_group(directory, id, entry, reports, &left, &group_leaves, &coming, ends, &mut next);
        let Some(mut change) = change else { continue };
        if entry.has_state().is_some() {
            let observes = |who: &&Incarnation| requests.role(&entry.name, **who) == Role::Observer;
            let observers: Vec<Incarnation> = change.joined.iter().filter(observes).copied().collect();
            change.note_observers(entry, &observers);
        }
        if lists_domains(directory)
            && entry.has_state() == Some(true)
            && let Some(list) = requests.next_list(entry, &change)
        {
            note_domains(&mut change, &list);
        }
        groups.push(change);
    }
    let (names, room) = (GroupNames::of(directory), GroupRoom::of(directory));
    for (name, mut coming) in coming {
        coming.retain(|who| present.get(who).is_some_and(|info| room.takes(info)));
        if names.get(name).is_some() || coming.is_empty() {
            // A group that exists was not wedged in this ballot: the next decree brings its members. Or the group
            // waits, or there is no room for a new one.
            continue;
        }
        let name = name.to_owned();
        // An observer makes no group. The first of the others decides whether it has a state.
        let mut has_state = None;
        if agrees_on_state(directory) {
            coming.retain(|who| match requests.role(&name, *who) {
                Role::Observer => false,
                role => *has_state.get_or_insert(role == Role::State) == (role == Role::State),
            });
            if coming.is_empty() {
                continue;
            }
        }
        let (group, space) = (GroupId(next.group), next.space());
        next.group += 1;
        // A state has one origin: the first that brings one. The others take it before they join.
        let mut is_brought = false;
        coming.retain(|who| {
            let brings = requests.founders.contains(&(name.clone(), *who));
            !brings || !std::mem::replace(&mut is_brought, true)
        });
        let lists = has_state == Some(true) && lists_domains(directory);
        let domains = lists.then(|| requests.first_list(&name, &mut coming));
        // Rank 0 of its first view founds it, so its terms count.
        let terms = coming.first().and_then(|&who| requests.terms.get(&(name.clone(), who)));
        let (left, tail) = (Vec::new(), terms.map(|terms| terms.tags()).unwrap_or_default());
        let view = ViewNumber::FIRST;
        let mut change = GroupChange { group, name, view, space, cut: None, joined: coming, left, tail };
        has_state.into_iter().for_each(|has_state| change.note_has_state(has_state));
        domains.iter().for_each(|list| note_domains(&mut change, list));
        groups.push(change);
    }
    let makes_view = !joined.is_empty() || !left.is_empty() || rise.is_some();
    let mut proposal = Proposal {
        decree: directory.decree.next(),
        view: if makes_view { directory.view.next() } else { directory.view },
        joined,
        left,
        groups,
        next_group: next.group,
        next_space: next.space,
        level,
        settings: brought,
        tail: Tags::default(),
    };
    directory.note_lost(&mut proposal, &requests.out);
    directory.note_removals(&mut proposal, requests.removals.as_ref(), &requests.removal_evidence);
    debug_assert!(proposal.groups.iter().all(|c| c.space < proposal.next_space), "a view has a space that is given");
    debug_assert!(proposal.next_space >= directory.next_space, "spaces are given once");
    debug_assert!(proposal.next_group >= directory.next_group, "groups are numbered once");
    proposal
}

/// The members that requested to leave and that this decree does not let go, from level 3 on:
///
/// - all, if those that stay and report would be no quorum of the view without its leavers;
/// - all, if nobody stays and some of them are silent, from level 6 on;
/// - a member that gives a group's state to a joiner;
/// - a member with a group's state, if it would leave the group to members without the state, or to a process that
///   takes it;
/// - a member with a group's state, or an observer, if the same decree cuts off the rest of the group. The leaver
///   delivers to the cut, and the others would bring the group back without what it alone delivered. So a decree of
///   their own drops them first.
fn held_leavers(
    directory: &Directory,
    reports: &BTreeMap<Rank, Report>,
    wedged: &BTreeSet<GroupId>,
    requests: &MembershipRequests,
    reason: &impl Fn(Rank) -> LeaveReason,
) -> BTreeSet<Incarnation> {
    let mut held = BTreeSet::new();
    if !directory.has_orphans() || requests.leavers.is_empty() && requests.group_leaves.is_empty() {
        return held;
    }
    let rest: Vec<Rank> = Rank::all(directory.members.len())
        .filter(|&r| !requests.leavers.contains(&directory.members[r.index()].incarnation))
        .collect();
    let present = rest.iter().filter(|r| reports.contains_key(r)).count();
    let with_first = rest.first().is_some_and(|r| reports.contains_key(r));
    // Of all members that leave, those that are silent go first. The others then know whom they would leave behind.
    let misses = || Rank::all(directory.members.len()).any(|r| !reports.contains_key(&r) && reason(r).may_come_back());
    let holds = match rest.is_empty() {
        true => directory.level >= PASSED_ON_LEVEL && misses(),
        false => !is_quorum(present, rest.len(), with_first),
    };
    if holds {
        held.extend(&requests.leavers);
    }
    for (id, entry) in wedged.iter().filter_map(|id| Some((id, directory.groups.get(id)?))) {
        let report = |who: &Incarnation| directory.rank(*who).and_then(|rank| reports.get(&rank));
        let has_state = |who: &Incarnation| report(who).is_some_and(|report| report.has_state(*id));
        let gives = |who: &Incarnation| report(who).is_some_and(|report| report.giving.contains(id));
        let asked = |who: &&Incarnation| {
            let of_group = |(name, leaver): &(String, Incarnation)| *name == entry.name && leaver == *who;
            (requests.leavers.contains(who) || requests.group_leaves.iter().any(of_group)) && !held.contains(who)
        };
        let (asked, rest): (Vec<Incarnation>, Vec<Incarnation>) =
            entry.members.iter().copied().partition(|who| asked(&who));
        let (giving, going): (Vec<Incarnation>, Vec<Incarnation>) = asked.into_iter().partition(gives);
        held.extend(&giving);
        // An observer never has the state, and nobody waits until it has.
        let waits_for = |who: &Incarnation| report(who).is_some() && !entry.has_observer(*who);
        let stay: Vec<Incarnation> = giving.into_iter().chain(rest).filter(waits_for).collect();
        let is_taken = reports.values().any(|report| report.taking.contains(id));
        let silent = entry.members.iter().filter(|who| report(who).is_none());
        let mut silent = silent.filter_map(|who| directory.rank(*who));
        let comes_back = !GroupTerms::of(&entry.tail).ends_alone && silent.any(|rank| reason(rank).may_come_back());
        if (is_taken || comes_back || !stay.is_empty()) && !stay.iter().any(has_state) {
            // An observer delivers to the cut, too.
            held.extend(going.iter().filter(|who| has_state(who) || comes_back && entry.has_observer(**who)));
        }
    }
    held
}

struct NextIds {
    group: u32,
    space: Space,
}

impl NextIds {
    fn space(&mut self) -> Space {
        let space = self.space;
        self.space = space.next();
        space
    }
}

/// The next view of one wedged group; `None` if nothing changes and its view need not end.
#[expect(clippy::too_many_arguments, reason = "all of them are parts of one decision")]
fn change_group(
    directory: &Directory,
    group: GroupId,
    entry: &GroupEntry,
    reports: &BTreeMap<Rank, Report>,
    cell_left: &[(Incarnation, LeaveReason)],
    leaves: &[(String, Incarnation)],
    coming: &[Incarnation],
    ends: bool,
    next: &mut NextIds,
) -> Option<GroupChange> {
    let mut left: Vec<(Incarnation, LeaveReason)> =
        cell_left.iter().filter(|(who, _)| entry.members.contains(who)).copied().collect();
    for (name, who) in leaves {
        if *name == entry.name && entry.members.contains(who) && left.iter().all(|(w, _)| w != who) {
            left.push((*who, LeaveReason::Left));
        }
    }
    // A group continues through members that stay and have its state. If there is none, it ends, or waits for members
    // that are cut off. Members without the state then leave it and join again; joiners wait for the next decree.
    let stays = |left: &[(Incarnation, LeaveReason)], member: &Incarnation| left.iter().all(|(who, _)| who != member);
    // Below level 3 no member reports incomplete state, so each counts as complete.
    let has_state = |member: &Incarnation| {
        let report = directory.rank(*member).and_then(|rank| reports.get(&rank));
        !directory.has_orphans() || report.is_some_and(|report| report.has_state(group))
    };
    let goes_on = entry.members.iter().any(|member| stays(&left, member) && has_state(member));
    if !goes_on {
        let staying: Vec<Incarnation> = entry.members.iter().filter(|who| stays(&left, who)).copied().collect();
        left.extend(staying.into_iter().map(|who| (who, LeaveReason::Anew)));
    }
    let new = coming.iter().filter(|who| goes_on && !entry.members.contains(who));
    let joined: Vec<Incarnation> = new.copied().collect();
    if left.is_empty() && joined.is_empty() && !ends {
        return None;
    }
    debug_assert!(joined.iter().all(|who| left.iter().all(|(other, _)| other != who)), "nobody joins and leaves");
    debug_assert!(left.iter().all(|(who, _)| entry.members.contains(who)), "a leaver of the group is no member of it");
    let n = entry.members.len();
    let mut cut = GroupCut { prefixes: vec![0; n], holders: vec![Incarnation::NONE; n] };
    // The longest prefix that any member reported: every message that a survivor may have delivered is in the cut.
    for (&rank, report) in reports {
        let Some((_, prefixes)) = report.prefixes.iter().find(|(g, _)| *g == group) else { continue };
        for (stream, &prefix) in prefixes.iter().enumerate().take(n) {
            if prefix > cut.prefixes[stream] {
                cut.prefixes[stream] = prefix;
                cut.holders[stream] = directory.members[rank.index()].incarnation;
            }
        }
    }
    let space = next.space();
    let (name, tail) = (entry.name.clone(), Tags::default());
    let mut change = GroupChange { group, name, view: entry.view.next(), space, cut: Some(cut), joined, left, tail };
    if directory.has_orphans() {
        let lacks = |who: &&Incarnation| {
            directory.rank(**who).and_then(|rank| reports.get(&rank)).is_some_and(|report| !report.has_state(group))
        };
        // In the decree, so that all members list the same incomplete members.
        change.note_lacking(&entry.members.iter().filter(lacks).copied().collect::<Vec<_>>());
    }
    Some(change)
}

/// The change of an orphan whose holders are back, or are struck off. `present`: the members of the next view.
fn change_orphan(
    directory: &Directory,
    group: GroupId,
    entry: &GroupEntry,
    returns: &Returns,
    present: &BTreeMap<Incarnation, &MemberInfo>,
    next: &mut NextIds,
) -> Option<GroupChange> {
    let orphan = entry.orphan()?;
    let name = entry.name.clone();
    let view = entry.next_view()?;
    let change = |cut, joined, space| {
        let (left, tail) = (Vec::new(), Tags::default());
        GroupChange { group, name, view, space, cut, joined, left, tail }
    };
    let donor = returns.donor.as_ref().filter(|(who, _)| directory.rank(*who).is_some() && present.contains_key(who));
    if let Some((who, back)) = donor
        && let Some(from) = &back.from
    {
        // It alone is the next view, and its prefixes are the cut of the last one: no member has to fetch anything.
        let holders = vec![Incarnation::NONE; from.prefixes.len()];
        let mut change = change(Some(GroupCut { prefixes: from.prefixes.clone(), holders }), vec![*who], next.space());
        change.revive(&Revived { view: entry.view, was: back.was, counts: from.counts.clone() });
        return Some(change);
    }
    let is_listed = |who: &&Incarnation| orphan.holders.iter().any(|holder| holder.who == **who);
    let struck: Vec<Incarnation> = returns.struck.iter().filter(is_listed).copied().collect();
    if struck.is_empty() {
        return None;
    }
    let mut change = change(None, Vec::new(), next.space());
    change.strike(&struck);
    Some(change)
}

#[cfg(test)]
mod tests;
