//! Inboxes: what happens in a group, in the one order that all its members see.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use atomic_waker::AtomicWaker;
use crossbeam_queue::ArrayQueue;
use futures_core::Stream;
use phalanx_driver::Waker;
use phalanx_driver::fork::Home;

use crate::id::{LeaveReason, MemberId};
use crate::message::Message;
use crate::view::View;
use crate::waiting::{Timeout, block, block_on};

/// What happened next in a group.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Next {
    /// A message was delivered.
    Message(Message),
    /// A view was installed. All members that install it delivered the same messages before it.
    View(View),
    /// Enough members of the view have the group's state now, or too few; see [`View::is_adequate`].
    Adequate(bool),
    /// This process takes the group's state from another member: so many bytes, then the messages that belong to it.
    /// Readers of a [`Replica`](crate::Replica) see the old state until [`Next::Current`].
    Taking {
        /// The length of the state.
        bytes: u64,
    },
    /// The state is complete. A view follows.
    Current,
    /// The group continues with the state that this process kept since an earlier incarnation.
    Kept,
    /// Nobody in the cell has the group's state, and these members that have it are cut off. The join waits for one of
    /// them; [`Cell::give_up_group`](crate::Cell::give_up_group) ends the wait.
    Waiting {
        /// The names of the members for which it waits.
        for_members: Vec<String>,
    },
    /// Messages of this process came to nothing, because its incarnation ended or it left. Those that were sent one by
    /// one have told their senders, too.
    Lost {
        /// How many nobody has.
        not_sent: u64,
        /// How many the others may have or not.
        in_doubt: u64,
    },
    /// This incarnation is over: the process was excluded from the cell. It comes back as another one, and the group's
    /// next item says with which state.
    Excluded {
        /// The incarnation that is over.
        was: MemberId,
    },
    /// What only this process had of the group's state is lost to the others: the group went on without it, or is over.
    Forgotten,
    /// This process is no longer in the group. Nothing follows, unless the reason is [`LeaveReason::Anew`].
    Left(LeaveReason),
}

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
    pub(crate) shared: Arc<InboxShared>,
}

impl Inbox {
    /// The next item; `None` after the last.
    ///
    /// Dropping the future loses nothing.
    #[expect(clippy::should_implement_trait, reason = "it is the name that streams have for it")]
    pub fn next(&mut self) -> impl Future<Output = Option<Next>> {
        poll_fn(|context| self.shared.poll(context))
    }

    /// Like [`Inbox::next`], for a thread.
    pub fn blocking_next(&mut self) -> Option<Next> {
        match self.shared.pop() {
            Some(next) => Some(next),
            None => block(self.next()),
        }
    }

    /// Like [`Inbox::blocking_next`], for at most `patience`.
    ///
    /// # Errors
    /// [`Timeout`] if nothing came. Nothing is lost.
    pub fn blocking_next_timeout(&mut self, patience: Duration) -> Result<Option<Next>, Timeout> {
        block_on(self.next(), Instant::now().checked_add(patience)).ok_or(Timeout)
    }

    /// The next item, if one is here.
    pub fn try_next(&mut self) -> Option<Next> {
        self.shared.pop()
    }

    /// Waits for an item, and takes those that wait behind it too, at most `max` in all. They are appended to `items`.
    /// Returns their number: 0 after the last item, or if `max` is 0.
    pub async fn next_batch(&mut self, items: &mut Vec<Next>, max: usize) -> usize {
        if max == 0 {
            return 0;
        }
        let Some(first) = self.next().await else { return 0 };
        items.push(first);
        1 + self.try_batch(items, max - 1)
    }

    /// Like [`Inbox::next_batch`], for a thread.
    pub fn blocking_next_batch(&mut self, items: &mut Vec<Next>, max: usize) -> usize {
        block(self.next_batch(items, max))
    }

    /// Takes the items that are here, at most `max`, and appends them to `items`. Returns their number.
    pub fn try_batch(&mut self, items: &mut Vec<Next>, max: usize) -> usize {
        let before = items.len();
        items.extend(std::iter::from_fn(|| self.shared.pop()).take(max));
        items.len() - before
    }

    /// Whether the last item was taken.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.shared.is_over() && self.shared.queue.is_empty()
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
        if self.shared.home.is_here() {
            self.shared.discard();
        }
    }
}

