//! The status of a process, for operators and for the simulator.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::packets::{TO_ONE_BYTES, waiting_to_one};
use super::peers::Peer;
use super::{EARLY_BYTES, EARLY_PACKETS, EXCLUDED_MAX, Process, Stage};
use crate::api::MESSAGE_BYTES_MAX;
use crate::id::{CellInstance, GroupId, Incarnation, Rank, ViewNumber};
use crate::member::{Acceptor, Coordinator, Directory, FoundingBallot, GroupEntry, Phase, Proposal};
use crate::order::{Backlog, Hold, MessageCounts};
use crate::wire::{PacketNumber, Space};

/// State of this process's own stream in one group.
#[derive(Clone, Debug)]
pub struct StreamStatus {
    /// The group.
    pub group: GroupId,
    /// Its name.
    pub name: Arc<str>,
    /// The view's number.
    pub view: ViewNumber,
    /// Members of the view.
    pub members: usize,
    /// Whether the group has a state. `None`: it was made below level 6, and nothing is agreed.
    pub has_state: Option<bool>,
    /// Whether this process observes.
    pub observes: bool,
    /// Messages accepted and not yet in a packet.
    pub queued_messages: usize,
    /// Their bytes.
    pub queued_bytes: usize,
    /// Packets sent and not stable.
    pub unstable_packets: u64,
    /// The member whose window or missing acks hold the stream back, if something is queued or unstable.
    pub waits_for: Option<String>,
    /// The cause for which queued messages wait, if any are queued.
    pub hold: Option<Hold>,
    /// The member that orders the abcasts of this view: it holds the token.
    pub orders: Option<String>,
    /// Messages sent in this view.
    pub sent: u64,
    /// Messages delivered in this view.
    pub delivered: u64,
}

/// Fill level of a bounded buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gauge {
    /// Which buffer. Of several alike, the fullest is reported.
    pub name: &'static str,
    /// Its content, in the unit that the name states.
    pub value: u64,
    /// Upper bound on `value`.
    pub limit: u64,
    /// Upper bound on `value` while nothing is sent and nobody joins or leaves.
    pub idle: u64,
}

/// Work that a process has not finished.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// Looking for its cell, or waiting to be taken into a group.
    pub joining: bool,
    /// Between promise and installation of a view.
    pub flushing: bool,
    /// Giving or taking state.
    pub transferring: bool,
    /// Giving state.
    pub giving: bool,
    /// Gathering reports as coordinator.
    pub gathering: bool,
    /// Waiting for cuts to be held as coordinator.
    pub recovering: bool,
    /// Proposing as coordinator.
    pub proposing: bool,
    /// Leading a ballot of founders, with its list proposed.
    pub founding: bool,
    /// Keeping joiners waiting that ask for membership.
    pub welcoming: bool,
    /// In a view of a group whose state it is still taking.
    pub incomplete: bool,
}

/// State of a process in the decree under way, for checks from outside.
#[derive(Clone, Copy, Debug)]
pub struct DecreeState<'a> {
    /// The cell instance, or 0 before the first view.
    pub instance: CellInstance,
    /// The directory in force; decree 0 before the first view.
    pub directory: &'a Directory,
    /// The decision that brought the directory.
    pub last_decision: Option<&'a Arc<Proposal>>,
    /// The promise and the accepted proposal for the next decree.
    pub acceptor: &'a Acceptor,
    /// The ballot that this process coordinates.
    pub coordinator: Option<&'a Coordinator>,
    /// The decided proposal that waits for its cut.
    pub decided: Option<&'a Arc<Proposal>>,
}

/// Whether a process is wedged in a group's view, and what it had until then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WedgeState {
    /// The group.
    pub group: GroupId,
    /// The packet space of its view.
    pub space: Space,
    /// Whether it is wedged.
    pub wedged: bool,
    /// Per rank, the parsed prefix of the stream. It may have been acknowledged.
    pub parsed: Vec<u64>,
    /// Per rank, the held prefix of the stream.
    pub held: Vec<u64>,
}

