//! Deciding the next view: when to start a ballot, and the steps of acceptor and coordinator.

use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::groups::REQUESTS_MAX;
use super::unreadable::{NONSENSE_VERDICT_LEVEL, unread_of};
use super::waits::ROUNDS;
use super::{Process, Stage};
use crate::api::{Domain, Effects, LeaveReason};
use crate::id::{DecreeNumber, GroupId, Incarnation, MemberInfo, Rank, check_name};
use crate::member::{
    Ballot, BallotEvent, Control, Coordinator, GroupEntry, GroupNames, GroupRoom, MembershipRequests, Phase, Promise,
    Proposal, Report, Returns, Role, Unreadable, Wedge,
};
use crate::time::Instant;
use crate::wire::DropReason;

/// A member that sends heartbeats and answers no coordinator is left out after this many times `suspect_after`.
const MUTE_PATIENCE: u32 = 5;
/// A leaver that one decree did not let go is proposed again after this time.
const HELD_FOR: Duration = Duration::from_millis(200);

impl Process {
    pub(super) fn handle_control(&mut self, now: Instant, from: Incarnation, message: Control, fx: &mut dyn Effects) {
        if matches!(self.stage, Stage::Over) {
            return; // an earlier message of the same packet ended this incarnation
        }
        match message {
            Control::Founding(message) => return self.handle_founding(now, from, message, fx),
            Control::Welcome(welcome) => return self.handle_welcome(now, *welcome, fx),
            Control::WelcomePart(part) => return self.handle_welcome_part(now, from, part, fx),
            Control::Wedge(wedge) => return self.handle_wedge(now, from, &wedge, fx),
            Control::HoldsState { group, view } => return self.handle_holds_state(from, group, view),
            _ => {}
        }
        if !matches!(self.stage, Stage::Member | Stage::Leaving { .. }) {
            return;
        }
        match message {
            Control::Report(report) => {
                self.waits.answered(now, from);
                self.handle_report(now, from, report, fx);
            }
            Control::Refuse { decree, promised } => {
                self.waits.answered(now, from);
                self.handle_refuse(now, decree, promised);
            }
            Control::Propose { ballot, proposal } => self.handle_propose(now, from, ballot, proposal, fx),
            Control::Accepted { decree, ballot } => {
                self.waits.answered(now, from);
                self.handle_accepted(now, from, decree, ballot, fx);
            }
            Control::Decide(proposal) => self.handle_decide(now, proposal, fx),
            Control::Fetch { space, rank, from: first, to } => self.handle_fetch(from, space, rank, first, to),
            Control::Recovered(packet) => self.handle_recovered(now, packet, fx),
            Control::MembershipRequests(mut requests) => {
                // The outcome of the decree may have changed what the sender wants: a late request to leave was once
                // granted after its sender had left and come again. The sender repeats a request that still stands.
                let is_late = requests.decree < self.directory.decree;
                self.counters.requests_late += u64::from(is_late);
                let stands = !is_late && self.directory.rank(from).is_some();
                let named = requests.groups.iter().all(|wish| check_name(&wish.name).is_ok());
                if named {
                    self.counters.requests_cut += requests.cut(REQUESTS_MAX) as u64;
                    self.attention |= self.waiting.gathering.note(now, &self.directory, from, &requests);
                    if stands {
                        self.requests.insert(from, requests);
                        self.attention = true;
                    }
                }
            }
            Control::Unreadable(unreadable) => self.handle_unreadable(from, unreadable),
            Control::Leave { waits } => {
                if self.directory.rank(from).is_some() && self.leavers.insert(from, waits) != Some(waits) {
                    self.attention = true;
                }
            }
            Control::Out => self.note_out(from),
            Control::FormerFoundList
            | Control::Ping
            | Control::FormerFoundDecide
            | Control::Founding(_)
            | Control::Welcome(_)
            | Control::WelcomePart(_)
            | Control::Wedge(_)
            | Control::HoldsState { .. } => {}
        }
    }

