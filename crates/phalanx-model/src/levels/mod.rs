//! Levels: a chain of decrees, each deciding members and a level, among processes of two builds.
//!
//! Consensus is that of [`crate::view_change`], by the same rules, without streams. A process of build 1 does not know
//! level 2; entries of it in a decree are opaque bytes there. Messages are not queued: the receiver of one reads what
//! its sender put on record, at any later time or never.

mod property;
mod state;
mod step;

use stateright::{Model, Property};

pub use property::{FOLLOWED, LOCKED_OUT, NO_FALL, NOT_ABOVE, ONE_VALUE, SENSE};
pub use state::{Action, Process, State, Try, View};

/// Most processes.
pub const PROCESSES: usize = 4;
/// Most decrees; view 1 precedes the first.
pub const DECREES: usize = 3;
/// Most ballot numbers in one decree: rounds times processes.
pub const BALLOTS: usize = 8;

/// A rule of levels that is missing or replaced by a wrong one. Each variant states the wrong behaviour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// A coordinator encodes an adopted proposal again, without the entries it does not know.
    EncodesAgain,
    /// A coordinator puts the level in force into an adopted proposal.
    LevelInForceAtAdoption,
    /// The level of a view is the lowest build of its members.
    LeastOfMembers,
    /// A rise is refused only if a future member cannot follow.
    OnlyStayersCount,
    /// A rise is refused only if a present member cannot follow.
    OnlyPresentCount,
    /// A request announced in an earlier view counts.
    OldWishCounts,
    /// A request stays valid after a view with a member that cannot follow.
    WishOutlives,
    /// A joiner is taken in whatever its build is.
    AnyJoiner,
    /// A process sends everything that it knows.
    SpeaksAsBuilt,
    /// A process sends to processes outside its view what it sends to members.
    SpeaksToStrangers,
    /// A process evaluates messages by the level of its own view.
    JudgesByOwnView,
    /// Acceptors accept any level. Allowed, while coordinators follow the rules.
    AcceptsAnyLevel,
    /// Coordinators use the lowest build of the members; acceptors follow the rules. Allowed: nothing wrong is decided.
    WrongCoordinators,
}

impl Missing {
    /// All variants.
    pub const ALL: [Self; 13] = [
        Self::EncodesAgain,
        Self::LevelInForceAtAdoption,
        Self::LeastOfMembers,
        Self::OnlyStayersCount,
        Self::OnlyPresentCount,
        Self::OldWishCounts,
        Self::WishOutlives,
        Self::AnyJoiner,
        Self::SpeaksAsBuilt,
        Self::SpeaksToStrangers,
        Self::JudgesByOwnView,
        Self::AcceptsAnyLevel,
        Self::WrongCoordinators,
    ];

    /// The variant's name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::EncodesAgain => "encodes_again",
            Self::LevelInForceAtAdoption => "level_in_force_at_adoption",
            Self::LeastOfMembers => "least_of_members",
            Self::OnlyStayersCount => "only_stayers_count",
            Self::OnlyPresentCount => "only_present_count",
            Self::OldWishCounts => "old_wish_counts",
            Self::WishOutlives => "wish_outlives",
            Self::AnyJoiner => "any_joiner",
            Self::SpeaksAsBuilt => "speaks_as_built",
            Self::SpeaksToStrangers => "speaks_to_strangers",
            Self::JudgesByOwnView => "judges_by_own_view",
            Self::AcceptsAnyLevel => "accepts_any_level",
            Self::WrongCoordinators => "wrong_coordinators",
        }
    }
}

/// One bounded model.
#[derive(Clone, Debug)]
pub struct Levels {
    /// The build of each process: the highest level that it knows, 1 or 2.
    pub builds: Vec<u8>,
    /// Members of view 1, a bit each; the others may join. View 1 has level 1.
    pub founders: u8,
    /// Number of decrees.
    pub decrees: usize,
    /// Rounds of ballots of each decree.
    pub rounds: usize,
    /// Ballots of each decree.
    pub ballots: usize,
    /// How many times level 2 is requested.
    pub commands: u8,
    /// Crashes in all.
    pub crashes: u8,
    /// The rule that is missing, if any.
    pub missing: Option<Missing>,
}

impl Levels {
    /// Processes of these builds, with the first `founders` of them in view 1.
    #[must_use]
    pub fn new(builds: &[u8], founders: usize) -> Self {
        let founders = (1 << founders) - 1;
        let builds = builds.to_vec();
        Self { builds, founders, decrees: 1, rounds: 1, ballots: 1, commands: 1, crashes: 0, missing: None }
    }

    /// The same model with other bounds.
    #[must_use]
    pub fn bounds(self, decrees: usize, rounds: usize, ballots: usize) -> Self {
        Self { decrees, rounds, ballots, ..self }
    }

    /// The same model with this many commands and crashes.
    #[must_use]
    pub fn events(self, commands: u8, crashes: u8) -> Self {
        Self { commands, crashes, ..self }
    }

    /// A description of the model for reports.
    #[must_use]
    pub fn describe(&self) -> String {
        format!(
            "levels: builds {:?} founders {:04b} decrees {} rounds {} ballots {} commands {} crashes {}",
            self.builds, self.founders, self.decrees, self.rounds, self.ballots, self.commands, self.crashes
        )
    }

    fn lacks(&self, missing: Missing) -> bool {
        self.missing == Some(missing)
    }

    fn processes(&self) -> usize {
        self.builds.len()
    }

    /// Whether every process of a set knows a level.
    fn can_follow(&self, members: u8, level: u8) -> bool {
        (0..self.processes()).filter(|r| members & 1 << r != 0).all(|r| self.builds[r] >= level)
    }

    /// The lowest build of a set.
    fn least(&self, members: u8) -> u8 {
        (0..self.processes()).filter(|r| members & 1 << r != 0).map(|r| self.builds[r]).min().unwrap_or(1)
    }

    /// Whether a view may follow another: the check of an acceptor.
    fn may_follow(&self, before: &View, next: &View) -> bool {
        let falls = next.level < before.level;
        // A present member must be able to follow too, whether it stays or not: it may be cut off only for a moment.
        let rises = next.level > before.level;
        let present = !rises || self.can_follow(before.members, next.level);
        !falls && present && self.can_follow(next.members, next.level)
    }
}

impl Model for Levels {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        assert!(self.processes() <= PROCESSES, "at most {PROCESSES} processes");
        assert!(self.decrees <= DECREES, "at most {DECREES} decrees");
        assert!(self.rounds * self.processes() <= BALLOTS, "at most {BALLOTS} ballots");
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
