//! The plan of one seed: the cell's shape, workload and faults. It is a *swarm*: each seed uses a random part of the
//! fault kinds at random strengths, so that rare combinations occur without all kinds at once.

mod draw;

use std::time::Duration;

use crate::classes::{Churn, Class, Crowd, Far};
use crate::clock::{MS, SECOND};
use crate::fault::Fault;
use crate::memory::MemorySettings;
use crate::minima::Minima;
use crate::pace::Pieces;
use crate::partial::Partial;
use crate::rare::Rare;
use crate::states::{SLOW, StateKind};
use crate::unequal::{Builds, Own};
use crate::weather::Weather;

/// The plan of one seed.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Number of processes at the start.
    pub members: usize,
    /// The machine of each process. Equal numbers share one.
    pub hosts: Vec<u64>,
    /// Number of processes, counted from the first, that are fixed founders; 0: the first founds alone. The others
    /// join.
    pub founders: usize,
    /// Whether survivors on the same machine are notified of a death.
    pub death_notice: bool,
    /// How processes on one machine share memory, if they do.
    pub memory: Option<MemorySettings>,
    /// Whether packets are sealed; otherwise they bear a checksum.
    pub sealed: bool,
    /// The weather outside of faults.
    pub weather: Weather,
    /// Capacity of each socket in bytes.
    pub buffer_bytes: usize,
    /// Whether processes announce that capacity, so that windows stay within it.
    pub tells_buffers: bool,
    /// Bytes that each process's interface takes in a millisecond; `None`: no bound.
    pub egress: Option<u64>,
    /// Length of the longest packet.
    pub packet_bytes: u32,
    /// Window of all streams of a group, in bytes.
    pub window_bytes: usize,
    /// Duration of an event-loop iteration.
    pub turn_ns: u64,
    /// Behaviour of the applications.
    pub workload: Workload,
    /// Whether faults may leave less than a quorum for good.
    pub lethal: bool,
    /// Whether there is only loss, jitter and short pauses, so that no member may be excluded.
    pub mild: bool,
    /// Whether a minority stays broken for good after the heal.
    pub ruin: bool,
    /// The paths that break in part after the heal, for good.
    pub partial: Option<Partial>,
    /// Whether all processes start at the same instant.
    pub herd: bool,
    /// Number of members up to which everybody watches everybody.
    pub watchers: usize,
    /// Time after which a member that holds others back is expelled; `None`: it is waited for.
    pub expel_after: Option<Duration>,
    /// Settings in which processes differ; empty: none.
    pub unequal: Vec<Own>,
    /// Earlier and later builds of processes, if they differ.
    pub builds: Option<Builds>,
    /// Minimum numbers of members for uniform messages.
    pub minima: Option<Minima>,
    /// Inboxes of groups, if some have one of their own.
    pub inboxes: Option<Inboxes>,
    /// Processes that are always late, and the duration of their iterations in nanoseconds.
    pub late: Vec<(usize, u64)>,
    /// Processes that declare the longest time between two iterations.
    pub turn_gaps: Vec<(usize, Duration)>,
    /// Members that are far from each other, if some are.
    pub far: Option<Far>,
    /// Members of the minority group.
    pub minority: Vec<usize>,
    /// The user's state that the groups have in place of the simulator's own messages, if they have one.
    pub state: Option<StateKind>,
    /// How slowly states are given away, if they are slow.
    pub pieces: Option<Pieces>,
    /// A process that has a founder's name by mistake: the process, and the founder.
    pub twin: Option<(usize, usize)>,
    /// A condition that ordinary plans hardly ever meet.
    pub rare: Option<Rare>,
    /// Processes that join a group without its state: the process, and the group's number among "a", "b" and "m".
    pub stateless: Vec<(usize, usize)>,
    /// Hundreds of groups, if there are.
    pub crowd: Option<Crowd>,
    /// A group that changes all the time, if one does.
    pub churn: Option<Churn>,
    /// The most by which the notice of a death is late, in nanoseconds, where the cell has to manage with it: then no
    /// operator gives up the groups of the dead.
    pub death_delay_ns: Option<u64>,
    /// The class of circumstances that it has.
    pub class: Option<Class>,
    /// Abcasts after which a group's token may pass.
    pub token_tally: u64,
    /// Abcasts in bursts, beside the workload.
    pub bursts: Option<Bursts>,
    /// End of the faulty phase.
    pub heal_ns: u64,
    /// Faults, in the order drawn.
    pub faults: Vec<Fault>,
}

