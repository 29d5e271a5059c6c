//! Copies between private bytes and words that other threads or processes may change meanwhile.
//!
//! Each byte is copied once, in no particular order: a byte read while another process writes it may be old or new.
//! Compilers turn a slice copy of atomics into a load and a store per word, which costs a sixth more between two
//! processors than `rep movsb`.

use std::sync::atomic::{AtomicU64, Ordering};

/// Shorter copies, in words, go word by word: `rep movsb` has a start-up cost.
const LONG_WORDS: usize = 32;

/// Reads as many words as fit both slices.
#[inline]
pub(crate) fn load(from: &[AtomicU64], to: &mut [[u8; 8]]) {
    if to.len().min(from.len()) < LONG_WORDS || !long::load(from, to) {
        for (from, to) in from.iter().zip(to) {
            *to = from.load(Ordering::Relaxed).to_ne_bytes();
        }
    }
}

/// Writes as many words as fit both slices.
#[inline]
pub(crate) fn store(from: &[[u8; 8]], to: &[AtomicU64]) {
    if from.len().min(to.len()) < LONG_WORDS || !long::store(from, to) {
        for (to, from) in to.iter().zip(from) {
            to.store(u64::from_ne_bytes(*from), Ordering::Relaxed);
        }
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod long {
    use std::arch::asm;
    use std::sync::atomic::AtomicU64;

    /// Copies as many words as fit both. Returns whether it did; the caller falls back to a loop.
    pub(super) fn load(from: &[AtomicU64], to: &mut [[u8; 8]]) -> bool {
        let bytes = from.len().min(to.len()) * 8;
        // SAFETY: `bytes` is at most the size of either slice, so `from` is valid for `bytes` reads and `to` for
        // `bytes` writes. They do not overlap: `to` is an exclusive borrow. Others may write `from` meanwhile, but only
        // as atomics, and the asm block reads each byte once, as a relaxed load would.
        unsafe { copy(from.as_ptr().cast(), to.as_mut_ptr().cast(), bytes) };
        true
    }

    /// Copies as many words as fit both. Returns whether it did; the caller falls back to a loop.
    pub(super) fn store(from: &[[u8; 8]], to: &[AtomicU64]) -> bool {
        let bytes = from.len().min(to.len()) * 8;
        // SAFETY: `bytes` is at most the size of either slice, so `from` is valid for `bytes` reads. `to` is valid for
        // `bytes` writes through a shared reference, because its words are atomics. They do not overlap: `from` is a
        // shared borrow of plain bytes, which nothing may write while it lives. Others may read `to` meanwhile, but
        // only as atomics, and the asm block writes each byte once, as a relaxed store would.
        unsafe { copy(from.as_ptr().cast(), to.as_ptr().cast_mut().cast(), bytes) };
        true
    }

    /// Copies `bytes` bytes, each once.
    ///
    /// # Safety
    /// `from` is valid for `bytes` reads and `to` for `bytes` writes, and the two do not overlap. Others may access one
    /// of them meanwhile, if they do so with atomics only.
    unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
        // SAFETY: by the caller's promise `rep movsb` reads and writes valid memory only. The ABI keeps the direction
        // flag clear, so it copies upwards. It changes no registers but the three declared ones, no flags and no stack.
        unsafe {
            asm!(
                "rep movsb",
                inout("rcx") bytes => _,
                inout("rsi") from => _,
                inout("rdi") to => _,
                options(nostack, preserves_flags)
            );
        }
    }
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
mod long {
    use std::sync::atomic::AtomicU64;

    pub(super) fn load(_: &[AtomicU64], _: &mut [[u8; 8]]) -> bool {
        false
    }

    pub(super) fn store(_: &[[u8; 8]], _: &[AtomicU64]) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_length_is_copied_and_no_more() {
        for len in [0, 1, 7, LONG_WORDS - 1, LONG_WORDS, LONG_WORDS + 1, 4096] {
            let source: Vec<[u8; 8]> = (0..len as u64).map(|word| (word * 0x0101_0101_0101).to_ne_bytes()).collect();
            let words: Vec<AtomicU64> = (0..len + 2).map(|_| AtomicU64::new(u64::MAX)).collect();
            store(&source, &words[1..=len]);
            let mut copied = vec![[7; 8]; len + 1];
            load(&words[1..=len], &mut copied);
            assert_eq!(copied[..len], source);
            assert_eq!(copied[len], [7; 8]);
            assert_eq!(
                (words[0].load(Ordering::Relaxed), words[len + 1].load(Ordering::Relaxed)),
                (u64::MAX, u64::MAX)
            );
        }
    }
}
