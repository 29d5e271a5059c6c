//! Arbitrary bytes as a header: never a panic, and what is read is written alike.
#![no_main]

use libfuzzer_sys::fuzz_target;
use phalanx_core::wire::{DropReason, Header};

fuzz_target!(|bytes: &[u8]| {
    match Header::parse(bytes) {
        Ok(header) => assert_eq!(header.to_bytes()[..], bytes[..Header::LEN]),
        Err(DropReason::Short) => assert!(bytes.len() < Header::LEN),
        Err(reason) => {
            assert!(bytes.len() >= Header::LEN);
            assert!(matches!(reason, DropReason::Version | DropReason::Kind | DropReason::Malformed));
        }
    }
});
