//! The role of a process that makes or answers calls: over which carrier, to whom, and with which settings.

use std::path::PathBuf;
use std::time::Duration;

use phalanx_runtime::rpc::EndpointLimits;
use serde::{Deserialize, Serialize};

use crate::choice::{Security, Transport, Waiting};

/// The means by which calls travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Carrier {
    /// Sessions, with at-most-once execution.
    Reliable,
    /// Datagrams with the same encryption and the same driver, and no session.
    Plain,
    /// A TCP stream of the kernel.
    Tcp,
}

impl Carrier {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Reliable => "reliable",
            Self::Plain => "unreliable",
            Self::Tcp => "TCP",
        }
    }
}

/// A process that runs servers, or clients.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct CallRole {
    pub(crate) carrier: Carrier,
    pub(crate) security: Security,
    pub(crate) wait: Waiting,
    pub(crate) directory: PathBuf,
    /// Number of endpoints of this process. Each has sockets of its own; one thread polls them in order. More than one
    /// endpoint requires [`Waiting::Spin`].
    pub(crate) endpoints: usize,
    pub(crate) transport: Transport,
    /// The servers that each endpoint calls. Empty: this process runs the servers.
    pub(crate) servers: Vec<Place>,
    /// Length of an answer in bytes. `None`: the answer is the request.
    pub(crate) answer: Option<usize>,
    pub(crate) tuning: Tuning,
}

/// Address of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Place {
    pub(crate) port: u16,
    /// The endpoint's shared memory, for peers that reach it without a session.
    pub(super) memory: Option<Memory>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Memory {
    pub(super) life: u64,
    pub(super) pid: u32,
    pub(super) memory: u32,
    pub(super) doorbell: u32,
}

impl Place {
    pub(super) fn of_port(port: u16) -> Self {
        Self { port, memory: None }
    }
}

/// Settings of an endpoint that differ from the defaults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Tuning {
    pub(crate) slots: Option<u8>,
    pub(crate) window_packets: Option<u32>,
    pub(crate) timer_min: Option<Duration>,
    pub(crate) delay_free: Option<Duration>,
    pub(crate) receive_budget_bytes: Option<u64>,
    /// Whether response credit is unlimited, so that answers may exceed the receive buffer.
    pub(crate) unbounded: bool,
    /// Size of the receive buffer to request, in bytes.
    pub(crate) receive_bytes: Option<usize>,
    /// Share of arriving packets to drop on purpose, in parts per million.
    pub(crate) loss_ppm: u32,
}

impl Tuning {
    /// Lists the settings that differ from the defaults, for people.
    pub(crate) fn label(&self) -> String {
        let told = [
            self.slots.map(|slots| format!(", {slots} slots")),
            self.window_packets.map(|packets| format!(", first window {packets}")),
            self.timer_min.map(|timer| format!(", timer {timer:?}")),
            self.delay_free.map(|delay| format!(", free delay {delay:?}")),
            self.receive_budget_bytes.map(|bytes| format!(", receive budget {bytes}")),
            self.unbounded.then(|| ", no response credit".to_owned()),
            self.receive_bytes.map(|bytes| format!(", buffer {bytes}")),
            (self.loss_ppm > 0).then(|| format!(", loss {} ppm", self.loss_ppm)),
        ];
        told.into_iter().flatten().collect()
    }

    pub(super) fn limits(&self) -> EndpointLimits {
        let usual = EndpointLimits::default();
        EndpointLimits {
            slots: self.slots.unwrap_or(usual.slots),
            window_packets: self.window_packets.unwrap_or(usual.window_packets),
            timer_min: self.timer_min.unwrap_or(usual.timer_min),
            delay_free: self.delay_free.unwrap_or(usual.delay_free),
            receive_budget_bytes: self.receive_budget_bytes.unwrap_or(usual.receive_budget_bytes),
            bounds_answers: !self.unbounded,
            ..usual
        }
    }
}
