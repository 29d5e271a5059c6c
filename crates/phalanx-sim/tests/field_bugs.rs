//! What happened to others in the field, as stories: each must end well here.

use std::time::Duration;

use phalanx_core::wire::header::cell_tag;
use phalanx_core::wire::{Header, Kind};
use phalanx_core::{Incarnation, Order};
use phalanx_sim::{Cell, WorldSettings};

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

#[test]
fn what_a_stopped_member_still_had_to_say_is_not_delivered_in_a_later_view() {
    let mut cell = Cell::settled(4, 1);
    for i in 0..20 {
        let order = [Order::Fifo, Order::Causal, Order::Total][i % 3];
        cell.multicast(2, "a", order, i % 2 == 0, 2_000).expect("in the group");
    }
    cell.pause(2);
    cell.run_for(5 * SECOND);
    cell.resume(2);
    cell.settle();
    assert_eq!(cell.exclusions(2), 1, "it is told that it was excluded");
    cell.finish_clean();
}

#[test]
fn a_joiner_that_dies_at_any_step_leaves_no_ghost() {
    for sends in 0..30 {
        let mut cell = Cell::new(WorldSettings::quiet(4), 2).titled(format!("{sends} sends"));
        for slot in 0..3 {
            cell.start(slot);
            cell.join(slot, "a");
        }
        cell.settle();
        cell.start(3);
        cell.join(3, "a");
        cell.crash_after_sends(3, sends);
        let _ = cell.run_until(2 * SECOND, |cell| !cell.runs(3));
        cell.crash(3);
        // What it said is said again after its death.
        cell.replay_packets_of(3);
        cell.run_for(4 * SECOND);
        cell.replay_packets_of(3);
        cell.run_for(4 * SECOND);
        let (_, mut members) = cell.cell_view(0).expect("in a view");
        members.sort_unstable();
        assert_eq!(members, [0, 1, 2]);
        cell.settle();
        cell.finish_clean();
    }
}

#[test]
fn a_member_restarts_twenty_times() {
    let mut cell = Cell::settled(4, 3);
    for round in 0..20_u32 {
        cell.crash(2);
        cell.run_for(MS * (17 * round));
        if round % 2 == 0 {
            cell.start(2);
        } else {
            cell.start_moved(2);
        }
        cell.join(2, "a");
        let _ = cell.multicast(0, "a", Order::Total, true, 100);
        cell.run_for(MS * (31 * (round % 7)));
    }
    cell.settle();
    assert_eq!(cell.exclusions(0) + cell.exclusions(1) + cell.exclusions(3), 0);
    cell.finish_clean();
}

#[test]
fn a_member_that_hears_but_is_not_heard_holds_nobody_up() {
    let mut cell = Cell::settled(4, 4);
    for other in [0, 1, 3] {
        cell.cut(2, other);
    }
    cell.run_for(4 * SECOND);
    let before = cell.delivered(0);
    cell.multicast(0, "a", Order::Total, true, 100).expect("in the group");
    cell.run_for(SECOND);
    assert!(cell.delivered(0) > before, "the others go on");
    cell.heal();
    cell.settle();
    cell.finish_clean();
}

#[test]
fn a_partition_with_a_backlog_heals_quickly() {
    let mut cell = Cell::settled(5, 5);
    cell.cut_off(&[3, 4]);
    for round in 0..20 {
        for slot in 0..5 {
            // The minority's sends are kept or refused; the majority's go on.
            let _ = cell.multicast(slot, "a", Order::Total, round % 2 == 0, 20_000);
        }
        cell.run_for(200 * MS);
    }
    for slot in [0, 1, 2] {
        assert!(cell.is_primary(slot));
    }
    for slot in [3, 4] {
        assert!(!cell.is_primary(slot));
    }
    cell.heal();
    cell.settle();
    cell.finish_clean();
}

