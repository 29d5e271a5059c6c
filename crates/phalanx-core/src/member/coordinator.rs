//! The coordinator of a decree (Paxos proposer): it gathers reports, proposes and counts acceptances.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::ballot::{Ballot, Report, Unread};
use super::decree::{GroupCut, Proposal};
use super::verdict::evaluate_all;
use super::{Directory, MembershipRequests, build_proposal};
use crate::api::LeaveReason;
use crate::id::{DecreeNumber, GroupId, Incarnation, Rank};
use crate::link::StreamReport;
use crate::time::Instant;
use crate::transitions::transitions;

/// A ballot, as its coordinator knows it.
#[derive(Clone, Debug)]
pub struct Coordinator {
    /// The decree to decide.
    pub decree: DecreeNumber,
    /// The ballot.
    pub ballot: Ballot,
    /// Candidates for leaving, by rank. They were not asked.
    pub candidates: BTreeSet<Rank>,
    /// Why the candidates that are heard are to leave.
    pub reasons: BTreeMap<Rank, LeaveReason>,
    /// The members that were asked, by rank.
    pub asked: BTreeSet<Rank>,
    /// The groups that the wedge named.
    pub groups: BTreeSet<GroupId>,
    /// The requests that the proposal is to fulfil.
    pub requests: MembershipRequests,
    /// Reports so far, by rank.
    pub reports: BTreeMap<Rank, Report>,
    /// What members reported in addition about streams that they cannot read, by rank.
    pub unread: BTreeMap<Rank, Vec<Unread>>,
    /// The members that were asked to recover a cut, by rank.
    pub recovering: BTreeSet<Rank>,
    /// Those of them that reported again.
    pub recovered: BTreeSet<Rank>,
    /// The current phase.
    pub phase: Phase,
    /// When the phase began.
    pub since: Instant,
}

/// The phase of a ballot.
#[derive(Clone, Debug)]
pub enum Phase {
    /// Waits for the reports of all members that were asked.
    Gathering,
    /// Waits until every member of a changed group that reported holds that group's cut.
    Recovering {
        /// The proposal to make then.
        proposal: Arc<Proposal>,
    },
    /// Waiting for a quorum to accept.
    Proposing {
        /// The proposal.
        proposal: Arc<Proposal>,
        /// The members that accepted, by rank.
        accepted: BTreeSet<Rank>,
    },
}

transitions! {
    /// The state of a process as coordinator: its [`Phase`], or idle.
    pub(crate) states BallotState {
        /// This process has no ballot under way.
        Idle,
        /// Members are asked to stop, and to report what they hold.
        Gathering,
        /// Members fetch what they lack of the cuts.
        Recovering,
        /// The acceptors are asked to accept.
        Proposing,
    }
    begin Idle; end [];
    pub(crate) events BallotEvent {
        /// A decree is needed, and this process is the one to coordinate it.
        Start (Idle => Gathering),
        /// All members that were asked reported, and some lack a part of a cut.
        Recover (Gathering => Recovering),
        /// No member lacks a part of a cut, or the proposal was accepted before.
        Propose (Gathering | Recovering => Proposing),
        /// A quorum accepted.
        Decide (Proposing => Idle),
        /// The decree was decided by another coordinator, or in another ballot of this one.
        Learn (Gathering | Recovering | Proposing => Idle),
        /// A rival has a later ballot.
        Yield (Gathering | Recovering | Proposing => Idle),
        /// A member for which the ballot waits is silent. A new ballot follows, at once or later.
        GiveUp (Gathering | Recovering | Proposing => Idle),
        /// This incarnation is over.
        End (Gathering | Recovering | Proposing => Idle),
    }
}

impl BallotState {
    fn of(ballot: Option<&Coordinator>) -> Self {
        match ballot.map(|ballot| &ballot.phase) {
            None => Self::Idle,
            Some(Phase::Gathering) => Self::Gathering,
            Some(Phase::Recovering { .. }) => Self::Recovering,
            Some(Phase::Proposing { .. }) => Self::Proposing,
        }
    }
}

/// The votes about a packet that is nonsense to some members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NonsenseVotes {
    /// Members that cannot read it.
    pub against: usize,
    /// Members that take part in the ballot.
    pub of: usize,
}

