//! Orphaned groups at one process: groups that wait for members that were cut off, and the state that a process keeps
//! of them through an exclusion (`docs/orphans.md`).
//!
//! An excluded process keeps, of each group whose state it has, the streams of the last view that it installed. Its
//! next incarnation takes them over and names in its requests the groups that can continue from there. The decree that
//! makes one of them the next view of its group makes the process deliver what it kept; before that it delivers nothing
//! of it.

mod deaths;
mod kept;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::app::{Item, OwnedDelivery};
use super::groups::Ready;
use super::{Process, REQUESTS_MAX, Stage};
use crate::api::{CommandError, Event};
use crate::id::{CellInstance, GroupId, Incarnation};
use crate::member::{
    GroupChange, GroupEntry, INCARNATIONS_MAX, Orphan, RequestList, Return, Returns, awaited, holders,
};
use crate::time::Instant;
use kept::{KeptGroup, KeptPosition};

pub use kept::Kept;
pub(super) use kept::OrphanRecovery;

/// Upper bound on the proofs that a member passes on to the coordinator at a time. A decree that uses some makes room.
const DEAD_MAX: usize = 256;
const _: () = assert!(DEAD_MAX <= REQUESTS_MAX, "members take a list with all of them");

/// Time after the first holder of an orphan's state is back in which others may come: they may hold more.
const GATHER: Duration = Duration::from_secs(1);

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

    /// Takes note that the operating system proved this incarnation dead.
    pub fn handle_death(&mut self, _now: Instant, dead: Incarnation) {
        let is_news = |rank| dead != self.me() && !self.failure_detector.is_dead(rank);
        self.counters.deaths_reported += u64::from(self.directory.rank(dead).is_some_and(is_news));
        // A welcome from a dead member is never completed. Another member may send one at once.
        self.welcomes.forget(dead);
        self.joiners.remove(&dead);
        let (directory, awaited) = (&self.directory, awaited(&self.directory));
        let concerns = |who: Incarnation| directory.rank(who).is_some() || awaited.contains(&who);
        self.waiting.kept.deaths.add(dead, concerns);
        self.apply_deaths();
    }

    /// Applies each proof of death to the view in force: to a member, to the holders of groups that wait, and to those that
    /// may not know that they are out. Returns for how many that was news.
    ///
    /// Also after each installed view: a ballot that was under way may have left a process out without its proof.
    pub(super) fn apply_deaths(&mut self) -> u64 {
        let me = self.me();
        let Self { directory, failure_detector, waiting, out, .. } = self;
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
            if holders.contains(&dead) && waiting.dead.len() < DEAD_MAX {
                news += u64::from(waiting.dead.insert(dead));
            }
        }
        self.attention |= news > 0;
        news
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
