//! How an application reads its inboxes: which of them not, and what that has shown so far.

use std::collections::{BTreeMap, BTreeSet};

use phalanx_core::{GroupId, InboxId};

/// State of reading. That of one incarnation is in the last three fields.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    /// The inboxes of groups that have one of their own, by the group's name.
    pub(crate) inboxes: BTreeMap<String, InboxId>,
    /// Inboxes that it does not read now.
    pub(super) unread: BTreeSet<InboxId>,
    /// Whether one of these held items after the last iteration.
    pub(super) holds: bool,
    /// Whether this time without reading was counted: as one that held items, and as one beside which another inbox was
    /// given something.
    pub(super) counted: [bool; 2],
    /// Inboxes of groups by number, once an event told the name.
    pub(super) numbers: BTreeMap<GroupId, InboxId>,
    /// Names of groups that it was in.
    pub(super) were_in: BTreeSet<String>,
    /// Whether it was given something from an inbox that it does not read. Only the end of its incarnation allows that.
    pub(super) forced: bool,
}
