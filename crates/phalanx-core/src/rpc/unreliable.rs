//! Unreliable calls: the baseline for measurements. They have fragments and the seal, and nothing else. A lost packet
//! loses its call, and nobody is notified.
//!
//! After `UnreliableTransport` of `RAMCloud` (its sources, 2011 and 2012).

use std::collections::BTreeMap;
use std::net::SocketAddr;

use super::buffer_pool::BufferPool;
use super::fragmentation::fragment_bytes;
use super::reassembly::{Clear, FragmentArrival, Reassembly};
use super::transmit::transmit_message;
use super::wire::{FragmentPosition, Side};
use super::{CallEffects, CallId, ClientCallId, HandlerResult, Outcome};
use crate::id::{Incarnation, Origin, TrafficClass};
use crate::packet::{Arriving, ClearPacket, Packet, PartialPacket};
use crate::seal::{Opener, Sealer, Security};
use crate::wire::codec::{Malformed, Reader, put_u8, put_varint};
use crate::wire::{DropReason, Header, Kind, PacketNumber, SessionIndex, SessionSecret, Space};

/// Construction options of an unreliable endpoint.
#[derive(Clone, Debug)]
pub struct UnreliableOptions {
    /// The cell's name.
    pub cell: String,
    /// The incarnation of this endpoint: fresh random bits, never used before.
    pub me: Incarnation,
    /// The longest packet that all endpoints accept, in bytes. It must be the same at all of them, because both sides
    /// compute the fragments from it.
    pub packet_bytes: u32,
    /// The longest message, in bytes.
    pub message_bytes: usize,
}

/// An endpoint that makes and answers calls without any guarantee.
pub struct UnreliableEndpoint {
    sealer: Sealer,
    opener: Opener,
    me: Incarnation,
    longest_piece: usize,
    message_bytes: usize,
    number: PacketNumber,
    next_call_id: u64,
    /// Answers that are awaited, by call.
    awaited: BTreeMap<u64, Reassembly>,
    /// Incomplete requests of several packets, by client and call.
    requests: BTreeMap<(Incarnation, u64), Reassembly>,
    /// Addresses of the endpoints whose packets came over the network.
    places: BTreeMap<Incarnation, SocketAddr>,
    packet: Vec<u8>,
    answer: Vec<u8>,
    /// Buffer for packets that came header first and whose remaining payload has no place yet.
    whole: Vec<u8>,
    buffer_pool: BufferPool,
    /// Packets dropped.
    pub drops: u64,
}

const ANSWER: u8 = 1;
const WHOLE: u8 = 2;
/// Upper bound on the bytes of a frame beside those of its message.
pub(super) const HEAD_MAX: usize = 32;
/// Upper bound on each table. A lost packet leaves an entry behind. When a table is full, it is emptied.
pub(super) const ENTRIES_MAX: usize = 4096;

impl UnreliableEndpoint {
    /// An endpoint that knows no other.
    #[must_use]
    pub fn new(options: &UnreliableOptions, security: &Security) -> Self {
        let longest_piece = options.packet_bytes as usize - Header::LEN - security.tag_len() - HEAD_MAX;
        Self {
            sealer: Sealer::new(security, &options.cell, options.me),
            opener: Opener::new(security, &options.cell, options.me),
            me: options.me,
            longest_piece,
            message_bytes: options.message_bytes,
            number: PacketNumber(0),
            next_call_id: 1,
            awaited: BTreeMap::new(),
            requests: BTreeMap::new(),
            places: BTreeMap::new(),
            packet: Vec::with_capacity(65_536),
            answer: Vec::new(),
            whole: Vec::new(),
            buffer_pool: BufferPool::default(),
            drops: 0,
        }
    }

    /// Makes a call. Its answer is reported if it arrives.
    pub fn call(&mut self, server: SocketAddr, request: &[u8], fx: &mut impl CallEffects) -> ClientCallId {
        let call = self.next_call_id;
        self.next_call_id += 1;
        // There is no timer, so the entry of a call with a lost packet would stay for ever.
        if self.awaited.len() >= ENTRIES_MAX {
            self.awaited.clear();
        }
        self.awaited.insert(call, Reassembly::default());
        self.send(server, 0, call, request, fx);
        ClientCallId(call)
    }

