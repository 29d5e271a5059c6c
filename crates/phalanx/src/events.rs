//! What happens to a process in its cell, beside the messages of its groups.

use std::collections::VecDeque;
use std::fmt;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use phalanx_core::{DomainMismatch, Event, Incarnation};
use phalanx_driver::fork::Home;

use crate::cell_view::CellView;
use crate::domain_name::shown;
use crate::error::LimitError;
use crate::id::{Instance, MemberId};
use crate::view::View;
use crate::waiting::{Place, Waiters, block_value, wait_for};

/// What happened to a process in its cell: for a log, an operator, or a program that watches its cell. What a group's program
/// acts on is in the group's inbox, in the one order that all members see.
///
/// Its text, for people, says what happened and what to do.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum CellEvent {
    /// A view of the cell was installed.
    View(CellView),
    /// A view of a group was installed.
    GroupView(View),
    /// Within its view, a group has enough members with its state now, or too few; see [`View::is_adequate`].
    GroupAdequate {
        /// The group.
        group: Arc<str>,
        /// Its view.
        view: u64,
        /// Whether they are enough.
        adequate: bool,
    },
    /// No quorum of the view is heard, so that nothing is decided. Not final. It comes again behind the next view if no
    /// quorum of that one is heard either.
    NonPrimary {
        /// How many members this process hears, itself included.
        heard: usize,
        /// How many it needs.
        needed: usize,
        /// The reason, for people.
        why: String,
    },
    /// A quorum is heard again.
    Primary,
    /// A decided view does not hold this process. Its incarnation is over; it comes back as another one, unless it
    /// [stays out](crate::CellBuilder::stay_out).
    Excluded {
        /// The first view of the cell without it.
        view: u64,
    },
    /// This incarnation gave its instance of the cell up for a later one, and is over. The process comes back with the
    /// state of its groups.
    Renounced {
        /// The generation of the later one.
        generation: u16,
    },
    /// A reform was refused ([`Cell::reform`](crate::Cell::reform)).
    ReformRefused {
        /// The reason, for people.
        why: String,
    },
    /// A living process is in another instance of this cell: two cells act under one name.
    OtherInstance {
        /// Its instance.
        instance: Instance,
        /// That of this process.
        own: Instance,
        /// Where it answers.
        at: SocketAddr,
    },
    /// No cell is found yet. Told from time to time.
    Searching {
        /// The probes since the start.
        probes: u64,
        /// A possible reason, for people.
        why: String,
    },
    /// The cell takes this process only with another value of one of its settings.
    Differs {
        /// The setting's key, or "level" if this build is too old.
        setting: String,
        /// Its value in the cell.
        cell: String,
        /// Its value here.
        own: String,
    },
    /// The cell does not rise to a level ([`Cell::raise_level`](crate::Cell::raise_level)).
    LevelRefused {
        /// The level that was asked for.
        level: u16,
        /// Which member cannot follow, for people.
        why: String,
    },
    /// A leave waits, because the cell may end with it and something would be lost.
    EndWaits {
        /// Groups that wait for members that are cut off.
        groups: Vec<String>,
        /// Members that were left out and may live.
        members: Vec<String>,
        /// For how long it waits.
        at_most: Duration,
    },
    /// This process leaves as one of the last members, and something may be lost with the cell; see
    /// [`LeaveError::InDoubt`](crate::LeaveError::InDoubt).
    EndInDoubt {
        /// Groups that wait for members that are cut off.
        groups: Vec<String>,
        /// Members that were left out and may live.
        members: Vec<String>,
    },
    /// The health check of this process failed, so it leaves the cell; see
    /// [`CellBuilder::health_check`](crate::CellBuilder::health_check).
    Unhealthy {
        /// What the check found, for people.
        why: String,
    },
    /// This process left the cell.
    Left,
    /// A group that is to be joined waits for members that are cut off; see [`Next::Waiting`](crate::Next::Waiting).
    GroupWaiting {
        /// The group.
        group: Arc<str>,
        /// For whom it waits. A name may be empty, if nobody here knows it.
        for_members: Vec<(MemberId, String)>,
    },
    /// A group that is to be joined is not made yet: groups that wait take too much room. It is made when there is some.
    GroupPutOff {
        /// The group.
        group: Arc<str>,
        /// How many groups wait.
        waiting: usize,
        /// The bytes that they take.
        bytes: usize,
        /// How many they may take.
        bytes_max: usize,
    },
    /// A group that is to be [observed](crate::GroupBuilder::observe) is not there. It is observed when others made it.
    GroupAbsent {
        /// The group.
        group: Arc<str>,
    },
    /// A group cannot be made: the cell's numbers of groups are used up.
    GroupRefused {
        /// The group.
        group: Arc<str>,
    },
    /// A group is not joined: it has a state and none was named, or the other way round.
    GroupDiffers {
        /// The group.
        group: Arc<str>,
        /// Whether it has a state.
        has_state: bool,
    },
    /// A group is not joined: its state has a domain that this process lacks, or lacks one that this process needs. No state has
    /// travelled.
    GroupDomains {
        /// The group.
        group: Arc<str>,
        /// The domain; empty: the state itself.
        domain: String,
        /// Its version; see [`State::VERSION`](crate::State::VERSION).
        version: u32,
        /// This process lacks it; else the group does.
        is_lacking: bool,
    },
    /// A group went on without this process, or is over; see [`Next::Forgotten`](crate::Next::Forgotten).
    GroupForgotten {
        /// The group.
        group: Arc<str>,
        /// The last view in which this process was.
        view: u64,
        /// The members of that view, each with the number of its messages that are in the state with which the group went
        /// on. `None`: the group is over, or that is not known.
        kept: Option<Vec<(MemberId, u64)>>,
    },
    /// A group goes on with the state that this process kept since an earlier incarnation.
    GroupKept {
        /// The group.
        group: Arc<str>,
        /// The last view of the group that is part of the state.
        view: u64,
    },
    /// This process takes a group's state from another member.
    GroupTaking {
        /// The group.
        group: Arc<str>,
        /// The length of the state.
        bytes: u64,
    },
    /// This process founds a group anew: it sought the group's state, and the members that had it are gone; see
    /// [`Next::FoundedAnew`](crate::Next::FoundedAnew).
    GroupFoundedAnew {
        /// The group.
        group: Arc<str>,
    },
    /// The trace (`trace` of the configuration) cannot be written any more. The process goes on without it.
    TraceLost {
        /// The reason, for people.
        why: String,
    },
    /// Something else that an operator should know: a directory that cannot be written, a warning of the configuration.
    Notice(String),
    /// The reader was too slow: so many events before the next one are no longer kept.
    Missed {
        /// How many.
        events: u64,
    },
}

