//! The vocabulary of the core: settings, commands, effects, events and errors.

mod domain;
mod limits;
mod message;
mod view;

use std::net::SocketAddr;
use std::sync::Arc;

use crate::id::{CellInstance, GroupId, InboxId, Incarnation, MemberInfo, Origin, Sequence, TrafficClass, ViewNumber};
use crate::member::{Directory, FounderRecord, Inheritance};
use crate::packet::ClearPacket;
use crate::wire::{PacketNumber, Space};

pub use domain::{DOMAINS_MAX, Domain, DomainIndex, DomainMismatch, OwnDomain, are_domains};
pub use limits::{Limits, MESSAGE_BYTES_MAX, SEEDS_MAX, SlowMembers, Timing};
pub use message::{
    Accepted, Delivery, Expected, GroupTerms, MessageToOne, Order, Request, SendOptions, Sent, Stability, ToOneKind,
    ToOneOutcome, Uniformity,
};
pub use view::{CellView, DeathProof, Decree, Departed, GroupDecree, GroupView, LeaveReason, Membership};

/// How a process may enter its first view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Founding {
    /// Founds the cell alone: this process holds the lock for that (one host), or the operator ordered it.
    Alone,
    /// Only joins an existing cell; never founds one.
    Join,
    /// Founds the next instance of a cell, as a survivor of one whose quorum is gone for good; see
    /// [`Process::reform`](crate::process::Process::reform).
    Reform(Box<Inheritance>),
    /// Founds the cell with the others of a fixed list of founders, by name, in order. They decide view 1 by a ballot
    /// (`docs/founding.md`).
    Named(Vec<String>),
}

/// The settings of a process, complete before it starts.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The cell's name.
    pub cell: String,
    /// This process. `incarnation` must be fresh random bits.
    pub me: MemberInfo,
    /// How it may enter its first view.
    pub founding: Founding,
    /// What an earlier process of this name left in its state directory; see [`Effects::keep_record`]. Default:
    /// nothing.
    pub record: FounderRecord,
    /// Control addresses at which it looks for the cell.
    pub seeds: Vec<SocketAddr>,
    /// Periods and timeouts.
    pub timing: Timing,
    /// Bounds on memory.
    pub limits: Limits,
}

