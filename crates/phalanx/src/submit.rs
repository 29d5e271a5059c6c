//! Submitting to a state: a message whose sender is told what its own copy computed. Rules: `docs/submit.md`.

use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use phalanx_core::MESSAGE_BYTES_MAX;
use phalanx_life::{ClientId, Clients, Execution, Submitter, TableBounds, Taken, Told};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{DecodeError, SendError, SubmitError};
use crate::message::Message;
use crate::replica::{Domain, Replica, State, TableOf};
use crate::send::{bounded, encoded};
use crate::shared::submits::{Handle, SubmitReceipt, Submits, random};
use crate::snapshot::Snapshot;
use crate::view::View;
use crate::waiting::{Place, block};

/// A state that computes a result for whoever submitted a message ([`Replica::submit`]).
///
/// ```
/// use phalanx::{DecodeError, Execute, Message, Snapshot, State};
///
/// #[derive(Default)]
/// struct Tickets(u64);
///
/// impl State for Tickets {
///     fn apply(&mut self, _message: &Message) {}
///     fn snapshot(&self) -> Snapshot {
///         Snapshot::encode(&self.0)
///     }
///     fn restore(snapshot: Snapshot) -> Result<Self, DecodeError> {
///         snapshot.decode().map(Self)
///     }
/// }
///
/// impl Execute for Tickets {
///     type Output = u64;
///     fn execute(&mut self, _message: &Message) -> u64 {
///         self.0 += 1;
///         self.0
///     }
/// }
/// ```
pub trait Execute: State {
    /// The result. Members keep it, encoded by postcard, until its submitter has it: up to 256 KiB.
    type Output: Serialize + DeserializeOwned + Send + 'static;

    /// Executes a submitted message, at its place among the messages of the group. Every member does, and each must compute the
    /// same result: as in [`State::apply`], it depends on nothing but the state and the message. [`State::apply`] is not called for
    /// it. A message that makes no sense should have a result that says so.
    fn execute(&mut self, message: &Message) -> Self::Output;
}

pub(crate) fn execute<S: Execute>(state: &mut S, message: &Message) -> Vec<u8> {
    // Bytes that are no result say that it cannot be encoded: the submitter is told that it is none.
    postcard::to_allocvec(&state.execute(message)).unwrap_or_default()
}

impl<S: Execute> Replica<S> {
    /// Submits a message to the state of the group in which this replica is ([`GroupBuilder::submits`](crate::GroupBuilder::submits)):
    /// all members execute it ([`Execute::execute`]) at one place of the group's order, and this process is told the result that its own
    /// copy computed there. Await it: [`Submit`].
    ///
    /// It is executed once in effect, also if this process is excluded meanwhile and comes back: the library sends it again, under
    /// the number that it had, and the group keeps the answer. So it waits through an exclusion, where a multicast would end in
    /// doubt. The clones of a replica are one client of the group, which is closed when the last of them is dropped.
    ///
    /// ```no_run
    /// # use phalanx::{DecodeError, Execute, Message, Snapshot, State};
    /// # #[derive(Default)]
    /// # struct Tickets(u64);
    /// # impl State for Tickets {
    /// #     fn apply(&mut self, _: &Message) {}
    /// #     fn snapshot(&self) -> Snapshot { Snapshot::encode(&self.0) }
    /// #     fn restore(snapshot: Snapshot) -> Result<Self, DecodeError> { snapshot.decode().map(Self) }
    /// # }
    /// # impl Execute for Tickets {
    /// #     type Output = u64;
    /// #     fn execute(&mut self, _: &Message) -> u64 { self.0 += 1; self.0 }
    /// # }
    /// use phalanx::{Cell, Replica};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let cell = Cell::builder("orders").blocking_start()?;
    /// let tickets = Replica::new(Tickets::default());
    /// let (_group, inbox) = cell.group("tickets").state(&tickets).submits(&tickets).blocking_join()?;
    /// drop(inbox);
    /// println!("ticket {}", tickets.submit("next, please").blocking()?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn submit(&self, payload: impl AsRef<[u8]>) -> Submit<S::Output> {
        self.submit_bytes(Bytes::copy_from_slice(payload.as_ref()))
    }

    /// Like [`Replica::submit`], without a copy of the payload.
    pub fn submit_bytes(&self, payload: Bytes) -> Submit<S::Output> {
        Submit::new(&self.handle, None, Ok(payload))
    }

    /// Like [`Replica::submit`], of a value; see [`Message::decode`].
    pub fn submit_value<T: Serialize + ?Sized>(&self, value: &T) -> Submit<S::Output> {
        Submit::new(&self.handle, None, encoded(value))
    }

    /// A client with a name, which goes on after a restart of the program: it records each number before it submits under it, and
    /// gives the last one here as `last`, 0 at first. So it can learn what became of its last submit, under the same number:
    ///
    /// ```no_run
    /// # use phalanx::{Execute, Replica};
    /// # fn restart<S: Execute<Output = u64>>(tickets: &Replica<S>, last: u64, what: &str) -> Result<(), Box<dyn std::error::Error>> {
    /// // `last` and `what` were read from the program's record.
    /// let desk = tickets.client("desk 7", last)?;
    /// if last > 0 {
    ///     println!("the ticket before the restart: {}", desk.submit(last, what).blocking()?);
    /// }
    /// let number = desk.next_number();
    /// // Record `number` and "one more" here, then submit.
    /// println!("ticket {}", desk.submit(number, "one more").blocking()?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// A name is opened with `last` 0 alone. The group keeps it while its process is away, until others need its room: then
    /// submits under it end with [`SubmitError::UnknownName`], and so do they if the group began anew without its state. Choose another name
    /// then. Of two processes with one name the later one goes on ([`SubmitError::TakenOver`]).
    ///
    /// # Errors
    /// [`SubmitError::BadName`]: it has 1 to 64 bytes.
    pub fn client(&self, name: &str, last: u64) -> Result<SubmitClient<S>, SubmitError> {
        if !ClientId::is_name(name) {
            return Err(SubmitError::BadName);
        }
        let submits = Arc::clone(&self.handle.submits);
        if !submits.is_here() {
            return Err(SubmitError::Refused(SendError::Forked));
        }
        let submitter = Submitter::named(name.to_owned(), last, random());
        Ok(SubmitClient { handle: Arc::new(Handle::named(submits, submitter)), state: PhantomData })
    }
}

