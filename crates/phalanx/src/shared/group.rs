//! What the handles of a group and the protocol thread share.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use phalanx_core::{DomainMismatch, Incarnation};
use phalanx_life::Key;

use crate::error::SendError;
use crate::id::LeaveReason;
use crate::view::View;
use crate::waiting::Waiters;

/// Where this process stands in a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It asked to be a member, and was in no view since.
    Joining,
    /// It is in a view, or comes back into one by itself.
    Member,
    /// The group cannot be made.
    Refused,
    /// The group has a state and this process named none, or the other way round.
    Differs { has_state: bool },
    /// The group has a domain that this process lacks, or lacks one that it needs.
    Domains(DomainMismatch),
    /// It is out for good.
    Left(LeaveReason),
}

#[derive(Clone, Debug)]
pub(crate) struct Status {
    pub(crate) phase: Phase,
    /// It was in a view.
    pub(crate) was_member: bool,
    pub(crate) view: Option<View>,
}

/// Messages that came to nothing: not sent, and in doubt.
#[derive(Debug, Default)]
pub(crate) struct Lost {
    not_sent: AtomicU64,
    in_doubt: AtomicU64,
}

impl Lost {
    pub(crate) fn get(&self) -> (u64, u64) {
        (self.not_sent.load(Ordering::Acquire), self.in_doubt.load(Ordering::Acquire))
    }

    pub(crate) fn set(&self, (not_sent, in_doubt): (u64, u64)) {
        self.not_sent.store(not_sent, Ordering::Release);
        self.in_doubt.store(in_doubt, Ordering::Release);
    }

    /// Counts more. Only the protocol thread does.
    pub(crate) fn add(&self, not_sent: u64, in_doubt: u64) {
        self.not_sent.fetch_add(not_sent, Ordering::AcqRel);
        self.in_doubt.fetch_add(in_doubt, Ordering::AcqRel);
    }
}

/// State shared by the handles of a group and the protocol thread.
pub(crate) struct GroupShared {
    pub(crate) name: Arc<str>,
    /// The membership at the protocol thread, once the join is taken from the ring.
    pub(crate) key: OnceLock<Key>,
    /// The bytes of multicasts that wait to be sent.
    queued: AtomicUsize,
    /// The same of messages to one, by receiver, so that one that takes none holds back nothing else.
    queued_to: Mutex<BTreeMap<Incarnation, usize>>,
    /// Counts incarnations: a message asked for in one is not sent in the next.
    life: AtomicU64,
    /// Asks of this process so far.
    asks: AtomicU64,
    pub(crate) lost: Lost,
    leaving: AtomicBool,
    status: Mutex<Status>,
    pub(crate) progress: Waiters,
}

impl std::fmt::Debug for GroupShared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GroupShared").field("name", &self.name).finish_non_exhaustive()
    }
}

impl GroupShared {
    pub(crate) fn new(name: &str) -> Self {
        Self {
            name: name.into(),
            key: OnceLock::new(),
            queued: AtomicUsize::new(0),
            queued_to: Mutex::default(),
            life: AtomicU64::new(0),
            asks: AtomicU64::new(0),
            lost: Lost::default(),
            leaving: AtomicBool::new(false),
            status: Mutex::new(Status { phase: Phase::Joining, was_member: false, view: None }),
            progress: Waiters::default(),
        }
    }

    /// The name of the next ask of this process.
    pub(crate) fn next_ask(&self) -> u64 {
        self.asks.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn life(&self) -> u64 {
        self.life.load(Ordering::Acquire)
    }

    /// A life is over, and this is the next one.
    pub(crate) fn begin_life(&self, life: u64) {
        self.life.store(life, Ordering::Release);
    }

    pub(crate) fn status(&self) -> MutexGuard<'_, Status> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the status, and wakes who waits for that.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Status)) {
        change(&mut self.status());
        self.progress.wake();
    }

