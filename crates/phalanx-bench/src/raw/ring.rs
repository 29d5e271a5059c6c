//! A ring of messages in shared memory with one writer and one reader: the least that passes bytes between processes.

use std::fs::File;
use std::hint::spin_loop;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::thread::futex;

use super::mapping::Mapping;
use crate::choice::Waiting;
use crate::error::{BenchError, While};

/// An unnamed memory file that other processes of this user open through `/proc`. The kernel frees it with its last
/// descriptor and mapping.
#[derive(Debug)]
pub(crate) struct RingFile(File);

impl RingFile {
    pub(crate) fn new() -> Result<Self, BenchError> {
        let memory = memfd_create("phalanx-bench", MemfdFlags::CLOEXEC).when("cannot make shared memory")?;
        ftruncate(&memory, FILE_BYTES as u64).when("cannot make shared memory")?;
        Ok(Self(memory.into()))
    }

    /// Path by which this process's children open it.
    pub(crate) fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd()))
    }
}

/// One end of a ring.
pub(crate) struct Ring {
    memory: Mapping,
    /// Position of this end, and the other end's position as last read, in bytes since the start.
    mine: u64,
    others: u64,
}

impl Ring {
    pub(crate) fn open(path: &Path) -> Result<Self, BenchError> {
        let doing = || format!("cannot open {}", path.display());
        let file = File::options().read(true).write(true).open(path).when(doing())?;
        let memory = Mapping::of(&file, FILE_BYTES).when(doing())?;
        Ok(Self { memory, mine: 0, others: 0 })
    }

    /// Writes a message if there is room. It must be shorter than half the ring. Does not wake the reader; see
    /// [`Ring::wake`].
    #[inline]
    pub(crate) fn push(&mut self, message: &[u8]) -> bool {
        let Some(at) = self.claim(message.len()) else { return false };
        self.memory.write(at, message);
        self.publish(message.len());
        true
    }

    /// The same with a message in parts.
    #[inline]
    pub(crate) fn push_parts(&mut self, parts: [&[u8]; 3]) -> bool {
        let len = parts.iter().map(|part| part.len()).sum();
        let Some(mut at) = self.claim(len) else { return false };
        for part in parts {
            self.memory.write(at, part);
            at += part.len();
        }
        self.publish(len);
        true
    }

    /// Writes the length of a message, and returns where its content goes. `None`: there is no room.
    #[inline]
    fn claim(&mut self, len: usize) -> Option<usize> {
        let room = self.memory.room() as u64;
        let (mut at, needed) = (self.mine % room, slot(len));
        // A message is contiguous: one that does not fit before the end starts at the beginning.
        let skipped = if at + needed > room { room - at } else { 0 };
        if self.mine + skipped + needed > self.others + room {
            self.others = self.memory.counter(READ).load(Ordering::Acquire);
            if self.mine + skipped + needed > self.others + room {
                return None;
            }
        }
        if skipped > 0 {
            self.memory.write(at as usize, &SKIP.to_le_bytes());
            self.mine += skipped;
            at = 0;
        }
        self.memory.write(at as usize, &(len as u64).to_le_bytes());
        Some(at as usize + 8)
    }

    /// Lets the reader have a message of which all is written.
    #[inline]
    fn publish(&mut self, len: usize) {
        self.mine += slot(len);
        self.memory.counter(WRITTEN).store(self.mine, Ordering::Release);
    }

    /// Wakes a reader that sleeps. Call after [`Ring::push`] where the reader blocks.
    pub(super) fn wake(&self) {
        // The two fences exclude a lost wake-up. The reader stores `ASLEEP`, then loads `WRITTEN`; the writer has
        // stored `WRITTEN`, then loads `ASLEEP`. In any order of the two fences, at least one of them sees the other's
        // store.
        std::sync::atomic::fence(Ordering::SeqCst);
        let asleep = self.memory.word(ASLEEP);
        if asleep.load(Ordering::SeqCst) == 1 {
            asleep.store(0, Ordering::SeqCst);
            let _ = futex::wake(asleep, futex::Flags::empty(), 1);
        }
    }

    /// Copies the next message into `buffer` and returns its length. `None`: there is none. The writer may reuse its
    /// place only after [`Ring::release`].
    #[inline]
    pub(crate) fn pop(&mut self, buffer: &mut [u8]) -> Option<usize> {
        let len = self.next()?;
        let at = self.mine % self.memory.room() as u64;
        let len = usize::try_from(len).unwrap_or(usize::MAX).min(buffer.len());
        self.memory.read(at as usize + 8, &mut buffer[..len]);
        self.mine += slot(len);
        Some(len)
    }

