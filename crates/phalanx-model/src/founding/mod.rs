//! Founding: named processes decide the first view of a cell. Each has a directory that outlives it, unless that is
//! emptied.
//!
//! Any founder may lead a ballot. Messages are not queued: the receiver of one reads what its sender put on record, at
//! any later time or never. Views after the first are abstract: a quorum of a view decides the next one in one step.

mod property;
mod rule;
mod state;
mod step;

use stateright::{Model, Property};

pub use property::{CAN_FINISH, ONE_LIST, ONE_PRIMARY};
pub use state::{Action, Disk, Phase, Process, State, Try};

/// Most founders' names.
pub const NAMES: usize = 3;
/// Places for processes: one for each name, one for a second process of a name, one for a process that founds nothing.
pub const SLOTS: usize = NAMES + 2;
/// The slot in which the second process of a name runs.
pub const TWIN: usize = NAMES;
/// The slot in which the process runs that only joins.
pub const JOINER: usize = NAMES + 1;
/// Most ballots: one more than are explored.
pub const BALLOTS: usize = 4;

/// A rule of founding that is missing or replaced by a wrong one, or an assumption that does not hold. Each variant
/// states the wrong behaviour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// A list needs the acceptance of a majority, not of all.
    MajorityAccepts,
    /// Half of the names confirm a list if the first name is among them.
    FirstHalfConfirms,
    /// A leader proposes a list of its own, whatever markers are reported.
    IgnoresMarks,
    /// A process that accepted a list confirms it even after it promised a later ballot.
    ConfirmsRenounced,
    /// A confirmation counts before its marker is synced.
    MarkAfter,
    /// A founder that joins a cell writes no marker.
    JoinsUnmarked,
    /// A process that heard a member of its cell may still found.
    HeardDoesNotCount,
    /// A restart forgets that a member was heard.
    HeardIsForgotten,
    /// The death of the one member that was heard is enough to found again.
    BuriesOne,
    /// The leaders' lists of founders are not compared.
    ListsNotCompared,
    /// A living process does not notice that its directory was emptied.
    NotRestored,
    /// A leader adopts an accepted list that no process has a marker of.
    AdoptsUnmarked,
    /// A list with at most half of the markers stands, although all processes that it names are present and were
    /// restarted.
    NeverOverruled,
    /// A list is overruled without checking whose directories these are.
    OverrulesUnseen,
    /// Only the processes that a list names may confirm it.
    OnlyListedConfirm,
    /// Not a rule but the fault assumption: all names that confirmed lose their directories.
    AllDamaged,
}

impl Missing {
    /// All variants.
    pub const ALL: [Self; 16] = [
        Self::MajorityAccepts,
        Self::FirstHalfConfirms,
        Self::IgnoresMarks,
        Self::ConfirmsRenounced,
        Self::MarkAfter,
        Self::JoinsUnmarked,
        Self::HeardDoesNotCount,
        Self::HeardIsForgotten,
        Self::BuriesOne,
        Self::ListsNotCompared,
        Self::NotRestored,
        Self::AdoptsUnmarked,
        Self::NeverOverruled,
        Self::OverrulesUnseen,
        Self::OnlyListedConfirm,
        Self::AllDamaged,
    ];

    /// The variant's name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::MajorityAccepts => "majority_accepts",
            Self::FirstHalfConfirms => "first_half_confirms",
            Self::IgnoresMarks => "ignores_marks",
            Self::ConfirmsRenounced => "confirms_renounced",
            Self::MarkAfter => "mark_after",
            Self::JoinsUnmarked => "joins_unmarked",
            Self::HeardDoesNotCount => "heard_does_not_count",
            Self::HeardIsForgotten => "heard_is_forgotten",
            Self::BuriesOne => "buries_one",
            Self::ListsNotCompared => "lists_not_compared",
            Self::NotRestored => "not_restored",
            Self::AdoptsUnmarked => "adopts_unmarked",
            Self::NeverOverruled => "never_overruled",
            Self::OverrulesUnseen => "overrules_unseen",
            Self::OnlyListedConfirm => "only_listed_confirm",
            Self::AllDamaged => "all_damaged",
        }
    }
}

/// One bounded model.
#[derive(Clone, Debug)]
pub struct Founding {
    /// For each name, a bit set of the founders that its process is configured with.
    pub lists: Vec<u8>,
    /// The name under which a second process may be started with its own directory, if any.
    pub twin: Option<usize>,
    /// The second process hears the first one, if that is in a view, before it does anything. No other process hears
    /// any.
    pub twin_hears: bool,
    /// Ballots in all.
    pub ballots: usize,
    /// Rounds by which ballots are numbered.
    pub rounds: u8,
    /// Crashes in all; a crashed process may start again.
    pub crashes: u8,
    /// How often a directory is emptied, in all.
    pub emptied: u8,
    /// Views after the first one.
    pub views: u8,
    /// Whether a process that is no founder requests to join.
    pub joiner: bool,
    /// The rule that is missing, if any.
    pub missing: Option<Missing>,
}

impl Founding {
    /// A model of `names` founders with equal lists and without faults.
    #[must_use]
    pub fn new(names: usize) -> Self {
        Self {
            lists: vec![(1 << names) - 1; names],
            twin: None,
            twin_hears: false,
            ballots: 2,
            rounds: 2,
            crashes: 0,
            emptied: 0,
            views: 0,
            joiner: false,
            missing: None,
        }
    }

    /// The same model with other bounds.
    #[must_use]
    pub fn bounds(self, ballots: usize, rounds: u8, views: u8) -> Self {
        Self { ballots, rounds, views, ..self }
    }

    /// The same model with this many crashes and emptied directories.
    #[must_use]
    pub fn faults(self, crashes: u8, emptied: u8) -> Self {
        Self { crashes, emptied, ..self }
    }

    /// The same model with a second process of that name.
    #[must_use]
    pub fn twin(self, name: usize) -> Self {
        Self { twin: Some(name), ..self }
    }

    /// The same model with a process that is no founder.
    #[must_use]
    pub fn joiner(self) -> Self {
        Self { joiner: true, ..self }
    }

    /// A description of the model for reports.
    #[must_use]
    pub fn describe(&self) -> String {
        let lists: Vec<String> = self.lists.iter().map(|list| format!("{list:03b}")).collect();
        let twin = match self.twin {
            Some(name) if self.twin_hears => format!(" twin {name}, hears"),
            Some(name) => format!(" twin {name}"),
            None => String::new(),
        };
        format!(
            "founding: lists {} ballots {} rounds {} views {} crashes {} emptied {}{twin}{}",
            lists.join(" "),
            self.ballots,
            self.rounds,
            self.views,
            self.crashes,
            self.emptied,
            if self.joiner { " joiner" } else { "" }
        )
    }

    fn lacks(&self, missing: Missing) -> bool {
        self.missing == Some(missing)
    }

    fn names(&self) -> usize {
        self.lists.len()
    }

    /// The name of the process in a slot; the joiner has none.
    fn name_of(&self, slot: usize) -> Option<usize> {
        match slot {
            TWIN => self.twin,
            JOINER => None,
            _ => (slot < self.names()).then_some(slot),
        }
    }

    /// The founders that the process in a slot is configured with.
    fn list_of(&self, slot: usize) -> u8 {
        self.name_of(slot).map_or(0, |name| self.lists[name])
    }
}

impl Model for Founding {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        assert!(self.names() <= NAMES, "at most {NAMES} names");
        assert!(self.ballots < BALLOTS, "fewer than {BALLOTS} ballots");
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
