//! What becomes of messages to one member of a group.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use phalanx_driver::fork::Home;

use crate::error::{SendError, Undelivered};
use crate::waiting::{Place, Waiters, block};

/// A receipt: the message to one member was sent. [`SentTo::delivered`] tells what becomes of it.
#[derive(Clone, Debug)]
pub struct SentTo {
    view: u64,
    receipt: Arc<ToOneReceipt>,
}

impl SentTo {
    /// The number of the view in which it was sent.
    #[must_use]
    pub fn view(&self) -> u64 {
        self.view
    }

    /// Waits until the message is in the receiver's inbox, or was given to its [`App`](crate::App). It does not say that the
    /// receiver's program has looked at it. While this process's own inbox of the group is full, it waits on.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing; another one learns the same.
    ///
    /// # Errors
    /// See [`Undelivered`].
    pub fn delivered(&self) -> Arrival {
        Arrival { receipt: Arc::clone(&self.receipt), place: Place::default() }
    }

    /// Like [`SentTo::delivered`], in a thread.
    ///
    /// # Errors
    /// See [`Undelivered`].
    pub fn blocking_delivered(&self) -> Result<(), Undelivered> {
        block(self.delivered())
    }

    /// What [`SentTo::delivered`] gives, if it is known now.
    #[must_use]
    pub fn outcome(&self) -> Option<Result<(), Undelivered>> {
        self.receipt.outcome.get().copied()
    }
}

/// Waits for what becomes of a message to one member; see [`SentTo::delivered`].
#[must_use = "it waits when it is awaited"]
#[derive(Debug)]
pub struct Arrival {
    receipt: Arc<ToOneReceipt>,
    place: Place,
}

impl Future for Arrival {
    type Output = Result<(), Undelivered>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { receipt, place } = &mut *self;
        if !receipt.home.is_here() {
            return Poll::Ready(Err(Undelivered::InDoubt));
        }
        receipt.waiters.poll(place, context, || receipt.outcome.get().copied())
    }
}

impl Drop for Arrival {
    fn drop(&mut self) {
        self.receipt.forget(&mut self.place);
    }
}

/// What becomes of one message to one member.
#[derive(Debug)]
pub(crate) struct ToOneReceipt {
    /// The view in which it was sent.
    sent: OnceLock<Result<u64, SendError>>,
    outcome: OnceLock<Result<(), Undelivered>>,
    waiters: Waiters,
    home: Home,
}

impl ToOneReceipt {
    pub(crate) fn new(home: Home) -> Self {
        Self { sent: OnceLock::new(), outcome: OnceLock::new(), waiters: Waiters::default(), home }
    }

    /// It was sent in that view, or is not.
    pub(crate) fn end(&self, sent: Result<u64, SendError>) {
        let first = self.sent.set(sent).is_ok();
        debug_assert!(first, "a message is sent once, or refused");
        self.waiters.wake();
    }

    pub(crate) fn settle(&self, outcome: Result<(), Undelivered>) {
        let first = self.outcome.set(outcome).is_ok();
        debug_assert!(first, "a message has one outcome");
        self.waiters.wake();
    }

    /// Whether it was sent.
    pub(crate) fn poll_sent(
        self: &Arc<Self>,
        place: &mut Place,
        context: &Context<'_>,
    ) -> Poll<Result<SentTo, SendError>> {
        if !self.home.is_here() {
            return Poll::Ready(Err(SendError::Forked));
        }
        let sent = self.waiters.poll(place, context, || self.sent.get().copied());
        sent.map(|sent| sent.map(|view| SentTo { view, receipt: Arc::clone(self) }))
    }

    pub(crate) fn forget(&self, place: &mut Place) {
        // A thread that held the lock at a fork does not exist in the child.
        if self.home.is_here() {
            self.waiters.forget(place);
        }
    }
}

/// What the core says of messages to one, as users are told.
pub(crate) const fn outcome(outcome: phalanx_core::ToOneOutcome) -> Result<(), Undelivered> {
    match outcome {
        phalanx_core::ToOneOutcome::Delivered => Ok(()),
        phalanx_core::ToOneOutcome::NotDelivered => Err(Undelivered::NotDelivered),
        phalanx_core::ToOneOutcome::InDoubt => Err(Undelivered::InDoubt),
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::Waker;

    use super::*;

    fn look(arrival: Arrival) -> Poll<Result<(), Undelivered>> {
        pin!(arrival).poll(&mut Context::from_waker(Waker::noop()))
    }

    /// Several may wait for one message, and whoever asks later learns the same.
    #[test]
    fn all_clones_of_a_receipt_learn_one_outcome() {
        for told in [Ok(()), Err(Undelivered::NotDelivered), Err(Undelivered::InDoubt)] {
            let receipt = Arc::new(ToOneReceipt::new(Home::here()));
            receipt.end(Ok(7));
            let sent = SentTo { view: 7, receipt: Arc::clone(&receipt) };
            let waits = [sent.clone(), sent.clone()]
                .map(|sent| std::thread::spawn(move || (sent.view(), sent.blocking_delivered())));
            assert_eq!((look(sent.delivered()), sent.outcome()), (Poll::Pending, None));
            receipt.settle(told);
            assert_eq!(waits.map(|wait| wait.join().expect("no panic")), [(7, told); 2]);
            assert_eq!((look(sent.delivered()), sent.outcome()), (Poll::Ready(told), Some(told)));
        }
    }
}
