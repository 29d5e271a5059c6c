//! The opener: verifies and decrypts received packets.

use std::collections::VecDeque;
use std::fmt;

use super::key::{KeySource, SenderKey};
use super::{Associated, CHECKSUM_LEN, SEALED_TAG_LEN, Security, associated, cell_tag, checksum};
use crate::id::{Incarnation, Origin};
use crate::packet::RemainingPayload;
use crate::sorted::SortedMap;
use crate::wire::{DropReason, Header, SessionSecret};

/// Opens the packets that are meant for one incarnation.
pub struct Opener {
    me: Incarnation,
    cell_tag: u32,
    /// `None` without sealing: packets carry a checksum instead.
    keys: Option<Keys>,
}

struct Keys {
    source: KeySource,
    /// Keys of the senders that the core knows. Only [`Opener::remember`] adds one, never a packet, so that peers
    /// cannot fill it.
    known: SortedMap<Incarnation, SenderKey>,
    /// Keys of other senders whose packets verified, latest last; at most [`HEARD_MAX`]. Deriving a key costs more than
    /// opening a packet, and a sender that is heard once without being known mostly sends more.
    heard: VecDeque<(Incarnation, SenderKey)>,
}

/// The most kept keys of unknown senders: as many as a process that looks for its cell hears at once.
const HEARD_MAX: usize = 8;

impl Keys {
    fn open<'a>(&mut self, header: &Header, associated: &Associated, sealed: &'a mut [u8]) -> Option<&'a mut [u8]> {
        if let Some(key) = self.known.get(&header.sender) {
            return key.open(header, associated, sealed);
        }
        if let Some((_, key)) = self.heard.iter().find(|(who, _)| *who == header.sender) {
            return key.open(header, associated, sealed);
        }
        let key = self.source.of(header.sender);
        let frames = key.open(header, associated, sealed)?;
        // Only after the packet verified: a sender without the cell key must not displace other keys.
        if self.heard.len() == HEARD_MAX {
            self.heard.pop_front();
        }
        self.heard.push_back((header.sender, key));
        Some(frames)
    }
}

impl Opener {
    /// An opener for the incarnation `me` in the cell named `cell`.
    #[must_use]
    pub fn new(security: &Security, cell: &str, me: Incarnation) -> Self {
        let keys = match security {
            Security::Sealed(key) => {
                Some(Keys { source: KeySource::new(key, cell), known: SortedMap::new(), heard: VecDeque::new() })
            }
            Security::None => None,
        };
        Self { me, cell_tag: cell_tag(cell), keys }
    }

