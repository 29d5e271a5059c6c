//! One payload hash for all writers of traces.

/// The 64-bit hash (XXH3) that stands for payloads in traces. Fast, not cryptographic.
///
/// ```
/// assert_eq!(phalanx_trace::payload_hash(b""), 0x2d06_8005_38d3_94c2);
/// ```
#[must_use]
pub fn payload_hash(payload: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(payload)
}
