//! States of users in ordinary campaigns: which seeds have one, of which kind, and what a refused one does to its process.
//!
//! The machines come from the crate above, through [`Options::states`](crate::Options::states). Which seed has which is
//! decided here alone, so that every command that runs a seed runs the same.

use std::fmt;
use std::sync::Arc;

use phalanx_core::rng::Rng;

use crate::clock::MS;
use crate::draw::index;
use crate::machine::Machines;
use crate::pace::Pieces;

/// What is special about a user's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateKind {
    /// It has several domains.
    Domains,
    /// Its snapshot has many pieces, and is taken piece by piece.
    Pieces,
    /// Some snapshots are refused.
    Refusing,
    /// Its pieces take their donor some time.
    Slow,
}

impl StateKind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Domains, Self::Pieces, Self::Refusing, Self::Slow];

    /// The kind that an ordinary seed has, if it has a user's state. It draws from a generator of its own, so that all else
    /// of a seed is as it is without.
    #[must_use]
    pub fn of_seed(seed: u64) -> Option<Self> {
        let mut rng = Rng::new(seed).fork("states");
        (rng.below(SHARE) == 0).then(|| Self::any(&mut rng))
    }

    /// The kind of a seed of a campaign in which all have one.
    #[must_use]
    pub fn always(seed: u64) -> Self {
        Self::of_seed(seed).unwrap_or_else(|| Self::any(&mut Rng::new(seed).fork("all states")))
    }

    fn any(rng: &mut Rng) -> Self {
        Self::ALL[index(rng, Self::ALL.len())]
    }

    /// Its name in the counters.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Domains => "seeds with a user's state of several domains",
            Self::Pieces => "seeds with a user's state in many pieces",
            Self::Refusing => "seeds with a user's state that is refused now and then",
            Self::Slow => "seeds with a user's state in slow pieces",
        }
    }
}

/// One ordinary seed of so many has a user's state.
const SHARE: u64 = 3;
/// Slow pieces, where the plan has none of its own.
pub(crate) const SLOW: Pieces = Pieces { bytes: 3_000, each_ns: MS };

type Make = dyn Fn(u64, StateKind, bool) -> Machines + Send + Sync;

/// Makes the machines of a seed.
#[derive(Clone)]
pub struct States(Arc<Make>);

impl States {
    /// Machines by seed and kind. The last argument: whether a state may follow from its views, which builds of an earlier
    /// level do not replay to a joiner.
    #[must_use]
    pub fn new(make: impl Fn(u64, StateKind, bool) -> Machines + Send + Sync + 'static) -> Self {
        Self(Arc::new(make))
    }

    pub(crate) fn of(&self, seed: u64, kind: StateKind, follows_views: bool) -> Machines {
        (self.0)(seed, kind, follows_views)
    }
}

impl fmt::Debug for States {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("States")
    }
}

/// Only copies are equal.
impl PartialEq for States {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for States {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_third_of_the_seeds_have_a_state_and_each_kind_comes_alike() {
        let drawn: Vec<StateKind> = (0..6_000).filter_map(StateKind::of_seed).collect();
        assert!((1_850..2_150).contains(&drawn.len()), "{}", drawn.len());
        for kind in StateKind::ALL {
            let count = drawn.iter().filter(|drawn| **drawn == kind).count();
            assert!((400..600).contains(&count), "{kind:?}: {count}");
        }
        let is_same = |seed| StateKind::of_seed(seed).is_none_or(|kind| StateKind::always(seed) == kind);
        assert!((0..600).all(is_same), "a seed that has one has the same where all have one");
    }
}
