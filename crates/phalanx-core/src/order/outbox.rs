//! The outbox: accepted messages that no packet had room for, bounded, in one reused allocation.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::api::Request;

/// Messages that wait for the window, oldest first.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    messages: VecDeque<QueuedMessage>,
    /// Payloads of the waiting messages, one after the other from `start` on.
    bytes: Vec<u8>,
    start: usize,
    /// Bytes of the first message that packets already hold.
    cut: usize,
}

#[derive(Clone, Copy, Debug)]
struct QueuedMessage {
    request: Request,
    len: usize,
}

/// The first waiting message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending<'a> {
    pub(super) request: Request,
    pub(super) payload: &'a [u8],
    /// Bytes of it that packets already hold.
    pub(super) cut: usize,
}

/// Bytes counted for a message beside its payload, so that empty messages are bounded, too.
const MESSAGE_BYTES: usize = 1;

impl Outbox {
    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.messages.len()
    }

    /// Bytes that count against the bound: payloads, and [`MESSAGE_BYTES`] for each message.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.len() - self.start + self.messages.len() * MESSAGE_BYTES
    }

    /// Appends a message, the concatenation of `parts`. False, with nothing changed, if more than `bytes_max` would
    /// wait. An empty outbox takes a message of any length: otherwise a message longer than the bound could never be
    /// sent.
    pub(super) fn push(&mut self, request: Request, parts: &[&[u8]], bytes_max: usize) -> bool {
        let len = parts.iter().map(|p| p.len()).sum();
        let waiting = self.bytes();
        if waiting > 0 && waiting.saturating_add(len) > bytes_max {
            return false;
        }
        // Moves the rest to the front when half of the buffer is used up. So each byte is moved about once, and the
        // buffer stays below twice of what waits.
        if self.start > self.bytes.len() / 2 {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        parts.iter().for_each(|p| self.bytes.extend_from_slice(p));
        self.messages.push_back(QueuedMessage { request, len });
        debug_assert!(self.start + len <= self.bytes.len(), "a message that waits has its bytes");
        true
    }

    pub(super) fn front(&self) -> Option<Pending<'_>> {
        let &QueuedMessage { request, len } = self.messages.front()?;
        let payload = &self.bytes[self.start..][..len];
        Some(Pending { request, payload, cut: self.cut })
    }

    /// Notes that packets hold `bytes` more of the first message.
    pub(super) fn cut_front(&mut self, bytes: usize) {
        self.cut += bytes;
        debug_assert!(
            self.messages.front().is_some_and(|front| self.cut < front.len),
            "a message of which all is in packets is forgotten instead"
        );
    }

    /// Removes the first message, which packets hold to its end.
    pub(super) fn forget_front(&mut self) {
        self.cut = 0;
        debug_assert!(!self.messages.is_empty(), "a message is forgotten that does not wait");
        if let Some(done) = self.messages.pop_front() {
            self.start += done.len;
        }
        if self.messages.is_empty() {
            // One long message must not keep its memory for the life of the view.
            self.bytes.clear();
            self.bytes.shrink_to(KEPT_BYTES);
            self.start = 0;
        }
    }

    /// Checks the invariants of the outbox.
    pub(super) fn check_invariants(&self) {
        let waiting: usize = self.messages.iter().map(|message| message.len).sum();
        assert_eq!(self.start + waiting, self.bytes.len(), "the bytes are those of the messages that wait");
        let front = self.messages.front().map_or(0, |front| front.len);
        assert!(self.cut == 0 || self.cut < front, "a message waits of which all is in packets");
    }

    /// All waiting messages, each whole, even if packets of the old view hold a part of the first.
    pub(super) fn into_messages(self) -> Vec<(Request, Bytes)> {
        let bytes = Bytes::from(self.bytes);
        let mut at = self.start;
        let each = self.messages.into_iter().map(|QueuedMessage { request, len }| {
            at += len;
            (request, bytes.slice(at - len..at))
        });
        each.collect()
    }
}

/// Memory that an empty outbox keeps, in bytes.
const KEPT_BYTES: usize = 2 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{Order, Uniformity};

    const FIFO: Request = Request { order: Order::Fifo, uniformity: Uniformity::Plain, asks: false, domain: None };

    #[test]
    fn messages_leave_in_order_and_memory_is_used_again() {
        let mut outbox = Outbox::default();
        let mut taken = 0_u32;
        for sent in 0..1000_u32 {
            assert!(outbox.push(FIFO, &[&sent.to_le_bytes(), b"tail"], 100), "there is room");
            while outbox.len() > 7 {
                let front = outbox.front().expect("it waits");
                assert_eq!(front.payload, [&taken.to_le_bytes()[..], b"tail"].concat());
                outbox.forget_front();
                taken += 1;
            }
        }
        assert!(outbox.bytes.len() <= 2 * 8 * 8, "{} bytes kept for 7 messages", outbox.bytes.len());
    }

    /// Each message counts one byte more than its payload, so that empty messages are bounded, too.
    #[test]
    fn what_waits_is_counted() {
        let mut outbox = Outbox::default();
        assert_eq!(outbox.bytes(), 0);
        for (sent, payload) in [&b"four"[..], b"", b"and eight"].into_iter().enumerate() {
            assert!(outbox.push(FIFO, &[payload], 100), "{sent}");
        }
        assert_eq!(outbox.bytes(), 4 + 9 + 3);
        outbox.forget_front();
        assert_eq!(outbox.bytes(), 9 + 2);
        let more = (0..1000).take_while(|_| outbox.push(FIFO, &[], 20)).count();
        assert_eq!((more, outbox.bytes()), (10, 21));
    }

    #[test]
    fn it_is_bounded_but_takes_one_message_of_any_length() {
        let mut outbox = Outbox::default();
        assert!(outbox.push(FIFO, &[&[1; 50]], 10));
        assert!(!outbox.push(FIFO, &[b""], 10));
        outbox.cut_front(20);
        let messages = outbox.into_messages();
        assert_eq!(messages, [(FIFO, Bytes::from(vec![1; 50]))]);
    }
}
