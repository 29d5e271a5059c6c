//! The total order as the sequencer announced it: whose abcast is delivered next.

use std::collections::VecDeque;

use super::packet_reader::{PacketPosition, Tenure, entry_of};
use crate::id::Rank;

use crate::wire::PacketNumber;

/// A run of the total order: the next `count` abcasts of `rank`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) rank: Rank,
    pub(super) count: u64,
    /// Position of the announcement. Uniform delivery waits for the stability of that packet.
    pub(super) by: Rank,
    pub(super) packet: PacketNumber,
}

/// The position of a token pass: the rank that passed the token on, and its packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pass {
    pub(super) by: Rank,
    pub(super) packet: PacketNumber,
}

/// The announced order of one group view, from the tenures of successive token holders.
///
/// A stream is read only as far as its sender's tenure has begun ([`super::packet_reader`]), so announcements come here
/// in order. At most two tenures are open at once, whatever is lost or late: a holder passes the token on only when
/// every member has the pass that gave it the token ([`Total::came_by`]).
#[derive(Debug)]
pub(super) struct Total {
    /// The tenure whose announcements `log` receives, and its holder.
    tenure: Tenure,
    /// Announced, undelivered runs, in order.
    log: VecDeque<Run>,
    /// The pass that began `tenure`; `None` for the first tenure.
    came_by: Option<Pass>,
    /// By earlier holder: its last packet that passed the token. All its announcements come before that in its stream.
    /// Builds that know level 1 alone acknowledge the next holder's orders before they have the pass.
    rests_on: Vec<u64>,
    /// Number of abcasts delivered in this view.
    delivered: u64,
}

/// The end of the announced order at some moment, to return to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Checkpoint {
    runs: usize,
    last: u64,
}

impl Total {
    pub(super) fn new() -> Self {
        let tenure = Tenure { number: 0, holder: Rank::FIRST };
        Self { tenure, log: VecDeque::new(), came_by: None, rests_on: Vec::new(), delivered: 0 }
    }

    /// The tenure in force: its holder may announce orders.
    #[inline]
    pub(super) fn in_force(&self) -> Tenure {
        self.tenure
    }

    pub(super) fn tenure(&self) -> u32 {
        self.tenure.number
    }

    pub(super) fn holder(&self) -> Rank {
        self.tenure.holder
    }

    /// The pass that gave the holder its token.
    pub(super) fn came_by(&self) -> Option<Pass> {
        self.came_by
    }

    pub(super) fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Appends a run that the holder announced.
    #[inline]
    pub(super) fn announce(&mut self, run: Run) {
        if run.count > 0 {
            append(&mut self.log, run);
        }
    }

    /// Ends the holder's tenure at that packet, and begins the next with `to`.
    pub(super) fn pass(&mut self, PacketPosition { by, number: packet }: PacketPosition, to: Rank) {
        debug_assert_eq!(by, self.tenure.holder, "only the holder passes the token on");
        debug_assert_ne!(by, to, "a token is passed to another member");
        // The next tenure's order rests on the pass, and so on all that its holder announced before it. If only members
        // that die had it, survivors would not know that the next holder may order.
        *entry_of(&mut self.rests_on, by) = packet.0;
        self.came_by = Some(Pass { by, packet });
        self.tenure = Tenure { number: self.tenure.number + 1, holder: to };
    }

    #[inline]
    pub(super) fn checkpoint(&self) -> Checkpoint {
        Checkpoint { runs: self.log.len(), last: self.log.back().map_or(0, |run| run.count) }
    }

    /// Removes what was announced since `checkpoint`. Nothing may have been delivered in between.
    pub(super) fn undo(&mut self, checkpoint: Checkpoint) {
        debug_assert!(checkpoint.runs <= self.log.len(), "nothing is delivered while a packet is read");
        self.log.truncate(checkpoint.runs);
        // The last run may have been extended by the packet that is undone.
        if let Some(last) = self.log.back_mut() {
            last.count = checkpoint.last;
        }
    }

    /// The next run to deliver from.
    #[inline]
    pub(super) fn front(&self) -> Option<Run> {
        self.log.front().copied()
    }

    /// Notes that one abcast of the front run is delivered. Returns its position, from 1.
    #[inline]
    pub(super) fn take_front(&mut self) -> u64 {
        if let Some(front) = self.log.front_mut() {
            debug_assert!(front.count > 0, "a run is over when its last abcast is delivered");
            front.count -= 1;
            if front.count == 0 {
                self.log.pop_front();
            }
        }
        self.number()
    }

    /// Removes the front run, which can never be delivered: its sender's next message is outside the cut.
    pub(super) fn skip_front(&mut self) {
        self.log.pop_front();
    }

    /// The next position, for an abcast that nobody announced.
    #[inline]
    pub(super) fn number(&mut self) -> u64 {
        self.delivered += 1;
        self.delivered
    }

