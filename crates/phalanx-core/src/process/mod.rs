//! One process of a cell: owns the parts, routes between them, speaks to the application.
//!
//! Each file holds one concern: `packets` (in and out), `search` (whom to ask for the cell), `join` (what a joiner and
//! the members say), `founding`, `reform` (other instances of the cell), `ending` (how an instance ends), `heartbeat`
//! (heartbeats and suspicion), `watch` (the same in a large cell), `slow` (members that stay behind), `decree` (the
//! acceptor's and coordinator's work), `install` (what a decided view does), `level` (the level in force and agreed
//! settings), `adequacy` (views of too few members), `welcome` (telling joiners), `cut_recovery` (the packets that a
//! cut lacks), `orphans` (groups that wait for members that were cut off), `groups` (requests and commands about
//! groups), `transfer` (state). Data flows one way: packets come in, parts change, effects go out through [`Effects`].
//!
//! What runs for each packet or message is generic over the sink: this file, `packets`, `packet_builder`, `port` and
//! `app`. All else takes `&mut dyn Effects`, so that programs with sinks of their own do not compile it again.

mod adequacy;
mod app;
pub mod best_effort;
mod counters;
mod cut_recovery;
mod decree;
mod ending;
mod founding;
mod group_streams;
mod groups;
mod heartbeat;
mod install;
mod join;
mod level;
mod orphans;
mod packet_builder;
mod packets;
mod partners;
mod path_probes;
mod peers;
mod port;
mod reform;
mod search;
mod slow;
mod status;
mod to_one;
mod transfer;
mod unreadable;
mod waits;
mod watch;
mod welcome;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::api::{
    Accepted, CellView, CommandError, Effects, Event, Founding, MESSAGE_BYTES_MAX, Membership, MessageToOne, Order,
    Request, SEEDS_MAX, SendOptions, Sent, Settings, Stability, ToOneKind,
};
use crate::frames::Frames;
use crate::id::{AWAY, CellInstance, DecreeNumber, GroupId, InboxId, Incarnation, Rank, ViewNumber};
use crate::member::{
    Acceptor, Agreed, BallotEvent, Coordinator, Directory, FailureDetector, Inheritance, PathMonitor, Patience,
    Proposal, Removals, RequestList, Wedge, replayed_bytes,
};
use crate::order::{AskHead, Packing};
use crate::rng::Rng;
use crate::seal::{CookieKey, Opener, Security};
use crate::sorted::SortedMap;
use crate::time::Instant;
use crate::transitions::transitions;
use crate::wire::{PacketNumber, Space, Tags};
use app::{AppQueue, Item};
use counters::ProcessCounters;
use group_streams::GroupStreams;
use groups::GroupIntent;
use join::Joiner;
use packet_builder::PacketBuilder;
use peers::Peers;
use port::{StreamsPort, streams_port};
use search::{Probing, Search};
use to_one::to_one_port;
use transfer::Transfers;
use waits::Waits;

pub use adequacy::ASKS_LEVEL;
pub use groups::REQUESTS_MAX;
pub use join::{JoinHandshake, JoinRefusal};
pub use orphans::Kept;
pub use status::{Activity, DecreeState, Gauge, StreamStatus, WedgeState};
pub use to_one::{TO_ONE_LEVEL, ToOneFrame};

/// Room for the list of those that are to answer the longest ask.
const ASK_HEAD_BYTES: usize = 64 * 1024;

