//! A window of many views: the members removed from a cell within it, for every graph of failed links.

use super::MEMBERS;
use super::rule::{Links, Variant, budget, counted, cover, goes, in_set};

/// The result of applying the rule repeatedly, while links fail arbitrarily.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Erosion {
    /// Graphs examined.
    pub graphs: u64,
    /// The fewest members ever left.
    pub fewest: u32,
    /// The most members removed while some remaining member heard them.
    pub most: u32,
}

/// Every graph of failed links among a set: for data only, or for all kinds.
fn graphs(members: u8, silent: bool) -> impl Iterator<Item = Links> {
    let pairs: Vec<(usize, usize)> =
        in_set(members).flat_map(|a| in_set(members).filter(move |b| a < *b).map(move |b| (a, b))).collect();
    (0_u32..1 << pairs.len()).map(move |graph| {
        let mut links = Links::default();
        let failed = pairs.iter().enumerate().filter(|(at, _)| graph & 1 << at != 0);
        failed.for_each(|(_, (a, b))| links.add(*a, *b, silent));
        links
    })
}

/// All sequences of views of a cell of `members`, in which any links fail, for data only or for all kinds.
#[must_use]
pub fn erosion(members: usize, silent: bool, variant: Variant) -> Erosion {
    let all: u8 = (1 << members) - 1;
    let budget = budget(members as u32);
    let mut found = Erosion { graphs: 0, fewest: members as u32, most: 0 };
    let mut met = std::collections::BTreeSet::from([(all, 0)]);
    let mut open = vec![(all, 0)];
    while let Some((view, used)) = open.pop() {
        found.fewest = found.fewest.min(view.count_ones());
        found.most = found.most.max(used);
        for links in graphs(view, silent) {
            found.graphs += 1;
            let gone = goes(&links, view, budget.saturating_sub(used), variant);
            let next = (view & !gone, used + counted(&links, gone, view & !gone));
            if gone != 0 && met.insert(next) {
                open.push(next);
            }
        }
    }
    found
}

/// Graphs of failed links in a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GraphCount {
    /// Those where the rule that takes whoever has most failed links, again and again, removes more than the fewest.
    pub worse: usize,
    /// All graphs.
    pub all: usize,
}

/// Compares that rule with the fewest, in all graphs of a cell of so many.
#[must_use]
pub fn greedy_removes_more(members: usize) -> GraphCount {
    let all: u8 = (1 << members) - 1;
    let greedy = Variant { greedy: true, ..Variant::default() };
    let more = |links: &Links| {
        cover(&links.any, all, greedy).count_ones() > cover(&links.any, all, Variant::default()).count_ones()
    };
    GraphCount { worse: graphs(all, false).filter(more).count(), all: graphs(all, false).count() }
}

/// The members that go when one is dead and the data links between all others fail.
#[must_use]
pub fn dead_among_late(members: usize, dead: usize, left: u32, variant: Variant) -> u8 {
    let mut links = Links::default();
    for a in 0..members {
        for b in a + 1..members {
            links.add(a, b, a == dead || b == dead);
        }
    }
    goes(&links, (1 << members) - 1, left, variant)
}

/// The members that go when one is dead and the budget is used up.
#[must_use]
pub fn dead_after_budget(members: usize, dead: usize, variant: Variant) -> u8 {
    let mut links = Links::default();
    (0..members).filter(|m| *m != dead).for_each(|m| links.add(m, dead, true));
    goes(&links, (1 << members) - 1, 0, variant)
}

const _: () = assert!(MEMBERS <= 5, "of six members there are 32,768 graphs");
