//! What the handles of a process and the protocol thread share.

use std::any::Any;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use phalanx_core as core;
use phalanx_driver::Waker;
use phalanx_driver::fork::Home;
use phalanx_runtime::belief::Belief;
use phalanx_runtime::config::Config;

use super::asks::AskNotes;
use super::commands::{Command, Commands};
use super::group::GroupShared;
use super::protocol_thread;
use super::queue::MergedQueue;
use super::watches::Watches;
use crate::end::End;
use crate::error::SendError;
use crate::events::{CellEvent, Telling};
use crate::id::{Member, MemberId};
use crate::waiting::{Waiters, Waiting, block_on};

/// Held by each handle. When the last of the program's is dropped, the process leaves, and the drop waits for that for a while.
/// Dropped by a panic, it ends the process at once: what the program was about to do with it is not known.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) shared: Arc<CellShared>,
    /// It is the library's own: it keeps the process from nothing.
    is_librarys: bool,
}

impl Held {
    pub(crate) fn new(shared: Arc<CellShared>) -> Arc<Self> {
        Arc::new(Self { shared, is_librarys: false })
    }

    /// One for a thread of the library, which uses the process for as long as the program does.
    pub(crate) fn for_library(&self) -> Arc<Self> {
        Arc::new(Self { shared: Arc::clone(&self.shared), is_librarys: true })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let shared = &self.shared;
        if self.is_librarys || !shared.home.is_here() {
            return;
        }
        if thread::panicking() {
            return shared.commands.stop();
        }
        shared.is_dropped.store(true, Ordering::SeqCst);
        shared.commands.leave();
        // A protocol thread that waits sends nothing meanwhile, whichever process it is of.
        if !protocol_thread::is_here() {
            block_on(shared.until_over(), Instant::now().checked_add(DROP_PATIENCE));
        }
    }
}

/// Longest time that a process tries to leave after its last handle was dropped.
pub(crate) const DROP_PATIENCE: Duration = Duration::from_secs(2);

/// State shared by the handles and the protocol thread.
pub(crate) struct CellShared {
    pub(crate) commands: Commands,
    /// What the program says of asks.
    pub(crate) ask_notes: Arc<AskNotes>,
    pub(crate) protocol: Waker,
    pub(crate) home: Home,
    pub(crate) belief: Belief,
    groups: Mutex<BTreeMap<Arc<str>, Arc<GroupShared>>>,
    facts: Mutex<Facts>,
    pub(crate) telling: Arc<Telling>,
    pub(crate) watches: Watches,
    /// How it ended, as far as is known before its thread ends.
    ended_as: Mutex<Option<End>>,
    /// Why its health check made it leave.
    unhealthy: Mutex<Option<String>>,
    pub(crate) is_trace_lost: AtomicBool,
    pub(crate) is_dropped: AtomicBool,
    pub(crate) over: AtomicBool,
    pub(crate) panicked: AtomicBool,
    /// Whether it left as one of the last, and left something behind.
    pub(crate) in_doubt: AtomicBool,
    pub(crate) ended: Waiters,
    /// Inboxes that end when the process does.
    ending: Mutex<Vec<Weak<MergedQueue>>>,
    /// What it was started with.
    pub(crate) config: Config,
    /// Its directory of servers, while it has one. The directory is a user of handles, so its type is not known here.
    pub(crate) directory: Mutex<Weak<dyn Any + Send + Sync>>,
}

impl std::fmt::Debug for CellShared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Cell")
    }
}

/// Facts that the application may read at any time.
#[derive(Clone)]
pub(crate) struct Facts {
    pub(crate) me: core::MemberInfo,
    pub(crate) view: Option<Arc<core::CellView>>,
}

impl CellShared {
    pub(crate) fn new(protocol: Waker, belief: Belief, me: core::MemberInfo, config: Config) -> Self {
        Self {
            commands: Commands::new(protocol.clone()),
            ask_notes: Arc::new(AskNotes::new(protocol.clone())),
            protocol,
            home: Home::here(),
            belief,
            groups: Mutex::default(),
            facts: Mutex::new(Facts { me, view: None }),
            telling: Arc::new(Telling::new(Home::here())),
            watches: Watches::new(Home::here()),
            ended_as: Mutex::default(),
            unhealthy: Mutex::default(),
            is_trace_lost: AtomicBool::new(false),
            is_dropped: AtomicBool::new(false),
            over: AtomicBool::new(false),
            panicked: AtomicBool::new(false),
            in_doubt: AtomicBool::new(false),
            ended: Waiters::default(),
            ending: Mutex::default(),
            config,
            directory: Mutex::new(Weak::<()>::new()),
        }
    }

