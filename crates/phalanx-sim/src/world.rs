//! The world: processes, network and virtual time, and the loop that handles one event after the other. It decides
//! nothing itself: faults and commands come from a plan or a script.

mod settings;
mod state;

use std::collections::BTreeMap;
use std::rc::Rc;

use phalanx_core::process::{Activity, Process};
use phalanx_core::rng::Rng;
use phalanx_core::wire::Space;
use phalanx_core::{Incarnation, ViewNumber};
use phalanx_driver::{Driver, Transmit};
use phalanx_trace::{Header, Trace};

use crate::address::Endpoint;
use crate::app::{App, CELL, CLOCK, publish};
use crate::attacker::Attacker;
use crate::chain::Chain;
use crate::clock::Clock;
use crate::driver::learn_names;
use crate::estranged::Estranged;
use crate::network::Filter;
use crate::program::Program;

use crate::app::queue_submits;
use crate::clock::MS;
use crate::machine::{Machines, Maker};
use crate::memory::Memory;
use crate::network::{Lost, Network};
use crate::oracle::NonceOracle;
use crate::queue::{Due, Queue};
use crate::resources::Guarded;
use crate::result::{Counters, Violation, add_to};
use crate::slot::Neighbours;
use crate::slot::{Slot, Traffic, packets_idle};

pub use settings::{SUSPECT_AFTER, WorldSettings};
pub(crate) use state::{Bursting, Doomed, LostView, Operator, Troubles, Watch};

/// A scheduled event.
#[derive(Debug)]
pub(crate) enum Event {
    /// A packet arrives at a socket.
    Arrive { from: Endpoint, to: Endpoint, bytes: Rc<[u8]> },
    /// The application of a process acts.
    Work { slot: usize, life: u32 },
    /// A process is restarted, unless one runs.
    Start { slot: usize, moved: bool },
    /// The operating system notifies a process of another one's death.
    Death { told: usize, dead: Incarnation },
    /// The attacker sends its next packet.
    Attack { epoch: u32 },
    /// The next burst of abcasts is sent.
    Burst { epoch: u32 },
    /// A process may notice that its directory was emptied.
    Restore { slot: usize, life: u32 },
    /// The operator checks a cell that died as a whole.
    Operate,
    /// A timer of the caller.
    Timer(u32),
}

/// Result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// No event is left before the requested time.
    Done,
    /// An event happened; this slot's process ran an iteration.
    Turned(usize),
    /// An event happened and no process ran an iteration.
    Other,
    /// A timer of the caller is due.
    Timer(u32),
}

/// A whole cell in one thread.
pub(crate) struct World {
    pub(crate) now_ns: u64,
    pub(crate) settings: WorldSettings,
    pub(crate) queue: Queue<Event>,
    pub(crate) net: Network,
    pub(crate) slots: Vec<Slot>,
    pub(crate) attacker: Attacker,
    pub(crate) attack_epoch: u32,
    pub(crate) rng: Rng,
    /// Random numbers for shared memory.
    pub(crate) memory_rng: Rng,
    /// Random numbers for requests of a level.
    pub(crate) levels_rng: Rng,
    /// Random numbers for corrupted bytes.
    pub(crate) noise: Rng,
    pub(crate) oracle: NonceOracle,
    /// The oracle for packets in clear: a repeated packet must be repeated in full.
    pub(crate) clear: NonceOracle,
    pub(crate) harness: Trace,
    /// Actions on the cell, for people: time, slot if one, text.
    pub(crate) notes: Vec<(u64, Option<usize>, String)>,
    pub(crate) counters: Counters,
    pub(crate) lost: [u64; Lost::ALL.len()],
    /// The process that began to coordinate a view change which no other has installed yet, and its progress.
    coordinator: Option<(usize, Ballot)>,
    pub(crate) bursting: Bursting,
    /// Number of token passes by packet space, as far as any process has heard.
    pub(crate) tenures: BTreeMap<Space, u32>,
    pub(crate) violations: Vec<Violation>,
    turns: u32,
    /// The cell's views and the processes that installed them.
    pub(crate) chain: Chain,
    /// A view that is to be lost with the processes that know it.
    pub(crate) lost_view: Option<LostView>,
    /// Slots that stay broken to the end. Nothing is demanded of them, and the others must do without.
    pub(crate) ruined: Vec<usize>,
    /// Slots at the ends of paths that are partly broken for good.
    pub(crate) impaired: Vec<usize>,
    pub(crate) operator: Operator,
    /// Members of two instances that are apart.
    pub(crate) estranged: Option<Estranged>,
    /// Number of processes that are to leave last, in the same instant.
    pub(crate) leave_last: usize,
    /// Whether a message to one process alone was made unreadable there.
    pub(crate) unread_channels: bool,
    /// Whether the applications multicast.
    pub(crate) sending: bool,
    /// Whether they leave groups and come back.
    pub(crate) regrouping: bool,
    /// The resources that the locks guard, outside of the cell.
    pub(crate) guarded: Guarded,
    /// Buffer in which payloads are made.
    pub(crate) payload: Vec<u8>,
    /// A script's filter of lost packets.
    pub(crate) filter: Option<Filter>,
    /// State of the records for the checker.
    pub(crate) watch: Watch,
    /// Called for each process after each of its iterations, before packets of the iteration are carried.
    pub(crate) watcher: Option<Watcher>,
}

