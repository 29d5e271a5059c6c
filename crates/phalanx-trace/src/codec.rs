//! Length prefixes: little-endian base 128, at most three bytes (`RECORD_BYTES_MAX` fits).

use crate::RECORD_BYTES_MAX;

const _: () = assert!(RECORD_BYTES_MAX < 1 << 21, "three bytes of seven bits hold every length");

/// A length prefix as read from the front of some bytes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Prefix {
    /// The length and how many bytes the prefix takes.
    Len(usize, usize),
    /// The bytes end inside the prefix.
    Cut,
    /// Not a length of this format.
    Bad,
}

/// Appends the prefix for `len`, which is at most `RECORD_BYTES_MAX`.
#[expect(clippy::cast_possible_truncation, reason = "the low bits are meant")]
pub(crate) fn put_prefix(out: &mut Vec<u8>, len: usize) {
    debug_assert!(len <= RECORD_BYTES_MAX);
    let mut rest = len;
    while rest >= 0x80 {
        out.push((rest & 0x7f) as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// Reads a prefix from the front of `bytes`.
pub(crate) fn take_prefix(bytes: &[u8]) -> Prefix {
    let mut len = 0usize;
    for (i, &b) in bytes.iter().take(3).enumerate() {
        len |= usize::from(b & 0x7f) << (7 * i);
        if b & 0x80 == 0 {
            return if len <= RECORD_BYTES_MAX { Prefix::Len(len, i + 1) } else { Prefix::Bad };
        }
    }
    if bytes.len() < 3 { Prefix::Cut } else { Prefix::Bad }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_come_back() {
        for len in [0, 1, 127, 128, 16_383, 16_384, RECORD_BYTES_MAX] {
            let mut out = Vec::new();
            put_prefix(&mut out, len);
            assert_eq!(take_prefix(&out), Prefix::Len(len, out.len()));
            assert_eq!(take_prefix(&out[..out.len() - 1]), Prefix::Cut);
        }
    }

    #[test]
    fn lengths_beyond_the_bound_are_bad() {
        assert_eq!(take_prefix(&[0xff, 0xff, 0x7f]), Prefix::Bad);
        assert_eq!(take_prefix(&[0xff, 0xff, 0xff]), Prefix::Bad);
    }
}