/// What the core reports to the application, in order with the deliveries.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// A cell view was installed.
    CellView(Arc<CellView>),
    /// A group view was installed.
    GroupView(Arc<GroupView>),
    /// A view that the members of a group installed before this process was one of them. It belongs to the state that is
    /// being taken, at this point between the replayed deliveries: after the snapshot, and before [`Event::StateEnd`]. The
    /// process was never in it. Its `prev` is `None`, and `adequate` follows from its lists and terms alone. From level 7
    /// on.
    GroupViewReplayed(Arc<GroupView>),
    /// The view's adequacy changed without a new view. Either enough members are now known to have the group's state (a
    /// joiner's state is complete), or the terms came into force (the cell rose to level 2) and too few have it.
    GroupAdequacy {
        /// The group.
        group: GroupId,
        /// Its view.
        view: ViewNumber,
        /// Whether uniform messages are sent in it, as far as the group's terms decide that.
        adequate: bool,
    },
    /// Accepted multicasts are bound to no view and never will be: this process leaves the group, or its incarnation is
    /// over. Reported once, before the event that says so. A process sends its messages in a group in the order in
    /// which it accepted them, so these are the last ones.
    Unsent {
        /// The group.
        group: GroupId,
        /// How many; at least one.
        messages: u64,
    },
    /// A receiver has not acknowledged point-to-point messages, and this incarnation is over: the receiver may have
    /// them or not. Reported once for each receiver in the last reported cell view, before the event that ends the
    /// incarnation. Messages to one receiver arrive in the order in which they were accepted, so these are the last
    /// ones. All others were received.
    InDoubt {
        /// The receiver.
        to: Incarnation,
        /// How many; at least one.
        messages: u64,
    },
    /// This process is no longer in the group. Nothing more of it is delivered unless the process comes back.
    GroupLeft {
        /// The group.
        group: GroupId,
        /// [`LeaveReason::Left`]: it requested that. [`LeaveReason::Anew`]: it comes back by itself and takes the
        /// state, like a joiner. [`LeaveReason::Nonsense`]: the others could not make sense of what it sent, and
        /// exclude it next. [`LeaveReason::Stopped`]: the group is over.
        why: LeaveReason,
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
    /// A decided view does not hold this process. This incarnation is over.
    Excluded {
        /// The first view without it.
        view: ViewNumber,
    },
    /// This incarnation renounced its cell instance and is over, because the cell was founded again, or is about to be
    /// founded again from here; see [`Process::reform`](crate::process::Process::reform). The next incarnation keeps
    /// the state of its groups, as after an exclusion.
    Renounced {
        /// The generation of the later instance.
        generation: u16,
    },
    /// The requested reform is refused. The incarnation continues unless the next event says otherwise.
    ReformRefused {
        /// The reason, for people.
        why: String,
    },
    /// A living process is in another instance of this cell: the cell was founded twice, or again. Reported once for
    /// each instance.
    OtherInstance {
        /// Its instance.
        instance: CellInstance,
        /// The instance of this process.
        own: CellInstance,
        /// The address from which it answered.
        at: SocketAddr,
    },
    /// The requested leave is complete. This incarnation is over.
    Left,
    /// A leave waits, because the cell may end with it: groups wait for former members, or members were left out since it
    /// was asked for. Reported once, after a second. It goes on when they are back, when others stay, or after this time
    /// ([`Timing::end_wait`]), which begins again with each further member that is left out.
    EndWaits {
        /// The names of the groups.
        groups: Vec<String>,
        /// The names of the members.
        members: Vec<String>,
        /// For how long.
        at_most: std::time::Duration,
    },
    /// This process may be the last of its cell, and something of the cell may be lost with it: groups that wait for former
    /// members, and members that were left out since it asked to leave and of which nobody knows that they ended. It waited
    /// for them ([`Timing::end_wait`]). [`Event::Left`] follows. The record of the end names both, and founders that start
    /// later begin with these groups waiting (`docs/founding.md`, *When all members left*). From level 6 on.
    EndInDoubt {
        /// The names of the groups.
        groups: Vec<String>,
        /// The names of the members.
        members: Vec<String>,
    },
    /// The cell takes this process only with another value of one of its settings. The process goes on looking for it.
    /// Reported when the reason changes.
    Differs {
        /// The setting as a configuration names it, or "level" if the build is too old.
        setting: String,
        /// Its value in the cell, for people.
        cell: String,
        /// Its value in this process, for people.
        own: String,
    },
    /// The cell keeps its level although this process requested a higher one, because a member cannot follow. The
    /// request may be repeated when that member is gone, or runs a later build.
    LevelRefused {
        /// The requested level.
        level: u16,
        /// Which member cannot follow, and why, for people.
        why: String,
    },
    /// No cell is found yet. Reported from time to time, with the results of the probes.
    Searching {
        /// Number of probes since the start.
        probes: u64,
        /// A possible reason, for people.
        why: String,
    },
    /// A group that this process requested to join waits: nobody in the cell has its state, and members that have it
    /// are cut off. It continues when one of them is back. It ends when all are proved dead or were started again
    /// without the state, or by a command ([`crate::process::Process::give_up_group`]). Reported when the list changes.
    GroupOrphaned {
        /// The group.
        group: GroupId,
        /// Its name.
        name: Arc<str>,
        /// The members for which it waits, with their names.
        waits_for: Vec<(Incarnation, String)>,
    },
    /// A group that this process requested to join does not exist and cannot be made: the cell has used all numbers of
    /// groups or of their views. The request is dropped. Existing groups continue. A later instance of the cell,
    /// founded after all members left, counts from the start.
    GroupRefused {
        /// Its name.
        name: Arc<str>,
    },
    /// A group that this process requested to join has a state and the request was without, or the group has none and the
    /// request was with one. That is agreed when a group is made, from level 6 of the cell on. The request is dropped.
    GroupDiffers {
        /// Its name.
        name: Arc<str>,
        /// Whether it has a state.
        has_state: bool,
    },
    /// A group that this process requested to join has a domain of its state that this process lacks, or lacks one that it
    /// needs. The request is dropped before any state travels. From level 10 of the cell on.
    GroupDomains {
        /// Its name.
        name: Arc<str>,
        /// What is wrong.
        mismatch: DomainMismatch,
    },
    /// A group that this process requested to join does not exist and is not made yet, because groups that wait for
    /// members which are cut off take too much of the directory: those of the whole cell, or those that wait for this
    /// process. The request stands, and is fulfilled when there is room: when such members are back or were started
    /// again, or by a command that gives a group up ([`crate::process::Process::give_up_group`]). Reported once.
    GroupPutOff {
        /// Its name.
        name: Arc<str>,
        /// Number of groups that wait.
        waiting: usize,
        /// Bytes that count.
        bytes: usize,
        /// How many there may be.
        bytes_max: usize,
    },
    /// A group that this process asked to observe does not exist: nobody in the cell is in it, and nobody waits for it. An
    /// observer makes no group. The request stands, and is fulfilled when others made the group. Reported once, and again
    /// after the group ended.
    GroupAbsent {
        /// Its name.
        name: Arc<str>,
    },
    /// An earlier incarnation of this process had the state of a group, and the group is over or continued without it.
    /// What only that state held is lost to the others. The application need not discard anything now:
    /// [`Event::StateBegin`] requests that if this process takes the group's state.
    GroupForgotten {
        /// The group.
        group: GroupId,
        /// Its name.
        name: Arc<str>,
        /// The last view of the earlier incarnation.
        view: ViewNumber,
        /// The members of that view, each with the number of its messages that are in the state with which the group
        /// continued. Later deliveries are forgotten. `None` if that is not known, or the group is over.
        kept: Option<Vec<(Incarnation, u64)>>,
    },
    /// The group continues with the state that this process kept since an earlier incarnation; see
    /// [`Process::take_kept`](crate::process::Process::take_kept). The rest of the state follows as replayed
    /// deliveries, then the first view.
    StateKept {
        /// The group.
        group: GroupId,
        /// Its name.
        name: Arc<str>,
        /// The earlier incarnation that was in the group.
        was: Incarnation,
        /// The last view of the group that is part of the state, with what follows.
        view: ViewNumber,
    },
    /// A donor's state begins: discard the group's earlier state. Chunks, then replayed deliveries and views follow.
    StateBegin {
        /// The group.
        group: GroupId,
        /// Its name.
        name: Arc<str>,
        /// Length of the snapshot, in bytes.
        bytes: u64,
        /// The view in which the donor froze it. All views after it and before the first one here are replayed. `None`:
        /// none is, because the snapshot was taken below level 7.
        view: Option<ViewNumber>,
        /// The domains that the group lists in that view, if it does.
        domains: Option<Arc<[Domain]>>,
    },
    /// This process sought the group's state, and no member that has it is left: the group is founded anew, and its first
    /// view follows. Discard what a donor sent; there may have been nothing yet.
    StateAnew {
        /// The group.
        group: GroupId,
        /// Its name.
        name: Arc<str>,
    },
    /// The state is complete up to the group's first view here.
    StateEnd {
        /// The group.
        group: GroupId,
    },
}

