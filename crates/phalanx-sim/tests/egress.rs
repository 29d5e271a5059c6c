//! Processes whose interfaces are slower than they would send.

use std::time::Duration;

use phalanx_core::wire::Kind;
use phalanx_core::{Order, Uniformity};
use phalanx_sim::{Cell, Workload, WorldSettings};

const MS: Duration = Duration::from_millis(1);

#[test]
fn a_slow_interface_holds_its_process_back_and_nobody_else() {
    let quiet = WorldSettings::quiet(3);
    // An iteration costs next to nothing, so that a process that spins is detected.
    let mut cell = Cell::new(WorldSettings { egress: Some(500), turn_ns: 100, ..quiet }, 1).titled("slow interface");
    for slot in 0..3 {
        cell.start(slot);
        cell.join(slot, "a");
    }
    cell.settle();
    let before = cell.delivered(2);
    // 2 MB for two others, at 500 kB a second.
    let mut accepted = 0;
    for _ in 0..200 {
        accepted += u64::from(cell.multicast(0, "a", Order::Fifo, Uniformity::Plain, 5_000).is_ok());
    }
    assert_eq!(accepted, 200);
    cell.run_for(1_000 * MS);
    let delivered = cell.delivered(2) - before;
    assert!((30..120).contains(&delivered), "{delivered} in the first second");
    for _ in 0..20 {
        cell.multicast(1, "a", Order::Total, Uniformity::Uniform, 100).expect("its own interface is free");
        accepted += 1;
        cell.run_for(10 * MS);
    }
    cell.run_for(5_000 * MS);
    assert_eq!(cell.delivered(2) - before, accepted);
    // The same on a channel: 1 MB for one other process.
    for _ in 0..100 {
        cell.send_to(0, 2, 10_000).expect("accepted");
    }
    cell.run_for(4_000 * MS);
    let result = cell.finish();
    assert!(result.violations.is_empty(), "{}", result.story.unwrap_or_default());
    let count = result.counters.core.get("congested").copied().unwrap_or(0);
    assert!(count > 10, "{count} times");
}

#[test]
fn many_that_take_a_state_over_slow_interfaces_give_it_on_to_each_other() {
    let workload =
        Workload { gap_ns: 1_000_000_000, state_bytes: 300_000, second_group_ppm: 0, long_ppm: 0, ..Workload::USUAL };
    let settings = WorldSettings { egress: Some(350), workload: Some(workload), ..WorldSettings::quiet(8) };
    let mut cell = Cell::new(settings, 2).titled("many joiners");
    cell.start(0);
    cell.join(0, "a");
    cell.settle();
    for slot in 1..8 {
        cell.start(slot);
        cell.join(slot, "a");
    }
    // One after the other the joiners would take six seconds, 0.86 each. Those that have the state pass it on: 1, 3,
    // then 7 have it.
    let all_in = |cell: &Cell| (0..8).all(|slot| cell.group_view(slot, "a").is_some_and(|(_, members)| members == 8));
    let in_time = cell.run_until(4_500 * MS, all_in);
    assert!(in_time, "{:?}", (0..8).map(|slot| cell.group_view(slot, "a")).collect::<Vec<_>>());
    cell.finish_clean();
}

#[test]
fn a_full_interface_serves_all_channels_in_turn() {
    let mut cell = Cell::new(WorldSettings { egress: Some(500), ..WorldSettings::quiet(3) }, 3).titled("two channels");
    for slot in 0..3 {
        cell.start(slot);
    }
    cell.settle();
    let fill = |cell: &mut Cell, to: usize| std::iter::from_fn(|| cell.send_to(0, to, 10_000).ok()).count();
    for to in [1, 2] {
        assert!(fill(&mut cell, to) > 50, "a channel takes a megabyte");
    }
    cell.run_for(1_000 * MS);
    for to in [1, 2] {
        let room = fill(&mut cell, to);
        assert!((15..40).contains(&room), "half of 500 kB went to {to}, and left room for {room} messages");
    }
    cell.run_for(8_000 * MS);
    cell.finish_clean();
}

/// Multicasts fill the interface as soon as it takes more. Packets to one process have their share all the same, and
/// are retransmitted.
#[test]
fn multicasts_do_not_starve_a_channel_on_a_full_interface() {
    for (seed, loses) in [(5, false), (6, true)] {
        let mut cell =
            Cell::new(WorldSettings { egress: Some(500), ..WorldSettings::quiet(3) }, seed).titled("a flood");
        for slot in 0..3 {
            cell.start(slot);
            cell.join(slot, "a");
        }
        cell.settle();
        let mut seen = 0;
        cell.lose_if(move |packet| {
            seen += u32::from((packet.from, packet.to, packet.kind) == (0, 2, Kind::Data));
            loses && packet.kind == Kind::Data && seen % 4 == 0
        });
        let fill = |cell: &mut Cell| std::iter::from_fn(|| cell.send_to(0, 2, 10_000).ok()).count();
        fill(&mut cell);
        let (mut taken, before) = (0, cell.delivered(1));
        for _ in 0..1_000 {
            while cell.multicast(0, "a", Order::Fifo, Uniformity::Plain, 5_000).is_ok() {}
            cell.run_for(10 * MS);
            taken += fill(&mut cell);
        }
        // 5 MB pass in all. A message to one process takes 10 kB of them, and so does a multicast: 5 kB to each of two.
        let delivered = cell.delivered(1) - before;
        assert!(taken > 80 && delivered > 200, "{taken} messages to one, {delivered} multicasts");
        cell.heal();
        cell.run_for(10_000 * MS);
        cell.finish_clean();
    }
}

#[test]
fn a_channel_that_loses_packets_takes_no_more_than_its_share_of_a_full_interface() {
    let mut cell = Cell::new(WorldSettings { egress: Some(1_000), ..WorldSettings::quiet(3) }, 4).titled("a lossy one");
    for slot in 0..3 {
        cell.start(slot);
    }
    cell.settle();
    let fill = |cell: &mut Cell, to: usize| std::iter::from_fn(|| cell.send_to(0, to, 10_000).ok()).count();
    fill(&mut cell, 1);
    fill(&mut cell, 2);
    let mut seen = 0;
    cell.lose_if(move |packet| {
        let is_data = (packet.from, packet.to, packet.kind) == (0, 1, Kind::Data);
        seen += u32::from(is_data);
        is_data && seen % 3 == 0
    });
    let mut taken = [0, 0];
    for _ in 0..10 {
        cell.run_for(500 * MS);
        taken[1] += fill(&mut cell, 2);
        taken[0] += fill(&mut cell, 1);
    }
    // Half of 5 MB is 250 messages. Retransmissions to the one process count as its own traffic.
    assert!(taken[1] > 230 && taken[0] > 120, "{taken:?}");
    cell.lose_if(|_| false);
    cell.run_for(3_000 * MS);
    cell.finish_clean();
}
