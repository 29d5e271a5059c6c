//! Messages whose only holders die. Packets of one member are lost at all but a few others. These few make them
//! uniform, or send uniform messages that depend on them, and then exactly these few crash. If any of them delivered
//! such a message as uniform, the others, which have never seen it, would have to deliver it. So none may have. The
//! remaining members are a quorum.

use std::collections::BTreeSet;

use phalanx_core::rng::Rng;
use phalanx_core::wire::Kind as Packet;
use phalanx_core::wire::Space;
use phalanx_core::{GroupId, Order, Uniformity, ViewNumber};
use phalanx_trace::Event as TraceEvent;

use crate::clock::{MS, SECOND};
use crate::draw::index;
use crate::fault::{Aim, Busy, Fault, Holding, Kind, Role};
use crate::links::all_links;
use crate::partial::{Gate, What};
use crate::plan::Plan;
use crate::result::add_to;
use crate::world::World;

/// Number of times that messages of a fault are sent while it lasts.
const TICKS: u64 = 6;
/// The same if a token must pass first, which may need a second try.
const PASS_TICKS: u64 = 12;
/// Additional faults in a plan with a narrower one.
const MORE: u64 = 4;
/// Abcasts sent at once by the member that is to receive the token.
const BURST: usize = 12;

/// A fault of this kind in force.
#[derive(Clone, Debug)]
pub(crate) struct Holders {
    what: Holding,
    group: GroupId,
    /// The member whose packets are lost, then the others that have them.
    slots: Vec<usize>,
    /// Group members that do not have them.
    lacking: Vec<usize>,
    /// The packet space of the group view, and the number of passes of its token.
    tenure: Option<(Space, u32)>,
    since_ns: u64,
    ticks: u64,
}

impl Holders {
    /// Time between two ticks of a fault of this duration.
    pub(crate) fn gap_ns(&self, lasts_ns: u64) -> u64 {
        lasts_ns / (1 + if self.what == Holding::Pass { PASS_TICKS } else { TICKS })
    }
}

/// Adds these faults to some plans, from a generator of their own.
pub(crate) fn add_holders(rng: &mut Rng, plan: &mut Plan) {
    if plan.mild || plan.members < 3 || !rng.chance_ppm(300_000) {
        return;
    }
    for _ in 0..1 + rng.below(3) {
        let what =
            [Holding::Own, Holding::Past, Holding::OwnPast, Holding::Orders, Holding::EarlierOrders][index(rng, 5)];
        let kind = Kind::Holders {
            role: [Role::Coordinator, Role::Slot(index(rng, 64)), Role::Slot(index(rng, 64))][index(rng, 3)],
            others: 1 + index(rng, 2),
            what,
            back_ns: rng.chance_ppm(800_000).then(|| 10 * MS + rng.below(2 * SECOND)),
        };
        let from_ns = 3 * SECOND + rng.below(plan.heal_ns - 5 * SECOND);
        // Right after a view change, streams and orders begin anew.
        let inside = rng.chance_ppm(200_000);
        let aim = if inside { Aim::Inside { busy: Busy::Flush, from_ns, after_ns: 50 * MS } } else { Aim::At(from_ns) };
        let trips = 6 * (plan.weather.base_ns + plan.weather.jitter_ns);
        plan.faults.push(Fault { aim, kind, lasts_ns: 20 * MS + trips + rng.below(150 * MS) });
    }
}

/// Makes some of these faults narrower, from a generator of their own: the loss begins with one specific packet. Few of
/// them find a process that the cell can do without, so such a plan has more of them.
pub(crate) fn sharpen_holders(rng: &mut Rng, plan: &mut Plan) {
    let mut more = Vec::new();
    for fault in &mut plan.faults {
        let Kind::Holders { what, .. } = &mut fault.kind else { continue };
        match what {
            Holding::Past if rng.chance_ppm(200_000) => *what = Holding::FirstOfPast,
            Holding::EarlierOrders if rng.chance_ppm(500_000) => {
                *what = Holding::Pass;
                fault.lasts_ns *= 2;
                // Up to a fifth of these abcasts may be the holder's own, and the pass comes with the last of them.
                plan.token_tally = 5 * (1 + rng.below(3));
            }
            _ => continue,
        }
        for _ in 0..MORE {
            let back_ns = Some(10 * MS + rng.below(SECOND));
            let role = Role::Slot(index(rng, 64));
            let kind = Kind::Holders { role, others: 1 + index(rng, 2), what: *what, back_ns };
            let aim = Aim::At(3 * SECOND + rng.below(plan.heal_ns - 5 * SECOND));
            more.push(Fault { aim, kind, lasts_ns: fault.lasts_ns });
        }
    }
    plan.faults.append(&mut more);
}