/// One process of a cell. It owns no socket, thread or clock: the caller passes packets, timers and the time in.
pub struct Process {
    set: Settings,
    rng: Rng,
    net: PacketBuilder,
    opener: Opener,
    counters: ProcessCounters,
    stage: Stage,
    /// The cell instance; 0 before the first view.
    instance: CellInstance,
    directory: Directory,
    cell_view: Option<Arc<CellView>>,
    failure_detector: FailureDetector,
    progress: PathMonitor,
    /// Whether the last heartbeat carried findings. If so, the next one carries them too, even if they are empty:
    /// without that, the others would keep the old ones.
    has_findings: bool,
    removals: Removals,
    /// Pairs of members and held-back processes that can talk with each other: since when, and when that was last
    /// confirmed.
    reached: BTreeMap<(Incarnation, Incarnation), (Instant, Instant)>,
    /// The members before the last decree, by rank. Heartbeats of members that have not installed it yet use those
    /// ranks.
    former: Vec<Incarnation>,
    /// The decree that each member's latest heartbeat reported, by rank.
    reported_decrees: Vec<DecreeNumber>,
    acceptor: Acceptor,
    coordinator: Option<Coordinator>,
    /// A wedge whose answer waits until this process holds the cuts that it names, with its sender.
    recovering: Option<(Incarnation, Wedge)>,
    /// The decided proposal that is not installed yet, because its cut is still being fetched.
    decided: Option<Arc<Proposal>>,
    /// The decision in force, kept for members and joiners that missed it.
    last_decision: Option<Arc<Proposal>>,
    installed_at: Instant,
    peers: Peers,
    /// Recently excluded incarnations, which are still to be notified. Bounded by [`EXCLUDED_MAX`]: the oldest is
    /// forgotten first.
    excluded: VecDeque<(Incarnation, SocketAddr, Instant)>,
    /// The streams of the group views in force, by packet space. `past` holds those of ended views that some member may
    /// still fetch from.
    group_streams: SortedMap<Space, GroupStreams>,
    past: BTreeMap<Space, GroupStreams>,
    early: VecDeque<Early>,
    early_bytes: usize,
    /// The latest wedge for a decree later than the next one: it overtook the decision that it builds on. Dropping it
    /// would stop its ballot, whose coordinator waits for the report.
    early_wedge: Option<(Incarnation, Wedge)>,
    app: AppQueue,
    /// Number of items that the application had not yet taken when a group view or a transfer last ended.
    left_undelivered: usize,
    /// Join and leave requests that reached this process as the coordinator, or as the one that may have to take over.
    joiners: BTreeMap<Incarnation, Joiner>,
    /// Each with whether it waits ([`Control::Leave`](crate::member::Control::Leave)).
    leavers: BTreeMap<Incarnation, bool>,
    welcomes: welcome::Welcomes,
    /// Former members known to be out, and members proved dead.
    out: BTreeSet<Incarnation>,
    /// Leavers that the last decree of this process did not let go, and since when they wait.
    held_leavers: BTreeMap<Incarnation, Instant>,
    /// Membership requests about groups, each with the decree it was made in. It is void after that decree, because the
    /// outcome may have changed what its sender wants.
    requests: BTreeMap<Incarnation, RequestList>,
    /// Groups in which some member reported, under the decree in force, a packet that it cannot read.
    unreadable: BTreeSet<GroupId>,
    /// Members whose streams made no sense to most of their readers. They leave with the next decree.
    outcasts: BTreeSet<Incarnation>,
    /// The level that the application requested last, or 0.
    requested_level: u16,
    state_holders: adequacy::StateHolders,
    waiting: orphans::OrphanRecovery,
    used_cookies: join::UsedCookies,
    cookie_key: CookieKey,
    probing: Probing,
    /// The groups that the application wants to be in or out of, by name.
    wants: BTreeMap<String, GroupIntent>,
    leaving: Option<ending::Stop>,
    /// The pending foundation of the next cell instance. It is dropped if a member is heard first.
    reforming: Option<search::ReformWait>,
    /// The inheritance from which the next incarnation of this process founds the next instance.
    inheritance: Option<Inheritance>,
    /// Other instances of the cell that were already reported to the application.
    known_instances: BTreeSet<CellInstance>,
    /// Whether this incarnation is over because a decided view does not contain it.
    was_excluded: bool,
    transfers: Transfers,
    primary: bool,
    /// Whether a view was to end with a cut that makes no sense here.
    cannot_go_on: bool,
    max_round: u32,
    /// How long ballots wait for each other.
    waits: Waits,
    fetch_at: Option<Instant>,
    fetch_turn: usize,
    next_heartbeat: Instant,
    last_poll: Instant,
    /// The sum of consecutive late intervals between polls that were forgiven, so that they suspected nobody.
    forgiven: Duration,
    /// When the streams were last checked for members that hold them back.
    slow_checked_at: Instant,
    /// Whether something happened that membership should evaluate now rather than at the next heartbeat.
    attention: bool,
    /// The decree in which a leave was last requested at once.
    leave_asked: DecreeNumber,
    /// Members that the last decrees left out. Their channels stay open for a while to carry the decision to them.
    departed: VecDeque<(Incarnation, Instant)>,
    /// Bytes that sealing adds to a packet.
    tag_len: usize,
    scratch: Vec<u8>,
    /// Whether the system accepts no more packets for now.
    congested: bool,
    /// When to report to others that the system dropped packets here, and when that was last done.
    loss_due: Option<Instant>,
    losses_reported_at: Option<Instant>,
}

/// Where a process is in its incarnation.
enum Stage {
    /// Looking for its cell, or founding it.
    Searching(Box<Search>),
    /// In a view.
    Member,
    /// Asked to leave, and the decided view does not contain it. It ends when the others have installed that view.
    Leaving { since: Instant },
    /// Excluded or left: nothing more happens.
    Over,
}

