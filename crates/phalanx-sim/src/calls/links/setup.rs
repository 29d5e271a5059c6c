//! Parameters of a run: links, switch, hosts, their endpoints, and the workload.

use phalanx_core::rpc::EndpointLimits;

/// Links, a switch that joins them, hosts at their ends.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Rate of each link, in each direction, in bits per second.
    pub link_bps: u64,
    /// Propagation delay between a host and the switch, in each direction.
    pub hop_ns: u64,
    /// Bytes that may wait at an output port of the switch, with all headers. Packets beyond are dropped.
    pub port_bytes: u64,
    /// Packets lost at the switch by chance, in parts per million.
    pub loss_ppm: u32,
    /// The longest packet of all endpoints, in bytes.
    pub packet_bytes: u32,
    /// Time that a host's only core needs for each packet it takes or sends.
    pub packet_ns: u64,
    /// Interval at which an idle host polls. A packet is taken between 0 and this long after its arrival.
    pub wake_ns: u64,
    /// The most that a host's receive buffer may be charged. Packets beyond are dropped, and the endpoint is notified
    /// of a loss.
    pub receive_bytes: u64,
    /// Limits of all endpoints.
    pub limits: EndpointLimits,
}

impl Default for Setup {
    /// Links of 10 Gb/s of 1 us each, ports of 512 KiB, packets of 1,472 bytes at 300 ns, buffers of 4 MiB.
    fn default() -> Self {
        Self {
            link_bps: 10_000_000_000,
            hop_ns: 1_000,
            port_bytes: 512 << 10,
            loss_ppm: 0,
            packet_bytes: 1_472,
            packet_ns: 300,
            wake_ns: 1_000,
            receive_bytes: 4 << 20,
            limits: EndpointLimits::default(),
        }
    }
}

/// What the endpoints do. A message has at least 8 bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Workload {
    /// Each client keeps a number of calls under way and makes the next when one has ended.
    Closed {
        /// Number of hosts that call.
        clients: usize,
        /// Number of hosts that answer: client `i` calls server `i` modulo this number.
        servers: usize,
        /// Calls of a client under way.
        at_once: usize,
        /// Length of a request in bytes.
        request_bytes: usize,
        /// Length of an answer in bytes.
        answer_bytes: usize,
        /// Time between the end of a call and the next one.
        think_ns: u64,
        /// Time after which no call begins.
        for_ns: u64,
        /// Bound on the calls of each client.
        calls: u64,
    },
    /// One client calls all servers at once; when all have answered, the next round begins.
    Incast {
        /// Number of hosts that answer.
        servers: usize,
        /// Length of an answer in bytes.
        answer_bytes: usize,
        /// Number of rounds.
        rounds: u64,
    },
    /// Calls of very different lengths, at times that do not depend on earlier ones.
    Mixed {
        /// Number of hosts that call; each calls any server.
        clients: usize,
        /// Number of hosts that answer.
        servers: usize,
        /// Which messages are long.
        long: Long,
        /// Mean utilisation of the links of all servers, in thousandths.
        load_permille: u64,
        /// Number of calls of all clients.
        calls: u64,
    },
}

/// Which messages are long; the others have 64 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Long {
    /// The requests.
    Requests,
    /// The answers.
    Answers,
}

impl Workload {
    /// Number of hosts that call. Their indices precede those that answer.
    pub(super) fn clients(&self) -> usize {
        match self {
            Self::Closed { clients, .. } | Self::Mixed { clients, .. } => *clients,
            Self::Incast { .. } => 1,
        }
    }

    /// Number of hosts that answer.
    pub(super) fn servers(&self) -> usize {
        match self {
            Self::Closed { servers, .. } | Self::Mixed { servers, .. } | Self::Incast { servers, .. } => *servers,
        }
    }
}

/// Length of short messages, in bytes.
pub(super) const SMALL_BYTES: usize = 64;