    /// Discards the next message without reading it. False: there is none.
    #[inline]
    pub(super) fn skip(&mut self) -> bool {
        let Some(len) = self.next() else { return false };
        self.mine += slot(usize::try_from(len).unwrap_or(0));
        true
    }

    /// Length of the next message.
    #[inline]
    fn next(&mut self) -> Option<u64> {
        loop {
            if self.mine >= self.others {
                self.others = self.memory.counter(WRITTEN).load(Ordering::Acquire);
                if self.mine >= self.others {
                    return None;
                }
            }
            let room = self.memory.room() as u64;
            let at = self.mine % room;
            let mut len = [0; 8];
            self.memory.read(at as usize, &mut len);
            match u64::from_le_bytes(len) {
                SKIP => self.mine += room - at,
                len => return Some(len),
            }
        }
    }

    /// Lets the writer reuse the places of all messages taken so far.
    #[inline]
    pub(crate) fn release(&self) {
        self.memory.counter(READ).store(self.mine, Ordering::Release);
    }

    /// Waits for a message, up to `patience`. False: none came.
    pub(super) fn wait(&mut self, waiting: Waiting, patience: Duration) -> io::Result<bool> {
        if waiting == Waiting::Spin {
            // The number of polls is bounded because the caller has to check its commands now and then.
            for _ in 0..SPINS {
                if self.memory.counter(WRITTEN).load(Ordering::Acquire) > self.mine {
                    return Ok(true);
                }
                spin_loop();
            }
            return Ok(false);
        }
        let asleep = self.memory.word(ASLEEP);
        asleep.store(1, Ordering::SeqCst);
        std::sync::atomic::fence(Ordering::SeqCst);
        if self.memory.counter(WRITTEN).load(Ordering::SeqCst) > self.mine {
            asleep.store(0, Ordering::SeqCst);
            return Ok(true);
        }
        let limit = futex::Timespec {
            tv_sec: i64::try_from(patience.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(patience.subsec_nanos()),
        };
        match futex::wait(asleep, futex::Flags::empty(), 1, Some(&limit)) {
            Ok(()) | Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR | rustix::io::Errno::TIMEDOUT) => {}
            Err(error) => return Err(error.into()),
        }
        asleep.store(0, Ordering::SeqCst);
        Ok(self.memory.counter(WRITTEN).load(Ordering::Acquire) > self.mine)
    }
}

/// Bytes that a message occupies: its length, its content, and padding to a multiple of eight.
#[inline]
fn slot(len: usize) -> u64 {
    8 + (len as u64).next_multiple_of(8)
}

/// Indices of the counters: bytes ever written, and bytes ever read.
const WRITTEN: usize = 0;
const READ: usize = 1;
/// Index of the word that is 1 while the reader sleeps.
const ASLEEP: usize = 0;
/// A marker in place of a length: the space up to the end is unused.
const SKIP: u64 = u64::MAX;
/// Size of the file: a ring of 1 MiB and the head with its words.
const FILE_BYTES: usize = (1 << 20) + Mapping::HEAD;
/// Polls in one wait that spins.
const SPINS: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_go_around_the_ring_in_order() {
        let file = RingFile::new().expect("memory");
        let (mut writer, mut reader) = (Ring::open(&file.path()).expect("own"), Ring::open(&file.path()).expect("own"));
        let mut buffer = vec![0; 70_000];
        let (mut written, mut taken) = (0_u64, 0_u64);
        // Lengths that do not divide the ring, so that messages meet its end at many offsets.
        let len = |number: u64| 8 + (number as usize * 7_919) % 65_000;
        while taken < 2_000 {
            let message = vec![written as u8; len(written)];
            let (head, tail) = message.split_at(message.len() / 3);
            let is_written =
                if written % 2 == 0 { writer.push(&message) } else { writer.push_parts([head, &[], tail]) };
            if is_written {
                written += 1;
                continue;
            }
            while let Some(got) = reader.pop(&mut buffer) {
                assert_eq!(got, len(taken));
                assert!(buffer[..got].iter().all(|byte| *byte == taken as u8));
                taken += 1;
            }
            reader.release();
        }
    }

    #[test]
    fn a_sleeper_is_woken() {
        let file = RingFile::new().expect("memory");
        let path = file.path();
        let sleeper = std::thread::spawn(move || {
            let mut reader = Ring::open(&path).expect("own");
            while !reader.wait(Waiting::Block, Duration::from_secs(20)).expect("a futex") {}
            reader.skip()
        });
        let mut writer = Ring::open(&file.path()).expect("own");
        assert!(writer.push(&[1]));
        writer.wake();
        assert!(sleeper.join().expect("it did not panic"));
    }
}
