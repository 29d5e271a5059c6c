//! Messages that were lost, duplicated, late, or delivered in a view they did not belong to.

use phalanx_core::wire::Kind;
use phalanx_core::{Order, Uniformity};
use phalanx_sim::{Cell, WorldSettings};
use phalanx_trace::{Event, Record};

use crate::{MS, SECOND, cell_views, first_life};

#[test]
fn what_a_stopped_member_still_had_to_say_is_not_delivered_in_a_later_view() {
    let mut cell = Cell::settled(4, 1);
    for i in 0..20 {
        let order = [Order::Fifo, Order::Causal, Order::Total][i % 3];
        cell.multicast(2, "a", order, Uniformity::from_flag(i % 2 == 0), 2_000).expect("in the group");
    }
    cell.pause(2);
    cell.run_for(5 * SECOND);
    cell.resume(2);
    cell.settle();
    assert_eq!(cell.exclusions(2), 1, "it is told that it was excluded");
    cell.finish_clean();
}

#[test]
fn what_is_sent_while_a_view_changes_arrives_once_in_the_next() {
    for after in 0..20 {
        let mut cell = Cell::settled(4, 26).titled(format!("{after} steps"));
        let before: Vec<u64> = (0..3).map(|slot| cell.delivered(slot)).collect();
        cell.crash(3);
        assert!(cell.run_until(5 * SECOND, |cell| cell.activity(1).flushing));
        let mut accepted = 0;
        for slot in 0..3 {
            for order in [Order::Fifo, Order::Causal, Order::Total] {
                accepted += u64::from(cell.multicast(slot, "a", order, Uniformity::from_flag(slot == 1), 700).is_ok());
            }
            cell.run_for(MS * after / 40);
        }
        assert!(accepted > 0, "nothing is accepted in a flush");
        cell.settle();
        cell.run_for(SECOND);
        for (slot, before) in before.into_iter().enumerate() {
            assert_eq!(cell.delivered(slot) - before, accepted, "at {slot}");
        }
        cell.finish_clean();
    }
}

#[test]
fn a_stop_that_nobody_notices_loses_nothing() {
    let mut cell = Cell::settled(4, 27);
    let mut accepted = 0;
    for round in 0..10 {
        for slot in 0..4 {
            accepted +=
                u64::from(cell.multicast(slot, "a", Order::Total, Uniformity::from_flag(slot % 2 == 0), 3_000).is_ok());
        }
        cell.pause(round % 4);
        cell.run_for(400 * MS);
        cell.resume(round % 4);
        cell.run_for(200 * MS);
    }
    cell.run_for(2 * SECOND);
    for slot in 0..4 {
        assert_eq!(cell.exclusions(slot), 0);
        assert_eq!(cell.delivered(slot), accepted, "at {slot}");
    }
    cell.finish_clean();
}

#[test]
fn the_cell_view_comes_before_the_group_view_that_follows_from_it() {
    let mut cell = Cell::settled(5, 28);
    for victim in [4, 3] {
        let dead = cell.incarnation(victim).expect("it runs").0;
        for slot in 0..5 {
            for _ in 0..5 {
                let _ = cell.multicast(slot, "a", Order::Causal, Uniformity::Plain, 300);
            }
        }
        cell.run_for(MS / 5);
        cell.crash(victim);
        cell.settle();
        for slot in 0..victim {
            let records = first_life(&cell, slot);
            let spot = |is: &dyn Fn(&Event) -> bool| records.iter().position(|record| is(&record.event));
            let lost = |left: &[(u64, _)]| left.iter().any(|(who, _)| *who == dead);
            let cell_view = spot(&|event| matches!(event, Event::CellView { left, .. } if lost(left)));
            let group_view = spot(&|event| matches!(event, Event::GroupView { left, .. } if lost(left)));
            let last = records.iter().rposition(
                |record| matches!(record.event, Event::Deliver { sender, replayed: false, .. } if sender == dead),
            );
            assert!(cell_view.is_some() && cell_view < group_view, "at {slot}: the group knew before the cell");
            assert!(last < cell_view, "at {slot}: the dead one speaks after it left");
        }
    }
    cell.finish_clean();
}

