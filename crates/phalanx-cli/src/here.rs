//! The cell's files on this host, as seen by commands.

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
