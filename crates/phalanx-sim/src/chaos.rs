//! Applies the faults of a plan, and undoes them.

use phalanx_core::rng::Rng;
use phalanx_core::{InboxId, LEVEL};

use crate::classes::churn::Churning;
use crate::classes::{crowded, late_death, stop};
use crate::clock::MS;
use crate::fault::{Aim, Busy, Fault, Kind, Role, Shape};
use crate::holders::Holders;
use crate::links::{all_links, describe};
use crate::memory::Memory;
use crate::nonsense::Blind;
use crate::plan::Plan;
use crate::result::add_to;
use crate::ruin::Ruins;
use crate::slot::Doom;
use crate::tenths::{Orphaned, count_in_snapshot, follow, snapshot_of, watch_orphaned};
use crate::threads::{desert, end_thread};
use crate::timer::{CHURN, FLAP, RUIN, STRIKE, UNDO, timer};
use crate::weather::Weather;
use crate::world::World;

/// The faults of one run.
pub(crate) struct Chaos {
    faults: Vec<Fault>,
    /// The weather outside of faults.
    calm: Weather,
    lethal: bool,
    /// Aimed faults that are armed and wait for their moment, by index.
    armed: Vec<usize>,
    /// Faults in force, oldest first.
    active: Vec<Active>,
    /// Set when healing begins: no fault strikes any more.
    over: bool,
    /// Processes whose donors died inside of their snapshots.
    orphaned: Vec<Orphaned>,
    /// A group that changes all the time.
    pub(crate) churning: Churning,
    /// Processes that stay broken after the heal.
    pub(crate) ruins: Ruins,
    rng: Rng,
}

/// A fault in force.
struct Active {
    fault: usize,
    undo: Undo,
}

enum Undo {
    Weather {
        links: Vec<(usize, usize)>,
        weather: Weather,
    },
    Mend {
        links: Vec<(usize, usize)>,
    },
    Flap {
        links: Vec<(usize, usize)>,
        period_ns: u64,
        cut: bool,
    },
    /// The links that are cut now, the process that gathered reports, and whether another has proposed since.
    Rivals {
        links: Vec<(usize, usize)>,
        first: usize,
        met: bool,
    },
    Nonsense(Blind),
    Path(usize),
    Buffer(usize),
    Resume(Vec<usize>),
    Quicken(usize),
    Reader(usize),
    Panic(usize),
    Inbox(usize, InboxId),
    Drift(usize),
    Toll,
    Lapped(usize),
    LateMemory(usize),
    Detach(usize),
    Holders {
        holders: Holders,
        back_ns: Option<u64>,
    },
    LostView {
        back_ns: Option<u64>,
    },
    Disk(usize),
    Estranged,
    Attack,
}

impl Chaos {
    /// Schedules the plan's faults in `world`.
    pub(crate) fn begin(plan: &Plan, rng: Rng, world: &mut World) -> Self {
        let chaos = Self {
            faults: plan.faults.clone(),
            calm: plan.weather,
            lethal: plan.lethal,
            armed: Vec::new(),
            active: Vec::new(),
            over: false,
            orphaned: Vec::new(),
            churning: Churning::begin(world),
            ruins: Ruins::new(plan.ruin),
            rng,
        };
        chaos.clear_weather(world);
        for (index, fault) in chaos.faults.iter().enumerate() {
            let at_ns = match fault.aim {
                Aim::At(at_ns) => at_ns,
                Aim::Inside { from_ns, .. } => from_ns,
            };
            world.queue.push(at_ns, timer(index, STRIKE));
        }
        chaos
    }

    /// Handles a timer of this plan.
    pub(crate) fn on_timer(&mut self, id: u32, world: &mut World) {
        if id == CHURN {
            return self.churning.change(world);
        }
        let index = (id / 4) as usize;
        match id % 4 {
            UNDO => self.undo_fault(index, world),
            FLAP => self.flap(index, world),
            RUIN => self.ruins.flap(world),
            _ if self.over => {}
            _ => match self.faults[index].aim {
                Aim::Inside { .. } if !self.armed.contains(&index) => {
                    self.armed.push(index);
                    self.look(world);
                }
                Aim::At(_) | Aim::Inside { .. } => {
                    self.armed.retain(|armed| *armed != index);
                    self.strike(index, world);
                }
            },
        }
    }

