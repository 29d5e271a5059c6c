//! A process that sleeps is woken for what was published, by one doorbell for each sleep.

use loom::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

use super::parked::{Doorbell, Sleep, published};

/// A pipe that becomes readable when it is written, and the words that two processes share.
struct Process {
    parked: AtomicU64,
    published: AtomicUsize,
    pipe: Mutex<usize>,
    written: Condvar,
}

impl Process {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            parked: AtomicU64::new(0),
            published: AtomicUsize::new(0),
            pipe: Mutex::new(0),
            written: Condvar::new(),
        })
    }

    /// As a flush: publishes, then rings the doorbell if the other sleeps. Returns whether it rang.
    fn publish(&self, doorbell: &mut Doorbell) -> bool {
        self.published.fetch_add(1, Ordering::Relaxed);
        published();
        let due = doorbell.is_due(self.parked.load(Ordering::Relaxed));
        if due {
            *self.pipe.lock().expect("nobody panics") += 1;
            self.written.notify_one();
        }
        due
    }

    /// As the driver's wait, and a check for published items after it.
    fn see(&self, wanted: usize) {
        let mut sleep = Sleep::default();
        while self.published.load(Ordering::Relaxed) < wanted {
            sleep.begin(&self.parked);
            if self.published.load(Ordering::Relaxed) < wanted {
                let mut pipe = self.pipe.lock().expect("nobody panics");
                while *pipe == 0 {
                    pipe = self.written.wait(pipe).expect("nobody panics");
                }
                *pipe = 0;
            }
            sleep.end(&self.parked);
        }
    }
}

/// If a wake-up were lost, the sleeper would sleep for ever, which loom reports.
#[test]
fn one_writer_wakes_a_sleeper() {
    loom::model(|| {
        let process = Process::new();
        let other = process.clone();
        let writer = thread::spawn(move || {
            let mut doorbell = Doorbell::default();
            for _ in 0..2 {
                other.publish(&mut doorbell);
            }
        });
        process.see(2);
        writer.join().expect("it does not panic");
    });
}

#[test]
fn two_writers_wake_a_sleeper() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let process = Process::new();
        let writers: Vec<_> = (0..2)
            .map(|_| {
                let other = process.clone();
                thread::spawn(move || {
                    other.publish(&mut Doorbell::default());
                })
            })
            .collect();
        process.see(2);
        writers.into_iter().for_each(|writer| writer.join().expect("it does not panic"));
    });
}
