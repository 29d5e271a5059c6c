//! One process's liveness lock in the cell's runtime directory.

use std::fs::{self, File};
use std::io::Write;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use phalanx_core::Incarnation;
use phalanx_driver::fork::{Forked, Home};

use super::LocalCell;
use super::advert::Advert;
use super::beacon::{Beacon, Role, Sign};
use super::error::LocalError;
use super::lock::{Decision, hold_for_life, is_at, open};
use super::roster::{self, Live};

/// How a process intends to enter its cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent {
    /// As the lock decides: it founds the cell, or joins the processes that live on this host.
    ByLock,
    /// By joining the processes that live on this host. It never founds, and keeps no other from founding before it is in a
    /// view itself.
    JoinOnly,
    /// As configured: by seed addresses or fixed founders. It counts as settled from the start, so that no process
    /// founds the same cell by the lock.
    AsConfigured,
}

/// The decision under the lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// No settled process lives: this one founds the cell, alone.
    Found,
    /// Others live: the control addresses of all of them, as seeds.
    Join(Vec<SocketAddr>),
}

/// The outcome of [`LivenessLock::settle`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settled {
    /// The first view counts.
    Yes,
    /// The cell was founded anew in the meantime: give up this incarnation and join, with these seed addresses.
    Overtaken(Vec<SocketAddr>),
}

/// A process's liveness lock. It is held for as long as this value lives, and its file is removed on drop.
#[derive(Debug)]
pub struct LivenessLock {
    cell: LocalCell,
    /// The file's content.
    text: String,
    /// The lock on this file proves that the process lives.
    file: File,
    /// Files of this lock that were removed. Others may have them open and test their locks, so they stay locked.
    removed: Vec<File>,
    path: PathBuf,
    counters: PathBuf,
    incarnation: Incarnation,
    intent: Intent,
    settled: bool,
    generation: u64,
    /// Living processes whose liveness lock was missing at the last check.
    lost: Vec<Sign>,
    beacon: Option<Beacon>,
    /// Keeps clean-up programs away from a runtime directory that was created again.
    hold: Option<OwnedFd>,
    home: Home,
}

pub(super) fn enter(
    cell: &LocalCell,
    incarnation: Incarnation,
    advert: &Advert,
    intent: Intent,
    role: Role<'_>,
) -> Result<(LivenessLock, Standing), LocalError> {
    enter_while(cell, incarnation, advert, intent, role, || ())
}

/// Like [`enter`], for tests: `meanwhile` runs between each decision and the check whether it stands.
pub(super) fn enter_while(
    cell: &LocalCell,
    incarnation: Incarnation,
    advert: &Advert,
    intent: Intent,
    role: Role<'_>,
    mut meanwhile: impl FnMut(),
) -> Result<(LivenessLock, Standing), LocalError> {
    for _ in 0..TRIES {
        let hold = fs::exists(&cell.scope).is_ok_and(|there| !there).then(|| cell.restore_runtime_dir()).transpose()?;
        let decision = Decision::take(&cell.scope);
        // The decision counts only if the lock's file is still in place after its effects are written. Otherwise two
        // processes could found:
        // 1. This process locks `lock`, and finds no settled process.
        // 2. A clean-up program removes the file. Another process locks a new one, and finds none either.
        // 3. Both decide to found.
        let entered = decision.and_then(|decision| Ok((decide(cell, incarnation, advert, intent, role)?, decision)));
        meanwhile();
        match entered {
            Ok(((mut liveness_lock, standing), decision)) if decision.stands() => {
                liveness_lock.hold = hold;
                return Ok((liveness_lock, standing));
            }
            Err(error) if !error.is_gone() => return Err(error),
            Ok(_) | Err(_) => {}
        }
    }
    Err(LocalError::Emptied { path: cell.scope.clone() })
}

fn decide(
    cell: &LocalCell,
    incarnation: Incarnation,
    advert: &Advert,
    intent: Intent,
    role: Role<'_>,
) -> Result<(LivenessLock, Standing), LocalError> {
    let living = roster::sweep(&cell.scope)?;
    let mut generation = read_generation(&cell.scope)?;
    let may_found = intent == Intent::ByLock && !living.iter().any(|live| live.settled);
    let lost = if may_found { cell.lost(&digests(&living)) } else { Vec::new() };
    let found = may_found && lost.is_empty();
    if found {
        // A process that comes into its first view later compares this count, and so learns that the cell was founded
        // anew.
        generation += 1;
        write_generation(&cell.scope, generation)?;
    }
    let settled = found || intent == Intent::AsConfigured;
    let text = advert.to_text();
    let path = roster::liveness_lock_path(&cell.scope, incarnation, settled);
    let file = make(cell, &text, &path, incarnation)?;
    let counters = roster::counters_path(&file, &cell.scope);
    // Bound under the decision lock, so that no process sees the name without the liveness lock.
    let beacon = Beacon::light(&Sign::new(cell.place, advert, role));
    let standing = if found { Standing::Found } else { Standing::Join(addresses(&living)) };
    let liveness_lock = LivenessLock {
        cell: cell.clone(),
        text,
        file,
        removed: Vec::new(),
        path,
        counters,
        incarnation,
        intent,
        settled,
        generation,
        lost,
        beacon,
        hold: None,
        home: Home::here(),
    };
    Ok((liveness_lock, standing))
}

