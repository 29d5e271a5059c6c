//! The simulated faults, their targets and their times. A new simulated fault is a variant of [`Kind`].

use phalanx_core::wire;

use crate::weather::{Toll, Weather};

/// The activity during which an aimed fault strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Busy {
    /// A view change: a process has promised or coordinates a ballot.
    Flush,
    /// The first half of a view change: a coordinator gathers reports.
    Gathering,
    /// The second half of a view change: a coordinator proposes.
    Proposal,
    /// A process looks for, or is joining, the cell.
    Join,
    /// A process takes or gives a group's state.
    Transfer,
    /// A founder has proposed a list.
    Founding,
    /// A member keeps joiners waiting.
    Welcome,
    /// A process is in a view of a group whose state it is still taking.
    Incomplete,
    /// The core withholds outcomes, and its application does not know yet why: the view that has too few waits for it.
    Ahead,
    /// So many tenths of a group's snapshot are at the process that takes it, and the next one is not.
    Tenth(u8),
}

/// The target of a fault. Roles are resolved at the moment the fault strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The coordinator of the current view change; otherwise rank 0.
    Coordinator,
    /// A process that is joining or receiving state; otherwise the youngest.
    Joiner,
    /// A running process that is neither of the two.
    Bystander,
    /// A process that gives a state; otherwise none.
    Donor,
    /// The founder that has proposed a list; otherwise none.
    Leader,
    /// A process whose core withholds outcomes, as [`Busy::Ahead`] says; otherwise none.
    Ahead,
    /// The process that gives a snapshot of which so many tenths have come; otherwise none.
    DonorAt(u8),
    /// The process that takes it; otherwise none.
    TakerAt(u8),
    /// A running process that is neither of the two; none if there is no such snapshot.
    BesideAt(u8),
    /// The process of this slot.
    Slot(usize),
}

/// When a fault strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aim {
    /// At this time, in nanoseconds from the start.
    At(u64),
    /// After the first moment from `from_ns` on at which a process is `busy`.
    Inside {
        /// The activity.
        busy: Busy,
        /// Time from which the fault is armed.
        from_ns: u64,
        /// Delay after the activity was seen.
        after_ns: u64,
    },
}

/// Which directed links a cut affects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// From the first to the second only.
    OneWay(Role, Role),
    /// Both ways between two processes. With a third process, "hears" is no longer transitive.
    Pair(Role, Role),
    /// Everything to and from one process.
    Isolate(Role),
    /// Everything to one process: it hears no other, and all hear it.
    Deaf(Role),
    /// Everything from one process: no other hears it.
    Mute(Role),
    /// Between the slots whose bit is set and the others.
    Halves(u64),
    /// Between processes whose slots are not neighbours on a ring: majorities overlap, and none is fully connected.
    Ring,
    /// Every link, as when a switch restarts.
    Blackout,
}

/// Which links a change of weather affects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// All links.
    Everywhere,
    /// All links to and from one process.
    Around(Role),
    /// All links to one process.
    Towards(Role),
    /// All links from one process.
    From(Role),
}

/// The messages that only a few processes hold which then crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holding {
    /// Uniform messages.
    Own,
    /// Plain messages on which another process's uniform messages depend; the uniform ones reach all.
    Past,
    /// Plain messages before the sender's own uniform ones; the uniform ones reach all.
    OwnPast,
    /// The announced order of uniform abcasts that all have.
    Orders,
    /// The same, while another of the few sends a burst of abcasts that would bring it the token; its announcements
    /// reach all.
    EarlierOrders,
    /// One plain message on which another process's uniform messages depend. It is the first packet that is lost after
    /// many that were not.
    FirstOfPast,
    /// Only a token pass. All that was ordered before it reaches all, and so do the announcements of the next holder.
    Pass,
}

