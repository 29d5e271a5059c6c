//! The plan of a seed, drawn before the run begins.

use std::time::Duration;

use phalanx_core::rng::Rng;
use phalanx_core::rpc::EndpointLimits;
use phalanx_core::seal::{CellKey, Security};

/// The plan of a run.
pub(super) struct Plan {
    pub(super) servers: usize,
    pub(super) clients: usize,
    pub(super) security: Security,
    /// Plans of the endpoints: servers, clients, then servers that only routed calls find.
    pub(super) endpoints: Vec<EndpointPlan>,
    pub(super) weather: Weather,
    /// Duration of the faulty phase.
    pub(super) faulty_ns: u64,
    pub(super) faults: Vec<Fault>,
    /// Mean time between two calls of a client.
    pub(super) gap_ns: u64,
    /// Requests and answers in a million that are long.
    pub(super) long_ppm: u32,
    /// Length of the longest request and answer.
    pub(super) len_max: usize,
    pub(super) cancel_ppm: u32,
    pub(super) handlers: Handlers,
}

/// The plan of one endpoint, for all its lives.
#[derive(Clone, Debug)]
pub(super) struct EndpointPlan {
    pub(super) packet_bytes_max: u32,
    /// Receive buffer that it announces, in bytes; 0: none.
    pub(super) receive_bytes: u64,
    pub(super) serves: bool,
    /// The host whose memory it shares; `None`: it shares none.
    pub(super) host: Option<u8>,
    pub(super) limits: EndpointLimits,
    /// The longest time from a packet's arrival to the iteration that takes it.
    pub(super) wake_ns: u64,
    /// Probability that it notices an overflow of its buffer, in a million.
    pub(super) notices_ppm: u32,
}

/// Effects of the network on packets.
#[derive(Clone, Debug, Default)]
pub(super) struct Weather {
    pub(super) delay_ns: u64,
    /// Bound of an additional random delay.
    pub(super) jitter_ns: u64,
    pub(super) loss_ppm: u32,
    pub(super) duplicate_ppm: u32,
    pub(super) replay_ppm: u32,
    /// Packets through memory in a million at which the reader is overtaken.
    pub(super) overtaken_ppm: u32,
    /// Packets in a million to a process that is not there of which its system reports that.
    pub(super) reported_ppm: u32,
    /// Packets in a million after which such a report comes that is not true.
    pub(super) forged_ppm: u32,
}

/// Behaviour of handlers, in a million.
#[derive(Clone, Copy, Debug)]
pub(super) struct Handlers {
    pub(super) later_ppm: u32,
    pub(super) never_ppm: u32,
    pub(super) twice_ppm: u32,
    pub(super) refuse_ppm: u32,
}

/// A fault and its time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fault {
    pub(super) at_ns: u64,
    pub(super) lasts_ns: u64,
    pub(super) what: What,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum What {
    /// The process dies, and a new one starts in its place.
    Restart(usize),
    /// The process is stopped.
    Pause(usize),
    /// Nothing passes from the first to the second.
    Cut(usize, usize),
    /// Packets in a million that are lost.
    Burst(u32),
    /// A client changes its address, and packets to the old one are lost.
    Move(usize),
}

pub(super) const MS: u64 = 1_000_000;
pub(super) const SECOND: u64 = 1_000 * MS;

impl Plan {
    pub(super) fn draw(seed: &Rng) -> Self {
        let mut rng = seed.fork("plan");
        let servers = 1 + rng.below(3) as usize;
        let clients = 1 + rng.below(4) as usize;
        let security = if rng.chance_ppm(500_000) {
            Security::Sealed(CellKey::from_bytes([rng.below(256) as u8; CellKey::LEN]))
        } else {
            Security::None
        };
        let serving = rng.chance_ppm(200_000);
        let endpoints = (0..servers + clients)
            .map(|at| endpoint(&mut seed.fork(&format!("endpoint {at}")), at < servers || serving));
        let mut endpoints: Vec<EndpointPlan> = endpoints.collect();
        if seed.fork("packets").chance_ppm(150_000) {
            // A packet length as on one host, where a message takes few packets.
            endpoints.iter_mut().for_each(|endpoint| endpoint.packet_bytes_max = 65_507);
        }
        let faulty_ns = pick(&mut rng, &[1, 2, 3, 5]) * SECOND;
        let mut faults = faults(&mut seed.fork("faults"), servers, clients, faulty_ns);
        faults.extend(moves(&mut seed.fork("moves"), &endpoints, faulty_ns));
        faults.sort_by_key(|fault| fault.at_ns);
        let calls = pick(&mut rng, &[10, 30, 60, 120]);
        Self {
            servers,
            clients,
            security,
            endpoints,
            weather: weather(&mut seed.fork("weather"), &mut seed.fork("reports")),
            faulty_ns,
            faults,
            gap_ns: faulty_ns / calls,
            long_ppm: pick(&mut rng, &[10_000, 50_000, 150_000]) as u32,
            len_max: pick(&mut rng, &[20_000, 60_000, 200_000]) as usize,
            cancel_ppm: pick(&mut rng, &[0, 30_000, 150_000]) as u32,
            handlers: handlers(&mut seed.fork("handlers")),
        }
    }

    /// Adds servers that only routed calls find.
    pub(super) fn invite(&mut self, visitors: usize, seed: &Rng) {
        self.endpoints.extend((0..visitors).map(|at| endpoint(&mut seed.fork(&format!("visitor {at}")), true)));
    }

    pub(super) fn is_client(&self, at: usize) -> bool {
        (self.servers..self.first_visitor()).contains(&at)
    }