    /// Starts or drives a ballot, if one is needed and it is this process's turn.
    pub(super) fn coordinate(&mut self, now: Instant, fx: &mut dyn Effects) {
        // Only a member coordinates. The last member of a cell once ended in the middle of an iteration, and took a
        // joiner in during the rest of it.
        if !matches!(self.stage, Stage::Member) || self.decided.is_some() {
            return;
        }
        if self.coordinator.is_some() {
            return self.drive_ballot(now, fx);
        }
        let requests = self.current_requests(now);
        let mut candidates = self.candidates(now);
        candidates.extend(self.to_go(now));
        candidates.extend(self.mute(now));
        let is_unreadable = !self.unreadable_groups().is_empty();
        let need =
            !candidates.is_empty() || self.acceptor.promised().is_some() || !requests.is_empty() || is_unreadable;
        if !need {
            // Joiners that still gather keep membership polled, although there is nothing to decide yet.
            self.waits.need_since = self.joiners_wait().then_some(now);
            return;
        }
        let since = *self.waits.need_since.get_or_insert(now);
        if now < self.waits.try_after {
            return;
        }
        let is_calm = self.acceptor.promised().is_none() && !is_unreadable;
        let (only_wished, only_accused) = (is_calm && candidates.is_empty(), is_calm && requests.is_empty());
        let (decree, lists) = (self.directory.decree, &self.requests);
        let is_repeated = |who| lists.get(&who).is_some_and(|list| list.decree == decree);
        if only_wished && self.waits.awaits_repeats(now, is_repeated) {
            return;
        }
        // In a large cell, suspicions about a link wait for up to two heartbeats: other reports may be on their way.
        if only_accused && now.since(since) < self.heartbeat_interval() * 2 && !self.failure_detector.is_settled(now) {
            return;
        }
        let me = self.my_rank();
        if !self.is_eligible(now, me) {
            return;
        }
        // The lowest eligible rank coordinates. The others wait, each longer than the one before, because rival ballots
        // delay each other.
        let goes_first = |rank: Rank| self.is_eligible(now, rank) && !self.waits.is_given_up(rank);
        let before = Rank::all(me.index()).filter(|&rank| goes_first(rank)).count();
        let round = self.ballot_round(now);
        let patience = self.waits.length(self.set.timing.ballot_step * 4, round);
        if before > 0 && now.since(since) < patience.saturating_mul(u32::try_from(before).unwrap_or(u32::MAX)) {
            return;
        }
        // Another member's ballot that is under way is not superseded before its time is over.
        let rival = self.waits.rival_until(self.set.timing.ballot_step, round);
        let has_its_time = |(rank, until)| now < until && !candidates.contains(&rank) && self.is_eligible(now, rank);
        if rival.is_some_and(has_its_time) {
            return;
        }
        self.start_ballot(now, candidates, requests, fx);
    }

    /// The changes that the next view should bring.
    fn current_requests(&mut self, now: Instant) -> MembershipRequests {
        let (joiners, terms) = self.ready_joiners(now);
        let mut requests = MembershipRequests { joiners, terms, ..MembershipRequests::default() };
        if !self.held_leavers.is_empty() {
            let held_for = HELD_FOR.max(self.ballot_round(now) * ROUNDS);
            self.held_leavers.retain(|_, since| now.since(*since) < held_for);
        }
        let held = &self.held_leavers;
        let may_go = |who: &Incarnation| self.directory.rank(*who).is_some() && !held.contains_key(who);
        // The last ones leave together, and none of them before what they would lose had time to come back.
        let goes = |member: &MemberInfo| self.leavers.contains_key(&member.incarnation);
        let last_wait = self.leavers.values().any(|waits| *waits) && self.directory.members.iter().all(goes);
        if !last_wait {
            requests.leavers = self.leavers.keys().copied().filter(may_go).collect();
        }
        let names = LazyCell::new(|| GroupNames::of(&self.directory));
        let room = LazyCell::new(|| GroupRoom::of(&self.directory));
        let decree = self.directory.decree;
        for (&who, list) in self.requests.iter().filter(|(_, list)| list.decree == decree) {
            let Some(rank) = self.directory.rank(who) else { continue };
            for said in &list.domains {
                requests.domains.insert((said.group.clone(), who), said.own.clone());
            }
            let may_make = LazyCell::new(|| room.takes(&self.directory.members[rank.index()]));
            for wish in &list.groups {
                // What no decree can bring is no reason for a ballot: it would end with nothing changed, and the
                // requests that follow its decree would begin the next one.
                let entry = names.get(&wish.name);
                let is_vain = |entry: &GroupEntry| {
                    let takes = wish.join && wish.role == Role::State;
                    let list = if takes { entry.domains() } else { None };
                    let lacks = |list: Vec<Domain>| requests.mismatch(&list, &wish.name, who).is_some();
                    wish.join && !entry.suits(wish.role) || list.is_some_and(lacks)
                };
                let makes_none = || !*may_make || wish.role == Role::Observer;
                if !names.leaves_open(who, wish) || entry.map_or_else(makes_none, |(_, entry)| is_vain(entry)) {
                    continue;
                }
                if wish.join {
                    requests.group_joins.push((wish.name.clone(), who));
                    if wish.only_new {
                        requests.founders.insert((wish.name.clone(), who));
                    }
                    if wish.role != Role::default() {
                        requests.roles.insert((wish.name.clone(), who), wish.role);
                    }
                    requests.terms.extend(wish.terms.map(|terms| ((wish.name.clone(), who), terms)));
                } else if !held.contains_key(&who) {
                    requests.group_leaves.push((wish.name.clone(), who));
                }
            }
        }
        requests.note_growing(&self.directory);
        requests.rise = self.requested_rise();
        requests.returns = self.waiting.gathering.requested_returns(now, &self.directory, &self.requests);
        // A decree takes them off the directory's list of lost members (`docs/founding.md`, *When all members left*).
        requests.out.clone_from(&self.out);
        requests
    }