    fn queued_to(&self) -> MutexGuard<'_, BTreeMap<Incarnation, usize>> {
        self.queued_to.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a message of so many bytes into the account. `to`: that of its receiver.
    pub(crate) fn admit(&self, to: Option<Incarnation>, bytes: usize) -> Result<(), SendError> {
        if self.is_leaving() {
            return Err(SendError::NotMember);
        }
        if let Some(to) = to {
            let mut queued_to = self.queued_to();
            let queued = queued_to.entry(to).or_default();
            if *queued >= QUEUED_TO_BYTES {
                return Err(SendError::Full);
            }
            *queued += bytes;
            return Ok(());
        }
        // The bound is checked before the message is added, so that one longer than the bound can be sent too.
        if bytes > 0 && self.queued.load(Ordering::Relaxed) >= QUEUED_BYTES {
            return Err(SendError::Full);
        }
        self.queued.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Adds the bytes of a multicast to the account, also beyond its bound: its sender has a bound of its own.
    pub(crate) fn admit_beyond(&self, bytes: usize) {
        self.queued.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Takes a message of so many bytes out of the account. True: who waits for room is to be woken.
    pub(crate) fn release(&self, to: Option<Incarnation>, bytes: usize) -> bool {
        let (before, max) = match to {
            Some(to) => (self.release_to(to, bytes), QUEUED_TO_BYTES),
            None => (self.queued.fetch_sub(bytes, Ordering::Relaxed), QUEUED_BYTES),
        };
        // Who waits for room is woken at half full: both sides work in longer runs then.
        before > max / 2 && before - bytes <= max / 2
    }

    /// Returns what was queued for that receiver.
    fn release_to(&self, to: Incarnation, bytes: usize) -> usize {
        let mut queued_to = self.queued_to();
        let queued = queued_to.entry(to).or_default();
        let before = *queued;
        *queued -= bytes;
        if *queued == 0 {
            queued_to.remove(&to);
        }
        before
    }

    #[cfg(test)]
    pub(crate) fn queued_bytes(&self) -> usize {
        self.queued.load(Ordering::Relaxed) + self.queued_to().values().sum::<usize>()
    }

    /// Accepts no more messages. False: it did not before.
    pub(crate) fn close(&self) -> bool {
        !self.leaving.swap(true, Ordering::AcqRel)
    }

    pub(crate) fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::Acquire)
    }
}

/// No multicast is accepted while more bytes than this of the group wait to be sent.
const QUEUED_BYTES: usize = 4 << 20;

/// The same of messages to one receiver: a few of the windows that a receiver grants.
const QUEUED_TO_BYTES: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    /// A receiver that takes nothing must hold back neither multicasts nor what goes to others, for ever.
    #[test]
    fn what_waits_for_one_receiver_takes_no_room_of_others() {
        let group = GroupShared::new("g");
        let [full, other] = [1, 2].map(|number| Some(Incarnation(number)));
        let bytes = QUEUED_TO_BYTES / 4;
        let accepted = (0..100).take_while(|_| group.admit(full, bytes).is_ok()).count();
        assert_eq!((accepted, group.admit(full, bytes)), (4, Err(SendError::Full)));
        assert_eq!((group.admit(other, QUEUED_BYTES), group.admit(None, QUEUED_BYTES)), (Ok(()), Ok(())));
        assert_eq!((group.admit(other, 1), group.admit(None, 1)), (Err(SendError::Full), Err(SendError::Full)));
        let woken: Vec<bool> = (0..4).map(|_| group.release(full, bytes)).collect();
        assert_eq!(woken, [false, true, false, false], "at half full");
        assert_eq!(group.admit(full, bytes), Ok(()), "there is room again");
        assert!(group.release(other, QUEUED_BYTES) && group.release(None, QUEUED_BYTES));
        assert_eq!((group.release(full, bytes), group.queued_bytes()), (false, 0));
        group.close();
        assert_eq!(group.admit(full, bytes), Err(SendError::NotMember));
    }
}
