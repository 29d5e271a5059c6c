//! Byte strings in postcard messages, copied as a whole. A plain `Vec<u8>` has the same encoding, but is copied byte by
//! byte.

use serde::{Deserialize, Deserializer, Serializer};

pub(crate) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_bytes(bytes)
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    <&'de [u8]>::deserialize(deserializer).map(<[u8]>::to_vec)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde::{Deserialize, Serialize};

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Plain(u64, Vec<u8>, u8);

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Whole(u64, #[serde(with = "super")] Vec<u8>, u8);

    proptest! {
        #[test]
        fn the_encoding_is_that_of_a_vector(before: u64, bytes: Vec<u8>, after: u8, cut in 0..40usize) {
            let plain = postcard::to_allocvec(&Plain(before, bytes.clone(), after)).expect("fits");
            let whole = postcard::to_allocvec(&Whole(before, bytes.clone(), after)).expect("fits");
            prop_assert_eq!(&plain, &whole);
            prop_assert_eq!(postcard::from_bytes::<Whole>(&plain).ok(), Some(Whole(before, bytes, after)));
            let part = &plain[..plain.len().saturating_sub(cut)];
            prop_assert_eq!(postcard::from_bytes::<Whole>(part).is_ok(), postcard::from_bytes::<Plain>(part).is_ok());
        }
    }
}
