//! Founding by name: how named founders decide view 1 (`docs/founding.md`). Here are their messages, the record that
//! each keeps on disk, and the proposal of the leader of a ballot.
//!
//! Source: single-decree Paxos (Lamport 1998) among names, with rules for processes that return without what they had
//! written.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::waiting::begin_with;
use super::{Agreed, Directory, End, Ended, Ends, LOST_MAX, PASSED_ON_LEVEL, Waiting, is_quorum};
use crate::id::{CellInstance, Incarnation, MemberInfo, ViewNumber, fits_name};
use crate::wire::{Malformed, Tags, put_with_tail, read_with_tail};

/// The most founders in a configuration.
pub const FOUNDERS_MAX: usize = 64;

/// Tags in a record on disk, in a founder's report and in a list of founders: the groups of the marker, and those of the
/// record's end.
const OF_MARKER: u64 = 1;
const OF_END: u64 = 2;

/// The ballot of a founding. The later round wins. Two processes never use one number, because the leader is part of
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FoundingBallot {
    /// Grows with each attempt.
    pub round: u32,
    /// The process that leads the ballot.
    pub leader: Incarnation,
}

impl FoundingBallot {
    /// Less than all ballots: nothing was promised.
    pub const NONE: Self = Self { round: 0, leader: Incarnation::NONE };
}

/// A list of founders. It becomes view 1 when it is confirmed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FirstView {
    /// The cell instance.
    pub instance: CellInstance,
    /// One incarnation of each founder, in the order of names.
    pub members: Vec<MemberInfo>,
    /// The level in force: the lowest of the founders' levels.
    pub level: u16,
    /// The agreed settings: those of the leader that made the list.
    pub settings: Tags,
    /// Groups that wait, with which the instance begins. Written in the tail of the record or message, from level 6 on.
    #[serde(skip)]
    pub waiting: Waiting,
}

impl FirstView {
    /// A list with the settings of its leader, at the highest level that all can follow.
    #[must_use]
    pub fn new(instance: CellInstance, members: Vec<MemberInfo>, leader: &Agreed) -> Self {
        let level = members.iter().map(|member| member.level).min().unwrap_or_default();
        Self { instance, members, level, settings: leader.tags(level), waiting: Waiting::default() }
    }

    /// The same list of an instance that begins with groups that wait. Below level 6 it begins without them.
    #[must_use]
    pub fn with(mut self, waiting: Waiting) -> Self {
        if self.level >= PASSED_ON_LEVEL {
            self.waiting = waiting;
        }
        self
    }

    /// The directory of view 1.
    #[must_use]
    pub fn directory(&self) -> Directory {
        let mut directory = Directory::found(self.members.clone(), self.level, self.settings.clone());
        begin_with(&mut directory, &self.waiting);
        directory
    }

    /// Whether the list names this incarnation.
    #[must_use]
    pub fn lists(&self, who: Incarnation) -> bool {
        self.members.iter().any(|member| member.incarnation == who)
    }
}

/// The cell instance that a founder belongs to, or belonged to. A process with a marker makes no list of its own, so
/// that it cannot found its cell a second time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BootstrapMarker {
    /// The instance.
    pub instance: CellInstance,
    /// The list that it confirmed, with the ballot of that. `None` if members took it in.
    pub list: Option<(FoundingBallot, FirstView)>,
    /// Without a list: groups that waited when members took it in, or when it founded the instance alone. Written in the
    /// tail of the record or message, from level 6 on.
    #[serde(skip)]
    pub waiting: Waiting,
}

impl BootstrapMarker {
    /// The marker of an instance that begins with nothing.
    #[must_use]
    pub fn bare(instance: CellInstance) -> Self {
        Self { instance, list: None, waiting: Waiting::default() }
    }

    /// The marker of a list that is confirmed.
    #[must_use]
    pub fn of_list(ballot: FoundingBallot, first: FirstView) -> Self {
        let bare = Self::bare(first.instance);
        Self { list: Some((ballot, first)), ..bare }
    }

    /// The marker of an instance that goes on, or begins, with `directory`.
    #[must_use]
    pub fn taken_in(instance: CellInstance, directory: &Directory) -> Self {
        Self { waiting: Waiting::of(instance, directory).unwrap_or_default(), ..Self::bare(instance) }
    }
}

/// A member of a cell that a founder without a marker heard, in answer to a fresh challenge. It proves that the cell
/// exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heard {
    /// The cell instance; 0 if the member's build does not report it.
    pub instance: CellInstance,
    /// The address from which the member answered.
    pub at: SocketAddr,
}

/// The last view that a founder installed; for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastView {
    /// The cell instance.
    pub instance: CellInstance,
    /// The view's number.
    pub view: ViewNumber,
    /// The names of its members.
    pub members: Vec<String>,
}

/// The record of a founder in its state directory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FounderRecord {
    /// The marker of the cell instance that it belongs to.
    pub mark: Option<BootstrapMarker>,
    /// A member that it heard while it had no marker.
    pub heard: Option<Heard>,
    /// The last view that it installed. Only this field need not be synced: nothing is decided on it.
    pub last: Option<LastView>,
    /// How an instance ended that it was in or heard of. A process that is no founder stores only this.
    pub end: Option<End>,
}

