//! Path probes: sending and answering them, reporting suspicions, starting an exclusion, and the wait before an
//! excluded member returns.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::best_effort::{Probe, put_findings, put_probe};
use super::{Process, Stage};
use crate::api::{Effects, LeaveReason};
use crate::id::{DecreeNumber, Incarnation, LEVEL, MemberInfo, Rank, TrafficClass};
use crate::link::Channel;
use crate::member::{
    Agreed, Control, Evaluation, Findings, PathKind, PathMonitor, Proposal, REACHED_MAX, RemovalEvidence, SendKind,
    Silence, Watch,
};
use crate::time::Instant;

/// The level from which on members probe each other (`docs/levels.md`).
const PROGRESS_LEVEL: u16 = 4;
/// The level from which on silence is evaluated like other failed paths, and the directory records recent exclusions.
pub(super) const SILENCE_LEVEL: u16 = 5;
/// Multiple of `suspect_after` for which suspicions wait until all members have looked into them. Then the members
/// silent here go.
const OPEN_PATIENCE: u32 = 2;
/// Probes may stay unanswered for `suspect_after`, and for at least this many heartbeats.
const PATIENCE_BEATS: u32 = 18;
const _: () = assert!(PROGRESS_LEVEL < SILENCE_LEVEL, "silence is evaluated where paths are");
const _: () = assert!(SILENCE_LEVEL <= LEVEL, "a build knows the levels that it has rules for");

impl Process {
    /// Whether this process watches paths: everybody watches everybody, or the watch graph is small enough for all to
    /// report to all.
    fn watches_progress(&self) -> bool {
        let is_member = matches!(self.stage, Stage::Member);
        let all_tell_all = self.failure_detector.watch().is_none_or(Watch::may_tell_all);
        is_member && self.directory.level >= PROGRESS_LEVEL && all_tell_all
    }

    /// Whether silence is evaluated like other failed paths: everybody watches everybody.
    fn evaluates_silence(&self) -> bool {
        self.directory.level >= SILENCE_LEVEL && self.failure_detector.watch().is_none() && self.watches_progress()
    }

    /// Starts path monitoring anew with a view.
    pub(super) fn fresh_progress(&self, now: Instant) -> PathMonitor {
        let members = if self.watches_progress() { self.directory.members.len() } else { 0 };
        let mut progress = PathMonitor::new(self.my_rank(), members, now);
        if let Some(watch) = self.failure_detector.watch() {
            progress.set_neighbours(watch.neighbours().iter().copied().collect());
        }
        progress
    }

    /// Suspects members that left probes unanswered, and probes again. Called with each heartbeat.
    pub(super) fn probe_paths(&mut self, now: Instant, fx: &mut dyn Effects) {
        if !self.watches_progress() {
            return;
        }
        // Outside the primary nobody is suspected. The clocks begin anew when this process is in the primary again.
        let heard = if self.primary { self.failure_detector.heard_by_me(now) } else { Vec::new() };
        self.note_acknowledged(now);
        // With a watch graph, findings are sent only while there are any. So those that are not repeated lapse.
        if self.failure_detector.watch().is_some() {
            self.progress.expire(now, self.suspect_after());
        }
        let patience = self.suspect_after().max(self.heartbeat_interval() * PATIENCE_BEATS);
        if self.evaluates_silence() {
            let mut hears = self.failure_detector.heard_by_me(now);
            let behind = self.behind(now);
            behind.iter().for_each(|rank| hears[rank.index()] = false);
            let failure_detector = &self.failure_detector;
            self.progress.detect_silence(&hears, |rank| failure_detector.last_heard(rank));
        }
        // A packet that did not go out cannot be answered. Outside the primary nothing is owed either.
        if fx.is_congested() || !self.primary {
            self.progress.owe_anew(now);
        }
        self.counters.paths_suspected += self.progress.check_probes(now, &heard, patience);
        if fx.is_congested() {
            return; // a probe that does not go out must not be missed
        }
        for rank in self.progress.pings(now, &heard, patience) {
            self.send_control(self.directory.members[rank.index()].incarnation, &Control::Ping);
        }
        for (rank, kind) in self.progress.probes(now, &heard) {
            let who = self.directory.members[rank.index()].incarnation;
            debug_assert_ne!(rank, self.my_rank(), "a member does not ask itself");
            debug_assert_ne!(who, self.me(), "a member does not probe itself");
            self.send_probe(who, Probe { kind, answers: false, sent: now.0 }, fx);
        }
    }

