//! A host: one core, which takes packets from a receive buffer in the same event loop as `phalanx_runtime::rpc`, and runs an
//! endpoint.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use phalanx_core::id::{Incarnation, Origin, TrafficClass};
use phalanx_core::rng::Rng;
use phalanx_core::rpc::{
    CallEffects, CallId, CallOptions, ClientCallId, Endpoint, EndpointOptions, HandlerResult, Outcome, SessionId,
};
use phalanx_core::time::Instant;
use phalanx_core::{Packet, truesize};

use super::ideal::SECURITY;
use super::setup::Setup;
use crate::calls::node::{far_address, node_at};

/// A host and its endpoint.
pub(super) struct Host {
    pub(super) endpoint: Endpoint,
    pub(super) out: Out,
    inbox: VecDeque<(usize, Vec<u8>)>,
    /// Interval at which an idle host polls.
    look_ns: u64,
    charged: u64,
    receive_bytes: u64,
    /// Time of the next poll, if packets wait.
    wake_ns: Option<u64>,
    /// Time of the last poll, and the time at which its work was done.
    looked_ns: u64,
    done_ns: u64,
    /// Whether it is still to be notified of lost packets.
    lost: bool,
    sessions: BTreeMap<usize, SessionId>,
    pub(super) calls: BTreeMap<ClientCallId, Call>,
    /// Packets dropped because the buffer was full.
    pub(super) dropped: u64,
    /// The highest charge of the buffer.
    pub(super) charged_max: u64,
}

/// A call to make: client, server and lengths.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exchange {
    pub(super) client: usize,
    pub(super) server: usize,
    pub(super) request_bytes: usize,
    pub(super) answer_bytes: usize,
}

/// A call under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    pub(super) what: Exchange,
    pub(super) begun_ns: u64,
}

/// Effects of an endpoint while the core is busy with it.
pub(super) struct Out {
    /// Time until which the core is busy.
    pub(super) cpu_ns: u64,
    packet_ns: u64,
    /// Packets for the card: time and receiver.
    pub(super) sent: Vec<(u64, usize, Vec<u8>)>,
    /// Calls that ended: time, and the length of the answer if there is one.
    pub(super) told: Vec<(u64, ClientCallId, Option<usize>)>,
    /// Buffers of processed packets, for reuse.
    pub(super) spare: Vec<Vec<u8>>,
}

impl Out {
    fn take_packet(&mut self) {
        self.cpu_ns += self.packet_ns;
    }
}

impl CallEffects for Out {
    fn transmit(&mut self, _lane: TrafficClass, to: &[SocketAddr], packet: &[u8]) {
        for to in to {
            self.cpu_ns += self.packet_ns;
            let mut bytes = self.spare.pop().unwrap_or_default();
            bytes.clear();
            bytes.extend_from_slice(packet);
            self.sent.push((self.cpu_ns, node_at(*to), bytes));
        }
    }

    /// A request begins with the length of the requested answer.
    fn request(&mut self, _call: CallId, _from: Incarnation, request: &[u8], answer: &mut Vec<u8>) -> HandlerResult {
        let Some(len) = request.first_chunk::<8>() else { return HandlerResult::Refused };
        answer.resize(usize::try_from(u64::from_le_bytes(*len)).unwrap_or(usize::MAX), 7);
        HandlerResult::Answered
    }

    fn outcome(&mut self, call_id: ClientCallId, outcome: Outcome<'_>) {
        let answer = match outcome {
            Outcome::Answer(bytes) => Some(bytes.len()),
            Outcome::Failed(_) => None,
        };
        self.told.push((self.cpu_ns, call_id, answer));
    }
}

impl Host {
    pub(super) fn new(now_ns: u64, setup: &Setup, rng: &mut Rng, serves: bool) -> Self {
        let options = EndpointOptions {
            cell: "links".to_owned(),
            me: Incarnation(rng.next_u64()),
            packet_bytes_max: setup.packet_bytes,
            receive_bytes: setup.receive_bytes,
            serves,
            offer: Vec::new(),
            limits: setup.limits.clone(),
        };
        Self {
            endpoint: Endpoint::new(Instant(now_ns), &options, &SECURITY, rng.next_u64()),
            out: Out {
                cpu_ns: now_ns,
                packet_ns: setup.packet_ns,
                sent: Vec::new(),
                told: Vec::new(),
                spare: Vec::new(),
            },
            inbox: VecDeque::new(),
            look_ns: setup.wake_ns,
            charged: 0,
            receive_bytes: setup.receive_bytes,
            wake_ns: None,
            looked_ns: now_ns,
            done_ns: now_ns,
            lost: false,
            sessions: BTreeMap::new(),
            calls: BTreeMap::new(),
            dropped: 0,
            charged_max: 0,
        }
    }

