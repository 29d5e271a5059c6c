//! Orphans: groups whose state no member in the primary has, and their return.
//!
//! The cell's decrees are a log; [`crate::view_change`] models consensus. A decree wedges, collects reports, recovers
//! cuts and decides in one step. Each process learns of it later, or never. The deciding members are not among the
//! modelled processes.

mod property;
mod state;
mod step;

use stateright::{Model, Property};

pub use property::{FORGET, FREE, GOES, HISTORY, LIVE, RESOLVED, SAME, UNIFORM};
pub use state::{Action, Entry, Message, Process, State, View};

/// Most processes.
pub const PROCESSES: usize = 4;
/// Most views of the group.
pub const VIEWS: usize = 5;
/// Most messages.
pub const MESSAGES: usize = 3;

/// A rule of orphans that is missing or replaced by a wrong one. Each variant states the wrong behaviour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// The group ends when no member that has the state stays, even if members that are cut off live.
    EndsWhenDropped,
    /// A group is founded although its name belongs to an orphan.
    NameIsFree,
    /// A member that was incomplete at the previous decree counts as incomplete.
    IncompleteByLastDecree,
    /// The coordinator counts all members as complete.
    BelievedComplete,
    /// Holders are only those leaving members that were complete at the previous decree.
    HoldersKnownComplete,
    /// A member that reported to be incomplete becomes complete before it learns the decree.
    CompletesAfterReport,
    /// The donor is the returned member with the most messages, of any view.
    LongestPrefix,
    /// The donor may be of the view before, without having been a member of the orphaned one.
    OlderView,
    /// The donor need not be complete.
    IncompleteDonor,
    /// The donor does not deliver the messages that it holds.
    HeldIsDropped,
    /// A returned holder delivers the messages it holds before a decree makes it the donor.
    DeliversBeforeDecree,
    /// A donor of the view before delivers everything it holds, not only to the cut.
    PastTheCut,
    /// The entry does not keep the cut: a donor of the view before continues from its own deliveries.
    CutNotKept,
    /// A donor of the view before makes the next view without installing the orphaned one.
    SkipsOrphanedView,
    /// Only a member that installed the orphaned view may be donor.
    OnlyInstalled,
    /// A process that knows that it is out keeps acknowledging.
    FrozenAcknowledges,
    /// The same, until it is the donor. Allowed.
    FreezesAsDonor,
    /// Each returned holder makes the next view by itself.
    ManyDonors,
    /// A holder is struck off when it returns, whatever it has.
    StruckWhenBack,
    /// A holder is struck off because it is not heard.
    StruckWhenSilent,
    /// A holder that cannot be donor does not decline.
    NeverDeclines,
    /// The list holds the excluded incarnation, not the process that kept its state.
    ListsOneIncarnation,
    /// A state becomes complete although its owner knows that it is out.
    CompletesWhenOut,
    /// A group goes on through an observer, as through a member that is complete.
    ObserverCarriesOn,
    /// An observer gives a joiner what it has delivered as the group's state.
    ObserverGives,
    /// An observer founds a group.
    ObserverFounds,
    /// A leave of the last member that is complete waits until an observer is.
    LeaveWaitsForObserver,
}

impl Missing {
    /// All variants.
    pub const ALL: [Self; 27] = [
        Self::EndsWhenDropped,
        Self::NameIsFree,
        Self::IncompleteByLastDecree,
        Self::BelievedComplete,
        Self::HoldersKnownComplete,
        Self::CompletesAfterReport,
        Self::LongestPrefix,
        Self::OlderView,
        Self::IncompleteDonor,
        Self::HeldIsDropped,
        Self::DeliversBeforeDecree,
        Self::PastTheCut,
        Self::CutNotKept,
        Self::SkipsOrphanedView,
        Self::OnlyInstalled,
        Self::FrozenAcknowledges,
        Self::FreezesAsDonor,
        Self::ManyDonors,
        Self::StruckWhenBack,
        Self::StruckWhenSilent,
        Self::NeverDeclines,
        Self::ListsOneIncarnation,
        Self::CompletesWhenOut,
        Self::ObserverCarriesOn,
        Self::ObserverGives,
        Self::ObserverFounds,
        Self::LeaveWaitsForObserver,
    ];

