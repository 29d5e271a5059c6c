//! Knows whether this is still the process in which a value was made. A forked child has none of its parent's
//! threads, and shares its parent's files: it must not act with what it inherited.

use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

#[allow(unsafe_code)]
mod hook;

/// How often this process, or a process it was forked from, was the child of a fork.
static FORKS: AtomicU64 = AtomicU64::new(0);

/// The process in which a value was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin(u64);

impl Origin {
    /// This process.
    pub(crate) fn here() -> Self {
        static HOOKED: Once = Once::new();
        HOOKED.call_once(hook::install);
        Self(FORKS.load(Ordering::Relaxed))
    }

    /// Whether this is still that process. One load: cheap enough for each call of a hot path.
    pub(crate) fn is_here(self) -> bool {
        self.0 == FORKS.load(Ordering::Relaxed)
    }
}
