//! Items from the protocol thread to the application: one bounded queue, in the order the core decided.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use atomic_waker::AtomicWaker;
use bytes::{Bytes, BytesMut};
use crossbeam_queue::ArrayQueue;
use phalanx_core::{Delivery, Event, GroupId, Incarnation, Order, Sequence, Uniformity, ViewNumber};
use phalanx_driver::Waker;

use super::room::Room;
use super::signal::Signal;

/// An item for the application.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Item {
    /// A multicast message.
    Message(Message),
    /// A point-to-point message.
    Direct {
        /// The sender.
        from: Incarnation,
        /// The payload.
        payload: Bytes,
    },
    /// A view, or another event.
    Event(Event),
    /// Multicasts that were accepted and will not be sent. It precedes the event that says why. Those that had not
    /// reached the protocol thread by then are reported after that event and before the end.
    Unsent {
        /// The group's name.
        group: Arc<str>,
        /// The number of the first of them, among all accepted for the group since it was joined, from 1. The count
        /// goes on over incarnations.
        first: u64,
        /// Their number; they are consecutive.
        messages: u64,
    },
    /// A notice for the operator: a directory that cannot be written, a trace that stopped.
    Notice(Arc<str>),
}

/// A multicast message; the fields are those of [`phalanx_core::Delivery`].
///
/// A small payload shares a block of memory with its neighbours, so copy a payload that is kept for long.
#[derive(Clone, Debug)]
pub struct Message {
    /// The group it was sent to.
    pub group: GroupId,
    /// The group view it was sent and is delivered in.
    pub view: ViewNumber,
    /// Its sender.
    pub sender: Incarnation,
    /// Its number among its sender's messages in this group view, from 1.
    pub seq: Sequence,
    /// The order it was sent with.
    pub order: Order,
    /// Whether it was delivered only after every member had received it.
    pub uniformity: Uniformity,
    /// For [`Order::Total`]: its number in the group view's total order.
    pub position: Option<u64>,
    /// Part of a state transfer: it belongs to views before this process's first.
    pub replayed: bool,
    /// The payload.
    pub payload: Bytes,
}

/// The queue. One thread pushes; any may pop.
pub(super) struct Items {
    queue: ArrayQueue<Item>,
    room: Room,
    filled: Signal,
    task: AtomicWaker,
    protocol: Waker,
    /// No thread will take further items: they are dropped.
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

    /// Whether there is room for one more. If not, the protocol thread is woken when there is.
    pub(super) fn ready(&self) -> bool {
        if self.has_room() {
            return true;
        }
        self.room.starve();
        // A pop before the flag was set woke no one, so the room is checked again.
        self.has_room()
    }

    /// Queues an item; returns it if there is no room.
    pub(super) fn push(&self, item: Item) -> Result<(), Item> {
        if self.discarding.load(Ordering::Relaxed) {
            return Ok(());
        }
        // Counted before it is queued. Otherwise a pop could subtract first, and the count would wrap below zero.
        self.room.add(cost(&item));
        self.queue.push(item).inspect_err(|item| self.room.give_back(cost(item)))
    }

    /// Wakes threads and tasks that wait for items. Called once per poll, not per item.
    pub(super) fn publish(&self) {
        if !self.queue.is_empty() || self.is_over() {
            self.filled.notify();
            self.task.wake();
        }
    }

    pub(super) fn pop(&self) -> Option<Item> {
        let item = self.queue.pop()?;
        let half = self.room.taken(cost(&item)) && self.queue.len() <= self.queue.capacity() / 2;
        // Waking only at half full lets both sides work in longer runs.
        if half && self.room.feed() {
            self.protocol.wake();
        }
        Some(item)
    }

    /// Waits for an item. `Err(false)`: none came in time. `Err(true)`: none will come.
    pub(super) fn wait(&self, patience: Option<Duration>) -> Result<Item, bool> {
        let ready = || match (self.is_over(), self.pop()) {
            (_, Some(item)) => Some(Ok(item)),
            // `is_over` was read before the queue, so an empty queue is final: everything was pushed before the end.
            (true, None) => Some(Err(true)),
            (false, None) => None,
        };
        self.filled.wait(patience, ready).unwrap_or(Err(false))
    }

    /// Registers the task to wake when there is an item. One task at a time.
    pub(super) fn register(&self, task: &std::task::Waker) {
        self.task.register(task);
    }

    /// Drops all present and future items.
    pub(super) fn discard(&self) {
        self.discarding.store(true, Ordering::SeqCst);
        while self.pop().is_some() {}
        self.protocol.wake();
    }

    /// Ends the queue: no more items follow.
    pub(super) fn end(&self) {
        self.over.store(true, Ordering::SeqCst);
        self.publish();
    }

    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }
}

/// An item's cost against the bound, in bytes.
fn cost(item: &Item) -> usize {
    match item {
        Item::Message(message) => message.payload.len() + ITEM_BYTES,
        Item::Direct { payload, .. } => payload.len() + ITEM_BYTES,
        Item::Event(_) | Item::Unsent { .. } | Item::Notice(_) => ITEM_BYTES,
    }
}

/// Copies payloads out of packets, many small ones into one block of memory.
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
            uniformity: delivery.uniformity,
            position: delivery.position,
            replayed: delivery.replayed,
            payload: self.copy(delivery.payload),
        }
    }
}

/// The fixed cost of an item, beside its payload.
const ITEM_BYTES: usize = 128;

/// Payloads of at least this length get their own allocation.
const ALONE_BYTES: usize = 4 << 10;

/// Shorter ones share blocks of this size.
const PIECE_BYTES: usize = 32 << 10;
