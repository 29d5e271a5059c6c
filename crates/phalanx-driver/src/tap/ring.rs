//! The ring through which one thread shows packets to one reader in another process.
//!
//! It is memory that the shown process made and sealed: a reader can map it for reading only, and cannot shrink it. The
//! writer never waits and makes no system call. What a reader does not fetch in time is overwritten, and the reader counts
//! it as lost, by the records' numbers.

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;

use phalanx_core::Incarnation;

use rustix::fs::fstat;

use crate::memory::map::{Mine, Theirs};
use crate::memory::ring::{Cursor, PACKET_BYTES_MAX, Polled, Ring, Writer, Written};
use crate::memory::sealed;

// Layout, in words of 8 bytes. Words that change often are 128 bytes apart.
const AT_MAGIC: usize = 0;
const AT_VERSION: usize = 1;
const AT_BYTES: usize = 2;
/// Packets that the filter saw and took, as of the thread's last round.
const AT_SEEN: usize = 16;
const AT_MATCHED: usize = 17;
const AT_TAIL: usize = 32;
const AT_RESERVED: usize = 48;
const HEADER_WORDS: usize = 64;

const MAGIC: u64 = u64::from_le_bytes(*b"PHXTAPRG");
const VERSION: u64 = 1;

/// What a record tells besides its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHeader {
    /// Nanoseconds since the Unix epoch.
    pub time_ns: u64,
    /// Length of the whole packet or text, in bytes.
    pub len: u32,
    /// The filter's verdict: the most bytes to keep, preamble included.
    pub snap: u32,
    /// What the record is.
    pub kind: RecordKind,
    /// Those of the packet ([`phalanx_tap::Flags`]).
    pub flags: u8,
    /// The address of this end; an unspecified one if it is not known.
    pub local: SocketAddr,
    /// The address of the other end, likewise.
    pub peer: SocketAddr,
    /// The incarnation that the packet is sealed for; [`Incarnation::NONE`] if it is not known, or for nobody in particular.
    pub to: Incarnation,
}

/// What a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordKind {
    /// Lines of names (`docs/captures.md`).
    Names,
    /// A packet as it goes over the network.
    Sealed,
    /// A packet in clear: its header and its frames.
    Clear,
}

/// A record that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// What it tells besides its bytes.
    pub head: RecordHeader,
    /// Its bytes, as many as the writer kept.
    pub bytes: &'a [u8],
}

/// The writer's end.
#[derive(Debug)]
pub struct RingWriter {
    map: Mine,
    file: OwnedFd,
    writer: Writer,
    /// The number of the next packet.
    number: u64,
}

impl RingWriter {
    /// Makes a ring of `bytes`, rounded up to a power of two, from 256 KiB to 64 MiB.
    ///
    /// # Errors
    /// The system gives no memory.
    pub fn new(bytes: usize) -> io::Result<Self> {
        let bytes = bytes.clamp(RING_BYTES_MIN, RING_BYTES_MAX).next_power_of_two();
        let (file, map) = sealed::make(HEADER_WORDS * 8 + bytes)?;
        let ring = Self { map, file, writer: Writer::default(), number: 0 };
        ring.set(AT_BYTES, bytes as u64);
        ring.set(AT_VERSION, VERSION);
        ring.set(AT_MAGIC, MAGIC);
        Ok(ring)
    }

    /// The memory, to give to the reader. It can be mapped for reading alone.
    #[must_use]
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Appends a record: the concatenated `parts`, cut at [`RECORD_BYTES_MAX`] bytes.
    #[inline]
    pub fn push(&mut self, head: &RecordHeader, parts: [&[u8]; 3]) {
        let mut room = RECORD_BYTES_MAX;
        let [a, b, c] = parts.map(|part| {
            let part = &part[..part.len().min(room)];
            room -= part.len();
            part
        });
        let words = self.map.words();
        let ring = Written { reserved: &words[AT_RESERVED], tail: &words[AT_TAIL], data: &words[HEADER_WORDS..] };
        self.writer.push(ring, READER, [&head.encoded(self.number), a, b, c]);
        self.number += u64::from(head.kind != RecordKind::Names);
    }

    /// Publishes how many packets the filter saw, and how many of them it took.
    pub fn publish(&self, seen: u64, matched: u64) {
        self.set(AT_SEEN, seen);
        self.set(AT_MATCHED, matched);
    }

    fn set(&self, at: usize, value: u64) {
        self.map.words()[at].store(value, Ordering::Release);
    }
}

/// The reader's end. Nothing in the memory is trusted: its owner may write anything at any time.
#[derive(Debug)]
pub struct RingReader {
    map: Theirs,
    ring_words: usize,
    cursor: Cursor,
    buffer: Vec<u8>,
    /// The number of the next packet.
    number: u64,
    lost: u64,
}