    pub(super) fn start_ballot(
        &mut self,
        now: Instant,
        mut candidates: BTreeSet<Rank>,
        mut requests: MembershipRequests,
        fx: &mut dyn Effects,
    ) {
        let n = self.directory.members.len();
        let me = self.my_rank();
        debug_assert!(self.decided.is_none(), "a decided proposal is installed before the next ballot");
        debug_assert!(self.coordinator.is_none(), "one ballot at a time");
        debug_assert!(candidates.iter().all(|rank| rank.index() < n), "a candidate is a member");
        candidates.remove(&me);
        requests.removal_evidence = self.removal_evidence(&candidates);
        requests.removals = Some((now, self.removals.clone()));
        // Leavers are asked too. They promise, hold the cut and accept like survivors: otherwise the oldest of two
        // could never leave.
        let asked: BTreeSet<Rank> = Rank::all(n).filter(|r| !candidates.contains(r)).collect();
        if !self.directory.is_quorum(|r| asked.contains(&r)) {
            return; // without a quorum no decree can come of it
        }
        if !self.directory.can_number_views() {
            self.counters.numbers_used_up += 1;
            return;
        }
        let leaving = |who: &Incarnation| {
            requests.leavers.contains(who) || self.directory.rank(*who).is_none_or(|r| candidates.contains(&r))
        };
        let named: BTreeSet<&str> = requests
            .group_joins
            .iter()
            .chain(&requests.group_leaves)
            .map(|(name, _)| name.as_str())
            .chain(requests.joiners.iter().flat_map(|(_, groups)| groups.iter().map(String::as_str)))
            .collect();
        let unreadable = self.unreadable_groups();
        let changes = |(id, e): &(&GroupId, &GroupEntry)| {
            let is_wished = named.contains(e.name.as_str()) && !e.is_orphan();
            is_wished || e.members.iter().any(leaving) || unreadable.contains(id) || requests.growing.contains(id)
        };
        let groups: BTreeSet<GroupId> = self.directory.groups.iter().filter(changes).map(|(&id, _)| id).collect();
        if self.acceptor.promised().is_some_and(|b| b.rank != me) {
            self.counters.take_overs += 1;
        }
        self.counters.ballots += 1;
        self.waits.begins(now, self.ballot_round(now));
        self.counters.suspicions_unsettled += u64::from(self.is_unsettled(now));
        let by_some = |returns: &&Returns| returns.donor.is_some() && returns.by_some;
        self.counters.revivals_by_some += requests.returns.values().filter(by_some).count() as u64;
        // A faulty member may have named the last round number. Rounds end there, ballots do not: hence the saturating
        // addition.
        self.max_round = self.max_round.max(self.acceptor.promised().map_or(0, |b| b.round)).saturating_add(1);
        let ballot = Ballot { round: self.max_round, rank: me };
        let decree = self.directory.decree.next();
        let slow = self.failure_detector.slow().leavers().iter().map(|rank| (*rank, LeaveReason::TooSlow));
        let stuck = self.progress.leavers().keys().map(|rank| (*rank, LeaveReason::NoProgress));
        let is_heard = |(rank, _): &(Rank, LeaveReason)| self.failure_detector.hears(now, *rank);
        // A member that this coordinator does not hear leaves as unreachable, whatever else is held against it.
        let reasons = slow.chain(stuck).filter(is_heard).collect();
        let ballot_of_mine = Coordinator {
            decree,
            ballot,
            reasons,
            candidates,
            asked: asked.clone(),
            groups: groups.clone(),
            requests,
            reports: BTreeMap::new(),
            unread: BTreeMap::new(),
            recovering: BTreeSet::new(),
            recovered: BTreeSet::new(),
            phase: Phase::Gathering,
            since: now,
        };
        Coordinator::enter(&mut self.coordinator, BallotEvent::Start, |coordinator| {
            *coordinator = Some(ballot_of_mine);
        });
        let wedge = Wedge { decree, ballot, groups: groups.into_iter().collect(), cuts: Vec::new() };
        for &rank in asked.iter().filter(|&&r| r != me) {
            self.ask(now, rank, &Control::Wedge(wedge.clone()));
        }
        let me = self.me();
        self.handle_wedge(now, me, &wedge, fx);
    }

