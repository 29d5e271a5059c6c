//! The last members of a cell leave while members are cut off, and what these have is not lost in silence
//! (`docs/founding.md`, *When all members left*).

mod founders;

use std::time::Duration;

use founders::{nobody_is_in, says, start};
use phalanx_core::CellInstance;
use phalanx_core::member::Waiting;
use phalanx_core::{Order, Uniformity};
use phalanx_sim::{Cell, WorldSettings};
use phalanx_trace::Event;

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);
/// `timing.end_wait` by default.
const END_WAIT: Duration = Duration::from_secs(5);

/// Five processes, the first `founders` of which are founders. The last two have a group of their own.
fn cell_of(founders: usize, seed: u64) -> Cell {
    let mut settings = WorldSettings::quiet(5);
    settings.founders = founders;
    let mut cell = Cell::new(settings, seed);
    start(&mut cell, &[0, 1, 2, 3, 4]);
    cell.settle();
    [3, 4].into_iter().for_each(|slot| cell.join(slot, "two"));
    cell.settle();
    for _ in 0..5 {
        cell.multicast(3, "two", Order::Total, Uniformity::Uniform, 40).expect("it is accepted");
        cell.run_for(10 * MS);
    }
    cell
}

fn leave(cell: &mut Cell, slots: &[usize]) {
    slots.iter().for_each(|slot| cell.leave(*slot));
}

/// Some may leave before all have asked. Only the last ones wait.
fn are_gone(cell: &Cell, slots: &[usize]) -> bool {
    slots.iter().all(|slot| !cell.runs(*slot))
}

/// What the processes were told to have left behind: groups and members.
fn in_doubt(cell: &Cell, slots: &[usize]) -> Vec<(Vec<String>, Vec<String>)> {
    let records = slots.iter().flat_map(|slot| cell.traces(*slot)).flat_map(|trace| &trace.records);
    let told = records.filter_map(|record| match &record.event {
        Event::EndInDoubt { groups, members } => Some((groups.clone(), members.clone())),
        _ => None,
    });
    told.collect()
}

/// The groups that wait, by the record of the end that this process wrote.
fn recorded(cell: &Cell, slot: usize) -> Option<Waiting> {
    Some(cell.record(slot).end.as_ref()?.ended()?.waiting.clone())
}

fn waits(cell: &Cell, slot: usize, group: &str) -> bool {
    cell.orphans(slot).iter().any(|(name, _)| name == group)
}

fn went_on(cell: &Cell, slot: usize) -> usize {
    let records = cell.traces(slot).iter().flat_map(|trace| &trace.records);
    records.filter(|record| matches!(record.event, Event::StateKept { .. })).count()
}

/// A group waits. Its members come back in time, and the others then leave as ever.
#[test]
fn the_last_ones_wait_for_the_members_of_a_group() {
    for seed in 0..8 {
        let mut cell = cell_of(2, seed);
        cell.cut_off(&[3, 4]);
        assert!(cell.run_until(8 * SECOND, |cell| (0..3).all(|slot| waits(cell, slot, "two"))));
        leave(&mut cell, &[0, 1, 2]);
        cell.run_for(2 * SECOND);
        assert!(!are_gone(&cell, &[0, 1, 2]), "the last ones wait");
        cell.heal();
        assert!(cell.run_until(10 * SECOND, |cell| are_gone(cell, &[0, 1, 2])), "they do not get out");
        assert_eq!(in_doubt(&cell, &[0, 1, 2]), []);
        cell.settle();
        assert_eq!(cell.group_view(3, "two").map(|(_, members)| members), Some(2));
        assert_eq!(went_on(&cell, 3) + went_on(&cell, 4), 1, "it goes on with the state of one of them");
        cell.finish_clean();
    }
}

/// One is cut off for a second when the others ask to leave. They wait for it, although no group does.
#[test]
fn who_is_cut_off_just_then_keeps_the_cell() {
    for seed in 0..8 {
        let mut cell = Cell::new(WorldSettings { founders: 3, ..WorldSettings::quiet(3) }, seed);
        start(&mut cell, &[0, 1, 2]);
        cell.settle();
        let before = cell.instance(2);
        cell.cut_off(&[2]);
        leave(&mut cell, &[0, 1]);
        // They find it silent, leave it out, and wait for it from then on.
        assert!(cell.run_until(8 * SECOND, |cell| cell.cell_view(0).is_some_and(|(_, who)| who.len() == 2)));
        cell.run_for(SECOND);
        cell.heal();
        assert!(cell.run_until(12 * SECOND, |cell| are_gone(cell, &[0, 1])), "they do not get out");
        assert_eq!(in_doubt(&cell, &[0, 1]), []);
        cell.run_for(2 * SECOND);
        assert!(cell.is_primary(2) && cell.instance(2) == before, "it goes on alone, in the same cell");
        cell.finish_clean();
    }
}

