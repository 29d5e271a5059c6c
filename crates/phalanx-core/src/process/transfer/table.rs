//! All state transfers of a process, and the items that wait behind a state.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::donor::{Giving, GivingEvent, OutgoingTransfer, RECORD_BYTES, REPLAY_BYTES};
use super::joiner::{IncomingTransfer, Taking, TakingEvent, Tried};
use crate::api::{Delivery, GroupView};
use crate::id::{GroupId, Incarnation};
use crate::member::{Directory, REPLAYED_VIEWS_LEVEL};
use crate::process::app::{AppQueue, Item};
use crate::rng::Rng;
use crate::time::Instant;

/// Bytes of state that a donor may be ahead of what the joiner's application has taken.
pub(super) const AHEAD_BYTES: u64 = 16 << 20;

pub(super) const GIVING_MAX: usize = 16;

const _: () = assert!(AHEAD_BYTES < RECORD_BYTES, "a joiner that takes the state sent ahead is not outrun");

/// All transfers of a process.
pub(in crate::process) struct Transfers {
    pub(super) rng: Rng,
    pub(super) giving: Vec<OutgoingTransfer>,
    pub(super) taking: BTreeMap<String, IncomingTransfer>,
    /// Groups whose state transfer failed and is to be repeated, by name.
    pub(super) tried: BTreeMap<String, Tried>,
    /// Items of groups whose state is not complete here. They wait behind the state.
    pub(super) held: BTreeMap<GroupId, VecDeque<Item>>,
    /// Groups that took this process in before its state was complete. Their views are not reported, and they are left
    /// again.
    pub(super) retreats: BTreeSet<GroupId>,
    /// Groups whose state came whole and was refused by the application. It has nothing that it could give.
    pub(super) refused: BTreeSet<GroupId>,
}

impl Transfers {
    pub(in crate::process) fn new(rng: Rng) -> Self {
        Self {
            rng,
            giving: Vec::new(),
            taking: BTreeMap::new(),
            tried: BTreeMap::new(),
            held: BTreeMap::new(),
            retreats: BTreeSet::new(),
            refused: BTreeSet::new(),
        }
    }