    /// The packets that passed the token: (earlier holder, packet). The order in force rests on them.
    pub(super) fn rests_on(&self) -> impl Iterator<Item = (Rank, u64)> {
        Rank::enumerate(self.rests_on.iter().copied())
    }

    /// Checks the invariants in a view of `members` members.
    pub(super) fn check_invariants(&self, members: usize) {
        assert!(self.tenure.holder.index() < members, "the token is with nobody");
        assert_eq!(self.came_by.is_none(), self.tenure.number == 0, "each tenure but the first begins with a pass");
        assert!(self.came_by.is_none_or(|pass| pass.by.index() < members), "nobody passed the token on");
        assert!(self.rests_on.len() <= members, "the order rests on nobody's packet");
        for run in &self.log {
            assert!(run.count > 0, "a run orders nothing");
            assert!(run.rank.index() < members, "a run orders nobody's messages");
            assert!(run.by.index() < members, "a run was announced by nobody");
        }
    }

    /// Announced, undelivered abcasts of each rank.
    pub(super) fn owed(&self, members: usize) -> Vec<u64> {
        let mut owed = vec![0; members];
        for run in &self.log {
            if let Some(n) = owed.get_mut(run.rank.index()) {
                *n += run.count;
            }
        }
        owed
    }
}

#[inline]
fn append(log: &mut VecDeque<Run>, run: Run) {
    match log.back_mut() {
        // Only within one packet: uniform delivery waits for the packet that announced the run.
        Some(last) if last.rank == run.rank && last.by == run.by && last.packet == run.packet => {
            last.count += run.count;
        }
        _ => log.push_back(run),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(rank: u16, count: u64, by: u16, packet: PacketNumber) -> Run {
        Run { rank: Rank(rank), count, by: Rank(by), packet }
    }

    fn at(by: u16, number: u64) -> PacketPosition {
        PacketPosition { by: Rank(by), number: PacketNumber(number) }
    }

    #[test]
    fn tenures_follow_each_other() {
        let mut t = Total::new();
        t.announce(run(1, 2, 0, PacketNumber(1)));
        t.pass(at(0, 9), Rank(2));
        assert_eq!(
            (t.in_force(), t.came_by()),
            (Tenure { number: 1, holder: Rank(2) }, Some(Pass { by: Rank(0), packet: PacketNumber(9) }))
        );
        t.announce(run(6, 1, 2, PacketNumber(1)));
        let mut order = Vec::new();
        while let Some(r) = t.front() {
            order.push((r.rank.0, t.take_front()));
        }
        assert_eq!(order, [(1, 1), (1, 2), (6, 3)]);
    }

    #[test]
    fn what_a_packet_announced_can_be_taken_back() {
        let mut t = Total::new();
        let nothing = t.checkpoint();
        t.announce(run(1, 2, 0, PacketNumber(1)));
        let first = t.checkpoint();
        t.announce(run(1, 3, 0, PacketNumber(1)));
        t.announce(run(2, 1, 0, PacketNumber(1)));
        t.undo(first);
        assert_eq!((t.front(), t.owed(3)), (Some(run(1, 2, 0, PacketNumber(1))), vec![0, 2, 0]));
        t.undo(nothing);
        assert_eq!(t.front(), None);
    }

    /// A uniform abcast waits for the packet that announced it, so that runs of two packets stay two runs.
    #[test]
    fn runs_join_only_within_one_packet() {
        let mut t = Total::new();
        for (rank, packet) in [(1, 1), (1, 1), (1, 2), (2, 2)] {
            t.announce(run(rank, 1, 0, PacketNumber(packet)));
        }
        t.pass(at(0, 2), Rank(3));
        t.announce(run(2, 1, 3, PacketNumber(2)));
        let mut seen = Vec::new();
        while let Some(Run { rank, by, packet, .. }) = t.front() {
            seen.push((rank.0, by.0, packet.0, t.take_front()));
        }
        assert_eq!(seen, [(1, 0, 1, 1), (1, 0, 1, 2), (1, 0, 2, 3), (2, 0, 2, 4), (2, 3, 2, 5)]);
    }

    /// All that a holder announced comes before its pass in its stream, so that the pass stands for it.
    #[test]
    fn the_order_rests_on_the_packets_that_passed_the_token() {
        let mut t = Total::new();
        let rests = |t: &Total| {
            t.rests_on().filter(|(_, packet)| *packet > 0).map(|(by, packet)| (by.0, packet)).collect::<Vec<_>>()
        };
        t.announce(run(1, 1, 0, PacketNumber(3)));
        t.pass(at(0, 4), Rank(2));
        t.take_front();
        assert_eq!(rests(&t), [(0, 4)], "what was ordered before the pass is delivered after it");
        t.announce(run(1, 1, 2, PacketNumber(7)));
        t.take_front();
        assert_eq!(rests(&t), [(0, 4)]);
        t.pass(at(2, 7), Rank(0));
        t.pass(at(0, 9), Rank(1));
        assert_eq!(rests(&t), [(0, 9), (2, 7)], "a holder that passed it twice");
    }
}
