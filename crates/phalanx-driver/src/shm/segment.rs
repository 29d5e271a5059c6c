//! One process's shared memory: its layout, and how it is created and opened.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering, fence};

use phalanx_core::TrafficClass;
use rustix::fs::{FileType, Mode, OFlags, fstat, open};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};

use super::{Offer, Peer, ShmOptions};
use crate::memory::map::{Mine, Theirs};
use crate::memory::ring::{Ring, Seen, Writer, Written};
use crate::memory::sealed;

/// Most processes that one process reaches through memory: each has one bit in a record.
pub(super) const LINKS_MAX: usize = 64;

// Layout, in words of 8 bytes. Words that change often are 128 bytes apart, because processors fetch cache lines in
// pairs.
const AT_MAGIC: usize = 0;
const AT_VERSION: usize = 1;
const AT_CONTROL_BYTES: usize = 2;
const AT_DATA_BYTES: usize = 3;
/// The incarnation that the segment belongs to; 0: none yet.
const AT_TOKEN: usize = 4;
const AT_PARKED: usize = 16;
/// Grows with each change of the token or the tables.
const AT_CHANGES: usize = 32;
/// One for each class, like the next.
const AT_TAILS: usize = 48;
const AT_RESERVED: usize = 64;
/// Tokens of the processes that this one wants to reach. The index is their bit in the records.
const AT_READERS: usize = 128;
/// Tokens of the processes whose rings this one reads, at the same indices.
const AT_READS: usize = AT_READERS + LINKS_MAX;
const HEADER_WORDS: usize = 512;

const MAGIC: u64 = u64::from_le_bytes(*b"PHXSHMEM");
const VERSION: u64 = 2;

/// The segment of this process.
#[derive(Debug)]
pub(super) struct Own {
    map: Mine,
    file: OwnedFd,
    /// The reading end of the pipe by which others wake this process.
    doorbells: OwnedFd,
    /// The writing end, which others open through `/proc`. Held because a pipe without a writer polls as hung up, which
    /// would end every sleep.
    doorbell_writer: OwnedFd,
    writers: [Writer; 2],
    ring_words: [usize; 2],
}

impl Own {
    pub(super) fn create(options: &ShmOptions) -> io::Result<Self> {
        let ring_words = [options.control_ring_bytes, options.data_ring_bytes].map(ring_words);
        let bytes = (HEADER_WORDS + ring_words[0] + ring_words[1]) * 8;
        let (file, map) = sealed::make(bytes)?;
        let (doorbells, doorbell_writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let own = Self { map, file, doorbells, doorbell_writer, writers: Default::default(), ring_words };
        own.set(AT_CONTROL_BYTES, ring_words[0] as u64 * 8);
        own.set(AT_DATA_BYTES, ring_words[1] as u64 * 8);
        own.set(AT_VERSION, VERSION);
        own.set(AT_MAGIC, MAGIC);
        Ok(own)
    }

    /// What another process needs to open the segment.
    pub(super) fn offer(&self) -> Offer {
        Offer {
            pid: std::process::id(),
            memory: self.file.as_raw_fd().unsigned_abs(),
            doorbell: self.doorbell_writer.as_raw_fd().unsigned_abs(),
        }
    }

    pub(super) fn push(&mut self, class: TrafficClass, readers: u64, parts: [&[u8]; 3]) {
        let words = self.map.words();
        let at = HEADER_WORDS + if class == TrafficClass::Control { 0 } else { self.ring_words[0] };
        let index = ring_index(class);
        let ring = Written {
            reserved: &words[AT_RESERVED + index],
            tail: &words[AT_TAILS + index],
            data: &words[at..at + self.ring_words[index]],
        };
        self.writers[index].push(ring, readers, parts);
    }

    pub(super) fn parked(&self) -> &AtomicU64 {
        &self.map.words()[AT_PARKED]
    }

    pub(super) fn set_token(&self, token: u64) {
        self.set(AT_TOKEN, token);
        self.changed();
    }

    /// Assigns an index to a process, and withdraws the announcement that this process reads its ring.
    pub(super) fn set_reader(&self, place: usize, token: u64) {
        self.set(AT_READS + place, 0);
        self.set(AT_READERS + place, token);
        self.changed();
    }

    pub(super) fn set_reads(&self, place: usize, token: u64) {
        self.set(AT_READS + place, token);
        self.changed();
    }

    /// The descriptor that ends a sleep when it is readable.
    pub(super) fn doorbells(&self) -> BorrowedFd<'_> {
        self.doorbells.as_fd()
    }

