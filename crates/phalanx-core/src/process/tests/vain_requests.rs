//! Requests that no decree can fulfil, as far as a coordinator knows before it asks anybody. They begin no ballot
//! (`docs/orphans.md`, [o30]).

use std::collections::{BTreeMap, BTreeSet};

use super::by_hand::{NOW, in_cell};
use super::*;
use crate::api::LeaveReason;
use crate::id::{DecreeNumber, ViewNumber};
use crate::member::{
    Control, GroupEntry, GroupRequest, MembershipRequests, NUMBERED_MAX, Orphan, OrphanHolder, Report, RequestList,
    Return, ReturnPoint, Returns, Role, SEAT_BYTES_MAX, build_proposal,
};
use crate::wire::{Space, Tags};

/// The member that asks, and the holder that a group waits for.
const ASKER: Incarnation = Incarnation(2);
const HOLDER: Incarnation = Incarnation(7);

fn wish(name: &str, join: bool) -> RequestList {
    let wish = GroupRequest { name: name.into(), join, only_new: false, terms: None, role: Role::default() };
    RequestList { decree: DecreeNumber::FIRST, groups: vec![wish], ..RequestList::default() }
}

fn wants(name: &str, role: Role) -> RequestList {
    let mut list = wish(name, true);
    list.groups[0].role = role;
    list
}

fn give_up(name: &str) -> RequestList {
    RequestList { given_up: vec![name.into()], ..empty() }
}

fn empty() -> RequestList {
    RequestList { decree: DecreeNumber::FIRST, ..RequestList::default() }
}

fn brings_back(was: Incarnation, view: ViewNumber) -> RequestList {
    let from = Some(ReturnPoint { view, prefixes: vec![3], counts: vec![3] });
    RequestList { returns: vec![Return { group: GroupId(1), was, from }], ..empty() }
}

/// Adds group "g", which has these members, or waits if it has none.
fn add(process: &mut Process, members: &[Incarnation], view: ViewNumber, seat: u64, name: &str) {
    let mut entry =
        GroupEntry { name: name.into(), view, space: Space(1), members: members.to_vec(), tail: Tags::default() };
    if members.is_empty() {
        let holder = OrphanHolder { who: HOLDER, seat, stayed: true, name: "m7".into() };
        entry = entry.waiting_for(Orphan { members: 1, holders: vec![holder] });
    }
    process.directory.groups.insert(GroupId(1), entry);
    (process.directory.next_group, process.directory.next_space) = (2, Space(2));
}

fn waits(process: &mut Process) {
    add(process, &[], ViewNumber(1), 7, "g");
}

/// The asker keeps the state that the group waits for.
fn is_back(process: &mut Process) {
    process.directory.members[1].keeps(&[HOLDER]);
}

/// Whether a coordinator begins a ballot when the list comes, and whether a decree with all reports changes anything
/// if the request is taken as it is.
fn ballot_and_change(prepare: impl Fn(&mut Process), list: RequestList) -> (bool, bool) {
    let (mut process, mut fx) = in_cell(Incarnation(1), 3);
    prepare(&mut process);
    let asked = |join: bool| {
        let wishes = list.groups.iter().filter(move |wish| wish.join == join);
        wishes.map(|wish| (wish.name.clone(), ASKER)).collect::<Vec<_>>()
    };
    let returns = |said: &Return| {
        let donor = said.from.is_some().then(|| (ASKER, said.clone()));
        (said.group, Returns { donor, by_some: false, struck: list.dead.clone() })
    };
    let requests = MembershipRequests {
        group_joins: asked(true),
        group_leaves: asked(false),
        returns: list.returns.iter().map(returns).collect(),
        roles: list.groups.iter().map(|wish| ((wish.name.clone(), ASKER), wish.role)).collect(),
        ..MembershipRequests::default()
    };
    let directory = &process.directory;
    let reports: BTreeMap<Rank, Report> = Rank::all(3).map(|rank| (rank, Report::default())).collect();
    let wedged: BTreeSet<GroupId> =
        directory.groups.iter().filter(|(_, entry)| !entry.is_orphan()).map(|(id, _)| *id).collect();
    let proposal =
        build_proposal(directory, &reports, &wedged, &BTreeSet::new(), &requests, |_| LeaveReason::Unreachable);
    let changes = !proposal.groups.is_empty() || proposal.view != directory.view;
    process.handle_control(NOW, ASKER, Control::MembershipRequests(list), &mut fx);
    process.coordinate(NOW, &mut fx);
    (process.counters.ballots > 0, changes)
}