impl FounderRecord {
    /// The bytes that are written to disk and sent to others.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut tail = Tags::default();
        self.put_tail(&mut tail);
        put_with_tail(self, &tail, Vec::new()).unwrap_or_default()
    }

    /// Reads the bytes of [`Self::to_bytes`].
    ///
    /// # Errors
    /// [`Malformed`] if they are no such record.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Malformed> {
        let (mut record, tail): (Self, Tags) = read_with_tail(bytes)?;
        record.read_tail(&tail)?;
        Ok(record)
    }

    /// The instance of its marker; [`CellInstance::NONE`] without one.
    #[must_use]
    pub fn instance(&self) -> CellInstance {
        self.mark.as_ref().map_or(CellInstance::NONE, |mark| mark.instance)
    }
}

impl BootstrapMarker {
    /// The groups that waited when it was set.
    fn waiting(&self) -> &Waiting {
        self.list.as_ref().map_or(&self.waiting, |(_, first)| &first.waiting)
    }
}

impl FirstView {
    /// Puts what travels in the tail of a message or record there.
    pub(super) fn put_tail(&self, tail: &mut Tags) {
        self.waiting.put(tail, OF_MARKER);
    }

    /// Reads the fields of [`Self::put_tail`].
    pub(super) fn read_tail(&mut self, tail: &Tags) -> Result<(), Malformed> {
        self.waiting = Waiting::read(tail, OF_MARKER)?;
        Ok(())
    }
}

impl FounderRecord {
    /// Puts what travels in the tail of a message or record there.
    pub(super) fn put_tail(&self, tail: &mut Tags) {
        if let Some(mark) = &self.mark {
            mark.waiting().put(tail, OF_MARKER);
        }
        if let Some(ended) = self.end.as_ref().and_then(End::ended) {
            ended.waiting.put(tail, OF_END);
        }
    }

    /// Reads the fields of [`Self::put_tail`].
    pub(super) fn read_tail(&mut self, tail: &Tags) -> Result<(), Malformed> {
        match &mut self.mark {
            Some(BootstrapMarker { list: Some((_, first)), .. }) => first.read_tail(tail)?,
            Some(BootstrapMarker { list: None, waiting, .. }) => *waiting = Waiting::read(tail, OF_MARKER)?,
            None => {}
        }
        if let Some(End::Ended(ended)) = &mut self.end {
            ended.waiting = Waiting::read(tail, OF_END)?;
        }
        Ok(())
    }
}

/// Why a founder takes no part in a ballot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FoundingRefusal {
    /// It promised a later ballot.
    Promised(FoundingBallot),
    /// It is configured with other founders.
    Names(Vec<String>),
    /// Another living process has its name.
    Namesake(SocketAddr),
    /// It has other values of settings in which all founders must agree.
    Settings,
}

/// A message between founders.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FoundingMessage {
    /// Requests a promise and a report.
    Ask {
        /// The ballot.
        ballot: FoundingBallot,
        /// The founders in the leader's configuration, in order.
        names: Vec<String>,
        /// One process of each of them. For a founding by command: one of each that is present.
        asked: Vec<MemberInfo>,
    },
    /// The promise, and the sender's record.
    Report {
        /// The ballot.
        ballot: FoundingBallot,
        /// The record on its disk.
        record: Box<FounderRecord>,
    },
    /// The sender takes no part.
    Refuse {
        /// The ballot.
        ballot: FoundingBallot,
        /// The reason.
        why: FoundingRefusal,
    },
    /// Requests acceptance of a list.
    Propose {
        /// The ballot.
        ballot: FoundingBallot,
        /// The list.
        first: FirstView,
    },
    /// The sender accepts.
    Accept {
        /// The ballot.
        ballot: FoundingBallot,
    },
    /// All accepted, and the leader's marker is on disk.
    Decide {
        /// The ballot.
        ballot: FoundingBallot,
    },
    /// The sender's marker of this list is on disk.
    Marked {
        /// The list's instance.
        instance: CellInstance,
    },
    /// More than half of the names have a marker of this list, so it is view 1.
    Confirmed(FirstView),
    /// Nothing can be founded. Holds the last record of each founder that was asked.
    Dead {
        /// The ballot.
        ballot: FoundingBallot,
        /// By name.
        last: Vec<(String, Option<LastView>)>,
        /// Set if the instance ended: the names of former members that may not know it.
        but_for: Option<Vec<String>>,
    },
}

impl FoundingMessage {
    /// Puts what travels in the message's tail there.
    pub(super) fn put_tail(&self, tail: &mut Tags) {
        match self {
            Self::Report { record, .. } => record.put_tail(tail),
            Self::Propose { first, .. } | Self::Confirmed(first) => first.put_tail(tail),
            _ => {}
        }
    }