/// Creates a liveness lock file: it is complete and locked before it gets its name.
fn make(cell: &LocalCell, text: &str, path: &Path, incarnation: Incarnation) -> Result<File, LocalError> {
    let draft = cell.scope.join(format!("{incarnation}.draft"));
    let mut file = open(&draft, true).map_err(LocalError::io("make", &draft))?;
    file.write_all(text.as_bytes()).map_err(LocalError::io("write", &draft))?;
    hold_for_life(&file).map_err(LocalError::io("lock", &draft))?;
    fs::rename(&draft, path).map_err(LocalError::io("rename", &draft))?;
    Ok(file)
}

impl LivenessLock {
    /// The path of this process's counters.
    #[must_use]
    pub fn counters_path(&self) -> &Path {
        &self.counters
    }

    /// The directory of the liveness locks.
    #[must_use]
    pub fn scope(&self) -> &Path {
        &self.cell.scope
    }

    /// Living processes that keep this one from founding although their liveness locks are missing, as of the last
    /// check. They restore them soon, or are stopped.
    #[must_use]
    pub fn lost(&self) -> &[Sign] {
        &self.lost
    }

    /// Whether this process counts as settled.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.settled
    }

    /// Settles the process. Call it in the first view of an incarnation, before the application learns of the view.
    /// `None`: another process is deciding, or the directory is being emptied; call again soon.
    ///
    /// # Errors
    /// When the directory cannot be read or written.
    pub fn settle(&mut self) -> Result<Option<Settled>, LocalError> {
        later(self.try_settle())
    }

    fn try_settle(&mut self) -> Result<Option<Settled>, LocalError> {
        self.check()?;
        if self.settled {
            return Ok(Some(Settled::Yes));
        }
        let Some(_decision) = self.decide()? else { return Ok(None) };
        let generation = read_generation(&self.cell.scope)?;
        if generation != self.generation {
            self.generation = generation;
            return Ok(Some(Settled::Overtaken(self.others()?)));
        }
        self.rename(self.incarnation, true)?;
        Ok(Some(Settled::Yes))
    }

    /// Decides again. Call it at intervals while a process seeks its cell without success. [`Standing::Found`]: no
    /// settled process lives; this one is settled now and must found the cell in a new incarnation. `None`: another
    /// process is deciding, or the directory is being emptied.
    ///
    /// # Errors
    /// When the directory cannot be read or written.
    pub fn reconsider(&mut self) -> Result<Option<Standing>, LocalError> {
        later(self.try_reconsider())
    }

    fn try_reconsider(&mut self) -> Result<Option<Standing>, LocalError> {
        self.check()?;
        let Some(decision) = self.decide()? else { return Ok(None) };
        self.generation = read_generation(&self.cell.scope)?;
        let living = roster::sweep(&self.cell.scope)?;
        let adverts = digests(&living);
        let others: Vec<Live> = living.into_iter().filter(|live| live.incarnation != self.incarnation).collect();
        if self.settled || self.intent == Intent::JoinOnly || others.iter().any(|live| live.settled) {
            self.lost.clear();
            return Ok(Some(Standing::Join(addresses(&others))));
        }
        // Processes whose liveness locks are missing may be settled, so no process may found before they are back or
        // have ended.
        self.lost = self.cell.lost(&adverts);
        if !self.lost.is_empty() {
            return Ok(Some(Standing::Join(addresses(&others))));
        }
        write_generation(&self.cell.scope, self.generation + 1)?;
        self.rename(self.incarnation, true)?;
        if !decision.stands() {
            // The decision lock's file was removed meanwhile, so another process may have decided as well.
            self.rename(self.incarnation, false)?;
            return Ok(None);
        }
        self.generation += 1;
        Ok(Some(Standing::Found))
    }

    /// Begins an incarnation: renames the file. After an exclusion the process is not `settled` any more, unless it
    /// enters as configured.
    ///
    /// False: another process is deciding; call again soon. Until then the old name stands, which does no harm: it only
    /// keeps others from founding.
    ///
    /// # Errors
    /// When the file cannot be renamed.
    pub fn begin_anew(&mut self, incarnation: Incarnation, settled: bool) -> Result<bool, LocalError> {
        later(self.try_begin_anew(incarnation, settled)).map(|begun| begun.is_some())
    }

    fn try_begin_anew(&mut self, incarnation: Incarnation, settled: bool) -> Result<Option<()>, LocalError> {
        self.check()?;
        let Some(_decision) = self.decide()? else { return Ok(None) };
        self.generation = read_generation(&self.cell.scope)?;
        self.rename(incarnation, settled || self.intent == Intent::AsConfigured)?;
        Ok(Some(()))
    }

    /// Restores the liveness lock if its file is missing. Call it about once a second. True: it was restored, and
    /// [`Self::counters_path`] has changed.
    ///
    /// # Errors
    /// When the directory cannot be read or written.
    pub fn restore(&mut self) -> Result<bool, LocalError> {
        later(self.try_restore()).map(|again| again == Some(true))
    }

    fn try_restore(&mut self) -> Result<Option<bool>, LocalError> {
        self.check()?;
        // The check needs one `stat` and no lock.
        let gone = !is_at(&self.file, &self.path);
        let decided = if gone || read_generation(&self.cell.scope)? < self.generation { self.decide()? } else { None };
        Ok(Some(gone && decided.is_some()))
    }

    /// Takes the decision lock, after restoring missing files. `None`: another process is deciding.
    fn decide(&mut self) -> Result<Option<Decision>, LocalError> {
        if !fs::exists(&self.cell.scope).map_err(LocalError::io("look at", &self.cell.scope))? {
            self.hold = Some(self.cell.restore_runtime_dir()?);
        }
        let Some(decision) = Decision::try_take(&self.cell.scope)? else { return Ok(None) };
        // The count was removed with the directory. Without it, others could not notice a founding that this process
        // knows of.
        if read_generation(&self.cell.scope)? < self.generation {
            write_generation(&self.cell.scope, self.generation)?;
        }
        if !is_at(&self.file, &self.path) {
            let file = make(&self.cell, &self.text, &self.path, self.incarnation)?;
            self.counters = roster::counters_path(&file, &self.cell.scope);
            self.removed.push(std::mem::replace(&mut self.file, file));
            self.removed.drain(..self.removed.len().saturating_sub(REMOVED_MAX));
        }
        Ok(Some(decision))
    }

    /// Fails in a forked child, which must change nothing.
    fn check(&self) -> Result<(), LocalError> {
        self.home.check().map_err(|Forked| LocalError::Forked { path: self.path.clone() })
    }

    fn others(&self) -> Result<Vec<SocketAddr>, LocalError> {
        let living = roster::sweep(&self.cell.scope)?;
        let others: Vec<Live> = living.into_iter().filter(|live| live.incarnation != self.incarnation).collect();
        Ok(addresses(&others))
    }

    fn rename(&mut self, incarnation: Incarnation, settled: bool) -> Result<(), LocalError> {
        let path = roster::liveness_lock_path(&self.cell.scope, incarnation, settled);
        fs::rename(&self.path, &path).map_err(LocalError::io("rename", &self.path))?;
        self.path = path;
        self.incarnation = incarnation;
        self.settled = settled;
        Ok(())
    }
}

