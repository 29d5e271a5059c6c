//! Founding: named processes decide the first view of a cell, with a directory each that outlives them, or does not.
//!
//! Ballots are led by any founder. Messages are not queued: whoever handles one reads what its sender put on record, at
//! any later time or never. What follows view 1 is abstract: a quorum of a view decides the next one in one step.

mod property;
mod rule;
mod state;
mod step;

use stateright::{Model, Property};

pub use property::{CAN_FINISH, ONE_LIST, ONE_PRIMARY};
pub use state::{Action, Disk, Phase, Process, State, Try};

/// The most founders' names.
pub const NAMES: usize = 3;
/// Places for processes: one for each name, one for a second process of a name, one for a process that founds nothing.
pub const SLOTS: usize = NAMES + 2;
/// Where the second process of a name runs.
pub const TWIN: usize = NAMES;
/// Where the process runs that only joins.
pub const JOINER: usize = NAMES + 1;
/// The most ballots: one more than are explored.
pub const BALLOTS: usize = 4;

/// A rule of founding that is missing or replaced by a wrong one, or an assumption that does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// A list needs the acceptance of a majority, not of all.
    MajorityAccepts,
    /// Half of the names confirm a list, if the first is among them.
    FirstHalfConfirms,
    /// A leader proposes a list of its own, whatever it is told of marks.
    IgnoresMarks,
    /// A list is confirmed by whoever accepted it, a later promise notwithstanding.
    ConfirmsRenounced,
    /// A confirmation counts before its mark is synced.
    MarkAfter,
    /// A founder that is taken in by a cell sets no mark.
    JoinsUnmarked,
    /// A process that heard a member of its cell founds as before.
    HeardDoesNotCount,
    /// What was heard is forgotten in a restart.
    HeardIsForgotten,
    /// The death of the one that was heard is enough to found again.
    BuriesOne,
    /// Lists of names are not compared.
    ListsNotCompared,
    /// A living process does not notice that its directory was emptied.
    NotRestored,
    /// A leader adopts what was accepted, though nobody has a mark of it.
    AdoptsUnmarked,
    /// A list with fewer marks than a majority stands, though all that it names are there and were restarted.
    NeverOverruled,
    /// A list is overruled without a look at whose directories these are.
    OverrulesUnseen,
    /// Only processes that a list names may confirm it.
    OnlyListedConfirm,
    /// No rule: all names that confirmed lose what they have to show for it.
    AllDamaged,
}

impl Missing {
    /// All of them.
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

    /// Its name.
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
    /// For each name: the founders that its process is configured with, a bit each.
    pub lists: Vec<u8>,
    /// The name that a second process may be started under, with a directory of its own, if any.
    pub twin: Option<usize>,
    /// The second process hears the first one, if that one is in a view, before it does anything. Nobody else hears anybody.
    pub twin_hears: bool,
    /// Ballots in all.
    pub ballots: usize,
    /// Rounds that ballots are numbered in.
    pub rounds: u8,
    /// Crashes in all; whoever crashed may start again.
    pub crashes: u8,
    /// How often a directory is emptied, in all.
    pub emptied: u8,
    /// Views after the first.
    pub views: u8,
    /// A process that is no founder wants to come in.
    pub joiner: bool,
    /// The rule that is missing, if any.
    pub missing: Option<Missing>,
}

impl Founding {
    /// So many founders with equal lists, and no faults.
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

    /// The same with other bounds.
    #[must_use]
    pub fn bounds(self, ballots: usize, rounds: u8, views: u8) -> Self {
        Self { ballots, rounds, views, ..self }
    }

    /// The same with so many crashes, and directories emptied.
    #[must_use]
    pub fn faults(self, crashes: u8, emptied: u8) -> Self {
        Self { crashes, emptied, ..self }
    }

    /// The same with a second process of that name.
    #[must_use]
    pub fn twin(self, name: usize) -> Self {
        Self { twin: Some(name), ..self }
    }

    /// The same with a process that is no founder.
    #[must_use]
    pub fn joiner(self) -> Self {
        Self { joiner: true, ..self }
    }

    /// What a run of it is called.
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

    /// The name of the process at a place; that which only joins has none.
    fn name_of(&self, slot: usize) -> Option<usize> {
        match slot {
            TWIN => self.twin,
            JOINER => None,
            _ => (slot < self.names()).then_some(slot),
        }
    }

    /// The founders that the process at a place is configured with.
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
