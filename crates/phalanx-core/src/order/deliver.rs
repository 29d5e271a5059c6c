//! Delivery: the next message in FIFO order, after its causal past, at its position in the total order, and stable if
//! uniform.

use super::frame::MessageHead;
use super::output::StreamOutput;
use super::stream::{Deliverable, Message};
use super::view_streams::ViewStreams;
use crate::api::Order;
use crate::id::Rank;
use crate::wire::PacketNumber;

impl ViewStreams {
    /// Delivers all messages that are ready. True if it delivered any.
    pub(super) fn deliver_ready(&mut self, io: &mut impl StreamOutput) -> bool {
        // Repeated until a pass over all streams finds nothing, because a message may be the cause of one in a stream
        // of lower rank.
        let mut any = false;
        while self.has_queued() {
            let mut progress = false;
            for rank in Rank::all(self.streams.len()) {
                while self.is_ready(rank) {
                    self.deliver_head(rank, io);
                    progress = true;
                }
            }
            if !progress {
                return any;
            }
            any = true;
        }
        any
    }

    /// Whether any message waits for delivery, ready or not. A cheap test that spares the search in an idle group.
    #[inline]
    fn has_queued(&self) -> bool {
        self.streams.iter().any(|stream| !stream.queue.is_empty())
    }

    pub(super) fn has_deliverable(&mut self) -> bool {
        self.has_queued() && Rank::all(self.streams.len()).any(|rank| self.is_ready(rank))
    }

    #[inline]
    fn is_ready(&mut self, rank: Rank) -> bool {
        let Some(head) = self.streams[rank.index()].queue.front() else { return false };
        let (order, uniformity, packet) = (head.order, head.uniformity, head.packet);
        if order == Order::Total && self.total.front().is_none_or(|run| run.rank != rank) {
            return false;
        }
        if order != Order::Fifo && !self.deps_met(rank) {
            return false;
        }
        // Causes and order come first: the stability of an abcast depends on its place, which only the front run gives.
        !uniformity.is_uniform() || !self.outside && self.is_stable(rank, order, packet)
    }

    /// Whether this member has delivered all that the head of `rank`'s queue depends on.
    #[inline]
    pub(super) fn deps_met(&self, rank: Rank) -> bool {
        self.streams[rank.index()].queue.front().is_some_and(|head| {
            if !head.has_deps() {
                return true;
            }
            let mut deps = self.streams[rank.index()].deps_of(head);
            // Dependencies on the sender's own stream hold by FIFO.
            deps.all(|(r, count)| r == rank || self.streams[r.index()].delivered >= count)
        })
    }

    /// Whether every member has the message at the head of `rank`'s queue, and all that its delivery rests on.
    ///
    /// That is its causal past. An abcast also rests on all abcasts before it with their past, and on the announcements
    /// that order them. Otherwise survivors could hold the message, and still discard it or give it another place,
    /// because a predecessor or the announcement died with the member that had it.
    fn is_stable(&mut self, rank: Rank, order: Order, packet: PacketNumber) -> bool {
        if self.streams[rank.index()].stable < packet.0 {
            return false;
        }
        let stream = &mut self.streams[rank.index()];
        // The past includes that of the sender's earlier messages. One of them, held back, would hold this one back by
        // FIFO.
        stream.advance_to_head();
        let past = Rank::enumerate(self.streams[rank.index()].head_vector());
        let past_stable =
            past.into_iter().all(|(r, &needed)| r == rank || self.streams[r.index()].stable_messages >= needed);
        if order != Order::Total || !past_stable {
            return past_stable;
        }
        let has = |holder: Rank, packet: PacketNumber| self.streams[holder.index()].stable >= packet.0;
        self.total.front().is_some_and(|run| has(run.by, run.packet))
            && self.total.rests_on().all(|(holder, packet)| has(holder, PacketNumber(packet)))
            && self.streams.iter().zip(&self.total_past).all(|(s, &past)| s.stable_messages >= past)
    }

    /// Delivers the head of `rank`'s queue.
    #[inline]
    fn deliver_head(&mut self, rank: Rank, io: &mut impl StreamOutput) {
        let position = if self.streams[rank.index()].queue.front().is_some_and(|m| m.order == Order::Total) {
            Some(self.total.take_front())
        } else {
            None
        };
        self.deliver_numbered(rank, position, io);
    }

    #[inline]
    pub(super) fn deliver_numbered(&mut self, rank: Rank, position: Option<u64>, io: &mut impl StreamOutput) {
        let Self { streams, total_past, holder, pool, .. } = self;
        let stream = &mut streams[rank.index()];
        let Some(message) = stream.take_head() else { return };
        let Message { order, uniformity, seq, .. } = message;
        debug_assert_eq!(position.is_some(), order == Order::Total, "an abcast has a place, and nothing else has");
        if order == Order::Total {
            // The stability of a later abcast covers all abcasts before it, so their past is collected as they are
            // delivered.
            total_past[rank.index()] = seq.0;
            let causes = stream.head_vector();
            if !causes.is_empty() {
                for (past, &needed) in total_past.iter_mut().zip(causes) {
                    *past = needed.max(*past);
                }
            }
        }
        if let Some(holder) = holder {
            // The token holder may learn of the place from an earlier holder's announcement.
            holder.passed(rank, seq, order);
        }
        debug_assert_eq!(stream.delivered, seq.0, "delivered in the order sent");
        let (head, payload) = stream.payload(&message);
        let (asked, domain) = match head {
            None => (None, None),
            Some(MessageHead::Asks(expected)) => (Some(expected), None),
            Some(MessageHead::Names(domain)) => (None, Some(domain)),
        };
        let taken = io.deliver(Deliverable { rank, seq, order, uniformity, position, asked, domain, payload });
        stream.consume(u64::from(taken), pool);
        // Own messages are no dependencies: FIFO covers them.
        self.announced_old |= rank != self.set.me;
    }

    /// Notes that the application took a message of `rank` that it had not taken at once. It gives credit to the
    /// sender.
    pub fn consumed(&mut self, rank: Rank) {
        if let Some(stream) = self.streams.get_mut(rank.index()) {
            stream.consume(1, &mut self.pool);
        }
    }
}
