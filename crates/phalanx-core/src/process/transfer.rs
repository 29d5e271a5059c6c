//! State transfer: a joiner's state holds exactly the deliveries before its first view.
//!
//! Before it becomes a member, a joiner takes the snapshot of a member, the donor. It then takes every delivery that
//! the donor makes after the snapshot, and every view that it installs, in the donor's order, while senders continue. Once
//! it has caught up, it asks for membership. The view that holds it ends the donor's record: when the joiner has all of it, its state stands at the
//! cut, and it delivers what arrived in the new view meanwhile. If the donor dies or falls silent, the joiner starts
//! over with another donor. Senders never wait for a joiner: one that falls too far behind is given up, and begins
//! again with a new state.

mod donor;
mod joiner;
mod table;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::app::{Item, OwnedDelivery};
use super::groups::{DRAIN_PATIENCE, Ready};
use super::packets::{BULK_BYTES, OWED_STATE_BYTES};
use super::peers::Peer;
use super::waits::ROUNDS;
use super::{Process, Stage};
use crate::api::{Effects, Event};
use crate::id::{GroupId, Incarnation, LEVEL, Rank, ViewNumber};
use crate::member::{REPLAYED_VIEWS_LEVEL, StateMessage, has_agreed_state, replayed_bytes};
use crate::time::Instant;
use crate::wire::{DropReason, Space};
use donor::{Giving, GivingEvent, Moves, OutgoingTransfer, REPLAY_BYTES, ReachedBytes, order_from};
use joiner::{IncomingTransfer, Taking, TakingEvent};
use table::{AHEAD_BYTES, GIVING_MAX};

pub(super) use table::Transfers;

/// Length of a chunk: a little less than half of what may wait on a channel, so that one waits while another is sent.
const CHUNK_BYTES: usize = 30 * 1024;
const _: () = assert!(2 * CHUNK_BYTES < BULK_BYTES, "while one chunk is sent another waits");
const _: () = assert!((CHUNK_BYTES as u64) < AHEAD_BYTES, "a joiner is sent more than one chunk ahead");
const _: () = assert!(AHEAD_BYTES < OWED_STATE_BYTES as u64, "state that a donor sends ahead is received");
const _: () =
    assert!(PATIENCE.as_nanos() < DRAIN_PATIENCE.as_nanos(), "a joiner tries another donor before it is given up");
/// A donor that does not answer is given up after this time, or after [`ROUNDS`] round trips if these are longer. A
/// joiner that a donor gave up asks again after it, because a snapshot costs the donor's application.
const PATIENCE: Duration = Duration::from_secs(2);
/// A donor that has begun and owes more is given up after this many times `suspect_after`, like a member that answers
/// no coordinator, or after [`ROUNDS`] round trips if these are longer.
const SILENT_PATIENCE: u32 = 5;
const _: () = assert!(REPLAYED_VIEWS_LEVEL <= LEVEL, "a build knows the levels that it has rules for");

impl Process {
    /// Notes that the application here cannot use the state of `group` that it was given as complete. This process gives
    /// it to nobody, the others are told that it has none, and the group does not go on through it. It stays in the group
    /// until it leaves: call [`Self::leave_group`] as well. Without effect if it is not in the group, or if the application
    /// has yet to read that it left: the state was that of its earlier stay, and it may have come again.
    pub fn refuse_state(&mut self, group: GroupId) {
        let is_in = self.group_streams.values().any(|view_streams| view_streams.meta.group == group);
        if is_in && !self.app.has_unread_end(group) {
            self.transfers.refused.insert(group);
            self.transfers.stop_giving(|g| g.group == group);
        }
    }