    fn send(&mut self, to: SocketAddr, flags: u8, call: u64, message: &[u8], fx: &mut impl CallEffects) {
        let longest = fragment_bytes(self.longest_piece, message.len());
        let whole = message.len() <= longest;
        let mut rest = message;
        let mut index = 0_u64;
        loop {
            let (piece, after) = rest.split_at(rest.len().min(longest));
            self.number.0 += 1;
            self.packet.clear();
            self.sealer.header(Kind::Unreliable, Space(0), self.number).write(&mut self.packet);
            put_u8(&mut self.packet, flags | if whole { WHOLE } else { 0 });
            put_varint(&mut self.packet, call);
            if !whole {
                put_varint(&mut self.packet, message.len() as u64);
                put_varint(&mut self.packet, index);
            }
            transmit_message(&mut self.sealer, Incarnation::NONE, to, &mut self.packet, piece, fx);
            (rest, index) = (after, index + 1);
            if rest.is_empty() {
                break;
            }
        }
    }

    /// Notes the address of an endpoint whose packets may come through memory alone.
    pub fn know(&mut self, who: Incarnation, at: SocketAddr) {
        if self.places.get(&who) != Some(&at) {
            if self.places.len() >= ENTRIES_MAX {
                self.places.clear();
            }
            self.places.insert(who, at);
            self.opener.remember(who);
        }
    }

    /// Handles a packet that arrives. If it came header first, its remaining payload is copied to its place.
    pub fn handle_arriving(&mut self, origin: Origin, arriving: Arriving<'_>, fx: &mut impl CallEffects) {
        let mut begun = match arriving {
            Arriving::Whole(packet) => return self.handle_packet(origin, packet, fx),
            Arriving::HeaderFirst(begun) => begun,
        };
        match self.put_in_place(origin, &mut begun) {
            Ok(Some((header, clear))) => {
                let taken = self.take_clear(origin, &header, &clear, fx);
                self.drops += u64::from(taken.is_err());
            }
            Ok(None) => {
                let mut room = std::mem::take(&mut self.whole);
                if let Some(packet) = begun.complete(&mut room) {
                    self.handle_packet(origin, packet, fx);
                }
                self.whole = room;
            }
            Err(_) => self.drops += 1,
        }
    }

    /// As in an [`Endpoint`](super::Endpoint): the remaining payload is put where it belongs.
    fn put_in_place<'h>(
        &mut self,
        origin: Origin,
        begun: &'h mut PartialPacket<'_>,
    ) -> Result<Option<(Header, Clear<'h>)>, DropReason> {
        let PartialPacket { head, len, rest } = begun;
        let Some((header, frames, seal)) = self.opener.begin_clear(origin, head) else { return Ok(None) };
        let Some(beyond) = len.checked_sub(head.len() + seal.tag_len()) else { return Ok(None) };
        let Ok(UnreliableFrame { side, call, part: Some(part), bytes }) = UnreliableFrame::read(frames) else {
            return Ok(None);
        };
        let incoming = match side {
            Side::Request => self.requests.get_mut(&(header.sender, call)),
            Side::Answer => self.awaited.get_mut(&call),
        };
        let Some(place) = incoming.and_then(|incoming| incoming.place(part, bytes.len() + beyond)) else {
            return Ok(None);
        };
        seal.put((frames, bytes), *rest, place)?;
        Ok(Some((header, Clear { frames, placed: beyond })))
    }

    /// Handles a packet that arrived whole.
    pub fn handle_packet(&mut self, origin: Origin, mut packet: Packet<'_>, fx: &mut impl CallEffects) {
        if self.take(origin, &mut packet, fx).is_err() {
            self.drops += 1;
        }
    }

    fn take(&mut self, origin: Origin, packet: &mut [u8], fx: &mut impl CallEffects) -> Result<(), DropReason> {
        let (header, frames) = match origin {
            Origin::Network(_) => self.opener.open(packet)?,
            Origin::Memory => self.opener.read_clear(packet)?,
        };
        self.take_clear(origin, &header, &Clear::all(frames), fx)
    }

    fn take_clear(
        &mut self,
        origin: Origin,
        header: &Header,
        &Clear { frames, placed }: &Clear<'_>,
        fx: &mut impl CallEffects,
    ) -> Result<(), DropReason> {
        let clear = ClearPacket { to: Incarnation::NONE, header: *header, frames, frames_bytes: frames.len() + placed };
        fx.opened(TrafficClass::Data, origin, clear);
        if header.kind != Kind::Unreliable || header.sender == self.me {
            return Err(DropReason::Kind);
        }
        if let Some(from) = origin.address() {
            self.know(header.sender, from);
        }
        let UnreliableFrame { side, call, part, bytes } = UnreliableFrame::read(frames)?;
        match side {
            Side::Answer => self.take_answer(call, part, (bytes, placed), fx),
            Side::Request => self.take_request(header.sender, call, part, (bytes, placed), fx),
        }
    }

    fn take_answer(
        &mut self,
        call: u64,
        part: Option<FragmentPosition>,
        (bytes, placed): (&[u8], usize),
        fx: &mut impl CallEffects,
    ) -> Result<(), DropReason> {
        let incoming = self.awaited.get_mut(&call).ok_or(DropReason::Replayed)?;
        if let Some(part) = part {
            if !accept(
                incoming,
                part,
                (bytes, placed),
                PieceBounds { piece_bytes: self.longest_piece, message_bytes: self.message_bytes },
                &mut self.buffer_pool,
            )? {
                return Ok(());
            }
            fx.long_answer(ClientCallId(call), incoming.bytes_mut());
            incoming.release(&mut self.buffer_pool);
        } else {
            fx.outcome(ClientCallId(call), Outcome::Answer(bytes));
        }
        self.awaited.remove(&call);
        Ok(())
    }

    fn take_request(
        &mut self,
        client: Incarnation,
        call: u64,
        part: Option<FragmentPosition>,
        (bytes, placed): (&[u8], usize),
        fx: &mut impl CallEffects,
    ) -> Result<(), DropReason> {
        let to = *self.places.get(&client).ok_or(DropReason::UnknownPeer)?;
        let id = CallId { session: SessionIndex(0), session_secret: SessionSecret(client.0), slot: 0, call };
        let mut answer = std::mem::take(&mut self.answer);
        answer.clear();
        let served = if let Some(part) = part {
            if self.requests.len() >= ENTRIES_MAX {
                self.requests.clear();
            }
            let incoming = self.requests.entry((client, call)).or_default();
            if !accept(
                incoming,
                part,
                (bytes, placed),
                PieceBounds { piece_bytes: self.longest_piece, message_bytes: self.message_bytes },
                &mut self.buffer_pool,
            )? {
                self.answer = answer;
                return Ok(());
            }
            let served = fx.long_request(id, client, incoming.bytes_mut(), &mut answer);
            incoming.release(&mut self.buffer_pool);
            self.requests.remove(&(client, call));
            served
        } else {
            fx.request(id, client, bytes, &mut answer)
        };
        // A later answer has no state here that would remember its caller.
        if served == HandlerResult::Answered {
            self.send(to, ANSWER, call, &answer, fx);
        }
        self.answer = answer;
        Ok(())
    }
}