transitions! {
    /// [`Stage`] without its data.
    states StageState {
        /// It looks for its cell, or founds it.
        Searching,
        /// It is in a view.
        Member,
        /// It asked to leave, and the decided view does not contain it. The others may still need what it has.
        Leaving,
        /// It was excluded, or left.
        Over,
    }
    begin Searching; end [Over];
    events StageEvent {
        /// A view that holds this process is installed.
        Install (Searching | Member => Member),
        /// The view that this process asked to be left out of is installed.
        Leave (Member => Leaving),
        /// This incarnation is over.
        End (Searching | Member | Leaving => Over),
    }
}

impl Stage {
    fn state(&self) -> StageState {
        match self {
            Self::Searching(_) => StageState::Searching,
            Self::Member => StageState::Member,
            Self::Leaving { .. } => StageState::Leaving,
            Self::Over => StageState::Over,
        }
    }
}

/// A packet of a view that is not installed here yet.
struct Early {
    sender: Incarnation,
    space: Space,
    number: PacketNumber,
    frames: Frames,
}

/// Bounds on packets kept for views that are not installed here yet. They bridge the moment between two members'
/// installs.
const EARLY_PACKETS: usize = 512;
const EARLY_BYTES: usize = 4 << 20;
/// Excluded incarnations that are remembered so that they can be notified.
const EXCLUDED_MAX: usize = 256;
/// Minimum interval between two reports that the system dropped packets here.
const LOSS_REPORT_INTERVAL: Duration = Duration::from_micros(500);
/// Late intervals between polls are forgiven up to this many times `suspect_after` in a row.
const FORGIVEN: u32 = 2;
const _: () = assert!(EARLY_BYTES / EARLY_PACKETS >= 1432, "as many packets of a network as may wait find room");

impl Process {
    /// Creates a process that starts to look for its cell. `seed` decides every random draw. It must be fresh and
    /// secret, because cookie keys come from it.
    #[must_use]
    pub fn new(now: Instant, mut settings: Settings, security: &Security, seed: u64) -> Self {
        Agreed::of(&settings.limits, &settings.timing).tell(&mut settings.me);
        settings.me.turns_within(settings.timing.turn_gap_max);
        if let Founding::Named(names) = &mut settings.founding {
            // Founders compare their lists of names, so the order in a configuration must not matter.
            names.sort();
            names.dedup();
        }
        let rng = Rng::new(seed);
        let me = settings.me.incarnation;
        // Split by label, so that a draw added in one place leaves all others alone.
        let mut cookie_rng = rng.fork("cookie");
        let mut cookie_key = [0; 32];
        for chunk in cookie_key.chunks_mut(8) {
            chunk.copy_from_slice(&cookie_rng.next_u64().to_le_bytes());
        }
        let timing = settings.timing.clone();
        let mut process = Self {
            net: PacketBuilder::new(security, &settings.cell, me),
            opener: Opener::new(security, &settings.cell, me),
            counters: ProcessCounters::default(),
            stage: Stage::Searching(Box::new(Search::new(now))),
            instance: CellInstance::NONE,
            directory: Directory::found(Vec::new(), 0, Tags::default()),
            cell_view: None,
            failure_detector: FailureDetector::new(
                Rank::FIRST,
                0,
                now,
                Patience {
                    suspect_after: timing.suspect_after,
                    beat: timing.heartbeat,
                    watchers: settings.limits.watchers,
                },
            ),
            progress: PathMonitor::new(Rank::FIRST, 0, now),
            has_findings: false,
            removals: Removals::default(),
            reached: BTreeMap::new(),
            former: Vec::new(),
            reported_decrees: Vec::new(),
            acceptor: Acceptor::default(),
            coordinator: None,
            recovering: None,
            decided: None,
            last_decision: None,
            installed_at: now,
            peers: Peers::new(),
            excluded: VecDeque::new(),
            group_streams: SortedMap::new(),
            past: BTreeMap::new(),
            early: VecDeque::new(),
            early_bytes: 0,
            early_wedge: None,
            app: AppQueue::default(),
            left_undelivered: 0,
            joiners: BTreeMap::new(),
            leavers: BTreeMap::new(),
            welcomes: welcome::Welcomes::default(),
            out: BTreeSet::new(),
            held_leavers: BTreeMap::new(),
            requests: BTreeMap::new(),
            unreadable: BTreeSet::new(),
            outcasts: BTreeSet::new(),
            requested_level: 0,
            state_holders: adequacy::StateHolders::default(),
            waiting: orphans::OrphanRecovery::default(),
            used_cookies: join::UsedCookies::default(),
            cookie_key: CookieKey::new(&cookie_key),
            probing: Probing::new(now),
            wants: BTreeMap::new(),
            leaving: None,
            reforming: None,
            inheritance: None,
            known_instances: BTreeSet::new(),
            was_excluded: false,
            transfers: Transfers::new(rng.fork("transfer")),
            primary: true,
            cannot_go_on: false,
            max_round: 0,
            waits: Waits::new(now),
            fetch_at: None,
            fetch_turn: 0,
            next_heartbeat: now,
            last_poll: now,
            forgiven: Duration::ZERO,
            slow_checked_at: now,
            attention: true,
            leave_asked: DecreeNumber::NONE,
            departed: VecDeque::new(),
            tag_len: security.tag_len(),
            scratch: Vec::with_capacity(65_536),
            congested: false,
            loss_due: None,
            losses_reported_at: None,
            rng,
            set: settings,
        };
        process.directory.decree = DecreeNumber::NONE;
        process.directory.view = ViewNumber::NONE;
        process
    }

