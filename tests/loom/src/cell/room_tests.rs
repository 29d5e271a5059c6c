//! The thread that fills a queue sleeps only if another thread will wake it.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use loom::thread;

use super::room::Room;

/// A queue that counts its items. A ring holds them, and its free places may become visible late.
struct Queue {
    room: Room,
    places: usize,
    len: AtomicUsize,
    woken: AtomicBool,
}

impl Queue {
    /// A queue that is full, in bytes or in places.
    fn full(items: usize, places: usize, bytes_max: usize) -> Arc<Self> {
        let room = Room::new(bytes_max);
        room.add(items + 1);
        room.give_back(1);
        Arc::new(Self { room, places, len: AtomicUsize::new(items), woken: AtomicBool::new(false) })
    }

    fn has_room(&self) -> bool {
        self.len.load(Ordering::Relaxed) < self.places && self.room.is_free()
    }

    /// As `Items::ready`.
    fn ready(&self) -> bool {
        if self.has_room() {
            return true;
        }
        self.room.starve();
        self.has_room()
    }

    /// As `Items::pop`, of one byte.
    fn pop(&self) {
        self.len.fetch_sub(1, Ordering::Relaxed);
        let half = self.room.taken(1) && self.len.load(Ordering::Relaxed) <= self.places / 2;
        if half && self.room.feed() {
            self.woken.store(true, Ordering::Relaxed);
        }
    }
}

/// Explores one thread that fills the queue and `takers` that empty it.
fn nobody_sleeps_on(items: usize, places: usize, bytes_max: usize, takers: usize) {
    let mut model = loom::model::Builder::new();
    // With three threads, schedules with more preemptions than this are left out, because there are too many.
    model.preemption_bound = (takers > 1).then_some(2);
    model.check(move || {
        let queue = Queue::full(items, places, bytes_max);
        let threads: Vec<_> = (0..takers)
            .map(|_| {
                let queue = queue.clone();
                thread::spawn(move || (0..items / takers).for_each(|_| queue.pop()))
            })
            .collect();
        let ready = queue.ready();
        threads.into_iter().for_each(|t| t.join().expect("no taker panics"));
        assert!(ready || queue.woken.load(Ordering::Relaxed), "the filling thread sleeps and nobody wakes it");
    });
}

#[test]
fn full_in_bytes() {
    nobody_sleeps_on(1, 8, 1, 1);
    nobody_sleeps_on(2, 8, 2, 1);
}

#[test]
fn full_in_places() {
    nobody_sleeps_on(1, 1, 8, 1);
    nobody_sleeps_on(2, 2, 8, 1);
}

#[test]
fn two_take() {
    nobody_sleeps_on(2, 8, 2, 2);
    nobody_sleeps_on(2, 2, 8, 2);
}
