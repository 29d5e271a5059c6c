//! Leaving: members go in order, a cell ends when the last one does, and is founded again.
//!
//! A decree is one step: a quorum that accepted nothing else accepts, and its coordinator knows. The others learn of it later,
//! or never. What founds the cell again is [`crate::founding`], in one step here.

mod property;
mod rule;
mod state;
mod step;

use stateright::{Model, Property};

pub use property::{CAN_GO_ON, CAN_REFOUND, FINDABLE, NOBODY, ONE_DECISION, OVER};
pub use state::{Action, Process, Record, State, View};

/// The most processes.
pub const PROCESSES: usize = 4;
/// The most decrees; view 1 stands before the first.
pub const DECREES: usize = 3;

/// A rule of leaving that is missing or replaced by a wrong one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// Survivors and leavers together are a quorum of the view, whoever the survivors are.
    OnlyWholeQuorum,
    /// Survivors are a majority of those that do not leave, and no more is asked.
    OnlyMajorityOfRest,
    /// The same, beside a quorum of the whole.
    MajorityOfRest,
    /// A leaver goes with the decision, or some time after it.
    GoesAtOnce,
    /// A leaver goes when one of those that stay has installed the next view.
    GoesAfterOne,
    /// A leaver clears its mark.
    LeaverClears,
    /// Marks are cleared when all founders have left.
    AllFoundersLeft,
    /// The record that the instance ended names nobody that may live.
    EndsRegardless,
    /// It names those only that were left out, not leavers that were not told.
    EndsWithoutLeavers,
}

impl Missing {
    /// All of them.
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

    /// Its name.
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
    /// Processes.
    pub processes: usize,
    /// The first so many are in view 1.
    pub members: usize,
    /// The first so many are founders, and are needed to found again.
    pub founders: usize,
    /// Decrees.
    pub decrees: usize,
    /// Crashes in all.
    pub crashes: u8,
    /// How often a process may start again, in all.
    pub starts: u8,
    /// The rule that is missing, if any.
    pub missing: Option<Missing>,
}

impl Leaving {
    /// So many processes, of which the first are members, and the first of these founders.
    #[must_use]
    pub fn new(processes: usize, members: usize, founders: usize) -> Self {
        Self { processes, members, founders, decrees: 2, crashes: 0, starts: 0, missing: None }
    }

    /// The same with so many decrees, crashes and starts.
    #[must_use]
    pub fn bounds(self, decrees: usize, crashes: u8, starts: u8) -> Self {
        Self { decrees, crashes, starts, ..self }
    }

    /// What a run of it is called.
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
