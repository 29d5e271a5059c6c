//! A cell under three times the load that one of its parts can carry. No process in it is faulty, so none may be
//! excluded, and every message arrives once the load is over.

use serde::Serialize;

use super::bottleneck::Bottleneck;
use super::lab::{Lab, Trouble, guarded, judged};
use super::measure;
use crate::clock::{MS, SECOND};
use crate::result::Violation;

/// Time after the load within which everything is to be delivered.
const CLEARS_NS: u64 = 60 * SECOND;

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
