//! Small cells that take the way of large ones: what all members know after some heartbeats.

use std::collections::BTreeSet;
use std::time::Duration;

use super::PROBED_MAX;
use crate::id::Rank;
use crate::member::{FailureDetector, HeardCount, LinkReport, Patience, WatchGraph};
use crate::time::Instant;

const BEAT: Duration = Duration::from_millis(100);

/// Members that exchange heartbeats and forward link-state reports over links that may be cut.
struct Cell {
    now: Instant,
    members: Vec<FailureDetector>,
    dead: BTreeSet<usize>,
    /// Directed links that carry nothing.
    cut: BTreeSet<(usize, usize)>,
    /// Pairs (waiter, member that owes it an answer).
    waits: Vec<(usize, usize)>,
}

impl Cell {
    fn new(members: usize, watchers: usize) -> Self {
        let now = Instant(1_000_000_000);
        let patience = Patience { suspect_after: BEAT * 9, beat: BEAT, watchers };
        let members = Rank::all(members).map(|me| FailureDetector::new(me, members, now, patience)).collect();
        Self { now, members, dead: BTreeSet::new(), cut: BTreeSet::new(), waits: Vec::new() }
    }

    fn alive(&self) -> Vec<usize> {
        (0..self.members.len()).filter(|rank| !self.dead.contains(rank)).collect()
    }

    fn comes_through(&self, from: usize, to: usize) -> bool {
        !self.dead.contains(&to) && !self.cut.contains(&(from, to))
    }

    fn cut_both(&mut self, a: usize, b: usize) {
        self.cut.extend([(a, b), (b, a)]);
    }

    fn run(&mut self, beats: usize) {
        for _ in 0..beats {
            self.now += BEAT;
            for rank in self.alive() {
                self.beat_of(rank);
                self.flood();
            }
        }
        for rank in self.alive() {
            self.members[rank].evaluate(self.now);
        }
        self.flood();
    }

    fn beat_of(&mut self, rank: usize) {
        let waited =
            self.waits.iter().filter(|(who, _)| *who == rank).map(|(_, whom)| Rank::from_index(*whom)).collect();
        self.members[rank].evaluate(self.now);
        let targets = self.members[rank].targets(self.now, waited);
        let watch = self.members[rank].watch().expect("a large cell");
        let (depth, digest) = (watch.depth(), watch.digest());
        for (to, asks) in targets.told.iter().map(|to| (to, false)).chain(targets.asked.iter().map(|to| (to, true))) {
            let (from, to) = (Rank::from_index(rank), to.index());
            if !self.comes_through(rank, to) {
                continue;
            }
            self.members[to].heard(self.now, from);
            if self.members[to].watch_heartbeat(self.now, from, depth, asks, digest) && self.comes_through(to, rank) {
                let watch = self.members[to].watch().expect("a large cell");
                let link_reports: Vec<_> =
                    watch.link_reports().map(|(whose, link_report)| (whose, link_report.clone())).collect();
                for (whose, link_report) in link_reports {
                    self.members[rank].take_link_report(whose, link_report);
                }
            }
        }
    }

    fn flood(&mut self) {
        loop {
            let mut quiet = true;
            for rank in self.alive() {
                let watch = self.members[rank].watch_mut().expect("a large cell");
                let (news, targets) = (watch.take_news(), watch.last_targets());
                quiet &= news.is_empty();
                for to in
                    targets.into_iter().map(Rank::index).filter(|to| self.comes_through(rank, *to)).collect::<Vec<_>>()
                {
                    for (whose, link_report) in &news {
                        self.members[to].take_link_report(*whose, link_report.clone());
                    }
                }
            }
            if quiet {
                break;
            }
        }
        for rank in self.alive() {
            self.members[rank].evaluate(self.now);
        }
    }

    fn candidates(&self, rank: usize) -> Vec<usize> {
        self.members[rank].candidates(self.now, &BTreeSet::new()).into_iter().map(Rank::index).collect()
    }

    fn hears(&self, rank: usize) -> usize {
        self.members[rank].heard_count(self.now, Rank::from_index(rank)).members
    }
}

#[test]
fn a_quiet_cell_says_nothing_and_beats_to_its_watchers_alone() {
    let mut cell = Cell::new(40, 6);
    cell.run(30);
    for rank in 0..40 {
        assert_eq!(cell.hears(rank), 40);
        assert!(cell.candidates(rank).is_empty());
        assert_eq!(cell.members[rank].watch().expect("large").link_reports().count(), 0);
        let targets = cell.members[rank].targets(cell.now, BTreeSet::new());
        assert_eq!(targets.told.len(), 6);
        assert!(targets.asked.is_empty());
    }
}