    /// The first of the servers that only routed calls find.
    pub(super) fn first_visitor(&self) -> usize {
        self.servers + self.clients
    }
}

pub(super) fn pick(rng: &mut Rng, from: &[u64]) -> u64 {
    from[rng.below(from.len() as u64) as usize]
}

/// `usual` in most seeds, otherwise one of `small`.
fn sometimes(rng: &mut Rng, usual: usize, small: &[u64]) -> usize {
    if rng.chance_ppm(250_000) { pick(rng, small) as usize } else { usual }
}

fn endpoint(rng: &mut Rng, serves: bool) -> EndpointPlan {
    let packet_bytes_max = if rng.chance_ppm(400_000) { 1472 } else { 576 + rng.below(9000 - 576 + 1) as u32 };
    let usual = EndpointLimits::default();
    let limits = EndpointLimits {
        slots: 1 + rng.below(8) as u8,
        // At least two of each client: a lost session is replaced before the old one is forgotten.
        sessions: sometimes(rng, usual.sessions, &[9, 10, 12]),
        sessions_of_client: sometimes(rng, usual.sessions_of_client, &[3, 4]),
        queued_calls: sometimes(rng, usual.queued_calls, &[3, 10, 30]),
        message_bytes: sometimes(rng, usual.message_bytes, &[10_000, 50_000, 150_000]),
        requests_bytes: sometimes(rng, usual.requests_bytes, &[210_000, 500_000]),
        answers_bytes: sometimes(rng, usual.answers_bytes, &[30_000, 250_000]),
        timer_min: Duration::from_millis(pick(rng, &[1, 5, 5, 20])),
        idle_max: Duration::from_secs(pick(rng, &[4, 6, 10, 60])),
        ..usual
    };
    EndpointPlan {
        packet_bytes_max,
        receive_bytes: pick(rng, &[0, 20_000, 60_000, 212_992, 1 << 20, 4 << 20]),
        serves,
        limits,
        wake_ns: pick(rng, &[1_000, 20_000, 200_000, 4 * MS]),
        notices_ppm: pick(rng, &[0, 500_000, 1_000_000]) as u32,
        host: rng.chance_ppm(500_000).then(|| rng.below(2) as u8),
    }
}

fn weather(rng: &mut Rng, reports: &mut Rng) -> Weather {
    let delay_ns = pick(rng, &[10_000, 50_000, 300_000, 2 * MS, 15 * MS]);
    Weather {
        delay_ns,
        jitter_ns: pick(rng, &[0, delay_ns / 8, delay_ns, 4 * delay_ns, 3 * MS]),
        loss_ppm: match rng.below(4) {
            0 => 0,
            1 => rng.below(20_000) as u32,
            2 => rng.below(100_000) as u32,
            _ => rng.below(300_000) as u32,
        },
        duplicate_ppm: pick(rng, &[0, 10_000, 100_000]) as u32,
        replay_ppm: pick(rng, &[0, 10_000, 50_000]) as u32,
        overtaken_ppm: pick(rng, &[0, 1_000, 50_000]) as u32,
        reported_ppm: pick(reports, &[0, 300_000, 1_000_000]) as u32,
        forged_ppm: pick(reports, &[0, 0, 1_000, 30_000]) as u32,
    }
}

fn handlers(rng: &mut Rng) -> Handlers {
    Handlers {
        later_ppm: pick(rng, &[0, 100_000, 400_000]) as u32,
        never_ppm: pick(rng, &[0, 0, 5_000, 20_000]) as u32,
        twice_ppm: pick(rng, &[0, 20_000, 100_000]) as u32,
        refuse_ppm: pick(rng, &[0, 20_000, 100_000]) as u32,
    }
}

fn faults(rng: &mut Rng, servers: usize, clients: usize, faulty_ns: u64) -> Vec<Fault> {
    let all = (servers + clients) as u64;
    let count = pick(rng, &[0, 2, 4, 8, 16]);
    (0..count)
        .map(|_| {
            let (what, lasts_max) = match rng.below(8) {
                0 | 1 => (What::Restart(rng.below(servers as u64) as usize), 500 * MS),
                2 => (What::Restart(servers + rng.below(clients as u64) as usize), 300 * MS),
                3 | 4 => (What::Pause(rng.below(all) as usize), 1200 * MS),
                5 | 6 => {
                    let (server, client) =
                        (rng.below(servers as u64) as usize, rng.below(clients as u64) as usize + servers);
                    let there = rng.chance_ppm(500_000);
                    (if there { What::Cut(client, server) } else { What::Cut(server, client) }, 2500 * MS)
                }
                _ => (What::Burst(pick(rng, &[600_000, 1_000_000]) as u32), 400 * MS),
            };
            // Short durations are more likely than long ones.
            let lasts_ns = (rng.below(lasts_max) >> rng.below(8)) + 1;
            Fault { at_ns: rng.below(faulty_ns), lasts_ns, what }
        })
        .collect()
}

/// Moves of endpoints that serve no others. A server keeps its address for good, because its clients know it.
fn moves(rng: &mut Rng, endpoints: &[EndpointPlan], faulty_ns: u64) -> Vec<Fault> {
    let moving: Vec<usize> = (0..endpoints.len()).filter(|at| !endpoints[*at].serves).collect();
    if moving.is_empty() || !rng.chance_ppm(250_000) {
        return Vec::new();
    }
    let one = |rng: &mut Rng| {
        let what = What::Move(moving[rng.below(moving.len() as u64) as usize]);
        Fault { at_ns: rng.below(faulty_ns), lasts_ns: 1, what }
    };
    (0..1 + rng.below(3)).map(|_| one(rng)).collect()
}
