//! Searches for an order of the operations on one register that explains every answer.
//!
//! The search is depth-first, after Wing and Gong ("Testing and Verifying Concurrent Objects", JPDC 17, 1993). Each
//! step appends an operation that no remaining one must precede, if its answer fits. Visited states are remembered as
//! the set of operations done and the value then (Lowe, "Testing for linearizability", 2017), so no state is searched
//! twice.

use std::collections::HashSet;

/// An operation on a register that holds 0 at first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Op {
    /// Its process's trace. Times within one trace are exact.
    pub(crate) trace: usize,
    /// Clock of its times. Times of different clocks cannot be compared.
    pub(crate) clock: usize,
    pub(crate) asked_ns: u64,
    /// Time of the answer, and the value it returned.
    pub(crate) answer: Option<(u64, Option<u64>)>,
    pub(crate) deed: Deed,
}

/// Kind of operation.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Deed {
    /// Returns the value.
    Read,
    /// Sets the value.
    Write(u64),
    /// Returns the value. If it equals the first number, sets it to the second.
    Swap(u64, u64),
}

/// Result of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// An order exists.
    Linearizable,
    /// No order exists. One exists for all answers before the answer of this operation.
    Impossible(usize),
    /// The search took too many steps.
    GivenUp,
}

/// Searches for an order in at most `steps`. `slack_ns` is the most by which times of two traces of one clock may
/// differ.
pub(crate) fn search(ops: &[Op], slack_ns: u64, mut steps: usize) -> Verdict {
    let mut answers: Vec<usize> = (0..ops.len()).filter(|&op| ops[op].answer.is_some()).collect();
    answers.sort_by_key(|&op| (ops[op].answer, op));
    match explains(ops, &answers, slack_ns, &mut steps) {
        Some(true) => return Verdict::Linearizable,
        Some(false) => {}
        None => return Verdict::GivenUp,
    }
    // An order for the first n answers is one for fewer, too. So binary search finds the first answer that has none.
    let (mut good, mut bad) = (0, answers.len());
    while bad - good > 1 {
        let middle = good.midpoint(bad);
        match explains(ops, &answers[..middle], slack_ns, &mut steps) {
            Some(true) => good = middle,
            Some(false) => bad = middle,
            None => return Verdict::GivenUp,
        }
    }
    Verdict::Impossible(answers[bad - 1])
}

/// Whether an order explains these answers. All other answers count as unknown. `None`: given up.
fn explains(ops: &[Op], answers: &[usize], slack_ns: u64, steps: &mut usize) -> Option<bool> {
    let history = History::of(ops, answers, slack_ns);
    let mut state = State { done: vec![0; history.ops.len().div_ceil(64)].into(), value: 0, left: answers.len() };
    let mut tried: HashSet<(Box<[u64]>, u64)> = HashSet::new();
    let mut ways: Vec<(State, Vec<usize>)> = Vec::new();
    loop {
        if state.left == 0 {
            return Some(true);
        }
        *steps = steps.checked_sub(1)?;
        let next = if tried.insert((state.done.clone(), state.value)) { history.next(&state) } else { Vec::new() };
        ways.push((state, next));
        state = loop {
            // All continuations were tried: go one step back.
            let Some((before, next)) = ways.last_mut() else { return Some(false) };
            match next.pop() {
                Some(op) => break history.after(before, op),
                None => ways.pop(),
            };
        };
    }
}

/// A prefix of an order.
struct State {
    /// Bit set of the operations in it.
    done: Box<[u64]>,
    value: u64,
    /// Number of answers not in it.
    left: usize,
}

impl State {
    fn has(&self, op: usize) -> bool {
        self.done[op / 64] >> (op % 64) & 1 == 1
    }
}

/// The relevant operations.
struct History {
    ops: Vec<Op>,
    slack_ns: u64,
}

impl History {
    fn of(ops: &[Op], answers: &[usize], slack_ns: u64) -> Self {
        let mut known = vec![false; ops.len()];
        answers.iter().for_each(|&op| known[op] = true);
        let seen: HashSet<u64> = answers.iter().filter_map(|&op| ops[op].answer?.1).collect();
        // An operation without an answer is relevant only if a value that it may have written is needed: by an answer,
        // or by a swap that may have happened.
        let expected =
            ops.iter().filter_map(|op| if let Deed::Swap(expected, _) = op.deed { Some(expected) } else { None });
        let needed: HashSet<u64> = seen.iter().copied().chain(expected).collect();
        let matters = |op: &Op| match op.deed {
            Deed::Read => false,
            Deed::Write(value) => needed.contains(&value),
            Deed::Swap(_, value) => needed.contains(&value),
        };
        let kept = ops.iter().zip(known).filter(|(op, known)| *known || matters(op));
        let kept = kept.map(|(op, known)| Op { answer: op.answer.filter(|_| known), ..*op });
        let mut ops: Vec<Op> = kept.collect();
        ops.sort_by_key(|op| op.asked_ns);
        Self { ops, slack_ns }
    }

