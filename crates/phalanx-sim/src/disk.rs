//! State directories that take nothing, and what founders must have on disk by then.

use phalanx_core::CellInstance;
use phalanx_core::member::{FounderRecord, FoundingBallot};

use crate::slot::Slot;
use crate::world::World;

/// What is known of a founder before an iteration.
#[derive(Debug)]
pub(crate) struct BeforeTurn {
    promised: Option<FoundingBallot>,
    /// The process's own marker. One that it writes again into an emptied directory is no new one.
    marked: Option<FoundingBallot>,
}

/// The ballot of the list that a record has a marker of.
fn marked(record: &FounderRecord) -> Option<FoundingBallot> {
    record.mark.as_ref()?.list.as_ref().map(|(ballot, _)| *ballot)
}

impl Slot {
    /// What a founder that looks for its cell has promised; `None`: it is in a view, or no founder.
    pub(crate) fn before_turn(&self) -> Option<BeforeTurn> {
        let process = self.node.as_ref()?.process();
        let promised = process.founding_promise();
        promised.is_some().then(|| BeforeTurn { promised, marked: marked(process.record()) })
    }

    /// Checks that a founder has set no marker of an earlier ballot than it had promised.
    pub(crate) fn check_promise(&mut self, before: &BeforeTurn) {
        let now = marked(&self.app.record);
        // A list that more than half of the names have a marker of is set with no ballot.
        let promised = self.node.as_ref().and_then(|node| node.process().founding_promise());
        if promised.is_some() && promised < before.promised {
            let text = format!("{} promises {promised:?}, and had promised {:?}", self.name, before.promised);
            self.app.faults.push(("promise", text));
        }
        if now != before.marked && now.is_some_and(|ballot| ballot != FoundingBallot::NONE) && now < before.promised {
            let text = format!("{} set a marker of ballot {now:?}, and had promised {:?}", self.name, before.promised);
            self.app.faults.push(("promise", text));
        }
    }
}

impl World {
    /// Checks that a founder in a view of `instance` has a marker of it on disk.
    pub(crate) fn check_marked(&mut self, index: usize, instance: CellInstance) {
        let slot = &mut self.slots[index];
        let is_whole = slot.directory == slot.started_in;
        if index < self.settings.founders && is_whole && slot.app.record.instance() != instance {
            let text = format!("{} is in a view of instance {instance}, and has no marker of it on disk", slot.name);
            slot.app.faults.push(("unmarked", text));
        }
    }

    /// Makes a process's state directory take nothing, or take records again.
    pub(crate) fn fill_disk(&mut self, slot: usize, is_full: bool) {
        self.slots[slot].app.disk_full = is_full;
        self.note(Some(slot), if is_full { "cannot write to its directory" } else { "can write to its directory" });
    }
}
