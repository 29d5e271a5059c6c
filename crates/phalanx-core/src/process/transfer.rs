//! State transfer: a joiner's state holds exactly the deliveries before its first view.
//!
//! Before it becomes a member, a joiner takes the snapshot of a member, the donor. It then takes every delivery that
//! the donor makes after the snapshot, in the donor's order, while senders continue. Once it has caught up, it asks for
//! membership. The view that holds it ends the donor's record: when the joiner has all of it, its state stands at the
//! cut, and it delivers what arrived in the new view meanwhile. If the donor dies or falls silent, the joiner starts
//! over with another donor. Senders never wait for a joiner: one that falls too far behind is given up, and begins
//! again with a new state.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::app::{AppQueue, Item, OwnedDelivery};
use super::groups::{DRAIN_PATIENCE, Ready};
use super::packets::{BULK_BYTES, OWED_STATE_BYTES};
use super::{Process, Stage};
use crate::api::{Delivery, Effects, Event, GroupView, Order, Snapshot, Uniformity};
use crate::id::{GroupId, Incarnation, Rank, ViewNumber};
use crate::member::StateMessage;
use crate::rng::Rng;
use crate::time::Instant;
use crate::transitions::transitions;
use crate::wire::{DropReason, Space};

/// Bytes of state that a donor may be ahead of what the joiner's application has taken.
const AHEAD_BYTES: u64 = 16 << 20;
/// Length of a chunk: a little less than half of what may wait on a channel, so that one waits while another is sent.
const CHUNK_BYTES: usize = 30 * 1024;
/// Bytes of deliveries recorded for a joiner, beyond what it has taken of the state. A joiner that takes the state
/// faster than the group delivers stays below, however long the state is. One that falls farther behind is given up.
const RECORD_BYTES: u64 = 64 << 20;
/// Bytes that a recorded delivery counts for beside its payload.
const REPLAY_BYTES: u64 = 64;
const GIVING_MAX: usize = 16;
const _: () = assert!(2 * CHUNK_BYTES < BULK_BYTES, "while one chunk is sent another waits");
const _: () = assert!((CHUNK_BYTES as u64) < AHEAD_BYTES, "a joiner is sent more than one chunk ahead");
const _: () = assert!(AHEAD_BYTES < OWED_STATE_BYTES as u64, "state that a donor sends ahead is received");
const _: () = assert!(AHEAD_BYTES < RECORD_BYTES, "a joiner that takes the state sent ahead is not outrun");
const _: () =
    assert!(PATIENCE.as_nanos() < DRAIN_PATIENCE.as_nanos(), "a joiner tries another donor before it is given up");
/// A donor that does not answer is given up after this time. A joiner that a donor gave up asks again after it, because
/// a snapshot costs the donor's application.
const PATIENCE: Duration = Duration::from_secs(2);
/// A donor that has begun and owes more is given up after this many times `suspect_after`, like a member that answers
/// no coordinator.
const SILENT_PATIENCE: u32 = 5;

/// All transfers of a process.
pub(super) struct Transfers {
    rng: Rng,
    giving: Vec<OutgoingTransfer>,
    taking: BTreeMap<String, IncomingTransfer>,
    /// Groups whose state transfer failed and is to be repeated, by name.
    tried: BTreeMap<String, Tried>,
    /// Items of groups whose state is not complete here. They wait behind the state.
    held: BTreeMap<GroupId, VecDeque<Item>>,
    /// Groups that took this process in before its state was complete. Their views are not reported, and they are left
    /// again.
    retreats: BTreeSet<GroupId>,
}

struct OutgoingTransfer {
    group: GroupId,
    to: Incarnation,
    transfer: u64,
    state: Giving,
    total: u64,
    /// Encoded deliveries since the snapshot.
    record: VecDeque<StateMessage>,
    record_bytes: u64,
    sent_bytes: u64,
    taken_bytes: u64,
    /// Whether more is to be sent as soon as the channel has room.
    waits: bool,
    /// The view that contains the joiner, once the application here has reached it. The record ends there.
    done: Option<ViewNumber>,
    moves: Moves,
}

/// Progress of a donor.
enum Giving {
    Snapshot { snapshot: Box<dyn Snapshot>, offset: u64 },
    Record,
    CaughtUp,
    Over,
}

