//! Views that are lost with those that know them. A member is cut off until the others exclude it. From then on, only
//! the excluded member hears the first process that installs the view without it, and that process crashes. The others
//! must recover the view. For that they may need the excluded member, so it must not have been notified yet.

use phalanx_core::rng::Rng;
use phalanx_core::{CellView, Incarnation};

use crate::clock::{MS, SECOND};
use crate::draw::index;
use crate::fault::{Aim, Fault, Kind, Role};
use crate::plan::Plan;
use crate::world::{LostView, World};

/// Adds these faults to some plans, from a generator of their own.
pub(crate) fn add_lost_views(rng: &mut Rng, plan: &mut Plan) {
    if plan.mild || plan.members < 3 || !rng.chance_ppm(200_000) {
        return;
    }
    for _ in 0..1 + rng.below(2) {
        let role = [Role::Bystander, Role::Slot(index(rng, 64))][index(rng, 2)];
        let back_ns = rng.chance_ppm(500_000).then(|| SECOND + rng.below(3 * SECOND));
        let kind = Kind::LostView { role, back_ns };
        let aim = Aim::At(3 * SECOND + rng.below(plan.heal_ns - 5 * SECOND));
        plan.faults.push(Fault { aim, kind, lasts_ns: SECOND + rng.below(2 * SECOND) + 500 * MS });
    }
}

impl World {
    /// Cuts a member off. False: it affects no process, too few would remain, or another such fault is in force.
    pub(crate) fn begin_lost_view(&mut self, role: Role) -> bool {
        let Some(slot) = self.resolve(role).filter(|_| self.lost_view.is_none()) else { return false };
        let member = self.last_view().is_some_and(|view| {
            let is = |who: Incarnation| self.slots[slot].incarnation() == Some(who);
            view.members.len() > 2 && view.members.iter().any(|m| is(m.incarnation))
        });
        let Some(incarnation) = self.slots[slot].incarnation().filter(|_| member && !self.slots[slot].leaving) else {
            return false;
        };
        if !self.can_do_without(&[], slot) {
            return false;
        }
        let others = (0..self.slots.len()).filter(|other| *other != slot);
        let cut: Vec<(usize, usize)> = others.flat_map(|other| [(slot, other), (other, slot)]).collect();
        self.cut_links(&cut);
        self.note(Some(slot), "is cut off until a view leaves it out");
        self.lost_view = Some(LostView { left_out: slot, incarnation, know: Vec::new(), cut });
        true
    }

    /// Handles a process's installation of a view, before its announcements leave it.
    pub(crate) fn look_at_lost_view(&mut self, slot: usize, view: &CellView) {
        let Some(mut lost) = self.lost_view.take() else { return };
        let leaves_out = view.members.iter().all(|m| m.incarnation != lost.incarnation);
        if leaves_out && lost.know.is_empty() && slot != lost.left_out && self.chain.is_new(view) {
            lost.know.push(slot);
            self.mend_links(&lost.cut);
            let others = (0..self.slots.len()).filter(|other| *other != slot && *other != lost.left_out);
            lost.cut = others.flat_map(|other| [(slot, other), (other, slot)]).collect();
            self.cut_links(&lost.cut);
            self.note(Some(slot), "alone knows the view, and only who is left out hears it");
        }
        self.lost_view = Some(lost);
    }

    /// Crashes the only process that knows the view, if the others can do without it.
    pub(crate) fn end_lost_view(&mut self, back_ns: Option<u64>) {
        let Some(lost) = self.lost_view.take() else { return };
        if let [slot] = *lost.know.as_slice()
            && self.slots[slot].runs()
            && self.can_do_without(&[], slot)
        {
            self.counters.lost_views += 1;
            self.crash(slot);
            back_ns.into_iter().for_each(|back_ns| self.start_later(slot, back_ns, false));
        }
        self.mend_links(&lost.cut);
    }

    /// Ends the fault without a crash.
    pub(crate) fn forget_lost_view(&mut self) {
        if let Some(lost) = self.lost_view.take() {
            self.mend_links(&lost.cut);
        }
    }
}
