//! A channel: reliable, ordered, flow-controlled messages between two processes.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::{Bytes, BytesMut};

use super::{Ack, Receiving, Sending};
use crate::api::MESSAGE_BYTES_MAX;
use crate::frames::{Frames, Pool};
use crate::time::Instant;
use crate::wire::codec::{Reader, put_varint, varint_len};
use crate::wire::{Malformed, PacketNumber, Space};

/// One end of a channel. Messages arrive whole, once and in order, for as long as both incarnations live.
#[derive(Debug)]
pub struct Channel {
    /// The packet-number space in which this end sends.
    pub space: Space,
    sending: Sending,
    /// Frames of the packets that the other end may lack, oldest first. Beside each, the bytes of `queued` up to its
    /// end.
    retained: VecDeque<(Frames, u64)>,
    receiving: Receiving,
    outbox: VecDeque<Bytes>,
    outbox_bytes: usize,
    /// Bytes ever queued.
    queued: u64,
    /// Bytes of `queued` up to the end of the acknowledged prefix.
    received: u64,
    /// Bulk messages that may still be in the outbox: (length, bytes of `queued` up to its end).
    bulk: VecDeque<(usize, u64)>,
    bulk_bytes: usize,
    /// Messages that [`Self::unreceived`] counts: bytes of `queued` up to the end of each.
    asked_about: VecDeque<u64>,
    /// Room for short messages of the outbox. It is used again when all of them are in packets.
    short: BytesMut,
    /// Bytes of the first message in the outbox that packets already hold.
    cut: usize,
    assembling: Vec<u8>,
    expected: usize,
    /// Buffers of packets, to be used again.
    free: Pool,
    window: u64,
    /// Whether the other end has said what it allows.
    is_told: bool,
    /// Whether messages waited for the window at the last check.
    is_full: bool,
}

/// Why a channel did not take a message. Nothing was queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelError {
    /// Too many bytes wait to be sent.
    Full,
    /// The message is longer than [`MESSAGE_BYTES_MAX`].
    TooLong,
}

/// Messages up to this length are short, in bytes.
pub const SHORT_BYTES: usize = 2048;
/// Room for short messages of an outbox, in bytes.
const SHORT_ROOM_BYTES: usize = 8 * SHORT_BYTES;
/// The most buffers of packets that wait to be used again, and the most bytes of each.
const FREE_PACKETS: usize = 4;
const FREE_PACKET_BYTES: usize = 8 * 1024;

/// A message that arrived.
#[derive(Debug)]
pub enum ChannelMessage<'a> {
    /// One packet held it: who keeps it copies it.
    Whole(&'a [u8]),
    /// Several packets held it.
    Assembled(Vec<u8>),
}

impl From<ChannelMessage<'_>> for Bytes {
    fn from(message: ChannelMessage<'_>) -> Self {
        match message {
            ChannelMessage::Whole(bytes) => Self::copy_from_slice(bytes),
            ChannelMessage::Assembled(bytes) => Self::from(bytes),
        }
    }
}

/// Flags of a fragment's header: it is the last of its message, and the first.
const FRAGMENT_LAST: u8 = 1;
const FRAGMENT_FIRST: u8 = 2;
const _: () = assert!(FRAGMENT_FIRST & FRAGMENT_LAST == 0, "a flag has a bit of its own");

/// A frame of a control or data packet: a message, or a piece of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelFrame<'a> {
    /// The length of the whole message, if it begins here.
    pub message_len: Option<usize>,
    /// Whether the message ends here.
    pub is_last: bool,
    /// The bytes of the message that are here.
    pub bytes: &'a [u8],
}

