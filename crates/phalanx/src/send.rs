//! Sending.

use std::future::Future;
use std::num::NonZeroU64;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use phalanx_life::{Message, Payloads};
use serde::Serialize;

use crate::error::SendError;
use crate::id::{Guarantee, Order};
use crate::reading;
use crate::sent::{Receipt, Sent};
use crate::shared::cell::CellShared;
use crate::shared::commands::{Command, Queued, Waiter};
use crate::shared::group::GroupShared;
use crate::view::View;
use crate::waiting::{Place, block};

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
    cell: Arc<CellShared>,
    group: Arc<GroupShared>,
    order: Order,
    guarantee: Guarantee,
    in_view: Option<NonZeroU64>,
    domain: Option<Arc<str>>,
    body: Result<Payloads, SendError>,
}

impl Multicast {
    pub(crate) fn new(cell: Arc<CellShared>, group: Arc<GroupShared>, body: Result<Payloads, SendError>) -> Self {
        let (order, guarantee) = (Order::Total, Guarantee::GroupDefault);
        Self { cell, group, order, guarantee, in_view: None, domain: None, body }
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

    /// To that domain of the group's state alone ([`GroupBuilder::domain`](crate::GroupBuilder::domain)): all members apply it there, at
    /// its place among the group's messages, and it enters no inbox. The empty name is the state itself. In total order only
    /// ([`SendError::NotToDomain`]), and only to a domain that the group lists ([`View::domains`]; else
    /// [`SendError::NoSuchDomain`]). Cells at level 10 and above have it.
    ///
    /// ```no_run
    /// # async fn set(stock: phalanx::Group) -> Result<(), phalanx::SendError> {
    /// stock.send_value(&("apples", 3_u32)).to_domain("prices").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn to_domain(self, domain: &str) -> Self {
        Self { domain: Some(domain.into()), ..self }
    }

    /// Waits like the future, in a thread.
    ///
    /// # Errors
    /// See [`SendError`].
    pub fn blocking(self) -> Result<Sent, SendError> {
        block(self)
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
        reading::check()?;
        self.queue()?.map_or(Ok(()), block)
    }

    /// Like [`Multicast::post`], without waiting.
    ///
    /// # Errors
    /// [`SendError::Full`] if too much waits; else see [`SendError`]. Nothing was queued.
    pub fn try_post(self) -> Result<(), SendError> {
        let (cell, command) = self.command(None);
        cell.push(command?).map_err(|(error, _)| error)
    }

    /// Queues it. If there is no room now, returns what waits for some: most messages need no such future.
    fn queue(self) -> Result<Option<Queueing>, SendError> {
        let (cell, command) = self.command(None);
        match cell.push(command?) {
            Ok(()) => Ok(None),
            Err((SendError::Full, command)) => Ok(Some(Queueing::new(cell, command))),
            Err((error, _)) => Err(error),
        }
    }

    /// The command, and where it goes.
    fn command(self, receipt: Option<Arc<Receipt>>) -> (Arc<CellShared>, Result<Command, SendError>) {
        let Self { cell, group, order, guarantee, in_view, domain, body } = self;
        let (life, order, stability) = (group.life(), order.to_core(), guarantee.to_core());
        let receipt = receipt.map(Waiter::Multicast);
        let command = body.map(|body| Command::Queue {
            group,
            asked: Queued::Send(Message { life, order, stability, in_view, domain, body, receipt }),
        });
        (cell, command)
    }
}

impl IntoFuture for Multicast {
    type Output = Result<Sent, SendError>;
    type IntoFuture = Sending;

    fn into_future(self) -> Sending {
        let receipt = Arc::new(Receipt::new());
        let (cell, command) = self.command(Some(Arc::clone(&receipt)));
        let (command, failed) = match command {
            Ok(command) => (Some(command), None),
            Err(error) => (None, Some(error)),
        };
        Sending { queueing: Queueing { cell, command, place: Place::default() }, receipt, failed }
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
        if !self.queueing.cell.home.is_here() {
            return Poll::Ready(Err(SendError::Forked));
        }
        self.receipt.poll(context)
    }
}

/// Waits until there is room for a command.
#[derive(Debug)]
pub(crate) struct Queueing {
    cell: Arc<CellShared>,
    command: Option<Command>,
    place: Place,
}

impl Queueing {
    pub(crate) fn new(cell: Arc<CellShared>, command: Command) -> Self {
        Self { cell, command: Some(command), place: Place::default() }
    }

    /// Whether the command was queued, or refused.
    pub(crate) fn is_done(&self) -> bool {
        self.command.is_none()
    }
}

impl Future for Queueing {
    type Output = Result<(), SendError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { cell, command, place } = &mut *self;
        if !cell.home.is_here() {
            return Poll::Ready(Err(SendError::Forked));
        }
        cell.commands.room.poll(place, context, || match cell.push(command.take()?) {
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
        if self.cell.home.is_here() {
            self.cell.commands.room.forget(&mut self.place);
        }
    }
}

/// A payload, if it is no longer than that.
pub(crate) fn bounded(payload: Bytes, bytes_max: usize) -> Result<Bytes, SendError> {
    let length = payload.len();
    if length > bytes_max { Err(SendError::TooLong(length)) } else { Ok(payload) }
}

/// A value as a payload.
pub(crate) fn encoded<T: Serialize + ?Sized>(value: &T) -> Result<Bytes, SendError> {
    postcard::to_allocvec(value).map(Bytes::from).map_err(|_unencodable| SendError::Unencodable)
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
