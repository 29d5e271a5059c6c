//! Groups all of whose members are cut off from the cell or stopped, though none of them crashes; and leaves of the
//! last member with a group's state (`docs/orphans.md`).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use phalanx_core::member::Role;
use phalanx_core::wire::Kind;
use phalanx_core::{CommandError, Order, Uniformity, ViewNumber};
use phalanx_sim::{Cell, Packet};
use phalanx_trace::{Event, MembershipStep};

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

/// The number of the group "two", which is the second that is founded.
const TWO: u32 = 2;

/// Events of this kind in the incarnations of a process, each as its record.
fn told(cell: &Cell, slot: usize, which: impl Fn(&Event) -> bool) -> usize {
    let records = cell.traces(slot).iter().flat_map(|trace| &trace.records);
    records.filter(|record| which(&record.event)).count()
}

fn kept(cell: &Cell, slot: usize) -> usize {
    told(cell, slot, |event| matches!(event, Event::StateKept { group: TWO, .. }))
}

fn forgotten(cell: &Cell, slot: usize) -> usize {
    told(cell, slot, |event| matches!(event, Event::Forgotten { group: TWO, .. }))
}

/// A group without a state goes on without one of its members, which is taken into it again by the decree that takes it
/// into the cell. It is told that its own copy is of no use, and then of its view.
#[test]
fn a_copy_that_is_of_no_use_is_told_before_the_view() {
    let mut cell = Cell::settled(5, 40);
    for slot in 0..5 {
        cell.join_as(slot, "plain", Role::Stateless);
    }
    cell.settle();
    cell.cut_off(&[4]);
    assert!(cell.run_until(6 * SECOND, |cell| cell.group_view(0, "plain").is_some_and(|(_, members)| members == 4)));
    cell.heal();
    cell.settle();
    let records = cell.traces(4).last().map_or(&[][..], |trace| &trace.records);
    let told = records.iter().filter_map(|record| match &record.event {
        Event::ToldStep { name, what } if name == "plain" => Some(*what),
        _ => None,
    });
    let steps: Vec<MembershipStep> = told.collect();
    assert!(matches!(steps[..], [MembershipStep::Forgotten, MembershipStep::View(_)]), "{steps:?}");
    cell.finish_clean();
}

/// Five members, of which the last two are the group "two", with some messages in it.
fn of_two(seed: u64) -> Cell {
    with_two(5, seed)
}

fn with_two(members: usize, seed: u64) -> Cell {
    let mut cell = Cell::settled(members, seed);
    for slot in [3, 4] {
        cell.join(slot, "two");
    }
    cell.settle();
    for slot in [3, 4] {
        cell.multicast(slot, "two", Order::Total, Uniformity::Uniform, 40).expect("it is accepted");
    }
    cell.run_for(50 * MS);
    cell
}

fn waits_for(cell: &Cell, slot: usize) -> Vec<String> {
    cell.orphans(slot).into_iter().find(|(name, _)| name == "two").map(|(_, who)| who).unwrap_or_default()
}

/// Mends the links between the first three and the process.
fn reach(cell: &mut Cell, slot: usize) {
    for other in 0..3 {
        cell.mend(other, slot);
        cell.mend(slot, other);
    }
}

/// Both members are cut off for longer than `suspect_after`, and another process asks for the group meanwhile. It
/// waits, and gets the state when they are back.
#[test]
fn a_group_that_is_cut_off_as_a_whole_waits_and_goes_on() {
    for seed in 0..10 {
        let mut cell = of_two(seed);
        cell.cut_off(&[3, 4]);
        assert!(cell.run_until(5 * SECOND, |cell| waits_for(cell, 0).len() == 2));
        cell.join(0, "two");
        cell.run_for(3 * SECOND);
        assert_eq!(cell.group_view(0, "two"), None, "its name is taken");
        cell.heal();
        cell.settle();
        assert_eq!((kept(&cell, 3) + kept(&cell, 4), cell.orphans(0)), (1, Vec::new()));
        assert_eq!(cell.group_view(0, "two").map(|(_, members)| members), Some(3));
        cell.finish_clean();
    }
}

/// The same with members that are stopped as a whole. They learn only afterwards that they were away.
#[test]
fn a_group_that_is_stopped_as_a_whole_goes_on() {
    let mut cell = of_two(20);
    [3, 4].into_iter().for_each(|slot| cell.pause(slot));
    assert!(cell.run_until(5 * SECOND, |cell| waits_for(cell, 0).len() == 2));
    cell.run_for(2 * SECOND);
    [3, 4].into_iter().for_each(|slot| cell.resume(slot));
    cell.settle();
    assert_eq!(kept(&cell, 3) + kept(&cell, 4), 1);
    cell.finish_clean();
}

