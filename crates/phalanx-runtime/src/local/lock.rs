//! File locks of the operating system, which end with their holder.

use std::fs::{self, File, Metadata, OpenOptions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;

use super::error::LocalError;

/// The decision lock: held while a decision about the cell is made, released on drop.
#[derive(Debug)]
pub(super) struct Decision {
    file: File,
    path: PathBuf,
}

impl Decision {
    /// Waits for the lock, at most [`PATIENCE`]. A decision takes well under a millisecond.
    pub(super) fn take(scope: &Path) -> Result<Self, LocalError> {
        let started = Instant::now();
        loop {
            if let Some(decision) = Self::try_take(scope)? {
                return Ok(decision);
            }
            if started.elapsed() > PATIENCE {
                return Err(LocalError::Busy { path: scope.join("lock") });
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Takes the lock if it is free. `None`: another process is deciding.
    pub(super) fn try_take(scope: &Path) -> Result<Option<Self>, LocalError> {
        let path = scope.join("lock");
        let file = open(&path, true).map_err(LocalError::io("open", &path))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            // The file was removed between its opening and the lock. Others then lock a new file, so this lock excludes
            // no one.
            Ok(()) if !is_at(&file, &path) => Ok(None),
            Ok(()) => Ok(Some(Self { file, path })),
            Err(Errno::WOULDBLOCK | Errno::INTR) => Ok(None),
            Err(error) => Err(LocalError::io("lock", &path)(error)),
        }
    }

    /// Whether the lock still excludes others. If its file was removed since, another process may have decided as well.
    pub(super) fn stands(&self) -> bool {
        is_at(&self.file, &self.path)
    }
}

/// Whether `file` is still the file at `path`, and not a removed predecessor.
pub(crate) fn is_at(file: &File, path: &Path) -> bool {
    let number = |metadata: Metadata| (metadata.dev(), metadata.ino());
    let (Ok(file), Ok(there)) = (file.metadata(), fs::symlink_metadata(path)) else { return false };
    number(file) == number(there)
}

/// Locks `file` until the process ends. [`Errno::WOULDBLOCK`]: another process holds it.
pub(super) fn hold_for_life(file: &File) -> Result<(), Errno> {
    flock(file, FlockOperation::NonBlockingLockExclusive)
}

/// Whether a living process holds `file`. The test takes the lock shared for a moment, so that several tests do not
/// disturb each other.
pub(crate) fn is_held(file: &File) -> bool {
    match flock(file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => {
            let _ = flock(file, FlockOperation::Unlock);
            false
        }
        // Only a free lock proves a death; any error counts as held.
        Err(_) => true,
    }
}

pub(crate) fn open(path: &Path, write: bool) -> std::io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let mut options = OpenOptions::new();
    options.read(true).write(write).create(write).truncate(false).mode(0o600);
    options.custom_flags(flags.bits() as i32).open(path)
}

/// Longest wait for another process's decision.
const PATIENCE: Duration = Duration::from_secs(10);
