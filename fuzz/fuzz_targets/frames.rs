//! Arbitrary bytes as what stands behind the seal: frames of every kind of packet, and messages of the channels.
//!
//! Whatever is read is bounded by the bytes it came from, and what postcard reads it writes again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use phalanx_core::member::{Control, StateMessage};
use phalanx_core::order::read_frame;
use phalanx_core::process::unrepaired::read_unrepaired;
use phalanx_core::wire::Reader;

fuzz_target!(|bytes: &[u8]| {
    let mut stream = Reader::new(bytes);
    while !stream.is_empty() && read_frame(&mut stream).is_ok() {}
    let mut unrepaired = Reader::new(bytes);
    while !unrepaired.is_empty() && read_unrepaired(&mut unrepaired).is_ok() {}
    if let Ok(message) = postcard::from_bytes::<Control>(bytes) {
        let again = postcard::to_allocvec(&message).expect("what was read can be written");
        assert_eq!(postcard::from_bytes::<Control>(&again).expect("and read"), message);
    }
    if let Ok(message) = postcard::from_bytes::<StateMessage>(bytes) {
        let again = postcard::to_allocvec(&message).expect("what was read can be written");
        assert_eq!(postcard::from_bytes::<StateMessage>(&again).expect("and read"), message);
    }
});
