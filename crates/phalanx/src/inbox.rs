//! Inboxes: what happens in a group, in the one order that all its members see.

use std::future::{Future, poll_fn};
use std::os::fd::BorrowedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;

use crate::descriptor::Event;
use crate::error::{DescriptorError, LimitError};
use crate::next::Next;
use crate::reading;
use crate::shared::cell::CellShared;
use crate::shared::queue::Queue;
use crate::waiting::{Place, block_value, wait_for};

/// The items of one group, in its one order. Bounded: if it is full, nothing more of the group is delivered here. Its
/// [`Replica`](crate::Replica) stands still then, [`Sent::delivered`](crate::Sent::delivered) waits, and the senders of
/// this group are held back once their windows are full. So a thread that reads the inbox must not wait in between for
/// messages of its own to be delivered: read in one thread and send in another, or drop the inbox if the replica is all
/// you need. Other groups go on.
///
/// It is a [`Stream`] for any executor. A thread takes [`Inbox::blocking_next`]. After the last item it gives `None`.
/// Dropping it drops what is in it and what follows, and holds nobody back.
#[derive(Debug)]
pub struct Inbox {
    shared: Arc<Queue<Next>>,
    event: Event,
}

impl Inbox {
    pub(crate) fn new(shared: Arc<Queue<Next>>) -> Self {
        Self { shared, event: Event::default() }
    }

    /// The next item; `None` after the last.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing: an item is taken when the future is ready, and not before.
    #[expect(clippy::should_implement_trait, reason = "it is the name that streams have for it")]
    pub fn next(&mut self) -> impl Future<Output = Option<Next>> {
        poll_fn(|context| self.shared.poll(context))
    }

    /// Like [`Inbox::next`], for a thread.
    ///
    /// # Panics
    /// If this thread holds a guard of [`Replica::read`](crate::Replica::read).
    #[track_caller]
    pub fn blocking_next(&mut self) -> Option<Next> {
        reading::expect_no_guard();
        match self.shared.pop() {
            Some(next) => Some(next),
            None => block_value(self.next()),
        }
    }

    /// Like [`Inbox::blocking_next`], for at most `patience`.
    ///
    /// # Errors
    /// [`LimitError::Timeout`] if nothing came. Nothing is lost.
    pub fn blocking_next_timeout(&mut self, patience: Duration) -> Result<Option<Next>, LimitError> {
        wait_for(self.next(), patience)
    }

    /// The next item, if one is here.
    pub fn try_next(&mut self) -> Option<Next> {
        self.shared.pop()
    }

    /// Waits for an item, and takes those that wait behind it too, at most `max` in all. They are appended to `items`.
    /// Returns their number: 0 after the last item, or if `max` is 0.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing: items are taken when the future is ready, and not before.
    pub async fn next_batch(&mut self, items: &mut Vec<Next>, max: usize) -> usize {
        if max == 0 {
            return 0;
        }
        let Some(first) = self.next().await else { return 0 };
        items.push(first);
        1 + self.try_batch(items, max - 1)
    }

    /// Like [`Inbox::next_batch`], for a thread.
    ///
    /// # Panics
    /// If this thread holds a guard of [`Replica::read`](crate::Replica::read).
    #[track_caller]
    pub fn blocking_next_batch(&mut self, items: &mut Vec<Next>, max: usize) -> usize {
        block_value(self.next_batch(items, max))
    }

    /// Takes the items that are here, at most `max`, and appends them to `items`. Returns their number.
    pub fn try_batch(&mut self, items: &mut Vec<Next>, max: usize) -> usize {
        self.shared.pop_many(items, max)
    }

    /// A descriptor that is readable while items wait or the inbox is over: for a program that waits by `poll`, `epoll` or
    /// a loop of another library, and level-triggered. It is made by the first call, and close-on-exec. An inbox whose
    /// descriptor nobody asked for pays nothing for it.
    ///
    /// The rule: wait until it is readable, then take items until a call finds none ([`Inbox::try_batch`] gives less than
    /// `max`, or [`Inbox::try_next`] gives `None`). That call makes it unreadable, unless an item came meanwhile or the
    /// inbox is over. No item is missed this way. It may be readable once without an item, so finding none is no error.
    /// Do not read from it, and do not write to it.
    ///
    /// ```no_run
    /// # use std::os::fd::BorrowedFd;
    /// # fn poll(readable: &[BorrowedFd<'_>]) {}
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let cell = phalanx::Cell::builder("orders").blocking_start()?;
    /// let (_stock, mut inbox) = cell.group("stock").blocking_join()?;
    /// let mut items = Vec::new();
    /// while !inbox.is_over() {
    ///     poll(&[inbox.descriptor()?]); // poll(2), beside the program's own sockets
    ///     while inbox.try_batch(&mut items, 256) > 0 {
    ///         for next in items.drain(..) {
    ///             println!("{next:?}");
    ///         }
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Dropping the inbox closes it: take it out of every `epoll` before. In a forked child it is the parent's, shows when
    /// the parent's inbox is readable, and is closed when the child drops the inbox.
    ///
    /// # Errors
    /// See [`DescriptorError`]; the inbox goes on as before.
    pub fn descriptor(&self) -> Result<BorrowedFd<'_>, DescriptorError> {
        self.shared.descriptor(&self.event)
    }

    /// Whether the last item was taken.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.shared.is_drained()
    }
}

