//! Snapshots: a state as bytes, all at once or in pieces that are made when they are sent.

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::DecodeError;

/// A state as bytes, frozen when it was taken.
///
/// | made by | when it is encoded | what it costs at once |
/// |---|---|---|
/// | [`Snapshot::new`] | it was before | nothing |
/// | [`Snapshot::encode`] | at once, as a whole | time and memory for all of it |
/// | [`Snapshot::encode_each`] | item by item, while it is sent | time to count its bytes, nearly that of encoding it |
/// | the same with [`Snapshot::at_most`] | item by item, while it is sent | nothing |
/// | [`Snapshot::pieces`] | piece by piece, while it is sent | nothing |
///
/// A transfer has to say first how many bytes follow. So a snapshot in pieces needs a number that the state keeps, or it
/// counts. It holds one piece in memory at a time, beside the 30 KiB or so that are sent next.
pub struct Snapshot(Kind);

enum Kind {
    Whole(Bytes),
    /// As it came: each piece ends where its number says.
    Taken {
        bytes: Bytes,
        ends: Vec<usize>,
    },
    Pieces {
        source: Box<dyn Source>,
        /// The bytes of all pieces, each with its frame; `None`: count them.
        at_most: Option<u64>,
    },
}

/// Where pieces come from.
pub(crate) trait Source: Send {
    /// The next piece.
    fn next(&mut self, out: &mut Vec<u8>) -> Option<Produced>;

    /// The bytes of all pieces, each with its frame.
    fn count_bytes(&self) -> u64;
}

/// How a piece was produced.
pub(crate) enum Produced {
    /// It was appended to the bytes that are sent.
    Appended,
    /// It is in memory, to be sent from there.
    Beside(Bytes),
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("Snapshot");
        match &self.0 {
            Kind::Whole(bytes) => shown.field("bytes", &bytes.len()),
            Kind::Taken { bytes, ends } => shown.field("bytes", &bytes.len()).field("pieces", &ends.len()),
            Kind::Pieces { at_most, .. } => shown.field("at_most", at_most),
        };
        shown.finish_non_exhaustive()
    }
}

impl Snapshot {
    /// What a piece takes in a transfer beside its own bytes.
    pub const FRAME_BYTES: u64 = 4;

    /// These bytes.
    #[must_use]
    pub fn new(bytes: impl Into<Bytes>) -> Self {
        Self(Kind::Whole(bytes.into()))
    }

    /// A value, encoded now.
    ///
    /// # Panics
    /// If the value cannot be encoded, which a derived `Serialize` of plain data never is.
    #[must_use]
    #[expect(clippy::expect_used, reason = "the caller's contract")]
    pub fn encode<T: Serialize + ?Sized>(value: &T) -> Self {
        Self::new(postcard::to_allocvec(value).expect("a state is plain data"))
    }

    /// Items, each a piece that is encoded when the transfer asks for it. `items` is frozen: a collection of which a
    /// clone costs nothing, or an iterator over one that it owns. A clone of it is counted, which encodes each item once
    /// and keeps nothing of it, unless [`Snapshot::at_most`] gives the length.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use phalanx::Snapshot;
    ///
    /// let blocks = vec![Arc::new(vec![1_u32, 2]), Arc::new(vec![3])];
    /// let snapshot = Snapshot::encode_each(blocks.clone());
    /// let same: Result<Vec<Arc<Vec<u32>>>, _> = snapshot.decode_each().collect();
    /// assert_eq!(same.as_ref(), Ok(&blocks));
    /// ```
    ///
    /// # Panics
    /// The transfer panics, and ends the process, if an item cannot be encoded, which a derived `Serialize` of plain data
    /// never is.
    #[must_use]
    pub fn encode_each<I>(items: I) -> Self
    where
        I: IntoIterator<Item: Serialize, IntoIter: Send> + Clone + Send + 'static,
    {
        Self(Kind::Pieces { source: Box::new(Items::NotBegun(items)), at_most: None })
    }

    /// Pieces that are bytes. All of them have at most `at_most` bytes, where each counts for its own and
    /// [`Snapshot::FRAME_BYTES`]; see [`Snapshot::at_most`].
    #[must_use]
    pub fn pieces<I>(at_most: u64, pieces: I) -> Self
    where
        I: IntoIterator<Item: Into<Bytes>, IntoIter: Send + 'static>,
    {
        Self(Kind::Pieces { source: Box::new(Ready(pieces.into_iter())), at_most: Some(at_most) })
    }

