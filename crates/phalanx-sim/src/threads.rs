//! Ends of the thread that runs a process, in the middle of what its application is told. The application goes on for a
//! moment and reads what it was told last. If too few members hold a group's state, it may not be told that a message is
//! stable, whatever the process knew when its thread ended.

use phalanx_core::rng::Rng;
use phalanx_core::{InboxId, Uniformity};

use crate::app::record_told;
use crate::clock::{MS, SECOND};
use crate::draw::index;
use crate::fault::{Aim, Busy, Fault, Kind, Role};
use crate::minima::Minima;
use crate::plan::Plan;
use crate::world::World;

/// Adds such ends to some plans, from a generator of their own. Where groups have inboxes of their own, most are aimed at a
/// process that withholds outcomes for a reason that its application has not seen yet: the view that has too few members
/// waits in an inbox that it does not read, and the outcomes do not go through that inbox.
pub(crate) fn add_thread_ends(rng: &mut Rng, plan: &mut Plan) {
    if plan.mild || plan.lethal || plan.members < 3 {
        return;
    }
    let end = |rng: &mut Rng, aim, role| {
        let back_ns = rng.chance_ppm(900_000).then(|| 100 * MS + rng.below(2 * SECOND));
        let kind = Kind::EndThread { role, panics: rng.chance_ppm(500_000), back_ns };
        Fault { aim, kind, lasts_ns: 3 * SECOND }
    };
    if rng.chance_ppm(250_000) {
        let aim = Aim::At(3 * SECOND + rng.below(plan.heal_ns - 6 * SECOND));
        let role = Role::Slot(index(rng, 64));
        plan.faults.push(end(rng, aim, role));
    }
    if plan.inboxes.is_none() || !rng.chance_ppm(700_000) {
        return;
    }
    let group = u16::try_from(2 + index(rng, (plan.members / 2).min(2))).unwrap_or(2);
    plan.minima.get_or_insert(Minima { cell: 1, group, uniformity: Uniformity::Uniform });
    for _ in 0..3 + rng.below(4) {
        let from_ns = 3 * SECOND + rng.below(plan.heal_ns - 7 * SECOND);
        let desert = Kind::Desert { role: Role::Slot(index(rng, 64)), which: index(rng, 64) };
        plan.faults.push(Fault { aim: Aim::At(from_ns), kind: desert, lasts_ns: SECOND + rng.below(2 * SECOND) });
        // Time for messages in that view to become stable.
        let after_ns = [0, 100 * MS, 300 * MS][index(rng, 3)];
        plan.faults.push(end(rng, Aim::Inside { busy: Busy::Ahead, from_ns, after_ns }, Role::Ahead));
    }
}

/// Ends a process's thread: its application is told what that means.
pub(crate) fn end_thread(world: &mut World, index: usize) {
    let slot = &mut world.slots[index];
    slot.app.now_ns = world.now_ns;
    slot.app.told.end();
    record_told(&mut slot.app);
}

/// Lets a process leave one of its groups' inboxes unread, and the other members leave that group for a while. Returns
/// the inbox.
pub(crate) fn desert(world: &mut World, index: usize, which: usize) -> Option<InboxId> {
    let app = &world.slots[index].app;
    let own: Vec<(&String, &InboxId)> =
        app.reading.inboxes.iter().filter(|(name, _)| app.member_of(name).is_some()).collect();
    let (name, inbox) = own.get(which % own.len().max(1))?;
    let (name, inbox) = ((*name).clone(), **inbox);
    let (_, group) = app.member_of(&name)?;
    let others: Vec<usize> = group.members.iter().filter_map(|who| world.slot_of(*who)).collect();
    world.note(Some(index), format!("does not read inbox {}, and stays alone in group {name:?}", inbox.0));
    world.set_reads(index, inbox, false);
    for other in others.into_iter().filter(|other| *other != index) {
        // Who leaves already needs no other reason.
        let _ = world.leave_group(other, &name);
    }
    Some(inbox)
}
