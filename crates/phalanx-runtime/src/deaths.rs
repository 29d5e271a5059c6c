//! Learns of deaths on the same host from the operating system, at once and with certainty.
//!
//! There are two proofs. A process descriptor (`pidfd`) becomes readable when its process has ended, and the lock that
//! a process holds on its liveness lock becomes free. The first arrives without polling. The second also covers
//! processes in other process namespaces, and processes that left the cell without ending.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use phalanx_core::{CellView, Incarnation};
use phalanx_driver::fork::Home;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

use crate::local::advert::{Found, has_ended};
use crate::local::lock::is_held;
use crate::local::{host, roster};

/// Watches the members of a cell view that share this host. In a forked child, which shares its descriptors with its
/// parent, it watches none.
#[derive(Debug)]
pub struct Deaths {
    scope: PathBuf,
    host: u64,
    /// Readable when a watched process has ended. The caller waits for this one descriptor, however many processes are
    /// watched. `None`: the system refused it, and deaths are found by polling.
    ends: Option<OwnedFd>,
    watched: BTreeMap<Incarnation, Watched>,
    /// Members of this host whose liveness lock was not found yet.
    unseen: BTreeSet<Incarnation>,
    home: Home,
}

#[derive(Debug)]
struct Watched {
    liveness_lock: File,
    process: Found,
}

impl Deaths {
    /// Watches liveness locks in `scope`; see [`crate::local::LocalCell::scope`].
    #[must_use]
    pub fn new(scope: &Path) -> Self {
        Self {
            scope: scope.to_path_buf(),
            host: host::host_id(),
            ends: epoll::create(CreateFlags::CLOEXEC).ok(),
            watched: BTreeMap::new(),
            unseen: BTreeSet::new(),
            home: Home::here(),
        }
    }

    /// Watches the members of `view` on this host except `me`, and no others.
    pub fn watch(&mut self, view: &CellView, me: Incarnation) {
        if !self.home.is_here() {
            return;
        }
        let near = |m: &&phalanx_core::MemberInfo| m.host == self.host && m.host != 0 && m.incarnation != me;
        let members: BTreeSet<Incarnation> = view.members.iter().filter(near).map(|m| m.incarnation).collect();
        let ends = self.ends.as_ref();
        self.watched.retain(|incarnation, watched| {
            let stays = members.contains(incarnation);
            if !stays {
                watched.forget(ends);
            }
            stays
        });
        self.unseen = members.into_iter().filter(|m| !self.watched.contains_key(m)).collect();
        self.find_unseen();
    }

    /// How many processes are watched.
    #[must_use]
    pub fn watched(&self) -> usize {
        self.watched.len()
    }

    /// A descriptor that becomes readable when a watched process ends, and stays readable until [`Self::check`].
    #[must_use]
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.ends.as_ref().map(AsFd::as_fd)
    }

    /// Returns the members proved dead since the last call. Call it when a descriptor is readable, and at intervals.
    pub fn check(&mut self) -> Vec<Incarnation> {
        if !self.home.is_here() {
            return Vec::new();
        }
        self.find_unseen();
        let dead: Vec<Incarnation> = self
            .watched
            .iter_mut()
            .filter_map(|(of, watched)| watched.is_dead(&self.scope, *of).then_some(*of))
            .collect();
        for incarnation in &dead {
            if let Some(watched) = self.watched.remove(incarnation) {
                watched.forget(self.ends.as_ref());
            }
        }
        dead
    }

    fn find_unseen(&mut self) {
        let scope = &self.scope;
        let (watched, ends) = (&mut self.watched, self.ends.as_ref());
        self.unseen.retain(|incarnation| {
            let Some(liveness_lock) = roster::find(scope, *incarnation) else { return true };
            // An advert of another version cannot be read. Then the lock alone proves the death.
            let process = roster::read_advert(&liveness_lock).map_or(Found::Unknown, |advert| advert.find_process());
            let found = Watched { liveness_lock, process };
            found.await_end(ends);
            watched.insert(*incarnation, found);
            false
        });
    }
}

impl Watched {
    fn await_end(&self, ends: Option<&OwnedFd>) {
        if let (Some(ends), Some(process)) = (ends, self.descriptor()) {
            // If that is refused, polling finds the death.
            let _refused = epoll::add(ends, process, EventData::new_u64(0), EventFlags::IN);
        }
    }

    /// Removes the process from the epoll set explicitly. Closing its descriptor is not enough if a forked child still
    /// holds a copy: then it would stay in the set.
    fn forget(&self, ends: Option<&OwnedFd>) {
        if let (Some(ends), Some(process)) = (ends, self.descriptor()) {
            let _not_there = epoll::delete(ends, process);
        }
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match &self.process {
            Found::Process(process) => Some(process.as_fd()),
            Found::Gone | Found::Unknown => None,
        }
    }

    fn is_dead(&mut self, scope: &Path, incarnation: Incarnation) -> bool {
        // A child that the process forked may still hold the lock, so the end of the process itself decides.
        let ended = match &self.process {
            Found::Process(process) => has_ended(process),
            Found::Gone => true,
            Found::Unknown => false,
        };
        if ended || is_held(&self.liveness_lock) {
            return ended;
        }
        // The file may have been removed and restored.
        match roster::find(scope, incarnation).filter(is_held) {
            Some(liveness_lock) => self.liveness_lock = liveness_lock,
            None => return true,
        }
        false
    }
}
