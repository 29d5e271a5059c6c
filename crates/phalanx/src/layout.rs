//! How the state of a group is laid out in a transfer: its domains, and their pieces.
//!
//! ```text
//! state:  1 byte, the version; domains; 0; 8 bytes, the checksum of all before; zeros up to the announced length
//! domain: 1; 1 byte of flags; 1 byte, the length of the name; the name; pieces; 4 bytes 0xff
//! piece:  4 bytes, its length; its bytes
//! ```
//!
//! Numbers are little-endian. The transfer says first how long all of it is ([`Outgoing::total`]).

use std::collections::VecDeque;

use bytes::{Buf, Bytes};

use crate::domain_name::shown;
use crate::error::DecodeError;
use crate::snapshot::{Produced, Snapshot, Source};

/// What a domain is like, for the one who takes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flags {
    /// Its pieces are the parts of one whole.
    pub(crate) is_whole: bool,
    /// Who does not know the domain passes it over.
    pub(crate) is_optional: bool,
}

impl Flags {
    fn bits(self) -> u8 {
        u8::from(self.is_whole) | u8::from(self.is_optional) << 1
    }

    fn of(bits: u8) -> Result<Self, DecodeError> {
        if bits > 3 {
            return Err(senseless("unknown flags"));
        }
        Ok(Self { is_whole: bits & 1 != 0, is_optional: bits & 2 != 0 })
    }
}

/// Told when a snapshot is longer than it announced.
pub(crate) type Notice = Box<dyn Fn(String) + Send>;

/// A state on its way to another member. Pieces are produced when they are read.
pub(crate) struct Outgoing {
    domains: VecDeque<Domain>,
    total: u64,
    /// Where in the state the first byte of `ready` is that was not passed on.
    offset: u64,
    /// Produced bytes; those before `at` were passed on.
    ready: Vec<u8>,
    at: usize,
    /// The rest of a piece that is in memory.
    beside: Bytes,
    checksum: Checksum,
    stage: Stage,
    notice: Notice,
}

struct Domain {
    name: String,
    flags: Flags,
    source: Box<dyn Source>,
    /// The bytes that its pieces may still have.
    left: u64,
    is_begun: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Version,
    Domains,
    Zeros,
    /// A snapshot is longer than announced: nothing more is sent, which ends the transfer.
    Failed,
}

impl Outgoing {
    pub(crate) fn new(notice: Notice) -> Self {
        Self {
            domains: VecDeque::new(),
            total: EMPTY_BYTES,
            offset: 0,
            ready: Vec::new(),
            at: 0,
            beside: Bytes::new(),
            checksum: Checksum::default(),
            stage: Stage::Version,
            notice,
        }
    }

    /// A state that ends the transfer at once.
    pub(crate) fn failed(notice: Notice) -> Self {
        Self { stage: Stage::Failed, ..Self::new(notice) }
    }

    /// Adds a domain. Names have at most 255 bytes.
    pub(crate) fn add(&mut self, name: &str, is_optional: bool, snapshot: Snapshot) {
        debug_assert!(name.len() < 256 && self.stage == Stage::Version, "a domain is added in time");
        let (source, left, is_whole) = snapshot.open();
        let flags = Flags { is_whole, is_optional };
        self.total = self.total.saturating_add(DOMAIN_BYTES + name.len() as u64).saturating_add(left);
        self.domains.push_back(Domain { name: name.to_owned(), flags, source, left, is_begun: false });
    }

    fn ready_bytes(&self) -> usize {
        self.ready.len() - self.at
    }

    /// Forgets bytes that the reader has.
    fn pass_on(&mut self, bytes: usize) {
        self.at += bytes;
        self.offset += bytes as u64;
        if self.at == self.ready.len() {
            self.ready.clear();
            self.at = 0;
        } else if self.at > self.ready.len() / 2 {
            self.ready.drain(..self.at);
            self.at = 0;
        }
    }

    fn append(&mut self, bytes: &[u8]) {
        self.checksum.add(bytes);
        self.ready.extend_from_slice(bytes);
    }