transitions! {
    /// [`Giving`] without its data.
    states GivingState {
        /// The snapshot is on its way.
        Snapshot,
        /// All of the snapshot was sent, and the deliveries since follow.
        Record,
        /// The joiner was notified that nothing was left to send. Later deliveries still follow.
        CaughtUp,
        /// The transfer is gone.
        Over,
    }
    begin Snapshot; end [Over];
    events GivingEvent {
        /// The snapshot was sent to its end.
        Replay (Snapshot => Record),
        /// The record was sent to its end for the first time.
        CatchUp (Record => CaughtUp),
        /// A view holds the joiner, and the record up to it was sent.
        Finish (Record | CaughtUp => Over),
        /// The joiner wants no more, left, makes no progress, or is not taken in; or this process leaves the group.
        Stop (Snapshot | Record | CaughtUp => Over),
    }
}

impl Giving {
    fn state(&self) -> GivingState {
        match self {
            Self::Snapshot { .. } => GivingState::Snapshot,
            Self::Record => GivingState::Record,
            Self::CaughtUp => GivingState::CaughtUp,
            Self::Over => GivingState::Over,
        }
    }
}

/// Progress of a joiner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Taking {
    Asked,
    Snapshot { expected: u64, received: u64 },
    Record,
    CaughtUp,
    Over,
}

transitions! {
    /// [`Taking`] without its data.
    states TakingState {
        /// The donor has not answered.
        Asked,
        /// The donor sends its snapshot.
        Snapshot,
        /// The snapshot is here, and the donor's deliveries since follow.
        Record,
        /// The donor reported that nothing is left to send, so this process requests membership. Later deliveries still
        /// follow.
        CaughtUp,
        /// The transfer is gone.
        Over,
    }
    begin Asked; end [Over];
    events TakingEvent {
        /// The donor has frozen its state.
        Begin (Asked => Snapshot),
        /// The donor has no state to give.
        Nothing (Asked => Over),
        /// The last of the snapshot is here.
        Replay (Snapshot => Record),
        /// The donor reported that its record was sent.
        CatchUp (Record | CaughtUp => CaughtUp),
        /// The donor's record and the first view of this process meet.
        Complete (Record | CaughtUp => Over),
        /// The donor is gone, silent, gave up, or makes no sense: another transfer replaces this one.
        Fail (Asked | Snapshot | Record | CaughtUp => Over),
    }
}

impl Taking {
    fn state(self) -> TakingState {
        match self {
            Self::Asked => TakingState::Asked,
            Self::Snapshot { .. } => TakingState::Snapshot,
            Self::Record => TakingState::Record,
            Self::CaughtUp => TakingState::CaughtUp,
            Self::Over => TakingState::Over,
        }
    }
}

/// How far a joiner has come, and since when it has come no farther.
#[derive(Clone, Copy, Debug)]
struct Moves {
    /// Position in the joiner's channel up to which it carries the state.
    queued: u64,
    reached: ReachedBytes,
    /// Since when there was no progress.
    since: Instant,
}

/// Progress of a joiner, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ReachedBytes {
    /// Bytes acknowledged in its channel, up to the end of the state there.
    acknowledged: u64,
    /// Bytes that its application has taken.
    taken: u64,
}

struct IncomingTransfer {
    group: GroupId,
    donor: Incarnation,
    transfer: u64,
    state: Taking,
    /// When the donor was last heard in this transfer, or last owed nothing.
    heard: Instant,
    /// Bytes that arrived of the state and the record; below, those that the application took and those reported to the
    /// donor.
    came_bytes: u64,
    taken_bytes: u64,
    reported_bytes: u64,
    /// The view at which the donor's record ends, once the donor has reported it.
    done: Option<ViewNumber>,
    /// The first installed view that contains this process.
    first_view: Option<ViewNumber>,
}

/// The rest of a failed transfer.
struct Tried {
    group: GroupId,
    /// The donor, which is asked again only if there is no other.
    donor: Incarnation,
    /// Bytes that arrived and that the application has not taken. Until it has, the state is not requested again:
    /// otherwise items would pile up, here and at donors, for an application that hangs.
    untaken_bytes: u64,
    /// Earliest time for the next request.
    again: Instant,
}

impl OutgoingTransfer {
    fn enter(&mut self, event: GivingEvent, state: Giving) {
        event.check(self.state.state(), state.state());
        self.state = state;
    }

    fn is_over(&self) -> bool {
        matches!(self.state, Giving::Over)
    }

    /// Records a delivery that the snapshot does not contain.
    fn record(&mut self, delivery: &Delivery<'_>) {
        self.record_bytes += replay_bytes(delivery.payload);
        self.record.push_back(StateMessage::Replay {
            transfer: self.transfer,
            view: delivery.view,
            sender: delivery.sender,
            seq: delivery.seq,
            order: order_code(delivery.order, delivery.uniformity),
            position: delivery.position,
            payload: delivery.payload.to_vec(),
        });
    }