    /// Checks whether some process has become busy; aimed faults strike now or a little later.
    pub(crate) fn look(&mut self, world: &mut World) {
        self.meet_rivals(world);
        watch_orphaned(world, &mut self.orphaned);
        if self.armed.is_empty() || self.over {
            return;
        }
        // A copy of the list, because `strike` and the arming below change it.
        for index in self.armed.clone() {
            if let Aim::Inside { busy, after_ns, .. } = self.faults[index].aim
                && world.somebody_is(busy)
            {
                if after_ns == 0 {
                    self.armed.retain(|armed| *armed != index);
                    self.strike(index, world);
                } else {
                    // The timer finds the fault with a plain aim and applies it.
                    self.faults[index].aim = Aim::At(world.now_ns + after_ns);
                    world.queue.push(world.now_ns + after_ns, timer(index, STRIKE));
                }
            }
        }
    }

    /// Unmutes a coordinator once another one proposes in its place, and makes that one deaf.
    fn meet_rivals(&mut self, world: &mut World) {
        for active in &mut self.active {
            let Undo::Rivals { links, first, met: met @ false } = &mut active.undo else { continue };
            let proposes = |slot: &usize| *slot != *first && world.slots[*slot].activity.proposing;
            let Some(second) = (0..world.slots.len()).find(proposes) else { continue };
            let Some(mut deaf) = world.links_of(Shape::Deaf(Role::Slot(second))) else { continue };
            // First it answers the first coordinator. Otherwise the fault would be over before the two proposals meet.
            deaf.retain(|(from, _)| from != first);
            world.mend_links(links);
            world.note(None, format!("mended: {}; cut: {}", describe(links), describe(&deaf)));
            world.cut_links(&deaf);
            (*links, *met) = (deaf, true);
        }
    }

    /// Counts the token passes of which no process had heard before this iteration.
    pub(crate) fn count_passes(&self, slot: usize, world: &mut World) {
        let Some(node) = world.slots[slot].node.as_ref() else { return };
        let mut passes = 0;
        for (space, tenure) in node.process().tenures() {
            let known = world.tenures.entry(space).or_default();
            passes += u64::from(tenure.saturating_sub(*known));
            *known = tenure.max(*known);
        }
        if passes > 0 {
            world.counters.passes += passes;
            world.counters.passes_in_faults += if self.active.is_empty() { 0 } else { passes };
            world.counters.passes_in_flush += if world.somebody_is(Busy::Flush) { passes } else { 0 };
        }
    }

    fn strike(&mut self, index: usize, world: &mut World) {
        let fault = self.faults[index];
        let name = fault.kind.name();
        let snapshot = snapshot_of(world, &fault);
        let Some(undo) = self.apply(index, world) else {
            world.counters.faults_withheld += 1;
            return;
        };
        add_to(&mut world.counters.faults, name, 1);
        if let Some(snapshot) = snapshot {
            count_in_snapshot(world, &mut self.orphaned, snapshot, &fault.kind);
        }
        world.burst_in_fault();
        crate::submits::submit_in_fault(world, index);
        let inside = [Busy::Flush, Busy::Join, Busy::Transfer].map(|busy| u64::from(world.somebody_is(busy)));
        world.counters.faults_in_flush += inside[0];
        world.counters.faults_in_join += inside[1];
        world.counters.faults_in_transfer += inside[2];
        world.counters.faults_inside += u64::from(inside != [0; 3]);
        if let Some(undo) = undo {
            if let Undo::Flap { period_ns, .. } = &undo {
                world.queue.push(world.now_ns + period_ns, timer(index, FLAP));
            }
            if let Undo::Holders { .. } | Undo::Estranged = &undo {
                world.queue.push(world.now_ns, timer(index, FLAP));
            }
            self.active.push(Active { fault: index, undo });
            world.queue.push(world.now_ns + fault.lasts_ns, timer(index, UNDO));
        }
    }

