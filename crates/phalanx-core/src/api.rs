//! The vocabulary of the core: settings, commands, effects, events and errors.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::id::{CellInstance, GroupId, InboxId, Incarnation, MemberInfo, Sequence, TrafficClass, ViewNumber};
use crate::member::{FounderRecord, Inheritance};
use crate::wire::{PacketNumber, Space};

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

/// Periods and timeouts of a process. The defaults suit a network with round trips of a few milliseconds.
#[derive(Clone, Debug)]
pub struct Timing {
    /// Interval between heartbeats to each watcher. Default 100 ms.
    pub heartbeat: Duration,
    /// Silence after which a link is suspected; jitter is added. A shorter time finds silent members sooner, and
    /// mistakes more pauses for failures. A process that dies on this host is reported by its operating system, without
    /// this wait. Default 3 s.
    pub suspect_after: Duration,
    /// How long a coordinator waits for one step of a view change. Default 150 ms.
    pub ballot_step: Duration,
    /// Interval between probes of a process that looks for its cell. Default 100 ms.
    pub probe: Duration,
    /// The longest delay of an acknowledgement. Default 2 ms.
    pub ack_delay: Duration,
    /// Time without any progress after which a member that holds another's stream back is too slow, if
    /// [`Limits::slow_members`] lets such members leave. At least `suspect_after` is used. A shorter time frees the
    /// others sooner, and removes members that only paused. Default 10 s.
    pub expel_after: Duration,
    /// The longest gap between two polls of this process in normal operation, at most [`crate::TURN_GAP_MAX`]. A longer
    /// gap lets an application poll rarely; a view change then waits for its next poll, and its death is found later by
    /// the gap.
    ///
    /// The others tolerate its silence for so much longer, and it counts no poll within the gap as late. Up to 50 ms,
    /// or zero, adds nothing, because every process is granted 50 ms. Each process has its own value and advertises it
    /// when it joins. Default 50 ms.
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

/// Bounds on memory and on the number of members.
#[derive(Clone, Debug)]
pub struct Limits {
    /// The most bytes that all streams of one group may hold until they are stable; split over its senders. Agreed: a
    /// joiner with another value is refused. Default 8 MiB.
    pub group_window_bytes: usize,
    /// The window of a channel, in bytes. Default 1 MiB.
    pub channel_window_bytes: usize,
    /// The most bytes accepted for sending that no packet holds yet, for each group. One message may exceed it. Default
    /// 1 MiB.
    pub outbox_bytes: usize,
    /// The most processes in a cell. Default 1,024.
    pub members: usize,
    /// Up to this many members, every member watches every other. In a larger cell each has about this many watchers,
    /// so that its heartbeats cost the same at any size of the cell. Agreed: a joiner takes the cell's value. Default
    /// 16.
    pub watchers: usize,
    /// Abcasts after which a group's token holder checks which member sends most, and may pass the token to it. A
    /// smaller number lets the token follow its senders sooner, and costs more passes. Members may differ. Default
    /// 1,024.
    pub token_tally: u64,
    /// What happens to a member that is alive and falls behind. Agreed: a joiner takes the cell's value. Default: it
    /// leaves.
    pub slow_members: SlowMembers,
    /// The least members of an adequate cell view. In a smaller view no uniform message is sent; view changes continue.
    /// A larger number keeps a few survivors from answering for all. If more are needed than can come back, nothing
    /// uniform is sent any more. Agreed from level 2 on: a joiner takes the cell's value. Default 1.
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

/// What happens to a member that is alive and falls behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SlowMembers {
    /// Senders are held back until it catches up.
    Wait,
    /// After [`Timing::expel_after`], a view without it is decided. It comes back as a new incarnation.
    #[default]
    Expel,
}

/// The longest message, in bytes: 64 MiB.
pub const MESSAGE_BYTES_MAX: usize = 64 << 20;
/// The most seed addresses that a process keeps, configured and learned.
pub const SEEDS_MAX: usize = 4096;

/// The order that a multicast requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Order {
    /// In the order of its sender (fbcast).
    Fifo,
    /// After all messages that it may depend on (cbcast; Birman, Schiper and Stephenson 1991, section 5).
    Causal,
    /// In the same order at all members, which extends the causal one (abcast).
    Total,
}

/// Whether a multicast is uniform: delivered only when every member has received it. So if one member delivers it,
/// every survivor does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stability {
    /// As the group was founded; see [`GroupTerms::uniformity`].
    #[default]
    GroupDefault,
    /// Delivered as soon as its order allows. A member that delivers it may die, and then no other may ever see it.
    Plain,
    /// Delivered only when every member has received it.
    Uniform,
}

