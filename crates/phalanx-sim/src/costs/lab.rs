//! A cell with steady traffic, and the fault that strikes it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use phalanx_core::member::{FaultKind, LATE_TURN};
use phalanx_core::rng::Rng;
use phalanx_core::{Order, Timing, TrafficClass, Uniformity};
use phalanx_trace::{Event as Traced, Phase};

use super::bottleneck::{Bottleneck, INTERFACE_BYTES_PER_MS, LINK_BYTES, PACKET_NS};
use crate::app::App;
use crate::clock::{MS, SECOND};
use crate::draw::index;
use crate::fault::{Role, Shape};
use crate::links::all_links;
use crate::options::Options;
use crate::panics;
use crate::partial::{Gate, What};
use crate::result::SeedResult;
use crate::run::{conclude, finish};
use crate::weather::Weather;
use crate::world::{Event, Step, World, WorldSettings};

/// The group of all members.
const GROUP: &str = "a";
/// Time between two messages of the cell, all senders together, unless it is overloaded.
const GAP_NS: u64 = 20 * MS;
/// One message in this many is longer than a packet.
const LONG_ONE_IN: u64 = 10;
/// Factor of message lengths under load. Fewer messages carry the same bytes, so that an hour is quick to simulate.
const LOAD_LENGTHS: u64 = 8;
/// Mean bytes of a message under load, long ones included.
const LOAD_BYTES: u64 = LOAD_LENGTHS * 480;
/// Window of the group. It is small, so that a member which takes nothing blocks the others within seconds.
const WINDOW_BYTES: usize = 256 << 10;
/// Bytes of a group's state. Its transfer takes some milliseconds.
const STATE_BYTES: u64 = 300_000;
/// Time within which a cell forms.
const FORMS_NS: u64 = 30 * SECOND;
/// Time for which traffic flows before the fault; a random half of it is added.
const FLOWS_NS: u64 = 3 * SECOND;
/// Half a period of a flapping fault.
const FLAP_NS: u64 = 5 * SECOND;
/// The latest time after the begin of its transfer at which a joiner hangs.
const HANGS_WITHIN_NS: u64 = 10 * MS;
/// Event-loop iterations between two checks of a process's invariants.
const CHECK_EVERY: u32 = 64;

/// Cells in a million with rough weather: packets are lost, late and overtaken. That is no fault.
const ROUGH_PPM: u32 = 250_000;
const ROUGH: Weather = Weather { jitter_ns: 20 * MS, in_order: false, loss_ppm: 10_000, ..Weather::FINE };

/// Timers: a slot's next message; a flap; a joiner that hangs.
const FLAP: u32 = 1_000;
const HANG: u32 = 1_001;

/// What strikes a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    #[cfg(test)]
    Nothing,
    Fault(FaultKind),
    Overload(Bottleneck),
}

impl Trouble {
    pub(super) fn fault(self) -> Option<FaultKind> {
        if let Self::Fault(kind) = self { Some(kind) } else { None }
    }

    fn bottleneck(self) -> Option<Bottleneck> {
        if let Self::Overload(bottleneck) = self { Some(bottleneck) } else { None }
    }
}

/// Processes affected by a fault.
#[derive(Clone, Debug, Default)]
pub(super) struct Hit {
    /// Slots at an end of a faulty path. With a one-way link its sender comes first.
    pub(super) ends: Vec<usize>,
    /// The one of them that may be excluded.
    pub(super) may_go: Option<usize>,
    /// Their names and ranks.
    names: String,
    shape: Option<Shape>,
}

