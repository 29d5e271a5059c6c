//! Roles of processes in faults that concern groups and names rather than links.

use crate::fault::Busy;
use crate::result::add_to;
use crate::slot::Slot;
use crate::workload::MINORITY;
use crate::world::{Doomed, World};

impl World {
    /// The members of the minority group, if they are a minority of the running processes.
    pub(crate) fn stranded_by_a_cut(&self) -> Option<Vec<usize>> {
        let is_in = |slot: &usize| self.slots[*slot].runs() && self.slots[*slot].app.member_of(MINORITY).is_some();
        let few: Vec<usize> = (0..self.slots.len()).filter(is_in).collect();
        (!few.is_empty() && 2 * few.len() < self.running()).then_some(few)
    }

    /// A running process that does not want to be in that group.
    pub(crate) fn outside_the_minority(&self) -> Option<usize> {
        (0..self.slots.len()).find(|slot| self.slots[*slot].runs() && !self.settings.minority.contains(slot))
    }

    /// Counts the circumstances of a process that is about to leave gracefully.
    pub(crate) fn count_leave(&mut self, slot: usize) {
        let n = self.slots.len();
        let hears = |from: usize, to: usize| !self.net.is_cut(from, to);
        let is_silent = |other: usize| {
            let others = || (0..n).filter(|third| *third != other);
            self.slots[other].runs()
                && (self.slots[other].paused
                    || others().all(|third| !hears(other, third))
                    || others().all(|third| !hears(third, other)))
        };
        let beside_silence = (0..n).any(|other| other != slot && is_silent(other));
        let gives = self.activity(slot).giving;
        let in_transfer = self.somebody_is(Busy::Transfer);
        for (met, name) in [
            (beside_silence, "leaves while a member was silent"),
            (in_transfer, "leaves while a state was given"),
            (gives, "leaves of a process that gave a state"),
        ] {
            if met {
                add_to(&mut self.counters.moments, name, 1);
            }
        }
    }

    /// Of two processes of one name, ends the one that did not join, for good: its operator notices the mistake.
    pub(crate) fn end_the_stranger(&mut self, (who, whose): (usize, usize)) {
        let is_in = |slot: usize| {
            let view = self.last_view();
            let me = self.slots[slot].incarnation();
            view.is_some_and(|view| view.members.iter().any(|member| Some(member.incarnation) == me))
        };
        let stranger = if is_in(who) && !is_in(whose) { whose } else { who };
        self.crash(stranger);
        self.slots[stranger].retired = true;
        if self.chain.is_empty() && was_listed(&self.slots[stranger], &self.slots[..self.settings.founders]) {
            self.note(
                None,
                "a founder confirmed a list that names the stranger: the operator has to say that no cell lives",
            );
            self.doom(Doomed::Left { at_ns: self.now_ns, gone: true });
        }
    }
}

/// Whether a founder confirmed a list for the first view that names this process. Nobody can tell any more whether it
/// confirmed that list as well, and installed it.
fn was_listed(process: &Slot, founders: &[Slot]) -> bool {
    let was: Vec<u64> = process.app.traces.iter().map(|trace| trace.header.incarnation).collect();
    let lists = founders.iter().filter_map(|founder| founder.app.record.mark.as_ref()?.list.as_ref());
    let mut listed = lists.flat_map(|(_, first)| &first.members);
    listed.any(|member| was.contains(&member.incarnation.0))
}
