use super::*;
use crate::api::{Limits, Timing};
use crate::id::CellInstance;
use crate::member::Lost;

/// Incarnation `life` of founder `name`, in the directory of that name.
fn founder(name: u64, life: u64) -> MemberInfo {
    let at = SocketAddr::from(([127, 0, 0, 1], 1000 + u16::try_from(name).expect("small")));
    let mut info = MemberInfo::new(Incarnation(name * 10 + life), format!("p{name}"), at, at);
    info.sit(name + 1);
    info
}

fn list(instance: CellInstance, lives: [u64; 3]) -> FirstView {
    let members = (0..3).map(|name| founder(name, lives[usize::try_from(name).expect("small")])).collect();
    FirstView::new(instance, members, &Agreed::of(&Limits::default(), &Timing::default()))
}

fn marked(round: u32, first: &FirstView) -> FounderRecord {
    let ballot = FoundingBallot { round, leader: Incarnation(1) };
    let mark = BootstrapMarker::of_list(ballot, first.clone());
    FounderRecord { mark: Some(mark), ..FounderRecord::default() }
}

fn taken_in(instance: CellInstance) -> FounderRecord {
    FounderRecord { mark: Some(BootstrapMarker::bare(instance)), ..FounderRecord::default() }
}

fn nothing() -> FounderRecord {
    FounderRecord::default()
}

fn chosen(lives: [u64; 3], records: [FounderRecord; 3]) -> Choice {
    let asked = list(CellInstance::NONE, lives).members;
    let reports: BTreeMap<String, FounderRecord> =
        records.into_iter().enumerate().map(|(name, record)| (format!("p{name}"), record)).collect();
    choose(&asked, &reports, &Ends::told(&asked, reports.values().filter_map(|record| record.end.as_ref())))
}

const FIRST: CellInstance = CellInstance(1 << 48 | 1);
const SECOND: CellInstance = CellInstance(1 << 48 | 3);

#[test]
fn without_marks_a_list_of_those_asked_is_proposed() {
    assert_eq!(chosen([1, 1, 1], [nothing(), nothing(), nothing()]), Choice::New);
}

#[test]
fn the_list_marked_in_the_highest_ballot_is_proposed_again() {
    let (one, other) = (list(FIRST, [1, 1, 1]), list(SECOND, [2, 1, 1]));
    let choice = chosen([2, 1, 1], [nothing(), marked(3, &other), marked(2, &one)]);
    assert_eq!(choice, Choice::Again(other), "though it was made by a life that is no more");
    assert_eq!(chosen([3, 1, 1], [nothing(), marked(3, &one), nothing()]), Choice::Again(one), "nor is rank 0 needed");
}

#[test]
fn a_list_that_was_confirmed_and_has_no_quorum_left_is_no_more_to_be_founded() {
    let first = list(FIRST, [1, 1, 1]);
    assert_eq!(chosen([2, 2, 1], [marked(2, &first), marked(2, &first), nothing()]), Choice::Dead(FIRST));
    assert_eq!(chosen([1, 1, 1], [taken_in(SECOND), nothing(), nothing()]), Choice::Dead(SECOND));
    assert_eq!(
        chosen([1, 1, 1], [taken_in(SECOND), marked(9, &first), nothing()]),
        Choice::Dead(SECOND),
        "it saw more"
    );
    let later = list(CellInstance(2 << 48 | 1), [1, 1, 1]);
    assert_eq!(
        chosen([1, 1, 1], [taken_in(SECOND), marked(1, &later), nothing()]),
        Choice::Again(later),
        "a generation later"
    );
}

#[test]
fn a_list_with_few_marks_is_overruled_where_all_run_in_the_directories_that_it_named() {
    let first = list(FIRST, [1, 1, 1]);
    assert_eq!(chosen([2, 2, 1], [marked(2, &first), nothing(), nothing()]), Choice::New);
    let mut elsewhere = first.clone();
    elsewhere.members[1].sit(99);
    assert_eq!(
        chosen([2, 2, 1], [marked(2, &elsewhere), nothing(), nothing()]),
        Choice::Dead(FIRST),
        "p1 may have had a mark in the directory that it ran in then"
    );
    let mut unknown = first;
    unknown.members[1].sit(0);
    assert_eq!(chosen([2, 2, 1], [marked(2, &unknown), nothing(), nothing()]), Choice::Dead(FIRST));
}

/// A later generation begins after an end or a command alone. Where its list is overruled, the marker of it took the place
/// of one of the earlier instance, so nobody can count how many had that one.
#[test]
fn marks_of_an_earlier_generation_do_not_count() {
    let first = || marked(7, &list(FIRST, [1, 1, 1]));
    let next = list(CellInstance(2 << 48 | 1), [2, 2, 2]);
    for earlier in [first(), taken_in(FIRST), taken_in(SECOND)] {
        let few = [marked(1, &next), earlier.clone(), first()];
        assert_eq!(chosen([3, 3, 3], few.clone()), Choice::New, "{earlier:?}");
        assert_eq!(chosen([2, 3, 2], few), Choice::Again(next.clone()), "a quorum of it lives");
        let most = [marked(1, &next), marked(1, &next), earlier];
        assert_eq!(chosen([3, 3, 3], most), Choice::Dead(next.instance), "it may have been confirmed");
    }
    let taken = taken_in(next.instance);
    assert_eq!(chosen([3, 3, 3], [taken, first(), first()]), Choice::Dead(next.instance), "it had further views");
}

/// The record of a process that was in that instance when its last members left, except for these.
fn ended(record: FounderRecord, instance: CellInstance, but_for: Vec<Lost>) -> FounderRecord {
    let waiting = Waiting::default();
    FounderRecord { end: Some(End::Ended(Ended { instance, view: ViewNumber(9), but_for, waiting })), ..record }
}

