//! View change, acknowledgement gate and flush of one group view, explored with [`stateright`].

mod action;
mod config;
mod flow;
mod judge;
mod nonsense;
pub mod property;
mod state;
mod step;

use stateright::{Model, Property};

pub use action::Action;
pub use config::{BALLOTS, Config, PACKETS, PROCESSES, Poison, STREAMS, Wish};
pub use state::{Member, Phase, Proposal, State, Try};

/// A bounded model of one view change.
#[derive(Clone, Debug)]
pub struct ViewChange {
    /// Its bounds and rules.
    pub config: Config,
}

impl Model for ViewChange {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        self.config.check();
        let mut state = State {
            members: Default::default(),
            ballots: Default::default(),
            sent: Default::default(),
            past: Default::default(),
            nonsense: Default::default(),
            crashes: 0,
            broken: 0,
        };
        state.members.iter_mut().take(self.config.processes).for_each(|m| m.lives = true);
        self.config.draws().into_iter().map(|nonsense| State { nonsense, ..state.clone() }).collect()
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        action::list(&self.config, state, actions);
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        step::next(&self.config, state, action)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        property::all(&self.config)
    }
}
