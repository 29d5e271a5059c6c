//! The run: what happens when, and to whom.

use std::net::SocketAddr;
use std::time::Duration;

use phalanx_core::Packet;
use phalanx_core::id::{Incarnation, Origin};
use phalanx_core::rng::Rng;
use phalanx_core::rpc::{CallError, CallOptions, Endpoint, EndpointOptions, Failure, Reason, Ticket};
use phalanx_core::time::Instant;

use super::judge::{Call, Judge, Told, seconds};
use super::network::{Network, RECEIVE_BYTES_USUAL, charge};
use super::node::{Did, Happened, Later, Node, Open, Place, Session, Waiting, address, draw_len, node_at};
use super::payload::{digest, fold, request};
use super::plan::{MS, Plan, SECOND, What};
use super::{CallsResult, CallsStats};
use crate::queue::{Due, Queue};

/// All of a run.
pub(super) struct World {
    plan: Plan,
    now_ns: u64,
    queue: Queue<Event>,
    nodes: Vec<Node>,
    network: Network,
    judge: Judge,
    stats: CallsStats,
    trace_hash: u64,
    rng: Rng,
    is_whole: bool,
    /// When the packets that are under way in each node's buffer are taken.
    wakes: Vec<Option<u64>>,
    story: Option<Vec<String>>,
}

/// What is due beside turns.
enum Event {
    Packet {
        to: usize,
        from: SocketAddr,
        bytes: Vec<u8>,
    },
    /// A client does something.
    Act {
        client: usize,
        life: u32,
    },
    Cancel {
        client: usize,
        life: u32,
        ticket: Ticket,
    },
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

macro_rules! tell {
    ($world:expr, $($arg:tt)*) => {
        if let Some(story) = &mut $world.story {
            story.push(format!("{} {}", seconds($world.now_ns), format_args!($($arg)*)));
        }
    };
}

impl World {
    pub(super) fn new(seed: u64, tells: bool) -> Self {
        let root = Rng::new(seed).fork("calls");
        let plan = Plan::draw(&root);
        let count = plan.endpoints.len();
        let node = |at: usize| {
            let endpoint = &plan.endpoints[at];
            let rng = root.fork(&format!("place {at}"));
            Node {
                plan: endpoint.clone(),
                life: 0,
                endpoint: None,
                place: Place::new(rng, at as u64, plan.handlers, endpoint, plan.len_max, plan.long_ppm),
                inbox: Vec::new(),
                charged: 0,
                lost: false,
                paused_until_ns: 0,
                idle_turns: (0, 0),
                has_spun: false,
                sessions: Vec::new(),
                tickets: std::collections::BTreeMap::new(),
                next_call: 0,
                waiting: std::collections::BTreeMap::new(),
                waiting_max: 0,
            }
        };
        Self {
            nodes: (0..count).map(node).collect(),
            now_ns: 0,
            queue: Queue::new(count),
            network: Network::new(plan.weather.clone(), root.fork("network"), count),
            judge: Judge::default(),
            stats: CallsStats::default(),
            trace_hash: 0,
            rng: root.fork("world"),
            is_whole: false,
            wakes: vec![None; count],
            story: tells.then(Vec::new),
            plan,
        }
    }

    /// All of it, from the first packet to the last.
    pub(super) fn run(&mut self) {
        for at in 0..self.nodes.len() {
            self.start(at);
        }
        for at in 0..self.plan.faults.len() {
            self.queue.push(self.plan.faults[at].at_ns, Event::Fault(at));
        }
        self.run_until(self.plan.faulty_ns);
        self.heal();
        // Until then servers have forgotten all sessions that nobody uses, also those that packets of long ago have opened.
        let idle_max = self.nodes.iter().map(|node| node.plan.limits.idle_max).max().unwrap_or_default();
        self.run_for(idle_max.max(Duration::from_secs(5)).as_nanos() as u64 + REPLAYS_MAX_NS + 4 * SECOND);
        // Servers may have forgotten these sessions as well: calls that may be made again are answered nevertheless.
        self.tell_state();
        self.call_everywhere(true, 0);
        self.run_for(2 * SECOND);
        for round in 1..=CALLS_AFTER {
            self.call_everywhere(false, round);
            self.run_for(300 * MS);
        }
        self.run_for(LONGEST_DEADLINE_NS + SLACK_NS);
        self.check_quiet();
    }