    /// Applies a fault. `None`: it affects no process, or would take the last quorum. Otherwise the action that undoes
    /// it, if there is one.
    #[expect(clippy::option_option, reason = "whether it strikes and whether it is undone are two answers")]
    fn apply(&mut self, index: usize, world: &mut World) -> Option<Option<Undo>> {
        let fault = self.faults[index];
        let undo = match fault.kind {
            Kind::Storm { what, reach, weather } => {
                let links = world.links_reached(reach)?;
                world.note(None, format!("storm ({what}) on {} links", links.len()));
                world.set_weather(&links, weather);
                Some(Undo::Weather { links, weather })
            }
            Kind::Cut(shape) => {
                let links = world.links_of(shape)?;
                world.note(None, format!("cut: {}", describe(&links)));
                world.cut_links(&links);
                Some(Undo::Mend { links })
            }
            Kind::Flap { shape, period_ns } => {
                let links = world.links_of(shape)?;
                world.note(None, format!("flaps: {}", describe(&links)));
                world.cut_links(&links);
                Some(Undo::Flap { links, period_ns, cut: true })
            }
            Kind::Rivals => {
                let first = (0..world.slots.len()).find(|slot| world.slots[*slot].activity.gathering)?;
                let links = world.links_of(Shape::Mute(Role::Slot(first)))?;
                world.note(Some(first), "gathers reports, and is heard by nobody from now on");
                world.cut_links(&links);
                Some(Undo::Rivals { links, first, met: false })
            }
            Kind::Mtu { role, bytes } => {
                let slot = world.resolve(role)?;
                world.note(Some(slot), format!("loses packets over {bytes} bytes"));
                world.net.limit_path(slot, bytes);
                Some(Undo::Path(slot))
            }
            Kind::Buffer { role, bytes } => {
                let slot = running(role, world)?;
                world.note(Some(slot), format!("has {bytes} bytes of socket buffer"));
                world.set_buffer(slot, bytes);
                Some(Undo::Buffer(slot))
            }
            Kind::Crash { role, back_ns, moved } => {
                let slot = self.expendable(role, world)?;
                world.crash(slot);
                if let Some(back_ns) = back_ns {
                    world.start_later(slot, back_ns, moved);
                }
                None
            }
            Kind::CrashSending { role, packets, back_ns } => {
                let slot = self.expendable(role, world)?;
                world.note(Some(slot), format!("crashes after {packets} more packets"));
                let back = back_ns.map(|after_ns| (after_ns, false));
                world.slots[slot].doom = Some(Doom { left: packets, back, spare_the_last: !self.lethal });
                None
            }
            Kind::EndThread { role, panics, back_ns } => {
                let slot = self.expendable(role, world)?;
                if panics {
                    world.note(Some(slot), "panics with the next message");
                    world.slots[slot].panic_next(Some(back_ns));
                    Some(Undo::Panic(slot))
                } else {
                    end_thread(world, slot);
                    world.crash(slot);
                    if let Some(back_ns) = back_ns {
                        world.start_later(slot, back_ns, false);
                    }
                    None
                }
            }
            Kind::Leave { role, back_ns } => {
                let slot = self.expendable(role, world)?;
                world.count_leave(slot);
                world.leave(slot);
                if let Some(back_ns) = back_ns {
                    world.start_later(slot, back_ns, false);
                }
                None
            }
            Kind::Pause(role) => {
                let slot = running(role, world)?;
                world.pause(slot);
                Some(Undo::Resume(vec![slot]))
            }
            Kind::Slow { role, turn_ns } => {
                let slot = running(role, world)?;
                world.note(Some(slot), format!("takes {} us for a turn", turn_ns / 1000));
                world.slots[slot].turn_ns = turn_ns.max(world.usual_turn_ns(slot));
                Some(Undo::Quicken(slot))
            }
            Kind::SlowReader(role) => {
                let slot = running(role, world)?;
                world.note(Some(slot), "takes no deliveries");
                world.set_takes(slot, false);
                Some(Undo::Reader(slot))
            }
            Kind::UnreadInbox { role, which } => {
                let slot = running(role, world)?;
                let inboxes = world.inboxes_of(slot);
                let inbox = *inboxes.get(which % inboxes.len().max(1))?;
                world.note(Some(slot), format!("does not read inbox {}", inbox.0));
                world.set_reads(slot, inbox, false);
                Some(Undo::Inbox(slot, inbox))
            }
            Kind::Desert { role, which } => {
                let slot = running(role, world)?;
                desert(world, slot, which).map(|inbox| Undo::Inbox(slot, inbox)).map(Some)?
            }
            Kind::ClockJump { role, by_ns } => {
                let slot = running(role, world)?;
                world.note(Some(slot), format!("clock jumps by {} ms", by_ns / 1_000_000));
                world.jump_clock(slot, by_ns);
                None
            }
            Kind::Drift { role, ppm } => {
                let slot = running(role, world)?;
                world.note(Some(slot), format!("its clock gains {ppm} parts in a million"));
                world.drift_clock(slot, ppm);
                Some(Undo::Drift(slot))
            }
            Kind::ByKind { reach, kind, toll } => {
                let links = world.links_reached(reach)?;
                world.note(None, format!("{kind:?} packets are held back or taken on {} links: {toll:?}", links.len()));
                world.net.take_toll(index, links, kind, toll);
                Some(Undo::Toll)
            }
            Kind::Lapped { role, ppm } => {
                let slot = sharing(role, world)?;
                world.note(Some(slot), format!("is overtaken in memory, {ppm} in a million"));
                world.net.roughen_memory(true);
                set_memory(world, slot, |memory| memory.lapped_ppm = ppm);
                Some(Undo::Lapped(slot))
            }
            Kind::LateMemory { role, lag_ns } => {
                let slot = sharing(role, world)?;
                world.note(Some(slot), format!("what it writes is seen up to {} us late", lag_ns / 1000));
                world.net.roughen_memory(true);
                set_memory(world, slot, |memory| memory.lag_ns = lag_ns);
                Some(Undo::LateMemory(slot))
            }
            Kind::Detach(role) => {
                let slot = sharing(role, world)?;
                world.note(Some(slot), "detaches from all memory");
                world.hold_memory(slot, true);
                Some(Undo::Detach(slot))
            }
            Kind::Holders { role, others, what, back_ns } => {
                let holders = world.begin_holders(index, (role, others, what))?;
                Some(Undo::Holders { holders, back_ns })
            }
            Kind::LostView { role, back_ns } => {
                world.begin_lost_view(role).then_some(())?;
                Some(Undo::LostView { back_ns })
            }
            Kind::Nonsense { role, readers, ahead } => {
                let slot = running(role, world)?;
                Some(Undo::Nonsense(world.begin_nonsense(slot, readers, ahead)?))
            }
            Kind::Regroup(role) => {
                let slot = running(role, world)?;
                world.regroup(slot);
                None
            }
            Kind::Strand { stops } => {
                let few = world.stranded_by_a_cut()?;
                add_to(&mut world.counters.moments, "groups cut off or stopped as a whole", 1);
                if stops {
                    few.iter().for_each(|slot| world.pause(*slot));
                    return Some(Some(Undo::Resume(few)));
                }
                let mut links = all_links(world.slots.len());
                // Only the links between the two sides.
                links.retain(|(from, to)| few.contains(from) != few.contains(to));
                world.note(None, format!("cut: {}", describe(&links)));
                world.cut_links(&links);
                Some(Undo::Mend { links })
            }
            Kind::FoundAgain => {
                let slot = world.outside_the_minority()?;
                world.note(Some(slot), "wants to be in group \"m\"");
                add_to(&mut world.counters.moments, "groups asked for while their members were cut off", 1);
                world.settings.minority.push(slot);
                None
            }
            Kind::Follow(role) => {
                let slot = running(role, world)?;
                follow(world, slot).then_some(())?;
                None
            }
            Kind::Empty(role) => {
                let slot = world.resolve(role)?;
                world.empty_directory(slot).then_some(())?;
                None
            }
            Kind::Perish { back_ns } => {
                world.perish(back_ns).then_some(())?;
                None
            }
            Kind::Behead => {
                world.behead().then_some(())?;
                None
            }
            Kind::Disband => {
                world.disband(Vec::new()).then_some(())?;
                None
            }
            Kind::AskNew(role) => {
                let slot = running(role, world)?;
                crowded::ask_new(world, slot);
                None
            }
            Kind::Kill(role) => {
                let slot = world.resolve(role)?;
                late_death::kill_for_good(world, slot).then_some(())?;
                None
            }
            Kind::StopMajority => {
                stop::stop_majority(world).then_some(())?;
                None
            }
            Kind::LeaveTogether { last } => {
                world.leave_together(last).then_some(())?;
                None
            }
            Kind::FullDisk(role) => {
                let slot = world.resolve(role)?;
                world.fill_disk(slot, true);
                Some(Undo::Disk(slot))
            }
            Kind::Raise => {
                let level = world.settings.builds.map_or(LEVEL, |builds| builds.later);
                for slot in 0..world.slots.len() {
                    // Refused by a member whose build does not know the level, or that knows such a member.
                    let _ = world.raise_level(slot, level);
                }
                None
            }
            Kind::UnreadPeer { of, by } => {
                let (of, by) = (running(of, world)?, running(by, world)?);
                Some(Undo::Nonsense(world.blind_channel(of, by)?))
            }
            Kind::Estrange => {
                world.begin_estranged()?;
                Some(Undo::Estranged)
            }
            Kind::Replay(rate) => {
                world.note(None, format!("an attacker replays {rate} packets a second"));
                world.set_attack(rate, 0, 0);
                Some(Undo::Attack)
            }
            Kind::Noise(rate) => {
                world.note(None, format!("an attacker sends {rate} noise packets a second"));
                world.set_attack(0, rate, 0);
                Some(Undo::Attack)
            }
            Kind::Forge(rate) => {
                world.note(None, format!("an attacker sends {rate} forged packets a second"));
                world.set_attack(0, 0, rate);
                Some(Undo::Attack)
            }
        };
        Some(undo)
    }

