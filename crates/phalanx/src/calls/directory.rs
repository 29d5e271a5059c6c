//! The directory of servers: which member serves which group, and at which address.
//!
//! It is the state of a group of the library's own ([`NAME`]), of which every process is a member that serves or calls
//! by name. Each member announces what it serves; what a member announced ends with its membership.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};

use futures_core::Stream;
use phalanx_driver::fork::Home;
use serde::{Deserialize, Serialize};

use crate::error::{DecodeError, JoinError, StartError};
use crate::group::{Group, GroupBuilder};
use crate::id::{LeaveReason, MemberId};
use crate::inbox::Inbox;
use crate::message::Message;
use crate::next::Next;
use crate::replica::{Replica, State};
use crate::shared::cell::Held;
use crate::snapshot::Snapshot;
use crate::view::View;
use crate::waiting::{Place, Waiters, block_on};

/// The group that holds the directory.
const NAME: &str = "phalanx.servers";

/// A server of a member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// The group that it serves; `None`: it is found by its member alone.
    pub(crate) group: Option<String>,
    pub(crate) address: SocketAddr,
}

/// What all members announced. Equal at all members.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Servers {
    of: BTreeMap<MemberId, Vec<Entry>>,
}

impl State for Servers {
    fn apply(&mut self, message: &Message) {
        if let Ok(entries) = message.decode::<Vec<Entry>>() {
            if entries.is_empty() {
                self.of.remove(&message.sender);
            } else if entries.len() <= ENTRIES_MAX {
                self.of.insert(message.sender, entries);
            }
        }
    }

    fn view(&mut self, view: &View) {
        self.of.retain(|member, _| view.rank_of(*member).is_some());
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::encode(self)
    }

    fn restore(snapshot: Snapshot) -> Result<Self, DecodeError> {
        snapshot.decode()
    }
}

/// Whom a call is for, in the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    Member(MemberId),
    Group(String),
}

/// What the directory knows of a server that is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Server(SocketAddr),
    /// No such server is in it.
    Nobody,
    /// This process does not have it yet.
    NotYet,
    /// The process has ended.
    Over,
}

/// This process's membership in the directory, shared by its servers and clients. When the last of them is dropped, it
/// ends.
#[derive(Debug)]
pub(crate) struct Directory {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    replica: Replica<Servers>,
    home: Home,
    mine: Mutex<Mine>,
    /// Deadlines of callers that wait, and how many have each.
    deadlines: Mutex<BTreeMap<Instant, usize>>,
    /// Callers that wait for a server.
    callers: Waiters,
    /// The directory's thread, while nothing happens.
    thread: Waiters,
    /// Counts what the thread has to look at.
    news: AtomicU64,
    /// Counts what happened in the group.
    changes: AtomicU64,
    stopping: AtomicBool,
    over: AtomicBool,
}

/// What this process serves.
#[derive(Debug, Default)]
struct Mine {
    entries: Vec<(u64, Entry)>,
    named: u64,
    version: u64,
}

/// A server in the directory, for as long as this lives.
#[derive(Debug)]
pub(crate) struct Listed {
    directory: Arc<Directory>,
    name: u64,
}

impl Directory {
    /// The directory of a process: the one that it has, or a new one.
    pub(crate) fn of(held: &Arc<Held>) -> Result<Arc<Self>, StartError> {
        if !held.shared.home.is_here() {
            return Err(StartError::Forked);
        }
        let mut place = held.shared.directory.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(directory) = place.upgrade().and_then(|directory| directory.downcast().ok()) {
            return Ok(directory);
        }
        let shared = Arc::new(Shared {
            replica: Replica::new(Servers::default()),
            home: held.shared.home,
            mine: Mutex::default(),
            deadlines: Mutex::default(),
            callers: Waiters::default(),
            thread: Waiters::default(),
            news: AtomicU64::new(0),
            changes: AtomicU64::new(0),
            stopping: AtomicBool::new(false),
            over: AtomicBool::new(false),
        });
        let (held, for_thread) = (Arc::clone(held), Arc::clone(&shared));
        std::thread::Builder::new()
            .name("phalanx-servers".to_owned())
            .spawn(move || for_thread.run(&held))
            .map_err(|error| StartError::Thread(error.to_string()))?;
        let directory = Arc::new(Self { shared });
        let weak = Arc::downgrade(&directory);
        *place = weak;
        Ok(directory)
    }

