//! A process that leaves its cell, and what would be lost if all members left with it (`docs/founding.md`, *When all
//! members left*).

use std::collections::BTreeMap;
use std::time::Duration;

use crate::id::{Incarnation, MemberInfo};
use crate::member::{Directory, GroupEntry, PASSED_ON_LEVEL, Proposal};
use crate::time::Instant;

/// A leaver that still waits after this time tells the application for whom.
const TOLD_AFTER: Duration = Duration::from_secs(1);

/// A leave of the cell that the application asked for.
pub(in crate::process) struct Stop {
    /// Since when.
    pub(in crate::process) since: Instant,
    /// Members that were left out since then and not proved dead, with their seats and names. They may have the state of
    /// the cell's groups, whether they know that they are out or not, and may come back at any time.
    missed: BTreeMap<Incarnation, (u64, String)>,
    /// When it asked, or missed a further member.
    waits_since: Instant,
    /// Whether the application was told of the wait.
    is_told: bool,
}

impl Stop {
    pub(in crate::process) fn new(now: Instant) -> Self {
        Self { since: now, missed: BTreeMap::new(), waits_since: now, is_told: false }
    }

    /// Notes whom a decree leaves out, and who is back. `before`: the members that it changes.
    pub(in crate::process) fn note(&mut self, now: Instant, before: &[MemberInfo], proposal: &Proposal) {
        let missed = proposal.left.iter().filter(|(_, why)| why.may_come_back()).map(|(who, _)| *who);
        for who in missed {
            let info = before.iter().find(|member| member.incarnation == who);
            let (seat, name) = info.map(|info| (info.seat(), info.name.clone())).unwrap_or_default();
            self.missed.insert(who, (seat, name));
            self.waits_since = now;
        }
        // One process runs in a seat at a time, and an unknown seat proves nothing.
        let is_back = |who: Incarnation, seat: u64| {
            proposal.joined.iter().any(|info| info.is_or_keeps(who) || seat != 0 && info.seat() == seat)
        };
        self.missed.retain(|who, (seat, _)| !is_back(*who, *seat));
    }

    /// Notes a proof of death.
    pub(in crate::process) fn died(&mut self, dead: Incarnation) {
        self.missed.remove(&dead);
    }

    /// Whether something would be lost if all members left now: groups wait, or members are missed.
    pub(in crate::process) fn leaves_behind(&self, directory: &Directory) -> bool {
        directory.level >= PASSED_ON_LEVEL
            && (!self.missed.is_empty() || directory.groups.values().any(GroupEntry::is_orphan))
    }

    /// Whether this process does not want all members to leave yet, itself included: what would be lost may be back
    /// within `end_wait`.
    pub(in crate::process) fn waits(&self, now: Instant, end_wait: Duration, directory: &Directory) -> bool {
        now.since(self.waits_since) < end_wait && self.leaves_behind(directory)
    }

    /// What this process waits for, once: when it has waited for a while. If others stay, it is gone before.
    pub(in crate::process) fn news(
        &mut self,
        now: Instant,
        directory: &Directory,
    ) -> Option<(Vec<String>, Vec<String>)> {
        if self.is_told || now.since(self.since) < TOLD_AFTER {
            return None;
        }
        self.is_told = true;
        self.left_behind(directory)
    }

    /// Names what would be lost, if anything: groups that wait, and missed members.
    pub(in crate::process) fn left_behind(&self, directory: &Directory) -> Option<(Vec<String>, Vec<String>)> {
        if !self.leaves_behind(directory) {
            return None;
        }
        let waiting = directory.groups.values().filter(|entry| entry.is_orphan());
        let missed = self.missed.values().map(|(_, name)| name.clone());
        Some((waiting.map(|entry| entry.name.clone()).collect(), missed.collect()))
    }
}
