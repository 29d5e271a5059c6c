//! Received packets: opening, dispatch by kind, control messages; and the packets that channels send.

use bytes::Bytes;

use super::best_effort::{BestEffortFrame, Target, put_ack, read_best_effort};
use super::packet_builder::Label;
use super::peers::Peer;
use super::port::{DATA_MESSAGE, DATA_STATE};
use super::to_one::to_one_port;
use super::{EARLY_BYTES, EARLY_PACKETS, Early, Process, Stage};
use crate::api::{Effects, MESSAGE_BYTES_MAX};
use crate::frames::{Frames, ReceivedFrames};
use crate::id::{Incarnation, Origin, TrafficClass};
use crate::link::{Arrival, Channel};
use crate::member::{Control, StateMessage};
use crate::packet::{ClearPacket, Packet};
use crate::process::app::{AppQueue, Item};
use crate::seal::CLEAR_HEAD_LEN;
use crate::time::Instant;
use crate::wire::{DropReason, Header, Kind, Reader};

/// Upper bound on peers of a process without a view: those that speak to it while it looks for its cell.
const STRANGERS_MAX: usize = 64;
/// Upper bound on the bytes that wait on a control channel: a peer that takes nothing costs no more than this.
const CONTROL_OUTBOX_BYTES: usize = 32 << 20;
/// Upper bound on the bytes of state that wait on a data channel. Later requests and messages of the application wait
/// behind them: with 4 MB, a donor behind a slow interface seemed silent, was given up, and sent all for nothing.
pub(super) const BULK_BYTES: usize = 64 * 1024;
/// Bytes that may wait on a data channel before control messages of a transfer are refused.
const STATE_OUTBOX_BYTES: usize = 4 << 20;
/// Bytes of a packet that every process takes.
const PACKET_BYTES_MIN: u32 = 1200;
/// Lower bound on a channel's window, in packets.
pub(super) const CHANNEL_WINDOW_MIN: u64 = 16;
/// Messages of other processes that may wait for the application, in windows of a channel. One more message may be on
/// its way from each process.
const OWED_WINDOWS: usize = 4;
/// Bytes of state that may wait for the application. A donor that keeps to its own bound never sends as much.
pub(super) const OWED_STATE_BYTES: usize = 32 << 20;
/// Bytes of messages to one that may wait for their past or for the application, over all senders and groups.
pub(super) const TO_ONE_BYTES: u64 = 256 << 20;
const _: () = assert!(TO_ONE_BYTES > MESSAGE_BYTES_MAX as u64, "the longest message finds room");
const _: () = assert!(BULK_BYTES <= STATE_OUTBOX_BYTES, "bulk leaves room for the other messages of a transfer");
const _: () = assert!(STATE_OUTBOX_BYTES <= CONTROL_OUTBOX_BYTES, "a view is decided whatever states are given");

impl Process {
    /// Handles a packet that arrived on `class`. A sealed packet is opened in place. Packets that make no sense are
    /// counted and dropped.
    pub fn handle_packet(
        &mut self,
        now: Instant,
        class: TrafficClass,
        origin: Origin,
        mut packet: Packet<'_>,
        fx: &mut impl Effects,
    ) {
        self.counters.datagrams_received += 1;
        if matches!(self.stage, Stage::Over) {
            return;
        }
        let opened = match origin {
            Origin::Network(_) => self.opener.open(&mut packet),
            Origin::Memory => self.opener.read_clear(&mut packet),
        };
        let (header, frames_bytes) = match opened {
            Ok((header, frames)) => (header, frames.len()),
            Err(reason) => return self.counters.drop(reason),
        };
        let start = if origin == Origin::Memory { CLEAR_HEAD_LEN } else { Header::LEN };
        let place = start..start + frames_bytes;
        let to = if header.kind.is_addressed() { self.me() } else { Incarnation::NONE };
        let clear = ClearPacket { to, header, frames: &packet[place.clone()], frames_bytes };
        fx.opened(class, origin, clear);
        if header.sender == self.me() {
            return self.counters.drop(DropReason::Replayed); // our own, sent back
        }
        if matches!(header.kind, Kind::Open | Kind::Session | Kind::Unreliable) {
            return self.counters.drop(DropReason::Kind); // of calls, which have endpoints of their own
        }
        if header.kind == Kind::Handshake {
            // Only members share memory, and their addresses are known.
            let known = || self.peers.get(header.sender).map(|peer| peer.control);
            let Some(from) = origin.address().or_else(known) else {
                return self.counters.drop(DropReason::UnknownPeer);
            };
            return self.handle_handshake(now, from, header.sender, &packet[place], fx);
        }
        if !self.peers.contains(header.sender) && !self.admit_stranger(now, class, origin, &header) {
            self.notify_excluded(now, header.sender, fx);
            return self.counters.drop(DropReason::UnknownPeer);
        }
        // A member that was stopped sends heartbeats when it runs again, as if it were still in. It has to be notified.
        if header.kind == Kind::BestEffortMulticast && self.peers.get(header.sender).is_some_and(|p| p.rank.is_none()) {
            self.notify_excluded(now, header.sender, fx);
        }
        let outcome = match header.kind {
            // Only a packet that was taken counts as a sign of life: an attacker may replay old packets of a dead
            // member.
            Kind::Direct | Kind::BestEffortMulticast => self.handle_best_effort(now, &header, &packet[place], fx),
            Kind::Control | Kind::Data | Kind::ToOne => {
                self.handle_channel(now, &header, &packet[place], fx).map(|()| true)
            }
            Kind::Multicast => {
                let frames = match packet {
                    Packet::Lent(bytes) => ReceivedFrames::Lent(&bytes[place]),
                    Packet::Given(buffer, _) => ReceivedFrames::Given(buffer, place),
                };
                self.handle_multicast(now, &header, frames, fx).map(|()| true)
            }
            Kind::Handshake | Kind::Open | Kind::Session | Kind::Unreliable => Ok(false),
        };
        match outcome {
            Ok(is_alive) => {
                if is_alive && let Some(rank) = self.peers.get(header.sender).and_then(|p| p.rank) {
                    self.failure_detector.heard(now, rank);
                }
            }
            Err(reason) => self.counters.drop(reason),
        }
    }

