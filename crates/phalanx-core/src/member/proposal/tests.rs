//! What is proposed for groups that lose all members with their state, for those that wait, and for leavers.

use std::net::SocketAddr;

use super::*;
use crate::api::{GroupTerms, Limits, Timing};
use crate::id::ViewNumber;
use crate::member::{
    Agreed, KIND_LEVEL, NAMED_MAX, NUMBERED_MAX, RemovalEvidence, Removals, Return, ReturnPoint, Rise, SEAT_BYTES_MAX,
};
use crate::wire::Space;

const GROUP: GroupId = GroupId(1);

fn member(i: u64) -> MemberInfo {
    let address = SocketAddr::from(([127, 0, 0, 1], 1));
    let mut info = MemberInfo::new(Incarnation(i), format!("m{i}"), address, address);
    info.sit(100 + i);
    info
}

/// A directory of `n` members, of which the first `of_group` are in a group.
fn directory(n: u64, of_group: u64) -> Directory {
    let settings = Agreed::of(&Limits::default(), &Timing::default()).tags(3);
    let mut directory = Directory::found((1..=n).map(member).collect(), 3, settings);
    let members = (1..=of_group).map(Incarnation).collect();
    directory.groups.insert(
        GROUP,
        GroupEntry { name: "g".into(), view: ViewNumber(4), space: Space(6), members, tail: Tags::default() },
    );
    (directory.next_group, directory.next_space) = (2, Space(7));
    directory
}

/// Reports of the members with these ranks. The `incomplete` members of the group do not have the whole state.
fn reports(directory: &Directory, ranks: &[usize], incomplete: &[usize]) -> BTreeMap<Rank, Report> {
    let streams = directory.groups.get(&GROUP).map_or(0, |entry| entry.members.len());
    let report = |rank: usize| {
        let of_group =
            directory.groups.get(&GROUP).is_some_and(|e| e.members.contains(&directory.members[rank].incarnation));
        let prefixes = if of_group { vec![(GROUP, vec![5; streams])] } else { Vec::new() };
        let incomplete = if incomplete.contains(&rank) { vec![GROUP] } else { Vec::new() };
        Report { decree: directory.decree.next(), prefixes, incomplete, ..Report::default() }
    };
    ranks.iter().map(|&rank| (Rank::from_index(rank), report(rank))).collect()
}

fn draft(
    directory: &Directory,
    reports: &BTreeMap<Rank, Report>,
    requests: &MembershipRequests,
    why: LeaveReason,
) -> Proposal {
    let wedged = if directory.groups.get(&GROUP).is_some_and(|entry| !entry.members.is_empty()) {
        vec![GROUP]
    } else {
        Vec::new()
    };
    let proposal =
        build_proposal(directory, reports, &wedged.into_iter().collect(), &BTreeSet::new(), requests, |_| why);
    assert!(directory.admits(&proposal), "{proposal:?}");
    let after = directory.after(&proposal);
    assert!(after.is_sound(), "{after:?}");
    proposal
}

/// The directory after a decree in which the members with these ranks report and nothing is requested.
fn after(directory: &Directory, ranks: &[usize], incomplete: &[usize], why: LeaveReason) -> Directory {
    directory.after(&draft(directory, &reports(directory, ranks, incomplete), &MembershipRequests::default(), why))
}

fn waits_for(directory: &Directory) -> Option<Vec<u64>> {
    let entry = directory.groups.get(&GROUP)?;
    Some(entry.orphan()?.holders.into_iter().map(|holder| holder.who.0).collect())
}