impl World {
    /// Loses a member's packets at all but some others; `None`: it affects no process, or too few would remain.
    pub(crate) fn begin_holders(
        &mut self,
        fault: usize,
        (role, others, what): (Role, usize, Holding),
    ) -> Option<Holders> {
        let slot = self.resolve(role)?;
        let (group, members) = self.group_of(slot)?;
        let source = match what {
            Holding::Orders | Holding::EarlierOrders => *members.first()?,
            Holding::Pass => self.holder_of(slot, group).filter(|holder| members.contains(holder))?,
            _ => slot,
        };
        let mut slots = vec![source];
        let first = usize::try_from(self.rng.below(members.len() as u64)).unwrap_or(0);
        for step in 0..members.len() {
            let other = members[(first + step) % members.len()];
            if slots.len() <= others && !slots.contains(&other) && self.can_do_without(&slots, other) {
                slots.push(other);
            }
        }
        // If other processes build on the lost messages, there must be one.
        let alone = slots.len() == 1 && !matches!(what, Holding::Own | Holding::OwnPast | Holding::Orders);
        if alone || !self.can_do_without(&slots[1..], slots[0]) {
            return None;
        }
        let lacking: Vec<usize> = members.iter().copied().filter(|member| !slots.contains(member)).collect();
        if lacking.is_empty() {
            return None;
        }
        let links = all_links(self.slots.len()).into_iter().filter(|(from, to)| *from == source && !slots.contains(to));
        let mut gate = Gate::new(links.collect(), What::Kind(Packet::Multicast)).of(fault);
        let tenure = self.tenure_of(source, group);
        match (what, tenure) {
            (Holding::OwnPast, _) => gate = gate.learning(),
            (Holding::FirstOfPast, _) => gate = gate.after_the_first(),
            (Holding::Pass, Some(tenure)) => gate = gate.after_pass(tenure),
            _ => {}
        }
        self.net.put_up(gate);
        self.note(Some(source), format!("only {slots:?} have its multicasts from now on: {what:?}"));
        Some(Holders { what, group, slots, lacking, tenure, since_ns: self.now_ns, ticks: 0 })
    }

    /// Sends messages that depend on the lost ones, or that are lost.
    pub(crate) fn tick_holders(&mut self, fault: usize, holders: &mut Holders) {
        holders.ticks += 1;
        let (source, group) = (holders.slots[0], holders.group);
        let builds_on = *holders.slots.get(1).unwrap_or(&source);
        let tally = self.settings.token_tally;
        let order = |rng: &mut Rng| [Order::Fifo, Order::Causal, Order::Total][index(rng, 3)];
        let dependent = |rng: &mut Rng| [Order::Causal, Order::Total][index(rng, 2)];
        let length = 9 + self.rng.below(100);
        match holders.what {
            Holding::Own => {
                let order = order(&mut self.rng);
                self.multicast_bytes(source, group, order, Uniformity::Uniform, 0, length);
            }
            Holding::Past => {
                let (lost, order) = (order(&mut self.rng), dependent(&mut self.rng));
                if holders.ticks < TICKS {
                    self.multicast_bytes(source, group, lost, Uniformity::Plain, 0, length);
                }
                if holders.ticks > 1 {
                    self.multicast_bytes(builds_on, group, order, Uniformity::Uniform, 0, length);
                }
            }
            Holding::OwnPast => {
                let (lost, order) = (order(&mut self.rng), order(&mut self.rng));
                if holders.ticks <= TICKS / 2 {
                    self.multicast_bytes(source, group, lost, Uniformity::Plain, 0, length);
                } else {
                    // Lost packets stay lost; new ones arrive.
                    self.net.end_learning(fault);
                    self.multicast_bytes(source, group, order, Uniformity::Uniform, 0, length);
                }
            }
            Holding::Orders => {
                for slot in holders.lacking.clone() {
                    self.multicast_bytes(slot, group, Order::Total, Uniformity::Uniform, 0, length);
                }
            }
            Holding::EarlierOrders => {
                // Announcements of the first holder are lost; then another one of the few becomes the holder.
                let first = holders.lacking[0];
                self.multicast_bytes(first, group, Order::Total, Uniformity::Uniform, 0, length);
                for _ in 0..BURST {
                    self.multicast_bytes(builds_on, group, Order::Total, Uniformity::Plain, 0, 9);
                }
                if holders.ticks > TICKS / 2 {
                    self.multicast_bytes(first, group, Order::Total, Uniformity::Uniform, 0, length);
                }
            }
            Holding::FirstOfPast => {
                if holders.ticks == 1 {
                    // The two do not fit into one packet. One reaches all and is soon known to be stable; the other
                    // does not.
                    let (spared, lost, long) = (order(&mut self.rng), order(&mut self.rng), self.most_of_a_packet());
                    self.multicast_bytes(source, group, spared, Uniformity::Uniform, 0, long);
                    self.multicast_bytes(source, group, lost, Uniformity::Plain, 0, long);
                } else {
                    let order = dependent(&mut self.rng);
                    self.multicast_bytes(builds_on, group, order, Uniformity::Uniform, 0, length);
                }
            }
            Holding::Pass if self.has_passed(source, holders) => {
                self.multicast_bytes(holders.lacking[0], group, Order::Total, Uniformity::Uniform, 0, length);
                self.multicast_bytes(builds_on, group, Order::Total, Uniformity::Uniform, 0, length);
            }
            Holding::Pass => {
                // The holder counts anew after this many of its own abcasts, and then another member sends most. The
                // last one it counts is its own, which is ordered already. So the pass is in a packet without
                // announcements.
                let (who, abcasts) = [(source, tally / 5), (source, tally), (builds_on, tally - tally / 5)]
                    [(holders.ticks % 3) as usize];
                for _ in 0..abcasts {
                    self.multicast_bytes(who, group, Order::Total, Uniformity::Uniform, 0, 9);
                }
            }
        }
    }