impl<'a> ChannelFrame<'a> {
    /// Reads the next frame.
    ///
    /// # Errors
    /// [`Malformed`] if the bytes are no such frame, or of a message that is longer than messages may be. The position of
    /// `r` is then unspecified.
    pub fn read(r: &mut Reader<'a>) -> Result<Self, Malformed> {
        let flags = r.u8()?;
        if flags & !(FRAGMENT_FIRST | FRAGMENT_LAST) != 0 {
            return Err(Malformed); // the other bits have no meaning, and are not to be set
        }
        let message_len = if flags & FRAGMENT_FIRST == 0 {
            None
        } else {
            let total = usize::try_from(r.varint()?).map_err(|_too_long| Malformed)?;
            // Before anything is reserved: the length comes from a peer.
            if total > MESSAGE_BYTES_MAX {
                return Err(Malformed);
            }
            Some(total)
        };
        Ok(Self { message_len, is_last: flags & FRAGMENT_LAST != 0, bytes: r.prefixed()? })
    }
}

/// How far beyond the prefix packets are kept where a window is allowed. Twice as far, because the other end sends as much
/// as its own window until it was told this one.
fn reach(window: u64) -> u64 {
    window.saturating_mul(2)
}

impl Channel {
    /// A channel whose ends allow each other `window` packets.
    #[must_use]
    pub fn new(space: Space, window: u64, now: Instant) -> Self {
        Self {
            space,
            sending: Sending::new(1, window, now),
            retained: VecDeque::new(),
            receiving: Receiving::new(reach(window)),
            outbox: VecDeque::new(),
            outbox_bytes: 0,
            queued: 0,
            received: 0,
            bulk: VecDeque::new(),
            bulk_bytes: 0,
            asked_about: VecDeque::new(),
            short: BytesMut::new(),
            cut: 0,
            assembling: Vec::new(),
            expected: 0,
            free: Pool::default(),
            window,
            is_told: false,
            is_full: false,
        }
    }

    /// Sets how many packets this end allows from now on. Called when the size of the other end's packets becomes
    /// known.
    pub fn set_window(&mut self, window: u64) {
        self.window = window;
        self.receiving.extend(reach(window));
    }

    /// Queues a message. An empty outbox takes a message of any length.
    ///
    /// # Errors
    /// [`ChannelError::Full`] when more than `bytes_max` would wait; [`ChannelError::TooLong`]. Nothing was queued.
    pub fn send(&mut self, message: Bytes, bytes_max: usize) -> Result<(), ChannelError> {
        if message.len() > MESSAGE_BYTES_MAX {
            return Err(ChannelError::TooLong);
        }
        if self.outbox_bytes > 0 && self.outbox_bytes + message.len() > bytes_max {
            return Err(ChannelError::Full);
        }
        self.outbox_bytes += message.len();
        self.queued += message.len() as u64;
        self.outbox.push_back(message);
        Ok(())
    }

    /// Queues the message that `filled` holds, and empties it. A short message costs no allocation.
    ///
    /// # Errors
    /// [`ChannelError::TooLong`]. Nothing was queued.
    pub fn send_filled(&mut self, filled: &mut Vec<u8>) -> Result<(), ChannelError> {
        let message = if filled.len() <= SHORT_BYTES {
            if self.short.capacity() < filled.len() {
                self.short.reserve(SHORT_ROOM_BYTES);
            }
            self.short.extend_from_slice(filled);
            filled.clear();
            self.short.split().freeze()
        } else {
            Bytes::from(std::mem::take(filled))
        };
        self.send(message, usize::MAX)
    }

