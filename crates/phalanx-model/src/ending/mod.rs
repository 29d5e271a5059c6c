//! The end of an instance while a group waits for processes that are cut off with its state, and what the next instance
//! knows of it.
//!
//! The decrees of an instance are one step each, and all members that take part and stay learn them at once. Leavers and
//! processes that are left out learn of them later, or never. [`crate::leaving`] models that the decision survives its
//! leavers, [`crate::founding`] the ballot of founders, [`crate::orphans`] the group's messages and transfers.

mod config;
mod property;
mod rule;
mod state;
mod step;

use stateright::{Model, Property};

pub use config::{Ending, INSTANCES, Missing, PROCESSES};
pub use property::{CAN_END, CAN_FOUND, FREE, ONE_NUMBER, RESOLVED, TOLD};
pub use state::{Action, Group, Instance, Process, Record, Stage, State, Waiting};

impl Model for Ending {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        assert!(self.processes <= PROCESSES, "at most {PROCESSES} processes");
        assert!(usize::from(self.instances) <= INSTANCES, "at most {INSTANCES} instances");
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
