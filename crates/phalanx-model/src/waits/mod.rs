//! Waits of ballots: how long coordinators leave each other, in time.
//!
//! Time is counted in ticks, and each tick is one step. A link has a delay that nobody knows. What runs are explored
//! depends on when each member learns that a decree is needed, and on the jitter of each wait. [`crate::view_change`]
//! models that ballots are safe, whenever they begin and whatever is lost.

mod config;
mod family;
mod rule;
mod state;
mod step;

use stateright::{Model, Property};

pub use config::{Fault, MEMBERS, MUTE, Missing, STEP, Waits};
pub use family::{Explored, Family, cases, without};
pub use state::{Accepted, Ballot, Member, Message, Own, Rival, Sent, State};

/// See the property.
pub const DECIDES: &str = "every run comes to a decree";

impl Model for Waits {
    type State = State;
    type Action = u16;

    fn init_states(&self) -> Vec<State> {
        State::first(self)
    }

    fn actions(&self, _: &State, actions: &mut Vec<u16>) {
        actions.extend(0..=self.jitter);
    }

    fn next_state(&self, state: &State, jitter: u16) -> Option<State> {
        (!state.decided).then(|| step::tick(self, state, jitter))
    }

    fn properties(&self) -> Vec<Property<Self>> {
        Vec::new()
    }
}
