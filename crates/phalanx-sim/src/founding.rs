//! Faults of foundings: a second process with a founder's name, emptied directories, a cell that dies as a whole, or
//! that all members leave.

use phalanx_core::member::FounderRecord;
use phalanx_core::rng::Rng;
use phalanx_core::{CellInstance, CommandError, Membership, ReformWhen};

use crate::clock::{MS, SECOND};
use crate::draw::index;
use crate::fault::{Aim, Fault, Kind, Role};
use crate::plan::Plan;
use crate::result::add_to;
use crate::slot::Slot;
use crate::world::{Doomed, Event, World};

/// Time within which a live process restores the content of its directory.
const RESTORE_NS: u64 = SECOND;
/// Interval at which an operator checks whether a dead cell was founded again. It is also the least time between two
/// commands.
const OPERATE_NS: u64 = 500 * MS;
const COMMAND_NS: u64 = 4 * SECOND;
/// Time after an order to leave at which remaining processes are killed. The last ones wait for five seconds (`end_wait`),
/// and some of them are told late.
const LEAVE_NS: u64 = 12 * SECOND;
/// If the cell is not founded again within this time, there is a command. An operator who knows that members are away
/// waits until they are back.
const AGAIN_NS: u64 = 4 * SECOND;

/// An operator's command for a cell that cannot continue by itself.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Order {
    /// All of the cell died.
    FoundAnew,
    /// Its quorum died.
    Reform(ReformWhen),
}

/// Adds these faults to some seeds.
pub(crate) fn add_founding(rng: &mut Rng, plan: &mut Plan) {
    if !rng.chance_ppm(200_000) || plan.mild || plan.members < 3 {
        return;
    }
    plan.founders = (2 + index(rng, 3)).min(plan.members - 1);
    if rng.chance_ppm(400_000) {
        plan.twin = Some((plan.members - 1, index(rng, plan.founders)));
        plan.hosts = (1..=plan.members as u64).collect();
        plan.memory = None;
        plan.sealed = true;
        // The checker knows a process that stays broken only by its name.
        plan.ruin = false;
    } else {
        add_emptied(rng, plan);
    }
    let at_ns = 5 * SECOND + rng.below(plan.heal_ns - 8 * SECOND);
    let kind = match rng.below(10) {
        0..=2 => Kind::Perish { back_ns: 100 * MS + rng.below(2 * SECOND) },
        3..=5 => Kind::Behead,
        _ => return add_disbanded(rng, plan),
    };
    plan.faults.push(Fault { aim: Aim::At(at_ns), kind, lasts_ns: 0 });
}

/// All leave, early enough to be back before the calm.
fn add_disbanded(rng: &mut Rng, plan: &mut Plan) {
    if plan.twin.is_none() && plan.heal_ns > 9 * SECOND {
        if rng.chance_ppm(700_000) {
            plan.faults.retain(|fault| !matches!(fault.kind, Kind::Empty(_)));
        }
        let at_ns = 3 * SECOND + rng.below(plan.heal_ns - 9 * SECOND);
        plan.faults.push(Fault { aim: Aim::At(at_ns), kind: Kind::Disband, lasts_ns: 0 });
    }
}

/// Directories of founders are emptied while their processes run, or just before these crash.
fn add_emptied(rng: &mut Rng, plan: &mut Plan) {
    for _ in 0..1 + rng.below(3) {
        let at_ns = rng.below(plan.heal_ns - 2 * SECOND);
        let role = Role::Slot(index(rng, plan.founders));
        plan.faults.push(Fault { aim: Aim::At(at_ns), kind: Kind::Empty(role), lasts_ns: 0 });
        if rng.chance_ppm(500_000) {
            let aim = Aim::At(at_ns + rng.below(RESTORE_NS));
            let kind =
                Kind::Crash { role, back_ns: Some(100 * MS + rng.below(SECOND)), moved: rng.chance_ppm(300_000) };
            plan.faults.push(Fault { aim, kind, lasts_ns: 0 });
        }
    }
}

impl World {
    /// Empties a founder's directory, unless too many founders lost theirs: then no process could know whether the cell
    /// existed. Returns whether it was emptied.
    pub(crate) fn empty_directory(&mut self, slot: usize) -> bool {
        let damaged = |slot: &&Slot| slot.damaged;
        let names = self.settings.founders;
        let twins = usize::from(!self.settings.twins.is_empty());
        let count = self.slots.iter().filter(damaged).count() + twins + usize::from(!self.slots[slot].damaged);
        if slot >= names || 2 * count > names {
            return false;
        }
        self.lose_directory(slot);
        true
    }

