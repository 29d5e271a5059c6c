//! Packing: the messages of this member, put into packets as the send window allows.

use bytes::Bytes;

use super::frame::{FragmentKind, MessageKind, put_message, put_stable};
use super::outbox::Pending;
use super::output::StreamOutput;
use super::packer::{AskHead, Head};
use super::view_streams::{Backlog, ViewStreams};
use crate::api::{Order, Request};
use crate::id::Sequence;
use crate::link::Arrival;
use crate::time::Instant;
use crate::wire::codec::varint_len;

/// Bytes at the end of each packet that are kept free for a stability announcement.
const MARK_ROOM: usize = 11;

/// What was done with a message that was accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// It is packed, as this one of this member's messages in the view.
    Packed(Sequence),
    /// It waits in the outbox.
    Queued,
}

impl ViewStreams {
    /// Accepts a message. Packs it now if the window allows, otherwise queues it in the outbox; then
    /// [`StreamOutput::sent`] reports its number later. `None`, with nothing queued, if the outbox is full.
    pub fn multicast(
        &mut self,
        now: Instant,
        request: Request,
        parts: &[&[u8]],
        io: &mut impl StreamOutput,
    ) -> Option<Packing> {
        if let Some(seq) = self.multicast_at_once(now, request, parts, io) {
            return Some(Packing::Packed(seq));
        }
        let taken = self.outbox.push(request, parts, self.set.outbox_bytes);
        self.backpressure.note_outbox(taken, io);
        taken.then_some(Packing::Queued)
    }

    /// Accepts a message if it can be packed now, so that it is bound to this view: its number in it. `None`: nothing
    /// was accepted.
    #[inline]
    pub fn multicast_at_once(
        &mut self,
        now: Instant,
        request: Request,
        parts: &[&[u8]],
        io: &mut impl StreamOutput,
    ) -> Option<Sequence> {
        let len: usize = parts.iter().map(|p| p.len()).sum();
        let whole = self.ask_head.of(request).len() + len;
        // Without a quorum the others may continue without what this group delivers. In a view with too few members
        // nothing uniform is sent, by agreement.
        let held = request.uniformity.is_uniform() && self.withholds();
        // A message is packed only if nothing waits before it: a sender's messages go out in the order in which it
        // accepted them.
        if self.outbox.is_empty()
            && !held
            && self.announce_past(now, request.order, io)
            && self.make_room(now, whole, io)
        {
            self.pack(request, FragmentKind::Whole, len, |packer| {
                parts.iter().for_each(|p| packer.extend_from_slice(p));
            });
            return Some(self.sent);
        }
        None
    }

    /// Whether a message of `len` bytes, with what stands in front of its payload, fits into one packet of this view.
    #[must_use]
    pub fn fits_packet(&self, len: usize) -> bool {
        self.header_bound() + len <= self.usable_room()
    }

    /// Makes room in the packet being filled for a whole message of `len` bytes. False if the message does not fit into
    /// any packet, or nothing may be sent now.
    #[inline]
    fn make_room(&mut self, now: Instant, len: usize, io: &mut impl StreamOutput) -> bool {
        if !self.fits_packet(len) {
            return false;
        }
        let need = self.header_bound() + len;
        if self.packer.frames.len() + need > self.usable_room() {
            self.close_packet(now, io);
        }
        self.may_pack()
    }

    #[inline]
    pub(super) fn usable_room(&self) -> usize {
        self.set.packet_room - MARK_ROOM
    }

    /// Appends one fragment of a message to the packet being filled: `len` bytes of its payload. The first one has
    /// the message's head in front of them.
    #[inline]
    fn pack(&mut self, request: Request, fragment: FragmentKind, len: usize, body: impl FnOnce(&mut Vec<u8>)) {
        let Request { order, uniformity, .. } = request;
        // A message counts as sent with its last fragment: its causal past is all that was delivered here by then.
        let ends = matches!(fragment, FragmentKind::Whole | FragmentKind::Last);
        let mut deps = std::mem::take(&mut self.due);
        if ends && order != Order::Fifo {
            self.take_deps(&mut deps);
        }
        // The position of a token holder's abcast in its stream is its place in the total order, and costs no
        // announcement. Not if an earlier abcast of its own still waits for its order: FIFO would break. Not if it
        // spans packets: a reader gives the place where the frame stands, and a message in fragments ends elsewhere
        // than it begins.
        let sequenced = order == Order::Total
            && fragment == FragmentKind::Whole
            && self.holder.as_ref().is_some_and(|holder| holder.has_sequenced(self.set.me, self.last_unsequenced));
        let begins = matches!(fragment, FragmentKind::Whole | FragmentKind::First(_));
        let head = if begins { self.ask_head.of(request) } else { Head::Nothing };
        let has_head = request.asks || request.domain.is_some();
        let kind = MessageKind { order, sequenced, uniformity, has_head };
        put_message(&mut self.packer.frames, kind, fragment, &deps, head.len() + len);
        self.packer.frames.extend_from_slice(&head);
        deps.clear();
        self.due = deps;
        let start = self.packer.frames.len();
        body(&mut self.packer.frames);
        debug_assert_eq!(self.packer.frames.len() - start, len, "the fragment has another length than its header");
        debug_assert!(self.packer.frames.len() <= self.usable_room(), "a piece does not fit its packet");
        self.packer.is_prompt |= uniformity.is_uniform();
        if ends {
            self.sent = self.sent.next();
        }
        if sequenced {
            self.announce_own(1, self.set.me);
        } else if order == Order::Total && ends {
            // Later abcasts of ours are ordered by position only when this one has its place.
            self.last_unsequenced = self.sent;
        }
    }

