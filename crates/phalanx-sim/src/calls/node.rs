//! An endpoint and its surroundings: its receive buffer, sessions, calls, and running handlers.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use phalanx_core::id::{Incarnation, Origin, TrafficClass};
use phalanx_core::rng::Rng;
use phalanx_core::rpc::{CallEffects, CallId, ClientCallId, Endpoint, Failure, HandlerResult, Outcome, SessionId};

use super::payload::{answer, request};
use super::plan::{EndpointPlan, Handlers, MS, SECOND};

/// An endpoint and its surroundings, over all its lives.
pub(super) struct Node {
    pub(super) plan: EndpointPlan,
    /// Number of the life, from 0.
    pub(super) life: u32,
    /// Number of its earlier addresses.
    pub(super) moves: u8,
    /// The endpoint, if its process runs.
    pub(super) endpoint: Option<Endpoint>,
    pub(super) place: Place,
    pub(super) inbox: Vec<(Origin, Vec<u8>)>,
    /// Charge of its receive buffer.
    pub(super) charged: u64,
    /// Whether it is still to be notified of lost packets.
    pub(super) lost: bool,
    pub(super) paused_until_ns: u64,
    /// Time and number of the latest consecutive iterations at one time that had no input and asked for another one.
    pub(super) idle_turns: (u64, u32),
    /// Whether such spinning was already reported.
    pub(super) has_spun: bool,
    pub(super) sessions: Vec<Session>,
    pub(super) call_ids: BTreeMap<ClientCallId, Open>,
    pub(super) next_call: u64,
    /// Handlers that have not answered, by their runs.
    pub(super) waiting: BTreeMap<usize, Waiting>,
    /// The highest number of them in this life.
    pub(super) waiting_max: usize,
    /// Time at which it takes the packets in its buffer.
    pub(super) wake_ns: Option<u64>,
}

impl Node {
    /// Sessions for calls that are not routed, by their places among all.
    pub(super) fn own_sessions(&self) -> Vec<usize> {
        (0..self.sessions.len()).filter(|&at| !self.sessions[at].is_kept).collect()
    }

    /// The next request of this life, with its number.
    pub(super) fn next_request(&mut self, client: usize, len: usize) -> (u64, Vec<u8>) {
        let number = self.next_call;
        self.next_call += 1;
        (number, request(client as u32, self.life, number, len))
    }
}

/// A session of a client.
#[derive(Clone, Copy)]
pub(super) struct Session {
    pub(super) id: SessionId,
    pub(super) server: usize,
    pub(super) at: SocketAddr,
    /// Whether it is kept for all routed calls to its address, and used for no others.
    pub(super) is_kept: bool,
    /// Number of calls under way.
    pub(super) open: usize,
}

/// A call under way, as its caller knows it.
#[derive(Clone, Copy)]
pub(super) struct Open {
    /// Its index in the judge's record.
    pub(super) call: usize,
    pub(super) session: SessionId,
    /// The number of the routed call of which it is an attempt.
    pub(super) route: Option<u64>,
}

/// A handler that has not answered.
pub(super) struct Waiting {
    pub(super) id: CallId,
    pub(super) plan: Later,
    pub(super) answer: Vec<u8>,
}

/// The behaviour of a handler that does not answer at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Later {
    /// It answers after this time.
    After(u64),
    /// It answers twice.
    Twice(u64),
    /// It does not answer before everything is whole.
    Never,
    /// It reports that there is no such service.
    Refuse(u64),
}

/// Effects of an endpoint, until the world takes them.
pub(super) struct Place {
    pub(super) sent: Vec<Sent>,
    host: Option<u8>,
    /// Peers that share this host's memory.
    near: BTreeMap<Incarnation, Near>,
    /// Whether this endpoint attached or detached a peer, and the peers do not know yet.
    pub(super) near_changed: bool,
    /// Peers that have attached this endpoint; nothing is written for others.
    readers: BTreeSet<Incarnation>,
    /// Sessions that were opened and not closed.
    pub(super) met: BTreeMap<Incarnation, usize>,
    pub(super) happened: Vec<Happened>,
    /// Calls of running handlers that were given up.
    pub(super) given_up: BTreeSet<CallId>,
    handlers: Handlers,
    rng: Rng,
    len_max: usize,
    long_ppm: u32,
    fragment_bytes: usize,
    /// Number of answers so far, so that no two are equal.
    runs: u64,
    salt: u64,
}