impl CellEvent {
    /// What the core reports. `me`: this process.
    pub(crate) fn of(event: &Event, me: Incarnation) -> Option<Self> {
        Some(match event.clone() {
            Event::CellView(view) => Self::View(CellView::new(view, me)),
            Event::GroupView(view) => Self::GroupView(View::new(view, me)),
            Event::NonPrimary { heard, needed, why } => Self::NonPrimary { heard, needed, why },
            Event::Primary => Self::Primary,
            Event::Excluded { view } => Self::Excluded { view: view.0 },
            Event::Renounced { generation } => Self::Renounced { generation },
            Event::ReformRefused { why } => Self::ReformRefused { why },
            Event::OtherInstance { instance, own, at } => {
                Self::OtherInstance { instance: Instance::of(instance), own: Instance::of(own), at }
            }
            Event::Searching { probes, why } => Self::Searching { probes, why },
            Event::Differs { setting, cell, own } => Self::Differs { setting, cell, own },
            Event::LevelRefused { level, why } => Self::LevelRefused { level, why },
            Event::EndWaits { groups, members, at_most } => Self::EndWaits { groups, members, at_most },
            Event::EndInDoubt { groups, members } => Self::EndInDoubt { groups, members },
            Event::Left => Self::Left,
            Event::GroupOrphaned { name, waits_for, .. } => {
                let for_members = waits_for.into_iter().map(|(who, name)| (MemberId::of(who), name)).collect();
                Self::GroupWaiting { group: name, for_members }
            }
            Event::GroupPutOff { name, waiting, bytes, bytes_max } => {
                Self::GroupPutOff { group: name, waiting, bytes, bytes_max }
            }
            Event::GroupAbsent { name } => Self::GroupAbsent { group: name },
            Event::GroupRefused { name } => Self::GroupRefused { group: name },
            Event::GroupDiffers { name, has_state } => Self::GroupDiffers { group: name, has_state },
            Event::GroupDomains { name: group, mismatch } => {
                let (domain, is_lacking) = match mismatch {
                    DomainMismatch::Lacks(domain) => (domain, true),
                    DomainMismatch::Needs(domain) => (domain, false),
                };
                Self::GroupDomains { group, domain: domain.name, version: domain.version, is_lacking }
            }
            Event::GroupForgotten { name, view, kept, .. } => {
                let counted = |kept: Vec<(Incarnation, u64)>| {
                    kept.into_iter().map(|(who, count)| (MemberId::of(who), count)).collect()
                };
                Self::GroupForgotten { group: name, view: view.0, kept: kept.map(counted) }
            }
            Event::StateKept { name, view, .. } => Self::GroupKept { group: name, view: view.0 },
            Event::StateBegin { name, bytes, .. } => Self::GroupTaking { group: name, bytes },
            Event::StateAnew { name, .. } => Self::GroupFoundedAnew { group: name },
            // What became of messages is told to who sent them, and the rest in the inboxes. That a group is adequate is
            // told where its name is known.
            _ => return None,
        })
    }