    /// Produces more, as far as possible not much more than `wanted` bytes. False: there is nothing more.
    fn produce(&mut self, wanted: usize) -> bool {
        if !self.beside.is_empty() {
            let part = self.beside.split_to(self.beside.len().min(wanted));
            self.append(&part);
            return true;
        }
        match self.stage {
            Stage::Version => {
                self.append(&[VERSION]);
                self.stage = Stage::Domains;
                true
            }
            Stage::Domains => {
                match self.domains.pop_front() {
                    Some(domain) => self.produce_domain(domain),
                    None => {
                        self.append(&[END]);
                        self.ready.extend_from_slice(&self.checksum.sum().to_le_bytes());
                        self.stage = Stage::Zeros;
                    }
                }
                true
            }
            Stage::Zeros => {
                let left = self.total - self.offset - self.ready_bytes() as u64;
                let zeros = usize::try_from(left).unwrap_or(usize::MAX).min(wanted);
                self.ready.resize(self.ready.len() + zeros, 0);
                zeros > 0
            }
            Stage::Failed => false,
        }
    }

    fn produce_domain(&mut self, mut domain: Domain) {
        if !domain.is_begun {
            domain.is_begun = true;
            let name_bytes = u8::try_from(domain.name.len()).unwrap_or(u8::MAX);
            self.append(&[DOMAIN, domain.flags.bits(), name_bytes]);
            self.append(domain.name.as_bytes());
            self.domains.push_front(domain);
            return;
        }
        let start = self.ready.len();
        let frame = start + FRAME_LEN;
        self.ready.resize(frame, 0);
        let bytes = match domain.source.next(&mut self.ready) {
            Some(Produced::Appended) => self.ready.len() - frame,
            Some(Produced::Beside(piece)) => {
                self.beside = piece;
                self.beside.len()
            }
            None => {
                self.ready.truncate(start);
                return self.append(&LAST.to_le_bytes());
            }
        };
        let length = u32::try_from(bytes).ok().filter(|length| *length != LAST);
        let left = domain.left.checked_sub(bytes as u64 + FRAME_LEN as u64);
        let (Some(length), Some(left)) = (length, left) else {
            self.ready.truncate(start);
            self.beside = Bytes::new();
            self.stage = Stage::Failed;
            let name = shown(&domain.name);
            return (self.notice)(match length {
                None => format!("{name} cannot be transferred: a piece has 4 GiB or more"),
                Some(_) => format!("{name} cannot be transferred: its snapshot is longer than it announced"),
            });
        };
        self.ready[start..frame].copy_from_slice(&length.to_le_bytes());
        self.checksum.add(&self.ready[start..]);
        domain.left = left;
        self.domains.push_front(domain);
    }
}

impl phalanx_core::Snapshot for Outgoing {
    fn len_bytes(&self) -> u64 {
        self.total
    }

    /// The reader goes forward. What it got last it may read again, if it could not send it.
    fn read(&mut self, offset: u64, max_bytes: usize, out: &mut Vec<u8>) {
        let ahead = offset.checked_sub(self.offset).and_then(|ahead| usize::try_from(ahead).ok());
        let Some(ahead) = ahead.filter(|ahead| *ahead <= self.ready_bytes()) else {
            debug_assert!(false, "a snapshot is read forward");
            return;
        };
        self.pass_on(ahead);
        while self.ready_bytes() < max_bytes && self.produce(max_bytes - self.ready_bytes()) {}
        out.extend_from_slice(&self.ready[self.at..][..max_bytes.min(self.ready_bytes())]);
    }
}

/// Who takes a state.
pub(crate) trait Taker {
    /// A domain begins.
    fn begin(&mut self, name: &str, flags: Flags) -> Result<(), DecodeError>;
    /// Bytes of a piece of it. `is_end`: they are its last ones.
    fn bytes(&mut self, bytes: &[u8], is_end: bool) -> Result<(), DecodeError>;
    /// All of the domain is here.
    fn end(&mut self) -> Result<(), DecodeError>;
    /// The state has no frame of this library: all of its bytes follow, in one piece without an end.
    ///
    /// # Errors
    /// Nobody takes it.
    fn begin_unframed(&mut self) -> Result<(), DecodeError> {
        Err(senseless("it has the format of another version of this library"))
    }
}

