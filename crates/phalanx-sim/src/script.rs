//! Stories written by hand: a test moves a cell from one moment to the next and injects faults between them.

mod founding;
mod look;

use std::time::Duration;

pub use look::KeptPackets;
use phalanx_core::member::Role;
use phalanx_core::process::Activity;
use phalanx_core::{CommandError, GroupTerms, Order, TrafficClass, Uniformity, ViewNumber};
use phalanx_trace::Phase;

use crate::machine::Machines;
use crate::network::Packet;
use crate::options::Options;
use crate::result::{SeedResult, Violation};
use crate::run::conclude;
use crate::slot::Doom;
use crate::world::{Event, Step, World, WorldSettings};

/// A cell under a script. Processes are numbered by slot, from 0; times are virtual.
///
/// Time passes only in [`Cell::run_for`], [`Cell::run_until`] and functions that call them.
pub struct Cell {
    world: World,
    seed: u64,
    title: String,
}

impl Cell {
    /// A cell in which no process runs yet. The seed decides everything that the settings leave open.
    #[must_use]
    pub fn new(settings: WorldSettings, seed: u64) -> Self {
        let mut world = World::new(settings, seed);
        world.enter(Phase::Faulty, Vec::new());
        Self { world, seed, title: "a scripted story".into() }
    }

    /// Starts `members` processes and runs until they are in one cell view and, all of them, in group "a".
    ///
    /// # Panics
    /// When that takes more than ten seconds.
    #[must_use]
    pub fn settled(members: usize, seed: u64) -> Self {
        let mut cell = Self::new(WorldSettings::quiet(members), seed);
        for slot in 0..members {
            cell.start(slot);
            cell.join(slot, "a");
        }
        cell.settle();
        cell
    }

    /// Names this variant of the story, for failure messages.
    #[must_use]
    pub fn titled(mut self, title: impl Into<String>) -> Self {
        self.title = title.into();
        self
    }

    /// Lets the cell run for this long.
    pub fn run_for(&mut self, time: Duration) {
        let until_ns = self.world.now_ns + nanos(time);
        while self.world.step(until_ns) != Step::Done {}
    }

    /// Runs the cell event by event until `condition` holds or `limit` has passed. Returns whether it holds.
    pub fn run_until(&mut self, limit: Duration, mut condition: impl FnMut(&Self) -> bool) -> bool {
        let until_ns = self.world.now_ns + nanos(limit);
        while !condition(self) {
            if self.world.step(until_ns) == Step::Done {
                return condition(self);
            }
        }
        true
    }

    /// Runs until all running processes share one cell view and the groups they want.
    ///
    /// # Panics
    /// When that takes more than ten seconds, counted from when no recently excluded process is held back. The message
    /// gives the reason.
    pub fn settle(&mut self) {
        let settled = self.comes_to_one_view();
        if !settled {
            let why = self.world.unsettled().unwrap_or_default();
            self.world.note_states();
            let table = crate::timeline::render(&self.world, u64::MAX, 200, &crate::timeline::Proofs::new());
            panic!("{}: not settled after 10 s: {why}\n{table}", self.title);
        }
    }

    /// Runs until all share one view, for as long as a cell may need once no recently excluded process is held back.
    /// Returns whether they do.
    fn comes_to_one_view(&mut self) -> bool {
        let settle = Duration::from_nanos(crate::plan::SETTLE_NS);
        let latest = self.now() + Duration::from_nanos(crate::run::HELD_BACK_NS);
        let mut until = self.now() + settle;
        while self.now() < until {
            if self.run_until(Duration::from_millis(50), |cell| cell.world.unsettled().is_none()) {
                return true;
            }
            if self.world.somebody_is_told_to_wait() && self.now() < latest {
                until = self.now() + settle;
            }
        }
        false
    }

    /// Virtual time since the start.
    #[must_use]
    pub fn now(&self) -> Duration {
        Duration::from_nanos(self.world.now_ns)
    }

    /// Starts the process of a slot; also restarts one that crashed, was excluded or left.
    pub fn start(&mut self, slot: usize) {
        self.world.start_again(slot, false);
    }

    /// Starts it at a new address.
    pub fn start_moved(&mut self, slot: usize) {
        self.world.start_again(slot, true);
    }

