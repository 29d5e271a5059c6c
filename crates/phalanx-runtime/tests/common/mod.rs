//! Helpers of the tests over real sockets.

#[allow(unsafe_code)]
pub(crate) mod fork;
pub(crate) mod listening;

use std::path::{Path, PathBuf};
use std::time::Duration;

use phalanx_runtime::Options;
use phalanx_runtime::config::{Config, DriverMode};
use phalanx_runtime::core::Timing;
use phalanx_runtime::local::LocalCell;
use tempfile::TempDir;

/// A directory for each test.
pub(crate) fn directory() -> TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

/// Options of a process in that directory, with patience for a busy machine. With `PHALANX_DRIVER=udp` all tests run
/// without shared memory.
pub(crate) fn options(directory: &Path, name: &str) -> Options {
    Options::from(Config {
        name: Some(name.to_owned()),
        runtime_dir: Some(run(directory)),
        state_dir: Some(state(directory)),
        driver: if over_udp() { DriverMode::Udp } else { DriverMode::Auto },
        timing: Timing { suspect_after: Duration::from_secs(5), ..Timing::default() },
        ..Config::default()
    })
}

/// Whether the tests run without shared memory.
pub(crate) fn over_udp() -> bool {
    std::env::var("PHALANX_DRIVER").is_ok_and(|driver| driver == "udp")
}

/// The runtime directory.
pub(crate) fn run(directory: &Path) -> PathBuf {
    directory.join("run")
}

/// The state directory.
pub(crate) fn state(directory: &Path) -> PathBuf {
    directory.join("state")
}

/// The processes of that directory on this host.
pub(crate) fn local(directory: &Path) -> LocalCell {
    LocalCell::open(Some(&run(directory)), Some(&state(directory)), "default").expect("opens")
}

/// Only a hang takes this long. Members that each wait seconds for a processor supersede each other's ballots, and one
/// view change then takes more than a minute.
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);