    fn send_probe(&mut self, to: Incarnation, probe: Probe, fx: &mut dyn Effects) {
        let Some(peer) = self.peers.get(to) else { return };
        let (class, address) = match probe.kind {
            PathKind::Data | PathKind::LongData => (TrafficClass::Data, peer.data),
            PathKind::LongControl | PathKind::Silence => (TrafficClass::Control, peer.control),
        };
        let mut frames = Vec::with_capacity(16);
        put_probe(&mut frames, probe, if probe.kind.is_long() { peer.packet_room } else { 0 });
        let label = self.net.direct(to);
        self.net.send(label, class, &[address], &frames, &mut self.counters, fx);
    }

    /// Reports to the path monitor what each member has acknowledged of streams and channels, and whether it owes more.
    fn note_acknowledged(&mut self, now: Instant) {
        let late = self.late();
        for rank in Rank::all(self.directory.members.len()) {
            let who = self.directory.members[rank.index()].incarnation;
            let Some(peer) = self.peers.get(who) else { continue };
            let streams =
                self.group_streams.values().filter_map(|f| Some(f.view_streams.acknowledged(f.meta.rank(who)?)));
            // Both go from data socket to data socket: while one of them moves, no path is broken.
            let data = || [&peer.data_channel, &peer.to_one_channel].into_iter();
            let owes_data = data().any(Channel::is_waited_for);
            let owed = [
                (SendKind::Data, streams.fold(0, u64::wrapping_add), late.contains(&rank)),
                (SendKind::Control, peer.control_channel.acknowledged(), peer.control_channel.is_waited_for()),
                (
                    SendKind::DataChannel,
                    data().fold(0, |sum, channel| sum.wrapping_add(channel.acknowledged())),
                    owes_data,
                ),
            ];
            for (sent, sum, owes) in owed {
                self.progress.acknowledged(now, rank, sent, sum, owes);
            }
        }
    }

    pub(super) fn handle_probe(&mut self, now: Instant, from: Incarnation, probe: Probe, fx: &mut dyn Effects) {
        let Some(rank) = self.peers.get(from).and_then(|peer| peer.rank) else { return };
        if probe.answers {
            self.progress.answer(now, rank, probe.kind, Instant(probe.sent));
        } else {
            self.send_probe(from, Probe { answers: true, ..probe }, fx);
        }
    }

    /// Appends this process's findings to its next heartbeat, if there are any.
    pub(super) fn put_own_findings(&mut self, now: Instant, frames: &mut Vec<u8>) {
        let mut findings = self.progress.findings();
        if self.evaluates_silence() {
            findings.dead = self.failure_detector.dead().into_iter().collect();
        }
        if self.directory.level >= SILENCE_LEVEL {
            findings.reached = self.reached(now);
        }
        // An empty list goes out once after the last finding, so that the others drop it at once.
        if std::mem::replace(&mut self.has_findings, !findings.is_empty()) || self.has_findings {
            put_findings(frames, self.directory.decree, &findings);
        }
    }

    pub(super) fn handle_findings(
        &mut self,
        now: Instant,
        from: Incarnation,
        decree: DecreeNumber,
        findings: Findings,
    ) {
        if self.directory.rank(from).is_some() {
            self.note_reached(now, from, &findings.reached);
        }
        if decree == self.directory.decree
            && let Some(rank) = self.directory.rank(from)
            && self.progress.hear(now, rank, findings)
        {
            self.attention = true;
        }
    }

