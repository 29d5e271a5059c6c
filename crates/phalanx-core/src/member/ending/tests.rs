use std::net::SocketAddr;

use super::*;
use crate::api::{Limits, Timing};
use crate::member::{Agreed, MembershipRequests, Report, build_proposal};
use crate::{LEVEL, MemberInfo, Rank, ViewNumber};

/// Incarnation `life` of the process with `seat`.
fn member(seat: u64, life: u64) -> MemberInfo {
    let at = SocketAddr::from(([127, 0, 0, 1], 1000 + u16::try_from(seat).expect("small")));
    let mut info = MemberInfo::new(Incarnation(seat * 1000 + life), format!("p{seat}"), at, at);
    info.sit(seat);
    info
}

fn cell(seats: std::ops::RangeInclusive<u64>) -> Directory {
    let settings = Agreed::of(&Limits::default(), &Timing::default()).tags(LEVEL);
    Directory::found(seats.map(|seat| member(seat, 1)).collect(), LEVEL, settings)
}

/// The decree if the members at these ranks report, and the others do not.
fn decide(directory: &Directory, present: &[u16], requests: &MembershipRequests, why: LeaveReason) -> Proposal {
    let report = |rank: &u16| (Rank(*rank), Report { decree: directory.decree.next(), ..Report::default() });
    let reports = present.iter().map(report).collect();
    let proposal = build_proposal(directory, &reports, &BTreeSet::new(), &BTreeSet::new(), requests, |_| why);
    assert!(directory.admits(&proposal));
    proposal
}

fn lost(directory: &Directory) -> Option<Vec<&'static str>> {
    const NAMES: [&str; 6] = ["p0", "p1", "p2", "p3", "p4", "p5"];
    let name = |lost: &Lost| NAMES.into_iter().find(|name| *name == lost.name).expect("a short cell");
    Some(directory.lost()?.iter().map(name).collect())
}

fn leave(who: &[u64]) -> MembershipRequests {
    MembershipRequests {
        leavers: who.iter().map(|seat| member(*seat, 1).incarnation).collect(),
        ..MembershipRequests::default()
    }
}

#[test]
fn a_cell_names_those_that_may_not_know_that_they_are_out() {
    let first = cell(0..=4);
    assert_eq!(lost(&first), Some(Vec::new()));
    let silent = first.after(&decide(&first, &[0, 1, 2], &MembershipRequests::default(), LeaveReason::Unreachable));
    assert_eq!(lost(&silent), Some(vec!["p3", "p4"]));
    let dead = first.after(&decide(&first, &[0, 1, 2], &MembershipRequests::default(), LeaveReason::Died));
    assert_eq!(lost(&dead), Some(Vec::new()), "they are proved dead");
    // One is back where it ran before; one confirmed that it knows; a decree that changes no view changes nothing.
    let joiners = vec![(member(3, 2), Vec::new())];
    let back = silent.after(&decide(
        &silent,
        &[0, 1, 2],
        &MembershipRequests { joiners, ..MembershipRequests::default() },
        LeaveReason::Died,
    ));
    assert_eq!(lost(&back), Some(vec!["p4"]));
    let out = BTreeSet::from([member(4, 1).incarnation]);
    let said = back.after(&decide(&back, &[0, 1, 2, 3], &MembershipRequests { out, ..leave(&[2]) }, LeaveReason::Died));
    assert_eq!(lost(&said), Some(vec!["p2"]), "the leaver is not told yet");
    let same = said.after(&decide(&said, &[0, 1, 2], &MembershipRequests::default(), LeaveReason::Died));
    assert_eq!((said.view, lost(&same)), (same.view, Some(vec!["p2"])));
    let nobody = same.after(&decide(
        &same,
        &[0, 1, 2],
        &MembershipRequests {
            leavers: same.members.iter().map(|member| member.incarnation).collect(),
            ..MembershipRequests::default()
        },
        LeaveReason::Died,
    ));
    assert!(nobody.members.is_empty());
    assert_eq!(lost(&nobody), Some(vec!["p2", "p0", "p1", "p3"]));
}

/// A process without a seat cannot be recognized when it comes back.
#[test]
fn who_comes_back_from_elsewhere_excuses_nobody() {
    let mut first = cell(0..=2);
    let mut joiner = member(2, 2);
    joiner.sit(77);
    let back = |first: &Directory, joiner: &MemberInfo| {
        let silent = first.after(&decide(first, &[0, 1], &MembershipRequests::default(), LeaveReason::Unreachable));
        let requests =
            MembershipRequests { joiners: vec![(joiner.clone(), Vec::new())], ..MembershipRequests::default() };
        lost(&silent.after(&decide(&silent, &[0, 1], &requests, LeaveReason::Died)))
    };
    assert_eq!(back(&first, &joiner), Some(vec!["p2"]));
    first.members[2].sit(0);
    joiner.sit(0);
    assert_eq!(back(&first, &joiner), Some(vec!["p2"]));
}

/// A coordinator of an earlier build records nothing about the members that its decree leaves out.
#[test]
fn after_a_view_of_an_earlier_build_nobody_knows_who_is_lost() {
    let first = cell(0..=4);
    let mut proposal = decide(&first, &[0, 1, 2, 3], &MembershipRequests::default(), LeaveReason::Unreachable);
    proposal.tail.remove(LOST);
    let second = first.after(&proposal);
    assert_eq!(lost(&second), None);
    let third = second.after(&decide(&second, &[0, 1, 2], &MembershipRequests::default(), LeaveReason::Unreachable));
    assert_eq!(lost(&third), None, "nor later");
    let mut next = third;
    next.view = ViewNumber(1);
    next.lose_nobody();
    assert_eq!(lost(&next), Some(Vec::new()), "another instance begins");
}

#[test]
fn a_cell_that_lost_sight_of_too_many_names_none_of_them() {
    let mut directory = cell(0..=2);
    let max = LOST_MAX as u64;
    for seat in 10..10 + max + 1 {
        let requests =
            MembershipRequests { joiners: vec![(member(seat, 1), Vec::new())], ..MembershipRequests::default() };
        directory = directory.after(&decide(&directory, &[0, 1, 2], &requests, LeaveReason::Died));
        directory =
            directory.after(&decide(&directory, &[0, 1, 2], &MembershipRequests::default(), LeaveReason::Unreachable));
        let known = directory.lost().map(|lost| lost.len() as u64);
        assert_eq!(known, (seat < 10 + max).then_some(seat - 9));
    }
}

#[test]
fn what_a_proposal_says_of_former_members_keeps_within_its_bounds() {
    let first = cell(0..=2);
    let proposal = decide(&first, &[0, 1], &MembershipRequests::default(), LeaveReason::Unreachable);
    let with = |view: ViewNumber, names: &[usize]| {
        let lost = names.iter().map(|len| Lost { who: Incarnation(7), seat: 1, name: "n".repeat(*len) }).collect();
        let mut proposal = proposal.clone();
        proposal.tail.put_value(LOST, &Written { view, lost: Some(lost) });
        first.admits(&proposal)
    };
    assert!(with(ViewNumber(2), &[200; LOST_MAX]) && with(ViewNumber(2), &[]));
    assert!(!with(ViewNumber(2), &[1; LOST_MAX + 1]) && !with(ViewNumber(2), &[201]) && !with(ViewNumber(3), &[]));
    let mut nonsense = proposal.clone();
    nonsense.tail.put(LOST, b"\xff\xff");
    assert!(!first.admits(&nonsense));
}
