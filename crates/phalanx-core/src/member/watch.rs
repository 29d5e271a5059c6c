//! The failure detector of a large cell: each member watches its neighbours in the watch graph, and link-state reports
//! are flooded.
//!
//! A *link-state report* lists the watched members that its owner does not hear, and the members that it hears besides.
//! The owner raises its version with each change. Every member forwards a newer one at once, and neighbours whose
//! heartbeats carry different digests exchange all. So connected members soon know the same reports and draw the same
//! conclusion: a member is heard if links that neither end disclaims lead to it.
//!
//! Read first: `graph`, then `failure_detector`, which judges silence.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::graph::WatchGraph;
use crate::id::Rank;
use crate::time::Instant;

/// A member's report on its links in the view in force.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkReport {
    /// Grows with each change. 0 if the member never reported anything: nothing is wrong.
    pub version: u64,
    /// The watched members that it does not hear, ascending by rank.
    pub suspected: Vec<Rank>,
    /// The members that it hears without being their neighbour, ascending: it reached them in no other way.
    pub besides: Vec<Rank>,
}

/// What a member knows of the links of its view.
#[derive(Clone, Debug)]
pub struct Watch {
    me: Rank,
    members: usize,
    graph: WatchGraph,
    neighbours: Vec<Rank>,
    span: u64,
    /// Reports with a version above 0, by rank.
    link_reports: BTreeMap<Rank, LinkReport>,
    digest: u64,
    /// Owners of the reports that are to be forwarded.
    news: BTreeSet<Rank>,
    /// Whether each member is reached, by rank, according to the reports at the last refresh.
    reached: Vec<bool>,
    reached_count: usize,
    stale: bool,
    /// Members watched besides the neighbours, because an answer is due or links are in doubt, and since when.
    watchees: BTreeMap<Rank, Instant>,
    waited_before: BTreeSet<Rank>,
    /// Members that requested heartbeats, and when they last did.
    temporary_watchers: BTreeMap<Rank, Instant>,
    /// Members that are no neighbours and whose heartbeat came, and when.
    heard_besides: BTreeMap<Rank, Instant>,
    /// By neighbour: the distance up to which all members around it have installed the decree in force.
    depths: BTreeMap<Rank, u64>,
    /// Position in the list of members out of reach: the next ones to search for.
    turn: usize,
    /// The members to which the last heartbeat went.
    last_targets: BTreeSet<Rank>,
}

/// The members to which the next heartbeat goes, by rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Targets {
    /// The neighbours, and the members that requested heartbeats.
    pub told: BTreeSet<Rank>,
    /// The members that are requested to answer with heartbeats.
    pub asked: BTreeSet<Rank>,
}

/// Up to this many members, each member checks all of its links as soon as one in the cell is suspected although both
/// its ends are reached, and reports to all others which paths failed. In a larger cell that would cost a packet for
/// each pair of members and heartbeat.
const PROBED_MAX: usize = 64;
/// A temporary watcher is dropped after this many heartbeats without a request.
const TEMPORARY_WATCHER_BEATS: u32 = 3;

/// How many members a member hears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeardCount {
    /// Their number, itself included.
    pub members: usize,
    /// Whether rank 0 is one of them: half of a view is a quorum only with it.
    pub with_rank_0: bool,
}

impl Watch {
    /// The state for a new view, in which every link counts as heard.
    #[must_use]
    pub fn new(me: Rank, members: usize, watchers: usize) -> Self {
        let graph = WatchGraph::new(members, watchers);
        Self {
            me,
            members,
            last_targets: graph.neighbours(me).into_iter().collect(),
            neighbours: graph.neighbours(me),
            span: graph.span() as u64,
            graph,
            link_reports: BTreeMap::new(),
            digest: 0,
            news: BTreeSet::new(),
            reached: vec![true; members],
            reached_count: members,
            stale: false,
            watchees: BTreeMap::new(),
            waited_before: BTreeSet::new(),
            temporary_watchers: BTreeMap::new(),
            heard_besides: BTreeMap::new(),
            depths: BTreeMap::new(),
            turn: me.index(),
        }
    }

    /// The members that this member watches, and that watch it.
    #[must_use]
    pub fn neighbours(&self) -> &[Rank] {
        &self.neighbours
    }

    /// Members watched besides the neighbours, and since when.
    pub(super) fn watchees(&self) -> impl Iterator<Item = (Rank, Instant)> {
        self.watchees.iter().map(|(rank, since)| (*rank, *since))
    }

