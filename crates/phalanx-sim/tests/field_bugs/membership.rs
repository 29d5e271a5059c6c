//! Members that stop, die, come back or are heard by only some, and the others' reaction.

use phalanx_core::{Order, Uniformity};
use phalanx_sim::{Cell, Weather, WorldSettings};
use phalanx_trace::Event;

use crate::{MS, SECOND, cell_views, first_life};

#[test]
fn a_resumed_member_is_told_that_it_was_excluded() {
    let mut cell = Cell::settled(4, 20);
    let (last, _) = cell.cell_view(2).expect("in a view");
    cell.pause(2);
    cell.run_for(5 * SECOND);
    let (next, members) = cell.cell_view(0).expect("in a view");
    assert!(next > last && members.len() == 3 && !members.contains(&2));
    cell.resume(2);
    assert!(cell.run_until(2 * SECOND, |cell| cell.exclusions(2) == 1), "nobody tells it");
    // Not one view in which others had left: its old incarnation ends with its own exclusion.
    assert!(cell_views(first_life(&cell, 2)).iter().all(|view| *view <= last.0));
    assert!(first_life(&cell, 2).iter().any(|record| record.event == Event::Excluded { view: next.0 }));
    cell.settle();
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
        // Its packets are replayed after its death, while it is a member and when it no longer is.
        let said = cell.packets_of(3);
        cell.replay(&said);
        cell.run_for(5 * SECOND / 2);
        let (before, mut members) = cell.cell_view(0).expect("in a view");
        members.sort_unstable();
        assert_eq!(members, [0, 1, 2]);
        cell.replay(&said);
        cell.run_for(4 * SECOND);
        cell.replay(&said);
        cell.run_for(2 * SECOND);
        let (after, _) = cell.cell_view(0).expect("in a view");
        assert_eq!(after, before, "{sends} sends: a ghost came and went");
        cell.settle();
        cell.finish_clean();
    }
}

#[test]
fn every_member_restarts_twenty_times() {
    for victim in 0..4 {
        let mut cell = Cell::settled(4, 3 + victim as u64).titled(format!("victim {victim}"));
        let others: Vec<usize> = (0..4).filter(|slot| *slot != victim).collect();
        for round in 0..20_u32 {
            cell.crash(victim);
            cell.run_for(MS * (17 * round));
            if round % 2 == 0 {
                cell.start(victim);
            } else {
                cell.start_moved(victim);
            }
            cell.join(victim, "a");
            let _ = cell.multicast(others[0], "a", Order::Total, Uniformity::Uniform, 100);
            cell.run_for(MS * (31 * (round % 7)));
        }
        cell.settle();
        // And once more at once, at the same address: packets of the new incarnation are no sign of the old one.
        cell.crash(victim);
        cell.start(victim);
        cell.settle();
        for slot in &others {
            assert_eq!(cell.exclusions(*slot), 0);
        }
        cell.finish_clean();
    }
}

#[test]
fn a_member_that_hears_but_is_not_heard_holds_nobody_up() {
    one_sided(|cell, odd, other| cell.cut(odd, other));
}

#[test]
fn a_member_that_is_heard_but_hears_nobody_holds_nobody_up() {
    one_sided(|cell, odd, other| cell.cut(other, odd));
}

fn one_sided(cut: impl Fn(&mut Cell, usize, usize)) {
    for odd in 0..4 {
        let mut cell = Cell::settled(4, 4).titled(format!("process {odd}"));
        let others: Vec<usize> = (0..4).filter(|slot| *slot != odd).collect();
        for other in &others {
            cut(&mut cell, odd, *other);
        }
        cell.run_for(4 * SECOND);
        let before: Vec<u64> = others.iter().map(|slot| cell.delivered(*slot)).collect();
        cell.multicast(others[0], "a", Order::Total, Uniformity::Uniform, 100).expect("in the group");
        cell.run_for(SECOND);
        for (slot, before) in others.iter().zip(before) {
            assert!(cell.delivered(*slot) > before, "{slot} does not go on while {odd} is odd");
            assert_eq!(cell.exclusions(*slot), 0);
        }
        cell.heal();
        cell.settle();
        cell.finish_clean();
    }
}

#[test]
fn spikes_of_three_seconds_at_one_member_cost_the_others_nothing() {
    let mut cell = Cell::settled(4, 22);
    let spikes = Weather { spike_ppm: 100_000, spike_ns: 3_000_000_000, in_order: false, ..Weather::FINE };
    cell.set_weather_around(2, spikes);
    for round in 0..100 {
        // Refused now and then, while messages that wait for the slow member fill the window.
        let _ = cell.multicast(round % 4, "a", Order::Total, Uniformity::from_flag(round % 3 == 0), 500);
        cell.run_for(100 * MS);
    }
    cell.set_weather_around(2, Weather::FINE);
    cell.settle();
    for slot in [0, 1, 3] {
        assert_eq!(cell.exclusions(slot), 0);
    }
    cell.finish_clean();
}

#[test]
fn any_participant_dies_at_any_step_of_a_flush() {
    for victim in 1..4 {
        for sends in (0..30).step_by(3) {
            let mut cell = Cell::settled(5, 8).titled(format!("victim {victim}, {sends} sends"));
            for slot in 0..5 {
                cell.multicast(slot, "a", Order::Total, Uniformity::Uniform, 500).expect("in the group");
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
fn an_application_that_reads_nothing_is_not_a_dead_process() {
    let mut cell = Cell::settled(4, 7);
    cell.set_takes(2, false);
    for round in 0..50 {
        let _ = cell.multicast(round % 4, "a", Order::Total, Uniformity::from_flag(round % 3 == 0), 5_000);
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
fn two_are_left_and_the_older_dies() {
    // The survivor is half of the view without rank 0: it must not go on alone, and must report that.
    let mut cell = Cell::settled(2, 11);
    cell.crash(0);
    cell.run_for(4 * SECOND);
    assert!(cell.runs(1));
    assert!(!cell.is_primary(1));
    // With the roles exchanged, the older one goes on.
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
    // The second one looks for its cell without effect. The checker reports that, because it demands that all join.
    let both = result.violations.iter().any(|violation| violation.code == "M4");
    assert!(!both, "{}", result.story.unwrap_or_default());
}