    /// Lists a server of this process.
    pub(crate) fn list(self: &Arc<Self>, entry: Entry) -> Option<Listed> {
        let mut mine = self.shared.mine();
        if mine.entries.len() >= ENTRIES_MAX {
            return None;
        }
        mine.named += 1;
        mine.version += 1;
        let name = mine.named;
        mine.entries.push((name, entry));
        drop(mine);
        self.shared.kick();
        Some(Listed { directory: Arc::clone(self), name })
    }

    /// How many changes there were so far, perhaps of other servers.
    pub(crate) fn changes(&self) -> u64 {
        self.shared.changes.load(Ordering::Acquire)
    }

    pub(crate) fn callers(&self) -> &Waiters {
        &self.shared.callers
    }

    /// A server that is wanted. Among several: number `turn`, counted around, of those that are not among `tried`.
    pub(crate) fn find(&self, wanted: &Wanted, tried: &[SocketAddr], turn: usize) -> Found {
        let shared = &self.shared;
        if shared.over.load(Ordering::Acquire) {
            return Found::Over;
        }
        let is_current = shared.replica.is_current();
        let servers = shared.replica.read();
        let fits = |member: &MemberId, entry: &Entry| match wanted {
            Wanted::Member(wanted) => member == wanted,
            Wanted::Group(group) => entry.group.as_deref() == Some(group),
        };
        let known = servers.of.iter().flat_map(|(member, entries)| entries.iter().map(move |entry| (member, entry)));
        let known = known.filter(|(member, entry)| fits(member, entry) && !tried.contains(&entry.address));
        let known: Vec<SocketAddr> = known.map(|(_, entry)| entry.address).collect();
        match known.len() {
            0 if is_current || !tried.is_empty() => Found::Nobody,
            0 => Found::NotYet,
            many => Found::Server(known[turn % many]),
        }
    }

    /// Wakes the callers at this time, too. Each call needs one of [`Directory::forget_deadline`].
    pub(crate) fn note_deadline(&self, at: Instant) {
        *self.shared.deadlines().entry(at).or_default() += 1;
        self.shared.kick();
    }

    pub(crate) fn forget_deadline(&self, at: Instant) {
        let mut deadlines = self.shared.deadlines();
        if let Some(count) = deadlines.get_mut(&at) {
            *count -= 1;
            if *count == 0 {
                deadlines.remove(&at);
            }
        }
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        if self.shared.home.is_here() {
            self.shared.stopping.store(true, Ordering::Release);
            self.shared.kick();
        }
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        let shared = &self.directory.shared;
        if shared.home.is_here() {
            let mut mine = shared.mine();
            mine.entries.retain(|(name, _)| *name != self.name);
            mine.version += 1;
            drop(mine);
            shared.kick();
        }
    }
}

/// What woke the directory's thread.
enum Woken {
    Item(Option<Next>),
    News,
}