pub(super) struct Lab {
    pub(super) world: World,
    pub(super) members: usize,
    pub(super) hit: Hit,
    /// Begin of the fault, or of the load.
    pub(super) begun_ns: u64,
    /// Bytes of the multicasts requested since then, and bytes of those that were refused.
    pub(super) asked_bytes: u64,
    pub(super) refused_bytes: u64,
    /// Multicasts accepted since the start.
    accepted: u64,
    /// Set when no process sends any more.
    is_over: bool,
    weather: Weather,
    trouble: Trouble,
    rng: Rng,
    /// Whether the application at the fault continues to send.
    faulty_sends: bool,
    /// Whether a joiner that hangs is stopped; otherwise its application takes nothing.
    stops: bool,
    hanging: bool,
    cut: bool,
    is_rough: bool,
}

impl Lab {
    pub(super) fn new(trouble: Trouble, seed: u64, members: usize) -> Self {
        // Every kind of fault strikes the same cells.
        let mut rng = Rng::new(seed).fork("costs");
        let members = if members == 0 { 3 + index(&mut rng, 5) } else { members };
        let joiners = usize::from(trouble.fault() == Some(FaultKind::HangingJoiner));
        let timing = Timing::default();
        let settings = WorldSettings {
            window_bytes: WINDOW_BYTES,
            suspect_after: timing.suspect_after,
            expel_after: Some(timing.expel_after),
            check_every: CHECK_EVERY,
            egress: (trouble.bottleneck() == Some(Bottleneck::Interfaces)).then_some(INTERFACE_BYTES_PER_MS),
            ..WorldSettings::quiet(members + joiners)
        };
        let mut world = World::new(settings, seed);
        world.enter(Phase::Faulty, Vec::new());
        for slot in &mut world.slots {
            slot.app = App::new(slot.name.clone(), STATE_BYTES, true, Rng::new(0));
        }
        let base_ns = [60_000, 500_000, 2 * MS][index(&mut rng, 3)];
        let is_rough = rng.chance_ppm(ROUGH_PPM);
        let weather = if is_rough { ROUGH } else { Weather { base_ns, jitter_ns: base_ns / 2, ..Weather::FINE } };
        world.set_weather(&all_links(members + joiners), weather);
        let (faulty_sends, stops) = (rng.chance_ppm(500_000), rng.chance_ppm(500_000));
        let hit = Hit::default();
        Self {
            world,
            members,
            hit,
            begun_ns: 0,
            asked_bytes: 0,
            refused_bytes: 0,
            accepted: 0,
            is_over: false,
            weather,
            trouble,
            rng,
            faulty_sends,
            stops,
            hanging: false,
            cut: false,
            is_rough,
        }
    }

    /// Forms the cell, lets traffic flow, begins the fault, and continues for `stays_ns`.
    pub(super) fn run(&mut self, stays_ns: u64) -> Result<(), String> {
        for slot in 0..self.members {
            self.start(slot);
        }
        while let Some(why) = self.world.unsettled() {
            if self.world.now_ns > FORMS_NS {
                return Err(format!("the cell did not form within {} s: {why}", FORMS_NS / SECOND));
            }
            self.go(20 * MS);
        }
        for slot in 0..self.world.slots.len() {
            self.send_later(slot);
        }
        let flows_ns = FLOWS_NS + self.rng.below(FLOWS_NS / 2);
        self.go(flows_ns);
        self.begun_ns = self.world.now_ns;
        match self.trouble.bottleneck() {
            None => self.begin_fault(),
            Some(bottleneck) => self.begin_load(bottleneck),
        }
        self.go(stays_ns);
        Ok(())
    }

    /// Ends the load, and checks that everything accepted is delivered within `within_ns`.
    pub(super) fn clear(&mut self, within_ns: u64) -> Result<(), String> {
        self.is_over = true;
        let until_ns = self.world.now_ns + within_ns;
        while let Some(slot) = (0..self.members).find(|slot| self.delivered(*slot) < self.accepted) {
            if self.world.now_ns >= until_ns {
                let (name, delivered) = (&self.world.slots[slot].name, self.delivered(slot));
                return Err(format!("{name} delivered {delivered} of {} messages", self.accepted));
            }
            self.go(SECOND);
        }
        Ok(())
    }

