//! Observes the whole cell from outside, as no process can.

use std::collections::BTreeSet;

use phalanx_core::process::Activity;
use phalanx_core::{CellView, Incarnation, ViewNumber};
use phalanx_trace::{Event, LeaveReason};

use crate::fault::{Busy, Role};
use crate::slot::Slot;
use crate::tenths::{beside, snapshot_at, takes_at};
use crate::world::Doomed;
use crate::world::{World, coordinates, is_whole};

impl World {
    /// The activity of a slot's process; the default if none runs.
    pub(crate) fn activity(&self, index: usize) -> Activity {
        self.slots[index].activity
    }

    /// Whether a slot's process is `busy`.
    pub(crate) fn is_busy(&self, index: usize, busy: Busy) -> bool {
        let activity = self.activity(index);
        match busy {
            Busy::Flush => activity.flushing || coordinates(&activity),
            Busy::Gathering => activity.gathering,
            Busy::Proposal => activity.proposing,
            Busy::Join => activity.joining,
            Busy::Transfer => activity.transferring,
            Busy::Founding => activity.founding,
            Busy::Welcome => activity.welcoming,
            Busy::Incomplete => activity.incomplete,
            Busy::Ahead => self.slots[index].app.told.is_ahead() && self.slots[index].runs(),
            Busy::Tenth(tenth) => activity.transferring && takes_at(self, index, tenth).is_some(),
        }
    }

    /// Whether any process is `busy`.
    pub(crate) fn somebody_is(&self, busy: Busy) -> bool {
        (0..self.slots.len()).any(|index| self.is_busy(index, busy))
    }

    /// The slot that plays `role` now.
    pub(crate) fn resolve(&mut self, role: Role) -> Option<usize> {
        match role {
            Role::Slot(index) => Some(index % self.slots.len()),
            Role::Coordinator => self.coordinating().or_else(|| self.rank_zero()),
            Role::Joiner => self.joining().or_else(|| self.youngest()),
            Role::Bystander => self.bystander(),
            Role::Leader => (0..self.slots.len()).find(|index| self.activity(*index).founding),
            Role::Ahead => (0..self.slots.len()).find(|index| self.is_busy(*index, Busy::Ahead)),
            Role::Donor => (0..self.slots.len()).find(|index| self.activity(*index).giving),
            Role::DonorAt(tenth) => self.slot_of(snapshot_at(self, tenth)?.donor),
            Role::TakerAt(tenth) => Some(snapshot_at(self, tenth)?.taker),
            Role::BesideAt(tenth) => beside(self, tenth),
        }
    }

    fn coordinating(&self) -> Option<usize> {
        (0..self.slots.len()).find(|index| coordinates(&self.slots[*index].activity))
    }

    fn joining(&self) -> Option<usize> {
        let is = |index: &usize| self.activity(*index).joining || self.activity(*index).transferring;
        (0..self.slots.len()).find(is)
    }

    fn rank_zero(&self) -> Option<usize> {
        let view = self.last_view()?;
        self.slot_of(view.members.first()?.incarnation)
    }

    fn youngest(&self) -> Option<usize> {
        let view = self.last_view()?;
        view.members.iter().rev().find_map(|member| self.slot_of(member.incarnation))
    }

    fn bystander(&mut self) -> Option<usize> {
        let busy = [self.coordinating().or_else(|| self.rank_zero()), self.joining()];
        let idle: Vec<usize> =
            (0..self.slots.len()).filter(|index| self.slots[*index].runs() && !busy.contains(&Some(*index))).collect();
        let spot = usize::try_from(self.rng.below(idle.len() as u64)).ok()?;
        idle.get(spot).copied()
    }

    /// The slot where this incarnation runs.
    pub(crate) fn slot_of(&self, incarnation: Incarnation) -> Option<usize> {
        self.slots.iter().position(|slot| slot.incarnation() == Some(incarnation))
    }

    /// The latest cell view of any running process.
    pub(crate) fn last_view(&self) -> Option<&CellView> {
        self.views().max_by_key(|view| view.view)
    }

