//! Submits to the states of groups, as processes recorded them.

use phalanx_trace::SubmitStep;

use super::{MessageIx, Moment, ProcIx};

/// A submit: its client, and its number among those of the client.
pub(crate) type SubmitName = (u64, u64);

/// A step of a submit at a process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SubmitRecord {
    pub(crate) proc: ProcIx,
    pub(crate) group: usize,
    pub(crate) submit: SubmitName,
    pub(crate) what: SubmitStep,
    /// Of an execution: the message that was delivered there before, if there is one.
    pub(crate) message: Option<MessageIx>,
    pub(crate) moment: Moment,
}
