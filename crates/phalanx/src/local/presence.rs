//! One process's place in the cell's directory.

use std::fs::{self, File};
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use phalanx_core::Incarnation;
use phalanx_driver::fork::{Forked, Home};

use super::LocalCell;
use super::card::Card;
use super::error::LocalError;
use super::lock::{Decision, hold_for_life, open};
use super::roster::{self, Live};

/// How a process means to come into its cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent {
    /// As the lock decides: found it, or join those who live on this host.
    ByLock,
    /// As its owner told it: seeds or fixed founders. It counts as settled from the start, so that nobody founds
    /// the same cell by the lock.
    AsTold,
}

/// What the lock decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// No settled process lives: this one founds the cell, alone.
    Found,
    /// There are others: control addresses of all that live.
    Join(Vec<SocketAddr>),
}

/// What came of [`Presence::settle`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settled {
    /// The view stands.
    Yes,
    /// The cell was founded anew in the meantime: give this life up and join, with these addresses.
    Overtaken(Vec<SocketAddr>),
}

/// A process's presence: held for as long as this value lives, and removed with it.
#[derive(Debug)]
pub struct Presence {
    scope: PathBuf,
    /// Its lock says that this process lives.
    _file: File,
    path: PathBuf,
    counters: PathBuf,
    incarnation: Incarnation,
    intent: Intent,
    settled: bool,
    generation: u64,
    home: Home,
}

pub(super) fn enter(
    cell: &LocalCell,
    incarnation: Incarnation,
    card: &Card,
    intent: Intent,
) -> Result<(Presence, Standing), LocalError> {
    let scope = cell.scope().to_path_buf();
    let _decision = Decision::take(&scope)?;
    let living = roster::sweep(&scope)?;
    let mut generation = read_generation(&scope)?;
    let found = intent == Intent::ByLock && !living.iter().any(|live| live.settled);
    if found {
        generation += 1;
        write_generation(&scope, generation)?;
    }
    let settled = found || intent == Intent::AsTold;
    let draft = scope.join(format!("{incarnation}.draft"));
    let mut file = open(&draft, true).map_err(LocalError::io("make", &draft))?;
    file.write_all(card.to_text().as_bytes()).map_err(LocalError::io("write", &draft))?;
    hold_for_life(&file).map_err(LocalError::io("lock", &draft))?;
    let path = roster::presence_path(&scope, incarnation, settled);
    fs::rename(&draft, &path).map_err(LocalError::io("rename", &draft))?;
    let counters = roster::counters_path(&file, &scope);
    let standing = if found { Standing::Found } else { Standing::Join(addresses(&living)) };
    let home = Home::here();
    Ok((Presence { scope, _file: file, path, counters, incarnation, intent, settled, generation, home }, standing))
}

impl Presence {
    /// Where this process's counters belong.
    #[must_use]
    pub fn counters_path(&self) -> &Path {
        &self.counters
    }

    /// The directory of the presences.
    #[must_use]
    pub fn scope(&self) -> &Path {
        &self.scope
    }

    /// Whether this process counts as settled.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.settled
    }

    /// To be asked in the first view of a life, before the application learns of it. `None`: another process
    /// decides right now; ask again soon.
    ///
    /// # Errors
    /// When the directory cannot be read or written.
    pub fn settle(&mut self) -> Result<Option<Settled>, LocalError> {
        self.check()?;
        if self.settled {
            return Ok(Some(Settled::Yes));
        }
        let Some(_decision) = Decision::try_take(&self.scope)? else { return Ok(None) };
        let generation = read_generation(&self.scope)?;
        if generation != self.generation {
            self.generation = generation;
            return Ok(Some(Settled::Overtaken(self.others()?)));
        }
        self.rename(self.incarnation, true)?;
        Ok(Some(Settled::Yes))
    }

    /// To be asked now and then while a process seeks its cell in vain. [`Standing::Found`]: nobody who is settled
    /// lives; this process is settled now and must found the cell in a new life. `None`: another process decides
    /// right now.
    ///
    /// # Errors
    /// When the directory cannot be read or written.
    pub fn reconsider(&mut self) -> Result<Option<Standing>, LocalError> {
        self.check()?;
        let Some(_decision) = Decision::try_take(&self.scope)? else { return Ok(None) };
        self.generation = read_generation(&self.scope)?;
        let others = roster::sweep(&self.scope)?;
        let others: Vec<Live> = others.into_iter().filter(|live| live.incarnation != self.incarnation).collect();
        if self.settled || others.iter().any(|live| live.settled) {
            return Ok(Some(Standing::Join(addresses(&others))));
        }
        write_generation(&self.scope, self.generation + 1)?;
        self.generation += 1;
        self.rename(self.incarnation, true)?;
        Ok(Some(Standing::Found))
    }

    /// A new life begins. After an exclusion the process is not `settled` any more (unless it goes as told). False:
    /// another process decides right now; ask again soon. Until then the old name stands, which only keeps others
    /// from founding.
    ///
    /// # Errors
    /// When the file cannot be renamed.
    pub fn begin_anew(&mut self, incarnation: Incarnation, settled: bool) -> Result<bool, LocalError> {
        self.check()?;
        let Some(_decision) = Decision::try_take(&self.scope)? else { return Ok(false) };
        self.generation = read_generation(&self.scope)?;
        self.rename(incarnation, settled || self.intent == Intent::AsTold)?;
        Ok(true)
    }

    /// A forked child changes nothing.
    fn check(&self) -> Result<(), LocalError> {
        self.home.check().map_err(|Forked| LocalError::Forked { path: self.path.clone() })
    }

    fn others(&self) -> Result<Vec<SocketAddr>, LocalError> {
        let living = roster::sweep(&self.scope)?;
        let others: Vec<Live> = living.into_iter().filter(|live| live.incarnation != self.incarnation).collect();
        Ok(addresses(&others))
    }

    fn rename(&mut self, incarnation: Incarnation, settled: bool) -> Result<(), LocalError> {
        let path = roster::presence_path(&self.scope, incarnation, settled);
        fs::rename(&self.path, &path).map_err(LocalError::io("rename", &self.path))?;
        self.path = path;
        self.incarnation = incarnation;
        self.settled = settled;
        Ok(())
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        // A forked child has a copy of this value, and its parent lives.
        if self.home.is_here() {
            let _ = fs::remove_file(&self.counters);
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Control addresses, the settled first.
fn addresses(living: &[Live]) -> Vec<SocketAddr> {
    let mut living: Vec<&Live> = living.iter().collect();
    living.sort_by_key(|live| (!live.settled, live.incarnation));
    living.iter().filter_map(|live| live.card.as_ref().map(|card| card.control)).collect()
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