    /// Decides whether a packet of an unknown sender is accepted.
    ///
    /// While this process looks for its cell, members that it does not know speak to it. A packet sealed for its
    /// incarnation, which is new, proves that its sender lives now and knows the cell key. A member that hears no
    /// quorum also listens to a process that reported a later view of its instance: that process may be the only one
    /// that knows the decision.
    fn admit_stranger(&mut self, now: Instant, class: TrafficClass, origin: Origin, header: &Header) -> bool {
        let Some(from) = origin.address() else { return false };
        let looks = match self.stage {
            Stage::Searching(_) => true,
            Stage::Member => !self.primary && self.probing.coordinator == Some(from),
            Stage::Leaving { .. } | Stage::Over => false,
        };
        if !looks || class != TrafficClass::Control || !header.kind.is_addressed() {
            return false;
        }
        if self.peers.values().filter(|peer| peer.rank.is_none()).count() >= STRANGERS_MAX {
            return false;
        }
        let room = self.room(PACKET_BYTES_MIN);
        // Its packets may be as long as this process accepts, so the window is computed for those.
        let window = self.channel_window(self.room(u32::MAX));
        let net = &mut self.net;
        self.peers.get_or_insert_with(header.sender, || Peer::new(net, from, from, window, room, now));
        true
    }

    /// Number of packets of `room` bytes that a channel may have under way.
    pub(super) fn channel_window(&self, room: usize) -> u64 {
        ((self.set.limits.channel_window_bytes / room) as u64).clamp(CHANNEL_WINDOW_MIN, 4096)
    }

    /// Bytes of frames that fit in a packet of `packet_bytes`.
    pub(super) fn room(&self, packet_bytes: u32) -> usize {
        let packet = packet_bytes.min(self.set.me.packet_bytes_max).clamp(PACKET_BYTES_MIN, 65_000) as usize;
        packet - Header::LEN - self.tag_len
    }

