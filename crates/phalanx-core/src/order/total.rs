//! The total order as announced: which sender's next abcast comes next.

use std::collections::VecDeque;

/// A run of the announced order: the next `count` abcasts of `rank`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) rank: u16,
    pub(super) count: u64,
    /// Where it was announced: the holder's rank and packet. Uniform delivery waits for that packet's stability.
    pub(super) by: u16,
    pub(super) packet: u64,
}

/// A token pass, by where it stands: the rank that passed the token on, and the packet that says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pass {
    pub(super) by: u16,
    pub(super) packet: u64,
}

/// The announced order of one group view, put together from the tenures of successive token holders.
///
/// At most two tenures are open at once, whatever is lost or late: a holder passes the token on only when every member
/// has the pass that gave it the token ([`Total::came_by`]). So no receiver hears of a pass before it has all earlier
/// ones, and no announcement is further ahead than the tenure that follows the one in force.
#[derive(Debug)]
pub(super) struct Total {
    /// The tenure whose announcements are being appended to `log`.
    tenure: u32,
    /// Who holds the token in `tenure`.
    holder: u16,
    /// Announced and not yet delivered, in order.
    log: VecDeque<Run>,
    /// Announcements of the next tenure, whose beginning is not known yet.
    later: Vec<Run>,
    /// The pass that began `tenure`; `None`: the first needs none.
    came_by: Option<Pass>,
    /// Passes at which announcements of the tenure they began had come before them.
    overtaken: u64,
    /// Per holder so far: the last of its packets that the delivered order rests on.
    rests_on: Vec<u64>,
    /// Abcasts delivered in this view.
    delivered: u64,
}

impl Total {
    pub(super) fn new() -> Self {
        Self {
            tenure: 0,
            holder: 0,
            log: VecDeque::new(),
            later: Vec::new(),
            came_by: None,
            overtaken: 0,
            rests_on: Vec::new(),
            delivered: 0,
        }
    }

    pub(super) fn tenure(&self) -> u32 {
        self.tenure
    }

    pub(super) fn holder(&self) -> u16 {
        self.holder
    }

    /// The pass that gave the holder its token.
    pub(super) fn came_by(&self) -> Option<Pass> {
        self.came_by
    }

    /// How often the token came here after the first announcements of its new holder: two tenures were open.
    pub(super) fn overtaken(&self) -> u64 {
        self.overtaken
    }

    pub(super) fn delivered(&self) -> u64 {
        self.delivered
    }

    /// `by` announced `rank`'s next `count` abcasts in its packet `packet`. False: it had no right to.
    #[inline]
    pub(super) fn announce(&mut self, tenure: u32, run: Run) -> bool {
        if run.count == 0 {
            return true;
        }
        if tenure == self.tenure {
            if run.by != self.holder {
                return false;
            }
            append(&mut self.log, run);
            return true;
        }
        if self.tenure.checked_add(1) != Some(tenure) {
            return false;
        }
        self.later.push(run);
        true
    }

    /// `by` ended `tenure` in its packet `packet` and named the next holder. False: it had no right to.
    pub(super) fn pass(&mut self, tenure: u32, by: u16, to: u16, packet: u64) -> bool {
        let Some(next) = self.tenure.checked_add(1) else { return false };
        if tenure != self.tenure || by != self.holder {
            return false;
        }
        self.rest_on(by, packet);
        self.came_by = Some(Pass { by, packet });
        self.overtaken += u64::from(!self.later.is_empty());
        (self.tenure, self.holder) = (next, to);
        for run in std::mem::take(&mut self.later) {
            if run.by == to {
                append(&mut self.log, run);
            }
        }
        true
    }

    /// The next run to deliver from.
    #[inline]
    pub(super) fn front(&self) -> Option<Run> {
        self.log.front().copied()
    }

    /// One abcast of the front run was delivered; gives its position, from 1.
    #[inline]
    pub(super) fn take_front(&mut self) -> u64 {
        if let Some(&Run { by, packet, .. }) = self.log.front() {
            self.rest_on(by, packet);
        }
        if let Some(front) = self.log.front_mut() {
            front.count -= 1;
            if front.count == 0 {
                self.log.pop_front();
            }
        }
        self.number()
    }

    /// The front run cannot be delivered, ever: its sender's next message is outside the cut.
    pub(super) fn skip_front(&mut self) {
        self.log.pop_front();
    }

    /// Gives the next position to an abcast that nobody announced.
    #[inline]
    pub(super) fn number(&mut self) -> u64 {
        self.delivered += 1;
        self.delivered
    }

    /// The packets of holders that the order delivered so far rests on: (holder, packet).
    pub(super) fn rests_on(&self) -> impl Iterator<Item = (u16, u64)> {
        (0..).zip(self.rests_on.iter().copied())
    }