    /// Empties a directory, however many others are empty.
    pub(crate) fn lose_directory(&mut self, slot: usize) {
        let life = self.slots[slot].life;
        let place = &mut self.slots[slot];
        place.damaged = true;
        place.directory += 1;
        place.app.record = FounderRecord::default();
        add_to(&mut self.counters.moments, "founders' directories emptied", 1);
        self.note(Some(slot), "has an empty directory");
        let after_ns = 1 + self.rng.below(RESTORE_NS);
        self.queue.push(self.now_ns + after_ns, Event::Restore { slot, life });
    }

    /// The process that ran when its directory was emptied notices that, and restores the content.
    pub(crate) fn restore_directory(&mut self, slot: usize, life: u32) {
        let place = &mut self.slots[slot];
        let Some(node) = place.node.as_ref().filter(|_| place.life == life) else { return };
        // A stopped process notices nothing, so it is tried again later.
        if place.paused {
            return self.queue.push(self.now_ns + RESTORE_NS, Event::Restore { slot, life });
        }
        place.app.record = node.process().record().clone();
        place.directory = place.started_in;
        place.damaged = false;
        self.note(Some(slot), "writes its directory again");
    }

    /// Crashes all processes at once, and restarts them.
    pub(crate) fn perish(&mut self, back_ns: u64) -> bool {
        if self.chain.is_empty() || self.settings.founders == 0 || self.operator.doomed != Doomed::No {
            return false;
        }
        self.note(None, "the whole cell dies");
        add_to(&mut self.counters.moments, "cells that died as a whole", 1);
        for slot in 0..self.slots.len() {
            self.crash(slot);
        }
        self.doom(Doomed::Whole);
        self.start_all_again(back_ns);
        true
    }

    /// Crashes a quorum of the last view's members at once.
    pub(crate) fn behead(&mut self) -> bool {
        let Some(view) = self.last_view().filter(|_| self.operator.doomed == Doomed::No && self.settings.founders > 0)
        else {
            return false;
        };
        let members: Vec<Option<usize>> = view.members.iter().map(|member| self.slot_of(member.incarnation)).collect();
        let last = members.last().copied().flatten();
        // The youngest members survive: less than half of the view.
        let stay = 1 + usize::try_from(self.rng.below(members.len().div_ceil(2) as u64)).unwrap_or(0);
        let stay = stay.min(members.len().div_ceil(2).saturating_sub(1));
        let survives =
            |slot: usize| self.slots[slot].node.is_some() && !self.slots[slot].paused && !self.ruined.contains(&slot);
        if stay == 0 || !last.is_some_and(survives) {
            return false;
        }
        let stay: Vec<usize> = members[members.len() - stay..].iter().flatten().copied().collect();
        self.note(None, "a quorum of the cell dies");
        add_to(&mut self.counters.moments, "cells whose quorum died", 1);
        for slot in (0..self.slots.len()).filter(|slot| !stay.contains(slot)).collect::<Vec<_>>() {
            self.crash(slot);
            self.slots[slot].buried = true;
        }
        self.doom(Doomed::Quorum);
        true
    }

    /// Orders all processes to leave but the spared ones, which take no notice. None is started before all are gone.
    pub(crate) fn disband(&mut self, spared: Vec<usize>) -> bool {
        if self.chain.is_empty() || self.settings.founders == 0 || self.operator.doomed != Doomed::No {
            return false;
        }
        if spared.is_empty() {
            self.note(None, "all are told to leave");
            add_to(&mut self.counters.moments, "cells that all were told to leave", 1);
        } else {
            self.note(None, "all but the members of group \"m\" are told to leave");
        }
        for slot in (0..self.slots.len()).filter(|slot| !spared.contains(slot)) {
            self.slots[slot].buried = true;
        }
        self.operator.spared = spared;
        let at_ns = self.now_ns;
        self.doom(Doomed::Left { at_ns, gone: false });
        self.send_away(at_ns);
        true
    }

