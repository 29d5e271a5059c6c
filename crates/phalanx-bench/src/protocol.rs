//! The protocol between the benchmark and its processes: one JSON object a line.

use std::collections::BTreeMap;
use std::path::PathBuf;

use phalanx_runtime::core::ViewNumber;
use serde::{Deserialize, Serialize};

use crate::calls::{CallRole, Load, Place};
use crate::choice::{Interface, Medium, Ordering, Security, Transport, Until, Waiting, Want, Way};
use crate::row::Quantiles;

/// The role of a child; the first line it reads.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Role {
    /// The only processor it may use.
    pub(crate) pin: Option<usize>,
    pub(crate) what: What,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum What {
    Member(MemberRole),
    /// A member that uses the library as programs do.
    Interface(InterfaceRole),
    /// Counts the datagrams that arrive.
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
    /// Sends back what arrives. With `timed` it also measures the time of the first half.
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

/// System calls and socket options for streams of datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Stream {
    /// 64 datagrams in a call, and a large receive buffer.
    Batched,
    /// Datagrams segmented and merged by the kernel (GSO and GRO).
    Segmented,
    /// One datagram in a call, and the default receive buffer.
    Plain,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct MemberRole {
    pub(crate) name: String,
    /// The directory in which processes of its cell find each other.
    pub(crate) directory: PathBuf,
    pub(crate) transport: Transport,
    pub(crate) security: Security,
    pub(crate) wait: Waiting,
    /// Share of arriving packets to drop on purpose, in parts per million.
    pub(crate) loss_ppm: Option<u32>,
    /// Silence after which a member is suspected, in milliseconds. `None`: the library's default.
    pub(crate) suspect_after_ms: Option<u64>,
    /// Time after which a member that holds others back is expelled, in milliseconds. `None`: never.
    pub(crate) expel_after_ms: Option<u64>,
    /// The groups it joins.
    pub(crate) groups: Vec<String>,
    /// Bytes that it keeps as the groups' state and gives to joiners.
    pub(crate) state_bytes: usize,
    /// Whether it takes the groups' state when it joins.
    pub(crate) takes_state: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct InterfaceRole {
    pub(crate) name: String,
    /// The directory in which processes of its cell find each other.
    pub(crate) directory: PathBuf,
    pub(crate) interface: Interface,
    pub(crate) transport: Transport,
    pub(crate) security: Security,
    /// How the inline way waits. The others sleep.
    pub(crate) wait: Waiting,
    /// Silence after which a member is suspected, in milliseconds.
    pub(crate) suspect_after_ms: u64,
    /// The groups it joins.
    pub(crate) groups: Vec<String>,
}

/// Commands from the benchmark to a child.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Command {
    /// Report the counters.
    Mark,
    /// Multicast as fast as credit allows, or at a rate.
    Load { ordering: Ordering, size: usize, per_second: Option<f64> },
    /// Stop to multicast.
    Stop,
    /// Measure round trips for `nanos`. Each message waits for `answers` answers.
    /// `to`: the member of this name, by messages to it alone within the group. `None`: all, by multicasts.
    Ping { ordering: Ordering, size: usize, nanos: u64, answers: usize, to: Option<String> },
    /// Answer pings in this way from now on.
    Echo { answer: Answer, ordering: Ordering, size: usize },
    /// For `nanos`, multicast a stamped message every `gap_nanos`.
    Probe { ordering: Ordering, size: usize, nanos: u64, gap_nanos: u64 },
    /// Report the times measured since this was last requested.
    Times,
    /// Report the longest pauses since this was last requested.
    Pauses,
    /// Take at most `per_second` messages a second.
    Take { per_second: Option<f64> },
    /// From now on, hand on every message to the member of this name. `None`: stop doing so.
    Forward { to: Option<String> },
    /// Send messages to the member of this name as fast as it takes them.
    Feed { to: String, size: usize },
    /// For members of the suite `interface`: multicast to the group of this index as fast as possible.
    Offer { group: usize, size: usize, way: Way },
    /// Likewise: for `nanos`, multicast one message after the other, each when the one before has come so far.
    Trips { size: usize, nanos: u64, until: Until },
    /// Likewise: for `nanos`, ask the group one time after the other.
    Ask { ask: AskPlan, nanos: u64 },
    /// For members that use the library inline: for `nanos`, multicast one message after the other, which each other member
    /// answers with one as long, to this member alone.
    ByHand { size: usize, uniform: bool, nanos: u64 },
    /// Likewise: read the inbox of the group of this index, or read it no more.
    Read { group: usize, reads: bool },
    /// Leave the cell.
    Leave,
    /// For servers: the clients that will call.
    Meet { clients: Vec<Place> },
    /// For both: report the counters of your endpoints.
    Count,
    /// For both: record from now on where calls spend their time.
    KeepTrace,
    /// For clients: report the events of the slowest call that is still recorded.
    Slowest,
    /// For servers: report the events in this interval.
    During { from_ns: u64, to_ns: u64 },
    /// For clients: make calls for `nanos`.
    Call { load: Load, nanos: u64 },
    /// For a raw process: begin to send.
    Go { nanos: u64, gap_nanos: u64 },
}

/// How a group is asked. An answer is as long as what is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AskPlan {
    pub(crate) size: usize,
    pub(crate) want: Want,
    /// Whether the asker answers, too.
    pub(crate) with_self: bool,
    pub(crate) uniform: bool,
}