/// A state that comes from another member. What it says of its lengths takes no memory: only what came does.
#[derive(Debug, Default)]
pub(crate) struct Incoming {
    expects: Expects,
    /// What came of a field that is not complete.
    field: Vec<u8>,
    checksum: Checksum,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Expects {
    #[default]
    Version,
    /// Another domain, or the end.
    Tag,
    Flags,
    Name {
        flags: Flags,
        bytes: usize,
    },
    /// The length of a piece, or that there was the last one.
    Length,
    Piece {
        left: usize,
    },
    Checksum,
    Zeros,
    /// The rest of a state without a frame.
    Unframed,
}

impl Incoming {
    /// Whether it has no frame, so that only its announced length says when all of it came.
    pub(crate) fn is_unframed(&self) -> bool {
        self.expects == Expects::Unframed
    }

    /// Whether all of it came.
    pub(crate) fn is_complete(&self) -> bool {
        self.expects == Expects::Zeros
    }

    /// Takes the next bytes, cut anywhere.
    pub(crate) fn take(&mut self, mut chunk: &[u8], taker: &mut impl Taker) -> Result<(), DecodeError> {
        if self.expects == Expects::Version && chunk.first().is_some_and(|first| *first != VERSION) {
            taker.begin_unframed()?;
            self.expects = Expects::Unframed;
        }
        while !chunk.is_empty() {
            let wanted = match self.expects {
                Expects::Version | Expects::Tag => 1,
                Expects::Flags => 2,
                Expects::Name { bytes, .. } => bytes,
                Expects::Length => FRAME_LEN,
                Expects::Checksum => CHECKSUM_LEN,
                Expects::Piece { left } => {
                    let (part, rest) = chunk.split_at(left.min(chunk.len()));
                    chunk = rest;
                    self.checksum.add(part);
                    let left = left - part.len();
                    self.expects = if left > 0 { Expects::Piece { left } } else { Expects::Length };
                    taker.bytes(part, left == 0)?;
                    continue;
                }
                Expects::Unframed => return taker.bytes(chunk, false),
                Expects::Zeros if chunk.iter().all(|byte| *byte == 0) => return Ok(()),
                Expects::Zeros => return Err(senseless("bytes follow its end")),
            };
            let missing = wanted - self.field.len();
            let (part, rest) = chunk.split_at(missing.min(chunk.len()));
            chunk = rest;
            self.field.extend_from_slice(part);
            if part.len() == missing {
                let field = std::mem::take(&mut self.field);
                self.take_field(&field, taker)?;
                self.field = field;
                self.field.clear();
            }
        }
        Ok(())
    }

    fn take_field(&mut self, field: &[u8], taker: &mut impl Taker) -> Result<(), DecodeError> {
        if self.expects != Expects::Checksum {
            self.checksum.add(field);
        }
        self.expects = match (self.expects, field) {
            (Expects::Version, [VERSION]) => Expects::Tag,
            (Expects::Tag, [END]) => Expects::Checksum,
            (Expects::Tag, [DOMAIN]) => Expects::Flags,
            (Expects::Flags, &[flags, bytes]) => {
                let flags = Flags::of(flags)?;
                if bytes == 0 {
                    taker.begin("", flags)?;
                    Expects::Length
                } else {
                    Expects::Name { flags, bytes: usize::from(bytes) }
                }
            }
            (Expects::Name { flags, .. }, name) => {
                let name = str::from_utf8(name).map_err(|_invalid| senseless("a domain's name is no text"))?;
                taker.begin(name, flags)?;
                Expects::Length
            }
            (Expects::Length, &[a, b, c, d]) => match u32::from_le_bytes([a, b, c, d]) {
                LAST => {
                    taker.end()?;
                    Expects::Tag
                }
                0 => {
                    taker.bytes(&[], true)?;
                    Expects::Length
                }
                length => Expects::Piece { left: length as usize },
            },
            (Expects::Checksum, sum) if *sum == self.checksum.sum().to_le_bytes() => Expects::Zeros,
            (Expects::Checksum, _) => return Err(senseless("its checksum is another")),
            _ => return Err(senseless("a domain or the end was expected")),
        };
        Ok(())
    }
}

fn senseless(why: &str) -> DecodeError {
    DecodeError::new(format!("it is not the state of a group: {why}"))
}

/// A checksum over words of 8 bytes that depends on their order. A change within one word never escapes it. It guards
/// against our mistakes and those of a state: against damage and forgery on the way packets are sealed.
#[derive(Clone, Copy, Debug, Default)]
struct Checksum {
    sum: u64,
    /// Bytes of a word that is not complete, and how many.
    word: [u8; 8],
    filled: usize,
    bytes: u64,
}

impl Checksum {
    fn add(&mut self, mut bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        if self.filled > 0 {
            let taken = bytes.len().min(8 - self.filled);
            self.word[self.filled..][..taken].copy_from_slice(&bytes[..taken]);
            self.filled += taken;
            bytes.advance(taken);
            if self.filled < 8 {
                return;
            }
            self.mix(u64::from_le_bytes(self.word));
            self.filled = 0;
        }
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.mix(u64::from_le_bytes(*word));
        }
        self.word[..rest.len()].copy_from_slice(rest);
        self.filled = rest.len();
    }