impl Holding {
    /// Its name in the counters.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Own => "own",
            Self::Past => "past",
            Self::OwnPast => "own past",
            Self::Orders => "orders",
            Self::EarlierOrders => "earlier orders",
            Self::FirstOfPast => "first of the past",
            Self::Pass => "pass",
        }
    }
}

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// The weather of some links becomes `weather`.
    Storm {
        /// Its name in the counters: the property of the weather that became worse.
        what: &'static str,
        /// Which links.
        reach: Reach,
        /// Their new weather.
        weather: Weather,
    },
    /// Links are cut.
    Cut(Shape),
    /// Links are cut and mended again and again, every `period_ns`.
    Flap {
        /// Which links.
        shape: Shape,
        /// Half a cycle.
        period_ns: u64,
    },
    /// Two coordinators make different proposals, and no process learns the outcome of either. From its gathering on,
    /// no process hears the first coordinator, so it alone accepts its proposal. When another one proposes, that one
    /// hears only the first. So others accept and it does not know, and the first is heard again.
    Rivals,
    /// Packets longer than `bytes` are lost at one process.
    Mtu {
        /// Target of the fault.
        role: Role,
        /// The longest packet that passes.
        bytes: usize,
    },
    /// A process's socket buffers shrink.
    Buffer {
        /// Target of the fault.
        role: Role,
        /// Capacity of each of its sockets in bytes.
        bytes: usize,
    },
    /// A process crashes.
    Crash {
        /// Target of the fault.
        role: Role,
        /// Time until a restart as a new incarnation. `None`: it stays dead until the heal phase decides.
        back_ns: Option<u64>,
        /// Whether it comes back at a new address.
        moved: bool,
    },
    /// A process crashes in the middle of its sends: it still sends this many packets, to one receiver after the other.
    CrashSending {
        /// Target of the fault.
        role: Role,
        /// Packets it still sends.
        packets: u32,
        /// Time until a restart. `None`: it stays dead.
        back_ns: Option<u64>,
    },
    /// The thread that runs a process ends, and its application goes on for a moment.
    EndThread {
        /// Target of the fault.
        role: Role,
        /// Whether it panics in the application's code, with the next message within the fault's duration.
        panics: bool,
        /// Time until a restart. `None`: it stays dead.
        back_ns: Option<u64>,
    },
    /// A process is stopped. Its input queues up to the socket buffer, and its clock runs on.
    Pause(Role),
    /// Every event-loop iteration of a process takes this long.
    Slow {
        /// Target of the fault.
        role: Role,
        /// Duration of one iteration, in nanoseconds.
        turn_ns: u64,
    },
    /// A process's application takes no deliveries.
    SlowReader(Role),
    /// A process's application takes nothing from one of its groups' inboxes.
    UnreadInbox {
        /// Target of the fault.
        role: Role,
        /// Index of the inbox among those of its groups, counted round.
        which: usize,
    },
    /// A process's application takes nothing from one of its groups' inboxes, and the other members leave that group for a
    /// while.
    Desert {
        /// The process that stays.
        role: Role,
        /// Index of the group among those of its groups that have an inbox of their own, counted round.
        which: usize,
    },
    /// A process leaves the cell gracefully, and comes back after a while or not at all.
    Leave {
        /// Target of the fault.
        role: Role,
        /// Time until it comes back. `None`: it does not.
        back_ns: Option<u64>,
    },
    /// A process's clock jumps ahead.
    ClockJump {
        /// Target of the fault.
        role: Role,
        /// Size of the jump.
        by_ns: u64,
    },
    /// A process's clock runs fast or slow, by this many parts in a million.
    Drift {
        /// Target of the fault.
        role: Role,
        /// Parts in a million; negative: slow.
        ppm: i32,
    },
    /// Something on the path delays or drops the packets of one kind.
    ByKind {
        /// Affected links.
        reach: Reach,
        /// Kind of the affected packets; it is visible in their clear headers.
        kind: wire::Kind,
        /// Effect on them.
        toll: Toll,
    },
    /// A process is overtaken in the memory it reads. At this many records in a million it loses all it has not read.
    Lapped {
        /// Target of the fault.
        role: Role,
        /// Per million records.
        ppm: u32,
    },
    /// Records that a process writes to memory become visible late: packets that it sends elsewhere overtake them.
    LateMemory {
        /// Target of the fault.
        role: Role,
        /// The longest delay.
        lag_ns: u64,
    },
    /// The multicasts of one process reach only a few others while the fault lasts. Then exactly these few crash, and
    /// the sender with them.
    Holders {
        /// The sender. If orders are held, it is the oldest member of its group, or the token holder.
        role: Role,
        /// Bound on the number of others that have them.
        others: usize,
        /// The messages that they hold.
        what: Holding,
        /// Time until a restart. `None`: they stay dead.
        back_ns: Option<u64>,
    },
    /// A process is cut off until a view excludes it. From then on, no process but the excluded one hears the first
    /// process that knows the view, which crashes when the fault ends.
    LostView {
        /// The process that is cut off.
        role: Role,
        /// Time until a restart of the process that knew the view. `None`: it stays dead.
        back_ns: Option<u64>,
    },
    /// The stream of a process makes no sense to some of its readers from one of its next packets on.
    Nonsense {
        /// Target of the fault.
        role: Role,
        /// Number of affected group members.
        readers: Readers,
        /// Index of the packet among its next ones, from 1.
        ahead: u64,
    },
    /// A process detaches from the memory of all others, and attaches again.
    Detach(Role),
    /// A process leaves one of its groups and joins it again.
    Regroup(Role),
    /// All members of the minority group are cut off from the others, or stopped.
    Strand {
        /// Whether they are stopped.
        stops: bool,
    },
    /// A process that is not in the minority group joins it.
    FoundAgain,
    /// A process joins the minority group too, with its state.
    Follow(Role),
    /// The state directory of a founder is emptied.
    Empty(Role),
    /// All processes crash at once, and are started again after this long.
    Perish {
        /// Time until the restart, in nanoseconds.
        back_ns: u64,
    },
    /// A quorum of the members crashes at once. They are restarted once a survivor has reformed the cell.
    Behead,
    /// All processes leave, one after the other or at once. They are restarted when all are gone.
    Disband,
    /// All processes leave in the same instant: at once, or the last few when the others are gone.
    LeaveTogether {
        /// Number of processes that leave last.
        last: usize,
    },
    /// The state directory of a process takes nothing.
    FullDisk(Role),
    /// All members ask for the later build's level.
    Raise,
    /// The next message that one process sends to another alone makes no sense there.
    UnreadPeer {
        /// The sender.
        of: Role,
        /// The reader.
        by: Role,
    },
    /// The quorum dies while two members are apart, and one of them founds the next instance (`estranged.rs`).
    Estrange,
    /// A process asks for a group that does not exist.
    AskNew(Role),
    /// A process dies and is never started again. The operating system reports it where the plan says so.
    Kill(Role),
    /// All processes outside of the minority group leave, one after the other or at once. They are restarted when all
    /// of them are gone.
    StopMajority,
    /// An attacker replays this many old sealed packets per second.
    Replay(u64),
    /// An attacker sends this many noise packets per second to the sockets.
    Noise(u64),
    /// An attacker sends this many forged packets per second: with true or invented headers, and bodies that it cannot
    /// seal.
    Forge(u64),
}

