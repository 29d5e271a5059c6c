//! Members that are too slow, in cells whose policy is to expel them.

use std::time::Duration;

use phalanx_core::{Order, Uniformity};
use phalanx_sim::{Cell, WorldSettings};
use phalanx_trace::{Event, LeaveReason};

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

/// A cell with small windows, all in group "a", that tolerates a slow member for `expel_after`.
fn cell(members: usize, seed: u64, expel_after: Option<Duration>) -> Cell {
    let settings = WorldSettings { window_bytes: 64 << 10, expel_after, ..WorldSettings::quiet(members) };
    let mut cell = Cell::new(settings, seed);
    for slot in 0..members {
        cell.start(slot);
        cell.join(slot, "a");
        cell.settle();
    }
    cell
}

/// `sender` multicasts as much as is accepted, again and again for `time`. Returns the number of messages accepted.
fn flood(cell: &mut Cell, sender: usize, order: Order, time: Duration) -> u64 {
    let (until, mut accepted) = (cell.now() + time, 0);
    while cell.now() < until {
        while cell.multicast(sender, "a", order, Uniformity::Plain, 1000).is_ok() {
            accepted += 1;
        }
        cell.run_for(10 * MS);
    }
    accepted
}

/// Multicasts until `sender` has no credit left.
fn block(cell: &mut Cell, sender: usize, order: Order) {
    assert!((0..50).any(|_| flood(cell, sender, order, 100 * MS) == 0), "nobody holds {sender} back");
}

/// Members that the cell views at `slot` excluded in its last incarnation, and the reasons.
fn left(cell: &Cell, slot: usize) -> Vec<(u64, LeaveReason)> {
    let records = cell.traces(slot).last().map_or(&[][..], |trace| &trace.records);
    let left = records.iter().filter_map(|record| match &record.event {
        Event::CellView { left, .. } => Some(left.clone()),
        _ => None,
    });
    left.flatten().collect()
}

fn members(cell: &Cell, slot: usize) -> usize {
    cell.cell_view(slot).map_or(0, |(_, members)| members.len())
}

#[test]
fn who_takes_nothing_is_expelled_and_the_others_go_on() {
    let mut cell = cell(4, 1, Some(3 * SECOND));
    let slow = cell.incarnation(2).expect("it runs").0;
    cell.set_takes(2, false);
    block(&mut cell, 0, Order::Total);
    flood(&mut cell, 0, Order::Total, 2500 * MS);
    assert_eq!(members(&cell, 0), 4, "its time is not over");
    assert!(flood(&mut cell, 0, Order::Total, 2 * SECOND) > 0, "the others go on");
    for slot in [0, 1, 3] {
        assert_eq!(left(&cell, slot), [(slow, LeaveReason::TooSlow)], "at {slot}");
    }
    // It does not come back before its application has learnt of it, so no member waits for it a second time.
    let (view, _) = cell.cell_view(0).expect("a member");
    assert!(flood(&mut cell, 0, Order::Total, 10 * SECOND) > 0);
    assert_eq!(cell.cell_view(0).map(|(view, _)| view), Some(view), "a view for nothing");
    assert_eq!(cell.exclusions(2), 0);
    cell.set_takes(2, true);
    cell.settle();
    assert_eq!((cell.exclusions(2), members(&cell, 0)), (1, 4));
    cell.finish_clean();
}

#[test]
fn who_makes_progress_however_slow_stays() {
    let mut cell = cell(4, 2, Some(3 * SECOND));
    for _ in 0..6 {
        cell.set_takes(2, false);
        block(&mut cell, 0, Order::Causal);
        flood(&mut cell, 0, Order::Causal, 2 * SECOND);
        cell.set_takes(2, true);
        cell.run_for(20 * MS);
    }
    assert_eq!((cell.exclusions(2), members(&cell, 0)), (0, 4));
    cell.finish_clean();
}

#[test]
fn where_the_policy_is_to_wait_nobody_is_expelled() {
    let mut cell = cell(4, 3, None);
    cell.set_takes(2, false);
    block(&mut cell, 0, Order::Fifo);
    assert_eq!(flood(&mut cell, 0, Order::Fifo, 20 * SECOND), 0);
    assert_eq!(members(&cell, 0), 4);
    cell.set_takes(2, true);
    assert!(flood(&mut cell, 0, Order::Fifo, SECOND) > 0);
    cell.finish_clean();
}

#[test]
fn a_sender_that_was_stopped_itself_does_not_count_that_time() {
    let mut cell = cell(4, 4, Some(SECOND));
    cell.set_takes(2, false);
    block(&mut cell, 0, Order::Fifo);
    flood(&mut cell, 0, Order::Fifo, 300 * MS);
    cell.pause(0);
    cell.run_for(800 * MS);
    cell.resume(0);
    flood(&mut cell, 0, Order::Fifo, 200 * MS);
    cell.set_takes(2, true);
    cell.run_for(2 * SECOND);
    assert_eq!((cell.exclusions(2), members(&cell, 0)), (0, 4));
    cell.finish_clean();
}

