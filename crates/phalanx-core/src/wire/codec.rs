//! The primitives of frames: little-endian integers, variable-length integers, byte strings.
//!
//! Parsing is total: for any bytes it yields a value or [`Malformed`], allocates nothing and never panics. Every number
//! has one encoding, so equal meaning is equal bytes.

/// The bytes end too early, or a number is not in its shortest encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed bytes")]
pub struct Malformed;

/// Reads values from the front of a byte slice. After an error its position is unchanged.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// A reader at the start of `bytes`.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Number of bytes left.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// Whether no bytes are left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Takes all bytes that are left.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    /// Reads one byte.
    ///
    /// # Errors
    /// [`Malformed`] when nothing is left.
    #[inline]
    pub fn u8(&mut self) -> Result<u8, Malformed> {
        self.array().map(|[byte]| byte)
    }

    /// Reads two bytes, little endian.
    ///
    /// # Errors
    /// [`Malformed`] when fewer are left.
    pub fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_le_bytes)
    }

    /// Reads four bytes, little endian.
    ///
    /// # Errors
    /// [`Malformed`] when fewer are left.
    pub fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_le_bytes)
    }

    /// Reads eight bytes, little endian.
    ///
    /// # Errors
    /// [`Malformed`] when fewer are left.
    pub fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_le_bytes)
    }

    /// Reads a variable-length integer: 7 bits a byte, lowest first, the high bit set on all but the last (LEB128).
    ///
    /// # Errors
    /// [`Malformed`] if the bytes end first, the value exceeds 64 bits, or a shorter encoding exists.
    #[inline]
    pub fn varint(&mut self) -> Result<u64, Malformed> {
        // Most numbers fit one byte, so this path is inlined and the loop is not.
        if let Some((&byte, rest)) = self.rest.split_first()
            && byte < 0x80
        {
            self.rest = rest;
            return Ok(u64::from(byte));
        }
        self.long_varint()
    }

    fn long_varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0;
        // A longer encoding is malformed, however many bytes follow.
        for (index, &byte) in self.rest.iter().take(VARINT_LEN_MAX).enumerate() {
            value |= u64::from(byte & 0x7f) << (7 * index);
            if byte & 0x80 == 0 {
                // The tenth byte holds only the 64th bit. A zero at the end has no value: without this check one number
                // would have several encodings, and equal values different bytes.
                let overflows = index == VARINT_LEN_MAX - 1 && byte > 1;
                let overlong = index > 0 && byte == 0;
                if overflows || overlong {
                    return Err(Malformed);
                }
                self.rest = self.rest.get(index + 1..).ok_or(Malformed)?;
                return Ok(value);
            }
        }
        Err(Malformed)
    }

    /// Reads a variable-length integer of at most 32 bits.
    ///
    /// # Errors
    /// As [`Self::varint`], and if the value exceeds 32 bits.
    pub fn varint_u32(&mut self) -> Result<u32, Malformed> {
        let mut ahead = self.clone();
        let value = u32::try_from(ahead.varint()?).map_err(|_too_large| Malformed)?;
        *self = ahead;
        Ok(value)
    }

    /// Reads `len` bytes.
    ///
    /// # Errors
    /// [`Malformed`] when fewer are left.
    #[inline]
    pub fn bytes(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(Malformed)?;
        self.rest = rest;
        Ok(taken)
    }

    /// Reads `N` bytes.
    ///
    /// # Errors
    /// [`Malformed`] when fewer are left.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(Malformed)?;
        self.rest = rest;
        Ok(*taken)
    }

    /// Reads a byte string behind its length, a varint.
    ///
    /// # Errors
    /// [`Malformed`] if the length is malformed, or fewer bytes are left.
    #[inline]
    pub fn prefixed(&mut self) -> Result<&'a [u8], Malformed> {
        let mut ahead = self.clone();
        let len = usize::try_from(ahead.varint()?).map_err(|_too_large| Malformed)?;
        let taken = ahead.bytes(len)?;
        *self = ahead;
        Ok(taken)
    }
}

/// The most bytes of a varint.
pub const VARINT_LEN_MAX: usize = 10;

/// Number of bytes that [`put_varint`] appends for `value`.
#[must_use]
pub fn varint_len(value: u64) -> usize {
    // One byte for each 7 bits begun; zero takes one, too.
    let bits = u64::BITS - (value | 1).leading_zeros();
    bits.div_ceil(7) as usize
}

/// Appends one byte.
pub fn put_u8(out: &mut Vec<u8>, value: u8) {
    out.push(value);
}

/// Appends two bytes, little endian.
pub fn put_u16(out: &mut Vec<u8>, value: u16) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends four bytes, little endian.
pub fn put_u32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends eight bytes, little endian.
pub fn put_u64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends a variable-length integer; see [`Reader::varint`].
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the low bits are meant")]
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends `bytes` without their length.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(bytes);
}

/// Appends a byte string behind its length, a varint.
pub fn put_prefixed(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests;
