//! Exploring a model to its end, and reporting the result.

use std::collections::{BTreeSet, HashMap};
use std::time::Instant;

use stateright::{Checker, Expectation, HasDiscoveries, Model};

/// The result of an exploration.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Steps taken.
    pub steps: usize,
    /// Distinct states.
    pub unique: usize,
    /// The length of the longest shortest path to a state, in states.
    pub depth: usize,
    /// Its duration in seconds.
    pub seconds: f64,
    /// The invariants, each with a violation if there is one.
    pub always: Vec<Found>,
    /// The states that must be reached, each with a path if it was.
    pub sometimes: Vec<Found>,
}

/// One property's outcome.
#[derive(Clone, Debug)]
pub struct Found {
    /// The property.
    pub name: &'static str,
    /// The steps to a state that breaks the property, or reaches it. A short path, not always the shortest.
    pub path: Option<Vec<String>>,
}

impl Outcome {
    /// The invariants that do not hold.
    pub fn broken(&self) -> impl Iterator<Item = &Found> {
        self.always.iter().filter(|found| found.path.is_some())
    }

    /// The required states that were not reached.
    pub fn missed(&self) -> impl Iterator<Item = &Found> {
        self.sometimes.iter().filter(|found| found.path.is_none())
    }

    /// Whether every invariant holds and every required state was reached.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.broken().next().is_none() && self.missed().next().is_none()
    }
}