    /// Whether an operator should see it, even one who does not follow views: [`Cell::notices`](crate::Cell::notices) gives
    /// the texts of these.
    #[must_use]
    pub fn is_notice(&self) -> bool {
        match self {
            Self::NonPrimary { .. }
            | Self::Primary
            | Self::Unhealthy { .. }
            | Self::Excluded { .. }
            | Self::Renounced { .. }
            | Self::ReformRefused { .. }
            | Self::OtherInstance { .. }
            | Self::Searching { .. }
            | Self::Differs { .. }
            | Self::LevelRefused { .. }
            | Self::EndWaits { .. }
            | Self::EndInDoubt { .. }
            | Self::GroupPutOff { .. }
            | Self::GroupAbsent { .. }
            | Self::GroupFoundedAnew { .. }
            | Self::TraceLost { .. }
            | Self::Notice(_) => true,
            Self::View(_)
            | Self::GroupView(_)
            | Self::GroupAdequate { .. }
            | Self::Left
            | Self::GroupWaiting { .. }
            | Self::GroupRefused { .. }
            | Self::GroupDiffers { .. }
            | Self::GroupDomains { .. }
            | Self::GroupForgotten { .. }
            | Self::GroupKept { .. }
            | Self::GroupTaking { .. }
            | Self::Missed { .. } => false,
        }
    }
}

impl fmt::Display for CellEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::View(view) => write!(f, "cell view {}: {} members", view.number(), view.len()),
            Self::GroupView(view) => {
                write!(f, "group {} view {}: {} members", view.group(), view.number(), view.len())
            }
            Self::GroupAdequate { group, view, adequate } => {
                let which = if *adequate { "enough members" } else { "too few members with its state" };
                write!(f, "group {group} view {view}: {which} for uniform messages")
            }
            Self::NonPrimary { why, .. } => write!(f, "not in the primary partition: {why}"),
            Self::Primary => f.write_str("in the primary partition again"),
            Self::Excluded { view } => write!(f, "excluded: cell view {view} does not hold this process"),
            Self::Renounced { generation } => {
                write!(f, "gave its cell instance up for one of generation {generation}")
            }
            Self::ReformRefused { why } => write!(f, "the cell is not reformed: {why}"),
            Self::OtherInstance { instance, own, at } => write!(
                f,
                "a living process at {at} is in another instance of this cell, {instance}; this process is in {own}: end \
                 the one that is wrong"
            ),
            Self::Searching { why, .. } => write!(f, "looking for the cell: {why}"),
            Self::Differs { setting, cell, own } => {
                write!(f, "kept out of the cell: {setting} is {cell} there and {own} here; set it to the cell's value")
            }
            Self::LevelRefused { level, why } => write!(f, "the cell does not rise to level {level}: {why}"),
            Self::EndWaits { groups, members, at_most } => write!(
                f,
                "the leave waits for at most {at_most:?}, because the cell may end with it. {}",
                behind(groups, members)
            ),
            Self::EndInDoubt { groups, members } => write!(
                f,
                "left in doubt, as one of the last members. {}. What only these members have is not lost while their \
                 processes run; the founders' next cell waits for those groups",
                behind(groups, members)
            ),
            Self::Unhealthy { why } => write!(f, "leaves the cell, because {why}"),
            Self::Left => f.write_str("left the cell"),
            Self::GroupWaiting { group, for_members } => {
                let name = |(who, name): &(MemberId, String)| match &name[..] {
                    "" => who.to_string(),
                    name => name.to_owned(),
                };
                let names = for_members.iter().map(name).collect::<Vec<_>>().join(", ");
                write!(f, "group {group} waits for one of {names}: nobody else has its state")
            }
            Self::GroupPutOff { group, waiting, bytes, bytes_max } => write!(
                f,
                "group {group} is not made yet: {waiting} groups wait for members that are cut off, and take {bytes} \
                 bytes where {bytes_max} may be. Start these members or reach them again, or give groups up"
            ),
            Self::GroupAbsent { group } => write!(
                f,
                "group {group} is not there, and an observer makes no group. It is observed when others have made it"
            ),
            Self::GroupRefused { group } => {
                write!(f, "group {group} cannot be made: the cell's numbers of groups are used up")
            }
            Self::GroupDiffers { group, has_state } => {
                let has =
                    if *has_state { "it has a state, and none was named" } else { "it has no state, and one was" };
                write!(f, "group {group} is not joined: {has}")
            }
            Self::GroupDomains { group, domain, version, is_lacking } => {
                let (has, lacks) = if *is_lacking { ("it", "this process") } else { ("this process", "it") };
                let shown = shown(domain);
                write!(f, "group {group} is not joined: {has} has version {version} of {shown}, and {lacks} does not")
            }
            Self::GroupForgotten { group, view, .. } => {
                write!(f, "group {group} is over, or went on without this process after its view {view}")
            }
            Self::GroupKept { group, view } => {
                write!(f, "group {group} goes on with the state that this process kept of its view {view}")
            }
            Self::GroupTaking { group, bytes } => write!(f, "taking {bytes} bytes of state of group {group}"),
            Self::GroupFoundedAnew { group } => write!(
                f,
                "group {group} is founded anew by this process: the members that had its state are gone, and the state with \
                 them"
            ),
            Self::TraceLost { why } => {
                write!(f, "the trace ends here: {why}; once there is room, start this process again to trace on")
            }
            Self::Notice(text) => f.write_str(text),
            Self::Missed { events } => write!(f, "{events} events before this are no longer kept"),
        }
    }
}