/// One of two is back, and the other stays away. One is enough, after a moment.
#[test]
fn one_holder_that_is_back_brings_the_group_back() {
    let mut cell = of_two(21);
    cell.cut_off(&[3]);
    cell.cut_off(&[4]);
    assert!(cell.run_until(5 * SECOND, |cell| waits_for(cell, 0).len() == 2));
    reach(&mut cell, 3);
    assert!(cell.run_until(5 * SECOND, |cell| cell.group_view(3, "two").is_some_and(|(view, _)| view > ViewNumber(2))));
    assert_eq!(kept(&cell, 3), 1);
    cell.heal();
    cell.settle();
    assert_eq!(
        (kept(&cell, 4), forgotten(&cell, 4)),
        (0, 1),
        "it is told what came of its state, and takes the group's"
    );
    assert_eq!(cell.group_view(4, "two").map(|(_, members)| members), Some(2));
    cell.finish_clean();
}

/// The same while others change another group several times a second. What the holder said stands, and the wait for the
/// other one goes on: these decrees concern neither.
#[test]
fn changes_of_other_groups_do_not_keep_a_group_out() {
    let mut cell = of_two(27);
    cell.cut_off(&[3]);
    cell.cut_off(&[4]);
    assert!(cell.run_until(5 * SECOND, |cell| waits_for(cell, 0).len() == 2));
    cell.join(1, "x");
    cell.run_for(300 * MS);
    reach(&mut cell, 3);
    assert!(cell.run_until(5 * SECOND, |cell| cell.is_primary(3)));
    let (mut changes, begin) = (0, cell.now());
    while cell.group_view(3, "two").is_none_or(|(view, _)| view <= ViewNumber(2)) {
        assert!(cell.now() - begin < 2 * SECOND, "{changes} changes keep it out");
        match cell.group_view(0, "x") {
            Some(_) => cell.leave_group(0, "x").expect("it is in the group"),
            None => _ = cell.try_join(0, "x"),
        }
        changes += 1;
        cell.run_for(150 * MS);
    }
    assert!(changes >= 6, "{changes} changes of another group while it waited");
    assert_eq!(kept(&cell, 3), 1);
    cell.heal();
    cell.settle();
    cell.finish_clean();
}

/// A process was in more groups than a list of requests holds. All of them come back.
#[test]
fn more_groups_than_a_list_holds_come_back() {
    let mut cell = Cell::settled(3, 28);
    let names: Vec<String> = (0..1_030).map(|number| format!("g{number}")).collect();
    names.iter().for_each(|name| cell.join(2, name));
    let in_all = |cell: &Cell| names.iter().all(|name| cell.group_view(2, name).is_some());
    assert!((0..100).any(|_| {
        cell.run_for(100 * MS);
        in_all(&cell)
    }));
    cell.cut_off(&[2]);
    cell.run_for(3 * SECOND);
    assert_eq!(cell.orphans(0).len(), names.len());
    cell.heal();
    cell.run_for(3 * SECOND);
    assert_eq!((cell.orphans(0).len(), in_all(&cell)), (0, true));
    let kept = told(&cell, 2, |event| matches!(event, Event::StateKept { .. }));
    assert!(kept >= names.len(), "{kept} states were kept");
}

/// Of two holders one sent plain messages that the other did not receive. It has more, and is the donor though it is
/// back last.
#[test]
fn the_holder_with_most_is_the_donor() {
    let mut cell = of_two(22);
    cell.cut(3, 4);
    cell.multicast(3, "two", Order::Fifo, Uniformity::Plain, 40).expect("it is accepted");
    cell.run_for(20 * MS);
    cell.cut_off(&[3]);
    cell.cut_off(&[4]);
    assert!(cell.run_until(5 * SECOND, |cell| waits_for(cell, 0).len() == 2));
    // The others hear both again; between the two nothing passes from one to the other.
    reach(&mut cell, 3);
    reach(&mut cell, 4);
    assert!(cell.run_until(5 * SECOND, |cell| kept(cell, 3) + kept(cell, 4) > 0));
    cell.heal();
    cell.settle();
    assert_eq!((kept(&cell, 3), kept(&cell, 4)), (1, 0));
    cell.finish_clean();
}

