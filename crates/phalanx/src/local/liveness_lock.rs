//! One process's place in the cell's directory.

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

/// How a process means to come into its cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent {
    /// As the lock decides: found it, or join those who live on this host.
    ByLock,
    /// As its owner told it: seeds or fixed founders. It counts as settled from the start, so that nobody founds
    /// the same cell by the lock.
    AsConfigured,
}

/// What the lock decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// No settled process lives: this one founds the cell, alone.
    Found,
    /// There are others: control addresses of all that live.
    Join(Vec<SocketAddr>),
}

/// What came of [`LivenessLock::settle`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settled {
    /// The view stands.
    Yes,
    /// The cell was founded anew in the meantime: give this life up and join, with these addresses.
    Overtaken(Vec<SocketAddr>),
}

/// A process's liveness lock: held for as long as this value lives, and removed with it.
#[derive(Debug)]
pub struct LivenessLock {
    cell: LocalCell,
    /// What the file says.
    text: String,
    /// Its lock says that this process lives.
    file: File,
    /// Files that were removed under it. Others may have them open, and take the locks for a proof that it lives.
    removed: Vec<File>,
    path: PathBuf,
    counters: PathBuf,
    incarnation: Incarnation,
    intent: Intent,
    settled: bool,
    generation: u64,
    /// Living processes whose liveness lock is gone, when this one looked last.
    lost: Vec<Sign>,
    beacon: Option<Beacon>,
    /// Holds a runtime directory that was made again.
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

/// The same. `meanwhile` happens between each decision and the look whether it stands.
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
        generation += 1;
        write_generation(&cell.scope, generation)?;
    }
    let settled = found || intent == Intent::AsConfigured;
    let text = advert.to_text();
    let path = roster::liveness_lock_path(&cell.scope, incarnation, settled);
    let file = make(cell, &text, &path, incarnation)?;
    let counters = roster::counters_path(&file, &cell.scope);
    // Still under the lock: nobody sees the name without the liveness lock.
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

/// Makes a liveness lock file: whole and locked before it has its name.
fn make(cell: &LocalCell, text: &str, path: &Path, incarnation: Incarnation) -> Result<File, LocalError> {
    let draft = cell.scope.join(format!("{incarnation}.draft"));
    let mut file = open(&draft, true).map_err(LocalError::io("make", &draft))?;
    file.write_all(text.as_bytes()).map_err(LocalError::io("write", &draft))?;
    hold_for_life(&file).map_err(LocalError::io("lock", &draft))?;
    fs::rename(&draft, path).map_err(LocalError::io("rename", &draft))?;
    Ok(file)
}

impl LivenessLock {
    /// Where this process's counters belong.
    #[must_use]
    pub fn counters_path(&self) -> &Path {
        &self.counters
    }

    /// The directory of the liveness locks.
    #[must_use]
    pub fn scope(&self) -> &Path {
        &self.cell.scope
    }

    /// Living processes that keep this one from founding although their liveness locks are gone: they write them again soon, or do not go
    /// on. As of the last look.
    #[must_use]
    pub fn lost(&self) -> &[Sign] {
        &self.lost
    }

    /// Whether this process counts as settled.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.settled
    }

    /// To be asked in the first view of a life, before the application learns of it. `None`: another process
    /// decides right now, or the directory is being emptied; ask again soon.
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

    /// To be asked now and then while a process seeks its cell in vain. [`Standing::Found`]: nobody who is settled
    /// lives; this process is settled now and must found the cell in a new life. `None`: another process decides
    /// right now, or the directory is being emptied.
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
        if self.settled || others.iter().any(|live| live.settled) {
            self.lost.clear();
            return Ok(Some(Standing::Join(addresses(&others))));
        }
        self.lost = self.cell.lost(&adverts);
        if !self.lost.is_empty() {
            return Ok(Some(Standing::Join(addresses(&others))));
        }
        write_generation(&self.cell.scope, self.generation + 1)?;
        self.rename(self.incarnation, true)?;
        if !decision.stands() {
            // Somebody else may have decided as well.
            self.rename(self.incarnation, false)?;
            return Ok(None);
        }
        self.generation += 1;
        Ok(Some(Standing::Found))
    }

    /// A new life begins. After an exclusion the process is not `settled` any more (unless it goes as told). False:
    /// another process decides right now; ask again soon. Until then the old name stands, which only keeps others
    /// from founding.
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

    /// Looks whether the liveness lock is there, and writes it again if it is gone. Call it about once a second. True: it was written again;
    /// [`Self::counters_path`] is another one now.
    ///
    /// # Errors
    /// When the directory cannot be read or written.
    pub fn restore(&mut self) -> Result<bool, LocalError> {
        later(self.try_restore()).map(|again| again == Some(true))
    }

    fn try_restore(&mut self) -> Result<Option<bool>, LocalError> {
        self.check()?;
        // Whether it is there costs one look, and no lock.
        let gone = !is_at(&self.file, &self.path);
        let decided = if gone || read_generation(&self.cell.scope)? < self.generation { self.decide()? } else { None };
        Ok(Some(gone && decided.is_some()))
    }

    /// Takes the decision lock, with the liveness lock in its place. `None`: another process decides right now.
    fn decide(&mut self) -> Result<Option<Decision>, LocalError> {
        if !fs::exists(&self.cell.scope).map_err(LocalError::io("look at", &self.cell.scope))? {
            self.hold = Some(self.cell.restore_runtime_dir()?);
        }
        let Some(decision) = Decision::try_take(&self.cell.scope)? else { return Ok(None) };
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

    /// A forked child changes nothing.
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
        // A forked child has a copy of this value, and its parent lives.
        if self.home.is_here() {
            // First the name: nobody is to wait for a liveness lock that goes for good.
            self.beacon = None;
            let _ = fs::remove_file(&self.counters);
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// A directory that is emptied in the midst of a decision is made again with the next one.
fn later<T>(outcome: Result<Option<T>, LocalError>) -> Result<Option<T>, LocalError> {
    match outcome {
        Err(error) if error.is_gone() => Ok(None),
        outcome => outcome,
    }
}

/// What names tell of the living by.
fn digests(living: &[Live]) -> Vec<u32> {
    living.iter().map(|live| live.advert_digest).collect()
}

/// Control addresses, the settled first.
fn addresses(living: &[Live]) -> Vec<SocketAddr> {
    let mut living: Vec<&Live> = living.iter().collect();
    living.sort_by_key(|live| (!live.settled, live.incarnation));
    living.iter().filter_map(|live| live.advert.as_ref().map(|advert| advert.control)).collect()
}

/// How often the cell was founded in this directory.
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

/// How often a decision is taken back because its lock was removed meanwhile.
const TRIES: usize = 8;

/// Removed files that are held on. Whoever has an older one open looks for the new one before it takes the lock for free.
const REMOVED_MAX: usize = 8;