#[test]
fn a_group_waits_for_those_that_are_cut_off_and_not_for_the_dead() {
    let before = directory(5, 2);
    let cut_off = after(&before, &[2, 3, 4], &[], LeaveReason::Unreachable);
    assert_eq!(waits_for(&cut_off), Some(vec![1, 2]));
    let entry = &cut_off.groups[&GROUP];
    assert_eq!((entry.view, entry.members.len()), (ViewNumber(4), 0), "its view is its last");
    assert_eq!(after(&before, &[2, 3, 4], &[], LeaveReason::Died).groups.get(&GROUP), None);
    let mut alone = directory(5, 2);
    let entry = alone.groups.get_mut(&GROUP).expect("the group");
    entry.tail = GroupTerms { ends_alone: true, ..GroupTerms::default() }.tags();
    assert_eq!(after(&alone, &[2, 3, 4], &[], LeaveReason::Unreachable).groups.get(&GROUP), None, "as agreed");
    let mut low = directory(5, 2);
    low.level = 2;
    low.settings = Agreed::of(&Limits::default(), &Timing::default()).tags(2);
    assert_eq!(after(&low, &[2, 3, 4], &[], LeaveReason::Unreachable).groups.get(&GROUP), None, "below level 3");
}

#[test]
fn a_member_without_the_state_carries_no_group_on() {
    // The third is a member without the state yet; the two that have it are cut off.
    let before = directory(5, 3);
    let proposal =
        draft(&before, &reports(&before, &[2, 3, 4], &[2]), &MembershipRequests::default(), LeaveReason::Unreachable);
    assert!(proposal.groups[0].left.contains(&(Incarnation(3), LeaveReason::Anew)));
    assert_eq!(waits_for(&before.after(&proposal)), Some(vec![1, 2]));
    // With the state the group continues.
    let goes_on = after(&before, &[2, 3, 4], &[], LeaveReason::Unreachable);
    assert_eq!(goes_on.groups[&GROUP].members, [Incarnation(3)]);
}

/// The same directory at level 6.
fn at_level_6(mut directory: Directory) -> Directory {
    directory.level = KIND_LEVEL;
    directory.settings = Agreed::of(&Limits::default(), &Timing::default()).tags(KIND_LEVEL);
    directory.members.iter_mut().for_each(|member| member.level = KIND_LEVEL);
    directory
}

/// All members leave. Those that are silent go first, so that the others know whom they would leave behind.
#[test]
fn leavers_that_are_silent_go_first() {
    let all = MembershipRequests { leavers: (1..=3).map(Incarnation).collect(), ..MembershipRequests::default() };
    let left = |before: &Directory, why| {
        let proposal = draft(before, &reports(before, &[0, 1], &[]), &all, why);
        proposal.left.into_iter().map(|(who, _)| who.0).collect::<Vec<_>>()
    };
    let before = at_level_6(directory(3, 1));
    assert_eq!(left(&before, LeaveReason::Unreachable), [3]);
    assert_eq!(left(&before, LeaveReason::Died), [1, 2, 3]);
    assert_eq!(left(&directory(3, 1), LeaveReason::Unreachable), [1, 2, 3], "below level 6 nobody waits");
    // If somebody stays, those that leave need not wait for the silent one.
    let some = MembershipRequests { leavers: [Incarnation(1), Incarnation(3)].into(), ..MembershipRequests::default() };
    let proposal = draft(&before, &reports(&before, &[0, 1], &[]), &some, LeaveReason::Unreachable);
    assert_eq!(proposal.left.len(), 2);
}

