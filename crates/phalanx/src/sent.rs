//! What becomes of what was sent: the protocol thread writes it, and receipts read it.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use atomic_waker::AtomicWaker;
use phalanx_driver::fork::Home;

use crate::error::{InDoubt, OutcomeError, SendError};
use crate::waiting::{Place, Waiters, block};

/// A receipt: the message is bound to a view. Every member that goes on from this view to the next one delivers it, or
/// none does.
#[derive(Clone, Debug)]
pub struct Sent {
    view: u64,
    seq: u64,
    /// Its number among the messages of this membership and incarnation.
    number: u64,
    life: Arc<Life>,
}

impl Sent {
    pub(crate) fn new(view: u64, seq: u64, number: u64, life: Arc<Life>) -> Self {
        Self { view, seq, number, life }
    }

    /// The number of the view in which it is sent.
    #[must_use]
    pub fn view(&self) -> u64 {
        self.view
    }

    /// Its number among this process's messages in that view, from 1.
    #[must_use]
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// Waits until every member of the view has the message, or until the view ended and every member that goes on has
    /// it. No receipt of this kind is given outside the primary partition, nor while fewer members have the group's state
    /// than [`GroupBuilder::members_min`](crate::GroupBuilder::members_min) asks for: so at least that many have it then.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing; another one learns the same.
    ///
    /// # Errors
    /// [`InDoubt`]: this incarnation ended first.
    pub fn stable(&self) -> Outcome {
        Outcome { life: Arc::clone(&self.life), number: self.number, of: Mark::Stable, place: Place::default() }
    }

    /// Like [`Sent::stable`], in a thread.
    ///
    /// # Errors
    /// See [`OutcomeError`].
    pub fn blocking_stable(&self) -> Result<(), OutcomeError> {
        block(self.stable())
    }

    /// Waits until the message was delivered here: what a [`Replica`](crate::Replica) shows then holds it. For a uniform
    /// message this implies that every member has it. While fewer members have the group's state than
    /// [`GroupBuilder::members_min`](crate::GroupBuilder::members_min) asks for, it waits on.
    ///
    /// A read that must hold all that any other member was told is stable needs a message of its own: send an empty
    /// uniform one in total order, wait until it is delivered, then read. What is stable is received everywhere, and may
    /// not be delivered here yet.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing; another one learns the same.
    ///
    /// # Errors
    /// [`InDoubt`]: this incarnation ended first.
    pub fn delivered(&self) -> Outcome {
        Outcome { life: Arc::clone(&self.life), number: self.number, of: Mark::Delivered, place: Place::default() }
    }

    /// Like [`Sent::delivered`], in a thread.
    ///
    /// # Errors
    /// See [`OutcomeError`].
    pub fn blocking_delivered(&self) -> Result<(), OutcomeError> {
        block(self.delivered())
    }

    /// Whether every member is known to have it now.
    #[must_use]
    pub fn is_stable(&self) -> bool {
        self.life.stable() >= self.number
    }
}

#[derive(Clone, Copy, Debug)]
enum Mark {
    Stable,
    Delivered,
}

/// Waits for what becomes of a sent message; see [`Sent::stable`] and [`Sent::delivered`].
#[must_use = "it waits when it is awaited"]
#[derive(Debug)]
pub struct Outcome {
    life: Arc<Life>,
    number: u64,
    of: Mark,
    place: Place,
}

impl Future for Outcome {
    type Output = Result<(), InDoubt>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { life, number, of, place } = &mut *self;
        if !life.home.is_here() {
            return Poll::Ready(Err(InDoubt));
        }
        life.waiters.poll(place, context, || {
            // The end is read first: what came before it is seen then.
            let over = life.over.load(Ordering::Acquire);
            let reached = match of {
                Mark::Stable => &life.stable,
                Mark::Delivered => &life.delivered,
            };
            if reached.load(Ordering::Acquire) >= *number { Some(Ok(())) } else { over.then_some(Err(InDoubt)) }
        })
    }
}

impl Drop for Outcome {
    fn drop(&mut self) {
        if self.life.home.is_here() {
            self.life.waiters.forget(&mut self.place);
        }
    }
}

/// A membership of this process in a group during one incarnation. Its messages are numbered from 1 over all views.
#[derive(Debug)]
pub(crate) struct Life {
    stable: AtomicU64,
    delivered: AtomicU64,
    over: AtomicBool,
    waiters: Waiters,
    home: Home,
}

impl Life {
    pub(crate) fn new(home: Home) -> Self {
        let (stable, delivered) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { stable, delivered, over: AtomicBool::new(false), waiters: Waiters::default(), home }
    }

    /// Publishes how far messages are stable and delivered.
    pub(crate) fn publish(&self, stable: u64, delivered: u64) {
        self.stable.store(stable, Ordering::Release);
        self.delivered.store(delivered, Ordering::Release);
        self.waiters.wake();
    }

    /// The last message that was published as stable.
    pub(crate) fn stable(&self) -> u64 {
        self.stable.load(Ordering::Acquire)
    }

    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::Release);
        self.waiters.wake();
    }
}

/// What becomes of one thing that was asked for: of a message, until it is bound to a view. One task waits for it.
#[derive(Debug)]
pub(crate) struct Receipt<T = Result<Sent, SendError>> {
    outcome: OnceLock<T>,
    task: AtomicWaker,
}

impl<T: Clone> Receipt<T> {
    pub(crate) fn new() -> Self {
        Self { outcome: OnceLock::new(), task: AtomicWaker::new() }
    }

    pub(crate) fn end(&self, outcome: T) {
        let first = self.outcome.set(outcome).is_ok();
        debug_assert!(first, "it has one outcome");
        self.task.wake();
    }

    pub(crate) fn poll(&self, context: &Context<'_>) -> Poll<T> {
        if let Some(outcome) = self.outcome.get() {
            return Poll::Ready(outcome.clone());
        }
        self.task.register(context.waker());
        self.outcome.get().map_or(Poll::Pending, |outcome| Poll::Ready(outcome.clone()))
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::Waker;

    use super::*;

    fn look(outcome: Outcome) -> Poll<Result<(), InDoubt>> {
        pin!(outcome).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn each_receipt_has_its_own_two_outcomes() {
        let life = Arc::new(Life::new(Home::here()));
        let sent = [1, 2, 3].map(|number| Sent::new(7, number, number, Arc::clone(&life)));
        life.publish(1, 2);
        assert_eq!(sent.each_ref().map(|sent| look(sent.stable()).is_ready()), [true, false, false]);
        assert_eq!(sent.each_ref().map(|sent| look(sent.delivered()).is_ready()), [true, true, false]);
        assert_eq!(sent.each_ref().map(Sent::is_stable), [true, false, false]);
        assert_eq!((sent[0].blocking_stable(), sent[1].blocking_delivered()), (Ok(()), Ok(())));
        // The end of the life takes back nothing that was reached before.
        life.end();
        let doubt = Poll::Ready(Err(InDoubt));
        assert_eq!(sent.each_ref().map(|sent| look(sent.stable())), [Poll::Ready(Ok(())), doubt, doubt]);
        assert_eq!(
            sent.each_ref().map(|sent| look(sent.delivered())),
            [Poll::Ready(Ok(())), Poll::Ready(Ok(())), doubt]
        );
        let doubt = Err(OutcomeError::InDoubt(InDoubt));
        assert_eq!((sent[1].blocking_stable(), sent[2].blocking_delivered()), (doubt, doubt));
    }
}