    fn views(&self) -> impl Iterator<Item = &CellView> {
        let nodes = self.slots.iter().filter_map(|slot| slot.node.as_ref());
        nodes.filter_map(|node| node.process().cell_view()).map(AsRef::as_ref)
    }

    /// Whether the cell can go on, sooner or later, without slot `without`: enough members of each view that counts
    /// run. A process that was notified of its exclusion, and did not crash, counts as running, because the notice
    /// comes only when it is no longer needed.
    pub(crate) fn has_future(&self, without: Option<usize>) -> bool {
        if self.chain.is_empty() {
            // Named founders found the cell as soon as all of them run. If a lone founder crashes, that is the end.
            let founders = self.slots.iter().take(self.settings.founders);
            let can_found = without.is_some() || founders.into_iter().all(Slot::runs);
            return can_found && (self.settings.founders > 0 || without != Some(0));
        }
        let counts = |slot: &usize| Some(*slot) != without && !self.ruined.contains(slot);
        match self.operator.doomed {
            Doomed::No => {}
            // More than half of the founders can found it again, or a survivor can.
            Doomed::Whole | Doomed::Left { .. } => {
                // A process that has crashed for good since then is none of them.
                let is_there = |slot: &usize| {
                    let place = &self.slots[*slot];
                    counts(slot) && (place.runs() || place.awaited || place.buried)
                };
                return 2 * (0..self.settings.founders).filter(is_there).count() > self.settings.founders;
            }
            Doomed::Quorum => return (0..self.slots.len()).filter(counts).any(|slot| self.slots[slot].runs()),
        }
        let without: Vec<usize> = without.into_iter().collect();
        self.can_go_on_without(&without)
    }

    /// Whether the cell can go on for good without `slot` and without `others`: enough of its members run, and they are
    /// most of all processes that may still be in a view that was already proposed.
    pub(crate) fn can_do_without(&self, others: &[usize], slot: usize) -> bool {
        let without: Vec<usize> = others.iter().copied().chain([slot]).collect();
        self.last_view().is_some() && self.can_go_on_without(&without)
    }

    fn can_go_on_without(&self, without: &[usize]) -> bool {
        let ruined = |slot: usize| self.ruined.contains(&slot);
        let excluded = |who: Incarnation| {
            let lives = self.slots.iter().enumerate().filter(|(index, _)| !ruined(*index) && !without.contains(index));
            lives.into_iter().any(|(_, slot)| slot.app.excluded.contains(&who))
        };
        let stays = |slot: usize| !ruined(slot) && !without.contains(&slot) && !self.slots[slot].leaving;
        self.chain.can_go_on(|who| self.slot_of(who).is_some_and(stays) || excluded(who))
    }

    /// The slots that count: not ruined for good, and not kept out by their cell (M11 evaluates whether that is right).
    fn whole(&self) -> impl Iterator<Item = &Slot> {
        self.slots.iter().enumerate().filter(|(index, _)| is_whole(self, *index)).map(|(_, slot)| slot)
    }

    /// Number of running processes.
    pub(crate) fn running(&self) -> usize {
        self.slots.iter().filter(|slot| slot.runs()).count()
    }

    /// Why the cell is not settled; `None` if it is. It is settled if all running processes that are not ruined are in
    /// one primary cell view of exactly themselves, and in the group views of exactly those that want to be in those
    /// groups. A cell without any process is not settled.
    pub(crate) fn unsettled(&self) -> Option<String> {
        let running: BTreeSet<Incarnation> = self.whole().filter_map(Slot::incarnation).collect();
        if running.is_empty() {
            return Some("nobody runs that its cell takes".to_owned());
        }
        let first = self.whole().find_map(|slot| slot.node.as_ref()?.process().cell_view());
        for slot in self.whole() {
            let Some(node) = slot.node.as_ref() else { continue };
            if slot.leaving {
                return Some(format!("{} has not finished leaving", slot.name));
            }
            let process = node.process();
            let (Some(view), Some(first)) = (process.cell_view(), first) else {
                return Some(format!("{} is in no cell view", slot.name));
            };
            let members: BTreeSet<Incarnation> = view.members.iter().map(|member| member.incarnation).collect();
            if (view.instance, view.view) != (first.instance, first.view) {
                return Some(format!("{} is in cell view {}, another in {}", slot.name, view.view, first.view));
            }
            if members != running {
                let count = members.len();
                return Some(format!(
                    "cell view {} at {} has {count} members, {} run",
                    view.view,
                    slot.name,
                    running.len()
                ));
            }
            if !process.is_primary() {
                return Some(format!("{} is not primary", slot.name));
            }
        }
        self.unsettled_group()
    }

