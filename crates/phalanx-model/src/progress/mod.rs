//! Progress: the members that are removed when a member or a path is partly broken.
//!
//! Suspicions and answers travel with heartbeats. A record may be read at any later time, so a member's knowledge is
//! any part of what was sent. A ballot is one step; [`crate::view_change`] models rivals.

mod fault;
mod judge;
mod property;
pub mod rule;
mod state;
mod step;
pub mod window;

use stateright::{Model, Property};

pub use fault::{Fault, Kind, Way, What};
pub use property::{ENDS, ENDS_ONLY, EXACT, NO_RIVAL, QUIET, REST};
pub use rule::budget;
pub use state::{Action, Record, State};

/// Most members.
pub const MEMBERS: usize = 5;

/// A rule of progress that is missing or replaced by a wrong one. Each variant states the wrong behaviour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// A member concludes before all have answered; a missing answer counts as no failure.
    JudgesAtOnce,
    /// Only the member that waits for another probes it.
    OnlyEndsProbe,
    /// The others probe the suspected member only, not the suspecter.
    OneEndProbed,
    /// The others probe with short packets on the control socket, whatever the suspicion is about.
    ProbesOtherwise,
    /// Lack of progress is enough: no probe precedes the suspicion.
    NoProbe,
    /// A member whose uniform message is not delivered suspects its sender, and that counts.
    UndeliveredSuspects,
    /// The suspected member must answer too.
    EndsWait,
    /// Members that are not heard must answer too.
    UnheardWait,
    /// A member never finds itself to be the one that must go.
    NeverItself,
    /// The members that are not heard go first, whatever others report of them.
    UnheardFirst,
    /// Of a cover that is too large, as many members go as the budget allows.
    PartGoes,
    /// A member promises the ballots of a member in its cover.
    CoverIsPromised,
    /// A member that a majority ignores keeps beginning ballots.
    IgnoredGoesOn,
}

impl Missing {
    /// All variants.
    pub const ALL: [Self; 13] = [
        Self::JudgesAtOnce,
        Self::OnlyEndsProbe,
        Self::OneEndProbed,
        Self::ProbesOtherwise,
        Self::NoProbe,
        Self::UndeliveredSuspects,
        Self::EndsWait,
        Self::UnheardWait,
        Self::NeverItself,
        Self::UnheardFirst,
        Self::PartGoes,
        Self::CoverIsPromised,
        Self::IgnoredGoesOn,
    ];

    /// The variant's name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::JudgesAtOnce => "judges_at_once",
            Self::OnlyEndsProbe => "only_ends_probe",
            Self::OneEndProbed => "one_end_probed",
            Self::ProbesOtherwise => "probes_otherwise",
            Self::NoProbe => "no_probe",
            Self::UndeliveredSuspects => "undelivered_accuses",
            Self::EndsWait => "ends_wait",
            Self::UnheardWait => "unheard_wait",
            Self::NeverItself => "never_itself",
            Self::UnheardFirst => "unheard_first",
            Self::PartGoes => "part_goes",
            Self::CoverIsPromised => "cover_is_promised",
            Self::IgnoredGoesOn => "ignored_goes_on",
        }
    }
}

/// One bounded model, explored for each of its faults.
#[derive(Clone, Debug)]
pub struct Progress {
    /// Number of members.
    pub members: usize,
    /// The faults, each in runs of its own.
    pub faults: Vec<Fault>,
    /// How many suspicions are made that no other suspicion led to, and that some other member learns of.
    pub suspicions: u8,
    /// How many suspicions are made without a reason.
    pub alarms: u8,
    /// Whether the fault may heal.
    pub heals: bool,
    /// The rule that is missing, if any.
    pub missing: Option<Missing>,
}

impl Progress {
    /// All single faults of `members`, with this many suspicions.
    #[must_use]
    pub fn single(members: usize, suspicions: u8) -> Self {
        Self { members, faults: Fault::single(members), suspicions, alarms: 0, heals: false, missing: None }
    }

    /// Two of five members are dead.
    #[must_use]
    pub fn two_dead() -> Self {
        let faults = vec![Fault::BothStopped(3, 4), Fault::BothStopped(0, 2)];
        Self { faults, ..Self::single(5, 2) }
    }

    /// Overloads of the whole cell.
    #[must_use]
    pub fn overload(members: usize, suspicions: u8) -> Self {
        Self { faults: Fault::overloads(), ..Self::single(members, suspicions) }
    }

    /// The same model without a rule.
    #[must_use]
    pub fn without(self, missing: Missing) -> Self {
        Self { missing: Some(missing), ..self }
    }

    /// A description of the model for reports.
    #[must_use]
    pub fn describe(&self) -> String {
        format!(
            "progress: members {} faults {} suspicions {} alarms {} heals {}",
            self.members,
            self.faults.len(),
            self.suspicions,
            self.alarms,
            self.heals
        )
    }

    fn lacks(&self, missing: Missing) -> bool {
        self.missing == Some(missing)
    }

    fn all(&self) -> u8 {
        (1 << self.members) - 1
    }

    /// The links that a member reports as failed.
    fn edges<'a>(&self, record: &'a Record) -> &'a [u8; 5] {
        if self.lacks(Missing::NoProbe) { &record.suspects } else { &record.failed }
    }
}

impl Model for Progress {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        assert!(self.members <= MEMBERS, "at most {MEMBERS} members");
        self.faults.iter().map(|fault| State::new(self, *fault)).collect()
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

/// The explored configurations: a few, and those of the long run.
#[must_use]
pub fn cases(long: bool) -> Vec<Progress> {
    let single = Progress::single;
    // Of two members only faults of the younger are covered: the older one cannot be excluded.
    let of_two = single(2, 3);
    let faults = of_two.faults.iter().copied().filter(|fault| fault.due() == 0b10).collect();
    let mut all = vec![
        Progress { faults, ..of_two },
        single(3, 2),
        Progress { alarms: 1, ..single(3, 1) },
        Progress { heals: true, ..single(3, 1) },
        single(4, 1),
        Progress::two_dead(),
    ];
    all.extend([3, 4].map(|members| Progress::overload(members, 1)));
    if long {
        all.extend([
            single(3, 3),
            Progress::overload(3, 2),
            Progress { heals: true, ..single(4, 1) },
            single(4, 2),
            single(5, 1),
            Progress { faults: vec![Fault::Overload(What::Data)], ..single(5, 1) },
        ]);
    }
    all
}

/// A configuration that shows the lack of a rule, and the property that breaks there.
#[must_use]
pub fn without(missing: Missing) -> (Progress, &'static str) {
    let three = Progress::single(3, 1);
    let (model, property) = match missing {
        Missing::JudgesAtOnce | Missing::OneEndProbed | Missing::OnlyEndsProbe => (three, EXACT),
        Missing::NoProbe => (Progress { alarms: 1, ..three }, EXACT),
        Missing::UndeliveredSuspects => (Progress::single(3, 2), EXACT),
        Missing::NeverItself | Missing::UnheardFirst => (three, EXACT),
        Missing::ProbesOtherwise | Missing::EndsWait => (three, ENDS),
        Missing::UnheardWait => (Progress::two_dead(), ENDS),
        Missing::PartGoes => (Progress::overload(3, 2), EXACT),
        Missing::CoverIsPromised => (three, NO_RIVAL),
        Missing::IgnoredGoesOn => (three, QUIET),
    };
    (model.without(missing), property)
}