    /// Empties the pipe. More than 4,096 bytes stay and end the next sleep at once, which is harmless.
    pub(super) fn drain(&self) {
        let _ = rustix::io::read(&self.doorbells, &mut [0_u8; 4096]);
    }

    fn set(&self, index: usize, value: u64) {
        self.map.words()[index].store(value, Ordering::Release);
    }

    fn changed(&self) {
        let word = &self.map.words()[AT_CHANGES];
        word.store(word.load(Ordering::Relaxed).wrapping_add(1), Ordering::Release);
    }
}

/// Another process's segment. Nothing in it is trusted: its owner may write anything at any time.
#[derive(Debug)]
pub(super) struct Foreign {
    map: Theirs,
    doorbell: OwnedFd,
    ring_words: [usize; 2],
}

impl Foreign {
    pub(super) fn open(peer: &Peer) -> Result<Self, Refused> {
        let Offer { pid, memory, doorbell } = peer.offer;
        let path = |fd: u32| format!("/proc/{pid}/fd/{fd}");
        // The peer chose the descriptors, so the paths may lead to anything. Opening a pipe must not block, and a
        // terminal must not become this process's.
        let flags = OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = open(path(memory), flags | OFlags::RDONLY, Mode::empty())?;
        if !sealed::is_sealed(&file) {
            return Err(Refused::NotSealed);
        }
        let size = usize::try_from(fstat(&file)?.st_size).map_err(|_negative| Refused::Layout)?;
        if !(HEADER_WORDS * 8..=SEGMENT_BYTES_MAX).contains(&size) {
            return Err(Refused::Layout);
        }
        let map = Theirs::map(&file, size)?;
        let words = map.words();
        // Loaded once: the owner may change the words at any time, and the checked sizes must be the used ones.
        let sizes = [AT_CONTROL_BYTES, AT_DATA_BYTES].map(|at| usize::try_from(words.load(at)).unwrap_or(usize::MAX));
        let sound =
            sizes.iter().all(|bytes| bytes.is_power_of_two() && (RING_BYTES_MIN..=RING_BYTES_MAX).contains(bytes));
        if words.load(AT_MAGIC) != MAGIC || words.load(AT_VERSION) != VERSION || !sound {
            return Err(Refused::Layout);
        }
        if HEADER_WORDS * 8 + sizes[0] + sizes[1] != size {
            return Err(Refused::Layout);
        }
        // Opened for both directions: if its owner has died, a write then succeeds or gives EAGAIN, and no SIGPIPE is
        // raised.
        let doorbell = open(path(doorbell), flags | OFlags::RDWR, Mode::empty())?;
        if FileType::from_raw_mode(fstat(&doorbell)?.st_mode) != FileType::Fifo {
            return Err(Refused::Layout);
        }
        let foreign = Self { map, doorbell, ring_words: sizes.map(|bytes| bytes / 8) };
        // A restarted process may have got the same process id and descriptor numbers.
        if foreign.token() != peer.token {
            return Err(Refused::OtherIncarnation);
        }
        Ok(foreign)
    }

