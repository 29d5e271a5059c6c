//! Probes of the paths to other members, accusations of those that leave them unanswered, and who is to go for that.

use std::collections::BTreeSet;

use super::unrepaired::{Probe, put_findings, put_probe};
use super::{Process, Stage};
use crate::api::{Effects, LeaveReason};
use crate::id::{Incarnation, Lane};
use crate::member::{Agreed, Findings, Judging, ProbeKind, Progress, Proposal};
use crate::time::Instant;

/// From this level on members probe each other (`docs/levels.md`).
const PROGRESS_LEVEL: u16 = 4;
/// Probes may stay unanswered for `suspect_after`, and for no fewer heartbeats than this.
const PATIENCE_BEATS: u32 = 18;

impl Process {
    /// In a cell in which everybody watches everybody.
    fn watches_progress(&self) -> bool {
        let is_member = matches!(self.stage, Stage::Member);
        is_member && self.directory.level >= PROGRESS_LEVEL && self.hearing.watch().is_none()
    }

    /// What is known of paths begins anew with each view.
    pub(super) fn fresh_progress(&self, now: Instant) -> Progress {
        let members = if self.watches_progress() { self.directory.members.len() } else { 0 };
        Progress::new(self.my_rank(), members, now)
    }

    /// With each heartbeat: accuses those that left probes unanswered, and probes again.
    pub(super) fn probe_paths(&mut self, now: Instant, fx: &mut impl Effects) {
        if !self.watches_progress() {
            return;
        }
        // Outside the primary nobody is accused: clocks begin anew when it is primary again.
        let heard = if self.primary { self.hearing.heard_by_me(now) } else { Vec::new() };
        self.note_acknowledged(now);
        let patience = self.suspect_after().max(self.beat_interval() * PATIENCE_BEATS);
        self.counters.paths_accused += self.progress.look(now, &heard, patience);
        if fx.is_congested() {
            return; // nothing more goes out, and what does not go out is not missed
        }
        for (rank, kind) in self.progress.probes(now, &heard) {
            let who = self.directory.members[rank].incarnation;
            self.send_probe(who, Probe { kind, answers: false, sent: now.0 }, fx);
        }
    }

    fn send_probe(&mut self, to: Incarnation, probe: Probe, fx: &mut impl Effects) {
        let Some(peer) = self.peers.get(to) else { return };
        let (lane, address) = match probe.kind {
            ProbeKind::Data | ProbeKind::LongData => (Lane::Data, peer.data),
            ProbeKind::LongControl => (Lane::Control, peer.control),
        };
        let mut frames = Vec::with_capacity(16);
        put_probe(&mut frames, probe, if probe.kind.is_long() { peer.packet_room } else { 0 });
        let label = self.net.direct(to);
        self.net.send(label, lane, &[address], &frames, &mut self.counters, fx);
    }

    /// What each member has acknowledged of streams and of its data channel.
    fn note_acknowledged(&mut self, now: Instant) {
        for rank in 0..self.directory.members.len() {
            let who = self.directory.members[rank].incarnation;
            let channel = self.peers.get(who).map_or(0, |peer| peer.data_channel.acknowledged());
            let streams = self.flows.values().filter_map(|f| Some(f.flow.acknowledged(f.meta.rank(who)?)));
            let sum = streams.fold(channel, u64::wrapping_add);
            self.progress.acknowledged(now, rank, sum);
        }
    }

    pub(super) fn handle_probe(&mut self, now: Instant, from: Incarnation, probe: Probe, fx: &mut impl Effects) {
        let Some(rank) = self.peers.get(from).and_then(|peer| peer.rank) else { return };
        if probe.answers {
            self.progress.answer(now, rank, probe.kind, Instant(probe.sent));
        } else {
            self.send_probe(from, Probe { answers: true, ..probe }, fx);
        }
    }

    /// What goes with this process's next heartbeat, if there is anything to say.
    pub(super) fn put_own_findings(&self, frames: &mut Vec<u8>) {
        let findings = self.progress.findings();
        if !findings.is_empty() {
            put_findings(frames, self.directory.decree, &findings);
        }
    }

    pub(super) fn handle_findings(&mut self, now: Instant, from: Incarnation, decree: u64, findings: Findings) {
        if decree == self.directory.decree
            && let Some(rank) = self.directory.rank(from)
            && self.progress.hear(now, rank, findings)
        {
            self.attention = true;
        }
    }

    /// Finds out who is to leave because a path to it failed.
    pub(super) fn judge_progress(&mut self, now: Instant) {
        if self.progress.is_quiet() {
            return;
        }
        let hears = self.hearing.heard_by_me(now);
        let out = self.hearing.candidates(now, &BTreeSet::new());
        let budget = self.budget.left(now);
        let names = self.directory.members.iter().enumerate();
        let again = names.filter(|(_, m)| self.budget.has_removed(&m.name)).map(|(rank, _)| rank).collect();
        self.progress.judge(Judging { hears: &hears, out: &out, budget, again: &again });
    }

    /// Of those that a decided view leaves out, those without progress count against the budget.
    pub(super) fn note_removed(&mut self, now: Instant, proposal: &Proposal) {
        for (who, why) in &proposal.left {
            let Some(rank) = self.directory.rank(*who) else { continue };
            if *why == LeaveReason::NoProgress {
                let name = self.directory.members[rank].name.clone();
                self.budget.remove(now, &name);
                self.counters.removed_without_progress += 1;
            }
        }
    }

    /// Whether a process of this name, removed for lack of progress, is to wait before it comes back: its paths may still be broken, and
    /// cost the cell a stop each time. A cell that has too few members waits for nobody.
    pub(super) fn is_held_back(&self, now: Instant, name: &str) -> bool {
        self.budget.holds_back(now, name)
            && self.directory.members.len() >= Agreed::members_min(&self.directory.settings)
    }

    /// Members that are heard, and are to leave all the same: too slow, senders of nonsense, or behind a path that failed.
    pub(super) fn to_go(&self, now: Instant) -> BTreeSet<usize> {
        let mut ranks = self.outcast_ranks(now);
        ranks.extend(self.hearing.slow().leavers());
        ranks.extend(self.progress.leavers());
        ranks
    }
}
