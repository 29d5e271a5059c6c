//! What a process believes of its own membership. It is published beside the ordered events, because those may have to
//! wait behind others.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use phalanx_core::{CellInstance, Incarnation, Instant, Membership, ViewNumber};
use phalanx_driver::fork::{Forked, Home};

use crate::clock;

/// Why a wait for another belief failed; it changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WaitError {
    /// Nothing changed in time.
    #[error("nothing changed in time")]
    Timeout,
    /// The process has left the cell, or was excluded and does not come back: nothing changes any more.
    #[error("this process is no longer in the cell")]
    Over,
    /// The handle was made before a fork, and this process is the child.
    #[error("this handle belongs to the parent process: start a cell of its own in the forked child")]
    Forked,
}

/// What a process believed of its membership at its last poll, and how long ago that was.
///
/// It is no lease: a process that was cut off believes to be primary until it notices, and the others may have
/// continued meanwhile. `docs/fencing.md` says what may rely on it, and what needs [`Believed::view`] as a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Believed {
    /// Its standing in the cell.
    pub membership: Membership,
    /// The incarnation of the process: another one after an exclusion.
    pub incarnation: Incarnation,
    /// The cell instance of its view; 0 before the first.
    pub instance: CellInstance,
    /// The number of its cell view; 0 before the first. It grows with each view of an instance.
    pub view: ViewNumber,
    /// How many times one of these changed since the process started.
    pub changes: u64,
    /// The time since its last poll. A process that runs idle polls about once a heartbeat; one that is stopped,
    /// starved or blocked in its handler does not.
    pub age: Duration,
}

impl Believed {
    /// Whether it believed to be primary, at most `age_max` ago.
    #[must_use]
    pub fn is_primary(&self, age_max: Duration) -> bool {
        self.membership == Membership::Primary && self.age <= age_max
    }
}

/// Reads what a process believes of its membership, from any thread, and waits for changes. Cheap to clone.
///
/// In a forked child it is dead: it reports that the process is over, with an unbounded age.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use phalanx_runtime::core::Membership;
/// use phalanx_runtime::{Inline, Options};
///
/// let process = Inline::start(&Options::default())?;
/// let belief = process.belief();
/// std::thread::spawn(move || {
///     let mut seen = belief.look();
///     while let Ok(now) = belief.wait(&seen, None) {
///         if now.membership != Membership::Primary || now.incarnation != seen.incarnation {
///             // Stop what only the primary may do, though deliveries still wait.
///         }
///         seen = now;
///     }
/// });
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Belief {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// The time of the process's last poll, on its clock.
    turned_at_ns: AtomicU64,
    published: Mutex<Published>,
    changed: Condvar,
    home: Home,
}

#[derive(Debug)]
struct Published {
    membership: Membership,
    incarnation: Incarnation,
    /// Cell instance and view number.
    view: (CellInstance, ViewNumber),
    changes: u64,
    tasks: Vec<(u64, Waker)>,
    tasks_named: u64,
}

impl Shared {
    fn published(&self) -> MutexGuard<'_, Published> {
        self.published.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The belief as of the last poll. A change is stored under the lock before the poll's time, so while `published` is
    /// locked it is at least as new as that time.
    fn believed(&self, published: &Published) -> Believed {
        let (instance, view) = published.view;
        let turned_at = Instant(self.turned_at_ns.load(Ordering::Acquire));
        Believed {
            membership: published.membership,
            incarnation: published.incarnation,
            instance,
            view,
            changes: published.changes,
            age: clock::now().since(turned_at),
        }
    }

    /// What is believed, if it differs from `seen`; `Over` if it will not change any more.
    fn news(&self, published: &Published, seen: &Believed) -> Option<Result<Believed, WaitError>> {
        if published.changes != seen.changes {
            Some(Ok(self.believed(published)))
        } else if published.membership == Membership::Over {
            Some(Err(WaitError::Over))
        } else {
            None
        }
    }
}

impl Belief {
    /// What the process believed at its last poll.
    #[must_use]
    pub fn look(&self) -> Believed {
        if !self.shared.home.is_here() {
            // A thread that held the lock at the fork does not exist here, so the lock may never be released.
            let membership = Membership::Over;
            let incarnation = Incarnation::NONE;
            return Believed {
                membership,
                incarnation,
                instance: CellInstance::NONE,
                view: ViewNumber::NONE,
                changes: u64::MAX,
                age: Duration::MAX,
            };
        }
        self.shared.believed(&self.shared.published())
    }