/// Incarnation `life` of founder `name`, which may still be a member.
fn lost(name: u64, life: u64) -> Lost {
    let info = founder(name, life);
    Lost { who: info.incarnation, seat: info.seat(), name: info.name }
}

#[test]
fn marks_of_an_instance_that_ended_do_not_count() {
    let in_it = || taken_in(SECOND);
    assert_eq!(chosen([2, 2, 2], [ended(in_it(), SECOND, Vec::new()), in_it(), in_it()]), Choice::New);
    let left = FounderRecord { end: Some(End::Left { instance: SECOND }), ..in_it() };
    assert_eq!(chosen([2, 2, 2], [left.clone(), left.clone(), left]), Choice::Dead(SECOND), "others may have stayed");
    let later = taken_in(CellInstance(3 << 48 | 1));
    assert_eq!(
        chosen([2, 2, 2], [ended(in_it(), SECOND, Vec::new()), later, in_it()]),
        Choice::Dead(CellInstance(3 << 48 | 1)),
        "a later instance did not end"
    );
    assert_eq!(
        chosen(
            [2, 2, 2],
            [ended(taken_in(CellInstance(3 << 48 | 1)), CellInstance(3 << 48 | 1), Vec::new()), in_it(), in_it()]
        ),
        Choice::New,
        "the later one was founded when nobody lived in this one"
    );
    let heard = || FounderRecord {
        heard: Some(Heard { instance: SECOND, at: SocketAddr::from(([127, 0, 0, 1], 1)) }),
        ..nothing()
    };
    assert!(matches!(chosen([2, 2, 2], [in_it(), heard(), in_it()]), Choice::Heard(name, _) if name == "p1"));
    assert_eq!(chosen([2, 2, 2], [ended(in_it(), SECOND, Vec::new()), heard(), in_it()]), Choice::New);
    assert_eq!(chosen([2, 2, 2], [ended(in_it(), SECOND, vec![lost(3, 1)]), heard(), nothing()]), Choice::Dead(SECOND));
}

#[test]
fn an_instance_has_not_ended_while_a_former_member_may_live_in_it() {
    let with = |lives: [u64; 3], but_for: Vec<Lost>| {
        chosen(lives, [ended(taken_in(FIRST), FIRST, but_for), taken_in(FIRST), taken_in(FIRST)])
    };
    assert_eq!(with([2, 2, 2], vec![lost(1, 1), lost(2, 1)]), Choice::New, "both were started again");
    assert_eq!(with([2, 1, 2], vec![lost(1, 1)]), Choice::Dead(FIRST), "this life was a member");
    assert_eq!(with([2, 2, 2], vec![lost(3, 1)]), Choice::Dead(FIRST), "it is not there");
    let elsewhere = Lost { seat: 0, ..lost(1, 1) };
    assert_eq!(with([2, 2, 2], vec![elsewhere]), Choice::Dead(FIRST), "nobody knows where it ran");
    // Each record may have excused different members.
    let two = [
        ended(taken_in(FIRST), FIRST, vec![lost(3, 1), lost(4, 1)]),
        ended(taken_in(FIRST), FIRST, vec![lost(4, 1)]),
        ended(taken_in(FIRST), FIRST, vec![lost(3, 1)]),
    ];
    assert_eq!(chosen([2, 2, 2], two), Choice::New);
}

#[test]
fn instances_tell_their_generation_and_are_never_0() {
    for (random, of) in [(0, 0), (u64::MAX, 1), (1 << 20, u16::MAX)] {
        let instance = CellInstance::fresh(of, random);
        assert_eq!(instance.generation(), of);
        assert_ne!(instance, CellInstance::NONE);
    }
}

#[test]
fn messages_beyond_their_bounds_are_refused() {
    let ballot = FoundingBallot { round: 1, leader: Incarnation(1) };
    let ask = |names: usize, asked: Vec<MemberInfo>| FoundingMessage::Ask {
        ballot,
        names: vec!["p".to_owned(); names],
        asked,
    };
    assert!(ask(FOUNDERS_MAX, vec![founder(0, 1), founder(1, 1)]).is_sound());
    assert!(!ask(FOUNDERS_MAX + 1, vec![founder(0, 1)]).is_sound());
    assert!(!ask(1, vec![founder(0, 1), founder(1, 1)]).is_sound(), "more processes than names");
    assert!(!ask(2, vec![founder(0, 1), founder(0, 2)]).is_sound(), "one name twice");
    let long = FoundingMessage::Refuse { ballot, why: FoundingRefusal::Names(vec!["p".repeat(201)]) };
    assert!(!long.is_sound());
    let twice = FirstView { members: vec![founder(0, 1), founder(0, 1)], ..list(FIRST, [1, 1, 1]) };
    assert!(!FoundingMessage::Confirmed(twice).is_sound());
    let last = |n: usize| FoundingMessage::Dead { ballot, last: vec![(String::new(), None); n], but_for: None };
    assert!(last(FOUNDERS_MAX).is_sound() && !last(FOUNDERS_MAX + 1).is_sound());
    let but_for = |n: usize| FoundingMessage::Dead { ballot, last: Vec::new(), but_for: Some(vec![String::new(); n]) };
    assert!(but_for(LOST_MAX).is_sound() && !but_for(LOST_MAX + 1).is_sound());
    let lost = |n: usize| vec![lost(0, 1); n];
    let report =
        |n: usize| FoundingMessage::Report { ballot, record: Box::new(ended(taken_in(FIRST), FIRST, lost(n))) };
    assert!(report(LOST_MAX).is_sound() && !report(LOST_MAX + 1).is_sound());
}
