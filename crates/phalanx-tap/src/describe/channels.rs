//! Messages of channels and greetings in short, in the words of `docs/wire.md`.

use phalanx_core::link::ChannelFrame;
use phalanx_core::process::{JoinHandshake, JoinRefusal};
use phalanx_core::wire::Kind;

use super::text::{bytes, plain};

/// Control messages by their number.
const CONTROL: [&str; 19] = [
    "wedge",
    "report",
    "refusal",
    "proposal",
    "acceptance",
    "decision",
    "welcome",
    "fetch",
    "recovered packet",
    "membership requests",
    "leave",
    "founding of a former build",
    "ping",
    "founding of a former build",
    "unreadable",
    "holds the state",
    "founding",
    "out",
    "part of a welcome",
];

/// Messages of founding by their number.
const FOUNDING: [&str; 9] =
    ["ask", "report", "refusal", "proposal", "acceptance", "decision", "marked", "confirmed", "dead"];
const FOUNDING_AT: u8 = 16;

/// Messages of a state transfer by their number.
const STATE: [&str; 9] =
    ["ask", "begin", "chunk", "replayed delivery", "caught up", "done", "aborted", "taken", "replayed view"];

/// Messages of the channel for messages to one by their number.
const TO_ONE: [&str; 4] = ["message", "answer", "report", "last report"];

/// A message of a channel, or a piece of one.
pub(super) fn frame(kind: Kind, frame: &ChannelFrame<'_>) -> String {
    let here = bytes(frame.bytes.len());
    match (frame.message_len, frame.is_last) {
        (Some(_), true) => format!("{} {here}", message(kind, frame.bytes)),
        (Some(whole), false) => format!("{} first {here} of {whole}", message(kind, frame.bytes)),
        (None, false) => format!("next {here}"),
        (None, true) => format!("last {here}"),
    }
}

/// What a message is, by its first bytes.
fn message(kind: Kind, bytes: &[u8]) -> String {
    let word = |words: &[&str], number: u8| words.get(usize::from(number)).map_or("unknown", |word| *word).to_owned();
    match (kind, bytes) {
        (_, []) => "message".to_owned(),
        (Kind::Control, [FOUNDING_AT, number, ..]) => format!("founding {}", word(&FOUNDING, *number)),
        (Kind::Control, [number, ..]) => word(&CONTROL, *number),
        (Kind::ToOne, [number, ..]) => word(&TO_ONE, *number),
        (_, [0, ..]) => "message".to_owned(),
        (_, [1, number, ..]) => format!("state {}", word(&STATE, *number)),
        (_, [..]) => "unknown".to_owned(),
    }
}

pub(super) fn greeting(greeting: &JoinHandshake) -> String {
    match greeting {
        JoinHandshake::Probe { info, member_of, .. } => {
            let member_of = member_of.map_or_else(String::new, |(_, view)| format!(", in view {}", view.0));
            format!("probe of {}{member_of}", plain(&info.name))
        }
        JoinHandshake::Challenge { view, .. } => format!("challenge, view {}", view.0),
        JoinHandshake::Join { info, groups, .. } => {
            format!("join of {}, groups asked for: {}", plain(&info.name), groups.len())
        }
        JoinHandshake::Refused { why, .. } => format!("refusal: {}", refusal(why)),
    }
}

fn refusal(why: &JoinRefusal) -> String {
    match why {
        JoinRefusal::NameTaken => "the name is taken".to_owned(),
        JoinRefusal::Full => "the cell is full".to_owned(),
        JoinRefusal::Excluded(view) => format!("view {} left it out", view.0),
        JoinRefusal::Differs(mismatch) => format!("{} differs", plain(&mismatch.name)),
        JoinRefusal::HeldBack { wait_ms, .. } => format!("it was left out recently, and waits for {wait_ms} ms"),
    }
}
