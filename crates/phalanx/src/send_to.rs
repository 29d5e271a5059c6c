//! Sending to one member of a group.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use phalanx_life::MessageTo;

use crate::error::SendError;
use crate::id::MemberId;
use crate::send::Queueing;
use crate::sent_to::{SentTo, ToOneReceipt};
use crate::shared::cell::CellShared;
use crate::shared::commands::{Command, Queued, Waiter};
use crate::shared::group::GroupShared;
use crate::waiting::{Place, block};

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
        block(self)
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
            .map(|payload| Command::Queue { group, asked: Queued::ToOne(MessageTo { life, to, payload, receipt }) });
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
        receipt.poll_sent(place, context)
    }
}

impl Drop for SendingTo {
    fn drop(&mut self) {
        self.receipt.forget(&mut self.place);
    }
}
