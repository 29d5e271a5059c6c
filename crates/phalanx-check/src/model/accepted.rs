//! Multicasts between their acceptance and their send.

use phalanx_trace::Order;

use super::{Moment, ProcIx};

/// Acceptances of all processes.
#[derive(Debug, Default)]
pub(crate) struct Accepted {
    /// Number of multicasts accepted.
    pub(crate) count: u64,
    /// Multicasts that were not sent at once.
    pub(crate) waits: Vec<Wait>,
    /// Sends without an acceptance, and whether their process records acceptances at all.
    pub(crate) unasked: Vec<(ProcIx, Moment, bool)>,
    /// Notices of unsent multicasts that exceed the number then waiting, or that name none.
    pub(crate) told_of_none: Vec<(ProcIx, Moment)>,
}

/// The part of a multicast that is equal in the records of its acceptance and its send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct What {
    pub(crate) order: Order,
    pub(crate) uniform: bool,
    pub(crate) hash: u64,
}

/// A multicast that was not sent at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait {
    pub(crate) proc: ProcIx,
    pub(crate) group: u32,
    pub(crate) accepted: Moment,
    /// The notice that it will not be sent.
    pub(crate) told: Option<Moment>,
    pub(crate) end: WaitEnd,
}

/// How a wait ended.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WaitEnd {
    /// It was sent.
    Sent(Moment),
    /// A multicast that was accepted later was sent before it.
    Overtaken(Moment),
    /// The process left the group.
    GroupLeft(Moment),
    /// The process left the cell.
    Left(Moment),
    /// The process was excluded.
    Excluded(Moment),
    /// The process is now in another cell instance.
    Over,
    /// It still waits at the end of the trace.
    Open,
}
