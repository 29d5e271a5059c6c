//! A run: the hosts on the network, and their workload.

use phalanx_core::rng::Rng;
use phalanx_core::rpc::Counters;

use super::fabric::{Counts, Fabric};
use super::host::{Call, Exchange, Host};
use super::setup::{SMALL_BYTES, Setup, Workload};
use crate::queue::{Due, Queue};

/// State of a run.
pub(super) struct World {
    pub(super) setup: Setup,
    pub(super) now_ns: u64,
    queue: Queue<Event>,
    hosts: Vec<Host>,
    fabric: Fabric,
    rng: Rng,
    /// Buffers of processed packets, for reuse.
    spare: Vec<Vec<u8>>,
    ended: Vec<Ended>,
}

/// Events other than event-loop iterations.
enum Event {
    /// A packet arrives at the switch.
    Switch { from: usize, to: usize, bytes: Vec<u8> },
    /// A packet arrives at a host.
    Arrive { from: usize, to: usize, bytes: Vec<u8> },
    /// A client makes a call.
    Call(Exchange),
}

/// A call that has ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ended {
    pub(super) what: Exchange,
    pub(super) begun_ns: u64,
    pub(super) ended_ns: u64,
    /// Whether it was answered.
    pub(super) answered: bool,
}

/// A workload.
pub(super) trait Work {
    /// Makes the first calls.
    fn begin(&mut self, world: &mut World);
    /// Handles the end of a call, and makes the next ones.
    fn ended(&mut self, world: &mut World, ended: &Ended);
    /// Whether no call is under way and none will be made.
    fn is_over(&self) -> bool;
}

/// Counts up to some moment.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Totals {
    pub(super) fabric: Counts,
    /// Packets dropped because a host's buffer was full.
    pub(super) dropped: u64,
    pub(super) probes: u64,
    /// Fragments known to be lost, and retransmitted.
    pub(super) again: u64,
    pub(super) duplicates: u64,
}

impl World {
    pub(super) fn new(setup: &Setup, workload: &Workload, seed: u64) -> Self {
        let root = Rng::new(seed).fork("links");
        let count = workload.clients() + workload.servers();
        let mut births = root.fork("hosts");
        let host = |at: usize| Host::new(BEGIN_NS, setup, &mut births, at >= workload.clients());
        Self {
            setup: setup.clone(),
            now_ns: BEGIN_NS,
            queue: Queue::new(count),
            hosts: (0..count).map(host).collect(),
            fabric: Fabric::new(setup, count, root.fork("network")),
            rng: root.fork("world"),
            spare: Vec::new(),
            ended: Vec::new(),
        }
    }

    /// Opens all sessions. A small call in each makes the round trip known.
    pub(super) fn open(&mut self, pairs: impl Iterator<Item = (usize, usize)>) {
        for (at, (client, server)) in (0..).zip(pairs) {
            self.run_until(BEGIN_NS + at * OPEN_EVERY_NS, &mut Nothing);
            self.hosts[client].connect(self.now_ns, server);
            let what = Exchange { client, server, request_bytes: SMALL_BYTES, answer_bytes: SMALL_BYTES };
            self.call(self.now_ns, what);
        }
        // Longer than any packet that the sessions still have to send.
        self.run_until(self.now_ns + QUIET_NS, &mut Nothing);
    }

    /// Runs `work`.
    pub(super) fn work(&mut self, work: &mut dyn Work) {
        work.begin(self);
        self.tell(work);
        self.run_until(self.now_ns + LONGEST_NS, work);
    }

    fn run_until(&mut self, until_ns: u64, work: &mut dyn Work) {
        while !work.is_over()
            && let Some((at_ns, due)) = self.queue.pop_until(until_ns)
        {
            self.now_ns = at_ns;
            self.handle(due);
            self.tell(work);
        }
        if !work.is_over() {
            self.now_ns = until_ns;
        }
    }

    fn tell(&mut self, work: &mut dyn Work) {
        while let Some(ended) = self.ended.pop() {
            work.ended(self, &ended);
        }
    }

