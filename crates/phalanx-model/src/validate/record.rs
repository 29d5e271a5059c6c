//! What was seen of one cell so far: ballots, acceptances, decisions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use phalanx_core::member::{Ballot, Coordinator, GroupChange, GroupCut, Proposal, Report};
use phalanx_core::{GroupId, Incarnation, LeaveReason};

use crate::rules::Rules;

/// One cell instance.
#[derive(Default)]
pub(super) struct Cell {
    /// By number.
    pub(super) decisions: BTreeMap<u64, Arc<Proposal>>,
    /// By the number that they are to decide.
    pub(super) decrees: BTreeMap<u64, Decree>,
}

/// One decree under way, or decided.
#[derive(Default)]
pub(super) struct Decree {
    /// Acceptors, by rank.
    pub(super) acceptors: Vec<Incarnation>,
    pub(super) ballots: BTreeMap<Ballot, Try>,
    /// What each acceptor accepted, in the order of its turns.
    pub(super) accepted: BTreeMap<Incarnation, Vec<(Ballot, Arc<Proposal>)>>,
}

/// One ballot.
pub(super) struct Try {
    pub(super) asked: BTreeSet<usize>,
    pub(super) groups: BTreeSet<GroupId>,
    /// What it proposes, once that is known.
    pub(super) proposal: Option<Arc<Proposal>>,
    /// It proposes what another ballot proposed before.
    pub(super) adopted: bool,
    /// What its coordinator reported to itself first. It may report again, with more, in the turn in which the last of the
    /// others' reports comes.
    pub(super) own: Option<Report>,
}

impl Try {
    pub(super) fn new(c: &Coordinator) -> Self {
        let own = c.reports.get(&usize::from(c.ballot.rank)).cloned();
        Self { asked: c.asked.clone(), groups: c.groups.clone(), proposal: None, adopted: false, own }
    }
}

impl Decree {
    pub(super) fn rank(&self, who: Incarnation) -> Option<usize> {
        self.acceptors.iter().position(|a| *a == who)
    }

    pub(super) fn is_quorum(&self, rules: Rules, has: impl Fn(usize) -> bool) -> bool {
        let count = (0..self.acceptors.len()).filter(|&r| has(r)).count();
        rules.is_quorum(count, self.acceptors.len(), has(0))
    }

    /// What an acceptor has to report in a ballot: what it accepted last in an earlier one.
    fn had_accepted(&self, rank: usize, ballot: Ballot) -> Option<&(Ballot, Arc<Proposal>)> {
        let history = self.accepted.get(self.acceptors.get(rank)?)?;
        history.iter().filter(|(b, _)| *b < ballot).max_by_key(|(b, _)| *b)
    }

    /// The ballot in which a quorum accepted a proposal.
    pub(super) fn accepted_by_quorum(&self, rules: Rules, proposal: &Proposal) -> Option<Ballot> {
        let accepts = |rank: usize, ballot: Ballot| {
            let history = self.acceptors.get(rank).and_then(|who| self.accepted.get(who));
            history.is_some_and(|h| h.iter().any(|(b, p)| *b == ballot && **p == *proposal))
        };
        self.ballots.keys().copied().find(|&ballot| self.is_quorum(rules, |r| accepts(r, ballot)))
    }

