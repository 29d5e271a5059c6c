//! Classes: circumstances of a whole run, such as members far from each other. An ordinary seed draws one of them or none,
//! and a campaign of one class has it in every seed. Each class adds one thing, and is evaluated as usual.
//! `docs/simulator.md` says what each one finds today.

pub(crate) mod churn;
pub(crate) mod crowded;
mod declared;
mod draw;
mod far;
mod floors;
mod late;
pub(crate) mod late_death;
mod mixed;
mod parts;
pub(crate) mod stop;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub(crate) use draw::{class_of, draw_class};
pub(crate) use floors::{ORDINARY, count};
pub(crate) use parts::exchange_ns;

/// A class of circumstances.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Class {
    /// Members whose round trip is up to a second.
    Far,
    /// Members that are late in every iteration, and declare it.
    Declared,
    /// Groups of members that asked for the state and members that did not.
    Mixed,
    /// 300 or 1,100 groups at one or two members, which are lost for a while.
    Crowded,
    /// Groups that change several times a second while another one waits, or a member is out.
    Churn,
    /// Members that die after they were excluded, which the operating system reports.
    LateDeath,
    /// A majority that leaves in order while a group waits or a member is cut off, and starts again.
    Stop,
    /// Members that are late in every iteration, and do not declare it.
    Late,
}

impl Class {
    /// All classes.
    pub const ALL: [Self; 8] =
        [Self::Far, Self::Declared, Self::Mixed, Self::Crowded, Self::Churn, Self::LateDeath, Self::Stop, Self::Late];

    /// Its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Far => "far",
            Self::Declared => "declared",
            Self::Mixed => "mixed",
            Self::Crowded => "crowded",
            Self::Churn => "churn",
            Self::LateDeath => "late-death",
            Self::Stop => "stop",
            Self::Late => "late",
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Class {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let names = || Self::ALL.map(Self::name).join(", ");
        Self::ALL
            .into_iter()
            .find(|class| class.name() == text)
            .ok_or_else(|| format!("'{text}' is none of {}", names()))
    }
}

/// Far members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Far {
    /// The least delay of a packet between two that are far from each other, one way.
    pub base_ns: u64,
    /// Who is far from whom.
    pub from: Where,
}

/// Who is far from whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Where {
    /// Each from all others.
    Everybody,
    /// These from all others, and not from each other: two sites, or one far member.
    Site(Vec<usize>),
}

impl Far {
    /// The least delay between two slots, if they are far from each other.
    pub(crate) fn delay_ns(&self, from: usize, to: usize) -> u64 {
        let apart = match &self.from {
            Where::Everybody => true,
            Where::Site(site) => site.contains(&from) != site.contains(&to),
        };
        if apart { self.base_ns } else { 0 }
    }
}

/// Many groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crowd {
    /// How many.
    pub groups: usize,
    /// Their members: each group has one of these.
    pub holders: Vec<usize>,
}

impl Crowd {
    /// Names of the groups of a process.
    pub(crate) fn of(&self, slot: usize) -> impl Iterator<Item = String> {
        let place = self.holders.iter().position(|holder| *holder == slot);
        let mine = place.map(|place| (place..self.groups).step_by(self.holders.len()));
        mine.into_iter().flatten().map(|number| format!("c{number:04}"))
    }
}

/// Changes of a group at a rate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Churn {
    /// Time between two changes, in nanoseconds.
    pub period_ns: u64,
    /// The first change.
    pub from_ns: u64,
    /// Processes that make them, one after the other.
    pub who: Vec<usize>,
}