    /// Evaluates the ballot under way. If members fell silent, a new ballot begins with them as candidates.
    fn drive_ballot(&mut self, now: Instant, fx: &mut dyn Effects) {
        let Some(c) = &self.coordinator else { return };
        let unanswered: BTreeSet<Rank> = match &c.phase {
            Phase::Gathering => c.asked.iter().filter(|r| !c.reports.contains_key(r)).copied().collect(),
            Phase::Recovering { proposal } => c.lacking(proposal),
            Phase::Proposing { accepted, .. } => c.asked.difference(accepted).copied().collect(),
        };
        let mut candidates = self.candidates(now);
        // A part of a cut may be held by one member alone. If that member is lost, the cut is out of reach, although it
        // has answered.
        let recovering = matches!(c.phase, Phase::Recovering { .. });
        let lost = candidates.iter().any(|r| unanswered.contains(r) || (recovering && c.asked.contains(r)));
        let mute: BTreeSet<Rank> = self.mute(now).filter(|rank| unanswered.contains(rank)).collect();
        if !lost && mute.is_empty() {
            return;
        }
        if !self.is_eligible(now, self.my_rank()) {
            self.give_up_ballot(now);
            return;
        }
        candidates.extend(mute);
        candidates.extend(self.to_go(now));
        let requests = self.current_requests(now);
        Coordinator::end(&mut self.coordinator, BallotEvent::GiveUp);
        self.start_ballot(now, candidates, requests, fx);
        if self.coordinator.is_none() {
            self.give_up_ballot(now);
        }
    }

    /// Sends a coordinator's request to a member, and notes since when an answer is due.
    fn ask(&mut self, now: Instant, rank: Rank, question: &Control) {
        let who = self.directory.members[rank.index()].incarnation;
        debug_assert_ne!(who, self.me(), "a coordinator asks itself without a packet");
        self.waits.asks(now, who);
        self.send_control(who, question);
    }

    /// Members that are heard, and have not answered this coordinator for much longer than silence is tolerated.
    pub(super) fn mute(&self, now: Instant) -> impl Iterator<Item = Rank> {
        let patience = self.suspect_after() * MUTE_PATIENCE;
        let ranked = self.waits.owing().filter_map(|(who, since)| Some((self.directory.rank(who)?, since)));
        ranked.filter(move |(rank, since)| now.since(*since) > patience + self.turn_gap(*rank)).map(|(rank, _)| rank)
    }

