//! The runtime directory, its locks, and the cell key.

use std::fs::File;
use std::path::Path;

use phalanx::config::{Config, SecurityMode};
use phalanx::local::{LocalCell, LocalError, read_key};
use rustix::fs::{FlockOperation, flock};

use super::Finding;

pub(super) fn runtime_dir(config: &Config) -> Vec<Finding> {
    let cell = match LocalCell::open(config.runtime_dir.as_deref(), &config.cell) {
        Ok(cell) => cell,
        Err(error) => {
            let (found, remedy) = split(&error);
            return vec![Finding::fail("runtime dir", found, remedy)];
        }
    };
    let mut findings = vec![Finding::ok("runtime dir", cell.scope().display().to_string())];
    findings.push(locks(cell.scope()));
    match cell.living() {
        Ok(living) => {
            findings
                .push(Finding::ok("local members", format!("{} of cell '{}' on this host", living.len(), config.cell)));
        }
        Err(error) => {
            let (found, remedy) = split(&error);
            findings.push(Finding::fail("local members", found, remedy));
        }
    }
    findings
}

/// Whether a lock held here is seen held: some network file systems say yes to everybody.
fn locks(directory: &Path) -> Finding {
    let path = directory.join(format!("doctor-{}", std::process::id()));
    let tried = try_locks(&path);
    let _ = std::fs::remove_file(&path);
    let remedy = "put runtime_dir on a local file system (the default is in /tmp)";
    match tried {
        Ok(true) => Finding::ok("locks", "a lock excludes others"),
        Ok(false) => Finding::fail("locks", "a lock taken twice was granted twice", remedy),
        Err(error) => Finding::fail("locks", format!("no lock can be taken: {error}"), remedy),
    }
}

fn try_locks(path: &Path) -> std::io::Result<bool> {
    let (one, other) = (File::create(path)?, File::open(path)?);
    flock(&one, FlockOperation::NonBlockingLockExclusive)?;
    Ok(flock(&other, FlockOperation::NonBlockingLockExclusive).is_err())
}

pub(super) fn cell_key(config: &Config) -> Finding {
    const CHECK: &str = "cell key";
    if config.security == SecurityMode::None {
        return Finding::warn(
            CHECK,
            "security = \"none\": anybody who reaches the port can join and forge",
            "remove the setting, and give cell_key where members run on several hosts",
        );
    }
    if let Some(path) = &config.cell_key {
        return match read_key(path) {
            Ok(_) => Finding::ok(CHECK, format!("{} holds a key that only its user reads", path.display())),
            Err(error) => {
                let (found, remedy) = split(&error);
                Finding::fail(CHECK, found, remedy)
            }
        };
    }
    if !config.bind.is_loopback() {
        return Finding::fail(
            CHECK,
            format!("no cell_key, and {} is reached from other hosts", config.bind),
            "make one file with 64 random hexadecimal digits (openssl rand -hex 32), mode 600, the same on every host",
        );
    }
    let key = LocalCell::open(config.runtime_dir.as_deref(), &config.cell).and_then(|cell| {
        // Looking must not make a key: that is for the first member to do.
        let path = cell.key_path();
        if path.exists() { cell.key().map(|_| Some(path)) } else { Ok(None) }
    });
    match key {
        Ok(Some(path)) => Finding::ok(CHECK, format!("{} holds a key that only its user reads", path.display())),
        Ok(None) => Finding::ok(CHECK, "none yet: the first member on this host makes one"),
        Err(error) => {
            let (found, remedy) = split(&error);
            Finding::fail(CHECK, found, remedy)
        }
    }
}

/// An error of the runtime directory names its remedy after a colon.
fn split(error: &LocalError) -> (String, String) {
    let text = error.to_string();
    match error {
        LocalError::Io { .. } => (text, "check that the path exists and that this user may use it".to_owned()),
        _ => match text.split_once(": ") {
            Some((found, remedy)) => (found.to_owned(), remedy.to_owned()),
            None => (text, "see docs/configuration.md, key runtime_dir".to_owned()),
        },
    }
}