    fn undo_fault(&mut self, index: usize, world: &mut World) {
        if let Some(spot) = self.active.iter().position(|active| active.fault == index) {
            let active = self.active.remove(spot);
            match &active.undo {
                Undo::Holders { holders, back_ns } => world.end_holders(holders, *back_ns),
                Undo::LostView { back_ns } => world.end_lost_view(*back_ns),
                _ => {}
            }
            self.undo(active, world);
        }
    }

    fn undo(&mut self, Active { fault, undo }: Active, world: &mut World) {
        match undo {
            Undo::Weather { links, .. } => {
                world.set_weather(&links, self.calm);
                self.renew_weather(world);
                world.note(None, "a storm ends");
            }
            Undo::Mend { links } | Undo::Rivals { links, .. } => {
                world.mend_links(&links);
                world.note(None, format!("mended: {}", describe(&links)));
            }
            Undo::Flap { links, cut: is_cut, .. } => {
                // The links may be whole at this moment.
                if is_cut {
                    world.mend_links(&links);
                }
                world.note(None, format!("flaps no more: {}", describe(&links)));
            }
            Undo::Path(slot) => world.net.limit_path(slot, usize::MAX),
            Undo::Buffer(slot) => world.set_buffer(slot, world.settings.buffer_bytes),
            Undo::Resume(slots) => slots.into_iter().for_each(|slot| world.resume(slot)),
            Undo::Quicken(slot) => world.slots[slot].turn_ns = world.usual_turn_ns(slot),
            Undo::Reader(slot) => world.set_takes(slot, true),
            Undo::Panic(slot) => world.slots[slot].panic_next(None),
            Undo::Inbox(slot, inbox) => world.set_reads(slot, inbox, true),
            Undo::Drift(slot) => world.drift_clock(slot, 0),
            Undo::Lapped(slot) => {
                world.net.roughen_memory(false);
                set_memory(world, slot, |memory| memory.lapped_ppm = 0);
            }
            Undo::LateMemory(slot) => {
                world.net.roughen_memory(false);
                set_memory(world, slot, |memory| memory.lag_ns = 0);
            }
            Undo::Detach(slot) => world.hold_memory(slot, false),
            Undo::Holders { .. } => world.net.take_down(fault),
            Undo::LostView { .. } => world.forget_lost_view(),
            Undo::Nonsense(blind) => world.end_nonsense(&blind),
            Undo::Toll => world.net.end_toll(fault),
            Undo::Disk(slot) => world.fill_disk(slot, false),
            Undo::Estranged => world.end_estranged(),
            Undo::Attack => world.set_attack(0, 0, 0),
        }
    }

