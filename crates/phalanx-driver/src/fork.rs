//! Knows whether this is still the process in which a value was made. A forked child has none of its parent's
//! threads, and shares its parent's sockets, memory and files: it must not act with what it inherited.
//!
//! A process forks by `fork` of the C library, which calls us in the child. A child that was made by a bare system call
//! (`clone`, `_Fork`) is not noticed.

use std::io;
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

#[allow(unsafe_code)]
mod hook;

/// How often this process, or a process it was forked from, was the child of a fork.
static FORKS: AtomicU64 = AtomicU64::new(0);

/// The process in which a value was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Home(u64);

impl Home {
    /// This process.
    #[must_use]
    pub fn here() -> Self {
        static HOOKED: Once = Once::new();
        HOOKED.call_once(hook::install);
        Self(FORKS.load(Ordering::Relaxed))
    }

    /// Whether this is still that process. One load: cheap enough for each call of a hot path.
    #[inline]
    #[must_use]
    pub fn is_here(self) -> bool {
        // No order is needed. The count of a process changes once at most: in a child, before its only thread returns from
        // `fork`. That thread reads what it wrote; those that it starts begin after it. In the parent nothing ever changes.
        self.0 == FORKS.load(Ordering::Relaxed)
    }

    /// The same as an error.
    ///
    /// # Errors
    /// [`Forked`] in a child of that process.
    #[inline]
    pub fn check(self) -> Result<(), Forked> {
        if self.is_here() { Ok(()) } else { Err(Forked) }
    }
}

/// The handle was made before a fork, and this is the child. Nothing changed; in the parent it works as before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this handle belongs to the parent process: start one of its own in the forked child")]
pub struct Forked;

impl From<Forked> for io::Error {
    fn from(forked: Forked) -> Self {
        Self::other(forked)
    }
}