/// A client with a name; see [`Replica::client`]. It stays open in the group when it is dropped.
#[derive(Debug)]
pub struct SubmitClient<S> {
    handle: Arc<Handle>,
    state: PhantomData<fn() -> S>,
}

impl<S: Execute> SubmitClient<S> {
    /// The number after the last one.
    #[must_use]
    pub fn next_number(&self) -> u64 {
        let Handle { submits, .. } = &*self.handle;
        if submits.is_here() { submits.next_number(self.handle.client()) } else { 0 }
    }

    /// Like [`Replica::submit`], under that number: a new one, or one that was used before this client began, of which the group
    /// has the answer until a later number is submitted without it.
    pub fn submit(&self, number: u64, payload: impl AsRef<[u8]>) -> Submit<S::Output> {
        Submit::new(&self.handle, Some(number), Ok(Bytes::copy_from_slice(payload.as_ref())))
    }

    /// The same of a value.
    pub fn submit_value<T: Serialize + ?Sized>(&self, number: u64, value: &T) -> Submit<S::Output> {
        Submit::new(&self.handle, Some(number), encoded(value))
    }

    /// Has the group forget the name, and its answers.
    pub fn close(self) {
        if self.handle.submits.is_here() {
            self.handle.submits.close(self.handle.client());
        }
    }
}

/// The longest message that can be submitted, in bytes: the command of the client around it takes some, too.
pub(crate) const SUBMIT_BYTES: usize = MESSAGE_BYTES_MAX - COMMAND_BYTES;

/// What a command takes beside its payload, at most: kind, name of the client, session, numbers.
const COMMAND_BYTES: usize = 128;

/// A message to be submitted; see [`Replica::submit`].
///
/// # Cancel safety
/// Dropped before its first poll, nothing was submitted. Dropped later, it may be executed or not, once at most.
#[must_use = "nothing is submitted until it is awaited"]
#[derive(Debug)]
pub struct Submit<R> {
    handle: Arc<Handle>,
    number: Option<u64>,
    payload: Result<Bytes, SubmitError>,
    result: PhantomData<fn() -> R>,
}

impl<R: DeserializeOwned> Submit<R> {
    fn new(handle: &Arc<Handle>, number: Option<u64>, payload: Result<Bytes, SendError>) -> Self {
        let payload = payload.and_then(|payload| bounded(payload, SUBMIT_BYTES)).map_err(SubmitError::Refused);
        Self { handle: Arc::clone(handle), number, payload, result: PhantomData }
    }