/// Sink of the core's effects. It cannot re-enter the core.
///
/// Packets, order and delivery bind it at compile time, so that the packet path makes no dynamic call. Membership calls
/// it through `dyn Effects`, so that it is compiled once and not for each sink.
pub trait Effects {
    /// Writes a packet in clear, `head` followed by `frames`, to shared memory for those of `to` that read it, and
    /// returns their number. The sealed packet that is passed to [`Self::transmit`] with the same `to` goes only to the
    /// others.
    fn write_shared(&mut self, _lane: TrafficClass, _to: &[SocketAddr], _head: &[u8], _frames: &[u8]) -> usize {
        0
    }

    /// Sends `packet` to each of `to` that [`Self::write_shared`] does not reach. All get the same bytes.
    fn transmit(&mut self, class: TrafficClass, to: &[SocketAddr], packet: &[u8]);

    /// Shows a packet that was received and opened, before anything else looks at it. It may be a repetition.
    #[inline]
    fn opened(&mut self, _class: TrafficClass, _origin: Origin, _packet: ClearPacket<'_>) {}

    /// Shows the directory of the cell that was just installed, and the decree that led to it. No packet of its views was
    /// sent or read before. The events that it brings follow.
    fn installed(&mut self, _directory: &Directory, _decree: &Decree<'_>) {}

    /// Whether the socket of [`TrafficClass::Data`] takes no more packets for now.
    fn is_congested(&mut self) -> bool {
        false
    }

    /// Whether the application takes a delivery or event for this inbox now. While it does not, deliveries are kept,
    /// bounded by the windows, and the senders of its groups are held back. At the end of an incarnation all items are
    /// handed over, whatever it answers.
    fn ready(&mut self, _inbox: InboxId) -> bool {
        true
    }

    /// Notes that a multicast that waited is sent: from now on it belongs to `view`, as number `seq` of this process's
    /// stream. What is sent at once is not reported here: [`Accepted::sent`] says so.
    fn sent(
        &mut self,
        _group: GroupId,
        _view: ViewNumber,
        _seq: Sequence,
        _order: Order,
        _uniformity: Uniformity,
        _payload: &[u8],
    ) {
    }

    /// Notes that every member of `view` has this process's multicasts up to number `seq` of that view, or that the view
    /// ended and every member that goes on has them. Reported once, at once, and at the end of a view in order before the
    /// event of the next one.
    /// Outside the primary partition nothing is reported, except by a decided end of the view. What was sent and never
    /// reported when this incarnation is over is in doubt: survivors may have delivered it or not.
    fn stable(&mut self, _group: GroupId, _view: ViewNumber, _seq: Sequence) {}

    /// Whether this process can read packet `number` of a member's stream. False only where a simulation plays a
    /// defect.
    fn can_read(&mut self, _sender: Incarnation, _space: Space, _number: PacketNumber) -> bool {
        true
    }

    /// Delivers a message to the application.
    fn deliver(&mut self, delivery: &Delivery<'_>);

    /// Reports an event to the application.
    fn event(&mut self, event: Event);

    /// Delivers a point-to-point message from a member.
    fn message(&mut self, _from: Incarnation, _payload: &[u8]) {}

    /// Delivers a message to this member of a group alone, at its place among the group's deliveries.
    fn to_one(&mut self, _message: &MessageToOne<'_>) {}

    /// Reports what became of the next `messages` that this process sent to `to` in the group
    /// ([`Process::send_to`](crate::process::Process::send_to)), in the order in which they were sent.
    fn settled(&mut self, _group: GroupId, _to: Incarnation, _outcome: ToOneOutcome, _messages: u64) {}

    /// A snapshot of this process's state of `group` as of now, between two deliveries, for a joiner. `None` if the
    /// group has no state. The snapshot may be read over a long time while deliveries continue.
    fn snapshot(&mut self, _group: GroupId) -> Option<Box<dyn Snapshot>> {
        None
    }

    /// Stores the record that keeps a later process of this name from founding its cell a second time. It replaces the
    /// record stored before. It must be on disk when this returns true. On false, nothing is founded or joined with it.
    fn keep_record(&mut self, _record: &FounderRecord) -> bool {
        true
    }

    /// Takes a chunk of a donor's snapshot. Chunks come in order.
    fn restore(&mut self, _group: GroupId, _chunk: &[u8]) {}
}

/// A state, frozen at the moment of the snapshot.
pub trait Snapshot {
    /// Its length in bytes.
    fn len_bytes(&self) -> u64;
    /// Appends up to `max_bytes` from `offset` to `out`. Every call with the same arguments must give the same bytes.
    fn read(&mut self, offset: u64, max_bytes: usize, out: &mut Vec<u8>);
}

/// On what condition a survivor founds the next instance of its cell ([`Process::reform`](crate::Process::reform)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReformWhen {
    /// An operator knows that nobody else of the cell goes on.
    Asked,
    /// All other members of the view are proved dead, besides: for a supervisor that knows of no other process of the cell. The
    /// proofs alone do not suffice. This process may have missed a decree that the others made before they died, and that took
    /// somebody else in.
    AllProvedDead,
}

/// Why a command was refused. Nothing changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CommandError {
    /// This process is not a member of that group, or not yet.
    #[error("not a member of that group")]
    NotMember,
    /// The outbox is full, because the window is used up or a view change is under way. Retry after the next poll.
    #[error("no credit: the group's window is used up")]
    NoCredit,
    /// As much is on its way to that member as it grants. It alone has to wait: messages to others may go. Retry after the
    /// next poll.
    #[error("no room: the window to that member is used up")]
    NoWindow,
    /// That process is in no view of the group with this one.
    #[error("that process is not in view {view} of the group")]
    NoSuchMember {
        /// The view in force here.
        view: ViewNumber,
    },
    /// The cell is at a level that does not have this yet.
    #[error("the cell is at level {level}, and this takes level {needed}: raise it when all members know that")]
    BelowLevel {
        /// The level of the cell.
        level: u16,
        /// The level that is needed.
        needed: u16,
    },
    /// The group lists no such domain, or it keeps no list of its domains.
    #[error("the group has no such domain")]
    NoSuchDomain,
    /// The message names a domain, and it is not in total order, or asks for answers.
    #[error("a message to a domain is in total order, and asks nobody")]
    NotToDomain,
    /// A list of domains is longer than the bound, or has a name twice.
    #[error("a state has at most {DOMAINS_MAX} domains, each with a name of its own, and 2 KiB of names")]
    BadDomains,
    /// The message names a view, and another one is in force, or that one is ending.
    #[error("another view of the group is in force")]
    OtherView,
    /// The message is longer than [`MESSAGE_BYTES_MAX`], or than a packet if it names a view.
    #[error("message of {0} bytes is longer than 64 MiB, or than a packet if it names a view")]
    TooLong(usize),
    /// A name is empty or longer than [`NAME_BYTES_MAX`](crate::NAME_BYTES_MAX).
    #[error("bad name: {}", crate::id::BadName)]
    BadName,
    /// This incarnation is over: it was excluded or left.
    #[error("this incarnation is over")]
    Over,
    /// This build does not know the requested level, or a member cannot follow.
    #[error("the cell cannot rise to level {level}: {why}")]
    LevelRefused {
        /// The requested level.
        level: u16,
        /// Which member cannot follow, and why.
        why: String,
    },
    /// No group of that name waits for members that are cut off.
    #[error("no group of that name waits for members that are cut off")]
    NotOrphan,
    /// This process is not in a view yet.
    #[error("not in a view yet")]
    NoView,
    /// At most half of the founders look for the cell.
    #[error("{here} of {names} founders look for the cell, and more than half must")]
    TooFewFounders {
        /// How many look for it, as far as this process hears.
        here: usize,
        /// The number of founders.
        names: usize,
    },
    /// A quorum of the cell is heard: there is nothing to reform.
    #[error("this process is in the primary partition of its cell: there is nothing to reform")]
    InPrimary,
    /// Some other member of the view is not proved dead, and [`ReformWhen::AllProvedDead`] was asked for.
    #[error("not proved dead: {names}")]
    NotProvedDead {
        /// Their names.
        names: String,
    },
    /// This process is no founder that looks for its cell.
    #[error("this process is no founder that looks for its cell")]
    NotSearching,
    /// The view has no such process.
    #[error("no such process in the view")]
    NoSuchProcess,
    /// This process is a member of that group, or already joins it.
    #[error("already a member of, or joining, that group")]
    AlreadyMember,
    /// The process was started before a fork, and this is the child; it continues in the parent. Start another in the
    /// child. A [`Process`](crate::process::Process) does not know of forks: the code that runs it returns this.
    #[error("this handle belongs to the parent process: start one of its own in the forked child")]
    Forked,
}
