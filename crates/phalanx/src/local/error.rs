//! What can be wrong with the runtime directory.

use std::io;
use std::path::{Path, PathBuf};

use phalanx_driver::fork::Forked;

/// Why the runtime directory, or something in it, cannot be used. Each text says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LocalError {
    /// Something else has that name, or a symbolic link.
    #[error("{} is not a directory (symbolic links are refused): remove it, or name another with `runtime_dir`", path.display())]
    NotADirectory {
        /// The path.
        path: PathBuf,
    },
    /// It belongs to another user.
    #[error("{} belongs to user {owner}, not to you: have it removed, or name another directory with `runtime_dir`", path.display())]
    NotOurs {
        /// The path.
        path: PathBuf,
        /// Its owner's number.
        owner: u32,
    },
    /// Others may read or write it.
    #[error("{} is open to other users (mode {mode:03o}): run `chmod go= {}`", path.display(), path.display())]
    TooOpen {
        /// The path.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The lock is held by a process that does not go on.
    #[error("{} stays locked: a process that held it was stopped; `fuser {}` names it", path.display(), path.display())]
    Busy {
        /// The path.
        path: PathBuf,
    },
    /// The key file holds no key.
    #[error("{} holds no cell key (64 hexadecimal digits): restore it, or remove it on all hosts of the cell", path.display())]
    BadKey {
        /// The path.
        path: PathBuf,
    },
    /// The file of a founder's record holds none.
    #[error("{} holds no founder's record: restore it; if no member of the cell lives anywhere, remove it", path.display())]
    BadRecord {
        /// The path.
        path: PathBuf,
    },
    /// The file with the directory's number holds none.
    #[error("{} holds no number (16 hexadecimal digits): remove it, and start the processes of this host that use it again", path.display())]
    BadId {
        /// The path.
        path: PathBuf,
    },
    /// The presence was entered before a fork, and this is the child. Nothing changed.
    #[error("{}: {Forked}", path.display())]
    Forked {
        /// The presence.
        path: PathBuf,
    },
    /// The system refused.
    #[error("cannot {doing} {}: {source}", path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// The path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl LocalError {
    /// For `map_err`: what was tried on which path.
    pub(super) fn io<E: Into<io::Error>>(doing: &'static str, path: &Path) -> impl FnOnce(E) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Io { doing, path, source: source.into() }
    }
}