/// The content of an unreliable packet: a message, or a fragment of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnreliableFrame<'a> {
    /// Of which message.
    pub side: Side,
    /// The call. Its client numbers its calls from 1.
    pub call: u64,
    /// Position of the fragment, or `None` for a whole message.
    pub part: Option<FragmentPosition>,
    /// The bytes of the message that are in the packet.
    pub bytes: &'a [u8],
}

impl<'a> UnreliableFrame<'a> {
    /// Reads the frame.
    ///
    /// # Errors
    /// [`Malformed`] if the bytes end too early.
    pub fn read(frames: &'a [u8]) -> Result<Self, Malformed> {
        let mut from = Reader::new(frames);
        let (flags, call) = (from.u8()?, from.varint()?);
        let part = if flags & WHOLE == 0 {
            Some(FragmentPosition { message_len: from.varint()?, index: from.varint_u32()? })
        } else {
            None
        };
        let side = if flags & ANSWER == 0 { Side::Request } else { Side::Answer };
        Ok(Self { side, call, part, bytes: from.rest() })
    }
}

/// Bounds on the parts of a message.
struct PieceBounds {
    /// Length of the longest piece of a message that does not fit a packet.
    piece_bytes: usize,
    /// Length of the longest message.
    message_bytes: usize,
}

/// Takes a piece, and returns whether the message is complete.
fn accept(
    incoming: &mut Reassembly,
    part: FragmentPosition,
    (bytes, placed): (&[u8], usize),
    PieceBounds { piece_bytes, message_bytes }: PieceBounds,
    buffer_pool: &mut BufferPool,
) -> Result<bool, DropReason> {
    let len = usize::try_from(part.message_len).unwrap_or(usize::MAX);
    if len > message_bytes {
        return Err(DropReason::Overload);
    }
    if !incoming.is_begun() {
        incoming.begin(len, piece_bytes, u32::MAX, buffer_pool);
    }
    match incoming.accept(part, bytes, placed) {
        FragmentArrival::Nonsense => Err(DropReason::Malformed),
        FragmentArrival::New | FragmentArrival::Duplicate => Ok(incoming.is_complete()),
    }
}
