//! States that a process keeps through exclusions, and its notes on orphans.

use std::net::SocketAddr;

use super::*;
use crate::api::Delivery;
use crate::api::{Effects, GroupTerms};
use crate::id::{TrafficClass, ViewNumber};
use crate::member::{Directory, OrphanHolder};
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
    process.handle_death(NOW, Incarnation(99));
    assert!(process.waiting.dead.is_empty(), "no group waits for it");
    (first..first + 2 * DEAD_MAX as u64).for_each(|who| process.handle_death(NOW, Incarnation(who)));
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
    process.handle_death(NOW, Incarnation(7));
    process.handle_death(NOW, Incarnation(3));
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
