//! Tagged entries: fields that later builds add to a record, and settings that a cell agrees on (`docs/levels.md`).

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::codec::{Malformed, Reader, put_prefixed, put_varint};

/// The most bytes of one record's entries: 1 MiB. Builds that know at most level 2 take 4,096, and are sent no more.
pub const TAGS_BYTES_MAX: usize = 1 << 20;

/// Entries of a tag and some bytes each, in ascending order of tags.
///
/// Unknown entries are kept with their bytes, so that a record that is passed on does not change. Otherwise two members
/// that propose the same record one after the other would propose two different ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tags(Vec<u8>);

impl Tags {
    /// Takes encoded entries.
    ///
    /// # Errors
    /// [`Malformed`] if an entry ends too early, tags do not ascend, or the entries exceed [`TAGS_BYTES_MAX`].
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        // A peer's record is kept in the directory and sent to every joiner, so its size is bounded here.
        if bytes.len() > TAGS_BYTES_MAX {
            return Err(Malformed);
        }
        let mut r = Reader::new(bytes);
        let mut least = 0;
        while !r.is_empty() {
            let tag = r.varint()?;
            // Strictly ascending: equal records must have equal bytes, and a tag must have one value.
            if tag < least {
                return Err(Malformed);
            }
            least = tag.checked_add(1).ok_or(Malformed)?;
            r.prefixed()?;
        }
        Ok(Self(bytes.to_vec()))
    }

    /// The encoded entries.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether there are no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The entries, in the order of their tags.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let mut r = Reader::new(&self.0);
        // [`Self::parse`] read the entries once, so reading cannot fail here.
        std::iter::from_fn(move || Some((r.varint().ok()?, r.prefixed().ok()?)))
    }

    /// The bytes of one entry, if it is there.
    #[must_use]
    pub fn get(&self, tag: u64) -> Option<&[u8]> {
        self.iter().find(|(found, _)| *found == tag).map(|(_, bytes)| bytes)
    }

    /// The value of an entry that holds one varint.
    ///
    /// # Errors
    /// [`Malformed`] if the entry holds anything else.
    pub fn number(&self, tag: u64) -> Result<Option<u64>, Malformed> {
        let Some(bytes) = self.get(tag) else { return Ok(None) };
        let mut r = Reader::new(bytes);
        let number = r.varint()?;
        if r.is_empty() { Ok(Some(number)) } else { Err(Malformed) }
    }

    /// Adds an entry, in place of an entry with the same tag.
    pub fn put(&mut self, tag: u64, bytes: &[u8]) {
        let mut one = Vec::new();
        put_entry(&mut one, tag, bytes);
        *self = self.under(&Self(one));
    }

    /// Removes an entry, if it is there.
    pub fn remove(&mut self, tag: u64) {
        let mut kept = Vec::with_capacity(self.0.len());
        self.iter().filter(|(found, _)| *found != tag).for_each(|(tag, bytes)| put_entry(&mut kept, tag, bytes));
        self.0 = kept;
    }

    /// The value of an entry of [`Self::put_value`].
    ///
    /// # Errors
    /// [`Malformed`] if the entry holds anything else.
    pub fn value<T: serde::de::DeserializeOwned>(&self, tag: u64) -> Result<Option<T>, Malformed> {
        let Some(bytes) = self.get(tag) else { return Ok(None) };
        match postcard::take_from_bytes(bytes) {
            Ok((value, [])) => Ok(Some(value)),
            _ => Err(Malformed),
        }
    }

    /// Adds an entry with a value in the encoding of control messages. A value that cannot be encoded is not added.
    pub fn put_value(&mut self, tag: u64, value: &impl Serialize) {
        if let Ok(bytes) = postcard::to_allocvec(value) {
            self.put(tag, &bytes);
        }
    }

    /// Adds an entry with one varint.
    pub fn put_number(&mut self, tag: u64, number: u64) {
        let mut bytes = Vec::new();
        put_varint(&mut bytes, number);
        self.put(tag, &bytes);
    }

    /// Whether no tag is in both.
    #[must_use]
    pub fn is_apart_from(&self, other: &Self) -> bool {
        self.iter().all(|(tag, _)| other.get(tag).is_none())
    }

    /// Whether these entries and those of `newer` fit into one record.
    #[must_use]
    pub fn fits_under(&self, newer: &Self) -> bool {
        self.under(newer).0.len() <= TAGS_BYTES_MAX
    }

    /// The entries of both. Those of `newer` replace those with the same tag.
    #[must_use]
    pub fn under(&self, newer: &Self) -> Self {
        let kept = self.iter().filter(|(tag, _)| newer.get(*tag).is_none());
        let mut entries: Vec<(u64, &[u8])> = kept.chain(newer.iter()).collect();
        // Ascending tags give equal records equal bytes.
        entries.sort_by_key(|(tag, _)| *tag);
        let mut out = Vec::new();
        for (tag, bytes) in entries {
            put_entry(&mut out, tag, bytes);
        }
        Self(out)
    }
}

