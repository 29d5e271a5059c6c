//! One endpoint in its place: what lies in its receive buffer, its sessions and calls, the handlers that run there.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use phalanx_core::id::{Incarnation, Origin, TrafficClass};
use phalanx_core::rng::Rng;
use phalanx_core::rpc::{CallEffects, CallId, ClientCallId, Endpoint, Failure, HandlerResult, Outcome, SessionId};

use super::payload::answer;
use super::plan::{EndpointPlan, Handlers, MS, SECOND};

/// An endpoint and its surroundings, over all its lives.
pub(super) struct Node {
    pub(super) plan: EndpointPlan,
    /// Begins with 0.
    pub(super) life: u32,
    /// Addresses it had before.
    pub(super) moves: u8,
    /// Its process runs.
    pub(super) endpoint: Option<Endpoint>,
    pub(super) place: Place,
    pub(super) inbox: Vec<(Origin, Vec<u8>)>,
    /// Of its receive buffer.
    pub(super) charged: u64,
    /// It is to be told that packets were lost.
    pub(super) lost: bool,
    pub(super) paused_until_ns: u64,
    /// Turns in a row that nothing had come for, all at this time, and that wanted another one.
    pub(super) idle_turns: (u64, u32),
    /// Which was found already.
    pub(super) has_spun: bool,
    pub(super) sessions: Vec<Session>,
    pub(super) call_ids: BTreeMap<ClientCallId, Open>,
    pub(super) next_call: u64,
    /// Handlers that have not answered, by their runs.
    pub(super) waiting: BTreeMap<usize, Waiting>,
    /// The most of them that there were in this life.
    pub(super) waiting_max: usize,
}

/// A session of a client.
#[derive(Clone, Copy)]
pub(super) struct Session {
    pub(super) id: SessionId,
    pub(super) server: usize,
    /// Calls that are not over.
    pub(super) open: usize,
}

/// A call that is not over, as its caller knows it.
#[derive(Clone, Copy)]
pub(super) struct Open {
    /// In the judge's record.
    pub(super) call: usize,
    pub(super) session: SessionId,
}

/// A handler that has not answered.
pub(super) struct Waiting {
    pub(super) id: CallId,
    pub(super) plan: Later,
    pub(super) answer: Vec<u8>,
}

/// How a handler answers that does not answer at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Later {
    /// After so long.
    After(u64),
    /// Twice.
    Twice(u64),
    /// Not before everything is whole.
    Never,
    /// It says that there is no such service.
    Refuse(u64),
}

/// Where effects of an endpoint go until the world takes them.
pub(super) struct Place {
    pub(super) sent: Vec<Sent>,
    host: Option<u8>,
    /// Other ends of sessions that share this host's memory.
    near: BTreeMap<Incarnation, Near>,
    /// Whom of them this one has attached has changed, which those do not know yet.
    pub(super) near_changed: bool,
    /// Who has attached this one: nothing else is written for.
    readers: BTreeSet<Incarnation>,
    /// Sessions that were told of, and not that they are over.
    pub(super) met: BTreeMap<Incarnation, usize>,
    pub(super) happened: Vec<Happened>,
    handlers: Handlers,
    rng: Rng,
    len_max: usize,
    long_ppm: u32,
    fragment_bytes: usize,
    /// So that no two answers are equal.
    runs: u64,
    salt: u64,
}

/// Another end of sessions that shares this host's memory.
#[derive(Clone, Copy, Debug)]
struct Near {
    at: SocketAddr,
    sessions: usize,
    /// Detached is who lives no more, as another met at its address shows.
    attached: bool,
}

/// What an endpoint sent.
pub(super) struct Sent {
    pub(super) to: SocketAddr,
    pub(super) bytes: Vec<u8>,
    /// Through memory, for this life.
    pub(super) shared: Option<Incarnation>,
}

/// What an endpoint told its application, in order.
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
            handlers,
            rng,
            len_max: len_max.min(plan.limits.message_bytes),
            long_ppm,
            fragment_bytes: plan.packet_bytes_max as usize,
            runs: 0,
            salt,
        }
    }

    /// A life begins: no run of it has the number of another.
    pub(super) fn begin_incarnation(&mut self, life: u32) {
        self.near.clear();
        self.readers.clear();
        self.met.clear();
        (self.runs, self.salt) = (0, self.salt & 0xff | u64::from(life) << 8);
    }

    /// What it offers to those of its host.
    pub(super) fn offer(&self) -> Vec<u8> {
        self.host.into_iter().collect()
    }

    /// Whether it reads what that life of a process writes for it.
    pub(super) fn reads(&self, writer: Incarnation) -> bool {
        self.near.get(&writer).is_some_and(|near| near.attached)
    }

    /// Another one has attached this one, or not any more.
    pub(super) fn note_reader(&mut self, reader: Incarnation, reads: bool) {
        if reads {
            self.readers.insert(reader);
        } else {
            self.readers.remove(&reader);
        }
    }

    /// From now on handlers answer all at once, and with no more bytes than this.
    pub(super) fn heal(&mut self, len_max: usize) {
        self.handlers = Handlers { later_ppm: 0, never_ppm: 0, twice_ppm: 0, refuse_ppm: 0 };
        self.len_max = self.len_max.min(len_max);
    }
}

/// The length of a message: short, about what fits a packet, or long.
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
        // Some are not taken.
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

    fn outcome(&mut self, call_id: ClientCallId, outcome: Outcome<'_>) {
        self.happened.push(Happened::Told { call_id, outcome: outcome.to_result() });
    }

    fn long_answer(&mut self, call_id: ClientCallId, answer: &mut Vec<u8>) {
        let answer = std::mem::replace(answer, LEFT_INSTEAD.to_vec());
        self.happened.push(Happened::Told { call_id, outcome: Ok(answer) });
    }
}

/// In the place of messages that were taken: it must not come back.
const LEFT_INSTEAD: &[u8] = b"left";

/// Where node `at` is, in all its lives: some are taken to be on the same host as all others.
pub(super) fn address(at: usize) -> SocketAddr {
    if at % 3 == 2 { SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), PORTS + at as u16) } else { far_address(at) }
}

/// Where it is after so many moves.
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
