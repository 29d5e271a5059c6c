//! Asking a group.

use std::future::{Future, poll_fn};
use std::num::NonZeroU64;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use phalanx_core::{SendOptions, ViewNumber};
use phalanx_life as life;
use phalanx_runtime::clock;
use serde::de::DeserializeOwned;

use crate::answer::Ended;
use crate::answer::{Answer, AskEnd};
use crate::error::{AskError, DecodeError, SendError};
use crate::id::{Guarantee, MemberId, Order};
use crate::send::Queueing;
use crate::shared::asks::{AskNote, AskReceipt, Test};
use crate::shared::cell::CellShared;
use crate::shared::commands::{Command, Queued, Waiter};
use crate::shared::group::GroupShared;
use crate::view::View;
use crate::waiting::{Place, block, block_value};

/// How many answers end an ask. They are counted against all members that are to answer, whoever is gone by then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Want {
    /// Of all members that are to answer. A member that has no answer counts as one that answered, one that left does not.
    #[default]
    All,
    /// Of more than half of them: values alone count.
    Majority,
    /// Of this number of members: values alone count.
    Count(u32),
}

/// What an ask gave.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Answers {
    /// How it ended.
    pub end: AskEnd,
    /// The answers until then, in the order in which they came; one for each place at most.
    pub answers: Vec<Answer>,
}

impl Answers {
    /// Whether as many answered as were wanted.
    #[must_use]
    pub fn is_met(&self) -> bool {
        self.end == AskEnd::Met
    }

    /// The values, each with the member whose place it fills.
    pub fn values(&self) -> impl Iterator<Item = (MemberId, &Bytes)> {
        self.answers.iter().filter_map(|answer| Some((answer.member, answer.value()?)))
    }

    /// The values, decoded; see [`Answer::decode`].
    ///
    /// # Errors
    /// [`DecodeError`] if one is not of that type.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<Vec<(MemberId, T)>, DecodeError> {
        let decoded = self.answers.iter().map(|answer| Ok(answer.decode()?.map(|value| (answer.member, value))));
        decoded.filter_map(Result::transpose).collect()
    }
}

/// A question to a group, before it is asked: choose what it wants, then await it, or call [`Ask::blocking`] or [`Ask::stream`].
///
/// It is a multicast, by default totally ordered and uniform if the group was founded so. All members deliver it; those that are to
/// answer it get it as [`Next::Asked`](crate::Next::Asked). These are the members of the view in which it is sent that do not observe; in a
/// group with a state those that have it, as far as this process knows.
///
/// Awaited, it waits for as many answers as it wants ([`Ask::want`]), or until no more can come. It ends with the group's view if a
/// member leaves that is to answer, and not before. It waits while no quorum is heard. Without a [deadline](Ask::deadline) it waits for as
/// long as a member takes.
///
/// ```no_run
/// # async fn poll(stock: phalanx::Group) -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
///
/// let answers = stock.ask_value(&"load").majority().deadline(Duration::from_secs(2)).await?;
/// for (member, load) in answers.decode::<u32>()? {
///     println!("{member}: {load}");
/// }
/// # Ok(())
/// # }
/// ```
///
/// # Cancel safety
/// Dropping the future gives the ask up: one that is not sent yet is not sent, and members that have it are told that nobody waits.
#[must_use = "nothing is asked until it is awaited"]
pub struct Ask {
    cell: Arc<CellShared>,
    group: Arc<GroupShared>,
    order: Order,
    guarantee: Guarantee,
    in_view: Option<NonZeroU64>,
    want: Want,
    test: Option<Test>,
    with_self: Option<bool>,
    deadline: Option<Duration>,
    payload: Result<Bytes, SendError>,
}

impl std::fmt::Debug for Ask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ask").field("group", &self.group).field("want", &self.want).finish_non_exhaustive()
    }
}

