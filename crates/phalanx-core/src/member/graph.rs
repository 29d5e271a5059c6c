//! Who watches whom in a large cell: a circulant graph on the ranks, the same at all members of a view.
//!
//! Each member has a link to the members some steps before and after it. The first step is 1, so the graph is
//! connected; the others grow geometrically, so that it is shallow and that neighbours in rank, which often started
//! together and die together, do not have the same watchers. A circulant graph of degree k whose steps grow like that
//! stays connected when any k - 1 of its members are taken away (Boesch and Tindell 1984).

use std::collections::BTreeSet;

use crate::id::Rank;

/// The watch graph of one view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchGraph {
    members: usize,
    /// Distances in rank between linked members: ascending from 1, at most half of the members.
    steps: Vec<usize>,
}

/// The most by which a step exceeds the one before, in per cent. With larger steps, ways through the graph would be
/// long.
const GROWTH_MAX: usize = 400;

impl WatchGraph {
    /// The graph of a view of `members`, in which each has about `watchers` links; at least two.
    #[must_use]
    pub fn new(members: usize, watchers: usize) -> Self {
        let half = members / 2;
        // Each step gives two links, one in each direction.
        let count = watchers.div_ceil(2).clamp(1, half.max(1));
        // The fastest growth whose last step is at most half of the view. Integers only, so that all machines compute
        // the same graph.
        let fits = |growth: &usize| steps(count, *growth).last().is_none_or(|last| *last <= half);
        let growth = (100..=GROWTH_MAX).rev().step_by(5).find(fits).unwrap_or(100);
        let steps: Vec<usize> = steps(count, growth).into_iter().filter(|step| *step <= half).collect();
        debug_assert!(members < 2 || steps.first() == Some(&1), "a graph with the step 1 is connected");
        debug_assert!(steps.is_sorted_by(|a, b| a < b), "two steps are one");
        Self { members, steps }
    }

    /// The members that `rank` watches, which also watch it; ascending.
    #[must_use]
    pub fn neighbours(&self, rank: Rank) -> Vec<Rank> {
        let (n, index) = (self.members, rank.index());
        debug_assert!(index < n, "a rank lies beyond the view");
        let both = self.steps.iter().flat_map(|step| [(index + step) % n, (index + n - step) % n]);
        let set: BTreeSet<Rank> = both.map(Rank::from_index).filter(|other| *other != rank).collect();
        set.into_iter().collect()
    }

    /// Members by their distance from `rank` in links: itself, then those one link away, and so on.
    fn rings(&self, rank: Rank) -> impl Iterator<Item = Vec<Rank>> {
        let mut met = BTreeSet::from([rank]);
        std::iter::successors(Some(vec![rank]), move |ring| {
            let all = ring.iter().flat_map(|rank| self.neighbours(*rank));
            let next: Vec<Rank> = all.filter(|other| met.insert(*other)).collect();
            (!next.is_empty()).then_some(next)
        })
    }

    /// The members at most `links` away from `rank`, itself included.
    pub fn within(&self, rank: Rank, links: u64) -> impl Iterator<Item = Rank> {
        self.rings(rank).take(usize::try_from(links).unwrap_or(usize::MAX).saturating_add(1)).flatten()
    }

    /// The largest distance between two members, in links. The graph looks the same from every member.
    #[must_use]
    pub fn span(&self) -> usize {
        self.rings(Rank::FIRST).count() - 1
    }
}

/// `count` steps from 1. Each is `growth` per cent of the one before, and larger by at least one.
fn steps(count: usize, growth: usize) -> Vec<usize> {
    let next = |step: &usize| Some((step + 1).max(step.saturating_mul(growth) / 100));
    std::iter::successors(Some(1), next).take(count).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    fn reached(graph: &WatchGraph, members: usize, gone: &BTreeSet<Rank>) -> usize {
        let start = Rank::all(members).find(|rank| !gone.contains(rank)).expect("somebody is left");
        let (mut seen, mut ring) = (BTreeSet::from([start]), vec![start]);
        while let Some(rank) = ring.pop() {
            for other in graph.neighbours(rank) {
                if !gone.contains(&other) && seen.insert(other) {
                    ring.push(other);
                }
            }
        }
        seen.len()
    }

    #[test]
    fn everybody_is_watched_by_as_many_and_both_ways() {
        for (members, watchers, links) in [(5, 3, 4), (9, 2, 2), (9, 4, 4), (17, 16, 16), (64, 16, 16), (1000, 16, 16)]
        {
            let graph = WatchGraph::new(members, watchers);
            for rank in Rank::all(members) {
                let neighbours = graph.neighbours(rank);
                assert_eq!(neighbours.len(), links, "{members} members, rank {rank}: {neighbours:?}");
                for other in &neighbours {
                    assert!(graph.neighbours(*other).contains(&rank));
                }
            }
        }
    }

    #[test]
    fn a_large_graph_is_shallow() {
        assert!(WatchGraph::new(1000, 16).span() <= 6);
        assert_eq!(WatchGraph::new(17, 16).span(), 1);
        assert_eq!(WatchGraph::new(9, 2).span(), 4, "a ring");
    }

    /// All but one of the watchers of a member may go, or as many other members: those that are left still reach each
    /// other.
    #[test]
    fn it_stays_connected_without_any_few() {
        let mut rng = Rng::new(11);
        for (members, watchers) in [(9, 4), (20, 8), (40, 16), (200, 16), (1000, 16)] {
            let graph = WatchGraph::new(members, watchers);
            for round in 0..200 {
                let mut gone = BTreeSet::new();
                // Half of the rounds take the worst case: all but one of the watchers of one member.
                let around = graph.neighbours(Rank::from_index(round % members));
                let few = if round % 2 == 0 { watchers / 4 } else { around.len() - 1 };
                while gone.len() < few {
                    let any = Rank(u16::try_from(rng.below(members as u64)).expect("small"));
                    gone.insert(if round % 4 == 1 { around[gone.len()] } else { any });
                }
                assert_eq!(reached(&graph, members, &gone), members - gone.len(), "{members} without {gone:?}");
            }
        }
    }

    #[test]
    fn neighbours_in_rank_may_go_together() {
        let graph = WatchGraph::new(1000, 16);
        let gone: BTreeSet<Rank> = (300..700).map(Rank).collect();
        assert_eq!(reached(&graph, 1000, &gone), 600);
    }

    /// With few links the steps grow by the limit and no more, however large the view.
    #[test]
    fn steps_lie_no_farther_apart_than_they_may() {
        let graph = WatchGraph::new(1000, 8);
        assert_eq!(graph.steps, [1, 4, 16, 64], "four times the one before");
        for members in 2..300 {
            for watchers in 2..20 {
                let steps = WatchGraph::new(members, watchers).steps;
                assert!(steps.windows(2).all(|pair| pair[1] * 100 <= (pair[0] * GROWTH_MAX).max(pair[0] * 100 + 100)));
            }
        }
    }
}