/// What the last members would leave behind.
fn behind(groups: &[String], members: &[String]) -> String {
    let listed = |what: &str, names: &[String]| match names {
        [] => None,
        names => Some(format!("{what}: {}", names.join(", "))),
    };
    let all = [
        listed("Groups that wait for members that are cut off", groups),
        listed("Members that were left out and may live", members),
    ];
    all.into_iter().flatten().collect::<Vec<_>>().join(". ")
}

/// The latest events of a process, numbered from 0.
#[derive(Debug, Default)]
pub(crate) struct Log {
    events: VecDeque<CellEvent>,
    /// The number of the oldest that is kept.
    first: u64,
    /// The number of the first of which the program took no notice.
    unnoticed: u64,
}

impl Log {
    pub(crate) fn push(&mut self, event: CellEvent) {
        if self.events.len() == EVENTS_MAX {
            self.events.pop_front();
            self.first += 1;
        }
        self.events.push_back(event);
    }

    /// The event with the number, or how many were missed; the number then stands for what follows.
    fn next(&self, number: &mut u64) -> Option<CellEvent> {
        if *number < self.first {
            let events = self.first - *number;
            *number = self.first;
            return Some(CellEvent::Missed { events });
        }
        let event = self.events.get(usize::try_from(*number - self.first).ok()?)?;
        *number += 1;
        Some(event.clone())
    }

    /// Takes the texts for an operator, oldest first.
    pub(crate) fn take_notices(&mut self) -> Vec<String> {
        let skipped = usize::try_from(self.unnoticed.saturating_sub(self.first)).unwrap_or(usize::MAX);
        self.unnoticed = self.first + self.events.len() as u64;
        self.events.iter().skip(skipped).filter(|event| event.is_notice()).map(CellEvent::to_string).collect()
    }
}

impl From<Vec<String>> for Log {
    fn from(texts: Vec<String>) -> Self {
        let mut log = Self::default();
        texts.into_iter().for_each(|text| log.push(CellEvent::Notice(text)));
        log
    }
}

/// The most events that are kept for the application.
const EVENTS_MAX: usize = 256;

/// What a process tells its program, shared by the protocol thread and the readers.
#[derive(Debug)]
pub(crate) struct Telling {
    log: Mutex<Log>,
    told: Waiters,
    over: AtomicBool,
    home: Home,
}

impl Telling {
    pub(crate) fn new(home: Home) -> Self {
        Self { log: Mutex::default(), told: Waiters::default(), over: AtomicBool::new(false), home }
    }

    /// Not to be called in a forked child: the lock may be held by a thread that does not exist there.
    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the program what happened.
    pub(crate) fn tell(&self, event: CellEvent) {
        self.log().push(event);
        self.told.wake();
    }

