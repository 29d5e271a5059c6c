//! The frames of a multicast packet. Layout: `docs/wire.md`, "Stream frames".

use crate::api::{DomainIndex, Expected, MESSAGE_BYTES_MAX, Order, Uniformity};
use crate::id::{MEMBERS_MAX, Rank};
use crate::wire::Malformed;
use crate::wire::codec::{Reader, put_varint, varint_len};

/// The part of a message that a frame carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FragmentKind {
    /// The whole message.
    Whole,
    /// The first fragment of a message of so many bytes.
    First(usize),
    /// A fragment between the first and the last.
    Middle,
    /// The last fragment.
    Last,
}

/// A list of (rank, count) pairs, decoded from the packet at each pass. [`read_frame`] checked the bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pairs<'a> {
    bytes: &'a [u8],
    count: u64,
}

impl Pairs<'_> {
    /// Whether the list is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The pairs, in the order of the packet.
    pub fn iter(&self) -> impl Iterator<Item = (Rank, u64)> {
        let mut r = Reader::new(self.bytes);
        // The pairs were decoded once when the frame was read, so decoding cannot fail here.
        (0..self.count).map_while(move |_| pair(&mut r).ok())
    }
}

/// Properties that a message's sender requested, and its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageKind {
    /// The order that the sender requested.
    pub order: Order,
    /// An abcast of the token holder whose position in the stream is its place in the total order.
    pub sequenced: bool,
    /// Whether the message is delivered only when stable.
    pub uniformity: Uniformity,
    /// Whether its bytes begin with a head that says more of it ([`read_head`]): that it is an ask, from level 9 on, or to
    /// which domain it goes, from level 10 on.
    pub has_head: bool,
}

/// One frame of a member's stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamFrame<'a> {
    /// A message or a fragment of one.
    Message {
        /// What the sender requested.
        kind: MessageKind,
        /// Which fragment the frame carries.
        fragment: FragmentKind,
        /// Entries of the vector time that grew since the sender's previous message: (rank, growth). Only with a whole
        /// message or the last fragment: a message counts as sent with its last packet.
        deps: Pairs<'a>,
        /// The payload bytes of this fragment.
        body: &'a [u8],
    },
    /// The token holder orders the next `count` abcasts of each rank named, in this sequence.
    Announce {
        /// The holder's tenure, from 0.
        tenure: u32,
        /// Whether some of the ordered messages are uniform: the receiver acknowledges at once.
        prompt: bool,
        /// (rank, count) pairs.
        runs: Pairs<'a>,
    },
    /// The sender passes the token to `to`. Tenure `tenure` ends here.
    Pass {
        /// The tenure that ends.
        tenure: u32,
        /// The next holder.
        to: Rank,
    },
    /// Every member has the sender's stream up to `prefix`.
    Stable {
        /// Packet number in this stream.
        prefix: u64,
    },
    /// Dependencies of the next causal or total message, sent ahead of it. In a large group they may not fit into its
    /// header.
    Past {
        /// (rank, growth) pairs.
        deps: Pairs<'a>,
    },
}

const MESSAGE: u8 = 0x80;
const ORDER_SHIFT: u8 = 5; // two bits: fifo, causal, total, total and sequenced
const UNIFORM: u8 = 0x10;
const DEPS: u8 = 0x08;
const FRAGMENT_MASK: u8 = 0x03;
/// The message has a head.
const HEAD: u8 = 0x04;
const ANNOUNCE: u8 = 1;
const PASS: u8 = 2;
const STABLE: u8 = 3;
const PAST: u8 = 4;
/// Marks a frame (without [`MESSAGE`]) that carries its length. A build that does not know the frame skips it.
const SKIPPABLE: u8 = 0x40;
// The sum equals 0xff only if no two fields share a bit.
const _: () = assert!(
    MESSAGE as u16 + (3 << ORDER_SHIFT) + UNIFORM as u16 + DEPS as u16 + HEAD as u16 + FRAGMENT_MASK as u16 == 0xff,
    "the parts of a message's first byte fill it, each with bits of its own"
);
const _: () = assert!(SKIPPABLE & (MESSAGE | ANNOUNCE | PASS | STABLE | PAST) == 0, "no frame known here is skipped");
/// The longest accepted list of runs or dependencies: a view has no more ranks.
const LIST_MAX: u64 = 65_536;

