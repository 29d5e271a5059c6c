//! Actions of a script on the founding of a cell, and observations of it.

use phalanx_core::member::FounderRecord;
use phalanx_core::{CellInstance, CommandError, ReformWhen};

use super::Cell;
use crate::founding::Order;

impl Cell {
    /// Empties the directory of a founder now. A process that runs there restores it within a second.
    pub fn empty_directory(&mut self, slot: usize) {
        self.world.lose_directory(slot);
    }

    /// Sets the founders in the configuration of this process's next incarnation.
    pub fn set_founders(&mut self, slot: usize, founders: &[usize]) {
        self.world.slots[slot].list = Some(founders.to_vec());
    }

    /// Asserts at a founder, as an operator, that no member of its cell lives.
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
    pub fn reform(&mut self, slot: usize, when: ReformWhen) -> Result<(), CommandError> {
        assert!(self.runs(slot), "a process runs there");
        self.world.order(slot, Order::Reform(when))
    }

    /// Content of the state directory of a founder.
    #[must_use]
    pub fn record(&self, slot: usize) -> &FounderRecord {
        &self.world.slots[slot].app.record
    }

    /// Why a process is in no cell yet, according to its last event in this incarnation.
    #[must_use]
    pub fn searching(&self, slot: usize) -> Option<&str> {
        self.world.slots[slot].app.searching.as_deref()
    }

    /// The cell instance that a process is in.
    #[must_use]
    pub fn instance(&self, slot: usize) -> Option<CellInstance> {
        Some(self.world.slots[slot].node.as_ref()?.process().cell_view()?.instance)
    }

    /// Other instances of its cell of which a process was notified.
    #[must_use]
    pub fn instances_met(&self, slot: usize) -> &[CellInstance] {
        &self.world.slots[slot].app.instances_met
    }
}
