//! Shrinks a failed run: finds which of the seed's faults it needs, and how little of everything else.
//!
//! The method is delta debugging over the list of faults (Zeller and Hildebrandt, "Simplifying and Isolating
//! Failure-Inducing Input", IEEE TSE 28:2, 2002): halves, quarters and so on are left out while a violation of the same
//! code recurs. Then, one after the other: fewer members, a shorter faulty phase, fewer messages and kinds of them,
//! shorter faults; and the faults once more. All other draws stay the same. So the seed, the numbers of the faults and
//! one line of reductions ([`Reduction`]) replay the result.

use crate::clock::MS;
use crate::options::Options;
use crate::reduce::{MEMBERS_MIN, Part, Reduction, UNTIL_MIN_MS};
use crate::result::SeedResult;
use crate::run::run_seed;

/// A failed run after shrinking.
#[derive(Clone, Debug)]
pub struct Shrunk {
    /// The smallest failing run found; its story describes it.
    pub result: SeedResult,
    /// The options that replay it.
    pub options: Options,
    /// Number of faults of the original run.
    pub faults_before: usize,
    /// Number of runs needed.
    pub runs: u32,
}

/// Bound on the runs for one seed: for its faults, and for all the rest.
const RUNS_MAX: u32 = 200;
const REST_RUNS_MAX: u32 = 120;
/// Bound on the lines in the story of a small run.
const ROWS: usize = 80;

/// Leaves out everything that `failed` does not need. If nothing can be left out, the run is returned unchanged.
#[must_use]
pub fn shrink(failed: &SeedResult, options: &Options) -> Shrunk {
    let mut search = Search::new(failed, options);
    search.leave_out_faults();
    search.reduce_rest();
    // A smaller run may need fewer faults.
    search.leave_out_faults();
    let Search { result, options, faults_before, runs, .. } = search;
    Shrunk { result, options, faults_before, runs }
}

/// The smallest failing run so far.
struct Search {
    code: String,
    faults_before: usize,
    result: SeedResult,
    options: Options,
    runs: u32,
    rest_runs: u32,
}

impl Search {
    fn new(failed: &SeedResult, options: &Options) -> Self {
        let code = failed.violations.first().map(|violation| violation.code.clone()).unwrap_or_default();
        let faults_before = options.plan(failed.seed).faults.len();
        let options = Options { story_rows: options.story_rows.min(ROWS), ..options.clone() };
        Self { code, faults_before, result: failed.clone(), options, runs: 0, rest_runs: 0 }
    }

    /// Runs the seed under `options`. If it fails in the same way, it becomes the smallest run.
    fn fails(&mut self, options: Options) -> bool {
        self.runs += 1;
        let result = run_seed(self.result.seed, &options);
        // A smaller run may fail for another reason, which would lead the search astray.
        let fails = result.violations.iter().any(|violation| violation.code == self.code);
        if fails {
            (self.result, self.options) = (result, options);
        }
        fails
    }

    fn leave_out_faults(&mut self) {
        let all = self.options.faults.clone().unwrap_or_else(|| (0..self.faults_before).collect());
        leave_out(all, |kept| {
            let mut options = Options { faults: Some(kept.to_vec()), ..self.options.clone() };
            // The duration of a fault that was left out has no meaning.
            options.reduced.lasts_ms.retain(|number, _| kept.contains(number));
            self.fails(options)
        });
    }

    /// Tries one more reduction.
    fn reduced(&mut self, change: impl FnOnce(&mut Reduction)) -> bool {
        if self.rest_runs == REST_RUNS_MAX {
            return false;
        }
        let mut reduction = self.options.reduced.clone();
        change(&mut reduction);
        // A reduction that changes nothing needs no run.
        if reduction == self.options.reduced {
            return false;
        }
        self.rest_runs += 1;
        self.fails(Options { reduced: reduction, ..self.options.clone() })
    }

    fn reduce_rest(&mut self) {
        let seed = self.result.seed;
        // From the smallest number on, so that the first one that fails is the best.
        for members in MEMBERS_MIN..self.options.plan(seed).members {
            if self.reduced(|reduction| reduction.members = Some(members)) {
                break;
            }
        }
        for part in Part::ALL {
            self.reduced(|reduction| reduction.without.push(part));
        }
        // Half of the faulty phase, and half again; then a little less each time.
        for share in [2, 2, 2, 2] {
            let until_ms = (self.options.plan(seed).heal_ns / MS / share).max(UNTIL_MIN_MS);
            if !self.reduced(|reduction| reduction.until_ms = Some(until_ms)) {
                break;
            }
        }
        let until_ms = (self.options.plan(seed).heal_ns / MS * 3 / 4).max(UNTIL_MIN_MS);
        self.reduced(|reduction| reduction.until_ms = Some(until_ms));
        for share in [16, 4, 2] {
            let gap_ms = self.options.plan(seed).workload.gap_ns / MS * share;
            if self.reduced(|reduction| reduction.gap_ms = Some(gap_ms)) {
                break;
            }
        }
        for number in self.options.faults.clone().unwrap_or_default() {
            for share in [16, 4, 2] {
                let kept = Options { faults: None, ..self.options.clone() };
                let lasts_ms = kept.plan(seed).faults[number].lasts_ns / MS / share;
                let shorter = |reduction: &mut Reduction| {
                    reduction.lasts_ms.insert(number, lasts_ms);
                };
                if self.reduced(shorter) {
                    break;
                }
            }
        }
    }
}

/// Tries ever smaller lists, each a part of the last one that `fails`. Returns the number of tries.
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
