//! The frames of call packets (`docs/rpc.md`). Parsing is total: invalid bytes give [`Malformed`].

use crate::wire::codec::{Malformed, Reader, put_prefixed, put_u8, put_u64, put_varint};
use crate::wire::{PacketNumber, SessionIndex, SessionSecret, Space};

/// The content of an open packet. The session index is always the client's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionHandshake<'a> {
    /// A client requests a session.
    Ask {
        /// Where the client keeps the session.
        session_index: SessionIndex,
        /// Random bits that the server returns.
        nonce: u64,
        /// The longest packet that the client takes, in bytes.
        packet_bytes: u32,
        /// How the client is reached other than by the network.
        offer: &'a [u8],
    },
    /// The server opened the session.
    Opened {
        /// Where the client keeps the session.
        session_index: SessionIndex,
        /// The client's.
        nonce: u64,
        /// What the server grants.
        opened: Opened,
        /// How the server is reached other than by the network.
        offer: &'a [u8],
    },
    /// The server refuses the session.
    Refused {
        /// Where the client keeps the session.
        session_index: SessionIndex,
        /// The client's.
        nonce: u64,
        /// Why.
        reason: Refusal,
    },
}

/// A server's grant of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Where the server keeps the session.
    pub session_index: SessionIndex,
    /// What the session's packets are sealed for.
    pub session_secret: SessionSecret,
    /// How many calls may be in progress at once.
    pub slots: u8,
    /// The longest packet that the server takes, in bytes.
    pub packet_bytes: u32,
    /// The request credit, in bytes.
    pub credit: u64,
}

/// The longest [`super::EndpointOptions::offer`], in bytes.
pub const OFFER_BYTES_MAX: usize = 24;

/// Why a server did not run a call, or did not open a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Refusal {
    /// It is at one of its bounds: sessions, running calls, memory.
    Busy,
    /// It answers no calls, or none of this kind.
    NoService,
    /// The request is longer than it accepts.
    TooLong,
    /// It has no packet numbers left for another session and must be restarted, see
    /// [`super::CallError::NumbersUsedUp`].
    NumbersUsedUp,
    /// A reason that this side does not know.
    Other,
}

impl Refusal {
    pub(super) fn code(self) -> u8 {
        match self {
            Self::Busy => 1,
            Self::NoService => 2,
            Self::TooLong => 3,
            Self::NumbersUsedUp => 4,
            Self::Other => 0,
        }
    }

    /// The reason that a byte of a packet stands for.
    #[must_use]
    pub fn from_code(code: u8) -> Self {
        match code {
            1 => Self::Busy,
            2 => Self::NoService,
            3 => Self::TooLong,
            4 => Self::NumbersUsedUp,
            _ => Self::Other,
        }
    }
}

/// Handshakes have a packet-number space of their own. No table of sessions is this long. A session in this space would
/// use nonces of handshakes again.
pub(super) const HANDSHAKE_SPACE: Space = Space(u32::MAX);

const ASK: u8 = 1;
const OPENED: u8 = 2;
const REFUSED: u8 = 3;

/// Length of a session request. A sender with a forged address then makes a server send no more than it sent itself.
const ASK_LEN: usize = 80;

