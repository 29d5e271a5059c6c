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
use phalanx_core::Incarnation;
use phalanx_core::rpc::Failure;
use phalanx_driver::fork::Home;
use phalanx_life::{Entry, Known, Servers, Silent};
use phalanx_runtime::clock;

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

/// The directory as the state of its group. Its format is that of maps and tuples: each list by its member.
#[derive(Debug, Default)]
struct Listing(Servers);

/// A server in an announcement or a snapshot: the group that it serves, if any, and its address.
type Written = (Option<String>, SocketAddr);

fn written(entry: &Entry) -> (Option<&str>, SocketAddr) {
    (entry.group.as_deref(), entry.address)
}

fn read(list: Vec<Written>) -> Vec<Entry> {
    list.into_iter().map(|(group, address)| Entry { group, address }).collect()
}

impl State for Listing {
    fn apply(&mut self, message: &Message) {
        if let Ok(list) = message.decode::<Vec<Written>>() {
            self.0.announce(message.sender.incarnation(), read(list));
        }
    }

    fn view(&mut self, view: &View) {
        self.0.view(|member| view.rank_of(MemberId::of(member)).is_some());
    }

    fn snapshot(&self) -> Snapshot {
        let lists = self.0.lists().map(|(member, list)| (member, list.iter().map(written).collect()));
        Snapshot::encode(&lists.collect::<BTreeMap<Incarnation, Vec<_>>>())
    }

    fn restore(snapshot: Snapshot) -> Result<Self, DecodeError> {
        let lists = snapshot.decode::<BTreeMap<Incarnation, Vec<Written>>>()?;
        Ok(Self(Servers::of_lists(lists.into_iter().map(|(member, list)| (member, read(list))))))
    }
}

/// This process's membership in the directory, shared by its servers and clients. When the last of them is dropped, it
/// ends.
#[derive(Debug)]
pub(crate) struct Directory {
    shared: Arc<Shared>,
    /// Its thread has one of the library's, so that the last handle of the program is dropped by the program.
    _held: Arc<Held>,
}