impl Shared {
    fn mine(&self) -> MutexGuard<'_, Mine> {
        self.mine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn deadlines(&self) -> MutexGuard<'_, BTreeMap<Instant, usize>> {
        self.deadlines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the thread look again.
    fn kick(&self) {
        self.news.fetch_add(1, Ordering::AcqRel);
        self.thread.wake();
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    fn run(&self, held: &Arc<Held>) {
        while !self.is_stopping() {
            let begun = Instant::now();
            let joining = GroupBuilder::reserved(Arc::clone(held), NAME).ends_alone().state(&self.replica).join();
            match self.wait(joining) {
                None => {}
                Some(Ok((group, inbox))) => {
                    self.follow(&group, inbox);
                    group.ask_to_leave();
                    // The membership ended by itself: by a packet that made no sense, or a state that cannot be read. The
                    // process has it again once the others are rid of that. If the process is over, so is the next join.
                    self.pause(begun + REJOIN);
                }
                // The membership of an earlier directory of this process is not over yet.
                Some(Err(JoinError::AlreadyMember(_))) => self.pause(Instant::now() + AGAIN),
                Some(Err(_)) => break,
            }
        }
        self.over.store(true, Ordering::Release);
        self.callers.wake();
    }

    /// Waits, while callers' deadlines pass, or until the directory is not needed any more.
    fn pause(&self, until: Instant) {
        let (mut place, mut seen) = (Place::default(), self.news.load(Ordering::Acquire));
        while !self.is_stopping() && Instant::now() < until {
            let wake = self.next_deadline().map_or(until, |deadline| deadline.min(until));
            let news = poll_fn(|context| self.thread.poll(&mut place, context, || self.is_news(&mut seen)));
            block_on(news, Some(wake));
            self.end_deadlines();
        }
    }

    /// Waits for a future, while callers' deadlines pass. `None`: the directory is not needed any more.
    fn wait<F: Future + Unpin>(&self, mut future: F) -> Option<F::Output> {
        let (mut place, mut seen) = (Place::default(), self.news.load(Ordering::Acquire));
        loop {
            let woken = block_on(
                poll_fn(|context| {
                    if let Poll::Ready(value) = Pin::new(&mut future).poll(context) {
                        return Poll::Ready(Some(value));
                    }
                    self.thread.poll(&mut place, context, || self.is_news(&mut seen)).map(|()| None)
                }),
                self.next_deadline(),
            );
            self.end_deadlines();
            match woken.flatten() {
                Some(value) => return Some(value),
                None if self.is_stopping() => return None,
                None => {}
            }
        }
    }

    fn is_news(&self, seen: &mut u64) -> Option<()> {
        let now = self.news.load(Ordering::Acquire);
        (std::mem::replace(seen, now) != now).then_some(())
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.deadlines().first_key_value().map(|(at, _)| *at)
    }

    /// Wakes the callers if a deadline has passed.
    fn end_deadlines(&self) {
        let now = Instant::now();
        let mut deadlines = self.deadlines();
        let later = deadlines.split_off(&now);
        let passed = std::mem::replace(&mut *deadlines, later);
        drop(deadlines);
        if !passed.is_empty() {
            self.callers.wake();
        }
    }

    /// Announces what this process serves, whenever that or its incarnation changes, until the membership ends.
    fn follow(&self, group: &Group, mut inbox: Inbox) {
        let (mut place, mut seen) = (Place::default(), self.news.load(Ordering::Acquire));
        let mut announced = None;
        let mut is_full = false;
        while !self.is_stopping() {
            let now = (group.view().map(|view| view.me()), self.mine().version);
            if now.0.is_some() && announced != Some(now) {
                // An empty list needs no announcement by a member that never announced another one.
                let is_first = announced.is_none_or(|(who, _)| who != now.0);
                let entries: Vec<Entry> = self.mine().entries.iter().map(|(_, entry)| entry.clone()).collect();
                is_full = !(is_first && entries.is_empty()) && group.send_value(&entries).try_post().is_err();
                if !is_full {
                    announced = Some(now);
                }
            }
            let again = is_full.then(|| Instant::now() + AGAIN);
            let woken = block_on(
                poll_fn(|context| {
                    if let Poll::Ready(item) = Pin::new(&mut inbox).poll_next(context) {
                        return Poll::Ready(Woken::Item(item));
                    }
                    self.thread.poll(&mut place, context, || self.is_news(&mut seen)).map(|()| Woken::News)
                }),
                [again, self.next_deadline()].into_iter().flatten().min(),
            );
            self.end_deadlines();
            match woken {
                Some(Woken::Item(None)) => return,
                Some(Woken::Item(Some(item))) => {
                    if is_forgotten(&item) {
                        announced = None;
                    }
                    self.changes.fetch_add(1, Ordering::AcqRel);
                    self.callers.wake();
                }
                Some(Woken::News) | None => {}
            }
        }
    }
}

/// Whether the others may not have what this process announced, or forget it. After [`LeaveReason::Anew`] the process is
/// out of a view and comes back in the same incarnation.
const fn is_forgotten(item: &Next) -> bool {
    matches!(item, Next::Lost { .. } | Next::Excluded { .. } | Next::Left(LeaveReason::Anew))
}

/// From one membership to the next at least, if they end by themselves.
const REJOIN: Duration = Duration::from_millis(500);

/// How soon what was not possible is tried again.
const AGAIN: Duration = Duration::from_millis(20);

/// Most servers of one process in the directory.
const ENTRIES_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::Cell;

