//! A decision and what a peer that is wrong could make of it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use super::*;
use crate::api::{Limits, Timing};
use crate::id::{CellInstance, DecreeNumber, GroupId, Rank, ViewNumber};
use crate::member::{Agreed, Ballot, GroupCut, GroupEntry, MembershipRequests, Report, build_proposal};
use crate::wire::Space;

fn member(i: u64) -> MemberInfo {
    let address = SocketAddr::from(([127, 0, 0, 1], 1));
    MemberInfo::new(Incarnation(i), format!("m{i}"), address, address)
}

/// Three members, and one group of the first two.
fn directory() -> Directory {
    let settings = Agreed::of(&Limits::default(), &Timing::default()).tags(1);
    let mut directory = Directory::found((1..=3).map(member).collect(), 1, settings);
    let members = vec![Incarnation(1), Incarnation(2)];
    directory.groups.insert(
        GroupId(1),
        GroupEntry { name: "g".into(), view: ViewNumber(4), space: Space(6), members, tail: Tags::default() },
    );
    (directory.next_group, directory.next_space) = (2, Space(7));
    directory
}

/// The third enters the group; a fourth enters the cell and a new group.
fn proposal() -> Proposal {
    let report = |prefixes: Vec<(GroupId, Vec<u64>)>| Report {
        decree: DecreeNumber(2),
        ballot: Ballot::default(),
        accepted: None,
        prefixes,
        ..Report::default()
    };
    let held = vec![(GroupId(1), vec![5, 9])];
    let reports =
        BTreeMap::from([(Rank(0), report(held.clone())), (Rank(1), report(held)), (Rank(2), report(Vec::new()))]);
    let requests = MembershipRequests {
        joiners: vec![(member(4), vec!["new".into()])],
        group_joins: vec![("g".into(), Incarnation(3))],
        ..MembershipRequests::default()
    };
    let reason = |_| crate::api::LeaveReason::Unreachable;
    build_proposal(&directory(), &reports, &[GroupId(1)].into(), &BTreeSet::new(), &requests, reason)
}

/// Asserts that the built proposal is admitted, and refused after `change`.
fn refused(change: impl Fn(&mut Proposal)) {
    let mut wrong = proposal();
    assert!(directory().admits(&wrong));
    assert_eq!(wrong.groups.len(), 2);
    change(&mut wrong);
    assert!(!directory().admits(&wrong), "{wrong:?}");
}

#[test]
fn numbers_run_on_without_gaps() {
    refused(|p| p.decree = p.decree.next());
    refused(|p| p.decree = DecreeNumber::NONE);
    refused(|p| p.view = p.view.next());
    refused(|p| p.view = ViewNumber::NONE);
    refused(|p| p.next_space = Space(u32::MAX));
    refused(|p| p.next_space = Space(6));
    refused(|p| p.next_group = 100);
    refused(|p| p.next_group = 1);
}

#[test]
fn members_are_processes_that_were_or_come_each_once() {
    refused(|p| p.joined.push(member(1)));
    refused(|p| p.joined.push(member(4)));
    refused(|p| p.joined[0].incarnation = Incarnation::NONE);
    refused(|p| p.left.push((Incarnation(7), crate::api::LeaveReason::Left)));
}

#[test]
fn a_group_goes_on_as_itself_in_a_space_of_its_own() {
    refused(|p| p.groups[0].name = "h".into());
    refused(|p| p.groups[0].view = ViewNumber(4));
    refused(|p| p.groups[0].cut = None);
    refused(|p| p.groups[0].space = Space(6));
    refused(|p| p.groups[0].space = p.next_space);
    refused(|p| p.groups[0].space = p.groups[1].space);
    refused(|p| p.groups[0].joined.push(Incarnation(7)));
    refused(|p| p.groups[0].joined.push(Incarnation(1)));
    refused(|p| p.groups[0].group = p.groups[1].group);
}

#[test]
fn a_cut_names_every_stream() {
    let short = |change: fn(&mut GroupCut)| {
        refused(move |p| change(p.groups[0].cut.as_mut().expect("a view ends")));
    };
    short(|cut| cut.prefixes.truncate(1));
    short(|cut| cut.prefixes.push(0));
    short(|cut| cut.holders.truncate(1));
}

#[test]
fn a_new_group_has_a_new_number_and_members() {
    refused(|p| p.groups[1].group = GroupId(9));
    refused(|p| p.groups[1].group = GroupId(0));
    refused(|p| p.groups[1].joined.clear());
    refused(|p| p.groups[1].cut = Some(GroupCut { prefixes: Vec::new(), holders: Vec::new() }));
}