impl<'a> SessionHandshake<'a> {
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        match *self {
            Self::Ask { session_index, nonce, packet_bytes, offer } => {
                let begin = out.len();
                put_u8(out, ASK);
                put_varint(out, u64::from(session_index.0));
                put_u64(out, nonce);
                put_varint(out, u64::from(packet_bytes));
                put_prefixed(out, offer);
                out.resize(begin + ASK_LEN, 0);
            }
            Self::Opened { session_index, nonce, opened, offer } => {
                put_u8(out, OPENED);
                put_varint(out, u64::from(session_index.0));
                put_u64(out, nonce);
                put_varint(out, u64::from(opened.session_index.0));
                put_u64(out, opened.session_secret.0);
                put_u8(out, opened.slots);
                put_varint(out, u64::from(opened.packet_bytes));
                put_varint(out, opened.credit);
                put_prefixed(out, offer);
            }
            Self::Refused { session_index, nonce, reason } => {
                put_u8(out, REFUSED);
                put_varint(out, u64::from(session_index.0));
                put_u64(out, nonce);
                put_u8(out, reason.code());
            }
        }
    }

    /// Reads the frames of an open packet.
    ///
    /// # Errors
    /// [`Malformed`] if they are no such message. A request that is shorter than requests are is none.
    pub fn read(frames: &'a [u8]) -> Result<Self, Malformed> {
        let mut from = Reader::new(frames);
        let first = from.u8()?;
        let session_index = SessionIndex(from.varint_u32()?);
        let nonce = from.u64()?;
        if session_index.space() == HANDSHAKE_SPACE {
            return Err(Malformed);
        }
        match first {
            // A shorter request could be answered with more bytes than it has.
            ASK if frames.len() >= ASK_LEN => {
                let packet_bytes = from.varint_u32()?;
                Ok(Self::Ask { session_index, nonce, packet_bytes, offer: read_offer(&mut from)? })
            }
            OPENED => {
                let opened = Opened {
                    session_index: SessionIndex(from.varint_u32()?),
                    session_secret: SessionSecret(from.u64()?),
                    slots: from.u8()?,
                    packet_bytes: from.varint_u32()?,
                    credit: from.varint()?,
                };
                if opened.session_index.space() == HANDSHAKE_SPACE {
                    return Err(Malformed);
                }
                Ok(Self::Opened { session_index, nonce, opened, offer: read_offer(&mut from)? })
            }
            REFUSED => Ok(Self::Refused { session_index, nonce, reason: Refusal::from_code(from.u8()?) }),
            _ => Err(Malformed),
        }
    }
}

fn read_offer<'a>(from: &mut Reader<'a>) -> Result<&'a [u8], Malformed> {
    let offer = from.prefixed()?;
    if offer.len() > OFFER_BYTES_MAX { Err(Malformed) } else { Ok(offer) }
}

/// A call of a session: its slot, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallName {
    /// The slot.
    pub slot: u8,
    /// The number.
    pub call: u64,
}

/// The message of a call that a frame belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The request.
    Request,
    /// The answer.
    Answer,
}

/// A fragment of a message, or all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Data<'a> {
    /// Of which message.
    pub side: Side,
    /// Of which call.
    pub name: CallName,
    /// Whether the receiver is to acknowledge it.
    pub wants_ack: bool,
    /// Whether the answer is a refusal.
    pub refusal: bool,
    /// The response credit, which goes with the first fragment of a request.
    pub response_credit: u64,
    /// Position of the fragment, or `None` for a whole message.
    pub part: Option<FragmentPosition>,
    /// The bytes of the message that are in the packet.
    pub bytes: &'a [u8],
    /// Further bytes that lie at their place at the receiver already, together with `bytes`.
    pub placed: usize,
}

/// Position of a fragment in its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FragmentPosition {
    /// Length of the whole message, in bytes.
    pub message_len: u64,
    /// Index of the fragment, from 0.
    pub index: u32,
}

/// A receiver's account of a message. All positions are absolute, so an old or repeated ack does no harm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FragmentAck {
    /// The greatest packet number of the session that the receiver has seen.
    pub seen: PacketNumber,
    /// Fragments with a lower index may be sent.
    pub limit: u32,
    /// All fragments with a lower index have arrived.
    pub prefix: u32,
    /// One bit for each fragment behind the first missing one, lowest first, set if it has arrived; at most
    /// 128 bytes. Fragments beyond the bitmap have not arrived, unless it has the maximum length: then
    /// nothing is known of them.
    pub beyond: Vec<u8>,
}

