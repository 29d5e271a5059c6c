//! What a running process may use: its sockets' buffers, its descriptors, its share of a processor. Changed from
//! outside, while it runs.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use rustix::net::sockopt;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, Resource, Rlimit, pidfd_getfd, pidfd_open, prlimit};

use super::lease::{CPU_GROUPS, remove_group};
use crate::exit::{Exit, Failure, While};

/// UDP sockets of a process with hardly any room.
#[derive(Debug)]
pub(super) struct Buffers(Vec<(OwnedFd, usize, usize)>);

/// What is asked for; the kernel gives its minimum, which holds a packet or two.
const SMALL_BYTES: usize = 1;

impl Buffers {
    pub(super) fn shrink(pid: Pid) -> Result<Self, Failure> {
        let doing = "cannot reach the member's sockets";
        let process = pidfd_open(pid, PidfdFlags::empty()).when(doing)?;
        let mut sockets = Vec::new();
        for entry in fs::read_dir(format!("/proc/{}/fd", pid.as_raw_nonzero())).when(doing)? {
            let path = entry.when(doing)?.path();
            let is_socket = fs::read_link(&path).is_ok_and(|to| to.to_string_lossy().starts_with("socket:"));
            let number = path.file_name().and_then(|name| name.to_string_lossy().parse().ok());
            let (true, Some(number)) = (is_socket, number) else { continue };
            // A copy of the descriptor: the same socket.
            let socket = pidfd_getfd(&process, number, PidfdGetfdFlags::empty()).when(doing)?;
            let receive = sockopt::socket_recv_buffer_size(&socket).when(doing)?;
            let send = sockopt::socket_send_buffer_size(&socket).when(doing)?;
            sockopt::set_socket_recv_buffer_size(&socket, SMALL_BYTES).when(doing)?;
            sockopt::set_socket_send_buffer_size(&socket, SMALL_BYTES).when(doing)?;
            sockets.push((socket, receive, send));
        }
        if sockets.is_empty() {
            return Err(Failure::new(Exit::Failure, "the member has no sockets"));
        }
        Ok(Self(sockets))
    }

    pub(super) fn restore(self) -> Result<(), Failure> {
        for (socket, receive, send) in self.0 {
            // The kernel doubles what it is asked for. Beyond its bound only root of the machine may ask.
            let doing = "cannot restore the member's buffers";
            sockopt::set_socket_recv_buffer_size_force(&socket, receive / 2)
                .or_else(|_| sockopt::set_socket_recv_buffer_size(&socket, receive / 2))
                .when(doing)?;
            sockopt::set_socket_send_buffer_size_force(&socket, send / 2)
                .or_else(|_| sockopt::set_socket_send_buffer_size(&socket, send / 2))
                .when(doing)?;
        }
        Ok(())
    }
}

/// A process that may open no descriptor more.
#[derive(Debug)]
pub(super) struct Descriptors {
    pid: Pid,
    before: Rlimit,
}

impl Descriptors {
    pub(super) fn exhaust(pid: Pid) -> Result<Self, Failure> {
        // The hard limit stays, so that the soft one can go up again.
        let none = Rlimit { current: Some(3), maximum: hard_limit(pid) };
        let before = prlimit(Some(pid), Resource::Nofile, none).when("cannot limit the member's descriptors")?;
        Ok(Self { pid, before })
    }

    pub(super) fn restore(self) -> Result<(), Failure> {
        prlimit(Some(self.pid), Resource::Nofile, self.before).when("cannot restore the member's descriptors")?;
        Ok(())
    }
}

/// How many descriptors a process might allow itself.
fn hard_limit(pid: Pid) -> Option<u64> {
    let limits = fs::read_to_string(format!("/proc/{}/limits", pid.as_raw_nonzero())).ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// A process that shares a small part of a processor with a busy one. Ends when dropped.
#[derive(Debug)]
pub(super) struct Quota {
    group: PathBuf,
    /// Where the process was before.
    home: PathBuf,
    pid: Pid,
    busy: Child,
}

const PERIOD_US: u32 = 100_000;
const QUOTA_US: u32 = 5_000;

impl Quota {
    /// Whether control groups of the processor can be made here, and why not.
    pub(super) fn possible() -> Result<(), String> {
        let root = Path::new(CPU_GROUPS);
        let file = root.join("cpu.cfs_quota_us");
        let probe = root.join(format!("phxt{}-probe", std::process::id()));
        let made = fs::create_dir(&probe).and_then(|()| {
            let there = fs::metadata(probe.join("cpu.cfs_quota_us")).map(drop);
            fs::remove_dir(&probe).and(there)
        });
        made.map_err(|error| format!("needs the first version of control groups ({}): {error}", file.display()))
    }

    pub(super) fn impose(name: &str, pid: Pid) -> Result<Self, Failure> {
        let group = Path::new(CPU_GROUPS).join(name);
        let write = |file: &str, text: String| {
            let path = group.join(file);
            fs::write(&path, text).when(format_args!("cannot write {}", path.display()))
        };
        fs::create_dir(&group).when(format_args!("cannot make {}", group.display()))?;
        write("cpu.cfs_period_us", PERIOD_US.to_string())?;
        write("cpu.cfs_quota_us", QUOTA_US.to_string())?;
        let program = std::env::current_exe().when("cannot find this program's own file")?;
        let busy = super::tools::command(&program.to_string_lossy())
            .args(["torture-busy", "--parent", &std::process::id().to_string()])
            .stdin(Stdio::null())
            .spawn()
            .when("cannot start a busy process")?;
        // From here on all is undone when it is dropped.
        let quota = Self { group: group.clone(), home: home_of(pid), pid, busy };
        write("cgroup.procs", quota.busy.id().to_string())?;
        write("cgroup.procs", pid.as_raw_nonzero().to_string())?;
        Ok(quota)
    }
}

impl Quota {
    /// Whether the quota was used up by now.
    pub(super) fn felt(&self) -> bool {
        let stat = fs::read_to_string(self.group.join("cpu.stat")).unwrap_or_default();
        let count = stat.lines().find_map(|line| line.strip_prefix("nr_throttled "));
        count.and_then(|count| count.trim().parse::<u64>().ok()).is_some_and(|count| count > 0)
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        let _ = self.busy.kill();
        let _ = self.busy.wait();
        // Out of the group, before what is in it is ended.
        let _ = fs::write(self.home.join("cgroup.procs"), self.pid.as_raw_nonzero().to_string());
        remove_group(&self.group);
    }
}

/// The control group of the processor that a process is in.
fn home_of(pid: Pid) -> PathBuf {
    let all = fs::read_to_string(format!("/proc/{}/cgroup", pid.as_raw_nonzero())).unwrap_or_default();
    let place = all.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let of_cpu = parts.next()?.split(',').any(|controller| controller == "cpu");
        parts.next().filter(|_| of_cpu)
    });
    Path::new(CPU_GROUPS).join(place.unwrap_or_default().trim_start_matches('/'))
}