    /// Moves the first recorded delivery to the sent ones.
    fn replayed(&mut self) {
        if let Some(StateMessage::Replay { payload, .. }) = self.record.pop_front() {
            debug_assert!(self.record_bytes >= replay_bytes(&payload), "a recorded delivery is counted");
            self.record_bytes -= replay_bytes(&payload);
            self.sent_bytes += replay_bytes(&payload);
        }
    }

    /// Whether the group delivers so much faster than the joiner takes that it would not catch up.
    fn is_outrun(&self) -> bool {
        self.done.is_none() && self.record_bytes > RECORD_BYTES + self.taken_bytes.min(self.total)
    }
}

impl IncomingTransfer {
    fn enter(&mut self, event: TakingEvent, state: Taking) {
        event.check(self.state.state(), state.state());
        self.state = state;
    }

    /// Whether all of the snapshot is here.
    fn has_snapshot(&self) -> bool {
        matches!(self.state, Taking::Record | Taking::CaughtUp)
    }
}

/// Bytes that a recorded delivery counts for.
fn replay_bytes(payload: &[u8]) -> u64 {
    payload.len() as u64 + REPLAY_BYTES
}

impl Transfers {
    pub(super) fn new(rng: Rng) -> Self {
        Self {
            rng,
            giving: Vec::new(),
            taking: BTreeMap::new(),
            tried: BTreeMap::new(),
            held: BTreeMap::new(),
            retreats: BTreeSet::new(),
        }
    }

    /// Checks what must always hold.
    pub(super) fn check_invariants(&self) {
        assert!(self.giving.len() <= GIVING_MAX, "more states are given than may be");
        for (index, giving) in self.giving.iter().enumerate() {
            if let Giving::Snapshot { offset, .. } = &giving.state {
                assert!(*offset <= giving.total, "more of a snapshot was sent than it has");
            }
            assert!(giving.taken_bytes <= giving.sent_bytes, "more of a state was taken than was sent");
            assert_eq!(giving.record.is_empty(), giving.record_bytes == 0, "recorded bytes are miscounted");
            let later = &self.giving[index + 1..];
            let again = |other: &OutgoingTransfer| other.to == giving.to && other.group == giving.group;
            assert!(!later.iter().any(again), "a joiner is given a state twice");
        }
        assert!(
            self.taking.keys().all(|name| !self.tried.contains_key(name)),
            "a state is being taken and waits for its next attempt"
        );
        assert!(
            self.retreats.iter().all(|group| self.held.contains_key(group)),
            "events of a group that is left again would be reported"
        );
        let installed = self.taking.values().filter(|taking| taking.first_view.is_some());
        for taking in installed {
            assert!(self.held.contains_key(&taking.group), "a delivery could overtake the state before it");
        }
    }

    pub(super) fn gives(&self) -> bool {
        !self.giving.is_empty()
    }

    /// Whether some joiner takes the group's state from this process.
    pub(super) fn gives_in(&self, group: GroupId) -> bool {
        self.giving.iter().any(|g| g.group == group)
    }

    pub(super) fn is_active(&self) -> bool {
        !self.giving.is_empty() || !self.taking.is_empty()
    }

    /// Records a delivery to the application here for every joiner that takes the group's state.
    #[inline]
    pub(super) fn record(&mut self, delivery: &Delivery<'_>) {
        if self.giving.is_empty() || delivery.replayed {
            return;
        }
        for giving in self.giving.iter_mut().filter(|g| g.group == delivery.group && g.done.is_none()) {
            giving.record(delivery);
        }
    }

    /// Notes that the application here was notified of a group view. The record of a joiner in it ends.
    pub(super) fn view_reached(&mut self, view: &GroupView) {
        for giving in self.giving.iter_mut().filter(|g| g.group == view.group && g.done.is_none()) {
            if view.joined.contains(&giving.to) {
                giving.done = Some(view.view);
            }
        }
    }

    /// Notes that this process installed its first view of a group.
    pub(super) fn entered(&mut self, view: &Arc<GroupView>) {
        if let Some(taking) = self.taking.get_mut(&*view.name) {
            taking.first_view = Some(view.view);
            self.held.entry(view.group).or_default();
        }
    }

    /// Whether deliveries of some group wait for a transfer.
    pub(super) fn holds_any(&self) -> bool {
        !self.held.is_empty()
    }

    /// Whether deliveries of `group` wait, because its state is not complete here or earlier items wait.
    #[inline]
    pub(super) fn holds_back(&self, group: GroupId) -> bool {
        !self.held.is_empty() && self.held.contains_key(&group)
    }