impl FragmentAck {
    /// An ack for a whole message of `fragments` fragments, sent some time after the last arrived. Its `seen` of 0
    /// keeps it out of the measured round trips.
    pub(super) fn late(fragments: u32) -> Self {
        Self { seen: PacketNumber(0), limit: 0, prefix: fragments, beyond: Vec::new() }
    }
}

/// As a prefix: the whole message, whatever its number of fragments.
pub(super) const ALL: u32 = u32::MAX;

/// Upper bound on the bitmap of an ack: 1,024 fragments.
pub(super) const BEYOND_MAX: usize = 128;
/// The same, in fragments.
pub(super) const BEYOND_BITS: u32 = 8 * 128;
const _: () = assert!(BEYOND_BITS as usize == 8 * BEYOND_MAX, "a bit for each fragment");

/// A frame of a session packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// A fragment of a message, or all of it. It goes to the end of the packet.
    Data(Data<'a>),
    /// Which fragments of a message have arrived.
    FragmentAck {
        /// Of which message.
        side: Side,
        /// Of which call.
        name: CallName,
        /// A status query for the call: the server says what it has of it.
        asks: bool,
        /// The acknowledgement.
        ack: FragmentAck,
    },
    /// The client gives a call up.
    Cancel(CallName),
    /// The server gave a call up.
    Cancelled {
        /// The call.
        name: CallName,
        /// Whether its handler may have run.
        may_have_run: bool,
    },
    /// The request credit in force, in bytes.
    Credit(u64),
    /// The session is over.
    Close,
    /// An answer waits for response credit.
    Ready {
        /// Of which call.
        name: CallName,
        /// The length of the answer, in bytes.
        message_len: u64,
    },
    /// Asks for a pong.
    Ping,
    /// The server is there.
    Pong,
    /// The server asks whether the client is where its packets come from. The client sends these bits back.
    Challenge(u64),
    /// The bits of a challenge.
    Proof(u64),
    /// A frame of a later version, which is skipped.
    Unknown,
}

const DATA: u8 = 0x80;
const DATA_ANSWER: u8 = 0x40;
const DATA_WHOLE: u8 = 0x20;
const DATA_WANTS_ACK: u8 = 0x10;
const DATA_REFUSAL: u8 = 0x04;
const DATA_RESERVED: u8 = 0x0b;

const ACK_REQUEST: u8 = 1;
const ACK_ANSWER: u8 = 2;
const PROBE: u8 = 3;
const CANCEL: u8 = 4;
const CANCELLED: u8 = 5;
const CREDIT: u8 = 6;
const CLOSE: u8 = 7;
const READY: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;
const SKIPPED: u8 = 0x42;
/// Earlier builds skip this frame. They then get no more than may be sent to an unproved address.
const CHALLENGE: u8 = 0x40;
const PROOF: u8 = 0x41;

/// Minimum length of a packet with a challenge alone.
pub(super) const CHALLENGE_PACKET_LEN: usize = 64;

/// Upper bound on the bytes of a data frame beside those of its message.
pub(super) const DATA_HEAD_MAX: usize = 32;

impl Data<'_> {
    /// Appends the frame's head. The bytes follow it to the end of the packet.
    pub(super) fn write_head(&self, out: &mut Vec<u8>) {
        let begin = out.len();
        let mut first = DATA;
        for (flag, set) in [
            (DATA_ANSWER, self.side == Side::Answer),
            (DATA_WHOLE, self.part.is_none()),
            (DATA_WANTS_ACK, self.wants_ack),
            (DATA_REFUSAL, self.refusal),
        ] {
            first |= if set { flag } else { 0 };
        }
        put_u8(out, first);
        put_name(out, self.name);
        if let Some(FragmentPosition { message_len, index }) = self.part {
            put_varint(out, message_len);
            put_varint(out, u64::from(index));
        }
        if self.has_response_credit() {
            put_varint(out, self.response_credit);
        }
        debug_assert!(out.len() - begin <= DATA_HEAD_MAX);
    }

    fn has_response_credit(&self) -> bool {
        self.side == Side::Request && self.part.is_none_or(|part| part.index == 0)
    }
}

