//! Heartbeats: sending them, feeding the failure detector, and acting on suspicions and exclusions.

use std::time::Duration;

use super::best_effort::{put_excluded, put_heartbeat};
use super::join::Joiner;
use super::port::streams_port;
use super::{EXCLUDED_MAX, Process, Stage};
use crate::api::{Effects, Event, LeaveReason};
use crate::id::{DecreeNumber, Incarnation, MemberInfo, Rank, TrafficClass, ViewNumber};
use crate::member::{Control, HeardCount, Patience, Proposal, is_quorum};
use crate::time::Instant;

/// Minimum interval between two notices of exclusion to one incarnation.
const NOTICE_EVERY: Duration = Duration::from_millis(50);
/// Time for which channels to excluded members stay open.
const DEPARTED_FOR: Duration = Duration::from_secs(1);
const _: () = assert!(
    NOTICE_EVERY.as_nanos() < DEPARTED_FOR.as_nanos(),
    "an excluded member is notified while its channel is open"
);

impl Process {
    pub(super) fn heartbeat_interval(&self) -> Duration {
        self.set.timing.heartbeat
    }

    /// Longest tolerated silence: the setting, and at least 4.5 heartbeats.
    pub(super) fn suspect_after(&self) -> Duration {
        self.set.timing.suspect_after.max(self.heartbeat_interval() * 9 / 2)
    }

    pub(super) fn patience(&self) -> Patience {
        let watchers = self.set.limits.watchers;
        Patience { suspect_after: self.suspect_after(), beat: self.heartbeat_interval(), watchers }
    }

    pub(super) fn membership_deadline(&self) -> Option<Instant> {
        let soon = (self.attention || self.coordinator.is_some() || self.waits.need_since.is_some())
            .then(|| self.waits.try_after.max(self.last_poll + Duration::from_millis(5)));
        [Some(self.next_heartbeat), self.fetch_at, soon].into_iter().flatten().min()
    }

    /// Does all membership work of one poll. Inlined, because most polls find nothing due.
    #[inline]
    pub(super) fn poll_membership(&mut self, now: Instant, fx: &mut dyn Effects) {
        if let Some(at) = self.fetch_at
            && now >= at
        {
            self.fetch(now);
        }
        let beat = now >= self.next_heartbeat;
        if matches!(self.stage, Stage::Leaving { .. }) {
            if beat {
                self.next_heartbeat = now + self.heartbeat_interval();
            }
            return self.leave_step(now, fx);
        }
        if beat {
            self.close_departed(now);
            self.next_heartbeat = now + self.heartbeat_interval();
            self.detect_slow(now);
            let (directory, failure_detector) = (&self.directory, &self.failure_detector);
            self.waits.look_at(|who| directory.rank(who).is_some_and(|rank| failure_detector.hears(now, rank)));
            self.beat(now, fx);
            self.forget_past();
            self.resend_requests(now);
            self.ask_around(now, fx);
            self.go_on_reforming(now, fx);
            if matches!(self.stage, Stage::Over) {
                return;
            }
        }
        if beat || self.attention {
            self.report_unreadable(now);
            if matches!(self.stage, Stage::Over) {
                return;
            }
        }
        if self.leaving.is_some() && !beat {
            // Under load a leave waits for the last acks, which come with any packet. So it is checked at each poll,
            // not only at heartbeats.
            self.leave_step(now, fx);
            if matches!(self.stage, Stage::Over) {
                return;
            }
        }
        if beat || self.attention || self.coordinator.is_some() || self.waits.need_since.is_some() {
            self.attention = false;
            self.evaluate_links(now, fx);
            self.evaluate_primary(now);
            self.evaluate_slow(now);
            self.evaluate_paths(now);
            self.leave_step(now, fx);
            if matches!(self.stage, Stage::Over) {
                return;
            }
            self.coordinate(now, fx);
        }
    }