/// One of two delivered a uniform message, and the other has it and does not know that it is stable. Only the other is
/// back, and restores the group with the message.
#[test]
fn the_donor_delivers_what_it_holds() {
    let mut cell = of_two(25);
    cell.lose_if(|packet| packet.from == 3 && packet.to == 4 && packet.kind != Kind::Multicast);
    let before = [3, 4].map(|slot| cell.delivered(slot));
    cell.multicast(3, "two", Order::Fifo, Uniformity::Uniform, 40).expect("it is accepted");
    cell.run_for(20 * MS);
    assert_eq!([3, 4].map(|slot| cell.delivered(slot)), [before[0] + 1, before[1]]);
    cell.cut_off(&[3]);
    cell.cut_off(&[4]);
    assert!(cell.run_until(5 * SECOND, |cell| waits_for(cell, 0).len() == 2));
    reach(&mut cell, 4);
    assert!(cell.run_until(5 * SECOND, |cell| kept(cell, 4) == 1));
    cell.run_for(100 * MS);
    assert_eq!(cell.delivered(4), before[1] + 1);
    cell.heal();
    cell.settle();
    cell.finish_clean();
}

/// A member that is excluded sent a last message, which reaches one of the others after that one has reported its
/// messages. The processes that decided know where the view ended. A process that returns goes no farther than that.
#[test]
fn who_knows_only_the_view_before_goes_to_its_cut() {
    let mut cell = with_two(7, 26);
    cell.join(2, "two");
    cell.settle();
    let passes = Arc::new(AtomicBool::new(false));
    let late = passes.clone();
    let group = [3, 4];
    let of_the_last = move |packet: &Packet| packet.from == 2 && packet.kind == Kind::Multicast;
    cell.lose_if(move |packet| of_the_last(packet) && !(packet.to == 4 && late.load(Ordering::Relaxed)));
    cell.multicast(2, "two", Order::Fifo, Uniformity::Plain, 40).expect("it is accepted");
    cell.run_for(MS);
    // The sender reaches only the last member, and is excluded.
    for other in [0, 1, 3, 5, 6] {
        cell.cut(2, other);
        cell.cut(other, 2);
    }
    assert!(cell.run_until(5 * SECOND, |cell| (0..7).any(|slot| cell.activity(slot).proposing)));
    for slot in group {
        for other in [0, 1, 5, 6] {
            cell.cut(other, slot);
            cell.cut(slot, other);
        }
    }
    passes.store(true, Ordering::Relaxed);
    assert!(cell.run_until(5 * SECOND, |cell| waits_for(cell, 0).len() == 2), "{:?}", cell.orphans(0));
    cell.crash(2);
    let before = cell.delivered(4);
    for other in [0, 1, 5, 6] {
        cell.mend(other, 4);
        cell.mend(4, other);
    }
    assert!(cell.run_until(5 * SECOND, |cell| kept(cell, 4) == 1));
    cell.run_for(50 * MS);
    assert_eq!(cell.delivered(4), before, "what came after its report is beyond the cut");
    cell.heal();
    cell.settle();
    cell.finish_clean();
}

/// Both holders are killed and restarted. Processes without the state take their places, and the group is over.
#[test]
fn holders_that_are_started_again_are_waited_for_no_more() {
    let mut cell = of_two(23);
    cell.cut_off(&[3, 4]);
    assert!(cell.run_until(5 * SECOND, |cell| waits_for(cell, 0).len() == 2));
    cell.join(0, "two");
    cell.crash(3);
    cell.heal();
    cell.crash(4);
    cell.start(3);
    assert!(cell.run_until(5 * SECOND, |cell| waits_for(cell, 0) == ["p4"]), "{:?}", cell.orphans(0));
    assert_eq!(cell.group_view(0, "two"), None);
    cell.start(4);
    assert!(cell.run_until(5 * SECOND, |cell| cell.group_view(0, "two") == Some((ViewNumber(1), 1))));
    cell.settle();
    cell.finish_clean();
}

/// The holders never come back. An operator decides, and only about groups that wait.
#[test]
fn an_operator_gives_a_group_up() {
    let mut cell = of_two(24);
    assert_eq!(cell.give_up(1, "two"), Err(CommandError::NotOrphan));
    cell.cut_off(&[3, 4]);
    assert!(cell.run_until(5 * SECOND, |cell| waits_for(cell, 0).len() == 2));
    cell.join(0, "two");
    cell.run_for(5 * SECOND);
    assert_eq!(cell.group_view(0, "two"), None, "nobody is struck off for being silent");
    assert_eq!(cell.give_up(1, "two"), Ok(()));
    assert!(cell.run_until(2 * SECOND, |cell| cell.group_view(0, "two") == Some((ViewNumber(1), 1))));
    cell.heal();
    cell.settle();
    assert_eq!((kept(&cell, 3), forgotten(&cell, 3), forgotten(&cell, 4)), (0, 1, 1));
    cell.finish_clean();
}