    /// The bottleneck, if the cell is overloaded now.
    fn loaded(&self) -> Option<Bottleneck> {
        self.trouble.bottleneck().filter(|_| self.begun_ns > 0)
    }

    fn delivered(&self, slot: usize) -> u64 {
        let records = self.world.slots[slot].app.traces.iter().flat_map(|trace| &trace.records);
        records.filter(|record| matches!(record.event, Traced::Deliver { replayed: false, .. })).count() as u64
    }

    fn begin_load(&mut self, bottleneck: Bottleneck) {
        match bottleneck {
            Bottleneck::Interfaces => {} // from the start: they are fast enough for the traffic before
            Bottleneck::Links => {
                let weather = Weather { rate_bytes: LINK_BYTES, ..self.weather };
                self.world.set_weather(&all_links(self.members), weather);
            }
            Bottleneck::Processors => self.world.slots.iter_mut().for_each(|slot| slot.packet_ns = PACKET_NS),
        }
    }

    /// Describes the processes that the fault affects.
    pub(super) fn place(&self) -> String {
        let shape = match self.hit.shape {
            None => "",
            Some(Shape::OneWay(..)) => ", one way",
            Some(Shape::Pair(..)) => ", both ways",
            Some(Shape::Deaf(_)) => ", to it",
            Some(Shape::Mute(_)) => ", from it",
            Some(_) => ", to and from it",
        };
        let weather = if self.is_rough { ", in rough weather" } else { "" };
        format!("{}{shape}{weather}", self.hit.names)
    }

    /// Slots at no end of a faulty path. In a cell of two with a dead link it is the older one, which goes on alone.
    pub(super) fn whole(&self) -> Vec<usize> {
        let whole: Vec<usize> = (0..self.members).filter(|slot| !self.hit.ends.contains(slot)).collect();
        if whole.is_empty() { (0..self.members).filter(|slot| Some(*slot) != self.hit.may_go).collect() } else { whole }
    }

    fn start(&mut self, slot: usize) {
        self.world.start(slot);
        if let Err(error) = self.world.join_group(slot, GROUP, true) {
            self.world.violation("liveness", format!("a process that runs may not join: {error:?}"));
        }
    }

    fn go(&mut self, for_ns: u64) {
        let until_ns = self.world.now_ns + for_ns;
        loop {
            match self.world.step(until_ns) {
                Step::Done => return,
                Step::Timer(FLAP) => self.flap(),
                Step::Timer(HANG) => self.hang(),
                Step::Timer(slot) => self.send(slot as usize),
                Step::Turned(slot) => self.look_at_joiner(slot),
                Step::Other => {}
            }
        }
    }

    fn send_later(&mut self, slot: usize) {
        let usual_ns = GAP_NS * self.members as u64;
        let gap_ns = self.loaded().map_or(usual_ns, |bottleneck| bottleneck.gap_ns(self.members, LOAD_BYTES));
        let at_ns = self.world.now_ns + gap_ns / 2 + self.rng.below(gap_ns);
        self.world.queue.push(at_ns, Event::Timer(u32::try_from(slot).unwrap_or(0)));
    }

    fn send(&mut self, slot: usize) {
        if self.is_over {
            return;
        }
        self.send_later(slot);
        let is_faulty = self.begun_ns > 0 && !self.whole().contains(&slot);
        let place = &self.world.slots[slot];
        let can_send = place.runs() && !place.paused && (!is_faulty || self.faulty_sends);
        if let Some((group, _)) = place.app.member_of(GROUP).filter(|_| can_send) {
            let is_long = self.rng.below(LONG_ONE_IN) == 0;
            let len = if is_long { 1_500 + self.rng.below(4_500) } else { 40 + self.rng.below(160) };
            let len = if self.loaded().is_some() { LOAD_LENGTHS * len } else { len };
            let before = self.world.counters.multicasts;
            self.world.multicast_bytes(slot, group, Order::Total, Uniformity::Uniform, 0, len);
            let is_accepted = self.world.counters.multicasts > before;
            self.accepted += u64::from(is_accepted);
            if self.begun_ns > 0 {
                self.asked_bytes += len;
                self.refused_bytes += if is_accepted { 0 } else { len };
            }
        }
    }