    /// Notes the state of each process, for the story of a run that does not settle.
    pub(crate) fn note_states(&mut self) {
        for index in 0..self.slots.len() {
            let text = match self.slots[index].node.as_ref() {
                None => "does not run".to_owned(),
                Some(node) => {
                    let process = node.process();
                    let view = process.cell_view().map_or(ViewNumber::NONE, |view| view.view);
                    let primary = if process.is_primary() { "primary" } else { "not primary" };
                    format!("is in cell view {view}, {primary}, {:?}", process.activity())
                }
            };
            self.note(Some(index), text);
        }
    }

    /// Whether a running process that was excluded recently is waiting to be admitted again.
    pub(crate) fn somebody_is_told_to_wait(&self) -> bool {
        self.whole().filter_map(|slot| slot.node.as_ref()).any(|node| node.process().must_wait_to_rejoin())
    }

    fn unsettled_group(&self) -> Option<String> {
        let names: BTreeSet<&String> = self.whole().flat_map(|slot| slot.app.wanted.keys()).collect();
        for name in names {
            let wanting = || {
                let wants = |slot: &&Slot| slot.app.wanted.contains_key(name) && !stays_out(slot, name);
                self.whole().filter(|slot| slot.runs()).filter(wants)
            };
            // Observers wait until somebody has the group.
            let waits = |slot: &Slot| slot.app.wanted.get(name) == Some(&false) && slot.app.member_of(name).is_none();
            if !self.settings.stateless.is_empty() && wanting().all(waits) {
                continue;
            }
            let is_out = |slot: &Slot| slot.app.member_of(name).is_none();
            if wanting().all(is_out) && self.slots.iter().any(|slot| slot.app.kept_out && had_group(slot, name)) {
                continue;
            }
            let wants: BTreeSet<Incarnation> = wanting().filter_map(Slot::incarnation).collect();
            let mut number = None;
            for slot in wanting() {
                let Some((id, group)) = slot.app.member_of(name) else {
                    return Some(format!("{} is not in group {name:?} yet", slot.name));
                };
                let members: BTreeSet<Incarnation> = group.members.iter().copied().collect();
                if members != wants || *number.get_or_insert((id, group.view)) != (id, group.view) {
                    let (view, count) = (group.view, members.len());
                    let name = &slot.name;
                    return Some(format!(
                        "group view {view} of {id:?} at {name} has {count} members, {} want it",
                        wants.len()
                    ));
                }
            }
        }
        None
    }
}

/// Whether an earlier incarnation was in that group. While the cell keeps the present one out, it learns of no death from
/// it, and the group waits for the earlier one.
fn had_group(slot: &Slot, name: &str) -> bool {
    let mut records = slot.app.traces.iter().flat_map(|trace| &trace.records);
    records.any(|record| matches!(&record.event, Event::GroupView { name: of, .. } if of == name))
}

/// Whether it is out of that group for good, as a sender of what the other could not read: it leaves the cell if the
/// others are a quorum, and asks again when it is back. One other member is none without the first.
fn stays_out(slot: &Slot, name: &str) -> bool {
    let view = slot.node.as_ref().and_then(|node| node.process().cell_view());
    let is_first = |view: &CellView| view.members.len() == 2 && Some(view.members[0].incarnation) == slot.incarnation();
    let records = || slot.app.traces.last().into_iter().flat_map(|trace| &trace.records).map(|record| &record.event);
    let is_of = |id: u32| {
        records().any(|e| matches!(e, Event::GroupView { group, name: of, .. } if *group == id && of == name))
    };
    let is_cast_out = |e: &Event| matches!(e, Event::GroupLost { group, why: LeaveReason::Nonsense } if is_of(*group));
    view.is_some_and(|view| is_first(view)) && records().any(is_cast_out)
}
