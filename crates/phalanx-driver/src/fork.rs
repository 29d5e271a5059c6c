//! Detects that the current process is a forked child of the one in which a value was made. A child has none of its
//! parent's threads and shares its parent's sockets, memory and files, so it must not use inherited handles.
//!
//! Detection relies on the C library's `fork`, which runs a registered handler in the child. A child made by a bare
//! system call (`clone`) or by `_Fork` is not detected.

use std::io;
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

#[allow(unsafe_code)]
mod hook;

/// The number of forks between the first process and this one that ran the handler.
static FORKS: AtomicU64 = AtomicU64::new(0);

/// The process in which a value was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Home(u64);

impl Home {
    /// The current process.
    #[must_use]
    pub fn here() -> Self {
        static HOOKED: Once = Once::new();
        HOOKED.call_once(hook::install);
        Self(FORKS.load(Ordering::Relaxed))
    }

    /// Whether the current process is still that one. Costs one load, cheap enough for each call of a hot path.
    #[inline]
    #[must_use]
    pub fn is_here(self) -> bool {
        // Relaxed order suffices. A process's count changes at most once: in a child, before its only thread returns
        // from `fork`. That thread reads its own write, and threads that it starts begin after the write. In the parent
        // the count never changes.
        self.0 == FORKS.load(Ordering::Relaxed)
    }

    /// Like [`Self::is_here`], as a result.
    ///
    /// # Errors
    /// [`Forked`] in a child of that process.
    #[inline]
    pub fn check(self) -> Result<(), Forked> {
        if self.is_here() { Ok(()) } else { Err(Forked) }
    }
}

/// The handle was made before a fork, and this process is the child. Nothing changed; in the parent the handle still
/// works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this handle belongs to the parent process: start one of its own in the forked child")]
pub struct Forked;

impl From<Forked> for io::Error {
    fn from(forked: Forked) -> Self {
        Self::other(forked)
    }
}
