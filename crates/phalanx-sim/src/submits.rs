//! What the applications submit to the states of their groups.

use bytes::Bytes;
use phalanx_core::GroupId;
use phalanx_core::rng::Rng;

use crate::app::{App, Submit};
use crate::plan::Workload;
use crate::result::add_to;
use crate::world::{World, is_whole};

/// One step in this many abandons an earlier submit, and one closes the client; the others submit.
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
    let Some(name) = any_group(&slot.app, &mut rng) else { return };
    match rng.below(STEPS) {
        0 => slot.app.told.submit(&name, Submit::Abandon(rng.next_u64())),
        1 => slot.app.told.submit(&name, Submit::Close),
        _ => submit_some(&mut slot.app, &name, &mut rng),
    }
    world.wake(index, world.now_ns);
}

/// That fault struck: some members submit now, of which one may be cut off with what it does not hear.
pub(crate) fn submit_in_fault(world: &mut World, fault: usize) {
    let Some(workload) = world.settings.workload.filter(|workload| workload.has_domains && workload.submit_ppm > 0)
    else {
        return;
    };
    for index in 0..world.slots.len() {
        let slot = &mut world.slots[index];
        let mut rng = slot.rng.fork("submits in faults").fork(&format!("{fault} at {}", world.now_ns));
        if !world.sending || !slot.runs() || slot.app.maker.is_some() || !rng.chance_ppm(workload.submit_ppm) {
            continue;
        }
        if let Some(name) = any_group(&slot.app, &mut rng) {
            submit_some(&mut slot.app, &name, &mut rng);
            world.wake(index, world.now_ns);
        }
    }
}

/// Evaluates, in the calm at the end, that each submit has an outcome at the members that hear the others and that may go on.
pub(crate) fn judge_outcomes(world: &mut World) {
    for index in 0..world.slots.len() {
        let is_whole = is_whole(world, index);
        let slot = &mut world.slots[index];
        let Some(node) = slot.node.as_ref().filter(|_| is_whole && !slot.paused && !slot.leaving) else { continue };
        // Outside the primary, and while too few members have the state, nothing is told.
        let is_due = |group: &GroupId| node.process().is_adequate(*group) == Some(true);
        let open = slot.app.told.open_submits();
        let due: Vec<_> = open.into_iter().filter(|(group, _)| is_due(group)).collect();
        let judged = due.len() as u64;
        let text = |(group, open): (GroupId, usize)| format!("{} of group {}", open, group.0);
        let without: Vec<String> = due.into_iter().filter(|(_, open)| *open > 0).map(text).collect();
        if !without.is_empty() {
            let text = format!("{} waits for submits in the calm: {}", slot.name, without.join(", "));
            world.violation("liveness", text);
        }
        add_to(&mut world.counters.moments, "groups in which all submits of a member were due an outcome", judged);
    }
}

/// A group with a state that the process is in, or wants to be in.
fn any_group(app: &App, rng: &mut Rng) -> Option<String> {
    let mine: Vec<&String> = app.wanted.iter().filter(|(_, with_state)| **with_state).map(|(name, _)| name).collect();
    let spot = usize::try_from(rng.below(mine.len().max(1) as u64)).unwrap_or(0);
    mine.get(spot).map(|name| (*name).clone())
}

/// Some messages at once.
fn submit_some(app: &mut App, name: &str, rng: &mut Rng) {
    for _ in 0..1 + rng.below(AT_ONCE_MAX) {
        let words = 1 + rng.below(WORDS_MAX);
        let payload: Vec<u8> = (0..words).flat_map(|_| rng.next_u64().to_le_bytes()).collect();
        app.told.submit(name, Submit::Message(Bytes::from(payload)));
    }
}