/// A callback with a slot, the time in nanoseconds and the slot's process.
pub type Watcher = Box<dyn FnMut(usize, u64, &Process)>;

/// Whether a slot is not ruined for good, and not kept out by its cell.
pub(crate) fn is_whole(world: &World, index: usize) -> bool {
    !world.ruined.contains(&index) && !world.slots[index].app.kept_out
}

impl World {
    pub(crate) fn new(settings: WorldSettings, seed: u64) -> Self {
        // Each part draws from a generator of its own, forked by a label. A new draw in one part leaves all others
        // unchanged.
        let rng = Rng::new(seed).fork("world");
        let n = settings.hosts.len();
        let state_bytes = settings.workload.map_or(1000, |workload| workload.state_bytes);
        let slot = |index: usize| {
            let named_like = settings.twins.iter().find(|(who, _)| *who == index).map_or(index, |(_, whose)| *whose);
            let name = format!("p{named_like}");
            // A copy has its original's generator, and so its keys and random numbers, as a cloned machine does.
            let like = settings.copies.iter().find(|(who, _)| *who == index).map_or(index, |(_, whose)| *whose);
            let mut rng = rng.fork(&format!("p{like}"));
            // Clients that two processes drew alike would be one.
            let of_clients = Rng::new(seed).fork("clients").fork(&index.to_string());
            let mut app = App::new(name.clone(), state_bytes, settings.builds.is_none(), of_clients);
            if settings.workload.is_some_and(|workload| workload.has_domains) {
                app.program = Program::new(u8::from(rng.fork("program").chance_ppm(800_000)));
            }
            Slot {
                app,
                name,
                host: settings.hosts[index],
                node: None,
                moves: 0,
                life: 0,
                paused: false,
                leaving: false,
                damaged: false,
                directory: 0,
                started_in: 0,
                list: None,
                buried: false,
                awaited: false,
                retired: false,
                turn_ns: settings.turn_ns,
                packet_ns: 0,
                // Clocks of different processes are unrelated.
                clock: Clock::new(rng.below(1_000_000_000_000)),
                busy_until_ns: 0,
                next_count_ns: 0,
                idle_turns: 0,
                doom: None,
                panics: None,
                activity: Activity::default(),
                noted_view: (Incarnation::NONE, ViewNumber::NONE),
                rng,
                traffic: Traffic::default(),
                neighbours: Neighbours::default(),
            }
        };
        Self {
            now_ns: 0,
            queue: Queue::new(n),
            net: Network::new(n, rng.fork("network")),
            slots: (0..n).map(slot).collect(),
            attacker: Attacker::new(rng.fork("attacker")),
            attack_epoch: 0,
            noise: rng.fork("noise"),
            oracle: NonceOracle::default(),
            clear: NonceOracle::default(),
            memory_rng: rng.fork("memory"),
            levels_rng: rng.fork("levels"),
            harness: Trace::new(Header::harness(CELL, CLOCK)),
            notes: Vec::new(),
            counters: Counters::default(),
            lost: [0; Lost::ALL.len()],
            coordinator: None,
            bursting: Bursting::new(rng.fork("bursts")),
            tenures: BTreeMap::new(),
            violations: Vec::new(),
            turns: 0,
            chain: Chain::default(),
            lost_view: None,
            ruined: Vec::new(),
            impaired: Vec::new(),
            operator: Operator::default(),
            estranged: None,
            leave_last: 0,
            unread_channels: false,
            sending: true,
            regrouping: true,
            guarded: Guarded::default(),
            payload: Vec::new(),
            filter: None,
            watch: Watch::default(),
            watcher: None,
            rng,
            settings,
        }
    }