/// Appends the header of a message frame. The caller appends `body_len` bytes of payload.
#[inline]
pub(super) fn put_message(
    out: &mut Vec<u8>,
    MessageKind { order, sequenced, uniformity, has_head }: MessageKind,
    fragment: FragmentKind,
    deps: &[(Rank, u64)],
    body_len: usize,
) {
    debug_assert!(body_len <= MESSAGE_BYTES_MAX, "a piece is longer than the longest message");
    let order_bits = match (order, sequenced) {
        (Order::Fifo, _) => 0,
        (Order::Causal, _) => 1,
        (Order::Total, false) => 2,
        (Order::Total, true) => 3,
    };
    let part_bits = match fragment {
        FragmentKind::Whole => 0,
        FragmentKind::First(_) => 1,
        FragmentKind::Middle => 2,
        FragmentKind::Last => 3,
    };
    let flag = |is_set, bit| if is_set { bit } else { 0 };
    let flags = flag(uniformity.is_uniform(), UNIFORM) | flag(!deps.is_empty(), DEPS) | flag(has_head, HEAD);
    out.push(MESSAGE | order_bits << ORDER_SHIFT | flags | part_bits);
    if !deps.is_empty() {
        put_pairs(out, deps);
    }
    if let FragmentKind::First(total) = fragment {
        put_varint(out, total as u64);
    }
    put_varint(out, body_len as u64);
}

/// Appends an announcement.
pub(super) fn put_announce(out: &mut Vec<u8>, tenure: u32, prompt: bool, runs: &[(Rank, u64)]) {
    out.push(ANNOUNCE);
    put_varint(out, u64::from(tenure) << 1 | u64::from(prompt));
    put_pairs(out, runs);
}

/// Appends a token pass.
pub(super) fn put_pass(out: &mut Vec<u8>, tenure: u32, to: Rank) {
    out.push(PASS);
    put_varint(out, u64::from(tenure));
    put_varint(out, u64::from(to.0));
}

/// Appends a stability announcement.
pub(super) fn put_stable(out: &mut Vec<u8>, prefix: u64) {
    out.push(STABLE);
    put_varint(out, prefix);
}

/// Appends dependencies of a later message.
pub(super) fn put_past(out: &mut Vec<u8>, deps: &[(Rank, u64)]) {
    out.push(PAST);
    put_pairs(out, deps);
}

/// Encoded length of one dependency, in bytes.
pub(super) fn dep_bytes((rank, growth): (Rank, u64)) -> usize {
    varint_len(u64::from(rank.0)) + varint_len(growth)
}

/// Appends a list of (rank, count) pairs.
pub fn put_pairs(out: &mut Vec<u8>, pairs: &[(Rank, u64)]) {
    put_varint(out, pairs.len() as u64);
    for &(rank, count) in pairs {
        put_varint(out, u64::from(rank.0));
        put_varint(out, count);
    }
}

/// Reads a list of (rank, count) pairs.
///
/// # Errors
/// [`Malformed`] if there is no such list, or one longer than any view. The position of `r` is then unspecified.
pub fn read_pairs<'a>(r: &mut Reader<'a>) -> Result<Pairs<'a>, Malformed> {
    let count = r.varint()?;
    // Each pair takes two bytes or more, so a longer list is malformed.
    if count > LIST_MAX || count > r.remaining() as u64 {
        return Err(Malformed);
    }
    let start = r.clone().rest();
    for _ in 0..count {
        pair(r)?;
    }
    Ok(Pairs { bytes: &start[..start.len() - r.remaining()], count })
}

fn pair(r: &mut Reader<'_>) -> Result<(Rank, u64), Malformed> {
    Ok((rank(r)?, r.varint()?))
}

fn rank(r: &mut Reader<'_>) -> Result<Rank, Malformed> {
    u16::try_from(r.varint()?).map(Rank).map_err(|_too_big| Malformed)
}

/// A whole message without new dependencies. Most messages are of this kind.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlainMessage<'a> {
    pub(super) kind: MessageKind,
    pub(super) body: &'a [u8],
}

/// Reads the next frame if it is a [`PlainMessage`]; otherwise leaves `r` as it is, for [`read_frame`].
#[inline]
pub(super) fn read_plain<'a>(r: &mut Reader<'a>) -> Option<PlainMessage<'a>> {
    // Reads on a copy, so that a frame that is not plain, or is malformed, is left whole.
    let mut ahead = r.clone();
    let tag = ahead.u8().ok()?;
    if tag & (MESSAGE | DEPS | HEAD | FRAGMENT_MASK) != MESSAGE {
        return None;
    }
    let body = ahead.prefixed().ok()?;
    *r = ahead;
    Some(PlainMessage { kind: kind_of(tag), body })
}

