//! Packets on their way into the sessions they are for.

use super::{Endpoint, Entry, OLD_PACKETS, Role};
use crate::id::Origin;
use crate::packet::{Arriving, Begun, Packet};
use crate::rpc::api::CallEffects;
use crate::rpc::desk::Desk;
use crate::rpc::incoming::Clear;
use crate::rpc::path::Path;
use crate::rpc::wire::{Frame, Greeting, Side, read_frame};
use crate::seal::read_clear_for;
use crate::time::Instant;
use crate::wire::{DropReason, Header, Kind, Reader};

/// A packet of a session.
enum Came<'a> {
    /// As it came.
    Whole(&'a mut [u8]),
    /// Verified, and partly where it belongs.
    InPlace(Clear<'a>),
}

impl Role {
    #[inline]
    pub(super) fn path(&mut self) -> Option<&mut Path> {
        match self {
            Self::Client(client) => client.path.as_mut(),
            Self::Server(server) => Some(&mut server.path),
            Self::Free => None,
        }
    }
}

impl Endpoint {
    /// A packet arrived. A sealed one is opened in place; what makes no sense is counted and dropped.
    pub fn handle_packet(&mut self, now: Instant, origin: Origin, mut packet: Packet<'_>, fx: &mut impl CallEffects) {
        self.net.counters.packets_received += 1;
        if let Err(reason) = self.take_packet(now, origin, &mut packet, fx) {
            self.net.counters.drops[reason.index()] += 1;
        }
    }

    /// As [`Self::handle_packet`]; of a packet whose beginning came, the rest is copied to where it belongs.
    pub fn handle_arriving(&mut self, now: Instant, origin: Origin, arriving: Arriving<'_>, fx: &mut impl CallEffects) {
        match arriving {
            Arriving::Whole(packet) => self.handle_packet(now, origin, packet, fx),
            Arriving::Begun(begun) => self.handle_begun(now, origin, begun, fx),
        }
    }

    fn handle_begun(&mut self, now: Instant, origin: Origin, mut begun: Begun<'_>, fx: &mut impl CallEffects) {
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

    /// Has the rest of a packet put where it belongs, if it is of a message that is under way and can be read as it stands.
    /// `Ok(None)`: it is not, and nothing was taken.
    fn put_in_place<'h>(
        &mut self,
        origin: Origin,
        begun: &'h mut Begun<'_>,
    ) -> Result<Option<(Header, Clear<'h>)>, DropReason> {
        let Begun { head, len, rest } = begun;
        let Ok(header) = Header::parse(head) else { return Ok(None) };
        if header.cell_tag != self.cell_tag || header.kind != Kind::Session {
            return Ok(None);
        }
        let Some(Entry { role, .. }) = self.sessions.get_mut(header.space as usize) else { return Ok(None) };
        let Some(path) = role.path() else { return Ok(None) };
        if path.peer != header.sender {
            return Ok(None);
        }
        let Some((frames, seal)) = path.key.begin_clear(origin, path.token, head) else { return Ok(None) };
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
                let from = origin.address().ok_or(DropReason::UnknownPeer)?;
                let greeting = Greeting::read(frames)?;
                self.handle_greeting(now, from, header.sender, &greeting, fx)
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
        let hint = header.space;
        let entry = self.sessions.get_mut(hint as usize).ok_or(DropReason::UnknownSpace)?;
        let path = entry.role.path().ok_or(DropReason::UnknownSpace)?;
        if path.peer != header.sender {
            return Err(DropReason::UnknownPeer);
        }
        if header.number.saturating_add(OLD_PACKETS) < path.seen {
            return Err(DropReason::Replayed);
        }
        let came_len = match &came {
            Came::Whole(packet) => packet.len(),
            Came::InPlace(clear) => clear.frames.len() + clear.placed,
        };
        let Clear { frames, placed } = match (came, origin) {
            (Came::Whole(packet), Origin::Network(_)) => Clear::all(path.key.open(header, path.token, packet)?),
            (Came::Whole(packet), Origin::Memory) => Clear::all(read_clear_for(path.token, packet)?),
            (Came::InPlace(clear), _) => clear,
        };
        path.heard = now;
        path.heard_in_memory = origin == Origin::Memory;
        if header.number > path.seen {
            path.seen = header.number;
            if let (Role::Server(server), Some(from)) = (&mut entry.role, origin.address()) {
                server.path.answer_at(from, &mut self.rng);
            }
        }
        let mut touched = false;
        if let Role::Server(server) = &mut entry.role
            && !server.path.is_proved()
        {
            // Through memory nobody else can have come.
            if origin.address().is_none_or(|from| from == server.path.to) {
                server.path.came(came_len);
            }
            // It is challenged with this turn.
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
                    let desk = &mut desk!(self, now, fx);
                    touched |= match &frame {
                        Frame::Data(data) if data.side == Side::Answer => client.handle_answer(data, desk),
                        Frame::Receipt { side: Side::Request, name, receipt, .. } => {
                            client.handle_receipt(*name, receipt, desk)
                        }
                        Frame::Cancelled { name, may_have_run } => client.handle_cancelled(*name, *may_have_run, desk),
                        Frame::Credit(credit) => client.handle_credit(*credit, header.number),
                        Frame::Ready { name, message_len } => client.handle_ready(*name, *message_len, desk),
                        Frame::Challenge(bits) => client.handle_challenge(*bits),
                        Frame::Pong | Frame::Unknown => false,
                        Frame::Data(_)
                        | Frame::Receipt { .. }
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
                    let desk = &mut desk!(self, now, fx);
                    server.is_used = true;
                    if !std::mem::replace(&mut server.is_active, true) {
                        desk.intake.begin();
                    }
                    touched |= match &frame {
                        Frame::Data(data) if data.side == Side::Request => server.handle_request(data, desk),
                        Frame::Receipt { side: Side::Answer, name, receipt, asks } => {
                            server.handle_receipt(*name, receipt, *asks, desk)
                        }
                        Frame::Cancel(name) => server.handle_cancel(*name, desk),
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
                        | Frame::Receipt { .. }
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
            self.end_server(now, hint, fx);
        } else if touched && !entry.touched {
            entry.touched = true;
            self.touched.push(hint);
        }
        Ok(())
    }
}
