//! Checks the runtime directory and its locks, the state directory, and the cell key.

use std::fs::File;
use std::path::Path;

use phalanx_runtime::config::{Config, SecurityMode};
use phalanx_runtime::local::{LocalError, read_key};
use rustix::fs::{FlockOperation, flock, statfs};

use super::{Check, Finding};
use crate::here;

pub(super) fn runtime_dir(config: &Config) -> Vec<Finding> {
    let check = Check::new("runtime dir", "a directory of this user's own: members of one host find each other in it");
    let living = Check::new("local members", "cards that can be read: a member on this host is found by its card");
    let cell = match here::open(config) {
        Ok(cell) => cell,
        Err(error) => {
            let ErrorParts { found, remedy } = split(&error);
            return vec![check.fail(found, remedy)];
        }
    };
    let mut findings = vec![check.ok(cell.scope().display().to_string())];
    findings.push(locks(cell.scope()));
    match cell.living() {
        Ok(members) => {
            findings.push(living.ok(format!("{} of cell '{}' on this host", members.len(), config.cell)));
        }
        Err(error) => {
            let ErrorParts { found, remedy } = split(&error);
            findings.push(living.fail(found, remedy));
        }
    }
    findings
}

/// Checks the state directory. If this process is to be a founder, its content must outlive reboots and programs that
/// clean up.
pub(super) fn state_dir(config: &Config) -> Finding {
    let check = Check::new(
        "state dir",
        "a directory of this user's own that survives reboots: without its record a founder may found the cell again",
    );
    let state = match here::open(config) {
        Ok(cell) => cell.state().to_path_buf(),
        Err(error) => {
            let ErrorParts { found, remedy } = split(&error);
            return check.fail(found, remedy);
        }
    };
    let path = state.join(format!("doctor-{}", std::process::id()));
    let written = std::fs::write(&path, "written").and_then(|()| File::open(&path)?.sync_all());
    let _ = std::fs::remove_file(&path);
    if let Err(error) = written {
        let remedy = "see that this user may write there and that there is room, or set state_dir";
        return check.fail(format!("{} cannot be written to: {error}", state.display()), remedy);
    }
    if let Some(kind) = shared(&state) {
        return check.warn(
            format!(
                "{} lies on {kind}: if its locks do not reach other machines, two processes of one name can run",
                state.display()
            ),
            "set state_dir to a directory on a volume of this machine's own",
        );
    }
    match perishable(&state) {
        Some(why) if !config.founders.is_empty() => check.warn(
            format!("{} {why}", state.display()),
            "set state_dir to a directory that no reboot and no program that cleans up empties",
        ),
        Some(why) => check.ok(format!("{} {why}; that does no harm where there are no founders", state.display())),
        None => check.ok(state.display().to_string()),
    }
}

/// The kind of volume that a directory lies on, if other machines may have it too.
fn shared(directory: &Path) -> Option<&'static str> {
    let system = u64::try_from(statfs(directory).ok()?.f_type).ok()? & 0xffff_ffff;
    SHARED.iter().find(|(magic, _)| *magic == system).map(|(_, kind)| *kind)
}

/// The reason why files in this directory may disappear one day.
fn perishable(directory: &Path) -> Option<&'static str> {
    let whole = std::fs::canonicalize(directory).unwrap_or_else(|_| directory.to_path_buf());
    let in_memory = [TMPFS, RAMFS];
    if statfs(directory).is_ok_and(|system| in_memory.contains(&u64::try_from(system.f_type).unwrap_or(0))) {
        Some("is in memory, and is emptied with each reboot")
    } else if ["/tmp", "/var/tmp", "/run", "/dev/shm"].iter().any(|place| whole.starts_with(place)) {
        Some("lies where reboots or programs that clean up empty directories")
    } else {
        None
    }
}

/// Checks that a lock held here is seen as held. Some network file systems grant every lock.
fn locks(directory: &Path) -> Finding {
    let check = Check::new("locks", "granted once: a second process under a name that is in use must be refused");
    let path = directory.join(format!("doctor-{}", std::process::id()));
    let tried = try_locks(&path);
    let _ = std::fs::remove_file(&path);
    let remedy = "put runtime_dir on a local file system (the default is in /tmp)";
    match tried {
        Ok(true) => check.ok("a lock excludes others"),
        Ok(false) => check.fail("a lock taken twice was granted twice", remedy),
        Err(error) => check.fail(format!("no lock can be taken: {error}"), remedy),
    }
}

fn try_locks(path: &Path) -> std::io::Result<bool> {
    let (one, other) = (File::create(path)?, File::open(path)?);
    flock(&one, FlockOperation::NonBlockingLockExclusive)?;
    Ok(flock(&other, FlockOperation::NonBlockingLockExclusive).is_err())
}

pub(super) fn cell_key(config: &Config) -> Finding {
    let check =
        Check::new("cell key", "32 bytes that only this user reads: whoever has the key is trusted as a member");
    if config.security == SecurityMode::None {
        return check.warn(
            "security = \"none\": anybody who reaches the port can join and forge",
            "remove the setting, and give cell_key where members run on several hosts",
        );
    }
    if let Some(path) = &config.cell_key {
        return match read_key(path) {
            Ok(_) => check.ok(format!("{} holds a key that only its user reads", path.display())),
            Err(error) => {
                let ErrorParts { found, remedy } = split(&error);
                check.fail(found, remedy)
            }
        };
    }
    if !config.bind.is_loopback() {
        return check.fail(
            format!("no cell_key, and {} is reached from other hosts", config.bind),
            "make one file with 64 random hexadecimal digits (openssl rand -hex 32), mode 600, the same on every host",
        );
    }
    let key = here::open(config).and_then(|cell| {
        // A check must not create a key; the first member does that.
        let path = cell.key_path();
        if path.exists() { cell.key().map(|_| Some(path)) } else { Ok(None) }
    });
    match key {
        Ok(Some(path)) => check.ok(format!("{} holds a key that only its user reads", path.display())),
        Ok(None) => check.ok("none yet: the first member on this host makes one"),
        Err(error) => {
            let ErrorParts { found, remedy } = split(&error);
            check.fail(found, remedy)
        }
    }
}

/// The two parts of an error of these directories.
struct ErrorParts {
    /// The problem.
    found: String,
    /// What the user may do about it.
    remedy: String,
}

/// Splits an error at its colon.
fn split(error: &LocalError) -> ErrorParts {
    let text = error.to_string();
    match error {
        LocalError::Io { .. } => {
            ErrorParts { found: text, remedy: "check that the path exists and that this user may use it".to_owned() }
        }
        _ => match text.split_once(": ") {
            Some((found, remedy)) => ErrorParts { found: found.to_owned(), remedy: remedy.to_owned() },
            None => ErrorParts {
                found: text,
                remedy: "see docs/configuration.md, keys runtime_dir and state_dir".to_owned(),
            },
        },
    }
}

/// Magic numbers of memory file systems, from `linux/magic.h`.
const TMPFS: u64 = 0x0102_1994;
const RAMFS: u64 = 0x8584_58f6;
/// Magic numbers of file systems that machines share.
const SHARED: [(u64, &str); 9] = [
    (0x6969, "NFS"),
    (0x517b, "SMB"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB"),
    (0x0102_1997, "9P"),
    (0x6573_5546, "FUSE"),
    (0x00c3_6400, "Ceph"),
    (0x0116_1970, "GFS2"),
    (0x7461_636f, "OCFS2"),
];