impl Ask {
    pub(crate) fn new(cell: Arc<CellShared>, group: Arc<GroupShared>, payload: Result<Bytes, SendError>) -> Self {
        Self {
            cell,
            group,
            order: Order::Total,
            guarantee: Guarantee::GroupDefault,
            in_view: None,
            want: Want::All,
            test: None,
            with_self: None,
            deadline: None,
            payload,
        }
    }

    /// With that order. Default [`Order::Total`].
    pub fn order(self, order: Order) -> Self {
        Self { order, ..self }
    }

    /// With that guarantee.
    pub fn guarantee(self, guarantee: Guarantee) -> Self {
        Self { guarantee, ..self }
    }

    /// In that view and in no other; see [`Multicast::in_view`](crate::Multicast::in_view).
    pub fn in_view(self, view: &View) -> Self {
        Self { in_view: NonZeroU64::new(view.number()), ..self }
    }

    /// As many answers as that end it.
    pub fn want(self, want: Want) -> Self {
        Self { want, test: None, ..self }
    }

    /// Waits for all that are to answer. The default.
    pub fn all(self) -> Self {
        self.want(Want::All)
    }

    /// Waits for values of more than half of those that are to answer.
    pub fn majority(self) -> Self {
        self.want(Want::Majority)
    }

    /// Waits for the first value.
    pub fn first(self) -> Self {
        self.want(Want::Count(1))
    }

    /// Waits until `test` returns true; it is called with each answer, on the protocol thread. Keep it short: meanwhile nothing of the
    /// process goes on.
    pub fn until(self, test: impl FnMut(&Answer) -> bool + Send + 'static) -> Self {
        Self { test: Some(Box::new(test)), ..self }
    }

    /// This process is not to answer.
    pub fn without_self(self) -> Self {
        Self { with_self: Some(false), ..self }
    }

    /// This process is to answer, too: the default but for [`Ask::blocking`]. It must read its inbox meanwhile, in another thread or task.
    pub fn with_self(self) -> Self {
        Self { with_self: Some(true), ..self }
    }

    /// Ends after this time in any case. One that was not sent by then is not sent ([`SendError::Late`]).
    pub fn deadline(self, within: Duration) -> Self {
        Self { deadline: Some(within), ..self }
    }

    /// Waits like the future, in a thread. Unless [`Ask::with_self`] says otherwise, this process is not to answer, because its thread
    /// cannot read its inbox meanwhile.
    ///
    /// # Errors
    /// See [`AskError`].
    pub fn blocking(self) -> Result<Answers, AskError> {
        let with_self = self.with_self.or(Some(false));
        block(Self { with_self, ..self })
    }

    /// Gives the answers one by one as they come.
    pub fn stream(self) -> AnswerStream {
        AnswerStream(self.begin())
    }

    fn begin(self) -> Waits {
        let Self { cell, group, order, guarantee, in_view, want, test, with_self, deadline, payload } = self;
        let number = group.next_ask();
        let want = match want {
            _ if test.is_some() => life::Want::Until,
            Want::All => life::Want::All,
            Want::Majority => life::Want::Majority,
            Want::Count(count) => life::Want::Count(count),
        };
        let receipt = Arc::new(AskReceipt::new(cell.home, test));
        let options = SendOptions {
            order: order.to_core(),
            stability: guarantee.to_core(),
            in_view: in_view.map(|view| ViewNumber(view.get())),
            asks: true,
            domain: None,
        };
        let queueing = payload.map(|payload| {
            let ask = life::Ask {
                number,
                life: group.life(),
                options,
                payload,
                want,
                with_self: with_self.unwrap_or(true),
                deadline: deadline.map(|within| clock::now() + within),
                receipt: Waiter::Ask(Arc::clone(&receipt)),
            };
            let command = Command::Queue { group: Arc::clone(&group), asked: Queued::Ask(Box::new(ask)) };
            Queueing::new(Arc::clone(&cell), command)
        });
        Waits { cell, group, number, queueing, receipt, place: Place::default() }
    }
}

impl IntoFuture for Ask {
    type Output = Result<Answers, AskError>;
    type IntoFuture = Asking;