    /// The time that a step of a ballot takes: the longest that a member which is heard takes to answer, and its longest
    /// interval between polls and that of this process.
    pub(super) fn ballot_round(&self, now: Instant) -> Duration {
        let others = Rank::enumerate(&self.directory.members)
            .filter(|(rank, member)| member.incarnation != self.me() && self.failure_detector.hears(now, *rank));
        let takes = |member: &MemberInfo| {
            let channel = self.peers.get(member.incarnation).and_then(|peer| peer.control_channel.round_trip());
            self.waits.took(member.incarnation).max(channel.unwrap_or_default()) + member.turn_gap()
        };
        others.map(|(_, member)| takes(member)).max().unwrap_or_default() + self.set.me.turn_gap()
    }

    fn give_up_ballot(&mut self, now: Instant) {
        Coordinator::end(&mut self.coordinator, BallotEvent::GiveUp);
        self.waits.try_after = now + self.backoff();
    }

    /// The time until this process may try again. It grows with the rank and is jittered, so that rivals do not collide
    /// in step.
    fn backoff(&mut self) -> Duration {
        let step = self.set.timing.ballot_step;
        let rank = u32::from(self.my_rank().0).min(16);
        let jitter = self.rng.below(u64::try_from(step.as_nanos()).unwrap_or(u64::MAX));
        step / 4 + (step / 2).saturating_mul(rank) + Duration::from_nanos(jitter / 2)
    }

    pub(super) fn handle_wedge(&mut self, now: Instant, from: Incarnation, wedge: &Wedge, fx: &mut dyn Effects) {
        if matches!(self.stage, Stage::Searching(_)) || wedge.decree > self.directory.decree.next() {
            // A wedge for a later decree overtook the decision that it builds on:
            //
            // 1. The coordinator installs decree n and wedges for n + 1.
            // 2. That wedge arrives here before the decision of n, which another member sent.
            // 3. If it were dropped, the coordinator would wait for a report for ever, because steps have no repetition
            //    of their own.
            //
            // So the latest one is kept, and answered after the installation.
            let later =
                self.early_wedge.as_ref().is_none_or(|(_, w)| (w.decree, w.ballot) < (wedge.decree, wedge.ballot));
            if later {
                self.early_wedge = Some((from, wedge.clone()));
            }
            return;
        }
        if wedge.decree <= self.directory.decree {
            // A member that was left out may be needed to find out what was decided before. It learns of the decree
            // only when that cannot be lost any more.
            if self.directory.rank(from).is_some() || self.will_survive() {
                self.send_decision(from);
            }
            return;
        }
        if let Some(decided) = self.decided.clone() {
            if !decided.leaves_out(from) {
                self.send_control(from, &Control::Decide(decided));
            }
            return;
        }
        if self
            .directory
            .rank(from)
            .is_some_and(|rank| from != self.me() && self.progress.leavers().contains_key(&rank))
        {
            self.counters.wedges_ignored += 1;
            return; // it is to be removed itself, and would overtake those that are to decide on that
        }
        if let Promise::No(promised) = self.acceptor.promise(wedge.ballot) {
            return self.send_control(from, &Control::Refuse { decree: wedge.decree, promised });
        }
        self.acceptor.hear(wedge.ballot, now);
        self.yield_to(wedge.ballot);
        // Only complete cuts are proposed: an acceptor outside a group accepts without holding its packets. If the one
        // holder then died, the accepted proposal would have to be adopted and could never be installed (departures,
        // *Cut recovery before the proposal*).
        if !self.holds_cuts(wedge.cuts.iter().map(|(group, cut)| (*group, cut))) {
            self.recovering = Some((from, wedge.clone()));
            return self.fetch_soon(now);
        }
        let (mut prefixes, mut unread) = (Vec::new(), Vec::new());
        for &group in &wedge.groups {
            if let Some(space) = self.space_of(group) {
                if let Some(view_streams) = self.group_streams.get(&space).map(|f| &f.view_streams) {
                    self.counters.flushes_with_traffic += u64::from(view_streams.unstable_packets() > 0);
                    self.counters.wedged_idle += u64::from(view_streams.is_last_falling_idle());
                }
                if let Some(said) =
                    self.with_view_streams(space, fx, |view_streams, port| view_streams.wedge(now, port))
                {
                    unread.extend(unread_of(group, &said));
                    prefixes.push((group, said.into_iter().map(|said| said.prefix).collect()));
                }
            }
        }
        if self.directory.level >= NONSENSE_VERDICT_LEVEL && !unread.is_empty() {
            // Sent before the report. It says what the report cannot: how far streams were acted upon, and where one
            // makes no sense.
            let (decree, ballot) = (wedge.decree.previous(), Some(wedge.ballot));
            self.send_unreadable(from, Unreadable { decree, ballot, groups: unread });
        }
        // A proposal accepted in an earlier ballot may be decided already. The coordinator has to adopt it unchanged.
        let accepted = self.acceptor.accepted().map(|(b, p)| (*b, (**p).clone()));
        let is_told = self.directory.has_orphans();
        let is_incomplete = |group: &GroupId| {
            is_told && self.transfers.has_nothing_to_give(&self.directory, self.set.me.incarnation, *group)
        };
        let own = || prefixes.iter().map(|(group, _)| *group);
        // A report's statement on a state binds its sender: the state does not become complete before the decision.
        let incomplete = own().filter(is_incomplete).collect();
        let giving = own().filter(|group| self.gives_while_leaving(now, *group)).collect();
        let taking = wedge.groups.iter().copied().filter(|group| is_told && self.seeks_state_of(*group)).collect();
        let (decree, ballot) = (wedge.decree, wedge.ballot);
        let report = Report { decree, ballot, accepted, prefixes, incomplete, giving, taking };
        if from == self.me() {
            self.handle_report(now, from, report, fx);
        } else {
            self.send_control(from, &Control::Report(report));
        }
    }

