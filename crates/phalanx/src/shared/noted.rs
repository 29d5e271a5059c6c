//! A list that any thread adds to, and that one takes in each of its turns.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// What was noted since it was taken last. A look at an empty one costs a load.
pub(crate) struct Noted<T> {
    items: Mutex<Vec<T>>,
    has_some: AtomicBool,
}

impl<T> Default for Noted<T> {
    fn default() -> Self {
        Self { items: Mutex::default(), has_some: AtomicBool::new(false) }
    }
}

impl<T> Noted<T> {
    pub(crate) fn push(&self, item: T) {
        self.items.lock().unwrap_or_else(PoisonError::into_inner).push(item);
        self.has_some.store(true, Ordering::Release);
    }

    pub(crate) fn take(&self) -> Vec<T> {
        if !self.has_some.load(Ordering::Acquire) {
            return Vec::new();
        }
        let mut items = self.items.lock().unwrap_or_else(PoisonError::into_inner);
        self.has_some.store(false, Ordering::Relaxed);
        std::mem::take(&mut items)
    }
}
