//! What every payload of a torture member begins with: the sender's incarnation, and the message's number.

/// Its bytes: two words, little endian.
pub(super) const HEAD_BYTES: usize = 16;

/// The first word of these bytes, or what there is of it.
pub(super) fn word(bytes: &[u8]) -> u64 {
    bytes.iter().take(8).rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}
