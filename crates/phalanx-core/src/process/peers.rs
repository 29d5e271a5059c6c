//! The peers of a process, and which of them need work at the end of an iteration. In a large cell most peers are idle
//! most of the time, and an iteration must not visit each.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use super::packet_builder::PacketBuilder;
use crate::id::{Incarnation, Rank};
use crate::link::Channel;
use crate::member::Directory;
use crate::seal::ReplayWindow;
use crate::sorted::SortedMap;
use crate::time::Instant;
use crate::wire::PacketNumber;

/// State that this process keeps for another process.
pub(super) struct Peer {
    pub(super) data: SocketAddr,
    pub(super) control: SocketAddr,
    /// Its rank in the cell view, if it is a member.
    pub(super) rank: Option<Rank>,
    pub(super) control_channel: Channel,
    pub(super) data_channel: Channel,
    /// For messages to one member of a group, and reports about them (`docs/to-one.md`).
    pub(super) to_one_channel: Channel,
    pub(super) direct_seen: ReplayWindow,
    pub(super) best_effort_seen: ReplayWindow,
    /// The number of the latest packet with a heartbeat.
    pub(super) last_heartbeat: Option<PacketNumber>,
    /// Whether a message on one of its channels made no sense.
    pub(super) is_unreadable: bool,
    /// Frames for its next direct packet.
    pub(super) direct: Vec<u8>,
    /// Bytes of frames that fit in a packet to it.
    pub(super) packet_room: usize,
}

impl Peer {
    pub(super) fn new(
        net: &mut PacketBuilder,
        data: SocketAddr,
        control: SocketAddr,
        window: u64,
        packet_room: usize,
        now: Instant,
    ) -> Self {
        Self {
            data,
            control,
            rank: None,
            control_channel: Channel::new(net.channel_space(), window, now),
            data_channel: Channel::new(net.channel_space(), window, now),
            to_one_channel: Channel::new(net.channel_space(), window, now),
            direct_seen: ReplayWindow::default(),
            best_effort_seen: ReplayWindow::default(),
            last_heartbeat: None,
            is_unreadable: false,
            direct: Vec::new(),
            packet_room,
        }
    }

    /// Whether the channels and the next direct packet have nothing to do, now or later, unless something arrives.
    #[inline]
    pub(super) fn is_at_rest(&self) -> bool {
        self.direct.is_empty() && self.channels().all(Channel::is_at_rest)
    }

    pub(super) fn channels(&self) -> impl Iterator<Item = &Channel> {
        [&self.control_channel, &self.data_channel, &self.to_one_channel].into_iter()
    }

    /// The longest round trip of its channels, zero before one is measured.
    pub(super) fn round_trip(&self) -> Duration {
        self.channels().filter_map(Channel::round_trip).max().unwrap_or_default()
    }

    /// Checks what must always hold.
    pub(super) fn check_invariants(&self) {
        self.channels().for_each(Channel::check_invariants);
        let spaces: BTreeSet<_> = self.channels().map(|channel| channel.space).collect();
        assert_eq!(spaces.len(), self.channels().count(), "two channels number their packets in one space");
    }
}

/// The peers of this process, by incarnation.
///
/// Invariant: a peer that has something to send, now or later, is among the busy ones. [`Self::get_mut`] makes a peer
/// busy, because its caller may change the channels. It stays busy until a poll finds it at rest.
pub(super) struct Peers {
    all: SortedMap<Incarnation, Peer>,
    busy: BTreeSet<Incarnation>,
    /// The peer that found the interface full in the last poll before it could send anything. It is served first in the
    /// next one.
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

    /// The peer, which is created with `make` if there is none.
    pub(super) fn get_or_insert_with(&mut self, who: Incarnation, make: impl FnOnce() -> Peer) -> &mut Peer {
        self.busy.insert(who);
        self.all.get_or_insert_with(who, make)
    }

    pub(super) fn remove(&mut self, who: Incarnation) {
        self.all.remove(&who);
        self.busy.remove(&who);
        self.left_out = self.left_out.filter(|left_out| *left_out != who);
    }

    /// Whether one of them found the interface full in the last poll.
    #[inline]
    pub(super) fn is_left_out(&self) -> bool {
        self.left_out.is_some()
    }

    /// All peers in the order of their incarnations.
    pub(super) fn values(&self) -> impl Iterator<Item = &Peer> {
        self.all.values()
    }

    /// Forgets the ranks of an old view.
    pub(super) fn clear_ranks(&mut self) {
        for peer in self.all.values_mut() {
            peer.rank = None;
        }
    }

    /// Polls each busy peer in the order of incarnations, beginning with the one that was left out last. A peer at rest
    /// afterwards is busy no more. `each` returns whether the peer could send nothing because the interface was full.
    ///
    /// Without the rotation, a full interface would serve the lowest incarnation first every time, and others never.
    pub(super) fn poll(&mut self, mut each: impl FnMut(Incarnation, &mut Peer) -> bool) {
        let Self { all, busy, left_out } = self;
        if busy.is_empty() {
            return; // the common case
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

    /// Makes channels report what arrived, because packets of some peer were dropped. Each peer that has sent any
    /// learns what is here.
    pub(super) fn handle_loss(&mut self, now: Instant) {
        for (who, peer) in self.all.iter_mut() {
            for channel in [&mut peer.control_channel, &mut peer.data_channel, &mut peer.to_one_channel] {
                channel.handle_loss(now);
            }
            if !peer.is_at_rest() {
                self.busy.insert(*who);
            }
        }
    }

    /// When the next peer has something to do. While the system is `congested`, data waits for that to end.
    pub(super) fn deadline(&self, ack_delay: Duration, congested: bool) -> Option<Instant> {
        self.busy.iter().filter_map(|who| deadline(self.all.get(who)?, ack_delay, congested)).min()
    }

    /// Ranks of the members that have not acknowledged something sent to them.
    pub(super) fn waited_for(&self) -> impl Iterator<Item = Rank> {
        let waits = |peer: &&Peer| peer.channels().any(Channel::is_waited_for);
        self.busy.iter().filter_map(|who| self.all.get(who)).filter(waits).filter_map(|peer| peer.rank)
    }

    /// Checks that each peer has its rank in the view in force.
    pub(super) fn check_ranks(&self, directory: &Directory) {
        for (who, peer) in self.all.iter() {
            assert_eq!(peer.rank, directory.rank(*who), "a peer has a rank of another view");
        }
    }

    /// Checks the invariant.
    pub(super) fn check_invariants(&self) {
        for (who, peer) in self.all.iter() {
            assert!(peer.is_at_rest() || self.busy.contains(who), "a peer with something to send is never polled");
            peer.check_invariants();
        }
        assert!(self.busy.iter().all(|who| self.all.contains_key(who)), "a busy process has no peer");
        assert!(
            self.left_out.is_none_or(|who| self.all.contains_key(&who)),
            "the process that was left out has no peer"
        );
    }
}

fn deadline(peer: &Peer, ack_delay: Duration, congested: bool) -> Option<Instant> {
    let control = peer.control_channel.deadline(ack_delay, false);
    let data = [&peer.data_channel, &peer.to_one_channel].map(|channel| channel.deadline(ack_delay, congested));
    [control, data[0], data[1]].into_iter().flatten().min()
}