/// How far a member can read a stream that it cannot read to its end.
struct UnreadStream {
    /// The prefix that it acted upon.
    read: u64,
    /// Whether the next packet is nonsense to it.
    nonsense: bool,
}

impl Coordinator {
    /// Changes the state of a process as coordinator. All changes of its ballot pass here, so that the table checks
    /// each.
    pub(crate) fn enter(ballot: &mut Option<Self>, event: BallotEvent, change: impl FnOnce(&mut Option<Self>)) {
        let from = BallotState::of(ballot.as_ref());
        change(ballot);
        event.check(from, BallotState::of(ballot.as_ref()));
    }

    /// Moves the ballot to `phase`.
    pub(crate) fn advance(ballot: &mut Option<Self>, event: BallotEvent, phase: Phase, now: Instant) {
        Self::enter(ballot, event, |ballot| {
            if let Some(ballot) = ballot {
                (ballot.phase, ballot.since) = (phase, now);
            }
        });
    }

    /// Ends the ballot, if there is one.
    pub(crate) fn end(ballot: &mut Option<Self>, event: BallotEvent) {
        if ballot.is_some() {
            Self::enter(ballot, event, |ballot| *ballot = None);
        }
    }

    /// Checks the invariants against the directory in force.
    ///
    /// # Panics
    /// If one is violated.
    pub fn check_invariants(&self, directory: &Directory) {
        let members = directory.members.len();
        assert_eq!(self.decree, directory.decree.next(), "a ballot is about the next decree");
        assert!(self.asked.is_disjoint(&self.candidates), "a candidate for leaving is asked");
        assert!(self.asked.union(&self.candidates).all(|rank| rank.index() < members), "a rank lies beyond the view");
        assert!(self.reasons.keys().all(|rank| rank.index() < members), "a reason is given for a rank beyond the view");
        assert!(directory.is_quorum(|rank| self.asked.contains(&rank)), "a ballot asks fewer than a quorum");
        assert!(self.asked.contains(&self.ballot.rank), "a coordinator asks itself too");
        assert!(
            self.groups.iter().all(|group| directory.groups.contains_key(group)),
            "a group is wedged that is not there"
        );
        assert!(self.reports.keys().all(|rank| self.asked.contains(rank)), "a member reported that was not asked");
        assert!(self.unread.keys().all(|rank| self.asked.contains(rank)), "a candidate's report is counted");
        assert!(self.recovering.is_subset(&self.asked), "a candidate is asked to recover the cut");
        assert!(self.recovered.is_subset(&self.asked), "a candidate recovered the cut");
        for report in self.reports.values() {
            assert_eq!(report.decree, self.decree, "a report is about another decree");
            assert_eq!(report.ballot, self.ballot, "a report is of another ballot");
        }
        let proposal = match &self.phase {
            Phase::Gathering => return,
            Phase::Recovering { proposal } => proposal,
            Phase::Proposing { proposal, accepted } => {
                assert!(
                    !directory.is_quorum(|rank| accepted.contains(&rank)),
                    "a quorum accepted a proposal that is not decided"
                );
                proposal
            }
        };
        assert_eq!(self.reports.len(), self.asked.len(), "a proposal is fixed before all have reported");
        assert_eq!(proposal.decree, self.decree, "a proposal is for another decree");
    }

    /// The reason for which `rank` leaves, if it is a candidate and not proved dead.
    #[must_use]
    pub fn reason(&self, rank: Rank) -> LeaveReason {
        self.reasons.get(&rank).copied().unwrap_or(LeaveReason::Unreachable)
    }

    /// The proposal to make when all members that were asked have reported. It is the highest accepted one, unchanged,
    /// because it may have been decided. If there is none, it is built from the reports.
    #[must_use]
    pub fn proposal(&self, directory: &Directory, reason: impl Fn(Rank) -> LeaveReason) -> Arc<Proposal> {
        // Paxos: a quorum may have accepted it in that ballot, and then it is decided.
        let accepted = self.reports.values().filter_map(|r| r.accepted.as_ref()).max_by_key(|(ballot, _)| *ballot);
        match accepted {
            Some((_, proposal)) => Arc::new(proposal.clone()),
            None => {
                let unread = self.unreadable_groups();
                Arc::new(build_proposal(directory, &self.reports, &self.groups, &unread, &self.requests, reason))
            }
        }
    }

