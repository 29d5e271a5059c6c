//! Reads of a replica: the guard, the lock behind it, and the threads that hold one.
//!
//! The protocol thread waits for the guards of a replica before it changes it. So a thread that holds one and waits for what
//! comes by the protocol thread waits for itself. Each thread counts the guards that it holds, and every call that waits
//! asks [`check`] first (`waiting.rs`). What a thread does not count, a guard that one thread holds while another waits, the
//! protocol thread tells when it was held up for [`HELD_UP_AFTER`].

use std::cell::Cell;
use std::fmt::{self, Debug, Display};
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError};
use std::time::Duration;

thread_local! {
    /// The guards that this thread holds, of all replicas.
    static GUARDS: Cell<usize> = const { Cell::new(0) };
}

/// This thread holds a guard, so it must not wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "this thread holds a guard of `Replica::read`, for which the protocol thread waits: drop the guard before you wait"
)]
pub(crate) struct Reading;

/// Whether this thread may wait.
pub(crate) fn check() -> Result<(), Reading> {
    if GUARDS.get() == 0 { Ok(()) } else { Err(Reading) }
}

/// The same, for calls that have no error to say so.
#[track_caller]
pub(crate) fn expect_no_guard() {
    if let Err(reading) = check() {
        panic!("{reading}");
    }
}

/// How long the protocol thread waits for guards before it says so.
pub(crate) const HELD_UP_AFTER: Duration = Duration::from_secs(1);

/// What a [`Replica`](crate::Replica) shows, while it is read: the protocol thread waits as long as the guard lives. Made by
/// [`Replica::read`](crate::Replica::read).
///
/// It stays on its thread, which must not wait while it holds one. Calls of this crate that wait fail at once there, with an
/// error of the name `Reading`:
///
/// ```no_run
/// # use phalanx::{Group, Replica, State};
/// # fn program<S: State>(group: &Group, replica: &Replica<S>) {
/// use phalanx::SendError;
///
/// let guard = replica.read();
/// assert_eq!(group.send("more").blocking().err(), Some(SendError::Reading));
/// drop(guard);
/// assert!(group.send("more").blocking().is_ok());
/// # }
/// ```
///
/// So no future that moves between threads holds one over an `await`:
///
/// ```compile_fail
/// # use phalanx::{Group, Replica, State};
/// fn spawn(_: impl Future + Send) {}
///
/// fn program<S: State>(group: Group, replica: Replica<S>) {
///     spawn(async move {
///         let guard = replica.read();
///         let sent = group.send("more").await;
///         drop((guard, sent));
///     });
/// }
/// ```
#[must_use = "the protocol thread waits while it lives: a guard that is not kept shows nothing"]
pub struct ReadGuard<'a, S> {
    // Given back before it counts as gone.
    state: RwLockReadGuard<'a, S>,
    _counted: Counted<'a>,
}

impl<S> Deref for ReadGuard<'_, S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.state
    }
}

impl<S: Debug> Debug for ReadGuard<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        S::fmt(self, f)
    }
}

impl<S: Display> Display for ReadGuard<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        S::fmt(self, f)
    }
}

/// A state that threads read and the protocol thread changes.
///
/// A panic of the one that changes it keeps nobody from reading it.
#[derive(Debug, Default)]
pub(crate) struct StateLock<S> {
    state: RwLock<S>,
    gate: Gate,
}

impl<S> StateLock<S> {
    pub(crate) fn new(state: S) -> Self {
        Self { state: RwLock::new(state), gate: Gate::default() }
    }

    /// For a thread of the program.
    pub(crate) fn read(&self) -> ReadGuard<'_, S> {
        let counted = self.gate.enter();
        ReadGuard { state: self.look(), _counted: counted }
    }

    /// For the protocol thread, which waits for nobody to read.
    pub(crate) fn look(&self) -> RwLockReadGuard<'_, S> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// `None`: somebody reads it.
    pub(crate) fn try_write(&self) -> Option<RwLockWriteGuard<'_, S>> {
        match self.state.try_write() {
            Ok(state) => Some(state),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Whether no reader gets in.
    #[cfg(test)]
    pub(crate) fn is_locked(&self) -> bool {
        self.state.try_read().is_err()
    }

    /// Waits for readers. `held_up` is called once if that takes [`HELD_UP_AFTER`].
    pub(crate) fn write(&self, held_up: &dyn Fn()) -> RwLockWriteGuard<'_, S> {
        self.try_write().unwrap_or_else(|| {
            let shut = self.gate.shut();
            let state = shut.wait(Some(HELD_UP_AFTER), || self.try_write()).or_else(|| {
                held_up();
                shut.wait(None, || self.try_write())
            });
            state.expect("without a limit it ends only with the lock")
        })
    }
}

/// Keeps new readers back while the protocol thread waits for those that are there. A thread that holds a guard is let through:
/// what it has yet to read may be all that it waits for before it gives the guard back.
#[derive(Debug, Default)]
struct Gate {
    is_shut: AtomicBool,
    lock: Mutex<()>,
    opened: Condvar,
    left: Condvar,
}

impl Gate {
    fn lock(&self) -> MutexGuard<'_, ()> {
        self.lock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a guard of this thread, which it gets next.
    fn enter(&self) -> Counted<'_> {
        let guards = GUARDS.get();
        if guards == 0 && self.is_shut.load(Ordering::Acquire) {
            let is_shut = |_: &mut ()| self.is_shut.load(Ordering::Acquire);
            drop(self.opened.wait_while(self.lock(), is_shut).unwrap_or_else(PoisonError::into_inner));
        }
        GUARDS.set(guards + 1);
        Counted(self)
    }

    fn shut(&self) -> Shut<'_> {
        self.is_shut.store(true, Ordering::Relaxed);
        // Orders the store before the next look at the lock. Together with the fence of a guard that goes, either that look
        // finds the lock free, or the reader finds the gate shut.
        fence(Ordering::SeqCst);
        Shut(self)
    }
}