    /// Gives up an own ballot that is earlier than `ballot`.
    fn yield_to(&mut self, ballot: Ballot) {
        self.max_round = self.max_round.max(ballot.round);
        if self.coordinator.as_ref().is_some_and(|c| c.ballot < ballot) {
            Coordinator::end(&mut self.coordinator, BallotEvent::Yield);
            self.counters.superseded += 1;
            self.waits.try_after = self.last_poll + self.backoff();
        }
        if ballot.rank == self.my_rank() {
            self.waits.need_since = Some(self.last_poll);
        } else {
            self.waits.yields_to(self.last_poll, ballot, self.ballot_round(self.last_poll));
        }
    }

    fn handle_report(&mut self, now: Instant, from: Incarnation, report: Report, fx: &mut dyn Effects) {
        let Some(rank) = self.directory.rank(from) else { return };
        let Some(c) = &mut self.coordinator else { return };
        if report.decree != c.decree || report.ballot != c.ballot || !c.asked.contains(&rank) {
            return;
        }
        // A report is a peer's word. A proposal that cannot follow the directory in force must not be adopted.
        if report.accepted.as_ref().is_some_and(|(_, accepted)| !self.directory.admits(accepted)) {
            return self.counters.drop(DropReason::Malformed);
        }
        c.reports.insert(rank, report);
        if matches!(c.phase, Phase::Recovering { .. }) {
            c.recovered.insert(rank);
        }
        match &c.phase {
            Phase::Gathering if c.reports.len() == c.asked.len() => {
                // The member that knows of a death may leave by this very decree. Nobody could tell it later.
                let (failure_detector, progress) = (&self.failure_detector, &self.progress);
                let is_dead = |r: Rank| failure_detector.is_dead(r) || progress.is_told_dead(r);
                let reason = |r: Rank| if is_dead(r) { LeaveReason::Died } else { c.reason(r) };
                let proposal = c.proposal(&self.directory, reason);
                if proposal.level > self.directory.level {
                    let is_in = |who: Incarnation| proposal.joined.iter().any(|joined| joined.incarnation == who);
                    let unfit =
                        c.requests.joiners.iter().filter(|(j, _)| j.level < proposal.level && !is_in(j.incarnation));
                    self.counters.joiners_unfit += unfit.count() as u64;
                }
                for rank in &c.candidates {
                    let MemberInfo { incarnation, name, .. } = &self.directory.members[rank.index()];
                    let Some(before) = self.removals.of(name) else { continue };
                    let is_heard = c.requests.removal_evidence.get(incarnation).is_some_and(|now| now.counts);
                    self.counters.removed_again += 1;
                    self.counters.removed_again_unheard += u64::from(before.counts && !is_heard);
                }
                let goes = |who: &Incarnation| {
                    proposal
                        .left
                        .iter()
                        .chain(proposal.groups.iter().flat_map(|g| &g.left))
                        .any(|(left, _)| left == who)
                };
                let asked = c.requests.leavers.iter().chain(c.requests.group_leaves.iter().map(|(_, who)| who));
                // The proposal keeps leavers that a quorum or a group's state still needs (`docs/orphans.md`,
                // *Leaving*).
                for who in asked.filter(|who| !goes(who)) {
                    self.counters.leavers_held += u64::from(self.held_leavers.insert(*who, now).is_none());
                }
                self.counters.rival_proposals += u64::from(c.has_rivals());
                if c.reports.values().any(|r| r.accepted.is_some()) {
                    self.counters.adopted += 1; // its cuts were complete before it was first proposed
                    return self.propose(now, proposal, fx);
                }
                let lacking = c.lacking(&proposal);
                if lacking.is_empty() {
                    return self.propose(now, proposal, fx);
                }
                Coordinator::advance(&mut self.coordinator, BallotEvent::Recover, Phase::Recovering { proposal }, now);
                self.counters.cut_recoveries += 1;
                self.start_cut_recovery(now, lacking, fx);
            }
            Phase::Recovering { proposal } => {
                let lacking = c.lacking(proposal);
                if !lacking.is_empty() {
                    return self.start_cut_recovery(now, lacking, fx);
                }
                let votes = c.votes();
                self.counters.nonsense_beside_incomplete += c.incomplete_in_verdicts();
                // All that were asked have read what they fetched. So the votes on packets that somebody cannot read
                // are complete.
                let proposal = c.evaluated(&self.directory, proposal.clone());
                votes.into_iter().for_each(|votes| self.counters.count_nonsense_verdict(votes.against, votes.of));
                self.propose(now, proposal, fx);
            }
            _ => {}
        }
    }