    /// The length of a snapshot in pieces, so that it needs no count: the sum of [`Snapshot::bytes_of`] of all items, or
    /// more. What is missing to the number is filled up with zeros, which costs the transfer their time. If there is more,
    /// the transfer ends, a notice says so, and the joiner asks again. No effect on a snapshot that is a whole.
    #[must_use]
    pub fn at_most(mut self, bytes: u64) -> Self {
        if let Kind::Pieces { at_most, .. } = &mut self.0 {
            *at_most = Some(bytes);
        }
        self
    }

    /// What an item of [`Snapshot::encode_each`] adds to the length. A state that keeps the sum while it applies messages
    /// needs no count when it is frozen.
    ///
    /// # Panics
    /// If the item cannot be encoded, which a derived `Serialize` of plain data never is.
    #[must_use]
    #[expect(clippy::expect_used, reason = "the caller's contract")]
    pub fn bytes_of<T: Serialize + ?Sized>(item: &T) -> u64 {
        let size = postcard::ser_flavors::Size::default();
        let bytes = postcard::serialize_with_flavor(item, size).expect("an item is plain data");
        bytes as u64 + Self::FRAME_BYTES
    }

    /// The bytes; all pieces without anything between them.
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        self.collect().0
    }

    /// The pieces as they were made. A whole is one.
    pub fn into_pieces(self) -> impl Iterator<Item = Bytes> + Send {
        let (bytes, ends) = self.collect();
        let mut start = 0;
        ends.into_iter().map(move |end| bytes.slice(std::mem::replace(&mut start, end)..end))
    }

    /// The value that [`Snapshot::encode`] encoded.
    ///
    /// # Errors
    /// [`DecodeError`] if it is another one.
    pub fn decode<T: DeserializeOwned>(self) -> Result<T, DecodeError> {
        postcard::from_bytes(&self.into_bytes()).map_err(DecodeError::of_type)
    }

    /// The items that [`Snapshot::encode_each`] encoded, in its order. Each is decoded when it is taken; [`DecodeError`] if
    /// it is of another type.
    pub fn decode_each<T: DeserializeOwned>(self) -> impl Iterator<Item = Result<T, DecodeError>> + Send {
        self.into_pieces().map(|piece| Piece(&piece).decode())
    }

    pub(crate) fn taken(bytes: Vec<u8>, ends: Vec<usize>) -> Self {
        Self(Kind::Taken { bytes: bytes.into(), ends })
    }

    /// All bytes, and where each piece ends.
    fn collect(self) -> (Bytes, Vec<usize>) {
        match self.0 {
            Kind::Whole(bytes) => {
                let end = bytes.len();
                (bytes, vec![end])
            }
            Kind::Taken { bytes, ends } => (bytes, ends),
            Kind::Pieces { mut source, .. } => {
                let (mut bytes, mut ends) = (Vec::new(), Vec::new());
                while let Some(produced) = source.next(&mut bytes) {
                    if let Produced::Beside(piece) = produced {
                        bytes.extend_from_slice(&piece);
                    }
                    ends.push(bytes.len());
                }
                (bytes.into(), ends)
            }
        }
    }

    /// For a transfer: where the pieces come from, how many bytes they have with their frames, and whether they are
    /// the parts of one whole.
    pub(crate) fn open(self) -> (Box<dyn Source>, u64, bool) {
        match self.0 {
            Kind::Whole(bytes) => {
                let source = Box::new(Whole(Some(bytes)));
                let bytes = source.count_bytes();
                (source, bytes, true)
            }
            Kind::Pieces { source, at_most } => {
                let bytes = at_most.unwrap_or_else(|| source.count_bytes());
                (source, bytes, false)
            }
            taken @ Kind::Taken { .. } => {
                let pieces: Vec<Bytes> = Self(taken).into_pieces().collect();
                let bytes = pieces.iter().map(|piece| piece.len() as u64 + Self::FRAME_BYTES).sum();
                (Box::new(Ready(pieces.into_iter())), bytes, false)
            }
        }
    }
}

/// A piece of a state, as another member's [`Snapshot`] made it; see [`State::restore_piece`](crate::State::restore_piece).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece<'a>(pub(crate) &'a [u8]);

impl<'a> Piece<'a> {
    /// Its bytes.
    #[must_use]
    pub const fn bytes(self) -> &'a [u8] {
        self.0
    }

    /// The item of [`Snapshot::encode_each`].
    ///
    /// # Errors
    /// [`DecodeError`] if it is of another type.
    pub fn decode<T: DeserializeOwned>(self) -> Result<T, DecodeError> {
        postcard::from_bytes(self.0).map_err(DecodeError::of_type)
    }
}

/// Bytes that are there already. They are one piece, or several if its length does not fit a frame.
struct Whole(Option<Bytes>);