    /// Reads a best-effort packet. Returns whether it shows that its sender lives: a packet that is older than one that
    /// came before does not.
    fn handle_best_effort(
        &mut self,
        now: Instant,
        header: &Header,
        frames: &[u8],
        fx: &mut impl Effects,
    ) -> Result<bool, DropReason> {
        let peer = self.peers.get_mut(header.sender).ok_or(DropReason::UnknownPeer)?;
        let seen = if header.kind == Kind::Direct { &mut peer.direct_seen } else { &mut peer.best_effort_seen };
        let mut is_alive = seen.highest().is_none_or(|highest| header.number.0 > highest);
        if !seen.check_and_set(header.number) {
            return Err(DropReason::Replayed);
        }
        let mut r = Reader::new(frames);
        while !r.is_empty() {
            let Some(frame) = read_best_effort(&mut r)? else { continue };
            if matches!(frame, BestEffortFrame::Heartbeat { .. } | BestEffortFrame::WatchHeartbeat(_)) {
                // A packet from before this process joined is no repetition here. A replayed heartbeat would make a dead
                // member look alive, so an older one than the last does not count, nor what follows it. Heartbeats and
                // other packets come by different sockets, so they may overtake each other.
                let peer = self.peers.get_mut(header.sender).ok_or(DropReason::UnknownPeer)?;
                if peer.last_heartbeat > Some(header.number) {
                    return Err(DropReason::Replayed);
                }
                peer.last_heartbeat = Some(header.number);
                is_alive = true;
            }
            match frame {
                BestEffortFrame::Ack(target, ack) => {
                    let peer = self.peers.get_mut(header.sender).ok_or(DropReason::UnknownPeer)?;
                    match target {
                        Target::Control => peer.control_channel.handle_ack(now, &ack),
                        Target::Data => peer.data_channel.handle_ack(now, &ack),
                        Target::ToOne => peer.to_one_channel.handle_ack(now, &ack),
                        Target::Stream { space, wants_stable } => {
                            let rank = self.group_streams.get(&space).and_then(|f| f.meta.rank(header.sender));
                            if let Some(rank) = rank {
                                self.with_view_streams(space, fx, |view_streams, port| {
                                    view_streams.handle_ack(now, rank, &ack, wants_stable, port);
                                });
                            }
                        }
                    }
                }
                BestEffortFrame::Status { space, status } => {
                    if let Some(view_streams) = self.group_streams.get_mut(&space)
                        && let Some(rank) = view_streams.meta.rank(header.sender)
                    {
                        view_streams.view_streams.handle_status(now, rank, &status);
                        view_streams.touched = true;
                    }
                }
                BestEffortFrame::Heartbeat { decree, hears } => {
                    self.handle_heartbeat(now, header.sender, decree, hears);
                }
                BestEffortFrame::WatchHeartbeat(beat) => self.handle_watch_heartbeat(now, header.sender, &beat, fx),
                BestEffortFrame::LinkReport { decree, rank, link_report } => {
                    // Only members pass link-state reports on: ranks mean nothing to others.
                    if self.peers.get(header.sender).is_some_and(|peer| peer.rank.is_some()) {
                        self.handle_link_report(decree, rank, link_report);
                    }
                }
                BestEffortFrame::SlowReport { decree, slow_report } => {
                    self.handle_slow_report(now, header.sender, decree, slow_report);
                }
                BestEffortFrame::Probe(probe) => self.handle_probe(now, header.sender, probe, fx),
                BestEffortFrame::Findings { decree, findings } => {
                    self.handle_findings(now, header.sender, decree, findings);
                }
                BestEffortFrame::Excluded { view } => {
                    // Only a packet sealed for this incarnation may end it. One sealed for all may be a replay from
                    // before it began.
                    if header.kind == Kind::Direct
                        && view > self.directory.view
                        && matches!(self.stage, Stage::Member | Stage::Leaving { .. })
                    {
                        self.be_excluded(view);
                        return Ok(false);
                    }
                }
            }
        }
        Ok(is_alive)
    }

    fn handle_channel(
        &mut self,
        now: Instant,
        header: &Header,
        frames: &[u8],
        fx: &mut dyn Effects,
    ) -> Result<(), DropReason> {
        let delay = self.set.timing.ack_delay;
        let control = header.kind == Kind::Control;
        let is_full = match header.kind {
            Kind::Data => owes_too_much(&self.app, self.set.limits.channel_window_bytes),
            // Windows bound each sender in each group. Answers take none.
            Kind::ToOne => waiting_to_one(&self.app) as u64 > TO_ONE_BYTES,
            _ => false,
        };
        if is_full {
            return Err(DropReason::Overload); // not acknowledged, so its sender retransmits it
        }
        let peer = self.peers.get_mut(header.sender).ok_or(DropReason::UnknownPeer)?;
        // The application has already been notified that this sender is out. So what it sent before it learned that
        // itself is refused, and is not acknowledged either: the sender must not count on its delivery.
        if !control && peer.rank.is_none() && self.directory.departed.contains(&header.sender) {
            return Err(DropReason::OldIncarnation);
        }
        if peer.is_unreadable {
            return Err(DropReason::Malformed); // neither read nor acknowledged, whatever it is
        }
        if !fx.can_read(header.sender, header.space, header.number) {
            self.stop_reading(header.sender);
            return Err(DropReason::Malformed);
        }
        let mut messages: Vec<Bytes> = Vec::new();
        let mut to_one = std::mem::take(&mut self.app.to_one.came);
        let channel = match header.kind {
            Kind::Control => &mut peer.control_channel,
            Kind::ToOne => &mut peer.to_one_channel,
            _ => &mut peer.data_channel,
        };
        let kept = &mut self.app.to_one;
        let arrival = channel.handle_packet(now, header.number, frames, delay, &mut |message| match header.kind {
            Kind::ToOne => to_one.push(kept.keep(message)),
            _ => messages.push(message.into()),
        });
        let read = arrival.map_err(DropReason::from).and_then(|arrival| match arrival {
            Arrival::New if header.kind == Kind::ToOne => {
                to_one.drain(..).try_for_each(|message| to_one_port!(self).handle(header.sender, message))
            }
            Arrival::New => messages.into_iter().try_for_each(|message| {
                if !control {
                    return self.handle_data(now, header.sender, &message, fx);
                }
                self.handle_control(now, header.sender, Control::decode(&message)?, fx);
                Ok(())
            }),
            Arrival::Duplicate => Err(DropReason::Replayed),
            Arrival::Ahead => Err(DropReason::Ahead),
        });
        // Of a packet that made no sense some may be left, and they are not the next sender's.
        to_one.clear();
        self.app.to_one.came = to_one;
        if read == Err(DropReason::Malformed) {
            self.stop_reading(header.sender);
        }
        read
    }

