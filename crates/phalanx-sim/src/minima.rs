//! Cells and groups that send nothing uniform while they have too few members, and groups that are plain by default.

use phalanx_core::GroupTerms;
use phalanx_core::rng::Rng;

use crate::swarm::index;

/// What is agreed on in a seed. No more members are asked for than a quorum has: those come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Minima {
    /// The least members of an adequate cell view. Every third process is configured with 1.
    pub cell: usize,
    /// The least members with its state of an adequate view of each group.
    pub group: u16,
    /// Groups are founded uniform by default.
    pub uniform: bool,
}

/// A third of the seeds have some.
pub(crate) fn draw_minima(rng: &mut Rng, members: usize) -> Option<Minima> {
    let quorum = members / 2 + 1;
    rng.chance_ppm(330_000).then(|| Minima {
        cell: 1 + index(rng, quorum),
        group: u16::try_from(1 + index(rng, quorum.min(3))).unwrap_or(1),
        uniform: rng.chance_ppm(500_000),
    })
}

impl Minima {
    /// As that process is configured.
    pub(crate) fn of_process(self, index: usize) -> usize {
        if index % 3 == 2 { 1 } else { self.cell }
    }

    /// What a group is agreed to be.
    pub(crate) fn terms(self) -> GroupTerms {
        GroupTerms { uniform: self.uniform, members_min: self.group, ends_alone: false }
    }
}