#[test]
fn an_observer_is_no_holder_and_holds_no_leaver() {
    // The third observes; the two that have the state are cut off.
    let mut before = at_level_6(directory(7, 3));
    let entry = before.groups.get_mut(&GROUP).expect("the group");
    let mut change = GroupChange { tail: Tags::default(), ..change_of(entry) };
    change.note_observers(entry, &[Incarnation(3)]);
    entry.tail = change.tail;
    let cut_off =
        draft(&before, &reports(&before, &[2, 3, 4], &[2]), &MembershipRequests::default(), LeaveReason::Unreachable);
    assert!(cut_off.groups[0].left.contains(&(Incarnation(3), LeaveReason::Anew)));
    assert_eq!(waits_for(&before.after(&cut_off)), Some(vec![1, 2]));
    // If it asks to leave at the same time, it goes with the next decree. It would deliver what the holders may lack.
    let leaves = MembershipRequests { leavers: [Incarnation(3)].into(), ..MembershipRequests::default() };
    let goes = |why| draft(&before, &reports(&before, &[2, 3, 4, 5, 6], &[2]), &leaves, why).left.len();
    assert_eq!([LeaveReason::Unreachable, LeaveReason::Died].map(goes), [2, 3]);
    // It is cut off with one of them, and the other lost the state.
    let after = after(&before, &[3, 4, 0], &[0], LeaveReason::Unreachable);
    assert_eq!(waits_for(&after), Some(vec![2]), "the third never had the state");
    // The last with the state leaves in order, and only the observer stays.
    let mut alone = before.clone();
    let entry = alone.groups.get_mut(&GROUP).expect("the group");
    entry.members.remove(1);
    let leaves =
        MembershipRequests { group_leaves: vec![("g".into(), Incarnation(1))], ..MembershipRequests::default() };
    let goes = draft(&alone, &reports(&alone, &[0, 1, 2, 3, 4, 5, 6], &[2]), &leaves, LeaveReason::Unreachable);
    assert_eq!(goes.groups[0].left, [(Incarnation(1), LeaveReason::Left), (Incarnation(3), LeaveReason::Anew)]);
    assert_eq!(alone.after(&goes).groups.get(&GROUP), None);
}

fn change_of(entry: &GroupEntry) -> GroupChange {
    let (left, tail) = (Vec::new(), Tags::default());
    GroupChange {
        group: GROUP,
        name: entry.name.clone(),
        view: entry.view,
        space: entry.space,
        cut: None,
        joined: Vec::new(),
        left,
        tail,
    }
}

fn orphaned() -> Directory {
    let mut directory = after(&directory(5, 2), &[2, 3, 4], &[], LeaveReason::Unreachable);
    // The first is back as a new incarnation that kept its state, the second as one that did not.
    let mut back = MemberInfo { incarnation: Incarnation(11), ..member(1) };
    back.keeps(&[Incarnation(1)]);
    directory.members.push(back);
    directory
}

fn returns(donor: Option<(u64, u64, u64)>, struck: &[u64]) -> MembershipRequests {
    let point = |view| ReturnPoint { view, prefixes: vec![5, 9], counts: vec![7, 8] };
    let back = |(who, was, view)| {
        (Incarnation(who), Return { group: GROUP, was: Incarnation(was), from: Some(point(ViewNumber(view))) })
    };
    let struck = struck.iter().copied().map(Incarnation).collect();
    MembershipRequests {
        returns: BTreeMap::from([(GROUP, Returns { donor: donor.map(back), by_some: false, struck })]),
        ..MembershipRequests::default()
    }
}

#[test]
fn an_orphan_goes_on_from_one_that_is_back() {
    let before = orphaned();
    let all: Vec<usize> = (0..before.members.len()).collect();
    let proposal =
        draft(&before, &reports(&before, &all, &[]), &returns(Some((11, 1, 4)), &[]), LeaveReason::Unreachable);
    let after = before.after(&proposal);
    let entry = &after.groups[&GROUP];
    assert_eq!((entry.view, &entry.members[..]), (ViewNumber(5), &[Incarnation(11)][..]));
    let revived = entry.revived().expect("it came back");
    assert_eq!((revived.view, revived.was, &revived.counts[..]), (ViewNumber(4), Incarnation(1), &[7, 8][..]));
    assert_eq!(entry.begun_at(), Some(vec![5, 9]));
    // Cut off before it learned of it, the member is waited for, and counts as one that was in the view before.
    let again = self::after(&after, &[0, 1, 2], &[], LeaveReason::Unreachable);
    let holders = again.groups[&GROUP].orphan().expect("it waits again").holders;
    assert_eq!(holders.iter().map(|h| (h.who, h.stayed)).collect::<Vec<_>>(), [(Incarnation(11), true)]);
    // A process that is gone brings nothing back.
    let gone =
        draft(&before, &reports(&before, &all[..3], &[]), &returns(Some((11, 1, 4)), &[]), LeaveReason::Unreachable);
    assert_eq!(waits_for(&before.after(&gone)), Some(vec![1, 2]));
}

