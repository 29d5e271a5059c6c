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

/// What one member says of its links in the view in force.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkReport {
    /// Grows with each change; 0: nothing was ever said, nothing is wrong.
    pub version: u64,
    /// Those it watches and does not hear, by rank, in rising order.
    pub suspected: Vec<Rank>,
    /// Those it hears though they are not its neighbours, in rising order: it reached them in no other way.
    pub besides: Vec<Rank>,
}

/// What one member knows of the links of its view.
#[derive(Clone, Debug)]
pub struct Watch {
    me: Rank,
    members: usize,
    graph: WatchGraph,
    neighbours: Vec<Rank>,
    span: u64,
    /// Claims of a version above 0, by rank.
    link_reports: BTreeMap<Rank, LinkReport>,
    digest: u64,
    /// Whose link-state reports are to be passed on.
    news: BTreeSet<Rank>,
    /// By rank; as of the link-state reports then known.
    reached: Vec<bool>,
    reached_count: usize,
    stale: bool,
    /// Those watched besides, because an answer of theirs is waited for or links are in doubt: since when.
    watchees: BTreeMap<Rank, Instant>,
    waited_before: BTreeSet<Rank>,
    /// Those that asked for heartbeats, and when they last did.
    temporary_watchers: BTreeMap<Rank, Instant>,
    /// Those that are no neighbours and whose heartbeat came, and when.
    heard_besides: BTreeMap<Rank, Instant>,
    /// How far around each neighbour everybody has installed the decree in force.
    depths: BTreeMap<Rank, u64>,
    /// Which of those out of reach are looked for next.
    turn: usize,
    /// Whom the last heartbeat went to.
    last_targets: BTreeSet<Rank>,
}

/// Whom the next heartbeat goes to, by rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Targets {
    /// The neighbours, and those that asked.
    pub told: BTreeSet<Rank>,
    /// Those that are asked to answer with heartbeats.
    pub asked: BTreeSet<Rank>,
}

/// Up to so many members, each looks at all of its links as soon as one in the cell is disclaimed though both its ends are
/// reached, and tells all others which paths failed. In larger cells that would cost a packet for each pair of members and heartbeat.
const PROBED_MAX: usize = 64;
/// A temporary watcher that has not asked for so many heartbeats is one no more.
const TEMPORARY_WATCHER_BEATS: u32 = 3;

/// How many members one member hears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeardCount {
    /// So many, itself included.
    pub members: usize,
    /// Rank 0 is one of them: half of a view is a quorum with it alone.
    pub with_rank_0: bool,
}

impl Watch {
    /// A fresh view: every link counts as heard.
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

    /// Those that this member watches, and that watch it.
    #[must_use]
    pub fn neighbours(&self) -> &[Rank] {
        &self.neighbours
    }

    /// Those watched besides the neighbours, and since when.
    pub(super) fn watchees(&self) -> impl Iterator<Item = (Rank, Instant)> {
        self.watchees.iter().map(|(rank, since)| (*rank, *since))
    }

    /// Whether `rank` is reached over links that neither end disclaims.
    #[must_use]
    pub fn reaches(&self, rank: Rank) -> bool {
        self.reached.get(rank.index()).copied().unwrap_or(false)
    }

    /// Whether `a` says that it does not hear `b`.
    #[must_use]
    pub fn suspects(&self, a: Rank, b: Rank) -> bool {
        self.link_reports.get(&a).is_some_and(|link_report| lists(&link_report.suspected, b))
    }

    /// How many of those reached `rank` does not disclaim.
    pub(super) fn heard_count(&self, rank: Rank) -> HeardCount {
        let suspected = self.link_reports.get(&rank).map_or(&[][..], |link_report| &link_report.suspected);
        let less = suspected.iter().filter(|other| self.reaches(**other)).count();
        HeardCount {
            members: self.reached_count.saturating_sub(less),
            with_rank_0: self.reaches(Rank::FIRST) && !lists(suspected, Rank::FIRST),
        }
    }

