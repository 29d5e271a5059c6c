//! Memory mappings of files that cannot shrink.

use std::io;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::memory::ring::Seen;

/// A file of this process, mapped for writing.
#[derive(Debug)]
pub(crate) struct Mine(Mapping);

/// A file of any process, mapped for reading. Its owner may change the contents at any moment.
#[derive(Debug)]
pub(crate) struct Theirs(Mapping);

#[derive(Debug)]
struct Mapping {
    start: NonNull<AtomicU64>,
    words: usize,
}

// SAFETY: a `Mapping` is an address and a length, owned by it alone. `mmap` and `munmap` work from any thread, and the
// memory is accessed only as `AtomicU64`s, which are `Send`.
unsafe impl Send for Mapping {}
// SAFETY: a shared `Mapping` gives out nothing but `&[AtomicU64]`, which is `Sync`.
unsafe impl Sync for Mapping {}

impl Mine {
    /// Maps `bytes` of `file`. The file must have that length, and must not shrink until it is sealed against
    /// shrinking.
    pub(crate) fn map(file: impl AsFd, bytes: usize) -> io::Result<Self> {
        Mapping::new(file, bytes, ProtFlags::READ | ProtFlags::WRITE).map(Self)
    }

    pub(crate) fn words(&self) -> &[AtomicU64] {
        self.0.as_slice()
    }
}

impl Theirs {
    /// Maps `bytes` of `file`. The file must have that length and be sealed against shrinking.
    pub(crate) fn map(file: impl AsFd, bytes: usize) -> io::Result<Self> {
        Mapping::new(file, bytes, ProtFlags::READ).map(Self)
    }

    pub(crate) fn words(&self) -> Seen<'_> {
        Seen::new(self.0.as_slice())
    }
}

impl Mapping {
    fn new(file: impl AsFd, bytes: usize, access: ProtFlags) -> io::Result<Self> {
        // SAFETY: without `MAP_FIXED` the kernel picks an unused address range, so the call replaces no existing
        // mapping.
        let start = unsafe { mmap(std::ptr::null_mut(), bytes, access, MapFlags::SHARED, file, 0) }?;
        let start = NonNull::new(start.cast()).ok_or_else(|| io::Error::other("mapped at address zero"))?;
        Ok(Self { start, words: bytes / size_of::<AtomicU64>() })
    }

    fn as_slice(&self) -> &[AtomicU64] {
        // SAFETY: `start` comes from `mmap`, so it is page-aligned, and `words * 8` bytes are mapped until the drop,
        // which the slice's borrow of `self` prevents. The file is sealed against shrinking (or its owner never shrinks
        // it), so no access faults. Every bit pattern is a valid `AtomicU64`. Other processes change the words, which
        // atomics allow. A read-only mapping is given out as `Seen` alone, which does relaxed loads of one word; those
        // are permitted on read-only memory.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.words) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: `start` and the length are those of the mapping that `new` made. Every slice of it borrows `self`, so
        // none is left.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.words * size_of::<AtomicU64>()) };
    }
}