#[test]
fn a_revival_that_does_not_fit_the_orphan_is_refused() {
    let before = orphaned();
    let all: Vec<usize> = (0..before.members.len()).collect();
    let revive = |change: &dyn Fn(&mut GroupChange)| {
        let requests = returns(Some((11, 1, 4)), &[]);
        let mut proposal = build_proposal(
            &before,
            &reports(&before, &all, &[]),
            &BTreeSet::new(),
            &BTreeSet::new(),
            &requests,
            |_| LeaveReason::Died,
        );
        change(&mut proposal.groups[0]);
        before.admits(&proposal)
    };
    let revived = |was, view, streams| Revived { view, was: Incarnation(was), counts: vec![0; streams] };
    assert!(revive(&|_| {}) && revive(&|change| change.revive(&revived(2, ViewNumber(4), 2))));
    assert!(!revive(&|change| change.revive(&revived(3, ViewNumber(4), 2))), "of somebody that is not listed");
    assert!(!revive(&|change| change.revive(&revived(1, ViewNumber(3), 2))), "of another view");
    assert!(!revive(&|change| change.revive(&revived(1, ViewNumber(4), 3))), "of more senders");
    assert!(!revive(&|change| change.joined.push(Incarnation(3))), "with two donors");
    assert!(!revive(&|change| change.joined.clear()), "with none");
    assert!(!revive(&|change| change.cut = None), "from nowhere");
    assert!(!revive(&|change| change.view = change.view.next()));
    assert!(!revive(&|change| change.name.push('x')));
    let strike = |who: &[Incarnation]| {
        revive(&|change| {
            (change.cut, change.tail) = (None, Tags::default());
            change.joined.clear();
            change.strike(who);
        })
    };
    assert!(strike(&[Incarnation(1)]) && !strike(&[]));
}

#[test]
fn holders_are_struck_off_until_nobody_is_waited_for() {
    let before = orphaned();
    let all: Vec<usize> = (0..before.members.len()).collect();
    let strike = |directory: &Directory, who: &[u64]| {
        directory.after(&draft(
            directory,
            &reports(directory, &all, &[]),
            &returns(None, who),
            LeaveReason::Unreachable,
        ))
    };
    let one = strike(&before, &[2]);
    assert_eq!(waits_for(&one), Some(vec![1]));
    assert_eq!(strike(&one, &[1]).groups.get(&GROUP), None);
    // No listed holder: nothing to decide.
    let nothing = draft(&one, &reports(&one, &all, &[]), &returns(None, &[2, 7]), LeaveReason::Unreachable);
    assert_eq!(nothing.groups, []);
}

#[test]
fn a_new_start_in_its_place_a_proved_death_and_a_leave_strike_a_holder_off() {
    let before = orphaned();
    let all: Vec<usize> = (0..before.members.len()).collect();
    let join = |info: MemberInfo| {
        let requests = MembershipRequests { joiners: vec![(info, Vec::new())], ..MembershipRequests::default() };
        waits_for(&before.after(&draft(&before, &reports(&before, &all, &[]), &requests, LeaveReason::Unreachable)))
    };
    let life = |number, of: u64, keeps: &[u64]| {
        let mut info = MemberInfo { incarnation: Incarnation(number), ..member(of) };
        info.keeps(&keeps.iter().copied().map(Incarnation).collect::<Vec<_>>());
        info
    };
    assert_eq!(join(life(12, 2, &[])), Some(vec![1]), "the second was started anew");
    assert_eq!(join(life(12, 2, &[2])), Some(vec![1, 2]), "it is back");
    let mut elsewhere = life(12, 2, &[]);
    elsewhere.sit(999);
    assert_eq!(join(elsewhere), Some(vec![1, 2]), "its name is used somewhere else");
    // The first, which was back, ends.
    let left = |why| waits_for(&after(&before, &all[..all.len() - 1], &[], why));
    assert_eq!(left(LeaveReason::Died), Some(vec![2]));
    assert_eq!(left(LeaveReason::Unreachable), Some(vec![1, 2]));
    let requests = MembershipRequests { leavers: [Incarnation(11)].into(), ..MembershipRequests::default() };
    let left = before.after(&draft(&before, &reports(&before, &all, &[]), &requests, LeaveReason::Unreachable));
    assert_eq!(waits_for(&left), Some(vec![2]));
}