    fn beat(&mut self, now: Instant, fx: &mut dyn Effects) {
        if self.failure_detector.watch().is_some() {
            self.probe_paths(now, fx);
            self.watch_heartbeat(now, fx);
            self.send_findings(now, fx);
            self.send_slow_report(now, fx);
        } else {
            self.probe_paths(now, fx);
            self.heartbeat_all(now, fx);
        }
        self.notify_leavers(now, fx);
        for view_streams in self.group_streams.values_mut() {
            let mut port = streams_port!(self, &mut *fx, &view_streams.meta);
            view_streams.view_streams.heartbeat(&mut port);
        }
    }

    /// Sends heartbeats to the members that left with the decree in force. They go when a quorum has installed it,
    /// which they learn from these.
    fn notify_leavers(&mut self, now: Instant, fx: &mut dyn Effects) {
        let Some(decision) = &self.last_decision else { return };
        let goes = |who: &Incarnation| decision.left.contains(&(*who, LeaveReason::Left));
        let leavers = self.departed.iter().map(|(who, _)| *who).filter(goes);
        let to: Vec<_> = leavers.filter_map(|who| Some(self.peers.get(who)?.control)).collect();
        if !to.is_empty() {
            let mut frames = Vec::with_capacity(32);
            put_heartbeat(&mut frames, self.directory.decree, &self.failure_detector.heard_by_me(now));
            let label = self.net.best_effort();
            self.net.send(label, TrafficClass::Control, &to, &frames, &mut self.counters, fx);
        }
    }

    /// Sends a heartbeat to everybody, in a cell in which everybody watches everybody.
    fn heartbeat_all(&mut self, now: Instant, fx: &mut dyn Effects) {
        let others: Vec<_> =
            self.directory.members.iter().filter(|m| m.incarnation != self.me()).map(|m| m.control).collect();
        if !others.is_empty() {
            let mut frames = Vec::with_capacity(32);
            put_heartbeat(&mut frames, self.directory.decree, &self.failure_detector.heard_by_me(now));
            self.put_own_slow_report(&mut frames);
            self.put_own_findings(now, &mut frames);
            let label = self.net.best_effort();
            self.net.send(label, TrafficClass::Control, &others, &frames, &mut self.counters, fx);
        }
    }

    pub(super) fn handle_heartbeat(
        &mut self,
        now: Instant,
        sender: Incarnation,
        decree: DecreeNumber,
        hears: Vec<bool>,
    ) {
        let Some(rank) = self.note_decree(now, sender, decree) else {
            return self.evaluate_late(now, sender, decree, &hears);
        };
        if self.failure_detector.heard_by(now, rank) != hears {
            self.attention = true;
        }
        self.failure_detector.beat(now, rank, hears);
        self.progress.beat(rank);
    }

    /// Notes which decree a member's heartbeat reports as installed. Returns the member's rank if that decree is in
    /// force here.
    pub(super) fn note_decree(&mut self, now: Instant, sender: Incarnation, decree: DecreeNumber) -> Option<Rank> {
        let rank = self.directory.rank(sender)?;
        if let Some(told) = self.reported_decrees.get_mut(rank.index()) {
            *told = (*told).max(decree);
        }
        if decree < self.directory.decree && now.since(self.installed_at) >= self.set.timing.heartbeat {
            // It missed the decision. Each member answers with a probability that makes about three of them do so: any
            // one suffices, and all would be a burst.
            let tellers =
                self.failure_detector.watch().map_or(self.directory.members.len(), |watch| watch.neighbours().len());
            if self.rng.below(tellers as u64) < 3 {
                self.send_decision(sender);
            }
        }
        (decree == self.directory.decree).then_some(rank)
    }

    /// Evaluates which members are heard by one that has not installed the decree in force. If it hears nobody, it will
    /// never learn of the decision, and its heartbeats must not count as signs of life.
    fn evaluate_late(&mut self, now: Instant, sender: Incarnation, decree: DecreeNumber, hears: &[bool]) {
        let Some(rank) = self.directory.rank(sender).filter(|_| decree < self.directory.decree) else { return };
        let hears: Vec<bool> = if decree.next() == self.directory.decree {
            let named = |who: &Incarnation| self.former.iter().position(|former| former == who);
            let members = self.directory.members.iter().map(|m| named(&m.incarnation));
            // It cannot report on members that joined with the decision, so they count as heard by it.
            members.map(|former| former.is_none_or(|r| hears.get(r).copied().unwrap_or(true))).collect()
        } else if self.is_long_installed(now, rank) {
            // It is more than one decree behind, so its ranks mean nothing here. If it heard anybody, it would have
            // been sent the decision by now.
            vec![false; self.directory.members.len()]
        } else {
            return;
        };
        debug_assert_eq!(hears.len(), self.directory.members.len(), "each member has an entry");
        if self.failure_detector.heard_by(now, rank) != hears {
            self.attention = true;
        }
        self.failure_detector.beat(now, rank, hears);
    }