    /// A panic ended the run.
    pub(super) fn break_off(&mut self, text: &str) {
        self.judge.find(self.now_ns, "panic", text.to_owned());
        // Nobody will be told any more, which is no fault of its own.
        for at in 0..self.nodes.len() {
            self.judge.abandon(at, self.nodes[at].life);
        }
    }

    pub(super) fn into_result(mut self, seed: u64) -> (CallsResult, Vec<String>) {
        self.stats.runs = self.judge.runs();
        self.stats.ran_again = self.judge.ran_again();
        let violations = self.judge.verdict(self.now_ns);
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
                Due::Turn(at) => self.turn(at),
                Due::Event(event) => self.handle(event),
            }
        }
        self.now_ns = until_ns;
    }

    fn now(&self) -> Instant {
        Instant(self.now_ns + 1)
    }

    fn handle(&mut self, event: Event) {
        // What an application does waits while its process is stopped.
        let (Event::Act { client: of, life }
        | Event::Cancel { client: of, life, .. }
        | Event::Answer { server: of, life, .. }) = event
        else {
            match event {
                Event::Packet { to, from, bytes } => self.arrive(to, from, bytes),
                Event::Fault(at) => self.strike(at),
                Event::Start(at) => self.start(at),
                Event::Act { .. } | Event::Cancel { .. } | Event::Answer { .. } => {}
            }
            return;
        };
        let node = &mut self.nodes[of];
        if node.life != life || node.endpoint.is_none() {
            return;
        }
        node.idle_turns = (0, 0);
        if node.paused_until_ns > self.now_ns {
            self.queue.push(node.paused_until_ns, event);
            return;
        }
        match event {
            Event::Act { client, .. } => self.act(client),
            Event::Cancel { client, ticket, .. } => self.cancel(client, ticket),
            Event::Answer { server, run, again, .. } => self.answer(server, run, again),
            Event::Packet { .. } | Event::Fault(_) | Event::Start(_) => {}
        }
    }

    // Processes.

    /// Begins a life of a process.
    fn start(&mut self, at: usize) {
        let (now, is_client) = (self.now(), self.is_client(at));
        let seed = self.rng.next_u64();
        let me = Incarnation(self.rng.next_u64());
        let node = &mut self.nodes[at];
        if node.endpoint.is_some() {
            return;
        }
        let options = EndpointOptions {
            cell: "calls".to_owned(),
            me,
            packet_bytes_max: node.plan.packet_bytes_max,
            receive_bytes: node.plan.receive_bytes,
            serves: node.plan.serves,
            offer: Vec::new(),
            limits: node.plan.limits.clone(),
        };
        node.endpoint = Some(Endpoint::new(now, &options, &self.plan.security, seed));
        node.place.salt_of_life(node.life);
        let life = node.life;
        tell!(self, "node {at}.{life} starts as {:x}", me.0);
        if is_client {
            self.connect(at);
            self.queue.push(self.now_ns + self.plan.gap_ns, Event::Act { client: at, life });
        }
        self.settle(at);
    }

    fn stop(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        if node.endpoint.take().is_none() {
            return;
        }
        let life = node.life;
        node.life += 1;
        node.inbox.clear();
        (node.charged, node.lost, node.paused_until_ns, node.next_call) = (0, false, 0, 0);
        node.sessions.clear();
        node.tickets.clear();
        node.waiting.clear();
        node.waiting_max = 0;
        self.wakes[at] = None;
        self.queue.forget_turn(at);
        self.stats.abandoned += self.judge.abandon(at, life);
        if self.is_client(at) {
            self.stats.client_restarts += 1;
        } else {
            self.stats.server_restarts += 1;
        }
        tell!(self, "node {at}.{life} dies");
    }

    fn is_client(&self, at: usize) -> bool {
        at >= self.plan.servers
    }

    fn strike(&mut self, at: usize) {
        let fault = self.plan.faults[at];
        let until_ns = self.now_ns + fault.lasts_ns;
        tell!(self, "{:?} until {}", fault.what, seconds(until_ns));
        match fault.what {
            What::Restart(at) => {
                self.stop(at);
                self.queue.push(until_ns, Event::Start(at));
            }
            What::Pause(at) => {
                self.stats.pauses += 1;
                let node = &mut self.nodes[at];
                node.paused_until_ns = node.paused_until_ns.max(until_ns);
            }
            What::Cut(from, to) => {
                self.stats.cuts += 1;
                self.network.cut(from, to, until_ns);
            }
            What::Burst(loss_ppm) => {
                self.stats.bursts += 1;
                self.network.burst(loss_ppm, until_ns);
            }
        }
    }

    /// Packets and turns.
    fn arrive(&mut self, to: usize, from: SocketAddr, bytes: Vec<u8>) {
        let node = &mut self.nodes[to];
        if node.endpoint.is_none() {
            return;
        }
        let receive_bytes = if node.plan.receive_bytes == 0 { RECEIVE_BYTES_USUAL } else { node.plan.receive_bytes };
        let charged = charge(bytes.len());
        // An empty buffer takes any packet.
        if !node.inbox.is_empty() && node.charged + charged > receive_bytes {
            self.stats.overflowed += 1;
            node.lost |= self.rng.chance_ppm(node.plan.notices_ppm);
            return;
        }
        node.charged += charged;
        node.inbox.push((from, bytes));
        let wake_ns = self.now_ns + self.rng.below(node.plan.wake_ns);
        let wake = self.wakes[to].map_or(wake_ns, |at_ns| at_ns.min(wake_ns));
        self.wakes[to] = Some(wake);
        if self.queue.turn_ns(to).is_none_or(|at_ns| at_ns > wake) {
            self.queue.set_turn(to, wake);
        }
    }

    fn turn(&mut self, at: usize) {
        let now = self.now();
        let node = &mut self.nodes[at];
        if node.paused_until_ns > self.now_ns {
            self.queue.set_turn(at, node.paused_until_ns);
            return;
        }
        let Some(endpoint) = &mut node.endpoint else { return };
        self.wakes[at] = None;
        let came = !node.inbox.is_empty() || node.lost;
        if came {
            tell!(self, "node {at} takes {} packets", node.inbox.len());
        }
        if std::mem::take(&mut node.lost) {
            endpoint.handle_loss();
        }
        node.charged = 0;
        for (from, mut bytes) in node.inbox.drain(..) {
            endpoint.handle_packet(now, Origin::Network(from), Packet::Lent(&mut bytes), &mut node.place);
        }
        endpoint.turn(now, &mut node.place);
        endpoint.check_invariants();
        let is_due = endpoint.deadline().is_some_and(|due| due <= now);
        let (since_ns, count) = node.idle_turns;
        node.idle_turns = match (came || !is_due, since_ns == self.now_ns) {
            (true, _) => (0, 0),
            (false, true) => (since_ns, count + 1),
            (false, false) => (self.now_ns, 1),
        };
        let spins = node.idle_turns.1 >= 2;
        let is_news = spins && !std::mem::replace(&mut node.has_spun, true);
        self.settle(at);
        if is_news {
            self.judge.find(self.now_ns, "spins", format!("node {at} wants turn after turn, and nothing came"));
        }
        if spins {
            self.queue.set_turn(at, self.now_ns + MS);
        }
        self.check_bounds(at);
    }

    /// Takes what an endpoint wants done, and sees when it is to be turned next.
    fn settle(&mut self, at: usize) {
        let life = self.nodes[at].life;
        for (to, bytes) in std::mem::take(&mut self.nodes[at].place.sent) {
            self.trace_hash = fold(fold(self.trace_hash, self.now_ns), digest(&bytes));
            let to = node_at(to);
            tell!(self, "node {at} sends node {to} {} bytes", bytes.len());
            for at_ns in self.network.carry(self.now_ns, at, to, &mut self.stats) {
                let bytes = bytes.clone();
                self.queue.push(at_ns, Event::Packet { to, from: address(at), bytes });
            }
        }
        for happened in std::mem::take(&mut self.nodes[at].place.happened) {
            match happened {
                Happened::Ran { id, from, request, did } => {
                    let run = self.judge.ran(self.now_ns, at, life, from.0, &request);
                    tell!(self, "node {at}.{life} runs {} bytes as run {run}", request.len());
                    match did {
                        Did::Answered(answer) => self.judge.returned(self.now_ns, run, Some(&answer)),
                        Did::Refused => {
                            self.stats.handlers_refused += 1;
                            self.judge.returned(self.now_ns, run, None);
                        }
                        Did::Later(plan, answer) => self.wait(at, run, Waiting { id, plan, answer }),
                    }
                }
                Happened::Told { ticket, outcome } => self.told(at, ticket, outcome),
            }
        }
        let now = self.now();
        let node = &self.nodes[at];
        let due = node.endpoint.as_ref().and_then(Endpoint::deadline).map(|due| due.max(now).nanos() - 1);
        match due.into_iter().chain(self.wakes[at]).min() {
            Some(due_ns) => self.queue.set_turn(at, due_ns.max(self.now_ns)),
            None => self.queue.forget_turn(at),
        }
    }

    fn check_bounds(&mut self, at: usize) {
        let node = &self.nodes[at];
        let Some(endpoint) = &node.endpoint else { return };
        let limits = &node.plan.limits;
        let message = limits.message_bytes.min(self.plan.len_max);
        // A handler that was begun may always answer.
        let most = limits.requests_bytes + limits.answers_bytes + message * (1 + node.waiting_max);
        let held = endpoint.held_bytes();
        if held > most {
            self.judge.find(
                self.now_ns,
                "V8",
                format!("node {at} holds {held} bytes of messages, at most {most} are allowed"),
            );
        }
        let taken = endpoint.sessions_taken();
        if taken > limits.sessions {
            self.judge.find(self.now_ns, "V8", format!("node {at} answers {taken} sessions"));
        }
        for session in &node.sessions {
            let outstanding = endpoint.outstanding(session.id);
            if outstanding != Some(session.open) {
                let text =
                    format!("node {at} has {outstanding:?} calls in a session in which {} are not over", session.open);
                self.judge.find(self.now_ns, "R5", text);
            }
            if session.open > limits.queued_calls + usize::from(limits.slots) {
                self.judge.find(self.now_ns, "V8", format!("node {at} keeps {} calls in a session", session.open));
            }
        }
    }

    // Handlers.

    fn wait(&mut self, server: usize, run: usize, waiting: Waiting) {
        let plan = waiting.plan;
        let node = &mut self.nodes[server];
        node.waiting.insert(run, waiting);
        node.waiting_max = node.waiting_max.max(node.waiting.len());
        let after_ns = match plan {
            Later::After(ns) | Later::Twice(ns) | Later::Refuse(ns) => ns,
            Later::Never => {
                self.stats.answered_never += 1;
                return;
            }
        };
        let event = Event::Answer { server, life: node.life, run, again: false };
        self.queue.push(self.now_ns + after_ns, event);
    }

    fn answer(&mut self, server: usize, run: usize, again: bool) {
        let (now, now_ns) = (self.now(), self.now_ns);
        let node = &mut self.nodes[server];
        let life = node.life;
        let Some(waiting) = node.waiting.get_mut(&run) else { return };
        let Some(endpoint) = &mut node.endpoint else { return };
        if again {
            waiting.answer.push(1);
            let taken = endpoint.answer(now, waiting.id, Some(&waiting.answer), &mut node.place).is_ok();
            self.judge.returned_again(now_ns, run, taken);
            self.stats.answered_twice += 1;
            node.waiting.remove(&run);
        } else {
            let answer = (!matches!(waiting.plan, Later::Refuse(_))).then_some(&waiting.answer[..]);
            self.judge.returned(now_ns, run, answer);
            // Whether anybody still wants it is not for a handler to say.
            let _wanted = endpoint.answer(now, waiting.id, answer, &mut node.place);
            match waiting.plan {
                Later::Twice(after_ns) => {
                    self.queue.push(now_ns + after_ns / 4, Event::Answer { server, life, run, again: true });
                }
                Later::After(_) | Later::Never => {
                    self.stats.answered_later += 1;
                    node.waiting.remove(&run);
                }
                Later::Refuse(_) => {
                    self.stats.handlers_refused += 1;
                    node.waiting.remove(&run);
                }
            }
        }
        tell!(self, "node {server}.{life} answers run {run}{}", if again { " again" } else { "" });
        self.settle(server);
    }

    // Callers.

    fn act(&mut self, client: usize) {
        if self.is_whole || self.now_ns >= self.plan.faulty_ns {
            return;
        }
        let gap_ns = self.plan.gap_ns;
        let next_ns =
            if self.rng.chance_ppm(400_000) { self.rng.below(gap_ns / 8) } else { self.rng.below(3 * gap_ns) };
        let life = self.nodes[client].life;
        self.queue.push(self.now_ns + next_ns, Event::Act { client, life });
        match self.rng.below(100) {
            0..3 => {
                let sessions = self.nodes[client].sessions.len() as u64;
                if sessions > 0 {
                    let at = self.rng.below(sessions) as usize;
                    self.close(client, at);
                }
                self.connect(client);
            }
            3..6 if self.nodes[client].sessions.len() < 3 => self.connect(client),
            _ => self.call_somewhere(client),
        }
        self.settle(client);
    }

    fn connect(&mut self, client: usize) {
        let others: Vec<usize> = (0..self.nodes.len())
            .filter(|&at| at != client && (self.nodes[at].plan.serves || self.rng.chance_ppm(20_000)))
            .collect();
        let server = others[self.rng.below(others.len() as u64) as usize];
        self.connect_to(client, server);
    }

    fn connect_to(&mut self, client: usize, server: usize) {
        let now = self.now();
        let node = &mut self.nodes[client];
        let Some(endpoint) = &mut node.endpoint else { return };
        let id = endpoint.connect(now, address(server), &mut node.place);
        node.sessions.push(Session { id, server, open: 0 });
    }

    fn close(&mut self, client: usize, at: usize) {
        let now = self.now();
        let node = &mut self.nodes[client];
        let Some(endpoint) = &mut node.endpoint else { return };
        let session = node.sessions[at];
        self.stats.closes += u64::from(session.open > 0);
        endpoint.close(now, session.id, &mut node.place);
        tell!(self, "node {client} closes {:?} with {} calls", session.id, session.open);
        self.settle(client);
        let node = &mut self.nodes[client];
        if let Some(at) = node.sessions.iter().position(|kept| kept.id == session.id) {
            let session = node.sessions.remove(at);
            if session.open > 0 {
                let text = format!("node {client} closed a session, and {} calls are not over", session.open);
                self.judge.find(self.now_ns, "R5", text);
            }
        }
    }

    fn call_somewhere(&mut self, client: usize) {
        let node = &self.nodes[client];
        if node.sessions.is_empty() {
            return;
        }
        let session = node.sessions[self.rng.below(node.sessions.len() as u64) as usize];
        let packet = node.plan.packet_bytes_max.min(self.nodes[session.server].plan.packet_bytes_max) as usize;
        let len = draw_len(&mut self.rng, packet, self.plan.long_ppm, self.plan.len_max);
        let deadline_ns = [20 * MS, 150 * MS, SECOND, 3 * SECOND, 10 * SECOND, 10 * SECOND][self.rng.below(6) as usize];
        let options =
            CallOptions { deadline: Duration::from_nanos(deadline_ns), idempotent: self.rng.chance_ppm(250_000) };
        let Some(ticket) = self.call(client, session, len, &options, false) else { return };
        if self.rng.chance_ppm(self.plan.cancel_ppm) {
            let after_ns = self.rng.below(SECOND) >> self.rng.below(12);
            let life = self.nodes[client].life;
            self.queue.push(self.now_ns + after_ns, Event::Cancel { client, life, ticket });
        }
    }

    /// Makes a call; `None`: it was not accepted.
    fn call(
        &mut self,
        client: usize,
        session: Session,
        len: usize,
        options: &CallOptions,
        must: bool,
    ) -> Option<Ticket> {
        let now = self.now();
        let node = &mut self.nodes[client];
        let number = node.next_call;
        node.next_call += 1;
        let bytes = request(client as u32, node.life, number, len);
        let endpoint = node.endpoint.as_mut()?;
        let ticket = match endpoint.call(now, session.id, &bytes, options, &mut node.place) {
            Ok(ticket) => ticket,
            Err(error) => {
                self.stats.not_accepted += 1;
                if error == CallError::NoSession {
                    self.judge.find(self.now_ns, "V12", format!("node {client} could not call: {error}"));
                }
                return None;
            }
        };
        self.stats.calls += 1;
        self.stats.idempotent += u64::from(options.idempotent);
        self.stats.calls_after += u64::from(must);
        let deadline_ns = options.deadline.as_nanos() as u64;
        let record = Call {
            idempotent: options.idempotent,
            made_ns: self.now_ns,
            told_by_ns: self.now_ns + deadline_ns + SLACK_NS,
            must_be_answered: must,
            ..Call::new(client, node.life, number, session.server)
        };
        let call = self.judge.called(endpoint.incarnation().0, &bytes, record);
        let known = node.tickets.insert(ticket, Open { call, session: session.id });
        assert!(known.is_none(), "no two calls have the same ticket");
        if let Some(session) = node.sessions.iter_mut().find(|kept| kept.id == session.id) {
            session.open += 1;
        }
        let life = node.life;
        tell!(
            self,
            "client {client}.{life} calls server {} in {:?}: call {number}, {} bytes, {options:?}",
            session.server,
            session.id,
            bytes.len()
        );
        Some(ticket)
    }

    fn cancel(&mut self, client: usize, ticket: Ticket) {
        let now = self.now();
        let node = &mut self.nodes[client];
        let (Some(endpoint), Some(open)) = (&mut node.endpoint, node.tickets.get(&ticket).copied()) else { return };
        let found = endpoint.cancel(now, open.session, ticket, &mut node.place);
        if !found {
            let text = format!("node {client} gives up a call that is not over, and it is not found");
            self.judge.find(self.now_ns, "R5", text);
        }
        self.stats.cancels += 1;
        self.judge.give_time(open.call, self.now_ns + SLACK_NS);
        tell!(self, "client {client} gives up {ticket:?}");
        self.settle(client);
    }

    fn told(&mut self, client: usize, ticket: Ticket, outcome: Result<Vec<u8>, Failure>) {
        let node = &mut self.nodes[client];
        let Some(open) = node.tickets.remove(&ticket) else {
            let text =
                format!("node {client} is told how {ticket:?} ended, which is over or was never made: {outcome:?}");
            self.judge.find(self.now_ns, "R5", text);
            return;
        };
        if let Some(session) = node.sessions.iter_mut().find(|kept| kept.id == open.session) {
            session.open -= 1;
        }
        let told = match &outcome {
            Ok(answer) => Told::Answer(digest(answer)),
            Err(failure) => Told::Failed(*failure),
        };
        let stats = &mut self.stats;
        let reason = match told {
            Told::Answer(_) => {
                stats.answers += 1;
                None
            }
            Told::Failed(Failure::NotExecuted(reason)) => {
                stats.not_executed += 1;
                Some(reason)
            }
            Told::Failed(Failure::Unknown(reason)) => {
                stats.unknown += 1;
                Some(reason)
            }
        };
        match reason {
            Some(Reason::Deadline) => stats.deadlines += 1,
            Some(Reason::Cancelled) => stats.cancelled += 1,
            Some(Reason::Refused(_)) => stats.refused += 1,
            Some(Reason::SessionLost) => stats.session_lost += 1,
            Some(Reason::AnswerTooLong) => stats.answer_too_long += 1,
            Some(_) | None => {}
        }
        self.judge.told(self.now_ns, open.call, told);
        let what = outcome.map_or_else(|failure| failure.to_string(), |answer| format!("{} bytes", answer.len()));
        self.trace_hash = fold(fold(self.trace_hash, ticket.0), digest(what.as_bytes()));
        tell!(self, "client {client} is told {ticket:?}: {what}");
    }

    // Afterwards.

    /// Everything is whole from now on.
    fn heal(&mut self) {
        tell!(self, "everything is whole");
        self.tell_state();
        self.is_whole = true;
        self.network.heal();
        let len_max = self.nodes.iter().map(|node| node.plan.limits.message_bytes).min().unwrap_or_default();
        for at in 0..self.nodes.len() {
            self.start(at);
            let node = &mut self.nodes[at];
            node.paused_until_ns = 0;
            let keeps_little = node.plan.limits.answers_bytes < 1 << 20;
            node.place.heal(if keeps_little { 100 } else { len_max });
            let life = node.life;
            for (run, waiting) in &node.waiting {
                if waiting.plan == Later::Never {
                    let event = Event::Answer { server: at, life, run: *run, again: false };
                    self.queue.push(self.now_ns + self.rng.below(100 * MS), event);
                }
            }
        }
        for client in self.plan.servers..self.nodes.len() {
            self.one_session_each(client);
        }
    }

    fn tell_state(&mut self) {
        for at in 0..self.nodes.len() {
            let node = &self.nodes[at];
            let state = node.endpoint.as_ref().map(|endpoint| (endpoint.sessions_taken(), endpoint.held_bytes()));
            tell!(self, "node {at}.{}: sessions taken and bytes held {state:?}, {:?}", node.life, node.plan);
        }
    }

    /// Exactly one session with each server.
    fn one_session_each(&mut self, client: usize) {
        for server in (0..self.nodes.len()).filter(|&server| server != client) {
            let serves = self.nodes[server].plan.serves;
            let with = |session: &Session| session.server == server;
            while self.nodes[client].sessions.iter().filter(|kept| with(kept)).count() > usize::from(serves) {
                let last = self.nodes[client].sessions.iter().rposition(with);
                self.close(client, last.unwrap_or_default());
            }
            if serves && !self.nodes[client].sessions.iter().any(with) {
                self.connect_to(client, server);
            }
        }
        self.settle(client);
    }

    /// Makes a call in each session that must be answered.
    fn call_everywhere(&mut self, idempotent: bool, round: u64) {
        let message_max = self.nodes.iter().map(|node| node.plan.limits.message_bytes).min().unwrap_or_default();
        for client in self.plan.servers..self.nodes.len() {
            for session in self.nodes[client].sessions.clone() {
                let packet = self.nodes[client].plan.packet_bytes_max as usize;
                let len = if round % 4 == 3 {
                    self.rng.below(40_000) as usize
                } else {
                    draw_len(&mut self.rng, packet, 0, 9_000)
                };
                let options = CallOptions { deadline: Duration::from_nanos(LONGEST_DEADLINE_NS), idempotent };
                // Answers that nobody took may fill a server that keeps few: it refuses then.
                let must = self.nodes[session.server].plan.limits.answers_bytes >= 1 << 20;
                self.call(client, session, len.min(message_max), &options, must);
            }
            self.settle(client);
        }
    }

    /// Nobody calls any more: next to nothing is sent, and next to nothing is kept.
    fn check_quiet(&mut self) {
        self.tell_state();
        let before = self.stats.packets;
        self.run_for(5 * SECOND);
        let sessions: usize = self.nodes.iter().map(|node| node.sessions.len()).sum();
        let sent = self.stats.packets - before;
        if sent > 4 * sessions as u64 {
            self.judge.find(
                self.now_ns,
                "V5",
                format!("{sent} packets in 5 s in which nobody calls, in {sessions} sessions"),
            );
        }
        for at in 0..self.nodes.len() {
            if !self.nodes[at].waiting.is_empty() {
                self.judge.find(self.now_ns, "V12", format!("handlers of node {at} never answered"));
            }
        }
    }
}

/// The longest deadline that calls have.
const LONGEST_DEADLINE_NS: u64 = 10 * SECOND;
/// So long after its deadline, or after it was given up, a call's outcome may be told: pauses, and cancels sent in vain.
const SLACK_NS: u64 = 6 * SECOND;
/// Packets come again so much later, at most.
const REPLAYS_MAX_NS: u64 = 7 * SECOND;
/// Rounds of calls when everything is whole.
const CALLS_AFTER: u64 = 8;