    /// Links that are disclaimed between two members that are reached.
    pub(super) fn suspected_links(&self) -> BTreeSet<(Rank, Rank)> {
        let pairs = self.link_reports.iter().flat_map(|(rank, link_report)| {
            link_report.suspected.iter().map(move |other| (*rank.min(other), *rank.max(other)))
        });
        pairs.filter(|(a, b)| self.reaches(*a) && self.reaches(*b)).collect()
    }

    /// This member's own link-state report, as it is now; a changed one is news.
    pub(super) fn set_own(&mut self, suspected: Vec<Rank>, besides: Vec<Rank>) {
        let own = self.link_reports.get(&self.me);
        let same = own.map_or(suspected.is_empty() && besides.is_empty(), |own| {
            own.suspected == suspected && own.besides == besides
        });
        if !same {
            debug_assert!(suspected.is_sorted() && besides.is_sorted(), "ranks are looked up in rising order");
            let version = own.map_or(0, |own| own.version) + 1;
            self.store(self.me, LinkReport { version, suspected, besides });
        }
    }

    /// Another member's link-state report. True if it is newer than what was known.
    pub fn take_link_report(&mut self, rank: Rank, link_report: LinkReport) -> bool {
        let known = self.link_reports.get(&rank).map_or(0, |known| known.version);
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
        self.news.insert(rank);
        self.stale = true;
    }

    /// The same for those who know the same link-state reports.
    #[must_use]
    pub fn digest(&self) -> u64 {
        self.digest
    }

    /// What this member says of its links, while it hears somebody not: it is said again with each heartbeat. Who hears
    /// nobody cannot be asked for it.
    #[must_use]
    pub fn slow_report(&self) -> Option<&LinkReport> {
        self.link_reports.get(&self.me).filter(|own| !own.suspected.is_empty())
    }

    /// Claims that are to be passed on; they count as passed on.
    pub fn take_news(&mut self) -> Vec<(Rank, LinkReport)> {
        let news = std::mem::take(&mut self.news);
        news.into_iter().filter_map(|rank| Some((rank, self.link_reports.get(&rank)?.clone()))).collect()
    }

    /// Whom the last heartbeat went to: link-state reports go there too.
    #[must_use]
    pub fn last_targets(&self) -> BTreeSet<Rank> {
        self.last_targets.clone()
    }

    /// All link-state reports there are.
    pub fn link_reports(&self) -> impl Iterator<Item = (Rank, &LinkReport)> {
        self.link_reports.iter().map(|(rank, link_report)| (*rank, link_report))
    }

    /// Something was learnt about a link in another way.
    pub(super) fn touch(&mut self) {
        self.stale = true;
    }