    fn flap(&mut self, index: usize, world: &mut World) {
        let Some(active) = self.active.iter_mut().find(|active| active.fault == index) else {
            return;
        };
        if let Undo::Holders { holders, .. } = &mut active.undo {
            world.tick_holders(index, holders);
            let gap_ns = holders.gap_ns(self.faults[index].lasts_ns);
            world.queue.push(world.now_ns + gap_ns, timer(index, FLAP));
        }
        if let Undo::Estranged = &active.undo {
            world.tick_estranged();
            world.queue.push(world.now_ns + ESTRANGED_NS, timer(index, FLAP));
        }
        if let Undo::Flap { links, period_ns, cut: is_cut } = &mut active.undo {
            if *is_cut {
                world.mend_links(links);
            } else {
                world.cut_links(links);
            }
            *is_cut = !*is_cut;
            world.queue.push(world.now_ns + *period_ns, timer(index, FLAP));
        }
    }

    /// Undoes everything; the heal phase begins. Processes that do not run are restarted or, if the cell can do without
    /// them, sometimes left dead.
    pub(crate) fn heal(&mut self, world: &mut World) {
        self.over = true;
        self.armed.clear();
        for active in std::mem::take(&mut self.active) {
            self.undo(active, world);
        }
        world.net.heal();
        self.clear_weather(world);
        self.ruins.begin(&mut self.rng, world);
        for slot in 0..world.slots.len() {
            world.slots[slot].doom = None;
            world.slots[slot].panic_next(None);
            if self.ruins.is_ruined(slot) {
                continue;
            }
            world.resume(slot);
            world.set_takes(slot, true);
            world.read_all(slot);
            let dead = !world.slots[slot].runs();
            if dead && (world.running() < 2 || self.rng.chance_ppm(700_000)) {
                let after_ns = self.rng.below(500_000_000);
                world.start_later(slot, after_ns, self.rng.chance_ppm(300_000));
            }
        }
    }