impl Stability {
    /// What the multicast is in a group with this default.
    #[inline]
    #[must_use]
    pub const fn or(self, default: Uniformity) -> Uniformity {
        match self {
            Self::GroupDefault => default,
            Self::Plain => Uniformity::Plain,
            Self::Uniform => Uniformity::Uniform,
        }
    }
}

impl From<Uniformity> for Stability {
    fn from(uniformity: Uniformity) -> Self {
        match uniformity {
            Uniformity::Plain => Self::Plain,
            Uniformity::Uniform => Self::Uniform,
        }
    }
}

/// Whether a message is uniform. A multicast requests it as a [`Stability`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Uniformity {
    /// It is delivered as soon as its order allows.
    Plain,
    /// It is delivered only when every member has received it.
    Uniform,
}

impl Uniformity {
    /// The uniformity that a flag of a frame, a record or a configuration states: [`Self::Uniform`] if it is set.
    #[inline]
    #[must_use]
    pub const fn from_flag(is_set: bool) -> Self {
        if is_set { Self::Uniform } else { Self::Plain }
    }

    /// Whether it is [`Self::Uniform`]. This is the flag that [`Self::from_flag`] reads.
    #[inline]
    #[must_use]
    pub const fn is_uniform(self) -> bool {
        matches!(self, Self::Uniform)
    }
}

/// Terms of a group, agreed when it is made: those that rank 0 of its first view requested. Later joiners take the
/// group's terms, whatever they requested; see [`GroupView::terms`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupTerms {
    /// What a multicast with [`Stability::GroupDefault`] is. Default [`Uniformity::Uniform`].
    pub uniformity: Uniformity,
    /// The least members with the group's state in an adequate view of it. In another view no uniform message is sent.
    /// Members that still take the state do not count. In force from level 2 of the cell on. 0 means 1. Default 1.
    pub members_min: u16,
    /// What happens to the group when no member in the primary partition has its state, and members that have it are
    /// cut off. False: its name waits for them ([`Event::GroupOrphaned`]). True: it ends, and may be made again without
    /// its state. In force from level 3 of the cell on. Default false.
    pub ends_alone: bool,
}

impl Default for GroupTerms {
    fn default() -> Self {
        Self { uniformity: Uniformity::Uniform, members_min: 1, ends_alone: false }
    }
}

/// A message for the application, borrowed for the length of the call.
#[derive(Clone, Copy, Debug)]
pub struct Delivery<'a> {
    /// The group it was sent to.
    pub group: GroupId,
    /// The group view in which it was sent and is delivered.
    pub view: ViewNumber,
    /// Its sender.
    pub sender: Incarnation,
    /// Its number among its sender's messages in this group view, from 1.
    pub seq: Sequence,
    /// The order that its sender requested.
    pub order: Order,
    /// Whether it was delivered only when every member had received it, or as soon as its order allowed.
    pub uniformity: Uniformity,
    /// For [`Order::Total`]: its position in the group's total order, from 1 in each group view.
    pub position: Option<u64>,
    /// Whether it is part of a state transfer: it belongs to views before this process's first.
    pub replayed: bool,
    /// The payload.
    pub payload: &'a [u8],
}

/// Why a process is no longer in a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum LeaveReason {
    /// It requested to leave.
    Left,
    /// Its operating system proved it dead.
    Died,
    /// It was silent, or did not answer.
    Unreachable,
    /// It held others back for too long; see [`SlowMembers::Expel`].
    TooSlow,
    /// Most members of a group could not make sense of what it sent.
    Nonsense,
    /// Of a group: it could not make sense of what a member sent, or it delivered what most could not make sense of. It
    /// comes back and takes the state of those that stay.
    Anew,
    /// Of a group: as many members could make sense of a packet as could not. Nobody can decide who is at fault, so the
    /// group is over, and its state with it.
    Stopped,
    /// It was heard, and a path to it failed: its data socket did not answer, or long packets did not arrive.
    NoProgress,
}

impl LeaveReason {
    /// Whether a member that leaves a group for this reason lives and did not request it. Such a member neither keeps
    /// the group's state nor delivers to the cut.
    #[must_use]
    pub fn is_loss(self) -> bool {
        match self {
            Self::Nonsense | Self::Anew | Self::Stopped => true,
            Self::Left | Self::Died | Self::Unreachable | Self::TooSlow | Self::NoProgress => false,
        }
    }
}

