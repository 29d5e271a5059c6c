//! Leaving: members leave in order, a cell ends when the last one has left, and is founded again.
//!
//! A decree is one step: a quorum that accepted nothing else accepts, and its coordinator knows. The others learn of it
//! later, or never. The founding after the end is one step here; [`crate::founding`] models it.

mod property;
mod rule;
mod state;
mod step;

use stateright::{Model, Property};

pub use property::{CAN_GO_ON, CAN_REFOUND, FINDABLE, NOBODY, ONE_DECISION, OVER};
pub use state::{Action, Process, Record, State, View};

/// Most processes.
pub const PROCESSES: usize = 4;
/// Most decrees; view 1 precedes the first.
pub const DECREES: usize = 3;

/// A rule of leaving that is missing or replaced by a wrong one. Each variant states the wrong behaviour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// Survivors and leavers together are a quorum of the view; nothing is required of the survivors alone.
    OnlyWholeQuorum,
    /// Survivors are a majority of the members that do not leave; nothing else is required.
    OnlyMajorityOfRest,
    /// The same, and all together are a quorum of the view.
    MajorityOfRest,
    /// A leaver stops as soon as it knows the decision.
    GoesAtOnce,
    /// A leaver stops when one remaining member has installed the next view.
    GoesAfterOne,
    /// A leaver clears its marker.
    LeaverClears,
    /// Markers are cleared when all founders have left.
    AllFoundersLeft,
    /// The record that the instance ended names no process that may live.
    EndsRegardless,
    /// The record names only excluded processes, not leavers that did not learn the decision.
    EndsWithoutLeavers,
}

impl Missing {
    /// All variants.
    pub const ALL: [Self; 9] = [
        Self::OnlyWholeQuorum,
        Self::OnlyMajorityOfRest,
        Self::MajorityOfRest,
        Self::GoesAtOnce,
        Self::GoesAfterOne,
        Self::LeaverClears,
        Self::AllFoundersLeft,
        Self::EndsRegardless,
        Self::EndsWithoutLeavers,
    ];

    /// The variant's name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::OnlyWholeQuorum => "only_whole_quorum",
            Self::OnlyMajorityOfRest => "only_majority_of_rest",
            Self::MajorityOfRest => "majority_of_rest",
            Self::GoesAtOnce => "goes_at_once",
            Self::GoesAfterOne => "goes_after_one",
            Self::LeaverClears => "leaver_clears",
            Self::AllFoundersLeft => "all_founders_left",
            Self::EndsRegardless => "ends_regardless",
            Self::EndsWithoutLeavers => "ends_without_leavers",
        }
    }
}

/// One bounded model.
#[derive(Clone, Debug)]
pub struct Leaving {
    /// Number of processes.
    pub processes: usize,
    /// Number of members of view 1: the first ones.
    pub members: usize,
    /// Number of founders, the first ones, all needed to found again.
    pub founders: usize,
    /// Number of decrees.
    pub decrees: usize,
    /// Crashes in all.
    pub crashes: u8,
    /// How often a process may start again, in all.
    pub starts: u8,
    /// The rule that is missing, if any.
    pub missing: Option<Missing>,
}

impl Leaving {
    /// A model of `processes`, of which the first are `members`, and the first of these `founders`.
    #[must_use]
    pub fn new(processes: usize, members: usize, founders: usize) -> Self {
        Self { processes, members, founders, decrees: 2, crashes: 0, starts: 0, missing: None }
    }

    /// The same model with this many decrees, crashes and starts.
    #[must_use]
    pub fn bounds(self, decrees: usize, crashes: u8, starts: u8) -> Self {
        Self { decrees, crashes, starts, ..self }
    }

    /// A description of the model for reports.
    #[must_use]
    pub fn describe(&self) -> String {
        format!(
            "leaving: processes {} members {} founders {} decrees {} crashes {} starts {}",
            self.processes, self.members, self.founders, self.decrees, self.crashes, self.starts
        )
    }

    fn lacks(&self, missing: Missing) -> bool {
        self.missing == Some(missing)
    }
}

impl Model for Leaving {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        assert!(self.processes <= PROCESSES, "at most {PROCESSES} processes");
        assert!(self.decrees <= DECREES, "at most {DECREES} decrees");
        vec![State::new(self)]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        step::list(self, state, actions);
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        step::next(self, state, action)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        property::all(self)
    }
}
