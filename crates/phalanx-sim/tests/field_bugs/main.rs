//! Failures of other systems in the field, as stories that must end well here. `docs/field-bugs.md` lists the failures,
//! the story of each, and what each story fails on.

mod delivery;
mod hostile;
mod membership;
mod partition;

use std::time::Duration;

use phalanx_trace::{Event, Record};

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

/// The records of a process's first incarnation.
fn first_life(cell: &phalanx_sim::Cell, slot: usize) -> &[Record] {
    &cell.traces(slot)[0].records
}

/// The numbers of the cell views in some records.
fn cell_views(records: &[Record]) -> Vec<u64> {
    let view = |record: &Record| match &record.event {
        Event::CellView { view, .. } => Some(*view),
        _ => None,
    };
    records.iter().filter_map(view).collect()
}
