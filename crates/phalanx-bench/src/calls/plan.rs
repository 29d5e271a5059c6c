//! Decides when clients make which calls.

use std::fmt;

use phalanx_runtime::core::rng::Rng;
use serde::{Deserialize, Serialize};

use crate::histogram::Times;

/// The load that clients generate.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Load {
    /// Each endpoint keeps `outstanding` calls under way to its first server. Sizes are drawn by their shares of all
    /// calls. Only calls of the first size are timed.
    Closed { sizes: Vec<(u32, usize)>, outstanding: usize },
    /// `per_second` calls are due each second, whether or not earlier calls have ended. Each call is timed from the
    /// moment it was due, so a stall is not hidden (coordinated omission).
    Open { size: usize, per_second: f64 },
    /// Rounds of `calls` simultaneous calls, one to each server in turn. The next round begins when all have ended, and
    /// the whole round is timed. With `fresh`, each round opens new sessions.
    Rounds { size: usize, calls: usize, fresh: bool },
    /// Rounds of `calls` calls one after the other, one to each server in turn. The whole round is timed.
    InTurn { size: usize, calls: usize },
}

impl Load {
    /// A closed load of one size.
    pub(crate) fn closed(size: usize, outstanding: usize) -> Self {
        Self::Closed { sizes: vec![(1, size)], outstanding }
    }

    pub(crate) fn longest(&self) -> usize {
        match self {
            Self::Closed { sizes, .. } => sizes.iter().map(|(_, size)| *size).max().unwrap_or(0),
            Self::Open { size, .. } | Self::Rounds { size, .. } | Self::InTurn { size, .. } => *size,
        }
    }
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed { sizes, outstanding } => match sizes.as_slice() {
                [(_, size)] => write!(f, "{size} B, {outstanding} under way"),
                _ => write!(f, "mixed sizes, {outstanding} under way"),
            },
            Self::Open { size, per_second } => write!(f, "{size} B, {per_second:.0} /s"),
            Self::Rounds { size, calls, fresh } => {
                let sessions = if *fresh { ", new sessions" } else { "" };
                write!(f, "{size} B, {calls} at once{sessions}")
            }
            Self::InTurn { size, calls } => write!(f, "{size} B, {calls} in turn"),
        }
    }
}

/// The calls of one load, from its beginning to its end.
pub(super) struct Plan<'a> {
    load: &'a Load,
    servers: usize,
    begin: u64,
    end: u64,
    /// Calls made so far; with rounds, those of the current round.
    made: usize,
    round_began: u64,
    rng: Rng,
}

/// A call to make now.
pub(super) struct Next {
    pub(super) server: usize,
    pub(super) size: usize,
    /// Time at which it was due.
    pub(super) since: u64,
    /// Whether it needs a session of its own.
    pub(super) fresh: bool,
}

impl<'a> Plan<'a> {
    pub(super) fn new(load: &'a Load, servers: usize, begin: u64, nanos: u64) -> Self {
        // A fixed seed: every run draws the same sizes.
        let rng = Rng::new(1).fork("sizes");
        Self { load, servers, begin, end: begin + nanos, made: 0, round_began: begin, rng }
    }

    /// The next call of an endpoint that has `outstanding` calls under way. Also records the time of a round that just
    /// ended.
    pub(super) fn next(&mut self, now: u64, outstanding: usize, times: &mut Times) -> Option<Next> {
        let next = |server, size, since| Next { server, size, since, fresh: false };
        match *self.load {
            Load::Closed { ref sizes, outstanding: most } => {
                (now < self.end && outstanding < most).then(|| next(0, drawn(&mut self.rng, sizes), now))
            }
            Load::Open { size, per_second } => {
                let due = self.due(per_second);
                (due <= now && due < self.end).then(|| next(0, size, due))
            }
            Load::Rounds { size, calls, fresh } => {
                if self.made == calls && outstanding == 0 {
                    times.note(now - self.round_began);
                    self.made = 0;
                }
                if self.made == calls || (self.made == 0 && now >= self.end) {
                    return None;
                }
                if self.made == 0 {
                    self.round_began = now;
                }
                let fresh = fresh && self.made == 0;
                Some(Next { fresh, ..next(self.made % self.servers, size, self.round_began) })
            }
            Load::InTurn { .. } if outstanding > 0 => None,
            Load::InTurn { size, calls } => {
                if self.made == calls {
                    times.note(now - self.round_began);
                    self.made = 0;
                }
                if self.made == 0 && now >= self.end {
                    return None;
                }
                if self.made == 0 {
                    self.round_began = now;
                }
                Some(next(self.made % self.servers, size, self.round_began))
            }
        }
    }

