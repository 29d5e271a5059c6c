//! What is due to the application and not taken yet: one sequence of deliveries and events.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::api::{Delivery, Effects, Event, Order};
use crate::id::{GroupId, Incarnation};

/// A delivery that owns (shares) its bytes.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) group: GroupId,
    pub(super) view: u64,
    /// The packet space of the flow it came from, and its sender's rank there: whom to credit when it is taken.
    pub(super) space: u32,
    pub(super) rank: usize,
    pub(super) sender: Incarnation,
    pub(super) seq: u64,
    pub(super) order: Order,
    pub(super) uniform: bool,
    pub(super) position: Option<u64>,
    pub(super) replayed: bool,
    pub(super) payload: Bytes,
}

impl Held {
    pub(super) fn delivery(&self) -> Delivery<'_> {
        Delivery {
            group: self.group,
            view: self.view,
            sender: self.sender,
            seq: self.seq,
            order: self.order,
            uniform: self.uniform,
            position: self.position,
            replayed: self.replayed,
            payload: &self.payload,
        }
    }
}

/// One thing for the application.
#[derive(Clone, Debug)]
pub(super) enum Item {
    Delivery(Held),
    Event(Event),
    Message { from: Incarnation, payload: Bytes },
    Restore { group: GroupId, chunk: Bytes },
}

/// Bounded by the windows of the streams that feed it: what is not taken gives no credit.
#[derive(Debug, Default)]
pub(super) struct AppQueue {
    items: VecDeque<Item>,
}

impl AppQueue {
    /// Whether the next item can go straight to the application.
    pub(super) fn is_open(&self, fx: &mut impl Effects) -> bool {
        self.items.is_empty() && fx.ready()
    }

    pub(super) fn push(&mut self, item: Item) {
        self.items.push_back(item);
    }

    pub(super) fn event(&mut self, event: Event) {
        self.push(Item::Event(event));
    }

    pub(super) fn pop(&mut self) -> Option<Item> {
        self.items.pop_front()
    }

    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}
