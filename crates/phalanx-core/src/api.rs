//! The vocabulary of the core: settings, commands, effects, events and errors.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::id::{CellInstance, GroupId, Incarnation, MemberInfo, TrafficClass};
use crate::member::{FounderRecord, Inheritance};
use crate::wire::{PacketNumber, Space};

/// How a process may come into its first view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Founding {
    /// This process holds the lock that lets it found the cell alone (one host), or the operator said so.
    Alone,
    /// Never founds: only joins a cell that exists.
    Join,
    /// The next instance of a cell, by a survivor of one whose quorum is gone for good: see
    /// [`Process::reform`](crate::process::Process::reform).
    Reform(Box<Inheritance>),
    /// One of the fixed founders, by name, in order. They decide view 1 by a ballot (`docs/founding.md`).
    Named(Vec<String>),
}

/// Everything a process needs to know before it starts.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The cell's name.
    pub cell: String,
    /// This process; `incarnation` must be fresh random bits.
    pub me: MemberInfo,
    /// How it may come into its first view.
    pub founding: Founding,
    /// What an earlier process of this name left in its state directory, see [`Effects::keep_record`]. Default: nothing.
    pub record: FounderRecord,
    /// Where to look for the cell: control addresses.
    pub seeds: Vec<SocketAddr>,
    /// Timing.
    pub timing: Timing,
    /// Bounds.
    pub limits: Limits,
}

/// The periods and patience of a process. Defaults suit one network with round trips of a few milliseconds.
#[derive(Clone, Debug)]
pub struct Timing {
    /// Between heartbeats to each watcher. Default 100 ms.
    pub heartbeat: Duration,
    /// Unheard this long, a link is suspected (jitter is added). Shorter finds silent members sooner, and mistakes more
    /// pauses for failures; a process that dies on this host is not waited for. Default 3 s.
    pub suspect_after: Duration,
    /// Patience of a coordinator with one step of a view change. Default 150 ms.
    pub ballot_step: Duration,
    /// Between probes of a process that looks for its cell. Default 100 ms.
    pub probe: Duration,
    /// The longest an acknowledgement is held back. Default 2 ms.
    pub ack_delay: Duration,
    /// A member that holds another's stream back for so long without any progress in it is too slow, where
    /// [`Limits::slow_members`] says that those leave. Where it is less than `suspect_after`, that counts. Shorter frees the others
    /// sooner, and costs members that only paused. Default 10 s.
    pub expel_after: Duration,
    /// The longest that this process stays away between two turns while it works as intended, at most [`crate::TURN_GAP_MAX`]. The others bear
    /// its silence for so much longer, and it takes no turn within that time for a late one. More lets an application turn it seldom;
    /// a view change waits for its turn, and its death is found so much later. Up to 50 ms, or zero, adds nothing: so much is borne of
    /// everybody. Each process's own, told to the others when it joins. Default 50 ms.
    pub turn_gap_max: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            heartbeat: Duration::from_millis(100),
            suspect_after: Duration::from_secs(3),
            ballot_step: Duration::from_millis(150),
            probe: Duration::from_millis(100),
            ack_delay: Duration::from_millis(2),
            expel_after: Duration::from_secs(10),
            turn_gap_max: Duration::from_millis(50),
        }
    }
}

