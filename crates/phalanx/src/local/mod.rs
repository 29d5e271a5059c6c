//! What the processes of one user on one host share without asking each other: a directory with the cell key,
//! the lock that decides who founds the cell, and a file for each living process.
//!
//! # How a cell is founded on one host
//!
//! The operating system's locks are the only memory: what holds a lock is alive, and a lock ends with its holder.
//! In the directory of a cell each process keeps a *presence* file locked for as long as it lives. The file's name
//! says whether the process is *settled*: founded the cell, came into a view, or was told by its owner where to go.
//! One more file, `lock`, is held for the moment of each decision:
//!
//! - A process that starts looks for a living settled presence. If there is one, it joins, with the addresses of
//!   all living ones as seeds. If there is none, it founds: it counts `generation` up and enters as settled, all
//!   before it gives up the lock. Of many that start at once the first founds.
//! - A process that seeks in vain asks again: if no settled presence lives any more, it founds. So a founder that
//!   dies before anybody joined wedges nobody, and neither does the end of all members while one was excluded.
//! - A process that came into its first view settles before its application learns of the view. If `generation`
//!   has moved since it started, somebody founded in the meantime, because all who were settled had died: the view
//!   is given up unseen, and the process joins the new cell. Both steps happen under `lock`, so one of them is
//!   first, and no two cells live side by side.
//!
//! Files of the dead are removed by whoever holds `lock`. Processes in different network namespaces do not reach
//! each other's loopback; each namespace has its own presences, and all share the key.

pub(crate) mod card;
mod directory;
mod error;
pub mod host;
mod key;
pub(crate) mod lock;
mod presence;
mod record;
pub(crate) mod roster;
#[cfg(test)]
mod tests;

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use phalanx_core::Incarnation;
use phalanx_core::seal::CellKey;

pub use card::Card;
pub use directory::default_runtime_dir;
pub use error::LocalError;
pub use key::read_key;
pub use presence::{Intent, Presence, Settled, Standing};
pub use record::RecordFile;
pub use roster::Live;

/// The directory of one cell of this user on this host.
#[derive(Clone, Debug)]
pub struct LocalCell {
    cell: PathBuf,
    scope: PathBuf,
    /// Keeps clean-up programs, which respect locks on directories, away while a process lives.
    _hold: Arc<OwnedFd>,
}

impl LocalCell {
    /// Opens the directory, making what is missing. `root`: [`default_runtime_dir`] if not given.
    ///
    /// # Errors
    /// When a directory cannot be made, is not this user's, or is open to others.
    pub fn open(root: Option<&Path>, cell: &str) -> Result<Self, LocalError> {
        let root = root.map_or_else(default_runtime_dir, Path::to_path_buf);
        let hold = directory::private(&root)?;
        directory::hold(&hold);
        let cell = root.join(directory::file_name(cell));
        directory::private(&cell)?;
        let scope = cell.join(format!("net-{}", host::namespace("net")));
        directory::private(&scope)?;
        Ok(Self { cell, scope, _hold: Arc::new(hold) })
    }

    /// The cell key of this user on this host, made on first use.
    ///
    /// # Errors
    /// When it cannot be read or made, or others may read it.
    pub fn key(&self) -> Result<CellKey, LocalError> {
        key::read_or_make(&self.key_path())
    }

    /// Where that key lies.
    #[must_use]
    pub fn key_path(&self) -> PathBuf {
        self.cell.join("key")
    }

    /// Where presences and counters of this network namespace lie.
    #[must_use]
    pub fn scope(&self) -> &Path {
        &self.scope
    }

    /// The living processes. Changes nothing.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn living(&self) -> Result<Vec<Live>, LocalError> {
        roster::scan(&self.scope)
    }

    /// Enters the presence of a process and decides, under the lock, how it comes into the cell.
    ///
    /// # Errors
    /// When files cannot be written, or the lock stays held by another process.
    pub fn enter(
        &self,
        incarnation: Incarnation,
        card: &Card,
        intent: Intent,
    ) -> Result<(Presence, Standing), LocalError> {
        presence::enter(self, incarnation, card, intent)
    }

    /// The number by which a process of that name, started in this directory, is known again by its cell: see
    /// [`phalanx_core::MemberInfo::seat`]. Never 0.
    ///
    /// # Errors
    /// When the directory's own number can neither be read nor made.
    pub fn seat(&self, name: &str) -> Result<u64, LocalError> {
        let id = key::directory_id(&self.cell.join("id"))?;
        Ok(host::fnv1a(&[&id.to_le_bytes(), name.as_bytes()]).max(1))
    }

    /// Where a fixed founder of that name keeps its record.
    #[must_use]
    pub fn record_file(&self, name: &str) -> RecordFile {
        RecordFile::new(self.cell.join(directory::file_name(name).replacen("cell-", "founder-", 1)))
    }
}
