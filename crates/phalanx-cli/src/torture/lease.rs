//! Resources that a run creates on the machine, and their removal by the next run if the run was killed.
//!
//! Every run holds a lock on a file of its own, which names its directory. Namespaces and control groups carry the
//! run's prefix. If no process holds a file's lock, its run is dead, and everything that belongs to it is removed.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process};

use super::limits::unmount;
use super::tools::run;
use crate::exit::{Exit, Failure, While};

/// The resources of this run. All are removed on drop.
#[derive(Debug)]
pub(super) struct Lease {
    prefix: String,
    path: PathBuf,
    /// Whether the work directory is kept.
    keep: bool,
    work: PathBuf,
    /// Locked as long as the run lives.
    _lock: File,
}

/// Directory of the lock files.
const LOCKS: &str = "/run/phalanx-torture";

/// Prefix in a lock file of a directory that the user requested: it is kept, whatever becomes of the run.
const KEPT: &str = "kept ";

/// Root of the processor's control groups.
pub(super) const CPU_GROUPS: &str = "/sys/fs/cgroup/cpu";

impl Lease {
    /// Removes the resources of dead runs, and registers this one. `work` is the requested directory, which must not
    /// exist.
    pub(super) fn take(work: Option<&Path>) -> Result<Self, Failure> {
        fs::create_dir_all(LOCKS).when(format_args!("cannot make {LOCKS}"))?;
        sweep_dead()?;
        let prefix = format!("phxt{}-", std::process::id());
        let path = Path::new(LOCKS).join(format!("{prefix}lock"));
        let kept = work.is_some();
        let work = work.map_or_else(
            || std::env::temp_dir().join(format!("phalanx-torture-{}", std::process::id())),
            Path::to_path_buf,
        );
        make_directory(&work)?;
        let work = work.canonicalize().when(format_args!("cannot find {}", work.display()))?;
        // It is locked before it names a directory, so that no other run takes that for a dead run's.
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path);
        let file = file.when(format_args!("cannot write {}", path.display()))?;
        flock(&file, FlockOperation::NonBlockingLockExclusive).when(format_args!("cannot lock {}", path.display()))?;
        let told = format!("{}{}", if kept { KEPT } else { "" }, work.display());
        fs::write(&path, told).when(format_args!("cannot write {}", path.display()))?;
        Ok(Self { prefix, path, keep: kept, work, _lock: file })
    }

    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    pub(super) fn work(&self) -> &Path {
        &self.work
    }

    /// Keeps the work directory when this run ends.
    pub(super) fn keep(&mut self) {
        self.keep = true;
    }

    /// Kills the processes in this run's namespaces and control groups and removes these, so that the next cell starts
    /// anew.
    pub(super) fn sweep(&self) {
        sweep(&self.prefix);
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        sweep(&self.prefix);
        if !self.keep {
            let _ = fs::remove_dir_all(&self.work);
        }
        let _ = fs::remove_file(&self.path);
    }
}

fn make_directory(path: &Path) -> Result<(), Failure> {
    use std::os::unix::fs::DirBuilderExt;
    // Creation fails if the directory exists, so no other program's directory is ever used or emptied.
    fs::DirBuilder::new()
        .mode(0o700)
        .create(path)
        .map_err(|error| Failure::new(Exit::Usage, format!("cannot make {}: {error}", path.display())))
}

/// Removes the resources of runs that were killed.
fn sweep_dead() -> Result<(), Failure> {
    let doing = || format!("cannot list {LOCKS}");
    for entry in fs::read_dir(LOCKS).when(doing())? {
        let path = entry.when(doing())?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Some(prefix) = name.strip_suffix("lock").filter(|prefix| prefix.starts_with("phxt")) else { continue };
        let Ok(file) = File::open(&path) else { continue };
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            continue;
        }
        crate::notice::say(format_args!("removing what a run left that was killed ({prefix})"));
        sweep(prefix);
        let told = fs::read_to_string(&path).unwrap_or_default();
        let work = PathBuf::from(told.strip_prefix(KEPT).unwrap_or(&told));
        if work.is_absolute() {
            unmount_all(&work);
        }
        // Only a directory with a name of this program is removed, even if the file says otherwise.
        let own = work.file_name().is_some_and(|name| name.to_string_lossy().starts_with("phalanx-torture-"));
        if own && work.is_absolute() && !told.starts_with(KEPT) {
            let _ = fs::remove_dir_all(&work);
        }
        let _ = fs::remove_file(&path);
    }
    Ok(())
}

/// Kills all processes in namespaces and control groups of that prefix, and removes these. Errors are ignored: a
/// resource is gone already, or the next run removes it.
fn sweep(prefix: &str) {
    let listed = run("ip", &["netns", "list"]).unwrap_or_default();
    let mine = listed.lines().filter_map(|line| line.split_whitespace().next()).filter(|name| name.starts_with(prefix));
    for namespace in mine {
        for pid in run("ip", &["netns", "pids", namespace]).unwrap_or_default().split_whitespace() {
            kill(pid);
        }
        let _ = run("ip", &["netns", "delete", namespace]);
    }
    let group = Path::new(CPU_GROUPS).join(format!("{prefix}quota"));
    if group.exists() {
        remove_group(&group);
    }
}

/// Unmounts the file systems that a run mounted in its directory.
fn unmount_all(work: &Path) {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let places = mounts.lines().filter_map(|line| line.split(' ').nth(1)).map(Path::new);
    places.filter(|place| place.starts_with(work)).for_each(unmount);
}

/// Kills the processes in a control group and removes it.
pub(super) fn remove_group(group: &Path) {
    // The kernel removes a group only after its last process is gone, which takes a moment.
    for _ in 0..50 {
        for pid in fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default().split_whitespace() {
            kill(pid);
        }
        if fs::remove_dir(group).is_ok() || !group.exists() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

fn kill(pid: &str) {
    if let Some(pid) = pid.parse().ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, Signal::KILL);
    }
}
