//! Draws of indexes, which plans and applications share.

use phalanx_core::rng::Rng;

/// An index below `bound`; 0 if there is none.
pub(crate) fn index(rng: &mut Rng, bound: usize) -> usize {
    usize::try_from(rng.below(bound as u64)).unwrap_or(0)
}
