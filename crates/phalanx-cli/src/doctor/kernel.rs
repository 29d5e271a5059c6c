//! Checks the limits of the kernel and of the machine.

use phalanx_runtime::config::show_size;
use rustix::process::{Resource, getrlimit};

use super::{Check, Finding};

/// Buffer size that the UDP driver requests for each socket.
const BUFFER_WANTED_BYTES: u64 = 4 << 20;

/// Below this size even a short burst is lost.
const BUFFER_POOR_BYTES: u64 = 1 << 20;

/// Descriptors for the sockets, files and wake-ups of one process, with a margin.
const FILES_WANTED: u64 = 256;

pub(super) fn buffer(name: &'static str, setting: &'static str) -> Finding {
    let wanted = show_size(BUFFER_WANTED_BYTES);
    let check = Check::new(name, format!("{wanted}: the UDP driver asks for it, so that a full window fits"));
    let path = format!("/proc/sys/{}", setting.replace('.', "/"));
    let remedy = format!("sysctl -w {setting}={BUFFER_WANTED_BYTES}   (and in /etc/sysctl.d to keep it)");
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    let Ok(bytes) = text.trim().parse::<u64>() else {
        return check.warn(format!("{setting} cannot be read"), format!("look at it by hand: {remedy}"));
    };
    let found = format!("{setting} = {bytes} ({})", show_size(bytes));
    if bytes >= BUFFER_WANTED_BYTES {
        check.ok(found)
    } else if rustix::process::geteuid().is_root() {
        check.ok(format!("{found}; root may exceed it"))
    } else if bytes >= BUFFER_POOR_BYTES {
        check.warn(format!("{found}: larger bursts are lost and retransmitted"), remedy)
    } else {
        check.warn(format!("{found}: bursts are lost and retransmitted, throughput suffers"), remedy)
    }
}

pub(super) fn open_files() -> Finding {
    let check = Check::new(
        "open files",
        format!("{FILES_WANTED}: sockets, segments of shared memory and files of one process, with room"),
    );
    let limit = getrlimit(Resource::Nofile).current;
    match limit {
        Some(files) if files < FILES_WANTED => check.fail(
            format!("at most {files} descriptors"),
            format!("ulimit -n {FILES_WANTED}, or LimitNOFILE= in the service's unit"),
        ),
        Some(files) => check.ok(format!("at most {files} descriptors")),
        None => check.ok("no limit"),
    }
}

pub(super) fn cores() -> Finding {
    let check = Check::new("cores", "2: the application and the protocol then run at the same time");
    match std::thread::available_parallelism() {
        Ok(cores) if cores.get() == 1 => check.warn(
            "1 core: the application and the protocol take turns on it",
            "allow a second core where latency matters (affinity, container limit)",
        ),
        Ok(cores) => check.ok(format!("{cores} cores")),
        Err(error) => check.warn(format!("unknown: {error}"), "check the container's limits by hand"),
    }
}
