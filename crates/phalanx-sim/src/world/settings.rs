//! The settings of a world.

use std::time::Duration;

use phalanx_core::Limits;

use crate::classes::{Churn, Crowd, Far};
use crate::memory::MemorySettings;
use crate::minima::Minima;
use crate::plan::{Bursts, Inboxes, Workload};
use crate::tap::TapFile;
use crate::unequal::{Builds, Own};

/// Silence after which simulated processes suspect. It is shorter than the default, so that a run of half a minute has
/// more view changes.
pub const SUSPECT_AFTER: Duration = Duration::from_millis(900);

/// Settings of a world.
#[derive(Clone, Debug, PartialEq)]
pub struct WorldSettings {
    /// The machine of each process; its length is the number of processes.
    pub hosts: Vec<u64>,
    /// Processes that have the name of another one by mistake: the process, and the other one.
    pub twins: Vec<(usize, usize)>,
    /// Processes that continue with a copy of another one's keys and random numbers, like a clone of its machine: the
    /// process, and the other one.
    pub copies: Vec<(usize, usize)>,
    /// Settings in which processes differ; empty: none.
    pub unequal: Vec<Own>,
    /// Earlier and later builds, drawn anew for each incarnation. Processes ask the cell to rise to the later one's
    /// level.
    pub builds: Option<Builds>,
    /// Minimum numbers of members for uniform messages.
    pub minima: Option<Minima>,
    /// Inboxes of groups, if some have one of their own.
    pub inboxes: Option<Inboxes>,
    /// Processes that are always late, and the duration of their iterations in nanoseconds.
    pub late: Vec<(usize, u64)>,
    /// Processes that declare the longest time between two iterations.
    pub turn_gaps: Vec<(usize, Duration)>,
    /// Members that are far from each other.
    pub far: Option<Far>,
    /// The longest exchange between two members, in nanoseconds, for the bounds of the run; 0: all are near and on
    /// time.
    pub exchange_ns: u64,
    /// Processes that join a group without its state: the process, and the group's number among "a", "b" and "m".
    pub stateless: Vec<(usize, usize)>,
    /// Hundreds of groups, if there are.
    pub crowd: Option<Crowd>,
    /// A group that changes all the time, if one does.
    pub churn: Option<Churn>,
    /// Processes that want the group "new", which nobody else has.
    pub askers: Vec<usize>,
    /// The most by which the notice of a death is late, where no operator gives up the groups of the dead.
    pub death_delay_ns: Option<u64>,
    /// Heartbeat interval, and silence after which a member is suspected; `None`: as in campaigns.
    pub patience: Option<(Duration, Duration)>,
    /// Members of the minority group, "m".
    pub minority: Vec<usize>,
    /// Number of processes, counted from the first, that are fixed founders; 0: the first founds alone. The others
    /// join.
    pub founders: usize,
    /// Whether survivors on the same machine are notified of a death.
    pub death_notice: bool,
    /// How processes on one machine share memory, if they do.
    pub memory: Option<MemorySettings>,
    /// Whether packets are sealed; otherwise they bear a checksum.
    pub sealed: bool,
    /// Capacity of each socket in bytes.
    pub buffer_bytes: usize,
    /// Whether processes announce that capacity in packets.
    pub tells_buffers: bool,
    /// Bytes that each process's interface takes in a millisecond; `None`: no bound.
    pub egress: Option<u64>,
    /// The file of what the processes send.
    pub tap: Option<TapFile>,
    /// Duration of an iteration, in nanoseconds.
    pub turn_ns: u64,
    /// Length of the longest packet.
    pub packet_bytes: u32,
    /// Window of all streams of a group, in bytes.
    pub window_bytes: usize,
    /// The applications' own actions; `None`: only those that the script orders.
    pub workload: Option<Workload>,
    /// Abcasts in bursts, beside the workload.
    pub bursts: Option<Bursts>,
    /// Abcasts after which a group's token may pass.
    pub token_tally: u64,
    /// Number of members up to which everybody watches everybody.
    pub watchers: usize,
    /// Time after which a member that holds others back is expelled; `None`: it is waited for.
    pub expel_after: Option<Duration>,
    /// Silence after which a link is suspected.
    pub suspect_after: Duration,
    /// Iterations between two checks of a process's invariants; 1: after each.
    pub check_every: u32,
}

impl WorldSettings {
    /// Duration of an iteration that a process declares, in nanoseconds; 0: it declares nothing.
    pub(crate) fn declared_ns(&self, index: usize) -> u64 {
        let gap = self.turn_gaps.iter().find(|(slot, _)| *slot == index);
        gap.map_or(0, |(_, gap)| u64::try_from(gap.as_nanos()).unwrap_or(u64::MAX))
    }

    /// `members` processes on a machine each, with an idle application.
    #[must_use]
    pub fn quiet(members: usize) -> Self {
        Self {
            hosts: (1..=members as u64).collect(),
            twins: Vec::new(),
            copies: Vec::new(),
            unequal: Vec::new(),
            builds: None,
            minima: None,
            inboxes: None,
            late: Vec::new(),
            turn_gaps: Vec::new(),
            far: None,
            stateless: Vec::new(),
            crowd: None,
            churn: None,
            askers: Vec::new(),
            death_delay_ns: None,
            exchange_ns: 0,
            patience: None,
            minority: Vec::new(),
            founders: 0,
            death_notice: false,
            memory: None,
            sealed: true,
            buffer_bytes: 1 << 20,
            tells_buffers: true,
            egress: None,
            tap: None,
            turn_ns: 5_000,
            packet_bytes: 1472,
            window_bytes: 8 << 20,
            workload: None,
            bursts: None,
            token_tally: Limits::default().token_tally,
            watchers: Limits::default().watchers,
            expel_after: None,
            suspect_after: SUSPECT_AFTER,
            check_every: 1,
        }
    }
}