/// Bounds on memory.
#[derive(Clone, Debug)]
pub struct Limits {
    /// What all streams of one group may hold until stable, in bytes; split over its senders. Agreed: a joiner with another
    /// value is refused. Default 8 MiB.
    pub group_window_bytes: usize,
    /// The window of a channel, in bytes. Default 1 MiB.
    pub channel_window_bytes: usize,
    /// Accepted for sending and not yet in a packet, per group, in bytes; one message may exceed it. Default 1 MiB.
    pub outbox_bytes: usize,
    /// Most processes in a cell. Default 1,024.
    pub members: usize,
    /// Up to this many members, everybody watches everybody; in a larger cell each is watched by about so many, and
    /// its heartbeats cost the same whatever the cell's size. Agreed: a joiner takes the cell's. Default 16.
    pub watchers: usize,
    /// After so many abcasts the holder of a group's token looks who sends most, and may pass the token on: less makes the
    /// order follow its senders sooner, and costs more passes. Members may differ. Default 1,024.
    pub token_tally: u64,
    /// What becomes of a member that stays behind. Agreed: a joiner takes the cell's. Default: it leaves.
    pub slow_members: SlowMembers,
    /// A cell view with fewer members is inadequate: views are decided as ever, but no uniform message is sent in it. More keeps
    /// a few survivors from answering for all; with more than can come back, nothing uniform is ever sent again. Agreed from
    /// level 2 on: a joiner takes the cell's. Default 1.
    pub members_min: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            group_window_bytes: 8 << 20,
            channel_window_bytes: 1 << 20,
            outbox_bytes: 1 << 20,
            members: 1024,
            watchers: 16,
            token_tally: 1024,
            slow_members: SlowMembers::Expel,
            members_min: 1,
        }
    }
}

/// What becomes of a member that stays behind, though it is alive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SlowMembers {
    /// Senders are held back until it goes on.
    Wait,
    /// After [`Timing::expel_after`] a view without it is decided; it comes back as a new incarnation.
    #[default]
    Expel,
}

/// The longest message, in bytes: 64 MiB.
pub const MESSAGE_BYTES_MAX: usize = 64 << 20;
/// The most seed addresses that a process keeps: those of its configuration, and those that it learns.
pub const SEEDS_MAX: usize = 4096;

/// The order a multicast asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Order {
    /// In the order of its sender (fbcast).
    Fifo,
    /// After everything it may depend on (cbcast; Birman, Schiper and Stephenson 1991, section 5).
    Causal,
    /// The same order everywhere, extending the causal one (abcast).
    Total,
}

/// Whether a multicast is uniform: delivered only when every member has received it, so that if one delivers it, every
/// survivor does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stability {
    /// As the group was founded, see [`GroupTerms::uniform`].
    #[default]
    GroupDefault,
    /// Delivered as soon as its order allows: who delivers it may die, and nobody else ever see it.
    Plain,
    /// Uniform.
    Uniform,
}

impl From<bool> for Stability {
    /// Uniform if true, else plain.
    fn from(uniform: bool) -> Self {
        if uniform { Self::Uniform } else { Self::Plain }
    }
}

/// What is agreed for a group when it is made, as rank 0 of its first view wished. Who joins later takes the group's terms,
/// whatever it wished: [`GroupView::terms`] tells them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupTerms {
    /// Whether a multicast that asks for neither, [`Stability::GroupDefault`], is uniform. Default true.
    pub uniform: bool,
    /// A view of the group in which fewer members hold its state is inadequate: no uniform message is sent in it. Who still
    /// takes the state does not count. In force from level 2 of the cell on. 0 is 1. Default 1.
    pub members_min: u16,
    /// What becomes of the group when nobody in the primary has its state any more, and members that have it are cut off: false,
    /// its name waits for them ([`Event::GroupOrphaned`]); true, it ends, and may be made again without its state. In force
    /// from level 3 of the cell on. Default false.
    pub ends_alone: bool,
}

impl Default for GroupTerms {
    fn default() -> Self {
        Self { uniform: true, members_min: 1, ends_alone: false }
    }
}

/// A message for the application. Borrowed for the length of the call.
#[derive(Clone, Copy, Debug)]
pub struct Delivery<'a> {
    /// The group it was sent to.
    pub group: GroupId,
    /// The group view it was sent and is delivered in.
    pub view: u64,
    /// Its sender.
    pub sender: Incarnation,
    /// Its number among its sender's messages in this group view, from 1.
    pub seq: u64,
    /// The order it was sent with.
    pub order: Order,
    /// Delivered only because every member has received it.
    pub uniform: bool,
    /// For [`Order::Total`]: its number in the group's total order, from 1 in each group view.
    pub position: Option<u64>,
    /// Part of a state transfer: it belongs to views before this process's first.
    pub replayed: bool,
    /// The bytes.
    pub payload: &'a [u8],
}

