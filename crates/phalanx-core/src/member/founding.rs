//! Founding by name: how named founders decide view 1 (`docs/founding.md`). Here are their messages, the record that
//! each keeps on disk, and the proposal of the leader of a ballot.
//!
//! Source: single-decree Paxos (Lamport 1998) among names, with rules for processes that return without what they had
//! written.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::{Agreed, Directory, End, Ended, Ends, LOST_MAX, is_quorum};
use crate::id::{CellInstance, Incarnation, MemberInfo, fits_name};
use crate::wire::{Malformed, Tags, put_with_tail, read_with_tail};

/// The most founders that a configuration names.
pub const FOUNDERS_MAX: usize = 64;

/// What founders compare ballots by: the later round wins, and no two processes use one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FoundingBallot {
    /// Grows with each try.
    pub round: u32,
    /// Who leads it.
    pub leader: Incarnation,
}

impl FoundingBallot {
    /// Below all others: nothing was promised.
    pub const NONE: Self = Self { round: 0, leader: Incarnation::NONE };
}

/// A list of founders, which becomes view 1 when it is confirmed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FirstView {
    /// The cell instance.
    pub instance: CellInstance,
    /// One incarnation of each founder, in name order.
    pub members: Vec<MemberInfo>,
    /// The level in force: the lowest of the founders'.
    pub level: u16,
    /// The agreed settings, as the leader that made the list has them.
    pub settings: Tags,
}

impl FirstView {
    /// With the settings of its leader, at the highest level that all can follow.
    #[must_use]
    pub fn new(instance: CellInstance, members: Vec<MemberInfo>, leader: &Agreed) -> Self {
        let level = members.iter().map(|member| member.level).min().unwrap_or_default();
        Self { instance, members, level, settings: leader.tags(level) }
    }

    /// The directory of view 1.
    #[must_use]
    pub fn directory(&self) -> Directory {
        Directory::found(self.members.clone(), self.level, self.settings.clone())
    }

    /// Whether the list names that life.
    #[must_use]
    pub fn lists(&self, who: Incarnation) -> bool {
        self.members.iter().any(|member| member.incarnation == who)
    }
}

/// The cell instance that a founder belongs to, or belonged to. With a mark a process makes no list of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BootstrapMarker {
    /// The instance.
    pub instance: CellInstance,
    /// The list that it confirmed, and the ballot it did so in. `None`: it was taken in by members.
    pub list: Option<(FoundingBallot, FirstView)>,
}

/// A member of a cell that a founder without a mark heard, and by a fresh challenge: the cell exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heard {
    /// The cell instance; 0: a build that does not say.
    pub instance: CellInstance,
    /// Where the member answered from.
    pub at: SocketAddr,
}

/// The last view that a founder installed, for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastView {
    /// The cell instance.
    pub instance: CellInstance,
    /// The view's number.
    pub view: u64,
    /// Names of its members.
    pub members: Vec<String>,
}

/// What a founder keeps in its state directory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FounderRecord {
    /// The cell instance it belongs to.
    pub mark: Option<BootstrapMarker>,
    /// A member that it heard while it had no mark.
    pub heard: Option<Heard>,
    /// The last view it installed. This alone need not be synced.
    pub last: Option<LastView>,
    /// How an instance ended that it was in or heard of. A process that is no founder keeps this alone.
    pub end: Option<End>,
}

impl FounderRecord {
    /// As it is written to disk and told to others.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        put_with_tail(self, &Tags::default(), Vec::new()).unwrap_or_default()
    }

    /// Reads what [`Self::to_bytes`] wrote.
    ///
    /// # Errors
    /// [`Malformed`] when it makes no sense.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Malformed> {
        read_with_tail(bytes).map(|(record, _)| record)
    }

    /// The instance it has a mark of; 0: none.
    #[must_use]
    pub fn instance(&self) -> CellInstance {
        self.mark.as_ref().map_or(CellInstance::NONE, |mark| mark.instance)
    }
}

/// Why a founder does not take part in a ballot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FoundingRefusal {
    /// It promised a later ballot.
    Promised(FoundingBallot),
    /// It is configured with other founders.
    Names(Vec<String>),
    /// Another living process has its name.
    Namesake(SocketAddr),
    /// It has other values of settings that all founders must have alike.
    Settings,
}

/// What founders say to each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FoundingMessage {
    /// Asks for a promise and a report.
    Ask {
        /// The ballot.
        ballot: FoundingBallot,
        /// The founders that the leader is configured with, in order.
        names: Vec<String>,
        /// One process of each of them; of a command, one of each that is there.
        asked: Vec<MemberInfo>,
    },
    /// The promise, and what the sender has on disk.
    Report {
        /// The ballot.
        ballot: FoundingBallot,
        /// What is on disk.
        record: FounderRecord,
    },
    /// It takes no part.
    Refuse {
        /// The ballot.
        ballot: FoundingBallot,
        /// Why.
        why: FoundingRefusal,
    },
    /// Asks for acceptance of a list.
    Propose {
        /// The ballot.
        ballot: FoundingBallot,
        /// The list.
        first: FirstView,
    },
    /// It accepts.
    Accept {
        /// The ballot.
        ballot: FoundingBallot,
    },
    /// All accepted, and the leader's mark is on disk.
    Decide {
        /// The ballot.
        ballot: FoundingBallot,
    },
    /// The sender's mark of this list is on disk.
    Marked {
        /// The list's instance.
        instance: CellInstance,
    },
    /// More than half of the names have a mark of this list: it is view 1.
    Confirmed(FirstView),
    /// Nothing can be founded: what each founder that was asked recorded last.
    Dead {
        /// The ballot.
        ballot: FoundingBallot,
        /// By name.
        last: Vec<(String, Option<LastView>)>,
        /// The instance ended, but for former members with these names.
        but_for: Option<Vec<String>>,
    },
}

