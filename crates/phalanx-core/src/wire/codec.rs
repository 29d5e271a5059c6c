//! The primitives of frames: little-endian integers, variable-length integers, byte strings.
//!
//! Parsing is total: for any bytes it yields a value or [`Malformed`], allocates nothing and never panics. Every number
//! has one encoding, so equal meaning is equal bytes.

/// The bytes end too early, or a number is not encoded in its one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed bytes")]
pub struct Malformed;

/// Takes values off the front of a byte slice. After an error its position is unchanged.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Reads from the start of `bytes`.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// How many bytes are left.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// Whether nothing is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// All that is left, taken.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    /// One byte.
    ///
    /// # Errors
    /// [`Malformed`] when nothing is left.
    #[inline]
    pub fn u8(&mut self) -> Result<u8, Malformed> {
        self.array().map(|[byte]| byte)
    }

    /// Two bytes, little endian.
    ///
    /// # Errors
    /// [`Malformed`] when fewer are left.
    pub fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_le_bytes)
    }

    /// Four bytes, little endian.
    ///
    /// # Errors
    /// [`Malformed`] when fewer are left.
    pub fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_le_bytes)
    }

    /// Eight bytes, little endian.
    ///
    /// # Errors
    /// [`Malformed`] when fewer are left.
    pub fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_le_bytes)
    }

    /// A variable-length integer: 7 bits a byte, lowest first, the high bit set on all but the last (LEB128).
    ///
    /// # Errors
    /// [`Malformed`] when the bytes end first, it does not fit 64 bits, or a shorter encoding exists.
    #[inline]
    pub fn varint(&mut self) -> Result<u64, Malformed> {
        // Most numbers are small.
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
        for (index, &byte) in self.rest.iter().take(VARINT_LEN_MAX).enumerate() {
            value |= u64::from(byte & 0x7f) << (7 * index);
            if byte & 0x80 == 0 {
                // The tenth byte holds the 64th bit alone; a closing zero says nothing.
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

    /// A variable-length integer that must fit 32 bits.
    ///
    /// # Errors
    /// As [`Self::varint`], and when it does not fit.
    pub fn varint_u32(&mut self) -> Result<u32, Malformed> {
        let mut ahead = self.clone();
        let value = u32::try_from(ahead.varint()?).map_err(|_| Malformed)?;
        *self = ahead;
        Ok(value)
    }

    /// The next `len` bytes.
    ///
    /// # Errors
    /// [`Malformed`] when fewer are left.
    #[inline]
    pub fn bytes(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(Malformed)?;
        self.rest = rest;
        Ok(taken)
    }

    /// A fixed number of bytes.
    ///
    /// # Errors
    /// [`Malformed`] when fewer are left.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(Malformed)?;
        self.rest = rest;
        Ok(*taken)
    }

    /// A byte string with its length as a varint in front.
    ///
    /// # Errors
    /// [`Malformed`] when the length is, or fewer bytes are left.
    #[inline]
    pub fn prefixed(&mut self) -> Result<&'a [u8], Malformed> {
        let mut ahead = self.clone();
        let len = usize::try_from(ahead.varint()?).map_err(|_| Malformed)?;
        let taken = ahead.bytes(len)?;
        *self = ahead;
        Ok(taken)
    }
}

/// The most bytes a varint takes.
pub const VARINT_LEN_MAX: usize = 10;

/// How many bytes [`put_varint`] appends for `value`.
#[must_use]
pub fn varint_len(value: u64) -> usize {
    // One byte for each 7 bits begun, one for zero.
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

/// Appends a variable-length integer, see [`Reader::varint`].
#[inline]
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends bytes as they are.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(bytes);
}

/// Appends a byte string with its length as a varint in front.
pub fn put_prefixed(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests;
