//! A call of another thread's, on its way.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use phalanx_core::rpc::Failure;

use super::caller::Desk;

/// A call made by a [`Caller`](super::Caller): a future of its outcome, for any executor, or to be waited for by a thread.
/// Dropped before the outcome is there, the call is given up: it may run nevertheless.
#[must_use = "a call that is dropped is given up"]
pub struct Pending {
    pub(super) call: Arc<Waited>,
    pub(super) desk: Arc<Desk>,
}

/// What its maker and the thread that makes it share of a call.
#[derive(Default)]
pub(super) struct Waited {
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Default)]
struct State {
    outcome: Option<Result<Vec<u8>, Failure>>,
    /// The outcome was told, here or to whoever took it.
    is_over: bool,
    waker: Option<Waker>,
}

impl Waited {
    fn state(&self) -> MutexGuard<'_, State> {
        // Nobody panics with it, and what is in it is whole at any time.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the outcome.
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
        if !self.call.state().is_over {
            self.desk.give_up(&self.call);
        }
    }
}