    /// Sets whether the system accepts no more packets for now, and returns whether that is news: then [`Self::poll`]
    /// is due at once.
    ///
    /// While congested, new messages of groups and on data channels wait, and are refused when too many wait. Acks,
    /// retransmissions in groups, order announcements, control messages and view changes still go out.
    pub fn set_congested(&mut self, congested: bool) -> bool {
        let mut news = self.congested != congested;
        self.counters.congested += u64::from(news && congested);
        self.congested = congested;
        for view_streams in
            self.group_streams.values_mut().filter(|view_streams| view_streams.view_streams.is_congested() != congested)
        {
            view_streams.view_streams.set_congested(congested);
            view_streams.touched = true;
            news = true;
        }
        news
    }

    /// Whether messages wait because the system was found to accept no more packets, here or through
    /// [`Self::set_congested`].
    #[must_use]
    #[inline]
    pub fn is_congested(&self) -> bool {
        self.congested || self.group_streams.values().any(|view_streams| view_streams.view_streams.is_congested())
    }

    /// Whether something waits that could be sent now: [`Self::flush`] or [`Self::poll`] is due at once.
    #[must_use]
    #[inline]
    pub fn is_packing(&self) -> bool {
        self.group_streams.values().any(|view_streams| view_streams.view_streams.is_packing())
    }

    /// Sends what was multicast or ordered since the last poll. Call it before the input is drained, so that an answer
    /// need not wait for the rest of the iteration.
    ///
    /// Does nothing while a channel is owed its share of a full interface that accepts packets again. What waits then
    /// goes out with [`Self::poll`].
    pub fn flush(&mut self, now: Instant, fx: &mut impl Effects) {
        if !self.owes_a_channel(fx) {
            self.flush_group_streams(now, fx);
        }
    }

    fn flush_group_streams(&mut self, now: Instant, fx: &mut impl Effects) {
        for view_streams in
            self.group_streams.values_mut().filter(|view_streams| view_streams.view_streams.is_packing())
        {
            view_streams.touched = true;
            let mut port = streams_port!(self, &mut *fx, &view_streams.meta);
            view_streams.view_streams.flush(now, &mut port);
        }
    }

    /// Hands received messages to the application in the middle of an iteration, and returns whether there were any.
    ///
    /// If so, the caller may end the iteration early, so that an answer goes out at once. [`Self::poll`] is due next,
    /// with the input that has arrived meanwhile.
    pub fn deliver(&mut self, now: Instant, fx: &mut impl Effects) -> bool {
        let before = self.counters.delivered;
        let mut given = self.drain_app(fx);
        for view_streams in self.group_streams.values_mut().filter(|view_streams| view_streams.touched) {
            let mut port = streams_port!(self, &mut *fx, &view_streams.meta);
            view_streams.view_streams.deliver(now, &mut port);
        }
        to_one_port!(self).deliver();
        given |= self.drain_app(fx);
        given || self.counters.delivered > before
    }

    /// Ends an iteration of the event loop: checks timers, packs and transmits what is due, delivers what is held.
    ///
    /// Call it after the input is drained. A timer checked earlier would suspect members whose packets already wait in
    /// the socket.
    pub fn poll(&mut self, now: Instant, fx: &mut impl Effects) {
        if matches!(self.stage, Stage::Over) {
            self.drain_app(fx);
            return;
        }
        // Channels go first when they are owed a share. The streams of a view send at least one packet all the same, so
        // neither starves.
        if self.owes_a_channel(fx) {
            self.poll_channels(now, fx);
        }
        self.flush_group_streams(now, fx);
        self.notice_absence(now);
        self.report_losses(now);
        self.drain_app(fx);
        match self.stage {
            Stage::Searching(_) => self.search(now, fx),
            Stage::Member | Stage::Leaving { .. } => self.poll_membership(now, fx),
            Stage::Over => {}
        }
        self.poll_group_streams(now, fx);
        to_one_port!(self).deliver();
        self.poll_transfers(now);
        self.send_welcome_parts();
        self.drain_app(fx);
        to_one_port!(self).send_reports();
        self.poll_channels(now, fx);
        self.drain_app(fx);
    }