    /// Crashes a process.
    pub fn crash(&mut self, slot: usize) {
        self.world.crash(slot);
    }

    /// Whether a process of this slot took part in a founding. Its bootstrap marker stays.
    #[must_use]
    pub fn has_founded(&self, slot: usize) -> bool {
        self.world.slots[slot].app.record.mark.is_some()
    }

    /// Lets a process send this many more packets, one for each receiver, and crashes it at the next.
    pub fn crash_after_sends(&mut self, slot: usize, packets: u32) {
        self.world.slots[slot].doom = Some(Doom { left: packets, back: None, spare_the_last: false });
    }

    /// Stops a process as SIGSTOP does.
    pub fn pause(&mut self, slot: usize) {
        self.world.pause(slot);
    }

    /// Lets it run again.
    pub fn resume(&mut self, slot: usize) {
        self.world.resume(slot);
    }

    /// Asks a process to leave the cell.
    pub fn leave(&mut self, slot: usize) {
        self.world.leave(slot);
    }

    /// Notifies `told`, as the operating system would, that the process last running in slot `dead` is dead.
    pub fn tell_death(&mut self, told: usize, dead: usize) {
        let incarnation = self.world.slots[dead].app.traces.last().map(|trace| trace.header.incarnation);
        if let Some(incarnation) = incarnation {
            self.world.tell_death(told, phalanx_core::Incarnation(incarnation));
        }
    }

    /// Makes a process's clock jump ahead.
    pub fn jump_clock(&mut self, slot: usize, by: Duration) {
        self.world.jump_clock(slot, nanos(by));
    }

    /// Sets whether a process's application takes deliveries.
    pub fn set_takes(&mut self, slot: usize, takes: bool) {
        self.world.set_takes(slot, takes);
    }

    /// Cuts the link from one process to another, one way.
    pub fn cut(&mut self, from: usize, to: usize) {
        self.world.net.cut(from, to);
        self.world.note(None, format!("cut: {from}>{to}"));
    }

    /// Mends it.
    pub fn mend(&mut self, from: usize, to: usize) {
        self.world.net.mend(from, to);
        self.world.note(None, format!("mended: {from}>{to}"));
    }

    /// Cuts every link between `some` and all others, both ways.
    pub fn cut_off(&mut self, some: &[usize]) {
        for from in 0..self.world.slots.len() {
            for to in 0..self.world.slots.len() {
                if some.contains(&from) != some.contains(&to) {
                    self.cut(from, to);
                }
            }
        }
    }

    /// Cuts every link.
    pub fn cut_all(&mut self) {
        for slot in 0..self.world.slots.len() {
            for other in 0..self.world.slots.len() {
                if slot != other {
                    self.cut(slot, other);
                }
            }
        }
    }

    /// Mends every link and removes the filter.
    pub fn heal(&mut self) {
        self.world.net.heal();
        self.world.filter = None;
        self.world.note(None, "all links are mended");
    }

    /// Detaches a process from the memory of all others, or lets it attach again.
    pub fn detach(&mut self, slot: usize, detached: bool) {
        self.world.hold_memory(slot, detached);
    }

    /// Makes a process be overtaken in the memory it reads, at this many records in a million, from now on.
    pub fn lap(&mut self, slot: usize, ppm: u32) {
        if let Some(memory) = self.world.slots[slot].memory_mut() {
            memory.lapped_ppm = ppm;
        }
    }

    /// Loses the packets for which `lost` returns true, from now on.
    pub fn lose_if(&mut self, lost: impl FnMut(&Packet) -> bool + 'static) {
        self.world.filter = Some(Box::new(lost));
    }

    /// Sets the length of the longest packet that a process can send or receive on its path.
    pub fn limit_path(&mut self, slot: usize, bytes: usize) {
        self.world.net.limit_path(slot, bytes);
    }

    /// Sets an attacker's replays and noise packets per second; 0 and 0: none.
    pub fn attack(&mut self, replays: u64, noise: u64) {
        self.world.set_attack(replays, noise, 0);
    }

