//! States that a process keeps through exclusions, and its notes on orphans.

use std::net::SocketAddr;
use std::time::Duration;

use super::*;
use crate::api::{DeathProof, Delivery, Effects, GroupTerms};
use crate::id::{TrafficClass, ViewNumber};
use crate::member::{Control, Directory, OrphanHolder, ReturnPoint, Role, SEAT_BYTES_MAX};
use crate::process::REQUESTS_MAX;
use crate::process::tests::by_hand::{NOW, Out, in_cell};
use crate::wire::{Space, Tags};

/// Adds a group to the directory that waits for these holders.
fn wait_for(directory: &mut Directory, who: impl Iterator<Item = u64>) {
    let holder = |who| OrphanHolder { who: Incarnation(who), seat: 0, stayed: false, name: format!("m{who}") };
    let holders: Vec<OrphanHolder> = who.map(holder).collect();
    let members = u32::try_from(holders.len()).expect("small");
    let entry = GroupEntry {
        name: "g".into(),
        view: ViewNumber(1),
        space: Space(1),
        members: Vec::new(),
        tail: Tags::default(),
    };
    directory.groups.insert(GroupId(1), entry.waiting_for(Orphan { members, holders }));
}

#[test]
fn a_process_names_its_last_lives_and_no_more() {
    let mut kept = Kept::default();
    for life in 1..=2 + INCARNATIONS_MAX as u64 {
        let (mut process, _) = in_cell(Incarnation(life), life);
        process.resume(kept);
        kept = process.take_kept(|_| true);
    }
    let (mut process, _) = in_cell(Incarnation(1000), 1000);
    process.resume(kept);
    let lives = process.set.me.earlier_incarnations();
    assert_eq!(
        (lives.len(), lives.first(), lives.last()),
        (INCARNATIONS_MAX, Some(&Incarnation(3)), Some(&Incarnation(66)))
    );
}

#[test]
fn proofs_of_death_are_kept_for_whom_a_group_waits_for_and_not_without_end() {
    let (mut process, _) = in_cell(Incarnation(1), 3);
    let first = 100;
    wait_for(&mut process.directory, first..first + 2 * DEAD_MAX as u64);
    process.handle_death(NOW, Incarnation(99), DeathProof::Ended);
    assert!(process.waiting.dead.is_empty(), "no group waits for it");
    (first..first + 2 * DEAD_MAX as u64).for_each(|who| process.handle_death(NOW, Incarnation(who), DeathProof::Ended));
    assert_eq!(process.waiting.dead.len(), DEAD_MAX);
    // Proofs that a decree has used make room for more.
    process.directory.groups.clear();
    process.check_orphans(NOW);
    assert!(process.waiting.dead.is_empty());
}

/// The proof comes while a ballot leaves its process out without it, or before this process is in the cell again.
#[test]
fn a_proof_is_applied_whenever_somebody_waits_for_its_process() {
    let (mut process, _) = in_cell(Incarnation(1), 3);
    process.handle_death(NOW, Incarnation(7), DeathProof::Ended);
    process.handle_death(NOW, Incarnation(3), DeathProof::Ended);
    assert!(process.failure_detector.is_dead(crate::id::Rank(2)) && process.waiting.dead.is_empty());
    wait_for(&mut process.directory, 7..9);
    process.attention = false;
    assert_eq!(process.apply_deaths(), 1);
    assert_eq!(process.waiting.dead, [Incarnation(7)].into());
    assert!(process.attention, "the coordinator is told");
    assert_eq!(awaited(&process.directory), [7, 8].map(Incarnation).into());
    assert_eq!(process.apply_deaths(), 0, "it was news once");

    let kept = process.take_kept(|_| true);
    let (mut next, _) = in_cell(Incarnation(2), 4);
    next.resume(kept);
    next.apply_deaths();
    assert!(next.failure_detector.is_dead(crate::id::Rank(2)), "what was proved to the incarnation before");
}

