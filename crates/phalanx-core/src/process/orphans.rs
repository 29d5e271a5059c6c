//! Orphaned groups at one process: groups that wait for members that were cut off, and the state that a process keeps
//! of them through an exclusion (`docs/orphans.md`).
//!
//! An excluded process keeps, of each group whose state it has, the streams of the last view that it installed. Its
//! next incarnation takes them over and names in its requests the groups that can continue from there. The decree that
//! makes one of them the next view of its group makes the process deliver what it kept; before that it delivers nothing
//! of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::app::{Item, OwnedDelivery};
use super::groups::Ready;
use super::port::{GroupStreams, ViewMeta};
use super::{Process, REQUESTS_MAX, Stage};
use crate::api::{CommandError, Event, Order, Uniformity};
use crate::id::{CellInstance, GroupId, Incarnation, Rank, Sequence, ViewNumber};
use crate::link::Ack;
use crate::member::{GroupChange, GroupEntry, INCARNATIONS_MAX, Orphan, RequestList, Return, ReturnPoint, Returns};
use crate::order::{Backpressure, Deliverable, Status, StreamOutput};
use crate::time::Instant;
use crate::wire::{PacketNumber, Space};

/// Time after the first holder of an orphan's state is back in which others may come: they may hold more.
const GATHER: Duration = Duration::from_secs(1);

/// Upper bound on the proofs of death of processes outside the cell, kept for groups that wait for them.
const DEAD_MAX: usize = 256;

/// Inventory for the next incarnation of a process: the states of groups that its application keeps.
#[derive(Default)]
pub struct Kept {
    /// The cell instance that they belong to.
    instance: CellInstance,
    /// Earlier incarnations of the process, oldest first.
    lives: Vec<Incarnation>,
    groups: Vec<KeptGroup>,
}

/// One group as an earlier incarnation of this process left it.
pub(super) struct KeptGroup {
    group: GroupId,
    name: Arc<str>,
    /// The incarnation that was in it.
    was: Incarnation,
    /// The last installed view; its members are in `members`.
    view: ViewNumber,
    members: Vec<Incarnation>,
    place: KeptPosition,
    /// Deliveries that belong to the state and were not handed to the application.
    rest: Vec<OwnedDelivery>,
}

/// Where a kept group stands.
enum KeptPosition {
    /// In the middle of its view.
    Within(Box<GroupStreams>),
    /// At the end of everything that is held of it.
    At(ReturnPoint),
    /// The held packets make no sense, so the group cannot continue from this state.
    Lost,
}

/// Output of the streams of an ended view: nothing is sent, deliveries are collected.
struct Shelf<'a> {
    meta: &'a ViewMeta,
    rest: &'a mut Vec<OwnedDelivery>,
}

impl StreamOutput for Shelf<'_> {
    fn multicast(&mut self, _space: Space, _number: PacketNumber, _frames: &[u8]) {}

    fn is_congested(&mut self) -> bool {
        false
    }

    fn retransmit(&mut self, _rank: Rank, _space: Space, _number: PacketNumber, _frames: &[u8]) {}

    fn ack(&mut self, _space: Space, _rank: Rank, _receipt: &Ack, _wants_stable: bool) {}

    fn status(&mut self, _space: Space, _rank: Option<Rank>, _status: &Status) {}

    fn deliver(&mut self, d: Deliverable<'_>) -> bool {
        let delivery = self.meta.delivery(d, true);
        self.rest.push(OwnedDelivery::of(&delivery, self.meta.space, d.rank));
        false
    }

    fn sent(&mut self, _seq: Sequence, _order: Order, _uniformity: Uniformity, _payload: &[u8]) {}

    /// These are messages of an earlier incarnation, which was told that they are in doubt.
    fn stable(&mut self, _seq: Sequence) {}

    fn stable_at_end(&mut self, _seq: Sequence) {}

    fn backpressure(&mut self, _bound: Backpressure) {}

    fn can_read(&mut self, _space: Space, _rank: Rank, _number: PacketNumber) -> bool {
        true
    }

    fn nonsense(&mut self, _rank: Rank) {}
}

impl KeptGroup {
    fn new(was: Incarnation, view_streams: GroupStreams, rest: Vec<OwnedDelivery>) -> Self {
        let ViewMeta { group, name, view, members, .. } = &view_streams.meta;
        let (group, name, view, members) = (*group, name.clone(), *view, members.clone());
        Self { group, name, was, view, members, place: KeptPosition::Within(Box::new(view_streams)), rest }
    }

