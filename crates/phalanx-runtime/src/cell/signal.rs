//! Lets threads sleep until lock-free state changes. A change without sleepers costs one fence.

use std::time::{Duration, Instant};

use crate::sync::atomic::{AtomicUsize, Ordering, fence};
use crate::sync::{Condvar, Mutex, PoisonError};

#[derive(Debug, Default)]
pub(super) struct Signal {
    waiting: AtomicUsize,
    lock: Mutex<()>,
    changed: Condvar,
}

impl Signal {
    /// Wakes waiting threads. Call it after a change that may end a wait.
    pub(super) fn notify(&self) {
        // Orders the change before the load of `waiting`. Together with the fence in `wait`, either the waiter sees the
        // change or this thread sees the waiter.
        fence(Ordering::SeqCst);
        if self.waiting.load(Ordering::Relaxed) > 0 {
            // The lock keeps the notification from falling between a waiter's check and its sleep.
            let _held = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
            self.changed.notify_all();
        }
    }

    /// Sleeps until `ready` gives a value, or until `patience` has passed.
    pub(super) fn wait<T>(&self, patience: Option<Duration>, mut ready: impl FnMut() -> Option<T>) -> Option<T> {
        let until = patience.and_then(|patience| Instant::now().checked_add(patience));
        let mut held = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.waiting.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let outcome = loop {
            if let Some(value) = ready() {
                break Some(value);
            }
            held = match until {
                None => self.changed.wait(held).unwrap_or_else(PoisonError::into_inner),
                Some(until) => {
                    let left = until.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        break None;
                    }
                    self.changed.wait_timeout(held, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        };
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        outcome
    }
}