    fn handle_data(
        &mut self,
        now: Instant,
        from: Incarnation,
        message: &Bytes,
        fx: &mut dyn Effects,
    ) -> Result<(), DropReason> {
        match message.first() {
            Some(&DATA_MESSAGE) => {
                self.app.push(Item::Message { from, payload: message.slice(1..) });
                Ok(())
            }
            Some(&DATA_STATE) => {
                let message = StateMessage::decode(&message[1..])?;
                self.handle_state(now, from, message, fx);
                Ok(())
            }
            _ => Err(DropReason::Malformed),
        }
    }

    fn handle_multicast(
        &mut self,
        now: Instant,
        header: &Header,
        frames: ReceivedFrames<'_>,
        fx: &mut impl Effects,
    ) -> Result<(), DropReason> {
        let Some(rank) = self.group_streams.get(&header.space).map(|f| f.meta.rank(header.sender)) else {
            return self.keep_early(header, &frames);
        };
        let rank = rank.ok_or(DropReason::UnknownSpace)?;
        match self.with_view_streams(header.space, fx, |view_streams, port| {
            view_streams.handle_packet(now, rank, header.number, frames, port)
        }) {
            Some(Arrival::Ahead) => Err(DropReason::Ahead),
            Some(Arrival::Duplicate) => Err(DropReason::Replayed),
            _ => Ok(()),
        }
    }

    /// Keeps a packet of a view that is not installed here yet, within bounds. It is neither acknowledged nor delivered
    /// meanwhile.
    pub(super) fn keep_early(&mut self, header: &Header, frames: &[u8]) -> Result<(), DropReason> {
        if self.past.contains_key(&header.space) || header.space < self.directory.next_space {
            return Err(DropReason::UnknownSpace); // spaces are numbered upwards, so this view is over
        }
        if self.early.len() >= EARLY_PACKETS || self.early_bytes + frames.len() > EARLY_BYTES {
            return Err(DropReason::Overload);
        }
        debug_assert!(!self.group_streams.contains_key(&header.space), "a packet waits for a view that is installed");
        self.early_bytes += frames.len();
        let frames = Frames::from(frames.to_vec());
        self.early.push_back(Early { sender: header.sender, space: header.space, number: header.number, frames });
        Ok(())
    }

    /// Processes the packets that arrived before their view was installed.
    pub(super) fn replay_early(&mut self, now: Instant, fx: &mut dyn Effects) {
        self.early_bytes = 0;
        for early in std::mem::take(&mut self.early) {
            let Some(view_streams) = self.group_streams.get(&early.space) else {
                if early.space >= self.directory.next_space {
                    self.early_bytes += early.frames.len();
                    self.early.push_back(early);
                }
                continue;
            };
            if let Some(rank) = view_streams.meta.rank(early.sender) {
                self.with_view_streams(early.space, fx, |view_streams, port| {
                    view_streams.handle_packet(now, rank, early.number, ReceivedFrames::Lent(&early.frames), port)
                });
            }
        }
    }

    /// Queues a control message to `to`.
    pub(super) fn send_control(&mut self, to: Incarnation, message: &Control) {
        if self.peers.contains(to)
            && let Ok(bytes) = message.encode()
        {
            self.send_encoded(to, Bytes::from(bytes));
        }
    }

    /// Queues an encoded control message to `to`.
    pub(super) fn send_encoded(&mut self, to: Incarnation, message: Bytes) {
        if let Some(peer) = self.peers.get_mut(to)
            && peer.control_channel.send(message, CONTROL_OUTBOX_BYTES).is_err()
        {
            self.counters.control_refused += 1;
        }
    }