/// A peer that shares this host's memory.
#[derive(Clone, Copy, Debug)]
struct Near {
    at: SocketAddr,
    sessions: usize,
    /// Whether it is attached. A peer that is dead, as another one at its address proves, is detached.
    attached: bool,
}

/// A packet that an endpoint sent.
pub(super) struct Sent {
    pub(super) to: SocketAddr,
    pub(super) bytes: Vec<u8>,
    /// The receiving life, if through memory.
    pub(super) shared: Option<Incarnation>,
}

/// Events of an endpoint for its application, in order.
pub(super) enum Happened {
    /// A handler was begun, and did this.
    Ran { id: CallId, from: Incarnation, request: Vec<u8>, did: Did },
    /// A call ended.
    Told { call_id: ClientCallId, outcome: Result<Vec<u8>, Failure> },
}

pub(super) enum Did {
    Answered(Vec<u8>),
    Refused,
    Later(Later, Vec<u8>),
}

impl Place {
    pub(super) fn new(
        rng: Rng,
        salt: u64,
        handlers: Handlers,
        plan: &EndpointPlan,
        len_max: usize,
        long_ppm: u32,
    ) -> Self {
        Self {
            sent: Vec::new(),
            host: plan.host,
            near: BTreeMap::new(),
            near_changed: false,
            readers: BTreeSet::new(),
            met: BTreeMap::new(),
            happened: Vec::new(),
            given_up: BTreeSet::new(),
            handlers,
            rng,
            len_max: len_max.min(plan.limits.message_bytes),
            long_ppm,
            fragment_bytes: plan.packet_bytes_max as usize,
            runs: 0,
            salt,
        }
    }

    /// Begins a life. Run numbers differ from those of all earlier lives.
    pub(super) fn begin_incarnation(&mut self, life: u32) {
        self.near.clear();
        self.readers.clear();
        self.met.clear();
        (self.runs, self.salt) = (0, self.salt & 0xff | u64::from(life) << 8);
    }

    /// The offer to peers of its host.
    pub(super) fn offer(&self) -> Vec<u8> {
        self.host.into_iter().collect()
    }

    /// Whether it reads the memory of that life of a process.
    pub(super) fn reads(&self, writer: Incarnation) -> bool {
        self.near.get(&writer).is_some_and(|near| near.attached)
    }

    /// Notes that another endpoint has attached this one, or has detached it.
    pub(super) fn note_reader(&mut self, reader: Incarnation, reads: bool) {
        if reads {
            self.readers.insert(reader);
        } else {
            self.readers.remove(&reader);
        }
    }

    /// From now on handlers answer all at once, and with at most this many bytes.
    pub(super) fn heal(&mut self, len_max: usize) {
        self.handlers = Handlers { later_ppm: 0, never_ppm: 0, twice_ppm: 0, refuse_ppm: 0 };
        self.len_max = self.len_max.min(len_max);
    }
}

/// Draws the length of a message: short, about that of a packet, or long.
pub(super) fn draw_len(rng: &mut Rng, packet_bytes: usize, long_ppm: u32, len_max: usize) -> usize {
    let len = if rng.chance_ppm(long_ppm) {
        rng.below(len_max as u64 + 1) as usize
    } else {
        match rng.below(8) {
            0 => 0,
            1 => 1,
            2 => (packet_bytes + 8).saturating_sub(rng.below(100) as usize),
            3 => (2 * packet_bytes + 8).saturating_sub(rng.below(200) as usize),
            4 => rng.below(2_000) as usize,
            _ => 20 + rng.below(160) as usize,
        }
    };
    len.min(len_max)
}

impl CallEffects for Place {
    fn write_shared(&mut self, _lane: TrafficClass, to: &[SocketAddr], parts: [&[u8]; 3]) -> usize {
        let [to] = to else { return 0 };
        let reached =
            self.near.iter().find(|(life, near)| near.attached && near.at == *to && self.readers.contains(life));
        let Some((life, _)) = reached else { return 0 };
        self.sent.push(Sent { to: *to, bytes: parts.concat(), shared: Some(*life) });
        1
    }

    fn send_unbuffered(&mut self, class: TrafficClass, to: SocketAddr, parts: [&[u8]; 3]) -> bool {
        let packet = parts.concat();
        // Some packets are not taken.
        let takes = packet.len() % 4 != 0;
        if takes {
            self.transmit(class, &[to], &packet);
        }
        takes
    }