impl RingReader {
    /// Maps a ring that another process made. It reads from the ring's first record on.
    ///
    /// # Errors
    /// The memory cannot be mapped, is not sealed, or is laid out in another way.
    pub fn open(file: impl AsFd) -> io::Result<Self> {
        let layout =
            || io::Error::new(io::ErrorKind::InvalidData, "the ring is laid out in another way: another version?");
        if !sealed::is_sealed(&file) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the ring is not sealed"));
        }
        let size = usize::try_from(fstat(&file)?.st_size).map_err(|_negative| layout())?;
        let ring_bytes = size.checked_sub(HEADER_WORDS * 8).ok_or_else(layout)?;
        if !ring_bytes.is_power_of_two() || !(RING_BYTES_MIN..=RING_BYTES_MAX).contains(&ring_bytes) {
            return Err(layout());
        }
        let map = Theirs::map(&file, size)?;
        let words = map.words();
        let told = [AT_MAGIC, AT_VERSION, AT_BYTES].map(|at| words.load(at));
        if told != [MAGIC, VERSION, ring_bytes as u64] {
            return Err(layout());
        }
        let ring_words = ring_bytes / 8;
        Ok(Self { map, ring_words, cursor: Cursor::default(), buffer: Vec::new(), number: 0, lost: 0 })
    }

    /// The next record; `None` if none waits now.
    ///
    /// # Errors
    /// The owner wrote what no correct writer writes. Nothing more is read.
    pub fn read(&mut self) -> io::Result<Option<Record<'_>>> {
        let words = self.map.words();
        let ring = Ring {
            reserved: words.part(AT_RESERVED, 1),
            tail: words.part(AT_TAIL, 1),
            data: words.part(HEADER_WORDS, self.ring_words),
        };
        loop {
            if !self.cursor.refresh(ring) {
                return Ok(None);
            }
            match self.cursor.look(ring, READER, usize::MAX, &mut self.buffer) {
                // Counted by the number in the next record that is read.
                Polled::Overrun | Polled::Passed | Polled::Begun(_) => {}
                Polled::Broken => return Err(broken()),
                Polled::Taken(len) => {
                    let (number, head) = RecordHeader::decoded(&self.buffer[..len]).ok_or_else(broken)?;
                    let skipped = number.checked_sub(self.number).ok_or_else(broken)?;
                    self.lost = self.lost.saturating_add(skipped);
                    self.number = number.saturating_add(u64::from(head.kind != RecordKind::Names));
                    return Ok(Some(Record { head, bytes: &self.buffer[HEAD_BYTES..len] }));
                }
            }
        }
    }

    /// Packets that were overwritten before they were read, as far as is known: those before the last record read.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Packets that the filter saw, and that it took, as last published.
    #[must_use]
    pub fn published(&self) -> (u64, u64) {
        let words = self.map.words();
        (words.load(AT_SEEN), words.load(AT_MATCHED))
    }
}

impl RecordHeader {
    fn encoded(&self, number: u64) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        bytes[..8].copy_from_slice(&number.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.time_ns.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.len.to_le_bytes());
        bytes[20] = match self.kind {
            RecordKind::Names => 0,
            RecordKind::Sealed => 1,
            RecordKind::Clear => 2,
        };
        bytes[21] = self.flags;
        bytes[64..72].copy_from_slice(&self.to.0.to_le_bytes());
        bytes[72..76].copy_from_slice(&self.snap.to_le_bytes());
        for (at, address) in [(24, self.local), (44, self.peer)] {
            bytes[at..at + 16].copy_from_slice(&mapped(address.ip()).octets());
            bytes[at + 16..at + 18].copy_from_slice(&address.port().to_le_bytes());
            bytes[at + 18] = u8::from(address.is_ipv4());
        }
        bytes
    }

    fn decoded(record: &[u8]) -> Option<(u64, Self)> {
        let bytes: &[u8; HEAD_BYTES] = record.first_chunk()?;
        let number = u64::from_le_bytes(*bytes.first_chunk()?);
        let time_ns = u64::from_le_bytes(*bytes[8..].first_chunk()?);
        let len = u32::from_le_bytes(*bytes[16..].first_chunk()?);
        let address = |at: usize| {
            let ip = Ipv6Addr::from(*bytes[at..].first_chunk::<16>()?);
            let port = u16::from_le_bytes(*bytes[at + 16..].first_chunk()?);
            let ip = ip.to_ipv4_mapped().filter(|_| bytes[at + 18] == 1).map_or(IpAddr::V6(ip), IpAddr::V4);
            Some(SocketAddr::new(ip, port))
        };
        let kind = match bytes[20] {
            0 => RecordKind::Names,
            1 => RecordKind::Sealed,
            2 => RecordKind::Clear,
            _ => return None,
        };
        let (flags, local, peer) = (bytes[21], address(24)?, address(44)?);
        let to = Incarnation(u64::from_le_bytes(*bytes[64..].first_chunk()?));
        let snap = u32::from_le_bytes(*bytes[72..].first_chunk()?);
        Some((number, Self { time_ns, len, snap, kind, flags, local, peer, to }))
    }
}

fn mapped(ip: IpAddr) -> Ipv6Addr {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    }
}

fn broken() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the shown process wrote a broken record")
}

