//! Learns of deaths on the same host from the operating system, at once and without a doubt.
//!
//! Two proofs are taken: a process descriptor (`pidfd`) becomes readable when its process has ended, and the lock
//! that a process holds on its liveness lock for life is free. The first comes without asking; the second also covers
//! what lives in another process namespace, or ended its part in the cell without ending its process.

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

/// Watches the members of a cell view that share this host; in a forked child, which shares its descriptors with its parent, nobody.
#[derive(Debug)]
pub struct Deaths {
    scope: PathBuf,
    host: u64,
    /// Readable when a watched process has ended: who waits for that watches one descriptor, however many they are. `None`:
    /// the system gave none, and ends are found by looking now and then.
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

    /// Watches the members of `view` on this host, `me` aside, and nobody else.
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

    /// A descriptor that becomes readable when a watched process ends, and stays so until [`Self::check`].
    #[must_use]
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.ends.as_ref().map(AsFd::as_fd)
    }

    /// Whoever is proved dead since the last call. Call it when a descriptor is readable, and now and then.
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
            // Refused, it is found by looking.
            let _refused = epoll::add(ends, process, EventData::new_u64(0), EventFlags::IN);
        }
    }

    /// Said outright: a descriptor that a forked child still holds would stay in the set when it is closed here.
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
        // A child that the process forked may hold the lock on; the process's end is the end of the member.
        let ended = match &self.process {
            Found::Process(process) => has_ended(process),
            Found::Gone => true,
            Found::Unknown => false,
        };
        if ended || is_held(&self.liveness_lock) {
            return ended;
        }
        // It may have been removed, and written again.
        match roster::find(scope, incarnation).filter(is_held) {
            Some(liveness_lock) => self.liveness_lock = liveness_lock,
            None => return true,
        }
        false
    }
}
