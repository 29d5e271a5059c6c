//! A reader that sleeps until a descriptor is readable sees all that was published.

use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

use crate::readiness::Readiness;

/// A queue as a count, and a descriptor like an `eventfd`.
struct Inbox {
    count: AtomicUsize,
    readiness: Readiness,
    is_readable: Mutex<bool>,
    written: Condvar,
}

impl Inbox {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            count: AtomicUsize::new(0),
            readiness: Readiness::new(),
            is_readable: Mutex::new(true),
            written: Condvar::new(),
        })
    }

    fn raise(&self) {
        if self.readiness.raise() {
            *self.is_readable.lock().expect("nobody panics") = true;
            self.written.notify_one();
        }
    }

    fn publish(&self) {
        self.count.fetch_add(1, Ordering::AcqRel);
        self.raise();
    }

    /// As `Queue::settle_descriptor`, for a reader that has taken so many items.
    fn settle(&self, taken: usize) {
        let empty = || std::mem::take(&mut *self.is_readable.lock().expect("nobody panics"));
        if self.readiness.lower(empty) && self.count.fetch_add(0, Ordering::AcqRel) > taken {
            self.raise();
        }
    }

    /// The descriptor is asked for while others publish. Then the reader sleeps until it is readable, and takes what is
    /// there, until it has `wanted`.
    fn take(&self, wanted: usize) {
        self.readiness.begin();
        self.settle(0);
        let mut taken = 0;
        while taken < wanted {
            let mut is_readable = self.is_readable.lock().expect("nobody panics");
            while !*is_readable {
                is_readable = self.written.wait(is_readable).expect("nobody panics");
            }
            drop(is_readable);
            taken = self.count.load(Ordering::Relaxed);
            self.settle(taken);
        }
    }
}

/// If a wake-up were lost, the reader would sleep for ever, which loom reports.
#[test]
fn one_publishes() {
    loom::model(|| {
        let inbox = Inbox::new();
        let other = inbox.clone();
        let publisher = thread::spawn(move || other.publish());
        inbox.take(1);
        publisher.join().expect("it does not panic");
    });
}

#[test]
fn one_publishes_twice() {
    loom::model(|| {
        let inbox = Inbox::new();
        let other = inbox.clone();
        let publisher = thread::spawn(move || (0..2).for_each(|_| other.publish()));
        inbox.take(2);
        publisher.join().expect("it does not panic");
    });
}

/// Otherwise a program without anything to take would be woken for ever.
#[test]
fn a_reader_without_items_sleeps_in_the_end() {
    loom::model(|| {
        let inbox = Inbox::new();
        let other = inbox.clone();
        let publisher = thread::spawn(move || other.publish());
        inbox.take(1);
        publisher.join().expect("it does not panic");
        inbox.settle(1);
        assert!(!*inbox.is_readable.lock().expect("nobody panics"));
    });
}