/// The decided processes of a cell.
#[derive(Clone, Debug)]
pub struct CellView {
    /// The cell instance, drawn when the cell was founded. The upper 16 bits are its generation, the rest is random. Of
    /// two instances of a cell, the later has the larger number.
    pub instance: CellInstance,
    /// Earlier instances whose groups this one continues, latest first. Empty unless the cell was reformed.
    pub ancestors: Vec<CellInstance>,
    /// The view's number, from 1. It grows by one with each change of the members or of the level.
    pub view: ViewNumber,
    /// The level in force: which features members may use with each other (`docs/levels.md`).
    pub level: u16,
    /// Members in rank order.
    pub members: Vec<MemberInfo>,
    /// Incarnations that entered with this view.
    pub joined: Vec<Incarnation>,
    /// Incarnations that left with this view, and why.
    pub left: Vec<(Incarnation, LeaveReason)>,
    /// Incarnations that left although members heard them. Beside each: the members that stayed and to which a path
    /// failed, at most eight. It is taken in again when these hear it.
    pub apart: Vec<(Incarnation, Vec<Incarnation>)>,
    /// The least members of an adequate view; see [`Limits::members_min`].
    pub members_min: usize,
}

impl CellView {
    /// Whether the view has as many members as the cell agreed on. In another view no uniform message is sent, and
    /// services that answer for the cell do not.
    #[must_use]
    pub fn is_adequate(&self) -> bool {
        self.members.len() >= self.members_min
    }
}

/// Membership of an incarnation in its cell, as its process believes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Membership {
    /// It looks for its cell; it knows of no view that holds it.
    Searching,
    /// It is in a view and hears a quorum of it.
    Primary,
    /// It is in a view and hears no quorum of it. The others may have continued without it.
    NonPrimary,
    /// A decided view does not hold it. This incarnation is over.
    Excluded,
    /// It left, or a decided view leaves it out because it requested that.
    Over,
}

/// The decided members of a group.
#[derive(Clone, Debug)]
pub struct GroupView {
    /// The group.
    pub group: GroupId,
    /// Its name.
    pub name: Arc<str>,
    /// The view's number, from 1. When another instance of the cell takes the group over, it skips 2^32 numbers.
    pub view: ViewNumber,
    /// The view of the group in which this process was before, if any.
    pub prev: Option<ViewNumber>,
    /// Members in rank order.
    pub members: Vec<Incarnation>,
    /// Incarnations that entered with this view.
    pub joined: Vec<Incarnation>,
    /// Incarnations that left with this view, and why.
    pub left: Vec<(Incarnation, LeaveReason)>,
    /// Members that do not have the group's state yet, the same list at all members. Those that entered with this view
    /// take it from the others. Earlier ones are listed if they reported, when the view was decided, that their state
    /// is incomplete; they may have it by the time of this event. Empty if the group is new, or continues from a kept
    /// state. Below level 3 of the cell it has only those that entered.
    pub incomplete: Vec<Incarnation>,
    /// The terms that were agreed when the group was made.
    pub terms: GroupTerms,
    /// Whether enough members are known here to have the group's state, according to its terms.
    /// [`Event::GroupAdequacy`] reports changes within the view; [`CellView::is_adequate`] reports on the cell's own
    /// minimum.
    pub adequate: bool,
}

/// What the core reports to the application, in order with the deliveries.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// A cell view was installed.
    CellView(Arc<CellView>),
    /// A group view was installed.
    GroupView(Arc<GroupView>),
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
    /// No quorum of the view is heard, so that nothing is decided. Not final.
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
    /// A donor's state begins: discard the group's earlier state. Chunks and replayed deliveries follow.
    StateBegin {
        /// The group.
        group: GroupId,
        /// Its name.
        name: Arc<str>,
        /// Length of the snapshot, in bytes.
        bytes: u64,
    },
    /// The state is complete up to the group's first view here.
    StateEnd {
        /// The group.
        group: GroupId,
    },
}

/// Sink of the core's effects. It is bound at compile time, so that the packet path makes no dynamic call, and cannot
/// re-enter the core.
pub trait Effects {
    /// Writes a packet in clear, `head` followed by `frames`, to shared memory for those of `to` that read it, and
    /// returns their number. The sealed packet that is passed to [`Self::transmit`] with the same `to` goes only to the
    /// others.
    fn write_shared(&mut self, _lane: TrafficClass, _to: &[SocketAddr], _head: &[u8], _frames: &[u8]) -> usize {
        0
    }

    /// Sends `packet` to each of `to` that [`Self::write_shared`] does not reach. All get the same bytes.
    fn transmit(&mut self, class: TrafficClass, to: &[SocketAddr], packet: &[u8]);

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

    /// Notes that a multicast is sent: from now on it belongs to `view`, as number `seq` of this process's stream.
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
    /// The message is longer than [`MESSAGE_BYTES_MAX`].
    #[error("message of {0} bytes is longer than 64 MiB")]
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
