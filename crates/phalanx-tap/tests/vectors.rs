//! Packets made of the golden vectors of the core. Shared by the tests and the example `golden_captures`.

use std::error::Error;
use std::path::Path;

use phalanx_core::wire::Kind;
use phalanx_core::wire::codec::{put_prefixed, put_varint};

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

const VECTORS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../phalanx-core/tests/golden");

/// The frames of a packet: its kind, what it is called, its bytes behind the header.
pub(crate) type Frames = (Kind, String, Vec<u8>);

/// The vectors of a file: names and bytes.
pub(crate) fn vectors(file: &str) -> Outcome<Vec<(String, Vec<u8>)>> {
    let text = std::fs::read_to_string(Path::new(VECTORS).join(file))?;
    let mut found = Vec::new();
    for line in text.lines() {
        let (name, hex) = line.split_once(' ').ok_or("a name and bytes")?;
        let bytes = (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16));
        found.push((name.to_owned(), bytes.collect::<Result<Vec<u8>, _>>()?));
    }
    Ok(found)
}

/// A whole message of a channel, in one packet.
fn piece(message: &[u8]) -> Vec<u8> {
    let mut frame = vec![3];
    put_varint(&mut frame, message.len() as u64);
    put_prefixed(&mut frame, message);
    frame
}

/// The frames of all vectors, each in a packet of its kind. What has no vector is here: pieces of channels, messages of
/// the application, calls without guarantees, several frames in one packet, frames of later builds.
pub(crate) fn frames() -> Outcome<Vec<Frames>> {
    let mut all: Vec<Frames> = Vec::new();
    let mut take = |file: &str, wanted: &dyn Fn(&str) -> Option<Kind>, wrap: &dyn Fn(&[u8]) -> Vec<u8>| -> Outcome {
        for (name, bytes) in vectors(file)? {
            if let Some(kind) = wanted(&name) {
                all.push((kind, format!("{}/{name}", file.trim_end_matches(".txt")), wrap(&bytes)));
            }
        }
        Ok(())
    };
    let as_is = |bytes: &[u8]| bytes.to_vec();
    let state = |bytes: &[u8]| piece(&[&[1], bytes].concat());
    take("greeting.txt", &|_| Some(Kind::Handshake), &as_is)?;
    take("unrepaired.txt", &|name| Some(best_effort(name)), &as_is)?;
    take("stream.txt", &|_| Some(Kind::Multicast), &as_is)?;
    for file in ["control.txt", "founding.txt", "waiting.txt", "terms.txt", "kinds.txt", "orphans.txt"] {
        // The others are parts of messages.
        let is_message = |name: &str| {
            let part = name.starts_with("entry") || ["record", "member", "strike", "revival"].contains(&name);
            (!part).then_some(Kind::Control)
        };
        take(file, &is_message, &piece)?;
    }
    take("state.txt", &|_| Some(Kind::Data), &state)?;
    take("views.txt", &|_| Some(Kind::Data), &state)?;
    take("to_one.txt", &|_| Some(Kind::ToOne), &piece)?;
    take("domains.txt", &|name| (name == "said").then_some(Kind::Control), &piece)?;
    let of_state = |name: &str| (name == "begin" || name.starts_with("replay")).then_some(Kind::Data);
    take("domains.txt", &of_state, &state)?;
    let call = |name: &str| match name {
        "ask" | "opened" | "refused" => Some(Kind::Open),
        _ => Some(Kind::Session),
    };
    take("calls.txt", &call, &as_is)?;

    let joined = |file: &str, kind: fn(&str) -> bool| -> Outcome<Vec<u8>> {
        Ok(vectors(file)?.into_iter().filter(|(name, _)| kind(name)).flat_map(|(_, bytes)| bytes).collect())
    };
    let more: [(Kind, &str, Vec<u8>); 12] = [
        (Kind::Multicast, "all_frames", joined("stream.txt", |_| true)?),
        (Kind::Direct, "all_frames", joined("unrepaired.txt", |_| true)?),
        (Kind::Session, "all_frames", [joined("calls.txt", has_an_end)?, b"\xb0\x03\x01\x00body".to_vec()].concat()),
        (Kind::Control, "two_messages", [piece(&[0x0a, 0]), piece(&[0x11, 0])].concat()),
        (Kind::Control, "first_piece", [&[2, 200, 1, 4][..], b"abcd"].concat()),
        (Kind::Data, "middle_and_last_piece", [&[0, 2][..], b"ab", &[1, 3], b"cde"].concat()),
        (Kind::Data, "application", piece(b"\0hello")),
        (Kind::Unreliable, "request", [&[2, 172, 2][..], b"body"].concat()),
        (Kind::Unreliable, "answer_piece", [&[1, 172, 2, 160, 141, 6, 7][..], b"body"].concat()),
        (Kind::Multicast, "of_a_later_build", [&[0x49, 3][..], b"abc", &[3, 7]].concat()),
        (Kind::BestEffortMulticast, "of_a_later_build", [&[0x7f, 3][..], b"abc", &[6, 7]].concat()),
        (Kind::Data, "nothing", Vec::new()),
    ];
    all.extend(more.map(|(kind, name, bytes)| (kind, format!("more/{name}"), bytes)));
    Ok(all)
}

/// By the name of its vector: probes and notices go to one process.
fn best_effort(name: &str) -> Kind {
    let is_direct = ["exclusion", "probe", "answer"].iter().any(|word| name.starts_with(word));
    if is_direct { Kind::Direct } else { Kind::BestEffortMulticast }
}

/// By the name of its vector: a frame of a session behind which another one may stand. Data go to the end of the packet.
fn has_an_end(name: &str) -> bool {
    !["ask", "opened", "refused", "request", "answer"].iter().any(|word| name.starts_with(word))
}
