//! Queues of items between the protocol thread, which fills them through an [`Outlet`], and one reader.

use std::collections::VecDeque;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use atomic_waker::AtomicWaker;
use crossbeam_queue::ArrayQueue;
use phalanx_driver::Waker;
use phalanx_driver::fork::Home;

use crate::descriptor::{Descriptor, Event};
use crate::error::DescriptorError;
use crate::next::Next;

/// What a queue holds.
pub(crate) trait Item {
    /// Its cost against the bound, in bytes.
    fn cost(&self) -> usize;
}

impl Item for Next {
    fn cost(&self) -> usize {
        match self {
            Self::Message(message) => message.payload.len() + ITEM_BYTES,
            Self::ToOne(message) => message.payload.len() + ITEM_BYTES,
            Self::Asked(asked) => asked.message.payload.len() + ITEM_BYTES,
            _ => ITEM_BYTES,
        }
    }
}

/// An item with the name of its group.
impl Item for (Arc<str>, Next) {
    fn cost(&self) -> usize {
        self.1.cost()
    }
}

/// The queue of an inbox that groups share.
pub(crate) type MergedQueue = Queue<(Arc<str>, Next)>;

/// The fixed cost of an item, beside its payload.
const ITEM_BYTES: usize = 128;

/// The side of a queue that its reader shares. Bounded by items and bytes.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    ring: ArrayQueue<T>,
    /// The cost of the items in the ring.
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
    descriptor: Descriptor,
}

impl<T: Item> Queue<T> {
    pub(crate) fn new(items_max: usize, bytes_max: usize, protocol: Waker, home: Home) -> Self {
        Self {
            ring: ArrayQueue::new(items_max.max(1)),
            bytes: AtomicUsize::new(0),
            bytes_max: bytes_max.max(1),
            starved: AtomicBool::new(false),
            task: AtomicWaker::new(),
            protocol,
            home,
            discarding: AtomicBool::new(false),
            over: AtomicBool::new(false),
            descriptor: Descriptor::new(),
        }
    }

    /// Ends the queue: no more items follow.
    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::SeqCst);
        self.task.wake();
        // As if something had been counted; see `Readiness`.
        self.bytes.fetch_add(0, Ordering::AcqRel);
        self.descriptor.raise();
    }

    /// Whether the last item was taken.
    pub(crate) fn is_drained(&self) -> bool {
        self.over.load(Ordering::SeqCst) && self.ring.is_empty()
    }

    /// The next item, if one is here.
    pub(crate) fn pop(&self) -> Option<T> {
        if !self.home.is_here() {
            return None;
        }
        let Some(item) = self.ring.pop() else {
            self.settle_descriptor();
            return None;
        };
        self.took(item.cost());
        Some(item)
    }

    /// Takes at most `max` items and appends them. Returns their number.
    pub(crate) fn pop_many(&self, items: &mut Vec<T>, max: usize) -> usize {
        if !self.home.is_here() {
            return 0;
        }
        let (before, mut bytes) = (items.len(), 0);
        while items.len() - before < max
            && let Some(item) = self.ring.pop()
        {
            bytes += item.cost();
            items.push(item);
        }
        if bytes > 0 {
            self.took(bytes);
        }
        let count = items.len() - before;
        if count < max {
            self.settle_descriptor();
        }
        count
    }

    /// The reader's descriptor, which is made on first use.
    pub(crate) fn descriptor<'a>(&self, event: &'a Event) -> Result<BorrowedFd<'a>, DescriptorError> {
        if !self.home.is_here() {
            return Err(DescriptorError::Forked);
        }
        let attach = |made: &Arc<OwnedFd>| {
            self.descriptor.attach(made);
            self.settle_descriptor();
        };
        event.get_or_make(attach)
    }

    /// Makes the descriptor unreadable if nothing is here. Only the reader calls it.
    #[inline]
    fn settle_descriptor(&self) {
        // An item is counted before it is queued. If it is counted by now, the reader comes back for it.
        let holds = || self.bytes.fetch_add(0, Ordering::AcqRel) > 0 || self.over.load(Ordering::SeqCst);
        if self.descriptor.lower() && holds() {
            self.descriptor.raise();
        }
    }

    /// Subtracts the cost of items that were taken. Wakes the protocol thread if it waits for room.
    fn took(&self, bytes: usize) {
        let left = self.bytes.fetch_sub(bytes, Ordering::AcqRel) - bytes;
        // Waking only at half full lets both sides work in longer runs.
        let half = left <= self.bytes_max / 2 && self.ring.len() <= self.ring.capacity() / 2;
        if half && self.starved.load(Ordering::Relaxed) && self.starved.swap(false, Ordering::Relaxed) {
            self.protocol.wake();
        }
    }

    /// The next item, or `None` after the last. If none is here, the task is woken when one comes.
    pub(crate) fn poll(&self, context: &Context<'_>) -> Poll<Option<T>> {
        if !self.home.is_here() {
            return Poll::Ready(None);
        }
        if let Some(item) = self.pop() {
            return Poll::Ready(Some(item));
        }
        self.task.register(context.waker());
        // Read before the ring, so that an item pushed before the end is not missed.
        let over = self.over.load(Ordering::SeqCst);
        match self.pop() {
            Some(item) => Poll::Ready(Some(item)),
            None if over => Poll::Ready(None),
            None => Poll::Pending,
        }
    }

    /// Drops what is here and what follows. The reader's last call.
    pub(crate) fn discard(&self) {
        if self.home.is_here() {
            self.discarding.store(true, Ordering::SeqCst);
            while self.ring.pop().is_some() {}
            self.protocol.wake();
        }
    }
}

