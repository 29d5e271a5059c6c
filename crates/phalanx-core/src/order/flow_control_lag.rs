//! Flow-control lag: which members hold this member's stream back, and for how long without progress. It leads to
//! slow-member reports.

use std::time::Duration;

use super::view_streams::ViewStreams;
use crate::id::Rank;
use crate::link::Standing;

/// Each member's part in holding our stream back; empty while nothing holds it back.
#[derive(Debug, Default)]
pub(super) struct FlowControlLag {
    seen: Vec<Seen>,
}

/// What a member had acknowledged and allowed at the last look.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    acked: u64,
    limit: u64,
    /// How long the stream has waited for this member while neither moved.
    still: Duration,
}

impl ViewStreams {
    /// The ranks that alone hold this member's stream back, and have made no progress in it while `after` passed.
    /// To be called now and then: `passed` is what counts since the last look, nothing if this process was away or the
    /// view is about to change. `own_waits`: the application here does not take what is due to it.
    ///
    /// Who acknowledges nothing comes first: without its acks, uniform messages reach nobody, and so nobody gives
    /// credit. Else it is those that have everything and give no credit, unless this member is one of them: then what
    /// was sent cannot be delivered anywhere, or the fault is here. It calls itself too slow if it is to order what
    /// others wait for, and its own application is what keeps it from that. Where half of the members hold the stream
    /// back, and not one alone, they are not slow: the sender is fast.
    pub fn lagging(&mut self, passed: Duration, after: Duration, own_waits: bool) -> Vec<Rank> {
        let ordering = self.orders_wait();
        if self.wedged {
            return Vec::new();
        }
        if !(ordering || self.is_blocked()) {
            self.flow_control_lag.seen.clear();
            return Vec::new();
        }
        let (tx, n) = (&self.tx, self.set.members.len());
        let seen = &mut self.flow_control_lag.seen;
        let fresh = seen.is_empty();
        seen.resize(n, Seen::default());
        for (rank, seen) in Rank::enumerate(seen.iter_mut()) {
            let Standing { acked, limit } = tx.standing(rank.index());
            let moved = fresh || (acked, limit) != (seen.acked, seen.limit) || limit >= tx.next().0;
            let still = if moved { Duration::ZERO } else { seen.still + passed };
            *seen = Seen { acked, limit, still };
        }
        // Nearly as long counts for how many there are: two that stopped together are not found one after the other.
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