    /// Reads the fields of [`Self::put_tail`].
    pub(super) fn read_tail(&mut self, tail: &Tags) -> Result<(), Malformed> {
        match self {
            Self::Report { record, .. } => record.read_tail(tail),
            Self::Propose { first, .. } | Self::Confirmed(first) => first.read_tail(tail),
            _ => Ok(()),
        }
    }

    /// Whether its lists are within their bounds.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let named = |names: &[String]| names.len() <= FOUNDERS_MAX && names.iter().all(|name| fits_name(name));
        let listed = |first: &FirstView| {
            first.members.len() <= FOUNDERS_MAX && first.waiting.is_sound() && first.directory().is_sound()
        };
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

/// What a ballot proposes when all founders that were asked have reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// A list of those that were asked, in a new instance.
    New,
    /// A list that some founder confirmed.
    Again(FirstView),
    /// Nothing: an instance with this number may have been confirmed, and has no quorum among those that were asked.
    Dead(CellInstance),
    /// Nothing: the founder with this name has no marker, and heard a member.
    Heard(String, Heard),
}

/// Chooses by rules 3 and 4 of `docs/model.md`, *Founding*. The list with a marker of the highest ballot stands, unless
/// it is overruled. Markers and heard members of an instance in which nobody lives do not count (*Leaving*, rule 5), and
/// neither do markers of a generation before that of another marker.
#[must_use]
pub fn choose(asked: &[MemberInfo], reports: &BTreeMap<String, FounderRecord>, ends: &Ends) -> Choice {
    let heard = |(name, record): (&String, &FounderRecord)| {
        Some((name.clone(), record.heard.filter(|heard| !ends.is_over(heard.instance))?))
    };
    match reports.iter().find_map(heard) {
        // A founder without a marker heard a member: the cell exists, and must not be founded a second time.
        Some((_, heard)) if ends.but_for(heard.instance).is_some() => return Choice::Dead(heard.instance),
        Some((name, heard)) => return Choice::Heard(name, heard),
        None => {}
    }
    let marks = reports.values().filter_map(|record| record.mark.as_ref());
    let mut marks: Vec<&BootstrapMarker> = marks.filter(|mark| !ends.is_over(mark.instance)).collect();
    // A marker of a later generation was set after an end or by an operator's command, so no earlier instance can go
    // on. Besides, it took the place of an earlier marker, which can no longer be counted.
    let latest = marks.iter().map(|mark| mark.instance.generation()).max();
    marks.retain(|mark| Some(mark.instance.generation()) == latest);
    let ballot = |mark: &BootstrapMarker| mark.list.as_ref().map(|(ballot, _)| *ballot);
    // A founder that members took in saw a later view than that of any list.
    marks.sort_by_key(|mark| std::cmp::Reverse((mark.list.is_none(), ballot(mark))));
    for mark in marks {
        // Members took this founder in, so views after the first existed. No list can restore them.
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

/// What the founders that reported know of groups that wait, and the instance whose record that is.
///
/// The latest instance counts: it took over what waited before it. If no founder has a record of its end, which an
/// operator's command replaces, what counts is what each of them found waiting when it came into that instance.
#[must_use]
pub fn passed_on(reports: &BTreeMap<String, FounderRecord>, ends: &Ends) -> (CellInstance, Waiting) {
    let marks = || reports.values().filter_map(|record| record.mark.as_ref());
    let ended = ends.iter().max_by_key(|ended| (ended.instance.generation(), ended.instance));
    let begun = marks().map(|mark| mark.instance).max_by_key(|instance| (instance.generation(), *instance));
    // An end comes after everything else that is known of its instance.
    let ended = ended.filter(|ended| begun.is_none_or(|begun| begun.generation() <= ended.instance.generation()));
    if let Some(ended) = ended {
        return (ended.instance, ended.waiting.clone());
    }
    let Some(begun) = begun else { return Default::default() };
    let mut all = Waiting::default();
    marks().filter(|mark| mark.instance == begun).for_each(|mark| all.add(mark.waiting()));
    (begun, all)
}

fn has_quorum(first: &FirstView, is_there: impl Fn(&MemberInfo) -> bool) -> bool {
    let there = first.members.iter().filter(|member| is_there(member)).count();
    is_quorum(there, first.members.len(), first.members.first().is_some_and(is_there))
}

/// Whether a list without a quorum is overruled: at most half of the names have a marker of it, and each process that
/// was asked runs in the directory that was listed for its name. Such a process without a marker never had one, and has
/// promised not to set one.
fn is_overruled(first: &FirstView, asked: &[MemberInfo], reports: &BTreeMap<String, FounderRecord>) -> bool {
    let is_same = |(listed, there): (&MemberInfo, &MemberInfo)| {
        listed.name == there.name && listed.seat() == there.seat() && listed.seat() != 0
    };
    let are_same = first.members.len() == asked.len() && first.members.iter().zip(asked).all(is_same);
    // With more than half the list could have been confirmed as view 1 (`docs/model.md`, *Founding*).
    let marked = reports.values().filter(|record| record.instance() == first.instance).count();
    are_same && marked * 2 <= first.members.len()
}

#[cfg(test)]
mod tests;
