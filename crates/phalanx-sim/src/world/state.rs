//! What a world remembers beside processes and network: of the faults in force, of bursts, and of what was recorded.

use std::collections::{BTreeMap, BTreeSet};

use phalanx_core::Incarnation;
use phalanx_core::rng::Rng;

/// State of a cell that cannot continue by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Doomed {
    /// The cell continues.
    #[default]
    No,
    /// All of it died.
    Whole,
    /// A quorum of it died, and stays dead until another member has founded it again.
    Quorum,
    /// All were ordered to leave.
    Left {
        /// Time of the order, or time at which all were gone.
        at_ns: u64,
        /// Whether all are gone.
        gone: bool,
    },
}

impl Doomed {
    /// Whether all were told to leave, and some are still in the cell.
    pub(crate) fn awaits_a_leave(self) -> bool {
        matches!(self, Self::Left { gone: false, .. })
    }
}

/// What the operator of the cell knows and did.
#[derive(Clone, Debug, Default)]
pub(crate) struct Operator {
    /// State of a cell that cannot continue by itself.
    pub(crate) doomed: Doomed,
    /// Time of the last command to found it again.
    pub(crate) commanded_ns: Option<u64>,
    /// Time at which a group was last given up.
    pub(crate) tended_ns: Option<u64>,
    /// Slots that were not told to leave when all others were.
    pub(crate) spared: Vec<usize>,
    /// The dead, where a notice has to suffice, and the members that were notified: slot and life.
    pub(crate) proved: BTreeMap<Incarnation, BTreeSet<(usize, u32)>>,
}

/// A fault of this kind in force.
#[derive(Clone, Debug)]
pub(crate) struct LostView {
    pub(crate) left_out: usize,
    pub(crate) incarnation: Incarnation,
    /// Processes that know the view without it.
    pub(crate) know: Vec<usize>,
    /// Links cut now.
    pub(crate) cut: Vec<(usize, usize)>,
}

/// Progress of the bursts of a run.
#[derive(Debug)]
pub(crate) struct Bursting {
    pub(crate) rng: Rng,
    /// End of the current spell.
    pub(crate) until_ns: u64,
    /// Slot of the first of its senders.
    pub(crate) first: usize,
    /// Bursts so far in the spell.
    pub(crate) count: u64,
    /// Abcasts so far, in all spells.
    pub(crate) total: u64,
    /// The event that continues the current spell. Others belong to spells that were replaced.
    pub(crate) epoch: u32,
}

impl Bursting {
    pub(crate) fn new(rng: Rng) -> Self {
        Self { rng, until_ns: 0, first: 0, count: 0, total: 0, epoch: 0 }
    }
}

/// State as last recorded.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    pub(crate) next_sample_ns: u64,
    /// The network's version.
    pub(crate) network: u64,
    /// The version of links bridged by memory.
    pub(crate) bridges: u64,
    /// Whether each directed link is cut.
    pub(crate) cut: Vec<bool>,
    pub(crate) rough: bool,
    pub(crate) late: bool,
    pub(crate) attacked: bool,
    /// Troubles of each slot.
    pub(crate) slots: Vec<Troubles>,
}

/// The troubles of one process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Troubles {
    pub(crate) whose: Option<Incarnation>,
    pub(crate) not_reading: bool,
    pub(crate) slow: bool,
    pub(crate) narrow: bool,
    /// A bit for each inbox of a group that is not read.
    pub(crate) unread: u32,
}
