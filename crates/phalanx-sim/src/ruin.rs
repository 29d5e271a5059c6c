//! Processes that stay broken for good. After the heal a minority may go on being dead, stopped, cut off or half
//! connected to the end of the run. The others, which hold a quorum, must do without them.
//!
//! No ruined process both hears and is heard. A process that came back through a flapping link again and again would
//! rightly change the view with every visit.

use phalanx_core::rng::Rng;

use crate::clock::MS;
use crate::draw::index;
use crate::timer::ruin_timer;
use crate::world::World;

/// How a process is ruined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ruin {
    /// It does not run, and never will.
    Dead,
    /// It is stopped.
    Stopped,
    /// It hears no other process and no other hears it.
    Isolated,
    /// It hears no other process; its packets arrive.
    Deaf,
    /// No other process hears it; it hears all.
    Mute,
    /// It hears no other process; its packets arrive now and then.
    DeafFlapping,
    /// No other process hears it; it hears the others now and then.
    MuteFlapping,
}

const KINDS: [Ruin; 7] =
    [Ruin::Dead, Ruin::Stopped, Ruin::Isolated, Ruin::Deaf, Ruin::Mute, Ruin::DeafFlapping, Ruin::MuteFlapping];

/// The ruined processes of a run.
#[derive(Debug)]
pub(crate) struct Ruins {
    /// Whether the plan has any.
    wanted: bool,
    ruined: Vec<usize>,
    flapping: Vec<(usize, usize)>,
    cut: bool,
    period_ns: u64,
}

impl Ruins {
    pub(crate) fn new(wanted: bool) -> Self {
        Self { wanted, ruined: Vec::new(), flapping: Vec::new(), cut: false, period_ns: 0 }
    }

    pub(crate) fn is_ruined(&self, slot: usize) -> bool {
        self.ruined.contains(&slot)
    }

    /// Ruins as many processes as the cell can do without, at most a minority. All links are whole at this moment.
    pub(crate) fn begin(&mut self, rng: &mut Rng, world: &mut World) {
        if !self.wanted {
            return;
        }
        let n = world.slots.len();
        let most = 1 + index(rng, (n - 1) / 2);
        // Several tries, because not every process is expendable.
        for _ in 0..2 * n {
            let slot = index(rng, n);
            if self.ruined.len() < most && !self.is_ruined(slot) && world.can_do_without(&self.ruined, slot) {
                self.ruined.push(slot);
            }
        }
        self.period_ns = [20 * MS, 150 * MS, 700 * MS, 2500 * MS][index(rng, 4)];
        for slot in self.ruined.clone() {
            let ruin = KINDS[index(rng, KINDS.len())];
            world.note(Some(slot), format!("is {ruin:?} for good"));
            self.ruin(slot, ruin, world);
        }
        world.ruined.clone_from(&self.ruined);
        // A process that is cut off for good is cut off in memory, too.
        if let Some(memory) = &mut world.settings.memory {
            memory.bridges = false;
        }
        if !self.flapping.is_empty() {
            world.queue.push(world.now_ns + self.period_ns, ruin_timer());
        }
    }

    fn ruin(&mut self, slot: usize, ruin: Ruin, world: &mut World) {
        let others = || (0..world.slots.len()).filter(move |other| *other != slot);
        let to: Vec<(usize, usize)> = others().map(|other| (other, slot)).collect();
        let from: Vec<(usize, usize)> = others().map(|other| (slot, other)).collect();
        match ruin {
            Ruin::Dead => world.crash(slot),
            Ruin::Stopped => world.pause(slot),
            Ruin::Isolated => {
                world.cut_links(&to);
                world.cut_links(&from);
            }
            Ruin::Deaf => world.cut_links(&to),
            Ruin::Mute => world.cut_links(&from),
            Ruin::DeafFlapping => {
                world.cut_links(&to);
                self.flapping.extend(from);
            }
            Ruin::MuteFlapping => {
                world.cut_links(&from);
                self.flapping.extend(to);
            }
        }
    }

    /// Changes the flapping links.
    pub(crate) fn flap(&mut self, world: &mut World) {
        self.cut = !self.cut;
        if self.cut {
            world.cut_links(&self.flapping);
        } else {
            world.mend_links(&self.flapping);
        }
        world.queue.push(world.now_ns + self.period_ns, ruin_timer());
    }

    /// Names of the processes that are not ruined; empty if none is ruined.
    pub(crate) fn whole(&self, world: &World) -> Vec<String> {
        if self.ruined.is_empty() {
            return Vec::new();
        }
        let whole = world.slots.iter().enumerate().filter(|(slot, _)| !self.is_ruined(*slot));
        whole.map(|(_, slot)| slot.name.clone()).collect()
    }
}
