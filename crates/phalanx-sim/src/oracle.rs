//! The nonce oracle: (sender incarnation, space, number) names one byte string for ever. If two different packets were
//! sealed under one nonce, both would be given away, and no trace of deliveries would show it.

use phalanx_core::wire::{PacketNumber, Space};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// The name of a sealed packet: sender, space, number.
pub(crate) type PacketName = (u64, Space, PacketNumber);

/// Every name seen and the hash of its bytes. Never iterated, so its order cannot matter.
#[derive(Debug, Default)]
pub(crate) struct NonceOracle {
    /// Hashes by sender and space, indexed by number; 0: none. Numbers count up from 1, so hardly any is missing.
    spaces: HashMap<(u64, Space), Vec<u64>, BuildHasherDefault<Folding>>,
    /// Names whose number was far ahead of the earlier ones.
    far: HashMap<PacketName, u64, BuildHasherDefault<Folding>>,
    names: usize,
}

/// Bound on the gap between a number and the earlier ones.
const GAP_MAX: usize = 1024;

impl NonceOracle {
    /// Returns false if `name` named other bytes before.
    pub(crate) fn check(&mut self, name: PacketName, packet: &[u8]) -> bool {
        let hash = hash_bytes(packet).max(1);
        let (sender, space, number) = name;
        let hashes = self.spaces.entry((sender, space)).or_default();
        let index = usize::try_from(number.0).unwrap_or(usize::MAX);
        if index.saturating_sub(hashes.len()) >= GAP_MAX {
            let known = *self.far.entry(name).or_insert_with(|| {
                self.names += 1;
                hash
            });
            return known == hash;
        }
        if index >= hashes.len() {
            hashes.resize(index + 1, 0);
        }
        let known = &mut hashes[index];
        if *known == 0 {
            // The name may have been stored as far ahead.
            self.names += usize::from(!self.far.contains_key(&name));
            *known = self.far.get(&name).copied().unwrap_or(hash);
        }
        *known == hash
    }

    /// Number of names seen.
    pub(crate) fn len(&self) -> usize {
        self.names
    }
}

/// A fast 64-bit hash, the same on every machine. It does not resist an attacker.
pub(crate) fn hash_bytes(bytes: &[u8]) -> u64 {
    let mut hash = 0x9e37_79b9_7f4a_7c15 ^ bytes.len() as u64;
    let mut words = bytes.chunks_exact(8);
    for word in &mut words {
        let word: [u8; 8] = word.try_into().expect("chunks_exact gives eight bytes");
        hash = fold(hash ^ u64::from_le_bytes(word));
    }
    let mut tail = [0; 8];
    tail[..words.remainder().len()].copy_from_slice(words.remainder());
    fold(hash ^ u64::from_le_bytes(tail))
}

/// A 128-bit product folded on itself (the mixing step of the wyhash family).
pub(crate) fn fold(value: u64) -> u64 {
    let product = u128::from(value ^ 0xa076_1d64_78bd_642f) * 0xe703_7ed1_a0b4_28db;
    #[expect(clippy::cast_possible_truncation, reason = "the two halves are what is wanted")]
    let folded = (product as u64) ^ ((product >> 64) as u64);
    folded
}

/// A hasher for keys of a few words.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Folding(u64);

impl Hasher for Folding {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = fold(self.0.rotate_left(5) ^ hash_bytes(bytes));
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = fold(self.0.rotate_left(5) ^ value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_name_one_byte_string() {
        let mut oracle = NonceOracle::default();
        assert!(oracle.check((1, Space(2), PacketNumber(3)), b"abc"));
        assert!(oracle.check((1, Space(2), PacketNumber(3)), b"abc"), "sent again");
        assert!(oracle.check((1, Space(2), PacketNumber(4)), b"abd"));
        assert!(!oracle.check((1, Space(2), PacketNumber(3)), b"abd"), "the same nonce for other bytes");
        assert_eq!(oracle.len(), 2);
    }

    #[test]
    fn numbers_may_leap() {
        let mut oracle = NonceOracle::default();
        let far = 3 * GAP_MAX as u64;
        for number in [1, far, u64::MAX] {
            assert!(oracle.check((1, Space(2), PacketNumber(number)), b"abc"));
            assert!(oracle.check((1, Space(2), PacketNumber(number)), b"abc"));
            assert!(!oracle.check((1, Space(2), PacketNumber(number)), b"abd"));
        }
        for number in 2..=far {
            assert_eq!(
                oracle.check((1, Space(2), PacketNumber(number)), b"abd"),
                number != far,
                "{number} was sealed as abc"
            );
        }
        assert!(oracle.check((1, Space(2), PacketNumber(far)), b"abc"));
        assert_eq!(oracle.len() as u64, far + 1);
    }

    #[test]
    fn hashes_tell_small_changes_apart() {
        let base = [7_u8; 100];
        let mut seen = vec![hash_bytes(&base), hash_bytes(&base[..99])];
        for at in 0..100 {
            let mut changed = base;
            changed[at] ^= 1;
            seen.push(hash_bytes(&changed));
        }
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 102);
    }
}