/// Behaviour of the applications of a seed. Rates are in a million deliveries or messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workload {
    /// Mean time between two multicasts of a process.
    pub gap_ns: u64,
    /// Weights of fifo, causal, total.
    pub orders: [u32; 3],
    /// Multicasts requested as uniform.
    pub uniform_ppm: u32,
    /// Messages that are long.
    pub long_ppm: u32,
    /// Length of the longest message, in bytes.
    pub long_bytes: u64,
    /// Deliveries that are answered with a causal multicast.
    pub reply_ppm: u32,
    /// Processes in group "b", of those that could be.
    pub second_group_ppm: u32,
    /// Padding of a group's state in bytes, so that a transfer takes a while.
    pub state_bytes: u64,
    /// Mean time between two leave-and-rejoins of a process; 0: never.
    pub regroup_ns: u64,
    /// Multicasts that are operations on the registers, locks and bank of group "a".
    pub operations_ppm: u32,
    /// Steps in which a process sends to one member of a group.
    pub to_one_ppm: u32,
    /// Steps in which a process asks a group.
    pub ask_ppm: u32,
    /// Steps in which a process submits to the state of a group.
    pub submit_ppm: u32,
    /// Whether the processes' programs have versions, with more domains in later ones.
    pub has_domains: bool,
}

impl Workload {
    /// About ten small messages a second from each process, of all kinds.
    pub const USUAL: Self = Self {
        gap_ns: 100 * MS,
        orders: [1, 1, 2],
        uniform_ppm: 300_000,
        long_ppm: 10_000,
        long_bytes: 40_000,
        reply_ppm: 20_000,
        second_group_ppm: 600_000,
        state_bytes: 4_000,
        regroup_ns: 0,
        operations_ppm: 300_000,
        to_one_ppm: 200_000,
        ask_ppm: 100_000,
        submit_ppm: 100_000,
        has_domains: false,
    };
}

/// Bursts of abcasts in group "a", in spells with silence between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bursts {
    /// Members that alternate in a spell; each spell has others.
    pub senders: usize,
    /// Bursts of one member before the next one sends.
    pub turns: u64,
    /// Abcasts in one burst.
    pub messages: u64,
    /// Time between two bursts, in nanoseconds.
    pub gap_ns: u64,
    /// Duration of a spell.
    pub spell_ns: u64,
    /// Duration of the silence after it. If a fault strikes during the silence, a spell begins at once.
    pub rest_ns: u64,
    /// Uniform messages in a million.
    pub uniform_ppm: u32,
}

/// The inboxes of the groups at each process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inboxes {
    /// For each process, those of groups "a", "b" and "m".
    pub(crate) layouts: Vec<[u32; 3]>,
    /// Whether a group that a process joins again gets the next inbox.
    pub(crate) moves: bool,
}

/// Time from the quiet phase's begin to one common view of all.
pub(crate) const SETTLE_NS: u64 = 10 * SECOND;

/// Gives a plan a user's state, if its seed has one. A thousand groups are enough without.
pub(crate) fn add_state(plan: &mut Plan, kind: Option<StateKind>) {
    plan.state = kind.filter(|_| plan.crowd.is_none());
    if plan.state == Some(StateKind::Slow) {
        plan.pieces = plan.pieces.or(Some(SLOW));
    }
}
