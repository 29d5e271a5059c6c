//! Orphaned groups at one process: groups that wait for members that were cut off, and the state that a process keeps
//! of them through an exclusion (`docs/orphans.md`).
//!
//! An excluded process keeps, of each group whose state it has, the streams of the last view that it installed. Its
//! next incarnation takes them over and names in its requests the groups that can continue from there. The decree that
//! makes one of them the next view of its group makes the process deliver what it kept; before that it delivers nothing
//! of it.

mod deaths;
mod departed;
mod gathering;
mod kept;

use std::collections::BTreeMap;

use super::app::{AppQueue, Item, OwnedDelivery};
use super::groups::{GroupIntent, Ready};
use super::{Process, REQUESTS_MAX, Stage};
use crate::api::{CommandError, DeathProof, Event};
use crate::id::{CellInstance, GroupId, Incarnation};
use crate::member::{
    Directory, GroupChange, GroupEntry, GroupNames, GroupRoom, INCARNATIONS_MAX, NoRoom, Orphan, RequestList, Return,
    awaited, holders,
};
use crate::time::Instant;
use kept::{KeptGroup, KeptPosition};

pub use kept::Kept;
pub(super) use kept::OrphanRecovery;

/// Upper bound on the proofs that a member passes on to the coordinator at a time. A decree that uses some makes room.
const DEAD_MAX: usize = 256;
const _: () = assert!(DEAD_MAX <= REQUESTS_MAX, "members take a list with all of them");

