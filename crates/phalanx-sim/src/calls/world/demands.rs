//! Demands on a run: bounds all through the run; in the end, when everything is whole, answers, and then silence.

use std::time::Duration;

use phalanx_core::rpc::CallOptions;

use super::{Event, LONGEST_DEADLINE_NS, Purpose, World, tell};
use crate::calls::node::{Later, Session, draw_len};
use crate::calls::plan::{MS, SECOND};

impl World {
    /// Makes everything whole from now on.
    pub(super) fn heal(&mut self) {
        tell!(self, "everything is whole");
        self.tell_state();
        self.is_whole = true;
        self.network.heal();
        let len_max = self.nodes.iter().map(|node| node.plan.limits.message_bytes).min().unwrap_or_default();
        for at in 0..self.nodes.len() {
            // Visitors come and go by their own plan.
            if at < self.plan.first_visitor() {
                self.start(at);
            }
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
        for client in self.plan.servers..self.plan.first_visitor() {
            self.one_session_each(client);
        }
    }

    pub(super) fn tell_state(&mut self) {
        for at in 0..self.nodes.len() {
            let node = &self.nodes[at];
            let state = node.endpoint.as_ref().map(|endpoint| (endpoint.sessions_taken(), endpoint.held_bytes()));
            tell!(self, "node {at}.{}: sessions taken and bytes held {state:?}, {:?}", node.life, node.plan);
        }
    }

    /// Ensures exactly one session with each server.
    fn one_session_each(&mut self, client: usize) {
        for server in (0..self.plan.first_visitor()).filter(|&server| server != client) {
            let serves = self.nodes[server].plan.serves;
            let with = |session: &Session| session.server == server;
            while self.nodes[client].sessions.iter().filter(|kept| with(kept)).count() > usize::from(serves) {
                let sessions = &self.nodes[client].sessions;
                let own = sessions.iter().rposition(|session| with(session) && !session.is_kept);
                let last = own.or_else(|| sessions.iter().rposition(with));
                self.close(client, last.unwrap_or_default());
            }
            if serves && !self.nodes[client].sessions.iter().any(with) {
                self.connect_to(client, server);
            }
        }
        self.settle(client);
    }

    /// Makes a call in each session that must be answered.
    pub(super) fn call_everywhere(&mut self, idempotent: bool, round: u64) {
        let message_max = self.nodes.iter().map(|node| node.plan.limits.message_bytes).min().unwrap_or_default();
        for client in self.plan.servers..self.plan.first_visitor() {
            let sessions = self.nodes[client].sessions.clone();
            let visitors = self.plan.first_visitor();
            for session in sessions.into_iter().filter(|session| session.server < visitors) {
                let packet = self.nodes[client].plan.packet_bytes_max as usize;
                let len = if round % 4 == 3 {
                    self.rng.below(40_000) as usize
                } else {
                    draw_len(&mut self.rng, packet, 0, 9_000)
                };
                // A late report says nothing of the server that is there now.
                let deadline = Duration::from_nanos(LONGEST_DEADLINE_NS);
                let options = CallOptions { deadline, idempotent, waits_for_server: true };
                // A server that keeps few answers may be full of untaken ones, and then refuses calls.
                let must = self.nodes[session.server].plan.limits.answers_bytes >= 1 << 20;
                let purpose = if must { Purpose::Must } else { Purpose::Usual };
                let (number, bytes) = self.nodes[client].next_request(client, len.min(message_max));
                // One that is not accepted was counted.
                let _refused = self.call(client, session, (number, &bytes), &options, purpose);
            }
            self.settle(client);
        }
    }

    /// Checks that, with no more calls, next to nothing is sent and next to nothing is kept.
    pub(super) fn check_quiet(&mut self) {
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

    pub(super) fn check_bounds(&mut self, at: usize) {
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
        let open = node.sessions.iter().filter(|session| endpoint.is_open(session.id)).count();
        let met: usize = node.place.met.values().sum();
        if met != open + taken {
            let text = format!("node {at} was told of {met} sessions, and has {open} as client, {taken} as server");
            self.judge.find(self.now_ns, "met", text);
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
}
