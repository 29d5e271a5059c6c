//! What a process tells of itself, to operators and to the simulator.

use std::sync::Arc;

use super::{Process, Stage};
use crate::id::GroupId;
use crate::member::Phase;

/// Where this process's own stream in one group stands.
#[derive(Clone, Debug)]
pub struct StreamStatus {
    /// The group.
    pub group: GroupId,
    /// Its name.
    pub name: Arc<str>,
    /// The view's number.
    pub view: u64,
    /// Members of the view.
    pub members: usize,
    /// Messages accepted and not yet in a packet.
    pub queued_messages: usize,
    /// Their bytes.
    pub queued_bytes: usize,
    /// Packets sent and not stable.
    pub unstable_packets: u64,
    /// The member whose window or missing receipts hold the stream back, if something is queued or unstable.
    pub waits_for: Option<String>,
    /// Messages sent in this view.
    pub sent: u64,
    /// Messages delivered in this view.
    pub delivered: u64,
}

/// What a process is in the middle of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// Looking for its cell, or waiting to be taken into a group.
    pub joining: bool,
    /// Between promise and installation of a view.
    pub flushing: bool,
    /// Giving or taking state.
    pub transferring: bool,
    /// Gathering reports, or waiting for cuts to be held, as coordinator.
    pub gathering: bool,
    /// Proposing as coordinator.
    pub proposing: bool,
}

impl Process {
    /// One entry per group this process is a member of.
    #[must_use]
    pub fn streams(&self) -> Vec<StreamStatus> {
        self.flows
            .values()
            .map(|f| {
                let (queued_messages, queued_bytes) = f.flow.queued();
                let (sent, delivered) = f.flow.counts();
                let busy = queued_messages > 0 || f.flow.unstable_packets() > 0;
                let waits_for = if busy { f.flow.waits_for() } else { None };
                let name_of = |rank: usize| {
                    let who = f.meta.members.get(rank)?;
                    self.directory.members.iter().find(|m| m.incarnation == *who).map(|m| m.name.clone())
                };
                StreamStatus {
                    group: f.meta.group,
                    name: f.meta.name.clone(),
                    view: f.meta.view,
                    members: f.meta.members.len(),
                    queued_messages,
                    queued_bytes,
                    unstable_packets: f.flow.unstable_packets(),
                    waits_for: waits_for.and_then(name_of),
                    sent,
                    delivered,
                }
            })
            .collect()
    }

    /// Every counter, by name, in a fixed order that never changes while the process lives.
    pub fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        self.counters.each(each);
    }

    /// Unfinished work.
    #[must_use]
    pub fn activity(&self) -> Activity {
        let phase = self.coordinator.as_ref().map(|c| &c.phase);
        Activity {
            joining: matches!(self.stage, Stage::Searching(_)),
            flushing: self.acceptor.promised().is_some() || self.decided.is_some(),
            transferring: self.transfers.is_active(),
            gathering: matches!(phase, Some(Phase::Gathering | Phase::Filling { .. })),
            proposing: matches!(phase, Some(Phase::Proposing { .. })),
        }
    }

    /// What is due to the application and was not taken.
    #[must_use]
    pub fn undelivered(&self) -> usize {
        self.app.len()
    }

    /// Checks what must always hold. Tests and the simulator call it after every input.
    ///
    /// # Panics
    /// When it does not hold.
    pub fn check_invariants(&self) {
        self.peers.check_invariants(self.set.timing.ack_delay);
        for flow in self.flows.values() {
            flow.flow.check_invariants();
            assert!(flow.touched || flow.deadline() == flow.flow.deadline(), "a flow rests on what has changed");
            assert!(flow.meta.space < self.directory.next_space, "a flow's space was decided");
        }
        if matches!(self.stage, Stage::Member) {
            assert!(self.directory.rank(self.me()).is_some(), "a member is in its view");
            for flow in self.flows.values() {
                let entry = self.directory.groups.get(&flow.meta.group);
                assert!(entry.is_some_and(|e| e.space == flow.meta.space), "a flow belongs to a view in force");
            }
        }
        if let Some((ballot, _)) = self.acceptor.accepted() {
            assert!(self.acceptor.promised().is_some_and(|p| p >= *ballot), "accepted beyond the promise");
        }
    }
}
