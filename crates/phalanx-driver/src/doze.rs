//! The state of one sleeping thread: whether it sleeps, and whether another thread has to wake it.

use crate::sync::atomic::{AtomicU8, Ordering, fence};

/// The state of one sleeper. Any thread may wake it; only the owner sleeps.
#[derive(Debug)]
pub(crate) struct Doze {
    state: AtomicU8,
}

impl Doze {
    pub(crate) fn new() -> Self {
        Self { state: AtomicU8::new(AWAKE) }
    }

    /// Requests a wake-up. The caller publishes its work before this call. True: the owner sleeps, and the caller must
    /// end the sleep.
    pub(crate) fn wake(&self) -> bool {
        // Orders the caller's publication before the load of the state. Together with the fence in `end`, either this
        // thread sees that the owner reset the state, or the owner sees the publication.
        fence(Ordering::SeqCst);
        if self.state.load(Ordering::Relaxed) == NOTIFIED {
            return false;
        }
        self.state.swap(NOTIFIED, Ordering::SeqCst) == PARKED
    }

    /// Marks the owner as about to sleep. False: it was woken since its last sleep and must not sleep.
    pub(crate) fn begin(&self) -> bool {
        self.state.compare_exchange(AWAKE, PARKED, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Marks the owner as awake. True: it was woken by [`Self::wake`].
    pub(crate) fn end(&self) -> bool {
        let woken = self.state.swap(AWAKE, Ordering::SeqCst) == NOTIFIED;
        // Pairs with the fence in `wake`. A waker that still saw NOTIFIED, and so did nothing, published before its
        // fence: the owner's loads after this one see that publication.
        fence(Ordering::SeqCst);
        woken
    }
}

const AWAKE: u8 = 0;
const PARKED: u8 = 1;
const NOTIFIED: u8 = 2;
