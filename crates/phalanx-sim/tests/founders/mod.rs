//! Helpers of the stories of founders.

use phalanx_sim::Cell;

/// Starts processes, each of which wants to be in group "a".
pub(crate) fn start(cell: &mut Cell, slots: &[usize]) {
    for &slot in slots {
        cell.start(slot);
        cell.join(slot, "a");
    }
}

/// Whether none of these processes is in a cell view.
pub(crate) fn nobody_is_in(cell: &Cell, slots: &[usize]) -> bool {
    slots.iter().all(|slot| cell.cell_view(*slot).is_none())
}

/// Whether the reason of a process that looks for its cell contains these words.
pub(crate) fn says(cell: &Cell, slot: usize, what: &str) -> bool {
    cell.searching(slot).is_some_and(|why| why.contains(what))
}
