//! What the applications ask their groups, and the answers that they put off.

use std::time::Duration;

use bytes::Bytes;
use phalanx_core::rng::Rng;
use phalanx_core::{CommandError, GroupId, Order, SendOptions, Uniformity, ViewNumber};
use phalanx_life::{Ask, Want};

use crate::plan::Workload;
use crate::result::add_to;
use crate::world::World;

/// Share of asks with a deadline, of those whose answers others than the asker give alone, of those that name a view, and of
/// those that are left to the machine that sends when there is room.
const DEADLINE_PPM: u32 = 500_000;
const WITHOUT_SELF_PPM: u32 = 300_000;
const IN_VIEW_PPM: u32 = 100_000;
const QUEUED_PPM: u32 = 400_000;
/// Share of steps in which a process that asks gives one of its asks up.
const CANCEL_PPM: u32 = 100_000;
/// Share of asks that are long, and the length of the longest.
const LONG_PPM: u32 = 50_000;
const LONG_BYTES: u64 = 40_000;
/// No multicast answers an ask: its first byte counts answers to answers.
const LAST_OF_CHAIN: u8 = u8::MAX;

/// One step of a process's application: it may ask one of its groups.
pub(crate) fn ask_something(world: &mut World, index: usize, workload: &Workload) {
    let now_ns = world.now_ns;
    let slot = &mut world.slots[index];
    // A user's machine reads all messages.
    if workload.ask_ppm == 0 || slot.app.maker.is_some() || !slot.rng.fork("asks").chance_ppm(workload.ask_ppm) {
        return;
    }
    // A step of its own, so that no other draw of the seed depends on asks.
    let mut rng = slot.rng.fork("ask");
    let groups = slot.app.groups.iter().filter(|(_, group)| group.view > ViewNumber::NONE && !group.members.is_empty());
    let mine: Vec<(GroupId, ViewNumber, usize)> =
        groups.map(|(id, group)| (*id, group.view, group.members.len())).collect();
    let spot = usize::try_from(rng.below(mine.len().max(1) as u64)).unwrap_or(0);
    let Some((group, view, members)) = mine.get(spot).copied() else { return };
    if rng.chance_ppm(CANCEL_PPM) {
        slot.app.told.cancel_ask(rng.next_u64());
        return world.wake(index, now_ns);
    }
    let want = match rng.below(6) {
        0 | 1 => Want::All,
        2 => Want::Majority,
        3 => Want::Count(1),
        4 => Want::Count(u32::try_from(rng.below(members as u64 + 2)).unwrap_or(1).max(1)),
        _ => Want::Until,
    };
    let order = draw_order(&mut rng, workload.orders);
    let uniformity = Uniformity::from_flag(rng.chance_ppm(workload.uniform_ppm));
    let len = if rng.chance_ppm(LONG_PPM) { 1000 + rng.below(LONG_BYTES) } else { 9 + rng.below(100) };
    let mut payload = vec![LAST_OF_CHAIN];
    while (payload.len() as u64) < len {
        payload.extend_from_slice(&rng.next_u64().to_le_bytes());
    }
    let in_view = rng.chance_ppm(IN_VIEW_PPM).then_some(view);
    let options = SendOptions { in_view, asks: true, ..SendOptions::new(order, uniformity.into()) };
    let now = slot.local(now_ns);
    let longest_ms = if rng.chance_ppm(500_000) { 200 } else { 5_000 };
    let within = Duration::from_millis(20 + rng.below(longest_ms));
    let deadline = rng.chance_ppm(DEADLINE_PPM).then(|| now + within);
    let Some((key, life, receipt)) = slot.app.told.begin_ask(group, want) else { return };
    let payload = Bytes::from(payload);
    let with_self = !rng.chance_ppm(WITHOUT_SELF_PPM);
    let ask =
        Box::new(Ask { number: receipt, life, options, payload: payload.clone(), want, with_self, deadline, receipt });
    if rng.chance_ppm(QUEUED_PPM) {
        slot.app.told.queue_ask(key, ask);
        return world.wake(index, now_ns);
    }
    slot.app.now_ns = now_ns;
    let was_outside = slot.begin_watch();
    let Some(node) = slot.node.as_mut() else { return };
    slot.app.told.begin_asking(ask);
    let outcome = node.multicast_with(now, group, options, &[&payload], &mut slot.app);
    slot.app.told.end_asking();
    slot.end_watch(was_outside);
    let moment = match outcome {
        Ok(_) => "asks sent at once",
        Err(CommandError::BelowLevel { .. }) => "asks below their level",
        Err(CommandError::OtherView) => "asks for another view",
        Err(_) => "asks that had to wait",
    };
    add_to(&mut world.counters.moments, moment, 1);
    if outcome.is_ok() {
        world.carry(index);
    }
    world.wake(index, now_ns);
}

/// Answers asks that came in an earlier iteration, some of the time.
pub(crate) fn answer_asks(world: &mut World, index: usize) {
    let slot = &mut world.slots[index];
    for (moment, count) in slot.app.told.take_moments() {
        add_to(&mut world.counters.moments, moment, count);
    }
    for (moment, count) in slot.app.program.take_moments() {
        add_to(&mut world.counters.moments, moment, count);
    }
    if slot.app.told.has_later() && !slot.paused && slot.rng.fork("later").chance_ppm(200_000) {
        slot.app.told.answer_later();
        world.wake(index, world.now_ns);
    }
}

/// An order, drawn with the weights of fifo, causal and total.
pub(crate) fn draw_order(rng: &mut Rng, weights: [u32; 3]) -> Order {
    let total: u32 = weights.iter().sum();
    let mut draw = rng.below(u64::from(total));
    for (order, weight) in [Order::Fifo, Order::Causal, Order::Total].into_iter().zip(weights) {
        if draw < u64::from(weight) {
            return order;
        }
        draw -= u64::from(weight);
    }
    Order::Total
}
