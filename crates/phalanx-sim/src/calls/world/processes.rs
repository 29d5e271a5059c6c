//! Processes: their lives and faults, their packets, their event-loop iterations.

use std::net::SocketAddr;

use phalanx_core::id::{Incarnation, Origin};
use phalanx_core::rpc::{Endpoint, EndpointOptions};
use phalanx_core::{Arriving, Packet, PartialPacket, RemainingPayload, truesize};

use super::callers::Callers;
use super::{Event, World, tell};
use crate::calls::judge::seconds;
use crate::calls::network::RECEIVE_BYTES_USUAL;
use crate::calls::node::{Did, Happened, Sent, Waiting, address_after, node_at};
use crate::calls::payload::{digest, fold};
use crate::calls::plan::{MS, What};

impl World {
    /// Begins a life of a process.
    pub(super) fn start(&mut self, at: usize) {
        let (now, is_client) = (self.now(), self.plan.is_client(at));
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
            offer: node.place.offer(),
            limits: node.plan.limits.clone(),
        };
        node.endpoint = Some(Endpoint::new(now, &options, &self.plan.security, seed));
        self.records.begin(self.now_ns, at, me, address_after(at, node.moves));
        node.place.begin_incarnation(node.life);
        let life = node.life;
        tell!(self, "node {at}.{life} starts as {:x}", me.0);
        if is_client {
            self.connect(at);
            self.queue.push(self.now_ns + self.plan.gap_ns, Event::Act { client: at, life });
        }
        Callers(self).started(at);
        self.settle(at);
    }

    pub(super) fn stop(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        if node.endpoint.take().is_none() {
            return;
        }
        let life = node.life;
        node.life += 1;
        node.inbox.clear();
        (node.charged, node.lost, node.paused_until_ns, node.next_call) = (0, false, 0, 0);
        node.sessions.clear();
        node.call_ids.clear();
        node.waiting.clear();
        node.waiting_max = 0;
        self.nodes[at].wake_ns = None;
        self.queue.forget_turn(at);
        self.stats.abandoned += self.judge.abandon(at, life);
        if self.plan.is_client(at) {
            self.stats.client_restarts += 1;
        } else {
            self.stats.server_restarts += 1;
        }
        Callers(self).stopped(at);
        tell!(self, "node {at}.{life} dies");
    }

    pub(super) fn strike(&mut self, at: usize) {
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
            What::Move(at) => {
                self.stats.moves += 1;
                self.nodes[at].moves += 1;
            }
            What::Burst(loss_ppm) => {
                self.stats.bursts += 1;
                self.network.burst(loss_ppm, until_ns);
            }
        }
    }

    /// Handles the arrival of a packet: it waits in the receive buffer for the next iteration.
    pub(super) fn arrive(&mut self, (to, at): (usize, SocketAddr), from: SocketAddr, bytes: Vec<u8>) {
        let node = &mut self.nodes[to];
        // A server moves by a restart. What is on its way to a client comes though that moves.
        let has_moved = to >= self.plan.first_visitor() && address_after(to, node.moves) != at;
        if node.endpoint.is_none() || has_moved {
            self.stats.strayed += u64::from(has_moved);
            if let Some(at_ns) = self.network.reported(self.now_ns, &mut self.stats) {
                self.queue.push(at_ns, Event::Unreachable { at: node_at(from), server: at });
            }
            return;
        }
        let receive_bytes = if node.plan.receive_bytes == 0 { RECEIVE_BYTES_USUAL } else { node.plan.receive_bytes };
        let charged = truesize(bytes.len() as u64);
        // An empty buffer takes any packet.
        if !node.inbox.is_empty() && node.charged + charged > receive_bytes {
            self.stats.overflowed += 1;
            node.lost |= self.rng.chance_ppm(node.plan.notices_ppm);
            return;
        }
        node.charged += charged;
        node.inbox.push((Origin::Network(from), bytes));
        self.wake(to);
    }

    /// Handles the report of a process's system that no socket is at an address.
    pub(super) fn report(&mut self, at: usize, server: SocketAddr) {
        let now = self.now();
        let node = &mut self.nodes[at];
        let Some(endpoint) = &mut node.endpoint else { return };
        endpoint.handle_unreachable(now, server, &mut node.place);
        endpoint.check_invariants();
        tell!(self, "node {at} hears that nobody is at {server}");
        self.settle(at);
    }

    /// Handles a packet in memory, for one life of a process.
    pub(super) fn read(&mut self, to: usize, life: Incarnation, writer: Incarnation, bytes: Vec<u8>) {
        let node = &mut self.nodes[to];
        let lives = node.endpoint.as_ref().is_some_and(|endpoint| endpoint.incarnation() == life);
        if !lives || !node.place.reads(writer) {
            self.stats.unread += 1;
            return;
        }
        node.inbox.push((Origin::Memory, bytes));
        self.wake(to);
    }

    /// Schedules an iteration of a process that has input.
    fn wake(&mut self, to: usize) {
        let node = &self.nodes[to];
        let wake_ns = self.now_ns + self.rng.below(node.plan.wake_ns);
        // A stopped process may have missed an earlier time, but must not run in the past.
        let wake = self.nodes[to].wake_ns.map_or(wake_ns, |at_ns| at_ns.clamp(self.now_ns, wake_ns));
        self.nodes[to].wake_ns = Some(wake);
        if self.queue.turn_ns(to).is_none_or(|at_ns| at_ns > wake) {
            self.queue.set_turn(to, wake);
        }
    }

    pub(super) fn poll(&mut self, at: usize) {
        let now = self.now();
        let node = &mut self.nodes[at];
        if node.paused_until_ns > self.now_ns {
            self.queue.set_turn(at, node.paused_until_ns);
            return;
        }
        let Some(endpoint) = &mut node.endpoint else { return };
        node.wake_ns = None;
        let came = !node.inbox.is_empty() || node.lost;
        if came {
            tell!(self, "node {at} takes {} packets", node.inbox.len());
        }
        if std::mem::take(&mut node.lost) {
            endpoint.handle_loss();
        }
        node.charged = 0;
        for (origin, mut bytes) in node.inbox.drain(..) {
            let mut lying;
            // Every other long packet, chosen by its content, is received header-first.
            let arriving = if bytes.len() > HEAD_BYTES && digest(&bytes) & 1 == 0 {
                let len = bytes.len();
                let (head, rest) = bytes.split_at_mut(HEAD_BYTES);
                let is_overwritten = origin == Origin::Memory && self.network.overtakes(&mut self.stats);
                lying = Lying { rest, is_overwritten };
                Arriving::HeaderFirst(PartialPacket { head, len, rest: &mut lying })
            } else {
                Arriving::Whole(Packet::Lent(&mut bytes))
            };
            endpoint.handle_arriving(now, origin, arriving, &mut node.place);
        }
        endpoint.poll(now, &mut node.place);
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
        // Time must go on, or the run would never end.
        if spins {
            self.queue.set_turn(at, self.now_ns + MS);
        }
        self.check_bounds(at);
    }

    /// Notifies the peers of whom this process has attached.
    fn tell_attached(&mut self, at: usize, me: Incarnation) {
        if !std::mem::take(&mut self.nodes[at].place.near_changed) {
            return;
        }
        for other in 0..self.nodes.len() {
            let Some(life) = self.nodes[other].endpoint.as_ref().map(Endpoint::incarnation) else { continue };
            let reads = self.nodes[at].place.reads(life);
            self.nodes[other].place.note_reader(me, reads);
        }
    }

    /// Carries out the effects of an endpoint, and schedules its next iteration.
    pub(super) fn settle(&mut self, at: usize) {
        let life = self.nodes[at].life;
        let me = self.nodes[at].endpoint.as_ref().map(Endpoint::incarnation);
        if let Some(me) = me {
            self.tell_attached(at, me);
        }
        for Sent { to, bytes, shared } in std::mem::take(&mut self.nodes[at].place.sent) {
            self.trace_hash = fold(fold(self.trace_hash, self.now_ns), digest(&bytes));
            let (address, to) = (to, node_at(to));
            tell!(self, "node {at} sends node {to} {} bytes", bytes.len());
            if let (Some(life), Some(writer)) = (shared, me) {
                if let Some(at_ns) = self.network.share(self.now_ns, &mut self.stats) {
                    self.queue.push(at_ns, Event::Shared { to, life, writer, bytes });
                }
                continue;
            }
            if to < self.plan.first_visitor() && address != address_after(to, self.nodes[to].moves) {
                self.stats.strayed += 1;
                continue;
            }
            if let Some(at_ns) = self.network.forged(self.now_ns, &mut self.stats) {
                self.queue.push(at_ns, Event::Unreachable { at, server: address });
            }
            for at_ns in self.network.carry(self.now_ns, at, to, &mut self.stats) {
                let bytes = bytes.clone();
                let from = address_after(at, self.nodes[at].moves);
                self.queue.push(at_ns, Event::Packet { to, at: address, from, bytes });
            }
        }
        for happened in std::mem::take(&mut self.nodes[at].place.happened) {
            match happened {
                Happened::Ran { id, from, request, did } => {
                    let run = self.judge.ran(self.now_ns, at, life, from.0, &request);
                    self.records.ran(self.now_ns, at, from, &request);
                    tell!(self, "node {at}.{life} runs {} bytes as run {run}", request.len());
                    match did {
                        Did::Answered(answer) => {
                            self.records.said(self.now_ns, run, Some(&answer));
                            self.judge.returned(self.now_ns, run, Some(&answer));
                        }
                        Did::Refused => {
                            self.records.said(self.now_ns, run, None);
                            self.stats.handlers_refused += 1;
                            self.judge.returned(self.now_ns, run, None);
                        }
                        Did::Later(plan, answer) => self.wait(at, run, Waiting { id, plan, answer }),
                    }
                }
                Happened::Told { call_id, outcome } => self.told(at, call_id, outcome),
            }
        }
        let now = self.now();
        let node = &self.nodes[at];
        let due = node.endpoint.as_ref().and_then(Endpoint::deadline).map(|due| due.max(now).nanos() - 1);
        match due.into_iter().chain(self.nodes[at].wake_ns).min() {
            Some(due_ns) => self.queue.set_turn(at, due_ns.max(self.now_ns)),
            None => self.queue.forget_turn(at),
        }
    }
}

/// The remaining payload of a packet, at the place where it arrived.
struct Lying<'a> {
    rest: &'a [u8],
    /// Whether it is overwritten while it is copied.
    is_overwritten: bool,
}

impl RemainingPayload for Lying<'_> {
    fn take(&mut self, place: &mut [u8], tail: &mut [u8]) -> bool {
        let (first, last) = self.rest.split_at(place.len());
        place.copy_from_slice(first);
        tail.copy_from_slice(last);
        if self.is_overwritten {
            place[..first.len() / 2].fill(0xaa);
        }
        !self.is_overwritten
    }
}

/// Length of the part of a packet that is received first.
const HEAD_BYTES: usize = 128;
