//! What the applications submit to the states of their groups.

use bytes::Bytes;

use crate::app::{App, Submit, record_told};
use crate::plan::Workload;
use crate::world::World;

/// Of so many steps with a submit, one abandons an earlier one instead, and one closes the client.
const STEPS: u64 = 20;
/// The most submits of one step.
const AT_ONCE_MAX: u64 = 4;
/// The words of the longest message.
const WORDS_MAX: u64 = 15;

/// One step of a process's application: it may submit to one of its groups, also to one that it waits to be in.
pub(crate) fn submit_something(world: &mut World, index: usize, workload: &Workload) {
    let slot = &mut world.slots[index];
    // A user's machine has no clients. A generator of its own, so that no other draw of the seed depends on submits.
    let mut rng = slot.rng.fork("submits");
    if !workload.has_domains || slot.app.maker.is_some() || !rng.chance_ppm(workload.submit_ppm) {
        return;
    }
    let mine: Vec<&String> =
        slot.app.wanted.iter().filter(|(_, with_state)| **with_state).map(|(name, _)| name).collect();
    let spot = usize::try_from(rng.below(mine.len().max(1) as u64)).unwrap_or(0);
    let Some(name) = mine.get(spot).map(|name| (*name).clone()) else { return };
    match rng.below(STEPS) {
        0 => slot.app.told.submit(&name, Submit::Abandon(rng.next_u64())),
        1 => slot.app.told.submit(&name, Submit::Close),
        _ => {
            for _ in 0..1 + rng.below(AT_ONCE_MAX) {
                let words = 1 + rng.below(WORDS_MAX);
                let payload: Vec<u8> = (0..words).flat_map(|_| rng.next_u64().to_le_bytes()).collect();
                slot.app.told.submit(&name, Submit::Message(Bytes::from(payload)));
            }
        }
    }
    world.wake(index, world.now_ns);
}

/// Queues what the clients of an application are to send. False: there is nothing.
pub(crate) fn queue_submits(app: &mut App) -> bool {
    let is_due = app.told.queue_submits();
    if is_due {
        record_told(app);
    }
    is_due
}
