//! What the benchmark and its processes say to each other: JSON, one object a line.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::calls::{CallRole, Load, Place};
use crate::choice::{Medium, Ordering, Security, Transport, Waiting};
use crate::row::Quantiles;

/// What a child is; the first line it reads.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Role {
    /// The only processor it may use.
    pub(crate) pin: Option<usize>,
    pub(crate) what: What,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum What {
    Member(MemberRole),
    /// Counts what comes.
    Sink {
        medium: Medium,
        size: usize,
        how: Stream,
        ring: Option<PathBuf>,
    },
    /// Sends as fast as it can.
    Source {
        medium: Medium,
        size: usize,
        how: Stream,
        ports: Vec<u16>,
        ring: Option<PathBuf>,
    },
    /// Sends back what comes; `timed`: and measures how long it was under way.
    Echo {
        medium: Medium,
        wait: Waiting,
        rings: Option<[PathBuf; 2]>,
        timed: bool,
    },
    /// Servers of calls, or their clients.
    Calls(CallRole),
    /// Measures round trips to an echo.
    Ping {
        medium: Medium,
        size: usize,
        wait: Waiting,
        port: u16,
        rings: Option<[PathBuf; 2]>,
    },
}

/// How datagrams are streamed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Stream {
    /// 64 in a call, and a large receive buffer.
    Batched,
    /// Segmented and merged by the kernel.
    Segmented,
    /// One in a call, and the buffer that every socket has.
    Plain,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct MemberRole {
    pub(crate) name: String,
    /// Where processes of its cell find each other.
    pub(crate) directory: PathBuf,
    pub(crate) transport: Transport,
    pub(crate) security: Security,
    pub(crate) wait: Waiting,
    /// Share of arrivals lost on purpose, in millionths.
    pub(crate) loss_ppm: Option<u32>,
    /// Silent this long, a member is suspected, in milliseconds; else as the library has it.
    pub(crate) suspect_after_ms: Option<u64>,
    /// A member that holds others back for so many milliseconds is expelled; else it is waited for.
    pub(crate) expel_after_ms: Option<u64>,
    /// The groups it joins.
    pub(crate) groups: Vec<String>,
    /// What it keeps as the groups' state and gives to joiners.
    pub(crate) state_bytes: usize,
    /// Takes the groups' state when it joins.
    pub(crate) takes_state: bool,
}

/// From the benchmark to a child.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Command {
    /// Tell where you stand.
    Mark,
    /// Multicast as fast as there is credit, or so many a second.
    Load { ordering: Ordering, size: usize, per_second: Option<f64> },
    /// No more.
    Stop,
    /// Measure round trips for so long: each message waits for so many answers.
    Ping { ordering: Ordering, size: usize, nanos: u64, answers: usize },
    /// Answer pings in this way from now on.
    Echo { answer: Answer, ordering: Ordering, size: usize },
    /// Multicast a stamped message each gap for so long.
    Probe { ordering: Ordering, size: usize, nanos: u64, gap_nanos: u64 },
    /// Tell the times measured since this was last asked.
    Times,
    /// Tell the longest pauses since this was last asked.
    Pauses,
    /// Take no more than so many messages in a second.
    Take { per_second: Option<f64> },
    /// Hand on every message that comes to the member of this name, from now on; or no more.
    Forward { to: Option<String> },
    /// Send messages to the member of this name as fast as it takes them.
    Feed { to: String, size: usize },
    /// Leave the cell.
    Leave,
    /// For servers: who will call.
    Meet { clients: Vec<Place> },
    /// For both: tell what your endpoints have counted.
    Count,
    /// For both: note from now on where calls spend their time.
    KeepTrace,
    /// For clients: what happened in the slowest call that is still known.
    Slowest,
    /// For servers: what happened meanwhile.
    During { from_ns: u64, to_ns: u64 },
    /// For clients: make calls for so long.
    Call { load: Load, nanos: u64 },
    /// For a raw process: begin to send.
    Go { nanos: u64, gap_nanos: u64 },
}

/// How a member answers a ping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Answer {
    /// Not.
    No,
    /// With a multicast of the same kind.
    Multicast,
    /// With a message to the sender alone.
    Alone,
}