    /// Forgives a late poll, during which this process could not have heard anybody.
    ///
    /// Consecutive late polls are forgiven only up to [`FORGIVEN`]: a process that always polls late would otherwise
    /// never find another one silent. A single absence is forgiven whole, however long.
    fn notice_absence(&mut self, now: Instant) {
        let late = now.since(self.last_poll);
        self.last_poll = now;
        if late <= self.turns_every() {
            self.forgiven = Duration::ZERO;
            return;
        }
        self.counters.absences += 1;
        if self.forgiven < self.suspect_after() * FORGIVEN {
            self.forgiven += late;
            self.failure_detector.forgive(now, late);
            self.progress.forgive(now, late);
            self.transfers.forgive(now);
            self.waits.forgive(late);
        }
    }

    /// The longest interval between two polls that counts as in time.
    fn turns_every(&self) -> Duration {
        self.heartbeat_interval() + self.set.me.turn_gap().max(AWAY)
    }

    fn poll_group_streams(&mut self, now: Instant, fx: &mut impl Effects) {
        for view_streams in self.group_streams.values_mut().filter(|view_streams| view_streams.is_due(now)) {
            let mut port = streams_port!(self, &mut *fx, &view_streams.meta);
            let worked = view_streams.view_streams.poll(now, &mut port);
            view_streams.rests(worked);
        }
    }

    /// Calls `f` with the view streams in `space` and the port its output goes to.
    fn with_view_streams<R, F: Effects + ?Sized>(
        &mut self,
        space: Space,
        fx: &mut F,
        f: impl FnOnce(&mut crate::order::ViewStreams, &mut StreamsPort<'_, F>) -> R,
    ) -> Option<R> {
        let view_streams = self.group_streams.get_mut(&space)?;
        view_streams.touched = true;
        let mut port = streams_port!(self, fx, &view_streams.meta);
        Some(f(&mut view_streams.view_streams, &mut port))
    }

    /// Hands waiting items to the application for as long as it is ready. Returns whether there were any.
    #[inline]
    fn drain_app(&mut self, fx: &mut impl Effects) -> bool {
        !self.app.is_empty() && self.give_to_app(fx)
    }

    fn give_to_app(&mut self, fx: &mut impl Effects) -> bool {
        let mut given = false;
        let mut at = None;
        // The next inbox after `at` is looked up each time, because a handler's answer may add items.
        while let Some(inbox) = self.app.next_waiting(at) {
            at = Some(inbox);
            given |= self.give_to_inbox(inbox, fx);
        }
        given
    }

    /// Hands items to an inbox for as long as it is ready.
    fn give_to_inbox(&mut self, inbox: InboxId, fx: &mut impl Effects) -> bool {
        let mut given = false;
        while !self.app.is_empty_at(inbox) && fx.ready(inbox) {
            let Some(item) = self.app.pop(inbox) else { return given };
            given = true;
            match item {
                Item::Delivery(held) => {
                    let delivery = held.delivery();
                    // Recorded when the application takes it: the snapshot is the application's, and holds what that
                    // had taken.
                    self.transfers.record(&delivery);
                    self.counters.delivered += 1;
                    fx.deliver(&delivery);
                    if let Some(view_streams) = self.group_streams.get_mut(&held.space)
                        && !held.replayed
                    {
                        view_streams.view_streams.consumed(held.rank);
                        view_streams.touched = true;
                    }
                    if held.replayed {
                        self.transfers.taken(held.group, held.payload.len());
                    }
                }
                Item::Event(event) => {
                    match &event {
                        Event::GroupView(view) => {
                            self.transfers.view_reached(view);
                            let reached =
                                |f: &&mut GroupStreams| f.meta.group == view.group && f.meta.since <= view.view;
                            if let Some(view_streams) = self.group_streams.values_mut().find(reached) {
                                view_streams.meta.told = Some(view.view);
                                view_streams.meta.told_domains.clone_from(&view.domains);
                            }
                        }
                        Event::GroupViewReplayed(view) => self.transfers.taken(view.group, replayed_bytes(view)),
                        _ => {}
                    }
                    fx.event(event);
                }
                Item::Message { from, payload } => fx.message(from, &payload),
                Item::ToOne { pair, view, kind, payload, costs } => {
                    self.counters.to_one_delivered += 1;
                    fx.to_one(&MessageToOne { group: pair.group, view, sender: pair.partner, kind, payload: &payload });
                    if !kind.is_answer() {
                        self.app.to_one.taken(pair, costs);
                    }
                    self.app.to_one.give(payload);
                }
                Item::Settled { group, to, outcome, messages } => fx.settled(group, to, outcome, messages),
                Item::Stable { group, view, seq } => fx.stable(group, view, seq),
                Item::Restore { group, chunk } => {
                    fx.restore(group, &chunk);
                    self.transfers.taken(group, chunk.len());
                }
            }
        }
        given
    }

    /// Notes that the system dropped packets that came for this process.
    ///
    /// The next poll reports to possible senders what is here, and asks what more there is. So retransmission need not
    /// wait for a later packet to reveal the gap.
    pub fn handle_loss(&mut self, now: Instant) {
        self.counters.losses_reported += 1;
        // Consecutive drops count as one loss: a report for each would add packets to the flood that caused them.
        let again = self.losses_reported_at.map_or(now, |last| last + LOSS_REPORT_INTERVAL);
        self.loss_due.get_or_insert(again.max(now));
    }

    fn report_losses(&mut self, now: Instant) {
        if self.loss_due.is_none_or(|at| at > now) {
            return;
        }
        (self.loss_due, self.losses_reported_at) = (None, Some(now));
        for view_streams in self.group_streams.values_mut() {
            view_streams.view_streams.handle_loss(now);
            view_streams.touched = true;
        }
        self.peers.handle_loss(now);
    }

    /// When [`Self::poll`] is due if nothing comes sooner.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        let group_streams = self.group_streams.values().filter_map(GroupStreams::deadline).min();
        let delay = self.set.timing.ack_delay;
        let channels = self.peers.deadline(delay, self.congested);
        let stage = match &self.stage {
            Stage::Searching(search) => Some(search.deadline()),
            Stage::Member | Stage::Leaving { .. } => self.membership_deadline(),
            Stage::Over => return None,
        };
        let parts = self.parts_deadline();
        [group_streams, channels, stage, parts, self.giving_deadline(), self.loss_due].into_iter().flatten().min()
    }

