//! The content of a liveness lock file. It is written once and never changes.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use phalanx_driver::shm::Offer;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use toml::{Table, Value};

use super::host;

/// How to reach a process, and how to find out whether it lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advert {
    /// The process id, in the namespace below.
    pub pid: u32,
    /// Its process namespace.
    pub pid_namespace: u64,
    /// Its start time; see [`super::host::start_ticks`]. 0: unknown.
    pub start_ticks: u64,
    /// The time namespace in which that start time was read. 0: unknown.
    pub time_namespace: u64,
    /// Its [`super::host::boot_id`]. 0: unknown.
    pub boot: u64,
    /// The process's name in the cell.
    pub name: String,
    /// Where it receives data.
    pub data: SocketAddr,
    /// Where it receives control traffic.
    pub control: SocketAddr,
    /// Its [`super::host::host_id`].
    pub host: u64,
    /// Where its shared memory is; `None`: it shares none.
    pub memory: Option<Offer>,
}

impl Advert {
    /// The advert of this process.
    #[must_use]
    pub fn mine(name: &str, data: SocketAddr, control: SocketAddr) -> Self {
        let pid = std::process::id();
        Self {
            pid,
            pid_namespace: host::namespace("pid"),
            start_ticks: host::start_ticks(pid).unwrap_or(0),
            time_namespace: host::namespace("time"),
            boot: host::boot_id(),
            name: name.to_owned(),
            data,
            control,
            host: host::host_id(),
            memory: None,
        }
    }

    /// The same advert with the process's shared memory.
    #[must_use]
    pub fn with_memory(self, memory: Option<Offer>) -> Self {
        Self { memory, ..self }
    }

    /// Whether the process of the advert has certainly ended, even if a forked child of it still holds its lock.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.find_process().is_gone()
    }

    /// Whether it was written in another boot, or on another machine: process ids say nothing about it here.
    pub(super) fn is_from_elsewhere(&self) -> bool {
        // An earlier build named the host alone, in which the boot is contained.
        if self.boot == 0 { self.host != host::host_id() } else { self.boot != host::boot_id() }
    }

    pub(crate) fn find_process(&self) -> Found {
        if self.is_from_elsewhere() {
            return Found::Unknown;
        }
        Found::by(self.pid, self.pid_namespace, self.start_ticks, self.time_namespace)
    }

    pub(super) fn to_text(&self) -> String {
        let hex = |value: u64| Value::from(format!("{value:016x}"));
        let mut table = Table::from_iter([
            ("format".to_owned(), Value::from(FORMAT)),
            ("pid".to_owned(), Value::from(i64::from(self.pid))),
            ("pid_namespace".to_owned(), hex(self.pid_namespace)),
            ("start_ticks".to_owned(), hex(self.start_ticks)),
            ("time_namespace".to_owned(), hex(self.time_namespace)),
            ("boot".to_owned(), hex(self.boot)),
            ("name".to_owned(), Value::from(self.name.as_str())),
            ("data".to_owned(), Value::from(self.data.to_string())),
            ("control".to_owned(), Value::from(self.control.to_string())),
            ("host".to_owned(), hex(self.host)),
        ]);
        if let Some(Offer { memory, doorbell, .. }) = self.memory {
            table.insert("memory".to_owned(), Value::from(i64::from(memory)));
            table.insert("knock".to_owned(), Value::from(i64::from(doorbell)));
        }
        table.to_string()
    }

    /// Parses an advert; `None`: not one of this format.
    pub(super) fn from_text(text: &str) -> Option<Self> {
        let table: Table = text.parse().ok()?;
        let text = |key: &str| table.get(key)?.as_str();
        let hex = |key: &str| u64::from_str_radix(text(key)?, 16).ok();
        if table.get("format")?.as_integer()? != FORMAT {
            return None;
        }
        let number = |key: &str| u32::try_from(table.get(key)?.as_integer()?).ok();
        let pid = number("pid")?;
        let memory = number("memory").zip(number("knock")).map(|(memory, doorbell)| Offer { pid, memory, doorbell });
        Some(Self {
            pid,
            memory,
            pid_namespace: hex("pid_namespace")?,
            start_ticks: hex("start_ticks")?,
            // Earlier builds do not name these two.
            time_namespace: hex("time_namespace").unwrap_or(0),
            boot: hex("boot").unwrap_or(0),
            name: text("name")?.to_owned(),
            data: text("data")?.parse().ok()?,
            control: text("control")?.parse().ok()?,
            host: hex("host")?,
        })
    }
}

/// What is known of a process.
#[derive(Debug)]
pub(crate) enum Found {
    /// The process that has its id. When that has ended, it has ended too: it is that process, or an earlier one.
    Process(OwnedFd),
    /// It has ended.
    Gone,
    /// It cannot be known: another machine, boot or process namespace, or an old kernel.
    Unknown,
}

impl Found {
    /// Finds a process of this boot by its id.
    ///
    /// Its absence proves the end only in the same process namespace. A process with that id may be another one, if the
    /// id was given again; a start time that differs proves that only where both were read in one time namespace. The
    /// descriptor is opened before the start time is read, so that it is of the process with that start time, or of an
    /// earlier one.
    pub(super) fn by(number: u32, pid_namespace: u64, start_ticks: u64, time_namespace: u64) -> Self {
        let pid = i32::try_from(number).ok().and_then(Pid::from_raw);
        let here = pid_namespace != 0 && pid_namespace == host::namespace("pid");
        let Some(pid) = pid.filter(|_| here) else { return Self::Unknown };
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(process) => {
                let comparable = start_ticks != 0 && time_namespace != 0 && time_namespace == host::namespace("time");
                let was_given_again = |ticks| comparable && ticks != start_ticks;
                if host::start_ticks(number).is_some_and(was_given_again) { Self::Gone } else { Self::Process(process) }
            }
            Err(Errno::SRCH) => Self::Gone,
            Err(_) => Self::Unknown,
        }
    }

    /// Whether it has certainly ended.
    pub(super) fn is_gone(&self) -> bool {
        match self {
            Self::Process(process) => has_ended(process),
            Self::Gone => true,
            Self::Unknown => false,
        }
    }
}

/// Whether the process of a descriptor has ended, all its threads included.
pub(crate) fn has_ended(process: &OwnedFd) -> bool {
    let mut watched = [PollFd::new(process, PollFlags::IN)];
    poll(&mut watched, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|ready| ready > 0)
}

const FORMAT: i64 = 1;
