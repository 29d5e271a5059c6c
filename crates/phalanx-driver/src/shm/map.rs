//! Memory mapped from a file that cannot shrink.

use std::io;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::ring::Seen;

/// A file of this process, mapped to be written.
#[derive(Debug)]
pub(super) struct Mine(Mapping);

/// A file of any process, mapped to be read. Its owner may change it at any moment.
#[derive(Debug)]
pub(super) struct Theirs(Mapping);

#[derive(Debug)]
struct Mapping {
    start: NonNull<AtomicU64>,
    words: usize,
}

// SAFETY: the memory is reached through atomics alone, and belongs to no thread.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mine {
    /// `file` has `bytes`, and is not cut off until it is sealed against that.
    pub(super) fn map(file: impl AsFd, bytes: usize) -> io::Result<Self> {
        Mapping::new(file, bytes, ProtFlags::READ | ProtFlags::WRITE).map(Self)
    }

    pub(super) fn words(&self) -> &[AtomicU64] {
        self.0.as_slice()
    }
}

impl Theirs {
    /// `file` has `bytes`, and is sealed against being cut off.
    pub(super) fn map(file: impl AsFd, bytes: usize) -> io::Result<Self> {
        Mapping::new(file, bytes, ProtFlags::READ).map(Self)
    }

    pub(super) fn words(&self) -> Seen<'_> {
        Seen::new(self.0.as_slice())
    }
}

impl Mapping {
    fn new(file: impl AsFd, bytes: usize, access: ProtFlags) -> io::Result<Self> {
        // SAFETY: the kernel chooses an address that is free, so nothing that lives is replaced.
        let start = unsafe { mmap(std::ptr::null_mut(), bytes, access, MapFlags::SHARED, file, 0) }?;
        let start = NonNull::new(start.cast()).ok_or_else(|| io::Error::other("mapped at address zero"))?;
        Ok(Self { start, words: bytes / size_of::<AtomicU64>() })
    }

    fn as_slice(&self) -> &[AtomicU64] {
        // SAFETY: `start` is page-aligned and so many words are mapped until the drop; the file does not shrink
        // under them. Any bits are a valid word. Other processes change them, which atomics allow. What is mapped
        // read-only is handed out as `Seen`, which makes relaxed loads of one word only; those are allowed there.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.words) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and slices of it borrow `self`.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.words * size_of::<AtomicU64>()) };
    }
}