    pub(super) fn ring(&self, class: TrafficClass) -> Ring<'_> {
        let index = ring_index(class);
        let at = HEADER_WORDS + if index == 0 { 0 } else { self.ring_words[0] };
        let words = self.map.words();
        Ring {
            reserved: words.part(AT_RESERVED + index, 1),
            tail: words.part(AT_TAILS + index, 1),
            data: words.part(at, self.ring_words[index]),
        }
    }

    pub(super) fn token(&self) -> u64 {
        self.words().load(AT_TOKEN)
    }

    pub(super) fn parked(&self) -> u64 {
        self.words().load(AT_PARKED)
    }

    /// Differs whenever the tables may differ. Loads after this call see at least the changes counted in it.
    pub(super) fn changes(&self) -> u64 {
        let changes = self.words().load(AT_CHANGES);
        fence(Ordering::Acquire);
        changes
    }

    /// The index that its owner gave the process with this token.
    pub(super) fn place_of(&self, token: u64) -> Option<usize> {
        (0..LINKS_MAX).find(|place| self.reader(*place) == token)
    }

    pub(super) fn reader(&self, place: usize) -> u64 {
        self.words().load(AT_READERS + place)
    }

    pub(super) fn reads(&self, place: usize) -> u64 {
        self.words().load(AT_READS + place)
    }

    /// Ends its owner's sleep. False: the owner's pipe cannot be written.
    pub(super) fn ring_doorbell(&self) -> bool {
        // EAGAIN means a full pipe, which is readable, so the sleep ends anyway.
        matches!(rustix::io::write(&self.doorbell, &[1]), Ok(_) | Err(Errno::AGAIN))
    }

    fn words(&self) -> Seen<'_> {
        self.map.words()
    }
}

/// Why a process's memory is not used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// The system refused to open or map it.
    #[error("its memory cannot be opened: {0}")]
    System(#[from] io::Error),
    /// Without seals its owner could shrink it under a reader, or others could write it.
    #[error("its memory is not sealed")]
    NotSealed,
    /// Made by another version, or not by Phalanx.
    #[error("its memory is laid out in another way: another version?")]
    Layout,
    /// The process has another incarnation by now, or has not begun this one.
    #[error("its memory belongs to another incarnation of the process")]
    OtherIncarnation,
    /// The bound on processes reached through memory is met.
    #[error("{LINKS_MAX} processes are reached through memory already")]
    Full,
    /// This process shares no memory itself.
    #[error("this process shares no memory")]
    Unavailable,
}

impl From<Errno> for Refused {
    fn from(error: Errno) -> Self {
        Self::System(error.into())
    }
}

fn ring_index(class: TrafficClass) -> usize {
    match class {
        TrafficClass::Control => 0,
        TrafficClass::Data => 1,
    }
}

fn ring_words(bytes: usize) -> usize {
    bytes.clamp(RING_BYTES_MIN, RING_BYTES_MAX).next_power_of_two() / 8
}

/// The longest packet fits several times.
const RING_BYTES_MIN: usize = 256 << 10;
const RING_BYTES_MAX: usize = 1 << 30;
const SEGMENT_BYTES_MAX: usize = HEADER_WORDS * 8 + 2 * RING_BYTES_MAX;

#[cfg(test)]
pub(super) mod tests {
    use phalanx_core::rng::Rng;

    use super::*;

    /// Kinds of hostile writes.
    #[derive(Clone, Copy)]
    pub(in crate::shm) enum Scribble {
        /// Random words anywhere, most of them in the header.
        Everywhere,
        /// Small lengths, nearby positions, and tables that still name the victim.
        Plausible,
    }

    pub(in crate::shm) fn scribble(own: &Own, what: Scribble, rng: &mut Rng) {
        let words = own.map.words();
        match what {
            Scribble::Everywhere => {
                let range = if rng.below(4) == 0 { AT_READERS } else { words.len() };
                let at = rng.below(range as u64) as usize;
                words[at].store(rng.next_u64(), Ordering::Relaxed);
            }
            Scribble::Plausible => {
                let class = rng.below(2) as usize;
                let tail = words[AT_TAILS + class].load(Ordering::Relaxed);
                match rng.below(8) {
                    0 => words[AT_TAILS + class].store(tail.wrapping_add(rng.below(1 << 16) * 8), Ordering::Release),
                    1 => words[AT_RESERVED + class].store(tail.wrapping_add(rng.below(1 << 19)), Ordering::Release),
                    2 => own.changed(),
                    3 => words[AT_PARKED].store(rng.next_u64(), Ordering::Release),
                    _ => {
                        let at = HEADER_WORDS as u64 + rng.below((words.len() - HEADER_WORDS) as u64);
                        words[at as usize].store(rng.below(1 << 9), Ordering::Release);
                    }
                }
            }
        }
    }
}
