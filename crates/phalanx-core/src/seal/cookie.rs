//! Cookies: they let a process answer a stranger without keeping state for it.

use std::fmt;

use aws_lc_rs::{constant_time, hmac};

/// A secret of this process alone. It signs what a stranger has to bring back.
///
/// A returned cookie proves that the stranger receives packets at its address and answered this process. If the signed
/// bytes hold a time, it also proves that the answer is recent. Until then the process keeps no state for the stranger.
pub struct CookieKey(hmac::Key);

impl CookieKey {
    /// Length of a cookie, in bytes.
    pub const COOKIE_LEN: usize = 16;

    /// A key from 32 fresh random bytes.
    #[must_use]
    pub fn new(random: &[u8; 32]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, random))
    }

    /// The cookie for `data`: the first 16 bytes of its HMAC-SHA256.
    #[must_use]
    pub fn mac(&self, data: &[u8]) -> [u8; Self::COOKIE_LEN] {
        let full = hmac::sign(&self.0, data);
        let mut cookie = [0; Self::COOKIE_LEN];
        // Truncated to half, which RFC 2104, section 5, allows.
        for (to, from) in cookie.iter_mut().zip(full.as_ref()) {
            *to = *from;
        }
        cookie
    }

    /// Whether `cookie` is the cookie for `data`.
    #[must_use]
    // In constant time: how long a comparison takes must not show how many bytes of a guess are right.
    pub fn verify(&self, data: &[u8], cookie: &[u8]) -> bool {
        constant_time::verify_slices_are_equal(&self.mac(data), cookie).is_ok()
    }
}

impl fmt::Debug for CookieKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CookieKey(redacted)")
    }
}

#[cfg(test)]
mod tests {
    use super::CookieKey;

    #[test]
    fn only_the_same_data_under_the_same_key_verifies() {
        let key = CookieKey::new(&[7; 32]);
        let cookie = key.mac(b"from here, at ten");
        assert!(key.verify(b"from here, at ten", &cookie));
        assert!(!key.verify(b"from here, at six", &cookie));
        assert!(!CookieKey::new(&[8; 32]).verify(b"from here, at ten", &cookie));
        for bit in 0..8 * cookie.len() {
            let mut bent = cookie;
            bent[bit / 8] ^= 1 << (bit % 8);
            assert!(!key.verify(b"from here, at ten", &bent), "bit {bit}");
        }
    }

    #[test]
    fn a_part_of_a_cookie_is_no_cookie() {
        let key = CookieKey::new(&[7; 32]);
        let cookie = key.mac(b"data");
        assert!(!key.verify(b"data", &[]));
        assert!(!key.verify(b"data", &cookie[..15]));
        assert!(!key.verify(b"data", &[&cookie[..], &[0]].concat()));
    }
}
