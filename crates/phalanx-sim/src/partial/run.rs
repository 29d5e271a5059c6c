//! Draws the plans whose paths break in part, and breaks these paths in a run.

use std::collections::BTreeSet;

use phalanx_core::TrafficClass;
use phalanx_core::member::budget_of;
use phalanx_core::rng::Rng;
use phalanx_core::wire::Kind;
use phalanx_trace::Event as TraceEvent;

use super::{Break, Gate, Partial, Place, Provoke, What};
use crate::clock::{MS, SECOND};
use crate::draw::index;
use crate::fault::{Aim, Busy, Role};
use crate::links::all_links;
use crate::plan::Plan;
use crate::result::add_to;
use crate::world::World;

/// Time from the break to the end of the run's last phase: the checker's bound, time in which messages are evaluated
/// against it, and the bound once more for their delivery.
pub(crate) const PARTIAL_NS: u64 = 36 * SECOND;

/// Interval within which applications multicast in each group.
const SENDS_EVERY_NS: u64 = 3 * SECOND;

/// Time for which an aimed break waits for its moment.
const PATIENCE_NS: u64 = 3 * SECOND;

impl Plan {
    /// A plan whose faulty phase is short, or has no fault, and after which paths break in part.
    #[must_use]
    pub fn draw_partial(seed: u64, members: usize) -> Self {
        let mut rng = Rng::new(seed).fork("partial");
        // Cells below the level at which members probe each other promise nothing here.
        let mut plan = Self { minima: None, builds: None, ..Self::draw_single_inbox(seed, members) };
        (plan.mild, plan.lethal, plan.ruin) = (false, false, false);
        plan.heal_ns = (4 + rng.below(4)) * SECOND;
        let disturbed = rng.chance_ppm(500_000);
        plan.faults.retain(|fault| {
            let (Aim::At(at_ns) | Aim::Inside { from_ns: at_ns, .. }) = fault.aim;
            disturbed && at_ns < plan.heal_ns
        });
        let mut breaks = vec![draw_break(&mut rng, &plan)];
        if plan.members >= 5 && rng.chance_ppm(200_000) {
            breaks.push(draw_break(&mut rng, &plan));
        }
        let back_ns = rng.chance_ppm(700_000).then(|| 10 * MS + rng.below(600 * MS));
        let provoke = match rng.below(10) {
            0..=3 => Provoke::Crash(back_ns),
            4..=6 => Provoke::Leave(back_ns),
            7 | 8 => Provoke::Regroup,
            _ => Provoke::Nothing,
        };
        let busy = match provoke {
            Provoke::Crash(_) | Provoke::Leave(None) => [Busy::Flush, Busy::Proposal][index(&mut rng, 2)],
            Provoke::Leave(Some(_)) => [Busy::Flush, Busy::Proposal, Busy::Join][index(&mut rng, 3)],
            Provoke::Regroup | Provoke::Nothing => [Busy::Flush, Busy::Transfer][index(&mut rng, 2)],
        };
        let after_ns = [0, rng.below(8 * plan.weather.base_ns)][index(&mut rng, 2)];
        let inside = (provoke != Provoke::Nothing && rng.chance_ppm(500_000)).then_some((busy, after_ns));
        let provoke_after_ns = [0, rng.below(50 * MS), rng.below(3 * SECOND)][index(&mut rng, 3)];
        plan.partial = Some(Partial { breaks, inside, provoke, provoke_after_ns });
        plan
    }
}

fn draw_break(rng: &mut Rng, plan: &Plan) -> Break {
    let what = match rng.below(10) {
        0 | 1 => What::All,
        2 | 3 => What::Socket(TrafficClass::Data),
        4 | 5 => What::Socket(TrafficClass::Control),
        6 | 7 => {
            let kinds =
                [Kind::Handshake, Kind::Direct, Kind::BestEffortMulticast, Kind::Control, Kind::Data, Kind::Multicast];
            What::Kind(kinds[index(rng, kinds.len())])
        }
        _ if plan.packet_bytes > 4_000 => What::Longer([600, 1_500, 4_000][index(rng, 3)]),
        _ => What::Longer([600, 1_000, 1_300][index(rng, 3)]),
    };
    let role = match rng.below(6) {
        0 | 1 => Role::Coordinator,
        2 => Role::Joiner,
        _ => Role::Slot(index(rng, 64)),
    };
    let other = Role::Slot(index(rng, 64));
    // Three members are no quorum without the two ends of a link. A process that no other hears, or that hears none, is
    // not partly broken.
    let link = plan.members >= 5 && (what == What::All || rng.chance_ppm(400_000));
    let at = match (link, rng.below(3)) {
        (true, 0) => Place::Link(role, other),
        (true, 1) => Place::OneWay(role, other),
        (true, _) => Place::OneWay(other, role),
        (false, 0) => Place::To(role),
        (false, 1) => Place::From(role),
        (false, _) => Place::Around(role),
    };
    let what = if !link && what == What::All {
        What::Socket([TrafficClass::Data, TrafficClass::Control][index(rng, 2)])
    } else {
        what
    };
    Break { at, what }
}