/// Its control socket takes nothing in, and its data socket works: packets come from all, and no heartbeats.
#[test]
fn who_gets_packets_without_heartbeats_goes_in_the_end() {
    let mut cell = Cell::new(9, 4);
    cell.cut.extend((0..9).filter(|rank| *rank != 4).map(|rank| (rank, 4)));
    let mut run = |beats: usize| {
        for _ in 0..beats {
            for rank in Rank::all(9) {
                let now = cell.now;
                cell.members[4].heard(now, rank);
            }
            cell.run(1);
        }
        (0..9).filter(|rank| *rank != 4).map(|rank| cell.candidates(rank)).collect::<BTreeSet<_>>()
    };
    assert_eq!(run(35), BTreeSet::from([vec![]]), "a member under load sends its heartbeats late");
    assert_eq!(run(5), BTreeSet::from([vec![4]]));
}

#[test]
fn nobody_speaks_for_this_member_or_for_one_that_is_not_there() {
    let mut cell = Cell::new(20, 3);
    let link_report = || LinkReport { version: 9, suspected: vec![Rank(1)], besides: Vec::new() };
    let heard = [0, 1, 20].map(|rank| cell.members[0].take_link_report(Rank(rank), link_report()));
    assert_eq!(heard, [false, true, false]);
    assert!(!cell.members[0].take_link_report(Rank(1), link_report()), "the same again is no news");
}

#[test]
fn everybody_learns_who_fell_silent() {
    for watchers in 2..=4 {
        let mut cell = Cell::new(9, watchers);
        cell.run(3);
        cell.dead.insert(3);
        cell.run(8);
        assert!(cell.candidates(7).is_empty(), "silence is borne for a while");
        cell.run(8);
        for rank in cell.alive() {
            assert_eq!(cell.candidates(rank), [3], "{watchers} watchers, rank {rank}");
            assert_eq!(cell.hears(rank), 8);
            assert!(cell.members[rank].is_settled(cell.now));
        }
    }
}

#[test]
fn a_deaf_member_goes_and_not_those_it_suspects() {
    let mut cell = Cell::new(9, 4);
    cell.run(3);
    cell.cut.extend((0..9).filter(|from| *from != 2).map(|from| (from, 2)));
    cell.run(25);
    for rank in [0, 1, 3, 8] {
        assert_eq!(cell.candidates(rank), [2], "rank {rank}");
        assert_eq!(cell.hears(rank), 8);
    }
    assert_eq!(cell.hears(2), 1, "who hears nobody does not coordinate");
    assert_eq!(cell.members[0].heard_count(cell.now, Rank(3)), HeardCount { members: 8, with_rank_0: true });
}

#[test]
fn two_sides_know_their_own_and_suspicions_lapse() {
    let mut cell = Cell::new(9, 4);
    cell.run(3);
    for (a, b) in (0..5).flat_map(|a| (5..9).map(move |b| (a, b))) {
        cell.cut_both(a, b);
    }
    cell.run(25);
    for rank in 0..9 {
        assert_eq!(cell.hears(rank), if rank < 5 { 5 } else { 4 }, "rank {rank}");
    }
    assert_eq!(cell.candidates(0), [5, 6, 7, 8]);
    cell.cut.clear();
    cell.run(25);
    for rank in 0..9 {
        assert_eq!(cell.hears(rank), 9, "rank {rank}");
        assert!(cell.candidates(rank).is_empty());
    }
}

#[test]
fn a_member_whose_watchers_all_died_is_found_again() {
    let mut cell = Cell::new(9, 4);
    cell.run(3);
    cell.dead.extend(WatchGraph::new(9, 4).neighbours(Rank(8)).into_iter().map(Rank::index));
    cell.run(40);
    assert_eq!(cell.dead.len(), 4);
    for rank in cell.alive() {
        assert_eq!(cell.hears(rank), 5, "rank {rank}");
        assert_eq!(cell.candidates(rank), cell.dead.iter().copied().collect::<Vec<_>>(), "rank {rank}");
    }
}

#[test]
fn a_cut_cable_costs_the_younger_end_once_it_is_settled() {
    let mut cell = Cell::new(9, 4);
    cell.run(3);
    let other = WatchGraph::new(9, 4).neighbours(Rank(4))[3].index();
    cell.cut_both(4, other);
    cell.run(25);
    assert_eq!(cell.candidates(0), [other.max(4)]);
    assert!(!cell.members[0].is_settled(cell.now), "both are reached: more may be to come");
    assert_eq!(cell.hears(0), 9);
}