    /// Packs waiting messages as far as the window allows.
    pub(super) fn drain_outbox(&mut self, now: Instant, io: &mut impl StreamOutput) {
        if self.outbox.is_empty() {
            return;
        }
        // Taken out while it is read, because packing borrows `self`.
        let mut outbox = std::mem::take(&mut self.outbox);
        while let Some(next) = outbox.front() {
            let Pending { request, payload, cut } = next;
            let Request { order, uniformity, asks, .. } = request;
            if uniformity.is_uniform() && self.withholds() {
                break;
            }
            // The list of those that are to answer fits no packet of this view: the next one may have fewer members.
            if asks && !self.fits_packet(AskHead::bytes_max(self.set.members.len())) {
                break;
            }
            if !self.announce_past(now, order, io) {
                break;
            }
            let whole = self.ask_head.of(request).len() + payload.len();
            if cut == 0 && self.fits_packet(whole) {
                if !self.make_room(now, whole, io) {
                    break;
                }
                self.pack(request, FragmentKind::Whole, payload.len(), |p| p.extend_from_slice(payload));
                io.sent(self.sent, order, uniformity, payload);
                outbox.forget_front();
                continue;
            }
            let Some((fragment, took)) = self.pack_piece(now, &next, io) else { break };
            if fragment == FragmentKind::Last {
                io.sent(self.sent, order, uniformity, payload);
                outbox.forget_front();
            } else {
                outbox.cut_front(took);
            }
        }
        self.outbox = outbox;
    }

    /// Packs the next fragment of a message that spans packets. Returns the fragment's kind and its bytes; `None` if
    /// nothing may be sent now.
    fn pack_piece(
        &mut self,
        now: Instant,
        &Pending { request, payload, cut }: &Pending<'_>,
        io: &mut impl StreamOutput,
    ) -> Option<(FragmentKind, usize)> {
        let head = if cut == 0 { self.ask_head.of(request).len() } else { 0 };
        let header = self.header_bound() + varint_len((head + payload.len()) as u64) + head;
        if self.packer.frames.len() + header >= self.usable_room() {
            self.close_packet(now, io);
        }
        if !self.may_pack() {
            return None;
        }
        debug_assert!(cut < payload.len(), "a message of which all is in packets waits no more");
        let rest = payload.len() - cut;
        let mut take = rest.min(self.usable_room() - self.packer.frames.len() - header);
        if cut == 0 && take == rest {
            take = rest / 2; // a message cut into pieces has a first and a last one
        }
        let fragment = match (cut == 0, take == rest) {
            (true, _) => FragmentKind::First(head + payload.len()),
            (false, true) => FragmentKind::Last,
            (false, false) => FragmentKind::Middle,
        };
        self.pack(request, fragment, take, |p| p.extend_from_slice(&payload[cut..cut + take]));
        Some((fragment, take))
    }

    /// Sends the packet being filled, unless it is empty, and accepts it into our own stream.
    pub(super) fn close_packet(&mut self, now: Instant, io: &mut impl StreamOutput) {
        if self.packer.frames.is_empty() {
            return;
        }
        // A stability announcement that went out as a best-effort packet may be lost. The stream's next packet repeats
        // it, because that one is retransmitted. Without that, receivers kept packets beyond their bound.
        let stable = self.tx.stable();
        if stable > self.packed_stable {
            put_stable(&mut self.packer.frames, stable);
            (self.packed_stable, self.announced_stable) = (stable, stable);
        }
        let number = self.tx.next();
        debug_assert!(!self.wedged, "a member that is wedged sends nothing new");
        debug_assert!(self.packer.frames.len() <= self.set.packet_room, "a packet is longer than its receivers take");
        io.multicast(self.set.space, number, &self.packer.frames);
        // A full socket stops packing at once: messages then wait in the outbox, where their sender sees it.
        self.congested |= io.is_congested();
        let frames = self.pool.take(&mut self.packer.frames);
        self.tx.push(now);
        self.receipts.sent(number, self.sent);
        if std::mem::take(&mut self.packer.is_prompt) {
            self.prompt_up_to = number.0;
        }
        let me = self.set.me;
        // Kept in our own stream like any other member's packet. Retransmissions are taken from there and sealed anew
        // (`docs/departures.md`, *Sealing of retransmissions*).
        let arrival = self.streams[me.index()].rx.accept(number, frames);
        debug_assert_eq!(arrival, Arrival::New, "our own packets come once, in order");
        self.parse(now, me, io);
        debug_assert_eq!(self.streams[me.index()].rx.prefix(), number.0, "our own packets make sense to us");
    }

    /// Whether packets hold a part of the first waiting message.
    #[must_use]
    pub fn is_cut_off(&self) -> bool {
        self.outbox.front().is_some_and(|first| first.cut > 0)
    }

    /// Removes the messages that are not bound to this view, in order. The next view sends them. A message of which
    /// this view holds a part is sent whole there, because the end of the view discards incomplete messages.
    pub fn take_outbox(&mut self) -> Vec<(Request, Bytes)> {
        std::mem::take(&mut self.outbox).into_messages()
    }

    /// Queues what [`Self::take_outbox`] of the previous view returned. No bound applies: these messages were accepted.
    pub fn put_outbox(&mut self, messages: Vec<(Request, Bytes)>) {
        for (request, payload) in messages {
            self.outbox.push(request, &[&payload], usize::MAX);
        }
    }

    /// Messages and bytes that were accepted and that no packet holds yet.
    #[must_use]
    pub fn queued(&self) -> Backlog {
        Backlog { messages: self.outbox.len(), bytes: self.outbox.bytes() }
    }
}