/// The protocol thread's end of a queue. Items are staged, and published together at the end of a poll.
#[derive(Debug)]
pub(crate) struct Outlet<T> {
    queue: Arc<Queue<T>>,
    staged: VecDeque<T>,
    staged_bytes: usize,
    /// What may be staged before the room has to be looked at again. The reader only makes more.
    free_items: usize,
    free_bytes: usize,
}

impl<T: Item> Outlet<T> {
    pub(crate) fn new(queue: Arc<Queue<T>>) -> Self {
        Self { queue, staged: VecDeque::new(), staged_bytes: 0, free_items: 0, free_bytes: 0 }
    }

    pub(crate) fn is_of(&self, queue: &Arc<Queue<T>>) -> bool {
        Arc::ptr_eq(&self.queue, queue)
    }

    /// Whether the reader takes nothing any more.
    pub(crate) fn is_discarding(&self) -> bool {
        self.queue.discarding.load(Ordering::Relaxed)
    }

    /// Whether there is room for one more. If not, the protocol thread is woken when there is.
    #[inline]
    pub(crate) fn is_ready(&mut self) -> bool {
        self.free_items > 0 && self.free_bytes > 0 || self.find_room()
    }

    #[cold]
    fn find_room(&mut self) -> bool {
        if self.measure_room() {
            return true;
        }
        self.queue.starved.store(true, Ordering::Relaxed);
        // Adding zero puts this thread into the one order of changes of `bytes`. If this change comes after the one in
        // `took`, the look that follows sees the room. If it comes before, `took` sees the flag.
        self.queue.bytes.fetch_add(0, Ordering::AcqRel);
        self.measure_room()
    }

    fn measure_room(&mut self) -> bool {
        let Queue { ring, bytes, bytes_max, .. } = &*self.queue;
        (self.free_items, self.free_bytes) = if self.is_discarding() {
            (usize::MAX, usize::MAX)
        } else {
            let used = bytes.load(Ordering::Relaxed) + self.staged_bytes;
            (ring.capacity().saturating_sub(ring.len() + self.staged.len()), bytes_max.saturating_sub(used))
        };
        self.free_items > 0 && self.free_bytes > 0
    }

    #[inline]
    pub(crate) fn stage(&mut self, item: T) {
        let bytes = item.cost();
        self.staged_bytes += bytes;
        self.free_items = self.free_items.saturating_sub(1);
        self.free_bytes = self.free_bytes.saturating_sub(bytes);
        self.staged.push_back(item);
    }

    /// Whether everything that was staged is published.
    pub(crate) fn is_empty(&self) -> bool {
        self.staged.is_empty()
    }

    /// Fills the queue with what is staged, as far as it has room, and wakes the reader.
    pub(crate) fn publish(&mut self) {
        if self.staged.is_empty() {
            return;
        }
        if self.is_discarding() {
            self.staged.clear();
            self.staged_bytes = 0;
            // What was pushed while the reader gave up would stay as long as the group.
            while self.queue.ring.pop().is_some() {}
            return;
        }
        // Counted before it is queued. Otherwise a pop could subtract first, and the count would wrap below zero. The
        // memory order is what `Readiness` asks for.
        self.queue.bytes.fetch_add(self.staged_bytes, Ordering::AcqRel);
        let before = self.staged.len();
        while let Some(item) = self.staged.pop_front() {
            let bytes = item.cost();
            if let Err(item) = self.queue.ring.push(item) {
                self.staged.push_front(item);
                break;
            }
            self.staged_bytes -= bytes;
        }
        if self.staged_bytes > 0 {
            self.queue.bytes.fetch_sub(self.staged_bytes, Ordering::Relaxed);
        }
        if self.staged.len() < before {
            self.queue.task.wake();
            self.queue.descriptor.raise();
        }
    }