/// Appends `message` to `out`, and `tail`, the entries that later builds add.
///
/// # Errors
/// If the message cannot be encoded.
pub fn put_with_tail(message: &impl Serialize, tail: &Tags, out: Vec<u8>) -> Result<Vec<u8>, postcard::Error> {
    postcard::to_extend(&(message, tail), out)
}

/// Reads what [`put_with_tail`] wrote. The caller ignores entries that it does not know.
///
/// # Errors
/// [`Malformed`] if the bytes are no such message, or more follows.
pub fn read_with_tail<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<(T, Tags), Malformed> {
    match postcard::take_from_bytes(bytes) {
        Ok((message, [])) => Ok(message),
        _ => Err(Malformed),
    }
}

fn put_entry(out: &mut Vec<u8>, tag: u64, bytes: &[u8]) {
    put_varint(out, tag);
    put_prefixed(out, bytes);
}

impl Serialize for Tags {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for Tags {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(<&'de [u8]>::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_unknown_is_kept_as_it_came() {
        let bytes = [1, 2, 7, 7, 9, 0, 200, 1, 1, 5];
        let tags = Tags::parse(&bytes).expect("tags 1, 9 and 200");
        assert_eq!((tags.get(1), tags.get(9), tags.get(2)), (Some(&[7, 7][..]), Some(&[][..]), None));
        let sent = postcard::to_allocvec(&tags).expect("fits");
        assert_eq!((sent[0], &sent[1..]), (10, &bytes[..]));
        assert_eq!(postcard::from_bytes(&sent), Ok(tags));
    }

    #[test]
    fn entries_out_of_order_twice_or_cut_short_are_refused() {
        for bytes in [&[2, 0, 1, 0][..], &[1, 0, 1, 0], &[1], &[1, 2, 0], &[0x80, 0x00, 0]] {
            assert_eq!(Tags::parse(bytes), Err(Malformed), "{bytes:?}");
        }
        let with = |len: usize| {
            let mut out = Vec::new();
            put_entry(&mut out, 1, &vec![0; len]);
            out
        };
        assert!(Tags::parse(&with(TAGS_BYTES_MAX - 4)).is_ok());
        assert_eq!(Tags::parse(&with(TAGS_BYTES_MAX - 3)), Err(Malformed));
    }

    #[test]
    fn a_newer_entry_takes_the_place_of_the_older() {
        let mut tags = Tags::default();
        tags.put_number(7, 300);
        tags.put_number(2, 1);
        tags.put(7, b"x");
        assert_eq!(tags.iter().collect::<Vec<_>>(), [(2, &[1][..]), (7, &b"x"[..])]);
        assert_eq!((tags.number(2), tags.number(3)), (Ok(Some(1)), Ok(None)));
        tags.put(2, &[1, 1]);
        assert_eq!(tags.number(2), Err(Malformed));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(tags) = Tags::parse(&bytes) {
                let mut again = Tags::default();
                tags.iter().for_each(|(tag, bytes)| again.put(tag, bytes));
                prop_assert_eq!(again, tags);
            }
        }
    }
}