    /// Evaluates which members are to leave because a path to them failed.
    pub(super) fn evaluate_paths(&mut self, now: Instant) {
        let evaluates_silence = self.evaluates_silence();
        let behind = if evaluates_silence { self.behind(now) } else { BTreeSet::new() };
        if self.progress.is_quiet() && behind.is_empty() && !(evaluates_silence && self.failure_detector.has_dead()) {
            return;
        }
        let hears = self.failure_detector.heard_by_me(now);
        let out = if evaluates_silence {
            self.failure_detector.dead()
        } else {
            self.failure_detector.candidates(now, &BTreeSet::new())
        };
        // When everybody is late, the cause is overload and not a fault. The budget keeps a cell from taking itself
        // apart then.
        let budget = self.removals.left(now);
        let names = Rank::enumerate(&self.directory.members);
        let again = names.filter(|(_, m)| self.removals.has_removed(&m.name)).map(|(rank, _)| rank).collect();
        let silence = evaluates_silence.then_some(Silence { behind: &behind, beat: self.heartbeat_interval() });
        self.progress.evaluate(Evaluation { now, hears: &hears, out: &out, budget, again: &again, silence });
    }

    /// Members that are heard, and have not installed the view in force for long, as far as their heartbeats tell. This
    /// member suspects them of silence, and the others check that: a path may lose heartbeats alone.
    fn behind(&self, now: Instant) -> BTreeSet<Rank> {
        let (decree, me) = (self.directory.decree, self.my_rank());
        let told = Rank::enumerate(&self.reported_decrees).filter(|(rank, told)| *rank != me && **told < decree);
        told.map(|(rank, _)| rank)
            .filter(|rank| self.is_long_installed(now, *rank) && self.failure_detector.hears(now, *rank))
            .collect()
    }

    /// Members that are candidates for exclusion because they are silent or dead, or because a path to them failed.
    pub(super) fn candidates(&self, now: Instant) -> BTreeSet<Rank> {
        if !self.evaluates_silence() || self.is_unsettled(now) {
            return self.failure_detector.candidates(now, &BTreeSet::new());
        }
        let mut candidates = self.failure_detector.dead();
        candidates.extend(self.progress.leavers().keys());
        candidates
    }

    /// Whether suspicions have stood for too long without all members having looked into them.
    pub(super) fn is_unsettled(&self, now: Instant) -> bool {
        self.evaluates_silence() && self.progress.open_for(now) > self.suspect_after() * OPEN_PATIENCE
    }

    /// Evidence against members that are to leave, for the record in the directory.
    pub(super) fn removal_evidence(&self, candidates: &BTreeSet<Rank>) -> BTreeMap<Incarnation, RemovalEvidence> {
        let who = |rank: Rank| self.directory.members.get(rank.index()).map(|member| member.incarnation);
        let charge = |rank: &Rank| {
            let case = self.progress.leavers().get(rank).cloned().unwrap_or_default();
            // A member that nobody heard is at fault itself, whichever member hears it again.
            let suspecters = if case.is_heard { case.suspecters } else { Vec::new() };
            let suspecters = suspecters.into_iter().filter_map(who).collect();
            Some((who(*rank)?, RemovalEvidence { counts: case.is_heard, suspecters }))
        };
        candidates.iter().filter_map(charge).collect()
    }

    /// Records exclusions for lack of progress on levels without a record in the directory.
    pub(super) fn note_removed(&mut self, now: Instant, proposal: &Proposal) {
        for (who, why) in &proposal.left {
            let Some(rank) = self.directory.rank(*who) else { continue };
            let name = self.directory.members[rank.index()].name.clone();
            let has_record = proposal.level >= SILENCE_LEVEL;
            if *why == LeaveReason::NoProgress {
                self.counters.removed_without_progress += 1;
            }
            if !has_record && *why == LeaveReason::NoProgress {
                self.removals.remove(now, &name, *who, RemovalEvidence { counts: true, suspecters: Vec::new() });
            }
        }
    }

