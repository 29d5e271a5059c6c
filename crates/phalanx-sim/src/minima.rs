//! Minimum numbers of members for uniform messages in cells and groups, and groups that are plain by default.

use phalanx_core::rng::Rng;
use phalanx_core::{GroupTerms, Uniformity};

use crate::draw::index;

/// The agreed values of a seed. They never exceed a quorum, because only a quorum is certain to come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Minima {
    /// The least members of an adequate cell view. Every third process is configured with 1.
    pub cell: usize,
    /// The least members with its state in an adequate view of each group.
    pub group: u16,
    /// The default with which groups are founded.
    pub uniformity: Uniformity,
}

/// Draws values for a third of the seeds.
pub(crate) fn draw_minima(rng: &mut Rng, members: usize) -> Option<Minima> {
    let quorum = members / 2 + 1;
    rng.chance_ppm(330_000).then(|| Minima {
        cell: 1 + index(rng, quorum),
        group: u16::try_from(1 + index(rng, quorum.min(3))).unwrap_or(1),
        uniformity: Uniformity::from_flag(rng.chance_ppm(500_000)),
    })
}

impl Minima {
    /// The value in the configuration of that process.
    pub(crate) fn of_process(self, index: usize) -> usize {
        if index % 3 == 2 { 1 } else { self.cell }
    }

    /// The terms with which groups are founded.
    pub(crate) fn terms(self) -> GroupTerms {
        GroupTerms { uniformity: self.uniformity, members_min: self.group, ends_alone: false }
    }
}