    /// The variant's name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::EndsWhenDropped => "ends_when_dropped",
            Self::NameIsFree => "name_is_free",
            Self::IncompleteByLastDecree => "incomplete_by_last_decree",
            Self::BelievedComplete => "believed_complete",
            Self::HoldersKnownComplete => "holders_known_complete",
            Self::CompletesAfterReport => "completes_after_report",
            Self::LongestPrefix => "longest_prefix",
            Self::OlderView => "older_view",
            Self::IncompleteDonor => "incomplete_donor",
            Self::HeldIsDropped => "held_is_dropped",
            Self::DeliversBeforeDecree => "delivers_before_decree",
            Self::PastTheCut => "past_the_cut",
            Self::CutNotKept => "cut_not_kept",
            Self::SkipsOrphanedView => "skips_orphaned_view",
            Self::OnlyInstalled => "only_installed",
            Self::FrozenAcknowledges => "frozen_acknowledges",
            Self::FreezesAsDonor => "freezes_as_donor",
            Self::ManyDonors => "many_donors",
            Self::StruckWhenBack => "struck_when_back",
            Self::StruckWhenSilent => "struck_when_silent",
            Self::NeverDeclines => "never_declines",
            Self::ListsOneIncarnation => "lists_one_incarnation",
            Self::CompletesWhenOut => "completes_when_out",
            Self::ObserverCarriesOn => "observer_carries_on",
            Self::ObserverGives => "observer_gives",
            Self::ObserverFounds => "observer_founds",
            Self::LeaveWaitsForObserver => "leave_waits_for_observer",
        }
    }
}

/// One bounded model.
#[derive(Clone, Debug)]
pub struct Orphans {
    /// Number of processes, besides those that decide.
    pub processes: usize,
    /// Members of view 1, a bit each.
    pub members: u8,
    /// Members of view 1 whose state transfer has not finished, a bit each; their donor is member 0.
    pub incomplete: u8,
    /// Processes that observe: their state never becomes complete, a bit each.
    pub observers: u8,
    /// Messages: each with its sender and whether it is uniform. A sender sends its messages in this order.
    pub messages: Vec<(usize, bool)>,
    /// Views of the group, including the first.
    pub views: u8,
    /// Crashes in all.
    pub crashes: u8,
    /// Returns of processes to the cell, in all.
    pub returns: u8,
    /// Starts without the state, in all.
    pub starts: u8,
    /// Requested leaves, in all.
    pub leaves: u8,
    /// The rule that is missing, if any.
    pub missing: Option<Missing>,
}

impl Orphans {
    /// A model of `processes`, of which the first `members` are in view 1.
    #[must_use]
    pub fn new(processes: usize, members: usize, messages: &[(usize, bool)]) -> Self {
        let members = (1 << members) - 1;
        let messages = messages.to_vec();
        Self {
            processes,
            members,
            incomplete: 0,
            observers: 0,
            messages,
            views: 2,
            crashes: 0,
            returns: 1,
            starts: 0,
            leaves: 0,
            missing: None,
        }
    }

    /// The same model with this many views, crashes and returns.
    #[must_use]
    pub fn bounds(self, views: u8, crashes: u8, returns: u8) -> Self {
        Self { views, crashes, returns, ..self }
    }

    /// A description of the model for reports.
    #[must_use]
    pub fn describe(&self) -> String {
        let messages: Vec<String> =
            self.messages.iter().map(|(s, u)| format!("{s}{}", if *u { "u" } else { "" })).collect();
        format!(
            "orphans: processes {} members {:03b} incomplete {:03b} observers {:03b} messages {messages:?} views {} crashes {} returns {} starts {} leaves {}",
            self.processes,
            self.members,
            self.incomplete,
            self.observers,
            self.views,
            self.crashes,
            self.returns,
            self.starts,
            self.leaves
        )
    }

    fn lacks(&self, missing: Missing) -> bool {
        self.missing == Some(missing)
    }

    fn observes(&self, p: usize) -> bool {
        self.observers & 1 << p != 0
    }

    /// The set of uniform messages.
    fn uniform(&self) -> u8 {
        self.messages.iter().enumerate().filter(|(_, (_, uniform))| *uniform).fold(0, |set, (m, _)| set | 1 << m)
    }
}

impl Model for Orphans {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        assert!(self.processes <= PROCESSES, "at most {PROCESSES} processes");
        assert!(usize::from(self.views) <= VIEWS, "at most {VIEWS} views");
        assert!(self.messages.len() <= MESSAGES, "at most {MESSAGES} messages");
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