    /// Gives each process the machines of a user.
    pub(crate) fn equip(&mut self, machines: &Machines) {
        for (index, slot) in self.slots.iter_mut().enumerate() {
            slot.app.maker = Some(Maker::new(machines, index, slot.rng.fork("machine")));
        }
    }

    /// Handles the next event, if it is due at `until_ns` or before; otherwise only time passes.
    pub(crate) fn step(&mut self, until_ns: u64) -> Step {
        let Some((at_ns, due)) = self.queue.pop_until(until_ns) else {
            self.now_ns = self.now_ns.max(until_ns);
            return Step::Done;
        };
        debug_assert!(at_ns >= self.now_ns, "time goes back");
        // Before time advances: changes are recorded at the time at which they were made.
        self.watch(at_ns);
        self.now_ns = at_ns;
        self.counters.events += 1;
        let event = match due {
            Due::Turn(slot) => {
                self.poll(slot);
                return Step::Turned(slot);
            }
            Due::Event(event) => event,
        };
        match event {
            Event::Arrive { from, to, bytes } => self.arrive(from, to, bytes),
            Event::Work { slot, life } => {
                // An event of an earlier incarnation is stale.
                if self.slots[slot].life == life {
                    self.work(slot);
                }
            }
            Event::Start { slot, moved } => self.start_again(slot, moved),
            Event::Death { told, dead } => self.tell_death(told, dead),
            Event::Attack { epoch } => {
                if self.attack_epoch == epoch {
                    self.attack();
                }
            }
            Event::Burst { epoch } => self.burst(epoch),
            Event::Restore { slot, life } => self.restore_directory(slot, life),
            Event::Operate => self.look_for_cell(),
            Event::Timer(id) => return Step::Timer(id),
        }
        Step::Other
    }

    /// Schedules an iteration at `at_ns`, or when the process is free, unless an earlier one is due.
    pub(crate) fn wake(&mut self, index: usize, at_ns: u64) {
        let slot = &self.slots[index];
        if slot.paused || slot.node.is_none() {
            return;
        }
        let at_ns = at_ns.max(self.now_ns).max(slot.busy_until_ns);
        if self.queue.turn_ns(index).is_none_or(|due_ns| due_ns > at_ns) {
            self.queue.set_turn(index, at_ns);
        }
    }

    fn poll(&mut self, index: usize) {
        let now_ns = self.now_ns;
        // The application of a process without which the cell has no future does not panic.
        if self.slots[index].panics.is_some() && !(self.running() > 1 && self.has_future(Some(index))) {
            self.slots[index].panic_next(None);
        }
        self.counters.multicasts += self.slots[index].send_queued(now_ns);
        self.watch_slot(index);
        let slot = &mut self.slots[index];
        let now = slot.local(now_ns);
        slot.app.now_ns = now_ns;
        let was_outside = slot.begin_watch();
        let before = slot.before_turn();
        let Some(node) = slot.node.as_mut() else { return };
        node.driver_mut().at(now_ns);
        let report = node.poll(now, &mut slot.app);
        learn_names(node, &slot.name);
        slot.app.told.take_refused().into_iter().for_each(|group| node.refuse_state(group));
        let process = node.process();
        slot.app.told.expire_asks(now);
        publish(&mut slot.app, |group| process.is_adequate(group));
        let submits = queue_submits(&mut slot.app);
        slot.app.end_turn(process.undelivered());
        slot.end_watch(was_outside);
        let refused = slot.app.told.to_leave();
        if let Some(before) = before {
            slot.check_promise(&before);
        }
        let Some(node) = slot.node.as_mut() else { return };
        if slot.app.told.has_panicked() {
            let back_ns = slot.panics.flatten();
            self.crash(index);
            return back_ns.into_iter().for_each(|back_ns| self.start_later(index, back_ns, false));
        }
        let pieces_ns = slot.app.holds.pace.take_spent_ns();
        slot.busy_until_ns = now_ns + slot.turn_ns + report.received as u64 * slot.packet_ns + pieces_ns;
        let seen =
            node.process().cell_view().filter(|view| slot.noted_view != (node.incarnation(), view.view)).cloned();
        if let Some(view) = &seen {
            let who = node.incarnation();
            slot.noted_view = (who, view.view);
            slot.app.record.last.clone_from(&node.process().record().last);
            self.check_marked(index, view.instance);
            self.note_founding(index, view.instance);
            self.chain.note(who, view);
        }
        if let Some(group) = refused {
            self.leave_refused(index, group);
        }
        if let Some(watcher) = &mut self.watcher
            && let Some(node) = &self.slots[index].node
        {
            watcher(index, now_ns, node.process());
        }
        // Before any packet is carried: a view that is to be lost must be hidden before its announcements leave.
        if let Some(view) = &seen {
            self.look_at_lost_view(index, view);
        }
        // Likewise: packets that announce a pass may be the first that are to be lost.
        if self.net.awaits_pass() {
            self.look_at_passes(index);
        }
        self.carry(index);
        self.tend_neighbours(index);
        self.check(index);
        self.answer(index);
        let slot = &mut self.slots[index];
        let Some(node) = slot.node.as_mut() else { return };
        if node.is_over() {
            slot.app.end_trace();
            self.keep_core_counters(index);
            let slot = &mut self.slots[index];
            slot.end();
            slot.activity = Activity::default();
            self.note(Some(index), "is gone");
            return;
        }
        let next_ns = if report.more || submits || node.driver().has_input() {
            Some(now_ns)
        } else if node.driver_mut().outbox().is_congested() {
            // The wake-up of a socket that becomes writable again: the owner runs within 1 ms.
            Some(slot.deadline_ns().map_or(now_ns + MS, |at_ns| at_ns.min(now_ns + MS)))
        } else {
            slot.deadline_ns()
        };
        let slot = &mut self.slots[index];
        let spins = report.received == 0 && next_ns.is_some_and(|at_ns| at_ns <= now_ns);
        slot.idle_turns = if spins { slot.idle_turns + 1 } else { 0 };
        if slot.idle_turns == SPINS_MAX {
            let deadline = slot.node.as_ref().and_then(|node| node.deadline());
            let text = format!(
                "{} asked {SPINS_MAX} times in a row for a turn at once, with nothing to do: more {}, deadline {deadline:?} at {:?}",
                slot.name,
                report.more,
                slot.local(now_ns)
            );
            self.violation("spin", text);
        }
        if let Some(at_ns) = next_ns {
            self.wake(index, at_ns);
        }
    }

