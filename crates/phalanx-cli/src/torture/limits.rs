//! Limits of a running process, changed from outside: its sockets' buffers, its descriptors, its share of a processor,
//! its disk.

use std::fs;
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use rustix::net::sockopt;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, Resource, Rlimit, pidfd_getfd, pidfd_open, prlimit};

use super::lease::{CPU_GROUPS, remove_group};
use super::tools::run;
use crate::exit::{Exit, Failure, While};

/// The UDP sockets of a process with minimal buffers. Holds their earlier sizes.
#[derive(Debug)]
pub(super) struct Buffers(Vec<(OwnedFd, usize, usize)>);

/// The requested buffer size. The kernel grants its minimum, which holds a packet or two.
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
            // `pidfd_getfd` duplicates the descriptor, so options set here apply to the member's socket.
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
            // The kernel reports twice the requested size, so half is requested. Only `SO_RCVBUFFORCE` as root exceeds
            // the system's bound.
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

/// A process that may open no more descriptors.
#[derive(Debug)]
pub(super) struct Descriptors {
    pid: Pid,
    before: Rlimit,
}

impl Descriptors {
    pub(super) fn exhaust(pid: Pid) -> Result<Self, Failure> {
        // The hard limit stays, so that the soft one can be raised again.
        let none = Rlimit { current: Some(3), maximum: hard_limit(pid) };
        let before = prlimit(Some(pid), Resource::Nofile, none).when("cannot limit the member's descriptors")?;
        Ok(Self { pid, before })
    }

    pub(super) fn restore(self) -> Result<(), Failure> {
        prlimit(Some(self.pid), Resource::Nofile, self.before).when("cannot restore the member's descriptors")?;
        Ok(())
    }
}

/// The hard limit of a process's descriptors.
fn hard_limit(pid: Pid) -> Option<u64> {
    let limits = fs::read_to_string(format!("/proc/{}/limits", pid.as_raw_nonzero())).ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// A small file system of its own, unmounted on drop. No process may use it any more then.
#[derive(Debug)]
pub(super) struct Disk(PathBuf);

/// Size of the file system: it holds the few small files of a state directory.
const DISK: &str = "size=256k,mode=700";
/// Name of the file that fills it.
const FILLER: &str = "filler";

impl Disk {
    pub(super) fn make(place: &Path) -> Result<Self, Failure> {
        fs::create_dir_all(place).when(format_args!("cannot make {}", place.display()))?;
        run("mount", &["-t", "tmpfs", "-o", DISK, "none", &place.to_string_lossy()])?;
        Ok(Self(place.to_path_buf()))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        unmount(&self.0);
    }
}

/// Unmounts the file system at `place`. Processes that have it open keep their view of it (lazy unmount).
pub(super) fn unmount(place: &Path) {
    let _ = run("umount", &["--lazy", &place.to_string_lossy()]);
}

/// Fills the file system of a directory.
pub(super) fn fill(place: &Path) -> Result<(), Failure> {
    let path = place.join(FILLER);
    let doing = format!("cannot write {}", path.display());
    let mut file = fs::File::create(&path).when(&doing)?;
    loop {
        match file.write(&[0; 4_096]) {
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::StorageFull => return Ok(()),
            Err(error) => return Err(error).when(&doing),
        }
    }
}

/// Whether the file system is full.
pub(super) fn is_full(place: &Path) -> bool {
    rustix::fs::statvfs(place).is_ok_and(|now| now.f_bavail == 0)
}

/// Removes the file of [`fill`].
pub(super) fn empty(place: &Path) -> Result<(), Failure> {
    let path = place.join(FILLER);
    fs::remove_file(&path).when(format_args!("cannot remove {}", path.display()))
}

/// Whether a process is stopped, as by SIGSTOP: all its threads are. One of them takes the signal and stops the others.
pub(super) fn is_stopped(pid: Pid) -> bool {
    let Ok(threads) = fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero())) else { return false };
    let mut states = threads.map(|thread| fs::read_to_string(thread?.path().join("stat")));
    states.all(|stat| {
        // The process name before it, in brackets, may contain anything, brackets too.
        stat.is_ok_and(|stat| stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('T')))
    })
}

/// A process that shares a small part of a processor with a busy one. Undone on drop.
#[derive(Debug)]
pub(super) struct Quota {
    group: PathBuf,
    /// The control group in which the process was before.
    home: PathBuf,
    pid: Pid,
    busy: Child,
}

const PERIOD_US: u32 = 100_000;
const QUOTA_US: u32 = 5_000;

impl Quota {
    /// Whether control groups of the processor can be created here; the error says why not.
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
        // From here on drop undoes everything, also after an error.
        let quota = Self { group: group.clone(), home: home_of(pid), pid, busy };
        // Both in one group, so that they share its quota.
        write("cgroup.procs", quota.busy.id().to_string())?;
        write("cgroup.procs", pid.as_raw_nonzero().to_string())?;
        Ok(quota)
    }
}

impl Quota {
    /// Whether the quota has throttled the group by now.
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
        // Moves the member out of the group before the processes in it are killed.
        let _ = fs::write(self.home.join("cgroup.procs"), self.pid.as_raw_nonzero().to_string());
        remove_group(&self.group);
    }
}

/// The processor's control group of a process.
fn home_of(pid: Pid) -> PathBuf {
    let all = fs::read_to_string(format!("/proc/{}/cgroup", pid.as_raw_nonzero())).unwrap_or_default();
    let place = all.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let of_cpu = parts.next()?.split(',').any(|controller| controller == "cpu");
        parts.next().filter(|_| of_cpu)
    });
    Path::new(CPU_GROUPS).join(place.unwrap_or_default().trim_start_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_runs_is_not_stopped() {
        assert!(!is_stopped(rustix::process::getpid()));
        assert!(!is_full(&std::env::temp_dir()));
    }
}
