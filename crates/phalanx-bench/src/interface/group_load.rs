//! What the threads or tasks of a member know together of one group: what to send, and how much was sent and delivered.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Waker;

use crate::choice::{Until, Way};
use crate::protocol::AskPlan;

/// Work for the thread or task that sends.
#[derive(Clone, Copy, Debug)]
pub(super) enum Job {
    /// Send as fast as possible, while this load goes on.
    Load { number: u64, size: usize, way: Way },
    /// Send one message after the other for `nanos`, each when the one before has come so far.
    Trips { size: usize, nanos: u64, until: Until },
    /// Ask one time after the other for `nanos`.
    Ask { ask: AskPlan, nanos: u64 },
}

/// One group of a member.
#[derive(Debug)]
pub(super) struct GroupLoad {
    /// The number of the load that goes on. It changes when a load begins or ends.
    current: AtomicU64,
    accepted: AtomicU64,
    delivered: AtomicU64,
    unread: AtomicBool,
    reader: Mutex<Option<Waker>>,
}

impl GroupLoad {
    pub(super) fn new() -> Self {
        Self {
            current: AtomicU64::new(0),
            accepted: AtomicU64::new(0),
            delivered: AtomicU64::new(0),
            unread: AtomicBool::new(false),
            reader: Mutex::new(None),
        }
    }

    /// Ends the load that goes on. Returns the number of the next one.
    pub(super) fn next(&self) -> u64 {
        self.current.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Ends the load that goes on.
    pub(super) fn stop(&self) {
        self.next();
    }

    #[inline]
    pub(super) fn goes_on(&self, number: u64) -> bool {
        self.current.load(Ordering::Relaxed) == number
    }

    /// Counts messages as sent. One thread does.
    #[inline]
    pub(super) fn sent(&self, messages: u64) {
        self.accepted.store(self.accepted() + messages, Ordering::Relaxed);
    }

    /// Counts messages as taken. One thread does.
    #[inline]
    pub(super) fn took(&self, messages: u64) {
        self.delivered.store(self.delivered() + messages, Ordering::Relaxed);
    }

    pub(super) fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }

    pub(super) fn delivered(&self) -> u64 {
        self.delivered.load(Ordering::Relaxed)
    }

    pub(super) fn set_reads(&self, reads: bool) {
        self.unread.store(!reads, Ordering::SeqCst);
        if reads && let Some(reader) = self.reader.lock().unwrap_or_else(PoisonError::into_inner).take() {
            reader.wake();
        }
    }

    #[inline]
    pub(super) fn reads(&self) -> bool {
        !self.unread.load(Ordering::Relaxed)
    }

    /// Waits in the reading thread until the group is to be read.
    pub(super) fn rest(&self) {
        while !self.reads() {
            std::thread::sleep(REST);
        }
    }

    /// Whether the group is to be read; if not, the task is woken when it is.
    pub(super) fn reads_or_wakes(&self, task: &Waker) -> bool {
        if self.reads() {
            return true;
        }
        *self.reader.lock().unwrap_or_else(PoisonError::into_inner) = Some(task.clone());
        self.reads()
    }
}

const REST: std::time::Duration = std::time::Duration::from_millis(5);