/// What a message's first byte says of it.
#[inline]
fn kind_of(tag: u8) -> MessageKind {
    let (order, sequenced) = match tag >> ORDER_SHIFT & 3 {
        0 => (Order::Fifo, false),
        1 => (Order::Causal, false),
        2 => (Order::Total, false),
        _ => (Order::Total, true),
    };
    MessageKind { order, sequenced, uniformity: Uniformity::from_flag(tag & UNIFORM != 0), has_head: tag & HEAD != 0 }
}

/// What the head of a message says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageHead<'a> {
    /// It is an ask: who is to answer it.
    Asks(Expected<'a>),
    /// It goes to that domain alone.
    Names(DomainIndex),
}

/// A head that begins with this number or a larger one names a domain. A smaller one is the length of a list of those that
/// are to answer, which is shorter in any view.
const NAMES: u16 = 16_000;
const _: () = assert!(NAMES as usize > MEMBERS_MAX / 8, "no list is so long");

/// The head of a message that goes to one domain alone.
pub(super) const fn naming_head(DomainIndex(at): DomainIndex) -> [u8; 2] {
    let number = NAMES + at as u16;
    let ([low, _], [high, _]) = (number.to_le_bytes(), (number >> 7).to_le_bytes());
    [low | 0x80, high]
}

/// Appends who is to answer an ask, as it stands in front of the payload: a bit for each rank.
pub(super) fn put_expected(out: &mut Vec<u8>, expected: impl Iterator<Item = bool>) {
    let mut bits = Vec::new();
    for (rank, is_expected) in expected.enumerate() {
        if is_expected {
            bits.resize(rank / 8 + 1, 0);
            bits[rank / 8] |= 1 << (rank % 8);
        }
    }
    put_varint(out, bits.len() as u64);
    out.extend_from_slice(&bits);
}

/// Splits the bytes of a message with a head, or of its first fragment: the head, and the payload. `members`: of the view.
///
/// # Errors
/// [`Malformed`] if the bytes do not begin with a head, or it names a rank that no member has.
pub fn read_head(body: &[u8], members: usize) -> Result<(MessageHead<'_>, &[u8]), Malformed> {
    let mut r = Reader::new(body);
    let mut ahead = r.clone();
    if let Some(at) = ahead.varint()?.checked_sub(u64::from(NAMES)) {
        let at = u8::try_from(at).map_err(|_too_large| Malformed)?;
        return Ok((MessageHead::Names(DomainIndex(at)), ahead.rest()));
    }
    let expected = Expected(r.prefixed()?);
    let is_of_view = expected.0.len() <= members.div_ceil(8) && expected.ranks().all(|rank| rank < members);
    if is_of_view { Ok((MessageHead::Asks(expected), r.rest())) } else { Err(Malformed) }
}

/// Reads the next frame. `None` stands for an unknown frame that was skipped.
///
/// # Errors
/// [`Malformed`] when the bytes are no valid frame. The position of `r` is then unspecified.
#[inline]
pub fn read_frame<'a>(r: &mut Reader<'a>) -> Result<Option<StreamFrame<'a>>, Malformed> {
    let tag = r.u8()?;
    if tag & MESSAGE == 0 {
        return read_control(tag, r);
    }
    let deps = if tag & DEPS == 0 { Pairs::default() } else { read_pairs(r)? };
    let fragment = match tag & FRAGMENT_MASK {
        0 => FragmentKind::Whole,
        1 => {
            let total = usize::try_from(r.varint()?).map_err(|_too_long| Malformed)?;
            // Before anything is allocated for it: the length comes from a peer.
            if total > MESSAGE_BYTES_MAX {
                return Err(Malformed);
            }
            FragmentKind::First(total)
        }
        2 => FragmentKind::Middle,
        _ => FragmentKind::Last,
    };
    let body = r.prefixed()?;
    Ok(Some(StreamFrame::Message { kind: kind_of(tag), fragment, deps, body }))
}

