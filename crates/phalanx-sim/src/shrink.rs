//! Makes a failed run smaller: which of the seed's faults does it take?
//!
//! Delta debugging over the list of faults (Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing
//! Input", IEEE TSE 28:2, 2002): halves, quarters and so on are left out for as long as a violation of the same code
//! comes back. What a run draws besides its faults stays the same, so the result is replayed by the seed and the
//! numbers of the faults.

use crate::campaign::Options;
use crate::result::SeedResult;
use crate::run::run_seed;

/// A failed run made smaller.
#[derive(Clone, Debug)]
pub struct Shrunk {
    /// The smallest failing run found; its story tells it.
    pub result: SeedResult,
    /// What replays it.
    pub options: Options,
    /// Faults of the whole run.
    pub faults_before: usize,
    /// Runs it took.
    pub runs: u32,
}

/// Tries no more runs than this for one seed.
const RUNS_MAX: u32 = 200;

/// Leaves out what `failed` does not need. Where nothing can be left out, the run comes back as it was.
#[must_use]
pub fn shrink(failed: &SeedResult, options: &Options) -> Shrunk {
    let code = failed.violations.first().map(|violation| violation.code.clone()).unwrap_or_default();
    let faults_before = options.plan(failed.seed).faults.len();
    let all = options.faults.clone().unwrap_or_else(|| (0..faults_before).collect());
    let with = |kept: &[usize]| Options { faults: Some(kept.to_vec()), ..options.clone() };
    let mut smallest = (failed.clone(), options.clone());
    let runs = leave_out(all, |kept| {
        let result = run_seed(failed.seed, &with(kept));
        let fails = result.violations.iter().any(|violation| violation.code == code);
        if fails {
            smallest = (result, with(kept));
        }
        fails
    });
    let (result, options) = smallest;
    Shrunk { result, options, faults_before, runs }
}

/// Tries ever smaller lists, each a part of the last one that `fails`; gives how many were tried.
fn leave_out(mut list: Vec<usize>, mut fails: impl FnMut(&[usize]) -> bool) -> u32 {
    let mut runs = 0;
    let mut parts = 2;
    while !list.is_empty() {
        let size = list.len().div_ceil(parts);
        let candidates = list.chunks(size).map(|part| list.iter().copied().filter(|n| !part.contains(n)).collect());
        let mut smaller: Option<Vec<usize>> = None;
        for kept in candidates.collect::<Vec<Vec<usize>>>() {
            if runs == RUNS_MAX {
                return runs;
            }
            runs += 1;
            if fails(&kept) {
                smaller = Some(kept);
                break;
            }
        }
        match smaller {
            Some(kept) => {
                list = kept;
                parts = (parts - 1).max(2);
            }
            None if size == 1 => return runs,
            None => parts = (parts * 2).min(list.len()),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn smallest(list: Vec<usize>, needed: &[usize]) -> (Vec<usize>, u32) {
        let mut last = list.clone();
        let runs = leave_out(list, |kept| {
            let fails = needed.iter().all(|n| kept.contains(n));
            if fails {
                last = kept.to_vec();
            }
            fails
        });
        (last, runs)
    }

    #[test]
    fn what_is_needed_stays() {
        for needed in [&[][..], &[0], &[12], &[3, 7], &[0, 6, 12], &[1, 2, 3, 9]] {
            assert_eq!(smallest((0..13).collect(), needed).0, needed);
        }
        assert_eq!(smallest(vec![4], &[4]).0, [4]);
        assert_eq!(smallest(Vec::new(), &[]), (Vec::new(), 0));
    }

    #[test]
    fn it_ends() {
        let needed: Vec<usize> = (0..400).collect();
        assert_eq!(smallest(needed.clone(), &needed).1, RUNS_MAX);
    }
}