fn put_name(out: &mut Vec<u8>, name: CallName) {
    put_u8(out, name.slot);
    put_varint(out, name.call);
}

fn read_name(from: &mut Reader<'_>) -> Result<CallName, Malformed> {
    Ok(CallName { slot: from.u8()?, call: from.varint()? })
}

pub(super) fn put_ack(out: &mut Vec<u8>, side: Side, name: CallName, asks: bool, ack: &FragmentAck) {
    put_u8(
        out,
        match side {
            Side::Request => ACK_REQUEST,
            Side::Answer if asks => PROBE,
            Side::Answer => ACK_ANSWER,
        },
    );
    put_name(out, name);
    put_u64(out, ack.seen.0);
    put_varint(out, u64::from(ack.limit));
    put_varint(out, u64::from(ack.prefix));
    put_prefixed(out, &ack.beyond);
}

fn read_ack(from: &mut Reader<'_>) -> Result<FragmentAck, Malformed> {
    let (seen, limit, prefix) = (PacketNumber(from.u64()?), from.varint_u32()?, from.varint_u32()?);
    let beyond = from.prefixed()?;
    if beyond.len() > BEYOND_MAX {
        return Err(Malformed);
    }
    Ok(FragmentAck { seen, limit, prefix, beyond: beyond.to_vec() })
}

pub(super) fn put_cancel(out: &mut Vec<u8>, name: CallName) {
    put_u8(out, CANCEL);
    put_name(out, name);
}

pub(super) fn put_cancelled(out: &mut Vec<u8>, name: CallName, may_have_run: bool) {
    put_u8(out, CANCELLED);
    put_name(out, name);
    put_u8(out, u8::from(may_have_run));
}

pub(super) fn put_credit(out: &mut Vec<u8>, credit: u64) {
    put_u8(out, CREDIT);
    put_varint(out, credit);
}

pub(super) fn put_close(out: &mut Vec<u8>) {
    put_u8(out, CLOSE);
}

pub(super) fn put_ready(out: &mut Vec<u8>, name: CallName, message_len: u64) {
    put_u8(out, READY);
    put_name(out, name);
    put_varint(out, message_len);
}

pub(super) fn put_ping(out: &mut Vec<u8>) {
    put_u8(out, PING);
}

pub(super) fn put_pong(out: &mut Vec<u8>) {
    put_u8(out, PONG);
}

pub(super) fn put_challenge(out: &mut Vec<u8>, bits: u64) {
    put_u8(out, CHALLENGE);
    put_prefixed(out, &bits.to_le_bytes());
}

pub(super) fn put_proof(out: &mut Vec<u8>, bits: u64) {
    put_u8(out, PROOF);
    put_prefixed(out, &bits.to_le_bytes());
}

fn read_bits(from: &mut Reader<'_>) -> Result<u64, Malformed> {
    from.prefixed()?.try_into().map(u64::from_le_bytes).map_err(|_other_length| Malformed)
}