    fn begin_fault(&mut self) {
        let Some(kind) = self.trouble.fault() else { return };
        let shape = self.draw_shape(kind);
        self.hit = self.hit_by(kind, shape);
        self.hit.names = self.named(&self.hit.ends);
        let Some(slot) = self.hit.ends.first().copied() else { return };
        let links = shape.and_then(|shape| self.world.links_of(shape)).unwrap_or_default();
        self.world.note(Some(slot), format!("{} begins: {}", kind.name(), self.place()));
        match kind {
            FaultKind::Dead => self.world.crash(slot),
            FaultKind::Stopped => self.world.pause(slot),
            FaultKind::Deaf | FaultKind::Mute | FaultKind::Link | FaultKind::OneWay => self.world.cut_links(&links),
            FaultKind::FlappingLink | FaultKind::FlappingHost => self.flap(),
            FaultKind::DataPort => self.world.net.put_up(Gate::new(links, What::Socket(TrafficClass::Data))),
            FaultKind::ControlPort => self.world.net.put_up(Gate::new(links, What::Socket(TrafficClass::Control))),
            FaultKind::LongPackets => self.world.net.put_up(Gate::new(links, What::Longer(1_000))),
            FaultKind::LateTurns => {
                self.world.slots[slot].turn_ns = u64::try_from(LATE_TURN.as_nanos()).unwrap_or(u64::MAX);
            }
            FaultKind::HangingApplication => self.world.set_takes(slot, false),
            FaultKind::HangingJoiner => self.start(slot),
            // These kinds are not simulated.
            FaultKind::FullDisk | FaultKind::Descriptors => {}
        }
    }

    /// The links of the fault, if it is one of links.
    fn draw_shape(&mut self, kind: FaultKind) -> Option<Shape> {
        let mut ranks = self.by_rank();
        // The oldest member, which coordinates and orders, is affected more often than others. In a cell of two only
        // the younger member's faults can be survived.
        let spot = match ranks.len() {
            2 => 1,
            _ if self.rng.chance_ppm(400_000) => 0,
            n => index(&mut self.rng, n),
        };
        let one = ranks.remove(spot);
        let other = ranks[index(&mut self.rng, ranks.len())];
        let (one, other) = (Role::Slot(one), Role::Slot(other));
        let pair = if self.rng.chance_ppm(500_000) { (one, other) } else { (other, one) };
        let of_paths = [
            Shape::Isolate(one),
            Shape::Isolate(one),
            Shape::Deaf(one),
            Shape::Mute(one),
            Shape::Pair(one, other),
            Shape::OneWay(pair.0, pair.1),
        ];
        let drawn = of_paths[index(&mut self.rng, of_paths.len())];
        match kind {
            FaultKind::Dead | FaultKind::Stopped | FaultKind::LateTurns | FaultKind::HangingApplication => {
                Some(Shape::Isolate(one))
            }
            FaultKind::FlappingHost => Some(Shape::Isolate(one)),
            FaultKind::Deaf => Some(Shape::Deaf(one)),
            FaultKind::Mute => Some(Shape::Mute(one)),
            FaultKind::Link | FaultKind::FlappingLink => Some(Shape::Pair(one, other)),
            FaultKind::OneWay => Some(Shape::OneWay(pair.0, pair.1)),
            FaultKind::DataPort | FaultKind::ControlPort | FaultKind::LongPackets => Some(drawn),
            FaultKind::HangingJoiner | FaultKind::FullDisk | FaultKind::Descriptors => None,
        }
    }