    /// Checks what must always hold.
    pub(in crate::process) fn check_invariants(&self) {
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

    pub(in crate::process) fn gives(&self) -> bool {
        !self.giving.is_empty()
    }

    /// The snapshots that are on their way to this process: group, donor, the bytes that are here, and all of them.
    pub(in crate::process) fn on_the_way(&self) -> impl Iterator<Item = (GroupId, Incarnation, u64, u64)> {
        self.taking.values().filter_map(|taking| match taking.state {
            Taking::Snapshot { expected, received } => Some((taking.group, taking.donor, received, expected)),
            _ => None,
        })
    }

    /// Whether some joiner takes the group's state from this process.
    pub(in crate::process) fn gives_in(&self, group: GroupId) -> bool {
        self.giving.iter().any(|g| g.group == group)
    }

    /// Whether some joiner was given all of the group's state, not longer ago than `patience`, and waits for the view that
    /// takes it in or for the end of the record.
    pub(in crate::process) fn is_to_be_joined(&self, now: Instant, group: GroupId, patience: Duration) -> bool {
        let waits = |g: &OutgoingTransfer| match g.state {
            Giving::CaughtUp { since } => g.group == group && now.since(since) <= patience,
            Giving::Snapshot { .. } | Giving::Record | Giving::Over => false,
        };
        self.giving.iter().any(waits)
    }

    pub(in crate::process) fn is_active(&self) -> bool {
        !self.giving.is_empty() || !self.taking.is_empty()
    }

    /// Records a delivery to the application here for every joiner that takes the group's state.
    #[inline]
    pub(in crate::process) fn record(&mut self, delivery: &Delivery<'_>) {
        if self.giving.is_empty() || delivery.replayed {
            return;
        }
        for giving in self.giving.iter_mut().filter(|g| g.group == delivery.group && g.done.is_none()) {
            giving.record(delivery);
        }
    }

    /// Notes that the application here was notified of a group view. The record of a joiner in it ends. It is recorded for
    /// the others.
    pub(in crate::process) fn view_reached(&mut self, view: &GroupView) {
        for giving in self.giving.iter_mut().filter(|g| g.group == view.group && g.done.is_none()) {
            if view.joined.contains(&giving.to) {
                giving.done = Some(view.view);
            } else {
                giving.record_view(view);
            }
        }
    }

    /// Notes that the cell rose from one level to another. At the one from which on views are replayed, the transfers stop that
    /// replay none and whose joiner is in no view: nobody comes in at that level without the views since its snapshot.
    /// Returns these joiners, with the numbers of their transfers.
    pub(in crate::process) fn risen(&mut self, from: u16, to: u16) -> Vec<(Incarnation, u64)> {
        if !(from < REPLAYED_VIEWS_LEVEL && to >= REPLAYED_VIEWS_LEVEL) {
            return Vec::new();
        }
        let goes = |g: &OutgoingTransfer| !g.replays_views && g.done.is_none();
        let stopped = self.giving.iter().filter(|g| goes(g)).map(|g| (g.to, g.transfer)).collect();
        self.stop_giving(goes);
        stopped
    }

    /// The first view of a group is installed here. False: its state is not on its way. What comes of a group of that name
    /// that has ended is dropped.
    pub(in crate::process) fn entered(&mut self, view: &Arc<GroupView>) -> bool {
        let Some(taking) = self.taking.get_mut(&*view.name) else { return false };
        if taking.group != view.group {
            self.fail(&view.name, Instant::ZERO);
            return false;
        }
        taking.first_view = Some(view.view);
        self.held.entry(view.group).or_default();
        true
    }

    /// Whether deliveries of some group wait for a transfer.
    pub(in crate::process) fn holds_any(&self) -> bool {
        !self.held.is_empty()
    }

    /// Whether deliveries of `group` wait, because its state is not complete here or earlier items wait.
    #[inline]
    pub(in crate::process) fn holds_back(&self, group: GroupId) -> bool {
        !self.held.is_empty() && self.held.contains_key(&group)
    }

    /// Queues an item of `group` behind those that wait, or for the application.
    pub(in crate::process) fn hold(&mut self, app: &mut AppQueue, item: Item, group: GroupId) {
        match self.held.get_mut(&group) {
            Some(held) => held.push_back(item),
            None => app.push(item),
        }
    }

    /// Leaves a group again that took this process in without its state. The application is not notified of it.
    pub(in crate::process) fn retreat(&mut self, group: GroupId) {
        self.held.insert(group, VecDeque::new());
        self.retreats.insert(group);
    }

    /// Whether the group is left again without notice.
    pub(in crate::process) fn retreats_from(&self, group: GroupId) -> bool {
        self.retreats.contains(&group)
    }

    /// Ends the transfers of a group that this process left. Returns false if the application was never notified that
    /// it was in.
    pub(in crate::process) fn group_left(&mut self, group: GroupId, app: &mut AppQueue) -> bool {
        let untold = self.is_incomplete(group);
        self.retreats.remove(&group);
        self.refused.remove(&group);
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
    pub(in crate::process) fn take_held(&mut self, group: GroupId) -> VecDeque<Item> {
        self.held.remove(&group).unwrap_or_default()
    }

    /// Restarts the clocks of all transfers after this process was away: that was neither a joiner's nor a donor's
    /// fault.
    pub(in crate::process) fn forgive(&mut self, now: Instant) {
        for g in &mut self.giving {
            g.moves.since = now;
            if let Giving::CaughtUp { since } = &mut g.state {
                *since = now;
            }
        }
        self.taking.values_mut().for_each(|t| t.heard = now);
    }

    /// The transfer to `to` with this number.
    pub(super) fn given_to(&mut self, to: Incarnation, transfer: u64) -> Option<&mut OutgoingTransfer> {
        self.giving.iter_mut().find(|g| g.to == to && g.transfer == transfer)
    }

    /// Stops the transfers for which `goes` returns true.
    pub(super) fn stop_giving(&mut self, goes: impl Fn(&OutgoingTransfer) -> bool) {
        for giving in self.giving.iter_mut().filter(|giving| goes(giving)) {
            giving.enter(GivingEvent::Stop, Giving::Over);
        }
        self.giving.retain(|giving| !giving.is_over());
    }

    /// Stops a transfer that `to` gave up. Returns false if there is none with this number.
    pub(super) fn give_up(&mut self, to: Incarnation, transfer: u64) -> bool {
        let before = self.giving.len();
        self.stop_giving(|g| g.to == to && g.transfer == transfer);
        self.giving.len() < before
    }

    /// Whether this process is in the group without its complete state.
    pub(in crate::process) fn is_incomplete(&self, group: GroupId) -> bool {
        self.retreats.contains(&group) || self.taking.values().any(|t| t.group == group && t.first_view.is_some())
    }

    /// Whether this process is in the group without its state: for now, or because it observes.
    pub(in crate::process) fn lacks_state(&self, directory: &Directory, me: Incarnation, group: GroupId) -> bool {
        self.is_incomplete(group) || directory.groups.get(&group).is_some_and(|entry| entry.has_observer(me))
    }

    /// Whether this process has no state of the group that another could go on with: it is in without it, or its
    /// application refused the one that came.
    pub(in crate::process) fn has_nothing_to_give(
        &self,
        directory: &Directory,
        me: Incarnation,
        group: GroupId,
    ) -> bool {
        self.refused.contains(&group) || self.lacks_state(directory, me, group)
    }

    /// Whether this process is in a view of a group whose state it is still taking.
    pub(in crate::process) fn is_in_without_state(&self) -> bool {
        self.taking.values().any(|taking| taking.first_view.is_some())
    }

    /// The group of that name whose state this process takes.
    #[cfg(test)]
    pub(in crate::process) fn taken_group(&self, name: &str) -> Option<GroupId> {
        self.taking.get(name).map(|taking| taking.group)
    }

    /// Upper bound on the replayed deliveries that may wait for the application here.
    pub(in crate::process) fn ahead_max(&self) -> u64 {
        self.taking.len() as u64 * (AHEAD_BYTES / REPLAY_BYTES)
    }

    /// Counts `bytes` of a group's state as taken by the application.
    pub(in crate::process) fn taken(&mut self, group: GroupId, bytes: usize) {
        let bytes = bytes as u64 + REPLAY_BYTES;
        // The application takes items in order, so bytes of a failed transfer come first.
        if let Some(tried) = self.tried.values_mut().find(|t| t.group == group && t.untaken_bytes > 0) {
            tried.untaken_bytes = tried.untaken_bytes.saturating_sub(bytes);
        } else if let Some(taking) = self.taking.values_mut().find(|t| t.group == group) {
            taking.taken_bytes += bytes;
        }
    }

    /// Ends a failed transfer. It may be repeated at `again`, and once the application has taken what arrived of it.
    pub(super) fn fail(&mut self, name: &str, again: Instant) -> Option<IncomingTransfer> {
        let mut taking = self.taking.remove(name)?;
        taking.enter(TakingEvent::Fail, Taking::Over);
        let untaken_bytes = taking.came_bytes.saturating_sub(taking.taken_bytes);
        self.tried.insert(name.to_owned(), Tried { group: taking.group, donor: taking.donor, untaken_bytes, again });
        Some(taking)
    }

    /// Whether it is too early to request the state of the named group.
    pub(super) fn waits_to_try(&self, now: Instant, name: &str) -> bool {
        self.tried.get(name).is_some_and(|tried| tried.untaken_bytes > 0 || now < tried.again)
    }

    /// Releases items that waited for a state that is complete now. Without a quorum nothing is released: uniform
    /// messages may be among them, and the application was notified that it is not in the primary.
    pub(super) fn release(&mut self, app: &mut AppQueue, is_primary: bool) {
        let release: Vec<GroupId> =
            self.held.keys().copied().filter(|group| is_primary && !self.is_incomplete(*group)).collect();
        for group in release {
            for item in self.held.remove(&group).unwrap_or_default() {
                app.push(item);
            }
        }
    }
}
