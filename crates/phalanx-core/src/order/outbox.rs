//! The outbox: accepted messages that no packet had room for, bounded, in one reused allocation.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::api::Order;

/// What waits for the window, in order.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    messages: VecDeque<QueuedMessage>,
    /// The messages' bytes, one after the other from `start` on.
    bytes: Vec<u8>,
    start: usize,
    /// Bytes of the first message already in packets.
    cut: usize,
}

#[derive(Clone, Copy, Debug)]
struct QueuedMessage {
    order: Order,
    uniform: bool,
    len: usize,
}

/// The first message that waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending<'a> {
    pub(super) order: Order,
    pub(super) uniform: bool,
    pub(super) payload: &'a [u8],
    /// Bytes of it already in packets.
    pub(super) cut: usize,
}

/// What a message counts beside its bytes, so that empty ones are bounded too.
const MESSAGE_BYTES: usize = 1;

impl Outbox {
    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.messages.len()
    }

    /// What waits, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.len() - self.start + self.messages.len() * MESSAGE_BYTES
    }

    /// Takes a message, the concatenation of `parts`, unless `bytes_max` wait already. One message may exceed it.
    pub(super) fn push(&mut self, order: Order, uniform: bool, parts: &[&[u8]], bytes_max: usize) -> bool {
        let len = parts.iter().map(|p| p.len()).sum();
        let waiting = self.bytes();
        if waiting > 0 && waiting.saturating_add(len) > bytes_max {
            return false;
        }
        if self.start > self.bytes.len() / 2 {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        parts.iter().for_each(|p| self.bytes.extend_from_slice(p));
        self.messages.push_back(QueuedMessage { order, uniform, len });
        debug_assert!(self.start + len <= self.bytes.len(), "a message that waits has its bytes");
        true
    }

    pub(super) fn front(&self) -> Option<Pending<'_>> {
        let &QueuedMessage { order, uniform, len } = self.messages.front()?;
        let payload = &self.bytes[self.start..][..len];
        Some(Pending { order, uniform, payload, cut: self.cut })
    }

    /// That much more of the first message is in packets.
    pub(super) fn cut_front(&mut self, bytes: usize) {
        self.cut += bytes;
        debug_assert!(
            self.messages.front().is_some_and(|front| self.cut < front.len),
            "a message of which all is in packets is forgotten instead"
        );
    }

    /// The first message is in packets to its end.
    pub(super) fn forget_front(&mut self) {
        self.cut = 0;
        debug_assert!(!self.messages.is_empty(), "a message is forgotten that does not wait");
        if let Some(done) = self.messages.pop_front() {
            self.start += done.len;
        }
        if self.messages.is_empty() {
            self.bytes.clear();
            self.bytes.shrink_to(KEPT_BYTES);
            self.start = 0;
        }
    }

    /// Checks what must always hold.
    pub(super) fn check_invariants(&self) {
        let waiting: usize = self.messages.iter().map(|message| message.len).sum();
        assert_eq!(self.start + waiting, self.bytes.len(), "the bytes are those of the messages that wait");
        let front = self.messages.front().map_or(0, |front| front.len);
        assert!(self.cut == 0 || self.cut < front, "a message waits of which all is in packets");
    }

    /// All messages, whole, also one that was cut.
    pub(super) fn into_messages(self) -> Vec<(Order, bool, Bytes)> {
        let bytes = Bytes::from(self.bytes);
        let mut at = self.start;
        let each = self.messages.into_iter().map(|QueuedMessage { order, uniform, len }| {
            at += len;
            (order, uniform, bytes.slice(at - len..at))
        });
        each.collect()
    }
}

/// Memory kept by an empty outbox.
const KEPT_BYTES: usize = 2 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_leave_in_order_and_memory_is_used_again() {
        let mut outbox = Outbox::default();
        let mut taken = 0_u32;
        for sent in 0..1000_u32 {
            assert!(outbox.push(Order::Total, false, &[&sent.to_le_bytes(), b"tail"], 100), "there is room");
            while outbox.len() > 7 {
                let front = outbox.front().expect("it waits");
                assert_eq!(front.payload, [&taken.to_le_bytes()[..], b"tail"].concat());
                outbox.forget_front();
                taken += 1;
            }
        }
        assert!(outbox.bytes.len() <= 2 * 8 * 8, "{} bytes kept for 7 messages", outbox.bytes.len());
    }

    /// Each message counts a byte beside its own: empty ones are bounded too.
    #[test]
    fn what_waits_is_counted() {
        let mut outbox = Outbox::default();
        assert_eq!(outbox.bytes(), 0);
        for (sent, payload) in [&b"four"[..], b"", b"and eight"].into_iter().enumerate() {
            assert!(outbox.push(Order::Fifo, false, &[payload], 100), "{sent}");
        }
        assert_eq!(outbox.bytes(), 4 + 9 + 3);
        outbox.forget_front();
        assert_eq!(outbox.bytes(), 9 + 2);
        let more = (0..1000).take_while(|_| outbox.push(Order::Fifo, false, &[], 20)).count();
        assert_eq!((more, outbox.bytes()), (10, 21));
    }

    #[test]
    fn it_is_bounded_but_takes_one_message_of_any_length() {
        let mut outbox = Outbox::default();
        assert!(outbox.push(Order::Fifo, false, &[&[1; 50]], 10));
        assert!(!outbox.push(Order::Fifo, false, &[b""], 10));
        outbox.cut_front(20);
        let messages = outbox.into_messages();
        assert_eq!(messages, [(Order::Fifo, false, Bytes::from(vec![1; 50]))]);
    }
}
