//! Messages to one member of a group: sending them, what becomes of them, and how they are delivered.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use bytes::Bytes;
use phalanx_driver::fork::Home;
use phalanx_life::MessageTo;
use serde::de::DeserializeOwned;

use crate::error::{DecodeError, SendError, Undelivered};
use crate::id::MemberId;
use crate::send::Queueing;
use crate::shared::cell::CellShared;
use crate::shared::commands::{Command, Queued, Waiter};
use crate::shared::group::GroupShared;
use crate::waiting::{Place, Waiters, block};

/// A message that a member of the group sent to this process alone ([`Group::send_to`](crate::Group::send_to)). It comes
/// after all multicasts of the group that its sender had delivered or sent before it. No state sees it.
///
/// A small payload shares a block of memory with its neighbours, so copy a payload that is kept for long.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct MessageToOne {
    /// The number of the view in which it was sent. A later one may be in force here.
    pub view: u64,
    /// Its sender.
    pub sender: MemberId,
    /// The payload.
    pub payload: Bytes,
}

impl MessageToOne {
    pub(crate) fn new(view: u64, sender: MemberId, payload: Bytes) -> Self {
        Self { view, sender, payload }
    }

    /// The payload as a value; see [`Group::send_value_to`](crate::Group::send_value_to).
    ///
    /// # Errors
    /// [`DecodeError`] if it is not of that type.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, DecodeError> {
        postcard::from_bytes(&self.payload).map_err(DecodeError::of_type)
    }
}

/// A message on its way to one member of a group: await it, or call [`SendTo::blocking`] or [`SendTo::try_post`].
///
/// Awaited, it waits while too much waits to be sent to that member, then until the message is sent; it gives the receipt. It
/// is sent after all that this process asked to send to the group before, so it waits while multicasts of this process wait,
/// and while no quorum is heard. It also waits while that member's inbox is full, and then holds back nothing but what goes
/// to the same member.
///
/// # Cancel safety
/// If the future is dropped before the message is queued ([`SendingTo::is_queued`]), nothing is sent. Dropped later, the
/// message is sent nevertheless, and [`Next::Lost`](crate::Next::Lost) counts it if not.
#[must_use = "nothing is sent until it is awaited"]
#[derive(Debug)]
pub struct SendTo {
    cell: Arc<CellShared>,
    group: Arc<GroupShared>,
    to: MemberId,
    payload: Result<Bytes, SendError>,
}

impl SendTo {
    pub(crate) fn new(
        cell: Arc<CellShared>,
        group: Arc<GroupShared>,
        to: MemberId,
        payload: Result<Bytes, SendError>,
    ) -> Self {
        Self { cell, group, to, payload }
    }

    /// Waits like the future, in a thread.
    ///
    /// # Errors
    /// See [`SendError`].
    pub fn blocking(self) -> Result<SentTo, SendError> {
        block(self.into_future())
    }

    /// Queues the message and asks for no receipt. Waits only while too much waits to be sent to that member. What is not sent,
    /// not delivered or in doubt, [`Next::Lost`](crate::Next::Lost) counts, and [`Group::flush`](crate::Group::flush) fails.
    ///
    /// # Cancel safety
    /// If the future is dropped before it was ready, nothing is sent.
    ///
    /// # Errors
    /// See [`SendError`]; nothing was queued.
    pub async fn post(self) -> Result<(), SendError> {
        let (cell, command) = self.command(None);
        Queueing::new(cell, command?).await
    }

    /// Like [`SendTo::post`], in a thread.
    ///
    /// # Errors
    /// See [`SendError`]; nothing was queued.
    pub fn blocking_post(self) -> Result<(), SendError> {
        block(self.post())
    }

    /// Like [`SendTo::post`], without waiting.
    ///
    /// # Errors
    /// [`SendError::Full`] if too much waits to be sent to that member; else see [`SendError`]. Nothing was queued.
    pub fn try_post(self) -> Result<(), SendError> {
        let (cell, command) = self.command(None);
        cell.push(command?).map_err(|(error, _)| error)
    }

    /// The command, and where it goes.
    fn command(self, receipt: Option<Arc<ToOneReceipt>>) -> (Arc<CellShared>, Result<Command, SendError>) {
        let Self { cell, group, to, payload } = self;
        let (life, to, receipt) = (group.life(), to.incarnation(), receipt.map(Waiter::ToOne));
        let command = payload
            .map(|payload| Command::Ask { group, asked: Queued::ToOne(MessageTo { life, to, payload, receipt }) });
        (cell, command)
    }
}

impl IntoFuture for SendTo {
    type Output = Result<SentTo, SendError>;
    type IntoFuture = SendingTo;

    fn into_future(self) -> SendingTo {
        let receipt = Arc::new(ToOneReceipt::new(self.cell.home));
        let (cell, command) = self.command(Some(Arc::clone(&receipt)));
        let queueing = command.map(|command| Queueing::new(cell, command));
        SendingTo { queueing, receipt, place: Place::default() }
    }
}

/// A message to one member that is being sent; see [`SendTo`].
#[must_use = "nothing is sent until it is awaited"]
#[derive(Debug)]
pub struct SendingTo {
    queueing: Result<Queueing, SendError>,
    receipt: Arc<ToOneReceipt>,
    place: Place,
}

impl SendingTo {
    /// Whether the message is queued: it is sent even if this future is dropped now.
    #[must_use]
    pub fn is_queued(&self) -> bool {
        self.queueing.as_ref().is_ok_and(Queueing::is_done)
    }
}

impl Future for SendingTo {
    type Output = Result<SentTo, SendError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { queueing, receipt, place } = &mut *self;
        match queueing {
            Err(error) => return Poll::Ready(Err(*error)),
            Ok(waits) if !waits.is_done() => match Pin::new(waits).poll(context) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => {
                    *queueing = Err(error);
                    return Poll::Ready(Err(error));
                }
                Poll::Pending => return Poll::Pending,
            },
            Ok(_) => {}
        }
        if !receipt.home.is_here() {
            return Poll::Ready(Err(SendError::Forked));
        }
        let sent = receipt.waiters.poll(place, context, || receipt.sent.get().copied());
        sent.map(|sent| sent.map(|view| SentTo { view, receipt: Arc::clone(receipt) }))
    }
}

impl Drop for SendingTo {
    fn drop(&mut self) {
        self.receipt.forget(&mut self.place);
    }
}

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

    fn forget(&self, place: &mut Place) {
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
