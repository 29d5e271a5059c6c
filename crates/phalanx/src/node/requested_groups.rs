//! The groups a node means to be in, so that a new life joins them again.

use std::collections::BTreeMap;

use phalanx_core::{CommandError, GroupTerms, Instant, Process};

use crate::handler::{Command, Handler};

#[derive(Debug, Default)]
pub(super) struct RequestedGroups {
    groups: BTreeMap<String, RequestedGroup>,
    /// Some group was not asked for in this life yet.
    open: bool,
}

#[derive(Debug)]
struct RequestedGroup {
    with_state: bool,
    terms: GroupTerms,
    asked: bool,
}

impl RequestedGroups {
    /// Notes a group already asked for in this life.
    pub(super) fn insert(&mut self, name: &str, with_state: bool, terms: GroupTerms) {
        self.groups.insert(name.to_owned(), RequestedGroup { with_state, terms, asked: true });
    }

    pub(super) fn remove(&mut self, name: &str) {
        self.groups.remove(name);
    }

    /// Whether some group is still to be asked for.
    pub(super) fn is_open(&self) -> bool {
        self.open
    }

    /// A new life asked for nothing yet.
    pub(super) fn forget_asked(&mut self) {
        self.groups.values_mut().for_each(|want| want.asked = false);
        self.open = !self.groups.is_empty();
    }

    /// Asks for what was not asked for in this life.
    pub(super) fn ask(&mut self, now: Instant, process: &mut Process, handler: &mut impl Handler) {
        if !self.open {
            return;
        }
        let mut open = false;
        for (name, want) in self.groups.iter_mut().filter(|(_, want)| !want.asked) {
            let outcome = process.join_group(now, name, want.with_state, want.terms);
            if outcome.is_ok() {
                handler.command(&Command::JoinGroup { name, with_state: want.with_state });
            }
            want.asked = matches!(outcome, Ok(()) | Err(CommandError::AlreadyMember));
            open |= !want.asked;
        }
        self.open = open;
    }
}
