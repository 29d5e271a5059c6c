//! What the protocol thread hands to the application: one bounded queue, in the order the core decided.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use atomic_waker::AtomicWaker;
use bytes::{Bytes, BytesMut};
use crossbeam_queue::ArrayQueue;
use phalanx_core::{Delivery, Event, GroupId, Incarnation, Order};
use phalanx_driver::Waker;

use super::room::Room;
use super::signal::Signal;

/// Something for the application.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Item {
    /// A multicast message.
    Message(Message),
    /// A point-to-point message.
    Direct {
        /// From whom.
        from: Incarnation,
        /// The bytes.
        payload: Bytes,
    },
    /// A view, or another event.
    Event(Event),
    /// Multicasts that were accepted and will not be sent. Before the event that tells why, or, of those that were still on their way
    /// to the protocol thread then, after it and before the end.
    Unsent {
        /// The group's name.
        group: Arc<str>,
        /// The first of them: its number among all that were accepted for the group since it was joined, from 1, whatever became of
        /// the process meanwhile.
        first: u64,
        /// How many, one behind the other.
        messages: u64,
    },
    /// Something the operator should know: a directory that cannot be written, a trace that stopped.
    Notice(Arc<str>),
}

/// A multicast message; the fields are those of [`phalanx_core::Delivery`].
///
/// A small payload shares its memory with its neighbours: copy what is kept for long.
#[derive(Clone, Debug)]
pub struct Message {
    /// The group it was sent to.
    pub group: GroupId,
    /// The group view it was sent and is delivered in.
    pub view: u64,
    /// Its sender.
    pub sender: Incarnation,
    /// Its number among its sender's messages in this group view, from 1.
    pub seq: u64,
    /// The order it was sent with.
    pub order: Order,
    /// Delivered only because every member has received it.
    pub uniform: bool,
    /// For [`Order::Total`]: its number in the group view's total order.
    pub position: Option<u64>,
    /// Part of a state transfer: it belongs to views before this process's first.
    pub replayed: bool,
    /// The bytes.
    pub payload: Bytes,
}

/// The queue. One thread pushes; any may pop.
pub(super) struct Items {
    queue: ArrayQueue<Item>,
    room: Room,
    filled: Signal,
    task: AtomicWaker,
    protocol: Waker,
    /// Nobody will take what comes: it is dropped.
    discarding: AtomicBool,
    over: AtomicBool,
}

impl Items {
    pub(super) fn new(items_max: usize, bytes_max: usize, protocol: Waker) -> Self {
        Self {
            queue: ArrayQueue::new(items_max.max(1)),
            room: Room::new(bytes_max),
            filled: Signal::default(),
            task: AtomicWaker::new(),
            protocol,
            discarding: AtomicBool::new(false),
            over: AtomicBool::new(false),
        }
    }

    fn has_room(&self) -> bool {
        self.discarding.load(Ordering::Relaxed) || self.queue.len() < self.queue.capacity() && self.room.is_free()
    }

    /// Room for one more? If not, the protocol thread is woken when there is.
    pub(super) fn ready(&self) -> bool {
        if self.has_room() {
            return true;
        }
        self.room.starve();
        // What was taken before the flag was up woke nobody.
        self.has_room()
    }

    /// Gives the item back when there is no room.
    pub(super) fn push(&self, item: Item) -> Result<(), Item> {
        if self.discarding.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.room.add(cost(&item));
        self.queue.push(item).inspect_err(|item| self.room.give_back(cost(item)))
    }

    /// Wakes who waits for what was pushed. Once per turn rather than per item.
    pub(super) fn publish(&self) {
        if !self.queue.is_empty() || self.is_over() {
            self.filled.notify();
            self.task.wake();
        }
    }

    pub(super) fn pop(&self) -> Option<Item> {
        let item = self.queue.pop()?;
        let half = self.room.taken(cost(&item)) && self.queue.len() <= self.queue.capacity() / 2;
        // Waking at half full lets both sides work in runs.
        if half && self.room.feed() {
            self.protocol.wake();
        }
        Some(item)
    }

    /// Waits for an item. `Err`: none came in time (`false`), or none will come (`true`).
    pub(super) fn wait(&self, patience: Option<Duration>) -> Result<Item, bool> {
        let ready = || match (self.is_over(), self.pop()) {
            (_, Some(item)) => Some(Ok(item)),
            // Asked before the queue was looked at: what was pushed before the end was seen.
            (true, None) => Some(Err(true)),
            (false, None) => None,
        };
        self.filled.wait(patience, ready).unwrap_or(Err(false))
    }

    /// The task to wake when there is an item. One task at a time.
    pub(super) fn register(&self, task: &std::task::Waker) {
        self.task.register(task);
    }

    /// Drops what waits and what comes.
    pub(super) fn discard(&self) {
        self.discarding.store(true, Ordering::SeqCst);
        while self.pop().is_some() {}
        self.protocol.wake();
    }

    /// Nothing more will come.
    pub(super) fn end(&self) {
        self.over.store(true, Ordering::SeqCst);
        self.publish();
    }

    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }
}

/// What an item counts against the bound, in bytes.
fn cost(item: &Item) -> usize {
    match item {
        Item::Message(message) => message.payload.len() + ITEM_BYTES,
        Item::Direct { payload, .. } => payload.len() + ITEM_BYTES,
        Item::Event(_) | Item::Unsent { .. } | Item::Notice(_) => ITEM_BYTES,
    }
}

/// Copies payloads out of packets, many small ones into one piece of memory.
#[derive(Debug, Default)]
pub(super) struct Copier {
    piece: BytesMut,
}

impl Copier {
    pub(super) fn copy(&mut self, payload: &[u8]) -> Bytes {
        if payload.len() >= ALONE_BYTES {
            return Bytes::copy_from_slice(payload);
        }
        if self.piece.capacity() < payload.len() {
            self.piece = BytesMut::with_capacity(PIECE_BYTES);
        }
        self.piece.extend_from_slice(payload);
        self.piece.split().freeze()
    }

    pub(super) fn message(&mut self, delivery: &Delivery<'_>) -> Message {
        Message {
            group: delivery.group,
            view: delivery.view,
            sender: delivery.sender,
            seq: delivery.seq,
            order: delivery.order,
            uniform: delivery.uniform,
            position: delivery.position,
            replayed: delivery.replayed,
            payload: self.copy(delivery.payload),
        }
    }
}

/// The share of an item that is not payload.
const ITEM_BYTES: usize = 128;

/// Longer payloads get memory of their own.
const ALONE_BYTES: usize = 4 << 10;

/// Shorter ones share pieces of this size.
const PIECE_BYTES: usize = 32 << 10;
