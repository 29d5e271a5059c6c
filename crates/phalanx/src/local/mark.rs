//! What a fixed founder leaves on disk before it founds.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::error::LocalError;

/// Says that a process of this name took part in a cell's founding. With it, the process only joins: an
/// incarnation that came later must not found a second time what may still live elsewhere.
#[derive(Clone, Debug)]
pub struct FoundingMark {
    path: PathBuf,
}

impl FoundingMark {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// Where it lies.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it was set.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.path.exists()
    }

    /// The cell instance it names; `None` if it was not set, or cannot be read.
    #[must_use]
    pub fn instance(&self) -> Option<u64> {
        let text = fs::read_to_string(&self.path).ok()?;
        u64::from_str_radix(text.trim_end(), 16).ok()
    }

    /// Sets it, and returns once it is on disk.
    ///
    /// # Errors
    /// When it cannot be written; then the process must not found.
    pub fn set(&self, instance: u64) -> Result<(), LocalError> {
        self.try_set(instance).map_err(LocalError::io("write the founding mark", &self.path))
    }

    fn try_set(&self, instance: u64) -> std::io::Result<()> {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&self.path)?;
        file.write_all(format!("{instance:016x}\n").as_bytes())?;
        file.sync_all()?;
        self.path.parent().map_or(Ok(()), |directory| File::open(directory)?.sync_all())
    }

    /// Removes it: the operator's word that the cell is no more, and may be founded again.
    ///
    /// # Errors
    /// When it is there and cannot be removed.
    pub fn clear(&self) -> Result<(), LocalError> {
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(LocalError::io("remove the founding mark", &self.path)(error))
            }
            _ => Ok(()),
        }
    }
}