#[test]
fn only_a_group_that_waits_is_given_up() {
    let (mut process, mut fx) = in_cell(Incarnation(1), 3);
    assert_eq!(process.give_up_group(NOW, "g"), Err(CommandError::NotOrphan));
    wait_for(&mut process.directory, 7..9);
    assert_eq!(
        process.orphans().map(|(name, who)| (name.to_owned(), who.len())).collect::<Vec<_>>(),
        [("g".into(), 2)]
    );
    assert_eq!(process.give_up_group(NOW, "other"), Err(CommandError::NotOrphan));
    assert_eq!(process.give_up_group(NOW, "g"), Ok(()));
    let mut list = RequestList::default();
    process.requests_of_orphans(&mut list);
    assert_eq!(list.given_up, ["g"]);
    process.end(Event::Excluded { view: ViewNumber(2) });
    process.deliver(NOW, &mut Out::default());
    assert_eq!(process.give_up_group(NOW, "g"), Err(CommandError::Over));
    let _ = &mut fx;
}

#[test]
fn who_asks_for_a_group_that_waits_is_told_so_without_another_view() {
    let (mut process, _) = in_cell(Incarnation(1), 3);
    wait_for(&mut process.directory, 7..9);
    process.join_group(NOW, "other", true, GroupTerms::default()).expect("a good name");
    assert!(process.app.is_empty(), "groups that it does not want are not reported");
    process.join_group(NOW, "g", true, GroupTerms::default()).expect("a good name");
    process.check_orphans(NOW);
    let told = Told::of(&mut process);
    let waits_for = vec![(Incarnation(7), "m7".to_owned()), (Incarnation(8), "m8".to_owned())];
    assert_eq!(told.0, [("g".to_owned(), waits_for)], "once");
}

/// Orphaned groups that the application was notified of.
#[derive(Default)]
struct Told(Vec<(String, Vec<(Incarnation, String)>)>);

impl Told {
    fn of(process: &mut Process) -> Self {
        let mut told = Self::default();
        process.deliver(NOW, &mut told);
        told
    }
}

