//! The options of a campaign: which seeds draw which plans, how they run, and when it stops.

use std::fmt;
use std::str::FromStr;
use std::thread;

use serde::{Deserialize, Serialize};

use crate::classes::{self, Class};
use crate::machine::Machines;
use crate::plan::{Plan, add_state};
use crate::reduce::{Part, Reduction};
use crate::result::SeedResult;
use crate::states::{StateKind, States};
use crate::tap::TapFile;

/// Options of a campaign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Processes of each cell; 0: three to sixteen, as the seed decides.
    pub members: usize,
    /// The kind of plan that a seed draws.
    pub draw: Draw,
    /// Of the faults that a seed draws, only those with these numbers; `None`: all.
    pub faults: Option<Vec<usize>>,
    /// Reduction of the plan that the seed draws.
    pub reduced: Reduction,
    /// Up to this many members, everybody watches everybody; `None`: as shipped. With fewer than the members, small
    /// cells use the watch graph of large ones.
    pub watchers: Option<usize>,
    /// Threads; 0: one for each core.
    pub threads: usize,
    /// Runs only every Nth seed, counted from the first.
    pub step: u64,
    /// Each seed that is a multiple of this runs twice, and both runs must be equal; 0: none does.
    pub repeat_every: u64,
    /// Event-loop iterations between two checks of the processes' invariants.
    pub check_every: u32,
    /// When to stop before the last seed. Seeds before the one that decides are always completed.
    pub stop: Stop,
    /// Bound on the lines in the story of a failed seed.
    pub story_rows: usize,
    /// The command that runs seeds A..B with N members: `{seeds}` and `{members}` are filled in.
    pub command: String,
    /// Whether results hold the operations on registers, locks and bank: [`SeedResult::history`].
    pub histories: bool,
    /// Machines of a user, which take the place of the simulator's own messages and objects.
    pub machines: Option<Machines>,
    /// Makes the machines of the seeds that have some, where not all have [`Self::machines`]. `None`: no seed has any.
    pub states: Option<States>,
    /// The file of what the processes of the first seed that runs send. `None`: none is written.
    pub tap: Option<TapFile>,
}

/// The kinds of plans. Each draws its own plan from the same seed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Draw {
    /// Ordinary plans: a random part of all kinds of faults, then a heal. Two seeds of five draw a class:
    /// [`Plan::draw`].
    #[default]
    Swarm,
    /// The same without classes: [`Plan::draw_plain`].
    Plain,
    /// The same, and each seed has a user's state.
    States,
    /// The same with this class in every seed.
    Only(Class),
    /// Mild weather for this many seconds: [`Plan::draw_mild`].
    Mild(u64),
    /// After a short faulty phase and a heal, paths that break in part and stay so: [`Plan::draw_partial`].
    Partial,
    /// A few faults of the swarm, and the circumstances of one rare condition: [`Plan::draw_rare`].
    Rare,
}

/// Its name in lists: "swarm", "none" for plain ones, "states", "far" and the other classes, "mild=30", "partial", "rare".
impl fmt::Display for Draw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Swarm => f.write_str("swarm"),
            Self::Plain => f.write_str("none"),
            Self::States => f.write_str("states"),
            Self::Only(class) => write!(f, "{class}"),
            Self::Mild(seconds) => write!(f, "mild={seconds}"),
            Self::Partial => f.write_str("partial"),
            Self::Rare => f.write_str("rare"),
        }
    }
}

impl FromStr for Draw {
    type Err = UnknownDraw;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let unknown = || UnknownDraw(text.to_owned());
        match text.split_once('=') {
            None if text == "swarm" => Ok(Self::Swarm),
            None if text == "none" => Ok(Self::Plain),
            None if text == "states" => Ok(Self::States),
            None if text == "partial" => Ok(Self::Partial),
            None if text == "rare" => Ok(Self::Rare),
            None => text.parse().map(Self::Only).map_err(|_no_class: String| unknown()),
            Some(("mild", seconds)) => seconds.parse().map(Self::Mild).map_err(|_no_seconds| unknown()),
            _ => Err(unknown()),
        }
    }
}

/// Error: no kind of plan has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no kind of campaign is called {0:?}")]
pub struct UnknownDraw(pub String);

impl Draw {
    /// The words of the command line that select it; empty for the default.
    pub(crate) fn words(self) -> String {
        match self {
            Self::Swarm => String::new(),
            Self::Plain | Self::States | Self::Only(_) => format!(" --draw {self}"),
            Self::Mild(seconds) => format!(" --mild {seconds}"),
            Self::Partial => " --partial".to_owned(),
            Self::Rare => " --rare".to_owned(),
        }
    }
}

