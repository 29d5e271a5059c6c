//! The event loop of a simulated run.

mod applications;
mod callers;
mod demands;
mod processes;

use std::net::SocketAddr;
use std::time::Duration;

use phalanx_core::id::Incarnation;
use phalanx_core::rng::Rng;
use phalanx_core::rpc::ClientCallId;
use phalanx_core::time::Instant;

use super::callers::{Calling, Routes, Routing, Serving};
use super::judge::{FOUND_MAX, Judge, seconds};
use super::network::Network;
use super::node::{Node, Place};
use super::plan::{MS, Plan, SECOND};
use super::record::Records;
use super::result::{CallsResult, CallsStats};
use super::routes::RoutesPlan;
use crate::queue::{Due, Queue};

/// State of a run.
pub(super) struct World {
    plan: Plan,
    now_ns: u64,
    queue: Queue<Event>,
    nodes: Vec<Node>,
    network: Network,
    judge: Judge,
    records: Records,
    stats: CallsStats,
    trace_hash: u64,
    rng: Rng,
    is_whole: bool,
    /// All that exists for routed calls, if there are such.
    routes: Option<Routes>,
    story: Option<Vec<String>>,
}

/// Events other than event-loop iterations.
enum Event {
    Packet {
        to: usize,
        at: SocketAddr,
        from: SocketAddr,
        bytes: Vec<u8>,
    },
    /// A packet through memory.
    Shared {
        to: usize,
        life: Incarnation,
        writer: Incarnation,
        bytes: Vec<u8>,
    },
    /// The system of a process reports that no socket is at an address.
    Unreachable {
        at: usize,
        server: SocketAddr,
    },
    /// A client's application acts.
    Act {
        client: usize,
        life: u32,
    },
    Cancel {
        client: usize,
        life: u32,
        call_id: ClientCallId,
    },
    /// Something happens to a caller of routed calls.
    Calling {
        client: usize,
        life: u32,
        what: Calling,
    },
    /// Something happens in the directory of servers.
    Serving(Serving),
    /// A handler answers.
    Answer {
        server: usize,
        life: u32,
        run: usize,
        again: bool,
    },
    /// The next fault of the plan.
    Fault(usize),
    Start(usize),
}

/// What a call of an endpoint is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// A fault may end it.
    Usual,
    /// It must be answered.
    Must,
    /// It is an attempt of a routed call.
    Routed,
}

macro_rules! tell {
    ($world:expr, $($arg:tt)*) => {
        if let Some(story) = &mut $world.story {
            story.push(format!("{} {}", $crate::calls::judge::seconds($world.now_ns), format_args!($($arg)*)));
        }
    };
}
use tell;

impl World {
    pub(super) fn new(seed: u64, tells: bool) -> Self {
        let root = Rng::new(seed).fork("calls");
        let mut plan = Plan::draw(&root);
        let routed = RoutesPlan::draw(&mut root.fork("routes"), plan.servers, plan.clients, plan.faulty_ns);
        plan.invite(routed.as_ref().map_or(0, |routed| routed.visitors), &root);
        let count = plan.endpoints.len();
        let routes = routed.map(|routed| Routes::new(routed, root.fork("routed"), count));
        let node = |at: usize| {
            let endpoint = &plan.endpoints[at];
            let rng = root.fork(&format!("place {at}"));
            Node {
                plan: endpoint.clone(),
                life: 0,
                moves: 0,
                endpoint: None,
                place: Place::new(rng, at as u64, plan.handlers, endpoint, plan.len_max, plan.long_ppm),
                inbox: Vec::new(),
                charged: 0,
                lost: false,
                paused_until_ns: 0,
                idle_turns: (0, 0),
                has_spun: false,
                sessions: Vec::new(),
                call_ids: std::collections::BTreeMap::new(),
                next_call: 0,
                waiting: std::collections::BTreeMap::new(),
                waiting_max: 0,
                wake_ns: None,
            }
        };
        Self {
            nodes: (0..count).map(node).collect(),
            now_ns: 0,
            queue: Queue::new(count),
            network: Network::new(plan.weather.clone(), root.fork("network"), count),
            judge: Judge::default(),
            records: Records::default(),
            stats: CallsStats::default(),
            trace_hash: 0,
            rng: root.fork("world"),
            is_whole: false,
            routes,
            story: tells.then(Vec::new),
            plan,
        }
    }