    /// Queues an item of `group` behind those that wait, or for the application.
    pub(super) fn hold(&mut self, app: &mut AppQueue, item: Item, group: GroupId) {
        match self.held.get_mut(&group) {
            Some(held) => held.push_back(item),
            None => app.push(item),
        }
    }

    /// Leaves a group again that took this process in without its state. The application is not notified of it.
    pub(super) fn retreat(&mut self, group: GroupId) {
        self.held.insert(group, VecDeque::new());
        self.retreats.insert(group);
    }

    /// Whether the group is left again without notice.
    pub(super) fn retreats_from(&self, group: GroupId) -> bool {
        self.retreats.contains(&group)
    }

    /// Ends the transfers of a group that this process left. Returns false if the application was never notified that
    /// it was in.
    pub(super) fn group_left(&mut self, group: GroupId, app: &mut AppQueue) -> bool {
        let untold = self.is_incomplete(group);
        self.retreats.remove(&group);
        if untold {
            self.held.remove(&group);
        }
        self.stop_giving(|g| g.group == group);
        let taking = self.taking.iter().find(|(_, taking)| taking.group == group);
        if let Some(name) = taking.map(|(name, _)| name.clone()) {
            self.fail(&name, Instant::ZERO);
        }
        for item in self.held.remove(&group).unwrap_or_default() {
            app.push(item);
        }
        !untold
    }

    /// Takes the items of a group that waited here when this incarnation ended.
    pub(super) fn take_held(&mut self, group: GroupId) -> VecDeque<Item> {
        self.held.remove(&group).unwrap_or_default()
    }

    /// Restarts the clocks of all transfers after this process was away: that was neither a joiner's nor a donor's
    /// fault.
    pub(super) fn forgive(&mut self, now: Instant) {
        self.giving.iter_mut().for_each(|g| g.moves.since = now);
        self.taking.values_mut().for_each(|t| t.heard = now);
    }

    /// The transfer to `to` with this number.
    fn given_to(&mut self, to: Incarnation, transfer: u64) -> Option<&mut OutgoingTransfer> {
        self.giving.iter_mut().find(|g| g.to == to && g.transfer == transfer)
    }

    /// Stops the transfers for which `goes` returns true.
    fn stop_giving(&mut self, goes: impl Fn(&OutgoingTransfer) -> bool) {
        for giving in self.giving.iter_mut().filter(|giving| goes(giving)) {
            giving.enter(GivingEvent::Stop, Giving::Over);
        }
        self.giving.retain(|giving| !giving.is_over());
    }

    /// Stops a transfer that `to` gave up. Returns false if there is none with this number.
    fn give_up(&mut self, to: Incarnation, transfer: u64) -> bool {
        let before = self.giving.len();
        self.stop_giving(|g| g.to == to && g.transfer == transfer);
        self.giving.len() < before
    }

    /// Whether this process is in the group without its complete state.
    pub(super) fn is_incomplete(&self, group: GroupId) -> bool {
        self.retreats.contains(&group) || self.taking.values().any(|t| t.group == group && t.first_view.is_some())
    }

    /// Whether the state of the named group is being taken.
    pub(super) fn is_taking(&self, name: &str) -> bool {
        self.taking.contains_key(name)
    }

    /// Upper bound on the replayed deliveries that may wait for the application here.
    pub(super) fn ahead_max(&self) -> u64 {
        self.taking.len() as u64 * (AHEAD_BYTES / REPLAY_BYTES)
    }

    /// Counts `bytes` of a group's state as taken by the application.
    pub(super) fn taken(&mut self, group: GroupId, bytes: usize) {
        let bytes = bytes as u64 + REPLAY_BYTES;
        // The application takes items in order, so bytes of a failed transfer come first.
        if let Some(tried) = self.tried.values_mut().find(|t| t.group == group && t.untaken_bytes > 0) {
            tried.untaken_bytes = tried.untaken_bytes.saturating_sub(bytes);
        } else if let Some(taking) = self.taking.values_mut().find(|t| t.group == group) {
            taking.taken_bytes += bytes;
        }
    }

    /// Ends a failed transfer. It may be repeated at `again`, and once the application has taken what arrived of it.
    fn fail(&mut self, name: &str, again: Instant) -> Option<IncomingTransfer> {
        let mut taking = self.taking.remove(name)?;
        taking.enter(TakingEvent::Fail, Taking::Over);
        let untaken_bytes = taking.came_bytes.saturating_sub(taking.taken_bytes);
        self.tried.insert(name.to_owned(), Tried { group: taking.group, donor: taking.donor, untaken_bytes, again });
        Some(taking)
    }