    fn hit_by(&self, kind: FaultKind, shape: Option<Shape>) -> Hit {
        let slot = |role: Role| match role {
            Role::Slot(slot) => slot,
            _ => 0,
        };
        let is_of_process =
            matches!(kind, FaultKind::Dead | FaultKind::Stopped | FaultKind::LateTurns | FaultKind::HangingApplication);
        match shape {
            Some(Shape::Pair(a, b) | Shape::OneWay(a, b)) => {
                let (a, b) = (slot(a), slot(b));
                let younger = self.by_rank().into_iter().rev().find(|slot| [a, b].contains(slot));
                Hit { ends: vec![a, b], may_go: younger, shape, ..Hit::default() }
            }
            Some(Shape::Isolate(one) | Shape::Deaf(one) | Shape::Mute(one)) => {
                let one = slot(one);
                Hit { ends: vec![one], may_go: Some(one), shape: shape.filter(|_| !is_of_process), ..Hit::default() }
            }
            // The joining process is none of the members.
            _ if kind == FaultKind::HangingJoiner => {
                Hit { ends: vec![self.members], may_go: Some(self.members), ..Hit::default() }
            }
            _ => Hit::default(),
        }
    }

    /// Slots by name, with their ranks.
    fn named(&self, slots: &[usize]) -> String {
        let ranks = self.by_rank();
        let named = |slot: &usize| {
            let name = &self.world.slots[*slot].name;
            let rank = ranks.iter().position(|other| other == slot);
            rank.map_or_else(|| name.clone(), |rank| format!("{name} (rank {rank})"))
        };
        slots.iter().map(named).collect::<Vec<_>>().join(" ")
    }

    /// The slots of the members, the oldest first.
    fn by_rank(&self) -> Vec<usize> {
        let members = self.world.last_view().map(|view| view.members.clone()).unwrap_or_default();
        members.iter().filter_map(|member| self.world.slot_of(member.incarnation)).collect()
    }

    fn flap(&mut self) {
        let links = self.hit.shape.and_then(|shape| self.world.links_of(shape)).unwrap_or_default();
        if self.cut {
            self.world.mend_links(&links);
        } else {
            self.world.cut_links(&links);
        }
        self.cut = !self.cut;
        self.world.queue.push(self.world.now_ns + FLAP_NS, Event::Timer(FLAP));
    }

    /// Checks whether a joiner that is to hang has begun to take the state.
    fn look_at_joiner(&mut self, slot: usize) {
        let is_joiner = self.trouble.fault() == Some(FaultKind::HangingJoiner) && slot == self.members;
        if is_joiner && !self.hanging && self.world.slots[slot].activity.transferring {
            self.hanging = true;
            let after_ns = self.rng.below(HANGS_WITHIN_NS);
            self.world.queue.push(self.world.now_ns + after_ns, Event::Timer(HANG));
        }
    }

    fn hang(&mut self) {
        if self.stops {
            self.world.pause(self.members);
        } else {
            self.world.set_takes(self.members, false);
        }
    }
}

/// Runs the lab. A panic ends this run only.
pub(super) fn guarded(lab: &mut Lab, run: impl FnOnce(&mut Lab) -> Result<(), String>) {
    let outcome = catch_unwind(AssertUnwindSafe(|| panics::quietly(|| run(lab))));
    match outcome {
        Ok(Ok(())) => {}
        Ok(Err(why)) => lab.world.violation("liveness", why),
        Err(panic) => lab.world.violation("panic", panics::describe(panic.as_ref())),
    }
}

/// The checker's findings in a completed run. `mode`: the words of the command besides seed and members.
pub(super) fn judged(lab: Lab, seed: u64, members: usize, mode: &str) -> SeedResult {
    let mut world = lab.world;
    finish(&mut world);
    let header = format!("phalanx sim {mode} --seeds {seed}..{} --members {members}", seed + 1);
    conclude(world, seed, &header, &Options::default())
}
