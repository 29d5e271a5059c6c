//! Slow-member reports: which members are alive and hold the others back, and who reported it.
//!
//! A member names those that keep its streams waiting, in its heartbeats and for as long as they do. A report that is
//! not repeated lapses. A member that takes or gives a state says so and is excused, because it cannot take deliveries
//! yet. A report is never final: only a decided view excludes a member.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::is_quorum;
use crate::id::Rank;
use crate::time::Instant;

/// A member's report on slow members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlowReport {
    /// Whether a state transfer keeps it from taking deliveries.
    pub excused: bool,
    /// The members that it reports as too slow, ascending by rank. It may report itself.
    pub slow: Vec<Rank>,
}

/// The most members in one report. Others are reported in the next view.
const SLOW_REPORTED_MAX: usize = 32;

impl SlowReport {
    /// Shortens the report to what one member may report.
    pub fn cut(&mut self) {
        self.slow.truncate(SLOW_REPORTED_MAX);
    }

    /// Whether there is nothing to report.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.excused && self.slow.is_empty()
    }
}

/// The slow-member reports in the view in force.
#[derive(Clone, Debug, Default)]
pub struct Slow {
    said: BTreeMap<Rank, (Instant, SlowReport)>,
    leavers: BTreeSet<Rank>,
}

impl Slow {
    /// Takes a report of `rank`, which replaces its earlier one. True if it differs.
    pub(super) fn say(&mut self, now: Instant, rank: Rank, slow_report: SlowReport) -> bool {
        let old = if slow_report.is_empty() {
            self.said.remove(&rank).map(|(_, old)| old)
        } else {
            self.said.insert(rank, (now, slow_report.clone())).map(|(_, old)| old)
        };
        old.unwrap_or_default() != slow_report
    }

    /// Whether `rank` recently reported that a state transfer holds it up.
    #[must_use]
    pub fn is_excused(&self, rank: Rank) -> bool {
        self.said.get(&rank).is_some_and(|(_, said)| said.excused)
    }

    /// Determines the members that are to leave although they are alive.
    ///
    /// While any member is reported by the others, the one with most reports leaves (ties: the younger). A member is
    /// spared if those that stay would be no quorum without it. The members in `out` leave in any case, and their
    /// reports do not count.
    pub(super) fn evaluate(&mut self, now: Instant, patience: Duration, members: usize, out: &BTreeSet<Rank>) {
        // A report that is not repeated lapses, so that a member that has caught up is not removed for it.
        self.said.retain(|_, (at, _)| now.since(*at) < patience);
        self.leavers.clear();
        let mut spared = BTreeSet::new();
        loop {
            let is_out = |rank: &Rank| out.contains(rank) || self.leavers.contains(rank);
            let mut suspected: BTreeMap<Rank, usize> = BTreeMap::new();
            for (_, (_, slow_report)) in self.said.iter().filter(|(by, _)| !is_out(by)) {
                for rank in slow_report.slow.iter().copied().filter(|rank| rank.index() < members) {
                    if !is_out(&rank) && !spared.contains(&rank) && !self.is_excused(rank) {
                        *suspected.entry(rank).or_default() += 1;
                    }
                }
            }
            debug_assert!(suspected.keys().all(|rank| rank.index() < members), "a suspected rank is no member");
            let Some((_, worst)) = suspected.into_iter().map(|(rank, count)| (count, rank)).max() else { return };
            let stays = |rank: Rank| rank != worst && !is_out(&rank);
            let left = Rank::all(members).filter(|rank| stays(*rank)).count();
            // The decree without the member needs a quorum of the view among the others.
            let may_leave = is_quorum(left, members, stays(Rank::FIRST));
            if may_leave {
                self.leavers.insert(worst);
            } else {
                spared.insert(worst);
            }
        }
    }

    /// Whether nothing is reported, and no member is to leave.
    pub(super) fn is_silent(&self) -> bool {
        self.said.is_empty() && self.leavers.is_empty()
    }

    /// The members that are to leave, according to the last evaluation.
    #[must_use]
    pub fn leavers(&self) -> &BTreeSet<Rank> {
        &self.leavers
    }

    /// Checks the invariants.
    ///
    /// # Panics
    /// If one is violated.
    pub(super) fn check_invariants(&self, members: usize) {
        assert!(self.said.keys().all(|rank| rank.index() < members), "a report is kept of a rank beyond the view");
        assert!(self.leavers.iter().all(|rank| rank.index() < members), "a leaver is no member");
        assert!(self.said.values().all(|(_, said)| !said.is_empty()), "an empty report is kept");
    }