/// Both members are cut off at any moment of a view change that admits one more. Those that installed the new view, and
/// those that know only the one before, come back to it.
#[test]
fn a_group_cut_off_inside_a_view_change_comes_back() {
    let mut revived = 0;
    for step in 0..40 {
        let mut cell = with_two(7, 30 + step);
        cell.join(2, "two");
        cell.run_for(Duration::from_micros(100 + step * 137));
        cell.multicast(3, "two", Order::Causal, Uniformity::Uniform, 40).expect("it is accepted");
        cell.run_for(Duration::from_micros(step * 53));
        [2, 3, 4].into_iter().for_each(|slot| cell.cut_off(&[slot]));
        cell.run_for(3 * SECOND);
        cell.heal();
        cell.settle();
        revived += (0..7).map(|slot| kept(&cell, slot)).sum::<usize>();
        cell.finish_clean();
    }
    assert_eq!(revived, 40);
}

/// The donor leaves while a joiner takes its state. It stays until the transfer is done.
#[test]
fn the_last_with_the_state_leaves_when_it_has_given_it() {
    for step in 0..20 {
        let mut cell = Cell::settled(4, 100 + step);
        cell.join(3, "one");
        cell.settle();
        cell.multicast(3, "one", Order::Fifo, Uniformity::Uniform, 40).expect("it is accepted");
        cell.run_for(20 * MS);
        cell.join(1, "one");
        cell.run_for(Duration::from_micros(step * 211));
        cell.leave(3);
        assert!(cell.run_until(5 * SECOND, |cell| !cell.runs(3)), "it leaves");
        cell.settle();
        let view = cell.group_view(1, "one").expect("it is in the group");
        assert!(view.0 > ViewNumber(1) || cell.transfers(1) == 0, "the group was founded anew: {view:?}");
        cell.finish_clean();
    }
}

/// Two leave while a third is silent for a moment. The silent one is not left alone, and no view is decided in which
/// the remaining members are no quorum of the others.
#[test]
fn leavers_do_not_decide_for_the_silent() {
    let mut cell = Cell::settled(3, 40);
    cell.cut_off(&[2]);
    cell.leave(0);
    cell.leave(1);
    cell.run_for(2 * SECOND);
    // It is excluded first, by a decree of its own, and not by a view of nobody.
    let of_two = |event: &Event| matches!(event, Event::CellView { members, .. } if members.len() == 2);
    assert!(told(&cell, 0, of_two) > 0 && !cell.is_primary(2));
    cell.heal();
    assert!(cell.run_until(25 * SECOND, |cell| !cell.runs(0) && !cell.runs(1)));
    // They waited for it, so it is back, and goes on alone.
    cell.run_for(SECOND);
    assert!(cell.exclusions(2) == 1 && cell.is_primary(2));
}

/// A leaver goes as soon as the remaining members know of its leave.
#[test]
fn a_leave_takes_no_longer_than_its_view() {
    let mut cell = Cell::settled(5, 41);
    cell.leave(4);
    assert!(cell.run_until(400 * MS, |cell| !cell.runs(4)));
    cell.settle();
    cell.finish_clean();
}

/// The first of two leaves, which it can decide alone. The other one, no quorum by itself, does not hear the decision.
/// The leaver stays until it does.
#[test]
fn a_leaver_stays_until_the_others_have_the_decision() {
    let mut cell = Cell::settled(2, 42);
    cell.leave(0);
    assert!(cell.run_until(5 * SECOND, |cell| cell.activity(0).gathering));
    cell.lose_if(|packet| packet.from == 0 && packet.to == 1 && packet.kind == Kind::Control);
    cell.run_for(500 * MS);
    assert!(cell.runs(0));
    cell.heal();
    assert!(cell.run_until(3 * SECOND, |cell| !cell.runs(0)));
    assert!(cell.run_until(3 * SECOND, |cell| {
        cell.cell_view(1).is_some_and(|(view, members)| view > ViewNumber(2) && members == [1])
    }));
    cell.settle();
    assert!(cell.is_primary(1));
    cell.finish_clean();
}

/// One of two leaves while the other is cut off, and has sent messages that the other did not receive. It stays until
/// the other is out, which then restores nothing.
#[test]
fn a_leaver_goes_after_those_that_are_cut_off() {
    let mut alone = 0;
    for step in 0..20 {
        let mut cell = of_two(200 + step);
        cell.cut_off(&[4]);
        cell.leave(3);
        cell.run_for(Duration::from_micros(20 + step * 5));
        let before = cell.delivered(3);
        if cell.multicast(3, "two", Order::Fifo, Uniformity::Uniform, 40).is_err() {
            continue;
        }
        assert!(cell.run_until(5 * SECOND, |cell| !cell.runs(3)), "it leaves");
        alone += u64::from(cell.delivered(3) > before);
        cell.heal();
        cell.settle();
        assert_eq!((kept(&cell, 4), forgotten(&cell, 4)), (0, 1));
        cell.finish_clean();
    }
    assert!(alone > 0, "no leaver delivered what the other had not");
}
