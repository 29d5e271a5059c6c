//! The groups that a node is to be a member of, so that a new incarnation joins them again.

use std::collections::BTreeMap;

use phalanx_core::member::Role;
use phalanx_core::{CommandError, GroupTerms, Instant, OwnDomain, Process};

use crate::handler::{Command, Handler};

#[derive(Debug, Default)]
pub(super) struct RequestedGroups {
    groups: BTreeMap<String, RequestedGroup>,
    /// Some group has not been requested in this incarnation yet.
    open: bool,
}

#[derive(Debug)]
struct RequestedGroup {
    role: Role,
    terms: GroupTerms,
    /// What this process has for the group's state.
    own: Vec<OwnDomain>,
    asked: bool,
}

impl RequestedGroups {
    /// Adds a group that was already requested in this incarnation.
    pub(super) fn insert(&mut self, name: &str, role: Role, terms: GroupTerms, own: Vec<OwnDomain>) {
        self.groups.insert(name.to_owned(), RequestedGroup { role, terms, own, asked: true });
    }

    pub(super) fn remove(&mut self, name: &str) {
        self.groups.remove(name);
    }

    /// Whether some group is still to be requested.
    pub(super) fn is_open(&self) -> bool {
        self.open
    }

    /// Begins an incarnation, which has requested nothing yet.
    pub(super) fn forget_asked(&mut self) {
        self.groups.values_mut().for_each(|want| want.asked = false);
        self.open = !self.groups.is_empty();
    }

    /// Requests the groups that were not requested in this incarnation.
    pub(super) fn ask(&mut self, now: Instant, process: &mut Process, handler: &mut impl Handler) {
        if !self.open {
            return;
        }
        let mut open = false;
        for (name, want) in self.groups.iter_mut().filter(|(_, want)| !want.asked) {
            let outcome = process.request_group(now, name, want.role, want.terms, want.own.clone());
            if outcome.is_ok() {
                handler.command(&Command::JoinGroup {
                    name,
                    with_state: want.role == Role::State,
                    observes: want.role == Role::Observer,
                    domains: &want.own,
                });
            }
            want.asked = matches!(outcome, Ok(()) | Err(CommandError::AlreadyMember));
            open |= !want.asked;
        }
        self.open = open;
    }
}
