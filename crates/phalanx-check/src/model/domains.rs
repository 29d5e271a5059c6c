//! The domains of groups' states, as processes recorded them.

use super::{MessageIx, Moment, ProcIx};

/// A domain: its name and version.
pub(crate) type Domain = (String, u32);

#[derive(Debug, Default)]
pub(crate) struct Domains {
    pub(crate) own: Vec<Own>,
    /// Lists of groups, of views that were installed or replayed, or in which a snapshot was frozen.
    pub(crate) lists: Vec<Listed>,
    /// Messages that were delivered as ones to a domain.
    pub(crate) named: Vec<Named>,
}

/// What a process has for the state of a group.
#[derive(Debug)]
pub(crate) struct Own {
    pub(crate) proc: ProcIx,
    /// The group's name.
    pub(crate) group: String,
    /// The domains, and whether it may do without them.
    pub(crate) domains: Vec<(String, u32, bool)>,
    pub(crate) moment: Moment,
}

/// The list of a group in a view, as one process recorded it.
#[derive(Debug)]
pub(crate) struct Listed {
    pub(crate) proc: ProcIx,
    /// The group, and its view's number.
    pub(crate) group: usize,
    pub(crate) view: u64,
    pub(crate) list: Vec<Domain>,
    pub(crate) moment: Moment,
}

/// A message that a process delivered as one to a domain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Named {
    pub(crate) proc: ProcIx,
    pub(crate) message: MessageIx,
    pub(crate) domain: u8,
    pub(crate) moment: Moment,
}
