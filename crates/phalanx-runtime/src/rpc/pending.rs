//! A call made through another thread, until its end.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use phalanx_core::rpc::{Failure, Reason};
use phalanx_driver::fork::Home;

use super::caller::CallerShared;

/// A call made by a [`Caller`](super::Caller): a future of its outcome for any executor, or [`Pending::wait`] for a
/// thread. Dropping it before its end gives the call up, which may run nevertheless. In a forked child a call of the
/// parent has ended with an unknown outcome.
#[must_use = "a call that is dropped is given up"]
pub struct Pending {
    pub(super) call: Arc<Waited>,
    pub(super) shared: Arc<CallerShared>,
}

/// State of a call, shared by its maker and the thread that makes it.
pub(super) struct Waited {
    /// The process in which it was made. In a forked child a thread that does not exist there may hold the lock.
    home: Home,
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Default)]
struct State {
    outcome: Option<Result<Vec<u8>, Failure>>,
    /// The call has ended; its outcome may have been taken.
    is_over: bool,
    waker: Option<Waker>,
}

impl Waited {
    pub(super) fn new() -> Self {
        Self { home: Home::here(), state: Mutex::default(), ended: Condvar::new() }
    }

    /// Fails in a forked child, for which the outcome of the parent's call is unknown.
    fn check(&self) -> Result<(), Failure> {
        self.home.check().map_err(|_forked| Failure::Unknown(Reason::Forked))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A poisoned lock is safe to use: no code panics while it holds the lock, and the state is consistent at any
        // time.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores the outcome and wakes the waiter.
    pub(super) fn end(&self, outcome: Result<Vec<u8>, Failure>) {
        let mut state = self.state();
        state.outcome = Some(outcome);
        state.is_over = true;
        let waker = state.waker.take();
        drop(state);
        self.ended.notify_one();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Pending {
    /// Blocks until the call has ended.
    ///
    /// # Errors
    /// [`Failure::NotExecuted`]: it did not run. [`Failure::Unknown`]: it may have run.
    pub fn wait(self) -> Result<Vec<u8>, Failure> {
        self.call.check()?;
        let mut state = self.call.state();
        loop {
            if let Some(outcome) = state.outcome.take() {
                return outcome;
            }
            state = self.call.ended.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Future for Pending {
    type Output = Result<Vec<u8>, Failure>;

    /// # Panics
    /// If it is polled after it was ready.
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Err(forked) = self.call.check() {
            return Poll::Ready(Err(forked));
        }
        let mut state = self.call.state();
        if let Some(outcome) = state.outcome.take() {
            return Poll::Ready(outcome);
        }
        assert!(!state.is_over, "polled after it was ready");
        match &mut state.waker {
            Some(waker) => waker.clone_from(context.waker()),
            none => *none = Some(context.waker().clone()),
        }
        Poll::Pending
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if self.call.check().is_ok() && !self.call.state().is_over {
            self.shared.give_up(&self.call);
        }
    }
}
