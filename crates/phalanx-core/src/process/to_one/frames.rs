//! The messages of the channel for messages to one member. Layout: `docs/wire.md`, *Messages to one*.

use crate::api::ToOneKind;
use crate::id::{GroupId, Rank, ViewNumber};
use crate::order::{Pairs, put_pairs, read_pairs};
use crate::wire::Malformed;
use crate::wire::codec::{Reader, put_varint};

/// A message of that channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToOneFrame<'a> {
    /// A message to the receiver.
    Message {
        /// The group.
        group: GroupId,
        /// The first view that held both, from which on messages between them are counted.
        since: ViewNumber,
        /// The group's view in which it was sent.
        view: ViewNumber,
        /// An answer takes no window.
        kind: ToOneKind,
        /// By how much the sender's position grew since its previous message to this receiver in the view.
        past: Pairs<'a>,
        /// The payload.
        payload: &'a [u8],
    },
    /// How many messages of the receiver were delivered, and how many more it may send.
    Report {
        /// The group.
        group: GroupId,
        /// As in a message.
        since: ViewNumber,
        /// Number of messages that were delivered.
        delivered: u64,
        /// The position up to which the receiver of the report may send, in bytes.
        granted: u64,
    },
    /// The two are together in the group no more: of the receiver's messages no more than these were delivered, or will be.
    Last {
        /// The group.
        group: GroupId,
        /// As in a message.
        since: ViewNumber,
        /// Number of messages that were delivered.
        delivered: u64,
    },
}

const MESSAGE: u8 = 0;
const ANSWER: u8 = 1;
const REPORT: u8 = 2;
const LAST: u8 = 3;

/// Appends a message; `past` are pairs of a rank and a growth.
pub(super) fn put_message(
    out: &mut Vec<u8>,
    (group, since): (GroupId, ViewNumber),
    view: ViewNumber,
    kind: ToOneKind,
    past: &[(Rank, u64)],
    parts: &[&[u8]],
) {
    debug_assert!(view >= since, "a message is sent while both are together");
    out.push(if kind.is_answer() { ANSWER } else { MESSAGE });
    put_varint(out, u64::from(group.0));
    put_varint(out, since.0);
    put_varint(out, view.0 - since.0);
    put_pairs(out, past);
    parts.iter().for_each(|part| out.extend_from_slice(part));
}

/// Appends a report, the last one if nothing is granted.
pub(super) fn put_report(
    out: &mut Vec<u8>,
    (group, since): (GroupId, ViewNumber),
    delivered: u64,
    granted: Option<u64>,
) {
    out.push(if granted.is_some() { REPORT } else { LAST });
    put_varint(out, u64::from(group.0));
    put_varint(out, since.0);
    put_varint(out, delivered);
    if let Some(granted) = granted {
        put_varint(out, granted);
    }
}

impl<'a> ToOneFrame<'a> {
    /// Reads a message of the channel.
    ///
    /// # Errors
    /// [`Malformed`] when the bytes make no sense.
    pub fn read(message: &'a [u8]) -> Result<Self, Malformed> {
        let mut r = Reader::new(message);
        let first = r.u8()?;
        let group = GroupId(r.varint_u32()?);
        let since = ViewNumber(r.varint()?);
        let frame = match first {
            MESSAGE | ANSWER => {
                let view = ViewNumber(since.0.checked_add(r.varint()?).ok_or(Malformed)?);
                let kind = if first == ANSWER { ToOneKind::Answer } else { ToOneKind::Message };
                let past = read_pairs(&mut r)?;
                Self::Message { group, since, view, kind, past, payload: r.rest() }
            }
            REPORT => Self::Report { group, since, delivered: r.varint()?, granted: r.varint()? },
            LAST => Self::Last { group, since, delivered: r.varint()? },
            _ => return Err(Malformed),
        };
        if r.is_empty() { Ok(frame) } else { Err(Malformed) }
    }

    /// Appends the bytes that are read as this frame. Its past has to have been read from bytes, so that it is no longer
    /// than a frame may hold.
    pub fn put(&self, out: &mut Vec<u8>) {
        match *self {
            Self::Message { group, since, view, kind, past, payload } => {
                put_message(out, (group, since), view, kind, &past.iter().collect::<Vec<_>>(), &[payload]);
            }
            Self::Report { group, since, delivered, granted } => {
                put_report(out, (group, since), delivered, Some(granted));
            }
            Self::Last { group, since, delivered } => put_report(out, (group, since), delivered, None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden as file;
    use proptest::prelude::*;

    /// `tests/golden/README.md`.
    #[test]
    fn golden_messages_to_one() {
        let made = |put: &dyn Fn(&mut Vec<u8>)| {
            let mut out = Vec::new();
            put(&mut out);
            out
        };
        let (pair, view) = ((GroupId(3), ViewNumber(290)), ViewNumber(300));
        let all = [
            (
                "message",
                made(&|out| {
                    put_message(out, pair, view, ToOneKind::Message, &[(Rank(0), 2), (Rank(300), 1)], &[b"bo", b"dy"]);
                }),
            ),
            ("message_without_past", made(&|out| put_message(out, pair, pair.1, ToOneKind::Message, &[], &[b"body"]))),
            ("answer", made(&|out| put_message(out, pair, view, ToOneKind::Answer, &[(Rank(1), 1)], &[]))),
            ("report", made(&|out| put_report(out, pair, 7, Some(262_144)))),
            ("last_report", made(&|out| put_report(out, pair, 300, None))),
        ];
        file::hold("to_one.txt", all.map(|(name, bytes)| (name.to_owned(), bytes)).to_vec());
        for (name, bytes) in file::read("to_one.txt") {
            let mut again = Vec::new();
            ToOneFrame::read(&bytes).expect(&name).put(&mut again);
            assert_eq!(again, bytes, "{name}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let largest = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
        let beyond = [&[MESSAGE, 1][..], &largest, &[1, 0]].concat();
        for bytes in [
            &[][..],
            &[4, 1, 2, 0],
            &[MESSAGE, 1, 2, 0, 1],
            &[REPORT, 1, 2, 3],
            &[REPORT, 1, 2, 3, 9, 0],
            &[LAST, 1, 2],
            &beyond,
        ] {
            assert_eq!(ToOneFrame::read(bytes), Err(Malformed), "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(frame) = ToOneFrame::read(&bytes) {
                let mut again = Vec::new();
                frame.put(&mut again);
                assert_eq!(again, bytes);
            }
        }
    }
}