    /// Whether a recently excluded process has to wait before it comes back.
    ///
    /// Its paths may still be broken, and each exclusion stops the cell for a while. It waits until its time is over
    /// and the members to which a path failed can talk with it. A cell that has too few members makes nobody wait.
    pub(super) fn is_held_back(&self, now: Instant, joiner: &MemberInfo) -> bool {
        let (wait, away) = self.holders_back(now, joiner);
        !wait.is_zero() || !away.is_empty()
    }

    /// How long a recently excluded process still has to wait if nothing breaks, and the members that it cannot talk
    /// with.
    pub(super) fn holders_back(&self, now: Instant, joiner: &MemberInfo) -> (Duration, Vec<MemberInfo>) {
        let is_adequate = self.directory.members.len() >= Agreed::members_min(&self.directory.settings);
        let Some(removal) = self.removals.of(&joiner.name).filter(|_| is_adequate) else { return Default::default() };
        let steady = removal.steady_for(&joiner.earlier_incarnations());
        let mut wait = self.removals.waits(now, &joiner.name);
        let mut away = Vec::new();
        for by in removal.suspecters.iter().chain([&self.me()]) {
            let reached = self.reached.get(&(*by, joiner.incarnation));
            let Some(rank) = self.directory.rank(*by) else { continue };
            match reached.filter(|(_, last)| now.since(*last) < self.reached_for()) {
                Some((since, _)) => wait = wait.max(steady.saturating_sub(now.since(*since))),
                None if !removal.suspecters.contains(by) => wait = wait.max(steady),
                None => away.push(self.directory.members[rank.index()].clone()),
            }
        }
        (wait, away)
    }

    /// Notes that `by` can talk with these processes, which wait to come back.
    pub(super) fn note_reached(&mut self, now: Instant, by: Incarnation, joiners: &[Incarnation]) {
        let lasts = self.reached_for();
        for joiner in joiners.iter().take(REACHED_MAX) {
            let (since, last) = self.reached.entry((by, *joiner)).or_insert((now, now));
            if now.since(*last) >= lasts {
                *since = now;
            }
            *last = now;
        }
        if !joiners.is_empty() {
            self.reached.retain(|_, (_, last)| now.since(*last) < lasts);
        }
    }

    /// The longest silence of a held-back process that does not count as a break. It speaks less often than a member,
    /// so it gets twice the patience.
    fn reached_for(&self) -> Duration {
        self.suspect_after() * 2
    }

    /// Held-back processes that this member once suspected and can talk with now.
    fn reached(&self, now: Instant) -> Vec<Incarnation> {
        let me = self.me();
        let joiners = self.joiners.iter().filter(|(_, joiner)| now.since(joiner.last) < joiner.lapses_after());
        let waits = |name: &str| self.removals.of(name).is_some_and(|removal| removal.suspecters.contains(&me));
        joiners.filter(|(_, joiner)| waits(&joiner.info.name)).map(|(who, _)| *who).take(REACHED_MAX).collect()
    }

    /// Members that are heard and are to leave all the same: behind a failed path, too slow, or senders of nonsense. The
    /// last two stay while the decree without them needs them, because others go: without a quorum it could not be made.
    pub(super) fn to_go(&self, now: Instant) -> BTreeSet<Rank> {
        let mut to_go: BTreeSet<Rank> = self.progress.leavers().keys().copied().collect();
        let (slow, outcasts) = (self.failure_detector.slow().leavers(), self.outcast_ranks());
        // The common case.
        if slow.is_empty() && outcasts.is_empty() {
            return to_go;
        }
        let gone = self.candidates(now);
        let stay = |rank: Rank, to_go: &BTreeSet<Rank>| !gone.contains(&rank) && !to_go.contains(&rank);
        if self.directory.is_quorum(|rank| stay(rank, &to_go) && !slow.contains(&rank)) {
            to_go.extend(slow);
        }
        let heard = self.failure_detector.heard_by_me(now);
        debug_assert_eq!(heard.len(), self.directory.members.len(), "each member is heard or not");
        if self.directory.is_quorum(|rank| heard[rank.index()] && stay(rank, &to_go) && !outcasts.contains(&rank)) {
            to_go.extend(outcasts);
        }
        to_go
    }
}