impl Effects for Told {
    fn transmit(&mut self, _lane: TrafficClass, _to: &[SocketAddr], _packet: &[u8]) {}
    fn deliver(&mut self, _delivery: &Delivery<'_>) {}
    fn event(&mut self, event: Event) {
        if let Event::GroupOrphaned { name, waits_for, .. } = event {
            self.0.push((name.to_string(), waits_for));
        }
    }
}

/// A member of the cell that was a holder, as another incarnation.
fn returned(process: &mut Process, rank: usize, was: u64) -> Incarnation {
    let info = &mut process.directory.members[rank];
    info.keeps(&[Incarnation(was)]);
    info.incarnation
}

fn says(process: &Process, was: u64, packets: u64) -> RequestList {
    let (view, decree) = (ViewNumber(1), process.directory.decree);
    let point = ReturnPoint { view, prefixes: vec![packets; 2], counts: vec![packets; 2] };
    let said = Return { group: GroupId(1), was: Incarnation(was), from: Some(point) };
    RequestList { decree, returns: vec![said], ..RequestList::default() }
}

/// The member that is to bring the group back, if one is.
fn donor(process: &Process, at: Instant) -> Option<Incarnation> {
    let mut returns = process.waiting.gathering.requested_returns(at, &process.directory, &process.requests);
    Some(returns.remove(&GroupId(1))?.donor?.0)
}

#[test]
fn what_a_holder_says_stands_over_decrees_about_others() {
    let (mut process, mut fx) = in_cell(Incarnation(1), 3);
    wait_for(&mut process.directory, 7..9);
    let back = returned(&mut process, 1, 7);
    let list = says(&process, 7, 5);
    process.handle_control(NOW, back, Control::MembershipRequests(list.clone()), &mut fx);
    // A decree is installed that is about something else. It voids all requests.
    process.directory.decree = process.directory.decree.next();
    process.requests.clear();
    process.check_orphans(NOW);
    let second = Duration::from_secs(1);
    assert_eq!(donor(&process, NOW + second / 2), None, "the other holder is waited for");
    assert_eq!(donor(&process, NOW + second), Some(back), "since the first was back, and not since the decree");
    // A list that comes after its decree says as much of the group, and nothing else.
    let other = returned(&mut process, 2, 8);
    let late = RequestList { returns: says(&process, 8, 9).returns, ..list.clone() };
    process.handle_control(NOW, other, Control::MembershipRequests(late), &mut fx);
    assert_eq!((donor(&process, NOW), process.requests.len()), (Some(other), 0), "all have answered");
    // Who speaks for nobody is not heard.
    let of_nobody = RequestList { returns: says(&process, 6, 9).returns, ..list };
    assert!(!process.waiting.gathering.note(NOW, &process.directory, other, &of_nobody));
}

#[test]
fn what_a_holder_said_is_forgotten_when_it_is_out() {
    let (mut process, mut fx) = in_cell(Incarnation(1), 3);
    wait_for(&mut process.directory, 7..9);
    let back = returned(&mut process, 1, 7);
    let list = says(&process, 7, 5);
    process.handle_control(NOW, back, Control::MembershipRequests(list.clone()), &mut fx);
    let member = process.directory.members.remove(1);
    process.check_orphans(NOW);
    process.directory.members.push(member);
    let second = Duration::from_secs(1);
    assert_eq!(donor(&process, NOW + second), None);
    process.handle_control(NOW + second, back, Control::MembershipRequests(list), &mut fx);
    assert_eq!(
        (donor(&process, NOW + second), donor(&process, NOW + second * 2)),
        (None, Some(back)),
        "it begins anew"
    );
}

/// Groups that wait for one process, and that its next incarnation finds.
#[test]
fn more_groups_than_a_list_holds_are_named_from_the_oldest_on() {
    let (mut process, mut fx) = in_cell(Incarnation(1), 3);
    process.waiting.kept.lives.push(Incarnation(7));
    let count = u32::try_from(REQUESTS_MAX).expect("small") + 1;
    wait_for(&mut process.directory, 7..8);
    let entry = process.directory.groups.remove(&GroupId(1)).expect("it was added");
    for number in 1..=count {
        let entry = GroupEntry { name: format!("g{number}"), space: Space(number), ..entry.clone() };
        process.directory.groups.insert(GroupId(number), entry);
    }
    (process.directory.next_group, process.directory.next_space) = (count + 1, Space(count + 1));
    process.advance_intents(NOW);
    let named = |process: &Process| {
        let list = &process.requests[&Incarnation(1)];
        (list.returns.len(), list.returns.first().map(|said| said.group), process.counters.requests_cut)
    };
    assert_eq!(named(&process), (REQUESTS_MAX, Some(GroupId(1)), 1));
    // When the oldest does not wait any more, the last one has a place.
    process.directory.groups.remove(&GroupId(1));
    process.advance_intents(NOW);
    assert_eq!(named(&process), (REQUESTS_MAX, Some(GroupId(2)), 1));
    // A longer list of another build counts as far as it may go.
    let mut list = process.requests[&Incarnation(1)].clone();
    list.returns.extend(list.returns.clone());
    let other = process.directory.members[1].incarnation;
    process.handle_control(NOW, other, Control::MembershipRequests(list), &mut fx);
    let cut = 1 + REQUESTS_MAX as u64;
    assert_eq!((process.requests[&other].returns.len(), process.counters.requests_cut), (REQUESTS_MAX, cut));
}

#[test]
fn who_asks_for_a_new_group_while_too_much_waits_is_told_and_begins_no_ballot() {
    let (mut process, mut fx) = in_cell(Incarnation(1), 3);
    process.set.me.sit(70);
    process.directory.members[0].sit(70);
    wait_for(&mut process.directory, 7..8);
    let entry = process.directory.groups.get_mut(&GroupId(1)).expect("it was added");
    let mut orphan = entry.orphan().expect("it waits");
    orphan.holders[0].seat = 70;
    *entry = GroupEntry { name: "w".repeat(SEAT_BYTES_MAX), ..entry.clone() }.waiting_for(orphan);
    let put_off = |process: &mut Process| {
        let mut out = Out::default();
        process.deliver(NOW, &mut out);
        let told =
            |event: Event| if let Event::GroupPutOff { name, .. } = event { Some(name.to_string()) } else { None };
        out.events.into_iter().filter_map(told).collect::<Vec<_>>()
    };
    process.join_group(NOW, "new", false, GroupTerms::default()).expect("a good name");
    process.check_orphans(NOW);
    assert_eq!(put_off(&mut process), ["new"], "once");
    process.coordinate(NOW, &mut fx);
    assert_eq!(process.counters.ballots, 0);
    // There is room again.
    process.directory.groups.clear();
    process.check_orphans(NOW);
    process.coordinate(NOW, &mut fx);
    assert_eq!((put_off(&mut process).len(), process.counters.ballots), (0, 1));
}

#[test]
fn who_asks_to_observe_a_group_is_told_once_that_it_does_not_exist() {
    let (mut process, _) = in_cell(Incarnation(1), 3);
    let told = |process: &mut Process| {
        let mut out = Out::default();
        process.deliver(NOW, &mut out);
        let words = |event: Event| match event {
            Event::GroupAbsent { name } => Some(format!("absent {name}")),
            Event::GroupOrphaned { name, .. } => Some(format!("orphan {name}")),
            Event::GroupPutOff { name, .. } => Some(format!("put off {name}")),
            _ => None,
        };
        out.events.into_iter().filter_map(words).collect::<Vec<_>>()
    };
    process.join_group(NOW, "made", true, GroupTerms::default()).expect("a good name");
    process.request_group(NOW, "g", Role::Observer, GroupTerms::default(), Vec::new()).expect("a good name");
    assert_eq!(told(&mut process), ["absent g"], "who may make a group is told nothing");
    process.check_orphans(NOW);
    assert_eq!(told(&mut process), [""; 0], "once");

    // It waits for its holders, and has members, and is over.
    wait_for(&mut process.directory, 7..8);
    process.check_orphans(NOW);
    assert_eq!(told(&mut process), ["orphan g"]);
    process.directory.groups.get_mut(&GroupId(1)).expect("it was added").members = vec![Incarnation(2)];
    process.check_orphans(NOW);
    process.directory.groups.clear();
    process.check_orphans(NOW);
    assert_eq!(told(&mut process), ["absent g"], "again after it was there");

    // Room in the directory does not concern it, and below level 6 it makes the group as others do.
    process.set.me.sit(70);
    process.directory.members[0].sit(70);
    process.directory.level = 5;
    process.check_orphans(NOW);
    assert!(process.waiting.absent.is_empty() && told(&mut process).is_empty());
    process.directory.level = 6;
    wait_for(&mut process.directory, 7..8);
    let entry = process.directory.groups.get_mut(&GroupId(1)).expect("it was added");
    let mut orphan = entry.orphan().expect("it waits");
    orphan.holders[0].seat = 70;
    *entry = GroupEntry { name: "w".repeat(SEAT_BYTES_MAX), ..entry.clone() }.waiting_for(orphan);
    process.check_orphans(NOW);
    assert_eq!(told(&mut process), ["absent g", "put off made"]);
}

#[test]
fn nobody_is_told_that_a_group_does_not_exist_before_the_cell_is_known() {
    let (mut process, _) = in_cell(Incarnation(1), 3);
    process.directory.members.remove(0);
    process.request_group(NOW, "g", Role::Observer, GroupTerms::default(), Vec::new()).expect("a good name");
    assert!(process.waiting.absent.is_empty());
}