fn read_control<'a>(tag: u8, r: &mut Reader<'a>) -> Result<Option<StreamFrame<'a>>, Malformed> {
    Ok(Some(match tag {
        ANNOUNCE => {
            let head = r.varint()?;
            let tenure = u32::try_from(head >> 1).map_err(|_too_big| Malformed)?;
            StreamFrame::Announce { tenure, prompt: head & 1 == 1, runs: read_pairs(r)? }
        }
        PASS => {
            let tenure = u32::try_from(r.varint()?).map_err(|_too_big| Malformed)?;
            StreamFrame::Pass { tenure, to: rank(r)? }
        }
        STABLE => StreamFrame::Stable { prefix: r.varint()? },
        PAST => StreamFrame::Past { deps: read_pairs(r)? },
        unknown if unknown & SKIPPABLE != 0 => {
            r.prefixed()?;
            return Ok(None);
        }
        _ => return Err(Malformed),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden as file;
    use proptest::prelude::*;

    #[test]
    fn a_small_message_costs_two_bytes() {
        let mut out = Vec::new();
        let kind = MessageKind { order: Order::Total, sequenced: true, uniformity: Uniformity::Plain, has_head: false };
        put_message(&mut out, kind, FragmentKind::Whole, &[], 100);
        assert_eq!(out.len(), 2);
    }

    #[test]
    fn unknown_frames_are_skipped_by_length() {
        let bytes = [SKIPPABLE | 9, 3, 1, 2, 3, STABLE, 7];
        let mut r = Reader::new(&bytes);
        assert_eq!(read_frame(&mut r), Ok(None));
        assert_eq!(read_frame(&mut r), Ok(Some(StreamFrame::Stable { prefix: 7 })));
    }

    #[test]
    fn an_ask_names_members_of_its_view_alone() {
        let mut body = Vec::new();
        put_expected(&mut body, (0..20).map(|rank| rank == 1 || rank == 9));
        body.extend_from_slice(b"what?");
        let (MessageHead::Asks(expected), payload) = read_head(&body, 10).expect("ten members") else {
            panic!("an ask")
        };
        assert_eq!((expected.ranks().collect::<Vec<_>>(), payload), (vec![1, 9], &b"what?"[..]));
        assert!(expected.contains(9) && !expected.contains(0) && !expected.contains(800));
        assert_eq!(read_head(&body, 9), Err(Malformed), "rank 9 is nobody");
        assert_eq!(read_head(&body[..2], 10), Err(Malformed), "cut short");
        assert_eq!(read_head(&[3, 1, 0, 0, b'x'], 10), Err(Malformed), "longer than any list of ten");
        assert_eq!(read_head(&[0], 1), Ok((MessageHead::Asks(Expected(&[])), &[][..])));
        let tag = MESSAGE | HEAD;
        assert!(read_plain(&mut Reader::new(&[tag, 0])).is_none(), "the first bytes are no payload");
    }

    #[test]
    fn a_domain_is_named_in_two_bytes() {
        for at in [0, 1, 127, 255] {
            let mut body = naming_head(DomainIndex(at)).to_vec();
            let mut number = Vec::new();
            put_varint(&mut number, u64::from(NAMES) + u64::from(at));
            assert_eq!(body, number);
            body.push(b'x');
            assert_eq!(read_head(&body, 1), Ok((MessageHead::Names(DomainIndex(at)), &b"x"[..])));
        }
        let mut beyond = Vec::new();
        put_varint(&mut beyond, u64::from(NAMES) + 256);
        assert_eq!(read_head(&beyond, 1), Err(Malformed));
        assert_eq!(read_head(&[0x80], 1), Err(Malformed), "cut short");
        assert_eq!(read_head(&[], 1), Err(Malformed));
    }

    #[test]
    fn a_list_longer_than_any_group_is_refused() {
        let past = |pairs: usize| {
            let mut out = vec![PAST];
            put_pairs(&mut out, &vec![(Rank(1), 1); pairs]);
            read_frame(&mut Reader::new(&out)).map(|_| ())
        };
        let longest = usize::try_from(LIST_MAX).expect("small");
        assert_eq!((past(longest), past(longest + 1)), (Ok(()), Err(Malformed)));
    }

    /// `tests/golden/README.md`.
    #[test]
    fn golden_stream_frames() {
        let (plain, uniform) = (Uniformity::Plain, Uniformity::Uniform);
        let message = |order, sequenced, uniformity, fragment, deps: &[(Rank, u64)]| {
            let mut out = Vec::new();
            put_message(&mut out, MessageKind { order, sequenced, uniformity, has_head: false }, fragment, deps, 4);
            out.extend_from_slice(b"body");
            out
        };
        let frame = |put: &dyn Fn(&mut Vec<u8>)| {
            let mut out = Vec::new();
            put(&mut out);
            out
        };
        let all = [
            ("fifo", message(Order::Fifo, false, plain, FragmentKind::Whole, &[])),
            (
                "causal_with_dependencies",
                message(Order::Causal, false, plain, FragmentKind::Whole, &[(Rank(0), 1), (Rank(300), 2)]),
            ),
            ("total", message(Order::Total, false, plain, FragmentKind::Whole, &[])),
            ("total_placed_uniform", message(Order::Total, true, uniform, FragmentKind::Whole, &[])),
            ("first_piece", message(Order::Total, false, uniform, FragmentKind::First(1 << 20), &[])),
            ("middle_piece", message(Order::Total, false, uniform, FragmentKind::Middle, &[])),
            ("last_piece", message(Order::Total, false, uniform, FragmentKind::Last, &[(Rank(1), 3)])),
            ("announcement", frame(&|out| put_announce(out, 3, true, &[(Rank(0), 2), (Rank(4), 1)]))),
            ("token_pass", frame(&|out| put_pass(out, 3, Rank(4)))),
            ("stability", frame(&|out| put_stable(out, 290))),
            ("past", frame(&|out| put_past(out, &[(Rank(0), 1), (Rank(2), 5)]))),
            (
                "ask_of_ranks_0_and_9",
                frame(&|out| {
                    let mut body = Vec::new();
                    put_expected(&mut body, (0..10).map(|rank| rank % 9 == 0));
                    body.extend_from_slice(b"what?");
                    let kind =
                        MessageKind { order: Order::Total, sequenced: true, uniformity: uniform, has_head: true };
                    put_message(out, kind, FragmentKind::Whole, &[], body.len());
                    out.extend_from_slice(&body);
                }),
            ),
            (
                "to_domain_1",
                frame(&|out| {
                    let body = [&naming_head(DomainIndex(1))[..], b"body"].concat();
                    let kind =
                        MessageKind { order: Order::Total, sequenced: true, uniformity: uniform, has_head: true };
                    put_message(out, kind, FragmentKind::Whole, &[], body.len());
                    out.extend_from_slice(&body);
                }),
            ),
        ];
        file::hold("stream.txt", all.map(|(name, bytes)| (name.to_owned(), bytes)).to_vec());
        for (name, bytes) in file::read("stream.txt") {
            let mut r = Reader::new(&bytes);
            assert!(matches!(read_frame(&mut r), Ok(Some(_))) && r.is_empty(), "{name}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            kind in 0..4u8, prompt: bool, has_head: bool, fragment in 0..4u8,
            deps in proptest::collection::vec(((0..64u16).prop_map(Rank), 1..1000u64), 0..5),
            body in proptest::collection::vec(any::<u8>(), 0..300),
            runs in proptest::collection::vec(((0..64u16).prop_map(Rank), 1..1000u64), 0..5), tenure: u32, prefix: u64,
        ) {
            let tenure = tenure >> 1;
            let uniformity = Uniformity::from_flag(prompt);
            let order = [Order::Fifo, Order::Causal, Order::Total, Order::Total][usize::from(kind)];
            let fragment = [FragmentKind::Whole, FragmentKind::First(1 << 20), FragmentKind::Middle, FragmentKind::Last][usize::from(fragment)];
            let mut out = Vec::new();
            let kind = MessageKind { order, sequenced: kind == 3, uniformity, has_head };
            put_message(&mut out, kind, fragment, &deps, body.len());
            out.extend_from_slice(&body);
            put_announce(&mut out, tenure, prompt, &runs);
            put_pass(&mut out, tenure, Rank(3));
            put_stable(&mut out, prefix);
            let mut r = Reader::new(&out);
            let listed = |pairs: Pairs<'_>| pairs.iter().collect::<Vec<_>>();
            let message = read_frame(&mut r).ok().flatten().expect("a frame");
            let StreamFrame::Message { deps: read, .. } = message else { panic!("{message:?} is no message") };
            prop_assert_eq!(listed(read), deps);
            prop_assert_eq!(message, StreamFrame::Message { kind, fragment, deps: read, body: &body });
            let announced = read_frame(&mut r).ok().flatten().expect("a frame");
            let StreamFrame::Announce { runs: read, .. } = announced else { panic!("{announced:?} announces nothing") };
            prop_assert_eq!(listed(read), runs);
            prop_assert_eq!(announced, StreamFrame::Announce { tenure, prompt, runs: read });
            prop_assert_eq!(read_frame(&mut r).ok().flatten().expect("a frame"), StreamFrame::Pass { tenure, to: Rank(3) });
            prop_assert_eq!(read_frame(&mut r).ok().flatten().expect("a frame"), StreamFrame::Stable { prefix });
            prop_assert!(r.is_empty());
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut r = Reader::new(&bytes);
            while !r.is_empty() {
                if read_frame(&mut r).is_err() { break; }
            }
        }
    }
}