impl AskPlan {
    pub(crate) fn guarantee(&self) -> phalanx::Guarantee {
        guarantee(self.uniform)
    }
}

/// The guarantee of a multicast that is uniform, or plain.
pub(crate) fn guarantee(uniform: bool) -> phalanx::Guarantee {
    if uniform { phalanx::Guarantee::Uniform } else { phalanx::Guarantee::Plain }
}

/// How a member answers a ping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Answer {
    /// It does not answer.
    No,
    /// With a multicast of the same kind.
    Multicast,
    /// With a message to the sender alone.
    Alone,
    /// With a message to the sender alone, within the group.
    ToOne,
}

/// Reports from a child to the benchmark.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Report {
    /// The result of a load of calls.
    Called(Called),
    /// The sum of its endpoints' counters.
    Counted(BTreeMap<String, u64>),
    /// The events of a time trace.
    Happened {
        lines: Vec<(u64, String)>,
    },
    /// The addresses of its endpoints.
    Places(Vec<Place>),
    /// It is ready, and listens at this port if it has one.
    Ready {
        port: u16,
    },
    /// A view of a group was installed.
    View {
        group: String,
        view: ViewNumber,
        members: usize,
        at_ns: u64,
    },
    Mark(Mark),
    /// The command has been carried out.
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

/// The result of a load of calls.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Called {
    pub(crate) times: Quantiles,
    /// Time for which calls were made, in nanoseconds.
    pub(crate) nanos: u64,
    /// Answers of each endpoint in that time.
    pub(crate) answered: Vec<u64>,
    /// Bytes of these answers.
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

    /// Answers per second.
    pub(crate) fn rate(&self) -> f64 {
        self.answered.iter().sum::<u64>() as f64 / self.seconds()
    }

    /// Bytes of answers per second.
    pub(crate) fn byte_rate(&self) -> f64 {
        self.bytes as f64 / self.seconds()
    }

    /// Answers of the endpoint with the most, divided by those of the one with the fewest.
    pub(crate) fn greatest_share(&self) -> f64 {
        let least = self.answered.iter().min().copied().unwrap_or(0).max(1);
        self.answered.iter().max().copied().unwrap_or(0) as f64 / least as f64
    }
}

/// Counters of a child at one moment.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Mark {
    pub(crate) at_ns: u64,
    /// Multicasts delivered, messages to it alone, and its own messages that were accepted.
    pub(crate) delivered: u64,
    pub(crate) messages: u64,
    pub(crate) accepted: u64,
    /// Multicasts delivered in a second group.
    pub(crate) delivered_beside: u64,
    pub(crate) cpu_ns: u64,
    pub(crate) sent_packets: u64,
    pub(crate) received_packets: u64,
    /// Packets the kernel dropped because the receive buffer was full.
    pub(crate) kernel_drops: u64,
    pub(crate) retransmissions: u64,
}

/// The longest times without a send, or without a delivery.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Pauses {
    pub(crate) send_ns: u64,
    pub(crate) delivery_ns: u64,
}

impl Mark {
    fn seconds_since(&self, earlier: &Self) -> f64 {
        (self.at_ns.saturating_sub(earlier.at_ns)).max(1) as f64 / 1e9
    }

    /// Deliveries per second between `earlier` and `self`.
    pub(crate) fn delivery_rate(&self, earlier: &Self) -> f64 {
        self.delivered.saturating_sub(earlier.delivered) as f64 / self.seconds_since(earlier)
    }

    /// Deliveries in a second group, per second, between `earlier` and `self`.
    pub(crate) fn rate_beside(&self, earlier: &Self) -> f64 {
        self.delivered_beside.saturating_sub(earlier.delivered_beside) as f64 / self.seconds_since(earlier)
    }

    /// Messages to it alone, per second, between `earlier` and `self`.
    pub(crate) fn message_rate(&self, earlier: &Self) -> f64 {
        self.messages.saturating_sub(earlier.messages) as f64 / self.seconds_since(earlier)
    }

    /// Acceptances per second between `earlier` and `self`.
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
