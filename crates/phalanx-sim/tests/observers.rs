//! Groups with a state, those that ask otherwise, and members that observe (`docs/levels.md`, *Has a state*).

use std::time::Duration;

use phalanx_core::member::Role;
use phalanx_core::{Order, Uniformity};
use phalanx_sim::Cell;
use phalanx_trace::Event;

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

fn members(cell: &Cell, slot: usize, group: &str) -> usize {
    cell.group_view(slot, group).map_or(0, |(_, members)| members)
}

fn multicast(cell: &mut Cell, slot: usize, group: &str) {
    for _ in 0..5 {
        cell.multicast(slot, group, Order::Total, Uniformity::Uniform, 40).expect("it is accepted");
        cell.run_for(10 * MS);
    }
}

/// Members that take part without the state outnumber the one that has it. Each later replica takes it from that one.
#[test]
fn replicas_take_the_state_from_replicas_beside_observers() {
    for seed in 0..6 {
        let mut cell = Cell::settled(7, seed);
        cell.join(0, "two");
        cell.settle();
        multicast(&mut cell, 0, "two");
        (1..4).for_each(|slot| cell.join_as(slot, "two", Role::Observer));
        cell.settle();
        multicast(&mut cell, 1, "two");
        for slot in 4..7 {
            cell.join(slot, "two");
            cell.settle();
            multicast(&mut cell, slot, "two");
        }
        assert_eq!(members(&cell, 0, "two"), 7);
        cell.finish_clean();
    }
}

/// All that have the state are cut off. The group waits for them alone, though an observer stays and another one is cut
/// off, too.
#[test]
fn a_group_waits_for_those_that_have_its_state_and_not_for_observers() {
    for seed in 0..6 {
        let mut cell = Cell::settled(7, seed);
        [4, 5].into_iter().for_each(|slot| cell.join(slot, "two"));
        cell.settle();
        [0, 6].into_iter().for_each(|slot| cell.join_as(slot, "two", Role::Observer));
        cell.settle();
        multicast(&mut cell, 0, "two");
        cell.cut_off(&[4, 5, 6]);
        let waits_for =
            |cell: &Cell| cell.orphans(1).into_iter().find(|(name, _)| name == "two").map(|(_, who)| who.len());
        assert!(cell.run_until(5 * SECOND, |cell| waits_for(cell) == Some(2)), "{:?}", waits_for(&cell));
        cell.run_for(2 * SECOND);
        assert_eq!(members(&cell, 0, "two"), 0, "it does not go on in the observer");
        cell.heal();
        cell.settle();
        assert_eq!((members(&cell, 0, "two"), waits_for(&cell)), (4, None));
        multicast(&mut cell, 6, "two");
        cell.finish_clean();
    }
}

/// The last with the state leaves an observer behind: nobody waits until that one has it, and it founds nothing.
#[test]
fn the_last_replica_may_leave_observers_which_wait_for_the_next_one() {
    let mut cell = Cell::settled(5, 1);
    cell.join_as(1, "two", Role::Observer);
    cell.run_for(2 * SECOND);
    assert_eq!(members(&cell, 1, "two"), 0, "nobody has the group");
    cell.join(0, "two");
    cell.settle();
    assert_eq!(members(&cell, 1, "two"), 2);
    multicast(&mut cell, 1, "two");
    cell.leave_group(0, "two").expect("a member");
    assert!(cell.run_until(3 * SECOND, |cell| members(cell, 0, "two") == 0), "its leave waits for nobody");
    cell.run_for(2 * SECOND);
    let anew = |event: &Event| matches!(event, Event::GroupLost { .. });
    let records = cell.traces(1).iter().flat_map(|trace| &trace.records);
    assert_eq!(records.filter(|record| anew(&record.event)).count(), 1);
    cell.join(2, "two");
    cell.settle();
    assert_eq!(members(&cell, 1, "two"), 2);
    cell.finish_clean();
}

/// Who asks for the state of a group that has none, or the other way round, is refused, and disturbs nobody.
#[test]
fn who_asks_for_the_other_kind_of_group_is_refused() {
    let mut cell = Cell::settled(5, 1);
    cell.join(0, "with");
    cell.join_as(1, "without", Role::Stateless);
    cell.settle();
    cell.join_as(2, "with", Role::Stateless);
    cell.join(2, "without");
    cell.run_for(SECOND);
    assert_eq!((members(&cell, 2, "with"), members(&cell, 2, "without")), (0, 0));
    assert_eq!((members(&cell, 0, "with"), members(&cell, 1, "without")), (1, 1));
    cell.join_as(3, "without", Role::Stateless);
    cell.join(4, "with");
    assert!(cell.run_until(5 * SECOND, |cell| members(cell, 0, "with") == 2 && members(cell, 1, "without") == 2));
}
