//! Flow-control lag: which members hold this member's stream back, and for how long without progress. It leads to
//! slow-member reports.

use std::time::Duration;

use super::view_streams::ViewStreams;
use crate::id::Rank;
use crate::link::Standing;

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

impl ViewStreams {
    /// Ranks that hold this member's stream back and made no progress in it for `after`.
    ///
    /// The caller checks at each heartbeat. `passed` is the time that counts since the last check: zero if this process
    /// was away or the view is about to change. `own_waits` says that the application of this member has not taken what
    /// was delivered to it.
    ///
    /// - Members that do not acknowledge come first. Without their acks, uniform messages are delivered nowhere, and so
    ///   nobody gives credit.
    /// - Otherwise it returns the members that have everything and give no credit. If this member is one of them, it
    ///   returns nobody: the messages cannot be delivered anywhere, or the fault is here.
    /// - A token holder returns itself if its own application keeps it from ordering what others wait for.
    /// - If half of the members or more hold the stream back, and not one alone, it returns nobody: the sender is fast.
    pub fn lagging(&mut self, passed: Duration, after: Duration, own_waits: bool) -> Vec<Rank> {
        let ordering = self.orders_wait();
        // A view change stops all streams, whatever their receivers do.
        if self.wedged {
            return Vec::new();
        }
        if !(ordering || self.is_blocked()) {
            // The time begins anew with the next wait: nobody is slow while nothing waits.
            self.flow_control_lag.seen.clear();
            return Vec::new();
        }
        let (tx, n) = (&self.tx, self.set.members.len());
        let seen = &mut self.flow_control_lag.seen;
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
        let me = self.set.me;
        let slow = if !silent.is_empty() {
            silent
        } else if tx.standing(me.index()).limit < tx.next().0 {
            let is_mine = ordering && own_waits && holding(&me);
            if is_mine { vec![me] } else { Vec::new() }
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
