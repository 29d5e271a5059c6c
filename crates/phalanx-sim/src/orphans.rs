//! The operator of groups that wait for members that are cut off. Once everything is healed, it gives up groups whose
//! members do not come back.

use std::collections::BTreeSet;

use phalanx_core::{Incarnation, Membership};

use crate::clock::SECOND;
use crate::result::add_to;
use crate::world::World;

/// Time after which a command is repeated, if the group still waits.
const AGAIN_NS: u64 = 2 * SECOND;

impl World {
    /// Gives up the groups all of whose holders are gone for good: dead and not restarted, or broken.
    pub(crate) fn tend_orphans(&mut self) {
        if self.operator.tended_ns.is_some_and(|at_ns| self.now_ns < at_ns + AGAIN_NS) {
            return;
        }
        let mut asked = BTreeSet::new();
        for index in 0..self.slots.len() {
            let Some(node) = self.slots[index].node.as_ref().filter(|_| !self.ruined.contains(&index)) else {
                continue;
            };
            if node.membership() != Membership::Primary {
                continue;
            }
            let orphans: Vec<(String, Vec<Incarnation>)> = node
                .process()
                .orphans()
                .map(|(name, holders)| (name.to_owned(), holders.into_iter().map(|(who, _)| who).collect()))
                .collect();
            for (name, holders) in orphans {
                // What the cell was told it need not be told again, unless all that were told left: they may have gone before
                // they could tell others.
                let stays = |(told, life): &(usize, u32)| {
                    let slot = &self.slots[*told];
                    slot.runs() && slot.life == *life && !slot.leaving
                };
                let is_known = |who| self.operator.proved.get(who).is_some_and(|told| told.iter().any(stays));
                let known = holders.iter().all(is_known);
                if !asked.contains(&name) && !known && holders.iter().all(|who| self.is_gone_for_good(*who)) {
                    self.give_up(index, &name);
                    asked.insert(name);
                }
            }
        }
    }

    fn give_up(&mut self, index: usize, name: &str) {
        let slot = &mut self.slots[index];
        let now = slot.local(self.now_ns);
        slot.app.now_ns = self.now_ns;
        let Some(node) = slot.node.as_mut() else { return };
        if node.give_up_group(now, name, &mut slot.app).is_ok() {
            self.operator.tended_ns = Some(self.now_ns);
            add_to(&mut self.counters.moments, "groups given up", 1);
            self.note(Some(index), format!("gives up group {name:?}"));
            self.wake(index, self.now_ns);
        }
    }

    /// Whether the process of that incarnation does not run, or does not come back.
    fn is_gone_for_good(&self, who: Incarnation) -> bool {
        let of = |slot: &crate::slot::Slot| slot.app.traces.iter().any(|trace| trace.header.incarnation == who.0);
        let Some(index) = self.slots.iter().position(of) else { return true };
        let slot = &self.slots[index];
        // With an emptied directory a process cannot prove that it was started in the place of that incarnation.
        let keeps = self.last_view().is_some_and(|view| view.members.iter().any(|member| member.is_or_keeps(who)));
        !slot.runs() || self.ruined.contains(&index) || slot.directory > 0 && !keeps
    }
}