    /// Checks a process from outside after an iteration.
    fn check(&mut self, index: usize) {
        self.turns += 1;
        let slot = &mut self.slots[index];
        let Some(node) = slot.node.as_ref() else { return };
        let process = node.process();
        // A check of all invariants is costly, so it runs only once in `check_every` iterations.
        if self.turns >= self.settings.check_every {
            self.turns = 0;
            process.check_invariants();
        }
        let before = std::mem::replace(&mut slot.activity, process.activity());
        let began = coordinates(&slot.activity) && !coordinates(&before);
        let installed = before.flushing && !slot.activity.flushing;
        let step = Ballot::of(&slot.activity);
        match &mut self.coordinator {
            Some((who, at)) if *who == index => *at = if installed { Ballot::Decided } else { step.unwrap_or(*at) },
            _ if installed => self.coordinator = None,
            other if began => {
                if let Some((_, at)) = other {
                    self.counters.take_overs += 1;
                    add_to(&mut self.counters.take_overs_at, at.name(), 1);
                }
                *other = step.map(|step| (index, step));
            }
            _ => {}
        }
        if !self.sending
            && let Some(packets) = self.slots[index].count_packets(self.now_ns)
            && let Some(incarnation) = self.slots[index].incarnation()
        {
            let idle = packets_idle(self.running().saturating_sub(1), self.ruined.len()) + 10;
            self.harness.push(self.now_ns, phalanx_trace::Event::Traffic { incarnation: incarnation.0, packets, idle });
        }
        while let Some((code, text)) = self.slots[index].app.faults.pop() {
            let text = format!("{}: {text}", self.slots[index].name);
            self.violation(code, text);
        }
    }

    pub(crate) fn violation(&mut self, code: &str, text: String) {
        if self.violations.len() < VIOLATIONS_MAX {
            self.violations.push(Violation { code: code.to_owned(), at_ns: self.now_ns, text });
        }
    }

    pub(crate) fn note(&mut self, slot: Option<usize>, text: impl Into<String>) {
        self.notes.push((self.now_ns, slot, text.into()));
    }

    /// Closes all open traces.
    pub(crate) fn end(&mut self) {
        self.sample();
        for slot in &mut self.slots {
            slot.app.now_ns = self.now_ns;
            if slot.node.is_some() {
                slot.app.end_trace();
            }
        }
        self.harness.push(self.now_ns, phalanx_trace::Event::End);
    }