    /// A state that no directory can read.
    struct Foreign;

    impl State for Foreign {
        fn apply(&mut self, _: &Message) {}

        fn snapshot(&self) -> Snapshot {
            Snapshot::encode(&u64::MAX)
        }

        fn restore(_: Snapshot) -> Result<Self, DecodeError> {
            Ok(Self)
        }
    }

    /// The first member of the directory's group gives a state that cannot be read. Once it is gone, the directory is there.
    #[test]
    fn a_directory_whose_state_was_refused_is_joined_again() {
        let place = tempfile::tempdir().expect("a directory");
        let start = |name: &str| -> Cell {
            let directories = (place.path().join("run"), place.path().join("state"));
            let builder = Cell::builder("refused").name(name).directories(directories.0, directories.1);
            builder.blocking_start().expect("starts")
        };
        let (ann, bob) = (start("ann"), start("bob"));
        let foreign = Replica::new(Foreign);
        let group = GroupBuilder::reserved(Arc::clone(&ann.held), NAME).ends_alone().state(&foreign);
        let (group, mut inbox) = group.blocking_join().expect("founds it");
        let directory = Directory::of(&bob.held).expect("begins");
        let listed = directory.list(entry(Some("stock"), 1)).expect("there is room");
        // It comes, and goes again.
        let refused = std::iter::from_fn(|| inbox.blocking_next())
            .filter_map(|item| if let Next::View(view) = item { Some(view.members().len()) } else { None });
        assert_eq!(refused.skip_while(|members| *members < 2).find(|members| *members < 2), Some(1));
        assert_eq!(directory.find(&Wanted::Group("stock".into()), &[], 0), Found::NotYet);
        group.blocking_leave().expect("leaves");
        let end = Instant::now() + Duration::from_secs(20);
        let found = loop {
            let found = directory.find(&Wanted::Group("stock".into()), &[], 0);
            // Joined again, it has to be announced, too.
            if matches!(found, Found::Server(_)) || Instant::now() > end {
                break found;
            }
            std::thread::sleep(AGAIN);
        };
        assert!(matches!(found, Found::Server(_)), "{found:?}");
        drop(listed);
    }

    #[test]
    fn what_the_others_forget_is_announced_again() {
        let forgotten = |item| is_forgotten(&item);
        assert!(forgotten(Next::Left(LeaveReason::Anew)) && forgotten(Next::Lost { not_sent: 1, in_doubt: 0 }));
        assert!(!forgotten(Next::Left(LeaveReason::Stopped)) && !forgotten(Next::Current));
    }

    fn entry(group: Option<&str>, port: u16) -> Entry {
        Entry { group: group.map(str::to_owned), address: SocketAddr::from(([127, 0, 0, 1], port)) }
    }

    /// Nobody takes back what a member announced that died. A call to it would cost its caller the deadline.
    #[test]
    fn who_is_gone_is_not_in_the_directory() {
        let who = |incarnation| MemberId::of(phalanx_core::Incarnation(incarnation));
        let announces = |incarnation, entries: &[Entry]| Message {
            view: 1,
            sender: who(incarnation),
            seq: 1,
            order: crate::id::Order::Total,
            uniform: true,
            position: Some(1),
            replayed: false,
            payload: postcard::to_allocvec(entries).expect("entries").into(),
        };
        let mut servers = Servers::default();
        for incarnation in 1..=3 {
            servers.apply(&announces(incarnation, &[entry(Some("stock"), 1)]));
        }
        servers.apply(&announces(2, &[]));
        assert_eq!(servers.of.keys().copied().collect::<Vec<_>>(), [who(1), who(3)], "who serves no more");
        let mut view = crate::view::of_nobody(2);
        view.members = [2, 3].map(phalanx_core::Incarnation).into();
        servers.view(&View::new(Arc::new(view), phalanx_core::Incarnation(3)));
        assert_eq!(servers.of.into_keys().collect::<Vec<_>>(), [who(3)]);
    }

    #[test]
    fn entries_survive_the_wire() -> Result<(), DecodeError> {
        let entries = vec![entry(Some("stock"), 1), entry(None, 2)];
        assert_eq!(Snapshot::encode(&entries).decode::<Vec<Entry>>()?, entries);
        Ok(())
    }
}