#[test]
fn what_no_decree_can_bring_begins_no_ballot() {
    let full = |seat| move |process: &mut Process| add(process, &[], ViewNumber(1), seat, &"w".repeat(SEAT_BYTES_MAX));
    let (shared, own) = (full(8), full(70));
    let in_own_seat = |process: &mut Process| {
        own(process);
        process.directory.members[1].sit(70);
    };
    let counted_out = |process: &mut Process| process.directory.next_group = NUMBERED_MAX;
    let last_view = |process: &mut Process| {
        add(process, &[], ViewNumber(u64::MAX), 7, "g");
        is_back(process);
    };
    let of_asker = |process: &mut Process| add(process, &[Incarnation(1), ASKER], ViewNumber(1), 7, "g");
    let of_other = |process: &mut Process| add(process, &[Incarnation(1)], ViewNumber(1), 7, "g");
    let nothing = |_: &mut Process| {};
    let agreed = |has_state: bool| {
        move |process: &mut Process| {
            add(process, &[Incarnation(1)], ViewNumber(1), 7, "g");
            let entry = process.directory.groups.get_mut(&GroupId(1)).expect("it was added");
            entry.tail.put_number(10, u64::from(has_state));
        }
    };
    let later = RequestList { decree: DecreeNumber(2), ..wish("new", true) };
    let vain: [(&str, (bool, bool)); 12] = [
        ("the group waits", ballot_and_change(waits, wish("g", true))),
        ("its share of what may wait is used up", ballot_and_change(in_own_seat, wish("new", true))),
        ("the numbers of groups are used up", ballot_and_change(counted_out, wish("new", true))),
        ("it is in the group", ballot_and_change(of_asker, wish("g", true))),
        ("it is not in the group", ballot_and_change(of_other, wish("g", false))),
        ("there is no such group to leave", ballot_and_change(nothing, wish("g", false))),
        ("no number is left for the group's next view", {
            ballot_and_change(last_view, brings_back(HOLDER, ViewNumber(u64::MAX)))
        }),
        ("the group has a state", ballot_and_change(agreed(true), wants("g", Role::Stateless))),
        ("the group has no state", ballot_and_change(agreed(false), wants("g", Role::State))),
        ("an observer makes no group", ballot_and_change(nothing, wants("new", Role::Observer))),
        ("it gives up a group that does not wait", ballot_and_change(of_other, give_up("g"))),
        ("it gives up a group that is not there", ballot_and_change(nothing, give_up("g"))),
    ];
    for (why, outcome) in vain {
        assert_eq!(outcome, (false, false), "{why}");
    }
    // What others may not say, and what is said of another decree, is no request.
    for (why, (begins, _)) in [
        ("it speaks for another one", ballot_and_change(waits, brings_back(HOLDER, ViewNumber(1)))),
        ("it speaks of another view", {
            let prepare = |process: &mut Process| {
                waits(process);
                is_back(process);
            };
            ballot_and_change(prepare, brings_back(HOLDER, ViewNumber(2)))
        }),
        ("nobody waits for the dead", ballot_and_change(waits, RequestList { dead: vec![Incarnation(6)], ..empty() })),
        ("it is about a later decree", ballot_and_change(nothing, later)),
        ("no member can follow to that level", ballot_and_change(nothing, RequestList { level: u16::MAX, ..empty() })),
    ] {
        assert!(!begins, "{why}");
    }
    // Without the obstacle each of them begins one.
    let back = |process: &mut Process| {
        waits(process);
        is_back(process);
    };
    for (what, outcome) in [
        ("a new group", ballot_and_change(nothing, wish("new", true))),
        ("a new group beside what waits for others", ballot_and_change(shared, wish("new", true))),
        ("a group that is there", ballot_and_change(of_other, wish("g", true))),
        ("a leave", ballot_and_change(of_asker, wish("g", false))),
        ("a return", ballot_and_change(back, brings_back(HOLDER, ViewNumber(1)))),
    ] {
        assert_eq!(outcome, (true, true), "{what}");
    }
    assert!(ballot_and_change(waits, give_up("g")).0);
}
