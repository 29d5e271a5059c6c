//! Two sides that cannot hear each other: one goes on, the other blocks; and what each believes of the other.

use phalanx_core::{Order, Uniformity};
use phalanx_sim::{Cell, WorldSettings};
use phalanx_trace::{Event, Record};

use crate::{MS, SECOND, first_life};

#[test]
fn a_partition_with_a_backlog_heals_quickly() {
    let mut cell = Cell::settled(5, 5);
    cell.run_for(2 * SECOND);
    let packets_in_a_second = |cell: &mut Cell| {
        let before = cell.packets();
        cell.run_for(SECOND);
        cell.packets() - before
    };
    let usual = packets_in_a_second(&mut cell);
    cell.cut_off(&[3, 4]);
    for round in 0..20 {
        for slot in 0..5 {
            // The minority's sends are kept or refused; the majority's go on.
            let _ = cell.multicast(slot, "a", Order::Total, Uniformity::from_flag(round % 2 == 0), 20_000);
            let _ = cell.send_to(slot, (slot + 3) % 5, 20_000);
        }
        cell.run_for(200 * MS);
    }
    for slot in [0, 1, 2] {
        assert!(cell.is_primary(slot));
    }
    for slot in [3, 4] {
        assert!(!cell.is_primary(slot));
    }
    // A message that one of them never received, it never will.
    cell.crash(4);
    cell.heal();
    cell.start(4);
    cell.settle();
    cell.run_for(2 * SECOND);
    // No retransmission goes on for long: the cell is as quiet as before.
    let packets = packets_in_a_second(&mut cell);
    assert!(packets <= usual * 11 / 10, "{packets} packets in a second with nothing to say, {usual} before");
    cell.finish_clean();
}

#[test]
fn a_minority_comes_back_with_the_state_of_the_others() {
    let mut cell = Cell::settled(5, 23);
    for round in 0..10 {
        cell.multicast(round % 5, "a", Order::Total, Uniformity::Plain, 100).expect("in the group");
        cell.run_for(20 * MS);
    }
    cell.cut_off(&[3, 4]);
    // Both sides go on by themselves for a moment: plain messages are delivered on the losing side, too.
    for round in 0..30 {
        for slot in 0..5 {
            let _ = cell.multicast(slot, "a", [Order::Fifo, Order::Causal][round % 2], Uniformity::Plain, 100);
        }
        cell.run_for(100 * MS);
    }
    let before = [cell.transfers(3), cell.transfers(4)];
    cell.heal();
    cell.settle();
    for (slot, before) in [3, 4].into_iter().zip(before) {
        assert_eq!(cell.exclusions(slot), 1);
        assert_eq!(cell.transfers(slot), before + 1, "{slot} goes on with a state of its own");
    }
    cell.finish_clean();
}

/// Deliveries as uniform of a sender's messages from some moment on.
fn uniform_from(records: &[Record], from_ns: u64, who: u64) -> usize {
    let told = |record: &&Record| {
        record.at_ns >= from_ns && matches!(record.event, Event::Deliver { uniform: true, sender, .. } if sender == who)
    };
    records.iter().filter(told).count()
}

#[test]
fn a_holder_that_was_stopped_past_its_exclusion_confirms_nothing() {
    for holder in [0, 2] {
        let mut cell = Cell::settled(4, 24).titled(format!("holder {holder}"));
        let old = cell.incarnation(holder).expect("it runs");
        cell.multicast(holder, "a", Order::Total, Uniformity::Uniform, 100).expect("in the group");
        cell.run_for(100 * MS);
        assert_eq!(uniform_from(first_life(&cell, holder), 0, old.0), 1, "it holds");
        // No notice of its exclusion waits for it when it wakes up.
        cell.pause(holder);
        cell.cut_off(&[holder]);
        cell.run_for(5 * SECOND);
        let other = (holder + 1) % 4;
        cell.multicast(other, "a", Order::Total, Uniformity::Uniform, 100).expect("the others go on");
        cell.run_for(100 * MS);
        // When it runs again, it first uses the lock that it held.
        let resumed_ns = u64::try_from(cell.now().as_nanos()).expect("short");
        for order in [Order::Fifo, Order::Total] {
            let _ = cell.multicast(holder, "a", order, Uniformity::Uniform, 100);
        }
        cell.resume(holder);
        cell.run_for(300 * MS);
        cell.heal();
        cell.settle();
        assert_eq!(cell.exclusions(holder), 1);
        for slot in 0..4 {
            let lives = cell.traces(slot);
            let late: usize = lives.iter().map(|life| uniform_from(&life.records, resumed_ns, old.0)).sum();
            assert_eq!(late, 0, "{slot} took something of the stale holder as agreed");
        }
        cell.finish_clean();
    }
}

#[test]
fn a_queue_used_as_a_lock_has_one_first_entry() {
    // Also with rank 0, which orders, on the losing side.
    for side in [[0, 1], [3, 4], [0, 4], [1, 2]] {
        let mut cell = Cell::settled(5, 25).titled(format!("{side:?} are cut off"));
        cell.cut_off(&side);
        let cut_ns = u64::try_from(cell.now().as_nanos()).expect("short");
        for slot in 0..5 {
            // "The lock is mine if this is the first in the queue."
            cell.multicast(slot, "a", Order::Total, Uniformity::Uniform, 100).expect("in the group");
        }
        cell.run_for(4 * SECOND);
        let first = |slot: usize| {
            let mut all = cell.traces(slot).iter().flat_map(|life| &life.records);
            all.find_map(|record| match record.event {
                Event::Deliver { uniform: true, sender, .. } if record.at_ns >= cut_ns => Some(sender),
                _ => None,
            })
        };
        let owners: Vec<u64> = (0..5).filter(|slot| !side.contains(slot)).filter_map(first).collect();
        assert_eq!(owners.len(), 3, "the majority goes on");
        assert!(owners.iter().all(|owner| *owner == owners[0]));
        for slot in side {
            assert_eq!(first(slot), None, "{slot} has an owner of its own");
        }
        cell.heal();
        cell.settle();
        cell.finish_clean();
    }
}

#[test]
fn partition_pause_crash_join_and_leave_at_once() {
    for seed in 0..16_u32 {
        let mut cell = Cell::new(WorldSettings::quiet(6), u64::from(seed)).titled(format!("telling {seed}"));
        for slot in 0..4 {
            cell.start(slot);
            cell.join(slot, "a");
        }
        cell.settle();
        let steps = MS * (40 + 35 * seed);
        cell.cut_off(&[2, 3]);
        cell.start(4);
        cell.join(4, "a");
        cell.run_for(steps);
        cell.pause(1);
        for slot in [0, 2, 3] {
            let _ = cell.multicast(slot, "a", Order::Total, Uniformity::Uniform, 300);
        }
        cell.run_for(steps);
        let _ = cell.leave_group(3, "a");
        cell.run_for(4 * SECOND - steps);
        cell.resume(1);
        cell.run_for(steps);
        cell.crash(3);
        cell.start(5);
        cell.join(5, "a");
        cell.run_for(steps);
        cell.heal();
        cell.start(3);
        cell.join(3, "a");
        cell.run_for(steps);
        cell.leave(5);
        cell.settle();
        cell.finish_clean();
    }
}
