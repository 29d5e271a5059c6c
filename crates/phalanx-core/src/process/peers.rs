//! The peers of a process, and which of them need work at the end of an iteration. In a large cell most peers are idle
//! most of the time, and an iteration must not visit each.

use std::collections::BTreeSet;
use std::time::Duration;

use super::port::Peer;
use crate::id::{Incarnation, Rank};
use crate::member::Directory;
use crate::sorted::SortedMap;
use crate::time::Instant;

/// What this process keeps of others, by incarnation.
///
/// Invariant: a peer that has something to send, now or at some time, is among the busy ones. Whoever may change a
/// peer's channels gets it through [`Self::get_mut`], which makes it busy until a turn has found it quiet.
pub(super) struct Peers {
    all: SortedMap<Incarnation, Peer>,
    busy: BTreeSet<Incarnation>,
    /// Who found the interface full in the last turn before it could send anything: it is the first of the next.
    left_out: Option<Incarnation>,
}

impl Peers {
    pub(super) fn new() -> Self {
        Self { all: SortedMap::new(), busy: BTreeSet::new(), left_out: None }
    }

    pub(super) fn contains(&self, who: Incarnation) -> bool {
        self.all.contains_key(&who)
    }

    pub(super) fn get(&self, who: Incarnation) -> Option<&Peer> {
        self.all.get(&who)
    }

    pub(super) fn get_mut(&mut self, who: Incarnation) -> Option<&mut Peer> {
        let peer = self.all.get_mut(&who)?;
        self.busy.insert(who);
        Some(peer)
    }

    /// The peer, made if there is none.
    pub(super) fn get_or_insert_with(&mut self, who: Incarnation, make: impl FnOnce() -> Peer) -> &mut Peer {
        self.busy.insert(who);
        self.all.get_or_insert_with(who, make)
    }

    pub(super) fn remove(&mut self, who: Incarnation) {
        self.all.remove(&who);
        self.busy.remove(&who);
        self.left_out = self.left_out.filter(|left_out| *left_out != who);
    }

    /// Whether one of them found the interface full in its last turn.
    #[inline]
    pub(super) fn is_left_out(&self) -> bool {
        self.left_out.is_some()
    }

    /// All of them, in the order of incarnations.
    pub(super) fn values(&self) -> impl Iterator<Item = &Peer> {
        self.all.values()
    }

    /// Forgets the ranks of an old view.
    pub(super) fn clear_ranks(&mut self) {
        for peer in self.all.values_mut() {
            peer.rank = None;
        }
    }

    /// Gives each busy peer its turn, in the order of incarnations, from the one on that was left out last; who is quiet
    /// afterwards is busy no more. `each` tells whether the peer could send nothing because the interface was full.
    pub(super) fn poll(&mut self, mut each: impl FnMut(Incarnation, &mut Peer) -> bool) {
        let Self { all, busy, left_out } = self;
        if busy.is_empty() {
            return; // as most turns find it
        }
        let first = left_out.take();
        let mut pass = |from: Option<Incarnation>, before: Option<Incarnation>| {
            busy.retain(|who| {
                if from.is_some_and(|from| *who < from) || before.is_some_and(|before| *who >= before) {
                    return true;
                }
                all.get_mut(who).is_some_and(|peer| {
                    if each(*who, peer) {
                        left_out.get_or_insert(*who);
                    }
                    !peer.is_at_rest()
                })
            });
        };
        pass(first, None);
        if first.is_some() {
            pass(None, first);
        }
    }

    /// Packets of some of them were dropped: each that has sent any learns what is here.
    pub(super) fn handle_loss(&mut self, now: Instant) {
        for (who, peer) in self.all.iter_mut() {
            for channel in [&mut peer.control_channel, &mut peer.data_channel] {
                channel.handle_loss(now);
            }
            if !peer.is_at_rest() {
                self.busy.insert(*who);
            }
        }
    }

    /// When the next of them has something to do; while the system is `congested`, data waits for that.
    pub(super) fn deadline(&self, ack_delay: Duration, congested: bool) -> Option<Instant> {
        self.busy.iter().filter_map(|who| deadline(self.all.get(who)?, ack_delay, congested)).min()
    }

    /// Those of a rank to whom something went out that they have not acknowledged.
    pub(super) fn waited_for(&self) -> impl Iterator<Item = Rank> {
        let waits = |peer: &&Peer| peer.control_channel.is_waited_for() || peer.data_channel.is_waited_for();
        self.busy.iter().filter_map(|who| self.all.get(who)).filter(waits).filter_map(|peer| peer.rank)
    }

    /// Checks that each has the rank that it has in the view in force.
    pub(super) fn check_ranks(&self, directory: &Directory) {
        for (who, peer) in self.all.iter() {
            assert_eq!(peer.rank, directory.rank(*who), "a peer has a rank of another view");
        }
    }

    /// Checks the invariant.
    pub(super) fn check_invariants(&self) {
        for (who, peer) in self.all.iter() {
            assert!(peer.is_at_rest() || self.busy.contains(who), "a peer with something to send gets no turn");
            peer.check_invariants();
        }
        assert!(self.busy.iter().all(|who| self.all.contains_key(who)), "a process is busy that is not known");
        assert!(
            self.left_out.is_none_or(|who| self.all.contains_key(&who)),
            "a process was left out that is not known"
        );
    }
}

fn deadline(peer: &Peer, ack_delay: Duration, congested: bool) -> Option<Instant> {
    let control = peer.control_channel.deadline(ack_delay, false);
    let data = peer.data_channel.deadline(ack_delay, congested);
    [control, data].into_iter().flatten().min()
}
