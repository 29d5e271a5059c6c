//! Receiving: demultiplexing packets to their sessions.

use super::{Endpoint, Entry, OLD_PACKETS, Role};
use crate::id::{Incarnation, Origin, TrafficClass};
use crate::packet::{Arriving, ClearPacket, Packet, PartialPacket};
use crate::rpc::api::CallEffects;
use crate::rpc::context::SessionContext;
use crate::rpc::path::SessionPath;
use crate::rpc::reassembly::Clear;
use crate::rpc::wire::{Frame, SessionHandshake, Side, read_frame};
use crate::seal::read_clear_for;
use crate::time::Instant;
use crate::wire::{DropReason, Header, Kind, Reader, SessionIndex};

/// A received packet of a session.
enum Came<'a> {
    /// The packet as it arrived.
    Whole(&'a mut [u8]),
    /// Verified, and partly at its place already.
    InPlace(Clear<'a>),
}

impl Role {
    #[inline]
    pub(super) fn path(&mut self) -> Option<&mut SessionPath> {
        match self {
            Self::Client(client) => client.path_mut(),
            Self::Server(server) => Some(&mut server.path),
            Self::Free => None,
        }
    }
}

impl Endpoint {
    /// Handles a packet that arrived. A sealed packet is opened in place. Packets that make no sense are counted and
    /// dropped.
    pub fn handle_packet(&mut self, now: Instant, origin: Origin, mut packet: Packet<'_>, fx: &mut impl CallEffects) {
        self.net.counters.packets_received += 1;
        if let Err(reason) = self.take_packet(now, origin, &mut packet, fx) {
            self.net.counters.drops[reason.index()] += 1;
        }
    }

    /// As [`Self::handle_packet`]. If the packet came header first, its remaining payload is copied to its place.
    pub fn handle_arriving(&mut self, now: Instant, origin: Origin, arriving: Arriving<'_>, fx: &mut impl CallEffects) {
        match arriving {
            Arriving::Whole(packet) => self.handle_packet(now, origin, packet, fx),
            Arriving::HeaderFirst(begun) => self.handle_header_first(now, origin, begun, fx),
        }
    }

    fn handle_header_first(
        &mut self,
        now: Instant,
        origin: Origin,
        mut begun: PartialPacket<'_>,
        fx: &mut impl CallEffects,
    ) {
        let taken = match self.put_in_place(origin, &mut begun) {
            Ok(None) => {
                let mut room = std::mem::take(&mut self.whole);
                if let Some(packet) = begun.complete(&mut room) {
                    self.handle_packet(now, origin, packet, fx);
                }
                self.whole = room;
                return;
            }
            Ok(Some((header, clear))) => self.handle_session(now, &header, (origin, Came::InPlace(clear)), fx),
            Err(reason) => Err(reason),
        };
        self.net.counters.packets_received += 1;
        if let Err(reason) = taken {
            self.net.counters.drops[reason.index()] += 1;
        }
    }

    /// Puts the remaining payload of a packet where it belongs, if it is part of a message under way and can be read as
    /// it stands. `Ok(None)`: it is not, and nothing was taken.
    fn put_in_place<'h>(
        &mut self,
        origin: Origin,
        begun: &'h mut PartialPacket<'_>,
    ) -> Result<Option<(Header, Clear<'h>)>, DropReason> {
        let PartialPacket { head, len, rest } = begun;
        let Ok(header) = Header::parse(head) else { return Ok(None) };
        if header.cell_tag != self.cell_tag || header.kind != Kind::Session {
            return Ok(None);
        }
        let Some(Entry { role, .. }) = self.sessions.get_mut(SessionIndex::of(header.space).index()) else {
            return Ok(None);
        };
        let Some(path) = role.path() else { return Ok(None) };
        if path.peer != header.sender {
            return Ok(None);
        }
        let Some((frames, seal)) = path.key.begin_clear(origin, path.session_secret, head) else { return Ok(None) };
        let Some(beyond) = len.checked_sub(head.len() + seal.tag_len()) else { return Ok(None) };
        let mut from = Reader::new(frames);
        let data = loop {
            match read_frame(&mut from) {
                Ok(Frame::Data(data)) => break data,
                Ok(_) if !from.is_empty() => {}
                Ok(_) | Err(_) => return Ok(None),
            }
        };
        let Some(part) = data.part else { return Ok(None) };
        let len = data.bytes.len() + beyond;
        let place = match role {
            Role::Client(client) if data.side == Side::Answer => client.place(data.name, part, len),
            Role::Server(server) if data.side == Side::Request => server.place(data.name, part, len),
            Role::Client(_) | Role::Server(_) | Role::Free => None,
        };
        let Some(place) = place else { return Ok(None) };
        seal.put((frames, data.bytes), *rest, place)?;
        Ok(Some((header, Clear { frames, placed: beyond })))
    }

    #[inline]
    fn take_packet(
        &mut self,
        now: Instant,
        origin: Origin,
        packet: &mut [u8],
        fx: &mut impl CallEffects,
    ) -> Result<(), DropReason> {
        let header = Header::parse(packet)?;
        if header.cell_tag != self.cell_tag {
            return Err(DropReason::OtherCell);
        }
        match header.kind {
            Kind::Session => self.handle_session(now, &header, (origin, Came::Whole(packet)), fx),
            Kind::Open => {
                let (header, frames) = self.opener.open(packet)?;
                let clear = ClearPacket { to: Incarnation::NONE, header, frames, frames_bytes: frames.len() };
                fx.opened(TrafficClass::Data, origin, clear);
                let from = origin.address().ok_or(DropReason::UnknownPeer)?;
                let handshake = SessionHandshake::read(frames)?;
                self.handle_handshake(now, from, header.sender, &handshake, fx)
            }
            _ => Err(DropReason::Kind),
        }
    }

    fn handle_session(
        &mut self,
        now: Instant,
        header: &Header,
        (origin, came): (Origin, Came<'_>),
        fx: &mut impl CallEffects,
    ) -> Result<(), DropReason> {
        let session_index = SessionIndex::of(header.space);
        let entry = self.sessions.get_mut(session_index.index()).ok_or(DropReason::UnknownSpace)?;
        let path = entry.role.path().ok_or(DropReason::UnknownSpace)?;
        if path.peer != header.sender {
            return Err(DropReason::UnknownPeer);
        }
        if header.number.0.saturating_add(OLD_PACKETS) < path.seen.0 {
            return Err(DropReason::Replayed);
        }
        let came_len = match &came {
            Came::Whole(packet) => packet.len(),
            Came::InPlace(clear) => clear.frames.len() + clear.placed,
        };
        let Clear { frames, placed } = match (came, origin) {
            (Came::Whole(packet), Origin::Network(_)) => {
                Clear::all(path.key.open(header, path.session_secret, packet)?)
            }
            (Came::Whole(packet), Origin::Memory) => Clear::all(read_clear_for(path.session_secret, packet)?),
            (Came::InPlace(clear), _) => clear,
        };
        let to = Incarnation(path.session_secret.0);
        let clear = ClearPacket { to, header: *header, frames, frames_bytes: frames.len() + placed };
        fx.opened(TrafficClass::Data, origin, clear);
        // Only now, behind the seal: a forged or foreign packet changes nothing.
        path.heard = now;
        path.heard_in_memory = origin == Origin::Memory;
        if header.number > path.seen {
            // Only the newest packet moves the address: a replayed older one would divert the answers.
            path.seen = header.number;
            if let (Role::Server(server), Some(from)) = (&mut entry.role, origin.address()) {
                server.path.answer_at(from, &mut self.rng);
            }
        }
        let mut touched = false;
        if let Role::Server(server) = &mut entry.role
            && !server.path.is_proved()
        {
            // Only the client itself can write to its memory.
            if origin.address().is_none_or(|from| from == server.path.to) {
                server.path.came(came_len);
            }
            // The challenge goes out in this iteration.
            touched = true;
        }
        let mut from = Reader::new(frames);
        let mut closed = false;
        while !from.is_empty() && !closed {
            let mut frame = read_frame(&mut from)?;
            if let Frame::Data(data) = &mut frame {
                data.placed = placed;
            }
            match &mut entry.role {
                Role::Client(client) => {
                    let context = &mut context!(self, now, fx);
                    touched |= match &frame {
                        Frame::Data(data) if data.side == Side::Answer => client.handle_answer(data, context),
                        Frame::FragmentAck { side: Side::Request, name, ack, .. } => {
                            client.handle_ack(*name, ack, context)
                        }
                        Frame::Cancelled { name, may_have_run } => {
                            client.handle_cancelled(*name, *may_have_run, context)
                        }
                        Frame::Credit(credit) => client.handle_credit(*credit, header.number),
                        Frame::Ready { name, message_len } => client.handle_ready(*name, *message_len, context),
                        Frame::Challenge(bits) => client.handle_challenge(*bits),
                        Frame::Pong | Frame::Unknown => false,
                        Frame::Data(_)
                        | Frame::FragmentAck { .. }
                        | Frame::Cancel(_)
                        | Frame::Close
                        | Frame::Ping
                        | Frame::Proof(_) => {
                            return Err(DropReason::Malformed);
                        }
                    };
                    self.due = self.due.min(client.due);
                }
                Role::Server(server) => {
                    let context = &mut context!(self, now, fx);
                    if server.handle_speech() {
                        context.intake.begin();
                    }
                    touched |= match &frame {
                        Frame::Data(data) if data.side == Side::Request => server.handle_request(data, context),
                        Frame::FragmentAck { side: Side::Answer, name, ack, asks } => {
                            server.handle_ack(*name, ack, *asks, context)
                        }
                        Frame::Cancel(name) => server.handle_cancel(*name, context),
                        Frame::Ping => {
                            server.handle_ping();
                            true
                        }
                        Frame::Close => {
                            closed = true;
                            false
                        }
                        Frame::Proof(bits) => server.path.prove(*bits),
                        Frame::Unknown => false,
                        Frame::Data(_)
                        | Frame::FragmentAck { .. }
                        | Frame::Challenge(_)
                        | Frame::Cancelled { .. }
                        | Frame::Credit(_)
                        | Frame::Ready { .. }
                        | Frame::Pong => return Err(DropReason::Malformed),
                    };
                    touched |= server.path.is_used_up;
                }
                Role::Free => break,
            }
        }
        if closed {
            self.end_server(now, session_index, fx);
        } else if touched && !entry.touched {
            entry.touched = true;
            self.touched.push(session_index);
        }
        Ok(())
    }
}
