//! Runs many seeds on all cores, and reports the results in the order of the seeds.

use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;

use crate::options::Options;
use crate::result::{SeedResult, Summary, Violation};
use crate::run::run_seed;

/// Runs `seeds` and calls `progress` for each result, in the order of the seeds, on the calling thread.
///
/// A seed that panics is a failed seed; the others go on.
///
/// # Panics
/// When a thread cannot be started.
pub fn campaign(seeds: Range<u64>, options: &Options, mut progress: impl FnMut(&SeedResult)) -> Summary {
    resume(Summary::default(), seeds, options, |result, _| {
        progress(result);
        ControlFlow::Continue(())
    })
}

/// Like [`campaign`], continuing one whose first seeds `summary` covers; these are not run again. `progress` receives
/// the summary that includes the seed, and ends the campaign early with `Break`. Seeds under way then are still
/// counted.
///
/// # Panics
/// When a thread cannot be started.
pub fn resume(
    mut summary: Summary,
    seeds: Range<u64>,
    options: &Options,
    mut progress: impl FnMut(&SeedResult, &Summary) -> ControlFlow<()>,
) -> Summary {
    let step = options.step.max(1);
    let seeds = seeds.start.saturating_add(summary.seeds.saturating_mul(step))..seeds.end;
    let threads = options.threads_used();
    let next = AtomicU64::new(seeds.start);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        // Bounded, so that a slow receiver blocks the workers instead of collecting results without limit.
        let (results, inbox) = mpsc::sync_channel(4 * threads);
        for _ in 0..threads {
            let results = results.clone();
            let (next, stop) = (&next, &stop);
            let end = seeds.end;
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(step, Ordering::Relaxed);
                    if seed >= end || results.send(run_and_repeat(seed, options)).is_err() {
                        return;
                    }
                }
            });
        }
        // The workers hold clones; the channel closes when the last of them ends.
        drop(results);
        // Seeds end in any order. A result waits here until all seeds before it have ended.
        let mut waiting = BTreeMap::new();
        let mut due = seeds.start;
        for (repeated, result) in inbox {
            summary.repeated += u64::from(repeated);
            waiting.insert(result.seed, result);
            while let Some(result) = waiting.remove(&due) {
                due += step;
                summary.seeds += 1;
                summary.full += u64::from(result.full);
                summary.totals.add(&result.counters);
                if !result.violations.is_empty() {
                    if summary.failed.len() < FAILED_MAX {
                        summary.failed.push(result.clone());
                    }
                    summary.failures += 1;
                }
                let ends = progress(&result, &summary).is_break();
                if ends || options.stop.is_reached(&result) {
                    stop.store(true, Ordering::Relaxed);
                }
            }
        }
    });
    summary.never_checked = crate::judge::never_checked(&summary.totals, options.draw);
    summary
}

/// Runs a seed, and some seeds twice. A difference shows that time, chance or order came in from outside.
fn run_and_repeat(seed: u64, options: &Options) -> (bool, SeedResult) {
    let mut result = run_seed(seed, options);
    let repeats = options.repeat_every > 0 && seed.is_multiple_of(options.repeat_every);
    if repeats {
        let again = run_seed(seed, options);
        // Counters show differences that no trace records, for example in packets.
        if (again.trace_hash, &again.counters) != (result.trace_hash, &result.counters) {
            result.violations.push(Violation {
                code: "determinism".into(),
                at_ns: 0,
                text: format!("a second run differs: trace {:016x}, then {:016x}", result.trace_hash, again.trace_hash),
            });
        }
    }
    (repeats, result)
}

/// Bound on the failed seeds that are kept. All are counted.
const FAILED_MAX: usize = 100;
