//! The cell key, and the key of each sender, which is derived from it.

use std::fmt;
use std::hint::black_box;
use std::sync::Arc;

use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, Tag, UnboundKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, Prk, Salt};

use super::Associated;
use crate::id::Incarnation;
use crate::wire::Header;

/// The secret that all processes of a cell share: 32 random bytes. Clones share one copy. The last clone overwrites it
/// when it is dropped.
#[derive(Clone)]
pub struct CellKey(Arc<Secret>);

impl CellKey {
    /// Length of a key, in bytes.
    pub const LEN: usize = 32;

    /// A key of these bytes, which must come from a cryptographic generator.
    #[must_use]
    pub fn from_bytes(bytes: [u8; Self::LEN]) -> Self {
        Self(Arc::new(Secret(bytes)))
    }

    /// A key from 64 hexadecimal digits, as [`Self::to_hex`] writes it. Blanks around the digits are ignored.
    ///
    /// # Errors
    /// [`BadKey`] for any other text. The error does not repeat the text, because it may be most of a key.
    pub fn from_hex(text: &str) -> Result<Self, BadKey> {
        let text = text.trim();
        if text.len() != 2 * Self::LEN {
            return Err(BadKey);
        }
        // `Secret` from the start, so that an error overwrites the digits read so far.
        let mut secret = Secret([0; Self::LEN]);
        for (byte, pair) in secret.0.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            for &digit in pair {
                let value = char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok()).ok_or(BadKey)?;
                *byte = *byte << 4 | value;
            }
        }
        Ok(Self(Arc::new(secret)))
    }

    /// The key as 64 hexadecimal digits, for a key file. The caller keeps the text secret.
    #[must_use]
    pub fn to_hex(&self) -> String {
        self.0.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl fmt::Debug for CellKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A key must not reach a log through a derived `Debug`.
        f.write_str("CellKey(redacted)")
    }
}

/// The text is no cell key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("bad cell key: it must be 64 hexadecimal digits")]
pub struct BadKey;

/// Bytes that are overwritten when they are dropped.
struct Secret([u8; CellKey::LEN]);

impl Drop for Secret {
    fn drop(&mut self) {
        self.0.fill(0);
        // Without a reader, the compiler could drop the write to memory that is about to be freed.
        black_box(&self.0);
    }
}

/// Derives the keys of a cell's senders from the cell key (HKDF, RFC 5869).
pub(super) struct KeySource {
    extracted: Prk,
    /// Length and name of the cell: the part of the derivation info that is the same for all senders.
    cell: Vec<u8>,
}

impl KeySource {
    pub(super) fn new(key: &CellKey, cell: &str) -> Self {
        // The length keeps name and incarnation apart: no other pair has the same bytes.
        let mut named = (cell.len() as u64).to_le_bytes().to_vec();
        named.extend_from_slice(cell.as_bytes());
        Self { extracted: Salt::new(HKDF_SHA256, SALT).extract(&key.0.0), cell: named }
    }

    /// The key with which `sender` seals. Each incarnation has its own, so that nonces of different senders never meet.
    pub(super) fn of(&self, sender: Incarnation) -> SenderKey {
        let sender = sender.0.to_le_bytes();
        let info = [&self.cell[..], &sender[..]];
        let okm = self.extracted.expand(&info, &AES_128_GCM).expect("16 bytes are less than HKDF's limit");
        SenderKey(LessSafeKey::new(UnboundKey::from(okm)))
    }
}

/// The key of one sender.
pub(super) struct SenderKey(LessSafeKey);

impl SenderKey {
    /// Encrypts `frames` in place and returns the tag.
    pub(super) fn seal(&self, header: &Header, associated: &Associated, frames: &mut [u8]) -> Tag {
        self.0
            .seal_in_place_separate_tag(nonce(header), Aad::from(associated), frames)
            .expect("a packet is shorter than the cipher's limit of 64 GiB")
    }

    /// Decrypts `sealed` in place. `None` if its last bytes, the tag, do not verify.
    pub(super) fn open<'a>(
        &self,
        header: &Header,
        associated: &Associated,
        sealed: &'a mut [u8],
    ) -> Option<&'a mut [u8]> {
        self.0.open_in_place(nonce(header), Aad::from(associated), sealed).ok()
    }
}

/// The nonce: space, then number. The receiver knows both from the header, so nothing is sent for it.
fn nonce(header: &Header) -> Nonce {
    let mut bytes = [0; NONCE_LEN];
    bytes[..4].copy_from_slice(&header.space.0.to_le_bytes());
    bytes[4..].copy_from_slice(&header.number.0.to_le_bytes());
    // Unique because numbers of a space only grow, and a retransmission seals the same bytes ([`super::Sealer`]).
    Nonce::assume_unique_for_key(bytes)
}

/// The purpose of the derived keys. Another version of the format takes another salt, so that it has other keys.
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
        // The right number of bytes, but not of digits.
        assert_eq!(CellKey::from_hex(&"\u{e9}".repeat(32)).err(), Some(BadKey));
    }

    #[test]
    fn debug_shows_no_key() {
        let shown = format!("{:?}", super::super::Security::Sealed(CellKey::from_bytes([0xab; 32])));
        assert_eq!(shown, "Sealed(CellKey(redacted))");
    }
}