    /// Nothing follows.
    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::SeqCst);
        self.told.wake();
    }

    /// See [`Log::take_notices`].
    pub(crate) fn take_notices(&self) -> Vec<String> {
        if self.home.is_here() { self.log().take_notices() } else { Vec::new() }
    }
}

/// What happens to a process in its cell, from its start on; see [`Cell::events`](crate::Cell::events). A reader holds
/// nobody back: of events that it does not take, the latest 256 are kept.
///
/// It is a [`Stream`] for any executor, and ends when the process is over. It keeps no process alive.
#[derive(Debug)]
pub struct Events {
    shared: Arc<Telling>,
    /// The number of the next one.
    next: u64,
    place: Place,
}

impl Events {
    pub(crate) fn new(shared: Arc<Telling>) -> Self {
        // What was dropped before this reader was made is not missed.
        let next = if shared.home.is_here() { shared.log().first } else { 0 };
        Self { shared, next, place: Place::default() }
    }

    /// The next event; `None` after the last.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing: an event is taken when the future is ready, and not before.
    #[expect(clippy::should_implement_trait, reason = "it is the name that streams have for it")]
    pub fn next(&mut self) -> impl Future<Output = Option<CellEvent>> {
        poll_fn(|context| self.poll(context))
    }

    /// Like [`Events::next`], for a thread.
    ///
    /// # Panics
    /// If this thread holds a guard of [`Replica::read`](crate::Replica::read).
    #[track_caller]
    pub fn blocking_next(&mut self) -> Option<CellEvent> {
        block_value(self.next())
    }

    /// Like [`Events::blocking_next`], for at most `patience`.
    ///
    /// # Errors
    /// [`LimitError::Timeout`] if nothing came. Nothing is lost.
    pub fn blocking_next_timeout(&mut self, patience: Duration) -> Result<Option<CellEvent>, LimitError> {
        wait_for(self.next(), patience)
    }

    /// The next event, if one is here.
    pub fn try_next(&mut self) -> Option<CellEvent> {
        if self.shared.home.is_here() { self.shared.log().next(&mut self.next) } else { None }
    }

    fn poll(&mut self, context: &Context<'_>) -> Poll<Option<CellEvent>> {
        let Self { shared, next, place } = self;
        // Nothing comes in a forked child.
        if !shared.home.is_here() {
            return Poll::Ready(None);
        }
        shared.told.poll(place, context, || {
            // Read first: all that was told before the end is seen then.
            let over = shared.over.load(Ordering::SeqCst);
            let event = shared.log().next(next);
            (event.is_some() || over).then_some(event)
        })
    }
}

impl Stream for Events {
    type Item = CellEvent;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<CellEvent>> {
        self.poll(context)
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        if self.shared.home.is_here() {
            self.shared.told.forget(&mut self.place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notice(number: usize) -> CellEvent {
        CellEvent::Notice(number.to_string())
    }

    #[test]
    fn a_slow_reader_learns_how_much_it_missed() {
        let mut log = Log::default();
        let (mut slow, mut quick) = (0, 0);
        for number in 0..EVENTS_MAX + 3 {
            log.push(notice(number));
            assert_eq!(log.next(&mut quick).map(|event| event.to_string()), Some(number.to_string()));
        }
        assert!(matches!(log.next(&mut slow), Some(CellEvent::Missed { events: 3 })));
        for number in 3..EVENTS_MAX + 3 {
            assert_eq!(log.next(&mut slow).map(|event| event.to_string()), Some(number.to_string()));
        }
        assert!(log.next(&mut slow).is_none() && log.next(&mut quick).is_none());
    }

    /// A state that is gone is no matter of views alone.
    #[test]
    fn an_operator_is_told_that_a_group_is_founded_anew() {
        let event = Event::StateAnew { group: phalanx_core::GroupId(1), name: "g".into() };
        let told = CellEvent::of(&event, Incarnation(1)).expect("it is told");
        assert!(matches!(&told, CellEvent::GroupFoundedAnew { group } if &**group == "g") && told.is_notice());
    }

    #[test]
    fn notices_are_taken_once_and_are_the_texts_for_an_operator() {
        let mut log = Log::from(vec!["a warning".to_owned()]);
        log.push(CellEvent::Primary);
        log.push(CellEvent::Left);
        assert_eq!(log.take_notices(), ["a warning", "in the primary partition again"]);
        assert!(log.take_notices().is_empty());
        for number in 0..2 * EVENTS_MAX {
            log.push(notice(number));
        }
        let taken = log.take_notices();
        assert_eq!((taken.len(), &taken[0][..]), (EVENTS_MAX, "256"), "the latest are kept");
    }
}