    /// Whether the decree in force is so old that `rank` must have learnt of it, if it runs and hears anybody.
    pub(super) fn is_long_installed(&self, now: Instant, rank: Rank) -> bool {
        now.since(self.installed_at) > self.suspect_after() * 2 + self.turn_gap(rank)
    }

    /// The longest announced interval between two polls of this member.
    pub(super) fn turn_gap(&self, rank: Rank) -> Duration {
        self.directory.members.get(rank.index()).map_or(Duration::ZERO, MemberInfo::turn_gap)
    }

    /// Adds to the patience with each member its longest interval between polls, and to that with a joiner the time until
    /// its first heartbeat: that of its welcome, and a round trip where this process knows it.
    pub(super) fn bear_gaps(&mut self, proposal: &Proposal) {
        let comes = self.welcome_takes(proposal);
        let gap = |member: &MemberInfo| {
            let is_new = proposal.joiners().any(|who| who == member.incarnation);
            let joiner = self.joiners.get(&member.incarnation);
            let round_trip = joiner.map_or(Duration::ZERO, Joiner::distance);
            member.turn_gap() + if is_new { comes + round_trip } else { Duration::ZERO }
        };
        let gaps: Vec<Duration> = self.directory.members.iter().map(gap).collect();
        self.failure_detector.set_gaps(&gaps);
        self.progress.set_gaps(gaps);
    }

    /// Sends the decision in force to `to`.
    pub(super) fn send_decision(&mut self, to: Incarnation) {
        let Some(proposal) = self.last_decision.clone() else { return };
        if proposal.joiners().any(|who| who == to) {
            self.welcome(to, proposal);
        } else {
            self.send_control(to, &Control::Decide(proposal));
        }
    }

    /// Whether the decree in force will outlive this process, because a quorum of its view has installed it.
    ///
    /// Until then no excluded process may learn of it. Otherwise:
    ///
    /// 1. The coordinator installs a view without a stopped member, notifies that member, and dies before any other
    ///    member knows the view.
    /// 2. The notified member goes away.
    /// 3. The rest are no quorum of the view before, and cannot find out what was decided.
    pub(super) fn will_survive(&self) -> bool {
        let (decree, me) = (self.directory.decree, self.me());
        let told = |r: Rank| self.reported_decrees.get(r.index()).is_some_and(|told| *told >= decree);
        let is_me = |r: Rank| self.directory.members.get(r.index()).is_some_and(|m| m.incarnation == me);
        // In a large cell only few members report to this process. They report how far around them all members have
        // installed it.
        let near = self.failure_detector.watch().map(|watch| watch.installed()).unwrap_or_default();
        self.directory.is_quorum(|r| told(r) || is_me(r) || near.get(r.index()).is_some_and(|installed| *installed))
    }

    /// Notifies an incarnation that a decided view left it out.
    pub(super) fn notify_excluded(&mut self, now: Instant, who: Incarnation, fx: &mut dyn Effects) {
        let Some(place) = self.excluded.iter().position(|(w, _, _)| *w == who) else { return };
        if now.since(self.excluded[place].2) < NOTICE_EVERY || !self.will_survive() {
            return;
        }
        self.excluded[place].2 = now;
        let to = self.excluded[place].1;
        let mut frames = Vec::with_capacity(12);
        put_excluded(&mut frames, self.directory.view);
        let label = self.net.direct(who);
        self.net.send(label, TrafficClass::Control, &[to], &frames, &mut self.counters, fx);
    }

