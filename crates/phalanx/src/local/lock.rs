//! The operating system's file locks: held for as long as the holder lives, and no longer.

use std::fs::{self, File, Metadata, OpenOptions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;

use super::error::LocalError;

/// Held while a decision about the cell is made. Released when dropped.
#[derive(Debug)]
pub(super) struct Decision {
    file: File,
    path: PathBuf,
}

impl Decision {
    /// Waits for the lock. Decisions take well under a millisecond each; whoever finds it held for long is told.
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

    /// `None`: another process decides right now.
    pub(super) fn try_take(scope: &Path) -> Result<Option<Self>, LocalError> {
        let path = scope.join("lock");
        let file = open(&path, true).map_err(LocalError::io("open", &path))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            // Whoever removed the file before it was locked lets another lock a new one.
            Ok(()) if !is_at(&file, &path) => Ok(None),
            Ok(()) => Ok(Some(Self { file, path })),
            Err(Errno::WOULDBLOCK | Errno::INTR) => Ok(None),
            Err(error) => Err(LocalError::io("lock", &path)(error)),
        }
    }

    /// Whether it still excludes others. It does not if its file was removed since: then somebody else may have decided as well.
    pub(super) fn stands(&self) -> bool {
        is_at(&self.file, &self.path)
    }
}

/// Whether `file` is what lies at `path`, rather than what lay there before.
pub(crate) fn is_at(file: &File, path: &Path) -> bool {
    let number = |metadata: Metadata| (metadata.dev(), metadata.ino());
    let (Ok(file), Ok(there)) = (file.metadata(), fs::symlink_metadata(path)) else { return false };
    number(file) == number(there)
}

/// Locks `file` for life. [`Errno::WOULDBLOCK`]: somebody else holds it.
pub(super) fn hold_for_life(file: &File) -> Result<(), Errno> {
    flock(file, FlockOperation::NonBlockingLockExclusive)
}

/// Whether somebody holds `file` for life. Taking it shared for a moment disturbs nobody who looks as well.
pub(crate) fn is_held(file: &File) -> bool {
    match flock(file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => {
            let _ = flock(file, FlockOperation::Unlock);
            false
        }
        // Anything but a clear yes proves no death.
        Err(_) => true,
    }
}

pub(crate) fn open(path: &Path, write: bool) -> std::io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let mut options = OpenOptions::new();
    options.read(true).write(write).create(write).truncate(false).mode(0o600);
    options.custom_flags(flags.bits() as i32).open(path)
}

/// How long to wait for a decision of others.
const PATIENCE: Duration = Duration::from_secs(10);
