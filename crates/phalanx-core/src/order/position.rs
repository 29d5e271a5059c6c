//! What a member's next message comes after: how far it has delivered each stream, and how much it has sent itself.

use super::view_streams::ViewStreams;
use crate::id::Rank;

impl ViewStreams {
    /// By rank: the messages of each member's stream that precede what this member sends next. Of its own those that it
    /// has sent, of the others those that it has delivered.
    pub fn position(&self) -> impl Iterator<Item = (Rank, u64)> {
        let me = self.set.me;
        let count = move |(rank, delivered)| (rank, if rank == me { self.sent.0 } else { delivered });
        Rank::enumerate(self.streams.iter().map(|stream| stream.delivered)).map(count)
    }

    /// Whether this member delivered the first `count` messages of the member of that rank. False if there is no such rank.
    #[must_use]
    pub fn has_delivered(&self, rank: Rank, count: u64) -> bool {
        self.streams.get(rank.index()).is_some_and(|stream| stream.delivered >= count)
    }

    /// Whether messages that this member accepted wait for a packet.
    #[must_use]
    pub fn has_waiting(&self) -> bool {
        !self.outbox.is_empty()
    }
}