/// The queue between the protocol thread, which pushes, and the one inbox, which pops.
#[derive(Debug)]
pub(crate) struct InboxShared {
    queue: ArrayQueue<Next>,
    bytes: AtomicUsize,
    bytes_max: usize,
    /// The protocol thread found no room, and has to be woken when there is some.
    starved: AtomicBool,
    task: AtomicWaker,
    protocol: Waker,
    home: Home,
    /// Nobody will take further items.
    discarding: AtomicBool,
    over: AtomicBool,
}

impl InboxShared {
    pub(crate) fn new(items_max: usize, bytes_max: usize, protocol: Waker, home: Home) -> Self {
        Self {
            queue: ArrayQueue::new(items_max.max(1)),
            bytes: AtomicUsize::new(0),
            bytes_max: bytes_max.max(1),
            starved: AtomicBool::new(false),
            task: AtomicWaker::new(),
            protocol,
            home,
            discarding: AtomicBool::new(false),
            over: AtomicBool::new(false),
        }
    }

    fn has_room(&self, staged: usize, staged_bytes: usize) -> bool {
        self.discarding.load(Ordering::Relaxed)
            || self.queue.len() + staged < self.queue.capacity()
                && self.bytes.load(Ordering::Relaxed) + staged_bytes < self.bytes_max
    }

    /// Whether there is room for one more beside `staged` items of `staged_bytes`. If not, the protocol thread is woken
    /// when there is.
    pub(crate) fn is_ready(&self, staged: usize, staged_bytes: usize) -> bool {
        if self.has_room(staged, staged_bytes) {
            return true;
        }
        self.starved.store(true, Ordering::Relaxed);
        // Adding zero puts this thread into the one order of changes of `bytes`. If this change comes after the one in
        // `pop`, the check that follows sees the smaller count. If it comes before, `pop` sees the flag.
        self.bytes.fetch_add(0, Ordering::AcqRel);
        self.has_room(staged, staged_bytes)
    }

    /// Queues an item; returns it if there is no place.
    pub(crate) fn push(&self, next: Next) -> Result<(), Next> {
        if self.discarding.load(Ordering::Relaxed) {
            return Ok(());
        }
        // Counted before it is queued. Otherwise a pop could subtract first, and the count would wrap below zero.
        let bytes = cost(&next);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.queue.push(next).inspect_err(|_| {
            self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        })
    }

    /// Wakes who waits for an item. Called once per poll, not per item.
    pub(crate) fn publish(&self) {
        self.task.wake();
    }

    /// Ends the queue: no more items follow.
    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::SeqCst);
        self.task.wake();
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    fn pop(&self) -> Option<Next> {
        if !self.home.is_here() {
            return None;
        }
        let next = self.queue.pop()?;
        let bytes = cost(&next);
        let left = self.bytes.fetch_sub(bytes, Ordering::AcqRel) - bytes;
        // Waking only at half full lets both sides work in longer runs.
        let half = left <= self.bytes_max / 2 && self.queue.len() <= self.queue.capacity() / 2;
        if half && self.starved.load(Ordering::Relaxed) && self.starved.swap(false, Ordering::Relaxed) {
            self.protocol.wake();
        }
        Some(next)
    }

    fn poll(&self, context: &Context<'_>) -> Poll<Option<Next>> {
        if !self.home.is_here() {
            return Poll::Ready(None);
        }
        if let Some(next) = self.pop() {
            return Poll::Ready(Some(next));
        }
        self.task.register(context.waker());
        // Read before the queue, so that an item pushed before the end is not missed.
        let over = self.is_over();
        match self.pop() {
            Some(next) => Poll::Ready(Some(next)),
            None if over => Poll::Ready(None),
            None => Poll::Pending,
        }
    }

    fn discard(&self) {
        self.discarding.store(true, Ordering::SeqCst);
        while self.queue.pop().is_some() {}
        self.protocol.wake();
    }
}

/// An item's cost against the bound, in bytes.
pub(crate) fn cost(next: &Next) -> usize {
    match next {
        Next::Message(message) => message.payload.len() + ITEM_BYTES,
        _ => ITEM_BYTES,
    }
}

/// The fixed cost of an item, beside its payload.
const ITEM_BYTES: usize = 128;