    /// Operations that may come next. The last one in the list is tried first.
    fn next(&self, state: &State) -> Vec<usize> {
        let rest: Vec<usize> = (0..self.ops.len()).filter(|&op| !state.has(op)).collect();
        // The earliest answer among the remaining operations: for each trace, and for each clock.
        let mut limits: Vec<(usize, usize, u64)> = Vec::new();
        for &op in &rest {
            let Op { trace, clock, answer, .. } = self.ops[op];
            let Some((at_ns, _)) = answer else { continue };
            match limits.iter_mut().find(|limit| limit.0 == trace) {
                Some(limit) => limit.2 = limit.2.min(at_ns),
                None => limits.push((trace, clock, at_ns)),
            }
        }
        let free = |&op: &usize| {
            let Op { trace, clock, asked_ns, .. } = self.ops[op];
            limits.iter().all(|&(other, its_clock, at_ns)| {
                let slack_ns = if other == trace { 0 } else { self.slack_ns };
                its_clock != clock || asked_ns <= at_ns.saturating_add(slack_ns)
            })
        };
        let mut next: Vec<usize> = rest.into_iter().filter(free).filter(|&op| self.fits(op, state.value)).collect();
        // Heuristic: operations answered first are tried first, unanswered ones last.
        next.sort_by_key(|&op| std::cmp::Reverse((self.ops[op].answer.map_or(u64::MAX, |(at_ns, _)| at_ns), op)));
        next
    }

    /// Whether the answer, if there is one, is what a register with this value would return.
    fn fits(&self, op: usize, value: u64) -> bool {
        match (self.ops[op].deed, self.ops[op].answer) {
            (Deed::Write(_), _) => true,
            (_, Some((_, told))) => told == Some(value),
            (Deed::Swap(expected, _), None) => expected == value,
            (Deed::Read, None) => false,
        }
    }

    fn after(&self, state: &State, op: usize) -> State {
        let mut done = state.done.clone();
        done[op / 64] |= 1 << (op % 64);
        let value = match self.ops[op].deed {
            Deed::Write(value) => value,
            Deed::Swap(expected, value) if expected == state.value => value,
            Deed::Swap(..) | Deed::Read => state.value,
        };
        State { done, value, left: state.left - usize::from(self.ops[op].answer.is_some()) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const STEPS: usize = 2_000_000;

    /// A random history: time of the invocation, time and value of the answer, and the operation. All share one clock,
    /// and each has a trace of its own.
    fn history() -> impl Strategy<Value = Vec<Op>> {
        let deed = prop_oneof![
            Just(Deed::Read),
            (1u64..4).prop_map(Deed::Write),
            (0u64..4, 1u64..4).prop_map(|(expected, value)| Deed::Swap(expected, value)),
        ];
        let one = (0u64..12, prop::option::weighted(0.8, (0u64..8, 0u64..4)), deed);
        prop::collection::vec(one, 1..7).prop_map(|all| {
            let mut ops = Vec::new();
            for (trace, (asked_ns, answer, deed)) in all.into_iter().enumerate() {
                let told = |value| if matches!(deed, Deed::Write(_)) { None } else { Some(value) };
                let answer = answer.map(|(after_ns, value)| (asked_ns + after_ns, told(value)));
                ops.push(Op { trace, clock: 0, asked_ns, answer, deed });
            }
            ops
        })
    }

    /// Tries every order of every choice of operations, without memory of visited states.
    fn by_force(ops: &[Op], order: &mut Vec<usize>, value: u64) -> bool {
        let left: Vec<usize> = (0..ops.len()).filter(|op| !order.contains(op)).collect();
        if left.iter().all(|&op| ops[op].answer.is_none()) {
            return true;
        }
        left.iter().any(|&op| {
            let late = left.iter().any(|&other| ops[other].answer.is_some_and(|(at_ns, _)| at_ns < ops[op].asked_ns));
            let told = ops[op].answer.and_then(|(_, told)| told);
            if late || told.is_some_and(|told| told != value) {
                return false;
            }
            let next = match ops[op].deed {
                Deed::Write(new) => new,
                Deed::Swap(expected, new) if expected == value => new,
                Deed::Swap(..) | Deed::Read => value,
            };
            order.push(op);
            let found = by_force(ops, order, next);
            order.pop();
            found
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(3_000))]
        #[test]
        fn the_search_finds_what_force_finds(ops in history()) {
            let found = search(&ops, 0, STEPS);
            prop_assert_eq!(found == Verdict::Linearizable, by_force(&ops, &mut Vec::new(), 0));
            if let Verdict::Impossible(at) = found {
                // Without the answer it blames and all later ones, an order exists.
                let last = (ops[at].answer, at);
                let before: Vec<Op> = (0..ops.len())
                    .map(|op| Op { answer: ops[op].answer.filter(|_| (ops[op].answer, op) < last), ..ops[op] })
                    .collect();
                prop_assert_eq!(search(&before, 0, STEPS), Verdict::Linearizable);
            }
        }
    }

    #[test]
    fn times_of_two_clocks_and_within_the_slack_say_nothing() {
        let op = |trace, clock, asked_ns, deed, told| Op {
            trace,
            clock,
            asked_ns,
            answer: Some((asked_ns + 1, told)),
            deed,
        };
        let stale = [op(0, 0, 10, Deed::Write(1), None), op(1, 0, 20, Deed::Read, Some(0))];
        assert_eq!(search(&stale, 0, STEPS), Verdict::Impossible(1));
        assert_eq!(search(&stale, 9, STEPS), Verdict::Linearizable);
        assert_eq!(search(&[stale[0], Op { clock: 1, ..stale[1] }], 0, STEPS), Verdict::Linearizable);
        assert_eq!(
            search(&[stale[0], Op { trace: 0, ..stale[1] }], 9, STEPS),
            Verdict::Impossible(1),
            "one process's own"
        );
    }
}
