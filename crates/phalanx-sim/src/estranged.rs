//! Members that are strangers to their cell: its quorum dies while two members are apart. One of them founds the next
//! instance, and the other stays in the earlier one. Then a member of the next instance hears no quorum any more, and
//! meets the one that stayed.

mod fault;

use phalanx_core::Membership;

use crate::links::all_links;
use crate::result::add_to;
use crate::world::{Doomed, Event, World};

pub(crate) use fault::Estranged;

fn around(slots: usize, slot: usize) -> Vec<(usize, usize)> {
    all_links(slots).into_iter().filter(|(from, to)| *from == slot || *to == slot).collect()
}

impl World {
    /// Crashes all members but two, and cuts one of these off. `None`: there are too few, or it would be no quorum.
    pub(crate) fn begin_estranged(&mut self) -> Option<()> {
        let view = self.last_view().filter(|_| self.operator.doomed == Doomed::No && self.settings.founders > 0)?;
        let before = view.instance;
        let members: Vec<usize> = view.members.iter().filter_map(|member| self.slot_of(member.incarnation)).collect();
        let fit = |slot: &&usize| !self.slots[**slot].paused && !self.slots[**slot].leaving;
        if members.len() < 5 || members.len() != view.members.len() || !members.iter().all(|slot| fit(&slot)) {
            return None;
        }
        let (stays, founds) = (members[members.len() - 1], members[members.len() - 2]);
        self.note(None, "a quorum of the cell dies, and the two that are left are apart");
        let cut = around(self.slots.len(), stays);
        self.cut_links(&cut);
        for slot in (0..self.slots.len()).filter(|slot| ![stays, founds].contains(slot)).collect::<Vec<_>>() {
            self.crash(slot);
            self.slots[slot].buried = true;
        }
        self.estranged = Some(Estranged { stays, before, lone: None, met: false, cut });
        self.doom_quorum();
        Some(())
    }

    /// Goes on once the next instance has members.
    pub(crate) fn tick_estranged(&mut self) {
        let Some(mut estranged) = self.estranged.take() else { return };
        let stays = estranged.stays;
        if estranged.lone.is_none() && self.operator.doomed == Doomed::No {
            let view = self.last_view().filter(|view| view.instance != estranged.before);
            let members: Vec<usize> = view.map_or(Vec::new(), |view| {
                view.members.iter().filter_map(|member| self.slot_of(member.incarnation)).collect()
            });
            if members.len() >= 3
                && let Some(&lone) = members.last()
                && self.can_do_without(&[], lone)
            {
                self.note(Some(lone), "hears nobody of its instance");
                let cut = around(self.slots.len(), lone);
                self.cut_links(&cut);
                estranged.cut.extend(cut);
                estranged.lone = Some(lone);
            }
        } else if let Some(lone) = estranged.lone.filter(|_| !estranged.met) {
            let hears_no_quorum = |slot: usize| {
                self.slots[slot].node.as_ref().is_some_and(|node| node.membership() == Membership::NonPrimary)
            };
            if hears_no_quorum(lone) && hears_no_quorum(stays) {
                let between = [(lone, stays), (stays, lone)];
                self.note(Some(lone), "meets a member of the earlier instance");
                // Each of the two cut both of these links.
                (0..2).for_each(|_| self.mend_links(&between));
                estranged.cut.retain(|link| !between.contains(link));
                estranged.met = true;
                add_to(&mut self.counters.moments, "minorities that meet an earlier instance", 1);
            }
        }
        self.estranged = Some(estranged);
    }

    pub(crate) fn end_estranged(&mut self) {
        if let Some(estranged) = self.estranged.take() {
            self.mend_links(&estranged.cut);
        }
    }

    fn doom_quorum(&mut self) {
        self.operator.doomed = Doomed::Quorum;
        self.operator.commanded_ns = None;
        self.queue.push(self.now_ns, Event::Operate);
    }
}