/// When a campaign ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// When all seeds have run.
    AtTheEnd,
    /// When a seed has failed.
    AtFailure,
    /// When one of these codes was reported.
    AtCodes(Vec<String>),
}

impl Stop {
    pub(crate) fn is_reached(&self, result: &SeedResult) -> bool {
        match self {
            Self::AtTheEnd => false,
            Self::AtFailure => !result.violations.is_empty(),
            Self::AtCodes(codes) => result.violations.iter().any(|violation| codes.contains(&violation.code)),
        }
    }
}

/// Event-loop iterations between two checks of the invariants, by default. All checks cost half as much as a run, so only a
/// build with debug assertions runs them after each iteration. The number has no factor in common with usual numbers of
/// members: otherwise the same members would be checked again and again.
const CHECK_EVERY: u32 = if cfg!(debug_assertions) { 1 } else { 7 };

impl Default for Options {
    fn default() -> Self {
        Self {
            members: 5,
            draw: Draw::Swarm,
            faults: None,
            reduced: Reduction::default(),
            watchers: None,
            threads: 0,
            step: 1,
            repeat_every: 100,
            check_every: CHECK_EVERY,
            stop: Stop::AtTheEnd,
            story_rows: 200,
            command: "phalanx sim --seeds {seeds} --members {members}".into(),
            histories: false,
            machines: None,
            tap: None,
            states: None,
        }
    }
}

impl Options {
    /// Number of threads of a campaign.
    #[must_use]
    pub fn threads_used(&self) -> usize {
        match self.threads {
            0 => thread::available_parallelism().map_or(1, usize::from),
            count => count,
        }
    }

    /// The plan of `seed` under these options.
    ///
    /// # Panics
    /// When [`Self::faults`] names a fault that the seed does not draw, or is not in ascending order.
    #[must_use]
    pub fn plan(&self, seed: u64) -> Plan {
        let mut plan = match self.draw {
            Draw::Swarm => Plan::draw(seed, self.members),
            Draw::Plain | Draw::States => Plan::draw_plain(seed, self.members),
            Draw::Only(class) => classes::draw_class(seed, self.members, class),
            Draw::Mild(seconds) => Plan::draw_mild(seed, self.members, seconds),
            Draw::Partial => Plan::draw_partial(seed, self.members),
            Draw::Rare => Plan::draw_rare(seed, self.members),
        };
        if self.machines.is_some() {
            // An earlier build replays no views to a joiner, and a user's state may follow from them.
            plan.builds = None;
        }
        if self.states.is_some() {
            let is_always = self.draw == Draw::States;
            add_state(&mut plan, if is_always { Some(StateKind::always(seed)) } else { StateKind::of_seed(seed) });
        }
        self.reduced.apply(&mut plan);
        if let Some(kept) = &self.faults {
            assert!(kept.is_sorted(), "faults are named in rising order");
            plan.faults = kept.iter().map(|&number| plan.faults[number]).collect();
        }
        plan
    }

    /// The machines of a seed with this plan, if it has some.
    pub(crate) fn machines_of(&self, seed: u64, plan: &Plan) -> Option<Machines> {
        let drawn = || Some(self.states.as_ref()?.of(seed, plan.state?, plan.builds.is_none()));
        self.machines.clone().or_else(drawn)
    }

    /// The command that runs `seed` again. The plan depends on the number of members as well, so the seed alone would
    /// not suffice.
    #[must_use]
    pub fn replay_command(&self, seed: u64) -> String {
        let seeds = format!("{seed}..{}", seed.wrapping_add(1));
        let members = self.members.to_string();
        let mut command = self.command.replace("{seeds}", &seeds).replace("{members}", &members);
        command.push_str(&self.draw.words());
        if let Some(watchers) = self.watchers {
            command.push_str(&format!(" --watchers {watchers}"));
        }
        if let Some(faults) = &self.faults {
            let numbers: Vec<String> = faults.iter().map(usize::to_string).collect();
            let numbers = if numbers.is_empty() { "none".to_owned() } else { numbers.join(",") };
            command.push_str(&format!(" --faults {numbers}"));
        }
        let mut reduced = self.reduced.clone();
        // The command has all states, and this run may have been without.
        let has_none = self.machines.is_none() && self.states.is_none() && StateKind::of_seed(seed).is_some();
        if has_none && !reduced.without.contains(&Part::UserState) {
            reduced.without.push(Part::UserState);
        }
        if !reduced.is_empty() {
            command.push_str(&format!(" --reduced {reduced}"));
        }
        command
    }
}