    /// Whether a ballot may propose this, by what its acceptors have to report. `reports`: what its coordinator shows,
    /// if it still does.
    pub(super) fn may_propose(
        &self,
        rules: Rules,
        ballot: Ballot,
        proposal: &Proposal,
        reports: Option<&BTreeMap<usize, Report>>,
    ) -> Result<bool, String> {
        let Some(this) = self.ballots.get(&ballot) else { return Err("a ballot that nobody began".into()) };
        let all = reports.is_none_or(|reports| this.asked.iter().all(|r| reports.contains_key(r)));
        let quorum = self.is_quorum(rules, |r| reports.map_or(this.asked.contains(&r), |all| all.contains_key(&r)));
        if !rules.has_gathered(all, quorum) {
            return Err("not all that were asked have reported".into());
        }
        for (rank, report) in reports.into_iter().flatten() {
            let expected = self.had_accepted(*rank, ballot).map(|(b, _)| *b);
            let told = report.accepted.as_ref().map(|(b, _)| *b);
            if told != expected {
                return Err(format!("rank {rank} reported {told:?} as accepted, and had accepted {expected:?}"));
            }
        }
        let had = this.asked.iter().filter_map(|&rank| self.had_accepted(rank, ballot));
        if let Some(must) = rules.adopted(had.map(|(b, p)| (*b, p))) {
            let same = **must == *proposal;
            return if same {
                Ok(true)
            } else {
                Err("it is not what was accepted in the highest ballot reported".into())
            };
        }
        let left = |rank: usize| {
            let who = self.acceptors.get(rank);
            proposal.left.iter().any(|(l, why)| Some(l) == who && *why == LeaveReason::Left)
        };
        for (rank, who) in self.acceptors.iter().enumerate() {
            let reported = reports.map_or(this.asked.contains(&rank), |reports| reports.contains_key(&rank));
            let survives = rules.survives(this.asked.contains(&rank), reported, reported && left(rank));
            if proposal.left.iter().all(|(left, _)| left != who) != survives {
                return Err(format!("rank {rank}: reported {reported}, and survives {}", !survives));
            }
        }
        let first = |rank: usize| this.own.as_ref().filter(|_| rank == usize::from(ballot.rank));
        let reports: Vec<&Report> =
            reports.into_iter().flatten().map(|(&rank, report)| first(rank).unwrap_or(report)).collect();
        for (group, cut) in proposal.cuts().filter(|_| !reports.is_empty()) {
            for (stream, &end) in cut.prefixes.iter().enumerate() {
                let held = reports.iter().flat_map(|r| r.prefixes.iter().filter(|(g, _)| *g == group));
                let held: Vec<&Vec<u64>> = held.map(|(_, prefixes)| prefixes).collect();
                if rules.cut(held.iter().filter_map(|prefixes| prefixes.get(stream).copied())) != end {
                    let cut = &cut.prefixes;
                    return Err(format!("{group:?} is cut at {cut:?}, not at the longest of {held:?}"));
                }
            }
        }
        Ok(false)
    }
}

/// Whether all that reported hold the cuts of a proposal, but for those that lose the state of the group and do not deliver
/// to its cut.
pub(super) fn is_filled(rules: Rules, c: &Coordinator, acceptors: &[Incarnation], proposal: &Proposal) -> bool {
    proposal.groups.iter().filter_map(|change| Some((change, change.cut.as_ref()?))).all(|(change, cut)| {
        let loses = |rank: &usize| acceptors.get(*rank).is_some_and(|who| change.is_lost_to(*who));
        let keepers = c.reports.iter().filter(|(rank, _)| !loses(rank)).map(|(_, report)| report);
        let mut held = keepers.flat_map(|r| r.prefixes.iter().filter(|(g, _)| *g == change.group));
        held.all(|(_, held)| held.iter().zip(&cut.prefixes).all(|(held, cut)| !rules.must_fill(held, cut)))
    })
}

/// Whether a proposal is what was filled, and what was judged of groups with a packet that makes no sense: there the cut may end
/// sooner, and more may leave.
pub(super) fn is_judged(c: &Coordinator, filled: &Proposal, proposal: &Proposal) -> bool {
    let unreadable = c.unreadable_groups();
    let rest = |proposal: &Proposal| {
        let mut rest = proposal.clone();
        for change in rest.groups.iter_mut().filter(|change| unreadable.contains(&change.group)) {
            (change.cut, change.left, change.joined) = (None, Vec::new(), Vec::new());
        }
        rest
    };
    let follows = |(before, after): (&GroupChange, &GroupChange)| {
        let ends = |cut: &Option<GroupCut>| cut.as_ref().map(|cut| cut.prefixes.clone()).unwrap_or_default();
        let no_later = ends(&before.cut).iter().zip(&ends(&after.cut)).all(|(before, after)| after <= before);
        no_later && before.left.iter().all(|(who, _)| after.left.iter().any(|(other, _)| other == who))
    };
    rest(filled) == rest(proposal) && filled.groups.iter().zip(&proposal.groups).all(follows)
}