#[test]
fn who_orders_for_the_others_and_takes_nothing_is_expelled() {
    // It is the oldest, so another member coordinates.
    for (seed, sender) in [(5, 1), (6, 4)] {
        let mut cell = cell(5, seed, Some(2 * SECOND));
        let slow = cell.incarnation(0).expect("it runs").0;
        cell.set_takes(0, false);
        block(&mut cell, sender, Order::Total);
        assert!(flood(&mut cell, sender, Order::Total, 6 * SECOND) > 0, "{sender} goes on");
        for slot in 1..5 {
            assert_eq!(left(&cell, slot), [(slow, LeaveReason::TooSlow)], "at {slot}");
        }
        cell.finish_clean();
    }
}

#[test]
fn of_two_members_only_the_younger_can_be_expelled() {
    let mut two = cell(2, 7, Some(SECOND));
    let slow = two.incarnation(1).expect("it runs").0;
    two.set_takes(1, false);
    block(&mut two, 0, Order::Fifo);
    assert!(flood(&mut two, 0, Order::Fifo, 4 * SECOND) > 0);
    assert_eq!(left(&two, 0), [(slow, LeaveReason::TooSlow)]);
    two.finish_clean();

    let mut two = cell(2, 8, Some(SECOND));
    two.set_takes(0, false);
    block(&mut two, 1, Order::Fifo);
    flood(&mut two, 1, Order::Fifo, 4 * SECOND);
    assert_eq!((members(&two, 1), left(&two, 1).len()), (2, 0), "it is no quorum by itself");
    two.finish_clean();
}

#[test]
fn where_half_of_the_members_hold_a_sender_back_nobody_is_expelled() {
    let mut cell = cell(4, 9, Some(SECOND));
    cell.set_takes(2, false);
    cell.set_takes(3, false);
    block(&mut cell, 0, Order::Causal);
    assert_eq!(flood(&mut cell, 0, Order::Causal, 5 * SECOND), 0);
    assert_eq!(members(&cell, 0), 4);
    cell.finish_clean();
}

#[test]
fn in_a_large_cell_the_coordinator_learns_of_it() {
    let settings =
        WorldSettings { window_bytes: 64 << 10, expel_after: Some(2 * SECOND), watchers: 3, ..WorldSettings::quiet(9) };
    for (seed, slow, sender) in [(10, 5, 8), (11, 0, 4)] {
        let mut cell = Cell::new(settings.clone(), seed);
        for slot in 0..9 {
            cell.start(slot);
            cell.join(slot, "a");
        }
        cell.settle();
        cell.set_takes(slow, false);
        block(&mut cell, sender, Order::Fifo);
        // The member that reports it could start the ballot itself, but waits for each member of a lower rank in turn.
        let others_went_on = |cell: &Cell| (0..9).filter(|slot| *slot != slow).all(|slot| members(cell, slot) == 8);
        assert!(cell.run_until(3 * SECOND, others_went_on), "the coordinator did not learn that {slow} is slow");
        assert!(flood(&mut cell, sender, Order::Fifo, 6 * SECOND) > 0, "{sender} goes on");
        assert_eq!(left(&cell, sender).iter().map(|(_, why)| *why).collect::<Vec<_>>(), [LeaveReason::TooSlow]);
        cell.finish_clean();
    }
}

/// Members that declare that they poll seldom make no progress in a stream before a multicast is delivered: to the one that
/// orders, back, acknowledgements, stability. They stay, although the setting is shorter.
#[test]
fn who_declared_how_seldom_it_polls_is_not_too_slow_within_eight_exchanges() {
    let late = [0, 1].map(|slot| (slot, 660_000_000));
    let settings = WorldSettings {
        window_bytes: 16 << 10,
        expel_after: Some(SECOND),
        turn_gaps: late.iter().map(|&(slot, _)| (slot, 680 * MS)).collect(),
        late: late.to_vec(),
        ..WorldSettings::quiet(6)
    };
    let mut cell = Cell::new(settings, 9);
    (0..6).for_each(|slot| cell.start(slot));
    cell.run_for(20 * SECOND);
    (0..6).for_each(|slot| cell.join(slot, "a"));
    cell.run_for(20 * SECOND);
    for _ in 0..400 {
        for slot in 0..6 {
            while cell.multicast(slot, "a", Order::Total, Uniformity::Uniform, 1000).is_ok() {}
        }
        cell.run_for(50 * MS);
    }
    assert_eq!((0..6).map(|slot| cell.exclusions(slot)).sum::<u64>(), 0);
    assert!((0..6).all(|slot| members(&cell, slot) == 6));
    cell.run_for(30 * SECOND);
    cell.finish_clean();
}