/// Member 2 has its share of what may wait, and member 3 has not. (`room.rs` has the bounds.)
#[test]
fn a_group_is_made_by_those_that_have_room() {
    let mut before = directory(3, 1);
    let mut waits = after(&before, &[1, 2], &[], LeaveReason::Unreachable).groups[&GROUP].clone();
    let mut orphan = waits.orphan().expect("it waits");
    orphan.holders[0].seat = member(2).seat();
    waits.name = "w".repeat(SEAT_BYTES_MAX);
    before.groups = BTreeMap::from([(GROUP, waits.waiting_for(orphan))]);
    let made = |who: &[u64]| {
        let group_joins = who.iter().map(|who| ("new".to_owned(), Incarnation(*who))).collect();
        let requests = MembershipRequests { group_joins, ..MembershipRequests::default() };
        let all = reports(&before, &[0, 1, 2], &[]);
        let proposal =
            build_proposal(&before, &all, &BTreeSet::new(), &BTreeSet::new(), &requests, |_| LeaveReason::Died);
        proposal.groups.into_iter().flat_map(|change| change.joined).collect::<Vec<_>>()
    };
    assert_eq!(made(&[2]), []);
    assert_eq!(made(&[2, 3]), [Incarnation(3)]);
}

#[test]
fn no_group_is_made_once_the_numbers_are_used_up() {
    let before = directory(3, 1);
    let group_joins = ["new", "g"].map(|name| (name.to_owned(), Incarnation(3))).into();
    let requests = MembershipRequests { group_joins, ..MembershipRequests::default() };
    let made = |next_group, next_space| {
        let before = Directory { next_group, next_space, ..before.clone() };
        let draft = draft(&before, &reports(&before, &[0, 1, 2], &[]), &requests, LeaveReason::Died);
        draft.groups.iter().map(|change| change.name.clone()).collect::<Vec<_>>()
    };
    let (both, old) = (vec!["g", "new"], vec!["g"]);
    assert_eq!(made(NUMBERED_MAX - 1, Space(100)), both);
    assert_eq!(made(NUMBERED_MAX, Space(100)), old, "those that are there have further views");
    assert_eq!(made(100, Space(NUMBERED_MAX - 1)), both);
    assert_eq!(made(100, Space(NUMBERED_MAX)), old);
    assert_eq!(made(100, Space(u32::MAX - 1)), old);
    let last = |next_space| Directory { next_space, ..before.clone() }.can_number_views();
    assert!(last(Space(u32::MAX - 1)) && !last(Space(u32::MAX)), "no ballot begins without a number");
}

/// Members 1 and 3 bring a state of their own, member 2 has none. Without member 1, member 3 founds the group.
#[test]
fn one_of_those_that_bring_a_state_founds_a_group() {
    let before = directory(4, 1);
    let asks = |who| ("new".to_owned(), Incarnation(who));
    let requests = MembershipRequests {
        group_joins: [1, 2, 3].map(asks).into(),
        founders: [1, 3].map(asks).into(),
        ..MembershipRequests::default()
    };
    let made = |ranks: &[usize]| {
        let draft = draft(&before, &reports(&before, ranks, &[]), &requests, LeaveReason::Died);
        draft.groups.into_iter().find(|change| change.name == "new").map(|change| change.joined)
    };
    assert_eq!(made(&[0, 1, 2, 3]), Some(vec![Incarnation(1), Incarnation(2)]));
    assert_eq!(made(&[1, 2, 3]), Some(vec![Incarnation(2), Incarnation(3)]));
}