impl Stream for Inbox {
    type Item = Next;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Next>> {
        self.shared.poll(context)
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        self.shared.discard();
    }
}

/// One inbox for several groups of a process: their items in one order, each with the name of its group.
///
/// It keeps the order in which the process saw them: of one group the group's order, and between two groups what was
/// delivered first comes first. If it is full, all of its groups wait. It is a [`Stream`] for any executor, and ends when
/// the process does: a group that was left is over with its [`Next::Left`]. It keeps no process alive.
///
/// ```no_run
/// # async fn program(cell: phalanx::Cell) -> Result<(), Box<dyn std::error::Error>> {
/// let mut both = cell.merged();
/// let orders = cell.group("orders").join_into(&both).await?;
/// let prices = cell.group("prices").join_into(&both).await?;
/// while let Some((group, next)) = both.next().await {
///     println!("{group}: {next:?}");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Merged {
    pub(crate) shared: Arc<Queue<(Arc<str>, Next)>>,
    event: Event,
    cell: Arc<CellShared>,
    /// Among those who wait for the end of the process.
    place: Place,
}

impl Merged {
    pub(crate) fn new(cell: Arc<CellShared>, items_max: usize, bytes_max: usize) -> Self {
        let shared = Arc::new(Queue::new(items_max, bytes_max, cell.protocol.clone(), cell.home));
        cell.ends_with_process(&shared);
        Self { shared, event: Event::default(), cell, place: Place::default() }
    }

    pub(crate) fn is_of(&self, cell: &Arc<CellShared>) -> bool {
        Arc::ptr_eq(&self.cell, cell)
    }

    /// The next item and the name of its group; `None` after the last.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing: an item is taken when the future is ready, and not before.
    #[expect(clippy::should_implement_trait, reason = "it is the name that streams have for it")]
    pub fn next(&mut self) -> impl Future<Output = Option<(Arc<str>, Next)>> {
        poll_fn(|context| self.poll(context))
    }

    /// Like [`Merged::next`], for a thread.
    ///
    /// # Panics
    /// If this thread holds a guard of [`Replica::read`](crate::Replica::read).
    #[track_caller]
    pub fn blocking_next(&mut self) -> Option<(Arc<str>, Next)> {
        reading::expect_no_guard();
        match self.shared.pop() {
            Some(next) => Some(next),
            None => block_value(self.next()),
        }
    }

    /// Like [`Merged::blocking_next`], for at most `patience`.
    ///
    /// # Errors
    /// [`LimitError::Timeout`] if nothing came. Nothing is lost.
    pub fn blocking_next_timeout(&mut self, patience: Duration) -> Result<Option<(Arc<str>, Next)>, LimitError> {
        wait_for(self.next(), patience)
    }

    /// The next item, if one is here.
    pub fn try_next(&mut self) -> Option<(Arc<str>, Next)> {
        self.shared.pop()
    }

    /// Takes the items that are here, at most `max`, and appends them to `items`. Returns their number.
    pub fn try_batch(&mut self, items: &mut Vec<(Arc<str>, Next)>, max: usize) -> usize {
        self.shared.pop_many(items, max)
    }

    /// A descriptor that is readable while items wait or the process is over; see [`Inbox::descriptor`].
    ///
    /// # Errors
    /// See [`DescriptorError`]; the inbox goes on as before.
    pub fn descriptor(&self) -> Result<BorrowedFd<'_>, DescriptorError> {
        self.shared.descriptor(&self.event)
    }

    /// Whether the last item was taken.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.shared.is_drained()
    }

    fn poll(&mut self, context: &Context<'_>) -> Poll<Option<(Arc<str>, Next)>> {
        let Self { shared, cell, place, .. } = self;
        if let Poll::Ready(next) = shared.poll(context) {
            return Poll::Ready(next);
        }
        // The queue does not end with its groups, because others may join.
        let over = cell.ended.poll(place, context, || cell.over.load(Ordering::SeqCst).then_some(()));
        over.map(|()| shared.pop())
    }
}

impl Stream for Merged {
    type Item = (Arc<str>, Next);

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll(context)
    }
}

impl Drop for Merged {
    fn drop(&mut self) {
        if self.cell.home.is_here() {
            self.cell.ended.forget(&mut self.place);
        }
        self.shared.discard();
    }
}