impl World {
    /// Breaks the paths, if the processes on none of them are a quorum without those at the broken ends, and these may go.
    pub(crate) fn impair(&mut self, partial: &Partial) {
        let n = self.slots.len();
        // Members that were excluded before count against the removal budget. When it is used up, a member at a broken path
        // stays, and all wait for it.
        let excluded = self.slots.iter().filter(|slot| slot.app.counts.exclusions > 0).map(|slot| &slot.name);
        let mut may_go = budget_of(n).saturating_sub(excluded.collect::<BTreeSet<_>>().len());
        for broken in &partial.breaks {
            let (ends, what) = (self.ends(broken.at), broken.what);
            let packet_bytes = |slot: usize| self.settings.unequal.get(slot).map(|own| own.packet_bytes);
            let packets = (0..n).map(|slot| packet_bytes(slot).unwrap_or(self.settings.packet_bytes) as usize);
            let slots = self.slots.iter().zip(packets).map(|(slot, packet_bytes)| {
                let groups = slot.app.wanted.keys().map(String::as_str).collect();
                Side { name: &slot.name, packet_bytes, groups }
            });
            let slots: Vec<Side<'_>> = slots.collect();
            let other = other_ends(&ends, what, &slots);
            let all: Vec<usize> = self.impaired.iter().chain(&ends).chain(&other).copied().collect();
            let may_go_on = |last: usize, others: &[usize]| may_go > 0 && self.can_do_without(others, last);
            let Some((last, others)) = all.split_last().filter(|(last, others)| may_go_on(**last, others)) else {
                self.counters.faults_withheld += 1;
                continue;
            };
            debug_assert!(*last < n && others.iter().all(|slot| *slot < n), "ends are slots");
            let links = all_links(n).into_iter().filter(|(from, to)| match broken.at {
                Place::Link(..) => ends.contains(from) && ends.contains(to),
                Place::OneWay(..) => [*from, *to] == ends[..],
                Place::To(_) => ends.contains(to),
                Place::From(_) => ends.contains(from),
                Place::Around(_) => ends.contains(from) || ends.contains(to),
            });
            let gate = Gate::new(links.collect(), what);
            self.net.put_up(gate);
            // A broken path is broken in memory, too.
            if let Some(memory) = &mut self.settings.memory {
                memory.bridges = false;
            }
            self.impaired = all;
            may_go -= 1;
            let name = broken.name();
            add_to(&mut self.counters.partial, &name, 1);
            let names: Vec<String> = ends.iter().chain(&other).map(|slot| self.slots[*slot].name.clone()).collect();
            let text = format!("{what:?} does not pass any more, {:?}: {}", broken.at, names.join(" "));
            self.note(None, text);
            let event = TraceEvent::Impaired { ends: names, what: name, sends_every_ns: SENDS_EVERY_NS };
            self.harness.push(self.now_ns, event);
        }
    }

    /// The slots at the ends of a break. With a one-way link its sender comes first.
    fn ends(&mut self, at: Place) -> Vec<usize> {
        match at {
            Place::Link(a, b) | Place::OneWay(a, b) => {
                let (Some(a), Some(b)) = (self.resolve(a), self.resolve(b)) else { return Vec::new() };
                // One process may play both roles; then the next slot is the other end.
                let b = if a == b { (b + 1) % self.slots.len() } else { b };
                vec![a, b]
            }
            Place::To(role) | Place::From(role) | Place::Around(role) => self.resolve(role).into_iter().collect(),
        }
    }

    /// Changes the view. A process goes that those on no broken path can do without, otherwise one at a broken end.
    pub(crate) fn provoke(&mut self, provoke: Provoke) {
        let n = self.slots.len();
        let first = usize::try_from(self.rng.below(n as u64)).unwrap_or(0);
        let at_end = |slot: &usize| self.impaired.contains(slot);
        let runs = |slot: &usize| self.slots[*slot].runs() && !self.slots[*slot].leaving;
        let order: Vec<usize> = (0..n).map(|step| (first + step) % n).filter(runs).collect();
        let spare = order.iter().copied().find(|slot| !at_end(slot) && self.can_do_without(&self.impaired, *slot));
        let Some(slot) = spare.or_else(|| order.iter().copied().find(at_end)) else { return };
        match provoke {
            Provoke::Crash(back_ns) => {
                self.crash(slot);
                back_ns.into_iter().for_each(|back_ns| self.start_later(slot, back_ns, false));
            }
            Provoke::Leave(back_ns) => {
                self.leave(slot);
                back_ns.into_iter().for_each(|back_ns| self.start_later(slot, back_ns, false));
            }
            Provoke::Regroup => self.regroup(order[0]),
            Provoke::Nothing => {}
        }
    }