    /// Opens `packet` in place. Returns its header and its frames.
    ///
    /// The frames are what the sender sealed for this process or for no process in particular. They may be a
    /// repetition: the caller checks for replay. The sender may be unknown, or this process itself (a packet that came
    /// back).
    ///
    /// # Errors
    /// [`DropReason::Short`], [`DropReason::Version`], [`DropReason::Kind`], [`DropReason::Malformed`] (no sender),
    /// [`DropReason::OtherCell`] or [`DropReason::BadTag`]. The bytes of `packet` are then undefined; nothing else
    /// changed.
    pub fn open<'a>(&mut self, packet: &'a mut [u8]) -> Result<(Header, &'a mut [u8]), DropReason> {
        let header = Header::parse(packet)?;
        // Before any key is derived: packets of other cells on the network must cost little.
        if header.cell_tag != self.cell_tag {
            return Err(DropReason::OtherCell);
        }
        let (clear, sealed) = packet.split_first_chunk_mut::<{ Header::LEN }>().ok_or(DropReason::Short)?;
        let dest = if header.kind.is_addressed() { self.me } else { Incarnation::NONE };
        let associated = associated(clear, dest);
        let frames = match &mut self.keys {
            Some(keys) if sealed.len() >= SEALED_TAG_LEN => keys.open(&header, &associated, sealed),
            None if sealed.len() >= CHECKSUM_LEN => verify_checksum(&associated, sealed),
            Some(_) | None => return Err(DropReason::Short),
        };
        Ok((header, frames.ok_or(DropReason::BadTag)?))
    }

    /// Reads a packet in clear that came through memory which only this user's processes write. The header is followed
    /// by the destination, so that a packet for an earlier incarnation of this process is refused.
    ///
    /// # Errors
    /// As [`Self::open`]; [`DropReason::BadTag`] if it is for another incarnation.
    pub fn read_clear<'a>(&self, packet: &'a mut [u8]) -> Result<(Header, &'a mut [u8]), DropReason> {
        let header = Header::parse(packet)?;
        if header.cell_tag != self.cell_tag {
            return Err(DropReason::OtherCell);
        }
        let (_, rest) = packet.split_first_chunk_mut::<{ Header::LEN }>().ok_or(DropReason::Short)?;
        let (named, frames) = rest.split_first_chunk_mut::<8>().ok_or(DropReason::Short)?;
        let dest = if header.kind.is_addressed() { self.me } else { Incarnation::NONE };
        if *named != dest.0.to_le_bytes() {
            return Err(DropReason::BadTag);
        }
        Ok((header, frames))
    }

    /// The readable beginning of a packet of this cell that is for no process in particular; see [`ClearSeal`].
    pub(crate) fn begin_clear<'a>(&self, origin: Origin, head: &'a [u8]) -> Option<(Header, &'a [u8], ClearSeal)> {
        let header = Header::parse(head).ok().filter(|header| header.cell_tag == self.cell_tag)?;
        let (frames, seal) = begin_clear(origin, Incarnation::NONE, self.keys.is_some(), head)?;
        Some((header, frames, seal))
    }

    /// Derives the key of `sender`, for a session with it.
    #[must_use]
    pub fn session_key(&self, sender: Incarnation) -> SessionKey {
        SessionKey(self.keys.as_ref().map(|keys| keys.source.of(sender)))
    }

    /// Keeps the key of `sender`, a process that the core knows, so that its packets open faster. The caller bounds the
    /// number of kept keys with [`Self::forget`].
    pub fn remember(&mut self, sender: Incarnation) {
        if let Some(keys) = &mut self.keys {
            let source = &keys.source;
            keys.known.get_or_insert_with(sender, || source.of(sender));
        }
    }

    /// Drops the key of `sender`. Its packets still open, but slower.
    pub fn forget(&mut self, sender: Incarnation) {
        if let Some(keys) = &mut self.keys {
            keys.known.remove(&sender);
        }
    }

    /// Number of kept keys of senders that the core does not know.
    #[cfg(test)]
    pub(super) fn heard_count(&self) -> usize {
        self.keys.as_ref().map_or(0, |keys| keys.heard.len())
    }

    /// Number of kept keys of senders that the core knows.
    #[must_use]
    pub fn remembered_count(&self) -> usize {
        self.keys.as_ref().map_or(0, |keys| keys.known.len())
    }
}

/// Opens packets that one sender seals for a session.
pub struct SessionKey(Option<SenderKey>);

impl SessionKey {
    /// Opens in place a packet whose header was parsed before, and returns its frames.
    ///
    /// # Errors
    /// [`DropReason::Short`] or [`DropReason::BadTag`]. The bytes are then undefined.
    pub fn open<'a>(
        &self,
        header: &Header,
        session_secret: SessionSecret,
        packet: &'a mut [u8],
    ) -> Result<&'a mut [u8], DropReason> {
        let (clear, sealed) = packet.split_first_chunk_mut::<{ Header::LEN }>().ok_or(DropReason::Short)?;
        let associated = associated(clear, session_secret.destination());
        let frames = match &self.0 {
            Some(key) if sealed.len() >= SEALED_TAG_LEN => key.open(header, &associated, sealed),
            None if sealed.len() >= CHECKSUM_LEN => verify_checksum(&associated, sealed),
            Some(_) | None => return Err(DropReason::Short),
        };
        frames.ok_or(DropReason::BadTag)
    }
}

/// How a packet in clear is verified when only its beginning has arrived.
pub(crate) enum ClearSeal {
    /// Not at all: it came through memory that only this user's processes write.
    Memory,
    /// By a checksum that begins with these bytes.
    Checksum(Associated),
}