    /// Whether `rank` is reached over links that neither end suspects.
    #[must_use]
    pub fn reaches(&self, rank: Rank) -> bool {
        self.reached.get(rank.index()).copied().unwrap_or(false)
    }

    /// Whether `a` reports that it does not hear `b`.
    #[must_use]
    pub fn suspects(&self, a: Rank, b: Rank) -> bool {
        self.link_reports.get(&a).is_some_and(|link_report| lists(&link_report.suspected, b))
    }

    /// How many of the reached members `rank` does not report as silent.
    pub(super) fn heard_count(&self, rank: Rank) -> HeardCount {
        let suspected = self.link_reports.get(&rank).map_or(&[][..], |link_report| &link_report.suspected);
        let less = suspected.iter().filter(|other| self.reaches(**other)).count();
        HeardCount {
            members: self.reached_count.saturating_sub(less),
            with_rank_0: self.reaches(Rank::FIRST) && !lists(suspected, Rank::FIRST),
        }
    }

    /// Suspected links between two members that are reached.
    pub(super) fn suspected_links(&self) -> BTreeSet<(Rank, Rank)> {
        let pairs = self.link_reports.iter().flat_map(|(rank, link_report)| {
            link_report.suspected.iter().map(move |other| (*rank.min(other), *rank.max(other)))
        });
        pairs.filter(|(a, b)| self.reaches(*a) && self.reaches(*b)).collect()
    }

    /// Sets this member's own link-state report. A changed one is news.
    pub(super) fn set_own(&mut self, suspected: Vec<Rank>, besides: Vec<Rank>) {
        let own = self.link_reports.get(&self.me);
        let same = own.map_or(suspected.is_empty() && besides.is_empty(), |own| {
            own.suspected == suspected && own.besides == besides
        });
        if !same {
            debug_assert!(suspected.is_sorted() && besides.is_sorted(), "ranks are looked up in rising order");
            // Also a report that only revokes a suspicion needs a new version, or nobody would replace the old one.
            let version = own.map_or(0, |own| own.version) + 1;
            self.store(self.me, LinkReport { version, suspected, besides });
        }
    }

    /// Takes another member's link-state report. True if it is newer than the known one.
    pub fn take_link_report(&mut self, rank: Rank, link_report: LinkReport) -> bool {
        let known = self.link_reports.get(&rank).map_or(0, |known| known.version);
        // This member's own report comes only from itself: no other member raises its version.
        if rank.index() >= self.members || rank == self.me || link_report.version <= known {
            return false;
        }
        self.store(rank, link_report);
        true
    }

    fn store(&mut self, rank: Rank, link_report: LinkReport) {
        self.digest ^= mark(rank, link_report.version);
        let version = link_report.version;
        if let Some(old) = self.link_reports.insert(rank, link_report) {
            debug_assert!(old.version < version, "an older report takes the place of a newer one");
            self.digest ^= mark(rank, old.version);
        }
        // Each member forwards news at once, so that a report is everywhere after a few network trips
        // (`docs/scale.md`).
        self.news.insert(rank);
        self.stale = true;
    }

    /// A digest of the known link-state reports. Equal at members that know the same ones.
    #[must_use]
    pub fn digest(&self) -> u64 {
        self.digest
    }

    /// This member's own report while it suspects a member. It is repeated with each heartbeat: neighbours request a
    /// lost report after they see another digest, but a member that hears nobody cannot be asked.
    #[must_use]
    pub fn slow_report(&self) -> Option<&LinkReport> {
        self.link_reports.get(&self.me).filter(|own| !own.suspected.is_empty())
    }

    /// Removes and returns the reports that are to be forwarded.
    pub fn take_news(&mut self) -> Vec<(Rank, LinkReport)> {
        let news = std::mem::take(&mut self.news);
        news.into_iter().filter_map(|rank| Some((rank, self.link_reports.get(&rank)?.clone()))).collect()
    }

    /// The members to which the last heartbeat went. Link-state reports go to the same.
    #[must_use]
    pub fn last_targets(&self) -> BTreeSet<Rank> {
        self.last_targets.clone()
    }

    /// All known link-state reports.
    pub fn link_reports(&self) -> impl Iterator<Item = (Rank, &LinkReport)> {
        self.link_reports.iter().map(|(rank, link_report)| (*rank, link_report))
    }

