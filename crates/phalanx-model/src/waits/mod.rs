//! Waits of ballots: how long coordinators leave each other, in time.
//!
//! Time is counted in ticks, and each tick is one step. A link has a delay that nobody knows. What runs are explored
//! depends on when each member learns that a decree is needed, and on the jitter of each wait. [`crate::view_change`]
//! models that ballots are safe, whenever they begin and whatever is lost.

mod family;
mod rule;
mod state;
mod step;

use stateright::{Model, Property};

pub use family::{Explored, Family, cases, without};
pub use state::{Accepted, Ballot, Member, Message, Own, Rival, Sent, State};

/// See the property.
pub const DECIDES: &str = "every run comes to a decree";

/// Most members.
pub const MEMBERS: usize = 4;
/// The core's `ballot_step`, in ticks.
pub const STEP: u16 = 2;
/// Ticks after which a member that is heard and does not answer is left out. (`MUTE_PATIENCE`)
pub const MUTE: u16 = 60;

/// A rule of waits that is missing or replaced by another one. Each variant states the other behaviour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// A member does not wait for those of lower rank. Allowed.
    NoTurns,
    /// A member does not wait for a ballot that it promised to, if its own rank is lower.
    NoRival,
    /// No wait grows with the distance.
    NoDistance,
    /// Waits do not double when a proposal is superseded. Allowed.
    NoDoubling,
    /// Waits for the members of lower rank run on, whatever ballots there are. Allowed.
    NotRenewed,
    /// No ballot is vain. Allowed.
    NoVain,
    /// The ballots of a member that was vain have no time, and its wedges are ignored while another's have. As built.
    GivenUp,
    /// They have no time, and its wedges are heeded.
    GivenUpHeeded,
    /// A superseded coordinator may begin again at once. Allowed.
    NoBackoff,
    /// The time of a member that does not answer begins anew with each ballot.
    MuteAnew,
    /// A wedge says how long a step takes at its coordinator, and who promised waits at least as long. Allowed.
    Announced,
}

impl Missing {
    /// All variants.
    pub const ALL: [Self; 11] = [
        Self::NoTurns,
        Self::NoRival,
        Self::NoDistance,
        Self::NoDoubling,
        Self::NotRenewed,
        Self::NoVain,
        Self::GivenUp,
        Self::GivenUpHeeded,
        Self::NoBackoff,
        Self::MuteAnew,
        Self::Announced,
    ];

    /// The variant's name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::NoTurns => "no_turns",
            Self::NoRival => "no_rival",
            Self::NoDistance => "no_distance",
            Self::NoDoubling => "no_doubling",
            Self::NotRenewed => "not_renewed",
            Self::NoVain => "no_vain",
            Self::GivenUp => "given_up",
            Self::GivenUpHeeded => "given_up_heeded",
            Self::NoBackoff => "no_backoff",
            Self::MuteAnew => "mute_anew",
            Self::Announced => "announced",
        }
    }
}

/// What a member cannot do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Fault {
    /// Nothing.
    #[default]
    None,
    /// It is stopped.
    Stopped(usize),
    /// No message of a ballot reaches it.
    Deaf(usize),
    /// Reports and acceptances do not reach it. Other messages do.
    HalfDeaf(usize),
}

/// One bounded model.
#[derive(Clone, Debug)]
pub struct Waits {
    /// Number of members.
    pub members: usize,
    /// Ticks that a message takes, by sender and receiver.
    pub delay: [[u16; MEMBERS]; MEMBERS],
    /// The fault.
    pub fault: Fault,
    /// Each member has measured before how far the others are.
    pub measured: bool,
    /// Members learn that a decree is needed within so many ticks of each other.
    pub spread: u16,
    /// What each wait before a further ballot may be longer, in ticks.
    pub jitter: u16,
    /// The rule that is missing, if any.
    pub missing: Option<Missing>,
}

impl Waits {
    /// Members that are a tick from each other.
    #[must_use]
    pub fn new(members: usize) -> Self {
        Self {
            members,
            delay: [[1; MEMBERS]; MEMBERS],
            fault: Fault::None,
            measured: false,
            spread: 6,
            jitter: 1,
            missing: None,
        }
    }

    /// A description of the model for reports.
    #[must_use]
    pub fn describe(&self) -> String {
        let delays: Vec<String> = self.delay[..self.members]
            .iter()
            .map(|row| row[..self.members].iter().map(u16::to_string).collect::<Vec<_>>().join(","))
            .collect();
        format!(
            "waits: members {} delays {} fault {:?} measured {} spread {} jitter {}",
            self.members,
            delays.join(" "),
            self.fault,
            self.measured,
            self.spread,
            self.jitter
        )
    }

    fn lacks(&self, missing: Missing) -> bool {
        self.missing == Some(missing)
    }
}

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
