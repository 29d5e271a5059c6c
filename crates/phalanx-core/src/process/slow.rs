//! The policy for slow members: which members are reported as too slow, and how the others learn of it.

use std::time::Duration;

use super::best_effort::put_slow_report;
use super::{Process, Stage};
use crate::api::{Effects, SlowMembers};
use crate::id::{DecreeNumber, Incarnation, TrafficClass};
use crate::member::SlowReport;
use crate::time::Instant;

/// The exchanges within which a multicast is delivered (`docs/costs.md`). A member that is far or late makes no progress in
/// a stream before.
const EXCHANGES: u32 = 8;

impl Process {
    /// Looks for members that hold this process's streams back, unless they are to be tolerated for ever. Called with
    /// each heartbeat.
    pub(super) fn detect_slow(&mut self, now: Instant) {
        let mut passed = now.since(std::mem::replace(&mut self.slow_checked_at, now));
        if self.set.limits.slow_members == SlowMembers::Wait || !matches!(self.stage, Stage::Member) {
            return;
        }
        let me = self.my_rank();
        if self.acceptor.promised().is_some() || self.decided.is_some() {
            // Nobody acknowledges while a view is being decided. The last report stands for as long as one can be.
            if let Some(said) = self.failure_detector.slow().said(me).filter(|_| self.primary).cloned() {
                self.failure_detector.note_slow_report(now, me, said);
            }
            return;
        }
        // A process that was away has not seen the progress of the others.
        if passed > self.turns_every() || !self.primary {
            passed = Duration::ZERO;
        }
        let silence = self.suspect_after() + self.failure_detector.longest_gap();
        let others = self.directory.members.iter().filter_map(|m| Some((m, self.peers.get(m.incarnation)?)));
        let farthest = others.map(|(member, peer)| peer.round_trip() + member.turn_gap()).max().unwrap_or_default();
        let delivery = (farthest + self.set.me.turn_gap()) * EXCHANGES;
        let after = self.set.timing.expel_after.max(silence).max(delivery);
        let mut slow_report = SlowReport { excused: self.transfers.holds_any(), slow: Vec::new() };
        for view_streams in self.group_streams.values_mut() {
            // If the application here takes nothing of the group, the fault may be this member's own.
            let own_waits = !self.app.is_empty_at(self.app.inbox_of(view_streams.meta.group));
            for rank in view_streams.view_streams.lagging(passed, after, own_waits) {
                let who = view_streams.meta.members.get(rank.index()).and_then(|who| self.directory.rank(*who));
                slow_report.slow.extend(who);
            }
        }
        // A state transfer holds up a member that is in the group without its complete state. It is spared.
        slow_report.slow.retain(|rank| !self.failure_detector.slow().is_excused(*rank));
        if !self.primary {
            slow_report.slow.clear(); // members that it does not hear may be gone
        }
        if slow_report.excused {
            slow_report.slow.retain(|rank| *rank != me);
        }
        slow_report.slow.sort_unstable();
        slow_report.slow.dedup();
        slow_report.cut();
        let before = self.failure_detector.slow().said(me).map_or(&[][..], |said| &said.slow);
        self.counters.slow_reported += slow_report.slow.iter().filter(|rank| !before.contains(rank)).count() as u64;
        self.failure_detector.note_slow_report(now, me, slow_report);
    }

    /// Appends this process's slow-member report to its next heartbeat, if it has one.
    pub(super) fn put_own_slow_report(&self, frames: &mut Vec<u8>) {
        if let Some(slow_report) = self.failure_detector.slow().said(self.my_rank()) {
            put_slow_report(frames, self.directory.decree, slow_report);
        }
    }

    /// Sends the report to the coordinator. In a large cell, heartbeats do not reach every member.
    pub(super) fn send_slow_report(&mut self, now: Instant, fx: &mut dyn Effects) {
        let Some(to) = self.lowest_eligible(now).map(|rank| &self.directory.members[rank.index()]) else { return };
        let (who, control) = (to.incarnation, to.control);
        let mut frames = Vec::new();
        self.put_own_slow_report(&mut frames);
        if who != self.me() && !frames.is_empty() {
            let label = self.net.direct(who);
            self.net.send(label, TrafficClass::Control, &[control], &frames, &mut self.counters, fx);
        }
    }

    pub(super) fn handle_slow_report(
        &mut self,
        now: Instant,
        sender: Incarnation,
        decree: DecreeNumber,
        mut slow_report: SlowReport,
    ) {
        slow_report.cut();
        if decree == self.directory.decree
            && let Some(rank) = self.directory.rank(sender)
            && self.failure_detector.note_slow_report(now, rank, slow_report)
        {
            self.attention = true;
        }
    }

    /// Evaluates which members are to leave because they hold others back.
    pub(super) fn evaluate_slow(&mut self, now: Instant) {
        if self.set.limits.slow_members == SlowMembers::Expel {
            self.failure_detector.evaluate_slow(now);
        }
    }
}