    pub(super) fn note_made(&mut self) {
        self.made += 1;
    }

    fn due(&self, per_second: f64) -> u64 {
        self.begin + (self.made as f64 * 1e9 / per_second) as u64
    }

    /// Whether no more calls are to be made.
    pub(super) fn is_over(&self, now: u64) -> bool {
        match *self.load {
            Load::Closed { .. } => now >= self.end,
            Load::Open { per_second, .. } => self.due(per_second) >= self.end,
            Load::Rounds { .. } | Load::InTurn { .. } => now >= self.end && self.made == 0,
        }
    }

    /// Whether a call that ends now counts for the rate.
    pub(super) fn counts(&self, now: u64) -> bool {
        now <= self.end
    }

    /// The size whose calls are timed one by one.
    pub(super) fn timed(&self) -> Option<usize> {
        match self.load {
            Load::Closed { sizes, .. } => sizes.first().map(|(_, size)| *size),
            Load::Open { size, .. } => Some(*size),
            Load::Rounds { .. } | Load::InTurn { .. } => None,
        }
    }

    /// Whether the clock decides when the next call is due. Otherwise only the end of an earlier call does.
    pub(super) fn is_clocked(&self) -> bool {
        matches!(self.load, Load::Open { .. })
    }
}

fn drawn(rng: &mut Rng, sizes: &[(u32, usize)]) -> usize {
    if let [(_, size)] = sizes {
        return *size;
    }
    let mut left = rng.below(sizes.iter().map(|(share, _)| u64::from(*share)).sum());
    for (share, size) in sizes {
        match left.checked_sub(u64::from(*share)) {
            None => return *size,
            Some(rest) => left = rest,
        }
    }
    unreachable!("what was drawn is less than all shares together")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_due_whatever_became_of_those_before() {
        let load = Load::Open { size: 1, per_second: 1e9 / 10.0 };
        let mut plan = Plan::new(&load, 1, 100, 25);
        let mut times = Times::new();
        let mut due = Vec::new();
        // The caller polls late, at 500 ns: all calls that fell due meanwhile are made.
        while let Some(next) = plan.next(500, due.len(), &mut times) {
            due.push(next.since);
            plan.note_made();
        }
        assert_eq!(due, [100, 110, 120]);
        assert!(plan.is_over(500));
    }

    #[test]
    fn a_round_ends_with_its_last_call() {
        let load = Load::Rounds { size: 1, calls: 3, fresh: true };
        let mut plan = Plan::new(&load, 2, 0, 10);
        let mut times = Times::new();
        let mut round = Vec::new();
        while let Some(next) = plan.next(5, round.len(), &mut times) {
            round.push((next.server, next.fresh));
            plan.note_made();
        }
        assert_eq!(round, [(0, true), (1, false), (0, false)]);
        assert!(plan.next(20, 1, &mut times).is_none() && !plan.is_over(20), "one is under way");
        assert!(plan.next(20, 0, &mut times).is_none() && plan.is_over(20));
        assert_eq!(times.take().count, 1);
    }

    #[test]
    fn calls_in_turn_wait_for_each_other() {
        let load = Load::InTurn { size: 1, calls: 2 };
        let mut plan = Plan::new(&load, 3, 0, 10);
        let mut times = Times::new();
        for (now, server) in [(1, 0), (2, 1), (3, 0), (12, 1)] {
            assert_eq!(plan.next(now, 0, &mut times).map(|next| next.server), Some(server));
            plan.note_made();
            assert!(plan.next(now, 1, &mut times).is_none() && !plan.is_over(now), "one is under way");
        }
        assert!(plan.next(13, 0, &mut times).is_none() && plan.is_over(13));
        assert_eq!(times.take().count, 2, "each round is timed, the last one though it ended late");
    }

    #[test]
    fn sizes_come_by_their_shares() {
        let mut rng = Rng::new(1);
        let short = (0..10_000).filter(|_| drawn(&mut rng, &[(80, 1), (15, 2), (5, 3)]) == 1).count();
        assert!((7_700..8_300).contains(&short), "{short}");
    }
}
