//! The cell key, and the key of each sender, which is derived from it.

use std::fmt;
use std::hint::black_box;
use std::sync::Arc;

use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, Tag, UnboundKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, Prk, Salt};

use super::Associated;
use crate::id::Incarnation;
use crate::wire::Header;

/// The secret all processes of a cell share: 32 random bytes. Clones share one copy, overwritten when the last goes.
#[derive(Clone)]
pub struct CellKey(Arc<Secret>);

impl CellKey {
    /// Length, in bytes.
    pub const LEN: usize = 32;

    /// The key made of these bytes, which must come from a generator fit for keys.
    #[must_use]
    pub fn from_bytes(bytes: [u8; Self::LEN]) -> Self {
        Self(Arc::new(Secret(bytes)))
    }

    /// The key written as 64 hexadecimal digits, as [`Self::to_hex`] gives; blanks around them are ignored.
    ///
    /// # Errors
    /// [`BadKey`] when it is anything else. The error does not repeat the text.
    pub fn from_hex(text: &str) -> Result<Self, BadKey> {
        let text = text.trim();
        if text.len() != 2 * Self::LEN {
            return Err(BadKey);
        }
        let mut secret = Secret([0; Self::LEN]);
        for (byte, pair) in secret.0.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            for &digit in pair {
                let value = char::from(digit).to_digit(16).ok_or(BadKey)?;
                *byte = *byte << 4 | value as u8;
            }
        }
        Ok(Self(Arc::new(secret)))
    }

    /// The key as 64 hexadecimal digits, for a key file. Handle with care.
    #[must_use]
    pub fn to_hex(&self) -> String {
        self.0.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl fmt::Debug for CellKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CellKey(redacted)")
    }
}

/// Not a cell key: 64 hexadecimal digits were expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("bad cell key: it must be 64 hexadecimal digits")]
pub struct BadKey;

/// Bytes that are overwritten when they are given up.
struct Secret([u8; CellKey::LEN]);

impl Drop for Secret {
    fn drop(&mut self) {
        self.0.fill(0);
        // Without a reader the compiler could leave out a write to what is about to be gone.
        black_box(&self.0);
    }
}

/// Draws the keys of a cell's senders.
pub(super) struct KeySource {
    extracted: Prk,
    /// Length and name of the cell: the fixed part of what names a key.
    cell: Vec<u8>,
}

impl KeySource {
    pub(super) fn new(key: &CellKey, cell: &str) -> Self {
        let mut named = (cell.len() as u64).to_le_bytes().to_vec();
        named.extend_from_slice(cell.as_bytes());
        Self { extracted: Salt::new(HKDF_SHA256, SALT).extract(&key.0.0), cell: named }
    }

    /// The key under which `sender` seals.
    pub(super) fn of(&self, sender: Incarnation) -> SenderKey {
        let sender = sender.0.to_le_bytes();
        let info = [&self.cell[..], &sender[..]];
        let okm = self.extracted.expand(&info, &AES_128_GCM).expect("16 bytes are less than HKDF's limit");
        SenderKey(LessSafeKey::new(UnboundKey::from(okm)))
    }
}

/// One sender's key.
pub(super) struct SenderKey(LessSafeKey);

impl SenderKey {
    /// Encrypts `frames` in place and gives the tag.
    pub(super) fn seal(&self, header: &Header, associated: &Associated, frames: &mut [u8]) -> Tag {
        self.0
            .seal_in_place_separate_tag(nonce(header), Aad::from(associated), frames)
            .expect("a packet is shorter than the cipher's limit of 64 GiB")
    }

    /// Decrypts in place; `None` when the tag, the last bytes of `sealed`, does not fit.
    pub(super) fn open<'a>(
        &self,
        header: &Header,
        associated: &Associated,
        sealed: &'a mut [u8],
    ) -> Option<&'a mut [u8]> {
        self.0.open_in_place(nonce(header), Aad::from(associated), sealed).ok()
    }
}

/// Space, then number: both stand in the header, so the receiver needs nothing else to know it.
fn nonce(header: &Header) -> Nonce {
    let mut bytes = [0; NONCE_LEN];
    bytes[..4].copy_from_slice(&header.space.0.to_le_bytes());
    bytes[4..].copy_from_slice(&header.number.0.to_le_bytes());
    Nonce::assume_unique_for_key(bytes)
}

/// Names what the keys are for; another format version takes another salt.
const SALT: &[u8] = b"phalanx wire 1";

#[cfg(test)]
mod tests {
    use super::{BadKey, CellKey};

    #[test]
    fn hex_there_and_back() {
        let mut bytes = [0; CellKey::LEN];
        for (index, byte) in bytes.iter_mut().enumerate() {
            *byte = index as u8 * 8 + 1;
        }
        let key = CellKey::from_bytes(bytes);
        let text = key.to_hex();
        assert!(text.starts_with("01091119"));
        let again = CellKey::from_hex(&format!(" {}\n", text.to_uppercase())).expect("hex of a key");
        assert_eq!(again.0.0, bytes);
    }

    #[test]
    fn refuses_what_is_no_key() {
        let good = "0".repeat(64);
        assert!(CellKey::from_hex(&good).is_ok());
        for bad in ["", "00", &good[1..], &format!("{good}0"), &format!("{}g", &good[1..]), &format!("+{}", &good[1..])]
        {
            assert_eq!(CellKey::from_hex(bad).err(), Some(BadKey), "{bad:?}");
        }
        // As many bytes, not as many digits.
        assert_eq!(CellKey::from_hex(&"\u{e9}".repeat(32)).err(), Some(BadKey));
    }

    #[test]
    fn debug_shows_no_key() {
        let shown = format!("{:?}", super::super::Security::Sealed(CellKey::from_bytes([0xab; 32])));
        assert_eq!(shown, "Sealed(CellKey(redacted))");
    }
}