impl Process {
    /// Keeps what this excluded incarnation has of its groups for the next one.
    pub(super) fn freeze(&mut self) {
        debug_assert!(matches!(self.stage, Stage::Over), "streams are kept when their process is over");
        let me = self.me();
        for view_streams in self.group_streams.take_values() {
            let group = view_streams.meta.group;
            // A group cannot continue from a state that is not whole.
            if self.transfers.has_nothing_to_give(&self.directory, self.set.me.incarnation, group) {
                continue;
            }
            let held = self.transfers.take_held(group);
            let delivery = |item| if let Item::Delivery(held) = item { Some(held) } else { None };
            let rest = held
                .into_iter()
                .filter_map(delivery)
                .map(|held| OwnedDelivery { replayed: true, asked: None, ..held })
                .collect();
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

    /// Takes note that the operating system proved this incarnation dead.
    pub fn handle_death(&mut self, _now: Instant, dead: Incarnation, proof: DeathProof) {
        let is_news = |rank| dead != self.me() && !self.failure_detector.is_dead(rank);
        self.counters.deaths_reported += u64::from(self.directory.rank(dead).is_some_and(is_news));
        // A welcome from a dead member is never completed. Another member may send one at once.
        self.welcomes.forget(dead);
        self.joiners.remove(&dead);
        let (directory, awaited) = (&self.directory, awaited(&self.directory));
        let concerns = |who: Incarnation| directory.rank(who).is_some() || awaited.contains(&who);
        self.waiting.kept.deaths.add(dead, proof, concerns);
        self.apply_deaths();
    }

    /// Applies each proof of death to the view in force: to a member, to the holders of groups that wait, and to those that
    /// may not know that they are out. Returns for how many that was news.
    ///
    /// Also after each installed view: a ballot that was under way may have left a process out without its proof.
    pub(super) fn apply_deaths(&mut self) -> u64 {
        let me = self.me();
        let Self { directory, failure_detector, waiting, out, leaving, .. } = self;
        if waiting.kept.deaths.iter().next().is_none() {
            return 0;
        }
        let (lost, holders) = (directory.lost(), holders(directory));
        let mut news = 0;
        for dead in waiting.kept.deaths.iter().filter(|dead| *dead != me) {
            if let Some(rank) = directory.rank(dead).filter(|rank| !failure_detector.is_dead(*rank)) {
                failure_detector.died(rank);
                news += 1;
            }
            if directory.may_hold(&lost, dead) {
                out.insert(dead);
            }
            leaving.iter_mut().for_each(|stop| stop.died(dead));
            if holders.contains(&dead) && waiting.dead.len() < DEAD_MAX {
                news += u64::from(waiting.dead.insert(dead));
            }
        }
        self.attention |= news > 0;
        news
    }

    /// Checks after an installed view which groups wait, and which kept states are still of use.
    pub(super) fn check_orphans(&mut self, now: Instant) {
        check_kept_groups(self, now);
        let orphans: BTreeMap<GroupId, Orphan> = self.directory.orphans().map(|(id, _, orphan)| (id, orphan)).collect();
        self.waiting.gathering.review(now, &self.directory, &orphans, &self.requests);
        self.waiting.given_up.retain(|group| orphans.contains_key(group));
        self.waiting.told.retain(|group, _| orphans.contains_key(group));
        let listed = |who: &Incarnation| orphans.values().any(|o| o.holders.iter().any(|h| h.who == *who));
        self.waiting.dead.retain(listed);
        self.report_orphans();
    }

    /// Notifies the application which members its wanted groups wait for, which groups are not made because too much
    /// waits, and which do not exist and are to be observed, if that is news.
    pub(super) fn report_orphans(&mut self) {
        let Self { directory, wants, waiting, app, set, .. } = self;
        for (group, entry, orphan) in directory.orphans().filter(|(_, entry, _)| wants.contains_key(&entry.name)) {
            let holders: Vec<Incarnation> = orphan.holders.iter().map(|holder| holder.who).collect();
            if waiting.told.get(&group) != Some(&holders) {
                waiting.told.insert(group, holders);
                let name = entry.name.as_str().into();
                app.event(Event::GroupOrphaned { group, name, waits_for: named(orphan) });
            }
        }
        if directory.rank(set.me.incarnation).is_some() {
            waiting.report_absent(directory, wants, app);
        }
        let Some(NoRoom { waiting: groups, bytes, bytes_max }) = GroupRoom::of(directory).lack(&set.me) else {
            return waiting.put_off.clear();
        };
        let names = GroupNames::of(directory);
        let is_new = |name: &&String| names.get(name).is_none();
        waiting.put_off.retain(|name| wants.contains_key(name) && is_new(&name));
        let is_wanted = |(_, want): &(&String, &GroupIntent)| want.leaving.is_none() && !want.only_observes(directory);
        for (name, _) in wants.iter().filter(is_wanted).filter(|(name, _)| is_new(name)) {
            if waiting.put_off.insert(name.clone()) {
                app.event(Event::GroupPutOff { name: name.as_str().into(), waiting: groups, bytes, bytes_max });
            }
        }
    }

    /// Reports of this process on groups that wait for an earlier incarnation of it.
    fn own_returns(&self) -> Vec<Return> {
        let kept = &self.waiting.kept;
        let by_group: BTreeMap<GroupId, &KeptGroup> = kept.groups.iter().map(|kept| (kept.group, kept)).collect();
        let of_group = |(group, entry, orphan): (GroupId, &GroupEntry, Orphan)| {
            let was = orphan.holders.iter().map(|holder| holder.who).find(|who| kept.lives.contains(who))?;
            let is_wanted = self.wants.get(&entry.name).is_some_and(|want| want.leaving.is_none());
            let here = by_group.get(&group).filter(|_| is_wanted);
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
        list.given_up = self.waiting.given_up.iter().filter_map(entry).collect();
        list.dead = self.waiting.dead.iter().copied().collect();
    }

    /// Continues a group from what this process kept, if it is to: the application gets the rest of it before the first
    /// view. If not, what was kept of a group of this name is of no use, which is told before that view.
    pub(super) fn go_on_from_kept(&mut self, change: &GroupChange) {
        let is_here = self.waiting.kept.is_of(self.instance, &self.directory);
        let groups = &mut self.waiting.kept.groups;
        let found = groups.iter().position(|kept| kept.group == change.group || *kept.name == *change.name);
        let kept = found.map(|at| groups.remove(at));
        let entry = |kept: &KeptGroup| self.directory.groups.get(&kept.group).filter(|_| is_here);
        let Some(revived) = change.revived() else {
            return kept.iter().for_each(|kept| self.app.event(forgotten(kept, entry(kept))));
        };
        let cut = change.cut.as_ref().map(|cut| &cut.prefixes);
        let is_there = |kept: &KeptGroup| {
            let place = matches!(&kept.place, KeptPosition::At(point) if cut == Some(&point.prefixes));
            place && kept.group == change.group && kept.view == revived.view
        };
        if !kept.as_ref().is_some_and(is_there) {
            // None is kept, or not the position that this process reported.
            kept.iter().for_each(|kept| self.app.event(forgotten(kept, entry(kept))));
            return self.transfers.retreat(change.group);
        }
        let Some(KeptGroup { name, was, view, rest, .. }) = kept else { return };
        debug_assert!(rest.iter().all(|held| held.replayed), "kept deliveries give no credit in the next view");
        self.counters.groups_revived += 1;
        // Not before the decree is installed: until then another holder may become the donor.
        self.app.event(Event::StateKept { group: change.group, name, was, view });
        rest.into_iter().for_each(|held| self.app.push(Item::Delivery(held)));
        self.left_undelivered = self.app.len();
        if let Some(want) = self.wants.get_mut(&change.name) {
            want.ready = Ready::Yes;
            want.seeks = false;
        }
    }
}

impl OrphanRecovery {
    /// Notifies the application which groups that it asked to observe do not exist.
    fn report_absent(&mut self, directory: &Directory, wants: &BTreeMap<String, GroupIntent>, app: &mut AppQueue) {
        let observes = |name: &String| wants.get(name).is_some_and(|want| want.only_observes(directory));
        if !wants.keys().any(observes) {
            return self.absent.clear();
        }
        let names = GroupNames::of(directory);
        let is_absent = |name: &String| observes(name) && names.get(name).is_none();
        self.absent.retain(is_absent);
        for name in wants.keys().filter(|name| is_absent(name)) {
            if self.absent.insert(name.clone()) {
                app.event(Event::GroupAbsent { name: name.as_str().into() });
            }
        }
    }
}

/// Checks which kept states are still of use.
fn check_kept_groups(process: &mut Process, now: Instant) {
    let mut kept = std::mem::take(&mut process.waiting.kept);
    let is_here = kept.is_of(process.instance, &process.directory);
    kept.groups.retain_mut(|group| {
        let entry = process.directory.groups.get(&group.group).filter(|_| is_here);
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
        process.app.event(forgotten(group, entry));
        false
    });
    process.waiting.kept = kept;
}

/// What was kept of a group is of no use. `entry`: the group, if it is still there; it says how many messages of each
/// sender the members went on with that went on from the same view.
fn forgotten(kept: &KeptGroup, entry: Option<&GroupEntry>) -> Event {
    let revived = entry.and_then(GroupEntry::revived).filter(|revived| revived.view == kept.view);
    let counts = revived.filter(|revived| revived.counts.len() == kept.members.len());
    let counted = counts.map(|revived| kept.members.iter().copied().zip(revived.counts).collect());
    Event::GroupForgotten { group: kept.group, name: kept.name.clone(), view: kept.view, kept: counted }
}

fn named(orphan: Orphan) -> Vec<(Incarnation, String)> {
    orphan.holders.into_iter().map(|holder| (holder.who, holder.name)).collect()
}

#[cfg(test)]
mod tests;