    /// Whether it is too early to request the state of the named group.
    fn waits_to_try(&self, now: Instant, name: &str) -> bool {
        self.tried.get(name).is_some_and(|tried| tried.untaken_bytes > 0 || now < tried.again)
    }

    /// Releases items that waited for a state that is complete now. Without a quorum nothing is released: uniform
    /// messages may be among them, and the application was notified that it is not in the primary.
    fn release(&mut self, app: &mut AppQueue, is_primary: bool) {
        let release: Vec<GroupId> =
            self.held.keys().copied().filter(|group| is_primary && !self.is_incomplete(*group)).collect();
        for group in release {
            for item in self.held.remove(&group).unwrap_or_default() {
                app.push(item);
            }
        }
    }
}

impl Process {
    /// Advances the state transfer of a group that this process wants to be in.
    pub(super) fn seek_state(&mut self, now: Instant, name: &str) {
        if self.transfers.taking.contains_key(name) {
            return;
        }
        let me = self.me();
        let Some((group, view, donors)) =
            self.directory.group_named(name).map(|(id, e)| (id, e.view, e.members.clone()))
        else {
            return self.state_ready(name, Ready::IfNew);
        };
        if donors.contains(&me) {
            return; // it is left again first
        }
        self.state_ready(name, Ready::No);
        if self.transfers.waits_to_try(now, name) {
            return;
        }
        let mut heard: Vec<Incarnation> = donors
            .into_iter()
            .filter(|who| *who != me && self.directory.rank(*who).is_some_and(|r| self.failure_detector.hears(now, r)))
            .collect();
        if heard.is_empty() {
            return;
        }
        // The last donor may be heard, and its data socket or its application may not work.
        if heard.len() > 1
            && let Some(tried) = self.transfers.tried.get(name)
        {
            heard.retain(|who| *who != tried.donor);
        }
        let pick = usize::try_from(self.transfers.rng.below(heard.len() as u64)).unwrap_or(0);
        let (donor, transfer) = (heard[pick], self.transfers.rng.next_u64());
        let taking = IncomingTransfer {
            group,
            donor,
            transfer,
            state: Taking::Asked,
            heard: now,
            came_bytes: 0,
            taken_bytes: 0,
            reported_bytes: 0,
            done: None,
            first_view: None,
        };
        self.transfers.taking.insert(name.to_owned(), taking);
        self.transfers.tried.remove(name);
        self.send_state(donor, &StateMessage::Ask { group, view, transfer });
    }

    fn state_ready(&mut self, name: &str, ready: Ready) {
        if let Some(want) = self.wants.get_mut(name) {
            want.ready = ready;
        }
    }

    pub(super) fn handle_state(
        &mut self,
        now: Instant,
        from: Incarnation,
        message: StateMessage,
        fx: &mut impl Effects,
    ) {
        match message {
            StateMessage::Ask { group, view, transfer } => self.give_state(now, from, group, view, transfer, fx),
            StateMessage::Taken { transfer, bytes } => {
                if let Some(g) = self.transfers.given_to(from, transfer) {
                    g.taken_bytes = g.taken_bytes.max(bytes.min(g.sent_bytes));
                }
            }
            StateMessage::Abort { transfer } if self.transfers.give_up(from, transfer) => {}
            other => self.take_state(now, from, other),
        }
    }

    /// Handles a request for this process's state of `group`.
    fn give_state(
        &mut self,
        now: Instant,
        to: Incarnation,
        group: GroupId,
        view: ViewNumber,
        transfer: u64,
        fx: &mut impl Effects,
    ) {
        // A new request replaces the one before, whatever the answer to it is.
        self.transfers.stop_giving(|g| g.group == group && g.to == to);
        // The application here must have reached the view that the joiner knows. A process that comes again must not be
        // given what it delivered before it left.
        let is_member = self.application_view(group).is_some_and(|told| told >= view);
        // The joiner may be in already, without its state:
        //
        // 1. It requested membership during a transfer that then failed.
        // 2. A decree granted that request.
        // 3. It asks this donor, whose record would have to end at a view that lies behind.
        //
        // It leaves again and asks anew.
        let is_in = self.directory.groups.get(&group).is_some_and(|e| e.members.contains(&to));
        // On a full interface, two transfers at once take as long as one after the other, and the first joiner can be a
        // donor by then.
        let gives_another = self.transfers.giving.iter().any(|g| g.to != to);
        let busy = self.transfers.giving.len() >= GIVING_MAX || (gives_another && self.congested);
        // A leaver that reported that it gives no state may be let go by the decree to come.
        if !is_member || is_in || busy || self.has_reported(group) || self.directory.rank(to).is_none() {
            self.send_state(to, &StateMessage::Abort { transfer });
            return;
        }
        let snapshot = fx.snapshot(group);
        let bytes = snapshot.as_ref().map(|s| s.len_bytes());
        self.send_state(to, &StateMessage::Begin { transfer, bytes });
        let (Some(snapshot), Some(total)) = (snapshot, bytes) else { return };
        self.counters.transfers_given += 1;
        self.transfers.giving.push(OutgoingTransfer {
            group,
            to,
            transfer,
            state: Giving::Snapshot { snapshot, offset: 0 },
            total,
            record: VecDeque::new(),
            record_bytes: 0,
            sent_bytes: 0,
            taken_bytes: 0,
            waits: false,
            done: None,
            moves: Moves { queued: 0, reached: ReachedBytes::default(), since: now },
        });
    }