    /// Adds addresses at which to look for the cell. Beyond [`SEEDS_MAX`] they are ignored.
    pub fn add_seeds(&mut self, seeds: &[SocketAddr]) {
        for seed in seeds {
            let is_new = !self.set.seeds.contains(seed) && *seed != self.set.me.control;
            if is_new && self.set.seeds.len() < SEEDS_MAX {
                self.set.seeds.push(*seed);
            }
        }
    }

    /// Queues a reliable point-to-point message to a member of the cell view. Accepted means queued.
    ///
    /// [`Event::InDoubt`] reports what its receiver has not acknowledged when this incarnation ends. A leave first
    /// waits for the acknowledgement.
    ///
    /// # Errors
    /// [`CommandError::NoSuchProcess`], [`CommandError::NoCredit`] when too much waits already,
    /// [`CommandError::TooLong`], [`CommandError::Over`]; nothing was queued.
    pub fn send(&mut self, _now: Instant, to: Incarnation, payload: &[u8]) -> Result<(), CommandError> {
        if matches!(self.stage, Stage::Over) {
            return Err(CommandError::Over);
        }
        if payload.len() > MESSAGE_BYTES_MAX - 1 {
            return Err(CommandError::TooLong(payload.len()));
        }
        if self.directory.rank(to).is_none() {
            return Err(CommandError::NoSuchProcess);
        }
        let peer = self.peers.get_mut(to).ok_or(CommandError::NoSuchProcess)?;
        let message = Bytes::from([&[port::DATA_MESSAGE][..], payload].concat());
        let taken = peer.data_channel.send_counted(message, self.set.limits.channel_window_bytes);
        self.counters.sends_refused += u64::from(taken.is_err());
        taken.map_err(|_full| CommandError::NoCredit)
    }

    /// Sends `parts`, concatenated, to one member of the group, which may be this process. It comes into that member's
    /// inbox of the group after all multicasts of the group that were delivered or sent here before.
    ///
    /// Accepted means sent, in the view that is returned. [`Effects::settled`] reports the outcome of messages to one member
    /// in the order in which they were sent; answers have none. From level 8 of the cell on (`docs/to-one.md`).
    ///
    /// # Errors
    /// [`CommandError::NotMember`]; [`CommandError::NoSuchMember`] if that process is not in the view;
    /// [`CommandError::BelowLevel`]; [`CommandError::NoWindow`] while too much is on its way to that member, and
    /// [`CommandError::NoCredit`] while multicasts of this process wait in the group, or no quorum is heard: try again after
    /// the next poll; [`CommandError::TooLong`], [`CommandError::Over`]. Nothing was sent.
    pub fn send_to(
        &mut self,
        group: GroupId,
        to: Incarnation,
        kind: ToOneKind,
        parts: &[&[u8]],
    ) -> Result<ViewNumber, CommandError> {
        if matches!(self.stage, Stage::Over) {
            return Err(CommandError::Over);
        }
        let may = self.primary;
        to_one_port!(self).send((group, to), kind, parts, may)
    }

