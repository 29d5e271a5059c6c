//! Behaviour of applications: handlers that answer, callers that connect, call, give up and close.

use std::borrow::Cow;
use std::time::Duration;

use phalanx_core::rpc::{AnswerError, CallError, CallOptions, ClientCallId, Failure, Reason};

use super::callers::Callers;
use super::{Event, Purpose, SLACK_NS, World, tell};
use crate::calls::callers::Routing;
use crate::calls::judge::{Call, Told};
use crate::calls::node::{Later, Open, Session, Waiting, address, draw_len};
use crate::calls::payload::{digest, fold};
use crate::calls::plan::{MS, SECOND};

impl World {
    pub(super) fn wait(&mut self, server: usize, run: usize, waiting: Waiting) {
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

    pub(super) fn answer(&mut self, server: usize, run: usize, again: bool) {
        let (now, now_ns) = (self.now(), self.now_ns);
        let node = &mut self.nodes[server];
        let life = node.life;
        let Some(waiting) = node.waiting.get_mut(&run) else { return };
        let Some(endpoint) = &mut node.endpoint else { return };
        if again {
            waiting.answer.push(1);
            let taken = endpoint.answer(now, waiting.id, Some((&waiting.answer).into()), &mut node.place).is_ok();
            self.records.said(now_ns, run, Some(&waiting.answer));
            self.judge.returned_again(now_ns, run, taken);
            self.stats.answered_twice += 1;
            node.waiting.remove(&run);
        } else {
            let answer = (!matches!(waiting.plan, Later::Refuse(_))).then_some(&waiting.answer[..]);
            self.records.said(now_ns, run, answer);
            self.judge.returned(now_ns, run, answer);
            let answer = answer.map(|answer| given_or_lent(run as u64, answer));
            let taken = endpoint.answer(now, waiting.id, answer, &mut node.place);
            // A handler learns that its caller does not wait any more, and of no other.
            let is_given_up = node.place.given_up.remove(&waiting.id);
            self.stats.given_up += u64::from(is_given_up);
            if is_given_up != (taken == Err(AnswerError::NotWanted)) {
                let text = format!("run {run}: the call was given up: {is_given_up}, and its answer: {taken:?}");
                self.judge.find(now_ns, "unheard", text);
            }
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

    pub(super) fn act(&mut self, client: usize) {
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
                let sessions = self.nodes[client].own_sessions();
                if !sessions.is_empty() {
                    let at = self.rng.below(sessions.len() as u64) as usize;
                    self.close(client, sessions[at]);
                }
                self.connect(client);
            }
            3..6 if self.nodes[client].own_sessions().len() < 3 => self.connect(client),
            _ => self.call_somewhere(client),
        }
        self.settle(client);
    }

    pub(super) fn connect(&mut self, client: usize) {
        let others: Vec<usize> = (0..self.plan.first_visitor())
            .filter(|&at| at != client && (self.nodes[at].plan.serves || self.rng.chance_ppm(20_000)))
            .collect();
        let server = others[self.rng.below(others.len() as u64) as usize];
        self.connect_to(client, server);
    }

    pub(super) fn connect_to(&mut self, client: usize, server: usize) {
        let now = self.now();
        let node = &mut self.nodes[client];
        let Some(endpoint) = &mut node.endpoint else { return };
        let at = address(server);
        let id = endpoint.connect(now, at, &mut node.place);
        node.sessions.push(Session { id, server, at, is_kept: false, open: 0 });
    }

    pub(super) fn close(&mut self, client: usize, at: usize) {
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
        let sessions = node.own_sessions();
        if sessions.is_empty() {
            return;
        }
        let session = node.sessions[sessions[self.rng.below(sessions.len() as u64) as usize]];
        let packet = node.plan.packet_bytes_max.min(self.nodes[session.server].plan.packet_bytes_max) as usize;
        let len = draw_len(&mut self.rng, packet, self.plan.long_ppm, self.plan.len_max);
        let next_call = node.next_call;
        let deadline_ns = [20 * MS, 150 * MS, SECOND, 3 * SECOND, 10 * SECOND, 10 * SECOND][self.rng.below(6) as usize];
        let options = CallOptions {
            deadline: Duration::from_nanos(deadline_ns),
            idempotent: self.rng.chance_ppm(250_000),
            waits_for_server: next_call.is_multiple_of(2),
        };
        let (number, bytes) = self.nodes[client].next_request(client, len);
        let Ok(call_id) = self.call(client, session, (number, &bytes), &options, Purpose::Usual) else { return };
        if self.rng.chance_ppm(self.plan.cancel_ppm) {
            let after_ns = self.rng.below(SECOND) >> self.rng.below(12);
            let life = self.nodes[client].life;
            self.queue.push(self.now_ns + after_ns, Event::Cancel { client, life, call_id });
        }
    }

    /// Makes a call, with this number and request.
    pub(super) fn call(
        &mut self,
        client: usize,
        session: Session,
        (number, bytes): (u64, &[u8]),
        options: &CallOptions,
        purpose: Purpose,
    ) -> Result<ClientCallId, CallError> {
        let now = self.now();
        let node = &mut self.nodes[client];
        let Some(endpoint) = &mut node.endpoint else { return Err(CallError::NoSession) };
        let call_id = match endpoint.call(now, session.id, given_or_lent(number, bytes), options, &mut node.place) {
            Ok(call_id) => call_id,
            Err(error) => {
                self.stats.not_accepted += 1;
                if error == CallError::NoSession {
                    self.judge.find(self.now_ns, "V12", format!("node {client} could not call: {error}"));
                }
                return Err(error);
            }
        };
        let must = purpose == Purpose::Must;
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
        let call = self.judge.called(endpoint.incarnation().0, bytes, record);
        self.records.made(self.now_ns, (client, session.at), options, bytes);
        let route = (purpose == Purpose::Routed).then_some(number);
        let known = node.call_ids.insert(call_id, Open { call, session: session.id, route });
        assert!(known.is_none(), "no two calls have the same call_id");
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
        Ok(call_id)
    }

    pub(super) fn cancel(&mut self, client: usize, call_id: ClientCallId) {
        let now = self.now();
        let node = &mut self.nodes[client];
        let (Some(endpoint), Some(open)) = (&mut node.endpoint, node.call_ids.get(&call_id).copied()) else { return };
        let found = endpoint.cancel(now, open.session, call_id, &mut node.place);
        if !found {
            let text = format!("node {client} gives up a call that is not over, and it is not found");
            self.judge.find(self.now_ns, "R5", text);
        }
        self.stats.cancels += 1;
        self.judge.give_time(open.call, self.now_ns + SLACK_NS);
        tell!(self, "client {client} gives up {call_id:?}");
        self.settle(client);
    }

    /// Does what happens for routed calls.
    pub(super) fn route(&mut self, what: Routing) {
        let mut callers = Callers(self);
        match what {
            Routing::Begin => callers.begin(),
            Routing::Client(client, what) => callers.calling(client, what),
            Routing::Servers(what) => callers.serving(what),
            Routing::Whole(round) => callers.call_when_whole(round),
        }
    }

    pub(super) fn told(&mut self, client: usize, call_id: ClientCallId, outcome: Result<Vec<u8>, Failure>) {
        let node = &mut self.nodes[client];
        let Some(open) = node.call_ids.remove(&call_id) else {
            let text =
                format!("node {client} is told how {call_id:?} ended, which is over or was never made: {outcome:?}");
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
            Some(Reason::NoAnswer) => stats.no_answer += 1,
            Some(Reason::Unreachable) => stats.unreachable += 1,
            Some(Reason::Cancelled) => stats.cancelled += 1,
            Some(Reason::Refused(_)) => stats.refused += 1,
            Some(Reason::SessionLost) => stats.session_lost += 1,
            Some(Reason::Left) => stats.left += 1,
            Some(Reason::AnswerTooLong) => stats.answer_too_long += 1,
            Some(_) | None => {}
        }
        self.records.told(self.now_ns, open.call, &outcome);
        self.judge.told(self.now_ns, open.call, told);
        if let Some(route) = open.route {
            Callers(self).outcome(client, route, call_id, &outcome);
        }
        let what = outcome.map_or_else(|failure| failure.to_string(), |answer| format!("{} bytes", answer.len()));
        self.trace_hash = fold(fold(self.trace_hash, call_id.0), digest(what.as_bytes()));
        tell!(self, "client {client} is told {call_id:?}: {what}");
    }
}

/// Alternates between the two ways in which messages are handed over: owned and borrowed.
fn given_or_lent(number: u64, message: &[u8]) -> Cow<'_, [u8]> {
    if number.is_multiple_of(2) { message.to_vec().into() } else { message.into() }
}