/// Why a process is no longer in a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum LeaveReason {
    /// It asked to leave.
    Left,
    /// The operating system proved it dead.
    Died,
    /// It was not heard, or did not answer.
    Unreachable,
    /// It held others back for too long, see [`SlowMembers::Expel`].
    TooSlow,
    /// What it sent made no sense to most members of a group.
    Nonsense,
    /// Of a group: what a member sent made no sense to it, or it delivered what made no sense to most. It comes back with the
    /// state of those that stay.
    Anew,
    /// Of a group: what a member sent made no sense to as many as it did to others. Nobody can say who is at fault: the
    /// group is over, and its state with it.
    Stopped,
    /// It was heard, and a path to it failed: nothing came back on its data socket, or no long packets did.
    NoProgress,
}

impl LeaveReason {
    /// Whether who leaves a group for this reason did not ask to, and lives: it neither keeps the group's state nor delivers to
    /// the cut.
    #[must_use]
    pub fn is_loss(self) -> bool {
        match self {
            Self::Nonsense | Self::Anew | Self::Stopped => true,
            Self::Left | Self::Died | Self::Unreachable | Self::TooSlow | Self::NoProgress => false,
        }
    }
}

/// The processes of a cell, as decided.
#[derive(Clone, Debug)]
pub struct CellView {
    /// The cell instance: drawn when the cell was founded. The upper 16 bits are its generation, the rest is random; of two
    /// instances of a cell the later one has the larger number.
    pub instance: CellInstance,
    /// Earlier instances whose groups this one goes on with, latest first; none, unless the cell was reformed.
    pub ancestors: Vec<CellInstance>,
    /// The view's number, from 1; grows by one with each change of members or of the level.
    pub view: u64,
    /// The level in force: what members may send to each other (`docs/levels.md`).
    pub level: u16,
    /// Members in rank order.
    pub members: Vec<MemberInfo>,
    /// Who came with this view.
    pub joined: Vec<Incarnation>,
    /// Who went with this view, and why.
    pub left: Vec<(Incarnation, LeaveReason)>,
    /// Of those that went though members heard them: each with those that stayed and to which a path failed, eight at most. They
    /// are taken in again when these hear them.
    pub apart: Vec<(Incarnation, Vec<Incarnation>)>,
    /// With fewer members it is inadequate, see [`Limits::members_min`].
    pub members_min: usize,
}

impl CellView {
    /// Whether it has as many members as the cell agreed on: in one that has not, nothing uniform is sent, and whoever
    /// grants or answers for the cell does not.
    #[must_use]
    pub fn is_adequate(&self) -> bool {
        self.members.len() >= self.members_min
    }
}

/// Where an incarnation stands in its cell, as its process believes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Membership {
    /// It looks for its cell: no view holds it yet, as far as it knows.
    Searching,
    /// It is in a view and hears a quorum of it.
    Primary,
    /// It is in a view and hears no quorum of it: the others may have gone on without it.
    NonPrimary,
    /// A decided view does not hold it: this incarnation is over.
    Excluded,
    /// It left, or is left out of the decided view at its own wish.
    Over,
}