    /// Appends to `rest` what is held of its view: all of it, or up to the cut at which the view is known to have
    /// ended.
    fn finish(&mut self, now: Instant, cut: Option<&[u64]>) {
        let KeptPosition::Within(kept) = &mut self.place else { return };
        let GroupStreams { view_streams, meta, .. } = kept.as_mut();
        let mut shelf = Shelf { meta, rest: &mut self.rest };
        let own: Vec<u64> = view_streams.wedge(now, &mut shelf).into_iter().map(|said| said.prefix).collect();
        let prefixes = cut.map_or(own, <[u64]>::to_vec);
        let done = view_streams.holds(&prefixes)
            && !view_streams.is_past(&prefixes)
            && view_streams.finish(&prefixes, &mut shelf).is_some();
        self.place = match done {
            true => {
                KeptPosition::At(ReturnPoint { view: self.view, prefixes, counts: view_streams.delivered_counts() })
            }
            false => KeptPosition::Lost,
        };
    }

    /// Moves to the position from which the group can continue, if it is in the entry's last view or in the one before.
    fn come_up(&mut self, now: Instant, entry: &GroupEntry, orphan: &Orphan, stayed: bool) {
        if self.view == entry.view {
            return self.finish(now, None);
        }
        let Some(cut) = entry.begun_at().filter(|_| stayed && entry.follows(self.view)) else {
            self.place = KeptPosition::Lost;
            return;
        };
        self.finish(now, Some(&cut));
        // It has thereby installed the entry's view, with nothing received in it.
        let streams = usize::try_from(orphan.members).unwrap_or(0);
        let nothing = ReturnPoint { view: entry.view, prefixes: vec![0; streams], counts: vec![0; streams] };
        self.place = match &self.place {
            KeptPosition::At(point) if point.prefixes == cut => KeptPosition::At(nothing),
            _ => KeptPosition::Lost,
        };
        self.view = entry.view;
    }
}

/// Notes of a process on orphans, and the states that it kept.
#[derive(Default)]
pub(super) struct OrphanRecovery {
    /// Groups that its own earlier incarnations kept.
    kept: Kept,
    /// Streams of the views in which it was excluded.
    frozen: Vec<KeptGroup>,
    /// Coordinator's note of when the first holder of a group's state was back.
    gathering: BTreeMap<GroupId, Instant>,
    /// Processes outside the cell that are proved dead.
    dead: BTreeSet<Incarnation>,
    /// Groups that an operator gave up at this process.
    given_up: BTreeSet<GroupId>,
    /// The holders that the application was last notified of, for each wanted group that waits.
    told: BTreeMap<GroupId, Vec<Incarnation>>,
}

impl Process {
    /// Keeps what this excluded incarnation has of its groups for the next one.
    pub(super) fn freeze(&mut self) {
        debug_assert!(matches!(self.stage, Stage::Over), "streams are kept when their process is over");
        let me = self.me();
        for view_streams in self.group_streams.take_values() {
            let group = view_streams.meta.group;
            // A group cannot continue from a state that is not whole.
            if self.transfers.is_incomplete(group) {
                continue;
            }
            let held = self.transfers.take_held(group);
            let delivery = |item| if let Item::Delivery(held) = item { Some(held) } else { None };
            let rest =
                held.into_iter().filter_map(delivery).map(|held| OwnedDelivery { replayed: true, ..held }).collect();
            self.waiting.frozen.push(KeptGroup::new(me, view_streams, rest));
        }
    }

    /// Takes what the next incarnation continues from with [`Self::resume`]. Call it once this one is over and the
    /// application took all its items. `keeps`: whether the application keeps the state of a group as it is now.
    pub fn take_kept(&mut self, mut keeps: impl FnMut(GroupId) -> bool) -> Kept {
        let mut kept = std::mem::take(&mut self.waiting.kept);
        // An incarnation that never entered a cell passes on the instance that the one before it was in.
        if self.instance != CellInstance(0) {
            kept.instance = self.instance;
        }
        kept.lives.push(self.me());
        let too_many = kept.lives.len().saturating_sub(INCARNATIONS_MAX);
        kept.lives.drain(..too_many);
        kept.groups.extend(std::mem::take(&mut self.waiting.frozen));
        kept.groups.retain(|group| keeps(group.group));
        kept
    }

    /// Continues from what an earlier incarnation of this process kept. Call it right after [`Self::new`].
    pub fn resume(&mut self, kept: Kept) {
        self.set.me.keeps(&kept.lives);
        self.waiting.kept = kept;
    }

    /// Requests that a group waits no more for members that are cut off. With them its state is lost, and its name is
    /// free again.
    ///
    /// # Errors
    /// [`CommandError::NotOrphan`], [`CommandError::NoView`], [`CommandError::Over`]; nothing was requested.
    pub fn give_up_group(&mut self, now: Instant, name: &str) -> Result<(), CommandError> {
        match self.stage {
            Stage::Over => return Err(CommandError::Over),
            Stage::Searching(_) => return Err(CommandError::NoView),
            Stage::Member | Stage::Leaving { .. } => {}
        }
        let found = self.directory.group_named(name).filter(|(_, entry)| entry.orphan().is_some());
        let (group, _) = found.ok_or(CommandError::NotOrphan)?;
        self.waiting.given_up.insert(group);
        self.advance_intents(now);
        Ok(())
    }

