//! What filters see of the frames of the golden vectors, and of broken ones.

use phalanx_core::id::Incarnation;
use phalanx_core::wire::{Kind, Space};
use phalanx_tap::{ClearPreamble, FrameKind, Summary};
use proptest::prelude::*;

use crate::vectors::frames;

/// The words of the frames that a packet holds.
fn words(summary: &Summary) -> Vec<&'static str> {
    FrameKind::ALL.into_iter().filter(|kind| summary.has(*kind)).map(FrameKind::word).collect()
}

/// Orders, the space that the acknowledgement is about, and its prefix, as filters read them.
fn rest(summary: &Summary) -> (u8, u32, u64) {
    let preamble = ClearPreamble::new(Incarnation::NONE, summary);
    let bytes = preamble.bytes();
    let space = bytes[16..20].try_into().expect("4 bytes");
    let acked = bytes[20..28].try_into().expect("8 bytes");
    (bytes[12], u32::from_be_bytes(space), u64::from_be_bytes(acked))
}

/// What a vector's packet holds, by the name of the vector.
fn expected(name: &str) -> Vec<&'static str> {
    let (file, vector) = name.split_once('/').expect("a file and a name");
    match (file, vector) {
        ("greeting", _) => vec!["greeting"],
        ("stream", "announcement") => vec!["announcement"],
        ("stream", "token_pass") => vec!["token"],
        ("stream", "stability") => vec!["stability"],
        ("stream", "past") => vec!["past"],
        ("stream", _) => vec!["message"],
        ("unrepaired", _) => vec![match vector {
            "status" => "status",
            "exclusion" => "exclusion",
            _ if vector.starts_with("receipt") => "ack",
            _ if vector.contains("heartbeat") => "heartbeat",
            "claim" => "links",
            "complaint" => "slow",
            _ if vector.starts_with("findings") => "findings",
            _ if vector.starts_with("probe") || vector.starts_with("answer") => "probe",
            _ => panic!("{name} has no word here"),
        }],
        ("calls", "ask" | "opened" | "refused") => vec!["session"],
        ("calls", "question") => vec!["ack", "query"],
        ("calls", "pong") => vec!["ping"],
        ("calls", "proof") => vec!["challenge"],
        ("calls", "cancelled") => vec!["cancel"],
        ("calls", _) if vector.starts_with("receipt") => vec!["ack"],
        ("calls", _) if vector.starts_with("request") => vec!["request"],
        ("calls", _) if vector.starts_with("answer") => vec!["answer"],
        ("calls", _) => vec![vector_word(vector)],
        ("more", "request") => vec!["request"],
        ("more", "answer_piece") => vec!["answer"],
        ("more", "nothing") => vec![],
        // Others have more than one frame, see below.
        ("more", _) => panic!("{name}"),
        // Messages of the control and the data channel.
        _ => vec!["piece"],
    }
}

fn vector_word(vector: &str) -> &'static str {
    FrameKind::ALL.into_iter().map(FrameKind::word).find(|word| *word == vector).expect("a vector with a word's name")
}

#[test]
fn each_vector_is_a_frame_of_its_kind() {
    let mut of_more = 0;
    for (kind, name, bytes) in frames().expect("the vectors") {
        let held = words(&Summary::of(kind, &bytes));
        let vector = name.rsplit('/').next().unwrap_or_default();
        if !name.starts_with("more/") || ["request", "answer_piece", "nothing"].contains(&vector) {
            assert_eq!(held, expected(&name), "{name}");
            continue;
        }
        of_more += 1;
        let all: &[&str] = match (kind, vector) {
            (Kind::Multicast, "all_frames") => &["message", "announcement", "token", "stability", "past"],
            (Kind::Direct, "all_frames") => {
                &["ack", "status", "heartbeat", "exclusion", "links", "slow", "probe", "findings"]
            }
            (Kind::Session, "all_frames") => {
                &["ack", "request", "query", "cancel", "credit", "close", "ready", "ping", "challenge"]
            }
            (Kind::Multicast, "of_a_later_build") => &["stability", "unknown"],
            (Kind::BestEffortMulticast, "of_a_later_build") => &["exclusion", "unknown"],
            _ => &["piece"],
        };
        assert_eq!(held, all, "{name}");
    }
    assert_eq!(of_more, 9);
}

#[test]
fn orders_and_acknowledgements_are_those_of_the_vectors() {
    for (kind, name, bytes) in frames().expect("the vectors") {
        let summary = Summary::of(kind, &bytes);
        let orders = match &*name {
            "stream/fifo" => Some(0b0001),
            "stream/causal_with_dependencies" => Some(0b0010),
            "stream/total" => Some(0b0100),
            "stream/total_placed_uniform"
            | "stream/first_piece"
            | "stream/middle_piece"
            | "stream/last_piece"
            | "stream/ask_of_ranks_0_and_9"
            | "stream/to_domain_1" => Some(0b1100),
            "more/all_frames" if kind == Kind::Multicast => Some(0b1111),
            _ => None,
        };
        assert_eq!(rest(&summary).0, orders.unwrap_or(0), "{name}");
        if name.starts_with("calls/receipt") {
            assert_eq!(rest(&summary), (0, 0, 4), "{name}");
        }
    }
    // Of the control channel up to 5, and of the stream in space 9 up to 300, without gaps.
    let acks = [2, 5, 40, 0, 1, 18, 0xac, 2, 0xac, 2, 0];
    assert_eq!(rest(&Summary::of(Kind::Direct, &acks)), (0, 9, 300));
    let mut by_hand = Summary::new();
    by_hand.ack(None, 5);
    by_hand.ack(Some(Space(9)), 300);
    assert_eq!(Summary::of(Kind::Direct, &acks), by_hand);
}

#[test]
fn what_cannot_be_read_is_unknown_and_what_stands_before_it_counts() {
    assert_eq!(words(&Summary::of(Kind::Multicast, &[3, 9, 0x05, 3, 9])), ["stability", "unknown"]);
    assert_eq!(words(&Summary::of(Kind::Handshake, &[9])), ["unknown"]);
    assert_eq!(words(&Summary::of(Kind::Open, &[1, 2])), ["unknown"]);
    for (kind, name, bytes) in frames().expect("the vectors") {
        let whole = words(&Summary::of(kind, &bytes));
        for end in 0..bytes.len() {
            let cut = words(&Summary::of(kind, &bytes[..end]));
            assert!(cut.iter().all(|word| *word == "unknown" || whole.contains(word)), "{name}, {end} bytes: {cut:?}");
        }
    }
}

proptest! {
    #[test]
    fn any_bytes_have_a_summary(kind in proptest::sample::select(Kind::ALL.to_vec()), bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let summary = Summary::of(kind, &bytes);
        prop_assert_eq!(words(&summary).is_empty(), bytes.is_empty());
    }
}