#[test]
fn a_slow_reader_sees_views_in_order_and_gets_its_senders_going_again() {
    let mut settings = WorldSettings::quiet(5);
    settings.window_bytes = 256 << 10;
    let mut cell = Cell::new(settings, 29);
    for slot in 0..4 {
        cell.start(slot);
        cell.join(slot, "a");
    }
    cell.settle();
    cell.set_takes(2, false);
    let mut accepted = 0;
    let mut flood = |cell: &mut Cell| {
        let mut count = 0;
        for _ in 0..100 {
            count += u64::from(cell.multicast(0, "a", Order::Fifo, Uniformity::Plain, 2_000).is_ok());
        }
        accepted += count;
        cell.run_for(SECOND);
        count
    };
    assert!(flood(&mut cell) > 0);
    // Views change while the reader sleeps.
    cell.start(4);
    cell.run_for(SECOND);
    cell.crash(3);
    cell.run_for(2 * SECOND);
    assert!((0..50).any(|_| flood(&mut cell) == 0), "the reader holds nobody back");
    cell.set_takes(2, true);
    cell.run_for(3 * SECOND);
    for _ in 0..10 {
        assert!(flood(&mut cell) > 0, "the sender starves");
    }
    cell.run_for(3 * SECOND);
    for slot in [0, 1, 2] {
        assert_eq!(cell.delivered(slot), accepted, "at {slot}");
    }
    let views = cell_views(first_life(&cell, 2));
    assert!(views.len() >= 3 && views.is_sorted(), "{views:?}");
    cell.finish_clean();
}

#[test]
fn nothing_is_forgotten_that_a_view_change_still_needs() {
    for holder in 0..3 {
        let mut cell = Cell::settled(5, 30).titled(format!("holder {holder}"));
        for round in 0..30 {
            cell.multicast(round % 5, "a", Order::Total, Uniformity::from_flag(round % 4 == 0), 500)
                .expect("in the group");
            cell.run_for(10 * MS);
        }
        cell.run_for(SECOND);
        // The messages are stable by now, and all have forgotten them. One member goes and will merge again.
        cell.cut_off(&[3]);
        cell.run_for(4 * SECOND);
        // Only one member has the last packets of a process that dies, while the other one comes back.
        cell.heal();
        cell.lose_if(move |packet| packet.from == 4 && packet.to != holder && packet.kind == Kind::Multicast);
        for order in [Order::Total, Order::Fifo, Order::Causal] {
            cell.multicast(4, "a", order, Uniformity::Plain, 500).expect("in the group");
        }
        cell.run_for(350 * MS);
        cell.crash(4);
        cell.settle();
        cell.finish_clean();
    }
}

/// Repeated deliveries of a sender's messages in these records: group view and number, count.
fn doubled(records: &[Record]) -> usize {
    let id = |record: &Record| match record.event {
        Event::Deliver { group, view, sender, seq, .. } => Some((group, view, sender, seq)),
        _ => None,
    };
    let mut ids: Vec<_> = records.iter().filter_map(id).collect();
    let all = ids.len();
    ids.sort_unstable();
    ids.dedup();
    all - ids.len()
}

#[test]
fn only_the_ack_is_lost_and_the_repeated_message_counts_once() {
    let mut cell = Cell::settled(3, 31);
    cell.lose_if(|packet| packet.to == 0 && packet.from != 0 && packet.kind == Kind::Direct);
    for round in 0..20 {
        cell.multicast(0, "a", [Order::Fifo, Order::Total][round % 2], Uniformity::Plain, 300).expect("in the group");
        cell.run_for(20 * MS);
    }
    cell.run_for(200 * MS);
    cell.lose_if(|_| false);
    cell.run_for(SECOND);
    for slot in 0..3 {
        assert_eq!(cell.exclusions(slot), 0);
        assert_eq!(cell.delivered(slot), 20, "at {slot}");
        assert_eq!(doubled(first_life(&cell, slot)), 0);
    }
    cell.finish_clean();
}

#[test]
fn a_path_that_takes_only_short_packets_is_survived() {
    let mut cell = Cell::settled(4, 9);
    cell.limit_path(2, 700);
    for round in 0..20 {
        let _ = cell.multicast(round % 4, "a", Order::Fifo, Uniformity::Plain, 5_000);
        cell.run_for(200 * MS);
    }
    cell.finish_clean();
}

#[test]
fn what_nothing_put_to_the_test_is_not_said_to_hold() {
    // A workload of one shape: no uniform total message, no exclusion.
    let mut cell = Cell::settled(3, 32);
    for _ in 0..5 {
        cell.multicast(0, "a", Order::Fifo, Uniformity::Plain, 100).expect("in the group");
    }
    cell.run_for(SECOND);
    let narrow = cell.finish();
    assert!(narrow.violations.is_empty());
    for code in ["U2", "M8"] {
        assert_eq!(narrow.counters.checked[code], 0, "{code} had nothing to say");
    }
    // And one that has both.
    let mut cell = Cell::settled(4, 33);
    for slot in 0..4 {
        cell.multicast(slot, "a", Order::Total, Uniformity::Uniform, 100).expect("in the group");
    }
    cell.run_for(SECOND);
    cell.pause(3);
    cell.run_for(4 * SECOND);
    cell.resume(3);
    cell.settle();
    let wide = cell.finish();
    assert!(wide.violations.is_empty());
    for code in ["U2", "M8"] {
        assert!(wide.counters.checked[code] > 0, "{code} was put to the test");
    }
}
