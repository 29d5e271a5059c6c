//! Sending, and what becomes of what was sent.

use std::future::Future;
use std::num::NonZeroU64;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use atomic_waker::AtomicWaker;
use bytes::Bytes;
use phalanx_driver::fork::Home;
use phalanx_life::{Message, Payloads};

use crate::commands::{Command, Queued};
use crate::error::{InDoubt, SendError};
use crate::group::GroupShared;
use crate::id::{Guarantee, Order};
use crate::view::View;
use crate::waiting::{Place, Waiters, block};

/// A message on its way into a group: choose its order and guarantee, then await it, or call [`Multicast::blocking`] or
/// [`Multicast::try_post`].
///
/// By default it is totally ordered, and uniform if the group was founded so.
///
/// Awaited, it waits while too much waits to be sent, then until the message is bound to a view; it gives the receipt.
///
/// # Cancel safety
/// If the future is dropped before the message is queued ([`Sending::is_queued`]), nothing is sent. Dropped later, the
/// message is sent nevertheless, and [`Next::Lost`](crate::Next::Lost) counts it if not.
#[must_use = "nothing is sent until it is awaited"]
#[derive(Debug)]
pub struct Multicast {
    group: Arc<GroupShared>,
    order: Order,
    guarantee: Guarantee,
    in_view: Option<NonZeroU64>,
    body: Result<Payloads, SendError>,
}

impl Multicast {
    pub(crate) fn new(group: Arc<GroupShared>, body: Result<Payloads, SendError>) -> Self {
        Self { group, order: Order::Total, guarantee: Guarantee::GroupDefault, in_view: None, body }
    }

    /// In the same order at all members. The default.
    pub fn total(self) -> Self {
        self.order(Order::Total)
    }

    /// After all messages that it may depend on.
    pub fn causal(self) -> Self {
        self.order(Order::Causal)
    }

    /// In the order in which this process sends.
    pub fn fifo(self) -> Self {
        self.order(Order::Fifo)
    }

    /// With that order.
    pub fn order(self, order: Order) -> Self {
        Self { order, ..self }
    }

    /// Delivered only when every member has it.
    pub fn uniform(self) -> Self {
        self.guarantee(Guarantee::Uniform)
    }

    /// Delivered as soon as its order allows.
    pub fn plain(self) -> Self {
        self.guarantee(Guarantee::Plain)
    }

    /// With that guarantee.
    pub fn guarantee(self, guarantee: Guarantee) -> Self {
        Self { guarantee, ..self }
    }

    /// In that view and in no other: [`SendError::OtherView`] if another one is in force when its turn comes. For what
    /// only makes sense among the members that the sender has seen, such as work shared out by rank. All of it is
    /// delivered in that view, at the same place among the view's messages at all members. While the view is not adequate
    /// ([`View::is_adequate`]) it waits, if it is uniform.
    ///
    /// Such a message is at most as long as fits into one packet, else it is refused ([`SendError::TooLong`]). In a batch, a
    /// refused message and all behind it are not sent; those before it are.
    pub fn in_view(self, view: &View) -> Self {
        Self { in_view: NonZeroU64::new(view.number()), ..self }
    }

    /// Waits like the future, in a thread.
    ///
    /// # Errors
    /// See [`SendError`].
    pub fn blocking(self) -> Result<Sent, SendError> {
        block(self.into_future())
    }

    /// Queues the message and asks for no receipt: the cheapest way. Waits only while too much waits to be sent. What is
    /// not sent, or in doubt, [`Next::Lost`](crate::Next::Lost) counts, and [`Group::flush`](crate::Group::flush) fails.
    ///
    /// # Cancel safety
    /// If the future is dropped before it was ready, nothing is sent.
    ///
    /// # Errors
    /// See [`SendError`]; nothing was queued.
    pub async fn post(self) -> Result<(), SendError> {
        match self.queue()? {
            None => Ok(()),
            Some(waits) => waits.await,
        }
    }

    /// Like [`Multicast::post`], in a thread.
    ///
    /// # Errors
    /// See [`SendError`]; nothing was queued.
    pub fn blocking_post(self) -> Result<(), SendError> {
        self.queue()?.map_or(Ok(()), block)
    }

    /// Like [`Multicast::post`], without waiting.
    ///
    /// # Errors
    /// [`SendError::Full`] if too much waits; else see [`SendError`]. Nothing was queued.
    pub fn try_post(self) -> Result<(), SendError> {
        let group = self.group.clone();
        group.push(self.command(None)?).map_err(|(error, _)| error)
    }

    /// Queues it. If there is no room now, returns what waits for some: most messages need no such future.
    fn queue(self) -> Result<Option<Queueing>, SendError> {
        let group = self.group.clone();
        match group.push(self.command(None)?) {
            Ok(()) => Ok(None),
            Err((SendError::Full, command)) => {
                Ok(Some(Queueing { group, command: Some(command), place: Place::default() }))
            }
            Err((error, _)) => Err(error),
        }
    }

