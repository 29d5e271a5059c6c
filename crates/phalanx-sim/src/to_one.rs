//! What the applications send to one member of a group, and how they answer.

use phalanx_core::rng::Rng;
use phalanx_core::{CommandError, GroupId, Incarnation, ToOneKind, ViewNumber};

use crate::plan::Workload;
use crate::result::add_to;
use crate::world::World;

/// Share of messages to one that are answered at once, and of those answered later or never.
const ANSWERED_PPM: u32 = 600_000;
/// Share of members that are greeted at once by each other one.
const GREETED_PPM: u32 = 400_000;
/// Share of messages to one that are long, and the length of the longest. Some of them fill a window.
const LONG_PPM: u32 = 30_000;
const LONG_BYTES: u64 = 150_000;

/// One step of a process's application: it may send messages to one member of one of its groups, itself among them.
pub(crate) fn send_to_one(world: &mut World, index: usize, workload: &Workload) {
    let slot = &mut world.slots[index];
    if workload.to_one_ppm == 0 || !slot.rng.chance_ppm(workload.to_one_ppm) {
        return;
    }
    let groups = slot.app.groups.iter().filter(|(_, group)| group.view > ViewNumber::NONE && !group.members.is_empty());
    let mine: Vec<(GroupId, Vec<Incarnation>)> = groups.map(|(id, group)| (*id, group.members.clone())).collect();
    let Some((group, members)) = pick(&mut slot.rng, &mine) else { return };
    let Some(to) = pick(&mut slot.rng, &members) else { return };
    // Now and then several at once, so that they meet a view change, or a window, together.
    let times = if slot.rng.chance_ppm(100_000) { 2 + slot.rng.below(6) } else { 1 };
    for _ in 0..times {
        let payload = draw_payload(&mut world.slots[index].rng);
        pass(world, index, (group, to), ToOneKind::Message, &payload);
    }
}

/// Answers messages to one that came in the last iteration, or before, and greets members that came.
pub(crate) fn answer_to_one(world: &mut World, index: usize) {
    let slot = &mut world.slots[index];
    let newcomers = std::mem::take(&mut slot.app.answerable.newcomers);
    let greets = world.settings.workload.is_some_and(|workload| workload.to_one_ppm > 0) && world.sending;
    if greets && !slot.paused && !slot.leaving {
        for partner in newcomers {
            if world.slots[index].rng.chance_ppm(GREETED_PPM) {
                let payload = draw_payload(&mut world.slots[index].rng);
                pass(world, index, partner, ToOneKind::Message, &payload);
            }
        }
    }
    let slot = &mut world.slots[index];
    if slot.app.answerable.messages.is_empty() || slot.paused || slot.leaving || !world.sending {
        return;
    }
    let asked = std::mem::take(&mut slot.app.answerable.messages);
    for partner in asked {
        let payload = draw_payload(&mut world.slots[index].rng);
        match world.slots[index].rng.chance_ppm(ANSWERED_PPM) {
            true => pass(world, index, partner, ToOneKind::Answer, &payload),
            // Later, or never.
            false if world.slots[index].rng.chance_ppm(500_000) => {
                world.slots[index].app.answerable.messages.push(partner);
            }
            false => {}
        }
    }
}

fn pass(world: &mut World, index: usize, (group, to): (GroupId, Incarnation), kind: ToOneKind, payload: &[u8]) {
    let slot = &mut world.slots[index];
    let now = slot.local(world.now_ns);
    let Some(node) = slot.node.as_mut() else { return };
    slot.app.now_ns = world.now_ns;
    let outcome = node.send_to(now, group, to, kind, &[payload], &mut slot.app);
    let moment = match outcome {
        Ok(_) if kind.is_answer() => "answers to one",
        Ok(_) => "messages to one member of a group",
        Err(CommandError::NoCredit | CommandError::NoWindow) => "messages to one that had to wait",
        Err(CommandError::NoSuchMember { .. }) => "messages to one that was gone",
        Err(CommandError::BelowLevel { .. }) => "messages to one below their level",
        Err(_) => return,
    };
    add_to(&mut world.counters.moments, moment, 1);
    world.wake(index, world.now_ns);
}

fn draw_payload(rng: &mut Rng) -> Vec<u8> {
    let len = if rng.chance_ppm(LONG_PPM) { 1000 + rng.below(LONG_BYTES) } else { 8 + rng.below(200) };
    let words = len.div_ceil(8);
    let mut payload: Vec<u8> = (0..words).flat_map(|_| rng.next_u64().to_le_bytes()).collect();
    payload[0] = 0; // no word about an ask
    payload
}

fn pick<T: Clone>(rng: &mut Rng, from: &[T]) -> Option<T> {
    let spot = usize::try_from(rng.below(from.len().max(1) as u64)).ok()?;
    from.get(spot).cloned()
}
