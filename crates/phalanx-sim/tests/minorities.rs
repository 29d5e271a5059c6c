//! Groups whose members are all cut off from the cell.

use std::time::Duration;

use phalanx_core::{Order, Uniformity};
use phalanx_sim::Cell;
use phalanx_trace::Event;

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

/// Number of uniform messages that a process sent.
fn sent_uniform(cell: &Cell, slot: usize) -> usize {
    let records = cell.traces(slot).iter().flat_map(|trace| &trace.records);
    records.filter(|record| matches!(record.event, Event::Send { uniform: true, .. })).count()
}

/// Uniform messages wait while no quorum is heard, and so do the messages behind them.
#[test]
fn nothing_uniform_is_sent_outside_the_primary() {
    let mut cell = Cell::settled(5, 60);
    for slot in [3, 4] {
        cell.join(slot, "two");
    }
    cell.settle();
    let before = sent_uniform(&cell, 3);
    // No side has a quorum, so no member is excluded.
    cell.cut_off(&[3, 4]);
    cell.cut_off(&[2]);
    assert!(cell.run_until(3 * SECOND, |cell| !cell.is_primary(3) && !cell.is_primary(4)));
    cell.multicast(3, "two", Order::Fifo, Uniformity::Plain, 40).expect("a plain one goes out");
    let plain = cell.delivered(4);
    cell.run_for(20 * MS);
    assert_eq!(cell.delivered(4), plain + 1, "they hear each other");
    cell.multicast(3, "two", Order::Total, Uniformity::Uniform, 40).expect("it is accepted");
    cell.multicast(3, "two", Order::Fifo, Uniformity::Plain, 40).expect("it is accepted");
    cell.run_for(200 * MS);
    assert_eq!((sent_uniform(&cell, 3), cell.delivered(4)), (before, plain + 1));
    cell.heal();
    cell.settle();
    cell.finish_clean();
}
