//! Flow-control lag: which members hold this member's stream back, and for how long without progress. It leads to
//! slow-member reports.

use std::time::Duration;

use crate::id::Rank;
use crate::link::{Sending, Standing};

/// How long each member has held our stream back. Empty while nothing holds it back.
#[derive(Debug, Default)]
pub(super) struct FlowControlLag {
    seen: Vec<Seen>,
}

/// What a member had acknowledged and allowed at the last check.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    acked: u64,
    limit: u64,
    /// How long the stream has waited for this member without progress in `acked` or `limit`.
    still: Duration,
}

impl FlowControlLag {
    /// The time begins anew with the next wait: nobody is slow while nothing waits.
    pub(super) fn clear(&mut self) {
        self.seen.clear();
    }

    /// Ranks among `n` that hold our stream back, see [`super::ViewStreams::lagging`]. `is_mine`: the application of `me`
    /// keeps it from ordering what others wait for.
    pub(super) fn lagging(
        &mut self,
        tx: &Sending,
        (me, n): (Rank, usize),
        passed: Duration,
        after: Duration,
        is_mine: bool,
    ) -> Vec<Rank> {
        let seen = &mut self.seen;
        // The first check has nothing to compare with, so it counts as progress of all members.
        let fresh = seen.is_empty();
        seen.resize(n, Seen::default());
        for (rank, seen) in Rank::enumerate(seen.iter_mut()) {
            // A member that allows more than was sent does not hold the stream back, whatever it acknowledged.
            let Standing { acked, limit } = tx.standing(rank.index());
            let moved = fresh || (acked, limit) != (seen.acked, seen.limit) || limit >= tx.next().0;
            let still = if moved { Duration::ZERO } else { seen.still + passed };
            *seen = Seen { acked, limit, still };
        }
        // Members that waited half the time count towards the number. Otherwise, of two that stopped together, the
        // first would be reported alone, and the second after it.
        let still = |rank: &Rank, least: Duration| seen[rank.index()].still >= least;
        let holding = |rank: &Rank| tx.standing(rank.index()).limit < tx.next().0 && still(rank, after / 2);
        let silent: Vec<Rank> = Rank::all(n).filter(|rank| holding(rank) && !tx.has_all(rank.index())).collect();
        let slow = if !silent.is_empty() {
            silent
        } else if tx.standing(me.index()).limit < tx.next().0 {
            if is_mine && holding(&me) { vec![me] } else { Vec::new() }
        } else {
            Rank::all(n).filter(holding).collect()
        };
        if slow.len() > 1 && slow.len() * 2 >= n {
            return Vec::new();
        }
        slow.into_iter().filter(|rank| still(rank, after)).collect()
    }
}

#[cfg(test)]
mod tests;
