//! The total order as announced: which sender's next abcast comes next.

use std::collections::{BTreeMap, VecDeque};

/// A run of the announced order: the next `count` abcasts of `rank`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) rank: u16,
    pub(super) count: u64,
    /// Where it was announced: the holder's rank and packet. Uniform delivery waits for that packet's stability.
    pub(super) by: u16,
    pub(super) packet: u64,
}

/// The announced order of one group view, put together from the tenures of successive token holders.
#[derive(Debug)]
pub(super) struct Total {
    /// The tenure whose announcements are being appended to `log`.
    tenure: u32,
    /// Who holds the token in `tenure`.
    holder: u16,
    /// Announced and not yet delivered, in order.
    log: VecDeque<Run>,
    /// Announcements of tenures whose beginning is not known yet, by tenure. Bounded by [`TENURES_MAX`].
    later: BTreeMap<u32, Vec<Run>>,
    /// Passes of tenures that are still to come: tenure that ends; by whom, to whom, in which packet.
    passes: BTreeMap<u32, (u16, u16, u64)>,
    /// Per holder so far: the last of its packets that the delivered order rests on.
    rests_on: Vec<u64>,
    /// Abcasts delivered in this view.
    delivered: u64,
}

/// Tenures that may be known ahead of their turn: the token passes rarely, and each pass follows the one before.
const TENURES_MAX: usize = 64;

impl Total {
    pub(super) fn new() -> Self {
        Self {
            tenure: 0,
            holder: 0,
            log: VecDeque::new(),
            later: BTreeMap::new(),
            passes: BTreeMap::new(),
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
        if tenure < self.tenure || (self.later.len() >= TENURES_MAX && !self.later.contains_key(&tenure)) {
            return false;
        }
        self.later.entry(tenure).or_default().push(run);
        true
    }

    /// `by` ended `tenure` in its packet `packet` and named the next holder.
    pub(super) fn pass(&mut self, tenure: u32, by: u16, to: u16, packet: u64) -> bool {
        if tenure < self.tenure || self.passes.len() >= TENURES_MAX {
            return false;
        }
        self.passes.insert(tenure, (by, to, packet));
        while let Some(&(by, to, packet)) = self.passes.get(&self.tenure) {
            self.passes.remove(&self.tenure);
            if by != self.holder {
                return false;
            }
            self.rest_on(by, packet);
            self.tenure += 1;
            self.holder = to;
            for run in self.later.remove(&self.tenure).unwrap_or_default() {
                if run.by == to {
                    append(&mut self.log, run);
                }
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
        self.rests_on[index] = packet;
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
    fn only_the_holder_orders() {
        let mut t = Total::new();
        assert!(!t.announce(0, run(1, 1, 1)));
        assert!(!t.pass(0, 1, 1, 1));
        assert!(t.front().is_none());
    }

    /// A violation that is left: with as many tenures open as may be, every pass is refused for good, the missing one as
    /// well, and the order stands still here. A holder that passed the token on only when the pass before is stable would keep two open.
    #[test]
    fn known_the_pass_beyond_the_last_open_tenure_is_lost() {
        let mut t = Total::new();
        let open = u32::try_from(TENURES_MAX).expect("small");
        let holder = |tenure: u32| u16::try_from(tenure % 2).expect("two");
        for tenure in 1..=open {
            assert!(t.pass(tenure, holder(tenure), holder(tenure + 1), 1), "{tenure} of {open} may be open");
        }
        assert!(!t.pass(open + 1, holder(open + 1), holder(open), 1), "the one beyond is refused");
        assert!(!t.pass(0, 0, 1, 1), "and so is the missing one, which would have let them all follow");
        assert_eq!((t.tenure(), t.holder()), (0, 0));
    }

    #[test]
    fn announcements_of_as_many_tenures_as_may_be_open_are_kept() {
        let mut t = Total::new();
        let open = u32::try_from(TENURES_MAX).expect("small");
        for tenure in 1..=open {
            assert!(t.announce(tenure, run(0, 1, 1)));
            assert!(t.announce(tenure, run(1, 1, 1)), "more of a tenure that is open");
        }
        assert!(!t.announce(open + 1, run(0, 1, 1)), "a violation that is left: it is lost");
    }
}
