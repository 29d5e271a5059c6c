//! Groups with inboxes of their own, and applications that do not read one of them for a while, though they read the
//! others.

use phalanx_core::InboxId;
use phalanx_core::rng::Rng;

use crate::clock::{MS, SECOND};
use crate::draw::index;
use crate::fault::{Aim, Busy, Fault, Kind, Role, Shape};
use crate::plan::{Inboxes, Plan};
use crate::result::add_to;
use crate::unequal::Own;
use crate::workload::{GROUPS, MINORITY};
use crate::world::World;

/// Inboxes that processes have, besides their own.
const INBOXES: u32 = 3;

/// The inboxes of groups "a", "b" and "m", each as one process may have them; 0: that of the process itself.
const LAYOUTS: [[u32; 3]; 8] = [[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 2, 0], [1, 2, 3], [2, 1, 1], [1, 1, 2], [3, 2, 0]];

impl Inboxes {
    /// The groups of a process that have an inbox of their own, with its number.
    fn of(&self, slot: usize) -> impl Iterator<Item = (&'static str, u32)> {
        let layout = self.layouts.get(slot).copied().unwrap_or_default();
        GROUPS.into_iter().chain([MINORITY]).zip(layout).filter(|(_, inbox)| *inbox > 0)
    }
}

/// Share of the seeds with inboxes.
const INBOXES_PPM: u32 = 200_000;
/// How long an inbox is left unread in the quiet phase: longer than the bound on deliveries.
const QUIET_NS: u64 = 6 * SECOND;
/// Time after that until everything is delivered.
const AFTER_NS: u64 = 2 * SECOND;

/// Gives some seeds inboxes, and times in which one of them is not read. Some of these are shorter than is tolerated
/// where slow members are expelled, and some longer.
pub(crate) fn add_inboxes(rng: &mut Rng, plan: &mut Plan) {
    if !rng.chance_ppm(INBOXES_PPM) {
        return;
    }
    let layouts = (0..plan.members).map(|_| LAYOUTS[index(rng, LAYOUTS.len())]).collect();
    plan.inboxes = Some(Inboxes { layouts, moves: rng.chance_ppm(500_000) });
    // A slow interface may take too long for the states of two groups.
    if plan.workload.second_group_ppm == 0 && plan.egress.is_none() {
        plan.workload.second_group_ppm = 500_000;
    }
    if plan.mild {
        return; // a full window would be a reason to exclude a member
    }
    // A full inbox holds senders back only when their windows are full. Where processes differ in their windows, what the
    // seed drew counts.
    if plan.unequal.is_empty() {
        plan.window_bytes = plan.window_bytes.min([4 << 10, 16 << 10, usize::MAX][index(rng, 3)]);
    }
    for _ in 0..2 + rng.below(4) {
        let from_ns = 3 * SECOND + rng.below(plan.heal_ns - 6 * SECOND);
        let role = Role::Slot(index(rng, 64));
        let lasts_ns = [300 * MS, 1500 * MS, 4 * SECOND, 8 * SECOND][index(rng, 4)];
        let lasts_ns = lasts_ns / 2 + rng.below(lasts_ns);
        let busy = [Busy::Flush, Busy::Proposal, Busy::Join, Busy::Transfer][index(rng, 4)];
        let inside = Aim::Inside { busy, from_ns, after_ns: rng.below(200 * MS) };
        let aim = if rng.chance_ppm(400_000) { inside } else { Aim::At(from_ns) };
        plan.faults.push(Fault { aim, kind: Kind::UnreadInbox { role, which: index(rng, 64) }, lasts_ns });
        // What ends the incarnation, or takes it out of its group, meanwhile.
        let back_ns = Some(200 * MS + rng.below(2 * SECOND));
        let kind = match rng.below(8) {
            0 | 1 => Kind::Leave { role, back_ns },
            2 | 3 => Kind::Cut(Shape::Isolate(role)),
            4 => Kind::Regroup(role),
            _ => continue,
        };
        let at_ns = from_ns + rng.below(lasts_ns);
        plan.faults.push(Fault { aim: Aim::At(at_ns), kind, lasts_ns: SECOND + rng.below(2 * SECOND) });
    }
}

impl World {
    /// Gives the groups of a process that starts their inboxes.
    pub(crate) fn begin_inboxes(&mut self, index: usize) {
        let Some(inboxes) = &self.settings.inboxes else { return };
        let slot = &mut self.slots[index];
        slot.app.reading.inboxes.clear();
        let Some(node) = slot.node.as_mut() else { return };
        for (name, inbox) in inboxes.of(index) {
            node.set_inbox(name, InboxId(inbox));
            slot.app.reading.inboxes.insert(name.to_owned(), InboxId(inbox));
        }
    }