    /// Delivers a packet made by the test to the control socket of a process, as if another process had sent it.
    pub fn inject(&mut self, from: usize, to: usize, bytes: &[u8]) {
        let (from, to) =
            (self.world.endpoint(from, TrafficClass::Control), self.world.endpoint(to, TrafficClass::Control));
        self.world.queue.push(self.world.now_ns, Event::Arrive { from, to, bytes: bytes.into() });
    }

    /// Joins a group, with its state.
    ///
    /// # Panics
    /// When the node refuses.
    pub fn join(&mut self, slot: usize, group: &str) {
        self.world.join_group(slot, group, true).expect("a running process may ask for a group");
    }

    /// Joins a group, with its state.
    ///
    /// # Errors
    /// Those of the node; nothing changed.
    pub fn try_join(&mut self, slot: usize, group: &str) -> Result<(), CommandError> {
        self.world.join_group(slot, group, true)
    }

    /// Asks for a group in a role.
    ///
    /// # Panics
    /// When the node refuses.
    pub fn join_as(&mut self, slot: usize, group: &str, role: Role) {
        let asked = match role {
            Role::Observer => self.world.join_group_on(slot, group, role, GroupTerms::default()),
            Role::State | Role::Stateless => self.world.join_group(slot, group, role == Role::State),
        };
        asked.expect("a running process may ask for a group");
    }

    /// Makes a process's state directory take nothing, or take records again.
    pub fn fill_disk(&mut self, slot: usize, is_full: bool) {
        self.world.fill_disk(slot, is_full);
    }

    /// Joins a group, with its state. If the process founds it, these are its terms.
    ///
    /// # Panics
    /// When the node refuses.
    pub fn join_on_terms(&mut self, slot: usize, group: &str, terms: GroupTerms) {
        self.world.join_group_on(slot, group, Role::State, terms).expect("a running process may ask for a group");
    }

    /// Asks the cell to rise to a level.
    ///
    /// # Errors
    /// Those of the node; nothing was asked.
    pub fn raise_level(&mut self, slot: usize, level: u16) -> Result<(), CommandError> {
        self.world.raise_level(slot, level)
    }

    /// The level in force at a process.
    #[must_use]
    pub fn level(&self, slot: usize) -> Option<u16> {
        Some(self.world.slots[slot].node.as_ref()?.process().cell_view()?.level)
    }

    /// Leaves a group.
    ///
    /// # Errors
    /// Those of the node; nothing changed.
    pub fn leave_group(&mut self, slot: usize, group: &str) -> Result<(), CommandError> {
        self.world.leave_group(slot, group)
    }

    /// Multicasts `len` bytes that no other message has.
    ///
    /// # Errors
    /// Those of the node; nothing was queued.
    pub fn multicast(
        &mut self,
        slot: usize,
        group: &str,
        order: Order,
        uniformity: Uniformity,
        len: usize,
    ) -> Result<(), CommandError> {
        let (id, _) = self.world.slots[slot].app.member_of(group).ok_or(CommandError::NotMember)?;
        let rng = &mut self.world.slots[slot].rng;
        let mut payload = vec![0];
        payload.resize_with(len.max(9), || rng.next_u64().to_le_bytes()[0]);
        self.world.multicast(slot, id, order, uniformity, &payload)
    }

    /// Sends a message from one process to another.
    ///
    /// # Errors
    /// Those of [`phalanx_core::Process::send`].
    pub fn send_to(&mut self, from: usize, to: usize, len: usize) -> Result<(), CommandError> {
        let receiver = self.world.slots[to].incarnation().ok_or(CommandError::NotMember)?;
        self.world.send_to(from, receiver, &vec![0; len])
    }

    /// The current activity of a process.
    #[must_use]
    pub fn activity(&self, slot: usize) -> Activity {
        self.world.activity(slot)
    }

    /// Whether a process runs in a slot.
    #[must_use]
    pub fn runs(&self, slot: usize) -> bool {
        self.world.slots[slot].runs()
    }

    /// Whether it is in the primary partition.
    #[must_use]
    pub fn is_primary(&self, slot: usize) -> bool {
        self.world.slots[slot].node.as_ref().is_some_and(|node| node.process().is_primary())
    }

