//! A sleeper is woken for everything that was published, with as few system calls as possible.

use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

use crate::doze::Doze;

/// A descriptor that becomes readable when it is written, like an `eventfd`, and a waker around it.
struct Sleeper {
    doze: Doze,
    readable: Mutex<bool>,
    written: Condvar,
    published: AtomicUsize,
}

impl Sleeper {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            doze: Doze::new(),
            readable: Mutex::new(false),
            written: Condvar::new(),
            published: AtomicUsize::new(0),
        })
    }

    /// As `Waker::wake`, after something was published.
    fn publish(&self) {
        self.published.fetch_add(1, Ordering::Relaxed);
        if self.doze.wake() {
            *self.readable.lock().expect("nobody panics") = true;
            self.written.notify_one();
        }
    }

    /// As a driver's wait: sleeps unless it was already woken, then empties the descriptor if it was a wake-up.
    fn sleep(&self) {
        if self.doze.begin() {
            let mut readable = self.readable.lock().expect("nobody panics");
            while !*readable {
                readable = self.written.wait(readable).expect("nobody panics");
            }
        }
        if self.doze.end() {
            *self.readable.lock().expect("nobody panics") = false;
        }
    }

    /// As the protocol thread: checks, and sleeps until there is more.
    fn see(&self, wanted: usize) {
        while self.published.load(Ordering::Relaxed) < wanted {
            self.sleep();
        }
    }
}

/// If a wake-up were lost, the sleeper would sleep for ever, which loom reports.
#[test]
fn one_publishes() {
    loom::model(|| {
        let sleeper = Sleeper::new();
        let other = sleeper.clone();
        let publisher = thread::spawn(move || other.publish());
        sleeper.see(1);
        publisher.join().expect("it does not panic");
    });
}

#[test]
fn one_publishes_twice() {
    loom::model(|| {
        let sleeper = Sleeper::new();
        let other = sleeper.clone();
        let publisher = thread::spawn(move || (0..2).for_each(|_| other.publish()));
        sleeper.see(2);
        publisher.join().expect("it does not panic");
    });
}

#[test]
fn two_publish() {
    let mut model = loom::model::Builder::new();
    // Three threads: schedules with more preemptions than this are left out, because there are too many.
    model.preemption_bound = Some(2);
    model.check(|| {
        let sleeper = Sleeper::new();
        let publishers: Vec<_> = (0..2)
            .map(|_| {
                let other = sleeper.clone();
                thread::spawn(move || other.publish())
            })
            .collect();
        sleeper.see(2);
        publishers.into_iter().for_each(|p| p.join().expect("it does not panic"));
    });
}