impl Drop for LivenessLock {
    fn drop(&mut self) {
        // A forked child has a copy of this value while its parent lives on.
        if self.home.is_here() {
            // The name is freed first: no process shall wait for a liveness lock that is removed for good.
            self.beacon = None;
            let _ = fs::remove_file(&self.counters);
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Turns a vanished directory into `None`: the next call creates it again.
fn later<T>(outcome: Result<Option<T>, LocalError>) -> Result<Option<T>, LocalError> {
    match outcome {
        Err(error) if error.is_gone() => Ok(None),
        outcome => outcome,
    }
}

/// The digests by which names refer to living processes.
fn digests(living: &[Live]) -> Vec<u32> {
    living.iter().map(|live| live.advert_digest).collect()
}

/// Control addresses, those of settled processes first.
fn addresses(living: &[Live]) -> Vec<SocketAddr> {
    let mut living: Vec<&Live> = living.iter().collect();
    living.sort_by_key(|live| (!live.settled, live.incarnation));
    living.iter().filter_map(|live| live.advert.as_ref().map(|advert| advert.control)).collect()
}

/// The number of times the cell was founded in this directory.
fn read_generation(scope: &Path) -> Result<u64, LocalError> {
    let path = scope.join("generation");
    match fs::read_to_string(&path) {
        Ok(text) => Ok(text.trim().parse().unwrap_or(0)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(LocalError::io("read", &path)(error)),
    }
}

fn write_generation(scope: &Path, generation: u64) -> Result<(), LocalError> {
    let (path, draft) = (scope.join("generation"), scope.join("generation.draft"));
    fs::write(&draft, format!("{generation}\n")).map_err(LocalError::io("write", &draft))?;
    fs::rename(&draft, &path).map_err(LocalError::io("rename", &draft))
}

/// How often a decision is repeated because its lock was removed meanwhile.
const TRIES: usize = 8;

/// Removed files that stay locked. A process with an older one open searches for the new one before it takes the lock
/// as free.
const REMOVED_MAX: usize = 8;