    /// A packet arrives. An idle host polls for it after `gap_ns`.
    pub(super) fn arrive(&mut self, now_ns: u64, from: usize, bytes: Vec<u8>, gap_ns: u64) {
        let charged = truesize(bytes.len() as u64);
        if !self.inbox.is_empty() && self.charged + charged > self.receive_bytes {
            self.dropped += 1;
            self.lost = true;
            return;
        }
        self.charged += charged;
        self.charged_max = self.charged_max.max(self.charged);
        self.inbox.push_back((from, bytes));
        // A busy host polls when its work is done.
        let wake_ns = if self.out.cpu_ns > now_ns { self.out.cpu_ns } else { now_ns + gap_ns };
        self.wake_ns = Some(self.wake_ns.map_or(wake_ns, |at_ns| at_ns.min(wake_ns)));
    }

    /// Time of its next event-loop iteration.
    pub(super) fn due_ns(&self) -> Option<u64> {
        let timer_ns = self.endpoint.deadline().map(Instant::nanos);
        let due_ns = timer_ns.into_iter().chain(self.wake_ns).min();
        due_ns.map(|at_ns| at_ns.max(self.out.cpu_ns))
    }

    /// Takes a batch of packets, then does what is due.
    pub(super) fn poll(&mut self, now_ns: u64) {
        self.out.cpu_ns = self.out.cpu_ns.max(now_ns);
        // One clock read for each iteration, however long the iteration takes, as in the runtime.
        let now = Instant(now_ns);
        // It has polled without effect since its work was done.
        let gap_ns = now_ns.min(self.done_ns + self.look_ns) - self.looked_ns;
        self.endpoint.note_gap(now, Duration::from_nanos(gap_ns));
        self.looked_ns = now_ns;
        let count = self.inbox.len().min(BATCH);
        for (from, mut bytes) in self.inbox.drain(..count) {
            self.charged -= truesize(bytes.len() as u64);
            self.out.take_packet();
            let packet = Packet::Lent(&mut bytes);
            self.endpoint.handle_packet(now, Origin::Network(far_address(from)), packet, &mut self.out);
            self.out.spare.push(bytes);
        }
        if std::mem::take(&mut self.lost) {
            self.endpoint.handle_loss();
        }
        self.endpoint.poll(now, &mut self.out);
        self.done_ns = self.out.cpu_ns;
        self.wake_ns = (!self.inbox.is_empty()).then_some(self.done_ns);
    }

    /// Opens a session with `server`, unless there is one.
    pub(super) fn connect(&mut self, now_ns: u64, server: usize) {
        self.out.cpu_ns = self.out.cpu_ns.max(now_ns);
        let (now, out) = (Instant(self.out.cpu_ns), &mut self.out);
        self.sessions.entry(server).or_insert_with(|| self.endpoint.connect(now, far_address(server), out));
    }

    /// Makes a call as soon as the core is free. Returns whether the call was accepted.
    pub(super) fn call(&mut self, now_ns: u64, what: Exchange) -> bool {
        let Some(session) = self.sessions.get(&what.server) else { return false };
        self.out.cpu_ns = self.out.cpu_ns.max(now_ns);
        let mut request = (what.answer_bytes as u64).to_le_bytes().to_vec();
        request.resize(what.request_bytes.max(request.len()), 7);
        let now = Instant(self.out.cpu_ns);
        let accepted = self.endpoint.call(now, *session, &request, &CallOptions::default(), &mut self.out);
        if let Ok(call_id) = accepted {
            self.calls.insert(call_id, Call { what, begun_ns: now_ns });
        }
        accepted.is_ok()
    }
}

/// Packets requested from the driver at once, as in `phalanx_runtime::rpc`.
const BATCH: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_receive_buffer_is_bounded_and_drops_are_counted() {
        let each = truesize(1_472);
        let setup = Setup { receive_bytes: 10 * each, ..Setup::default() };
        let mut host = Host::new(1_000, &setup, &mut Rng::new(1), true);
        for _ in 0..25 {
            host.arrive(1_000, 1, vec![0; 1_472], 500);
        }
        assert_eq!((host.inbox.len(), host.dropped, host.charged_max), (10, 15, 10 * each));
        assert_eq!(host.due_ns(), Some(1_500));
        host.poll(1_500);
        assert_eq!((host.charged, host.out.cpu_ns), (0, 1_500 + 10 * setup.packet_ns));
    }

    #[test]
    fn a_core_that_is_busy_takes_packets_later() {
        let setup = Setup::default();
        let mut host = Host::new(1_000, &setup, &mut Rng::new(1), true);
        for _ in 0..100 {
            host.arrive(1_000, 1, vec![0; 100], 0);
        }
        host.poll(1_000);
        let first_ns = 1_000 + BATCH as u64 * setup.packet_ns;
        assert_eq!(host.due_ns(), Some(first_ns), "more is there");
        host.arrive(1_100, 1, vec![0; 100], 0);
        host.poll(first_ns);
        assert_eq!(host.out.cpu_ns, first_ns + 37 * setup.packet_ns);
        assert!(host.due_ns().is_none_or(|at_ns| at_ns > first_ns + 100_000), "nothing is left");
    }
}
