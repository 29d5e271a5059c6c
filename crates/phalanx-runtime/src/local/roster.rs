//! The living processes, according to their locks.

use std::fs::{self, File};
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::time::Duration;

use phalanx_core::Incarnation;

use super::advert::Advert;
use super::beacon::advert_digest;
use super::error::LocalError;
use super::lock::{is_held, open};

/// A living process of the cell, of this user, in this network namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Live {
    /// Its current incarnation.
    pub incarnation: Incarnation,
    /// It founded the cell, came into a view, or was configured with addresses.
    pub settled: bool,
    /// Its advert. `None`: written by another version.
    pub advert: Option<Advert>,
    /// A digest of its advert; see [`super::beacon::Sign`].
    pub(super) advert_digest: u32,
    /// The path of its counters; the file may be missing for a moment after the start.
    pub counters: PathBuf,
}

/// Lists the living processes, without changing anything or taking a lock.
///
/// A process that begins an incarnation renames its file, perhaps between the listing of names and the opening of
/// files. Then the names are listed again. An open file stays valid whatever its name is.
pub(super) fn scan(scope: &Path) -> Result<Vec<Live>, LocalError> {
    let mut entries = Vec::new();
    for _ in 0..LISTINGS {
        entries.clear();
        if look(scope, |_, entry| entries.push(entry))? {
            break;
        }
    }
    Ok(entries.into_iter().filter_map(Entry::living).collect())
}

/// Lists the living processes and removes the files of dead ones. The caller holds the decision lock.
pub(super) fn sweep(scope: &Path) -> Result<Vec<Live>, LocalError> {
    let mut living = Vec::new();
    let mut counters = Vec::new();
    // Names change only under the lock, so one listing is enough.
    look(scope, |path, entry| match entry {
        Entry::LivenessLock { .. } => match entry.living() {
            Some(live) => living.push(live),
            None => drop(fs::remove_file(path)),
        },
        // Drafts are created and renamed under the lock, so a draft seen under the lock was abandoned.
        Entry::Draft => drop(fs::remove_file(path)),
        Entry::Counters => counters.push(path.to_path_buf()),
        // No command waits for its answer that long.
        Entry::Asked => {
            if is_old(path) {
                drop(fs::remove_file(path));
            }
        }
    })?;
    for path in counters {
        if !living.iter().any(|live| live.counters == path) {
            drop(fs::remove_file(path));
        }
    }
    Ok(living)
}

enum Entry {
    LivenessLock {
        file: File,
        incarnation: Incarnation,
        settled: bool,
        counters: PathBuf,
    },
    Draft,
    Counters,
    /// A request to a process, or the answer.
    Asked,
}

impl Entry {
    fn living(self) -> Option<Live> {
        let Self::LivenessLock { file, incarnation, settled, counters } = self else { return None };
        if !is_held(&file) {
            return None;
        }
        let text = read_text(&file);
        let advert = text.as_deref().and_then(Advert::from_text);
        if advert.as_ref().is_some_and(Advert::is_gone) {
            return None;
        }
        let advert_digest = advert_digest(text.as_deref().unwrap_or_default());
        Some(Live { incarnation, settled, advert, advert_digest, counters })
    }
}

/// Passes each entry to `each`. False: a listed liveness lock had another name, or none, when it was opened.
fn look(scope: &Path, mut each: impl FnMut(&Path, Entry)) -> Result<bool, LocalError> {
    let mut whole = true;
    let entries = fs::read_dir(scope).map_err(LocalError::io("read", scope))?;
    for entry in entries {
        let path = entry.map_err(LocalError::io("read", scope))?.path();
        let kind = match path.extension().and_then(|e| e.to_str()) {
            Some("draft") => Entry::Draft,
            Some("counters") => Entry::Counters,
            Some("request" | "answer" | "asked") => Entry::Asked,
            _ => {
                let Some((incarnation, settled)) = parse_name(&path) else { continue };
                let Ok(file) = open(&path, false) else {
                    whole = false;
                    continue;
                };
                let counters = counters_path(&file, scope);
                Entry::LivenessLock { file, incarnation, settled, counters }
            }
        };
        each(&path, kind);
    }
    Ok(whole)
}

/// Whether a file was written more than [`REQUEST_TTL`] ago.
fn is_old(path: &Path) -> bool {
    let age = fs::metadata(path).and_then(|found| found.modified()).map(|at| at.elapsed().unwrap_or_default());
    age.is_ok_and(|age| age > REQUEST_TTL)
}

/// The path of a liveness lock.
pub(super) fn liveness_lock_path(scope: &Path, incarnation: Incarnation, settled: bool) -> PathBuf {
    scope.join(format!("{incarnation}.{}", if settled { SETTLED } else { SEEKING }))
}

/// The path of a process's counters, named after the inode of the liveness lock file, so that it stays through renames.
pub(super) fn counters_path(liveness_lock: &File, scope: &Path) -> PathBuf {
    use std::os::unix::fs::MetadataExt;
    let number = liveness_lock.metadata().map_or(0, |m| m.ino());
    scope.join(format!("{number}.counters"))
}

/// The advert in a liveness lock file.
pub(crate) fn read_advert(file: &File) -> Option<Advert> {
    Advert::from_text(&read_text(file)?)
}

fn read_text(mut file: &File) -> Option<String> {
    file.rewind().ok()?;
    let mut text = String::new();
    file.take(ADVERT_BYTES).read_to_string(&mut text).ok()?;
    Some(text)
}

/// Finds the liveness lock of an incarnation, seeking or settled.
pub(crate) fn find(scope: &Path, incarnation: Incarnation) -> Option<File> {
    let either = [true, false].into_iter();
    either.map(|settled| liveness_lock_path(scope, incarnation, settled)).find_map(|path| open(&path, false).ok())
}

fn parse_name(path: &Path) -> Option<(Incarnation, bool)> {
    let settled = match path.extension()?.to_str()? {
        SETTLED => true,
        SEEKING => false,
        _ => return None,
    };
    let hex = path.file_stem()?.to_str().filter(|stem| stem.len() == 16)?;
    Some((Incarnation(u64::from_str_radix(hex, 16).ok()?), settled))
}

/// How often names are listed again because one changed meanwhile.
const LISTINGS: usize = 8;

const SETTLED: &str = "settled";
const SEEKING: &str = "seeking";

/// Longer than any command waits for its answer.
const REQUEST_TTL: Duration = Duration::from_secs(600);

/// An advert has some 300 bytes; a process's name has at most 200.
const ADVERT_BYTES: u64 = 4_096;
