//! A file mapped into the memory of two processes.

use std::fs::File;
use std::io;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, AtomicU64};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// A shared mapping of a whole file, of at least [`Mapping::HEAD`] bytes.
pub(super) struct Mapping {
    base: NonNull<u8>,
    len: usize,
}

impl Mapping {
    /// Bytes before the data. They hold the four words that the two ends share, 128 bytes apart so that no two share a
    /// cache line.
    pub(super) const HEAD: usize = 512;

    pub(super) fn of(file: &File, len: usize) -> io::Result<Self> {
        assert!(len > Self::HEAD, "a mapping holds its words and some data");
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: the address is null without `MAP_FIXED`, so the kernel chooses a free range and replaces no mapping
        // of this process. `len` is not zero (asserted above).
        let base = unsafe { mmap(ptr::null_mut(), len, protection, flags, file, 0) }?;
        let base = NonNull::new(base.cast()).ok_or_else(|| io::Error::other("mapped at address zero"))?;
        Ok(Self { base, len })
    }

    /// One of the two shared counters.
    pub(super) fn counter(&self, index: usize) -> &AtomicU64 {
        assert!(index < 2, "there are two counters");
        // SAFETY: `base` is page-aligned and mapped for `len > HEAD` bytes until `self` drops; the reference borrows
        // `self`. `index < 2`, so the 8 bytes lie within the first half of the head and are aligned. `read` and `write`
        // never touch the head, so all processes access these bytes only through atomics.
        unsafe { &*self.base.as_ptr().wrapping_add(index * 128).cast() }
    }

    /// One of the two words used as futexes.
    pub(super) fn word(&self, index: usize) -> &AtomicU32 {
        assert!(index < 2, "there are two words");
        // SAFETY: as in `counter`. `index < 2`, so the 4 bytes at 256 or 384 lie within the head's second half and are
        // aligned.
        unsafe { &*self.base.as_ptr().wrapping_add(256 + index * 128).cast() }
    }

    /// Size of the data, in bytes.
    pub(super) fn room(&self) -> usize {
        self.len - Self::HEAD
    }

    /// Copies `bytes` into the data at offset `at`. The caller's ring counters ensure that the other process does not
    /// access that range meanwhile.
    #[inline]
    pub(super) fn write(&self, at: usize, bytes: &[u8]) {
        assert!(at <= self.room() && bytes.len() <= self.room() - at, "a write stays in the ring");
        let to = self.base.as_ptr().wrapping_add(Self::HEAD + at);
        // SAFETY: `bytes` is valid for `bytes.len()` reads. `to` is valid for as many writes: the assertion keeps the
        // range within the mapping, which lives until `self` drops. They do not overlap: no `&[u8]` into this mapping
        // is ever handed out. The other process stays out of the range because of the ring's counters (see above).
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
    }

    /// Copies bytes at offset `at` out of the data. The caller's ring counters ensure that the other process does not
    /// write that range meanwhile.
    #[inline]
    pub(super) fn read(&self, at: usize, bytes: &mut [u8]) {
        assert!(at <= self.room() && bytes.len() <= self.room() - at, "a read stays in the ring");
        let from = self.base.as_ptr().wrapping_add(Self::HEAD + at);
        // SAFETY: `from` is valid for `bytes.len()` reads: the assertion keeps the range within the mapping, which
        // lives until `self` drops. `bytes` is valid for as many writes, and does not overlap: it is an exclusive
        // borrow of memory outside the mapping, since no slice into it is ever handed out.
        unsafe { ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), bytes.len()) };
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: `base` and `len` are those of the `mmap` in `of`, which nothing else unmaps. References from
        // `counter` and `word` borrow `self`, so none is alive during drop.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
    }
}