    /// Submits, and waits for the result in a thread. For a limit see [`wait_for`](crate::wait_for).
    ///
    /// # Errors
    /// See [`SubmitError`].
    pub fn blocking(self) -> Result<R, SubmitError> {
        block(self)
    }
}

impl<R: DeserializeOwned> IntoFuture for Submit<R> {
    type Output = Result<R, SubmitError>;
    type IntoFuture = Submitting<R>;

    fn into_future(self) -> Submitting<R> {
        let Self { handle, number, payload, result } = self;
        let (receipt, place) = (Arc::new(SubmitReceipt::new()), Place::default());
        Submitting { handle, number, payload: Some(payload), begun: None, receipt, place, result }
    }
}

/// A message that was submitted; see [`Submit`].
#[must_use = "nothing is submitted until it is awaited"]
#[derive(Debug)]
pub struct Submitting<R> {
    handle: Arc<Handle>,
    number: Option<u64>,
    /// Until it has begun.
    payload: Option<Result<Bytes, SubmitError>>,
    /// Its number, while it is under way.
    begun: Option<u64>,
    receipt: Arc<SubmitReceipt>,
    place: Place,
    result: PhantomData<fn() -> R>,
}

impl<R: DeserializeOwned> Future for Submitting<R> {
    type Output = Result<R, SubmitError>;

    /// # Panics
    /// If it is polled after it was ready with an error of its beginning.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { handle, number, payload, begun, receipt, place, .. } = &mut *self;
        let submits = &handle.submits;
        if !submits.is_here() {
            return Poll::Ready(Err(SubmitError::Refused(SendError::Forked)));
        }
        match payload {
            None => {}
            Some(Err(error)) => return Poll::Ready(Err(*error)),
            Some(Ok(bytes)) => match submits.poll_submit(handle.client(), *number, (bytes, receipt), place, context) {
                Poll::Ready(Ok(number)) => (*begun, *payload) = (Some(number), None),
                Poll::Ready(Err(error)) => {
                    *payload = Some(Err(error));
                    return Poll::Ready(Err(error));
                }
                Poll::Pending => return Poll::Pending,
            },
        }
        receipt.poll(context).map(|outcome| {
            *begun = None;
            postcard::from_bytes(&outcome?).map_err(|_other_type| SubmitError::Undecodable)
        })
    }
}

impl<R> Drop for Submitting<R> {
    fn drop(&mut self) {
        let submits = &self.handle.submits;
        if submits.is_here() {
            submits.forget(&mut self.place);
            self.begun.into_iter().for_each(|number| submits.abandon(self.handle.client(), number));
        }
    }
}

/// The table of the clients that submit to a replica, as a domain of the library.
#[derive(Debug, Default)]
pub(crate) struct ClientTable(Clients);

impl ClientTable {
    /// A new one, as the protocol thread sees it. `submits`: the clients of this process.
    pub(crate) fn domain(submits: &Arc<Submits>) -> Box<dyn Domain> {
        Self::domain_of(&Replica::new(Self::default()), submits)
    }

    pub(crate) fn domain_of(replica: &Replica<Self>, submits: &Arc<Submits>) -> Box<dyn Domain> {
        let table = TableOf { submits: Arc::clone(submits), take: Self::take, executed: Self::executed };
        replica.for_clients(Self::default, table)
    }

    fn take<'m>(&mut self, message: &'m Message) -> Result<Option<Execution<'m>>, Told> {
        match self.0.take(message.sender.incarnation(), &message.payload) {
            Taken::Nothing => Ok(None),
            Taken::Told(told) => Err(told),
            Taken::Execute(execution) => Ok(Some(execution)),
        }
    }

    fn executed(&mut self, execution: Execution<'_>, result: Vec<u8>) -> Told {
        self.0.executed(execution, result)
    }

    /// The table of another member.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Clients, DecodeError> {
        let table = Clients::decode(bytes, TableBounds::default());
        table.map_err(|_malformed| DecodeError::new("its table of clients makes no sense"))
    }
}

impl State for ClientTable {
    /// Its commands are taken one by one, because the state that it serves executes some.
    fn apply(&mut self, _message: &Message) {}

    fn view(&mut self, view: &View) {
        self.0.view(view.number(), |who| view.ids().any(|id| id.incarnation() == who));
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::new(self.0.encode())
    }

    fn restore(snapshot: Snapshot) -> Result<Self, DecodeError> {
        Self::decode(&snapshot.into_bytes()).map(Self)
    }
}
