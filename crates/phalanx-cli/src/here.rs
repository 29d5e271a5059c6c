//! The cell's files on this host, as seen by commands.

use std::time::Duration;

use phalanx_runtime::clock;
use phalanx_runtime::config::Config;
use phalanx_runtime::counters::{CountersFile, Status};
use phalanx_runtime::local::{Live, LocalCell, LocalError};

/// The directories of the configured cell.
pub(crate) fn open(config: &Config) -> Result<LocalCell, LocalError> {
    LocalCell::open(config.runtime_dir.as_deref(), config.state_dir.as_deref(), &config.cell)
}

/// The live processes of this host that publish a status, and those statuses.
pub(crate) fn statuses(local: &LocalCell) -> Result<impl Iterator<Item = (Live, Status)>, LocalError> {
    let status = |live: &Live| Some(CountersFile::open(&live.counters).ok()?.read().ok()?.status);
    Ok(local.living()?.into_iter().filter_map(move |live| Some((live.clone(), status(&live)?))))
}

/// A file this much older than its update period shows that the process is not polling: it is stopped, or in a long
/// handler.
pub(crate) const STALE: Duration = Duration::from_secs(2);

/// For how long a process has not updated its status, if that is too long.
pub(crate) fn silence(live: &Live) -> Option<Duration> {
    let reading = CountersFile::open(&live.counters).ok()?.read().ok()?;
    Some(clock::now().since(reading.updated)).filter(|age| *age > STALE)
}
