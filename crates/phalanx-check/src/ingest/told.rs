//! What an application is told, as records say it.

use std::collections::BTreeMap;

use phalanx_trace::Event;

use super::Builder;
use crate::model::told::{LifeEnd, ToldStable};
use crate::model::{Moment, ProcIx};

/// Messages of one life, counted.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    accepted: u64,
    /// How many were sent, by view.
    sent: BTreeMap<u64, u64>,
    /// The latest of them that was told to be stable: its view, and its number there. What was sent in views before is
    /// stable, too: who went on from them has it.
    stable: (u64, u64),
}

impl Ledger {
    fn stable(&self) -> u64 {
        let (view, seq) = self.stable;
        self.sent.range(..view).fold(seq, |sum, (_, sent)| sum.saturating_add(*sent))
    }
}

impl Builder {
    pub(super) fn note_accepted(&mut self, group: u32) {
        self.now.ledgers.entry(group).or_default().accepted += 1;
    }

    pub(super) fn note_sent(&mut self, group: u32, view: u64) {
        *self.now.ledgers.entry(group).or_default().sent.entry(view).or_default() += 1;
    }

    pub(super) fn told(&mut self, me: ProcIx, event: &Event, moment: Moment) {
        match event {
            &Event::ToldStable { group: id, view: number, seq } => {
                let stable = &mut self.now.ledgers.entry(id).or_default().stable;
                *stable = (*stable).max((number, seq));
                let group = self.group(id);
                let view = self.view(group, number);
                self.model.procs[me].told.stable.push(ToldStable { view, seq, moment });
            }
            &Event::ToldLost { group, not_sent, in_doubt } => {
                let ledger = self.now.ledgers.remove(&group).unwrap_or_default();
                let (accepted, stable) = (ledger.accepted, ledger.stable());
                let sent = ledger.sent.into_values().fold(0, u64::saturating_add);
                let end = LifeEnd { group, accepted, sent, stable, not_sent, in_doubt, moment };
                self.model.procs[me].told.lives.push(end);
            }
            Event::ToldSenseless { name } => self.model.procs[me].told.senseless.push((name.clone(), moment)),
            Event::MembershipEnded { name, why } => {
                self.model.procs[me].told.ended.push((name.clone(), *why, moment));
            }
            _ => {}
        }
    }
}