    /// Queues a state-transfer message to `to`. Returns false if too much waits.
    pub(super) fn send_state(&mut self, to: Incarnation, message: &StateMessage) -> bool {
        let Some(peer) = self.peers.get_mut(to) else { return false };
        let Ok(mut bytes) = message.encode(vec![DATA_STATE]) else { return false };
        bytes.shrink_to_fit();
        let bytes = Bytes::from(bytes);
        match message {
            StateMessage::Chunk { .. } | StateMessage::Replay { .. } | StateMessage::ReplayView { .. } => {
                peer.data_channel.send_bulk(bytes, BULK_BYTES).is_ok()
            }
            _ => peer.data_channel.send(bytes, STATE_OUTBOX_BYTES).is_ok(),
        }
    }

    /// Whether `bytes` more of a state could be queued to `to` now.
    pub(super) fn takes_state(&mut self, to: Incarnation, bytes: usize) -> bool {
        self.peers.get_mut(to).is_some_and(|peer| peer.data_channel.takes_bulk(bytes, BULK_BYTES))
    }

    /// Whether some channel found the interface full before it could send anything, and the interface accepts packets
    /// again.
    #[inline]
    pub(super) fn owes_a_channel(&self, fx: &mut impl Effects) -> bool {
        self.peers.is_left_out() && !fx.is_congested()
    }

    /// Sends what is due on channels: new packets, retransmissions, acks.
    pub(super) fn poll_channels(&mut self, now: Instant, fx: &mut impl Effects) {
        let delay = self.set.timing.ack_delay;
        let mut frames = std::mem::take(&mut self.scratch);
        let Self { peers, net, counters, .. } = self;
        peers.poll(|who, peer| {
            let mut left_out = false;
            // A message to one goes before the state that waits beside it.
            for kind in [Kind::Control, Kind::ToOne, Kind::Data] {
                let (channel, class, to, target) = match kind {
                    Kind::Control => (&mut peer.control_channel, TrafficClass::Control, peer.control, Target::Control),
                    Kind::ToOne => (&mut peer.to_one_channel, TrafficClass::Data, peer.data, Target::ToOne),
                    _ => (&mut peer.data_channel, TrafficClass::Data, peer.data, Target::Data),
                };
                if !channel.is_at_rest() {
                    channel.handle_timeout(now, delay);
                    left_out |= class == TrafficClass::Data && channel.is_ready() && fx.is_congested();
                    let label =
                        |channel: &Channel, number| Label { dest: who, ..Label::for_all(kind, channel.space, number) };
                    // Retransmissions of data wait like new packets. Into a full interface they would only keep it
                    // full, and a state of some megabytes would fill it for ever.
                    while !(class == TrafficClass::Data && fx.is_congested())
                        && let Some((number, frames)) = channel.poll_retransmit()
                    {
                        counters.retransmissions += 1;
                        net.send(label(channel, number).retransmitted(), class, &[to], &frames, counters, fx);
                    }
                    frames.clear();
                    while !(class == TrafficClass::Data && fx.is_congested())
                        && channel.fill(peer.packet_room, &mut frames)
                    {
                        net.send(label(channel, channel.next_number()), class, &[to], &frames, counters, fx);
                        debug_assert!(frames.len() <= peer.packet_room, "a packet is longer than its receiver takes");
                        channel.sent_copy(now, &frames);
                        frames.clear();
                    }
                    counters.channel_window_full += u64::from(channel.has_filled());
                    if let Some(ack) = channel.poll_ack(now) {
                        put_ack(&mut peer.direct, target, &ack);
                    }
                }
                // Acks for control travel on the control socket, those for data on the data socket.
                if kind != Kind::ToOne && !peer.direct.is_empty() {
                    let label = net.direct(who);
                    net.send(label, class, &[to], &peer.direct, counters, fx);
                    peer.direct.clear();
                }
            }
            left_out
        });
        frames.clear();
        self.scratch = frames;
    }
}

/// Whether so much of the data channels waits for the application that nothing more is received on them. `window`: that of
/// a channel, in bytes.
fn owes_too_much(app: &AppQueue, window: usize) -> bool {
    let owed = app.owed();
    owed.messages >= OWED_WINDOWS * window || owed.state >= OWED_STATE_BYTES
}

/// Bytes of messages to one that wait here for their past or for the application.
pub(super) fn waiting_to_one(app: &AppQueue) -> usize {
    usize::try_from(app.to_one.waiting_bytes()).unwrap_or(usize::MAX).saturating_add(app.owed().to_one)
}