    /// Handles a donor's message.
    fn take_state(&mut self, now: Instant, from: Incarnation, message: StateMessage) {
        let transfer = match &message {
            StateMessage::Begin { transfer, .. }
            | StateMessage::Chunk { transfer, .. }
            | StateMessage::Replay { transfer, .. }
            | StateMessage::CaughtUp { transfer }
            | StateMessage::Done { transfer, .. }
            | StateMessage::Abort { transfer } => *transfer,
            StateMessage::Ask { .. } | StateMessage::Taken { .. } => return,
        };
        let found = self.transfers.taking.iter_mut().find(|(_, t)| t.transfer == transfer && t.donor == from);
        let Some((name, taking)) = found else { return };
        let (name, group) = (name.clone(), taking.group);
        taking.heard = now;
        match message {
            // Nothing may be missing in a state. What comes out of order makes the transfer start over.
            StateMessage::Begin { .. } if taking.state != Taking::Asked => self.start_over(&name, now),
            StateMessage::Begin { bytes: None, .. } => {
                taking.enter(TakingEvent::Nothing, Taking::Over);
                self.transfers.taking.remove(&name);
                self.state_ready(&name, Ready::Yes);
                self.advance_intents(now);
            }
            StateMessage::Begin { bytes: Some(bytes), .. } => {
                taking.enter(TakingEvent::Begin, Taking::Snapshot { expected: bytes, received: 0 });
                if bytes == 0 {
                    taking.enter(TakingEvent::Replay, Taking::Record);
                }
                if let Some(want) = self.wants.get_mut(&name) {
                    want.partial = true;
                }
                self.app.event(Event::StateBegin { group, name: name.as_str().into(), bytes });
            }
            StateMessage::Chunk { offset, bytes, .. } => {
                let Taking::Snapshot { expected, received } = &mut taking.state else {
                    return self.start_over(&name, now);
                };
                if offset != *received || bytes.len() as u64 > *expected - *received {
                    return self.start_over(&name, now);
                }
                *received += bytes.len() as u64;
                if received == expected {
                    taking.enter(TakingEvent::Replay, Taking::Record);
                }
                taking.came_bytes += bytes.len() as u64 + REPLAY_BYTES;
                self.app.push(Item::Restore { group, chunk: Bytes::from(bytes) });
            }
            StateMessage::Replay { view, sender, seq, order, position, payload, .. } => {
                if !taking.has_snapshot() {
                    return self.start_over(&name, now);
                }
                let Some((order, uniformity)) = order_from(order) else {
                    self.counters.drop(DropReason::Malformed);
                    return self.start_over(&name, now);
                };
                taking.came_bytes += replay_bytes(&payload);
                let payload = Bytes::from(payload);
                self.app.push(Item::Delivery(OwnedDelivery {
                    group,
                    view,
                    // A replayed delivery belongs to no stream here, and gives no credit.
                    space: Space(0),
                    rank: Rank::FIRST,
                    sender,
                    seq,
                    order,
                    uniformity,
                    position,
                    replayed: true,
                    payload,
                }));
            }
            StateMessage::CaughtUp { .. } => {
                if !taking.has_snapshot() {
                    return self.start_over(&name, now);
                }
                taking.enter(TakingEvent::CatchUp, Taking::CaughtUp);
                self.state_ready(&name, Ready::Yes);
                self.advance_intents(now);
            }
            StateMessage::Done { view, .. } => {
                if !taking.has_snapshot() {
                    return self.start_over(&name, now);
                }
                taking.done = Some(view);
                self.complete_state(now, &name);
            }
            StateMessage::Abort { .. } => {
                let begun = taking.state != Taking::Asked;
                self.start_over(&name, if begun { now + PATIENCE } else { now });
            }
            StateMessage::Ask { .. } | StateMessage::Taken { .. } => {}
        }
    }