/// The bit of the only reader.
const READER: u64 = 1;

/// Bytes in front of a record's own.
const HEAD_BYTES: usize = 80;

/// The most bytes of its own that a record has.
pub const RECORD_BYTES_MAX: usize = PACKET_BYTES_MAX - HEAD_BYTES;

const RING_BYTES_MIN: usize = 256 << 10;
const RING_BYTES_MAX: usize = 64 << 20;

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use rustix::fs::ftruncate;

    use super::*;

    fn head(time_ns: u64) -> RecordHeader {
        RecordHeader {
            time_ns,
            len: 7,
            snap: 96,
            kind: RecordKind::Sealed,
            flags: 2,
            local: SocketAddr::from(([127, 0, 0, 1], 7_000)),
            peer: SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, 1], 7_001)),
            to: Incarnation(9),
        }
    }

    fn pair() -> (RingWriter, RingReader) {
        let writer = RingWriter::new(0).expect("memory");
        let reader = RingReader::open(writer.file()).expect("it is sealed");
        (writer, reader)
    }

    #[test]
    fn records_come_as_they_were_written() {
        let (mut writer, mut reader) = pair();
        assert_eq!(reader.read().expect("sound"), None);
        writer.push(&head(5), [b"ab", b"c", b"defg"]);
        writer.push(&head(6), [&[], &[], &[]]);
        assert_eq!(reader.read().expect("sound"), Some(Record { head: head(5), bytes: b"abcdefg" }));
        assert_eq!(reader.read().expect("sound"), Some(Record { head: head(6), bytes: b"" }));
        assert_eq!(reader.read().expect("sound"), None);
        assert_eq!(reader.lost(), 0);
        writer.publish(9, 2);
        assert_eq!(reader.published(), (9, 2));
        let long = vec![1; 2 * RECORD_BYTES_MAX];
        writer.push(&head(7), [b"x", &long, b"y"]);
        let record = reader.read().expect("sound").expect("it is there");
        assert_eq!((record.bytes.len(), record.bytes[0], record.bytes[1]), (RECORD_BYTES_MAX, b'x', 1));
    }

    #[test]
    fn a_reader_that_is_slow_counts_what_it_lost() {
        let (mut writer, mut reader) = pair();
        let bytes = [3; 1_000];
        for time_ns in 0..1_000 {
            writer.push(&head(time_ns), [&bytes, &[], &[]]);
        }
        // The writer came round: what it wrote before is lost, and what it writes from now on is read.
        assert_eq!(reader.read().expect("sound"), None);
        writer.push(&head(1_000), [&bytes, &[], &[]]);
        assert_eq!(reader.read().expect("sound").map(|record| record.head.time_ns), Some(1_000));
        assert_eq!(reader.lost(), 1_000);
    }

    #[test]
    fn a_reader_can_neither_write_nor_cut_the_memory() {
        let (writer, _reader) = pair();
        assert!(Mine::map(writer.file(), 4_096).is_err(), "it can be mapped for reading alone");
        assert!(ftruncate(writer.file(), 0).is_err());
        let path = format!("/proc/self/fd/{}", writer.file().as_raw_fd());
        let file = std::fs::OpenOptions::new().write(true).open(path).expect("the same user may open it");
        assert!(rustix::io::write(&file, &[1]).is_err());
    }

    #[test]
    fn memory_of_another_layout_is_refused() {
        let (writer, _reader) = pair();
        writer.set(AT_VERSION, VERSION + 1);
        assert!(RingReader::open(writer.file()).is_err());
        assert!(RingReader::open(std::fs::File::open("/proc/self/exe").expect("it is there")).is_err());
        let (file, _map) = sealed::make(4_096).expect("memory");
        assert!(RingReader::open(&file).is_err());
    }

    /// Whatever the owner writes, the reader reads records of a sound length, or says that they are broken.
    #[test]
    fn a_hostile_writer_harms_nobody() {
        let mut rng = phalanx_core::rng::Rng::new(7);
        let (mut read, mut refused) = (0, 0);
        for _ in 0..200 {
            let (mut writer, mut reader) = pair();
            for turn in 0..60 {
                writer.push(&head(turn), [&[4; 90], &[], &[]]);
                let words = writer.map.words();
                let header = rng.below(4) == 0;
                let near = HEADER_WORDS as u64 + turn * 21 + rng.below(40);
                let at = if header { rng.below(HEADER_WORDS as u64) } else { near };
                if rng.below(8) == 0 {
                    let what = if rng.below(2) == 0 { rng.next_u64() } else { rng.below(1 << 17) };
                    words[at as usize].store(what, Ordering::Relaxed);
                }
                match reader.read() {
                    Ok(Some(record)) => {
                        assert!(record.bytes.len() <= RECORD_BYTES_MAX);
                        read += 1;
                    }
                    Ok(None) => {}
                    Err(_) => {
                        refused += 1;
                        break;
                    }
                }
            }
        }
        assert!(read > 1_000 && refused > 20, "{read} read, {refused} refused");
    }
}
