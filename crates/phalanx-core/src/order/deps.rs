//! Causal dependencies of a message: how many messages of each other stream its sender had delivered since its previous
//! message with dependencies. A small group carries them in the message's header. In a large one they may not fit, and
//! the rest goes ahead of the message.

use super::StreamOutput;
use super::frame::{dep_bytes, put_past};
use super::view_streams::ViewStreams;
use crate::api::Order;
use crate::id::Rank;
use crate::time::Instant;

/// The most bytes that dependencies take in a message's header.
const DEPS_ROOM: usize = 512;
const _: () = assert!(DEPS_ROOM >= 3 + 13, "one dependency fits at least");

impl ViewStreams {
    /// Upper bound on the length of a message's header, in bytes.
    #[inline]
    pub(super) fn header_bound(&self) -> usize {
        let deps = if self.announced_old { self.deps_bound().min(DEPS_ROOM) } else { 0 };
        1 + deps + 5 + 5
    }

    /// Upper bound on the length of all dependencies of a message, in bytes.
    fn deps_bound(&self) -> usize {
        3 + self.set.members.len() * 13
    }

    /// Sends dependencies ahead of a message in `Past` frames, until the rest fits into its header. Only a large group
    /// needs that. False if nothing may be sent now.
    #[inline]
    pub(super) fn announce_past(&mut self, now: Instant, order: Order, io: &mut impl StreamOutput) -> bool {
        if !self.announced_old || order == Order::Fifo || self.deps_bound() <= DEPS_ROOM {
            return true;
        }
        self.announce_long_past(now, io)
    }

    fn announce_long_past(&mut self, now: Instant, io: &mut impl StreamOutput) -> bool {
        loop {
            // Collected again for each packet: closing one may deliver messages here, and these are dependencies, too.
            let mut due: Vec<(Rank, u64)> = self.unannounced().collect();
            if 3 + due.iter().copied().map(dep_bytes).sum::<usize>() <= DEPS_ROOM {
                return true;
            }
            if self.packer.frames.len() + DEPS_ROOM > self.usable_room() {
                self.close_packet(now, io);
            }
            if !self.may_pack() {
                return false;
            }
            let mut left = self.usable_room() - self.packer.frames.len() - 4;
            // A prefix, not the best fit: entries behind the first that does not fit go into the next packet.
            due.retain(|dep| {
                let fits = dep_bytes(*dep) <= left;
                left = if fits { left - dep_bytes(*dep) } else { 0 };
                fits
            });
            put_past(&mut self.packer.frames, &due);
            for (rank, growth) in due {
                self.announce_dep(rank, growth);
            }
        }
    }

    /// Counts of messages delivered here and not yet sent as dependencies, by rank.
    fn unannounced(&self) -> impl Iterator<Item = (Rank, u64)> {
        let streams = Rank::enumerate(self.announced_deps.iter().zip(&self.streams));
        let others = streams.filter(|(rank, _)| *rank != self.set.me);
        let grown = others.map(|(rank, (told, stream))| (rank, stream.delivered - *told));
        debug_assert!(
            self.announced_deps.iter().zip(&self.streams).all(|(told, stream)| *told <= stream.delivered),
            "more dependencies are announced than were delivered"
        );
        grown.filter(|(_, growth)| *growth > 0)
    }

    /// Counts dependencies of our next message as sent.
    fn announce_dep(&mut self, rank: Rank, growth: u64) {
        let count = &mut self.announced_deps[rank.index()];
        *count += growth;
        if *count > self.streams[rank.index()].stable_messages {
            self.receipts.rests_on(self.sent.next(), rank, *count);
        }
    }

    /// Fills `due` with the messages delivered here since our previous causal message, and counts them as sent. `due`
    /// must be empty.
    #[inline]
    pub(super) fn take_deps(&mut self, due: &mut Vec<(Rank, u64)>) {
        // Most messages follow no delivery of another member's, and cost nothing here.
        if !std::mem::take(&mut self.announced_old) {
            return;
        }
        debug_assert!(due.is_empty(), "the list that is lent is empty");
        due.extend(self.unannounced());
        for &(rank, growth) in due.iter() {
            self.announce_dep(rank, growth);
        }
        debug_assert_eq!(self.unannounced().next(), None, "a dependency is missing from the message");
    }
}
