//! What a member's next message comes after: how far it has delivered each stream, and how much it has sent itself.

use super::view_streams::ViewStreams;
use crate::id::Rank;

/// How far a member is in a view, in messages.
#[derive(Clone, Copy, Debug)]
pub struct Position<'a>(&'a ViewStreams);

impl<'a> Position<'a> {
    /// Where these streams are now.
    #[must_use]
    pub fn of(streams: &'a ViewStreams) -> Self {
        Self(streams)
    }

    /// By rank: the messages of each member's stream that precede what this member sends next. Of its own those that it
    /// has sent, of the others those that it has delivered.
    pub fn counts(self) -> impl Iterator<Item = (Rank, u64)> + use<'a> {
        let (me, sent) = (self.0.set.me, self.0.sent.0);
        let count = move |(rank, delivered)| (rank, if rank == me { sent } else { delivered });
        Rank::enumerate(self.0.streams.iter().map(|stream| stream.delivered)).map(count)
    }

    /// Whether this member delivered the first `count` messages of the member of that rank. False if there is no such rank.
    #[must_use]
    pub fn has_delivered(self, rank: Rank, count: u64) -> bool {
        self.0.streams.get(rank.index()).is_some_and(|stream| stream.delivered >= count)
    }
}
