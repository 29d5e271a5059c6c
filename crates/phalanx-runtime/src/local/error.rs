//! Errors of the runtime directory and the state directory.

use std::io;
use std::path::{Path, PathBuf};

use phalanx_core::CellInstance;
use phalanx_driver::fork::Forked;

/// Why the runtime directory, the state directory, or a file in one of them cannot be used. Each text says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LocalError {
    /// Something else has that name, or it is a symbolic link.
    #[error("{} is not a directory (symbolic links are refused): remove it, or name another with `{key}`", path.display())]
    NotADirectory {
        /// The path.
        path: PathBuf,
        /// The setting that names it.
        key: &'static str,
    },
    /// It belongs to another user.
    #[error("{} belongs to user {owner}, not to you: have it removed, or name another with `{key}`", path.display())]
    NotOurs {
        /// The path.
        path: PathBuf,
        /// The setting that names it.
        key: &'static str,
        /// The owner's user number.
        owner: u32,
    },
    /// Other users may read or write it.
    #[error("{} is open to other users (mode {mode:03o}): run `chmod go= {}`", path.display(), path.display())]
    TooOpen {
        /// The path.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// It is missing and cannot be created.
    #[error("cannot make the directory {}: {source}; name another with `{key}`", path.display())]
    NotMade {
        /// The path.
        path: PathBuf,
        /// The setting that names it.
        key: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// There is no home directory for this user's state.
    #[error(
        "user {user} has no home directory, in /etc/passwd or as HOME: set `state_dir` (PHALANX_STATE_DIR) to a directory that survives reboots"
    )]
    NoHome {
        /// The user number.
        user: u32,
    },
    /// The directory is emptied faster than files can be written.
    #[error("{} is emptied repeatedly: stop the program that empties it", path.display())]
    Emptied {
        /// The path.
        path: PathBuf,
    },
    /// The file is missing, and a living process that has its content does not restore it.
    #[error("{} is missing, and process {pid}, which has its content, does not restore it: end that process, or resume it if it is stopped", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
        /// The process id.
        pid: u32,
    },
    /// Another living process has this name.
    #[error("the name '{name}' is taken: {}{of} holds {}; end one of the two, or give this one another `name` or a `state_dir` of its own", holder(*pid), path.display())]
    NameInUse {
        /// The name.
        name: String,
        /// The lock file.
        path: PathBuf,
        /// The other process's id, if known.
        pid: Option<u32>,
        /// Where the other process runs, if not here.
        of: &'static str,
    },
    /// Another machine locked the file while this process holds it.
    #[error("{} is locked by two processes at once: process {pid} of another machine or boot wrote there while this one holds it, so locks of this volume do not reach other machines. End one of the two, and give each machine a `state_dir` on a volume of its own", path.display())]
    NoLocks {
        /// The lock file.
        path: PathBuf,
        /// The other process's id, there.
        pid: u32,
    },
    /// The key file was changed while a process lives that uses the previous key.
    #[error("{} holds another key than this process uses: processes that start now cannot talk with it. Restore the file, or start this process again", path.display())]
    OtherKey {
        /// The path.
        path: PathBuf,
    },
    /// The directory's number was changed while a process lives that uses the previous one.
    #[error("{} holds {here}, and this process started with {mine}: processes that start now are not known again by their cell. Restore the file, or start this process again", path.display())]
    OtherId {
        /// The path.
        path: PathBuf,
        /// The number there.
        here: u64,
        /// The number this process uses.
        mine: u64,
    },
    /// A founder's record was changed while the founder lives.
    #[error("{} holds the record of instance {here}, and this founder's is of {mine}: another process wrote there, or a copy was put back. See that one process of this name runs, remove the file, and this founder writes it again", path.display())]
    OtherRecord {
        /// The path.
        path: PathBuf,
        /// The instance there; 0: none.
        here: CellInstance,
        /// The instance of this founder; 0: none.
        mine: CellInstance,
    },
    /// The lock is held by a process that makes no progress.
    #[error("{} stays locked: a process that held it was stopped; `fuser {}` names it", path.display(), path.display())]
    Busy {
        /// The path.
        path: PathBuf,
    },
    /// The key file does not hold a key.
    #[error("{} holds no cell key (64 hexadecimal digits): restore it, or remove it on all hosts of the cell", path.display())]
    BadKey {
        /// The path.
        path: PathBuf,
    },
    /// The file of a founder's record does not hold one.
    #[error("{} holds no founder's record: restore it; if no member of the cell lives anywhere, remove it", path.display())]
    BadRecord {
        /// The path.
        path: PathBuf,
    },
    /// The file with the directory's number does not hold one.
    #[error("{} holds no number (16 hexadecimal digits): remove it, and start the processes of this host that use it again", path.display())]
    BadId {
        /// The path.
        path: PathBuf,
    },
    /// The liveness lock was entered before a fork, and this process is the child. Nothing changed.
    #[error("{}: {Forked}", path.display())]
    Forked {
        /// The liveness lock.
        path: PathBuf,
    },
    /// The system refused an operation.
    #[error("cannot {doing} {}: {source}", path.display())]
    Io {
        /// The operation.
        doing: &'static str,
        /// The path.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl LocalError {
    /// Whether a file or directory vanished between two steps, because the directory is being emptied.
    pub(super) fn is_gone(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    /// For `map_err`: wraps an error with the operation and the path.
    pub(crate) fn io<E: Into<io::Error>>(doing: &'static str, path: &Path) -> impl FnOnce(E) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Io { doing, path, source: source.into() }
    }
}

fn holder(pid: Option<u32>) -> String {
    pid.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"))
}
