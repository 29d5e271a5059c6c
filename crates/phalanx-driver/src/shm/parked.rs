//! Whether a process sleeps, published in a word that others read, and who has to wake it.

use crate::sync::atomic::{AtomicU64, Ordering, fence};

/// The sleeper's side. The word is odd while the process sleeps, and differs for each sleep.
#[derive(Debug, Default)]
pub(crate) struct Sleep {
    times: u64,
}

impl Sleep {
    /// Marks the owner as about to sleep. It must then check once more for published packets, and not sleep if there
    /// are any. A packet that this check misses is published by a process that sees the mark.
    pub(crate) fn begin(&mut self, word: &AtomicU64) {
        self.times += 1;
        word.store(self.times, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Marks the owner as awake.
    pub(crate) fn end(&mut self, word: &AtomicU64) {
        self.times += 1;
        word.store(self.times, Ordering::Relaxed);
    }
}

/// The fence between publishing packets and reading who sleeps; it pairs with the one in [`Sleep::begin`].
pub(crate) fn published() {
    fence(Ordering::SeqCst);
}

/// One publisher's memory of one sleeper.
#[derive(Debug, Default)]
pub(crate) struct Doorbell {
    last: u64,
}

impl Doorbell {
    /// Whether the sleeper, whose word is `word`, has to be woken: at most once for each sleep.
    pub(crate) fn is_due(&mut self, word: u64) -> bool {
        let due = word % 2 == 1 && word != self.last;
        if due {
            self.last = word;
        }
        due
    }
}