    /// Multicasts `parts`, concatenated, to the group's view.
    ///
    /// Accepted means queued. It goes out at the latest with [`Self::poll`]. What is packed at once belongs to the view in
    /// force, as [`Accepted::sent`] says. Else it waits for room, during a view change for the next view, and belongs to
    /// the view that [`Effects::sent`] reports.
    ///
    /// # Errors
    /// [`CommandError::NotMember`], [`CommandError::NoCredit`] (try again after the next poll),
    /// [`CommandError::TooLong`], [`CommandError::Over`]; nothing was queued.
    pub fn multicast(
        &mut self,
        now: Instant,
        group: GroupId,
        order: Order,
        stability: Stability,
        parts: &[&[u8]],
        fx: &mut impl Effects,
    ) -> Result<Accepted, CommandError> {
        self.multicast_with(now, group, SendOptions::new(order, stability), parts, fx)
    }

    /// The same with more to choose.
    ///
    /// With [`SendOptions::in_view`] it is sent in that view of the group and in no other: what the sender composed on what
    /// it saw of that view is sent in it, or nobody gets it. It never waits here, so it is at most as long as fits into one
    /// packet beside the headers.
    ///
    /// With [`SendOptions::asks`] it is an ask: all members deliver it, and those that are to answer it are named to each of
    /// them ([`Delivery::asked`](crate::Delivery::asked)). These are the members of the view to which it is bound that do not
    /// observe; in a group with a state, those of them that this process knows by then to have it. Answers are messages to
    /// one member ([`Self::send_to`]). From level 9 of the cell on.
    ///
    /// With [`SendOptions::domain`] it goes to that domain of the group's state alone: of the list that the view in force has
    /// ([`GroupView::domains`](crate::GroupView::domains)), from level 10 of the cell on. It is in total order, and no ask.
    ///
    /// # Errors
    /// [`CommandError::NoSuchDomain`]: the group lists none there. [`CommandError::NotToDomain`].
    /// [`CommandError::OtherView`]: another view is in force, or this one is ending. [`CommandError::NoCredit`]: it
    /// cannot be sent now (try again after the next poll). [`CommandError::TooLong`], with the length, if it does not fit
    /// into a packet and has to. [`CommandError::BelowLevel`]: the cell has no asks. Else as for [`Self::multicast`]. Nothing
    /// was sent.
    #[inline]
    pub fn multicast_with(
        &mut self,
        now: Instant,
        group: GroupId,
        SendOptions { order, stability, in_view, asks, domain }: SendOptions,
        parts: &[&[u8]],
        fx: &mut impl Effects,
    ) -> Result<Accepted, CommandError> {
        if matches!(self.stage, Stage::Over) {
            return Err(CommandError::Over);
        }
        if asks && self.directory.level < ASKS_LEVEL {
            return Err(CommandError::BelowLevel { level: self.directory.level, needed: ASKS_LEVEL });
        }
        let len: usize = parts.iter().map(|p| p.len()).sum();
        if len > MESSAGE_BYTES_MAX {
            return Err(CommandError::TooLong(len));
        }
        // The application must have been notified of the group's view. Otherwise a process that left and came back
        // while its application read slowly would send in a view that the application has never seen.
        let in_group =
            |view_streams: &&mut GroupStreams| view_streams.meta.group == group && view_streams.meta.told.is_some();
        let view_streams = self.group_streams.values_mut().find(in_group).ok_or(CommandError::NotMember)?;
        view_streams.touched = true;
        let uniformity = stability.or(view_streams.meta.terms.uniformity);
        let request = Request { order, uniformity, asks, domain };
        if let Some(domain) = domain {
            if order != Order::Total || asks {
                return Err(CommandError::NotToDomain);
            }
            if domain.index() >= view_streams.meta.domains {
                return Err(CommandError::NoSuchDomain);
            }
        }
        let streams = &mut view_streams.view_streams;
        let longest = AskHead::bytes_max(view_streams.meta.members.len());
        if asks && (len > MESSAGE_BYTES_MAX - ASK_HEAD_BYTES || !streams.fits_packet(longest)) {
            return Err(CommandError::TooLong(len));
        }
        let taken = match in_view {
            None => {
                let mut port = streams_port!(self, fx, &view_streams.meta);
                streams.multicast(now, request, parts, &mut port)
            }
            Some(view) if view_streams.meta.view != view || streams.is_wedged() => return Err(CommandError::OtherView),
            Some(_) if !streams.fits_packet(streams.ask_head.of(request).len() + len) => {
                return Err(CommandError::TooLong(len));
            }
            Some(_) => {
                let mut port = streams_port!(self, fx, &view_streams.meta);
                streams.multicast_at_once(now, request, parts, &mut port).map(Packing::Packed)
            }
        };
        let sent = match taken.ok_or(CommandError::NoCredit)? {
            Packing::Packed(seq) => {
                self.counters.count_sent(len);
                Some(Sent { view: view_streams.meta.view, seq })
            }
            Packing::Queued => None,
        };
        Ok(Accepted { uniformity, sent })
    }

