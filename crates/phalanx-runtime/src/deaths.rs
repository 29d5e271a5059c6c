//! Learns of deaths on the same host from the operating system, at once and with certainty.
//!
//! There are two proofs. A process descriptor (`pidfd`) becomes readable when its process has ended, and the lock that
//! a process holds on its liveness lock becomes free. The first arrives without polling. The second also covers
//! processes in other process namespaces, and processes that left the cell without ending.
//!
//! A member that a view left out stays watched while anything waits for it ([`phalanx_core::member::awaited`]): a group
//! may wait for its state, and would wait for ever if its later death were proved to nobody.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use phalanx_core::{CellView, DeathProof, Incarnation};
use phalanx_driver::fork::Home;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

use crate::local::advert::{Found, has_ended};
use crate::local::lock::is_held;
use crate::local::{host, roster};

/// Watches the members of a cell view that share this host, and the former ones that are waited for. In a forked child,
/// which shares its descriptors with its parent, it watches none.
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

    /// Watches the members of `view` on this host except `me`, and the former members in `awaited` whose liveness locks
    /// are on this host. No others.
    pub fn watch(&mut self, view: &CellView, awaited: &BTreeSet<Incarnation>, me: Incarnation) {
        if !self.home.is_here() {
            return;
        }
        let near = |m: &&phalanx_core::MemberInfo| m.host == self.host && m.host != 0 && m.incarnation != me;
        let members: BTreeSet<Incarnation> = view.members.iter().filter(near).map(|m| m.incarnation).collect();
        let ends = self.ends.as_ref();
        self.watched.retain(|incarnation, watched| {
            let stays = members.contains(incarnation) || awaited.contains(incarnation);
            if !stays {
                watched.forget(ends);
            }
            stays
        });
        self.unseen = members.into_iter().filter(|m| !self.watched.contains_key(m)).collect();
        self.find_unseen();
        // A process that came after an exclusion has not seen the member. Its lock has that incarnation's name until it
        // begins another one, so it is looked for once with each view.
        for &who in awaited.iter().filter(|who| **who != me) {
            if !self.watched.contains_key(&who) {
                self.find(who, false);
            }
        }
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

    /// Returns the members proved dead since the last call, each with the proof. Call it when a descriptor is readable, and at intervals.
    pub fn check(&mut self) -> Vec<(Incarnation, DeathProof)> {
        if !self.home.is_here() {
            return Vec::new();
        }
        self.find_unseen();
        let dead: Vec<(Incarnation, DeathProof)> = self
            .watched
            .iter_mut()
            .filter_map(|(of, watched)| Some((*of, watched.proof_of_death(&self.scope, *of)?)))
            .collect();
        for (incarnation, _) in &dead {
            if let Some(watched) = self.watched.remove(incarnation) {
                watched.forget(self.ends.as_ref());
            }
        }
        dead
    }

    fn find_unseen(&mut self) {
        for incarnation in std::mem::take(&mut self.unseen) {
            if !self.find(incarnation, true) {
                self.unseen.insert(incarnation);
            }
        }
    }

    /// Watches the process with the liveness lock of this incarnation, if it is there. `is_near`: the process is known to
    /// run on this host; else its advert must say so.
    fn find(&mut self, incarnation: Incarnation, is_near: bool) -> bool {
        let Some(liveness_lock) = roster::find(&self.scope, incarnation) else { return false };
        let advert = roster::read_advert(&liveness_lock);
        if !is_near && advert.as_ref().is_none_or(|advert| advert.host != self.host) {
            return false;
        }
        // An advert of another version cannot be read. Then the lock alone proves the death.
        let process = advert.map_or(Found::Unknown, |advert| advert.find_process());
        let found = Watched { liveness_lock, process };
        found.await_end(self.ends.as_ref());
        self.watched.insert(incarnation, found);
        true
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

    fn proof_of_death(&mut self, scope: &Path, incarnation: Incarnation) -> Option<DeathProof> {
        // A child that the process forked may still hold the lock, so the end of the process itself decides.
        let ended = match &self.process {
            Found::Process(process) => has_ended(process),
            Found::Gone => true,
            Found::Unknown => false,
        };
        if ended || is_held(&self.liveness_lock) {
            return ended.then_some(DeathProof::Ended);
        }
        // The file may have been removed and restored.
        match roster::find(scope, incarnation).filter(is_held) {
            Some(liveness_lock) => {
                self.liveness_lock = liveness_lock;
                None
            }
            None => Some(DeathProof::Unlocked),
        }
    }
}
