//! The token of a group view at one member: taken when it comes, used to announce orders, and passed on.

use super::frame::{put_announce, put_pass};
use super::output::StreamOutput;
use super::sequencer::{ANNOUNCE_ROOM, RUNS_MAX, Sequencer};
use super::total_order::{Pass, Run};
use super::view_streams::ViewStreams;
use crate::id::Rank;
use crate::time::Instant;

impl ViewStreams {
    /// The rank that holds the token, according to the passes that this member has read.
    pub(crate) fn token_holder(&self) -> Rank {
        self.total.holder()
    }

    /// Orders all messages that can be ordered, if this member holds the token.
    pub(super) fn sequence(&mut self, now: Instant, io: &mut impl StreamOutput) {
        let may_order = self.may_order();
        // A wait ends when this member may order again, not when nothing waits any more.
        let wait = !may_order && (self.backpressure.orders || self.orders_wait());
        self.backpressure.note_orders(wait, io);
        if !may_order || !self.take_token() {
            return;
        }
        let mut more = true;
        while more && self.may_order() {
            if self.packer.frames.len() + ANNOUNCE_ROOM > self.set.packet_room {
                self.close_packet(now, io);
                if !self.may_order() {
                    return;
                }
            }
            let Some(holder) = &mut self.holder else { break };
            let (runs, prompt) = holder.next_runs(&self.streams);
            debug_assert!(runs.len() <= RUNS_MAX, "an announcement is longer than the room kept for it");
            debug_assert!(runs.iter().all(|(_, count)| *count > 0), "a run orders nothing");
            // A full announcement: more messages may be ready.
            more = runs.len() == RUNS_MAX;
            if !runs.is_empty() {
                put_announce(&mut self.packer.frames, self.total.tenure(), prompt, &runs);
                self.packer.is_prompt |= prompt;
                for &(rank, count) in &runs {
                    self.announce_own(count, rank);
                }
            }
        }
        self.pass_token();
    }

    /// Appends `count` abcasts of `rank` to the order that the packet being filled announces.
    ///
    /// This member may deliver them before the packet is sent. A failure in between stops its deliveries, too. Uniform
    /// messages wait for the stability of that packet.
    #[inline]
    pub(super) fn announce_own(&mut self, count: u64, rank: Rank) {
        let by = self.set.me;
        debug_assert_eq!(self.total.holder(), by, "the token holder orders");
        self.total.announce(Run { rank, count, by, packet: self.tx.next() });
    }

    /// Whether this member may announce orders now.
    ///
    /// Announcements may exceed the window by a few packets (`docs/departures.md`, *Announcements beyond the window*):
    ///
    /// 1. The token comes to a member whose window is full of its own unordered abcasts.
    /// 2. They give credit only when they are delivered.
    /// 3. They are delivered only when this member announces their order. Without the extra packets it would never.
    ///
    /// Not while messages of its own wait, unless an abcast of its own has no place yet. The extra packets push the window
    /// on with each abcast of another member, so that it would never open for a message.
    fn may_order(&self) -> bool {
        let (next, limit) = (self.tx.next().0, self.tx.limit());
        if self.wedged || next <= limit {
            return !self.wedged;
        }
        let has_place = |holder: &Sequencer| holder.has_sequenced(self.set.me, self.last_unsequenced);
        let may_exceed = self.outbox.is_empty() || !self.holder.as_ref().is_some_and(has_place);
        may_exceed && next <= limit.saturating_add(self.set.orders_ahead())
    }

    /// Whether abcasts wait here for their order, because the window leaves no room to announce it.
    pub(super) fn orders_wait(&self) -> bool {
        let Some(holder) = &self.holder else { return false };
        let unplaced = |(rank, stream): (Rank, &super::stream::Stream)| {
            holder.sequenced[rank.index()].saturating_sub(stream.delivered) < stream.queue.len() as u64
        };
        !self.wedged && !self.may_order() && Rank::enumerate(&self.streams).any(unplaced)
    }

    /// Whether this member holds the token. Creates the sequencer when the token has just come.
    fn take_token(&mut self) -> bool {
        if self.holder.is_some() {
            return true;
        }
        // The own pass is in a packet that may not be closed yet. Until it is read here, the tenure is still our own.
        if self.total.holder() != self.set.me || self.passed_tenure == Some(self.total.tenure()) {
            return false;
        }
        // Delivered messages have their place. What is parsed but not delivered gets it in the first run, or is owed by
        // an earlier holder.
        let sequenced = self.streams.iter().map(|s| s.delivered).collect();
        debug_assert!(self.total.came_by().is_some(), "a member takes a token that was not passed to it");
        self.holder = Some(Sequencer::new(sequenced, self.total.owed(self.streams.len())));
        // An empty announcement: receivers learn from which packet on this stream speaks for the tenure. An own abcast
        // that is ordered by position names no tenure.
        put_announce(&mut self.packer.frames, self.total.tenure(), false, &[]);
        true
    }

    /// Passes the token to the member that sends nearly all abcasts, so that they need no announcement.
    ///
    /// The token stays until every member has the pass that brought it here. Otherwise a receiver that lost several
    /// passes could see streams more than one tenure ahead (`docs/found-by-simulation.md`).
    fn pass_token(&mut self) {
        let Some(holder) = &mut self.holder else { return };
        let all: u64 = holder.tally.iter().sum();
        if all < self.set.token_tally.max(1) {
            return;
        }
        let most = Rank::all(holder.tally.len()).max_by_key(|&r| holder.tally[r.index()]).unwrap_or(self.set.me);
        let is_other = most != self.set.me && holder.tally[most.index()] * 5 >= all * 4;
        // Counted anew, so that the token follows the members that send now.
        holder.tally.fill(0);
        let settled = |pass: Pass| self.streams[pass.by.index()].stable >= pass.packet.0;
        if is_other && !self.total.came_by().is_none_or(settled) {
            self.token.kept += 1;
        } else if is_other && self.may_pack() && self.packer.frames.len() + 16 <= self.set.packet_room {
            put_pass(&mut self.packer.frames, self.total.tenure(), most);
            debug_assert_ne!(self.passed_tenure, Some(self.total.tenure()), "a tenure ends with one pass");
            self.passed_tenure = Some(self.total.tenure());
            // Dropped before the pass is read here: this member must order nothing behind its own pass.
            self.holder = None;
            self.token.passed += 1;
        }
    }
}
