//! The applications' own actions: they join groups, multicast, answer, leave and come back.

use phalanx_core::member::Role;
use phalanx_core::{GroupId, GroupTerms, Order, Stability, Uniformity, ViewNumber};

use crate::asks::{answer_asks, ask_something, draw_order};
use crate::machine::{ToSend, enclose};
use crate::oracle::hash_bytes;
use crate::plan::Workload;
use crate::queued::{queue_early, queue_message, queue_named};
use crate::submits::submit_something;
use crate::to_one::{answer_to_one, send_to_one};
use crate::world::{Event, World};

/// The groups of every simulation. Most processes are in the first.
pub(crate) const GROUPS: [&str; 2] = ["a", "b"];

/// The group of a few, in the plans that have one.
pub(crate) const MINORITY: &str = "m";

/// A group that one process asks for, in the plans that have many.
pub(crate) const NEW: &str = "new";

/// Bound on the length of a chain of answers.
const CHAIN_MAX: u8 = 6;

impl World {
    /// One step of a process's application.
    pub(crate) fn work(&mut self, index: usize) {
        let Some(workload) = self.settings.workload else { return };
        let slot = &mut self.slots[index];
        let gap_ns = workload.gap_ns / 2 + slot.rng.below(workload.gap_ns);
        let life = slot.life;
        self.queue.push(self.now_ns + gap_ns, Event::Work { slot: index, life });
        let slot = &self.slots[index];
        if slot.node.is_none() || slot.paused || slot.leaving {
            return;
        }
        self.join_what_is_due(index, &workload);
        // A rise of the level is a view, so none is requested once the cell is to stay as it is.
        if let Some(builds) = self.settings.builds
            && self.regrouping
            && self.levels_rng.chance_ppm(builds.raise_ppm)
        {
            // Refused if a member does not know the level; requested again later.
            let _ = self.raise_level(index, builds.later);
        }
        if self.sending {
            queue_early(self, index, &GROUPS);
            if !self.operate(index, &workload) {
                self.multicast_something(index, &workload);
            }
            send_something(self, index);
            send_to_one(self, index, &workload);
            ask_something(self, index, &workload);
            submit_something(self, index, &workload);
            if self.regrouping
                && workload.regroup_ns > 0
                && self.slots[index].rng.below(workload.regroup_ns) < workload.gap_ns
            {
                self.regroup(index);
            }
        }
    }

    /// A process's groups follow from its slot, so that they are the same in each of its incarnations.
    fn join_what_is_due(&mut self, index: usize, workload: &Workload) {
        let slot = &self.slots[index];
        let home = hash_bytes(slot.name.as_bytes()) % 1_000_000 < u64::from(workload.second_group_ppm);
        // One in four of those in "b" is in "b" only.
        let only_second = home && index % 4 == 3;
        let due = [!only_second, home, self.settings.minority.contains(&index), self.settings.askers.contains(&index)];
        for (number, (name, due)) in GROUPS.into_iter().chain([MINORITY, NEW]).zip(due).enumerate() {
            if due && !self.slots[index].app.wanted.contains_key(name) {
                // Refused while it is still leaving; requested again in the next step.
                let _ = match self.settings.stateless.contains(&(index, number)) {
                    true => self.join_group_on(index, name, Role::Observer, GroupTerms::default()),
                    false => self.join_group(index, name, true),
                };
            }
        }
        let crowd = self.settings.crowd.as_ref().map_or_else(Vec::new, |crowd| crowd.of(index).collect());
        for name in crowd {
            if !self.slots[index].app.wanted.contains_key(&name) {
                let _ = self.join_group(index, &name, true);
            }
        }
    }

    /// Leaves one of its groups; the next step rejoins it.
    pub(crate) fn regroup(&mut self, index: usize) {
        let spot = usize::try_from(self.slots[index].rng.below(2)).unwrap_or(0);
        for name in [GROUPS[spot], GROUPS[1 - spot]] {
            if self.slots[index].app.wanted.contains_key(name) && self.leave_group(index, name).is_ok() {
                self.note(Some(index), format!("leaves group {name:?} for a while"));
                return;
            }
        }
    }

    /// A process leaves a group whose state it refused, and asks for it again in one of its next steps.
    pub(crate) fn leave_refused(&mut self, index: usize, group: GroupId) {
        let name = self.slots[index].app.groups.get(&group).map(|group| group.name.clone());
        if let Some(name) = name
            && self.leave_group(index, &name).is_ok()
        {
            self.note(Some(index), format!("refused the state of group {name:?}, and leaves it"));
        }
    }