    /// The slot that plays `role`, unless the cell could not go on without it.
    fn expendable(&self, role: Role, world: &mut World) -> Option<usize> {
        let slot = running(role, world)?;
        (self.lethal || (world.running() > 1 && world.has_future(Some(slot)))).then_some(slot)
    }

    fn clear_weather(&self, world: &mut World) {
        let links = all_links(world.slots.len());
        world.set_weather(&links, self.calm);
    }

    /// When a storm ends, restores the weather of storms that it had hidden.
    fn renew_weather(&self, world: &mut World) {
        for active in &self.active {
            if let Undo::Weather { links, weather } = &active.undo {
                world.set_weather(links, *weather);
            }
        }
    }
}

/// Interval between two looks at the members of two instances.
const ESTRANGED_NS: u64 = 50 * MS;

fn running(role: Role, world: &mut World) -> Option<usize> {
    let slot = world.resolve(role)?;
    (world.slots[slot].runs() && !world.slots[slot].leaving).then_some(slot)
}

/// The slot that plays `role`, if it has memory that others read or may read.
fn sharing(role: Role, world: &mut World) -> Option<usize> {
    running(role, world).filter(|slot| world.slots[*slot].memory().is_some())
}

fn set_memory(world: &mut World, slot: usize, change: impl FnOnce(&mut Memory)) {
    if let Some(memory) = world.slots[slot].memory_mut() {
        change(memory);
    }
}
