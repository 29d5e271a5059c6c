//! What members say of an ask to one another. Layout: `docs/wire.md`, *Messages to one*.

use phalanx_core::wire::Malformed;
use phalanx_core::wire::codec::{Reader, put_prefixed, put_varint};
use phalanx_core::{Expected, Rank, Sequence, ViewNumber};

/// An ask among those of its asker: the view to which it was bound, and its number among that member's messages there.
pub type AskNumber = (ViewNumber, Sequence);

/// How a place of an ask is filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reply {
    /// With a value.
    Value,
    /// With the word that there is none.
    Null,
    /// Not at all: the ask ends, for the reason that comes with it.
    Abort,
    /// By the member of that rank, which the asker asks for this place.
    Forward(Rank),
}

/// A message about an ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame<'a> {
    pub(crate) ask: AskNumber,
    pub(crate) place: Rank,
    pub(crate) what: What<'a>,
}

/// What is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What<'a> {
    /// To the asker: this fills the place.
    Reply(Reply, &'a [u8]),
    /// From the asker, which gave the ask up.
    GivenUp,
    /// From the asker: another member forwarded the ask to the receiver.
    Forwarded(Expected<'a>, &'a [u8]),
}

const VALUE: u8 = 1;
const NULL: u8 = 2;
const ABORT: u8 = 3;
const FORWARD: u8 = 4;
const GIVEN_UP: u8 = 5;
const FORWARDED: u8 = 6;

impl Frame<'_> {
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        let Frame { ask: (view, seq), place, what } = *self;
        out.push(match what {
            What::Reply(Reply::Value, _) => VALUE,
            What::Reply(Reply::Null, _) => NULL,
            What::Reply(Reply::Abort, _) => ABORT,
            What::Reply(Reply::Forward(_), _) => FORWARD,
            What::GivenUp => GIVEN_UP,
            What::Forwarded(..) => FORWARDED,
        });
        put_varint(out, view.0);
        put_varint(out, seq.0);
        put_varint(out, u64::from(place.0));
        match what {
            What::Reply(Reply::Value | Reply::Abort, bytes) => out.extend_from_slice(bytes),
            What::Reply(Reply::Forward(to), _) => put_varint(out, u64::from(to.0)),
            What::Reply(Reply::Null, _) | What::GivenUp => {}
            What::Forwarded(expected, payload) => {
                put_prefixed(out, expected.bits());
                out.extend_from_slice(payload);
            }
        }
    }

    /// # Errors
    /// [`Malformed`] when the bytes are no such message.
    pub(crate) fn read(bytes: &[u8]) -> Result<Frame<'_>, Malformed> {
        let mut r = Reader::new(bytes);
        let kind = r.u8()?;
        let ask = (ViewNumber(r.varint()?), Sequence(r.varint()?));
        let place = rank(&mut r)?;
        let what = match kind {
            VALUE => What::Reply(Reply::Value, r.rest()),
            NULL => What::Reply(Reply::Null, &[]),
            ABORT => What::Reply(Reply::Abort, r.rest()),
            FORWARD => What::Reply(Reply::Forward(rank(&mut r)?), &[]),
            GIVEN_UP => What::GivenUp,
            FORWARDED => What::Forwarded(Expected::of(r.prefixed()?), r.rest()),
            _ => return Err(Malformed),
        };
        if r.is_empty() { Ok(Frame { ask, place, what }) } else { Err(Malformed) }
    }
}

fn rank(r: &mut Reader<'_>) -> Result<Rank, Malformed> {
    u16::try_from(r.varint()?).map(Rank).map_err(|_too_big| Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes are what other builds read: they never change.
    #[test]
    fn what_is_written_is_read_and_its_bytes_never_change() {
        let (ask, place) = ((ViewNumber(300), Sequence(7)), Rank(2));
        let all: [(What<'_>, &[u8]); 6] = [
            (What::Reply(Reply::Value, b"42"), &[1, 0xac, 2, 7, 2, b'4', b'2']),
            (What::Reply(Reply::Null, b""), &[2, 0xac, 2, 7, 2]),
            (What::Reply(Reply::Abort, b"no"), &[3, 0xac, 2, 7, 2, b'n', b'o']),
            (What::Reply(Reply::Forward(Rank(5)), b""), &[4, 0xac, 2, 7, 2, 5]),
            (What::GivenUp, &[5, 0xac, 2, 7, 2]),
            (
                What::Forwarded(Expected::of(&[0b101]), b"what?"),
                &[6, 0xac, 2, 7, 2, 1, 5, b'w', b'h', b'a', b't', b'?'],
            ),
        ];
        for (what, bytes) in all {
            let (frame, mut out) = (Frame { ask, place, what }, Vec::new());
            frame.put(&mut out);
            assert_eq!(out, bytes, "{what:?}");
            assert_eq!(Frame::read(bytes), Ok(frame));
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for bytes in
            [&[][..], &[0, 1, 1, 1], &[7, 1, 1, 1], &[2, 1, 1], &[2, 1, 1, 1, 0], &[4, 1, 1, 1], &[6, 1, 1, 1, 9]]
        {
            assert_eq!(Frame::read(bytes), Err(Malformed), "{bytes:?}");
        }
        assert_eq!(Frame::read(&[1, 1, 1, 0xff, 0xff, 7]), Err(Malformed), "no rank is that large");
    }
}
