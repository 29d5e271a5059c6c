//! The delivery queue: deliveries and events that the application has not taken yet, in one sequence.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::api::{Delivery, Effects, Event, Order, Uniformity};
use crate::id::{GroupId, Incarnation, Rank, Sequence, ViewNumber};
use crate::wire::Space;

/// A delivery that owns its bytes.
#[derive(Clone, Debug)]
pub(super) struct OwnedDelivery {
    pub(super) group: GroupId,
    pub(super) view: ViewNumber,
    /// Packet space of the view it came from, and the sender's rank in it: the stream that gets credit when the
    /// application takes it.
    pub(super) space: Space,
    pub(super) rank: Rank,
    pub(super) sender: Incarnation,
    pub(super) seq: Sequence,
    pub(super) order: Order,
    pub(super) uniformity: Uniformity,
    pub(super) position: Option<u64>,
    pub(super) replayed: bool,
    pub(super) payload: Bytes,
}

impl OwnedDelivery {
    /// Copies a delivery that cannot be handed to the application yet.
    pub(super) fn of(delivery: &Delivery<'_>, space: Space, rank: Rank) -> Self {
        Self {
            group: delivery.group,
            view: delivery.view,
            space,
            rank,
            sender: delivery.sender,
            seq: delivery.seq,
            order: delivery.order,
            uniformity: delivery.uniformity,
            position: delivery.position,
            replayed: delivery.replayed,
            payload: Bytes::copy_from_slice(delivery.payload),
        }
    }

    pub(super) fn delivery(&self) -> Delivery<'_> {
        Delivery {
            group: self.group,
            view: self.view,
            sender: self.sender,
            seq: self.seq,
            order: self.order,
            uniformity: self.uniformity,
            position: self.position,
            replayed: self.replayed,
            payload: &self.payload,
        }
    }
}

/// One item for the application.
#[derive(Clone, Debug)]
pub(super) enum Item {
    Delivery(OwnedDelivery),
    Event(Event),
    Message {
        from: Incarnation,
        payload: Bytes,
    },
    Restore {
        group: GroupId,
        chunk: Bytes,
    },
    /// This process's multicasts in the view are stable up to a number.
    Stable {
        group: GroupId,
        view: ViewNumber,
        seq: Sequence,
    },
}

/// The queue of items for the application. Multicasts in it are bounded by the windows of their streams, because an
/// item that is not taken gives no credit. Channels have no such coupling, so their bytes are counted here.
#[derive(Debug, Default)]
pub(super) struct AppQueue {
    items: VecDeque<Item>,
    owed: UntakenBytes,
    /// The application was last told that no quorum is heard.
    outside: bool,
}

/// Bytes that arrived on data channels and that the application has not taken.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct UntakenBytes {
    /// Messages of other processes.
    pub(super) messages: usize,
    /// Chunks of a state, and the deliveries replayed after it.
    pub(super) state: usize,
}

/// Bytes charged for an item beside its payload. Without it, many short messages would cost memory and count as
/// nothing.
const ITEM_BYTES: usize = 128;

impl AppQueue {
    /// Whether the next item can go straight to the application.
    #[inline]
    pub(super) fn is_open(&self, fx: &mut impl Effects) -> bool {
        self.items.is_empty() && fx.ready()
    }

    /// Whether the application knows that no quorum is heard, and nothing later.
    pub(super) fn is_outside(&self) -> bool {
        self.outside
    }

    pub(super) fn push(&mut self, item: Item) {
        if let Some((count, bytes)) = self.owed.share(&item) {
            *count += bytes;
        }
        self.items.push_back(item);
    }

    pub(super) fn event(&mut self, event: Event) {
        self.push(Item::Event(event));
    }

    /// Reports that `messages` multicasts that were accepted for the group will not be sent.
    pub(super) fn unsent(&mut self, group: GroupId, messages: usize) {
        if messages > 0 {
            self.event(Event::Unsent { group, messages: messages as u64 });
        }
    }

    /// Such reports that the application has not taken.
    pub(super) fn unreported_unsent(&self) -> impl Iterator<Item = (GroupId, u64)> {
        self.items.iter().filter_map(|item| match item {
            Item::Event(Event::Unsent { group, messages }) => Some((*group, *messages)),
            _ => None,
        })
    }

    pub(super) fn pop(&mut self) -> Option<Item> {
        let item = self.items.pop_front()?;
        match item {
            Item::Event(Event::NonPrimary { .. }) => self.outside = true,
            Item::Event(Event::Primary | Event::CellView(_)) => self.outside = false,
            _ => {}
        }
        if let Some((count, bytes)) = self.owed.share(&item) {
            debug_assert!(*count >= bytes, "an item that is taken was counted when it came");
            *count -= bytes;
        }
        Some(item)
    }

    /// Checks what must always hold.
    pub(super) fn check_invariants(&self) {
        let mut owed = UntakenBytes::default();
        for item in &self.items {
            if let Some((count, bytes)) = owed.share(item) {
                *count += bytes;
            }
        }
        assert_eq!(owed.messages, self.owed.messages, "bytes of messages that wait are miscounted");
        assert_eq!(owed.state, self.owed.state, "bytes of states that wait are miscounted");
    }

    pub(super) fn owed(&self) -> UntakenBytes {
        self.owed
    }

    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}

impl UntakenBytes {
    /// The counter that an item is charged to, and by how much.
    fn share(&mut self, item: &Item) -> Option<(&mut usize, usize)> {
        match item {
            Item::Message { payload, .. } => Some((&mut self.messages, payload.len() + ITEM_BYTES)),
            Item::Restore { chunk, .. } => Some((&mut self.state, chunk.len() + ITEM_BYTES)),
            Item::Delivery(held) if held.replayed => Some((&mut self.state, held.payload.len() + ITEM_BYTES)),
            // A state can begin without a byte of it, and still takes memory.
            Item::Event(Event::StateBegin { .. } | Event::StateEnd { .. }) => Some((&mut self.state, ITEM_BYTES)),
            // The stream's window bounds these while deliveries wait.
            Item::Delivery(_) | Item::Event(_) | Item::Stable { .. } => None,
        }
    }
}
