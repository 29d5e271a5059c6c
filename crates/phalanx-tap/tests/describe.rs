//! Lines for people: of all golden vectors, and of what no build sends.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use phalanx_core::id::{Incarnation, TrafficClass};
use phalanx_core::wire::{Header, Kind, PacketNumber, Space};
use phalanx_tap::capture::Seen;
use phalanx_tap::{Description, Form, NameTable};
use proptest::prelude::*;

use crate::vectors::frames;

const NAMES: &str = "phalanx-names 1\n\
    member 0000000000000007 10.0.0.1:7000,10.0.0.1:7001 m1\n\
    member 0000000000000008 10.0.0.2:7000 m 2\n\
    view 00000009 3 0 0000000000000007,0000000000000008,0000000000000009 ledger";
/// The lines of all vectors.
const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/lines.txt");

fn names() -> NameTable {
    let mut names = NameTable::default();
    names.learn(NAMES);
    names
}

fn header(kind: Kind, space: u32) -> [u8; Header::LEN] {
    let sender = Incarnation(7);
    Header { kind, cell_tag: 1, sender, space: Space(space), number: PacketNumber(42) }.to_bytes()
}

fn seen(parts: [&[u8]; 3]) -> Seen<'_> {
    let (local, peer) = ("10.0.0.2:7000".parse().expect("one"), "10.0.0.1:7000".parse().expect("one"));
    Seen::new(Duration::new(1_700_000_000, 123_456_789), local, peer, parts)
}

fn line(seen: &Seen<'_>, form: Form) -> String {
    Description::of(seen, form, &names()).to_string()
}

/// `PHALANX_BLESS=1` writes the file anew.
#[test]
fn each_vector_has_its_line() {
    let mut all = String::new();
    for (kind, name, frames) in frames().expect("the vectors") {
        let header = header(kind, 9);
        let to = if kind.is_addressed() { Incarnation(8) } else { Incarnation::NONE };
        let line = line(&Seen { to, ..seen([&header, &frames, &[]]) }, Form::Clear);
        let (_, told) = line.split_once(" > ").expect("two ends");
        writeln!(all, "{name}: {told}").expect("a string takes all");
    }
    if std::env::var_os("PHALANX_BLESS").is_some_and(|value| value == "1") {
        std::fs::write(PathBuf::from(GOLDEN), &all).expect("writable");
    }
    let kept = std::fs::read_to_string(GOLDEN).expect("lines; PHALANX_BLESS=1 makes them");
    assert_eq!(all.lines().collect::<Vec<_>>(), kept.lines().collect::<Vec<_>>());
}

#[test]
fn a_line_has_ends_ways_and_losses() {
    let header = header(Kind::Multicast, 9);
    let seen = seen([&header, &[0x80, 1, b'x'], &[]]);
    assert_eq!(line(&seen, Form::Clear), "22:13:20.123456 in  m1 > \"m 2\" multicast ledger/3 #42 (27 B): fifo 1 B");
    let sent = Seen { is_sent: true, is_memory: true, missed: 3, class: TrafficClass::Control, ..seen };
    assert_eq!(
        line(&Seen { local: seen.peer, peer: seen.local, ..sent }, Form::Clear),
        "22:13:20.123456 out m1 > \"m 2\" multicast ledger/3 #42 (27 B, control, memory, 3 lost before): fifo 1 B"
    );
    // What is sealed is not looked at, and of what goes through memory a sealed tap has the header alone.
    let (unknown, nowhere) = ("10.0.0.9:1".parse().expect("one"), "0.0.0.0:0".parse().expect("one"));
    let sealed = Seen { parts: [&header, &[], &[]], packet_bytes: 70_000, is_memory: true, local: unknown, ..seen };
    assert_eq!(
        line(&sealed, Form::Sealed),
        "22:13:20.123456 in  m1 > 10.0.0.9:1 multicast ledger/3 #42 (70000 B, memory)"
    );
    let cut = Seen { parts: [&header, &[0x80, 9, b'x'], &[]], packet_bytes: 35, local: nowhere, ..seen };
    assert_eq!(line(&cut, Form::Clear), "22:13:20.123456 in  m1 > ? multicast ledger/3 #42 (35 B, cut): cut off");
}

