//! Directories that only this user may enter.

use std::fmt::Write;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags, flock, fstat, open};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::error::LocalError;
use super::host::fnv1a;

/// The default runtime directory: `/tmp/phalanx-<user number>`.
///
/// The name depends on the user only. What a login session sets (`XDG_RUNTIME_DIR`, `TMPDIR`) differs between a shell,
/// a service and a timer of the same user. A directory that ends with the session would let a cell be founded a second
/// time while processes outlive it.
#[must_use]
pub fn default_runtime_dir() -> PathBuf {
    PathBuf::from(format!("/tmp/phalanx-{}", geteuid().as_raw()))
}

/// The default state directory: `/var/lib/phalanx` for user 0, `.local/state/phalanx` in the home of any other.
///
/// As with [`default_runtime_dir`] the name depends on the user only. The home is therefore the one in `/etc/passwd`.
/// `HOME`, which a session sets, is used only for a user who is not listed there.
///
/// # Errors
/// [`LocalError::NoHome`] if neither names a home.
pub fn default_state_dir() -> Result<PathBuf, LocalError> {
    let user = geteuid();
    if user.is_root() {
        return Ok(PathBuf::from("/var/lib/phalanx"));
    }
    let users = fs::read("/etc/passwd").unwrap_or_default();
    let home = home(&String::from_utf8_lossy(&users), user.as_raw());
    let home = home.or_else(|| std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute()));
    home.map(|home| home.join(".local/state/phalanx")).ok_or(LocalError::NoHome { user: user.as_raw() })
}

/// The home of a user according to `/etc/passwd`.
pub(super) fn home(users: &str, user: u32) -> Option<PathBuf> {
    let listed = users.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let mut homes = listed.filter(|fields| fields.get(2).and_then(|number| number.parse().ok()) == Some(user));
    homes.find_map(|fields| fields.get(5).map(PathBuf::from)).filter(|home| home.is_absolute())
}

/// Creates the directory if it is missing, and opens it after checking that no other user can enter it. `key`: the
/// setting that names it.
pub(super) fn private(path: &Path, key: &'static str) -> Result<OwnedFd, LocalError> {
    // Opened without following a link, and checked through the descriptor: the path may be exchanged between the two
    // steps.
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    let opened = open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty());
    let directory = match (made, opened) {
        (_, Ok(directory)) => directory,
        (_, Err(Errno::NOTDIR | Errno::LOOP)) => {
            return Err(LocalError::NotADirectory { path: path.to_path_buf(), key });
        }
        (Err(source), Err(_)) => return Err(LocalError::NotMade { path: path.to_path_buf(), key, source }),
        (Ok(()), Err(source)) => return Err(LocalError::io("open the directory", path)(source)),
    };
    check(path, &directory, key)?;
    Ok(directory)
}

/// Checks that `file` belongs to this user and is closed to others. `key`: the setting that names another file.
pub(super) fn check(path: &Path, file: &impl std::os::fd::AsFd, key: &'static str) -> Result<(), LocalError> {
    let stat = fstat(file).map_err(LocalError::io("look at", path))?;
    let mode = stat.st_mode & 0o777;
    if stat.st_uid != geteuid().as_raw() {
        Err(LocalError::NotOurs { path: path.to_path_buf(), owner: stat.st_uid, key })
    } else if mode & 0o077 != 0 {
        Err(LocalError::TooOpen { path: path.to_path_buf(), mode })
    } else {
        Ok(())
    }
}

/// Locks a directory, which keeps programs that clean up temporary directories away from it. Best effort: a refusal is
/// ignored.
pub(super) fn hold(directory: &OwnedFd) {
    let _ = flock(directory, FlockOperation::NonBlockingLockShared);
}

/// A cell's name as a file name. Plain letters, digits, `-` and `_` stay as they are. Different names give different
/// files.
pub(super) fn file_name(cell: &str) -> String {
    let mut name = String::from("cell-");
    for byte in cell.bytes() {
        if byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_' {
            name.push(char::from(byte));
        } else {
            let _ = write!(name, "%{byte:02x}");
        }
    }
    if name.len() > FILE_NAME_BYTES {
        // The part in which two long names differ may be cut off, so a digest stands for it.
        name.truncate(FILE_NAME_BYTES - 17);
        let _ = write!(name, "+{:016x}", fnv1a(&[cell.as_bytes()]));
    }
    name
}

/// The settings that name the directories.
pub(super) const RUNTIME_DIR: &str = "runtime_dir";
pub(super) const STATE_DIR: &str = "state_dir";

/// File systems allow 255; extensions are added.
const FILE_NAME_BYTES: usize = 200;