    /// Gives a group that a process is about to join again another inbox, if the seed says so.
    ///
    /// Only once its application was notified that it left: what it gets of two stays would be in no order.
    pub(crate) fn move_inbox(&mut self, index: usize, name: &str) {
        let moves = self.settings.inboxes.as_ref().is_some_and(|inboxes| inboxes.moves);
        let slot = &mut self.slots[index];
        let Some(node) = slot.node.as_mut() else { return };
        if !moves || !slot.app.was_in(name) || node.process().wants_group(name) {
            return;
        }
        let before = slot.app.reading.inboxes.get(name).map_or(0, |inbox| inbox.0);
        let inbox = InboxId((before + 1) % (INBOXES + 1));
        node.set_inbox(name, inbox);
        slot.app.now_ns = self.now_ns;
        slot.app.assign(name, inbox);
        add_to(&mut self.counters.moments, "groups joined again with another inbox", 1);
    }

    /// The inboxes of a process that belong to groups.
    pub(crate) fn inboxes_of(&self, index: usize) -> Vec<InboxId> {
        let mut inboxes: Vec<InboxId> = self.slots[index].app.reading.inboxes.values().copied().collect();
        inboxes.sort_unstable();
        inboxes.dedup();
        inboxes
    }

    /// Sets whether a process's application reads an inbox.
    pub(crate) fn set_reads(&mut self, index: usize, inbox: InboxId, reads: bool) {
        self.slots[index].app.set_reads(inbox, reads);
        self.wake(index, self.now_ns);
    }

    /// Lets a process's application read all inboxes.
    pub(crate) fn read_all(&mut self, index: usize) {
        self.slots[index].app.read_all();
        self.wake(index, self.now_ns);
    }

    /// In the quiet phase, leaves an inbox of some processes unread for longer than any delivery may take: their other
    /// groups must not notice. `go` lets the world run until a time.
    ///
    /// Cells that expel slow members would expel these.
    pub(crate) fn leave_inboxes_unread(&mut self, rng: &mut Rng, mut go: impl FnMut(&mut Self, u64)) {
        let expels = |own: &Own| own.agreed.is_some_and(|agreed| agreed.expel_after_ms.is_some());
        let expels = self.settings.expel_after.is_some() || self.settings.unequal.iter().any(expels);
        if self.settings.inboxes.is_none() || expels {
            return;
        }
        let with_inbox = |world: &Self, slot: &usize| {
            world.slots[*slot].runs() && !world.ruined.contains(slot) && !world.inboxes_of(*slot).is_empty()
        };
        let slots: Vec<usize> = (0..self.slots.len()).filter(|slot| with_inbox(self, slot)).collect();
        let mut chosen: Vec<usize> = slots.iter().copied().filter(|_| rng.chance_ppm(400_000)).collect();
        if chosen.is_empty() {
            chosen.extend(slots.get(index(rng, slots.len().max(1))));
        }
        if chosen.is_empty() {
            return;
        }
        for slot in &chosen {
            let inboxes = self.inboxes_of(*slot);
            let inbox = inboxes[index(rng, inboxes.len())];
            self.note(Some(*slot), format!("does not read inbox {}", inbox.0));
            self.set_reads(*slot, inbox, false);
            add_to(&mut self.counters.moments, "inboxes left unread in the quiet phase", 1);
        }
        go(self, self.now_ns + QUIET_NS);
        chosen.into_iter().for_each(|slot| self.read_all(slot));
        go(self, self.now_ns + AFTER_NS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classes::{Class, draw_class};

    #[test]
    fn a_fifth_of_the_plans_have_inboxes_and_times_in_which_they_are_not_read() {
        let plans: Vec<Plan> =
            (0..2000).map(|seed| Plan::draw_plain(seed, 5)).filter(|plan| plan.inboxes.is_some()).collect();
        assert!((340..460).contains(&plans.len()), "{}", plans.len());
        let unread = |plan: &&Plan| plan.faults.iter().any(|fault| matches!(fault.kind, Kind::UnreadInbox { .. }));
        assert_eq!(plans.iter().filter(unread).count(), plans.iter().filter(|plan| !plan.mild).count());
    }

    #[test]
    fn the_other_campaigns_have_none() {
        for seed in 0..100 {
            let others = [draw_class(seed, 5, Class::Far), Plan::draw_partial(seed, 5), Plan::draw_mild(seed, 5, 10)];
            assert!(others.iter().all(|plan| plan.inboxes.is_none()));
        }
    }
}
