//! Copies between this process's own bytes and words that others may change meanwhile.
//!
//! Each byte is copied once, in no order that can be relied on: what is read while another writes it may be of before or of
//! after. One word at a time, as a compiler has to make of atomics, costs a sixth more between two processors.

use std::sync::atomic::{AtomicU64, Ordering};

/// What is shorter, in words, is copied one by one: a copy by the processor takes some time to begin.
const LONG_WORDS: usize = 32;

/// Reads as many words as both have.
#[inline]
pub(crate) fn load(from: &[AtomicU64], to: &mut [[u8; 8]]) {
    if to.len().min(from.len()) < LONG_WORDS || !long::load(from, to) {
        for (from, to) in from.iter().zip(to) {
            *to = from.load(Ordering::Relaxed).to_ne_bytes();
        }
    }
}

/// Writes as many words as both have.
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

    /// True: it is done.
    pub(super) fn load(from: &[AtomicU64], to: &mut [[u8; 8]]) -> bool {
        let bytes = from.len().min(to.len()) * 8;
        // SAFETY: so many bytes are readable and writable, and are not the same: one is borrowed for good. That others may
        // write what is read meanwhile is what the words are atomic for; the processor reads each byte once, as a relaxed load does.
        unsafe { copy(from.as_ptr().cast(), to.as_mut_ptr().cast(), bytes) };
        true
    }

    /// True: it is done.
    pub(super) fn store(from: &[[u8; 8]], to: &[AtomicU64]) -> bool {
        let bytes = from.len().min(to.len()) * 8;
        // SAFETY: so many bytes are readable and writable, and are not the same: `from` is not atomic. That others may read
        // what is written meanwhile is what the words are atomic for; the processor writes each byte once, as a relaxed store does.
        unsafe { copy(from.as_ptr().cast(), to.as_ptr().cast_mut().cast(), bytes) };
        true
    }

    /// # Safety
    /// `bytes` can be read at `from` and written at `to`, and do not overlap. Others may use one of them meanwhile, if they do
    /// so with atomics.
    unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
        // SAFETY: as the caller promises. The direction flag is clear, as everywhere; nothing else is changed.
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