impl ClearSeal {
    /// Number of bytes behind the frames.
    pub(crate) fn tag_len(&self) -> usize {
        match self {
            Self::Memory => 0,
            Self::Checksum(_) => CHECKSUM_LEN,
        }
    }

    /// Copies a message's payload to `place` and verifies the packet. `begin` holds the packet's frames so far; `here`
    /// is its end, with which the payload begins. `rest` is the remainder of the packet.
    ///
    /// # Errors
    /// [`DropReason::Short`] if the rest is no longer there, or [`DropReason::BadTag`]. The bytes of `place` are then
    /// undefined.
    pub(crate) fn put(
        &self,
        (begin, here): (&[u8], &[u8]),
        rest: &mut dyn RemainingPayload,
        place: &mut [u8],
    ) -> Result<(), DropReason> {
        let (first, place) = place.split_at_mut(here.len());
        first.copy_from_slice(here);
        let mut tag = [0; CHECKSUM_LEN];
        // Verified where the payload lies, so that it is copied once.
        if !rest.take(place, &mut tag[..self.tag_len()]) {
            return Err(DropReason::Short);
        }
        match self {
            Self::Checksum(associated) if checksum::crc32c(&[associated, begin, place]).to_le_bytes() != tag => {
                Err(DropReason::BadTag)
            }
            Self::Checksum(_) | Self::Memory => Ok(()),
        }
    }
}

/// The first frames of a packet whose beginning is here, and how the rest is verified. `None` if the packet is not for
/// `dest`, or is encrypted: then nothing can be read before all of it is here.
fn begin_clear(origin: Origin, dest: Incarnation, is_sealed: bool, head: &[u8]) -> Option<(&[u8], ClearSeal)> {
    let (header, rest) = head.split_first_chunk::<{ Header::LEN }>()?;
    match origin {
        Origin::Memory => {
            let (named, frames) = rest.split_first_chunk::<8>()?;
            (*named == dest.0.to_le_bytes()).then_some((frames, ClearSeal::Memory))
        }
        Origin::Network(_) if is_sealed => None,
        Origin::Network(_) => Some((rest, ClearSeal::Checksum(associated(header, dest)))),
    }
}

impl SessionKey {
    /// The readable beginning of a packet of the session with `session_secret`; see [`ClearSeal`].
    pub(crate) fn begin_clear<'a>(
        &self,
        origin: Origin,
        session_secret: SessionSecret,
        head: &'a [u8],
    ) -> Option<(&'a [u8], ClearSeal)> {
        begin_clear(origin, session_secret.destination(), self.0.is_some(), head)
    }
}

impl fmt::Debug for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionKey").field("sealed", &self.0.is_some()).finish()
    }
}

/// Frames of a packet in clear, from memory that only this user's processes write, if it is for `session_secret`.
///
/// # Errors
/// [`DropReason::Short`]; [`DropReason::BadTag`] if it is for another session.
pub(crate) fn read_clear_for(session_secret: SessionSecret, packet: &mut [u8]) -> Result<&mut [u8], DropReason> {
    let (_, rest) = packet.split_first_chunk_mut::<{ Header::LEN }>().ok_or(DropReason::Short)?;
    let (named, frames) = rest.split_first_chunk_mut::<8>().ok_or(DropReason::Short)?;
    if *named == session_secret.0.to_le_bytes() { Ok(frames) } else { Err(DropReason::BadTag) }
}

impl fmt::Debug for Opener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opener")
            .field("me", &self.me)
            .field("sealed", &self.keys.is_some())
            .field("remembered", &self.remembered_count())
            .finish_non_exhaustive()
    }
}

fn verify_checksum<'a>(associated: &[u8], sealed: &'a mut [u8]) -> Option<&'a mut [u8]> {
    let (frames, sum) = sealed.split_last_chunk_mut::<CHECKSUM_LEN>()?;
    let fits = checksum::crc32c(&[associated, frames]) == u32::from_le_bytes(*sum);
    fits.then_some(frames)
}