    /// Completes the state once the donor's record and the first view here meet. Without a quorum both wait: some held
    /// deliveries are uniform, and the application was notified meanwhile that no quorum is heard.
    fn complete_state(&mut self, now: Instant, name: &str) {
        let Some(taking) = self.transfers.taking.get(name) else { return };
        let (Some(done), Some(first)) = (taking.done, taking.first_view) else { return };
        if done != first {
            self.counters.records_astray += 1;
            return self.start_over(name, now);
        }
        // The coordinator counts on the report that the state is not complete until the decision.
        let group = taking.group;
        if !self.primary || self.has_reported(group) {
            return;
        }
        self.left_undelivered = self.app.len();
        if let Some(mut taking) = self.transfers.taking.remove(name) {
            taking.enter(TakingEvent::Complete, Taking::Over);
        }
        if let Some(want) = self.wants.get_mut(name) {
            want.partial = false;
        }
        self.counters.transfers_taken += 1;
        self.app.event(Event::StateEnd { group });
        for item in self.transfers.held.remove(&group).unwrap_or_default() {
            self.app.push(item);
        }
        self.announce_state_to_group(group);
    }

    /// Whether this process reported what it holds of the group's view, and so what it has of the state, for a decision
    /// to come.
    fn has_reported(&self, group: GroupId) -> bool {
        self.group_streams
            .values()
            .any(|view_streams| view_streams.meta.group == group && view_streams.view_streams.is_wedged())
    }

    /// Starts a failed transfer over, not before `again`. If the group has taken this process in already, the view is
    /// not reported: the group is left again.
    fn start_over(&mut self, name: &str, again: Instant) {
        let Some(taking) = self.transfers.fail(name, again) else { return };
        self.left_undelivered = self.app.len();
        let entered = taking.first_view.is_some();
        self.send_state(taking.donor, &StateMessage::Abort { transfer: taking.transfer });
        self.state_ready(name, Ready::No);
        if entered {
            self.transfers.retreat(taking.group);
        }
    }

    /// Advances all transfers.
    pub(super) fn poll_transfers(&mut self, now: Instant) {
        if !self.transfers.is_active() && self.transfers.held.is_empty() {
            return;
        }
        if !matches!(self.stage, Stage::Member) {
            return;
        }
        self.transfers.release(&mut self.app, self.primary);
        let mut giving = std::mem::take(&mut self.transfers.giving);
        for g in &mut giving {
            let goes_on = self.give_more(g) && !self.gives_up(now, g);
            if !goes_on && !g.is_over() {
                g.enter(GivingEvent::Stop, Giving::Over);
            }
        }
        giving.retain(|g| !g.is_over());
        giving.append(&mut self.transfers.giving);
        self.transfers.giving = giving;
        for name in self.transfers.taking.keys().cloned().collect::<Vec<_>>() {
            self.watch_taking(now, &name);
        }
    }

    /// When more can be given: at once, if a channel has sent all the state it had.
    pub(super) fn giving_deadline(&self) -> Option<Instant> {
        let is_empty = |who| self.peers.get(who).is_some_and(|peer| !peer.data_channel.has_bulk());
        let is_member = matches!(self.stage, Stage::Member);
        let due = is_member && self.transfers.giving.iter().any(|g| g.waits && is_empty(g.to));
        due.then_some(Instant::ZERO)
    }

    /// Sends what fits of one transfer. Returns false when the transfer is over.
    fn give_more(&mut self, g: &mut OutgoingTransfer) -> bool {
        let sent_bytes = g.sent_bytes;
        let goes_on = self.give_what_fits(g);
        if g.sent_bytes > sent_bytes
            && let Some(peer) = self.peers.get(g.to)
        {
            g.moves.queued = peer.data_channel.queued();
        }
        goes_on
    }

