//! Operations on the objects that the members of a group replicate, as recorded.

use phalanx_trace::{Action, Outcome};

use super::{EpochIx, Model, Moment, ProcIx};
use crate::findings::Place;

/// All records of objects.
#[derive(Debug, Default)]
pub(crate) struct Objects {
    pub(crate) calls: Vec<Call>,
    pub(crate) uses: Vec<Use>,
    pub(crate) balances: Vec<Balance>,
}

/// An operation of one process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) proc: ProcIx,
    pub(crate) group: usize,
    pub(crate) action: Action,
    pub(crate) invoke: Moment,
    /// The stay in the group during which it was invoked.
    pub(crate) asked_in: Option<EpochIx>,
    /// The answer, its time, and the stay during which it came. `None`: the operation may have happened or not.
    pub(crate) answer: Option<(Outcome, Moment, Option<EpochIx>)>,
}

/// One use of a resource that a lock guards.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Use {
    pub(crate) resource: u32,
    pub(crate) serial: u64,
    pub(crate) token: u64,
    pub(crate) accepted: bool,
    pub(crate) place: Place,
}

/// Sum of a bank's accounts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Balance {
    pub(crate) group: usize,
    pub(crate) sum: u64,
    pub(crate) place: Place,
}

impl Model {
    /// Operations that happened or may have happened, with their answers.
    pub(crate) fn calls(&self) -> impl Iterator<Item = &Call> {
        let refused = |call: &&Call| !matches!(call.answer, Some((Outcome::NotSent, _, _)));
        self.objects.calls.iter().filter(refused)
    }

    /// Whether all operations on a group's objects are recorded: the trace of each of its members is complete.
    pub(crate) fn tells_all_of(&self, group: usize) -> bool {
        let views = self.groups[group].views.values();
        let whole = |&member: &ProcIx| self.procs[member].trace.is_some() && self.procs[member].tail_complete;
        views.flat_map(|&view| &self.views[view].members).all(whole)
    }
}
