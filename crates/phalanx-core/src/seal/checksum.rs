//! CRC-32C, the checksum of packets that are not sealed.
//!
//! Source: the Castagnoli polynomial as in RFC 3720, appendix B.4. The library multiplies without carries, many bytes
//! at once, where the processor can; tables alone made an unsealed packet dearer than a sealed one.

use crc_fast::{CrcAlgorithm, Digest};

/// The checksum of the concatenation of `parts`, which the caller need not join first.
#[expect(clippy::cast_possible_truncation, reason = "the library returns 64 bits for every algorithm")]
pub(super) fn crc32c(parts: &[&[u8]]) -> u32 {
    let mut sum = Digest::new(CrcAlgorithm::Crc32Iscsi);
    parts.iter().for_each(|part| sum.update(part));
    // The library returns 64 bits for every algorithm; CRC-32C fills the lower half.
    sum.finalize() as u32
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::crc32c;

    /// Castagnoli's polynomial, lowest bit first.
    const POLYNOMIAL: u32 = 0x82f6_3b78;

    /// The definition, one bit at a time: slow, and independent of the library.
    fn by_definition(bytes: &[u8]) -> u32 {
        !bytes
            .iter()
            .fold(!0, |sum, byte| (0..8).fold(sum ^ u32::from(*byte), |sum, _| (sum >> 1) ^ (POLYNOMIAL * (sum & 1))))
    }

    #[test]
    fn known_values() {
        assert_eq!(crc32c(&[b"123456789"]), 0xe306_9283);
        // RFC 3720, appendix B.4.
        assert_eq!(crc32c(&[&[0; 32]]), 0x8a91_36aa);
        assert_eq!(crc32c(&[&[0xff; 32]]), 0x62a8_ab43);
        assert_eq!(crc32c(&[]), 0);
    }

    proptest! {
        #[test]
        fn agrees_with_the_definition_however_cut(bytes: Vec<u8>, cut: usize) {
            let (front, back) = bytes.split_at(cut % (bytes.len() + 1));
            prop_assert_eq!(crc32c(&[front, back]), by_definition(&bytes));
        }
    }
}
