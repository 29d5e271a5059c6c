//! The sequencer, which is the token holder: it orders abcasts as they become deliverable and announces the order in
//! batches.

use super::frame::{put_announce, put_pass};
use super::total_order::{Pass, Run};
use super::view_streams::{StreamOutput, ViewStreams};
use crate::api::Order;
use crate::id::Rank;
use crate::time::Instant;

/// What the token holder keeps.
#[derive(Debug)]
pub(super) struct Sequencer {
    /// Per sender: messages that have their place, so that what depends on them may be ordered.
    sequenced: Vec<u64>,
    /// Per sender: its next abcasts that an earlier holder ordered already.
    owed: Vec<u64>,
    /// Abcasts ordered per sender since the last look at who sends most.
    tally: Vec<u64>,
}

/// The most runs in one announcement: it must fit in the smallest packet.
const RUNS_MAX: usize = 32;
/// Room an announcement needs at most.
const ANNOUNCE_ROOM: usize = 16 + RUNS_MAX * 13;
const _: () = assert!(ANNOUNCE_ROOM < 512, "an announcement fits in the smallest packet");

impl Sequencer {
    pub(super) fn new(sequenced: Vec<u64>, owed: Vec<u64>) -> Self {
        debug_assert_eq!(sequenced.len(), owed.len(), "both have an entry for each member");
        let tally = vec![0; sequenced.len()];
        Self { sequenced, owed, tally }
    }

    /// Checks what must always hold. `streams`: of each, how many messages were delivered and parsed.
    pub(super) fn check_invariants(&self, streams: impl ExactSizeIterator<Item = (u64, u64)>) {
        assert_eq!(self.sequenced.len(), streams.len(), "each member has an entry");
        for (sequenced, (delivered, parsed)) in self.sequenced.iter().zip(streams) {
            assert!(*sequenced >= delivered, "a message was delivered that has no place");
            assert!(*sequenced <= parsed, "a message has a place that is not here");
        }
    }

    /// Whether the messages of `rank` up to its `seq`-th have their place.
    #[inline]
    pub(super) fn has_sequenced(&self, rank: Rank, seq: u64) -> bool {
        self.sequenced[rank.index()] >= seq
    }

    /// A message was delivered: it has its place, whoever gave it.
    #[inline]
    pub(super) fn passed(&mut self, rank: Rank, seq: u64, order: Order) {
        if self.sequenced[rank.index()] < seq {
            self.sequenced[rank.index()] = seq;
            if order == Order::Total {
                self.owed[rank.index()] = self.owed[rank.index()].saturating_sub(1);
            }
        }
    }
}

impl ViewStreams {
    /// The rank that holds the token, as far as this member has followed the order.
    pub(crate) fn token_holder(&self) -> Rank {
        self.total.holder()
    }

    /// Orders what can be ordered, if this member holds the token.
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

    /// The packet being filled says, from here on, that the next `count` abcasts of `rank` come next. This member
    /// delivers by it before the packet is sent: what makes it fail meanwhile makes it deliver nothing more either.
    #[inline]
    pub(super) fn announce_own(&mut self, count: u64, rank: Rank) {
        let by = self.set.me;
        debug_assert_eq!(self.total.holder(), by, "the token holder orders");
        self.total.announce(Run { rank, count, by, packet: self.tx.next() });
    }

    /// Whether the order may be told now. It may go beyond the window: when the token comes to a member whose window is
    /// full of messages that nobody has ordered, they are delivered, and give credit again, only once it orders them.
    fn may_order(&self) -> bool {
        !self.wedged && self.tx.next().0 <= self.tx.limit().saturating_add(self.set.orders_ahead())
    }

    /// Whether abcasts wait here for their order, because the window leaves no room to tell it.
    pub(super) fn orders_wait(&self) -> bool {
        let Some(holder) = &self.holder else { return false };
        let unplaced = |(rank, stream): (Rank, &super::stream::Stream)| {
            holder.sequenced[rank.index()].saturating_sub(stream.delivered) < stream.queue.len() as u64
        };
        !self.wedged && !self.may_order() && Rank::enumerate(&self.streams).any(unplaced)
    }

    /// Whether this member holds the token; takes up its work when the token has just come.
    fn take_token(&mut self) -> bool {
        if self.holder.is_some() {
            return true;
        }
        if self.total.holder() != self.set.me || self.passed_tenure == Some(self.total.tenure()) {
            return false;
        }
        let sequenced = self.streams.iter().map(|s| s.delivered).collect();
        debug_assert!(self.total.came_by().is_some(), "who takes the token was passed it");
        self.holder = Some(Sequencer::new(sequenced, self.total.owed(self.streams.len())));
        // Tells receivers which tenure this stream speaks for from here on.
        put_announce(&mut self.packer, self.total.tenure(), false, &[]);
        true
    }

    /// Gives their place to as many messages as possible; returns the runs to announce.
    fn next_runs(&mut self) -> (Vec<(Rank, u64)>, bool) {
        let Some(holder) = &mut self.holder else { return (Vec::new(), false) };
        let mut runs: Vec<(Rank, u64)> = Vec::new();
        let mut prompt = false;
        let mut progress = true;
        while progress && runs.len() < RUNS_MAX {
            progress = false;
            for (rank, stream) in Rank::enumerate(&self.streams) {
                debug_assert!(holder.sequenced[rank.index()] >= stream.delivered, "what was delivered has its place");
                loop {
                    let index =
                        usize::try_from(holder.sequenced[rank.index()] - stream.delivered).unwrap_or(usize::MAX);
                    let Some(message) = stream.queue.get(index) else { break };
                    let met = |sequenced: &[u64]| {
                        !message.has_deps()
                            || stream.deps_of(message).all(|(r, n)| r == rank || sequenced[r.index()] >= n)
                    };
                    if message.order == Order::Total {
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
                            prompt |= message.uniform;
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

    /// The token moves to whoever sends nearly all abcasts: then they cost no announcement. But it stays until every
    /// member has the pass that brought it here: no stream waits for more than one pass in another.
    fn pass_token(&mut self) {
        let Some(holder) = &mut self.holder else { return };
        let all: u64 = holder.tally.iter().sum();
        if all < self.set.token_tally.max(1) {
            return;
        }
        let most = Rank::all(holder.tally.len()).max_by_key(|&r| holder.tally[r.index()]).unwrap_or(self.set.me);
        let is_other = most != self.set.me && holder.tally[most.index()] * 5 >= all * 4;
        holder.tally.fill(0);
        let settled = |pass: Pass| self.streams[pass.by.index()].stable >= pass.packet.0;
        if is_other && !self.total.came_by().is_none_or(settled) {
            self.token.kept += 1;
        } else if is_other && self.may_pack() && self.packer.len() + 16 <= self.set.packet_room {
            put_pass(&mut self.packer, self.total.tenure(), most);
            debug_assert_ne!(self.passed_tenure, Some(self.total.tenure()), "a tenure ends with one pass");
            self.passed_tenure = Some(self.total.tenure());
            self.holder = None;
            self.token.passed += 1;
        }
    }
}
