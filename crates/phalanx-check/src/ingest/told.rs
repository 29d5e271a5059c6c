//! Multicasts of a process, counted for each life of its memberships.

use std::collections::BTreeMap;

use crate::model::intern::FastMap;
use crate::model::{LifeEnd, Moment};

/// The present life in each group.
#[derive(Debug, Default)]
pub(super) struct Ledgers(FastMap<u32, Ledger>);

/// Messages of one life, counted.
#[derive(Debug, Default)]
struct Ledger {
    accepted: u64,
    /// How many were sent, by view.
    sent: BTreeMap<u64, u64>,
    /// The latest of them that was told to be stable: its view, and its number there. What was sent in views before is
    /// stable, too: who went on from them has it.
    stable: (u64, u64),
}

impl Ledgers {
    pub(super) fn accepted(&mut self, group: u32) {
        self.0.entry(group).or_default().accepted += 1;
    }

    pub(super) fn sent(&mut self, group: u32, view: u64) {
        *self.0.entry(group).or_default().sent.entry(view).or_default() += 1;
    }

    pub(super) fn stable(&mut self, group: u32, view: u64, seq: u64) {
        let stable = &mut self.0.entry(group).or_default().stable;
        *stable = (*stable).max((view, seq));
    }

    /// A life is over. The next one counts from the start.
    pub(super) fn end(&mut self, group: u32, not_sent: u64, in_doubt: u64, moment: Moment) -> LifeEnd {
        let Ledger { accepted, sent, stable: (view, seq) } = self.0.remove(&group).unwrap_or_default();
        let stable = sent.range(..view).fold(seq, |sum, (_, sent)| sum.saturating_add(*sent));
        let sent = sent.into_values().fold(0, u64::saturating_add);
        LifeEnd { group, accepted, sent, stable, not_sent, in_doubt, moment }
    }
}