impl Kind {
    /// Its name in the counters.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Storm { what, .. } => what,
            Self::Cut(shape) => match shape {
                Shape::OneWay(..) => "cut_one_way",
                Shape::Pair(..) => "cut_pair",
                Shape::Isolate(_) => "isolate",
                Shape::Deaf(_) => "deaf",
                Shape::Mute(_) => "mute",
                Shape::Halves(_) => "partition",
                Shape::Ring => "ring",
                Shape::Blackout => "blackout",
            },
            Self::Flap { .. } => "flap",
            Self::Rivals => "rivals",
            Self::Mtu { .. } => "mtu_hole",
            Self::Buffer { .. } => "small_buffer",
            Self::Crash { .. } => "crash",
            Self::CrashSending { .. } => "crash_sending",
            Self::EndThread { panics: false, .. } => "end_thread",
            Self::EndThread { panics: true, .. } => "panic",
            Self::Pause(_) => "pause",
            Self::Slow { .. } => "slow",
            Self::SlowReader(_) => "slow_reader",
            Self::UnreadInbox { .. } => "unread_inbox",
            Self::Desert { .. } => "desert",
            Self::Leave { .. } => "leave",
            Self::ClockJump { .. } => "clock_jump",
            Self::Drift { .. } => "drift",
            Self::ByKind { .. } => "by_kind",
            Self::Lapped { .. } => "lapped",
            Self::LateMemory { .. } => "late_memory",
            Self::Holders { .. } => "holders",
            Self::LostView { .. } => "lost_view",
            Self::Nonsense { .. } => "nonsense",
            Self::Detach(_) => "detach",
            Self::Regroup(_) => "regroup",
            Self::Strand { stops: false } => "strand",
            Self::Strand { stops: true } => "strand_stopped",
            Self::FoundAgain => "found_again",
            Self::Follow(_) => "follow",
            Self::Empty(_) => "emptied",
            Self::Perish { .. } => "perish",
            Self::Behead => "behead",
            Self::Disband => "disband",
            Self::LeaveTogether { .. } => "leave_together",
            Self::FullDisk(_) => "full_disk",
            Self::Raise => "raise",
            Self::UnreadPeer { .. } => "unread_peer",
            Self::Estrange => "estrange",
            Self::AskNew(_) => "ask_new",
            Self::Kill(_) => "kill",
            Self::StopMajority => "stop_majority",
            Self::Replay(_) => "replay",
            Self::Noise(_) => "noise",
            Self::Forge(_) => "forge",
        }
    }
}

/// Number of members of a group that cannot read a member's packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readers {
    /// One, in a group of at least three.
    One,
    /// Nearly half.
    Fewer,
    /// Half.
    Half,
    /// More than half.
    More,
}

/// A fault of a plan.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fault {
    /// Its time.
    pub aim: Aim,
    /// Its kind.
    pub kind: Kind,
    /// Its duration in nanoseconds; kinds without a duration ignore it.
    pub lasts_ns: u64,
}
