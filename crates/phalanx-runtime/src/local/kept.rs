//! The state directory's files that every process restores: the key, if it uses it, and the directory's number.

use std::fs;
use std::path::Path;

use phalanx_core::member::FounderRecord;
use phalanx_core::seal::CellKey;

use super::LocalCell;
use super::error::LocalError;
use super::founder::Founder;
use super::key::{put, put_id, read_id, read_key};

/// The files that a living process restores in the state directory if they are missing.
pub struct Kept {
    cell: LocalCell,
    key: Option<CellKey>,
    id: u64,
}

/// The outcome of one check of a directory.
#[derive(Debug, Default)]
pub struct Restored {
    /// Files that were missing and are restored.
    pub again: Vec<&'static str>,
    /// Errors that remain.
    pub wrong: Vec<LocalError>,
}

impl Kept {
    /// `key`: the key read from the state directory. `None`: the process uses none, or one from elsewhere.
    ///
    /// # Errors
    /// When the directory's number can neither be read nor made.
    pub fn new(cell: &LocalCell, key: Option<CellKey>) -> Result<Self, LocalError> {
        Ok(Self { cell: cell.clone(), key, id: cell.id()? })
    }

    /// The state directory of the cell.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.cell.state
    }

    /// Whether the process uses the key in the state directory.
    #[must_use]
    pub fn has_key(&self) -> bool {
        self.key.is_some()
    }

    /// Checks the state directory and restores missing files. Call it about once a second. `founder`: the lock and
    /// record of a process with a name, and the record's current content.
    pub fn restore(&self, founder: Option<(&mut Founder, &FounderRecord)>) -> Restored {
        let mut restored = Restored::default();
        restored.add("the cell key", self.restore_key());
        restored.add("the directory's number", self.restore_id());
        if let Some((founder, now)) = founder {
            founder.restore(now, &mut restored);
        }
        restored
    }

    fn restore_key(&self) -> Result<bool, LocalError> {
        let Some(key) = &self.key else { return Ok(false) };
        let path = self.cell.key_path();
        if is_gone(&path)? {
            self.cell.restore_state_dir()?;
            put(&path, key)?;
            return Ok(true);
        }
        if read_key(&path)?.to_hex() == key.to_hex() { Ok(false) } else { Err(LocalError::OtherKey { path }) }
    }

    fn restore_id(&self) -> Result<bool, LocalError> {
        let path = self.cell.id_path();
        match read_id(&path)? {
            None => {
                self.cell.restore_state_dir()?;
                put_id(&path, self.id)?;
                Ok(true)
            }
            Some(here) if here == self.id => Ok(false),
            Some(here) => Err(LocalError::OtherId { path, here, mine: self.id }),
        }
    }
}

impl std::fmt::Debug for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kept").field("state", &self.cell.state).field("id", &self.id).finish_non_exhaustive()
    }
}

impl Restored {
    /// Records an outcome; `Ok(true)`: the file was restored.
    pub(super) fn add(&mut self, what: &'static str, outcome: Result<bool, LocalError>) {
        if self.told(outcome) == Some(true) {
            self.again.push(what);
        }
    }

    pub(super) fn told<T>(&mut self, outcome: Result<T, LocalError>) -> Option<T> {
        outcome.map_err(|error| self.wrong.push(error)).ok()
    }
}

fn is_gone(path: &Path) -> Result<bool, LocalError> {
    fs::exists(path).map(|there| !there).map_err(LocalError::io("look at", path))
}
