//! Whether a descriptor is readable: a flag beside it, so that a system call is made only when that changes.

use crate::sync::atomic::{AtomicU8, Ordering};

/// The flag of one descriptor. One thread publishes, one takes.
///
/// Both count what was published in one atomic of their own. The publisher adds to it (`AcqRel`) before it calls
/// [`Self::raise`]. The taker reads it by adding zero (`AcqRel`) after [`Self::lower`] and [`Self::begin`], and raises the
/// flag itself if anything is there. So no wake-up is lost, though `raise` begins with a relaxed load:
///
/// 1. If the taker's addition comes first in the order of changes of that atomic, the publisher's synchronizes with it.
///    The load in `raise` then sees the lowered flag.
/// 2. If the publisher's comes first, the taker sees what was published.
#[derive(Debug)]
pub(crate) struct Readiness {
    state: AtomicU8,
}

impl Readiness {
    /// There is no descriptor.
    pub(crate) fn new() -> Self {
        Self { state: AtomicU8::new(NONE) }
    }

    /// There is a descriptor now, and it is readable. Called once.
    pub(crate) fn begin(&self) {
        self.state.swap(READABLE, Ordering::AcqRel);
    }

    /// Something was published. True: the caller must make the descriptor readable.
    #[inline]
    pub(crate) fn raise(&self) -> bool {
        // Usually there is no descriptor, and then this costs one load.
        self.state.load(Ordering::Relaxed) == CLEAR && self.state.swap(READABLE, Ordering::AcqRel) == CLEAR
    }

    /// The taker found nothing. `empty` makes the descriptor unreadable, and returns false if it was not readable. True:
    /// the flag was lowered, and the caller must look again.
    #[inline]
    pub(crate) fn lower(&self, empty: impl FnOnce() -> bool) -> bool {
        // A publisher that raised the flag and has not written yet leaves the descriptor readable afterwards. If the flag
        // were lowered here, nobody would empty the descriptor until something is published again. So the flag stays, and
        // the taker comes back once for nothing.
        let lowered = self.state.load(Ordering::Relaxed) == READABLE && empty();
        if lowered {
            self.state.swap(CLEAR, Ordering::AcqRel);
        }
        lowered
    }
}

const NONE: u8 = 0;
const CLEAR: u8 = 1;
const READABLE: u8 = 2;