impl Source for Whole {
    fn next(&mut self, _out: &mut Vec<u8>) -> Option<Produced> {
        let mut rest = self.0.take()?;
        let piece = rest.split_to(rest.len().min(PART_BYTES));
        self.0 = (!rest.is_empty()).then_some(rest);
        Some(Produced::Beside(piece))
    }

    fn count_bytes(&self) -> u64 {
        let bytes = self.0.as_ref().map_or(0, Bytes::len);
        bytes as u64 + bytes.div_ceil(PART_BYTES).max(1) as u64 * Snapshot::FRAME_BYTES
    }
}

/// Pieces that are made when they are asked for.
struct Ready<I>(I);

impl<I: Iterator<Item: Into<Bytes>> + Send> Source for Ready<I> {
    fn next(&mut self, _out: &mut Vec<u8>) -> Option<Produced> {
        self.0.next().map(|piece| Produced::Beside(piece.into()))
    }

    /// Not asked for: such a snapshot is never without its length.
    fn count_bytes(&self) -> u64 {
        0
    }
}

/// Items that are encoded when they are asked for.
enum Items<I: IntoIterator> {
    NotBegun(I),
    Begun(I::IntoIter),
    Over,
}

impl<I> Source for Items<I>
where
    I: IntoIterator<Item: Serialize, IntoIter: Send> + Clone + Send,
{
    #[expect(clippy::expect_used, reason = "the caller's contract")]
    fn next(&mut self, out: &mut Vec<u8>) -> Option<Produced> {
        if let Self::NotBegun(_) = self
            && let Self::NotBegun(items) = std::mem::replace(self, Self::Over)
        {
            *self = Self::Begun(items.into_iter());
        }
        let Self::Begun(items) = self else { return None };
        let Some(item) = items.next() else {
            *self = Self::Over;
            return None;
        };
        postcard::serialize_with_flavor(&item, Append(out)).expect("an item is plain data");
        Some(Produced::Appended)
    }

    fn count_bytes(&self) -> u64 {
        match self {
            Self::NotBegun(items) => items.clone().into_iter().map(|item| Snapshot::bytes_of(&item)).sum(),
            Self::Begun(_) | Self::Over => 0,
        }
    }
}

/// Encodes behind what is there.
struct Append<'a>(&'a mut Vec<u8>);

impl postcard::ser_flavors::Flavor for Append<'_> {
    type Output = ();

    fn try_extend(&mut self, data: &[u8]) -> postcard::Result<()> {
        self.0.extend_from_slice(data);
        Ok(())
    }

    fn try_push(&mut self, data: u8) -> postcard::Result<()> {
        self.0.push(data);
        Ok(())
    }

    fn finalize(self) -> postcard::Result<()> {
        Ok(())
    }
}

/// A longer whole is cut, because the length of a piece has 32 bits.
const PART_BYTES: usize = 1 << 30;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_may_be_restored_at_once_however_it_was_made() {
        let items = vec![(1_u16, "one".to_owned()), (500, String::new())];
        let each = || Snapshot::encode_each(items.clone());
        let decoded: Result<Vec<(u16, String)>, _> = each().decode_each().collect();
        assert_eq!(decoded, Ok(items.clone()));
        assert_eq!(Snapshot::encode(&items).decode(), Ok(items.clone()));
        assert_eq!(Snapshot::pieces(0, ["a", "bc"]).into_bytes(), "abc");
        assert_eq!(Snapshot::pieces(0, ["a", "bc"]).into_pieces().collect::<Vec<_>>(), ["a", "bc"]);
        let again = Snapshot::taken(b"abc".to_vec(), vec![1, 3]);
        assert_eq!(again.into_pieces().collect::<Vec<_>>(), ["a", "bc"]);
        assert!(Snapshot::new("x").decode_each::<String>().all(|item| item.is_err()));
    }

    #[test]
    fn the_count_is_the_sum_over_the_items() {
        let items = vec![Some(1_u64), None, Some(u64::MAX)];
        let sum: u64 = items.iter().map(Snapshot::bytes_of).sum();
        let (_, counted, is_whole) = Snapshot::encode_each(items.clone()).open();
        assert_eq!((counted, is_whole), (sum, false));
        let (_, given, _) = Snapshot::encode_each(items).at_most(sum + 5).open();
        assert_eq!(given, sum + 5);
        let (_, whole, is_whole) = Snapshot::new("abc").at_most(1).open();
        assert_eq!((whole, is_whole), (3 + Snapshot::FRAME_BYTES, true));
        let (_, again, is_whole) = Snapshot::taken(b"abc".to_vec(), vec![1, 3]).open();
        assert_eq!((again, is_whole), (3 + 2 * Snapshot::FRAME_BYTES, false));
    }
}
