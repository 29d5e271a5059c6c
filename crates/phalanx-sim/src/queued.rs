//! Messages that an application leaves to the machine that sends them when there is room (`phalanx-life`), as the protocol
//! thread does. A share of the workload's messages goes that way, in groups that the process is not in yet, too.

use std::sync::Arc;

use bytes::Bytes;
use phalanx_core::rng::Rng;
use phalanx_core::{GroupId, Order, Uniformity};
use phalanx_life::{Key, Refusal};

use crate::app::ToQueue;
use crate::app::queue_submits;
use crate::oracle::hash_bytes;
use crate::slot::Slot;
use crate::world::World;

/// One message of so many is queued.
const QUEUED_EVERY: u64 = 3;
/// Messages of a group that are sent in one iteration.
const MESSAGES_PER_TURN: usize = 64;

/// Queues a message to a group, if its payload decides so: no other draw of the seed changes. False: it is not queued.
pub(crate) fn queue_message(
    world: &mut World,
    index: usize,
    group: GroupId,
    (order, uniformity): (Order, Uniformity),
    payload: &[u8],
) -> bool {
    let hash = hash_bytes(payload);
    let Some(name) = world.slots[index].app.groups.get(&group).map(|group| group.name.clone()) else { return false };
    // Also one that the group does not list: it is refused when its turn comes.
    let app = &world.slots[index].app;
    let named = app.program.names(payload).filter(|_| order == Order::Total && app.maker.is_none());
    let domain = named.map(Into::into);
    hash.rotate_left(32).is_multiple_of(QUEUED_EVERY)
        && queue_in(world, index, &name, (order, uniformity), domain, payload)
}

/// Queues a message to one domain of a group's state. It is queued or dropped.
pub(crate) fn queue_named(
    world: &mut World,
    index: usize,
    group: GroupId,
    how: (Order, Uniformity),
    domain: Arc<str>,
    payload: &[u8],
) -> bool {
    if let Some(name) = world.slots[index].app.groups.get(&group).map(|group| group.name.clone()) {
        queue_in(world, index, &name, how, Some(domain), payload);
    }
    true
}

/// Queues a message in a group that the process waits to be in.
pub(crate) fn queue_early(world: &mut World, index: usize, groups: &[&'static str]) {
    let app = &world.slots[index].app;
    // A user's machine sends from its state, which is not there yet.
    if app.maker.is_some() {
        return;
    }
    let mut rng = Rng::new(world.now_ns).fork(&world.slots[index].name);
    let waits = |name: &&&str| app.wanted.contains_key(**name) && app.member_of(name).is_none();
    let Some(name) = groups.iter().find(waits).copied().filter(|_| rng.chance_ppm(20_000)) else { return };
    let mut payload = vec![0];
    payload.extend((0..3).flat_map(|_| rng.next_u64().to_le_bytes()));
    queue_in(world, index, name, (Order::Causal, Uniformity::Uniform), None, &payload);
}

fn queue_in(
    world: &mut World,
    index: usize,
    name: &str,
    (order, uniformity): (Order, Uniformity),
    domain: Option<Arc<str>>,
    payload: &[u8],
) -> bool {
    let awaits = hash_bytes(payload).rotate_left(16).is_multiple_of(2);
    let stability = uniformity.into();
    let message = ToQueue { order, stability, domain, payload: Bytes::copy_from_slice(payload), awaits };
    world.wake(index, world.now_ns);
    world.slots[index].app.told.ask(name, message)
}

impl Slot {
    /// Sends what is to be said of asks in a group. False: nothing of the group may be sent now.
    fn say_of_asks(&mut self, key: Key, now_ns: u64) -> bool {
        while let Some(due) = self.app.told.due_to_one(key) {
            let now = self.local(now_ns);
            let Some(node) = self.node.as_mut() else { return false };
            let outcome = node.send_to(now, due.group, due.to, due.kind, &[&due.payload], &mut self.app);
            match outcome {
                Err(error) if Refusal::of(&error).is_none() => return false,
                outcome => self.app.told.end_to_one(key, outcome.ok()),
            }
        }
        true
    }

    /// Sends what waits in each group, as far as its credit goes. Returns the number of messages.
    pub(crate) fn send_queued(&mut self, now_ns: u64) -> u64 {
        let (mut at, mut count) = (0, 0);
        self.app.now_ns = now_ns;
        queue_submits(&mut self.app);
        while let Some(key) = self.app.told.busy(at) {
            let is_said = self.say_of_asks(key, now_ns);
            for _ in 0..if is_said { MESSAGES_PER_TURN } else { 0 } {
                let Some(due) = self.app.told.due(key) else { break };
                let now = self.local(now_ns);
                let was_outside = self.begin_watch();
                let Some(node) = self.node.as_mut() else { return count };
                self.app.told.begin_sending();
                let outcome = node.multicast_with(now, due.group, due.options, &[&due.payload], &mut self.app);
                let refused = outcome.as_ref().err().and_then(Refusal::of);
                let waits = outcome.is_err() && refused.is_none();
                self.app.told.end_sending(key, refused);
                self.end_watch(was_outside);
                if waits {
                    break;
                }
                count += u64::from(outcome.is_ok());
            }
            at += usize::from(self.app.told.busy(at) == Some(key));
        }
        count
    }
}