#[test]
fn a_welcome_tells_of_the_directory_the_decision_left() {
    let (before, decision) = (directory(), proposal());
    let welcome = || Welcome {
        instance: CellInstance(1),
        directory: before.after(&decision),
        proposal: Arc::new(decision.clone()),
    };
    assert!(welcome().is_sound());
    let refused = |change: &dyn Fn(&mut Welcome)| {
        let mut wrong = welcome();
        change(&mut wrong);
        assert!(!wrong.is_sound(), "{wrong:?}");
    };
    let entry = |w: &mut Welcome, change: fn(&mut GroupEntry)| {
        change(w.directory.groups.get_mut(&GroupId(1)).expect("the group is there"));
    };
    refused(&|w| w.directory.decree = w.directory.decree.next());
    refused(&|w| w.directory.view = w.directory.view.next());
    refused(&|w| drop(w.directory.members.pop()));
    refused(&|w| w.directory.next_space = Space(1));
    refused(&|w| w.directory.next_group = 1);
    refused(&|w| drop(w.directory.groups.remove(&GroupId(1))));
    refused(&|w| entry(w, |e| e.space = Space(99)));
    refused(&|w| entry(w, |e| e.members.clear()));
    refused(&|w| entry(w, |e| e.members.push(Incarnation(9))));
}

#[test]
fn a_view_has_as_many_members_as_ranks_count_and_no_more() {
    let all = |count: usize| (1..=count as u64).map(member).collect::<Vec<_>>();
    assert!(are_members(&all(MEMBERS_MAX)));
    assert!(!are_members(&all(MEMBERS_MAX + 1)));
}

#[test]
fn those_who_left_last_are_remembered_and_the_oldest_forgotten() {
    let mut directory = directory();
    let count = 300;
    for gone in 100..100 + count {
        let mut proposal = proposal();
        proposal.left = vec![(Incarnation(gone), crate::api::LeaveReason::Unreachable)];
        directory = directory.after(&proposal);
    }
    let kept: Vec<u64> = directory.departed.iter().map(|who| who.0).collect();
    assert_eq!(kept, (100 + count - 256..100 + count).collect::<Vec<u64>>());
}

#[test]
fn a_level_rises_with_its_settings_where_all_can_follow() {
    refused(|p| p.level = 0);
    refused(|p| p.level = 3); // and nobody knows it
    refused(|p| p.level = 2); // without the settings that it brings
    refused(|p| p.settings.put_number(1, 5)); // one that is in force
    refused(|p| p.settings.put_number(99, 5)); // one that no level in force has
    let mut able = directory();
    able.members.iter_mut().for_each(|member| member.level = 2);
    let mut rises = proposal();
    rises.joined[0].level = 2;
    rises.level = 2;
    rises.settings = Agreed::of(&Limits::default(), &Timing::default()).new_at(2, &able.settings);
    assert!(able.admits(&rises));
    let after = able.after(&rises);
    assert_eq!((after.level, after.is_sound()), (2, true));
    let mut falls = proposal();
    (falls.decree, falls.joined, falls.groups) = (after.decree.next(), Vec::new(), Vec::new());
    (falls.view, falls.next_group, falls.next_space) = (after.view, after.next_group, after.next_space);
    falls.level = 2;
    assert!(after.admits(&falls), "nothing changes");
    falls.level = 1;
    assert!(!after.admits(&falls), "a level never falls");
    let mut joins_below = rises.clone();
    joins_below.joined[0].level = 1;
    assert!(!able.admits(&joins_below), "a joiner that does not know the level");
}

#[test]
fn a_member_with_another_setting_is_not_taken_in() {
    let other = Agreed::of(&Limits { group_window_bytes: 1 << 20, ..Limits::default() }, &Timing::default());
    refused(|p| other.tell(&mut p.joined[0]));
}

#[test]
fn entries_that_make_a_record_too_long_are_refused() {
    let long = |tag| {
        let mut tail = Tags::default();
        tail.put(tag, &[0; crate::wire::TAGS_BYTES_MAX / 2]);
        tail
    };
    let mut directory = directory();
    directory.tail = long(1);
    let with = |tag| Proposal { tail: long(tag), ..proposal() };
    assert!(directory.admits(&with(1)), "it takes the place of the other");
    assert!(!directory.admits(&with(2)));
    let mut group = proposal();
    group.groups[0].tail = long(2);
    assert!(directory.admits(&group));
    directory.groups.get_mut(&GroupId(1)).expect("a group").tail = long(1);
    assert!(!directory.admits(&group));
}

#[test]
fn what_is_not_known_here_is_kept_by_group_and_by_cell() {
    let entry = |tag, byte| {
        let mut tail = Tags::default();
        tail.put(tag, &[byte]);
        tail
    };
    let mut first = proposal();
    (first.tail, first.groups[0].tail) = (entry(70, 1), entry(71, 2));
    let after = directory().after(&first);
    assert_eq!((after.tail.get(70), after.groups[&GroupId(1)].tail.get(71)), (Some(&[1][..]), Some(&[2][..])));
    let mut next =
        Proposal { decree: DecreeNumber(3), joined: Vec::new(), groups: Vec::new(), tail: entry(70, 3), ..first };
    (next.next_group, next.next_space) = (after.next_group, after.next_space);
    let last = after.after(&next);
    assert_eq!((last.tail.get(70), last.groups[&GroupId(1)].tail.get(71)), (Some(&[3][..]), Some(&[2][..])));
}