    /// The number of a process's cell view and, by rank, the slots of its members whose incarnation still runs.
    #[must_use]
    pub fn cell_view(&self, slot: usize) -> Option<(ViewNumber, Vec<usize>)> {
        let view = self.world.slots[slot].node.as_ref()?.process().cell_view()?;
        let members = view.members.iter().filter_map(|member| self.world.slot_of(member.incarnation));
        Some((view.view, members.collect()))
    }

    /// The number of a process's view of a group, and how many members it has.
    #[must_use]
    pub fn group_view(&self, slot: usize, group: &str) -> Option<(ViewNumber, usize)> {
        let (_, group) = self.world.slots[slot].app.member_of(group)?;
        Some((group.view, group.members.len()))
    }

    /// Number of messages that a process's application delivered since it was first started.
    #[must_use]
    pub fn delivered(&self, slot: usize) -> u64 {
        self.world.slots[slot].app.counts.deliveries
    }

    /// Number of exclusion notices to a process's application.
    #[must_use]
    pub fn exclusions(&self, slot: usize) -> u64 {
        self.world.slots[slot].app.counts.exclusions
    }

    /// The address of a process for control traffic.
    #[must_use]
    pub fn control_address(&self, slot: usize) -> std::net::SocketAddr {
        self.world.endpoint(slot, TrafficClass::Control).address()
    }

    /// Heals everything, waits for one common view, lets all processes multicast, and evaluates the run.
    #[must_use]
    pub fn finish(mut self) -> SeedResult {
        self.world.enter(Phase::Heal, Vec::new());
        self.heal();
        for slot in 0..self.world.slots.len() {
            self.world.resume(slot);
            self.world.set_takes(slot, true);
        }
        let settled = self.comes_to_one_view();
        self.world.enter(Phase::Quiet, Vec::new());
        if !settled && !self.world.has_future(None) {
            self.world.counters.without_quorum = 1;
        } else if !settled {
            let why = self.world.unsettled().unwrap_or_default();
            self.world.note_states();
            self.world.violation("liveness", why);
        }
        for round in 0..3 {
            for slot in 0..self.world.slots.len() {
                // Processes in no group refuse, which is expected.
                let _ = self.multicast(
                    slot,
                    "a",
                    [Order::Fifo, Order::Causal, Order::Total][round],
                    Uniformity::from_flag(round == 1),
                    100,
                );
            }
            self.run_for(Duration::from_millis(100));
        }
        self.run_for(Duration::from_nanos(crate::plan::SETTLE_NS + crate::run::DELIVER_NS));
        for slot in &mut self.world.slots {
            slot.app.now_ns = self.world.now_ns;
            if slot.node.is_some() {
                slot.app.record_digests();
            }
        }
        self.world.end();
        let options = Options::default();
        conclude(self.world, self.seed, &self.title, &options)
    }

    /// Calls [`Self::finish`], and fails the test with the whole story if anything is wrong.
    ///
    /// # Panics
    /// When the checker, or the liveness check, found something.
    pub fn finish_clean(self) {
        let result = self.finish();
        assert!(result.violations.is_empty(), "{}", result.story.unwrap_or_default());
    }

    /// Violations so far, before the checker evaluates the traces.
    #[must_use]
    pub fn violations(&self) -> &[Violation] {
        &self.world.violations
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Makes the next message that a process sends to another one alone unreadable there, and sends it.
///
/// # Panics
/// When one of them is no member of the cell.
pub fn blind_channel(cell: &mut Cell, reader: usize, sender: usize) {
    cell.world.blind_channel(sender, reader).expect("both are members");
}

/// Gives each process the machines of a user, before it is in a group.
pub fn equip(cell: &mut Cell, machines: &Machines) {
    cell.world.equip(machines);
}

/// Runs until a condition holds, for at most `limit`, while all members of group `a` multicast, so that no data socket is
/// silent. Returns whether it holds.
pub fn send_until(cell: &mut Cell, limit: Duration, condition: impl Fn(&Cell) -> bool) -> bool {
    let until = cell.now() + limit;
    while cell.now() < until {
        for slot in 0..cell.world.slots.len() {
            let _ = cell.multicast(slot, "a", Order::Fifo, Uniformity::Plain, 20);
        }
        if cell.run_until(Duration::from_millis(100), &condition) {
            return true;
        }
    }
    false
}
