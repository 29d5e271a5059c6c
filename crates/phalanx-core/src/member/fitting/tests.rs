//! A decision and what a peer that is wrong could make of it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use super::*;
use crate::id::GroupId;
use crate::member::{Ballot, GroupCut, GroupEntry, Report, Wishes, build_proposal};

fn member(i: u64) -> MemberInfo {
    let address = SocketAddr::from(([127, 0, 0, 1], 1));
    let name = format!("m{i}");
    MemberInfo {
        incarnation: Incarnation(i),
        name,
        data: address,
        control: address,
        host: 0,
        packet_bytes_max: 1400,
        receive_packets: 0,
    }
}

/// Three members, one group of the first two.
fn directory() -> Directory {
    let mut directory = Directory::found((1..=3).map(member).collect());
    let members = vec![Incarnation(1), Incarnation(2)];
    directory.groups.insert(GroupId(1), GroupEntry { name: "g".into(), view: 4, space: 6, members });
    (directory.next_group, directory.next_space) = (2, 7);
    directory
}

/// The third comes into the group, a fourth into the cell and a new group.
fn proposal() -> Proposal {
    let report =
        |prefixes: Vec<(GroupId, Vec<u64>)>| Report { decree: 2, ballot: Ballot::default(), accepted: None, prefixes };
    let held = vec![(GroupId(1), vec![5, 9])];
    let reports = BTreeMap::from([(0, report(held.clone())), (1, report(held)), (2, report(Vec::new()))]);
    let wishes = Wishes {
        joiners: vec![(member(4), vec!["new".into()])],
        group_joins: vec![("g".into(), Incarnation(3))],
        ..Wishes::default()
    };
    let reason = |_| crate::api::LeaveReason::Unreachable;
    build_proposal(&directory(), &reports, &[GroupId(1)].into(), &wishes, reason)
}

/// What is built fits, and no more when it is changed like this.
fn refused(change: impl Fn(&mut Proposal)) {
    let mut wrong = proposal();
    assert!(directory().admits(&wrong));
    assert_eq!(wrong.groups.len(), 2);
    change(&mut wrong);
    assert!(!directory().admits(&wrong), "{wrong:?}");
}

#[test]
fn numbers_run_on_without_gaps() {
    refused(|p| p.decree += 1);
    refused(|p| p.decree = 0);
    refused(|p| p.view += 1);
    refused(|p| p.view = 0);
    refused(|p| p.next_space = u32::MAX);
    refused(|p| p.next_space = 6);
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
    refused(|p| p.groups[0].view = 4);
    refused(|p| p.groups[0].cut = None);
    refused(|p| p.groups[0].space = 6);
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
    let welcome = || Welcome { instance: 1, directory: before.after(&decision), proposal: Arc::new(decision.clone()) };
    assert!(welcome().is_sound());
    let refused = |change: &dyn Fn(&mut Welcome)| {
        let mut wrong = welcome();
        change(&mut wrong);
        assert!(!wrong.is_sound(), "{wrong:?}");
    };
    let entry = |w: &mut Welcome, change: fn(&mut GroupEntry)| {
        change(w.directory.groups.get_mut(&GroupId(1)).expect("the group is there"));
    };
    refused(&|w| w.directory.decree += 1);
    refused(&|w| w.directory.view += 1);
    refused(&|w| drop(w.directory.members.pop()));
    refused(&|w| w.directory.next_space = 1);
    refused(&|w| w.directory.next_group = 1);
    refused(&|w| drop(w.directory.groups.remove(&GroupId(1))));
    refused(&|w| entry(w, |e| e.space = 99));
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
