//! What applications were told of their memberships and messages.

use phalanx_trace::MembershipEnd;

use super::{Moment, ViewIx};

/// What one process's application was told.
#[derive(Debug, Default)]
pub(crate) struct Told {
    pub(crate) stable: Vec<ToldStable>,
    /// Ends of lives, one for each incarnation of a membership that was in a view.
    pub(crate) lives: Vec<LifeEnd>,
    /// Ends of memberships, by the group's name.
    pub(crate) ended: Vec<(String, MembershipEnd, Moment)>,
    /// Names of groups whose state made no sense.
    pub(crate) senseless: Vec<(String, Moment)>,
}

/// Messages in a view were told to be stable, up to a number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ToldStable {
    pub(crate) view: ViewIx,
    pub(crate) seq: u64,
    pub(crate) moment: Moment,
}

/// A life is over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LifeEnd {
    pub(crate) group: u32,
    /// Messages that its records say were accepted, sent, and told to be stable.
    pub(crate) accepted: u64,
    pub(crate) sent: u64,
    pub(crate) stable: u64,
    /// What it was told of the others.
    pub(crate) not_sent: u64,
    pub(crate) in_doubt: u64,
    pub(crate) moment: Moment,
}