    fn give_what_fits(&mut self, g: &mut OutgoingTransfer) -> bool {
        g.waits = false;
        if self.directory.rank(g.to).is_none() {
            return false;
        }
        // Only what the joiner's application has taken makes room. So an application that hangs costs a bounded amount.
        while g.sent_bytes < g.taken_bytes + AHEAD_BYTES {
            if let Giving::Snapshot { snapshot, offset } = &mut g.state {
                if *offset < g.total {
                    if !self.takes_state(g.to, CHUNK_BYTES) {
                        g.waits = true;
                        return true;
                    }
                    let mut bytes = Vec::with_capacity(CHUNK_BYTES);
                    snapshot.read(*offset, CHUNK_BYTES, &mut bytes);
                    let len = bytes.len() as u64;
                    if len == 0 || len > g.total - *offset {
                        self.send_state(g.to, &StateMessage::Abort { transfer: g.transfer });
                        return false; // the application's snapshot is shorter or longer than announced
                    }
                    let chunk = StateMessage::Chunk { transfer: g.transfer, offset: *offset, bytes };
                    if !self.send_state(g.to, &chunk) {
                        return true;
                    }
                    *offset += len;
                    g.sent_bytes += len + REPLAY_BYTES;
                    continue;
                }
                g.enter(GivingEvent::Replay, Giving::Record);
            }
            let Some(next) = g.record.front() else { break };
            if !self.send_state(g.to, next) {
                g.waits = true;
                return true;
            }
            g.replayed();
        }
        if matches!(g.state, Giving::Snapshot { .. }) || !g.record.is_empty() {
            return true;
        }
        if let Some(view) = g.done {
            let is_sent = self.send_state(g.to, &StateMessage::Done { transfer: g.transfer, view });
            if is_sent {
                g.enter(GivingEvent::Finish, Giving::Over);
            }
            return !is_sent;
        }
        if matches!(g.state, Giving::Record) && self.send_state(g.to, &StateMessage::CaughtUp { transfer: g.transfer })
        {
            g.enter(GivingEvent::CatchUp, Giving::CaughtUp);
        }
        true
    }

    /// Whether the joiner is given up.
    ///
    /// It is if for [`DRAIN_PATIENCE`] it neither received nor took more of the state, or has all of it and is not
    /// taken in. While this process hears no quorum that is nobody's fault. It is also given up if the group has outrun
    /// it.
    fn gives_up(&mut self, now: Instant, g: &mut OutgoingTransfer) -> bool {
        let Some(peer) = self.peers.get(g.to) else { return true };
        let reached =
            ReachedBytes { acknowledged: peer.data_channel.received().min(g.moves.queued), taken: g.taken_bytes };
        if reached != g.moves.reached || !self.primary {
            g.moves = Moves { reached, since: now, ..g.moves };
        }
        if g.is_outrun() {
            self.counters.transfers_outrun += 1;
        } else if now.since(g.moves.since) > DRAIN_PATIENCE {
            self.counters.transfers_stalled += 1;
        } else {
            return false;
        }
        self.send_state(g.to, &StateMessage::Abort { transfer: g.transfer });
        true
    }

    /// Reports progress to the donor, and gives it up when it is gone, or silent although it owes more.
    fn watch_taking(&mut self, now: Instant, name: &str) {
        let Some(taking) = self.transfers.taking.get_mut(name) else { return };
        let (donor, transfer) = (taking.donor, taking.transfer);
        if taking.taken_bytes >= taking.reported_bytes + AHEAD_BYTES / 4
            || (taking.taken_bytes > taking.reported_bytes && taking.has_snapshot())
        {
            taking.reported_bytes = taking.taken_bytes;
            let taken = StateMessage::Taken { transfer, bytes: taking.taken_bytes };
            self.send_state(donor, &taken);
        }
        let gap = self.directory.rank(donor).map_or(Duration::ZERO, |rank| self.turn_gap(rank));
        let patience = self.suspect_after() * SILENT_PATIENCE + gap;
        let Some(taking) = self.transfers.taking.get_mut(name) else { return };
        let waits_for_view = taking.state == Taking::CaughtUp && taking.first_view.is_none();
        if waits_for_view || taking.taken_bytes < taking.came_bytes || !self.primary {
            taking.heard = now; // it waits for a view, or for the application here
        }
        let silent = now.since(taking.heard) > if taking.state == Taking::Asked { PATIENCE + gap } else { patience };
        let group = taking.group;
        let donor_in_group = self.directory.groups.get(&group).is_some_and(|e| e.members.contains(&donor));
        let has_all = taking.done.is_some() && taking.first_view.is_some();
        self.counters.donors_silent += u64::from(silent && !has_all);
        if !has_all && (self.directory.rank(donor).is_none() || !donor_in_group || silent) {
            self.start_over(name, now);
        }
        self.complete_state(now, name);
    }
}

fn order_code(order: Order, uniformity: Uniformity) -> u8 {
    let code = match order {
        Order::Fifo => 0,
        Order::Causal => 1,
        Order::Total => 2,
    };
    code | u8::from(uniformity.is_uniform()) << 2
}

fn order_from(code: u8) -> Option<(Order, Uniformity)> {
    let order = match code & !4 {
        0 => Order::Fifo,
        1 => Order::Causal,
        2 => Order::Total,
        _ => return None,
    };
    Some((order, Uniformity::from_flag(code & 4 != 0)))
}

#[cfg(test)]
mod tests;