    /// Advances the state transfer of a group that this process wants to be in. `group`: its number, if it exists.
    pub(super) fn seek_state(&mut self, now: Instant, name: &str, group: Option<GroupId>) {
        if self.transfers.taking.contains_key(name) {
            return;
        }
        let me = self.me();
        let entry = group.and_then(|group| Some((group, self.directory.groups.get(&group)?)));
        let Some((group, entry)) = entry else {
            return self.state_ready(name, Ready::IfNew);
        };
        if entry.members.contains(&me) {
            return; // it is left again first
        }
        let (view, observers) = (entry.view, entry.observers());
        let donors: Vec<Incarnation> = entry.members.iter().copied().filter(|who| !observers.contains(who)).collect();
        if let Some(want) = self.wants.get_mut(name) {
            self.counters.founded_by_others += u64::from(want.ready == Ready::IfNew);
            (want.ready, want.seeks) = (Ready::No, true);
        }
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
            view: None,
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
        fx: &mut dyn Effects,
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
        fx: &mut dyn Effects,
    ) {
        // A new request replaces the one before, whatever the answer to it is.
        self.transfers.stop_giving(|g| g.group == group && g.to == to);
        // The application here must have reached the view that the joiner knows. A process that comes again must not be
        // given what it delivered before it left.
        let meta = self.group_streams.values().find(|f| f.meta.group == group).map(|f| &f.meta);
        let told = meta.and_then(|meta| meta.told);
        let domains = meta.and_then(|meta| meta.told_domains.as_ref()).map(|list| list.to_vec());
        let is_member = told.is_some_and(|told| told >= view);
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
        let cannot = !is_member || self.transfers.has_nothing_to_give(&self.directory, self.set.me.incarnation, group);
        if cannot || is_in || busy || self.has_reported(group) || self.directory.rank(to).is_none() {
            self.send_state(to, &StateMessage::Abort { transfer });
            return;
        }
        let snapshot = fx.snapshot(group);
        if snapshot.is_none() && has_agreed_state(&self.directory, group) {
            // "None" would tell the joiner that the group has no state.
            self.send_state(to, &StateMessage::Abort { transfer });
            return;
        }
        let bytes = snapshot.as_ref().map(|s| s.len_bytes());
        let replays_views = self.directory.level >= REPLAYED_VIEWS_LEVEL;
        self.send_state(to, &StateMessage::Begin { transfer, bytes, view: told.filter(|_| replays_views), domains });
        let (Some(snapshot), Some(total)) = (snapshot, bytes) else { return };
        self.counters.transfers_given += 1;
        self.transfers.giving.push(OutgoingTransfer {
            group,
            to,
            transfer,
            state: Giving::Snapshot { snapshot, offset: 0 },
            total,
            replays_views,
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
            | StateMessage::ReplayView { transfer, .. }
            | StateMessage::CaughtUp { transfer }
            | StateMessage::Done { transfer, .. }
            | StateMessage::Abort { transfer } => *transfer,
            StateMessage::Ask { .. } | StateMessage::Taken { .. } => return,
        };
        // One channel carries all that this donor gives, and what was asked for last waits behind the rest. A donor that
        // is slow is not silent: another request would only begin anew what is half done.
        let all_of_donor = self.transfers.taking.values_mut().filter(|taking| taking.donor == from);
        all_of_donor.for_each(|taking| taking.heard = now);
        let found = self.transfers.taking.iter_mut().find(|(_, t)| t.transfer == transfer && t.donor == from);
        let Some((name, taking)) = found else { return };
        let (name, group, me) = (name.clone(), taking.group, self.set.me.incarnation);
        match message {
            // Nothing may be missing in a state. What comes out of order makes the transfer start over.
            StateMessage::Begin { .. } if taking.state != Taking::Asked => self.start_over(&name, now),
            StateMessage::Begin { bytes: None, .. } => {
                if has_agreed_state(&self.directory, group) {
                    return self.start_over(&name, now + PATIENCE); // the donor is wrong
                }
                if let Some(mut taking) = self.transfers.taking.remove(&name) {
                    taking.enter(TakingEvent::Nothing, Taking::Over);
                }
                if let Some(want) = self.wants.get_mut(&name) {
                    (want.ready, want.seeks) = (Ready::Yes, false);
                }
                self.advance_intents(now);
            }
            StateMessage::Begin { bytes: Some(bytes), view, domains, .. } => {
                taking.view = view;
                taking.enter(TakingEvent::Begin, Taking::Snapshot { expected: bytes, received: 0 });
                if bytes == 0 {
                    taking.enter(TakingEvent::Replay, Taking::Record);
                }
                let domains = domains.map(Into::into);
                self.app.event(Event::StateBegin { group, name: name.as_str().into(), bytes, view, domains });
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
            StateMessage::Replay { view, sender, seq, order, position, payload, domain, .. } => {
                if !taking.has_snapshot() {
                    return self.start_over(&name, now);
                }
                let Some((order, uniformity)) = order_from(order) else {
                    self.counters.drop(DropReason::Malformed);
                    return self.start_over(&name, now);
                };
                taking.came_bytes += payload.len() as u64 + REPLAY_BYTES;
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
                    asked: None,
                    domain,
                    payload,
                }));
            }
            StateMessage::ReplayView { view, .. } => {
                // A view left out would be missing in the state for ever.
                let follows = taking.view.is_some_and(|last| last.checked_add(1) == Some(view.view));
                if !taking.has_snapshot() || !follows || !view.is_sound(me) {
                    self.counters.records_astray += 1;
                    return self.start_over(&name, now);
                }
                taking.view = Some(view.view);
                let view = Arc::new(view.into_view(group, name.as_str().into()));
                taking.came_bytes += replayed_bytes(&view) as u64 + REPLAY_BYTES;
                self.counters.views_replayed += 1;
                self.app.event(Event::GroupViewReplayed(view));
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
        let has_all_views = taking.view.is_none_or(|last| last.checked_add(1) == Some(done));
        if done != first || !has_all_views {
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
            want.seeks = false;
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
    pub(super) fn start_over(&mut self, name: &str, again: Instant) {
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
            let goes_on = self.give_more(now, g) && !self.gives_up(now, g);
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
    fn give_more(&mut self, now: Instant, g: &mut OutgoingTransfer) -> bool {
        let sent_bytes = g.sent_bytes;
        let goes_on = self.give_what_fits(now, g);
        if g.sent_bytes > sent_bytes
            && let Some(peer) = self.peers.get(g.to)
        {
            g.moves.queued = peer.data_channel.queued();
        }
        goes_on
    }

    fn give_what_fits(&mut self, now: Instant, g: &mut OutgoingTransfer) -> bool {
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
            if !self.send_state(g.to, &next.message) {
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
            g.enter(GivingEvent::CatchUp, Giving::CaughtUp { since: now });
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
        let far = self.peers.get(donor).map_or(Duration::ZERO, Peer::round_trip) * ROUNDS;
        let patience = self.suspect_after() * SILENT_PATIENCE;
        let Some(taking) = self.transfers.taking.get_mut(name) else { return };
        let waits_for_view = taking.state == Taking::CaughtUp && taking.first_view.is_none();
        if waits_for_view || taking.taken_bytes < taking.came_bytes || !self.primary {
            taking.heard = now; // it waits for a view, or for the application here
        }
        let patience = if taking.state == Taking::Asked { PATIENCE } else { patience };
        let silent = now.since(taking.heard) > patience.max(far) + gap;
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

#[cfg(test)]
mod tests;
