//! The sequencer, which is the token holder: it orders abcasts as they become deliverable. `token.rs` announces the order
//! in batches.

use super::stream::Stream;
use crate::api::Order;
use crate::id::{Rank, Sequence};

/// State of the token holder.
#[derive(Debug)]
pub(super) struct Sequencer {
    /// Messages of each sender that have their place in the order. A message that depends on them may be ordered.
    pub(super) sequenced: Vec<u64>,
    /// Next abcasts of each sender that an earlier holder already ordered.
    owed: Vec<u64>,
    /// Abcasts ordered for each sender since the last check of which member sends most.
    pub(super) tally: Vec<u64>,
}

/// The most runs in one announcement, so that it fits into the smallest packet.
pub(super) const RUNS_MAX: usize = 32;
/// The most bytes that an announcement takes.
pub(super) const ANNOUNCE_ROOM: usize = 16 + RUNS_MAX * 13;
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

impl Sequencer {
    /// Orders as many messages as possible. Returns the runs to announce, and whether they need a prompt ack.
    pub(super) fn next_runs(&mut self, streams: &[Stream]) -> (Vec<(Rank, u64)>, bool) {
        let mut runs: Vec<(Rank, u64)> = Vec::new();
        let mut prompt = false;
        let mut progress = true;
        while progress && runs.len() < RUNS_MAX {
            progress = false;
            for (rank, stream) in Rank::enumerate(streams) {
                debug_assert!(self.sequenced[rank.index()] >= stream.delivered, "a delivered message has no place");
                loop {
                    let index = usize::try_from(self.sequenced[rank.index()] - stream.delivered).unwrap_or(usize::MAX);
                    let Some(message) = stream.queue.get(index) else { break };
                    let met = |sequenced: &[u64]| {
                        !message.has_deps()
                            || stream.deps_of(message).all(|(r, n)| r == rank || sequenced[r.index()] >= n)
                    };
                    if message.order == Order::Total {
                        // An earlier holder announced it. Announced again, it would take two places.
                        if self.owed[rank.index()] > 0 {
                            self.owed[rank.index()] -= 1;
                        } else if !message.sequenced {
                            let continues = runs.last().is_some_and(|&(r, _)| r == rank);
                            if !met(&self.sequenced) || (!continues && runs.len() == RUNS_MAX) {
                                break;
                            }
                            if continues {
                                runs.last_mut().expect("a run that continues").1 += 1;
                            } else {
                                runs.push((rank, 1));
                            }
                            prompt |= message.uniformity.is_uniform();
                        }
                        self.tally[rank.index()] += 1;
                    } else if message.order == Order::Causal && !met(&self.sequenced) {
                        break;
                    }
                    self.sequenced[rank.index()] += 1;
                    progress = true;
                }
            }
        }
        (runs, prompt)
    }
}