    fn command(self, receipt: Option<Arc<Receipt>>) -> Result<Command, SendError> {
        let Self { group, order, guarantee, in_view, body } = self;
        let (life, order, stability) = (group.life(), order.to_core(), guarantee.to_core());
        Ok(Command::Ask {
            group,
            asked: Queued::Send(Message { life, order, stability, in_view, body: body?, receipt }),
        })
    }
}

impl IntoFuture for Multicast {
    type Output = Result<Sent, SendError>;
    type IntoFuture = Sending;

    fn into_future(self) -> Sending {
        let group = self.group.clone();
        let receipt = Arc::new(Receipt::new());
        let (queueing, failed) = match self.command(Some(Arc::clone(&receipt))) {
            Ok(command) => (Queueing { group, command: Some(command), place: Place::default() }, None),
            Err(error) => (Queueing { group, command: None, place: Place::default() }, Some(error)),
        };
        Sending { queueing, receipt, failed }
    }
}

/// A message that is being sent; see [`Multicast`].
#[must_use = "nothing is sent until it is awaited"]
#[derive(Debug)]
pub struct Sending {
    queueing: Queueing,
    receipt: Arc<Receipt>,
    failed: Option<SendError>,
}

impl Sending {
    /// Whether the message is queued: it is sent even if this future is dropped now.
    #[must_use]
    pub fn is_queued(&self) -> bool {
        self.failed.is_none() && self.queueing.command.is_none()
    }
}

impl Future for Sending {
    type Output = Result<Sent, SendError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(error) = self.failed {
            return Poll::Ready(Err(error));
        }
        if self.queueing.command.is_some() {
            match Pin::new(&mut self.queueing).poll(context) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => {
                    self.failed = Some(error);
                    return Poll::Ready(Err(error));
                }
                Poll::Pending => return Poll::Pending,
            }
        }
        if !self.queueing.group.home().is_here() {
            return Poll::Ready(Err(SendError::Forked));
        }
        self.receipt.poll(context)
    }
}

/// Waits until there is room for a command.
#[derive(Debug)]
struct Queueing {
    group: Arc<GroupShared>,
    command: Option<Command>,
    place: Place,
}

impl Future for Queueing {
    type Output = Result<(), SendError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { group, command, place } = &mut *self;
        if !group.home().is_here() {
            return Poll::Ready(Err(SendError::Forked));
        }
        group.room().poll(place, context, || match group.push(command.take()?) {
            Ok(()) => Some(Ok(())),
            Err((SendError::Full, back)) => {
                *command = Some(back);
                None
            }
            Err((error, _)) => Some(Err(error)),
        })
    }
}

impl Drop for Queueing {
    fn drop(&mut self) {
        if self.group.home().is_here() {
            self.group.room().forget(&mut self.place);
        }
    }
}

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
    /// [`InDoubt`].
    pub fn blocking_stable(&self) -> Result<(), InDoubt> {
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
    /// [`InDoubt`].
    pub fn blocking_delivered(&self) -> Result<(), InDoubt> {
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

/// What becomes of one message, until it is bound to a view.
#[derive(Debug)]
pub(crate) struct Receipt {
    outcome: OnceLock<Result<Sent, SendError>>,
    task: AtomicWaker,
}

impl Receipt {
    pub(crate) fn new() -> Self {
        Self { outcome: OnceLock::new(), task: AtomicWaker::new() }
    }

    pub(crate) fn end(&self, outcome: Result<Sent, SendError>) {
        let first = self.outcome.set(outcome).is_ok();
        debug_assert!(first, "a message has one outcome");
        self.task.wake();
    }

    pub(crate) fn poll(&self, context: &Context<'_>) -> Poll<Result<Sent, SendError>> {
        if let Some(outcome) = self.outcome.get() {
            return Poll::Ready(outcome.clone());
        }
        self.task.register(context.waker());
        self.outcome.get().map_or(Poll::Pending, |outcome| Poll::Ready(outcome.clone()))
    }
}

/// Concatenated payloads of a batch.
pub(crate) fn batch<P: AsRef<[u8]>>(payloads: impl IntoIterator<Item = P>) -> Result<Payloads, SendError> {
    let (mut bytes, mut ends) = (Vec::new(), Vec::new());
    for payload in payloads {
        bytes.extend_from_slice(payload.as_ref());
        ends.push(bytes.len());
        if bytes.len() > phalanx_core::MESSAGE_BYTES_MAX {
            return Err(SendError::TooLong(bytes.len()));
        }
    }
    Ok(Payloads::batch(Bytes::from(bytes), ends))
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
        assert_eq!((sent[1].blocking_stable(), sent[2].blocking_delivered()), (Err(InDoubt), Err(InDoubt)));
    }
}