/// The members of the group come back too late: the end is in doubt. The founders' next instance waits for them, and the
/// group goes on with what they have.
#[test]
fn the_next_instance_waits_for_the_group() {
    for seed in 0..8 {
        let mut cell = cell_of(2, seed);
        let before = cell.instance(0).expect("it is in a view");
        cell.cut_off(&[3, 4]);
        assert!(cell.run_until(8 * SECOND, |cell| (0..3).all(|slot| waits(cell, slot, "two"))));
        let asked = cell.now();
        leave(&mut cell, &[0, 1, 2]);
        assert!(cell.run_until(12 * SECOND, |cell| are_gone(cell, &[0, 1, 2])), "they do not get out");
        assert!((END_WAIT..END_WAIT + 3 * SECOND).contains(&(cell.now() - asked)), "{:?}", cell.now() - asked);
        let told = in_doubt(&cell, &[0, 1, 2]);
        assert!(!told.is_empty() && told.iter().all(|told| *told == (vec!["two".to_owned()], Vec::new())), "{told:?}");
        let waiting = (0..3).find_map(|slot| recorded(&cell, slot)).expect("somebody was the last");
        assert!(waiting.groups.values().map(|entry| &*entry.name).eq(["two"]) && waiting.ancestors == [before]);
        start(&mut cell, &[0, 1, 2]);
        cell.run_for(6 * SECOND);
        assert!(nobody_is_in(&cell, &[0, 1, 2]), "the members of the group may still live in the old instance");
        assert!(says(&cell, 0, "nobody knows that they ended: p"), "{:?}", cell.searching(0));
        cell.heal();
        cell.settle();
        let next = cell.instance(3).expect("it is in a view");
        assert_eq!(next.generation(), before.generation() + 1);
        let (view, members) = cell.group_view(3, "two").expect("it goes on");
        assert!(members == 2 && view.0 > 1 << 32, "view {view} of {members}");
        assert_eq!(went_on(&cell, 3) + went_on(&cell, 4), 1);
        cell.finish_clean();
    }
}

/// Those that are gone for good are proved dead, so nobody waits, and nothing is in doubt.
#[test]
fn the_dead_are_not_waited_for() {
    for seed in 0..4 {
        let mut cell = cell_of(2, seed);
        cell.cut_off(&[3, 4]);
        assert!(cell.run_until(8 * SECOND, |cell| (0..3).all(|slot| waits(cell, slot, "two"))));
        for dead in [3, 4] {
            (0..3).for_each(|told| cell.tell_death(told, dead));
            cell.crash(dead);
        }
        cell.run_for(2 * SECOND);
        let asked = cell.now();
        leave(&mut cell, &[0, 1, 2]);
        assert!(cell.run_until(3 * SECOND, |cell| are_gone(cell, &[0, 1, 2])), "they wait for the dead");
        assert!(cell.now() - asked < 2 * SECOND);
        assert_eq!(in_doubt(&cell, &[0, 1, 2]), []);
        cell.finish_clean();
    }
}

/// An operator has the cell founded while the members of the group are away. That instance dies as a whole, and is founded
/// by command again: the group still waits, and its next view has a number that none of the instances gave.
#[test]
fn a_founding_by_command_forgets_no_group() {
    for seed in 0..4 {
        let mut cell = cell_of(3, seed);
        cell.cut_off(&[3, 4]);
        assert!(cell.run_until(8 * SECOND, |cell| (0..3).all(|slot| waits(cell, slot, "two"))));
        leave(&mut cell, &[0, 1, 2]);
        assert!(cell.run_until(12 * SECOND, |cell| are_gone(cell, &[0, 1, 2])), "they do not get out");
        for generation in 2..=3 {
            start(&mut cell, &[0, 1, 2]);
            cell.run_for(3 * SECOND);
            let asked = [0, 1, 2].into_iter().any(|slot| cell.found_anew(slot).is_ok());
            assert!(asked, "they look for the cell");
            assert!(cell.run_until(8 * SECOND, |cell| [0, 1, 2].iter().all(|slot| cell.instance(*slot).is_some())));
            assert_eq!(cell.instance(0).map(CellInstance::generation), Some(generation));
            assert!(waits(&cell, 0, "two"), "generation {generation} forgot the group");
            if generation == 2 {
                cell.run_for(SECOND);
                [0, 1, 2].into_iter().for_each(|slot| cell.crash(slot));
            }
        }
        cell.heal();
        cell.settle();
        let (view, members) = cell.group_view(3, "two").expect("it goes on");
        assert!(members == 2 && view.0 > 2 << 32, "view {view} of {members}");
        cell.finish_clean();
    }
}

/// The holder of a group's state is a founder, and is started again without the state. It founds the next instance with
/// the others, which shows that the holder is gone: the group is over.
#[test]
fn a_founder_without_the_state_shows_that_its_holder_is_gone() {
    for seed in 0..4 {
        let mut cell = Cell::new(WorldSettings { founders: 3, ..WorldSettings::quiet(3) }, seed);
        start(&mut cell, &[0, 1, 2]);
        cell.settle();
        cell.join(2, "own");
        cell.settle();
        cell.cut_off(&[2]);
        assert!(cell.run_until(8 * SECOND, |cell| waits(cell, 0, "own")));
        leave(&mut cell, &[0, 1]);
        assert!(cell.run_until(12 * SECOND, |cell| are_gone(cell, &[0, 1])), "they do not get out");
        cell.crash(2);
        cell.heal();
        start(&mut cell, &[0, 1, 2]);
        cell.settle();
        assert!(!waits(&cell, 0, "own"), "it waits for nobody");
        cell.join(0, "own");
        cell.settle();
        assert_eq!(cell.group_view(0, "own").map(|(_, members)| members), Some(1));
        cell.finish_clean();
    }
}