#[test]
fn in_a_large_group_nobody_is_named() {
    for (n, named) in [(NAMED_MAX as u64, true), (NAMED_MAX as u64 + 1, false)] {
        let before = directory(2 * n + 1, n);
        let others: Vec<usize> = (before.members.len() / 2..before.members.len()).collect();
        let holders =
            after(&before, &others, &[], LeaveReason::Unreachable).groups[&GROUP].orphan().expect("it waits").holders;
        assert_eq!((holders.len() as u64, holders.iter().all(|holder| !holder.name.is_empty())), (n, named));
    }
}

fn let_go(directory: &Directory, reports: &BTreeMap<Rank, Report>, leavers: &[u64]) -> Vec<u64> {
    let requests = MembershipRequests {
        leavers: leavers.iter().copied().map(Incarnation).collect(),
        ..MembershipRequests::default()
    };
    let proposal = draft(directory, reports, &requests, LeaveReason::Unreachable);
    proposal.left.iter().filter(|(_, why)| *why == LeaveReason::Left).map(|(who, _)| who.0).collect()
}

#[test]
fn those_that_stay_are_a_quorum_of_the_view_without_its_leavers() {
    let cell = directory(5, 0);
    let cell = Directory { groups: BTreeMap::new(), ..cell };
    // Two leave and the third is silent: the others are two of three.
    assert_eq!(let_go(&cell, &reports(&cell, &[0, 1, 2, 3], &[]), &[1, 2]), [1, 2]);
    // Three leave and one is silent. The remaining one is half of the other two: once without the first of them, once
    // with it.
    assert_eq!(let_go(&cell, &reports(&cell, &[0, 1, 2, 4], &[]), &[1, 2, 3]), [0; 0]);
    assert_eq!(let_go(&cell, &reports(&cell, &[0, 1, 2, 3], &[]), &[1, 2, 3]), [1, 2, 3]);
    // All members that are heard leave: nobody decides for the silent one.
    assert_eq!(let_go(&cell, &reports(&cell, &[0, 1, 2, 3], &[]), &[1, 2, 3, 4]), [0; 0]);
    // All leave: those that are heard suffice.
    assert_eq!(let_go(&cell, &reports(&cell, &[0, 1, 2], &[]), &[1, 2, 3, 4, 5]), [1, 2, 3]);
}

#[test]
fn the_last_with_a_groups_state_stays_while_others_take_it() {
    let cell = directory(4, 2);
    let all = |incomplete: &[usize]| reports(&cell, &[0, 1, 2, 3], incomplete);
    assert_eq!(let_go(&cell, &all(&[]), &[1]), [1]);
    assert_eq!(let_go(&cell, &all(&[1]), &[1]), [0; 0], "the other member has it not yet");
    assert_eq!(let_go(&cell, &all(&[1]), &[1, 2]), [1, 2], "nobody stays in the group");
    let mut gives = all(&[]);
    gives.entry(Rank(0)).and_modify(|report| report.giving.push(GROUP));
    assert_eq!(let_go(&cell, &gives, &[1]), [0; 0], "it gives the state");
    assert_eq!(let_go(&cell, &gives, &[2]), [2]);
    let mut takes = all(&[]);
    takes.entry(Rank(3)).and_modify(|report| report.taking.push(GROUP));
    assert_eq!(let_go(&cell, &takes, &[1]), [1], "the other member stays");
    assert_eq!(let_go(&cell, &takes, &[1, 2]), [0; 0], "somebody takes it");
    // The same holds for a member that leaves only the group.
    let requests =
        MembershipRequests { group_leaves: vec![("g".into(), Incarnation(1))], ..MembershipRequests::default() };
    assert_eq!(draft(&cell, &all(&[1]), &requests, LeaveReason::Died).groups, []);
    assert_eq!(draft(&cell, &all(&[]), &requests, LeaveReason::Died).groups.len(), 1);
}