    /// Notes that something changed about a link, so that the next refresh evaluates all.
    pub(super) fn touch(&mut self) {
        self.stale = true;
    }

    /// Determines which members are reached, if anything changed.
    pub(super) fn refresh(&mut self, is_dead: impl Fn(Rank) -> bool) {
        if !std::mem::take(&mut self.stale) {
            return;
        }
        let mut reached = vec![false; self.members];
        reached[self.me.index()] = true;
        let mut ways = vec![self.me];
        while let Some(rank) = ways.pop() {
            let besides = self.link_reports.get(&rank).map_or(&[][..], |link_report| &link_report.besides);
            // Both ends must list the other: one that hears is not yet heard.
            let besides = besides.iter().copied().filter(|other| {
                self.link_reports.get(other).is_some_and(|link_report| lists(&link_report.besides, rank))
            });
            for other in self.graph.neighbours(rank).into_iter().chain(besides) {
                let holds = !self.suspects(rank, other) && !self.suspects(other, rank) && !is_dead(other);
                if holds && other.index() < self.members && !std::mem::replace(&mut reached[other.index()], true) {
                    ways.push(other);
                }
            }
        }
        self.reached_count = reached.iter().filter(|is| **is).count();
        self.reached = reached;
    }

    /// Takes a heartbeat of `rank` in the decree in force: the distance up to which all members around it have
    /// installed it, and whether it requests an answer.
    pub(super) fn beat(&mut self, now: Instant, rank: Rank, depth: u64, asks: bool) {
        if self.neighbours.binary_search(&rank).is_ok() {
            let told = self.depths.entry(rank).or_default();
            *told = depth.max(*told);
            return;
        }
        self.heard_besides.insert(rank, now);
        if asks {
            self.temporary_watchers.insert(rank, now);
        }
    }

    /// Checks the invariants.
    ///
    /// # Panics
    /// If one is violated.
    pub(super) fn check_invariants(&self, members: usize) {
        let is_neighbour = |rank: &Rank| self.neighbours.binary_search(rank).is_ok();
        assert_eq!(self.members, members, "the graph is that of the view");
        assert_eq!(self.reached.len(), members, "a member is neither reached nor unreached");
        assert_eq!(self.reached_count, self.reached.iter().filter(|is| **is).count(), "those reached are miscounted");
        assert!(self.neighbours.is_sorted(), "neighbours are looked up in rising order");
        assert!(!is_neighbour(&self.me), "a member watches itself");
        assert!(self.depths.keys().all(is_neighbour), "a depth is kept of a member that is no neighbour");
        assert!(self.watchees.keys().all(|rank| !is_neighbour(rank)), "a neighbour is watched besides");
        assert!(self.temporary_watchers.keys().all(|rank| !is_neighbour(rank)), "a neighbour watches besides");
        let ranks = self.watchees.keys().chain(self.link_reports.keys()).chain(self.temporary_watchers.keys());
        assert!(ranks.into_iter().all(|rank| rank.index() < members), "a rank lies beyond the view");
        assert!(self.link_reports.values().all(|report| report.version > 0), "a report has version 0");
        assert!(self.news.iter().all(|rank| self.link_reports.contains_key(rank)), "news of nobody");
        let digest = self.link_reports.iter().fold(0, |digest, (rank, report)| digest ^ mark(*rank, report.version));
        assert_eq!(self.digest, digest, "the digest is of other reports");
    }

    /// The distance around this member, in links, up to which all members have installed the decree in force. 0 is this
    /// member alone.
    #[must_use]
    pub fn depth(&self) -> u64 {
        if self.depths.len() < self.neighbours.len() {
            return 0;
        }
        // Each member within d + 1 links of this one is within d links of one of its neighbours.
        let least = self.depths.values().min().copied().unwrap_or(u64::MAX);
        least.saturating_add(1).min(self.span)
    }

    /// Whether every member has installed the decree in force.
    #[must_use]
    pub fn all_installed(&self) -> bool {
        self.depth() >= self.span
    }

    /// The members that are known to have installed the decree in force, by rank: this one, and those around each
    /// neighbour up to its depth.
    #[must_use]
    pub fn installed(&self) -> Vec<bool> {
        let mut installed = vec![false; self.members];
        debug_assert!(self.depths.len() <= self.neighbours.len(), "a depth is kept of a member that is no neighbour");
        for (&rank, &depth) in self.depths.iter().chain([(&self.me, &self.depth())]) {
            for near in self.graph.within(rank, depth) {
                installed[near.index()] = true;
            }
        }
        installed
    }

