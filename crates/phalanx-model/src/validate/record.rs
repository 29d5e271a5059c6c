//! The observed history of one cell: ballots, acceptances, decisions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use phalanx_core::member::{
    Ballot, Coordinator, Directory, GroupChange, GroupCut, MembershipRequests, Proposal, Report,
};
use phalanx_core::{DecreeNumber, GroupId, Incarnation, LeaveReason, Rank};

use super::draft::{Draft, Observed, keeps_state};
use crate::rules::Rules;

/// One cell instance.
#[derive(Default)]
pub(super) struct Cell {
    /// By decree number.
    pub(super) decisions: BTreeMap<DecreeNumber, Arc<Proposal>>,
    /// By the decree number that they are to decide.
    pub(super) decrees: BTreeMap<DecreeNumber, Decree>,
}

/// One decree under way, or decided.
#[derive(Default)]
pub(super) struct Decree {
    /// The acceptors, by rank.
    pub(super) acceptors: Vec<Incarnation>,
    /// The directory in force until then.
    pub(super) directory: Option<Directory>,
    pub(super) ballots: BTreeMap<Ballot, Try>,
    /// Each acceptor's acceptances, in the order of its polls.
    pub(super) accepted: BTreeMap<Incarnation, Vec<(Ballot, Arc<Proposal>)>>,
    /// The first ballot in which the member of a rank reported to lack the state of a group.
    pub(super) incomplete: BTreeMap<(Rank, GroupId), Ballot>,
}

/// One ballot.
pub(super) struct Try {
    pub(super) asked: BTreeSet<Rank>,
    pub(super) groups: BTreeSet<GroupId>,
    /// Its proposal, once that is known.
    pub(super) proposal: Option<Arc<Proposal>>,
    /// Whether it proposes an earlier ballot's proposal.
    pub(super) adopted: bool,
    /// By rank, the reports until the poll before the proposal was fixed.
    pub(super) reports: BTreeMap<Rank, Report>,
    /// The requests that its coordinator knew, if they were observed.
    pub(super) requests: Option<MembershipRequests>,
}

/// How a ballot may propose something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Fixed {
    /// It is an earlier ballot's proposal.
    pub(super) adopted: bool,
    /// Members that asked to leave and are kept.
    pub(super) held: usize,
    /// Not all of its reports were observed.
    pub(super) blind: bool,
}

impl Try {
    pub(super) fn new(c: &Coordinator) -> Self {
        let (asked, groups, requests) = (c.asked.clone(), c.groups.clone(), Some(c.requests.clone()));
        let reports = c.reports.clone();
        Self { asked, groups, proposal: None, adopted: false, reports, requests }
    }
}

impl Decree {
    pub(super) fn rank(&self, who: Incarnation) -> Option<Rank> {
        self.acceptors.iter().position(|a| *a == who).map(Rank::from_index)
    }

    pub(super) fn is_quorum(&self, rules: Rules, has: impl Fn(Rank) -> bool) -> bool {
        let count = Rank::all(self.acceptors.len()).filter(|&r| has(r)).count();
        rules.is_quorum(count, self.acceptors.len(), has(Rank::FIRST))
    }

    /// The acceptance that an acceptor has to report in a ballot: its last one in an earlier ballot.
    fn had_accepted(&self, rank: Rank, ballot: Ballot) -> Option<&(Ballot, Arc<Proposal>)> {
        let history = self.accepted.get(self.acceptors.get(rank.index())?)?;
        history.iter().filter(|(b, _)| *b < ballot).max_by_key(|(b, _)| *b)
    }

    /// The ballot in which a quorum accepted a proposal.
    pub(super) fn accepted_by_quorum(&self, rules: Rules, proposal: &Proposal) -> Option<Ballot> {
        let accepts = |rank: Rank, ballot: Ballot| {
            let history = self.acceptors.get(rank.index()).and_then(|who| self.accepted.get(who));
            history.is_some_and(|h| h.iter().any(|(b, p)| *b == ballot && **p == *proposal))
        };
        self.ballots.keys().copied().find(|&ballot| self.is_quorum(rules, |r| accepts(r, ballot)))
    }

