//! A group that processes leave and join several times a second, while another group waits or a member is out. What
//! waits must not wait longer for it.

use std::collections::BTreeMap;

use phalanx_core::rng::Rng;

use super::Churn;
use super::crowded::waiting;
use super::parts::calm;
use crate::clock::{MS, SECOND};
use crate::draw::index;
use crate::fault::{Aim, Fault, Kind, Role, Shape};
use crate::plan::Plan;
use crate::result::add_to;
use crate::slot::Slot;
use crate::timer::churn_timer;
use crate::workload::MINORITY;
use crate::world::World;

/// Name of the group that changes.
pub(crate) const CHURNING: &str = "x";

/// Lets processes of `plan` change a group all the time. Meanwhile a group is cut off or stopped as a whole, or a member
/// is excluded.
pub(crate) fn add_churn(rng: &mut Rng, plan: &mut Plan) {
    let more = [0, 0, 1, 2][index(rng, 4)];
    calm(plan, more);
    let most = (plan.members - 1) / 2;
    let count = if rng.chance_ppm(600_000) { most } else { 1 + index(rng, most) };
    let first = index(rng, plan.members);
    let few: Vec<usize> = (0..count).map(|step| (first + step) % plan.members).collect();
    let at_ns = 5 * SECOND + rng.below(2 * SECOND);
    let lasts_ns = 2 * SECOND + rng.below(3_000) * MS;
    if rng.chance_ppm(700_000) {
        plan.minority = few.clone();
        let kind = Kind::Strand { stops: rng.chance_ppm(300_000) };
        plan.faults.push(Fault { aim: Aim::At(at_ns), kind, lasts_ns });
        if count > 1 && rng.chance_ppm(700_000) {
            // One of them does not come back, and nobody knows whether it is dead: the others are waited for a moment.
            plan.death_notice = false;
            let aim = Aim::At(at_ns + 200 * MS + rng.below(lasts_ns));
            plan.faults.push(Fault { aim, kind: Kind::Kill(Role::Slot(first)), lasts_ns: 0 });
        }
        let aim = Aim::At(at_ns + SECOND + rng.below(lasts_ns));
        plan.faults.push(Fault { aim, kind: Kind::FoundAgain, lasts_ns: 0 });
    } else {
        // The same member again and again, so that it has to wait before it may come back.
        let role = Role::Slot(first);
        for step in 0..1 + rng.below(3) {
            let kind = if rng.chance_ppm(500_000) { Kind::Pause(role) } else { Kind::Cut(Shape::Isolate(role)) };
            let aim = Aim::At(at_ns + step * 2 * SECOND);
            plan.faults.push(Fault { aim, kind, lasts_ns: 1_200 * MS + rng.below(300) * MS });
        }
    }
    let who = (0..plan.members).filter(|slot| !few.contains(slot)).collect();
    let period_ns = [100, 200, 200, 400, 800][index(rng, 5)] * MS;
    plan.churn = Some(Churn { period_ns, from_ns: 4 * SECOND, who });
    plan.heal_ns = plan.heal_ns.max(12 * SECOND);
}

/// The changes of a run.
#[derive(Debug, Default)]
pub(crate) struct Churning {
    step: usize,
    /// When a process was first told to wait before it may come back, and for how long at most, by slot. Once it is back,
    /// since when, and 0: its groups have the time to join from then on.
    told_waits: BTreeMap<usize, (u64, u64)>,
}

impl Churning {
    /// Schedules the first change, if there are any.
    pub(crate) fn begin(world: &mut World) -> Self {
        if let Some(churn) = &world.settings.churn {
            world.queue.push(churn.from_ns, churn_timer());
        }
        Self::default()
    }