    #[inline]
    fn rest_on(&mut self, holder: u16, packet: u64) {
        let index = usize::from(holder);
        if index >= self.rests_on.len() {
            self.rests_on.resize(index + 1, 0);
        }
        // A pass is heard before what was ordered ahead of it is delivered, if that came late: the later packet counts.
        self.rests_on[index] = self.rests_on[index].max(packet);
    }

    /// Announced and undelivered abcasts of each rank.
    pub(super) fn owed(&self, members: usize) -> Vec<u64> {
        let mut owed = vec![0; members];
        for run in &self.log {
            if let Some(n) = owed.get_mut(usize::from(run.rank)) {
                *n += run.count;
            }
        }
        owed
    }
}

#[inline]
fn append(log: &mut VecDeque<Run>, run: Run) {
    match log.back_mut() {
        Some(last) if last.rank == run.rank && last.by == run.by && last.packet == run.packet => {
            last.count += run.count;
        }
        _ => log.push_back(run),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(rank: u16, count: u64, by: u16) -> Run {
        Run { rank, count, by, packet: 1 }
    }

    #[test]
    fn tenures_join_in_order_whatever_arrives_first() {
        let mut t = Total::new();
        assert!(t.announce(1, run(5, 1, 2))); // the second holder is heard before the pass
        assert!(t.announce(0, run(1, 2, 0)));
        assert_eq!(t.front().map(|r| r.rank), Some(1));
        assert!(t.pass(0, 0, 2, 9));
        assert!(t.announce(1, run(6, 1, 2)));
        let mut order = Vec::new();
        while let Some(r) = t.front() {
            order.push((r.rank, t.take_front()));
        }
        assert_eq!(order, [(1, 1), (1, 2), (5, 3), (6, 4)]);
        assert_eq!(t.holder(), 2);
    }

    #[test]
    fn two_tenures_are_open_at_most() {
        let mut t = Total::new();
        assert!(!t.pass(1, 0, 1, 4), "a pass before the one that it rests on");
        assert!(!t.announce(2, run(1, 1, 1)), "the tenure after the next");
        assert!(t.pass(0, 0, 1, 4));
        assert_eq!((t.came_by(), t.overtaken()), (Some(Pass { by: 0, packet: 4 }), 0));
        assert!(t.announce(2, run(0, 1, 2)));
        assert!(!t.pass(0, 0, 1, 4), "a tenure that is over");
        assert!(t.pass(1, 1, 2, 7));
        assert_eq!((t.holder(), t.tenure(), t.overtaken()), (2, 2, 1));
        assert_eq!(t.front().map(|r| r.by), Some(2));
    }

    /// A uniform abcast waits for the packet that announced it, so runs of two packets are two.
    #[test]
    fn runs_join_only_within_one_packet() {
        let mut t = Total::new();
        for (rank, packet) in [(1, 1), (1, 1), (1, 2), (2, 2)] {
            assert!(t.announce(0, Run { rank, count: 1, by: 0, packet }));
        }
        assert!(t.pass(0, 0, 3, 2) && t.announce(1, Run { rank: 2, count: 1, by: 3, packet: 2 }));
        let mut seen = Vec::new();
        while let Some(Run { rank, by, packet, .. }) = t.front() {
            seen.push((rank, by, packet, t.take_front()));
        }
        assert_eq!(seen, [(1, 0, 1, 1), (1, 0, 1, 2), (1, 0, 2, 3), (2, 0, 2, 4), (2, 3, 2, 5)]);
    }

    #[test]
    fn the_order_rests_on_the_packets_that_announced_it_and_on_those_that_passed_the_token() {
        let mut t = Total::new();
        let rests = |t: &Total| t.rests_on().filter(|(_, packet)| *packet > 0).collect::<Vec<_>>();
        assert!(t.announce(0, Run { rank: 1, count: 1, by: 0, packet: 3 }));
        assert_eq!(rests(&t), [], "nothing of it is delivered yet");
        t.take_front();
        assert_eq!(rests(&t), [(0, 3)]);
        assert!(t.pass(0, 0, 2, 4));
        assert_eq!(rests(&t), [(0, 4)], "a pass without orders");
        assert!(t.announce(1, Run { rank: 1, count: 1, by: 2, packet: 7 }));
        t.take_front();
        assert_eq!(rests(&t), [(0, 4), (2, 7)]);
    }

    #[test]
    fn a_pass_is_rested_on_though_what_was_ordered_before_it_is_delivered_later() {
        let mut t = Total::new();
        assert!(t.announce(0, Run { rank: 1, count: 1, by: 0, packet: 3 }));
        assert!(t.pass(0, 0, 2, 4));
        t.take_front();
        assert!(t.announce(1, Run { rank: 1, count: 1, by: 2, packet: 7 }));
        assert_eq!(t.rests_on().next(), Some((0, 4)));
    }

    #[test]
    fn only_the_holder_orders() {
        let mut t = Total::new();
        assert!(!t.announce(0, run(1, 1, 1)));
        assert!(!t.pass(0, 1, 1, 1));
        assert!(t.front().is_none());
    }
}