    /// Orders all to leave: the last few in the same instant, when all others are gone.
    pub(crate) fn leave_together(&mut self, last: usize) -> bool {
        if self.chain.is_empty() || self.settings.founders == 0 || self.operator.doomed != Doomed::No {
            return false;
        }
        self.note(None, "all are told to leave, and the last ones in the same instant");
        for slot in 0..self.slots.len() {
            self.slots[slot].buried = true;
        }
        self.leave_last = last.min(self.running());
        let at_ns = self.now_ns;
        self.doom(Doomed::Left { at_ns, gone: false });
        self.send_away(at_ns);
        true
    }

    /// Makes some leave now, the others at the next check. A process that does not get out in time is killed.
    fn send_away(&mut self, since_ns: u64) {
        let is_late = self.now_ns > since_ns + LEAVE_NS;
        if self.leave_last > 0 && !is_late {
            return self.send_away_in_step();
        }
        let told: Vec<usize> = (0..self.slots.len()).filter(|slot| !self.operator.spared.contains(slot)).collect();
        for &slot in &told {
            let place = &self.slots[slot];
            if place.runs() && is_late {
                self.crash(slot);
            } else if place.runs() && !place.paused && self.rng.chance_ppm(600_000) {
                self.leave(slot);
            }
        }
        if !told.iter().any(|slot| self.slots[*slot].runs()) {
            self.operator.doomed = Doomed::Left { at_ns: self.now_ns, gone: true };
            self.start_all_again(100 * MS);
        }
    }

    /// Makes all leave that do not stay to the last, or else those that do.
    fn send_away_in_step(&mut self) {
        let running: Vec<usize> = (0..self.slots.len()).filter(|slot| self.slots[*slot].runs()).collect();
        let go_first = running.len().saturating_sub(self.leave_last);
        let go: Vec<usize> = if go_first > 0 { running[..go_first].to_vec() } else { running.clone() };
        go.into_iter().for_each(|slot| self.leave(slot));
        if running.is_empty() {
            self.leave_last = 0;
            self.operator.doomed = Doomed::Left { at_ns: self.now_ns, gone: true };
            self.start_all_again(100 * MS);
        }
    }

    pub(crate) fn doom(&mut self, doomed: Doomed) {
        self.operator.doomed = doomed;
        self.operator.commanded_ns = None;
        self.queue.push(self.now_ns + OPERATE_NS, Event::Operate);
    }

    fn start_all_again(&mut self, back_ns: u64) {
        let back: Vec<usize> = (0..self.slots.len()).filter(|slot| !self.ruined.contains(slot)).collect();
        for slot in back {
            self.slots[slot].buried = false;
            let after_ns = back_ns + self.rng.below(2 * SECOND);
            self.start_later(slot, after_ns, false);
        }
    }

    /// Acts as an operator that knows the state of the cell and has it founded again.
    pub(crate) fn look_for_cell(&mut self) {
        if self.operator.doomed == Doomed::No {
            return;
        }
        self.queue.push(self.now_ns + OPERATE_NS, Event::Operate);
        if self.operator.commanded_ns.is_some_and(|at_ns| self.now_ns < at_ns + COMMAND_NS) {
            return;
        }
        let is_away = |slot: &usize| self.slots[*slot].paused || (0..*slot).any(|other| self.net.is_cut(other, *slot));
        if let Doomed::Left { at_ns, gone: true } = &mut self.operator.doomed
            && self.operator.spared.iter().any(is_away)
        {
            *at_ns = self.now_ns;
        }
        let stays = self.estranged.as_ref().map(|estranged| estranged.stays);
        let is_in = |slot: &Slot| slot.node.as_ref().is_some_and(|node| node.process().cell_view().is_some());
        let mut others = self.slots.iter().enumerate().filter(|(index, _)| Some(*index) != stays);
        let any_in = others.any(|(_, slot)| is_in(slot) && !slot.leaving);
        if self.operator.doomed == Doomed::Quorum && stays.is_none() && !any_in {
            // The survivors have left, wait for a quorum that lets them go, do not know the view they are in, or
            // stopped while they reformed the cell. They would continue with that beside the cell that is founded
            // again.
            for slot in (0..self.slots.len()).filter(|slot| self.slots[*slot].node.is_some()).collect::<Vec<_>>() {
                self.crash(slot);
            }
            self.operator.doomed = Doomed::Whole;
            self.start_all_again(100 * MS);
        }
        match self.operator.doomed {
            Doomed::Whole => self.have_it_founded(),
            Doomed::Quorum => self.have_it_reformed(),
            Doomed::Left { at_ns, gone: false } => self.send_away(at_ns),
            Doomed::Left { at_ns, gone: true } if self.now_ns > at_ns + AGAIN_NS => self.have_it_founded(),
            Doomed::Left { .. } => {}
            Doomed::No => {}
        }
    }

