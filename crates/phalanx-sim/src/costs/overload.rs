//! A cell under three times the load that one of its parts can carry. No process in it is faulty, so none may be
//! excluded, and every message arrives once the load is over.

use serde::Serialize;

use super::lab::{Lab, Trouble};
use super::{guarded, judged, measure};
use crate::plan::{MS, SECOND};
use crate::result::Violation;

/// The load, as a multiple of what can be carried.
pub const TIMES: u64 = 3;
/// Time after the load within which everything is to be delivered.
const CLEARS_NS: u64 = 60 * SECOND;
/// Bytes that an interface takes in a millisecond.
pub(super) const INTERFACE_BYTES_PER_MS: u64 = 400;
/// Bytes that a link carries in a second.
pub(super) const LINK_BYTES: u64 = 400_000;
/// Time that a packet costs its receiver.
pub(super) const PACKET_NS: u64 = MS;
/// The longest packet.
const PACKET_BYTES: u64 = 1_472;

/// The part of a cell with the lowest capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bottleneck {
    /// Every process is behind a slow interface, and notices when it is full.
    Interfaces,
    /// Every link is slow. It drops packets that would wait long, heartbeats among them.
    Links,
    /// Every packet costs its receiver time, and a full socket drops more.
    Processors,
}

impl Bottleneck {
    /// All bottlenecks.
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

    /// Time between two messages of each of `members`, whose mean length is `mean_bytes`, such that the load is
    /// [`TIMES`] what can be carried.
    pub(super) fn gap_ns(self, members: usize, mean_bytes: u64) -> u64 {
        let others = members as u64 - 1;
        let alone_ns = match self {
            Self::Interfaces => others * mean_bytes * MS / INTERFACE_BYTES_PER_MS,
            Self::Links => mean_bytes * SECOND / LINK_BYTES,
            // A sender under load fills its packets.
            Self::Processors => others * mean_bytes * PACKET_NS / PACKET_BYTES,
        };
        alone_ns / TIMES
    }
}

/// Result of one run of one bottleneck.
#[derive(Clone, Debug, Serialize)]
pub struct Overload {
    /// The seed.
    pub seed: u64,
    /// The bottleneck's name; see [`Bottleneck::name`].
    pub bottleneck: &'static str,
    /// Members of the cell.
    pub members: usize,
    /// Duration of the load, in seconds.
    pub seconds: u64,
    /// Bytes of the multicasts requested in that time.
    pub asked_bytes: u64,
    /// Bytes of the multicasts refused for lack of credit. Long ones are refused more often.
    pub refused_bytes: u64,
    /// The longest time for which a member was without a new message of another one, in milliseconds.
    pub waited_ms: u64,
    /// Begin of that wait, in milliseconds after the load began.
    pub since_ms: u64,
    /// Members that were excluded, with reason and time.
    pub left_out: Vec<String>,
    /// Findings of the checker, or of the run itself.
    pub violations: Vec<Violation>,
    /// The story of a run with violations.
    #[serde(skip)]
    pub story: Option<String>,
}

impl Overload {
    /// Whether the load exceeded the capacity.
    #[must_use]
    pub fn is_met(&self) -> bool {
        self.refused_bytes > self.asked_bytes / 2
    }

    /// Whether the cell was overloaded, no member was excluded, and nothing was violated.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.is_met() && self.left_out.is_empty() && self.violations.is_empty()
    }
}

/// Overloads `seed` for this many seconds. With `members` 0 the seed decides on three to seven.
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