    /// Whether members accepted different proposals in earlier ballots.
    #[must_use]
    pub fn has_rivals(&self) -> bool {
        let mut accepted = self.reports.values().filter_map(|r| r.accepted.as_ref()).map(|(_, proposal)| proposal);
        accepted.next().is_some_and(|first| accepted.any(|other| other != first))
    }

    /// Groups with a packet that is nonsense to a member that reported.
    #[must_use]
    pub fn unreadable_groups(&self) -> BTreeSet<GroupId> {
        self.unread.values().flatten().filter(|unread| unread.has_nonsense()).map(|unread| unread.group).collect()
    }

    /// Members that have to recover the cuts of `proposal` and have not. Those are the members that reported less and
    /// can read on. In a group with nonsense all members are asked: with the packets that others hold, more of a stream
    /// may be nonsense.
    #[must_use]
    pub fn lacking(&self, proposal: &Proposal) -> BTreeSet<Rank> {
        let unreadable = self.unreadable_groups();
        let lacks = |rank: Rank, report: &Report| {
            report.prefixes.iter().any(|(group, held)| {
                let change = proposal.groups.iter().find(|c| c.group == *group);
                let Some(cut) = change.and_then(|c| c.cut.as_ref()) else { return false };
                let short = |(stream, (held, cut)): (Rank, (&u64, &u64))| {
                    // A member that stopped at nonsense reads no further, whatever it fetches.
                    held < cut && !self.unread_of(rank, *group, stream).is_some_and(|unread| unread.nonsense)
                };
                unreadable.contains(group) && !self.recovered.contains(&rank)
                    || Rank::enumerate(held.iter().zip(&cut.prefixes)).any(short)
            })
        };
        self.reports.iter().filter(|(rank, report)| lacks(**rank, report)).map(|(&rank, _)| rank).collect()
    }

    /// What a member reported in addition about one stream.
    fn unread_of(&self, rank: Rank, group: GroupId, stream: Rank) -> Option<UnreadStream> {
        let unread = self.unread.get(&rank)?.iter().find(|unread| unread.group == group)?;
        let said = unread.streams.iter().find(|(of, ..)| *of == stream)?;
        Some(UnreadStream { read: said.1, nonsense: said.2 })
    }

    /// The votes for each group with nonsense.
    #[must_use]
    pub fn votes(&self) -> Vec<NonsenseVotes> {
        let of_group = |group: GroupId| {
            let against = self.unread.values().flatten().filter(|u| u.group == group && u.has_nonsense());
            let part = self.reports.values().filter(|r| r.prefixes.iter().any(|(of, _)| *of == group));
            NonsenseVotes { against: against.count(), of: part.count() }
        };
        self.unreadable_groups().into_iter().map(of_group).collect()
    }

    /// Number of groups with nonsense in which a member that reported lacks the state.
    #[must_use]
    pub fn incomplete_in_verdicts(&self) -> u64 {
        let lacks = |group: &GroupId| self.reports.values().any(|report| report.incomplete.contains(group));
        self.unreadable_groups().into_iter().filter(lacks).count() as u64
    }