    pub(crate) fn facts(&self) -> MutexGuard<'_, Facts> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn me(&self) -> Member {
        if self.home.is_here() {
            return Member::of(&self.facts().me);
        }
        // The thread that held the lock at the fork does not exist here, so the lock may never be released.
        Member::unknown(MemberId::of(core::Incarnation::NONE), String::new())
    }

    /// Tells the program what happened.
    pub(crate) fn tell(&self, event: CellEvent) {
        self.telling.tell(event);
    }

    pub(crate) fn notice(&self, text: String) {
        self.tell(CellEvent::Notice(text));
    }

    /// Ends an inbox when the process ends.
    pub(crate) fn ends_with_process(&self, inbox: &Arc<MergedQueue>) {
        // Nobody in a forked child waits for it, and the lock may be held by a thread that does not exist there.
        if !self.home.is_here() {
            return;
        }
        {
            let mut ending = self.ending.lock().unwrap_or_else(PoisonError::into_inner);
            ending.retain(|inbox| inbox.strong_count() > 0);
            ending.push(Arc::downgrade(inbox));
        }
        // Looked at after the push: either this thread sees the end, or the end sees the inbox.
        if self.over.load(Ordering::SeqCst) {
            inbox.end();
        }
    }

    /// Waits until the process is over.
    pub(crate) async fn until_over(&self) {
        let mut waiting = Waiting::new(&self.ended, self.home);
        poll_fn(|context| waiting.poll(context, || self.over.load(Ordering::SeqCst).then_some(()))).await;
    }

    /// Notes how the process ends.
    pub(crate) fn ends_as(&self, end: End) {
        *self.ended_as.lock().unwrap_or_else(PoisonError::into_inner) = Some(end);
    }

    /// The health check makes the process leave.
    pub(crate) fn leave_unhealthy(&self, why: String) {
        *self.unhealthy.lock().unwrap_or_else(PoisonError::into_inner) = Some(why.clone());
        self.tell(CellEvent::Unhealthy { why });
        self.commands.leave();
    }

    fn how_it_ended(&self) -> End {
        let end = self.ended_as.lock().unwrap_or_else(PoisonError::into_inner).take();
        let unhealthy = self.unhealthy.lock().unwrap_or_else(PoisonError::into_inner).take();
        match (end, unhealthy) {
            _ if self.panicked.load(Ordering::SeqCst) => End::Failed,
            (None | Some(End::Left | End::InDoubt), Some(why)) => End::Unhealthy { why },
            (end, _) => end.unwrap_or(End::Stopped),
        }
    }

    /// The process is over.
    pub(crate) fn end(&self) {
        // First: who learns of the end finds how it came.
        self.watches.end(self.how_it_ended());
        self.over.store(true, Ordering::SeqCst);
        self.ask_notes.end();
        self.ended.wake();
        self.telling.end();
        let ending = std::mem::take(&mut *self.ending.lock().unwrap_or_else(PoisonError::into_inner));
        ending.iter().filter_map(Weak::upgrade).for_each(|inbox| inbox.end());
    }

    fn groups(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Arc<GroupShared>>> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the name of a group for it.
    pub(crate) fn take_name(&self, group: &Arc<GroupShared>) -> Result<(), Taken> {
        let mut groups = self.groups();
        if groups.contains_key(&group.name) {
            return Err(Taken);
        }
        groups.insert(Arc::clone(&group.name), Arc::clone(group));
        Ok(())
    }

    /// Frees a group's name, unless another has taken it.
    pub(crate) fn free_name(&self, group: &Arc<GroupShared>) {
        let mut groups = self.groups();
        if groups.get(&group.name).is_some_and(|current| Arc::ptr_eq(current, group)) {
            groups.remove(&group.name);
        }
    }

    /// Accepts no more messages of a group, and asks the protocol thread to leave it.
    pub(crate) fn ask_to_leave(&self, group: &GroupShared) {
        if group.close() {
            self.commands.ask_to_leave_group();
        }
    }

    /// Queues a command; returns it if it is not accepted.
    pub(crate) fn push(&self, command: Command) -> Result<(), (SendError, Command)> {
        if !self.home.is_here() {
            return Err((SendError::Forked, command));
        }
        if let Command::Queue { group, asked } = &command
            && let Err(error) = group.admit(asked.to(), asked.bytes())
        {
            return Err((error, command));
        }
        self.commands.push(command).inspect_err(|(_, command)| {
            if let Command::Queue { group, asked } = command {
                group.release(asked.to(), asked.bytes());
            }
        })
    }

    /// Takes a message of so many bytes out of the account of its group, or of its receiver in the group.
    pub(crate) fn release(&self, group: &GroupShared, to: Option<core::Incarnation>, bytes: usize) {
        if group.release(to, bytes) {
            self.commands.note_room();
        }
    }
}

/// The name is in use.
pub(crate) struct Taken;