#[test]
fn a_long_request_has_its_bytes_in_another_part() {
    let header = header(Kind::Session, 9);
    let frames = [0xa0, 3, 5, 0x80, 0x20];
    let seen = Seen { packet_bytes: 24 + 5 + 100, ..seen([&header, &frames, &[7; 60]]) };
    let line = line(&seen, Form::Clear);
    assert!(line.ends_with("session #42 (129 B, cut): request 3/5 100 B"), "{line}");
}

#[test]
fn what_is_no_packet_is_told_as_such() {
    let mut other = header(Kind::Data, 9);
    other[0] = 0x45;
    for (bytes, told) in [(&other[..], "not readable (version) (24 B)"), (&other[..7], "not readable (short) (7 B)")] {
        let line = line(&seen([bytes, &[], &[]]), Form::Clear);
        assert_eq!(line, format!("22:13:20.123456 in  m1 > \"m 2\" {told}"));
    }
}

#[test]
fn messages_that_are_alike_are_told_together_and_long_packets_in_part() {
    let header = header(Kind::Multicast, 1);
    let alike: Vec<u8> =
        (0..200_u8).flat_map(|n| [0xc0, 1 + n % 3, 0, 0, 0].into_iter().take(3 + usize::from(n % 3))).collect();
    let told = line(&seen([&header, &alike, &[]]), Form::Clear);
    assert!(told.contains("space 1 #42 (823 B): 200 x total 1 to 3 B"), "{told}");
    // Two kinds in turn are not alike.
    let mixed: Vec<u8> = [0xc0, 0, 0x80, 0].repeat(500);
    let told = line(&seen([&header, &mixed, &[]]), Form::Clear);
    assert!(told.contains("total 0 B; fifo 0 B; total 0 B") && told.contains("; and 9"), "{told}");
    assert!(told.len() < 1_500, "{} bytes", told.len());
}

#[test]
fn secrets_of_sessions_are_not_told() {
    let header = header(Kind::Session, 9);
    let seen = Seen { to: Incarnation(0xdead_beef), ..seen([&header, &[9], &[]]) };
    let names = NameTable::default();
    let described = Description::of(&seen, Form::Clear, &names);
    assert_eq!(described.to.incarnation, None);
    assert!(!described.to_string().contains("beef"), "{described}");
    for (kind, name, frames) in frames().expect("the vectors") {
        if name == "calls/opened" {
            let header = self::header(kind, 9);
            let line = line(&self::seen([&header, &frames, &[]]), Form::Clear);
            assert!(!line.contains("71727374") && !line.contains(&0x7172_7374.to_string()), "{line}");
        }
    }
}

proptest! {
    #[test]
    fn any_packet_has_one_short_line(
        kind in proptest::sample::select(Kind::ALL.to_vec()), group in ".{0,60}", name in ".{0,60}",
        frames in proptest::collection::vec(any::<u8>(), 0..400), cut in 0..200_usize, first in any::<u8>(),
    ) {
        use phalanx_core::id::ViewNumber;
        use phalanx_tap::capture::NameTexts;

        let mut texts = NameTexts::default();
        texts.member(Incarnation(7), &name, &[]);
        texts.view(Space(9), ViewNumber(u64::MAX), &group, &[Incarnation(7)]);
        let mut names = NameTable::default();
        texts.take().for_each(|text| names.learn(&text));
        let mut header = header(kind, 9);
        if first < 16 {
            header[0] = first;
        }
        let seen = seen([&header, &frames, &[]]);
        let seen = Seen { missed: u64::MAX, packet_bytes: 24 + frames.len() + cut, ..seen };
        for form in [Form::Sealed, Form::Clear] {
            let line = Description::of(&seen, form, &names).to_string();
            prop_assert!(line.len() <= 1_500 && !line.contains(char::is_control), "{}", line);
        }
    }
}
