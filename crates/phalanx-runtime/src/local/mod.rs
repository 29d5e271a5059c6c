//! State that the processes of one user on one host share, in two directories.
//!
//! The *runtime directory* records which processes live: the lock that decides which process founds the cell, and a
//! file for each living process. It means nothing after a reboot, and may be where clean-up programs delete files. The
//! *state directory* must survive both. It holds, for each cell:
//!
//! | file | what it is |
//! | --- | --- |
//! | `key` | the cell key of this user on this host, created on first use |
//! | `id` | the number of this directory, by which a restarted process is recognised; see [`LocalCell::seat`] |
//! | `founder-<name>` | the record of a process with a name of its own; see [`Founder`] |
//! | `founder-<name>.last` | the last view it saw, for people |
//! | `founder-<name>.lock` | locked by the founder of that name for as long as it lives |
//! | `lock` | held for the moment in which such a lock is taken |
//!
//! # How a cell is founded on one host
//!
//! The operating system's locks are the only memory: a lock's holder is alive, and a lock ends with its holder. In the
//! runtime directory of a cell each process keeps a *liveness lock* file locked for as long as it lives. The file's
//! name says whether the process is *settled*: it founded the cell, came into a view, or was configured with addresses.
//! One more file, `lock`, is held for the moment of each decision:
//!
//! - A process that starts looks for a living settled liveness lock. If there is one, it joins, with the addresses of
//!   all living processes as seeds. If there is none, it founds: it increments `generation` and enters as settled, both
//!   before it releases the lock. Of several that start at once the first founds.
//! - A process that seeks without success decides again: if no settled liveness lock lives any more, it founds. So a
//!   founder that dies before any other joined blocks no one, and neither does the end of all members while one was
//!   excluded.
//! - A process that came into its first view settles before its application learns of the view. If `generation` has
//!   grown since it started, another process founded in the meantime, because all settled ones had died. Then the view
//!   is given up unseen, and the process joins the new cell. Both steps happen under `lock`, so one of them is first,
//!   and no two cells live side by side.
//!
//! Files of dead processes are removed by the holder of `lock`. Processes in different network namespaces do not reach
//! each other's loopback; each namespace has its own liveness locks, and all share the key.
//!
//! # When a directory is emptied under living processes
//!
//! Each process checks once a second whether its files exist, and restores missing ones. Until then a starting process
//! finds the name that each living one has in the kernel (`beacon.rs`). It founds nothing and creates no key while such
//! a name has no liveness lock. It checks again until the liveness lock is restored or its process has ended. A process
//! that decided under a `lock` that was removed meanwhile takes its decision back.

pub(crate) mod advert;
mod beacon;
mod directory;
mod error;
mod founder;
pub mod host;
mod kept;
mod key;
mod liveness_lock;
pub(crate) mod lock;
mod record;
mod request;
pub(crate) mod roster;
#[cfg(test)]
mod tests;

use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use phalanx_core::Incarnation;
use phalanx_core::seal::CellKey;

pub use advert::Advert;
pub use beacon::{Role, Sign};
pub use directory::{default_runtime_dir, default_state_dir};
pub use error::LocalError;
pub use founder::Founder;
pub use kept::Kept;
pub use key::read_key;
pub use liveness_lock::{Intent, LivenessLock, Settled, Standing};
pub use record::RecordFile;
pub use request::Request;
pub use roster::Live;

use beacon::Place;
use directory::{RUNTIME_DIR, STATE_DIR};

/// The directories of one cell of this user on this host.
#[derive(Clone, Debug)]
pub struct LocalCell {
    root: PathBuf,
    cell: PathBuf,
    scope: PathBuf,
    state: PathBuf,
    place: Place,
    /// Keeps clean-up programs, which respect locks on directories, away while a process lives.
    _hold: Arc<OwnedFd>,
}

impl LocalCell {
    /// Opens the directories and creates missing ones. `runtime`: [`default_runtime_dir`] if not given; `state`:
    /// [`default_state_dir`].
    ///
    /// # Errors
    /// When a directory cannot be created, belongs to or is open to other users, or has no default.
    pub fn open(runtime: Option<&Path>, state: Option<&Path>, cell: &str) -> Result<Self, LocalError> {
        let root = runtime.map_or_else(default_runtime_dir, Path::to_path_buf);
        let state = state.map_or_else(default_state_dir, |state| Ok(state.to_path_buf()))?;
        let hold = directory::private(&root, RUNTIME_DIR)?;
        directory::hold(&hold);
        let file_name = directory::file_name(cell);
        let cell = root.join(&file_name);
        directory::private(&cell, RUNTIME_DIR)?;
        let scope = cell.join(format!("net-{}", host::namespace("net")));
        directory::private(&scope, RUNTIME_DIR)?;
        directory::private(&state, STATE_DIR)?;
        let state = state.join(file_name);
        directory::private(&state, STATE_DIR)?;
        let place = Place::of(&scope, &state);
        Ok(Self { root, cell, scope, state, place, _hold: Arc::new(hold) })
    }