    /// `proposal` with the verdicts on groups with nonsense. Called when all members have recovered their cuts.
    #[must_use]
    pub fn evaluated(&self, directory: &Directory, proposal: Arc<Proposal>) -> Arc<Proposal> {
        let unreadable = self.unreadable_groups();
        // The usual case: every member can read all streams.
        if unreadable.is_empty() {
            return proposal;
        }
        let mut proposal = (*proposal).clone();
        for change in proposal.groups.iter_mut().filter(|change| unreadable.contains(&change.group)) {
            let (Some(cut), Some(entry)) = (&mut change.cut, directory.groups.get(&change.group)) else { continue };
            let said: Vec<Option<Vec<StreamReport>>> =
                entry.members.iter().map(|who| self.said(directory.rank(*who)?, change.group, cut)).collect();
            if entry.members.iter().all(|who| change.left.iter().any(|(left, _)| left == who)) {
                continue; // no member continues with its state in any case
            }
            let has_state = |rank: Rank| {
                // A group goes on only with a member that keeps its whole state (`docs/fail-stop.md`).
                let report = directory.rank(entry.members[rank.index()]).and_then(|rank| self.reports.get(&rank));
                report.is_none_or(|report| report.has_state(change.group))
            };
            let stays =
                |rank: Rank| change.left.iter().all(|(who, _)| *who != entry.members[rank.index()]) && has_state(rank);
            let outcome = evaluate_all(&said, stays);
            let mut goes: Vec<(Rank, LeaveReason)> = Vec::new();
            debug_assert_eq!(outcome.cut.len(), cut.prefixes.len(), "each stream ends somewhere");
            if outcome.stops {
                goes.extend(Rank::all(entry.members.len()).map(|rank| (rank, LeaveReason::Stopped)));
                // No member is left from which a joiner could take the state.
                change.joined.clear();
            } else {
                cut.prefixes = outcome.cut;
                goes.extend(outcome.gone.into_iter().map(|rank| (rank, LeaveReason::Nonsense)));
                goes.extend(outcome.anew.into_iter().map(|rank| (rank, LeaveReason::Anew)));
            }
            for (rank, why) in goes {
                let who = entry.members[rank.index()];
                // The verdict replaces an earlier reason, because the reason decides whether a member keeps its state.
                change.left.retain(|(other, _)| *other != who);
                change.left.push((who, why));
            }
            // As the others decode it: the encoding drops the holder of an empty stream.
            for (prefix, holder) in cut.prefixes.iter().zip(&mut cut.holders) {
                if *prefix == 0 {
                    *holder = Incarnation::NONE;
                }
            }
        }
        Arc::new(proposal)
    }