    fn into_future(self) -> Asking {
        Asking(self.begin())
    }
}

/// An ask that waits.
#[derive(Debug)]
struct Waits {
    cell: Arc<CellShared>,
    group: Arc<GroupShared>,
    number: u64,
    queueing: Result<Queueing, SendError>,
    receipt: Arc<AskReceipt>,
    place: Place,
}

impl Waits {
    /// Whether it is queued.
    fn poll_queued(&mut self, context: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        match &mut self.queueing {
            Err(error) => Poll::Ready(Err(*error)),
            Ok(queueing) if queueing.is_done() => Poll::Ready(Ok(())),
            Ok(queueing) => match Pin::new(queueing).poll(context) {
                Poll::Ready(Err(error)) => {
                    self.queueing = Err(error);
                    Poll::Ready(Err(error))
                }
                other => other,
            },
        }
    }

    fn cancel(&self) {
        let is_queued = self.queueing.as_ref().is_ok_and(Queueing::is_done);
        if is_queued && !self.receipt.is_over() {
            let (group, number) = (Arc::clone(&self.group), self.number);
            self.cell.ask_notes.push(AskNote::Cancel { group, number });
        }
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        self.receipt.forget(&mut self.place);
        self.cancel();
    }
}

/// An ask that waits for its answers; see [`Ask`].
#[must_use = "nothing is asked until it is awaited"]
#[derive(Debug)]
pub struct Asking(Waits);

impl Future for Asking {
    type Output = Result<Answers, AskError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let waits = &mut self.0;
        match waits.poll_queued(context) {
            Poll::Ready(Ok(())) => {}
            Poll::Ready(Err(error)) => return Poll::Ready(Err(AskError::Refused(error))),
            Poll::Pending => return Poll::Pending,
        }
        let Waits { receipt, place, .. } = waits;
        receipt.poll_end(place, context).map(|(answers, end)| Ok(Answers { end: ask_end(end)?, answers }))
    }
}

fn ask_end(end: Result<Ended, SendError>) -> Result<AskEnd, AskError> {
    end.map_err(AskError::Refused)?.ok_or(AskError::Unknown)
}

/// The answers of an ask, as they come; see [`Ask::stream`]. Dropped before the end, it gives the ask up.
#[derive(Debug)]
pub struct AnswerStream(Waits);

impl AnswerStream {
    /// The next answer; `None` when the ask has ended and all were taken: [`AnswerStream::end`] says how.
    ///
    /// # Cancel safety
    /// Dropping the future loses no answer. The first call asks.
    pub async fn next(&mut self) -> Option<Answer> {
        let waits = &mut self.0;
        poll_fn(|context| {
            match waits.poll_queued(context) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(_)) => return Poll::Ready(None),
                Poll::Pending => return Poll::Pending,
            }
            let Waits { receipt, place, .. } = waits;
            receipt.poll_next(place, context)
        })
        .await
    }

    /// Like [`AnswerStream::next`], in a thread.
    ///
    /// # Panics
    /// If this thread holds a guard of [`Replica::read`](crate::Replica::read).
    #[track_caller]
    pub fn blocking_next(&mut self) -> Option<Answer> {
        block_value(self.next())
    }

    /// How it ended; `None`: it has not. Answers that came before may not be taken yet.
    ///
    /// # Errors
    /// See [`AskError`].
    #[must_use]
    pub fn end(&self) -> Option<Result<AskEnd, AskError>> {
        match &self.0.queueing {
            Err(error) => Some(Err(AskError::Refused(*error))),
            Ok(_) => self.0.receipt.ended().map(ask_end),
        }
    }

    /// An answer that is there now.
    #[must_use]
    pub fn try_next(&mut self) -> Option<Answer> {
        self.0.receipt.try_next()
    }

    /// Gives the ask up. [`AnswerStream::next`] gives what came until then, and the end.
    pub fn cancel(&self) {
        self.0.cancel();
    }
}
