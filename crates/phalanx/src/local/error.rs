//! What can be wrong with the runtime directory and the state directory.

use std::io;
use std::path::{Path, PathBuf};

use phalanx_driver::fork::Forked;

/// Why the runtime directory or the state directory, or something in it, cannot be used. Each text says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LocalError {
    /// Something else has that name, or a symbolic link.
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
    /// It is missing and cannot be made.
    #[error("cannot make the directory {}: {source}; name another with `{key}`", path.display())]
    NotMade {
        /// The path.
        path: PathBuf,
        /// The setting that names it.
        key: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// Nothing says where this user's state belongs.
    #[error(
        "user {user} has no home directory, in /etc/passwd or as HOME: set `state_dir` (PHALANX_STATE_DIR) to a directory that survives reboots"
    )]
    NoHome {
        /// The user's number.
        user: u32,
    },
    /// The directory is emptied faster than files can be written.
    #[error("{} is emptied again and again: stop what empties it", path.display())]
    Emptied {
        /// The path.
        path: PathBuf,
    },
    /// The file is gone, and a living process that has what was in it does not write it again.
    #[error("{} is missing, and process {pid}, which has what was in it, does not write it again: end that process, or let it go on if it is stopped", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
        /// The process's number.
        pid: u32,
    },
    /// Another process of this name lives.
    #[error("the name '{name}' is taken: {} holds {}; end one of the two, or give this one another `name` or a `state_dir` of its own", holder(*pid), path.display())]
    NameInUse {
        /// The name.
        name: String,
        /// The lock.
        path: PathBuf,
        /// The other process's number, if it can be known.
        pid: Option<u32>,
    },
    /// The key file was changed while a process lives that uses the one before.
    #[error("{} holds another key than this process uses: processes that start now cannot talk with it. Restore the file, or start this process again", path.display())]
    OtherKey {
        /// The path.
        path: PathBuf,
    },
    /// The directory's number was changed while a process lives that uses the one before.
    #[error("{} holds {here:016x}, and this process started with {mine:016x}: processes that start now are not known again by their cell. Restore the file, or start this process again", path.display())]
    OtherId {
        /// The path.
        path: PathBuf,
        /// The number there.
        here: u64,
        /// The number this process uses.
        mine: u64,
    },
    /// A founder's record was changed while the founder lives.
    #[error("{} holds the record of instance {here:016x}, and this founder's is of {mine:016x}: another process wrote there, or a copy was put back. See that one process of this name runs, remove the file, and this founder writes it again", path.display())]
    OtherRecord {
        /// The path.
        path: PathBuf,
        /// The instance there; 0: none.
        here: u64,
        /// The instance of this founder; 0: none.
        mine: u64,
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
    /// The liveness lock was entered before a fork, and this is the child. Nothing changed.
    #[error("{}: {Forked}", path.display())]
    Forked {
        /// The liveness lock.
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
    /// Something that was there a moment ago is gone: the directory is being emptied.
    pub(super) fn is_gone(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    /// For `map_err`: what was tried on which path.
    pub(super) fn io<E: Into<io::Error>>(doing: &'static str, path: &Path) -> impl FnOnce(E) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Io { doing, path, source: source.into() }
    }
}

fn holder(pid: Option<u32>) -> String {
    pid.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"))
}