/// Reads the next frame of a session packet.
///
/// # Errors
/// [`Malformed`] if the bytes are no such frame. The position of `from` is then unspecified.
pub fn read_frame<'a>(from: &mut Reader<'a>) -> Result<Frame<'a>, Malformed> {
    let first = from.u8()?;
    if first & DATA != 0 {
        return read_data(first, from).map(Frame::Data);
    }
    Ok(match first {
        ACK_REQUEST => {
            let name = read_name(from)?;
            Frame::FragmentAck { side: Side::Request, name, asks: false, ack: read_ack(from)? }
        }
        ACK_ANSWER | PROBE => {
            let name = read_name(from)?;
            Frame::FragmentAck { side: Side::Answer, name, asks: first == PROBE, ack: read_ack(from)? }
        }
        CANCEL => Frame::Cancel(read_name(from)?),
        CANCELLED => {
            let name = read_name(from)?;
            let may_have_run = match from.u8()? {
                0 => false,
                1 => true,
                _ => return Err(Malformed),
            };
            Frame::Cancelled { name, may_have_run }
        }
        CREDIT => Frame::Credit(from.varint()?),
        CLOSE => Frame::Close,
        READY => {
            let name = read_name(from)?;
            Frame::Ready { name, message_len: from.varint()? }
        }
        PING => Frame::Ping,
        PONG => Frame::Pong,
        CHALLENGE => Frame::Challenge(read_bits(from)?),
        PROOF => Frame::Proof(read_bits(from)?),
        SKIPPED..=0x7f => {
            from.prefixed()?;
            Frame::Unknown
        }
        _ => return Err(Malformed),
    })
}

