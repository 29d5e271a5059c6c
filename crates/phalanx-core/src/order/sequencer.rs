//! The sequencer, which is the token holder: it orders abcasts as they become deliverable and announces the order in
//! batches.

use super::frame::{put_announce, put_pass};
use super::total_order::{Pass, Run};
use super::view_streams::{StreamOutput, ViewStreams};
use crate::api::Order;
use crate::id::{Rank, Sequence};
use crate::time::Instant;

/// State of the token holder.
#[derive(Debug)]
pub(super) struct Sequencer {
    /// Messages of each sender that have their place in the order. A message that depends on them may be ordered.
    sequenced: Vec<u64>,
    /// Next abcasts of each sender that an earlier holder already ordered.
    owed: Vec<u64>,
    /// Abcasts ordered for each sender since the last check of which member sends most.
    tally: Vec<u64>,
}

/// The most runs in one announcement, so that it fits into the smallest packet.
const RUNS_MAX: usize = 32;
/// The most bytes that an announcement takes.
const ANNOUNCE_ROOM: usize = 16 + RUNS_MAX * 13;
const _: () = assert!(ANNOUNCE_ROOM < 512, "an announcement fits in the smallest packet");

impl Sequencer {
    pub(super) fn new(sequenced: Vec<u64>, owed: Vec<u64>) -> Self {
        debug_assert_eq!(sequenced.len(), owed.len(), "both have an entry for each member");
        let tally = vec![0; sequenced.len()];
        Self { sequenced, owed, tally }
    }

    /// Checks the invariants. `streams`: how many messages of each were delivered and parsed.
    pub(super) fn check_invariants(&self, streams: impl ExactSizeIterator<Item = (u64, u64)>) {
        assert_eq!(self.sequenced.len(), streams.len(), "each member has an entry");
        for (sequenced, (delivered, parsed)) in self.sequenced.iter().zip(streams) {
            assert!(*sequenced >= delivered, "a message was delivered that has no place");
            assert!(*sequenced <= parsed, "a message has a place that is not here");
        }
    }

    /// Whether the messages of `rank` up to number `seq` have their place.
    #[inline]
    pub(super) fn has_sequenced(&self, rank: Rank, seq: Sequence) -> bool {
        self.sequenced[rank.index()] >= seq.0
    }

    /// Notes a delivered message. It has its place, whichever holder gave it.
    #[inline]
    pub(super) fn passed(&mut self, rank: Rank, seq: Sequence, order: Order) {
        if self.sequenced[rank.index()] < seq.0 {
            self.sequenced[rank.index()] = seq.0;
            if order == Order::Total {
                self.owed[rank.index()] = self.owed[rank.index()].saturating_sub(1);
            }
        }
    }
}

impl ViewStreams {
    /// The rank that holds the token, according to the passes that this member has read.
    pub(crate) fn token_holder(&self) -> Rank {
        self.total.holder()
    }

    /// Orders all messages that can be ordered, if this member holds the token.
    pub(super) fn sequence(&mut self, now: Instant, io: &mut impl StreamOutput) {
        let may_order = self.may_order();
        self.note_orders(may_order, io);
        if !may_order || !self.take_token() {
            return;
        }
        let mut more = true;
        while more && self.may_order() {
            if self.packer.len() + ANNOUNCE_ROOM > self.set.packet_room {
                self.close_packet(now, io);
                if !self.may_order() {
                    return;
                }
            }
            let (runs, prompt) = self.next_runs();
            debug_assert!(runs.len() <= RUNS_MAX, "an announcement is longer than the room kept for it");
            debug_assert!(runs.iter().all(|(_, count)| *count > 0), "a run orders nothing");
            // A full announcement: more messages may be ready.
            more = runs.len() == RUNS_MAX;
            if !runs.is_empty() {
                put_announce(&mut self.packer, self.total.tenure(), prompt, &runs);
                self.packer_prompt |= prompt;
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
    fn may_order(&self) -> bool {
        !self.wedged && self.tx.next().0 <= self.tx.limit().saturating_add(self.set.orders_ahead())
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
        put_announce(&mut self.packer, self.total.tenure(), false, &[]);
        true
    }

    /// Orders as many messages as possible. Returns the runs to announce, and whether they need a prompt ack.
    fn next_runs(&mut self) -> (Vec<(Rank, u64)>, bool) {
        let Some(holder) = &mut self.holder else { return (Vec::new(), false) };
        let mut runs: Vec<(Rank, u64)> = Vec::new();
        let mut prompt = false;
        let mut progress = true;
        while progress && runs.len() < RUNS_MAX {
            progress = false;
            for (rank, stream) in Rank::enumerate(&self.streams) {
                debug_assert!(holder.sequenced[rank.index()] >= stream.delivered, "a delivered message has no place");
                loop {
                    let index =
                        usize::try_from(holder.sequenced[rank.index()] - stream.delivered).unwrap_or(usize::MAX);
                    let Some(message) = stream.queue.get(index) else { break };
                    let met = |sequenced: &[u64]| {
                        !message.has_deps()
                            || stream.deps_of(message).all(|(r, n)| r == rank || sequenced[r.index()] >= n)
                    };
                    if message.order == Order::Total {
                        // An earlier holder announced it. Announced again, it would take two places.
                        if holder.owed[rank.index()] > 0 {
                            holder.owed[rank.index()] -= 1;
                        } else if !message.sequenced {
                            let continues = runs.last().is_some_and(|&(r, _)| r == rank);
                            if !met(&holder.sequenced) || (!continues && runs.len() == RUNS_MAX) {
                                break;
                            }
                            if continues {
                                runs.last_mut().expect("a run that continues").1 += 1;
                            } else {
                                runs.push((rank, 1));
                            }
                            prompt |= message.uniformity.is_uniform();
                        }
                        holder.tally[rank.index()] += 1;
                    } else if message.order == Order::Causal && !met(&holder.sequenced) {
                        break;
                    }
                    holder.sequenced[rank.index()] += 1;
                    progress = true;
                }
            }
        }
        (runs, prompt)
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
        } else if is_other && self.may_pack() && self.packer.len() + 16 <= self.set.packet_room {
            put_pass(&mut self.packer, self.total.tenure(), most);
            debug_assert_ne!(self.passed_tenure, Some(self.total.tenure()), "a tenure ends with one pass");
            self.passed_tenure = Some(self.total.tenure());
            // Dropped before the pass is read here: this member must order nothing behind its own pass.
            self.holder = None;
            self.token.passed += 1;
        }
    }
}
