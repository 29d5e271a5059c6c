//! Whether a thread sleeps, and whether somebody has to end its sleep.

use crate::sync::atomic::{AtomicU8, Ordering, fence};

/// The state of one sleeper. Any thread wakes; one sleeps.
#[derive(Debug)]
pub(crate) struct Doze {
    state: AtomicU8,
}

impl Doze {
    pub(crate) fn new() -> Self {
        Self { state: AtomicU8::new(AWAKE) }
    }

    /// Publish first, then call this. True: the sleeper sleeps, and the caller must end its sleep.
    pub(crate) fn wake(&self) -> bool {
        // Orders the caller's publication before the look at the state; with the fence in `end`, either this
        // side sees that the sleeper reset the state, or the sleeper sees the publication.
        fence(Ordering::SeqCst);
        if self.state.load(Ordering::Relaxed) == NOTIFIED {
            return false;
        }
        self.state.swap(NOTIFIED, Ordering::SeqCst) == PARKED
    }

    /// The sleeper is about to sleep. False: it was woken since it last slept and must not.
    pub(crate) fn begin(&self) -> bool {
        self.state.compare_exchange(AWAKE, PARKED, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// The sleeper is awake again, or did not sleep. True: it was woken by [`Self::wake`].
    pub(crate) fn end(&self) -> bool {
        let woken = self.state.swap(AWAKE, Ordering::SeqCst) == NOTIFIED;
        fence(Ordering::SeqCst);
        woken
    }
}

const AWAKE: u8 = 0;
const PARKED: u8 = 1;
const NOTIFIED: u8 = 2;
