//! Processes behind interfaces that take less than they would send.

use std::time::Duration;

use phalanx_core::Order;
use phalanx_sim::{Cell, WorldSettings};

const MS: Duration = Duration::from_millis(1);

#[test]
fn a_slow_interface_holds_its_process_back_and_nobody_else() {
    let quiet = WorldSettings::quiet(3);
    // A turn costs next to nothing, so that a process that asks for one at once, again and again, is found out.
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
        accepted += u64::from(cell.multicast(0, "a", Order::Fifo, false, 5_000).is_ok());
    }
    assert_eq!(accepted, 200);
    cell.run_for(1_000 * MS);
    let delivered = cell.delivered(2) - before;
    assert!((30..120).contains(&delivered), "{delivered} in the first second");
    for _ in 0..20 {
        cell.multicast(1, "a", Order::Total, true, 100).expect("its own interface is free");
        accepted += 1;
        cell.run_for(10 * MS);
    }
    cell.run_for(5_000 * MS);
    assert_eq!(cell.delivered(2) - before, accepted);
    // And on a channel: 1 MB for one other.
    for _ in 0..100 {
        cell.send_to(0, 2, 10_000).expect("accepted");
    }
    cell.run_for(4_000 * MS);
    let result = cell.finish();
    assert!(result.violations.is_empty(), "{}", result.story.unwrap_or_default());
    let count = result.counters.core.get("congested").copied().unwrap_or(0);
    assert!(count > 10, "{count} times");
}