    /// Queues a message that [`Self::unreceived`] counts until the other end has acknowledged it.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub fn send_counted(&mut self, message: Bytes, bytes_max: usize) -> Result<(), ChannelError> {
        self.send(message, bytes_max)?;
        self.asked_about.push_back(self.queued);
        Ok(())
    }

    /// Number of messages of [`Self::send_counted`] that the other end has not acknowledged. They are the last ones
    /// queued.
    #[must_use]
    pub fn unreceived(&self) -> usize {
        self.asked_about.len()
    }

    /// Queues a message of a long series. At most `bytes_max` of the series wait at a time, whatever else waits. They
    /// count against the bound of [`Self::send`], too.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub fn send_bulk(&mut self, message: Bytes, bytes_max: usize) -> Result<(), ChannelError> {
        let len = message.len();
        if !self.takes_bulk(len, bytes_max) {
            return Err(ChannelError::Full);
        }
        self.send(message, usize::MAX)?;
        // Bounded apart: up to 4 MB of a state once stood before what a joiner asked for next
        // (`docs/found-by-simulation.md`).
        self.bulk_bytes += len;
        self.bulk.push_back((len, self.queued));
        Ok(())
    }

    /// Whether a bulk message of `len` bytes would be taken now, if `bytes_max` bytes of them may wait.
    #[must_use]
    pub fn takes_bulk(&mut self, len: usize, bytes_max: usize) -> bool {
        debug_assert!(self.outbox_bytes as u64 <= self.queued, "more bytes wait than were queued");
        // Brought up to date only here: packing a message costs nothing for it.
        let sent = self.queued - self.outbox_bytes as u64;
        while let Some(&(len, _)) = self.bulk.front().filter(|(_, end)| *end <= sent) {
            self.bulk.pop_front();
            debug_assert!(self.bulk_bytes >= len, "a bulk message is counted while it may wait");
            self.bulk_bytes -= len;
        }
        self.bulk_bytes == 0 || self.bulk_bytes + len <= bytes_max
    }

    /// Whether a bulk message waits to be sent.
    #[must_use]
    pub fn has_bulk(&self) -> bool {
        self.bulk.back().is_some_and(|(_, end)| *end > self.queued - self.outbox_bytes as u64)
    }

    /// Bytes that were accepted and that no packet holds yet.
    #[must_use]
    pub fn queued_bytes(&self) -> usize {
        self.outbox_bytes
    }

    /// Bytes ever queued.
    #[must_use]
    pub fn queued(&self) -> u64 {
        self.queued
    }

    /// Bytes of [`Self::queued`] that the other end has acknowledged.
    #[must_use]
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Whether nothing waits to be sent, and the other end acknowledged all that was sent.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.outbox.is_empty() && self.sending.outstanding() == 0
    }

    /// Whether nothing waits to be sent, retransmitted or acknowledged. Time alone then changes nothing, so that the
    /// event loop may leave the channel out until something comes.
    #[must_use]
    #[inline]
    pub fn is_at_rest(&self) -> bool {
        self.outbox.is_empty() && self.sending.is_at_rest() && self.receiving.ack_due().is_none()
    }

    /// Whether a packet can be sent now, a new one or a retransmission.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        !self.outbox.is_empty() && self.sending.may_send() || self.sending.has_retransmissions()
    }

    /// Bytes of [`Self::queued`] that the other end has acknowledged, with all before them.
    #[must_use]
    pub fn acknowledged(&self) -> u64 {
        self.received
    }

    /// Whether the other end owes an ack.
    #[must_use]
    pub fn is_waited_for(&self) -> bool {
        self.sending.outstanding() > 0
    }

    /// The measured round trip to the other end, from the send to the ack.
    #[must_use]
    pub fn round_trip(&self) -> Option<Duration> {
        self.sending.round_trip(0)
    }

    /// Whether nothing waits, and more could be sent now.
    #[must_use]
    pub fn takes_more(&self) -> bool {
        self.outbox.is_empty() && self.sending.may_send()
    }

    /// Fills `frames` with as much of the outbox as fits into `room` bytes. False if there is nothing to send now.
    pub fn fill(&mut self, room: usize, frames: &mut Vec<u8>) -> bool {
        if !self.sending.may_send() {
            return false;
        }
        let start = frames.len();
        while let Some(message) = self.outbox.front() {
            let left = room.saturating_sub(frames.len() - start);
            let rest = message.len() - self.cut;
            let overhead = 1 + varint_len(message.len() as u64) + varint_len(rest.min(left) as u64);
            if left <= overhead || (left - overhead < rest && frames.len() > start && left < room / 4) {
                break; // a sliver of a fragment is not worth its header
            }
            let take = rest.min(left - overhead);
            let first = self.cut == 0;
            let last = take == rest;
            frames.push(if last { FRAGMENT_LAST } else { 0 } | if first { FRAGMENT_FIRST } else { 0 });
            if first {
                put_varint(frames, message.len() as u64);
            }
            put_varint(frames, take as u64);
            frames.extend_from_slice(&message[self.cut..self.cut + take]);
            self.cut += take;
            self.outbox_bytes -= take;
            if last {
                self.outbox.pop_front();
                self.cut = 0;
            }
        }
        debug_assert!(frames.len() - start <= room, "a packet has more frames than room");
        frames.len() > start
    }

    /// Whether messages have begun to wait for the window since the last call.
    pub fn has_filled(&mut self) -> bool {
        let is_full = !self.outbox.is_empty() && !self.sending.may_send();
        !std::mem::replace(&mut self.is_full, is_full) && is_full
    }

    /// The number of the packet that [`Self::fill`] filled last.
    #[must_use]
    pub fn next_number(&self) -> PacketNumber {
        self.sending.next()
    }

    /// Takes the packet's frames after it was sent, and keeps them until the other end acknowledges it.
    pub fn sent(&mut self, now: Instant, frames: Frames) {
        debug_assert!(self.sending.may_send(), "a packet exceeds the other end's limit");
        debug_assert!(!frames.is_empty(), "an empty packet is sent");
        self.sending.push(now);
        self.retained.push_back((frames, self.queued - self.outbox_bytes as u64));
        debug_assert_eq!(self.retained.len() as u64, self.sending.outstanding(), "a packet sent is not retained");
    }

    /// Likewise, with a copy of the packet's frames.
    pub fn sent_copy(&mut self, now: Instant, frames: &[u8]) {
        let kept = self.free.copy(frames);
        self.sent(now, kept);
    }

    /// Uses the buffer of a packet again, if it is small and few wait.
    fn release(&mut self, frames: Frames) {
        if self.free.len() < FREE_PACKETS && frames.buffer_bytes() <= FREE_PACKET_BYTES {
            self.free.give(frames);
        }
    }

    /// Takes a packet that arrived from the other end. Passes complete messages to `each`.
    ///
    /// # Errors
    /// [`Malformed`] if its frames are no valid frames. The packet counts as received; its message is lost.
    pub fn handle_packet(
        &mut self,
        now: Instant,
        number: PacketNumber,
        frames: &[u8],
        ack_delay: Duration,
        each: &mut impl FnMut(ChannelMessage<'_>),
    ) -> Result<super::Arrival, Malformed> {
        if self.receiving.has(number) {
            self.receiving.ack_by(now); // the ack was lost
            return Ok(super::Arrival::Duplicate);
        }
        let kept = self.free.copy(frames);
        let arrival = self.receiving.accept(number, kept);
        let mut result = Ok(arrival);
        while let Some((_, frames)) = self.receiving.pop(u64::MAX) {
            if let Err(e) = self.read_frames(&frames, each) {
                result = Err(e);
            }
            self.release(frames);
        }
        // At once if a packet is missing, and at a quarter of the window: the sender must not run out of credit while
        // an ack is delayed.
        let soon = self.receiving.has_gap() || u64::from(self.receiving.unacknowledged()) * 4 >= self.window;
        self.receiving.ack_by(if soon { now } else { now + ack_delay });
        result
    }

    fn read_frames(&mut self, frames: &[u8], each: &mut impl FnMut(ChannelMessage<'_>)) -> Result<(), Malformed> {
        let mut r = Reader::new(frames);
        while !r.is_empty() {
            let ChannelFrame { message_len, is_last, bytes } = ChannelFrame::read(&mut r)?;
            if let Some(total) = message_len {
                self.assembling.clear();
                self.expected = total;
            }
            if message_len.is_some() && is_last {
                if bytes.len() != self.expected {
                    return Err(Malformed);
                }
                each(ChannelMessage::Whole(bytes));
                continue;
            }
            if self.assembling.len() + bytes.len() > self.expected {
                return Err(Malformed);
            }
            self.assembling.extend_from_slice(bytes);
            if is_last {
                if self.assembling.len() != self.expected {
                    return Err(Malformed);
                }
                each(ChannelMessage::Assembled(std::mem::take(&mut self.assembling)));
            }
        }
        Ok(())
    }

    /// Returns an ack that is due by `now`, if there is one, and counts it as sent.
    pub fn poll_ack(&mut self, now: Instant) -> Option<Ack> {
        if self.receiving.ack_due()? > now {
            return None;
        }
        self.receiving.acknowledged();
        // Counted from the prefix, because a channel hands messages on at once. Its owner bounds what the application
        // leaves.
        Some(self.receiving.ack(self.receiving.prefix() + self.window))
    }

    /// Takes the other end's ack, and releases the packets that it covers.
    pub fn handle_ack(&mut self, now: Instant, ack: &Ack) {
        // Until then this end assumed a window, perhaps before it knew anything of the other end. What goes beyond the one
        // that is allowed is dropped there, and then all of it is retransmitted.
        if !std::mem::replace(&mut self.is_told, true) {
            self.sending.set_limit(ack.limit);
        }
        self.sending.handle_ack(now, 0, ack);
        let outstanding = usize::try_from(self.sending.outstanding()).unwrap_or(usize::MAX);
        let received = self.retained.len().saturating_sub(outstanding);
        for _ in 0..received {
            let Some((frames, end)) = self.retained.pop_front() else { break };
            self.release(frames);
            debug_assert!(end >= self.received, "the acknowledged prefix goes back");
            self.received = end;
            while self.asked_about.front().is_some_and(|of_message| *of_message <= end) {
                self.asked_about.pop_front();
            }
        }
    }

    /// The next packet to retransmit: its number and its frames.
    pub fn poll_retransmit(&mut self) -> Option<(PacketNumber, Frames)> {
        let (_, number) = self.sending.poll_retransmit()?;
        // Counted from the newest, because `retained` ends with it.
        let newer = usize::try_from(self.sending.next().0 - number.0).unwrap_or(usize::MAX);
        debug_assert!(newer > 0, "a packet is retransmitted before it was sent");
        debug_assert!(newer <= self.retained.len(), "a retransmitted packet is not retained");
        let index = self.retained.len().checked_sub(newer)?;
        Some((number, self.retained.get(index)?.0.clone()))
    }

    /// Notes that packets of the other end may have been dropped. If it has sent any, the next poll acknowledges, so
    /// that it learns of gaps before its probe timeout.
    pub fn handle_loss(&mut self, now: Instant) {
        if self.receiving.has_begun() {
            self.receiving.ack_by(now);
        }
    }

    /// Evaluates the timers: retransmits to an end that is silent for too long.
    pub fn handle_timeout(&mut self, now: Instant, ack_delay: Duration) {
        self.sending.handle_timeout(now, ack_delay);
    }

    /// When the channel needs a poll without further input; zero for at once. `held`: new messages wait for something
    /// else, so that they do not count.
    #[must_use]
    pub fn deadline(&self, ack_delay: Duration, held: bool) -> Option<Instant> {
        if self.is_at_rest() {
            return None;
        }
        if !held && !self.outbox.is_empty() && self.sending.may_send() {
            return Some(Instant::ZERO);
        }
        [self.sending.deadline(ack_delay), self.receiving.ack_due()].into_iter().flatten().min()
    }

    /// Checks the invariants.
    ///
    /// # Panics
    /// If one is violated.
    pub fn check_invariants(&self) {
        self.sending.check_invariants();
        self.receiving.check_invariants();
        assert_eq!(self.retained.len() as u64, self.sending.outstanding(), "each unacknowledged packet is retained");
        let queued: usize = self.outbox.iter().map(Bytes::len).sum();
        assert_eq!(self.outbox_bytes + self.cut, queued, "the outbox has other bytes than are counted");
        assert!(
            self.cut == 0 || self.outbox.front().is_some_and(|m| self.cut < m.len()),
            "a message remains that packets hold whole"
        );
        let cut_up_to =
            self.queued.checked_sub(self.outbox_bytes as u64).expect("more bytes wait than were ever queued");
        assert!(self.received <= cut_up_to, "received more than was sent");
        assert!(self.retained.iter().is_sorted_by_key(|(_, end)| end), "retained packets are out of order");
        assert!(
            self.retained.back().is_none_or(|(_, end)| *end <= cut_up_to),
            "a packet ends behind the bytes that were sent"
        );
        assert!(self.asked_about.iter().is_sorted(), "messages asked about are out of order");
        assert!(self.asked_about.front().is_none_or(|end| *end >= self.received), "a message counts as unreceived");
        assert!(self.asked_about.back().is_none_or(|end| *end <= self.queued), "a message counts that was not queued");
        assert!(self.bulk.iter().is_sorted_by_key(|(_, end)| end), "bulk messages are out of order");
        assert_eq!(self.bulk.iter().map(|(len, _)| len).sum::<usize>(), self.bulk_bytes, "bulk bytes are miscounted");
        assert!(self.expected <= MESSAGE_BYTES_MAX, "the expected message is too long");
        assert!(self.assembling.len() <= self.expected, "more is reassembled than was announced");
        assert!(self.receiving.held() == self.receiving.prefix(), "a packet in order was not read");
        let owes = self.receiving.unacknowledged() > 0;
        assert!(!owes || self.receiving.ack_due().is_some(), "a packet that arrived is never acknowledged");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    /// A link between the two ends loses, repeats and reorders packets. Every message arrives, once and in order.
    #[test]
    fn messages_survive_a_bad_link() {
        let mut rng = Rng::new(3);
        let mut now = Instant::ZERO;
        let delay = Duration::from_millis(1);
        let (mut a, mut b) = (Channel::new(Space(1), 16, now), Channel::new(Space(2), 16, now));
        let messages: Vec<Bytes> =
            (0..60u8).map(|i| Bytes::from(vec![i; usize::from(i) * usize::from(i) * 5])).collect();
        for m in &messages {
            a.send(m.clone(), usize::MAX).expect("room");
        }
        let mut got = Vec::new();
        let mut flight: Vec<(PacketNumber, Frames)> = Vec::new();
        for _ in 0..200_000 {
            let mut frames = Vec::new();
            while a.fill(700, &mut frames) {
                let number = a.next_number();
                let packet = Frames::from(frames.clone());
                a.sent(now, packet.clone());
                flight.push((number, packet));
                frames.clear();
            }
            while let Some((number, p)) = a.poll_retransmit() {
                flight.push((number, p));
            }
            if !flight.is_empty() {
                let i = usize::try_from(rng.below(flight.len() as u64)).expect("small");
                let (number, packet) = flight.swap_remove(i);
                for _ in 0..if rng.chance_ppm(100_000) { 2 } else { 1 } {
                    if !rng.chance_ppm(200_000) {
                        b.handle_packet(now, number, &packet, delay, &mut |m| got.push(Bytes::from(m)))
                            .expect("well formed");
                    }
                }
            }
            now += Duration::from_micros(300);
            if let Some(ack) = b.poll_ack(now)
                && !rng.chance_ppm(200_000)
            {
                a.handle_ack(now, &ack);
            }
            a.handle_timeout(now, delay);
            if got.len() == messages.len() && a.is_idle() {
                break;
            }
        }
        assert_eq!(got, messages);
        assert!(a.is_idle());
    }

    #[test]
    fn a_message_does_not_begin_in_the_last_sliver_of_a_packet() {
        let mut a = Channel::new(Space(1), 16, Instant::ZERO);
        for bytes in [80, 500] {
            a.send(Bytes::from(vec![0; bytes]), usize::MAX).expect("room");
        }
        let mut frames = Vec::new();
        assert!(a.fill(100, &mut frames));
        assert_eq!(frames.len(), 80 + 3, "the first alone: its flags and two lengths");
        let (mut next, before) = (Vec::new(), frames.len());
        assert!(a.fill(100, &mut next));
        assert_eq!((next.len(), next[0], frames.len()), (100, FRAGMENT_FIRST, before));
    }

    #[test]
    fn a_message_is_received_when_its_last_part_is_acknowledged() {
        let (mut a, mut b) = (Channel::new(Space(1), 16, Instant::ZERO), Channel::new(Space(2), 16, Instant::ZERO));
        let message = |len: usize| Bytes::from(vec![0; len]);
        a.send_counted(message(50), usize::MAX).expect("room");
        a.send(message(10), usize::MAX).expect("room");
        a.send_counted(message(100), usize::MAX).expect("room");
        a.send_counted(Bytes::new(), usize::MAX).expect("room");
        let mut left = Vec::new();
        for _ in 0..2 {
            let mut frames = Vec::new();
            assert!(a.fill(100, &mut frames));
            let number = a.next_number();
            a.sent(Instant::ZERO, Frames::from(frames.clone()));
            b.handle_packet(Instant::ZERO, number, &frames, Duration::ZERO, &mut |_| {}).expect("well formed");
            left.push(a.unreceived());
            a.handle_ack(Instant::ZERO, &b.poll_ack(Instant::ZERO).expect("it is due"));
            left.push(a.unreceived());
        }
        assert_eq!(left, [3, 2, 2, 0], "the first packet holds a part of the third message");
    }

    #[test]
    fn bulk_has_a_bound_of_its_own() {
        let mut a = Channel::new(Space(1), 16, Instant::ZERO);
        let message = |len: usize| Bytes::from(vec![0; len]);
        a.send(message(200), 300).expect("room");
        assert!(!a.has_bulk());
        for _ in 0..2 {
            a.send_bulk(message(50), 100).expect("whatever else waits");
        }
        assert_eq!(a.send_bulk(message(50), 100), Err(ChannelError::Full));
        assert_eq!(a.send(message(1), 300), Err(ChannelError::Full), "bulk counts for others");
        let mut frames = Vec::new();
        assert!(a.fill(1000, &mut frames));
        assert!(!a.has_bulk() && a.takes_bulk(100, 100));
        a.send_bulk(message(500), 100).expect("nothing waits, however long it is");
        assert!(a.has_bulk() && !a.takes_bulk(1, 100));
    }

    #[test]
    fn room_is_counted_from_where_a_packet_was_filled_to() {
        let mut a = Channel::new(Space(1), 16, Instant::ZERO);
        a.send(Bytes::from(vec![0; 380]), usize::MAX).expect("room");
        let mut frames = vec![0; 300];
        assert!(a.fill(400, &mut frames));
        assert_eq!(frames.len(), 300 + 380 + 5, "flags, two lengths of two bytes, and all of the message");
    }

    #[test]
    fn an_ack_waits_for_as_long_as_it_may() {
        let (mut a, mut b) = (Channel::new(Space(1), 16, Instant::ZERO), Channel::new(Space(2), 16, Instant::ZERO));
        a.send(Bytes::from_static(b"x"), usize::MAX).expect("room");
        let mut frames = Vec::new();
        assert!(a.fill(100, &mut frames));
        let (now, delay) = (Instant(1_000_000_000), Duration::from_millis(2));
        b.handle_packet(now, a.next_number(), &frames, delay, &mut |_| {}).expect("well formed");
        assert!(b.poll_ack(now + delay / 2).is_none());
        assert!(b.poll_ack(now + delay).is_some());
    }

    /// Both ends allow one packet. The second message waits for the ack of the first.
    #[test]
    fn a_channel_asks_for_a_turn_when_it_may_send_and_tells_once_that_it_may_not() {
        let (now, delay) = (Instant(1_000_000_000), Duration::from_millis(2));
        let mut a = Channel::new(Space(1), 1, now);
        assert_eq!(a.deadline(delay, false), None, "at rest");
        for _ in 0..2 {
            a.send(Bytes::from(vec![0; 90]), usize::MAX).expect("room");
        }
        assert_eq!(a.deadline(delay, false), Some(Instant::ZERO), "at once");
        assert_eq!(a.deadline(delay, true), None, "new messages are held back, and none is outstanding");
        assert!(!a.has_filled(), "its window is open");
        let mut frames = Vec::new();
        assert!(a.fill(100, &mut frames));
        a.sent(now, Frames::from(frames));
        assert!(a.deadline(delay, false).is_some_and(|due| due > now), "for the ack");
        assert!(a.has_filled());
        assert!(!a.has_filled(), "reported once");
        a.handle_ack(now, &Ack { prefix: 1, limit: 2, gaps: Vec::new() });
        assert!(!a.has_filled());
        assert_eq!(a.deadline(delay, false), Some(Instant::ZERO));
    }

    #[test]
    fn the_other_end_may_send_as_much_as_was_set_last() {
        let mut b = Channel::new(Space(2), 16, Instant::ZERO);
        let mut frames = Vec::new();
        let mut a = Channel::new(Space(1), 16, Instant::ZERO);
        a.send(Bytes::from_static(b"x"), usize::MAX).expect("room");
        assert!(a.fill(100, &mut frames));
        b.set_window(3);
        b.handle_packet(Instant::ZERO, PacketNumber(1), &frames, Duration::ZERO, &mut |_| {}).expect("well formed");
        assert_eq!(b.poll_ack(Instant::ZERO).map(|ack| ack.limit), Some(1 + 3));
        // What is allowed is kept, whatever is missing before it.
        b.set_window(64);
        let last = b.handle_packet(Instant::ZERO, PacketNumber(1 + 64), &frames, Duration::ZERO, &mut |_| {
            panic!("one is missing")
        });
        assert!(matches!(last, Ok(crate::link::Arrival::New)));
    }

    /// A peer that is met before it is known is sent to with an assumed window.
    #[test]
    fn the_first_ack_says_what_is_allowed() {
        let (now, mut frames) = (Instant::ZERO, Vec::new());
        let mut a = Channel::new(Space(1), 700, now);
        let mut fill = |a: &mut Channel| {
            let mut sent = 0;
            while a.fill(100, &mut frames) {
                a.sent(now, Frames::from(std::mem::take(&mut frames)));
                sent += 1;
            }
            sent
        };
        a.send(Bytes::from_static(b"x"), usize::MAX).expect("room");
        assert_eq!(fill(&mut a), 1);
        a.send(Bytes::from(vec![0; 20_000]), usize::MAX).expect("room");
        a.handle_ack(now, &Ack { prefix: 1, limit: 1 + 107, gaps: Vec::new() });
        assert_eq!(fill(&mut a), 107);
        // Acks may overtake each other.
        a.handle_ack(now, &Ack { prefix: 1, limit: 20, gaps: Vec::new() });
        a.handle_ack(now, &Ack { prefix: 2, limit: 2 + 107, gaps: Vec::new() });
        assert_eq!(fill(&mut a), 1);
    }

    #[test]
    fn nonsense_is_an_error() {
        let mut b = Channel::new(Space(2), 16, Instant::ZERO);
        let mut none = |_: ChannelMessage<'_>| panic!("no message");
        for (n, bad) in
            [&[FRAGMENT_FIRST, 0xff, 0xff, 0xff, 0xff, 0x7f, 0][..], &[0, 5, 1, 2, 3, 4, 5], &[3, 4, 2, 0, 0], &[0xff]]
                .iter()
                .enumerate()
        {
            let number = PacketNumber(n as u64 + 1);
            assert!(b.handle_packet(Instant::ZERO, number, bad, Duration::ZERO, &mut none).is_err(), "{bad:?}");
        }
    }
}