impl FoundingMessage {
    /// Whether it is within its bounds.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let named = |names: &[String]| names.len() <= FOUNDERS_MAX && names.iter().all(|name| fits_name(name));
        let listed = |first: &FirstView| first.members.len() <= FOUNDERS_MAX && first.directory().is_sound();
        match self {
            Self::Ask { names, asked, .. } => {
                let asks_each_once = asked.windows(2).all(|pair| pair[0].name < pair[1].name);
                named(names) && asked.len() <= names.len() && asks_each_once
            }
            Self::Report { record, .. } => {
                let list = record.mark.as_ref().and_then(|mark| mark.list.as_ref());
                let ended = record.end.as_ref().and_then(End::ended);
                list.is_none_or(|(_, first)| listed(first)) && ended.is_none_or(Ended::is_sound)
            }
            Self::Refuse { why: FoundingRefusal::Names(names), .. } => named(names),
            Self::Propose { first, .. } | Self::Confirmed(first) => listed(first),
            Self::Dead { last, but_for, .. } => {
                let but_for = but_for.as_deref().unwrap_or_default();
                last.len() <= FOUNDERS_MAX && but_for.len() <= LOST_MAX && but_for.iter().all(|name| fits_name(name))
            }
            Self::Refuse { .. } | Self::Accept { .. } | Self::Decide { .. } | Self::Marked { .. } => true,
        }
    }
}

/// What a ballot proposes once all who were asked have reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// A list of those that were asked, in a new instance.
    New,
    /// A list that somebody confirmed.
    Again(FirstView),
    /// Nothing: an instance with this number may have been confirmed, and has no quorum among those that were asked.
    Dead(CellInstance),
    /// Nothing: the founder with this name has no mark, and heard a member.
    Heard(String, Heard),
}

/// Chooses by rules 3 and 4 of `docs/model.md`, *Founding*: the list marked in the highest ballot stands, unless it is overruled. What
/// was marked or heard of an instance in which nobody lives does not count (*Leaving*, rule 5).
#[must_use]
pub fn choose(asked: &[MemberInfo], reports: &BTreeMap<String, FounderRecord>, ends: &Ends) -> Choice {
    let heard = |(name, record): (&String, &FounderRecord)| {
        Some((name.clone(), record.heard.filter(|heard| !ends.is_over(heard.instance))?))
    };
    match reports.iter().find_map(heard) {
        Some((_, heard)) if ends.but_for(heard.instance).is_some() => return Choice::Dead(heard.instance),
        Some((name, heard)) => return Choice::Heard(name, heard),
        None => {}
    }
    let marks = reports.values().filter_map(|record| record.mark.as_ref());
    let mut marks: Vec<&BootstrapMarker> = marks.filter(|mark| !ends.is_over(mark.instance)).collect();
    let ballot = |mark: &BootstrapMarker| mark.list.as_ref().map(|(ballot, _)| *ballot);
    // Who was taken in by members saw a later view than any list's.
    marks.sort_by_key(|mark| std::cmp::Reverse((mark.instance.generation(), mark.list.is_none(), ballot(mark))));
    for mark in marks {
        let Some((_, first)) = &mark.list else { return Choice::Dead(mark.instance) };
        let is_asked = |member: &MemberInfo| asked.iter().any(|a| a.incarnation == member.incarnation);
        if has_quorum(first, is_asked) {
            return Choice::Again(first.clone());
        }
        if !is_overruled(first, asked, reports) {
            return Choice::Dead(mark.instance);
        }
    }
    Choice::New
}

fn has_quorum(first: &FirstView, is_there: impl Fn(&MemberInfo) -> bool) -> bool {
    let there = first.members.iter().filter(|member| is_there(member)).count();
    is_quorum(there, first.members.len(), first.members.first().is_some_and(is_there))
}

/// A list without a quorum is overruled if half of the names at most have a mark of it, and each process asked runs in the directory
/// that was listed for its name. A process without a mark never had one then, and has promised not to set one.
fn is_overruled(first: &FirstView, asked: &[MemberInfo], reports: &BTreeMap<String, FounderRecord>) -> bool {
    let is_same = |(listed, there): (&MemberInfo, &MemberInfo)| {
        listed.name == there.name && listed.seat() == there.seat() && listed.seat() != 0
    };
    let are_same = first.members.len() == asked.len() && first.members.iter().zip(asked).all(is_same);
    let marked = reports.values().filter(|record| record.instance() == first.instance).count();
    are_same && marked * 2 <= first.members.len()
}

#[cfg(test)]
mod tests;
