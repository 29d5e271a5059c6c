//! Executes runs of different numbers on several threads.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;

/// Runs each number on one of `threads` threads (0: one for each core), and passes on the results as they come.
pub(super) fn each<R: Send>(
    numbers: Range<u64>,
    threads: usize,
    run: impl Fn(u64) -> R + Sync,
    mut take: impl FnMut(R),
) {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let threads = if threads == 0 { cores } else { threads };
    let (next, (results, finished)) = (AtomicU64::new(numbers.start), mpsc::channel());
    thread::scope(|scope| {
        for _ in 0..threads {
            let (next, results, run) = (&next, results.clone(), &run);
            scope.spawn(move || {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= numbers.end || results.send(run(number)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(results);
        finished.iter().for_each(&mut take);
    });
}