    /// Gives the command once enough founders look for the cell.
    fn have_it_founded(&mut self) {
        let names = self.settings.founders;
        let searching = self.with_membership(Membership::Searching);
        let searching: Vec<usize> = searching.into_iter().filter(|slot| *slot < names).collect();
        // The command is refused unless more than half of the founders look for the cell.
        if 2 * searching.len() <= names {
            return;
        }
        if self.order(searching[0], Order::FoundAnew).is_ok() {
            add_to(&mut self.counters.moments, "commands to found a cell again", 1);
        }
    }

    /// Gives the command once a survivor hears no quorum. Of several it chooses the one with the latest view, provided
    /// that this was the last that counts.
    fn have_it_reformed(&mut self) {
        let mut survivors = self.with_membership(Membership::NonPrimary);
        survivors.retain(|slot| self.estranged.as_ref().is_none_or(|estranged| estranged.stays != *slot));
        let view = |slot: usize| self.slots[slot].node.as_ref().and_then(|node| Some(node.process().cell_view()?.view));
        let Some(slot) = survivors.into_iter().max_by_key(|slot| view(*slot)) else { return };
        if self.order(slot, Order::Reform(ReformWhen::Asked)).is_ok() {
            add_to(&mut self.counters.moments, "commands to reform a cell", 1);
        }
    }

    /// An operator gives a process a command.
    pub(crate) fn order(&mut self, slot: usize, order: Order) -> Result<(), CommandError> {
        let place = &mut self.slots[slot];
        let now = place.local(self.now_ns);
        place.app.now_ns = self.now_ns;
        let node = place.node.as_mut().ok_or(CommandError::Over)?;
        let what = match order {
            Order::FoundAnew => {
                node.found_anew(now, &mut place.app)?;
                "is told that the whole cell died"
            }
            Order::Reform(when) => {
                node.reform(now, when, &mut place.app)?;
                match when {
                    ReformWhen::Asked => "is told to reform the cell",
                    ReformWhen::AllProvedDead => "is told to reform the cell if all others are proved dead",
                }
            }
        };
        self.operator.commanded_ns = Some(self.now_ns);
        self.note(Some(slot), what);
        self.wake(slot, self.now_ns);
        Ok(())
    }

    fn with_membership(&self, membership: Membership) -> Vec<usize> {
        let is = |slot: &Slot| !slot.paused && slot.node.as_ref().is_some_and(|node| node.membership() == membership);
        (0..self.slots.len()).filter(|slot| is(&self.slots[*slot]) && !self.ruined.contains(slot)).collect()
    }

    /// Handles a process's view. Its directory's loss does not matter any more, and a dead cell is founded again.
    pub(crate) fn note_founding(&mut self, slot: usize, instance: CellInstance) {
        let twin_of = self.settings.twins.iter().find(|(who, _)| *who == slot);
        // A process whose directory was just emptied has not restored it yet.
        let is_written = slot >= self.settings.founders || self.slots[slot].app.record.instance() == instance;
        if twin_of.is_none() && is_written {
            self.slots[slot].damaged = false;
        }
        // Those that were not told to leave have held the cell, and took a process in that had left: it goes on.
        let has_left = !self.operator.spared.is_empty() && !self.operator.spared.contains(&slot);
        if has_left
            && instance == self.chain.instance()
            && matches!(self.operator.doomed, Doomed::Left { gone: true, .. })
        {
            self.operator.doomed = Doomed::No;
        }
        if self.operator.doomed == Doomed::No || instance == self.chain.instance() {
            return;
        }
        let was = std::mem::take(&mut self.operator.doomed);
        let by_itself = matches!(was, Doomed::Left { .. }) && self.operator.commanded_ns.is_none();
        let what = if by_itself { "cells that all left and that were founded again" } else { "cells founded again" };
        add_to(&mut self.counters.moments, what, 1);
        if was == Doomed::Quorum {
            self.start_all_again(100 * MS);
        }
    }
}
