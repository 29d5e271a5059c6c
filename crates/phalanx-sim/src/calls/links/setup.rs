//! What is simulated: links, switch, hosts, the endpoints on them, and what they are asked to do.

use phalanx_core::rpc::EndpointLimits;

/// Links, a switch that joins them, hosts at their ends.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Of each link, in each direction, in bits per second.
    pub link_bps: u64,
    /// From the last bit sent to the last bit there: of a host's link to the switch, and of the switch's to a host.
    pub hop_ns: u64,
    /// What may wait at an output port of the switch, in bytes with all headers. What comes beyond is dropped.
    pub port_bytes: u64,
    /// One in so many of a million packets is lost at the switch, whatever waits there.
    pub loss_ppm: u32,
    /// The longest packet of all endpoints, in bytes.
    pub packet_bytes: u32,
    /// What a host's only core needs for each packet it takes or sends.
    pub packet_ns: u64,
    /// A host without work looks for packets this often, at most: one that comes is taken between 0 and so much later.
    pub wake_ns: u64,
    /// What a host's receive buffer may be charged. What comes beyond is dropped, and its endpoint is told of a loss.
    pub receive_bytes: u64,
    /// Of all endpoints.
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

/// What is asked of the endpoints. A message has 8 bytes at least.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Workload {
    /// Each client has so many calls under way and makes the next when one has ended.
    Closed {
        /// Hosts that call.
        clients: usize,
        /// Hosts that answer: client `i` calls server `i` modulo their number.
        servers: usize,
        /// Calls of a client under way.
        at_once: usize,
        /// Length of a request.
        request_bytes: usize,
        /// Length of an answer.
        answer_bytes: usize,
        /// Between the end of a call and the next one.
        think_ns: u64,
        /// No call begins later than this.
        for_ns: u64,
        /// Calls of each client, at most.
        calls: u64,
    },
    /// One client calls all servers at once; when all have answered, the next round begins.
    Incast {
        /// Hosts that answer.
        servers: usize,
        /// Length of an answer.
        answer_bytes: usize,
        /// So often.
        rounds: u64,
    },
    /// Calls of very different lengths, at times that do not depend on how earlier ones fare.
    Mixed {
        /// Hosts that call, each any server.
        clients: usize,
        /// Hosts that answer.
        servers: usize,
        /// What the long messages are.
        long: Long,
        /// How much of the links of all servers is used on average, in thousandths.
        load_permille: u64,
        /// Calls of all clients.
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
    /// Hosts that call; they come before those that answer.
    pub(super) fn clients(&self) -> usize {
        match self {
            Self::Closed { clients, .. } | Self::Mixed { clients, .. } => *clients,
            Self::Incast { .. } => 1,
        }
    }

    /// Hosts that answer.
    pub(super) fn servers(&self) -> usize {
        match self {
            Self::Closed { servers, .. } | Self::Mixed { servers, .. } | Self::Incast { servers, .. } => *servers,
        }
    }
}

/// Messages that only say something.
pub(super) const SMALL_BYTES: usize = 64;