    fn mix(&mut self, word: u64) {
        self.sum = (self.sum.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn sum(mut self) -> u64 {
        self.word[self.filled..].fill(0);
        self.mix(u64::from_le_bytes(self.word));
        self.mix(self.bytes);
        self.sum
    }
}

const VERSION: u8 = 1;

/// Ends the domains.
const END: u8 = 0;

/// Begins a domain.
const DOMAIN: u8 = 1;

/// In place of a length: no piece follows.
const LAST: u32 = u32::MAX;

const FRAME_LEN: usize = 4;
const _: () = assert!(FRAME_LEN as u64 == Snapshot::FRAME_BYTES, "what states count with is what is sent");

const CHECKSUM_LEN: usize = 8;

/// A state without domains: the version, the end, the checksum.
const EMPTY_BYTES: u64 = 2 + CHECKSUM_LEN as u64;

/// A domain without name and pieces: its tag, flags and length of the name, and the mark of its end.
const DOMAIN_BYTES: u64 = 3 + FRAME_LEN as u64;

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use phalanx_core::Snapshot as _;

    use super::*;

    /// Keeps what comes: name, flags and pieces of each domain.
    #[derive(Debug, Default, PartialEq, Eq)]
    struct Kept(Vec<(String, Flags, Vec<Vec<u8>>)>, Vec<u8>);

    impl Taker for Kept {
        fn begin(&mut self, name: &str, flags: Flags) -> Result<(), DecodeError> {
            self.0.push((name.to_owned(), flags, Vec::new()));
            Ok(())
        }

        fn bytes(&mut self, bytes: &[u8], is_end: bool) -> Result<(), DecodeError> {
            self.1.extend_from_slice(bytes);
            if is_end {
                let piece = std::mem::take(&mut self.1);
                self.0.last_mut().expect("in a domain").2.push(piece);
            }
            Ok(())
        }

        fn end(&mut self) -> Result<(), DecodeError> {
            assert!(self.1.is_empty(), "a piece ends before its domain");
            Ok(())
        }
    }

    fn outgoing() -> Outgoing {
        Outgoing::new(Box::new(|why| panic!("{why}")))
    }

    fn some_domains() -> Outgoing {
        let mut outgoing = outgoing();
        outgoing.add("", false, Snapshot::new("whole"));
        outgoing.add("each", true, Snapshot::encode_each(vec!["", "ab", "cd"]));
        outgoing.add("pieces", false, Snapshot::pieces(60, ["1", "", "a longer piece"]));
        outgoing.add("none", false, Snapshot::encode_each(Vec::<u8>::new()));
        outgoing
    }

    /// Reads all of it, in parts of `max_bytes`, each twice as if it could not be sent the first time.
    fn read(outgoing: &mut Outgoing, max_bytes: usize) -> Vec<u8> {
        let mut all = Vec::new();
        loop {
            let (mut first, mut second) = (Vec::new(), Vec::new());
            outgoing.read(all.len() as u64, max_bytes, &mut first);
            outgoing.read(all.len() as u64, max_bytes, &mut second);
            assert_eq!(first, second);
            assert!(first.len() <= max_bytes);
            if first.is_empty() {
                return all;
            }
            all.append(&mut first);
        }
    }

    fn taken(bytes: &[u8], chunk_bytes: usize) -> Result<(bool, Kept), DecodeError> {
        let (mut incoming, mut kept) = (Incoming::default(), Kept::default());
        for chunk in bytes.chunks(chunk_bytes) {
            incoming.take(chunk, &mut kept)?;
        }
        assert!(incoming.field.capacity() <= 512, "what was announced is not allocated");
        Ok((incoming.is_complete(), kept))
    }

    #[test]
    fn what_was_sent_comes_however_it_is_cut() {
        let piece = |text: &str| text.as_bytes().to_vec();
        let flags = |is_whole, is_optional| Flags { is_whole, is_optional };
        let expected = [
            (String::new(), flags(true, false), vec![piece("whole")]),
            ("each".to_owned(), flags(false, true), vec![piece("\0"), piece("\u{2}ab"), piece("\u{2}cd")]),
            ("pieces".to_owned(), flags(false, false), vec![piece("1"), piece(""), piece("a longer piece")]),
            ("none".to_owned(), flags(false, false), vec![]),
        ];
        let bytes = read(&mut some_domains(), 1 << 20);
        assert_eq!(bytes.len() as u64, some_domains().len_bytes());
        for size in [1, 2, 3, 7, 8, 9, 40, 1000] {
            assert_eq!(read(&mut some_domains(), size), bytes, "read in parts of {size}");
            let (is_complete, kept) = taken(&bytes, size).expect("it makes sense");
            assert!(is_complete);
            assert_eq!(kept.0, expected, "taken in parts of {size}");
        }
        assert_eq!(taken(&read(&mut outgoing(), 10), 10), Ok((true, Kept::default())));
    }

    #[test]
    fn a_state_that_was_cut_short_is_not_complete() {
        let bytes = read(&mut some_domains(), 1000);
        let padding = bytes.iter().rev().take_while(|byte| **byte == 0).count();
        for length in 0..bytes.len() - padding {
            let (is_complete, _) = taken(&bytes[..length], 16).expect("nothing is wrong so far");
            assert!(!is_complete, "{length}");
        }
    }

    #[test]
    fn a_state_that_was_damaged_is_refused_or_never_complete() {
        let bytes = read(&mut some_domains(), 1000);
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1 << bit;
                let is_complete = taken(&damaged, 16).map(|(is_complete, _)| is_complete);
                assert_ne!(is_complete, Ok(true), "bit {bit} of byte {at}");
            }
            for length in 1..(bytes.len() - at).min(40) {
                let (mut shorter, mut again) = (bytes.clone(), bytes.clone());
                shorter.drain(at..at + length);
                again.splice(at..at, bytes[at..at + length].to_vec());
                for damaged in [shorter, again] {
                    let outcome = taken(&damaged, 16);
                    let same =
                        outcome.as_ref().is_ok_and(|(_, kept)| Ok(kept) == taken(&bytes, 16).as_ref().map(|t| &t.1));
                    assert!(same || !matches!(outcome, Ok((true, _))), "{length} bytes at {at}");
                }
            }
        }
    }

    #[test]
    fn pieces_that_changed_places_are_refused() {
        let sent = |items: [&'static str; 2]| {
            let mut outgoing = outgoing();
            outgoing.add("", false, Snapshot::pieces(100, items));
            read(&mut outgoing, 1000)
        };
        let (bytes, mut swapped) = (sent(["one.....", "two....."]), sent(["two.....", "one....."]));
        taken(&swapped, 50).expect("it makes sense by itself");
        let end = bytes.iter().rposition(|byte| *byte != 0).expect("a checksum") + 1;
        swapped[end - CHECKSUM_LEN..end].copy_from_slice(&bytes[end - CHECKSUM_LEN..end]);
        assert_ne!(bytes, swapped);
        taken(&swapped, 50).expect_err("the order is another");
    }

    #[test]
    fn any_bytes_are_refused_or_waited_for() {
        let mut random = 1_u64;
        for _ in 0..20_000 {
            let mut bytes = vec![VERSION, DOMAIN, 0, 0];
            bytes.extend((0..40).map(|_| {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                // Small numbers, as tags and lengths have them.
                let byte = random.to_le_bytes()[7];
                if byte < 200 { byte & 3 } else { 255 }
            }));
            assert_ne!(taken(&bytes, 13).map(|(is_complete, _)| is_complete), Ok(true), "{bytes:?}");
        }
    }

    #[test]
    fn pieces_are_made_when_they_are_sent() {
        let made = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&made);
        let mut outgoing = outgoing();
        let piece = move |number: u8| {
            counter.fetch_add(1, Ordering::Relaxed);
            vec![number; 100]
        };
        outgoing.add("", false, Snapshot::pieces(100 * 104, (0..100).map(piece)));
        assert_eq!(made.load(Ordering::Relaxed), 0, "it is frozen");
        let mut all = Vec::new();
        while all.len() < outgoing.len_bytes() as usize {
            outgoing.read(all.len() as u64, 250, &mut all);
            let sent = all.len() / 104;
            let made = made.load(Ordering::Relaxed);
            assert!(made <= sent + 1, "{made} pieces were made when {sent} were sent");
            assert!(outgoing.ready.capacity() < 2_000, "what was sent is forgotten");
        }
        assert_eq!(taken(&all, 100).map(|(is_complete, kept)| (is_complete, kept.0[0].2.len())), Ok((true, 100)));
    }

    #[test]
    fn a_snapshot_longer_than_it_announced_ends_its_transfer_with_a_notice() {
        let (notices, notice) = mpsc::channel();
        let new = || {
            let notices = notices.clone();
            let mut outgoing = Outgoing::new(Box::new(move |why| notices.send(why).expect("it is read")));
            outgoing.add("ok", false, Snapshot::new("abc"));
            outgoing
        };
        let (mut each, mut pieces) = (new(), new());
        let length = Snapshot::bytes_of(&1_u8) + Snapshot::bytes_of(&300_u16);
        each.add("", false, Snapshot::encode_each(vec![1_u16, 300]).at_most(length - 1));
        pieces.add("more", false, Snapshot::pieces(9, ["abc", "def"]));
        for outgoing in [&mut each, &mut pieces] {
            let bytes = read(outgoing, 5);
            assert!((bytes.len() as u64) < outgoing.len_bytes());
            assert_eq!(taken(&bytes, 5).map(|(is_complete, _)| is_complete), Ok(false));
        }
        let told: Vec<String> = notice.try_iter().collect();
        assert_eq!(told[0], "the state cannot be transferred: its snapshot is longer than it announced");
        assert_eq!(told[1], "domain more of the state cannot be transferred: its snapshot is longer than it announced");
        assert_eq!(told.len(), 2);
        let mut fits = new();
        fits.add("", false, Snapshot::encode_each(vec![1_u16, 300]).at_most(length));
        let bytes = read(&mut fits, 5);
        assert_eq!(bytes.len() as u64, fits.len_bytes());
        assert_ne!(bytes.last(), Some(&0), "nothing is filled up");
    }

    #[test]
    fn a_long_piece_in_memory_is_not_copied_as_a_whole() {
        let mut outgoing = outgoing();
        outgoing.add("", false, Snapshot::new(vec![7; 1 << 20]));
        let mut all = Vec::new();
        while all.len() < outgoing.len_bytes() as usize {
            outgoing.read(all.len() as u64, 1_000, &mut all);
            assert!(outgoing.ready.capacity() < 10_000);
        }
        assert_eq!(
            taken(&all, 999).map(|(is_complete, kept)| (is_complete, kept.0[0].2[0].len())),
            Ok((true, 1 << 20))
        );
    }
}