    /// The last report of `rank`.
    #[must_use]
    pub fn said(&self, rank: Rank) -> Option<&SlowReport> {
        self.said.get(&rank).map(|(_, slow_report)| slow_report)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_millis(900);

    fn at(ms: u64) -> Instant {
        Instant(ms * 1_000_000)
    }

    /// The members that leave a view of `members` after these reports: pairs of (suspecter, suspect).
    fn leavers(members: usize, said: &[(u16, &[u16])], excused: &[u16]) -> Vec<u16> {
        let mut slow = Slow::default();
        for rank in excused {
            slow.say(at(0), Rank(*rank), SlowReport { excused: true, slow: Vec::new() });
        }
        for (by, suspected) in said {
            slow.say(
                at(0),
                Rank(*by),
                SlowReport { excused: false, slow: suspected.iter().copied().map(Rank).collect() },
            );
        }
        slow.evaluate(at(1), PATIENCE, members, &BTreeSet::new());
        slow.leavers().iter().map(|rank| rank.0).collect()
    }

    #[test]
    fn whoever_one_member_waits_for_leaves() {
        assert_eq!(leavers(3, &[(1, &[2])], &[]), [2]);
        assert_eq!(leavers(3, &[(1, &[0])], &[]), [0], "rank 0 as well");
        assert_eq!(leavers(3, &[(1, &[1])], &[]), [1], "and who suspects itself");
    }

    #[test]
    fn of_two_that_suspect_each_other_the_younger_leaves() {
        assert_eq!(leavers(5, &[(1, &[3]), (3, &[1])], &[]), [3]);
        assert_eq!(leavers(5, &[(1, &[3]), (2, &[3]), (3, &[1])], &[]), [3]);
        assert_eq!(leavers(5, &[(0, &[1]), (1, &[3]), (3, &[1])], &[]), [1]);
    }

    #[test]
    fn a_quorum_stays() {
        assert_eq!(leavers(2, &[(0, &[1])], &[]), [1], "half with rank 0");
        assert_eq!(leavers(2, &[(1, &[0])], &[]), [0; 0], "half without");
        assert_eq!(leavers(5, &[(0, &[2, 3, 4])], &[]), [3, 4]);
        assert_eq!(leavers(4, &[(1, &[0, 2])], &[]), [2], "three with rank 0, or without; two only with it");
    }

    #[test]
    fn who_is_held_up_by_a_transfer_stays() {
        assert_eq!(leavers(3, &[(1, &[2])], &[2]), [0; 0]);
    }

    #[test]
    fn what_is_taken_back_or_not_said_again_lapses() {
        let mut slow = Slow::default();
        let two = SlowReport { excused: false, slow: vec![Rank(2)] };
        assert!(slow.say(at(0), Rank(1), two.clone()));
        assert!(!slow.say(at(500), Rank(1), two.clone()));
        slow.evaluate(at(1399), PATIENCE, 3, &BTreeSet::new());
        assert_eq!(slow.leavers().len(), 1);
        slow.evaluate(at(1400), PATIENCE, 3, &BTreeSet::new());
        assert_eq!(slow.leavers().len(), 0);
        assert!(slow.say(at(1500), Rank(1), two) && slow.say(at(1600), Rank(1), SlowReport::default()));
        slow.evaluate(at(1600), PATIENCE, 3, &BTreeSet::new());
        assert_eq!(slow.leavers().len(), 0);
    }

    #[test]
    fn those_that_leave_anyway_suspect_nobody() {
        let mut slow = Slow::default();
        slow.say(at(0), Rank(1), SlowReport { excused: false, slow: vec![Rank(2)] });
        slow.evaluate(at(1), PATIENCE, 3, &BTreeSet::from([1].map(Rank)));
        assert_eq!(slow.leavers().len(), 0);
    }

    #[test]
    fn one_member_suspects_as_many_as_it_may_and_the_next_view_judges_the_others() {
        let mut slow_report =
            SlowReport { excused: false, slow: (1..=SLOW_REPORTED_MAX as u16 + 1).map(Rank).collect() };
        slow_report.cut();
        assert_eq!(slow_report.slow, (1..=SLOW_REPORTED_MAX as u16).map(Rank).collect::<Vec<_>>());
        slow_report.cut();
        assert_eq!(slow_report.slow.len(), SLOW_REPORTED_MAX);
        let ranks: Vec<u16> = slow_report.slow.iter().map(|rank| rank.0).collect();
        assert_eq!(leavers(100, &[(0, &ranks)], &[]).len(), SLOW_REPORTED_MAX, "all of them may go at once");
    }
}
