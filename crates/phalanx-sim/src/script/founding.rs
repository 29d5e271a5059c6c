//! What a script does to the founding of a cell, and what it sees of it.

use phalanx_core::CommandError;
use phalanx_core::member::FounderRecord;

use super::Cell;
use crate::founding::Order;

impl Cell {
    /// The directory of a founder is emptied, now. A process that runs there writes it again within a second.
    pub fn empty_directory(&mut self, slot: usize) {
        self.world.lose_directory(slot);
    }

    /// The founders that the next life of this process is configured with.
    pub fn set_founders(&mut self, slot: usize, founders: &[usize]) {
        self.world.slots[slot].list = Some(founders.to_vec());
    }

    /// Says at a founder that nobody of its cell lives.
    ///
    /// # Errors
    /// As [`phalanx_core::Process::found_anew`].
    ///
    /// # Panics
    /// When no process runs there.
    pub fn found_anew(&mut self, slot: usize) -> Result<(), CommandError> {
        assert!(self.runs(slot), "a process runs there");
        self.world.order(slot, Order::FoundAnew)
    }

    /// Asks a survivor to found the next instance of its cell.
    ///
    /// # Errors
    /// As [`phalanx_core::Process::reform`].
    ///
    /// # Panics
    /// When no process runs there.
    pub fn reform(&mut self, slot: usize) -> Result<(), CommandError> {
        assert!(self.runs(slot), "a process runs there");
        self.world.order(slot, Order::Reform)
    }

    /// What the state directory of a founder holds.
    #[must_use]
    pub fn record(&self, slot: usize) -> &FounderRecord {
        &self.world.slots[slot].app.record
    }

    /// Why a process is in no cell yet, as it said last in this life.
    #[must_use]
    pub fn searching(&self, slot: usize) -> Option<&str> {
        self.world.slots[slot].app.searching.as_deref()
    }

    /// The cell instance that a process is in.
    #[must_use]
    pub fn instance(&self, slot: usize) -> Option<u64> {
        Some(self.world.slots[slot].node.as_ref()?.process().cell_view()?.instance)
    }

    /// Other instances of its cell that a process was told of.
    #[must_use]
    pub fn instances_met(&self, slot: usize) -> &[u64] {
        &self.world.slots[slot].app.instances_met
    }
}