    /// Adds a process's own counters to those of the run when the process ends.
    pub(crate) fn keep_core_counters(&mut self, index: usize) {
        if let Some(node) = self.slots[index].node.as_ref() {
            node.counters(&mut |name, count| add_to(&mut self.counters.core, name, count));
            for (name, count) in node.driver().memory().into_iter().flat_map(Memory::counts) {
                add_to(&mut self.counters.memory, name, *count);
            }
        }
    }

    /// Changes the capacity of a process's sockets.
    pub(crate) fn set_buffer(&mut self, index: usize, bytes: usize) {
        if let Some(node) = self.slots[index].node.as_mut() {
            node.driver_mut().set_buffer(bytes);
        }
    }

    /// Returns all counts. Call it once, at the end.
    pub(crate) fn count(&mut self) -> Counters {
        for index in 0..self.slots.len() {
            self.keep_core_counters(index);
        }
        let mut counters = self.counters.clone();
        counters.events += self.queue.overtaken(self.now_ns);
        counters.simulated_ms = self.now_ns / 1_000_000;
        counters.sealed = self.oracle.len() as u64;
        for (reason, count) in Lost::ALL.into_iter().zip(self.lost) {
            if count > 0 {
                counters.lost.insert(reason.name().to_owned(), count);
            }
        }
        for slot in &self.slots {
            let (counts, told) = (&slot.app.counts, slot.app.told.counts());
            counters.deliveries += counts.deliveries;
            counters.cell_view_installs += counts.cell_views;
            counters.group_view_installs += counts.group_views;
            counters.exclusions += counts.exclusions;
            counters.unsent += counts.unsent;
            counters.in_doubt += counts.in_doubt;
            counters.non_primary += counts.non_primary;
            counters.transfers += counts.transfers;
            let moments = [
                ("times told that a group waits", counts.orphaned),
                ("views inside of state transfers", counts.views_replayed),
                ("groups that went on with a kept state", counts.kept),
                ("states kept in vain", counts.forgotten),
                ("last members told that their leave is in doubt", counts.ends_in_doubt),
                ("inboxes not read for a while that held items", counts.inboxes_held),
                ("the same, while another inbox was given something", counts.inboxes_beside),
                ("the same, when the incarnation was over", counts.inboxes_at_end),
                ("multicasts told to be stable while their inbox held items", counts.stable_beside),
                ("messages to one told not to be delivered", counts.to_one_not_delivered),
                ("messages to one of a group told to be in doubt", counts.to_one_in_doubt),
                ("multicasts that named a view and were sent in it", counts.named_sent),
                ("multicasts that named a view that was over or ending", counts.named_refused),
                ("multicasts that named a view and could not be sent then", counts.named_later),
                ("multicasts that named a view and that no packet holds", counts.named_too_long),
                ("multicasts whose outcome was told: not sent", told.not_sent),
                ("multicasts whose outcome was told: in doubt", told.in_doubt),
                ("iterations after which an outcome was withheld", told.withheld),
                ("memberships that ended with a leave", told.left),
                ("memberships that ended because the group stopped", told.stopped),
                ("memberships that ended with their process", told.over),
                ("states whose donors were gone before they were complete", told.own_states),
                ("items looked at between the steps of a publication", told.looks),
                ("threads that ended while the core was ahead of what was told", told.ends_ahead),
                ("panics of an application on the thread of its process", told.panics),
                ("messages that were queued", told.queued),
                ("receipts for messages", told.receipts),
                ("states that their application refused", told.refused),
            ];
            for (name, count) in moments.into_iter().filter(|(_, count)| *count > 0) {
                add_to(&mut counters.moments, name, count);
            }
        }
        counters
    }
}

/// Progress of a coordinator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ballot {
    Gathering,
    Filling,
    Proposing,
    /// It has installed what it decided.
    Decided,
}

impl Ballot {
    fn of(activity: &Activity) -> Option<Self> {
        match activity {
            Activity { proposing: true, .. } => Some(Self::Proposing),
            Activity { recovering: true, .. } => Some(Self::Filling),
            Activity { gathering: true, .. } => Some(Self::Gathering),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Gathering => "gathering",
            Self::Filling => "filling",
            Self::Proposing => "proposing",
            Self::Decided => "decided",
        }
    }
}

/// Whether a process with this activity coordinates a view change.
pub(crate) fn coordinates(activity: &Activity) -> bool {
    activity.gathering || activity.recovering || activity.proposing
}

/// Consecutive iterations at once, with nothing to do, after which a process counts as spinning.
const SPINS_MAX: u32 = 10_000;

/// Bound on the violations of one run; more are of no use.
const VIOLATIONS_MAX: usize = 20;