    /// The members that this one hears without being their neighbour, and that it or they cannot reach in another way.
    pub(super) fn besides(&self, now: Instant, patience: Duration) -> Vec<Rank> {
        let own = self.link_reports.get(&self.me).map_or(&[][..], |link_report| &link_report.besides);
        let counts = |rank: Rank| {
            let listed = self.link_reports.get(&rank).is_some_and(|link_report| lists(&link_report.besides, self.me));
            !self.reaches(rank) || listed || lists(own, rank)
        };
        let heard = self.heard_besides.iter().filter(|(_, at)| now.since(**at) < patience);
        heard.filter(|(rank, _)| counts(**rank)).map(|(rank, _)| *rank).collect()
    }

    /// Whether unwatched links are to be checked. Where one link between two reached members is broken, others may be.
    /// A member that is reached only through others counts as heard, but takes no part in a decision.
    fn is_in_doubt(&self) -> bool {
        self.may_tell_all() && !self.suspected_links().is_empty()
    }

    /// Whether the cell is small enough for each member to send to every other while something is wrong.
    #[must_use]
    pub fn may_tell_all(&self) -> bool {
        self.members <= PROBED_MAX
    }

    /// Determines the targets of the next heartbeat. Members in `waited_for` owe an answer. `silent` names those that
    /// were not heard for longer than the heartbeat interval explains.
    pub(super) fn targets(
        &mut self,
        now: Instant,
        beat: Duration,
        waited_for: BTreeSet<Rank>,
        silent: impl Fn(Rank) -> bool,
        is_dead: impl Fn(Rank) -> bool,
    ) -> Targets {
        let is_neighbour = |rank: &Rank| self.neighbours.binary_search(rank).is_ok();
        let waited_for = if self.is_in_doubt() { Rank::all(self.members).collect() } else { waited_for };
        // A suspected member is requested to answer until it is heard, because nothing else revokes a suspicion.
        let suspected = self.link_reports.get(&self.me).map_or(&[][..], |link_report| &link_report.suspected);
        self.watchees.retain(|rank, _| waited_for.contains(rank) || lists(suspected, *rank));
        // Only members for which it waited at the last heartbeat, too: an answer that is under way needs no watch.
        for &rank in waited_for.intersection(&self.waited_before) {
            if rank != self.me && rank.index() < self.members && !is_neighbour(&rank) && silent(rank) {
                self.watchees.entry(rank).or_insert(now);
            }
        }
        self.waited_before = waited_for;
        self.temporary_watchers.retain(|_, at| now.since(*at) <= beat * TEMPORARY_WATCHER_BEATS);
        let mut targets = Targets { told: self.neighbours.iter().copied().collect(), asked: BTreeSet::new() };
        targets.told.extend(self.temporary_watchers.keys());
        targets.asked.extend(self.watchees.keys());
        let own = self.link_reports.get(&self.me).map_or(&[][..], |link_report| &link_report.besides);
        targets.asked.extend(own);
        // A member that lost all its neighbours is searched for by all others, a few at a time.
        if self.reached_count < self.members {
            let lost: Vec<Rank> = Rank::all(self.members)
                .filter(|&rank| !self.reaches(rank) && !is_neighbour(&rank) && !is_dead(rank))
                .collect();
            // Few at a time keep the rate of heartbeats constant. All members search, so each lost one gets many
            // requests.
            let few = lost.len().min(self.neighbours.len());
            targets.asked.extend((0..few).map(|i| lost[(self.turn + i) % lost.len()]));
            self.turn = self.turn.wrapping_add(few);
        }
        self.last_targets = &targets.told | &targets.asked;
        targets.told = &targets.told - &targets.asked;
        targets
    }
}

fn lists(ranks: &[Rank], rank: Rank) -> bool {
    ranks.binary_search(&rank).is_ok()
}

/// A link-state report's contribution to the digest. Combined by XOR, so that the order of the reports does not matter
/// and one can be replaced.
fn mark(rank: Rank, version: u64) -> u64 {
    let mut mixed =
        (u64::from(rank.0) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ version.wrapping_mul(0xd6e8_feb8_6659_fd93);
    mixed = (mixed ^ mixed >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    mixed ^ mixed >> 29
}

#[cfg(test)]
mod tests;