    /// Orphaned groups: the name of each, and the members that it waits for.
    pub fn orphans(&self) -> impl Iterator<Item = (&str, Vec<(Incarnation, String)>)> {
        self.directory.orphans().map(|(_, entry, orphan)| (&*entry.name, named(orphan)))
    }

    /// Notes the proved death of a process that is no member.
    pub(super) fn note_death(&mut self, dead: Incarnation) {
        let is_waited_for = |(_, _, orphan): (_, _, Orphan)| orphan.holders.iter().any(|holder| holder.who == dead);
        if self.waiting.dead.len() < DEAD_MAX && self.directory.orphans().any(is_waited_for) {
            self.waiting.dead.insert(dead);
            self.attention = true;
        }
    }

    /// Checks after an installed view which groups wait, and which kept states are still of use.
    pub(super) fn check_orphans(&mut self, now: Instant) {
        self.check_kept_groups(now);
        let orphans: BTreeMap<GroupId, Orphan> = self.directory.orphans().map(|(id, _, orphan)| (id, orphan)).collect();
        self.waiting.gathering.retain(|group, _| orphans.contains_key(group));
        self.waiting.given_up.retain(|group| orphans.contains_key(group));
        self.waiting.told.retain(|group, _| orphans.contains_key(group));
        let listed = |who: &Incarnation| orphans.values().any(|o| o.holders.iter().any(|h| h.who == *who));
        self.waiting.dead.retain(listed);
        debug_assert!(self.waiting.dead.len() <= DEAD_MAX, "more proofs of death are kept than may be");
        self.report_orphans();
    }

    /// Notifies the application which members its wanted groups wait for, if that is news.
    pub(super) fn report_orphans(&mut self) {
        let Self { directory, wants, waiting, app, .. } = self;
        for (group, entry, orphan) in directory.orphans().filter(|(_, entry, _)| wants.contains_key(&entry.name)) {
            let holders: Vec<Incarnation> = orphan.holders.iter().map(|holder| holder.who).collect();
            if waiting.told.get(&group) != Some(&holders) {
                waiting.told.insert(group, holders);
                let name = entry.name.as_str().into();
                app.event(Event::GroupOrphaned { group, name, waits_for: named(orphan) });
            }
        }
    }

    fn check_kept_groups(&mut self, now: Instant) {
        let mut kept = std::mem::take(&mut self.waiting.kept);
        let is_here = kept.instance == self.instance || self.directory.ancestors().contains(&kept.instance);
        kept.groups.retain_mut(|group| {
            let entry = self.directory.groups.get(&group.group).filter(|_| is_here);
            if let Some((entry, orphan)) = entry.and_then(|entry| Some((entry, entry.orphan()?))) {
                let listed = orphan.holders.iter().find(|holder| kept.lives.contains(&holder.who));
                match (listed, &group.place) {
                    (None, _) => {}
                    (Some(_), KeptPosition::At(point)) if point.view == entry.view => return true,
                    (Some(holder), _) => {
                        group.come_up(now, entry, &orphan, holder.stayed);
                        return true;
                    }
                }
            }
            let revived = entry.and_then(GroupEntry::revived).filter(|revived| revived.view == group.view);
            let counts = revived.filter(|revived| revived.counts.len() == group.members.len());
            let kept = counts.map(|revived| group.members.iter().copied().zip(revived.counts).collect());
            let (group, name, view) = (group.group, group.name.clone(), group.view);
            self.app.event(Event::GroupForgotten { group, name, view, kept });
            false
        });
        self.waiting.kept = kept;
    }

    /// Reports of this process on groups that wait for an earlier incarnation of it.
    fn own_returns(&self) -> Vec<Return> {
        let kept = &self.waiting.kept;
        let of_group = |(group, entry, orphan): (GroupId, &GroupEntry, Orphan)| {
            let was = orphan.holders.iter().map(|holder| holder.who).find(|who| kept.lives.contains(who))?;
            let is_wanted = self.wants.get(&entry.name).is_some_and(|want| want.leaving.is_none());
            let here = kept.groups.iter().find(|kept| kept.group == group).filter(|_| is_wanted);
            let from = here.and_then(|kept| match &kept.place {
                KeptPosition::At(point) if point.view == entry.view => Some(point.clone()),
                _ => None,
            });
            // Without a position it declines. Its holder is then struck off, and the group need not wait for it.
            Some(Return { group, was, from })
        };
        self.directory.orphans().filter_map(of_group).collect()
    }