    fn session_opened(&mut self, peer: Incarnation, at: SocketAddr, offer: &[u8]) {
        *self.met.entry(peer).or_default() += 1;
        if self.host.is_some() && self.host == offer.first().copied() {
            // An address belongs to the latest life there.
            for (known, near) in &mut self.near {
                near.attached &= *known == peer || near.at != at;
            }
            let near = self.near.entry(peer).or_insert(Near { at, sessions: 0, attached: true });
            near.sessions += 1;
            near.attached = true;
            self.near_changed = true;
        }
    }

    fn session_closed(&mut self, peer: Incarnation) {
        *self.met.get_mut(&peer).expect("who parts has met") -= 1;
        self.met.retain(|_, sessions| *sessions > 0);
        if let Some(near) = self.near.get_mut(&peer) {
            near.sessions -= 1;
            if near.sessions == 0 {
                self.near.remove(&peer);
                self.near_changed = true;
            }
        }
    }

    fn transmit(&mut self, _lane: TrafficClass, to: &[SocketAddr], packet: &[u8]) {
        self.sent.extend(to.iter().map(|to| Sent { to: *to, bytes: packet.to_vec(), shared: None }));
    }

    fn request(&mut self, id: CallId, from: Incarnation, request: &[u8], into: &mut Vec<u8>) -> HandlerResult {
        assert!(into.is_empty());
        self.runs += 1;
        let len = draw_len(&mut self.rng, self.fragment_bytes, self.long_ppm, self.len_max);
        let answer = answer(request, self.salt << 32 | self.runs, len);
        let Handlers { later_ppm, never_ppm, twice_ppm, refuse_ppm } = self.handlers;
        let after = self.rng.below(300 * MS) >> self.rng.below(10);
        let did = if self.rng.chance_ppm(refuse_ppm) {
            if self.rng.chance_ppm(500_000) { Did::Refused } else { Did::Later(Later::Refuse(after), answer) }
        } else if self.rng.chance_ppm(never_ppm) {
            Did::Later(Later::Never, answer)
        } else if self.rng.chance_ppm(twice_ppm) {
            Did::Later(Later::Twice(after), answer)
        } else if self.rng.chance_ppm(later_ppm) {
            let after = if self.rng.chance_ppm(50_000) { after + 2 * SECOND } else { after };
            Did::Later(Later::After(after), answer)
        } else {
            Did::Answered(answer)
        };
        let served = match &did {
            Did::Answered(answer) => {
                into.extend_from_slice(answer);
                HandlerResult::Answered
            }
            Did::Refused => HandlerResult::Refused,
            Did::Later(..) => HandlerResult::Later,
        };
        self.happened.push(Happened::Ran { id, from, request: request.to_vec(), did });
        served
    }

    fn long_request(
        &mut self,
        id: CallId,
        from: Incarnation,
        request: &mut Vec<u8>,
        into: &mut Vec<u8>,
    ) -> HandlerResult {
        let request = std::mem::replace(request, LEFT_INSTEAD.to_vec());
        self.request(id, from, &request, into)
    }

    fn given_up(&mut self, call: CallId) {
        assert!(self.given_up.insert(call), "a call is given up once");
    }

    fn outcome(&mut self, call_id: ClientCallId, outcome: Outcome<'_>) {
        self.happened.push(Happened::Told { call_id, outcome: outcome.to_result() });
    }

    fn long_answer(&mut self, call_id: ClientCallId, answer: &mut Vec<u8>) {
        let answer = std::mem::replace(answer, LEFT_INSTEAD.to_vec());
        self.happened.push(Happened::Told { call_id, outcome: Ok(answer) });
    }
}

/// Replaces messages that were taken; it must not come back.
const LEFT_INSTEAD: &[u8] = b"left";

/// The address of node `at`, in all its lives. All nodes with such addresses count as on the same host.
pub(super) fn address(at: usize) -> SocketAddr {
    if at % 3 == 2 { SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), PORTS + at as u16) } else { far_address(at) }
}

/// Its address after this many moves.
pub(super) fn address_after(at: usize, moves: u8) -> SocketAddr {
    let mut address = address(at);
    if let (SocketAddr::V4(address), 1..) = (&mut address, moves) {
        let [a, b, _, d] = address.ip().octets();
        address.set_ip(Ipv4Addr::new(a, b, moves, d));
    }
    address
}

/// The same, on a host of its own.
pub(super) fn far_address(at: usize) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), PORTS + at as u16)
}

/// The node at `address`.
pub(super) fn node_at(address: SocketAddr) -> usize {
    usize::from(address.port() - PORTS)
}

const PORTS: u16 = 10_000;