#[test]
fn who_waits_for_an_answer_watches_for_it() {
    let mut cell = Cell::new(9, 2);
    cell.run(3);
    cell.cut_both(0, 4);
    cell.run(25);
    assert!(cell.candidates(0).is_empty(), "no link between them is watched");
    cell.waits.push((0, 4));
    cell.run(25);
    assert_eq!(cell.candidates(0), [4]);
    assert_eq!(cell.candidates(8), [4], "the others are told");
    cell.waits.clear();
    cell.run(5);
    assert_eq!(cell.candidates(8), [4], "a link that is known to be broken is looked at");
    // With the link whole, the other answers because it is requested to, and is not suspected.
    cell.cut.clear();
    cell.run(5);
    assert!(cell.candidates(8).is_empty());
    cell.waits.push((0, 4));
    cell.run(25);
    assert!(cell.candidates(0).is_empty());
}

#[test]
fn who_is_both_told_and_asked_hears_news_too() {
    let mut cell = Cell::new(16, 4);
    cell.run(3);
    let far =
        (1..16).map(Rank).find(|rank| !cell.members[0].watch().expect("a large cell").neighbours().contains(rank));
    let far = far.expect("not everybody is a neighbour");
    // Its heartbeat requests one of ours, and we wait for an answer of it.
    let now = cell.now;
    cell.members[0].watch_mut().expect("a large cell").beat(now, far, 0, true);
    let later = now + BEAT * 12;
    cell.members[0].watch_mut().expect("a large cell").beat(later, far, 0, true);
    for _ in 0..2 {
        cell.members[0].targets(later + BEAT * 3, BTreeSet::from([far]));
    }
    assert!(cell.members[0].watch().expect("a large cell").last_targets().contains(&far));
}

#[test]
fn all_know_when_all_have_installed() {
    let mut cell = Cell::new(20, 4);
    let span = WatchGraph::new(20, 4).span();
    cell.dead.insert(11); // not installed yet: it says nothing of this decree
    cell.run(3 * span);
    assert!((0..20).all(|rank| !cell.members[rank].watch().expect("large").all_installed()));
    cell.dead.clear();
    cell.run(2 * span + 2);
    assert!((0..20).all(|rank| cell.members[rank].watch().expect("large").all_installed()));
}

#[test]
fn who_has_installed_is_known_as_far_as_neighbours_tell() {
    let mut cell = Cell::new(20, 4);
    cell.dead.insert(11); // not installed yet: it says nothing of this decree
    cell.run(12);
    for rank in (0..20).filter(|rank| *rank != 11) {
        let installed = cell.members[rank].watch().expect("large").installed();
        assert!(installed[rank] && !installed[11], "{rank}: {installed:?}");
        assert!(installed.iter().filter(|known| **known).count() > 10, "{rank}: a majority has, {installed:?}");
    }
}

#[test]
fn whoever_is_left_with_a_ring_of_links_hears_its_neighbours_alone() {
    // The ring that is left is not the graph's: each member has links there that no member watches.
    let ring = [0, 4, 1, 3, 6, 2, 5];
    for watchers in 2..=4 {
        let mut cell = Cell::new(7, watchers);
        cell.run(3);
        for (i, j) in (0..7).flat_map(|i| (i + 2..7).map(move |j| (i, j))).filter(|pair| *pair != (0, 6)) {
            cell.cut_both(ring[i], ring[j]);
        }
        cell.run(45);
        for rank in 0..7 {
            assert_eq!(cell.hears(rank), 3, "{watchers} watchers, rank {rank}");
        }
        cell.cut.clear();
        cell.run(45);
        for rank in 0..7 {
            assert_eq!(cell.hears(rank), 7, "{watchers} watchers, rank {rank}");
            assert!(cell.candidates(rank).is_empty());
        }
    }
}

#[test]
fn in_doubt_all_look_at_all_of_their_links_unless_they_are_too_many() {
    for (members, looked_at) in [(PROBED_MAX, true), (PROBED_MAX + 1, false)] {
        let mut cell = Cell::new(members, 4);
        cell.run(3);
        let other = WatchGraph::new(members, 4).neighbours(Rank(4))[3].index();
        cell.cut_both(4, other);
        cell.run(45);
        assert_eq!(cell.candidates(0).len(), 1);
        // Of two, one requests and the other answers.
        let targets = cell.members[0].watch().expect("a large cell").last_targets().len();
        assert_eq!(targets, if looked_at { members - 1 } else { 4 }, "{members} members");
    }
}

/// The digest is the XOR of all marks. Equal digests must mean equal link-state reports, whichever members made them
/// and however often.
#[test]
fn marks_differ_by_member_and_version_in_every_bit() {
    let marks: BTreeSet<u64> =
        (0..64).flat_map(|rank| (1..=64).map(move |version| super::mark(Rank(rank), version))).collect();
    assert_eq!(marks.len(), 64 * 64);
    for bit in 0..64 {
        let set = marks.iter().filter(|mark| *mark >> bit & 1 == 1).count();
        assert!((1_800..2_300).contains(&set), "bit {bit} is set in {set} of 4,096");
    }
}