    fn multicast_something(&mut self, index: usize, workload: &Workload) {
        let slot = &mut self.slots[index];
        let mine: Vec<GroupId> = slot
            .app
            .groups
            .iter()
            .filter(|(_, group)| group.view > ViewNumber::NONE && slot.app.wanted.contains_key(&group.name))
            .map(|(id, _)| *id)
            .collect();
        let spot = slot.rng.below(mine.len() as u64);
        let Some(group) = usize::try_from(spot).ok().and_then(|spot| mine.get(spot)) else {
            return;
        };
        let order = draw_order(&mut slot.rng, workload.orders);
        let uniformity = Uniformity::from_flag(slot.rng.chance_ppm(workload.uniform_ppm));
        let len = if slot.rng.chance_ppm(workload.long_ppm) {
            1000 + slot.rng.below(workload.long_bytes)
        } else {
            9 + slot.rng.below(150)
        };
        self.multicast_bytes(index, *group, order, uniformity, 0, len);
    }

    /// Multicasts `len` bytes that no other message has.
    pub(crate) fn multicast_bytes(
        &mut self,
        index: usize,
        group: GroupId,
        order: Order,
        uniformity: Uniformity,
        chain: u8,
        len: u64,
    ) {
        let slot = &mut self.slots[index];
        if slot.paused {
            return; // a stopped process's application does nothing
        }
        if slot.app.maker.is_some() {
            self.multicast_of_machine(index, group, order, uniformity, chain, len);
            return;
        }
        let mut payload = std::mem::take(&mut self.payload);
        payload.clear();
        payload.push(chain);
        while (payload.len() as u64) < len {
            payload.extend_from_slice(&slot.rng.next_u64().to_le_bytes());
        }
        // A refusal for lack of credit is counted, and the message is dropped, as an application might do.
        if !queue_message(self, index, group, (order, uniformity), &payload) {
            let _ = self.multicast(index, group, order, uniformity, &payload);
        }
        self.payload = payload;
    }

    /// Multicasts what the user's machine wants to send now, each message padded to `len` bytes.
    fn multicast_of_machine(
        &mut self,
        index: usize,
        group: GroupId,
        drawn: Order,
        uniformity: Uniformity,
        chain: u8,
        len: u64,
    ) {
        let mut message = std::mem::take(&mut self.payload);
        for ToSend { order, stability, domain, payload } in self.slots[index].app.act(group, drawn) {
            let uniformity = match stability {
                Stability::GroupDefault => uniformity,
                Stability::Plain => Uniformity::Plain,
                Stability::Uniform => Uniformity::Uniform,
            };
            enclose(chain, self.slots[index].rng.next_u64(), &payload, len, &mut message);
            let how = (order, uniformity);
            let is_queued = match domain {
                // By name, as a user's program does.
                Some(domain) => queue_named(self, index, group, how, domain, &message),
                None => queue_message(self, index, group, how, &message),
            };
            if !is_queued {
                let _ = self.multicast(index, group, order, uniformity, &message);
            }
        }
        self.payload = message;
    }

    /// Answers some of the deliveries of the last iteration.
    pub(crate) fn answer(&mut self, index: usize) {
        let mut answerable = std::mem::take(&mut self.slots[index].app.answerable.multicasts);
        if let Some(workload) = self.settings.workload {
            for (group, chain) in answerable.drain(..) {
                let slot = &mut self.slots[index];
                let draws = chain < CHAIN_MAX && self.sending && slot.rng.chance_ppm(workload.reply_ppm);
                if draws && !slot.leaving {
                    self.multicast_bytes(index, group, Order::Causal, Uniformity::Plain, chain + 1, 20);
                }
            }
        }
        answerable.clear();
        self.slots[index].app.answerable.multicasts = answerable;
        answer_to_one(self, index);
        answer_asks(self, index);
    }
}

fn send_something(world: &mut World, index: usize) {
    let slot = &mut world.slots[index];
    if !slot.rng.chance_ppm(100_000) {
        return;
    }
    let Some(view) = slot.node.as_ref().and_then(|node| node.process().cell_view()) else {
        return;
    };
    let spot = slot.rng.below(view.members.len() as u64);
    let Some(peer) = usize::try_from(spot).ok().and_then(|spot| view.members.get(spot)) else {
        return;
    };
    let to = peer.incarnation;
    let words = 1 + slot.rng.below(40);
    let payload: Vec<u8> = (0..words).flat_map(|_| slot.rng.next_u64().to_le_bytes()).collect();
    if slot.incarnation() != Some(to) {
        let _ = world.send_to(index, to, &payload);
    }
}