#[inline]
fn read_data<'a>(first: u8, from: &mut Reader<'a>) -> Result<Data<'a>, Malformed> {
    let has = |flag: u8| first & flag != 0;
    let side = if has(DATA_ANSWER) { Side::Answer } else { Side::Request };
    if first & DATA_RESERVED != 0 || has(DATA_REFUSAL) && side == Side::Request {
        return Err(Malformed);
    }
    let mut data = Data {
        side,
        name: read_name(from)?,
        wants_ack: has(DATA_WANTS_ACK),
        refusal: has(DATA_REFUSAL),
        response_credit: 0,
        part: None,
        bytes: &[],
        placed: 0,
    };
    if !has(DATA_WHOLE) {
        data.part = Some(FragmentPosition { message_len: from.varint()?, index: from.varint_u32()? });
    }
    if data.has_response_credit() {
        data.response_credit = from.varint()?;
    }
    data.bytes = from.rest();
    Ok(data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ack_has_as_many_bits_as_it_may_and_no_more() {
        let read = |bytes: usize| {
            let mut out = Vec::new();
            let ack = FragmentAck { seen: PacketNumber(1), limit: 2, prefix: 3, beyond: vec![0xff; bytes] };
            put_ack(&mut out, Side::Request, CallName { slot: 1, call: 1 }, false, &ack);
            read_frame(&mut Reader::new(&out)).map(|frame| match frame {
                Frame::FragmentAck { ack, .. } => ack.beyond.len(),
                _ => 0,
            })
        };
        assert_eq!((read(BEYOND_MAX), read(BEYOND_MAX + 1)), (Ok(BEYOND_MAX), Err(Malformed)));
    }

    #[test]
    fn the_longest_head_of_a_data_frame_is_not_longer_than_reckoned() {
        let longest = crate::api::MESSAGE_BYTES_MAX as u64;
        for side in [Side::Request, Side::Answer] {
            for part in [
                None,
                Some(FragmentPosition { message_len: longest, index: 0 }),
                Some(FragmentPosition { message_len: longest, index: u32::MAX }),
            ] {
                let name = CallName { slot: u8::MAX, call: u64::MAX };
                let data = Data {
                    side,
                    name,
                    wants_ack: true,
                    refusal: false,
                    response_credit: u64::MAX,
                    part,
                    bytes: &[],
                    placed: 0,
                };
                let mut out = Vec::new();
                data.write_head(&mut out);
                assert!(out.len() <= DATA_HEAD_MAX, "{} bytes", out.len());
                assert!(matches!(read_frame(&mut Reader::new(&out)), Ok(Frame::Data(_))));
            }
        }
    }

    /// The answer is longer than a session request without its padding.
    #[test]
    fn an_ask_that_is_shorter_than_asks_are_is_not_answered() {
        let mut out = Vec::new();
        SessionHandshake::Ask { session_index: SessionIndex(1), nonce: 2, packet_bytes: 1472, offer: &[] }
            .write(&mut out);
        assert_eq!(out.len(), ASK_LEN);
        assert!(matches!(
            SessionHandshake::read(&out),
            Ok(SessionHandshake::Ask { session_index: SessionIndex(1), nonce: 2, .. })
        ));
        for len in 0..ASK_LEN {
            assert_eq!(SessionHandshake::read(&out[..len]), Err(Malformed), "{len} bytes");
        }
    }

    /// `tests/golden/README.md`.
    #[test]
    fn golden_call_packets() {
        let name = CallName { slot: 3, call: 300 };
        let ack = FragmentAck { seen: PacketNumber(9), limit: 12, prefix: 4, beyond: vec![0b101] };
        let opened = Opened {
            session_index: SessionIndex(5),
            session_secret: SessionSecret(0x7172_7374),
            slots: 8,
            packet_bytes: 1472,
            credit: 65_536,
        };
        let data = |side, refusal, part| Data {
            side,
            name,
            wants_ack: true,
            refusal,
            response_credit: 4096,
            part,
            bytes: &[],
            placed: 0,
        };
        let with = |put: &dyn Fn(&mut Vec<u8>)| {
            let mut out = Vec::new();
            put(&mut out);
            out
        };
        let message = |data: Data<'_>| {
            with(&|out| {
                data.write_head(out);
                out.extend_from_slice(b"body");
            })
        };
        let part = |index| Some(FragmentPosition { message_len: 100_000, index });
        let handshakes = [
            (
                "ask",
                with(&|out| {
                    SessionHandshake::Ask {
                        session_index: SessionIndex(5),
                        nonce: 6,
                        packet_bytes: 1472,
                        offer: b"memory",
                    }
                    .write(out);
                }),
            ),
            (
                "opened",
                with(&|out| {
                    SessionHandshake::Opened { session_index: SessionIndex(5), nonce: 6, opened, offer: b"" }
                        .write(out);
                }),
            ),
            (
                "refused",
                with(&|out| {
                    SessionHandshake::Refused { session_index: SessionIndex(5), nonce: 6, reason: Refusal::Busy }
                        .write(out);
                }),
            ),
        ];
        let frames = [
            ("request", message(data(Side::Request, false, None))),
            ("request_first_fragment", message(data(Side::Request, false, part(0)))),
            ("request_fragment", message(data(Side::Request, false, part(7)))),
            ("answer", message(data(Side::Answer, false, None))),
            ("answer_fragment", message(data(Side::Answer, false, part(7)))),
            ("answer_refusal", message(data(Side::Answer, true, None))),
            ("receipt_for_a_request", with(&|out| put_ack(out, Side::Request, name, false, &ack))),
            ("receipt_for_an_answer", with(&|out| put_ack(out, Side::Answer, name, false, &ack))),
            ("question", with(&|out| put_ack(out, Side::Answer, name, true, &ack))),
            ("cancel", with(&|out| put_cancel(out, name))),
            ("cancelled", with(&|out| put_cancelled(out, name, true))),
            ("credit", with(&|out| put_credit(out, 65_536))),
            ("close", with(&put_close)),
            ("ready", with(&|out| put_ready(out, name, 100_000))),
            ("ping", with(&put_ping)),
            ("pong", with(&put_pong)),
            ("challenge", with(&|out| put_challenge(out, 1 << 40))),
            ("proof", with(&|out| put_proof(out, 1 << 40))),
        ];
        let all = handshakes.iter().chain(&frames).map(|(name, bytes)| ((*name).to_owned(), bytes.clone())).collect();
        crate::golden::hold("calls.txt", all);
        for (place, (name, bytes)) in crate::golden::read("calls.txt").into_iter().enumerate() {
            let mut reader = Reader::new(&bytes);
            let is_read = if place < handshakes.len() {
                SessionHandshake::read(&bytes).is_ok()
            } else {
                read_frame(&mut reader).is_ok() && reader.is_empty()
            };
            assert!(is_read, "{name}");
        }
    }
}
