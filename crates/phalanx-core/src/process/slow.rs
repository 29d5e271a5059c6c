//! The policy for a member that stays behind: who is accused of it, and how the others learn of that.

use std::time::Duration;

use super::unrepaired::put_complaint;
use super::{Process, Stage};
use crate::api::{Effects, SlowMembers};
use crate::id::{Incarnation, Lane};
use crate::member::Complaint;
use crate::time::Instant;

impl Process {
    /// With each heartbeat: looks who holds the streams of this process back, if that is nothing to be borne for ever.
    pub(super) fn look_for_slow(&mut self, now: Instant) {
        let mut passed = now.since(std::mem::replace(&mut self.looked_for_slow, now));
        if self.set.limits.slow_members == SlowMembers::Wait || !matches!(self.stage, Stage::Member) {
            return;
        }
        let me = self.my_rank();
        if self.acceptor.promised().is_some() || self.decided.is_some() {
            // Nobody acknowledges while a view is being decided; what was said before stands, for as long as one can be.
            if let Some(said) = self.hearing.slow().said(me).filter(|_| self.primary).cloned() {
                self.hearing.complains(now, me, said);
            }
            return;
        }
        // Who was away has not seen the progress of the others.
        if passed > self.turns_every() || !self.primary {
            passed = Duration::ZERO;
        }
        let after = self.set.timing.expel_after.max(self.suspect_after() + self.hearing.longest_gap());
        let own_waits = !self.app.is_empty();
        let mut complaint = Complaint { excused: self.transfers.holds_any(), slow: Vec::new() };
        for flow in self.flows.values_mut() {
            for rank in flow.flow.behind(passed, after, own_waits) {
                let who = flow.meta.members.get(rank).and_then(|who| self.directory.rank(*who));
                complaint.slow.extend(who.and_then(|rank| u16::try_from(rank).ok()));
            }
        }
        complaint.slow.retain(|rank| !self.hearing.slow().is_excused(usize::from(*rank)));
        if !self.primary {
            complaint.slow.clear(); // whoever it does not hear may be gone
        }
        if complaint.excused {
            complaint.slow.retain(|rank| usize::from(*rank) != me);
        }
        complaint.slow.sort_unstable();
        complaint.slow.dedup();
        complaint.cut();
        let before = self.hearing.slow().said(me).map_or(&[][..], |said| &said.slow);
        self.counters.slow_accused += complaint.slow.iter().filter(|rank| !before.contains(rank)).count() as u64;
        self.hearing.complains(now, me, complaint);
    }

    /// The complaint that goes with this process's next heartbeat, if it has any.
    pub(super) fn put_own_complaint(&self, frames: &mut Vec<u8>) {
        if let Some(complaint) = self.hearing.slow().said(self.my_rank()) {
            put_complaint(frames, self.directory.decree, complaint);
        }
    }

    /// In a large cell heartbeats do not go to everybody: whoever would decide on it is told.
    pub(super) fn send_complaint(&mut self, now: Instant, fx: &mut impl Effects) {
        let Some(to) = self.lowest_eligible(now).map(|rank| &self.directory.members[rank]) else { return };
        let (who, control) = (to.incarnation, to.control);
        let mut frames = Vec::new();
        self.put_own_complaint(&mut frames);
        if who != self.me() && !frames.is_empty() {
            let label = self.net.direct(who);
            self.net.send(label, Lane::Control, &[control], &frames, &mut self.counters, fx);
        }
    }

    pub(super) fn handle_complaint(
        &mut self,
        now: Instant,
        sender: Incarnation,
        decree: u64,
        mut complaint: Complaint,
    ) {
        complaint.cut();
        if decree == self.directory.decree
            && let Some(rank) = self.directory.rank(sender)
            && self.hearing.complains(now, rank, complaint)
        {
            self.attention = true;
        }
    }

    /// Finds out who is to leave because it holds others back.
    pub(super) fn judge_slow(&mut self, now: Instant) {
        if self.set.limits.slow_members == SlowMembers::Expel {
            self.hearing.judge_slow(now);
        }
    }
}
