//! Cells whose members share memory, and its faults.

use std::time::Duration;

use phalanx_core::{Order, Uniformity};
use phalanx_sim::{Cell, MemorySettings, SeedResult, WorldSettings};

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

/// Processes on these machines, in one cell view and in group "a".
fn cell(hosts: &[u64], memory: MemorySettings, title: &str) -> Cell {
    let quiet = WorldSettings::quiet(hosts.len());
    let mut cell = Cell::new(WorldSettings { hosts: hosts.to_vec(), memory: Some(memory), ..quiet }, 1).titled(title);
    for slot in 0..hosts.len() {
        cell.start(slot);
        cell.join(slot, "a");
    }
    cell.settle();
    cell
}

fn everybody_multicasts(cell: &mut Cell, members: usize, len: usize) {
    for slot in 0..members {
        for order in [Order::Fifo, Order::Causal, Order::Total] {
            // A process that is in no group yet, or has no credit, is skipped.
            let _ = cell.multicast(slot, "a", order, Uniformity::from_flag(order == Order::Total), len);
        }
    }
}

fn clean(result: SeedResult) -> SeedResult {
    assert!(result.violations.is_empty(), "{}", result.story.unwrap_or_default());
    result
}

fn count(result: &SeedResult, name: &str) -> u64 {
    result.counters.memory.get(name).copied().unwrap_or(0)
}

#[test]
fn members_of_one_host_send_each_other_no_datagrams() {
    let mut cell = cell(&[1, 1, 1], MemorySettings::FINE, "one host");
    cell.run_for(SECOND);
    // Any packet that the network loses now would be missed.
    cell.cut_all();
    cell.heal();
    everybody_multicasts(&mut cell, 3, 5_000);
    let result = clean(cell.finish());
    assert!(result.counters.shared > 10 * result.counters.packets, "{:?}", result.counters);
    assert_eq!(count(&result, "lapped"), 0);
    assert_eq!(count(&result, "attached"), 6);
}

#[test]
fn two_hosts_and_the_network_between_them() {
    let mut cell = cell(&[1, 1, 2, 2], MemorySettings::FINE, "two hosts");
    for _ in 0..20 {
        everybody_multicasts(&mut cell, 4, 3_000);
        cell.run_for(20 * MS);
    }
    let result = clean(cell.finish());
    assert!(result.counters.shared > 0 && result.counters.packets > 0);
}

#[test]
fn memory_holds_a_host_together_while_the_network_is_down() {
    let memory = MemorySettings { bridges: true, ..MemorySettings::FINE };
    let mut cell = cell(&[1, 1, 1], memory, "bridged");
    cell.run_for(SECOND);
    cell.cut_all();
    for _ in 0..50 {
        everybody_multicasts(&mut cell, 3, 100);
        cell.run_for(100 * MS);
    }
    assert!((0..3).all(|slot| cell.is_primary(slot)));
    clean(cell.finish());
}

#[test]
fn a_process_dies_after_any_record_it_writes() {
    for sends in 0..60 {
        let mut cell = cell(&[1, 1, 1, 1], MemorySettings::FINE, &format!("{sends} records"));
        cell.crash_after_sends(2, sends);
        everybody_multicasts(&mut cell, 4, 2_000);
        assert!(cell.run_until(20 * SECOND, |cell| !cell.runs(2)), "it writes something");
        cell.start(2);
        cell.join(2, "a");
        clean(cell.finish());
    }
}

#[test]
fn an_overtaken_reader_gets_what_it_lost() {
    let mut cell = cell(&[1, 1, 1], MemorySettings::FINE, "overtaken");
    cell.lap(1, 200_000);
    for _ in 0..100 {
        everybody_multicasts(&mut cell, 3, 4_000);
        cell.run_for(10 * MS);
    }
    cell.lap(1, 0);
    let result = clean(cell.finish());
    assert!(count(&result, "lapped") > 50, "{:?}", result.counters.memory);
}

#[test]
fn whoever_detaches_is_reached_by_datagrams_and_attaches_again() {
    let mut cell = cell(&[1, 1, 1], MemorySettings::FINE, "detached");
    for round in 0..100 {
        cell.detach(round % 3, round % 2 == 0);
        everybody_multicasts(&mut cell, 3, 2_000);
        cell.run_for(10 * MS);
    }
    (0..3).for_each(|slot| cell.detach(slot, false));
    let result = clean(cell.finish());
    assert_eq!(result.counters.exclusions, 0);
}

#[test]
fn packets_for_an_earlier_life_are_refused() {
    let memory = MemorySettings { stale_ppm: 1_000_000, ..MemorySettings::FINE };
    let mut cell = cell(&[1, 1, 1], memory, "earlier lives");
    for round in 1..=3 {
        cell.cut_off(&[2]);
        cell.run_until(5 * SECOND, |cell| cell.cell_view(0).is_some_and(|(_, members)| members.len() == 2));
        cell.heal();
        // It is notified of its exclusion and comes back, at the same address and in the same memory, later each time.
        let is_back = |cell: &Cell| cell.cell_view(0).is_some_and(|(_, members)| members.len() == 3);
        assert!(cell.run_until(40 * SECOND, is_back), "round {round}");
        cell.run_until(SECOND, |cell| cell.cell_view(2) == cell.cell_view(0));
        everybody_multicasts(&mut cell, 3, 2_000);
        cell.run_for(SECOND);
    }
    assert_eq!(cell.exclusions(2), 3, "{:?}", cell.searching(2));
    let result = clean(cell.finish());
    assert!(count(&result, "for_others") > 0, "{:?}", result.counters.memory);
    // A handful of these are datagrams.
    let refused = result.counters.core.get("bad_tag").copied().unwrap_or(0);
    assert!(refused > 100, "{refused} refused for what they name as destination");
}

#[test]
fn a_slow_application_keeps_nobody_from_hearing_its_process() {
    let mut cell = cell(&[1, 1, 1], MemorySettings::FINE, "a slow application, and a neighbour that comes back");
    cell.set_takes(0, false);
    cell.crash(1);
    cell.run_for(200 * MS);
    cell.start(1);
    cell.join(1, "a");
    assert!(cell.run_until(10 * SECOND, |cell| cell.cell_view(1).is_some_and(|(_, members)| members.len() == 3)));
    cell.run_for(5 * SECOND);
    assert_eq!(cell.exclusions(0), 0, "it was unheard");
    assert_eq!(cell.cell_view(1).map(|(_, members)| members.len()), Some(3));
    clean(cell.finish());
}