    /// Asks members of `lacking` to complete the proposal's cuts, except those asked already.
    fn start_cut_recovery(&mut self, now: Instant, mut lacking: BTreeSet<Rank>, fx: &mut dyn Effects) {
        let Some(c) = &mut self.coordinator else { return };
        let Phase::Recovering { proposal } = &c.phase else { return };
        lacking.retain(|rank| c.recovering.insert(*rank));
        let (decree, ballot, groups) = (c.decree, c.ballot, c.groups.iter().copied().collect());
        let cuts = proposal.cuts().map(|(group, cut)| (group, cut.clone())).collect();
        let wedge = Wedge { decree, ballot, groups, cuts };
        let me = self.my_rank();
        for &rank in lacking.iter().filter(|&&r| r != me) {
            self.ask(now, rank, &Control::Wedge(wedge.clone()));
        }
        if lacking.contains(&me) {
            self.handle_wedge(now, self.me(), &wedge, fx);
        }
    }

    /// Asks the acceptors: every member of a changed group holds its cut.
    fn propose(&mut self, now: Instant, proposal: Arc<Proposal>, fx: &mut dyn Effects) {
        let Some(c) = &self.coordinator else { return };
        // Paxos picks among what a quorum reported. A later report could hold a proposal accepted in an earlier ballot,
        // which may be decided.
        assert_eq!(c.reports.len(), c.asked.len(), "a proposal is made when all members that were asked have reported");
        assert_eq!(proposal.decree, c.decree, "a proposal is for the decree of its ballot");
        debug_assert!(self.directory.admits(&proposal), "a proposal can follow the directory in force");
        let (ballot, asked) = (c.ballot, c.asked.clone());
        let phase = Phase::Proposing { proposal: proposal.clone(), accepted: BTreeSet::new() };
        Coordinator::advance(&mut self.coordinator, BallotEvent::Propose, phase, now);
        let me = self.me();
        let my_rank = self.my_rank();
        for rank in asked.into_iter().filter(|rank| *rank != my_rank) {
            self.ask(now, rank, &Control::Propose { ballot, proposal: proposal.clone() });
        }
        self.handle_propose(now, me, ballot, proposal, fx);
    }

    fn handle_refuse(&mut self, now: Instant, decree: DecreeNumber, promised: Ballot) {
        if decree != self.directory.decree.next() {
            return;
        }
        self.max_round = self.max_round.max(promised.round);
        if self.coordinator.as_ref().is_some_and(|c| c.ballot < promised) {
            self.counters.superseded += 1;
            self.waits.refused_for(now, promised);
            self.give_up_ballot(now);
        }
    }

