//! Settings of a process from one TOML file, the environment and flags.
//!
//! Flags override `PHALANX_*` variables, which override the file, which overrides the defaults, key by key. An unknown
//! key is an error that names the most similar known one. A duration or size needs its unit. The origin of each value
//! is kept, so that a tool can show it. `docs/configuration.md` describes the keys.

mod error;
mod file;
mod keys;
mod merge;
mod units;

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::Duration;

use phalanx_core::member::FOUNDERS_MAX;
use phalanx_core::{Limits, SlowMembers, TURN_GAP_MAX, Timing};

pub use error::{ConfigError, Origin};
pub use keys::{KEYS, Key};
pub use merge::{Resolved, Shown};
pub use units::{parse_duration, parse_size, show_duration, show_size};

/// A member without progress for a shorter time may only have been busy.
const EXPEL_AFTER_MIN: Duration = Duration::from_secs(1);

/// The longest time that the last members may wait.
const END_WAIT_MAX: Duration = Duration::from_secs(3600);

/// How packets are protected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SecurityMode {
    /// Every packet is authenticated and encrypted with keys from the cell key.
    #[default]
    Sealed,
    /// Packets are neither authenticated nor encrypted: anyone who reaches the port can join and forge.
    None,
}

/// What carries packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DriverMode {
    /// Shared memory with the members on this host that offer it too, datagrams with the others.
    #[default]
    Auto,
    /// Datagrams with all members.
    Udp,
}

/// What a tap may show of a process's packets, to processes of the same user (`docs/tap.md`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum TapMode {
    /// Nothing: there is no socket at which a tap could ask.
    Off,
    /// Packets as they go over the network. Of what goes through memory the header alone.
    #[default]
    Sealed,
    /// Also the frames of all packets in clear.
    Clear,
}

impl TapMode {
    /// Its word in a configuration.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Sealed => "sealed",
            Self::Clear => "clear",
        }
    }
}

/// The settings of one process.
#[derive(Clone, Debug)]
pub struct Config {
    /// The cell's name. Default `default`.
    pub cell: String,
    /// The process's name, unique in its cell. Default: the host's name and the process id.
    pub name: Option<String>,
    /// The address this process receives on. Default 127.0.0.1.
    pub bind: IpAddr,
    /// The UDP port for data; 0 lets the system choose. Default 0.
    pub data_port: u16,
    /// The UDP port for control traffic; 0 lets the system choose. Default 0.
    pub control_port: u16,
    /// What carries packets.
    pub driver: DriverMode,
    /// What a tap may show of its packets.
    pub tap: TapMode,
    /// Seed addresses: control addresses at which to look for the cell, as `host:port`.
    pub seeds: Vec<String>,
    /// The names of the processes that found the cell together; empty: no fixed founders.
    pub founders: Vec<String>,
    /// The file with the cell key. Default, on a loopback address: a file of the user, created on first use.
    pub cell_key: Option<PathBuf>,
    /// How packets are protected.
    pub security: SecurityMode,
    /// The runtime directory, with locks and counters files. Nothing in it must survive a reboot. Default: a directory
    /// of the user.
    pub runtime_dir: Option<PathBuf>,
    /// The state directory, with the local cell key and founders' records. It must survive reboots. Default: a
    /// directory of the user.
    pub state_dir: Option<PathBuf>,
    /// The directory for a trace of everything this process saw. Default: no trace.
    pub trace: Option<PathBuf>,
    /// Timing.
    pub timing: Timing,
    /// Bounds on memory.
    pub limits: Limits,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            cell: "default".to_owned(),
            name: None,
            bind: IpAddr::V4(Ipv4Addr::LOCALHOST),
            data_port: 0,
            control_port: 0,
            driver: DriverMode::Auto,
            tap: TapMode::Sealed,
            seeds: Vec::new(),
            founders: Vec::new(),
            cell_key: None,
            security: SecurityMode::Sealed,
            runtime_dir: None,
            state_dir: None,
            trace: None,
            timing: Timing::default(),
            limits: Limits::default(),
        }
    }
}

impl Config {
    /// Checks settings against each other after all sources were merged. Returns the key at fault and the problem.
    pub(crate) fn conflict(&self) -> Option<(&'static str, String)> {
        if self.data_port != 0 && self.data_port == self.control_port {
            return Some(("control_port", "must differ from data_port: they are two sockets".to_owned()));
        }
        if self.timing.suspect_after < self.timing.heartbeat * 3 {
            return Some((
                "timing.suspect_after",
                format!(
                    "must be at least three heartbeats ({}), or one lost packet excludes a member",
                    show_duration(self.timing.heartbeat * 3)
                ),
            ));
        }
        if self.limits.slow_members == SlowMembers::Expel && self.timing.expel_after < EXPEL_AFTER_MIN {
            return Some((
                "timing.expel_after",
                format!("must be at least {}, or a pause of a member excludes it", show_duration(EXPEL_AFTER_MIN)),
            ));
        }
        if self.timing.turn_gap_max > TURN_GAP_MAX {
            return Some((
                "timing.turn_gap_max",
                format!("must be at most {}: the others believe no longer one", show_duration(TURN_GAP_MAX)),
            ));
        }
        if self.timing.end_wait > END_WAIT_MAX {
            return Some(("timing.end_wait", format!("must be at most {}", show_duration(END_WAIT_MAX))));
        }
        if self.security == SecurityMode::None && self.cell_key.is_some() {
            return Some(("security", "\"none\" and a cell_key contradict each other: remove one".to_owned()));
        }
        if self.limits.outbox_bytes > self.limits.group_window_bytes {
            return Some(("limits.outbox", "must not exceed limits.group_window".to_owned()));
        }
        if let Some(problem) = founders_problem(&self.founders) {
            return Some(("founders", problem));
        }
        if self.limits.members_min > self.limits.members {
            return Some((
                "limits.members_min",
                "must not exceed limits.members: nothing uniform would ever be sent".to_owned(),
            ));
        }
        None
    }
}

/// Checks a list of founders. Returns what is wrong, and what would be right.
pub(crate) fn founders_problem(names: &[String]) -> Option<String> {
    if names.len() > FOUNDERS_MAX {
        return Some(format!(
            "{} names are too many: at most {FOUNDERS_MAX} processes found a cell, and whoever else there is joins it",
            names.len()
        ));
    }
    let mut seen = BTreeSet::new();
    let twice = names.iter().find(|name| !seen.insert(*name))?;
    Some(format!("'{twice}' stands there twice: name each process once"))
}
