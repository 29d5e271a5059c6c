//! The cell's views, and the processes that installed them. No process can know this. It determines whether the
//! remaining processes can continue the cell.

use std::collections::{BTreeMap, BTreeSet};

use phalanx_core::{CellInstance, CellView, Incarnation, ViewNumber};

/// The views of the latest cell instance.
#[derive(Debug, Default)]
pub(crate) struct Chain {
    instance: CellInstance,
    views: BTreeMap<ViewNumber, Installed>,
}

#[derive(Debug)]
struct Installed {
    members: Vec<Incarnation>,
    by: BTreeSet<Incarnation>,
}

impl Chain {
    /// Notes that a process is in this view.
    pub(crate) fn note(&mut self, who: Incarnation, view: &CellView) {
        if view.instance != self.instance {
            *self = Self { instance: view.instance, views: BTreeMap::new() };
        }
        let new = || Installed { members: view.members.iter().map(|m| m.incarnation).collect(), by: BTreeSet::new() };
        self.views.entry(view.view).or_insert_with(new).by.insert(who);
    }

    /// Whether at most one process is known to have installed this view.
    pub(crate) fn is_new(&self, view: &CellView) -> bool {
        view.instance == self.instance && self.views.get(&view.view).is_none_or(|installed| installed.by.len() < 2)
    }

    /// The latest instance.
    pub(crate) fn instance(&self) -> CellInstance {
        self.instance
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.views.is_empty()
    }

    /// Whether the cell can continue with the `spared` processes: they are a quorum of the last view that a quorum of
    /// its members installed, and of each view after it. A view that only dead processes know is decided anew by a
    /// quorum of the one before.
    pub(crate) fn can_go_on(&self, spared: impl Fn(Incarnation) -> bool) -> bool {
        for view in self.views.values().rev() {
            if !is_quorum(&view.members, &spared) {
                return false;
            }
            if is_quorum(&view.members, |who| view.by.contains(&who)) {
                return true;
            }
        }
        // No view is held yet. A process that knows the first one announces it to the others.
        self.views.values().next().is_some_and(|first| first.by.iter().any(|who| spared(*who)))
    }
}

/// Whether the processes that count are most of `members`, or half with the oldest.
fn is_quorum(members: &[Incarnation], counts: impl Fn(Incarnation) -> bool) -> bool {
    let count = members.iter().filter(|who| counts(**who)).count();
    2 * count > members.len() || (2 * count == members.len() && members.first().is_some_and(|first| counts(*first)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(views: &[(&[u64], &[u64])]) -> Chain {
        let mut chain = Chain { instance: CellInstance(7), views: BTreeMap::new() };
        for (number, (members, by)) in (1..).zip(views) {
            let ids = |ids: &[u64]| ids.iter().copied().map(Incarnation).collect::<Vec<_>>();
            chain
                .views
                .insert(ViewNumber(number), Installed { members: ids(members), by: ids(by).into_iter().collect() });
        }
        chain
    }

    #[test]
    fn a_view_that_only_the_dead_know_is_found_again_if_both_quorums_are_left() {
        let told_early = chain(&[(&[1, 2, 3, 4], &[1, 2, 3, 4]), (&[1, 2, 3], &[1])]);
        assert!(told_early.can_go_on(|who| who.0 != 1), "4 was excluded and counts as spared in the view before");
        assert!(
            !told_early.can_go_on(|who| ![1, 4].contains(&who.0)),
            "4 was crashed: half of the view before, without 1"
        );
        let held = chain(&[(&[1, 2, 3, 4], &[1, 2, 3, 4]), (&[1, 2, 3], &[1, 2])]);
        assert!(!held.can_go_on(|who| ![1, 2].contains(&who.0)), "3 alone is no quorum of the view that was held");
        assert!(held.can_go_on(|who| ![1, 4].contains(&who.0)), "the view before does not matter any more");
    }

    #[test]
    fn a_founding_that_only_the_dead_know_is_lost() {
        let founded = chain(&[(&[1, 2, 3], &[1])]);
        assert!(!founded.can_go_on(|who| who.0 != 1));
        assert!(founded.can_go_on(|who| who.0 != 3));
    }
}