    fn handle_propose(
        &mut self,
        now: Instant,
        from: Incarnation,
        ballot: Ballot,
        proposal: Arc<Proposal>,
        fx: &mut dyn Effects,
    ) {
        if proposal.decree != self.directory.decree.next()
            || self.decided.is_some()
            || !self.directory.admits(&proposal)
        {
            return;
        }
        let decree = proposal.decree;
        if let Promise::No(promised) = self.acceptor.accept(ballot, proposal.clone()) {
            self.counters.late_proposals += 1;
            return self.send_control(from, &Control::Refuse { decree, promised });
        }
        self.yield_to(ballot);
        if ballot.rank != self.my_rank() {
            self.waits.accepts(now, ballot);
        }
        // The groups that it ends stop here too, whichever ballot's wedge reached this process.
        for change in proposal.groups.iter().filter(|c| c.cut.is_some()) {
            if let Some(space) = self.space_of(change.group) {
                self.with_view_streams(space, fx, |view_streams, port| view_streams.wedge(now, port));
            }
        }
        let Some(coordinator) = self.directory.members.get(ballot.rank.index()).map(|m| m.incarnation) else {
            return;
        };
        if coordinator == self.me() {
            self.handle_accepted(now, coordinator, decree, ballot, fx);
        } else {
            self.send_control(coordinator, &Control::Accepted { decree, ballot });
        }
    }

    fn handle_accepted(
        &mut self,
        now: Instant,
        from: Incarnation,
        decree: DecreeNumber,
        ballot: Ballot,
        fx: &mut dyn Effects,
    ) {
        let Some(rank) = self.directory.rank(from) else { return };
        let undecided = decree == self.directory.decree.next() && self.decided.is_none();
        let Some(c) = &mut self.coordinator else {
            self.counters.late_acceptances += u64::from(undecided);
            return;
        };
        if c.decree != decree || c.ballot != ballot {
            self.counters.late_acceptances += u64::from(undecided);
            return;
        }
        let Phase::Proposing { proposal, accepted } = &mut c.phase else { return };
        accepted.insert(rank);
        if !self.directory.is_quorum(|r| accepted.contains(&r)) {
            return;
        }
        let proposal = proposal.clone();
        Coordinator::end(&mut self.coordinator, BallotEvent::Decide);
        let me = self.me();
        // Members left out against their will are notified only when the decision cannot be lost any more: one that
        // goes away at once may be missing from the quorum of the view before.
        let members = self.directory.members.iter().map(|m| m.incarnation);
        let others: Vec<Incarnation> = members.filter(|who| *who != me && !proposal.leaves_out(*who)).collect();
        for to in others {
            self.send_control(to, &Control::Decide(proposal.clone()));
        }
        // An adopted proposal may leave out its coordinator. It stays until the others notify it, because the decision
        // must not vanish with it.
        if !proposal.leaves_out(me) {
            self.handle_decide(now, proposal, fx);
        }
    }

    pub(super) fn handle_decide(&mut self, now: Instant, proposal: Arc<Proposal>, fx: &mut dyn Effects) {
        let me = self.me();
        // Survivors of a decree reported in its ballot, so they had installed the one before. A process that receives a
        // decree later than the next one was left out, by it or by one before it.
        let included = proposal.decree <= self.directory.decree.next()
            && self.directory.rank(me).is_some()
            && proposal.left.iter().all(|(who, _)| *who != me);
        if proposal.decree > self.directory.decree && !included {
            let asked_to_leave = proposal.left.contains(&(me, LeaveReason::Left));
            if proposal.decree == self.directory.decree.next() && asked_to_leave && self.directory.admits(&proposal) {
                self.decided = Some(proposal); // a leaver first delivers everything up to the cut
                return self.try_install(now, fx);
            }
            return self.be_excluded(proposal.view);
        }
        if proposal.decree != self.directory.decree.next()
            || self.decided.is_some()
            || !self.directory.admits(&proposal)
        {
            return;
        }
        Coordinator::end(&mut self.coordinator, BallotEvent::Learn);
        self.decided = Some(proposal);
        self.try_install(now, fx);
    }
}