impl Process {
    /// The state of the next decree here.
    #[must_use]
    pub fn decree_state(&self) -> DecreeState<'_> {
        DecreeState {
            instance: self.instance,
            directory: &self.directory,
            last_decision: self.last_decision.as_ref(),
            acceptor: &self.acceptor,
            coordinator: self.coordinator.as_ref(),
            decided: self.decided.as_ref(),
        }
    }

    /// The wedge state of each group that this process is a member of.
    #[must_use]
    pub fn wedge_states(&self) -> Vec<WedgeState> {
        let gate = |f: &super::group_streams::GroupStreams| {
            let (parsed, held) = f.view_streams.prefixes().map(|of| (of.parsed, of.held)).unzip();
            WedgeState { group: f.meta.group, space: f.meta.space, wedged: f.view_streams.is_wedged(), parsed, held }
        };
        self.group_streams.values().map(gate).collect()
    }

    /// The stream state of each group that this process is a member of.
    #[must_use]
    pub fn streams(&self) -> Vec<StreamStatus> {
        self.group_streams
            .values()
            .map(|f| {
                let queued = f.view_streams.queued();
                let MessageCounts { sent, delivered } = f.view_streams.counts();
                let busy = queued.messages > 0 || f.view_streams.unstable_packets() > 0;
                let waits_for = if busy { f.view_streams.waits_for() } else { None };
                let name_of = |rank: Rank| {
                    let who = f.meta.members.get(rank.index())?;
                    self.directory.members.iter().find(|m| m.incarnation == *who).map(|m| m.name.clone())
                };
                let entry = self.directory.groups.get(&f.meta.group);
                StreamStatus {
                    has_state: entry.and_then(GroupEntry::has_state),
                    observes: entry.is_some_and(|entry| entry.has_observer(self.me())),
                    group: f.meta.group,
                    name: f.meta.name.clone(),
                    view: f.meta.view,
                    members: f.meta.members.len(),
                    queued_messages: queued.messages,
                    queued_bytes: queued.bytes,
                    unstable_packets: f.view_streams.unstable_packets(),
                    waits_for: waits_for.and_then(name_of),
                    hold: f.view_streams.hold(),
                    orders: name_of(f.view_streams.token_holder()),
                    sent,
                    delivered,
                }
            })
            .collect()
    }

    /// Reports the fill level of each bounded buffer.
    pub fn gauges(&self, each: &mut dyn FnMut(Gauge)) {
        let mut gauge = |name, value: usize, limit: u64, idle: u64| {
            each(Gauge { name, value: value as u64, limit, idle });
        };
        let (mut outbox, mut held_back, mut unstable, mut kept, mut waiting) = (0, 0, 0, 0, 0);
        let (mut window, mut sent, mut undelivered) = (0, 0, EVENTS_MAX);
        for view_streams in self.group_streams.values().map(|f| &f.view_streams) {
            let Backlog { messages, bytes } = view_streams.queued();
            // The first message may be longer than the bound, and each message has one byte of its own.
            let counted = if messages > 1 { bytes.saturating_sub(messages) } else { 0 };
            outbox = outbox.max(counted);
            // Held back for as long as nobody joins, whatever else happens.
            if matches!(view_streams.hold(), Some(Hold::Outside | Hold::Inadequate)) {
                held_back = held_back.max(counted as u64);
            }
            unstable = unstable.max(usize::try_from(view_streams.unstable_packets()).unwrap_or(usize::MAX));
            let held = view_streams.held();
            (kept, waiting) = (held.kept.max(kept), held.waiting.max(waiting));
            let set = view_streams.settings();
            window = window.max(set.window);
            sent = sent.max(set.unstable_max());
            // A message takes at least two bytes of a packet.
            undelivered += set.window * (set.members.len() * set.packet_room / 2) as u64;
        }
        gauge("outbox bytes", outbox, self.set.limits.outbox_bytes as u64, held_back);
        gauge("unstable packets", unstable, sent, 0);
        // A sender announces what is stable with its next packets, so a receiver may keep a window more than the
        // sender.
        gauge("kept packets", kept, window + sent, 0);
        gauge("waiting packets", waiting, 2 * window, 0);
        // State that donors send ahead is counted in bytes, with a minimum for each delivery.
        undelivered += self.transfers.ahead_max();
        // Each view brings new windows, and each transfer a new record. Items left from the last ones come on top.
        gauge("undelivered items", self.app.len(), undelivered + self.left_undelivered as u64, 0);
        let one_too_many = MESSAGE_BYTES_MAX as u64 + TO_ONE_BYTES;
        gauge("bytes to one", waiting_to_one(&self.app), one_too_many, 0);
        gauge("early packets", self.early.len(), EARLY_PACKETS as u64, EARLY_PACKETS as u64);
        gauge("early bytes", self.early_bytes, EARLY_BYTES as u64, EARLY_BYTES as u64);
        gauge("excluded remembered", self.excluded.len(), EXCLUDED_MAX as u64, EXCLUDED_MAX as u64);
        gauge("left streams", self.past.len(), u64::from(u32::MAX), 0);
        let members = self.peers.values().filter(|p| p.rank.is_some());
        let channels = members.flat_map(Peer::channels);
        let busy = channels.filter(|channel| !channel.is_idle()).count();
        gauge("busy channels", busy, 3 * self.directory.members.len() as u64, 0);
    }

    /// Reports every counter by name, in a fixed order that never changes within an incarnation.
    pub fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        let mut counters = self.counters.clone();
        self.group_streams.values().for_each(|f| counters.add_token(f.view_streams.token_counts()));
        counters.each(each);
    }

    /// Passes of the token so far in each group view that this process is in, by packet space.
    pub fn tenures(&self) -> impl Iterator<Item = (Space, u32)> {
        self.group_streams.iter().map(|(&space, f)| (space, f.view_streams.tenure()))
    }

    /// For each group view that this process is in: the group, its packet space, and the number of this process's next
    /// packet in it.
    pub fn next_packets(&self) -> impl Iterator<Item = (GroupId, Space, PacketNumber)> {
        self.group_streams.iter().map(|(&space, f)| (f.meta.group, space, f.view_streams.next_packet()))
    }

    /// The unfinished work of this process.
    #[must_use]
    pub fn activity(&self) -> Activity {
        let phase = self.coordinator.as_ref().map(|c| &c.phase);
        Activity {
            joining: matches!(self.stage, Stage::Searching(_)),
            flushing: self.acceptor.promised().is_some() || self.decided.is_some(),
            transferring: self.transfers.is_active(),
            giving: self.transfers.gives(),
            gathering: matches!(phase, Some(Phase::Gathering)),
            recovering: matches!(phase, Some(Phase::Recovering { .. })),
            proposing: matches!(phase, Some(Phase::Proposing { .. })),
            founding: matches!(&self.stage, Stage::Searching(search) if search.founding.has_proposed()),
            welcoming: self.joiners_wait(),
            incomplete: self.transfers.is_in_without_state(),
        }
    }

    /// The states that are on their way to this process: the group, the donor, the bytes that are here, and all of them.
    pub fn states_on_the_way(&self) -> impl Iterator<Item = (GroupId, Incarnation, u64, u64)> {
        self.transfers.on_the_way()
    }

    /// The latest ballot of founders that this process promised to.
    #[must_use]
    pub fn founding_promise(&self) -> Option<FoundingBallot> {
        let Stage::Searching(search) = &self.stage else { return None };
        search.founding.promised()
    }

    /// The packet space of this process's data channel to a member, and the number of its next packet there.
    #[must_use]
    pub fn next_data_packet(&self, to: Incarnation) -> Option<(Space, PacketNumber)> {
        self.peers.get(to).map(|peer| (peer.data_channel.space, peer.data_channel.next_number()))
    }

    /// Number of items for the application that were not taken.
    #[must_use]
    pub fn undelivered(&self) -> usize {
        self.app.len()
    }

    /// Checks invariants. Tests and the simulator call it after every input.
    ///
    /// # Panics
    /// When an invariant is violated.
    pub fn check_invariants(&self) {
        self.peers.check_invariants();
        for view_streams in self.group_streams.values() {
            view_streams.view_streams.check_invariants();
            assert!(
                view_streams.touched || view_streams.deadline() == view_streams.view_streams.deadline(),
                "a view's streams missed a change"
            );
            assert!(view_streams.meta.space < self.directory.next_space, "a view's packet space was decided");
        }
        if matches!(self.stage, Stage::Member) {
            assert!(self.directory.rank(self.me()).is_some(), "a member is in its view");
            assert!(self.directory.level <= self.set.me.level, "a member knows the level in force");
            let members = self.directory.members.len();
            self.directory.check_invariants();
            self.failure_detector.check_invariants(members);
            self.progress.check_invariants(members);
            self.removals.check_invariants();
            self.peers.check_ranks(&self.directory);
            assert_eq!(
                self.reported_decrees.len(),
                members,
                "each member has an entry for the decree that it reported"
            );
            assert!(self.instance != CellInstance::NONE, "a member is in an instance of its cell");
            assert!(self.outcasts.iter().all(|who| self.directory.rank(*who).is_some()), "an outcast is no member");
            let own = self.agreed();
            assert_eq!(own, own.under(&self.directory.settings), "the agreed settings are in force");
            for view_streams in self.group_streams.values() {
                let entry = self.directory.groups.get(&view_streams.meta.group);
                assert!(entry.is_some_and(|e| e.space == view_streams.meta.space), "streams belong to a view in force");
                let meta = &view_streams.meta;
                assert!(entry.is_some_and(|e| e.members == meta.members), "streams have the members of their view");
            }
        }
        self.acceptor.check_invariants();
        let promised = self.acceptor.promised();
        assert!(
            promised.is_none_or(|ballot| ballot.round <= self.max_round),
            "a later round was promised than is known"
        );
        if let Some(coordinator) = &self.coordinator {
            assert!(matches!(self.stage, Stage::Member), "only a member coordinates");
            coordinator.check_invariants(&self.directory);
            assert_eq!(coordinator.ballot.rank, self.my_rank(), "a ballot is its coordinator's");
            assert!(promised.is_some_and(|p| p >= coordinator.ballot), "a coordinator has not promised its own ballot");
        }
        if let Some(decided) = &self.decided {
            assert_eq!(decided.decree, self.directory.decree.next(), "a decided proposal is the next decree");
        }
        self.app.check_invariants();
        self.welcomes.check_invariants();
        assert!(self.excluded.len() <= EXCLUDED_MAX, "too many excluded incarnations are remembered");
        assert!(
            self.requests.values().all(|list| list.groups.len() <= super::REQUESTS_MAX),
            "a member has too many requests"
        );
        if matches!(self.stage, Stage::Over) {
            return;
        }
        self.transfers.check_invariants();
        self.app.to_one.check_invariants();
        assert!(self.early.len() <= EARLY_PACKETS, "too many packets wait for their view");
        let early: usize = self.early.iter().map(|early| early.frames.len()).sum();
        assert_eq!(early, self.early_bytes, "bytes that wait for their view are miscounted");
        let mut groups = BTreeSet::new();
        for view_streams in self.group_streams.values() {
            let meta = &view_streams.meta;
            assert!(groups.insert(meta.group), "a group has two views in force");
            assert_eq!(meta.addresses.len(), meta.members.len(), "each member of a group has an address");
            assert_eq!(meta.others.len() + 1, meta.members.len(), "packets go to all members but this one");
            assert_eq!(
                meta.rank(self.me()),
                Some(view_streams.view_streams.settings().me),
                "streams have another rank"
            );
            assert!(
                meta.told.is_none_or(|told| (meta.since..=meta.view).contains(&told)),
                "the application was notified of a view that is not one of its own"
            );
        }
    }
}

/// Events that wait for the application beside deliveries: views, transfers. They have no bound of their own.
const EVENTS_MAX: u64 = 4096;