/// A guard of this thread.
struct Counted<'a>(&'a Gate);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        GUARDS.set(GUARDS.get() - 1);
        fence(Ordering::SeqCst);
        if self.0.is_shut.load(Ordering::Relaxed) {
            // Not between the look of the one that waits and its sleep.
            drop(self.0.lock());
            self.0.left.notify_one();
        }
    }
}

/// The gate is shut until this is dropped.
struct Shut<'a>(&'a Gate);

impl Shut<'_> {
    /// Waits until `take` gives a value; it is called whenever a reader has gone. `None`: the patience ended first.
    fn wait<T>(&self, patience: Option<Duration>, take: impl Fn() -> Option<T>) -> Option<T> {
        let mut taken = None;
        let is_missing = |_: &mut ()| {
            taken = take();
            taken.is_none()
        };
        let (lock, left) = (self.0.lock(), &self.0.left);
        match patience {
            Some(patience) => {
                let waited = left.wait_timeout_while(lock, patience, is_missing);
                drop(waited.unwrap_or_else(PoisonError::into_inner));
            }
            None => drop(left.wait_while(lock, is_missing).unwrap_or_else(PoisonError::into_inner)),
        }
        taken
    }
}

impl Drop for Shut<'_> {
    fn drop(&mut self) {
        let lock = self.0.lock();
        self.0.is_shut.store(false, Ordering::Release);
        drop(lock);
        self.0.opened.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::sync::mpsc::channel;
    use std::thread;

    use super::*;

    fn never() {
        panic!("nobody held it up for long");
    }

    #[test]
    fn a_thread_counts_its_own_guards_of_all_replicas() {
        let (one, other) = (StateLock::new(1), StateLock::new(2));
        assert_eq!(check(), Ok(()));
        let guards = (one.read(), other.read(), one.read());
        assert_eq!((*guards.0 + *guards.1, check()), (3, Err(Reading)));
        thread::scope(|scope| {
            let (guard, checked) = (&guards.0, scope.spawn(check));
            assert_eq!(checked.join().expect("no panic"), Ok(()), "another thread holds none");
            let looked = scope.spawn(move || (**guard, check()));
            assert_eq!(looked.join().expect("no panic"), (1, Ok(())), "who borrows one holds none");
        });
        drop(guards.0);
        drop(guards.1);
        assert_eq!(check(), Err(Reading), "one is left");
        drop(guards.2);
        assert_eq!(check(), Ok(()));
        let panicked = std::panic::catch_unwind(|| {
            let _guard = one.read();
            expect_no_guard();
        });
        let text = panicked.expect_err("it panics").downcast::<String>().expect("with a text");
        assert_eq!((*text, check()), (Reading.to_string(), Ok(())), "the guard is gone with the panic");
    }

    /// The one that changes the state waits for a reader, who reads once more in between, before another reader gets in.
    #[test]
    fn a_reader_gets_another_guard_while_new_readers_wait() {
        for _ in 0..200 {
            let lock = StateLock::new(0);
            thread::scope(|scope| {
                let guard = lock.read();
                let writes = scope.spawn(|| *lock.write(&|| ()) = 1);
                while !lock.gate.is_shut.load(Ordering::Acquire) {
                    thread::yield_now();
                }
                let reads = scope.spawn(|| *lock.read());
                assert_eq!((*lock.read(), *guard), (0, 0));
                drop(guard);
                writes.join().expect("no panic");
                assert_eq!(reads.join().expect("no panic"), 1, "it came after the one that waited");
            });
            assert!(!lock.gate.is_shut.load(Ordering::Acquire));
        }
    }

    #[test]
    fn no_reader_that_goes_is_missed() {
        let lock = StateLock::new(0_u64);
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let mut seen = 0;
                    while !is_over.load(Ordering::Relaxed) {
                        let (now, again) = (lock.read(), lock.read());
                        assert!(*now >= seen && *now == *again);
                        seen = *now;
                    }
                });
            }
            (0..20_000).for_each(|_| *lock.write(&|| ()) += 1);
            is_over.store(true, Ordering::Relaxed);
        });
        assert_eq!(*lock.look(), 20_000);
    }

    #[test]
    fn who_is_held_up_says_so_once_and_waits_on() {
        let lock = StateLock::new(0);
        let (told, tells) = channel();
        let count = AtomicUsize::new(0);
        thread::scope(|scope| {
            let guard = lock.read();
            let writes = scope.spawn(|| {
                let held_up = || {
                    count.fetch_add(1, Ordering::Relaxed);
                    told.send(()).expect("somebody waits for it");
                };
                *lock.write(&held_up) = 1;
            });
            tells.recv_timeout(Duration::from_secs(60)).expect("it is told");
            assert!(!writes.is_finished() && *guard == 0);
            // Readers that go without freeing the lock tell nothing more.
            drop(lock.read());
            drop(guard);
            writes.join().expect("no panic");
        });
        assert_eq!((count.load(Ordering::Relaxed), *lock.read()), (1, 1));
    }

    #[test]
    fn a_state_whose_change_panicked_is_read_and_changed() {
        let lock = StateLock::new(0);
        let changes = || {
            let mut state = lock.write(&never);
            *state = 1;
            panic!("as a state may");
        };
        thread::scope(|scope| assert!(scope.spawn(changes).join().is_err()));
        assert_eq!(*lock.read(), 1);
        *lock.write(&never) = 2;
        assert_eq!((*lock.look(), check()), (2, Ok(())));
    }
}
