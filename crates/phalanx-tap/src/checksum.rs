//! The Internet checksum (RFC 1071).

/// Adds up bytes that come in pieces of any length.
#[derive(Default)]
pub(crate) struct Sum {
    sum: u64,
    /// A piece ended within a word.
    is_odd: bool,
}

impl Sum {
    pub(crate) fn add(&mut self, mut bytes: &[u8]) {
        if self.is_odd
            && let [low, rest @ ..] = bytes
        {
            (self.sum, self.is_odd, bytes) = (self.sum + u64::from(*low), false, rest);
        }
        let (words, last) = bytes.as_chunks();
        self.sum += words.iter().map(|word| u64::from(u16::from_be_bytes(*word))).sum::<u64>();
        if let [high] = last {
            (self.sum, self.is_odd) = (self.sum + (u64::from(*high) << 8), true);
        }
    }

    /// What makes the sum of all ffff.
    #[expect(clippy::cast_possible_truncation, reason = "it is folded to 16 bits")]
    pub(crate) fn complement(&self) -> [u8; 2] {
        let mut sum = self.sum;
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        (!(sum as u16)).to_be_bytes()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Sum;

    /// The example of RFC 1071, section 3.
    #[test]
    fn the_sum_of_the_document() {
        let mut sum = Sum::default();
        sum.add(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]);
        assert_eq!(sum.complement(), (!0xddf2_u16).to_be_bytes());
    }

    proptest! {
        #[test]
        fn pieces_have_the_sum_of_the_whole(bytes in proptest::collection::vec(any::<u8>(), 0..60), a in 0..60_usize, b in 0..60_usize) {
            let (a, b) = (a.min(b).min(bytes.len()), a.max(b).min(bytes.len()));
            let (mut whole, mut pieces) = (Sum::default(), Sum::default());
            whole.add(&bytes);
            [&bytes[..a], &bytes[a..b], &bytes[b..]].into_iter().for_each(|piece| pieces.add(piece));
            prop_assert_eq!(whole.complement(), pieces.complement());
        }
    }
}
