//! A file that two processes hold in their memory.

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
    /// Bytes before the data: the words that the two ends share, each in a cache line of its own.
    pub(super) const HEAD: usize = 512;

    pub(super) fn of(file: &File, len: usize) -> io::Result<Self> {
        assert!(len > Self::HEAD, "a mapping holds its words and some data");
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: the address is left to the kernel, so that no memory of this process is replaced.
        let base = unsafe { mmap(ptr::null_mut(), len, protection, flags, file, 0) }?;
        let base = NonNull::new(base.cast()).ok_or_else(|| io::Error::other("mapped at address zero"))?;
        Ok(Self { base, len })
    }

    /// One of the two shared counters.
    pub(super) fn counter(&self, index: usize) -> &AtomicU64 {
        assert!(index < 2, "there are two counters");
        // SAFETY: 128-byte steps within the head of a page-aligned mapping that lives as long as `self`; all
        // processes touch these bytes through atomics alone.
        unsafe { &*self.base.as_ptr().wrapping_add(index * 128).cast() }
    }

    /// One of the two words that are slept on.
    pub(super) fn word(&self, index: usize) -> &AtomicU32 {
        assert!(index < 2, "there are two words");
        // SAFETY: as above, in the second half of the head.
        unsafe { &*self.base.as_ptr().wrapping_add(256 + index * 128).cast() }
    }

    /// Bytes of data.
    pub(super) fn room(&self) -> usize {
        self.len - Self::HEAD
    }

    /// Copies bytes into the data. The ring's counters keep the other process away from them meanwhile.
    #[inline]
    pub(super) fn write(&self, at: usize, bytes: &[u8]) {
        assert!(at <= self.room() && bytes.len() <= self.room() - at, "a write stays in the ring");
        let to = self.base.as_ptr().wrapping_add(Self::HEAD + at);
        // SAFETY: within the mapping, as asserted; `bytes` is this process's own memory and cannot overlap it.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
    }

    /// Copies bytes out of the data. The ring's counters keep the other process away from them meanwhile.
    #[inline]
    pub(super) fn read(&self, at: usize, bytes: &mut [u8]) {
        assert!(at <= self.room() && bytes.len() <= self.room() - at, "a read stays in the ring");
        let from = self.base.as_ptr().wrapping_add(Self::HEAD + at);
        // SAFETY: as above.
        unsafe { ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), bytes.len()) };
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by `of`, and no reference into it outlives `self`.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
    }
}