    /// Runs from the first packet to the last.
    pub(super) fn run(&mut self) {
        for at in 0..self.plan.first_visitor() {
            self.start(at);
        }
        self.route(Routing::Begin);
        for at in 0..self.plan.faults.len() {
            self.queue.push(self.plan.faults[at].at_ns, Event::Fault(at));
        }
        self.run_until(self.plan.faulty_ns);
        self.heal();
        // Long enough for servers to forget all unused sessions, including those that very late packets have opened.
        let idle_max = self.nodes.iter().map(|node| node.plan.limits.idle_max).max().unwrap_or_default();
        self.run_for(idle_max.max(Duration::from_secs(5)).as_nanos() as u64 + REPLAYS_MAX_NS + 4 * SECOND);
        // Servers may have forgotten these sessions as well. Calls that may be repeated are answered nevertheless.
        self.tell_state();
        self.call_everywhere(true, 0);
        self.route(Routing::Whole(0));
        self.run_for(2 * SECOND);
        for round in 1..=CALLS_AFTER {
            self.call_everywhere(false, round);
            self.route(Routing::Whole(round));
            self.run_for(300 * MS);
        }
        self.run_for(LONGEST_DEADLINE_NS + SLACK_NS);
        self.check_quiet();
        self.records.end(self.now_ns);
    }

    /// Ends a run that panicked.
    pub(super) fn break_off(&mut self, text: &str) {
        self.judge.find(self.now_ns, "panic", text.to_owned());
        // No outcome will be reported any more, which is not the endpoint's fault.
        for at in 0..self.nodes.len() {
            self.judge.abandon(at, self.nodes[at].life);
        }
    }

    pub(super) fn into_result(mut self, seed: u64) -> (CallsResult, Vec<String>) {
        self.stats.runs = self.judge.runs();
        self.stats.ran_again = self.judge.ran_again();
        let (found, checked) = self.records.verdict(self.now_ns, SLACK_NS);
        self.stats.checked = checked;
        let routed = self.judge.verdict_of_routes(self.now_ns);
        let mut violations = self.judge.verdict(self.now_ns);
        // A violation must show in both records. Otherwise one of the two judges is broken.
        for code in ["R1", "R4"] {
            let [here, there] = [&violations, &found].map(|found| found.iter().any(|text| text.starts_with(code)));
            // The judge here keeps only the first findings.
            if here != there && violations.len() < FOUND_MAX {
                let who = if here { "only the judge of the simulator" } else { "only the checker" };
                violations.push(format!("judges at {} s: {who} finds that {code} is broken", seconds(self.now_ns)));
            }
        }
        violations.extend(found);
        violations.extend(routed);
        (
            CallsResult { seed, violations, trace_hash: self.trace_hash, stats: self.stats },
            self.story.unwrap_or_default(),
        )
    }

    fn run_for(&mut self, ns: u64) {
        self.run_until(self.now_ns + ns);
    }

    fn run_until(&mut self, until_ns: u64) {
        while let Some((at_ns, due)) = self.queue.pop_until(until_ns) {
            self.now_ns = at_ns;
            match due {
                Due::Turn(at) => self.poll(at),
                Due::Event(event) => self.handle(event),
            }
        }
        self.now_ns = until_ns;
    }

    fn now(&self) -> Instant {
        // Never zero, which means "at once" to an endpoint.
        Instant(self.now_ns + 1)
    }

    fn handle(&mut self, event: Event) {
        // Actions of an application wait while its process is stopped.
        let (Event::Act { client: of, life }
        | Event::Cancel { client: of, life, .. }
        | Event::Calling { client: of, life, .. }
        | Event::Answer { server: of, life, .. }) = event
        else {
            match event {
                Event::Packet { to, at, from, bytes } => self.arrive((to, at), from, bytes),
                Event::Shared { to, life, writer, bytes } => self.read(to, life, writer, bytes),
                Event::Unreachable { at, server } => self.report(at, server),
                Event::Fault(at) => self.strike(at),
                Event::Start(at) => self.start(at),
                Event::Serving(what) => self.route(Routing::Servers(what)),
                Event::Act { .. } | Event::Cancel { .. } | Event::Calling { .. } | Event::Answer { .. } => {}
            }
            return;
        };
        let node = &mut self.nodes[of];
        if node.life != life || node.endpoint.is_none() {
            return;
        }
        // The action of an application is a reason for another iteration.
        node.idle_turns = (0, 0);
        if node.paused_until_ns > self.now_ns {
            self.queue.push(node.paused_until_ns, event);
            return;
        }
        match event {
            Event::Act { client, .. } => self.act(client),
            Event::Cancel { client, call_id, .. } => self.cancel(client, call_id),
            Event::Calling { client, what, .. } => self.route(Routing::Client(client, what)),
            Event::Answer { server, run, again, .. } => self.answer(server, run, again),
            Event::Packet { .. }
            | Event::Shared { .. }
            | Event::Unreachable { .. }
            | Event::Fault(_)
            | Event::Serving(_)
            | Event::Start(_) => {}
        }
    }
}

/// The longest deadline of calls.
const LONGEST_DEADLINE_NS: u64 = 10 * SECOND;
/// Time after its deadline, or after it was given up, within which a call's outcome may be reported. It covers pauses,
/// and cancels that are lost.
const SLACK_NS: u64 = 6 * SECOND;
/// The longest time after which packets are replayed.
const REPLAYS_MAX_NS: u64 = 7 * SECOND;
/// Rounds of calls when everything is whole.
const CALLS_AFTER: u64 = 8;
