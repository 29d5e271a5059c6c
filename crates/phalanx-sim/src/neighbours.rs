//! The runtime's handling of neighbours on a host: it attaches the members of the view in force and detaches those that
//! left or are proved dead. The simulated one may also be late, or begin to read too early.

use std::collections::BTreeMap;
use std::sync::Arc;

use phalanx_core::{CellView, Incarnation, MemberInfo};

use crate::memory::{Memory, MemorySettings};
use crate::slot::{Neighbour, NeighbourState, Neighbours, Slot};
use crate::world::World;

impl World {
    /// Called after each iteration of a process: follows its incarnation and its view.
    pub(crate) fn tend_neighbours(&mut self, index: usize) {
        let Some(settings) = self.settings.memory else { return };
        let Some(life) = self.slots[index].incarnation() else { return };
        let slot = &mut self.slots[index];
        if slot.neighbours.life != Some(life) {
            let held = slot.neighbours.held;
            slot.neighbours = Neighbours { life: Some(life), held, ..Neighbours::default() };
            if let Some(memory) = slot.memory_mut() {
                memory.begin_incarnation(life.0);
            }
        }
        let known = slot.neighbours.view.as_ref();
        let view = slot.node.as_ref().and_then(|node| node.process().cell_view());
        if let Some(view) = view.filter(|view| known.is_none_or(|known| !Arc::ptr_eq(known, view))) {
            let view = Arc::clone(view);
            self.follow_view(index, &view, &settings);
        }
        self.attach_neighbours(index, &settings);
    }

    fn follow_view(&mut self, index: usize, view: &Arc<CellView>, settings: &MemorySettings) {
        let host = self.slots[index].host;
        let Some(me) = self.slots[index].incarnation() else { return };
        let mut before = std::mem::take(&mut self.slots[index].neighbours.members);
        let mut members = BTreeMap::new();
        for info in view.members.iter().filter(|info| info.host == host && info.incarnation != me) {
            let neighbour = before
                .remove(&info.incarnation)
                .unwrap_or_else(|| Neighbour { info: info.clone(), state: self.first_try(settings) });
            members.insert(info.incarnation, neighbour);
        }
        let slot = &mut self.slots[index];
        slot.neighbours.view = Some(Arc::clone(view));
        slot.neighbours.members = members;
        if let Some(memory) = slot.memory_mut() {
            before.keys().for_each(|gone| memory.detach(gone.0));
        }
    }

    /// The time of the first try: at once, seconds later, or never.
    fn first_try(&mut self, settings: &MemorySettings) -> NeighbourState {
        if !self.memory_rng.chance_ppm(settings.late_ppm) {
            return NeighbourState::Sought { at_ns: self.now_ns, tries: 0 };
        }
        match self.memory_rng.below(4) {
            0 => NeighbourState::Given,
            1 => NeighbourState::Sought { at_ns: self.now_ns + self.memory_rng.below(3_000_000_000), tries: 0 },
            _ => NeighbourState::Sought { at_ns: self.now_ns + self.memory_rng.below(50_000_000), tries: 0 },
        }
    }

    fn attach_neighbours(&mut self, index: usize, settings: &MemorySettings) {
        if self.slots[index].neighbours.held {
            return;
        }
        let now_ns = self.now_ns;
        let due =
            |neighbour: &&Neighbour| matches!(neighbour.state, NeighbourState::Sought { at_ns, .. } if at_ns <= now_ns);
        let due: Vec<MemberInfo> =
            self.slots[index].neighbours.members.values().filter(due).map(|n| n.info.clone()).collect();
        for info in due {
            let stale = self.memory_rng.chance_ppm(settings.stale_ppm).then(|| 1 + self.memory_rng.below(STALE_MAX));
            let latency_ns = self.memory_rng.below(settings.latency_ns);
            let other = self.slot_of(info.incarnation);
            let is_cut = other.is_some_and(|other| self.net.is_cut(other, index)) && !settings.bridges;
            let stale = stale.filter(|_| !is_cut);
            let segment = other.and_then(|other| self.slots[other].memory()).map(Memory::segment);
            let slot = &mut self.slots[index];
            let attached = match (segment, slot.memory_mut()) {
                (Some(segment), Some(memory)) => memory.attach(&info, segment, latency_ns, stale.unwrap_or(0)),
                _ => false,
            };
            let Some(neighbour) = slot.neighbours.members.get_mut(&info.incarnation) else { continue };
            neighbour.state = match neighbour.state {
                _ if attached => NeighbourState::Attached,
                NeighbourState::Sought { tries, .. } if tries + 1 < TRIES_MAX => {
                    NeighbourState::Sought { at_ns: now_ns + (ROUND_NS << (tries + 1)), tries: tries + 1 }
                }
                _ => NeighbourState::Given,
            };
        }
    }

    /// Detaches a neighbour that is proved dead: nothing is written for it any more.
    pub(crate) fn forget_neighbour(&mut self, index: usize, dead: Incarnation) {
        let slot = &mut self.slots[index];
        if slot.neighbours.members.remove(&dead).is_some()
            && let Some(memory) = slot.memory_mut()
        {
            memory.detach(dead.0);
        }
    }

    /// Detaches a process from all its neighbours and keeps it detached; or lets it attach them again.
    pub(crate) fn hold_memory(&mut self, index: usize, held: bool) {
        let now_ns = self.now_ns;
        let slot = &mut self.slots[index];
        slot.neighbours.held = held;
        let mut attached = Vec::new();
        for neighbour in slot.neighbours.members.values_mut().filter(|n| held && n.state == NeighbourState::Attached) {
            neighbour.state = NeighbourState::Sought { at_ns: now_ns, tries: 0 };
            attached.push(neighbour.info.incarnation.0);
        }
        if let Some(memory) = slot.memory_mut() {
            attached.into_iter().for_each(|token| memory.detach(token));
        }
        self.wake(index, now_ns);
    }

    /// Whether records of one process reach the other through memory although the network is cut.
    pub(crate) fn is_bridged(&self, from: usize, to: usize) -> bool {
        let bridges = self.settings.memory.is_some_and(|memory| memory.bridges);
        bridges
            && self.slots[to].incarnation().is_some_and(|to| self.slots[from].memory().is_some_and(|m| m.reaches(to.0)))
    }

    /// Cuts one process's records from the other, through memory as well. When the other begins to read, it does not
    /// see the records written meanwhile.
    pub(crate) fn cut_memory(&mut self, from: usize, to: usize) {
        let whose = self.slots[from].incarnation();
        if let (Some(whose), Some(memory)) = (whose, self.slots[to].memory_mut()) {
            memory.begin_at_the_end(whose.0);
        }
    }

    /// A version that changes when a process becomes bridged.
    pub(crate) fn bridges_version(&self) -> u64 {
        if !self.settings.memory.is_some_and(|memory| memory.bridges) {
            return 0;
        }
        let lives = |slot: &Slot| 2 * u64::from(slot.life) + u64::from(slot.runs());
        self.slots.iter().map(|slot| (lives(slot) << 32) + slot.memory().map_or(0, Memory::version)).sum()
    }
}

/// Bound on the records by which a stale reader begins too early.
const STALE_MAX: u64 = 64;
/// Failed tries after which a member is reached over the network for good.
const TRIES_MAX: u32 = 5;
/// Interval of the runtime's rounds.
const ROUND_NS: u64 = 100_000_000;