    /// Names of the processes on no broken path.
    pub(crate) fn unimpaired(&self) -> Vec<String> {
        let whole = self.slots.iter().enumerate().filter(|(slot, _)| !self.impaired.contains(slot));
        whole.map(|(_, slot)| slot.name.clone()).collect()
    }
}

/// What decides which packets pass between a process and another one.
struct Side<'a> {
    /// Processes with one name are never members at a time.
    name: &'a str,
    /// Its longest packets.
    packet_bytes: usize,
    /// The groups that it is in, or wants to be in.
    groups: BTreeSet<&'a str>,
}

/// The slots of the only process that has packets with the one at `ends` that are lost, because no other one has such long
/// ones, or a group in common: the other end of the only path that is broken. With more such processes the first one is
/// at all broken paths.
fn other_ends(ends: &[usize], what: What, slots: &[Side<'_>]) -> Vec<usize> {
    let [end] = ends else { return Vec::new() };
    let one = &slots[*end];
    let loses = |other: &Side<'_>| match what {
        What::Longer(than) => other.packet_bytes.min(one.packet_bytes) > than,
        What::Kind(Kind::Multicast | Kind::BestEffortMulticast) => !other.groups.is_disjoint(&one.groups),
        What::All | What::Socket(_) | What::Kind(_) => true,
    };
    let is_met = |slot: &usize| slots[*slot].name != one.name && loses(&slots[*slot]);
    let met: Vec<usize> = (0..slots.len()).filter(is_met).collect();
    let names: BTreeSet<&str> = met.iter().map(|slot| slots[*slot].name).collect();
    if names.len() == 1 { met } else { Vec::new() }
}

/// Breaks the paths of a plan, and changes the view. `go` runs the world until a time, and stops at once when it finds
/// a process busy with the given activity.
pub(crate) fn begin(partial: &Partial, world: &mut World, go: &mut impl FnMut(&mut World, u64, Option<Busy>)) {
    match partial.inside {
        None => {
            world.impair(partial);
            go(world, world.now_ns + partial.provoke_after_ns, None);
            world.provoke(partial.provoke);
        }
        Some((busy, after_ns)) => {
            world.provoke(partial.provoke);
            go(world, world.now_ns + PATIENCE_NS, Some(busy));
            go(world, world.now_ns + after_ns, None);
            world.impair(partial);
        }
    }
    // Processes that are to be restarted are started.
    go(world, world.now_ns + SECOND, None);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_two_alone_use_has_two_ends() {
        let of = |sides: &[(&'static str, usize, &[&'static str])]| -> Vec<Side<'static>> {
            let side = |(name, packet_bytes, groups): &(&'static str, usize, &[&'static str])| Side {
                name,
                packet_bytes: *packet_bytes,
                groups: groups.iter().copied().collect(),
            };
            sides.iter().map(side).collect()
        };
        let slots = of(&[("a", 1472, &["g"]), ("b", 4000, &["g", "h"]), ("c", 4000, &["h", "i"]), ("d", 1200, &["g"])]);
        let long = What::Longer(1_500);
        assert_eq!(other_ends(&[1], long, &slots), [2]);
        assert_eq!(other_ends(&[2], long, &slots), [1]);
        assert!(other_ends(&[0], long, &slots).is_empty(), "no path of it is broken");
        assert!(other_ends(&[1], What::Longer(1_300), &slots).is_empty(), "it is at all broken paths");
        assert!(other_ends(&[1, 2], long, &slots).is_empty(), "a link has two ends already");
        assert!(other_ends(&[1], What::All, &slots).is_empty());
        let twins = of(&[("a", 1472, &[]), ("b", 4000, &[]), ("c", 4000, &[]), ("c", 8972, &[])]);
        assert_eq!(other_ends(&[1], long, &twins), [2, 3], "one name");
        let multicast = What::Kind(Kind::Multicast);
        assert_eq!(other_ends(&[2], multicast, &slots), [1], "its only group has one other member");
        assert!(other_ends(&[1], multicast, &slots).is_empty() && other_ends(&[0], multicast, &slots).is_empty());
        assert!(other_ends(&[2], What::Kind(Kind::Control), &slots).is_empty());
    }

    #[test]
    fn every_kind_of_break_is_drawn_and_three_members_lose_no_link() {
        let names = |members| -> BTreeSet<String> {
            let plans = (0..3000).filter_map(|seed| Plan::draw_partial(seed, members).partial);
            plans.flat_map(|partial| partial.breaks).map(|broken| broken.name()).collect()
        };
        // Everything on two kinds of link; two sockets, six kinds and a length on all five places.
        assert_eq!(names(5).len(), 2 + 9 * 5);
        assert_eq!(names(3).len(), 9 * 3);
    }
}