    fn handle(&mut self, due: Due<Event>) {
        match due {
            Due::Turn(at) => {
                self.hosts[at].poll(self.now_ns);
                self.settle(at);
            }
            Due::Event(Event::Switch { from, to, bytes }) => match self.fabric.forward(self.now_ns, to, bytes.len()) {
                Some(at_ns) => self.queue.push(at_ns, Event::Arrive { from, to, bytes }),
                None => self.spare.push(bytes),
            },
            Due::Event(Event::Arrive { from, to, bytes }) => {
                let gap_ns = self.rng.below(self.setup.wake_ns + 1);
                self.hosts[to].arrive(self.now_ns, from, bytes, gap_ns);
                self.plan_turn(to);
            }
            Due::Event(Event::Call(what)) => self.call(self.now_ns, what),
        }
    }

    /// Schedules a call at `at_ns`.
    pub(super) fn call_at(&mut self, at_ns: u64, what: Exchange) {
        self.queue.push(at_ns, Event::Call(what));
    }

    /// Makes a call. One that its client's endpoint does not accept counts as failed.
    pub(super) fn call(&mut self, now_ns: u64, what: Exchange) {
        if self.hosts[what.client].call(now_ns, what) {
            self.settle(what.client);
        } else {
            self.ended.push(Ended { what, begun_ns: now_ns, ended_ns: now_ns, answered: false });
        }
    }

    /// Carries out the effects of an endpoint, and schedules its host's next iteration.
    fn settle(&mut self, at: usize) {
        let host = &mut self.hosts[at];
        for (at_ns, to, bytes) in host.out.sent.drain(..) {
            let at_switch_ns = self.fabric.send(at_ns, at, bytes.len());
            self.queue.push(at_switch_ns, Event::Switch { from: at, to, bytes });
        }
        for (at_ns, call_id, answer) in host.out.told.drain(..).rev() {
            if let Some(Call { what, begun_ns }) = host.calls.remove(&call_id) {
                let answered = answer == Some(what.answer_bytes);
                self.ended.push(Ended { what, begun_ns, ended_ns: at_ns, answered });
            }
        }
        // In total, hosts take as many packets as they send, except losses. So spare buffers circulate through one
        // pool.
        self.spare.append(&mut host.out.spare);
        let keep = self.spare.len().saturating_sub(SPARE_OF_HOST);
        host.out.spare.extend(self.spare.drain(keep..));
        self.plan_turn(at);
    }

    fn plan_turn(&mut self, at: usize) {
        match self.hosts[at].due_ns() {
            Some(due_ns) => self.queue.set_turn(at, due_ns.max(self.now_ns)),
            None => self.queue.forget_turn(at),
        }
    }

    pub(super) fn totals(&self) -> Totals {
        let mut totals = Totals { fabric: self.fabric.counts, ..Totals::default() };
        for host in &self.hosts {
            let Counters { probes, lost, duplicates, .. } = host.endpoint.counters();
            totals.dropped += host.dropped;
            totals.probes += probes;
            totals.again += lost;
            totals.duplicates += duplicates;
        }
        totals
    }

    /// The highest charge of any receive buffer.
    pub(super) fn charged_max(&self) -> u64 {
        self.hosts.iter().map(|host| host.charged_max).max().unwrap_or_default()
    }

    /// Checks the endpoints' invariants, and panics if one is violated.
    pub(super) fn check(&self) {
        for host in &self.hosts {
            host.endpoint.check_invariants();
        }
    }
}

/// The empty workload: only time passes.
struct Nothing;

impl Work for Nothing {
    fn begin(&mut self, _world: &mut World) {}
    fn ended(&mut self, _world: &mut World, _ended: &Ended) {}
    fn is_over(&self) -> bool {
        false
    }
}

/// The run does not begin at zero, which means "at once" to an endpoint.
const BEGIN_NS: u64 = 1_000;
/// Time between two sessions that open.
const OPEN_EVERY_NS: u64 = 5_000;
/// Time before the work begins.
const QUIET_NS: u64 = 50_000_000;
/// Bound on a run. A workload that has not ended by then never does, because calls have deadlines.
const LONGEST_NS: u64 = 300_000_000_000;
/// Spare buffers that a host keeps.
const SPARE_OF_HOST: usize = 64;
