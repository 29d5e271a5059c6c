//! Arbitrary bytes as what stands behind the seal: frames of every kind of packet, and messages of the channels.
//!
//! Whatever is read is bounded by the bytes it came from, and what is read is written again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use phalanx_core::member::{Control, StateMessage};
use phalanx_core::order::read_frame;
use phalanx_core::process::best_effort::read_best_effort;
use phalanx_core::wire::{Reader, put_with_tail, read_with_tail};

macro_rules! written_again {
    ($message:ty, $bytes:expr) => {
        if let Ok((message, tail)) = read_with_tail::<$message>($bytes) {
            let again = put_with_tail(&message, &tail, Vec::new()).expect("what was read can be written");
            assert_eq!(read_with_tail::<$message>(&again).expect("and read"), (message, tail));
        }
    };
}

fuzz_target!(|bytes: &[u8]| {
    let mut stream = Reader::new(bytes);
    while !stream.is_empty() && read_frame(&mut stream).is_ok() {}
    let mut best_effort = Reader::new(bytes);
    while !best_effort.is_empty() && read_best_effort(&mut best_effort).is_ok() {}
    written_again!(Control, bytes);
    written_again!(StateMessage, bytes);
});