/// Explores a model breadth first: completely, or until a state settles one of the properties named in `until`.
pub fn explore<M>(model: M, threads: usize, until: &[&'static str]) -> Outcome
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + std::fmt::Debug + std::hash::Hash + PartialEq + Send + Sync + 'static,
    M::Action: Clone + std::fmt::Debug + PartialEq + Send + Sync,
{
    let properties = model.properties();
    let started = Instant::now();
    let mut builder = model.checker().threads(threads);
    if !until.is_empty() {
        builder = builder.finish_when(HasDiscoveries::AnyOf(until.iter().copied().collect::<BTreeSet<_>>()));
    }
    let checker = builder.spawn_bfs().join();
    let seconds = started.elapsed().as_secs_f64();
    let found = |expectation: Expectation| {
        let of_kind = properties.iter().filter(|p| p.expectation == expectation);
        of_kind
            .map(|p| {
                let path = checker.discovery(p.name);
                let path = path.map(|p| p.into_actions().iter().map(|action| format!("{action:?}")).collect());
                Found { name: p.name, path }
            })
            .collect()
    };
    Outcome {
        steps: checker.state_count(),
        unique: checker.unique_state_count(),
        depth: checker.max_depth(),
        seconds,
        always: found(Expectation::Always),
        sometimes: found(Expectation::Sometimes),
    }
}

/// A way to a state that breaks a property.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Breach {
    /// Its steps.
    pub steps: usize,
    /// How many states were seen when the first such way was found.
    pub states: usize,
}

/// The shortest way to a state that breaks a property.
pub fn shortest<M>(model: &M, property: &'static str) -> Option<Breach>
where
    M: Model + Clone + Send + Sync + 'static,
    M::State: Clone + std::fmt::Debug + std::hash::Hash + PartialEq + Send + Sync + 'static,
    M::Action: Clone + std::fmt::Debug + PartialEq + Send + Sync,
{
    let mut found: Option<Breach> = None;
    loop {
        let until = HasDiscoveries::AnyOf([property].into_iter().collect());
        let mut builder = model.clone().checker().finish_when(until);
        if let Some(Breach { steps, .. }) = found {
            // The checker takes states in blocks and reports the last violation in a block, so there may be a shorter
            // path.
            builder = builder.target_max_depth(steps + 1);
        }
        let checker = builder.spawn_bfs().join();
        let Some(path) = checker.discovery(property) else { return found };
        let steps = path.into_actions().len();
        found = Some(Breach { steps, states: found.map_or(checker.unique_state_count(), |first| first.states) });
        if steps == 0 {
            return found;
        }
    }
}

/// Checks that a goal can be reached from every state. Returns the number of states, and a shortest path to a state
/// from which it cannot be reached, if there is one.
pub fn always_reaches<M>(model: &M, goal: impl Fn(&M::State) -> bool) -> (usize, Option<Vec<String>>)
where
    M: Model,
    M::State: Clone + Eq + std::hash::Hash,
    M::Action: Clone + std::fmt::Debug,
{
    let mut states = model.init_states();
    let mut number: HashMap<M::State, usize> = states.iter().cloned().zip(0..).collect();
    // For each state: its predecessors with the steps from them. The first predecessor is on a shortest path.
    let mut before: Vec<Vec<(usize, String)>> = vec![Vec::new(); states.len()];
    let mut at = 0;
    while at < states.len() {
        let state = states[at].clone();
        let mut actions = Vec::new();
        model.actions(&state, &mut actions);
        for action in actions {
            let step = format!("{action:?}");
            let Some(next) = model.next_state(&state, action) else { continue };
            let found = *number.entry(next.clone()).or_insert_with(|| {
                states.push(next);
                before.push(Vec::new());
                states.len() - 1
            });
            before[found].push((at, step));
        }
        at += 1;
    }
    let mut reaches: Vec<bool> = states.iter().map(goal).collect();
    let mut open: Vec<usize> = (0..states.len()).filter(|&s| reaches[s]).collect();
    while let Some(state) = open.pop() {
        for &(earlier, _) in &before[state] {
            if !std::mem::replace(&mut reaches[earlier], true) {
                open.push(earlier);
            }
        }
    }
    let stuck = reaches.iter().position(|reaches| !reaches).map(|mut state| {
        let mut path = Vec::new();
        while let Some((earlier, step)) = before[state].first().filter(|(earlier, _)| *earlier < state) {
            path.push(step.clone());
            state = *earlier;
        }
        path.reverse();
        path
    });
    (states.len(), stuck)
}

/// All runs of a model to a goal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Course {
    /// Distinct states.
    pub states: usize,
    /// The most steps to the goal. Of no meaning if a run never comes there.
    pub longest: usize,
    /// A run that never comes to the goal, as its steps until it repeats itself, if there is one.
    pub endless: Option<Vec<String>>,
    /// Whether the bound on states ended the exploration.
    pub cut: bool,
}

/// Follows every run of a model depth first, until it comes to a goal or to a state in which it was before. At most so many
/// states.
pub fn course<M>(model: &M, goal: impl Fn(&M::State) -> bool, states: usize) -> Course
where
    M: Model,
    M::State: Clone + Eq + std::hash::Hash,
    M::Action: Clone + std::fmt::Debug,
{
    /// A state on the path, the steps that are left, the last one, and the most steps to the goal so far.
    struct Open<S, A> {
        state: S,
        left: Vec<A>,
        step: String,
        longest: usize,
    }
    // Of each state the most steps to the goal; none while it is on the path.
    let mut known: HashMap<M::State, Option<usize>> = HashMap::new();
    let mut found = Course::default();
    for first in model.init_states() {
        let mut path: Vec<Open<M::State, M::Action>> = Vec::new();
        let mut next = Some((first, String::new()));
        loop {
            let mut told = None;
            if let Some((state, step)) = next.take() {
                match known.get(&state) {
                    _ if goal(&state) => told = Some(0),
                    Some(Some(steps)) => told = Some(*steps),
                    Some(None) => {
                        found.endless = Some(path.iter().map(|open| open.step.clone()).chain([step]).collect());
                        found.states = known.len();
                        return found;
                    }
                    None if known.len() == states => {
                        (found.states, found.cut) = (states, true);
                        return found;
                    }
                    None => {
                        known.insert(state.clone(), None);
                        let mut left = Vec::new();
                        model.actions(&state, &mut left);
                        path.push(Open { state, left, step, longest: 0 });
                    }
                }
            }
            let Some(open) = path.last_mut() else { break };
            if let Some(steps) = told {
                open.longest = open.longest.max(steps + 1);
            }
            if let Some(action) = open.left.pop() {
                let step = format!("{action:?}");
                next = model.next_state(&open.state, action).map(|state| (state, step));
            } else if let Some(open) = path.pop() {
                found.longest = found.longest.max(open.longest);
                known.insert(open.state, Some(open.longest));
                if let Some(before) = path.last_mut() {
                    before.longest = before.longest.max(open.longest + 1);
                }
            }
        }
    }
    found.states = known.len();
    found
}
