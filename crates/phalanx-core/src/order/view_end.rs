//! The end of a view: all survivors have the same cut and deliver the same remaining messages in the same order.

use super::output::StreamOutput;
use super::packet_reader::Orders;
use super::stream::{Ahead, Stream};
use super::view_streams::ViewStreams;
use crate::api::Order;
use crate::id::Rank;
use crate::wire::PacketNumber;

impl ViewStreams {
    /// Whether this member holds all packets up to the cut (one prefix for each rank), or knows of nonsense before it.
    #[must_use]
    pub fn holds(&self, cut: &[u64]) -> bool {
        // Nothing behind nonsense is read, so it need not be fetched.
        let has = |(s, &c): (&Stream, &u64)| s.rx.held() >= c || s.nonsense().is_some_and(|number| number.0 <= c);
        cut.len() == self.streams.len() && self.streams.iter().zip(cut).all(has)
    }

    /// Whether this member parsed more than the cut holds, and may have delivered it. A wedged member parses nothing
    /// after its report, so no cut that includes its report is such a one, unless the member takes the state anew.
    #[must_use]
    pub fn is_past(&self, cut: &[u64]) -> bool {
        self.streams.iter().zip(cut).any(|(s, &c)| s.rx.prefix() > c)
    }

    /// Packets that are missing up to the cut: (rank, first, last), ascending.
    #[must_use]
    pub fn missing(&self, cut: &[u64]) -> Vec<(Rank, u64, u64)> {
        let wanted =
            |rank: Rank, c: u64| c.min(self.streams[rank.index()].nonsense().map_or(c, PacketNumber::prefix_before));
        let gaps = |rank: Rank, c: u64| {
            self.streams[rank.index()]
                .rx
                .gaps_up_to(wanted(rank, c))
                .into_iter()
                .map(move |gap| (rank, gap.first, gap.last))
        };
        Rank::enumerate(cut.iter().take(self.streams.len())).flat_map(|(rank, &c)| gaps(rank, c)).collect()
    }

    /// Whether nonsense stops any stream here.
    #[must_use]
    pub fn has_nonsense(&self) -> bool {
        self.streams.iter().any(|s| s.nonsense().is_some())
    }

    /// Reads all held packets without acting upon them. All nonsense among them is known afterwards.
    pub(super) fn scan_ahead(&mut self, io: &mut impl StreamOutput) {
        let (me, space) = (self.set.me, self.set.space);
        let mut tenure = self.total.in_force();
        let mut open: Vec<(Rank, Ahead)> =
            Rank::enumerate(&self.streams).filter_map(|(rank, s)| Some((rank, s.ahead()?))).collect();
        // `Final` after `Evaluated`: what waits for a pass that is not held is checked by the rules that hold at the cut.
        for orders in [Orders::Evaluated, Orders::Final] {
            let mut passes = None;
            // Repeated until no further pass is found, because a pass may be in any stream.
            while passes != Some(tenure.number) {
                passes = Some(tenure.number);
                for (rank, ahead) in &mut open {
                    let can_read = |number| *rank == me || io.can_read(space, *rank, number);
                    self.streams[rank.index()].scan(ahead, *rank, &mut tenure, orders, can_read);
                }
            }
            open.retain(|(_, ahead)| ahead.waits);
        }
    }

    /// Parses all streams up to the cut. False if it meets nonsense.
    ///
    /// Orders that wait for a pass outside of the cut are ignored. All members do the same, because all have read the
    /// same.
    fn parse_cut(&mut self, cut: &[u64], io: &mut impl StreamOutput) -> bool {
        for orders in [Orders::Evaluated, Orders::Final] {
            let mut passes = None;
            while passes != Some(self.total.tenure()) {
                passes = Some(self.total.tenure());
                for (rank, &c) in Rank::enumerate(cut) {
                    self.parse_stream(rank, c, orders, io);
                }
            }
        }
        self.streams.iter().zip(cut).all(|(s, &c)| s.rx.prefix() == c)
    }

    /// Delivers all messages up to the decided cut. Returns the number of discarded messages.
    ///
    /// - It does not wait for stability: every survivor holds the cut.
    /// - All survivors discard a message with a predecessor outside the cut.
    /// - Abcasts that nobody ordered come last, in the extension of causal order that takes the lowest rank first.
    ///
    /// `None`, with nothing delivered, if this member does not hold the cut, meets nonsense in it, or parsed beyond it.
    /// No such cut is decided with this member in the next view.
    pub fn finish(&mut self, cut: &[u64], io: &mut impl StreamOutput) -> Option<u64> {
        // Before any delivery: a member that cannot read the cut must not deliver a part of it.
        if cut.len() != self.streams.len() || !self.parse_cut(cut, io) {
            return None;
        }
        self.holder = None; // nobody orders any more
        loop {
            let plain = self.deliver_decided(io);
            if plain {
                continue;
            }
            // Announced runs come before unordered abcasts. A run that cannot be delivered loses its place, at all
            // members.
            if self.total.front().is_some() {
                self.total.skip_front();
                continue;
            }
            // Checked anew after each delivery: one left-over may be the cause of an earlier rank's, or of plain
            // messages.
            let Some(rank) = Rank::all(self.streams.len()).find(|&r| self.is_total_head(r) && self.deps_met(r)) else {
                break;
            };
            let position = self.total.number();
            self.deliver_numbered(rank, Some(position), io);
        }
        // All survivors deliver what the cut holds, and it holds all that we sent.
        self.receipts.ended();
        if let Some(seq) = self.receipts.report() {
            io.stable_at_end(seq);
        }
        Some(self.streams.iter().map(|s| s.queue.len() as u64).sum())
    }

    fn is_total_head(&self, rank: Rank) -> bool {
        self.streams[rank.index()].queue.front().is_some_and(|m| m.order == Order::Total)
    }

    /// One pass over the streams: delivers what is ready under the decided cut. True if it delivered any.
    fn deliver_decided(&mut self, io: &mut impl StreamOutput) -> bool {
        let mut any = false;
        for rank in Rank::all(self.streams.len()) {
            while let Some(order) = self.streams[rank.index()].queue.front().map(|m| m.order) {
                let fifo = order == Order::Fifo;
                let turn = order != Order::Total || self.total.front().is_some_and(|run| run.rank == rank);
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
