//! The files of a process with a name of its own in the state directory: its record, and the lock that excludes others
//! of its name.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use phalanx_core::CellInstance;
use phalanx_core::member::{BootstrapMarker, FounderRecord};
use rustix::io::Errno;

use super::LocalCell;
use super::advert::Advert;
use super::beacon;
use super::error::LocalError;
use super::host;
use super::kept::Restored;
use super::lock::{Decision, hold_for_life, is_at, open};
use super::record::RecordFile;
use super::roster::read_advert;

/// A process's name, taken for as long as this value lives, and its record.
#[derive(Debug)]
pub struct Founder {
    cell: LocalCell,
    name: String,
    advert: Advert,
    file: RecordFile,
    lock: File,
    /// What the record on disk must say, except the last view. `None`: there is none yet.
    kept: Option<FounderRecord>,
    /// The record last written, by [`Self::keep`] or as a note.
    written: FounderRecord,
}

impl Founder {
    pub(super) fn take(cell: &LocalCell, name: &str, advert: &Advert) -> Result<Self, LocalError> {
        let file = cell.record_file(name);
        let path = file.beside(LOCK);
        let in_use = |holder: Option<Advert>| name_in_use(name, &path, holder.as_ref());
        // Held while the name's lock is examined and perhaps replaced, so that two starts cannot replace it at once.
        let _decision = Decision::take(&cell.state)?;
        let lock = take_lock(&path, advert)?.map_err(in_use)?;
        // The holder of the lock before the directory was emptied may not have restored it yet.
        let lives = beacon::sighted(|sign| sign.is_founder(cell.place, name));
        if let Some(sign) = lives.first() {
            return Err(LocalError::NameInUse { name: name.to_owned(), path, pid: Some(sign.pid), of: "" });
        }
        let kept = match file.read()? {
            Some(record) => Some(record),
            None => import(&cell.old_mark(name), &file)?,
        };
        let written = kept.clone().unwrap_or_default();
        Ok(Self { cell: cell.clone(), name: name.to_owned(), advert: advert.clone(), file, lock, kept, written })
    }

    /// Its name in the cell.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The path of the record.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// The record last written; empty if there is none yet.
    #[must_use]
    pub fn record(&self) -> &FounderRecord {
        &self.written
    }

    /// Writes the record, and returns once it is on disk.
    ///
    /// # Errors
    /// When it cannot be written; the previous record is unchanged.
    pub fn keep(&mut self, record: &FounderRecord) -> Result<(), LocalError> {
        self.cell.restore_state_dir()?;
        self.file.keep(record)?;
        self.kept = Some(record.clone());
        self.written = record.clone();
        Ok(())
    }

    /// Writes the last view of `now` if it differs from the written one, and restores the record and the lock if they
    /// are missing.
    pub(super) fn restore(&mut self, now: &FounderRecord, restored: &mut Restored) {
        if self.written.last != now.last && self.written.mark == now.mark {
            let noted = self.cell.restore_state_dir().and_then(|()| self.file.note(now));
            if restored.told(noted).is_some() {
                self.written.last.clone_from(&now.last);
            }
        }
        let record = self.restore_record();
        restored.add("the founder's record", record);
        let lock = self.restore_lock();
        restored.add("the founder's lock", lock);
    }

    fn restore_record(&mut self) -> Result<bool, LocalError> {
        let Some(kept) = &self.kept else { return Ok(false) };
        match self.file.read()? {
            None => {
                self.cell.restore_state_dir()?;
                self.file.keep(&self.written)?;
                self.kept = Some(self.written.clone());
                Ok(true)
            }
            // The last view is for people only: a restored copy with another last view does no harm.
            Some(there) if (&there.mark, there.heard, &there.end) == (&kept.mark, kept.heard, &kept.end) => Ok(false),
            Some(there) => Err(LocalError::OtherRecord {
                path: self.path().to_path_buf(),
                here: there.instance(),
                mine: kept.instance(),
            }),
        }
    }

    fn restore_lock(&mut self) -> Result<bool, LocalError> {
        let path = self.file.beside(LOCK);
        if is_at(&self.lock, &path) {
            let there = read_advert(&self.lock).filter(|there| *there != self.advert);
            return match there.filter(Advert::is_from_elsewhere) {
                Some(other) => Err(LocalError::NoLocks { path, pid: other.pid }),
                None => Ok(false),
            };
        }
        self.cell.restore_state_dir()?;
        let Some(_decision) = Decision::try_take(&self.cell.state)? else { return Ok(false) };
        match take_lock(&path, &self.advert)? {
            Ok(lock) => self.lock = lock,
            Err(holder) => return Err(name_in_use(&self.name, &path, holder.as_ref())),
        }
        Ok(true)
    }
}

/// Another process holds the lock, and so the name.
fn name_in_use(name: &str, path: &Path, holder: Option<&Advert>) -> LocalError {
    let of = match holder {
        Some(holder) if holder.is_from_elsewhere() => " of another machine, or of this one before it was started,",
        Some(holder) if holder.pid_namespace != host::namespace("pid") => " of another process namespace",
        _ => "",
    };
    LocalError::NameInUse { name: name.to_owned(), path: path.to_path_buf(), pid: holder.map(|holder| holder.pid), of }
}

/// Locks the file for as long as the process lives, and writes the advert into it. `Err` inside: another process holds
/// it; its advert if that can be read. The caller holds the decision lock of the state directory.
fn take_lock(path: &Path, advert: &Advert) -> Result<Result<File, Option<Advert>>, LocalError> {
    let open = || open(path, true).map_err(LocalError::io("open", path));
    let mut file = open()?;
    match hold_for_life(&file) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => match read_advert(&file) {
            // Only a forked child of the ended process still holds the lock.
            Some(holder) if holder.is_gone() => {
                fs::remove_file(path).map_err(LocalError::io("remove", path))?;
                file = open()?;
                hold_for_life(&file).map_err(LocalError::io("lock", path))?;
            }
            // It lives, or nobody here can know: a lock that is held proves nothing else.
            holder => return Ok(Err(holder)),
        },
        Err(error) => return Err(LocalError::io("lock", path)(error)),
    }
    let written = file.set_len(0).and_then(|()| file.write_all(advert.to_text().as_bytes()));
    written.map_err(LocalError::io("write", path))?;
    Ok(Ok(file))
}

/// Imports what earlier builds left in the runtime directory: the instance that the founder belongs to.
fn import(old: &Path, file: &RecordFile) -> Result<Option<FounderRecord>, LocalError> {
    let text = match fs::read_to_string(old) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(LocalError::io("read", old)(error)),
    };
    let bad = |_not_hex| LocalError::BadRecord { path: PathBuf::from(old) };
    let instance = u64::from_str_radix(text.trim(), 16).map(CellInstance).map_err(bad)?;
    let record = FounderRecord { mark: Some(BootstrapMarker::bare(instance)), ..FounderRecord::default() };
    file.keep(&record)?;
    Ok(Some(record))
}

const LOCK: &str = "lock";
