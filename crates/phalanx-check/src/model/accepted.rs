//! Multicasts from their acceptance to their send.

use phalanx_trace::Order;

use super::{Moment, ProcIx};

/// What all processes accepted.
#[derive(Debug, Default)]
pub(crate) struct Accepted {
    /// How many multicasts were accepted.
    pub(crate) count: u64,
    /// Those that did not go out at once.
    pub(crate) waits: Vec<Wait>,
    /// Sends without an acceptance, and whether their process records acceptances at all.
    pub(crate) unasked: Vec<(ProcIx, Moment, bool)>,
    /// Where a process was told of more unsent multicasts than it had accepted and not sent, or of none.
    pub(crate) told_of_none: Vec<(ProcIx, Moment)>,
}

/// A multicast, as its acceptance and its send tell of it alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct What {
    pub(crate) order: Order,
    pub(crate) uniform: bool,
    pub(crate) hash: u64,
}

/// A multicast that did not go out at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait {
    pub(crate) proc: ProcIx,
    pub(crate) group: u32,
    pub(crate) accepted: Moment,
    /// Where its process was told that it will not be sent.
    pub(crate) told: Option<Moment>,
    pub(crate) end: WaitEnd,
}

/// What came of it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WaitEnd {
    /// It was sent.
    Sent(Moment),
    /// One that was accepted after it was sent before.
    Overtaken(Moment),
    /// The process left the group.
    GroupLeft(Moment),
    /// The process left the cell.
    Left(Moment),
    /// The process was excluded.
    Excluded(Moment),
    /// The process is in another cell instance now.
    Over,
    /// It waits still where the trace ends.
    Open,
}
