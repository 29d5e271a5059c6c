//! Limits of the kernel and of the machine.

use phalanx::config::show_size;
use rustix::process::{Resource, getrlimit};

use super::Finding;

/// What the UDP driver asks of the kernel for each socket.
const BUFFER_WANTED_BYTES: u64 = 4 << 20;

/// Below this even a short burst is lost.
const BUFFER_POOR_BYTES: u64 = 1 << 20;

/// Sockets, files and wake-ups of one process, with room.
const FILES_WANTED: u64 = 256;

pub(super) fn buffer(check: &'static str, setting: &'static str) -> Finding {
    let path = format!("/proc/sys/{}", setting.replace('.', "/"));
    let remedy = format!("sysctl -w {setting}={BUFFER_WANTED_BYTES}   (and in /etc/sysctl.d to keep it)");
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    let Ok(bytes) = text.trim().parse::<u64>() else {
        return Finding::warn(check, format!("{setting} cannot be read"), format!("look at it by hand: {remedy}"));
    };
    let found = format!("{setting} = {bytes} ({})", show_size(bytes));
    if bytes >= BUFFER_WANTED_BYTES {
        Finding::ok(check, found)
    } else if rustix::process::geteuid().is_root() {
        Finding::ok(check, format!("{found}; root may exceed it"))
    } else if bytes >= BUFFER_POOR_BYTES {
        Finding::warn(check, format!("{found}: larger bursts are lost and repaired"), remedy)
    } else {
        Finding::warn(check, format!("{found}: bursts are lost and repaired, throughput suffers"), remedy)
    }
}

pub(super) fn open_files() -> Finding {
    let limit = getrlimit(Resource::Nofile).current;
    match limit {
        Some(files) if files < FILES_WANTED => Finding::fail(
            "open files",
            format!("at most {files} descriptors"),
            format!("ulimit -n {FILES_WANTED}, or LimitNOFILE= in the service's unit"),
        ),
        Some(files) => Finding::ok("open files", format!("at most {files} descriptors")),
        None => Finding::ok("open files", "no limit"),
    }
}

pub(super) fn cores() -> Finding {
    match std::thread::available_parallelism() {
        Ok(cores) if cores.get() == 1 => Finding::warn(
            "cores",
            "1 core: the application and the protocol take turns on it",
            "allow a second core where latency matters (affinity, container limit)",
        ),
        Ok(cores) => Finding::ok("cores", format!("{cores} cores")),
        Err(error) => Finding::warn("cores", format!("unknown: {error}"), "check the container's limits by hand"),
    }
}