/// The others would bring the group back without what the leaver alone delivered.
#[test]
fn who_leaves_goes_after_those_that_are_cut_off() {
    let left = |cell: &Directory, ranks: &[usize], why| {
        let requests = MembershipRequests { leavers: [Incarnation(1)].into(), ..MembershipRequests::default() };
        draft(cell, &reports(cell, ranks, &[]), &requests, why).left
    };
    let cut_off = |who| (Incarnation(who), LeaveReason::Unreachable);
    let leaves = (Incarnation(1), LeaveReason::Left);
    let cell = directory(5, 2);
    assert_eq!(left(&cell, &[0, 2, 3, 4], LeaveReason::Unreachable), [cut_off(2)], "the other is dropped first");
    assert_eq!(left(&cell, &[0, 2, 3, 4], LeaveReason::Died).len(), 2, "nobody comes back");
    assert_eq!(
        left(&directory(5, 3), &[0, 2, 3, 4], LeaveReason::Unreachable),
        [leaves, cut_off(2)],
        "the third stays"
    );
    assert_eq!(
        left(&cell, &[0, 1, 2, 3], LeaveReason::Unreachable),
        [leaves, cut_off(5)],
        "who is silent is not of it"
    );
    let mut alone = directory(5, 2);
    let entry = alone.groups.get_mut(&GROUP).expect("the group");
    entry.tail = GroupTerms { ends_alone: true, ..GroupTerms::default() }.tags();
    assert_eq!(left(&alone, &[0, 2, 3, 4], LeaveReason::Unreachable).len(), 2, "it does not come back");
}

#[test]
fn a_change_tells_who_has_not_the_state() {
    let cell = directory(4, 3);
    let requests =
        MembershipRequests { group_joins: vec![("g".into(), Incarnation(4))], ..MembershipRequests::default() };
    let incomplete = |cell: &Directory, requests: &MembershipRequests| {
        let proposal = draft(cell, &reports(cell, &[0, 1, 2, 3], &[1]), requests, LeaveReason::Died);
        let members = cell.after(&proposal).groups[&proposal.groups[0].group].members.clone();
        proposal.groups[0].incomplete(&members).iter().map(|who| who.0).collect::<Vec<_>>()
    };
    assert_eq!(incomplete(&cell, &requests), [2, 4], "one said so, and one comes");
    let mut low = directory(4, 3);
    low.level = 2;
    low.settings = Agreed::of(&Limits::default(), &Timing::default()).tags(2);
    assert_eq!(incomplete(&low, &requests), [4], "below level 3 nobody says so");
    let leaves = MembershipRequests { group_leaves: vec![("g".into(), Incarnation(2))], ..requests };
    assert_eq!(incomplete(&cell, &leaves), [4], "who leaves is no member");
    let new = MembershipRequests { group_joins: vec![("new".into(), Incarnation(4))], ..MembershipRequests::default() };
    let none = Directory { groups: BTreeMap::new(), ..directory(4, 3) };
    assert_eq!(incomplete(&none, &new), [0; 0], "who makes a group has its state");
}

/// Below level 5 each member has a record of its own. The decree that rises to it brings that of its coordinator.
#[test]
fn the_rise_to_level_5_brings_the_record_of_removals() {
    let at = crate::time::Instant(7_000_000_000);
    let mut removals = Removals::default();
    removals.remove(at, "m9", Incarnation(9), RemovalEvidence { counts: true, ..RemovalEvidence::default() });
    let agreed = Agreed::of(&Limits::default(), &Timing::default());
    let before = Directory { level: 4, settings: agreed.tags(4), groups: BTreeMap::new(), ..directory(3, 0) };
    let rise = Some(Rise { level: 5, settings: agreed.new_at(5, &before.settings) });
    let removals = Some((at, removals));
    for (rise, names) in [(rise, vec!["m9"]), (None, vec![])] {
        let requests = MembershipRequests { rise, removals: removals.clone(), ..MembershipRequests::default() };
        let next = before.after(&draft(&before, &reports(&before, &[0, 1, 2], &[]), &requests, LeaveReason::Died));
        let on_record = next.removals();
        assert_eq!(on_record.iter().map(|removal| removal.name.as_str()).collect::<Vec<_>>(), names);
    }
}