    /// Remembers that `who` was excluded. Its channel stays open for a while, because the decision travels on it.
    pub(super) fn remember_excluded(&mut self, now: Instant, who: Incarnation) {
        if let Some(peer) = self.peers.get(who) {
            if self.excluded.len() >= EXCLUDED_MAX {
                self.excluded.pop_front();
            }
            debug_assert!(self.directory.rank(who).is_none(), "an excluded process is no member");
            // Zero makes its first notice due at once.
            self.excluded.push_back((who, peer.control, Instant::ZERO));
            self.departed.push_back((who, now));
        }
    }

    /// Closes the channels to members that left long enough ago.
    fn close_departed(&mut self, now: Instant) {
        while let Some(&(who, at)) = self.departed.front()
            && now.since(at) > DEPARTED_FOR
        {
            self.departed.pop_front();
            if self.directory.rank(who).is_none() {
                self.peers.remove(who);
                self.opener.forget(who);
            }
        }
    }

    /// Ends this incarnation because a decided view does not contain it.
    pub(super) fn be_excluded(&mut self, view: ViewNumber) {
        match self.stage {
            Stage::Leaving { .. } => self.end(Event::Left),
            _ if self.leaving.is_some() => self.end_in_order(),
            _ => self.end(Event::Excluded { view }),
        }
    }

    /// Reports to the application when no quorum is heard any more, and when one is heard again. A report that none is
    /// heard is about one view: in the next one it is repeated if it still holds.
    fn evaluate_primary(&mut self, now: Instant) {
        let heard = self.failure_detector.heard_by_me(now);
        let is_primary = self.directory.is_quorum(|r| heard[r.index()]);
        debug_assert_eq!(heard.len(), self.directory.members.len(), "each member is heard or not");
        if is_primary == self.primary && (is_primary || self.app.is_outside_in_the_end()) {
            return;
        }
        self.counters.non_primary += u64::from(self.primary);
        self.primary = is_primary;
        for view_streams in self.group_streams.values_mut() {
            view_streams.view_streams.set_primary(is_primary);
            view_streams.touched = true;
        }
        if is_primary {
            // Members not heard again yet may only be a heartbeat late. No ballot begins before all had five heartbeats
            // to be heard.
            self.waits.try_after = self.waits.try_after.max(now + self.heartbeat_interval() * 5);
            self.app.event(Event::Primary);
            return;
        }
        let count = heard.iter().filter(|h| **h).count();
        let silent: Vec<&str> =
            self.directory.members.iter().zip(&heard).filter(|(_, h)| !**h).map(|(m, _)| m.name.as_str()).collect();
        let remedy = if self.failure_detector.not_proved_dead().next().is_none() {
            "all others are proved dead, but may have gone on without this process before, and taken others in; if nobody is left, `phalanx reform` founds the next instance of the cell from here, with its groups"
        } else {
            "it goes on by itself when a quorum is heard again; if the others are gone for good, `phalanx reform` founds the next instance of the cell from here, with its groups"
        };
        let needed = self.directory.quorum();
        let why = format!(
            "hears {count} of {} members of view {}, {needed} are needed (half is enough with the oldest); silent: {}; {remedy}",
            self.directory.members.len(),
            self.directory.view,
            silent.join(", ")
        );
        self.app.event(Event::NonPrimary { heard: count, needed, why });
    }

    /// The coordinator: the lowest-ranked member that is heard here, hears a quorum, and is not to leave.
    pub(super) fn lowest_eligible(&self, now: Instant) -> Option<Rank> {
        Rank::all(self.directory.members.len()).find(|&r| self.is_eligible(now, r))
    }

    pub(super) fn is_eligible(&self, now: Instant, rank: Rank) -> bool {
        !self.to_go(now).contains(&rank) && self.hears_quorum(now, rank)
    }

    /// Whether `rank` is heard here, and hears a quorum according to its heartbeats.
    pub(super) fn hears_quorum(&self, now: Instant, rank: Rank) -> bool {
        let HeardCount { members, with_rank_0 } = self.failure_detector.heard_count(now, rank);
        self.failure_detector.hears(now, rank) && is_quorum(members, self.directory.members.len(), with_rank_0)
    }
}