    /// The packet space of the group's view in force here.
    fn space_of(&self, group: GroupId) -> Option<Space> {
        self.group_streams.iter().find(|(_, f)| f.meta.group == group).map(|(&space, _)| space)
    }

    /// Starts a graceful leave: what was sent becomes stable or acknowledged first, then a view without this process is
    /// decided.
    ///
    /// [`Event::Left`] reports the end. Outside the primary partition nobody can decide that view, so the process just
    /// ends after a while.
    pub fn leave(&mut self, now: Instant) {
        if self.leaving.is_none() {
            self.leaving = Some(ending::Stop::new(now));
            self.attention = true;
        }
    }

    /// This incarnation.
    #[must_use]
    pub fn me(&self) -> Incarnation {
        self.set.me.incarnation
    }

    /// The cell view in force.
    #[must_use]
    pub fn cell_view(&self) -> Option<&Arc<CellView>> {
        self.cell_view.as_ref()
    }

    /// Whether this process is in the primary partition.
    #[must_use]
    pub fn is_primary(&self) -> bool {
        self.primary && matches!(self.stage, Stage::Member | Stage::Leaving { .. })
    }

    /// Where this incarnation stands, as of the last poll or packet. It may be ahead of the events that the application
    /// has taken.
    #[must_use]
    #[inline]
    pub fn membership(&self) -> Membership {
        match self.stage {
            Stage::Searching(_) => Membership::Searching,
            Stage::Member if self.primary => Membership::Primary,
            Stage::Member => Membership::NonPrimary,
            Stage::Over if self.was_excluded => Membership::Excluded,
            Stage::Leaving { .. } | Stage::Over => Membership::Over,
        }
    }

    /// True after [`Event::Excluded`], [`Event::Renounced`] or [`Event::Left`].
    #[must_use]
    pub fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Over)
    }

    /// This process's rank in the cell view.
    fn my_rank(&self) -> Rank {
        self.directory.rank(self.me()).unwrap_or_default()
    }

    fn enter_stage(&mut self, event: StageEvent, stage: Stage) {
        event.check(self.stage.state(), stage.state());
        self.stage = stage;
    }

    /// Ends this incarnation. `event` is the last one that the application gets.
    fn end(&mut self, event: Event) {
        self.enter_stage(StageEvent::End, Stage::Over);
        self.was_excluded = matches!(event, Event::Excluded { .. } | Event::Renounced { .. });
        Coordinator::end(&mut self.coordinator, BallotEvent::End);
        self.group_streams.values().for_each(|f| self.counters.add_token(f.view_streams.token_counts()));
        self.left_undelivered = self.app.len();
        for view_streams in self.group_streams.values() {
            let queued = view_streams.view_streams.queued();
            self.app.unsent(view_streams.meta.group, queued.messages);
        }
        to_one_port!(self).end_all();
        for (to, messages) in self.in_doubt() {
            self.app.event(Event::InDoubt { to, messages });
        }
        if self.was_excluded {
            // The others may turn out to lack the state of its groups, which then wait for it (`docs/orphans.md`).
            self.freeze();
        }
        self.group_streams.clear();
        self.past.clear();
        self.early.clear();
        // Last: unsent messages and those in doubt are reported before the event that ends the stay.
        self.app.event(event);
    }

    /// Unacknowledged messages by receiver, for the members of the last announced cell view. A count stands for the
    /// messages accepted last.
    fn in_doubt(&self) -> Vec<(Incarnation, u64)> {
        let members = self.cell_view.iter().flat_map(|view| &view.members).map(|info| info.incarnation);
        let unreceived = |who| Some((who, self.peers.get(who)?.data_channel.unreceived() as u64));
        members.filter_map(unreceived).filter(|(_, messages)| *messages > 0).collect()
    }

    /// Multicasts by group that are lost if this process is given up now, and that no taken [`Event::Unsent`] has
    /// reported.
    pub fn unsent(&self) -> impl Iterator<Item = (GroupId, u64)> {
        let queued = self
            .group_streams
            .values()
            .map(|view_streams| (view_streams.meta.group, view_streams.view_streams.queued().messages as u64));
        queued.filter(|(_, messages)| *messages > 0).chain(self.app.unreported_unsent())
    }
}

#[cfg(test)]
mod tests;