/// From a child to the benchmark.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Report {
    /// What became of the calls.
    Called(Called),
    /// What its endpoints have counted, all together.
    Counted(BTreeMap<String, u64>),
    /// What happened, and when.
    Happened {
        lines: Vec<(u64, String)>,
    },
    /// Where its endpoints are.
    Places(Vec<Place>),
    /// It listens at this port; or it is ready, and has none.
    Ready {
        port: u16,
    },
    /// A view of a group was installed.
    View {
        group: String,
        view: u64,
        members: usize,
        at_ns: u64,
    },
    Mark(Mark),
    /// What was asked for is over.
    Done,
    Times(Quantiles),
    Pauses(Pauses),
    /// The state of a group is complete.
    State {
        at_ns: u64,
        bytes: u64,
    },
    Left,
    Failed {
        why: String,
    },
}

/// What became of a load of calls.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Called {
    pub(crate) times: Quantiles,
    /// How long calls were made.
    pub(crate) nanos: u64,
    /// Answers of each endpoint in that time.
    pub(crate) answered: Vec<u64>,
    /// Their bytes.
    pub(crate) bytes: u64,
    /// Calls without an answer.
    pub(crate) failed: u64,
    /// Packets that the kernel dropped because the clients' receive buffers were full.
    pub(crate) kernel_drops: u64,
}

impl Called {
    fn seconds(&self) -> f64 {
        self.nanos.max(1) as f64 / 1e9
    }

    /// Answers in a second.
    pub(crate) fn rate(&self) -> f64 {
        self.answered.iter().sum::<u64>() as f64 / self.seconds()
    }

    /// Bytes of answers in a second.
    pub(crate) fn byte_rate(&self) -> f64 {
        self.bytes as f64 / self.seconds()
    }

    /// Answers of the endpoint that had the most, for each of the one that had the fewest.
    pub(crate) fn greatest_share(&self) -> f64 {
        let least = self.answered.iter().min().copied().unwrap_or(0).max(1);
        self.answered.iter().max().copied().unwrap_or(0) as f64 / least as f64
    }
}

/// Where a child stands.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Mark {
    pub(crate) at_ns: u64,
    /// Multicasts that it took, messages for it alone, and what of its own was taken.
    pub(crate) delivered: u64,
    pub(crate) messages: u64,
    pub(crate) accepted: u64,
    pub(crate) cpu_ns: u64,
    pub(crate) sent_packets: u64,
    pub(crate) received_packets: u64,
    /// Packets the kernel dropped because the receive buffer was full.
    pub(crate) kernel_drops: u64,
    pub(crate) retransmissions: u64,
}

/// The longest times in which nothing of a kind happened.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Pauses {
    pub(crate) send_ns: u64,
    pub(crate) delivery_ns: u64,
}

impl Mark {
    fn seconds_since(&self, earlier: &Self) -> f64 {
        (self.at_ns.saturating_sub(earlier.at_ns)).max(1) as f64 / 1e9
    }

    /// Deliveries in a second from `earlier` to this.
    pub(crate) fn delivery_rate(&self, earlier: &Self) -> f64 {
        self.delivered.saturating_sub(earlier.delivered) as f64 / self.seconds_since(earlier)
    }

    /// Messages for it alone, in a second from `earlier` to this.
    pub(crate) fn message_rate(&self, earlier: &Self) -> f64 {
        self.messages.saturating_sub(earlier.messages) as f64 / self.seconds_since(earlier)
    }

    /// Acceptances in a second from `earlier` to this.
    pub(crate) fn acceptance_rate(&self, earlier: &Self) -> f64 {
        self.accepted.saturating_sub(earlier.accepted) as f64 / self.seconds_since(earlier)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_read_back() {
        let role = Role {
            pin: Some(1),
            what: What::Sink { medium: Medium::Datagrams, size: 1, how: Stream::Batched, ring: None },
        };
        let line = serde_json::to_string(&role).expect("plain data");
        assert!(!line.contains('\n'));
        assert_eq!(serde_json::from_str::<Role>(&line).expect("own line").pin, Some(1));
        let command = Command::Load { ordering: Ordering::Uniform, size: 100, per_second: Some(0.5) };
        let line = serde_json::to_string(&command).expect("plain data");
        assert!(matches!(serde_json::from_str(&line), Ok(Command::Load { per_second: Some(_), .. })));
    }

    #[test]
    fn a_rate_is_per_second() {
        let first = Mark { at_ns: 1_000, delivered: 5, ..Mark::default() };
        let second = Mark { at_ns: 1_000 + 500_000_000, delivered: 105, ..Mark::default() };
        assert!((second.delivery_rate(&first) - 200.0).abs() < 1e-6);
    }
}