    /// Creates the runtime directory again. The returned lock keeps clean-up programs away.
    fn restore_runtime_dir(&self) -> Result<OwnedFd, LocalError> {
        let hold = directory::private(&self.root, RUNTIME_DIR)?;
        directory::hold(&hold);
        directory::private(&self.cell, RUNTIME_DIR)?;
        directory::private(&self.scope, RUNTIME_DIR)?;
        Ok(hold)
    }

    /// Creates the state directory again.
    fn restore_state_dir(&self) -> Result<(), LocalError> {
        if let Some(root) = self.state.parent() {
            directory::private(root, STATE_DIR)?;
        }
        directory::private(&self.state, STATE_DIR).map(drop)
    }

    /// The cell key of this user on this host, created on first use.
    ///
    /// # Errors
    /// When it cannot be read or created, or others may read it. [`LocalError::Missing`]: the file is missing, and a
    /// living process that has the key does not restore it.
    pub fn key(&self) -> Result<CellKey, LocalError> {
        let path = self.key_path();
        // Earlier builds kept it in the runtime directory.
        let old = self.cell.join("key");
        if !path.exists() && old.exists() {
            key::put(&path, &read_key(&old)?)?;
        }
        self.await_written_again(&path, true)?;
        key::read_or_make(&path)
    }

    /// The path of that key.
    #[must_use]
    pub fn key_path(&self) -> PathBuf {
        self.state.join("key")
    }

    /// The directory of the liveness locks and counters of this network namespace.
    #[must_use]
    pub fn scope(&self) -> &Path {
        &self.scope
    }

    /// The directory of the key and the founders' records.
    #[must_use]
    pub fn state(&self) -> &Path {
        &self.state
    }

    /// Lists the living processes. Changes nothing.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn living(&self) -> Result<Vec<Live>, LocalError> {
        roster::scan(&self.scope)
    }

    /// Enters the liveness lock of a process and decides, under the lock, how it comes into the cell.
    ///
    /// # Errors
    /// When files cannot be written, or the lock stays held by another process.
    pub fn enter(
        &self,
        incarnation: Incarnation,
        advert: &Advert,
        intent: Intent,
        role: Role<'_>,
    ) -> Result<(LivenessLock, Standing), LocalError> {
        liveness_lock::enter(self, incarnation, advert, intent, role)
    }

    /// The number by which the cell recognises a process of that name that is started again in this directory: see
    /// [`phalanx_core::MemberInfo::seat`]. Never 0.
    ///
    /// # Errors
    /// When the directory's own number can neither be read nor created.
    pub fn seat(&self, name: &str) -> Result<u64, LocalError> {
        Ok(host::fnv1a(&[&self.id()?.to_le_bytes(), name.as_bytes()]).max(1))
    }

    fn id(&self) -> Result<u64, LocalError> {
        let path = self.id_path();
        let old = self.cell.join("id");
        if !path.exists()
            && let Some(id) = key::read_id(&old)?
        {
            key::put_id(&path, id)?;
        }
        self.await_written_again(&path, false)?;
        key::read_or_make_id(&path)
    }

    fn id_path(&self) -> PathBuf {
        self.state.join("id")
    }

    /// The record file of a process of that name.
    #[must_use]
    pub fn record_file(&self, name: &str) -> RecordFile {
        RecordFile::new(self.state.join(directory::file_name(name).replacen("cell-", "founder-", 1)))
    }

    /// Takes a name for as long as the returned value lives, and reads its record.
    ///
    /// # Errors
    /// [`LocalError::NameInUse`] when another living process has that name; others when the record cannot be read.
    pub fn take_founder(&self, name: &str, advert: &Advert) -> Result<Founder, LocalError> {
        Founder::take(self, name, advert)
    }

    /// Where earlier builds kept what is now a founder's record.
    fn old_mark(&self, name: &str) -> PathBuf {
        self.cell.join(directory::file_name(name).replacen("cell-", "founded-", 1))
    }

    /// Living processes of this runtime directory whose liveness lock is missing: all but those with these adverts.
    fn lost(&self, adverts: &[u32]) -> Vec<Sign> {
        beacon::sighted(|sign| sign.is_lost(self.place, adverts.iter().copied()))
    }

    /// Waits while a file of the state directory is missing and a living process exists that can restore it.
    fn await_written_again(&self, path: &Path, key: bool) -> Result<(), LocalError> {
        let started = Instant::now();
        while !fs::exists(path).map_err(LocalError::io("look at", path))? {
            let Some(sign) = beacon::sighted(|sign| sign.knows(self.place, key)).pop() else { break };
            if started.elapsed() > PATIENCE {
                return Err(LocalError::Missing { path: path.to_path_buf(), pid: sign.pid });
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

/// Longest wait for files that living processes restore within a second.
const PATIENCE: Duration = Duration::from_secs(5);