/// A group's members, as decided.
#[derive(Clone, Debug)]
pub struct GroupView {
    /// The group.
    pub group: GroupId,
    /// Its name.
    pub name: Arc<str>,
    /// The view's number, from 1. Where another instance of the cell goes on with the group, it skips 2^32 numbers.
    pub view: u64,
    /// The view this process was in before, if any.
    pub prev: Option<u64>,
    /// Members in rank order.
    pub members: Vec<Incarnation>,
    /// Who came with this view.
    pub joined: Vec<Incarnation>,
    /// Who went with this view, and why.
    pub left: Vec<(Incarnation, LeaveReason)>,
    /// Members that do not hold the group's state yet, the same at all members: who came with this view takes it from the others, and who
    /// came before is listed if it said, when the view was decided, that it has not all of it. They may hold it by the time this is
    /// told. Nobody where the group is new, or goes on from a kept state. Below level 3 of the cell those that came alone.
    pub incomplete: Vec<Incarnation>,
    /// What was agreed for the group when it was made.
    pub terms: GroupTerms,
    /// Whether as many members are known here to hold the group's state as its terms ask for. Where that changes within the
    /// view, [`Event::GroupAdequacy`] tells. The cell's own minimum is told with [`CellView::is_adequate`].
    pub adequate: bool,
}

/// What the core tells the application, in order with the deliveries.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// A cell view was installed.
    CellView(Arc<CellView>),
    /// A group view was installed.
    GroupView(Arc<GroupView>),
    /// Within a view, the number of members that are known to hold the group's state came to what its terms ask for (a
    /// joiner's state is complete), or the terms came into force (the cell rose to level 2) and it is less.
    GroupAdequacy {
        /// The group.
        group: GroupId,
        /// Its view.
        view: u64,
        /// Whether uniform messages are sent in it, as far as the group goes.
        adequate: bool,
    },
    /// Multicasts that were accepted, were not bound to any view, and never will be: this process leaves the group, or its
    /// incarnation is over. Said once, before the event that says so. What it sends in a group goes out in the order in which it was
    /// accepted, so they are the last that were.
    Unsent {
        /// The group.
        group: GroupId,
        /// How many: at least one.
        messages: u64,
    },
    /// Point-to-point messages that were accepted, and that their receiver has not acknowledged: it may have them or not, and this
    /// incarnation is over. Said once of each receiver that is in the last cell view told, before the event that says so. The messages
    /// to one receiver arrive in the order in which they were accepted, so they are the last that were. What is not in doubt has been
    /// received.
    InDoubt {
        /// Whom they are for.
        to: Incarnation,
        /// How many: at least one.
        messages: u64,
    },
    /// This process is not in the group any more; nothing more of it will be delivered, unless it comes back.
    GroupLeft {
        /// The group.
        group: GroupId,
        /// [`LeaveReason::Left`]: it asked to. [`LeaveReason::Anew`]: it comes back by itself, as whoever joins, with the
        /// state. [`LeaveReason::Nonsense`]: the others could not read what it sent, and exclude it next.
        /// [`LeaveReason::Stopped`]: the group is over.
        why: LeaveReason,
    },
    /// No quorum of the view is heard: nothing is decided until it is. Not final.
    NonPrimary {
        /// Whom this process hears, itself included.
        heard: usize,
        /// How many it needs.
        needed: usize,
        /// Why it does not go on, for people.
        why: String,
    },
    /// A quorum is heard again.
    Primary,
    /// A decided view does not hold this process: this incarnation is over.
    Excluded {
        /// The first view without it.
        view: u64,
    },
    /// This incarnation renounced its cell instance, because the cell was founded again, or is to be, from here: see
    /// [`Process::reform`](crate::process::Process::reform). It is over. The next one keeps the state of its groups, as after an
    /// exclusion.
    Renounced {
        /// The generation of the later instance.
        generation: u16,
    },
    /// The reform that was asked for is not done. The incarnation goes on, unless the next event says otherwise.
    ReformRefused {
        /// Why, for people.
        why: String,
    },
    /// A living process is in another instance of this cell: the cell was founded twice, or again. Said once for each instance.
    OtherInstance {
        /// Its instance.
        instance: CellInstance,
        /// The instance of this process.
        own: CellInstance,
        /// Where it answers.
        at: SocketAddr,
    },
    /// The graceful leave is done: this incarnation is over.
    Left,
    /// The cell takes this process only when one of its settings is the same as there; it goes on looking. Said when that
    /// changes.
    Differs {
        /// The setting, as it is called in a configuration; or "level", of a build that is too old.
        setting: String,
        /// Its value in the cell, for people.
        cell: String,
        /// And in this process.
        own: String,
    },
    /// The cell stays at its level, though this process asked for a higher one: a member cannot follow. Ask again when it is
    /// gone or was started anew with a later build.
    LevelRefused {
        /// The level asked for.
        level: u16,
        /// Who cannot, and by what, for people.
        why: String,
    },
    /// Still no cell found; said now and then, with what came of the probes.
    Searching {
        /// Probes sent since the start.
        probes: u64,
        /// Why it may be, for people.
        why: String,
    },
    /// A group that this process asked to be in waits: nobody in the cell has its state, and members that have it are cut off.
    /// It goes on when one of these is back; it ends when all are proved dead, or were started again without the state, or
    /// by a command ([`crate::process::Process::give_up_group`]). Said when that changes.
    GroupOrphaned {
        /// The group.
        group: GroupId,
        /// Its name.
        name: Arc<str>,
        /// Whom it waits for.
        waits_for: Vec<(Incarnation, String)>,
    },
    /// A group that this process asked to be in is not there and cannot be made: the cell's numbers of groups or of their views are used
    /// up. It is not asked for any more. Groups that are there go on. A later instance of the cell begins to count again, once all
    /// members have left.
    GroupRefused {
        /// Its name.
        name: Arc<str>,
    },
    /// An earlier life of this process had the state of a group, and the group is over or went on without it: what the state held
    /// that the others do not have is lost to them. Nothing has to be thrown away: that is asked for with
    /// [`Event::StateBegin`], if this process takes the group's state.
    GroupForgotten {
        /// The group.
        group: GroupId,
        /// Its name.
        name: Arc<str>,
        /// The view that the earlier life was in last.
        view: u64,
        /// Its members, and how many messages of each, in that view, are in the state with which the group went on: what was
        /// delivered beyond is forgotten. `None`: not known, or the group is over.
        kept: Option<Vec<(Incarnation, u64)>>,
    },
    /// The group goes on with the state that this process has kept of it since an earlier life, see
    /// [`Process::take_kept`](crate::process::Process::take_kept). What else belongs to it follows as replayed deliveries, then the
    /// first view.
    StateKept {
        /// The group.
        group: GroupId,
        /// Its name.
        name: Arc<str>,
        /// The earlier life that was in it.
        was: Incarnation,
        /// The last view of the group that is part of the state with what follows.
        view: u64,
    },
    /// A donor's state begins: forget what this group's state was. Chunks and replayed deliveries follow.
    StateBegin {
        /// The group.
        group: GroupId,
        /// Its name.
        name: Arc<str>,
        /// Total bytes of the snapshot.
        bytes: u64,
    },
    /// The state is complete up to the group's first view here.
    StateEnd {
        /// The group.
        group: GroupId,
    },
}

