//! Arbitrary bytes as a message of the channel for messages to one member: what is read holds no more than its bytes, and
//! encodes to the same bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use phalanx_core::process::ToOneFrame;

fuzz_target!(|bytes: &[u8]| {
    let Ok(frame) = ToOneFrame::read(bytes) else { return };
    if let ToOneFrame::Message { since, view, ref past, payload, .. } = frame {
        assert!(view >= since, "a message is sent while both are together");
        assert!(2 * past.iter().count() + payload.len() < bytes.len());
    }
    let mut again = Vec::new();
    frame.put(&mut again);
    assert_eq!(again, bytes);
});