    /// Whether a process has heard that the token passed since.
    fn has_passed(&self, slot: usize, holders: &Holders) -> bool {
        let (before, now) = (holders.tenure, self.tenure_of(slot, holders.group));
        before.zip(now).is_some_and(|(before, now)| before.0 == now.0 && before.1 < now.1)
    }

    /// Length of a message of which one fits in any packet, but not two.
    fn most_of_a_packet(&self) -> u64 {
        let own = self.settings.unequal.iter().map(|own| own.packet_bytes);
        u64::from(own.chain([self.settings.packet_bytes]).min().unwrap_or_default()) * 2 / 3
    }

    /// Called before the packets of a process are carried: those that announce a pass may be the first that are lost.
    pub(crate) fn look_at_passes(&mut self, index: usize) {
        let Some(node) = self.slots[index].node.as_ref() else { return };
        for (space, tenure) in node.process().tenures() {
            self.net.note_tenure(index, space, tenure);
        }
    }

    /// The token holder of a group, as far as a process has heard.
    fn holder_of(&self, slot: usize, group: GroupId) -> Option<usize> {
        let streams = self.slots[slot].node.as_ref()?.process().streams();
        let holder = streams.into_iter().rfind(|stream| stream.group == group)?.orders?;
        self.slots.iter().position(|slot| slot.name == holder)
    }

    /// The packet space of a process's view of a group, and the number of passes of its token as far as it has heard.
    fn tenure_of(&self, slot: usize, group: GroupId) -> Option<(Space, u32)> {
        let process = self.slots[slot].node.as_ref()?.process();
        let views = process.streams().into_iter().zip(process.tenures());
        views.filter(|(stream, _)| stream.group == group).map(|(_, tenure)| tenure).last()
    }

    /// Crashes exactly the few, if the cell can still do without them; counts what was lost with them.
    pub(crate) fn end_holders(&mut self, holders: &Holders, back_ns: Option<u64>) {
        let alive: Vec<usize> = holders.slots.iter().copied().filter(|slot| self.slots[*slot].runs()).collect();
        let spare = alive.split_last().is_some_and(|(last, others)| self.can_do_without(others, *last));
        if alive.len() < holders.slots.len() || !spare {
            self.counters.faults_withheld += 1;
            return;
        }
        let lost = self.lost_with(holders);
        add_to(&mut self.counters.holders, holders.what.name(), lost);
        for slot in alive {
            self.crash(slot);
            back_ns.into_iter().for_each(|back_ns| self.start_later(slot, back_ns, false));
        }
    }

    /// Number of uniform messages that only these processes can deliver: they sent them, or would have ordered them, on
    /// top of what is lost.
    fn lost_with(&self, holders: &Holders) -> u64 {
        let uniform = |slot: usize, ordered: bool| -> u64 {
            let Some(trace) = self.slots[slot].app.traces.last() else { return 0 };
            let sent = trace.records.iter().rev().take_while(|record| record.at_ns >= holders.since_ns);
            let is = |event: &TraceEvent| match event {
                TraceEvent::Send { group, order, uniform: true, .. } => {
                    *group == holders.group.0 && (!ordered || *order == phalanx_trace::Order::Total)
                }
                _ => false,
            };
            sent.filter(|record| is(&record.event)).count() as u64
        };
        let source = holders.slots[0];
        match holders.what {
            Holding::Own | Holding::OwnPast => uniform(source, false),
            Holding::Past | Holding::FirstOfPast => holders.slots.get(1).map_or(0, |slot| uniform(*slot, false)),
            Holding::Orders | Holding::EarlierOrders => holders.lacking.iter().map(|slot| uniform(*slot, true)).sum(),
            Holding::Pass => {
                let lacking = holders.lacking.iter().any(|slot| self.has_passed(*slot, holders));
                u64::from(self.has_passed(source, holders) && !lacking)
            }
        }
    }

    /// A group of the slot, and the slots of its members in rank order.
    pub(crate) fn group_of(&self, slot: usize) -> Option<(GroupId, Vec<usize>)> {
        let mut groups = self.slots[slot].app.groups.iter();
        let (id, group) = groups.find(|(_, group)| group.view > ViewNumber::NONE && group.members.len() > 1)?;
        let running = |slot: &usize| self.slots[*slot].runs() && !self.slots[*slot].leaving;
        let members: BTreeSet<usize> = group.members.iter().filter_map(|m| self.slot_of(*m)).filter(running).collect();
        let ranked = group.members.iter().filter_map(|m| self.slot_of(*m)).filter(|slot| members.contains(slot));
        Some((*id, ranked.collect()))
    }
}