/// Where the core's effects go. Bound at compile time; it cannot re-enter the core.
pub trait Effects {
    /// Hands a packet in clear, `head` and `frames` one after the other, to those of `to` that read this process's
    /// memory, and gives their count. What is sealed afterwards and passed to [`Self::transmit`] with the same `to` goes
    /// to the others alone.
    fn write_shared(&mut self, _lane: TrafficClass, _to: &[SocketAddr], _head: &[u8], _frames: &[u8]) -> usize {
        0
    }

    /// Sends `packet`, the same bytes, to each of `to` that [`Self::write_shared`] does not reach.
    fn transmit(&mut self, class: TrafficClass, to: &[SocketAddr], packet: &[u8]);

    /// Whether the system takes no more packets of [`TrafficClass::Data`] for now.
    fn is_congested(&mut self) -> bool {
        false
    }

    /// Whether the application takes a delivery or event now. While it does not, what is due is kept, bounded
    /// by the windows, and senders are held back.
    fn ready(&mut self) -> bool {
        true
    }

    /// A multicast went on its way: from here on it belongs to `view`, as number `seq` of this process's stream.
    fn sent(&mut self, _group: GroupId, _view: u64, _seq: u64, _order: Order, _uniform: bool, _payload: &[u8]) {}

    /// Whether this process can read packet `number` of a member's stream in a packet space. Only a simulation that plays a
    /// defect says no.
    fn can_read(&mut self, _sender: Incarnation, _space: Space, _number: PacketNumber) -> bool {
        true
    }

