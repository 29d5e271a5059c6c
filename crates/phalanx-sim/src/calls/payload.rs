//! Payloads of calls and answers: no two calls of a client have equal requests, and an answer names its run.

use phalanx_core::rng::Rng;

/// A request of about `len` bytes that no other call of this life of the client has.
///
/// A short request holds only the call's number. One request in each life is empty: that of call 0.
pub(super) fn request(client: u32, life: u32, number: u64, len: usize) -> Vec<u8> {
    let short = match number {
        0 => 0,
        1..=0xff => 1,
        0x100..=0xffff => 2,
        _ => 8,
    };
    let mut head = Vec::with_capacity(16);
    head.extend_from_slice(&number.to_le_bytes());
    head.extend_from_slice(&client.to_le_bytes());
    head.extend_from_slice(&life.to_le_bytes());
    filled(&head, len.max(short), number ^ u64::from(client) << 40 ^ u64::from(life) << 52)
}

/// An answer of about `len` bytes to `request`: its digest, and the number of the run.
pub(super) fn answer(request: &[u8], run: u64, len: usize) -> Vec<u8> {
    let mut head = Vec::with_capacity(16);
    head.extend_from_slice(&digest(request).to_le_bytes());
    head.extend_from_slice(&run.to_le_bytes());
    filled(&head, len, run)
}

/// `len` bytes: `head` as far as it fits, then bytes derived from `salt`.
fn filled(head: &[u8], len: usize, salt: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len + 8);
    bytes.extend_from_slice(head);
    let mut rng = Rng::new(salt);
    while bytes.len() < len {
        bytes.extend_from_slice(&rng.next_u64().to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// A digest for comparisons; it need not resist an attacker.
pub(super) fn digest(bytes: &[u8]) -> u64 {
    let mut state = fold(0x9e37_79b9_7f4a_7c15, bytes.len() as u64);
    let mut words = bytes.chunks_exact(8);
    for word in &mut words {
        state = fold(state, word.try_into().map_or(0, u64::from_le_bytes));
    }
    let mut rest = [0; 8];
    rest[..words.remainder().len()].copy_from_slice(words.remainder());
    fold(state, u64::from_le_bytes(rest))
}

/// Takes one more number into a digest.
pub(super) fn fold(state: u64, word: u64) -> u64 {
    let mixed = (state ^ word).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed ^ (mixed >> 29)).wrapping_mul(0x94d0_49bb_1331_11eb).rotate_left(23)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_two_requests_of_a_life_are_equal() {
        let lengths = [0, 1, 2, 7, 8, 100];
        let mixed: BTreeSet<Vec<u8>> =
            (0..70_000_u64).map(|number| request(1, 2, number, lengths[number as usize % lengths.len()])).collect();
        assert_eq!(mixed.len(), 70_000, "whatever their lengths");
        let all: BTreeSet<Vec<u8>> = (0..70_000).map(|number| request(1, 2, number, 0)).collect();
        assert_eq!(all.len(), 70_000);
        assert_eq!(request(1, 2, 0, 0), b"");
        assert_eq!(request(1, 2, 9, 0).len(), 1);
    }

    #[test]
    fn one_changed_byte_changes_the_digest() {
        let bytes = request(1, 1, 1, 1000);
        for at in [0, 7, 8, 500, 998, 999] {
            let mut other = bytes.clone();
            other[at] ^= 1;
            assert_ne!(digest(&bytes), digest(&other));
        }
        assert_ne!(digest(&[]), digest(&[0]));
    }
}