    /// Adds to a member's requests what they say about groups that wait.
    pub(super) fn requests_of_orphans(&self, list: &mut RequestList) {
        if !self.directory.has_orphans() {
            return;
        }
        list.returns = self.own_returns();
        let entry = |group: &GroupId| self.directory.groups.get(group).map(|entry| entry.name.clone());
        list.given_up = self.waiting.given_up.iter().filter_map(entry).take(REQUESTS_MAX).collect();
        list.dead = self.waiting.dead.iter().copied().collect();
    }

    /// The changes that the next view should bring to groups that wait.
    pub(super) fn requested_returns(&mut self, now: Instant) -> BTreeMap<GroupId, Returns> {
        let mut all = BTreeMap::new();
        let decree = self.directory.decree;
        let gathering = &mut self.waiting.gathering;
        for (group, entry, orphan) in self.directory.orphans() {
            let is_listed = |who: &Incarnation| orphan.holders.iter().any(|holder| holder.who == *who);
            let streams = usize::try_from(orphan.members).unwrap_or(usize::MAX);
            // A holder is struck off by a proof of death, by its own statement, or by an operator. Silence strikes
            // nobody off: a member that is cut off may still have the state.
            let (mut struck, mut back) = (BTreeSet::new(), Vec::new());
            for (who, list) in self.requests.iter().filter(|(_, list)| list.decree == decree) {
                let Some(info) = self.directory.rank(*who).map(|rank| &self.directory.members[rank.index()]) else {
                    continue;
                };
                if list.given_up.contains(&entry.name) {
                    struck.extend(orphan.holders.iter().map(|holder| holder.who));
                }
                struck.extend(list.dead.iter().copied().filter(is_listed));
                let own = |back: &&Return| back.group == group && is_listed(&back.was) && info.is_or_keeps(back.was);
                // Only the holder itself, or a process whose member info names the holder as an earlier incarnation,
                // may speak for it.
                for said in list.returns.iter().filter(own) {
                    match &said.from {
                        None => _ = struck.insert(said.was),
                        Some(from) => {
                            let fits = from.prefixes.len() == streams && from.counts.len() == streams;
                            if from.view == entry.view && fits {
                                back.push((*who, said.clone()));
                            }
                        }
                    }
                }
            }
            let (mut donor, mut by_some) = (None, false);
            if back.is_empty() {
                gathering.remove(&group);
            } else {
                let since = *gathering.entry(group).or_insert(now);
                let has_answered = |who: Incarnation| struck.contains(&who) || back.iter().any(|(_, r)| r.was == who);
                by_some = !orphan.holders.iter().all(|holder| has_answered(holder.who));
                // A plain message may be known to one holder alone, and is lost if another one is the donor. So all
                // holders are waited for, but not for ever.
                if now.since(since) >= GATHER || !by_some {
                    let held = |back: &Return| back.from.iter().flat_map(|from| &from.prefixes).sum::<u64>();
                    // The holder of most packets is the donor, because whatever it lacks is lost. The incarnation
                    // breaks ties, so that the choice does not depend on the order of requests.
                    donor = back.into_iter().max_by_key(|(who, said)| (held(said), *who));
                }
            }
            if donor.is_some() || !struck.is_empty() {
                all.insert(group, Returns { donor, by_some, struck: struck.into_iter().collect() });
            }
        }
        all
    }

    /// Continues a group from what this process kept. The application gets the rest of it before the first view.
    pub(super) fn go_on_from_kept(&mut self, change: &GroupChange) {
        let Some(revived) = change.revived() else { return };
        let groups = &mut self.waiting.kept.groups;
        let found = groups.iter().position(|kept| kept.group == change.group);
        let Some(KeptGroup { name, was, view, place: KeptPosition::At(point), rest, .. }) =
            found.map(|at| groups.remove(at))
        else {
            return self.transfers.retreat(change.group);
        };
        let cut = change.cut.as_ref().map(|cut| &cut.prefixes);
        if view != revived.view || cut != Some(&point.prefixes) {
            return self.transfers.retreat(change.group); // it is not the position that this process reported
        }
        debug_assert!(rest.iter().all(|held| held.replayed), "kept deliveries give no credit in the next view");
        self.counters.groups_revived += 1;
        // Not before the decree is installed: until then another holder may become the donor.
        self.app.event(Event::StateKept { group: change.group, name, was, view });
        rest.into_iter().for_each(|held| self.app.push(Item::Delivery(held)));
        self.left_undelivered = self.app.len();
        if let Some(want) = self.wants.get_mut(&change.name) {
            want.ready = Ready::Yes;
            want.partial = false;
        }
    }
}

fn named(orphan: Orphan) -> Vec<(Incarnation, String)> {
    orphan.holders.into_iter().map(|holder| (holder.who, holder.name)).collect()
}

#[cfg(test)]
mod tests;