#[derive(Debug)]
struct Shared {
    replica: Replica<Listing>,
    home: Home,
    mine: Mutex<Mine>,
    /// Deadlines of callers that wait, and how many have each.
    deadlines: Mutex<BTreeMap<Instant, usize>>,
    /// Servers that were silent lately.
    silent: Mutex<Silent>,
    /// There may be some. Changed behind that lock.
    has_silent: AtomicBool,
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
            replica: Replica::new(Listing::default()),
            home: held.shared.home,
            mine: Mutex::default(),
            deadlines: Mutex::default(),
            silent: Mutex::default(),
            has_silent: AtomicBool::new(false),
            callers: Waiters::default(),
            thread: Waiters::default(),
            news: AtomicU64::new(0),
            changes: AtomicU64::new(0),
            stopping: AtomicBool::new(false),
            over: AtomicBool::new(false),
        });
        let (for_library, for_thread) = (held.for_library(), Arc::clone(&shared));
        std::thread::Builder::new()
            .name("phalanx-servers".to_owned())
            .spawn(move || for_thread.run(&for_library))
            .map_err(|error| StartError::Thread(error.to_string()))?;
        let directory = Arc::new(Self { shared, _held: Arc::clone(held) });
        let weak = Arc::downgrade(&directory);
        *place = weak;
        Ok(directory)
    }

    /// Lists a server of this process.
    pub(crate) fn list(self: &Arc<Self>, entry: Entry) -> Option<Listed> {
        let mut mine = self.shared.mine();
        if mine.entries.len() >= Servers::ENTRIES_MAX {
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

    pub(crate) fn callers(&self) -> &Waiters {
        &self.shared.callers
    }

    /// Looks at what this process has of the directory.
    pub(crate) fn look<R>(&self, look: impl FnOnce(Known<'_>) -> R) -> R {
        let shared = &self.shared;
        // Read before the rest: what changes after it is looked at again.
        let changes = shared.changes.load(Ordering::Acquire);
        let is_over = shared.over.load(Ordering::Acquire);
        let is_current = shared.replica.is_current();
        let silent = shared.silent();
        look(Known { servers: &shared.replica.read().0, is_current, is_over, changes, silent: &silent })
    }

    /// A server answered a call, or the call failed so.
    pub(crate) fn note_end(&self, server: SocketAddr, ended: Result<(), Failure>) {
        if ended.is_err() || self.shared.has_silent.load(Ordering::Acquire) {
            let mut silent = self.shared.lock_silent();
            silent.note(server, ended, clock::now());
            self.shared.has_silent.store(true, Ordering::Release);
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

    fn lock_silent(&self) -> MutexGuard<'_, Silent> {
        self.silent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Servers that were silent lately.
    fn silent(&self) -> Vec<SocketAddr> {
        if !self.has_silent.load(Ordering::Acquire) {
            return Vec::new();
        }
        let mut silent = self.lock_silent();
        let now = silent.at(clock::now());
        if now.is_empty() {
            self.has_silent.store(false, Ordering::Release);
        }
        now
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
                let list: Vec<_> = entries.iter().map(written).collect();
                is_full = !(is_first && list.is_empty()) && group.send_value(&list).try_post().is_err();
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

#[cfg(test)]
mod tests {
    use phalanx_life::{Destination, Found};

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

    fn find(directory: &Directory) -> Found {
        directory.look(|known| known.find(&Destination::Group("stock".to_owned()), &[], 0))
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
        assert_eq!(find(&directory), Found::NotYet);
        group.blocking_leave().expect("leaves");
        let end = Instant::now() + Duration::from_secs(20);
        let found = loop {
            let found = find(&directory);
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

    /// Processes of other builds read it.
    #[test]
    fn the_directory_is_written_as_ever() -> Result<(), DecodeError> {
        let entries = [entry(Some("stock"), 1), entry(None, 300)];
        let list = b"\x02\x01\x05stock\x00\x7f\x00\x00\x01\x01\x00\x00\x7f\x00\x00\x01\xac\x02";
        let now: Vec<_> = entries.iter().map(written).collect();
        assert_eq!(postcard::to_allocvec(&now).expect("a list"), list);
        let earlier = Snapshot::new([&b"\x01\xac\x02"[..], list].concat());
        let lists = |listing: &Listing| {
            listing.0.lists().map(|(member, entries)| (member, entries.to_vec())).collect::<Vec<_>>()
        };
        let restored = Listing::restore(earlier)?;
        assert_eq!(lists(&restored), [(Incarnation(300), entries.to_vec())]);
        assert_eq!(lists(&Listing::restore(restored.snapshot())?), lists(&restored));
        Ok(())
    }

    /// What a member announced that died goes with the view.
    #[test]
    fn announcements_and_views_reach_the_directory() {
        let who = |incarnation| MemberId::of(Incarnation(incarnation));
        let announces = |incarnation, entries: &[Entry]| Message {
            view: 1,
            sender: who(incarnation),
            seq: 1,
            order: crate::id::Order::Total,
            uniform: true,
            position: Some(1),
            replayed: false,
            domain: None,
            payload: postcard::to_allocvec(&entries.iter().map(written).collect::<Vec<_>>()).expect("a list").into(),
        };
        let mut listing = Listing::default();
        for incarnation in 1..=3 {
            listing.apply(&announces(incarnation, &[entry(Some("stock"), 1)]));
        }
        listing.apply(&announces(2, &[]));
        let members = |listing: &Listing| listing.0.lists().map(|(member, _)| member.0).collect::<Vec<_>>();
        assert_eq!(members(&listing), [1, 3], "who serves no more");
        let mut view = crate::view::of_nobody(2);
        view.members = [2, 3].map(Incarnation).into();
        listing.view(&View::new(Arc::new(view), Incarnation(3)));
        assert_eq!(members(&listing), [3]);
    }
}