    /// No more items follow.
    pub(crate) fn end(&self) {
        self.queue.end();
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::id::{MemberId, Order};
    use crate::message::Message;

    fn message(number: u64, bytes: usize) -> Next {
        let sender = MemberId::of(phalanx_core::Incarnation(1));
        let (order, position) = (Order::Fifo, None);
        let (uniform, replayed, payload) = (false, false, Bytes::from(vec![0; bytes]));
        Next::Message(Message {
            view: 1,
            sender,
            seq: number,
            order,
            uniform,
            position,
            replayed,
            payload,
            domain: None,
        })
    }

    fn seq(next: &Next) -> u64 {
        let Next::Message(message) = next else { panic!("{next:?} is no message") };
        message.seq
    }

    fn queue(items: usize, bytes: usize) -> (Arc<Queue<Next>>, Outlet<Next>) {
        let waker = Waker::new().expect("a descriptor is left");
        let queue = Arc::new(Queue::new(items, bytes, waker, Home::here()));
        (Arc::clone(&queue), Outlet::new(queue))
    }

    #[test]
    fn it_is_bounded_by_items_and_its_producer_is_woken_at_half() {
        let (queue, mut outlet) = queue(8, 1 << 20);
        let mut staged = 0;
        while outlet.is_ready() {
            staged += 1;
            outlet.stage(message(staged, 10));
        }
        assert_eq!(staged, 8);
        outlet.publish();
        assert!(outlet.is_empty() && !outlet.is_ready());
        for due in 1..=8 {
            assert_eq!(queue.starved.load(Ordering::Relaxed), due <= 4, "before item {due}");
            assert_eq!(queue.pop().map(|next| seq(&next)), Some(due));
        }
        assert!(outlet.is_ready() && queue.pop().is_none());
        assert_eq!(queue.bytes.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn it_is_bounded_by_bytes_and_takes_one_message_of_any_length() {
        let (queue, mut outlet) = queue(100, 1_000);
        assert!(outlet.is_ready());
        outlet.stage(message(1, 5_000));
        assert!(!outlet.is_ready());
        outlet.publish();
        assert!(!outlet.is_ready());
        let mut items = Vec::new();
        assert_eq!(queue.pop_many(&mut items, 10), 1);
        assert!(outlet.is_ready());
    }

    /// Events that do not ask for room are kept, and follow when there is some.
    #[test]
    fn what_finds_no_room_follows_in_order() {
        let (queue, mut outlet) = queue(2, 1 << 20);
        (1..=5).for_each(|number| outlet.stage(message(number, 0)));
        let mut taken = Vec::new();
        for left in [true, true, false] {
            outlet.publish();
            assert_eq!(!outlet.is_empty(), left);
            queue.pop_many(&mut taken, 10);
        }
        assert_eq!(taken.iter().map(seq).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
        assert_eq!(queue.bytes.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn who_reads_no_more_holds_nobody_back_and_keeps_nothing() {
        let (queue, mut outlet) = queue(4, 1 << 20);
        outlet.stage(message(1, 100));
        outlet.publish();
        queue.discard();
        for number in 0..100 {
            assert!(outlet.is_ready());
            outlet.stage(message(number, 100));
            outlet.publish();
        }
        assert!(queue.ring.is_empty() && outlet.is_empty());
    }

    /// Who waits by `poll` or `epoll` is woken by an item and by the end, and sleeps while there is neither.
    #[test]
    fn its_descriptor_is_readable_while_something_is_here_or_it_is_over() {
        let (queue, mut outlet) = queue(8, 1 << 20);
        let event = Event::default();
        let is_readable = || {
            let descriptor = queue.descriptor(&event).expect("there is one");
            let mut watched = [rustix::event::PollFd::from_borrowed_fd(descriptor, rustix::event::PollFlags::IN)];
            let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
            rustix::event::poll(&mut watched, Some(&now)).expect("it is watched") == 1
        };
        assert!(!is_readable(), "nothing is here");
        let mut items = Vec::new();
        for takes_all in [
            |queue: &Queue<Next>, _: &mut Vec<Next>| assert!(queue.pop().is_some() && queue.pop().is_none()),
            |queue: &Queue<Next>, items: &mut Vec<Next>| assert_eq!(queue.pop_many(items, 2), 1),
        ] {
            outlet.stage(message(1, 10));
            assert!(!is_readable(), "it is not published");
            outlet.publish();
            assert!(is_readable() && is_readable(), "nobody took it");
            takes_all(&queue, &mut items);
            assert!(!is_readable(), "all was taken");
        }
        outlet.end();
        assert!(is_readable() && queue.pop().is_none() && is_readable(), "it is over");
    }

    /// The two sides in threads, with bounds that are met all the time.
    #[test]
    fn nothing_is_lost_or_turned_round_between_threads() {
        const ALL: u64 = 100_000;
        let (queue, mut outlet) = queue(16, 4_000);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let mut next = 1;
                while next <= ALL {
                    while next <= ALL && outlet.is_ready() {
                        outlet.stage(message(next, (next % 300) as usize));
                        next += 1;
                    }
                    outlet.publish();
                    std::thread::yield_now();
                }
                outlet.end();
            });
            let mut taken = Vec::new();
            let mut last = 0;
            while !queue.is_drained() {
                queue.pop_many(&mut taken, 7);
                for next in taken.drain(..) {
                    last += 1;
                    assert_eq!(seq(&next), last);
                }
                std::thread::yield_now();
            }
            assert_eq!(last, ALL);
        });
        assert_eq!(queue.bytes.load(Ordering::Relaxed), 0);
    }
}
