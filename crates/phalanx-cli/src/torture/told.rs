//! What a thread of a torture member tells the member.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What it counts, and the errors that it found. Clones share it.
#[derive(Clone, Default)]
pub(super) struct Told<T>(Arc<Mutex<(T, Vec<String>)>>);

impl<T: Clone> Told<T> {
    /// No thread panics while it holds the lock, and its content is consistent at any time, so poisoning is ignored.
    fn lock(&self) -> MutexGuard<'_, (T, Vec<String>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn count(&self, count: impl FnOnce(&mut T)) {
        count(&mut self.lock().0);
    }

    pub(super) fn wrong(&self, what: String) {
        self.lock().1.push(what);
    }

    /// What was counted so far.
    pub(super) fn counted(&self) -> T {
        self.lock().0.clone()
    }

    /// The errors found since the last call.
    pub(super) fn wrongs(&self) -> Vec<String> {
        std::mem::take(&mut self.lock().1)
    }
}
