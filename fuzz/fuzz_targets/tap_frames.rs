//! Arbitrary bytes as a packet in clear, whole or cut, and as names: each has a summary, and one short line.
#![no_main]

use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use phalanx_core::wire::{Header, Kind};
use phalanx_tap::capture::Seen;
use phalanx_tap::{Description, Form, FrameKind, NameTable, Summary};

fuzz_target!(|bytes: &[u8]| {
    let [kind, cut, rest @ ..] = bytes else { return };
    let (packet, names) = rest.split_at(rest.len().min(usize::from(*cut) * 4));
    let mut table = NameTable::default();
    table.learn(&format!("phalanx-names 1\n{}", String::from_utf8_lossy(names)));
    let mut packet = packet.to_vec();
    if let Some(first) = packet.first_mut() {
        *first = Header::VERSION << 4 | kind & 0x0f;
    }
    let at = ([10, 0, 0, 1], 7000).into();
    let (front, frames) = packet.split_at(packet.len().min(Header::LEN));
    let seen = Seen::new(Duration::from_millis(7), at, at, [front, frames, &[]]);
    let longer = Seen { packet_bytes: packet.len() + usize::from(*cut), ..seen };
    for (seen, form) in [(seen, Form::Clear), (longer, Form::Clear), (seen, Form::Sealed)] {
        let line = Description::of(&seen, form, &table).to_string();
        assert!(line.len() <= 1_500 && !line.contains(char::is_control), "{line:?}");
    }
    for kind in Kind::ALL {
        let summary = Summary::of(kind, frames);
        assert_eq!(FrameKind::ALL.iter().any(|kind| summary.has(*kind)), !frames.is_empty());
    }
});