    /// One process leaves the group, or joins it.
    pub(crate) fn change(&mut self, world: &mut World) {
        let Some(churn) = world.settings.churn.clone() else { return };
        world.queue.push(world.now_ns + churn.period_ns, churn_timer());
        let slot = churn.who[self.step % churn.who.len()];
        self.step += 1;
        let place = &world.slots[slot];
        if !place.runs() || place.paused || place.leaving {
            return;
        }
        let is_in = place.app.member_of(CHURNING).is_some();
        let done = match place.app.wanted.contains_key(CHURNING) {
            true if is_in => world.leave_group(slot, CHURNING),
            true => return,
            false => world.join_group(slot, CHURNING, true),
        };
        // Refused while it is still leaving.
        if done.is_err() {
            return;
        }
        let is_out = |slot: &Slot| slot.node.as_ref().is_some_and(|node| node.process().must_wait_to_rejoin());
        let out = world.slots.iter().enumerate().any(|(index, slot)| is_out(slot) && !world.ruined.contains(&index));
        self.note_waits(world);
        for (met, name) in [
            (waiting(world) > 0, "changes of a group while another one waited"),
            (out, "changes of a group while a process was kept out"),
        ] {
            if met {
                add_to(&mut world.counters.moments, name, 1);
            }
        }
    }

    fn note_waits(&mut self, world: &World) {
        for (index, slot) in world.slots.iter().enumerate() {
            let process = slot.node.as_ref().map(|node| node.process());
            let told = self.told_waits.get(&index).filter(|(_, wait_ns)| *wait_ns > 0).copied();
            if process.is_none() {
                self.told_waits.remove(&index);
            } else if process.is_some_and(|process| process.is_primary()) {
                if told.is_some() {
                    self.told_waits.insert(index, (world.now_ns, 0));
                }
            } else if process.is_some_and(|process| process.must_wait_to_rejoin())
                && let Some(wait_ns) = slot.app.searching.as_deref().and_then(told_wait_ns)
            {
                let (since_ns, longest_ns) = told.unwrap_or((world.now_ns, 0));
                self.told_waits.insert(index, (since_ns, longest_ns.max(wait_ns)));
            }
        }
    }

    /// Until when the processes may be out that were told to wait, and the groups of those that are back: twice as long
    /// as they were told, and then the time to join. Until the heal a wait may begin anew.
    pub(crate) fn waits_until(&self, healed_ns: u64, join_ns: u64) -> u64 {
        let until = |(told_ns, wait_ns): &(u64, u64)| (*told_ns).max(healed_ns) + 2 * wait_ns;
        self.told_waits.values().map(until).fold(healed_ns, u64::max) + join_ns
    }
}

/// What still waits because of the changes, if anything: a group, or a process that is out.
pub(crate) fn waits_for_calm(world: &World) -> Option<String> {
    let healthy = |slot: &usize| !world.ruined.contains(slot) && world.slots[*slot].runs();
    for slot in (0..world.slots.len()).filter(healthy) {
        let place = &world.slots[slot];
        let is_member = place.node.as_ref().is_some_and(|node| node.process().is_primary());
        if !is_member {
            let why = place.app.searching.as_deref().unwrap_or("nothing was said");
            return Some(format!("{} is in no primary view: {why}", place.name));
        }
        if place.app.wanted.contains_key(MINORITY) && place.app.member_of(MINORITY).is_none() {
            return Some(format!("{} is not in group {MINORITY:?}, which waits", place.name));
        }
    }
    None
}

/// The time in a text like "waits for 1.5s before it is taken in again".
fn told_wait_ns(why: &str) -> Option<u64> {
    let word = why.split_once("waits for ")?.1.split_whitespace().next()?;
    let (number, unit_ns) = match word.strip_suffix("ms") {
        Some(number) => (number, 1e6),
        None => (word.strip_suffix('s')?, 1e9),
    };
    number.parse::<f64>().ok().map(|number| (number * unit_ns) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_is_read_from_what_a_process_is_told() {
        let told = |wait: &str| told_wait_ns(&format!("it was left out, and waits for {wait} before it is taken in"));
        assert_eq!((told("1.5s"), told("900.0ms"), told("long")), (Some(1_500 * MS), Some(900 * MS), None));
        assert_eq!(told_wait_ns("no address is known"), None);
    }
}
