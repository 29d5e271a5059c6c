//! The machine on which figures were measured.

use std::fs::read_to_string;

use serde::{Deserialize, Serialize};

/// The facts of a machine that decide what its figures mean.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Always `machine`, which distinguishes this line from those with figures.
    pub suite: String,
    /// The processor's name.
    pub processor: String,
    /// Processors this process may use.
    pub processors: usize,
    /// Memory, in MiB.
    pub memory_mib: u64,
    /// The kernel's release.
    pub kernel: String,
    /// The machine's product name as the system reports it. It names the hypervisor if there is one.
    pub hypervisor: String,
    /// The clock source in use.
    pub clock: String,
    /// The idle driver. It decides what it costs to wake a sleeping processor.
    pub idle: String,
    /// The largest receive buffer an ordinary process may ask for, in bytes.
    pub receive_buffer_max: u64,
    /// The mean number of runnable processes in the minute before.
    pub load: String,
    /// This program's release.
    pub release: String,
    /// The command that was run.
    pub command: String,
    /// Time of the run, in seconds since 1970.
    pub when_s: u64,
}

impl Machine {
    /// The value of `suite` that marks this line.
    pub const SUITE: &'static str = "machine";

    /// Reads the facts of this machine.
    #[must_use]
    pub fn here() -> Self {
        let first = |path: &str| read_to_string(path).unwrap_or_default().trim().to_owned();
        let cpuinfo = first("/proc/cpuinfo");
        let field = |name: &str| {
            let line = cpuinfo.lines().find(|line| line.starts_with(name));
            line.and_then(|line| line.split_once(':')).map_or_else(String::new, |(_, value)| value.trim().to_owned())
        };
        let memory = first("/proc/meminfo");
        let total = memory.split_whitespace().nth(1).and_then(|word| word.parse::<u64>().ok()).unwrap_or(0);
        let flagged = cpuinfo.contains(" hypervisor");
        let product = first("/sys/class/dmi/id/product_name");
        Self {
            suite: Self::SUITE.to_owned(),
            processor: field("model name"),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            memory_mib: total / 1024,
            kernel: first("/proc/sys/kernel/osrelease"),
            hypervisor: if !flagged || !product.is_empty() { product } else { "some virtual machine".to_owned() },
            clock: first("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
            idle: first("/sys/devices/system/cpu/cpuidle/current_driver"),
            receive_buffer_max: first("/proc/sys/net/core/rmem_max").parse().unwrap_or(0),
            load: first("/proc/loadavg").split_whitespace().next().unwrap_or_default().to_owned(),
            release: env!("CARGO_PKG_VERSION").to_owned(),
            command: std::env::args().skip(1).collect::<Vec<_>>().join(" "),
            when_s: std::time::SystemTime::now()
                .duration_since(std::time::UNIX_EPOCH)
                .map_or(0, |since| since.as_secs()),
        }
    }

    /// Name and value of each fact, for people.
    #[must_use]
    pub fn facts(&self) -> Vec<(&'static str, String)> {
        let facts = [
            ("processor", format!("{} ({} usable)", self.processor, self.processors)),
            ("memory", format!("{} MiB", self.memory_mib)),
            ("kernel", self.kernel.clone()),
            ("runs in", self.hypervisor.clone()),
            ("clock", self.clock.clone()),
            ("idle driver", self.idle.clone()),
            ("largest receive buffer", format!("{} B", self.receive_buffer_max)),
            ("load before", self.load.clone()),
            ("release", self.release.clone()),
            ("command", self.command.clone()),
        ];
        facts.into_iter().filter(|(_, value)| !value.is_empty()).collect()
    }
}
