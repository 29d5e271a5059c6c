//! Identifies the machine, its namespaces, and a process beyond its process id.

use std::fs;
use std::os::unix::fs::MetadataExt;

/// The machine in the sense of [`phalanx_core::MemberInfo::host`]. It is equal for two processes exactly if they share
/// a boot of an operating system, its network namespace and its process namespace. Never 0 where `/proc` can be read.
#[must_use]
pub fn host_id() -> u64 {
    let Some(boot) = boot() else { return 0 };
    let (net, pid) = (namespace("net"), namespace("pid"));
    fnv1a(&[boot.as_bytes(), &net.to_le_bytes(), &pid.to_le_bytes()]).max(1)
}

/// This boot of this machine, whatever the namespaces are. 0 where `/proc` cannot be read.
#[must_use]
pub fn boot_id() -> u64 {
    boot().map_or(0, |boot| fnv1a(&[boot.as_bytes()]).max(1))
}

fn boot() -> Option<String> {
    Some(fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?.trim().to_owned())
}

/// The number of this process's namespace of that kind; 0 if unknown.
#[must_use]
pub fn namespace(kind: &str) -> u64 {
    fs::metadata(format!("/proc/self/ns/{kind}")).map_or(0, |namespace| namespace.ino())
}

/// The start time of a process, in the kernel's ticks. Two processes that had the same process id one after the other
/// differ in it. So does one process that is looked at from two time namespaces. `None`: there is no such process, or
/// `/proc` does not show it, or shows the processes of another process namespace.
#[must_use]
pub fn start_ticks(pid: u32) -> Option<u64> {
    let myself = fs::read_link("/proc/self").ok()?;
    if myself.to_str()?.parse() != Ok(std::process::id()) {
        return None;
    }
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the program's name in parentheses, which may hold any character, so the search is from the
    // right.
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_ascii_whitespace().nth(START_FIELD)?.parse().ok()
}

/// FNV-1a over the parts, each preceded by its length. Small and stable; no protection against adversaries.
pub(crate) fn fnv1a(parts: &[&[u8]]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut take = |bytes: &[u8]| {
        for byte in bytes {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    };
    for part in parts {
        take(&(part.len() as u64).to_le_bytes());
        take(part);
    }
    hash
}

/// `starttime` is field 22 of `/proc/<pid>/stat`. The fields after the name start with field 3.
const START_FIELD: usize = 19;
