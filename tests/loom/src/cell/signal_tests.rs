//! A thread that waits for a change is woken by it.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

use super::signal::Signal;

/// Lock-free state and the signal of its changes.
#[derive(Default)]
struct State {
    count: AtomicUsize,
    signal: Signal,
}

impl State {
    fn wait_for(&self, count: usize) {
        let seen = self.signal.wait(None, || (self.count.load(Ordering::Relaxed) >= count).then_some(()));
        assert!(seen.is_some(), "without patience the wait ends with the change");
    }

    fn change(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.signal.notify();
    }
}

/// If a change were missed, the waiter would sleep for ever, which loom reports.
#[test]
fn one_waits_for_one_change() {
    loom::model(|| {
        let state = Arc::new(State::default());
        let other = state.clone();
        let changer = thread::spawn(move || other.change());
        state.wait_for(1);
        changer.join().expect("it does not panic");
    });
}

#[test]
fn one_waits_for_two_changes() {
    loom::model(|| {
        let state = Arc::new(State::default());
        let other = state.clone();
        let changer = thread::spawn(move || (0..2).for_each(|_| other.change()));
        state.wait_for(2);
        changer.join().expect("it does not panic");
    });
}

#[test]
fn two_wait_for_one_change() {
    loom::model(|| {
        let state = Arc::new(State::default());
        let waiters: Vec<_> = (0..2)
            .map(|_| {
                let state = state.clone();
                thread::spawn(move || state.wait_for(1))
            })
            .collect();
        state.change();
        waiters.into_iter().for_each(|w| w.join().expect("it does not panic"));
    });
}