    /// Whether a ballot may propose this, given what its acceptors have to report. `coordinator`: present if it still
    /// drives the ballot, and so shows its reports.
    pub(super) fn may_propose(
        &self,
        rules: Rules,
        ballot: Ballot,
        proposal: &Proposal,
        coordinator: Option<&Coordinator>,
    ) -> Result<Fixed, String> {
        let Some(this) = self.ballots.get(&ballot) else { return Err("a ballot that nobody began".into()) };
        let reports = coordinator.map(|c| &c.reports);
        let all = reports.is_none_or(|reports| this.asked.iter().all(|r| reports.contains_key(r)));
        let quorum = self.is_quorum(rules, |r| reports.map_or(this.asked.contains(&r), |all| all.contains_key(&r)));
        if !rules.has_gathered(all, quorum) {
            return Err("not all that were asked have reported".into());
        }
        for (rank, report) in reports.into_iter().flatten() {
            let expected = self.had_accepted(*rank, ballot).map(|(b, _)| *b);
            let observed = report.accepted.as_ref().map(|(b, _)| *b);
            if observed != expected {
                return Err(format!("rank {rank} reported {observed:?} as accepted, and had accepted {expected:?}"));
            }
        }
        let had = this.asked.iter().filter_map(|&rank| self.had_accepted(rank, ballot));
        if let Some(must) = rules.adopted(had.map(|(b, p)| (*b, p))) {
            let same = **must == *proposal;
            return if same {
                Ok(Fixed { adopted: true, ..Fixed::default() })
            } else {
                Err("it is not what was accepted in the highest ballot reported".into())
            };
        }
        let left = |rank: Rank| {
            let who = self.acceptors.get(rank.index());
            proposal.left.iter().any(|(l, why)| Some(l) == who && *why == LeaveReason::Left)
        };
        for (rank, who) in Rank::enumerate(&self.acceptors) {
            let reported = reports.map_or(this.asked.contains(&rank), |reports| reports.contains_key(&rank));
            let survives = rules.survives(this.asked.contains(&rank), reported, reported && left(rank));
            if proposal.left.iter().all(|(left, _)| left != who) != survives {
                return Err(format!("rank {rank}: reported {reported}, and survives {}", !survives));
            }
        }
        let Some(directory) = &self.directory else { return Err("nobody was seen in the view before".into()) };
        let draft = Draft { rules, directory, requests: this.requests.as_ref(), proposal };
        draft.check_shapes()?;
        // Its coordinator may report again, with longer prefixes, in the poll in which the last report of the others
        // arrives.
        let mut known: BTreeMap<Rank, &Report> =
            coordinator.iter().flat_map(|c| &c.reports).map(|(r, of)| (*r, of)).collect();
        known.extend(this.reports.iter().map(|(rank, report)| (*rank, report)));
        let groups = this.requests.as_ref().map(|_| &this.groups);
        let observed = Observed { coordinator, asked: &this.asked, groups, reports: known };
        draft.check_by_reports(&observed)?;
        Ok(Fixed { adopted: false, held: draft.held(&observed).len(), blind: !observed.is_all() })
    }

    /// Checks that a member that reported to lack a group's state reports so until the decision.
    pub(super) fn check_incomplete(&mut self, c: &Coordinator) -> Result<(), String> {
        for (&rank, report) in &c.reports {
            for (group, _) in &report.prefixes {
                let key = (rank, *group);
                if report.incomplete.contains(group) {
                    let first = self.incomplete.entry(key).or_insert(c.ballot);
                    *first = c.ballot.min(*first);
                } else if self.incomplete.get(&key).is_some_and(|first| *first <= c.ballot) {
                    self.incomplete.remove(&key); // one report, not one for each poll
                    return Err(format!(
                        "rank {rank} was incomplete in {group:?}, and is complete before the decision"
                    ));
                }
            }
        }
        Ok(())
    }
}

/// Whether all reporters hold the cuts of a proposal. Reporters that lose the state of a group do not count, because
/// they do not deliver to its cut.
pub(super) fn is_filled(rules: Rules, c: &Coordinator, acceptors: &[Incarnation], proposal: &Proposal) -> bool {
    proposal.groups.iter().filter_map(|change| Some((change, change.cut.as_ref()?))).all(|(change, cut)| {
        let loses = |rank: &Rank| acceptors.get(rank.index()).is_some_and(|who| change.is_lost_to(*who));
        let keepers = c.reports.iter().filter(|(rank, _)| !loses(rank)).map(|(_, report)| report);
        let mut held = keepers.flat_map(|r| r.prefixes.iter().filter(|(g, _)| *g == change.group));
        held.all(|(_, held)| held.iter().zip(&cut.prefixes).all(|(held, cut)| !rules.must_fill(held, cut)))
    })
}

/// Whether a proposal is the one whose cuts were recovered, changed only by the resolution of nonsense. There the cut
/// may end sooner, and more members may leave. A group that continues keeps a member with its state.
pub(super) fn is_judged(
    rules: Rules,
    directory: &Directory,
    c: &Coordinator,
    filled: &Proposal,
    proposal: &Proposal,
) -> bool {
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
    rest(filled) == rest(proposal)
        && filled.groups.iter().zip(&proposal.groups).all(follows)
        && proposal.groups.iter().all(|change| keeps_state(rules, directory, c, change))
}
