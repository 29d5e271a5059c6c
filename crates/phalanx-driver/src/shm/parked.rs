//! Whether a process sleeps, in a word that others see, and who has to wake it.

use crate::sync::atomic::{AtomicU64, Ordering, fence};

/// The sleeper's side. The word is odd while it sleeps, and another number each time.
#[derive(Debug, Default)]
pub(crate) struct Sleep {
    times: u64,
}

impl Sleep {
    /// The owner is about to sleep. It must look once more for what was published, and not sleep if there is any:
    /// what it does not see then was published by somebody who sees that it sleeps.
    pub(crate) fn begin(&mut self, word: &AtomicU64) {
        self.times += 1;
        word.store(self.times, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// It is awake again.
    pub(crate) fn end(&mut self, word: &AtomicU64) {
        self.times += 1;
        word.store(self.times, Ordering::Relaxed);
    }
}

/// Between publishing and looking who sleeps.
pub(crate) fn published() {
    fence(Ordering::SeqCst);
}

/// One publisher's memory of one sleeper.
#[derive(Debug, Default)]
pub(crate) struct Doorbell {
    last: u64,
}

impl Doorbell {
    /// Whether the sleeper, whose word is `word`, has to be woken: once for each sleep.
    pub(crate) fn is_due(&mut self, word: u64) -> bool {
        let due = word % 2 == 1 && word != self.last;
        if due {
            self.last = word;
        }
        due
    }
}
