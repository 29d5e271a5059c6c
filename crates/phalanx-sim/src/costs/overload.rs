//! A cell that is asked for three times what one of its parts can do, for as long as is said. Nobody in it is faulty, so nobody may be
//! left out, and every message comes once the load is over.

use serde::Serialize;

use super::lab::{Lab, Trouble};
use super::{guarded, judged, measure};
use crate::plan::{MS, SECOND};
use crate::result::Violation;

/// What is asked for, of what can be done.
pub const TIMES: u64 = 3;
/// Once the load is over, everything is to be delivered within this.
const CLEARS_NS: u64 = 60 * SECOND;
/// Bytes that an interface takes in a millisecond.
pub(super) const INTERFACE_BYTES_PER_MS: u64 = 400;
/// Bytes a second of a link.
pub(super) const LINK_BYTES: u64 = 400_000;
/// What a packet costs its receiver.
pub(super) const PACKET_NS: u64 = MS;
/// The longest packet.
const PACKET_BYTES: u64 = 1_472;

/// The part of a cell that can do least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bottleneck {
    /// Every process is behind an interface that takes little, and is told when it is full.
    Interfaces,
    /// Every link takes little, and drops what would wait for long, heartbeats among it.
    Links,
    /// Every packet costs its receiver time, and a full socket drops more.
    Processors,
}

impl Bottleneck {
    /// Each of them.
    pub const ALL: [Self; 3] = [Self::Interfaces, Self::Links, Self::Processors];

    /// Its name in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Interfaces => "interfaces",
            Self::Links => "links",
            Self::Processors => "processors",
        }
    }

    /// Between two messages of each of `members`, of which `mean_bytes` is the length, so that [`TIMES`] as much is asked for as can be
    /// done.
    pub(super) fn gap_ns(self, members: usize, mean_bytes: u64) -> u64 {
        let others = members as u64 - 1;
        let alone_ns = match self {
            Self::Interfaces => others * mean_bytes * MS / INTERFACE_BYTES_PER_MS,
            Self::Links => mean_bytes * SECOND / LINK_BYTES,
            // A loaded sender fills its packets.
            Self::Processors => others * mean_bytes * PACKET_NS / PACKET_BYTES,
        };
        alone_ns / TIMES
    }
}

/// One run of one bottleneck.
#[derive(Clone, Debug, Serialize)]
pub struct Overload {
    /// The seed.
    pub seed: u64,
    /// What could do least; see [`Bottleneck::name`].
    pub bottleneck: &'static str,
    /// Members of the cell.
    pub members: usize,
    /// How long it was overloaded, in seconds.
    pub seconds: u64,
    /// Bytes of the multicasts that were asked for in that time.
    pub asked_bytes: u64,
    /// Bytes of those that were refused, for want of credit: of the long ones more.
    pub refused_bytes: u64,
    /// The longest that a member was without a new message of another one, in milliseconds.
    pub waited_ms: u64,
    /// When that wait began, in milliseconds after the load.
    pub since_ms: u64,
    /// Members that were excluded, with reason and time.
    pub left_out: Vec<String>,
    /// What the checker found, or the run itself.
    pub violations: Vec<Violation>,
    /// Of a run with violations.
    #[serde(skip)]
    pub story: Option<String>,
}

impl Overload {
    /// Whether more was asked for than was done.
    #[must_use]
    pub fn is_met(&self) -> bool {
        self.refused_bytes > self.asked_bytes / 2
    }

    /// Whether the cell was overloaded, and nobody was left out, and nothing violated.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.is_met() && self.left_out.is_empty() && self.violations.is_empty()
    }
}

/// Runs `seed` overloaded for so long. `members`: 0, three to seven, as the seed says.
#[must_use]
pub fn overload(bottleneck: Bottleneck, seed: u64, members: usize, seconds: u64) -> Overload {
    let mut lab = Lab::new(Trouble::Overload(bottleneck), seed, members);
    guarded(&mut lab, |lab| lab.run(seconds * SECOND));
    let waited = measure::longest_wait(&lab);
    guarded(&mut lab, |lab| lab.clear(CLEARS_NS));
    let run = Overload {
        seed,
        bottleneck: bottleneck.name(),
        members: lab.members,
        seconds,
        asked_bytes: lab.asked_bytes,
        refused_bytes: lab.refused_bytes,
        waited_ms: waited.for_ns / MS,
        since_ms: waited.since_ns.saturating_sub(lab.begun_ns) / MS,
        left_out: measure::excluded(&lab),
        violations: Vec::new(),
        story: None,
    };
    let result = judged(lab, seed, members, &format!("--overload {seconds}"));
    Overload { violations: result.violations, story: result.story, ..run }
}
