//! The end of a view: all survivors have the same cut and deliver the same rest in the same order.

use super::flow::{Flow, Outgoing};
use crate::api::Order;

impl Flow {
    /// Whether everything up to the cut (one prefix per rank) is here.
    #[must_use]
    pub fn holds(&self, cut: &[u64]) -> bool {
        cut.len() == self.streams.len() && self.streams.iter().zip(cut).all(|(s, &c)| s.rx.held() >= c)
    }

    /// Whether more was parsed here than the cut holds, and may have been delivered. A member parses no more once it has
    /// reported what it holds, so no cut made of its report is one of these.
    #[must_use]
    pub fn is_past(&self, cut: &[u64]) -> bool {
        self.streams.iter().zip(cut).any(|(s, &c)| s.rx.prefix() > c)
    }

    /// What is missing of the cut: (rank, first, last), in rising order.
    #[must_use]
    pub fn missing(&self, cut: &[u64]) -> Vec<(usize, u64, u64)> {
        let gaps =
            |rank: usize, c: u64| self.streams[rank].rx.gaps_up_to(c).into_iter().map(move |(a, b)| (rank, a, b));
        cut.iter().take(self.streams.len()).enumerate().flat_map(|(rank, &c)| gaps(rank, c)).collect()
    }

    /// Delivers everything up to the decided cut. Stability is not waited for: every survivor holds the cut.
    /// Messages with a predecessor outside the cut are discarded, by all; abcasts that nobody ordered follow in
    /// the extension of causal order that takes the lowest rank first. Returns how many messages were discarded.
    ///
    /// # Panics
    /// When the cut is not held, or less than what was parsed here: an error of the caller.
    pub fn finish(&mut self, cut: &[u64], io: &mut impl Outgoing) -> u64 {
        assert!(self.holds(cut), "a view is finished only when its whole cut is held");
        for (rank, &c) in cut.iter().enumerate() {
            self.parse(rank, c, io);
            assert_eq!(self.streams[rank].rx.prefix(), c, "parsed beyond the cut");
        }
        self.holder = None; // nobody orders any more
        loop {
            let plain = self.deliver_decided(io);
            if plain {
                continue;
            }
            if self.total.front().is_some() {
                self.total.skip_front();
                continue;
            }
            let Some(rank) = (0..self.streams.len()).find(|&r| self.is_total_head(r) && self.deps_met(r)) else {
                break;
            };
            let position = self.total.number();
            self.deliver_numbered(rank, Some(position), io);
        }
        self.streams.iter().map(|s| s.queue.len() as u64).sum()
    }

    fn is_total_head(&self, rank: usize) -> bool {
        self.streams[rank].queue.front().is_some_and(|m| m.order == Order::Total)
    }

    /// One pass over what may be delivered now that the cut is decided; true if anything was.
    fn deliver_decided(&mut self, io: &mut impl Outgoing) -> bool {
        let mut any = false;
        for rank in 0..self.streams.len() {
            while let Some(order) = self.streams[rank].queue.front().map(|m| m.order) {
                let fifo = order == Order::Fifo;
                let turn = order != Order::Total || self.total.front().is_some_and(|run| usize::from(run.rank) == rank);
                if !turn || !(fifo || self.deps_met(rank)) {
                    break;
                }
                let position = (order == Order::Total).then(|| self.total.take_front());
                self.deliver_numbered(rank, position, io);
                any = true;
            }
        }
        any
    }
}