    /// Finds out who is reached, if anything changed.
    pub(super) fn refresh(&mut self, is_dead: impl Fn(Rank) -> bool) {
        if !std::mem::take(&mut self.stale) {
            return;
        }
        let mut reached = vec![false; self.members];
        reached[self.me.index()] = true;
        let mut ways = vec![self.me];
        while let Some(rank) = ways.pop() {
            let besides = self.link_reports.get(&rank).map_or(&[][..], |link_report| &link_report.besides);
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

    /// A heartbeat of `rank` in the decree in force: how far around it everybody has installed that, and whether it
    /// asks for an answer.
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

    /// Checks what must always hold.
    ///
    /// # Panics
    /// When it does not.
    pub(super) fn check_invariants(&self, members: usize) {
        let is_neighbour = |rank: &Rank| self.neighbours.binary_search(rank).is_ok();
        assert_eq!(self.members, members, "the graph is that of the view");
        assert_eq!(self.reached.len(), members, "each member is reached or not");
        assert_eq!(self.reached_count, self.reached.iter().filter(|is| **is).count(), "those reached are miscounted");
        assert!(self.neighbours.is_sorted(), "neighbours are looked up in rising order");
        assert!(!is_neighbour(&self.me), "a member watches itself");
        assert!(self.depths.keys().all(is_neighbour), "only neighbours tell how far all have installed the decree");
        assert!(self.watchees.keys().all(|rank| !is_neighbour(rank)), "a neighbour is watched besides");
        assert!(self.temporary_watchers.keys().all(|rank| !is_neighbour(rank)), "a neighbour watches besides");
        let ranks = self.watchees.keys().chain(self.link_reports.keys()).chain(self.temporary_watchers.keys());
        assert!(ranks.into_iter().all(|rank| rank.index() < members), "a rank lies beyond the view");
        assert!(self.link_reports.values().all(|report| report.version > 0), "a report says that nothing was said");
        assert!(self.news.iter().all(|rank| self.link_reports.contains_key(rank)), "news of nobody");
        let digest = self.link_reports.iter().fold(0, |digest, (rank, report)| digest ^ mark(*rank, report.version));
        assert_eq!(self.digest, digest, "the digest is of other reports");
    }

    /// How far around this member everybody has installed the decree in force, in links: 0, itself alone.
    #[must_use]
    pub fn depth(&self) -> u64 {
        if self.depths.len() < self.neighbours.len() {
            return 0;
        }
        let least = self.depths.values().min().copied().unwrap_or(u64::MAX);
        least.saturating_add(1).min(self.span)
    }

    /// Every member has installed the decree in force.
    #[must_use]
    pub fn all_installed(&self) -> bool {
        self.depth() >= self.span
    }

    /// Who is known to have installed the decree in force, by rank: this member, and those around each neighbour as far as
    /// that said.
    #[must_use]
    pub fn installed(&self) -> Vec<bool> {
        let mut installed = vec![false; self.members];
        debug_assert!(self.depths.len() <= self.neighbours.len(), "only neighbours tell how far all have installed it");
        for (&rank, &depth) in self.depths.iter().chain([(&self.me, &self.depth())]) {
            for near in self.graph.within(rank, depth) {
                installed[near.index()] = true;
            }
        }
        installed
    }

    /// Those whom this member hears though they are no neighbours, and reaches in no other way, or is reached by.
    pub(super) fn besides(&self, now: Instant, patience: Duration) -> Vec<Rank> {
        let own = self.link_reports.get(&self.me).map_or(&[][..], |link_report| &link_report.besides);
        let counts = |rank: Rank| {
            let listed = self.link_reports.get(&rank).is_some_and(|link_report| lists(&link_report.besides, self.me));
            !self.reaches(rank) || listed || lists(own, rank)
        };
        let heard = self.heard_besides.iter().filter(|(_, at)| now.since(**at) < patience);
        heard.filter(|(rank, _)| counts(**rank)).map(|(rank, _)| *rank).collect()
    }

    /// Whether links that nobody watches are to be looked at: where one is broken between two members that others reach, more may
    /// be, and whoever is reached through others alone takes no part in a decision.
    fn is_in_doubt(&self) -> bool {
        self.may_tell_all() && !self.suspected_links().is_empty()
    }

    /// Whether the cell is small enough for each member to send something to each other one while something is wrong.
    #[must_use]
    pub fn may_tell_all(&self) -> bool {
        self.members <= PROBED_MAX
    }

    /// Before each heartbeat: whom it goes to. `waited_for` owe an answer; `silent` tells who has not been heard for
    /// longer than heartbeats explain.
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
        // Whoever was suspected is asked until it is heard: a suspicion lapses by nothing else.
        let suspected = self.link_reports.get(&self.me).map_or(&[][..], |link_report| &link_report.suspected);
        self.watchees.retain(|rank, _| waited_for.contains(rank) || lists(suspected, *rank));
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
        // Whoever lost all its neighbours is looked for by everybody, a few at a time.
        if self.reached_count < self.members {
            let lost: Vec<Rank> = Rank::all(self.members)
                .filter(|&rank| !self.reaches(rank) && !is_neighbour(&rank) && !is_dead(rank))
                .collect();
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

/// A link-state report's part of the digest.
fn mark(rank: Rank, version: u64) -> u64 {
    let mut mixed =
        (u64::from(rank.0) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ version.wrapping_mul(0xd6e8_feb8_6659_fd93);
    mixed = (mixed ^ mixed >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    mixed ^ mixed >> 29
}

#[cfg(test)]
mod tests;