    /// Waits until the belief differs from `seen`, and returns the latest, which may be several changes ahead. A
    /// process that comes back at once after an exclusion may be found searching, or primary again, as another
    /// incarnation.
    ///
    /// # Errors
    /// [`WaitError::Timeout`]; [`WaitError::Over`] if nothing changes any more; [`WaitError::Forked`].
    pub fn wait(&self, seen: &Believed, patience: Option<Duration>) -> Result<Believed, WaitError> {
        self.shared.home.check().map_err(|Forked| WaitError::Forked)?;
        let until = patience.and_then(|patience| std::time::Instant::now().checked_add(patience));
        let mut published = self.shared.published();
        loop {
            if let Some(news) = self.shared.news(&published, seen) {
                return news;
            }
            published = match until {
                None => self.shared.changed.wait(published).unwrap_or_else(PoisonError::into_inner),
                Some(until) => {
                    let left = until.saturating_duration_since(std::time::Instant::now());
                    if left.is_zero() {
                        return Err(WaitError::Timeout);
                    }
                    self.shared.changed.wait_timeout(published, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    /// Like [`Belief::wait`], for a task of any executor. Any number of tasks may wait.
    #[must_use]
    pub fn changed(&self, seen: &Believed) -> Changed {
        Changed { shared: Arc::clone(&self.shared), seen: *seen, task: None }
    }
}

/// A change of what a process believes of its membership; see [`Belief::changed`].
#[derive(Debug)]
pub struct Changed {
    shared: Arc<Shared>,
    seen: Believed,
    /// Its number among the waiting tasks.
    task: Option<u64>,
}

impl Future for Changed {
    type Output = Result<Believed, WaitError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Err(Forked) = self.shared.home.check() {
            return Poll::Ready(Err(WaitError::Forked));
        }
        let shared = Arc::clone(&self.shared);
        let mut published = shared.published();
        if let Some(news) = shared.news(&published, &self.seen) {
            return Poll::Ready(news);
        }
        let waker = context.waker();
        let known = self.task.and_then(|task| published.tasks.iter_mut().find(|(name, _)| *name == task));
        if let Some((_, task)) = known {
            task.clone_from(waker);
        } else {
            published.tasks_named += 1;
            let name = published.tasks_named;
            published.tasks.push((name, waker.clone()));
            self.task = Some(name);
        }
        Poll::Pending
    }
}

impl Drop for Changed {
    fn drop(&mut self) {
        if let Some(task) = self.task
            && self.shared.home.is_here()
        {
            self.shared.published().tasks.retain(|(name, _)| *name != task);
        }
    }
}

/// The process's side: publishes what it believes after each poll. Dropping it publishes that the process is over.
#[derive(Debug)]
pub(crate) struct Believer {
    shared: Arc<Shared>,
    incarnation: Incarnation,
    membership: Membership,
    view: (CellInstance, ViewNumber),
}

impl Believer {
    pub(crate) fn new(incarnation: Incarnation) -> Self {
        let (membership, view) = (Membership::Searching, (CellInstance::NONE, ViewNumber::NONE));
        let published = Published { membership, incarnation, view, changes: 0, tasks: Vec::new(), tasks_named: 0 };
        let shared = Arc::new(Shared {
            turned_at_ns: AtomicU64::new(clock::now().0),
            published: Mutex::new(published),
            changed: Condvar::new(),
            home: Home::here(),
        });
        Self { shared, incarnation, membership, view }
    }

    pub(crate) fn belief(&self) -> Belief {
        Belief { shared: Arc::clone(&self.shared) }
    }

    /// Publishes the belief after a poll that started at `now`. Costs a store, unless something changed.
    #[inline]
    pub(crate) fn publish(
        &mut self,
        now: Instant,
        incarnation: Incarnation,
        membership: Membership,
        view: (CellInstance, ViewNumber),
    ) {
        if (incarnation, membership, view) != (self.incarnation, self.membership, self.view) {
            self.change(incarnation, membership, view);
        }
        // After the change, so that a reader of this time sees the belief of then, or a later one.
        self.shared.turned_at_ns.store(now.0, Ordering::Release);
    }

    #[cold]
    fn change(&mut self, incarnation: Incarnation, membership: Membership, view: (CellInstance, ViewNumber)) {
        (self.incarnation, self.membership, self.view) = (incarnation, membership, view);
        let mut published = self.shared.published();
        (published.incarnation, published.membership, published.view) = (incarnation, membership, view);
        published.changes += 1;
        let tasks = std::mem::take(&mut published.tasks);
        drop(published);
        self.shared.changed.notify_all();
        tasks.into_iter().for_each(|(_, task)| task.wake());
    }
}

impl Drop for Believer {
    fn drop(&mut self) {
        if self.shared.home.is_here() && self.membership != Membership::Over {
            self.change(self.incarnation, Membership::Over, self.view);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    const ME: Incarnation = Incarnation(7);

    fn publish(believer: &mut Believer, membership: Membership, view: ViewNumber) {
        believer.publish(clock::now(), ME, membership, (CellInstance(1), view));
    }

    #[test]
    fn a_waiting_thread_and_tasks_learn_of_each_change_and_of_the_end() {
        let mut believer = Believer::new(ME);
        let belief = believer.belief();
        let begun = belief.look();
        assert_eq!((begun.membership, begun.view, begun.changes), (Membership::Searching, ViewNumber::NONE, 0));
        assert_eq!(belief.wait(&begun, Some(Duration::ZERO)), Err(WaitError::Timeout));
        let follow = |wait: &dyn Fn(&Believed) -> Result<Believed, WaitError>| {
            let (mut seen, mut all) = (begun, Vec::new());
            let end = loop {
                if let Err(end) = wait(&seen) {
                    break end;
                }
                // It may have changed again since.
                seen = belief.look();
                all.push(seen.membership);
            };
            (end, all.last().copied())
        };
        thread::scope(|scope| {
            let waiting = [
                scope.spawn(|| follow(&|seen| belief.wait(seen, None))),
                scope.spawn(|| follow(&|seen| pollster::block_on(belief.changed(seen)))),
                scope.spawn(|| follow(&|seen| pollster::block_on(belief.changed(seen)))),
            ];
            for view in 1..=1_000 {
                let membership = if view % 2 == 0 { Membership::NonPrimary } else { Membership::Primary };
                publish(&mut believer, membership, ViewNumber(view));
            }
            drop(believer);
            for waiter in waiting {
                assert_eq!(waiter.join().expect("no panic"), (WaitError::Over, Some(Membership::Over)));
            }
        });
        let end = belief.look();
        assert_eq!((end.membership, end.view, end.changes), (Membership::Over, ViewNumber(1_000), 1_001));
    }

    #[test]
    fn a_task_that_waits_no_more_is_forgotten() {
        let believer = Believer::new(ME);
        let belief = believer.belief();
        let seen = belief.look();
        let mut changed = Box::pin(belief.changed(&seen));
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..3 {
            assert!(changed.as_mut().poll(&mut context).is_pending());
        }
        assert_eq!(belief.shared.published().tasks.len(), 1, "one place for each task, however often it is asked");
        drop(changed);
        assert_eq!(belief.shared.published().tasks.len(), 0);
    }

    #[test]
    fn a_belief_ages_unless_it_is_renewed() {
        let mut believer = Believer::new(ME);
        let belief = believer.belief();
        publish(&mut believer, Membership::Primary, ViewNumber(1));
        assert!(belief.look().is_primary(Duration::from_secs(3600)));
        thread::sleep(Duration::from_millis(20));
        let old = belief.look();
        assert!(old.age >= Duration::from_millis(20), "{old:?}");
        assert!(!old.is_primary(Duration::from_millis(19)), "{old:?}");
        publish(&mut believer, Membership::Primary, ViewNumber(1));
        let at = belief.shared.turned_at_ns.load(Ordering::Relaxed);
        assert_eq!(belief.look().changes, old.changes, "nothing changed");
        publish(&mut believer, Membership::NonPrimary, ViewNumber(1));
        assert!(belief.shared.turned_at_ns.load(Ordering::Relaxed) >= at);
        assert!(!belief.look().is_primary(Duration::MAX), "not primary, however fresh");
    }
}
