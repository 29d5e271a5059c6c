//! Operations of one application that have no answer yet, and the locks that it considers its own.

use std::collections::BTreeMap;

use phalanx_core::{GroupId, Incarnation};
use phalanx_trace::Action;

use crate::objects::{KEYS, LOCKS};

/// The group with the objects.
pub(crate) const OBJECTS_GROUP: &str = "a";

/// State of the operations in one incarnation of an application.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    /// Whether this incarnation runs: it was announced, and not notified of its end.
    pub(super) open: bool,
    pub(super) me: u64,
    /// Number of operations so far.
    pub(super) asked: u64,
    /// Operations without an answer.
    pub(super) waiting: BTreeMap<u64, (GroupId, Action)>,
    /// Value of each register as this process last learned it.
    pub(crate) seen: [u64; KEYS],
    /// The token of each lock that this process considers its own; 0: none.
    pub(crate) held: [u64; LOCKS],
    /// The last grant of each lock that is void because its holder left the view; 0: none.
    pub(super) gone: [u64; LOCKS],
}

impl Calls {
    /// State at the beginning of an incarnation.
    pub(super) fn begin(me: Incarnation) -> Self {
        Self { open: true, me: me.0, ..Self::default() }
    }

    /// Ends the incarnation: nothing is invoked any more, and no lock is held.
    pub(super) fn close(&mut self) {
        *self = Self { me: self.me, ..Self::default() };
    }

    /// Handles a leave of the group with the objects: its open operations stay without an answer.
    pub(super) fn left(&mut self, group: GroupId) {
        self.waiting.retain(|_, (asked, _)| *asked != group);
        self.held = [0; LOCKS];
        self.gone = [0; LOCKS];
    }

    pub(super) fn waits_for_lock(&self, lock: u32) -> bool {
        self.waiting.values().any(|(_, action)| *action == Action::Acquire { lock })
    }
}