    /// How far the member with this cell rank can read a group's streams, limited to the cut that all were asked for.
    fn said(&self, rank: Rank, group: GroupId, cut: &GroupCut) -> Option<Vec<StreamReport>> {
        let (_, held) = self.reports.get(&rank)?.prefixes.iter().find(|(of, _)| *of == group)?;
        let said = |(stream, (&held, &cut)): (Rank, (&u64, &u64))| {
            let UnreadStream { read, nonsense } =
                self.unread_of(rank, group, stream).unwrap_or(UnreadStream { read: held, nonsense: false });
            StreamReport { prefix: held.min(cut), read, nonsense: nonsense && held < cut }
        };
        Some(Rank::enumerate(held.iter().zip(&cut.prefixes)).map(said).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{GroupTerms, Limits, Timing, Uniformity};
    use crate::id::{MemberInfo, ViewNumber};
    use crate::member::{Agreed, GroupEntry, is_quorum};
    use crate::transitions::kept::hold;
    use crate::wire::{Space, Tags};
    use std::net::SocketAddr;

    #[test]
    fn the_table_of_a_ballot_is_the_one_that_is_kept() {
        hold::<BallotEvent>("ballot");
    }

    fn member(i: u64) -> MemberInfo {
        let addr: SocketAddr = "127.0.0.1:1".parse().expect("an address");
        MemberInfo::new(Incarnation(i), format!("m{i}"), addr, addr)
    }

    fn directory(n: u64) -> Directory {
        let settings = Agreed::of(&Limits::default(), &Timing::default()).tags(1);
        let mut d = Directory::found((1..=n).map(member).collect(), 1, settings);
        let members = (1..=n).map(Incarnation).collect();
        d.groups.insert(
            GroupId(1),
            GroupEntry { name: "g".into(), view: ViewNumber(4), space: Space(9), members, tail: Tags::default() },
        );
        (d.next_group, d.next_space) = (2, Space(10));
        d
    }

    fn report(prefixes: &[u64]) -> Report {
        let ballot = Ballot { round: 1, rank: Rank(0) };
        let prefixes = vec![(GroupId(1), prefixes.to_vec())];
        Report { decree: DecreeNumber(2), ballot, prefixes, ..Report::default() }
    }

    #[test]
    fn the_cut_is_the_longest_prefix_of_each_stream() {
        let reports = BTreeMap::from([(Rank(0), report(&[5, 2, 7])), (Rank(1), report(&[4, 3, 9]))]);
        let wedged = BTreeSet::from([GroupId(1)]);
        let p =
            build_proposal(&directory(3), &reports, &wedged, &BTreeSet::new(), &MembershipRequests::default(), |_| {
                LeaveReason::Died
            });
        assert_eq!(p.left, [(Incarnation(3), LeaveReason::Died)]);
        let cut = p.groups[0].cut.as_ref().expect("the group goes on");
        assert_eq!(cut.prefixes, [5, 3, 9]);
        assert_eq!(cut.holders, [Incarnation(1), Incarnation(2), Incarnation(2)]);
        assert_eq!((p.groups[0].view, p.groups[0].space, p.next_space), (ViewNumber(5), Space(10), Space(11)));
    }

    #[test]
    fn who_lacks_a_part_of_the_cut_is_known() {
        let d = directory(3);
        let mut c = Coordinator {
            decree: DecreeNumber(2),
            ballot: Ballot { round: 1, rank: Rank(0) },
            candidates: BTreeSet::from([2].map(Rank)),
            reasons: BTreeMap::new(),
            asked: BTreeSet::from([0, 1].map(Rank)),
            groups: BTreeSet::from([GroupId(1)]),
            requests: MembershipRequests::default(),
            reports: BTreeMap::from([(Rank(0), report(&[5, 2, 7])), (Rank(1), report(&[5, 3, 7]))]),
            unread: BTreeMap::new(),
            recovering: BTreeSet::new(),
            recovered: BTreeSet::new(),
            phase: Phase::Gathering,
            since: Instant::ZERO,
        };
        let p = c.proposal(&d, |_| LeaveReason::Died);
        assert_eq!(c.lacking(&p), BTreeSet::from([0].map(Rank)));
        c.reports.insert(Rank(0), report(&[5, 3, 8]));
        assert_eq!(c.lacking(&p), BTreeSet::new());
    }

    #[test]
    fn survivors_stay_a_quorum_of_the_next_view() {
        let reports = BTreeMap::from([(Rank(0), report(&[0, 0])), (Rank(1), report(&[0, 0]))]);
        let requests = MembershipRequests {
            joiners: (10..20).map(|i| (member(i), Vec::new())).collect(),
            ..MembershipRequests::default()
        };
        let p = build_proposal(&directory(2), &reports, &BTreeSet::new(), &BTreeSet::new(), &requests, |_| {
            LeaveReason::Died
        });
        assert_eq!(directory(2).after(&p).members.len(), 4);
        assert_eq!(p.joined.len(), 2);
        assert!(p.groups.is_empty());
    }

    #[test]
    fn the_highest_accepted_proposal_is_taken_unchanged() {
        let d = directory(3);
        let old = build_proposal(
            &d,
            &BTreeMap::from([(Rank(0), report(&[1, 1, 1]))]),
            &BTreeSet::new(),
            &BTreeSet::new(),
            &MembershipRequests::default(),
            |_| LeaveReason::Unreachable,
        );
        // A stream rises, and carries an entry that this build does not know.
        let mut tail = Tags::default();
        tail.put(99, b"later");
        let old = Proposal { level: 2, tail, ..old };
        let mut with_old = report(&[9, 9, 9]);
        with_old.accepted = Some((Ballot { round: 3, rank: Rank(1) }, old.clone()));
        let c = Coordinator {
            decree: DecreeNumber(2),
            ballot: Ballot { round: 7, rank: Rank(0) },
            candidates: BTreeSet::new(),
            reasons: BTreeMap::new(),
            asked: BTreeSet::from([0, 1].map(Rank)),
            groups: BTreeSet::from([GroupId(1)]),
            requests: MembershipRequests::default(),
            reports: BTreeMap::from([(Rank(0), report(&[1, 1, 1])), (Rank(1), with_old)]),
            unread: BTreeMap::new(),
            recovering: BTreeSet::new(),
            recovered: BTreeSet::new(),
            phase: Phase::Gathering,
            since: Instant::ZERO,
        };
        assert_eq!(*c.proposal(&d, |_| LeaveReason::Died), old);
    }

    /// The decided proposal is the one of the highest ballot, whichever member reports it: the first, or the last.
    #[test]
    fn of_two_accepted_proposals_that_of_the_later_ballot_is_taken() {
        let d = directory(3);
        let reported = BTreeMap::from([(Rank(0), report(&[1, 1, 1])), (Rank(1), report(&[1, 1, 1]))]);
        let leaving_out = |reason| {
            build_proposal(&d, &reported, &BTreeSet::new(), &BTreeSet::new(), &MembershipRequests::default(), |_| {
                reason
            })
        };
        let (earlier, later) = (leaving_out(LeaveReason::Died), leaving_out(LeaveReason::Unreachable));
        let first = (Ballot { round: 3, rank: Rank(2) }, earlier);
        for ballot in [Ballot { round: 4, rank: Rank(0) }, Ballot { round: 3, rank: Rank(3) }] {
            for (older, newer) in [(0, 2), (2, 0)].map(|(a, b)| (Rank(a), Rank(b))) {
                let second = (ballot, later.clone());
                let accepted =
                    |accepted: &(Ballot, Proposal)| Report { accepted: Some(accepted.clone()), ..report(&[]) };
                let c = Coordinator {
                    decree: DecreeNumber(2),
                    ballot: Ballot { round: 7, rank: Rank(1) },
                    candidates: BTreeSet::new(),
                    reasons: BTreeMap::new(),
                    asked: BTreeSet::from([0, 1, 2].map(Rank)),
                    groups: BTreeSet::new(),
                    requests: MembershipRequests::default(),
                    reports: BTreeMap::from([
                        (older, accepted(&first)),
                        (Rank(1), report(&[])),
                        (newer, accepted(&second)),
                    ]),
                    unread: BTreeMap::new(),
                    recovering: BTreeSet::new(),
                    recovered: BTreeSet::new(),
                    phase: Phase::Gathering,
                    since: Instant::ZERO,
                };
                assert!(c.has_rivals());
                assert_eq!(*c.proposal(&d, |_| LeaveReason::Left), later, "rank {newer} tells of ballot {ballot:?}");
            }
        }
    }

    #[test]
    fn a_group_that_everybody_leaves_ends_before_others_come() {
        let held = vec![(GroupId(1), vec![0, 0])];
        let mut d = directory(3);
        d.groups.get_mut(&GroupId(1)).expect("the group is there").members.truncate(2);
        let reports: BTreeMap<Rank, Report> =
            Rank::all(3).map(|rank| (rank, Report { prefixes: held.clone(), ..report(&[]) })).collect();
        let leave = |who| ("g".to_owned(), Incarnation(who));
        let mut requests = MembershipRequests {
            group_joins: vec![("g".into(), Incarnation(3))],
            group_leaves: vec![leave(1), leave(2)],
            ..MembershipRequests::default()
        };
        let wedged = BTreeSet::from([GroupId(1)]);
        let p = build_proposal(&d, &reports, &wedged, &BTreeSet::new(), &requests, |_| LeaveReason::Died);
        assert_eq!((p.groups.len(), p.groups[0].joined.len(), p.groups[0].left.len()), (1, 0, 2));
        let after = d.after(&p);
        assert!(after.group_named("g").is_none());
        requests.group_leaves.clear();
        let next =
            build_proposal(&after, &reports, &BTreeSet::new(), &BTreeSet::new(), &requests, |_| LeaveReason::Died);
        assert_eq!((next.groups[0].group, &next.groups[0].joined[..]), (GroupId(2), &[Incarnation(3)][..]));
    }

    #[test]
    fn the_quorum_that_is_told_is_the_least_without_the_oldest() {
        for n in 1..=10 {
            let d = directory(n);
            let least = (1..=d.members.len()).find(|&count| is_quorum(count, d.members.len(), false));
            assert_eq!(Some(d.quorum()), least);
        }
    }

    #[test]
    fn a_member_that_leaves_a_group_stays_in_its_others() {
        let mut d = directory(3);
        let other = GroupEntry { name: "h".into(), space: Space(10), ..d.groups[&GroupId(1)].clone() };
        d.groups.insert(GroupId(2), other);
        (d.next_group, d.next_space) = (3, Space(11));
        let held = vec![(GroupId(1), vec![0; 3]), (GroupId(2), vec![0; 3])];
        let reports: BTreeMap<Rank, Report> =
            Rank::all(3).map(|rank| (rank, Report { prefixes: held.clone(), ..report(&[]) })).collect();
        let requests =
            MembershipRequests { group_leaves: vec![("h".into(), Incarnation(2))], ..MembershipRequests::default() };
        let wedged = BTreeSet::from([GroupId(1), GroupId(2)]);
        let p = build_proposal(&d, &reports, &wedged, &BTreeSet::new(), &requests, |_| LeaveReason::Died);
        let changed: Vec<_> = p.groups.iter().map(|change| (change.group, &change.left[..])).collect();
        assert_eq!(changed, [(GroupId(2), &[(Incarnation(2), LeaveReason::Left)][..])]);
        assert_eq!(d.after(&p).groups[&GroupId(1)].members.len(), 3);
    }

    #[test]
    fn a_new_group_is_made_of_those_who_ask() {
        let reports = BTreeMap::from([(Rank(0), report(&[])), (Rank(1), report(&[]))]);
        let mut requests = MembershipRequests {
            joiners: vec![(member(9), vec!["new".into()])],
            group_joins: vec![("new".into(), Incarnation(2)), ("new".into(), Incarnation(2))],
            ..MembershipRequests::default()
        };
        let plain = build_proposal(&directory(2), &reports, &BTreeSet::new(), &BTreeSet::new(), &requests, |_| {
            LeaveReason::Died
        });
        assert_eq!(
            GroupTerms::of(&plain.groups[0].tail),
            GroupTerms { uniformity: Uniformity::Plain, ..GroupTerms::default() },
            "they told of no terms"
        );
        requests.terms.insert(
            ("new".into(), Incarnation(9)),
            GroupTerms { uniformity: Uniformity::Plain, ..GroupTerms::default() },
        );
        requests.terms.insert(("new".into(), Incarnation(2)), GroupTerms::default());
        let p = build_proposal(&directory(2), &reports, &BTreeSet::new(), &BTreeSet::new(), &requests, |_| {
            LeaveReason::Died
        });
        assert_eq!(p.groups.len(), 1);
        assert_eq!(p.groups[0].joined, [Incarnation(2), Incarnation(9)]);
        assert_eq!((p.groups[0].group, p.next_group), (GroupId(2), 3));
        let entry = &directory(2).after(&p).groups[&GroupId(2)];
        assert_eq!(GroupTerms::of(&entry.tail), GroupTerms::default(), "as the first of them wished");
    }

    #[test]
    fn what_stays_the_same_costs_no_bytes() {
        let sizes = [20, 1000].map(|n| {
            let reports: BTreeMap<Rank, Report> =
                Rank::all(n).filter(|rank| *rank != Rank(7)).map(|rank| (rank, report(&vec![0; n]))).collect();
            let d = directory(n as u64);
            let p = build_proposal(
                &d,
                &reports,
                &BTreeSet::from([GroupId(1)]),
                &BTreeSet::new(),
                &MembershipRequests::default(),
                |_| LeaveReason::Died,
            );
            let next = d.after(&p);
            assert_eq!((next.members.len(), next.groups[&GroupId(1)].members.len()), (n - 1, n - 1));
            assert_eq!(next.members[7].incarnation, Incarnation(9), "those behind move up");
            postcard::to_allocvec(&p).expect("a proposal").len()
        });
        assert!(sizes[1] <= sizes[0] + 2, "{sizes:?}");
    }

    #[test]
    fn a_group_ends_with_its_last_member() {
        let mut d = directory(2);
        d.groups.get_mut(&GroupId(1)).expect("the group").members = vec![Incarnation(2)];
        let reports = BTreeMap::from([(Rank(0), report(&[]))]);
        let p = build_proposal(
            &d,
            &reports,
            &BTreeSet::from([GroupId(1)]),
            &BTreeSet::new(),
            &MembershipRequests::default(),
            |_| LeaveReason::Died,
        );
        assert!(d.after(&p).groups.is_empty());
    }
}