#[test]
fn a_flood_of_noise_and_old_packets_stops_nobody() {
    let mut cell = Cell::settled(4, 6);
    cell.attack(2_000, 2_000);
    for round in 0..40 {
        cell.multicast(round % 4, "a", Order::Total, true, 3_000).expect("in the group");
        cell.run_for(100 * MS);
    }
    for slot in 0..4 {
        assert_eq!(cell.exclusions(slot), 0);
        assert_eq!(cell.delivered(slot), 40);
    }
    cell.attack(0, 0);
    cell.finish_clean();
}

#[test]
fn an_application_that_reads_nothing_is_not_a_dead_process() {
    let mut cell = Cell::settled(4, 7);
    cell.set_takes(2, false);
    for round in 0..50 {
        let _ = cell.multicast(round % 4, "a", Order::Total, round % 3 == 0, 5_000);
        cell.run_for(100 * MS);
    }
    cell.crash(3);
    cell.run_for(3 * SECOND);
    cell.set_takes(2, true);
    cell.settle();
    assert_eq!(cell.exclusions(2), 0);
    cell.finish_clean();
}

#[test]
fn any_participant_dies_at_any_step_of_a_flush() {
    for victim in 1..4 {
        for sends in (0..30).step_by(3) {
            let mut cell = Cell::settled(5, 8).titled(format!("victim {victim}, {sends} sends"));
            for slot in 0..5 {
                cell.multicast(slot, "a", Order::Total, true, 500).expect("in the group");
            }
            cell.run_for(MS / 10);
            cell.crash(4);
            assert!(cell.run_until(5 * SECOND, |cell| cell.activity(victim).flushing));
            cell.crash_after_sends(victim, sends);
            cell.run_for(4 * SECOND);
            cell.settle();
            cell.finish_clean();
        }
    }
}

#[test]
fn a_path_that_takes_only_short_packets_is_survived() {
    let mut cell = Cell::settled(4, 9);
    cell.limit_path(2, 700);
    for round in 0..20 {
        let _ = cell.multicast(round % 4, "a", Order::Fifo, false, 5_000);
        cell.run_for(200 * MS);
    }
    cell.finish_clean();
}

#[test]
fn cleartext_to_a_sealed_member_is_dropped() {
    let mut cell = Cell::settled(3, 10);
    for kind in Kind::ALL {
        for number in 0..50 {
            let header = Header { kind, cell_tag: cell_tag("sim"), sender: Incarnation(number + 1), space: 1, number };
            let mut packet = Vec::new();
            header.write(&mut packet);
            packet.resize(packet.len() + 4 * number as usize, number as u8);
            cell.inject(1, 0, &packet);
        }
    }
    cell.run_for(SECOND);
    assert_eq!(cell.exclusions(0), 0);
    cell.finish_clean();
}

#[test]
fn two_are_left_and_the_older_dies() {
    // The survivor is half of the view without rank 0: it must not go on alone, and must say so.
    let mut cell = Cell::settled(2, 11);
    cell.crash(0);
    cell.run_for(4 * SECOND);
    assert!(cell.runs(1));
    assert!(!cell.is_primary(1));
    // The other way round the older goes on.
    let mut cell = Cell::settled(2, 12);
    cell.crash(1);
    cell.run_for(4 * SECOND);
    assert!(cell.is_primary(0));
    assert_eq!(cell.cell_view(0).map(|(_, members)| members), Some(vec![0]));
    cell.finish_clean();
}

#[test]
fn two_processes_of_one_name() {
    let mut settings = WorldSettings::quiet(4);
    settings.twins = vec![(3, 2)];
    let mut cell = Cell::new(settings, 13);
    for slot in 0..3 {
        cell.start(slot);
        cell.join(slot, "a");
    }
    cell.settle();
    cell.start(3);
    cell.run_for(5 * SECOND);
    let result = cell.finish();
    // The second one looks for its cell in vain, which the checker, who asks that all come in, complains of.
    let both = result.violations.iter().any(|violation| violation.code == "M4");
    assert!(!both, "{}", result.story.unwrap_or_default());
}