    /// A message for the application.
    fn deliver(&mut self, delivery: &Delivery<'_>);

    /// An event for the application.
    fn event(&mut self, event: Event);

    /// A point-to-point message from a member.
    fn message(&mut self, _from: Incarnation, _payload: &[u8]) {}

    /// A joiner of `group` needs this process's state as of now (between two deliveries). `None`: the group has
    /// no state. The reader may be drained over a long time, while deliveries go on.
    fn snapshot(&mut self, _group: GroupId) -> Option<Box<dyn Snapshot>> {
        None
    }

    /// What keeps a later process of this name from founding its cell a second time: it must be on disk, in the place of what was
    /// kept before, when this returns true. False: nothing is founded or joined with it.
    fn keep_record(&mut self, _record: &FounderRecord) -> bool {
        true
    }

    /// A piece of a donor's snapshot, in order.
    fn restore(&mut self, _group: GroupId, _chunk: &[u8]) {}
}

/// A state frozen at the moment it was taken.
pub trait Snapshot {
    /// Total bytes.
    fn len_bytes(&self) -> u64;
    /// Appends up to `max_bytes` from `offset` to `out`. Must give the same bytes whenever asked.
    fn read(&mut self, offset: u64, max_bytes: usize, out: &mut Vec<u8>);
}

/// Why a command was refused. Nothing changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CommandError {
    /// Not a member of that group (yet).
    #[error("not a member of that group")]
    NotMember,
    /// The outbox is full: the window is used up, or a view change is under way. Try again after a turn.
    #[error("no credit: the group's window is used up")]
    NoCredit,
    /// Longer than [`MESSAGE_BYTES_MAX`].
    #[error("message of {0} bytes is longer than 64 MiB")]
    TooLong(usize),
    /// A name is empty or longer than [`NAME_BYTES_MAX`](crate::NAME_BYTES_MAX).
    #[error("bad name: {}", crate::id::BadName)]
    BadName,
    /// This incarnation is over (excluded or left).
    #[error("this incarnation is over")]
    Over,
    /// The level asked for is not known to this build, or a member cannot follow.
    #[error("the cell cannot rise to level {level}: {why}")]
    LevelRefused {
        /// The level asked for.
        level: u16,
        /// Who cannot, and by what.
        why: String,
    },
    /// No group of that name waits for members that are cut off.
    #[error("no group of that name waits for members that are cut off")]
    NotOrphan,
    /// Not in a view yet.
    #[error("not in a view yet")]
    NoView,
    /// Fewer than half of the founders look for the cell, or just half.
    #[error("{here} of {names} founders look for the cell, and more than half must")]
    TooFewFounders {
        /// How many do, as far as this process hears.
        here: usize,
        /// How many there are.
        names: usize,
    },
    /// A quorum of the cell is heard: there is nothing to reform.
    #[error("this process is in the primary partition of its cell: there is nothing to reform")]
    InPrimary,
    /// No founder that looks for its cell.
    #[error("this process is no founder that looks for its cell")]
    NotSearching,
    /// No such process in the view.
    #[error("no such process in the view")]
    NoSuchProcess,
    /// Already asked for.
    #[error("already a member of, or joining, that group")]
    AlreadyMember,
    /// The process was started before a fork, and this is the child: in the parent it goes on. Start one in the child. Told by
    /// whoever runs a [`Process`](crate::process::Process), which knows nothing of forks itself.
    #[error("this handle belongs to the parent process: start one of its own in the forked child")]
    Forked,
}
